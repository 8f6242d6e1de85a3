// Kernel values and their weighted sums in float64. No standard library templates in this folder:
// their code could be merged with another instruction set's.
#include "means_kernels.hpp"

#include "isa/kernel_simd.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

constexpr int kParts = kMeanPoints / kDoubles;
// Instances at once: their sums, and one vector of points per part, stay in registers.
#if defined(KDEY_ISA_avx512)
constexpr int kTogether = 8;  // 16 of 32 registers
#elif defined(KDEY_ISA_avx2)
constexpr int kTogether = 3;  // 12 of 16
#else
constexpr int kTogether = 1;  // 8 of 16
#endif
// The largest exponent of a finite number; a kernel this far above the scale is cut off there.
constexpr double kHighest = 1022.0;

template <int N>
void values_of(const double* u, const double* a, int64_t dim, const double* x, const double* b,
               double lowest, double* out) {
  VD sums[N][kParts];
  for (int part = 0; part < kParts; ++part) {
    const VD start = load<VD>(b + part * kDoubles);
    for (int j = 0; j < N; ++j) sums[j][part] = start + a[j];
  }
  for (int64_t d = 0; d < dim; ++d)
    for (int part = 0; part < kParts; ++part) {
      const VD point = load<VD>(x + d * kMeanPoints + part * kDoubles);
      for (int j = 0; j < N; ++j) sums[j][part] += u[j * dim + d] * point;
    }
  const VD low = VD{} + lowest, high = VD{} + kHighest;
  for (int j = 0; j < N; ++j)
    for (int part = 0; part < kParts; ++part) {
      const VD raised = largest(sums[j][part], low);
      const VD exponent = raised < high ? raised : high;
      store(out + j * kMeanPoints + part * kDoubles, exp2_or_zero(exponent));
    }
}

void values(const double* u, const double* a, int64_t count, int64_t dim, const double* x,
            const double* b, double lowest, double* out) {
  int64_t j = 0;
  for (; j + kTogether <= count; j += kTogether)
    values_of<kTogether>(u + j * dim, a + j, dim, x, b, lowest, out + j * kMeanPoints);
  for (; j < count; ++j) values_of<1>(u + j * dim, a + j, dim, x, b, lowest, out + j * kMeanPoints);
}

void add(const double* values, const int64_t* rows, const double* weights, int64_t count,
         double* sums) {
  // Even and odd entries by themselves: twice as many independent additions.
  VD even[kParts], odd[kParts] = {};
  for (int part = 0; part < kParts; ++part) even[part] = load<VD>(sums + part * kDoubles);
  int64_t j = 0;
  for (; j + 2 <= count; j += 2) {
    const double *first = values + rows[j] * kMeanPoints,
                 *second = values + rows[j + 1] * kMeanPoints;
    for (int part = 0; part < kParts; ++part) {
      even[part] += weights[j] * load<VD>(first + part * kDoubles);
      odd[part] += weights[j + 1] * load<VD>(second + part * kDoubles);
    }
  }
  for (int part = 0; part < kParts; ++part) {
    if (j < count)
      even[part] += weights[j] * load<VD>(values + rows[j] * kMeanPoints + part * kDoubles);
    store(sums + part * kDoubles, even[part] + odd[part]);
  }
}

}  // namespace

MeanKernels mean_kernels() { return {values, add}; }

}  // namespace KDEY_ISA
}  // namespace kdey
