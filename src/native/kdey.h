// The C ABI of kdey's native core. Every function returns 0 on success and a negative
// kdey_status otherwise, unless it says something else; no exception crosses this boundary. The
// only state is that of packed references, which nothing changes between making and freeing them:
// any number of threads may use them at once. Programs in C may include this file too.
#pragma once
#include <stdint.h>

#if defined(__cplusplus)
#define KDEY_C extern "C"
#else
#define KDEY_C extern
#endif
#if defined(_WIN32)
#define KDEY_API KDEY_C __declspec(dllexport)
#else
#define KDEY_API KDEY_C __attribute__((visibility("default")))
#endif

enum kdey_status {
  KDEY_OK = 0,
  KDEY_OUT_OF_MEMORY = -1,
  KDEY_BAD_ARGUMENT = -2,
  KDEY_INTERNAL = -3,
  KDEY_UNANSWERED = 1,  // not a failure: the caller has to ask in a more careful way
};

// Raised when a signature below changes; kdey/native.py refuses another number.
#define KDEY_ABI_VERSION 2
KDEY_API int32_t kdey_abi_version(void);
// Instruction set picked for this machine: 0 baseline, 1 avx2, 2 avx512.
KDEY_API int32_t kdey_isa(void);

// Class-wise Gaussian kernel log-sums,
//   out[h][j][i] = log sum_{r in class i} w_r exp(-|x_j - y_r|^2 / (2 h^2)),  shape (H, m, k).
// queries (m, dim) and references (n, dim) are float32, or float64 where the flag beside them is
// not 0; class i owns references[offsets[i]..offsets[i + 1]). weights (n) and exclude (m: one
// reference left out per query, -1 for none) may be null. double_mode 0 gives the mixed precision
// of kernel.hpp. block_size (references per block, 0: default) and skip (0: no block is skipped)
// are for tests and benchmarks. The result does not depend on n_threads.
KDEY_API int32_t kdey_class_log_sums(const void* queries, const void* references,
                                     int64_t queries_double, int64_t references_double, int64_t m,
                                     int64_t n, int64_t dim, const int64_t* offsets, int64_t k,
                                     const double* bandwidths, int64_t n_bandwidths,
                                     const double* weights, const int64_t* exclude,
                                     int64_t double_mode, int64_t n_threads, int64_t block_size,
                                     int64_t skip, double* out);

// References ordered and packed once, for many calls. The points must stay where they are, and as
// they are, until the packed form is freed; offsets and weights are copied. The layout is that of
// the instruction set in use when they are packed, and later calls use the same one. Memory: four
// bytes per coordinate and 16 or 28 per reference, beside tables of a few per cent of that.
typedef struct kdey_references kdey_references;
KDEY_API int32_t kdey_pack_references(const void* references, int64_t references_double, int64_t n,
                                      int64_t dim, const int64_t* offsets, int64_t k,
                                      const double* weights, int64_t double_mode, int64_t n_threads,
                                      int64_t block_size, kdey_references** out);
KDEY_API void kdey_free_references(kdey_references* packed);        // NULL: nothing to do
KDEY_API int64_t kdey_packed_bytes(const kdey_references* packed);  // memory in bytes
// The sums of kdey_class_log_sums, to the last bit.
KDEY_API int32_t kdey_packed_log_sums(const kdey_references* packed, const void* queries,
                                      int64_t queries_double, int64_t m, const double* bandwidths,
                                      int64_t n_bandwidths, const int64_t* exclude,
                                      int64_t n_threads, int64_t skip, double* out);

// Minimises x'Qx/2 - c.x for n programs over x >= 0 (simplex = 0) or the simplex (simplex = 1).
// grams: (k, k) with gram_stride 0, or n of them with gram_stride k * k. start: (n, k) or NULL.
// passes: proximal passes (quadratic.hpp). out_x: (n, k); out_steps: (n,).
KDEY_API int32_t kdey_solve_programs(const double* grams, int64_t gram_stride, const double* linear,
                                     const double* start, int64_t n, int64_t k, int64_t simplex,
                                     int64_t passes, int64_t n_threads, double* out_x,
                                     int64_t* out_steps);

// Minimises |M x - q|^2 / 2 over the simplex for n bags. templates: M, (r, k); gram: M'M, (k, k);
// targets: (n, r); start: (n, k) or NULL. Out, beside x (n, k), scaled to a sum of one: the
// objective, the Frank-Wolfe gap that bounds its distance from the minimum, and the steps, each
// (n,).
KDEY_API int32_t kdey_solve_least_squares(const double* templates, const double* gram,
                                          const double* targets, const double* start, int64_t n,
                                          int64_t r, int64_t k, int64_t passes, int64_t n_threads,
                                          double* out_x, double* out_objective, double* out_gap,
                                          int64_t* out_steps);

// One bag of posteriors (m, k), float32 or float64, by its mean row: the mean posterior or, with
// `decide`, the shares of the most probable classes. templates NULL: out (k) is that mean.
// Otherwise out is the minimiser of kdey_solve_least_squares for templates (k, k) and their gram.
// KDEY_UNANSWERED if a row has a negative entry or a sum that is sum_tolerance or more from one, or
// if the gap is larger than gap_tolerance times l (l + |mean|), for the longest template l.
KDEY_API int32_t kdey_match_one_bag(const void* posteriors, int64_t is_double, int64_t m, int64_t k,
                                    int64_t decide, const double* templates, const double* gram,
                                    int64_t passes, double sum_tolerance, double gap_tolerance,
                                    double* out);

