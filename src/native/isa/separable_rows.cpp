// Products with the rows of a separable problem. No standard library templates in this folder:
// their code could be merged with another instruction set's.
#include "isa/separable_losses.hpp"
#include "separable_kernels.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

#if defined(KDEY_ISA_avx512)
constexpr int kLanes = 8, kHeight = 8;
#elif defined(KDEY_ISA_avx2)
constexpr int kLanes = 4, kHeight = 4;
#else
constexpr int kLanes = 2, kHeight = 4;
#endif
constexpr int kVectors = 2, kWidth = kVectors * kLanes;
typedef double Vector __attribute__((vector_size(kLanes * sizeof(double)), may_alias));

inline Vector load(const double* p) { return *reinterpret_cast<const Vector*>(p); }
inline void store(double* p, Vector v) { *reinterpret_cast<Vector*>(p) = v; }
// Folded in halves: a chain of additions would cost more than the products it sums.
inline double total(Vector v) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) v[l] += v[l + half];
  return v[0];
}

void mix(const double* rows, int64_t n, int64_t ld, const double* x, double* p) {
  for (int64_t j = 0; j < n; ++j) {
    const double* r = rows + j * ld;
    Vector even{}, odd{};
    int64_t i = 0;
    for (; i + 2 * kLanes <= ld; i += 2 * kLanes) {
      even += load(r + i) * load(x + i);
      odd += load(r + i + kLanes) * load(x + i + kLanes);
    }
    if (i < ld) even += load(r + i) * load(x + i);
    p[j] = total(even + odd);
  }
}

// Columns in strips of four vectors, so that the sums stay in registers.
template <int N>
void pull_strip(const double* rows, int64_t n, int64_t ld, const double* s, double* g) {
  Vector sums[N] = {};
  for (int64_t j = 0; j < n; ++j) {
    const double* r = rows + j * ld;
    for (int v = 0; v < N; ++v) sums[v] += s[j] * load(r + v * kLanes);
  }
  for (int v = 0; v < N; ++v) store(g + v * kLanes, sums[v]);
}

void pull(const double* rows, int64_t n, int64_t ld, const double* s, double* g) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= ld; i += 4 * kLanes) pull_strip<4>(rows + i, n, ld, s, g + i);
  for (; i < ld; i += kLanes) pull_strip<1>(rows + i, n, ld, s, g + i);
}

// out[i0 .. i0 + kHeight)[c0 .. c0 + N vectors) += block' block, sums in registers.
template <int N>
void curve_tile(const double* block, int64_t n, int64_t ld, int64_t i0, int64_t c0, double* out) {
  Vector sums[kHeight][N];
  for (int i = 0; i < kHeight; ++i)
    for (int v = 0; v < N; ++v) sums[i][v] = load(out + (i0 + i) * ld + c0 + v * kLanes);
  for (int64_t j = 0; j < n; ++j) {
    const double* r = block + j * ld;
    Vector columns[N];
    for (int v = 0; v < N; ++v) columns[v] = load(r + c0 + v * kLanes);
    for (int i = 0; i < kHeight; ++i)
      for (int v = 0; v < N; ++v) sums[i][v] += r[i0 + i] * columns[v];
  }
  for (int i = 0; i < kHeight; ++i)
    for (int v = 0; v < N; ++v) store(out + (i0 + i) * ld + c0 + v * kLanes, sums[i][v]);
}

void curve(const double* rows, int64_t n, int64_t ld, const double* h, double* scratch,
           double* out) {
  for (int64_t i = 0; i < ld * ld; ++i) out[i] = 0;
  const int64_t step = curve_rows(ld);
  for (int64_t first = 0; first < n; first += step) {
    const int64_t count = n - first < step ? n - first : step;
    for (int64_t j = 0; j < count; ++j) {
      const double root = __builtin_sqrt(h[first + j]);
      const double* r = rows + (first + j) * ld;
      for (int64_t i = 0; i < ld; ++i) scratch[j * ld + i] = root * r[i];
    }
    // Only tiles that touch the upper triangle.
    for (int64_t i = 0; i < ld; i += kHeight) {
      int64_t c = i / kLanes * kLanes;
      for (; c + kWidth <= ld; c += kWidth) curve_tile<kVectors>(scratch, count, ld, i, c, out);
      if (c < ld) curve_tile<1>(scratch, count, ld, i, c, out);
    }
  }
  for (int64_t i = 0; i < ld; ++i)
    for (int64_t j = 0; j < i; ++j) out[i * ld + j] = out[j * ld + i];
}

}  // namespace

SeparableKernels separable_kernels() { return {mix, pull, curve, first_of_loss, second_of_loss}; }

}  // namespace KDEY_ISA
}  // namespace kdey
