#include <algorithm>
#include <utility>
#include <vector>

#include "bags.hpp"
#include "guard.hpp"
#include "kdey.h"
#include "separable.hpp"
#include "separable_values.hpp"
#include "workers.hpp"

namespace kdey {
namespace {

bool all_zero(const double* row, int64_t k) {
  return std::all_of(row, row + k, [](double value) { return value == 0; });
}

void put_row(const double* row, int64_t k, int64_t j, double* panels) {
  double* out = panels + row_at(j, k);
  for (int64_t i = 0; i < k; ++i) out[i * kPanel] = row[i];
}

// Fills the last panel up with zeros.
void close_panel(int64_t n, int64_t k, double* rows) {
  for (int64_t j = n; j < panelled(n); ++j)
    for (int64_t i = 0; i < k; ++i) rows[row_at(j, k) + i * kPanel] = 0;
}

// The informative rows of a bag, gathered, with weights that sum to one.
struct Gathered {
  explicit Gathered(SeparableSolver&& made) : solver(std::move(made)) {}
  SeparableSolver solver;
  Aligned<double> rows, weights;
  int64_t n = 0;
  double offset = 0;  // mean log scale of the gathered rows
};

struct Pool {
  const double *rows, *log_scales;
  int64_t k;
};

void gather(const Pool& pool, const int64_t* indices, const double* weights, int64_t count,
            Gathered& out) {
  double* rows = out.rows.reserve(panelled(count) * pool.k);
  double* shares = out.weights.reserve(count);
  double total = 0, offset = 0;
  out.n = 0;
  for (int64_t j = 0; j < count; ++j) {
    const double* row = pool.rows + indices[j] * pool.k;
    double weight = weights ? weights[j] : 1;
    if (weight == 0 || all_zero(row, pool.k)) continue;
    put_row(row, pool.k, out.n, rows);
    shares[out.n++] = weight;
    total += weight;
    offset += weight * pool.log_scales[indices[j]];
  }
  close_panel(out.n, pool.k, rows);
  for (int64_t j = 0; j < out.n; ++j) shares[j] /= total;
  out.offset = offset / total;
}

// The templates shared by all bags of a divergence, without the points where no class has mass.
struct Templates {
  Aligned<double> rows;
  std::vector<int64_t> kept, bare;
  std::vector<double> weights;

  Templates(const double* templates, const double* reference, int64_t t, int64_t k) {
    double* packed = rows.reserve(panelled(t) * k);
    for (int64_t j = 0; j < t; ++j) {
      if (all_zero(templates + j * k, k)) {
        bare.push_back(j);
        continue;
      }
      put_row(templates + j * k, k, static_cast<int64_t>(kept.size()), packed);
      kept.push_back(j);
      weights.push_back(1 / reference[j]);
    }
    close_panel(static_cast<int64_t>(kept.size()), k, packed);
  }
};

void first_point(SeparableSolver& solver, const SeparableProblem& problem, const double* start,
                 double* x) {
  if (start) {
    std::copy(start, start + problem.k, x);
    return;
  }
  std::fill(x, x + problem.k, 1.0 / static_cast<double>(problem.k));
  solver.approach(problem, x);
}

struct Targets {
  SeparableSolver solver;
  std::vector<double> kept;
};

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_solve_mixture(const double* rows, const double* log_scales, int64_t pool,
                                    int64_t k, const int64_t* indices, const int64_t* offsets,
                                    const double* weights, int64_t n_bags, const double* start,
                                    double tol, int64_t max_iter, int64_t n_threads, double* out_x,
                                    double* out_objective, double* out_gap, int64_t* out_n_iter) {
  using namespace kdey;
  if (pool < 1 || k < 1 || n_bags < 0 || !bags_fit(indices, offsets, n_bags, pool))
    return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const SeparableKernels kernels = separable_kernels();
    const Pool source{rows, log_scales, k};
    auto make = [&] { return Gathered(SeparableSolver(kernels, k)); };
    parallel_with(n_bags, n_threads, make, [&](Gathered& bag, int64_t b) {
      const int64_t first = offsets[b];
      gather(source, indices + first, weights ? weights + first : nullptr, offsets[b + 1] - first,
             bag);
      if (bag.n == 0) return;  // the caller has marked bags without information
      double *v = bag.weights.data(), *x = out_x + b * k;
      SeparableProblem problem{kNegativeLog, bag.n, k, bag.rows.data(), v, v};
      first_point(bag.solver, problem, start ? start + b * k : nullptr, x);
      Certificate found = bag.solver.solve(problem, tol, max_iter, x);
      out_gap[b] = found.gap;
      out_n_iter[b] = found.n_iter;
      out_objective[b] = loss_value(problem, bag.solver.mixtures()) - bag.offset;
    });
  });
}

KDEY_API int32_t kdey_solve_divergence(int64_t loss, const double* templates, const double* targets,
                                       const double* reference, int64_t n_bags, int64_t t,
                                       int64_t k, const double* start, double tol, int64_t max_iter,
                                       int64_t n_threads, double* out_x, double* out_objective,
                                       double* out_gap, int64_t* out_n_iter) {
  using namespace kdey;
  if (loss < 0 || loss >= kLosses || n_bags < 0 || t < 1 || k < 1) return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const SeparableKernels kernels = separable_kernels();
    Templates shared(templates, reference, t, k);
    const int64_t n = static_cast<int64_t>(shared.kept.size());
    const double* rows = shared.rows.data();
    auto make = [&] { return Targets{SeparableSolver(kernels, k), std::vector<double>(n)}; };
    parallel_with(n_bags, n_threads, make, [&](Targets& bag, int64_t b) {
      const double* q = targets + b * t;
      for (int64_t j = 0; j < n; ++j) bag.kept[j] = q[shared.kept[j]];
      SeparableProblem problem{loss, n, k, rows, shared.weights.data(), bag.kept.data()};
      double* x = out_x + b * k;
      Certificate found{0, 0};
      if (n > 0) first_point(bag.solver, problem, start ? start + b * k : nullptr, x);
      if (n > 0) found = bag.solver.solve(problem, tol, max_iter, x);
      out_gap[b] = found.gap;
      out_n_iter[b] = found.n_iter;
      double constant = 0;
      for (int64_t j : shared.bare) constant += loss_at(loss, 0, q[j]) / reference[j];
      out_objective[b] = constant + (n > 0 ? loss_value(problem, bag.solver.mixtures()) : 0);
    });
  });
}
