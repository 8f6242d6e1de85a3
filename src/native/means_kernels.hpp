// The loops behind kdey_kernel_means, one set per instruction set (isa/means.cpp): kernel values of
// many instances at a few points, and their weighted sums.
#pragma once
#include <cstdint>

namespace kdey {

// Points that are evaluated at once: a multiple of every vector, and with enough sums to hide the
// latency of an addition.
constexpr int64_t kMeanPoints = 16;

struct MeanKernels {
  // out[j][i] = 2^(u_j . x_i + a_j + b_i) for count instances u (count, dim) and kMeanPoints points
  // x, stored by dimension (dim, kMeanPoints); exponents are raised to `lowest` >= -1021.
  void (*values)(const double* u, const double* a, int64_t count, int64_t dim, const double* x,
                 const double* b, double lowest, double* out);
  // sums[i] += sum_j weights[j] values[rows[j]][i]
  void (*add)(const double* values, const int64_t* rows, const double* weights, int64_t count,
              double* sums);
};

namespace baseline { MeanKernels mean_kernels(); }
namespace avx2 { MeanKernels mean_kernels(); }
namespace avx512 { MeanKernels mean_kernels(); }

}  // namespace kdey
