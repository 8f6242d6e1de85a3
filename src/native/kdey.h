// The C ABI of kdey's native core. Every function returns 0 on success and a negative
// kdey_status otherwise; no exception crosses this boundary; no function keeps state.
#pragma once
#include <cstdint>

#if defined(_WIN32)
#define KDEY_API extern "C" __declspec(dllexport)
#else
#define KDEY_API extern "C" __attribute__((visibility("default")))
#endif

enum kdey_status : int32_t {
  KDEY_OK = 0,
  KDEY_OUT_OF_MEMORY = -1,
  KDEY_BAD_ARGUMENT = -2,
  KDEY_INTERNAL = -3,
};

// Raised when a signature below changes; kdey/native.py refuses another number.
#define KDEY_ABI_VERSION 1
KDEY_API int32_t kdey_abi_version();
// Instruction set picked for this machine: 0 baseline, 1 avx2, 2 avx512.
KDEY_API int32_t kdey_isa();

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