// Minimises -sum_j w_j log(D_j . x) / sum_j w_j over the simplex for every bag. rows: (pool, k),
// each with a largest entry of one, or all zero (left out); log_scales: (pool,) what was taken
// out. Bag b owns indices[offsets[b] .. offsets[b + 1]); weights alike, or NULL. start: (n, k)
// or NULL.
KDEY_API int32_t kdey_solve_mixture(const double* rows, const double* log_scales, int64_t pool,
                                    int64_t k, const int64_t* indices, const int64_t* offsets,
                                    const double* weights, int64_t n_bags, const double* start,
                                    double tol, int64_t max_iter, int64_t n_threads, double* out_x,
                                    double* out_objective, double* out_gap, int64_t* out_n_iter);

// Minimises sum_t phi(M_t . x, q_t) / r_t over the simplex for every bag; loss: the code of a
// kdey.matching.divergence.Generator. templates: (t, k); targets: (n, t); reference: (t,);
// start: (n, k) or NULL.
KDEY_API int32_t kdey_solve_divergence(int64_t loss, const double* templates, const double* targets,
                                       const double* reference, int64_t n_bags, int64_t t,
                                       int64_t k, const double* start, double tol, int64_t max_iter,
                                       int64_t n_threads, double* out_x, double* out_objective,
                                       double* out_gap, int64_t* out_n_iter);

// What a check of posteriors (m, k), float32 or float64, needs to know: out[0] is the lowest entry,
// or zero if none is negative; out[1] is the largest distance of a row's sum from one, infinite if
// a sum is not finite.
KDEY_API int32_t kdey_check_posteriors(const void* posteriors, int64_t is_double, int64_t m,
                                       int64_t k, double* out);

// The (weighted) mean of rows (pool, r) over each bag, (n_bags, r). Bags as for kdey_solve_mixture,
// of positive total weight. What a bag gets does not depend on the others.
KDEY_API int32_t kdey_bag_means(const double* rows, int64_t pool, int64_t r, const int64_t* indices,
                                const int64_t* offsets, const double* weights, int64_t n_bags,
                                double* out);

// The (weighted) mean kernel of each bag at each point, divided by exp(log_scale) of the point,
//   out[b][i] = sum_j w_j exp(-|x_i - u_j|^2 / (2 h^2) - log_scale_i) / sum_j w_j,  shape (n, t),
// in float64. points: x, (t, dim); log_scale: (t,); coordinates: u, (pool, dim). Bags as for
// kdey_solve_mixture, of positive total weight. Logs of kernels below log_floor, between -707 and
// 0, are raised to it. The result does not depend on n_threads.
KDEY_API int32_t kdey_kernel_means(const double* points, const double* log_scale, int64_t t,
                                   const double* coordinates, int64_t pool, int64_t dim,
                                   const int64_t* indices, const int64_t* offsets,
                                   const double* weights, int64_t n_bags, double bandwidth,
                                   double log_floor, int64_t n_threads, double* out);

// Rows for kdey_solve_mixture: each row of `rows` (pool, k), or of their exponentials where logs is
// not 0, divided by its largest entry; the log of that divisor; and whether the row is all zero.
// An entry that is negative or not finite (logs: NaN or +inf) is a bad argument.
KDEY_API int32_t kdey_scale_rows(const double* rows, int64_t pool, int64_t k, int64_t logs,
                                 double* out_rows, double* out_log_scales, uint8_t* out_empty);

// Gibbs sweeps of the prevalence given rows (m, k) of class densities, each row on any scale with
// a positive entry; weights (m), each at most 1e9, or NULL; prior (k): a Dirichlet's parameters,
// positive and finite. current (n_chains, k): where each chain stands; states (n_chains, 4): its
// generator, not all zero; both are moved on. Out, (n_chains, n_sweeps, k): the prevalence after
// each sweep, and the (weighted) class counts it was drawn from. The result does not depend on
// n_threads.
KDEY_API int32_t kdey_gibbs(const double* rows, const double* weights, int64_t m, int64_t k,
                            const double* prior, int64_t n_chains, int64_t n_sweeps,
                            double* current, uint64_t* states, int64_t n_threads,
                            double* out_prevalence, double* out_counts);

// Sweeps of a hierarchy: alpha_g ~ Dirichlet(kappa mu_p) for the groups g of a parent p, and
// mu_p ~ Dirichlet(tau nu) if there are several parents, nu and the mean of a single parent uniform
// on the simplex; scale / (scale + concentration) is uniform on (0, 1) for both concentrations.
// Group g owns rows[offsets[g] .. offsets[g + 1]) of class densities (m, k) and has the parent
// parents[g]. scales (2): those of kappa and tau, at most 1e15. Moved on in place: prevalences
// (n_groups, k), means (n_parents, k), top (k): nu, concentrations (2): kappa and tau, state (4): a
// generator, not all zero. Out: counts (n_groups, k), those of the classes in the last sweep, from
// which its prevalences were drawn, and the concentrations after each sweep (n_sweeps, 2).
KDEY_API int32_t kdey_hierarchy(const double* rows, int64_t m, int64_t k, const int64_t* offsets,
                                int64_t n_groups, const int64_t* parents, int64_t n_parents,
                                const double* scales, int64_t n_sweeps, double* prevalences,
                                double* means, double* top, double* concentrations, uint64_t* state,
                                int64_t* out_counts, double* out_concentrations);
