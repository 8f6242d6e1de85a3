// Products with the rows of a separable problem. No standard library templates in this folder:
// their code could be merged with another instruction set's.
#include "isa/separable_losses.hpp"
#include "separable_kernels.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

// Eight doubles, in as many registers as the instruction set needs.
typedef double Vector __attribute__((vector_size(kPanel * sizeof(double)), may_alias));
#if defined(KDEY_ISA_avx512)
constexpr int kTile = 4;  // classes by classes whose sums stay in registers
#else
constexpr int kTile = 2;
#endif
// Sums carried along at once, to hide the latency of an addition.
constexpr int kChains = 8;
// Doubles of a block of panels that stays in the second-level cache.
constexpr int64_t kBlock = 32768;

inline Vector load(const double* p) { return *reinterpret_cast<const Vector*>(p); }
inline void store(double* p, Vector v) { *reinterpret_cast<Vector*>(p) = v; }
// Folded in halves: a chain of additions would cost more than the products it sums.
inline double total(Vector v) {
  for (int half = kPanel / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) v[l] += v[l + half];
  return v[0];
}

// N panels at once, with separate sums of even and odd classes: the same sums for every N.
template <int N>
void mix_panels(const double* rows, int64_t k, const double* x, double* p) {
  Vector even[N] = {}, odd[N] = {};
  int64_t i = 0;
  for (; i + 2 <= k; i += 2)
    for (int b = 0; b < N; ++b) {
      even[b] += x[i] * load(rows + (b * k + i) * kPanel);
      odd[b] += x[i + 1] * load(rows + (b * k + i + 1) * kPanel);
    }
  for (int b = 0; b < N; ++b) {
    if (i < k) even[b] += x[i] * load(rows + (b * k + i) * kPanel);
    store(p + b * kPanel, even[b] + odd[b]);
  }
}

void mix(const double* rows, int64_t n, int64_t k, const double* x, double* p) {
  constexpr int kTogether = kChains / 2;
  int64_t b = 0;
  for (; b + kTogether <= panels(n); b += kTogether)
    mix_panels<kTogether>(rows + b * k * kPanel, k, x, p + b * kPanel);
  for (; b < panels(n); ++b) mix_panels<1>(rows + b * k * kPanel, k, x, p + b * kPanel);
}

// N classes, over several panels at once where N is small.
template <int N>
void pull_classes(const double* rows, int64_t n, int64_t k, const double* s, double* g) {
  constexpr int kTogether = kChains / N;
  Vector sums[kTogether][N] = {};
  int64_t b = 0;
  for (; b + kTogether <= panels(n); b += kTogether)
    for (int c = 0; c < kTogether; ++c)
      for (int i = 0; i < N; ++i)
        sums[c][i] += load(s + (b + c) * kPanel) * load(rows + ((b + c) * k + i) * kPanel);
  for (; b < panels(n); ++b)
    for (int i = 0; i < N; ++i)
      sums[0][i] += load(s + b * kPanel) * load(rows + (b * k + i) * kPanel);
  for (int i = 0; i < N; ++i) {
    for (int c = 1; c < kTogether; ++c) sums[0][i] += sums[c][i];
    g[i] = total(sums[0][i]);
  }
}

void pull(const double* rows, int64_t n, int64_t k, const double* s, double* g) {
  int64_t i = 0;
  for (; i + 8 <= k; i += 8) pull_classes<8>(rows + i * kPanel, n, k, s, g + i);
  for (; i + 4 <= k; i += 4) pull_classes<4>(rows + i * kPanel, n, k, s, g + i);
  for (; i + 2 <= k; i += 2) pull_classes<2>(rows + i * kPanel, n, k, s, g + i);
  if (i < k) pull_classes<1>(rows + i * kPanel, n, k, s, g + i);
}

// out[i .. i + A)[j .. j + B) += the products of two runs of classes over a block of panels.
template <int A, int B>
void curve_tile(const double* rows, int64_t count, int64_t k, const double* h, int64_t i, int64_t j,
                double* out) {
  Vector sums[A][B] = {};
  for (int64_t b = 0; b < count; ++b) {
    const double* r = rows + b * k * kPanel;
    const Vector weight = load(h + b * kPanel);
    Vector right[B];
    for (int c = 0; c < B; ++c) right[c] = load(r + (j + c) * kPanel);
    for (int a = 0; a < A; ++a) {
      const Vector left = weight * load(r + (i + a) * kPanel);
      for (int c = 0; c < B; ++c) sums[a][c] += left * right[c];
    }
  }
  for (int a = 0; a < A; ++a)
    for (int c = 0; c < B; ++c) out[(i + a) * k + j + c] += total(sums[a][c]);
}

template <int A>
void curve_strip(const double* rows, int64_t count, int64_t k, const double* h, int64_t i,
                 double* out) {
  int64_t j = i;
  for (; j + kTile <= k; j += kTile) curve_tile<A, kTile>(rows, count, k, h, i, j, out);
  for (; j < k; ++j) curve_tile<A, 1>(rows, count, k, h, i, j, out);
}

void curve(const double* rows, int64_t n, int64_t k, const double* h, double* out) {
  for (int64_t i = 0; i < k * k; ++i) out[i] = 0;
  const int64_t step = k * kPanel < kBlock ? kBlock / (k * kPanel) : 1;
  for (int64_t first = 0; first < panels(n); first += step) {
    const int64_t count = panels(n) - first < step ? panels(n) - first : step;
    const double *block = rows + first * k * kPanel, *weights = h + first * kPanel;
    int64_t i = 0;
    for (; i + kTile <= k; i += kTile) curve_strip<kTile>(block, count, k, weights, i, out);
    for (; i < k; ++i) curve_strip<1>(block, count, k, weights, i, out);
  }
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < i; ++j) out[i * k + j] = out[j * k + i];
}

}  // namespace

SeparableKernels separable_kernels() { return {mix, pull, curve, first_of_loss, second_of_loss}; }

}  // namespace KDEY_ISA
}  // namespace kdey
