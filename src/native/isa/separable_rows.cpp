// Products with the rows of a separable problem. No standard library templates in this folder:
// their code could be merged with another instruction set's.
#include "isa/separable_losses.hpp"
#include "separable_kernels.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

// One register. A panel of eight rows is several of them: a vector wider than the registers would
// be passed through memory, where a load that spans two stores stalls.
#if defined(KDEY_ISA_avx512)
constexpr int kLanes = 8;
#elif defined(KDEY_ISA_avx2)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif
constexpr int kParts = kPanel / kLanes;
typedef double Vector __attribute__((vector_size(kLanes * sizeof(double)), may_alias));

// Sums carried along at once, to hide the latency of an addition.
constexpr int kChains = 8;
// Classes by classes whose sums stay in registers: sixteen of them, or thirty-two.
constexpr int kLeft = 4;
constexpr int kRight = kLanes == 8 ? 4 : 3;
// Panels whose weighted rows fit the first-level cache.
constexpr int64_t kBlock = 128;

inline Vector load(const double* p) { return *reinterpret_cast<const Vector*>(p); }
inline void store(double* p, Vector v) { *reinterpret_cast<Vector*>(p) = v; }
// Folded in halves: a chain of additions would cost more than the products it sums.
inline double total(Vector v) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) v[l] += v[l + half];
  return v[0];
}

// N panels at once, with separate sums of even and odd classes: the same sums for every N.
template <int N>
void mix_panels(const double* rows, int64_t k, const double* x, double* p) {
  Vector even[N][kParts] = {}, odd[N][kParts] = {};
  int64_t i = 0;
  for (; i + 2 <= k; i += 2) {
    const double first = x[i], second = x[i + 1];
    for (int b = 0; b < N; ++b)
      for (int part = 0; part < kParts; ++part) {
        const double* row = rows + (b * k + i) * kPanel + part * kLanes;
        even[b][part] += first * load(row);
        odd[b][part] += second * load(row + kPanel);
      }
  }
  for (int b = 0; b < N; ++b)
    for (int part = 0; part < kParts; ++part) {
      if (i < k) even[b][part] += x[i] * load(rows + (b * k + i) * kPanel + part * kLanes);
      store(p + b * kPanel + part * kLanes, even[b][part] + odd[b][part]);
    }
}

void mix(const double* rows, int64_t n, int64_t k, const double* x, double* p) {
  constexpr int kTogether = kChains / (2 * kParts);
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
    for (int part = 0; part < kParts; ++part)
      for (int c = 0; c < kTogether; ++c) {
        const Vector slope = load(s + (b + c) * kPanel + part * kLanes);
        const double* row = rows + (b + c) * k * kPanel + part * kLanes;
        for (int i = 0; i < N; ++i) sums[c][i] += slope * load(row + i * kPanel);
      }
  for (; b < panels(n); ++b)
    for (int part = 0; part < kParts; ++part) {
      const Vector slope = load(s + b * kPanel + part * kLanes);
      const double* row = rows + b * k * kPanel + part * kLanes;
      for (int i = 0; i < N; ++i) sums[0][i] += slope * load(row + i * kPanel);
    }
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

// out[.. A)[j .. j + B) += the products of A classes, weighted before, with B over some panels.
template <int A, int B>
void curve_tile(const double* weighted, const double* rows, int64_t count, int64_t k, int64_t j,
                double* out) {
  Vector sums[A][B] = {};
  for (int64_t b = 0; b < count; ++b)
    for (int part = 0; part < kParts; ++part) {
      const double* left = weighted + b * A * kPanel + part * kLanes;
      const double* row = rows + (b * k + j) * kPanel + part * kLanes;
      Vector right[B];
      for (int c = 0; c < B; ++c) right[c] = load(row + c * kPanel);
      for (int a = 0; a < A; ++a) {
        const Vector value = load(left + a * kPanel);
        for (int c = 0; c < B; ++c) sums[a][c] += value * right[c];
      }
    }
  for (int a = 0; a < A; ++a)
    for (int c = 0; c < B; ++c) out[a * k + j + c] += total(sums[a][c]);
}

// The products of classes i .. i + A with all from i on.
template <int A>
void curve_strip(const double* rows, int64_t count, int64_t k, const double* h, int64_t i,
                 double* out) {
  alignas(64) double weighted[kBlock * A * kPanel];
  for (int64_t b = 0; b < count; ++b)
    for (int part = 0; part < kParts; ++part) {
      const Vector weight = load(h + b * kPanel + part * kLanes);
      const double* row = rows + (b * k + i) * kPanel + part * kLanes;
      double* target = weighted + b * A * kPanel + part * kLanes;
      for (int a = 0; a < A; ++a) store(target + a * kPanel, weight * load(row + a * kPanel));
    }
  int64_t j = i;
  for (; j + kRight <= k; j += kRight)
    curve_tile<A, kRight>(weighted, rows, count, k, j, out + i * k);
  for (; j + 2 <= k; j += 2) curve_tile<A, 2>(weighted, rows, count, k, j, out + i * k);
  if (j < k) curve_tile<A, 1>(weighted, rows, count, k, j, out + i * k);
}

void curve(const double* rows, int64_t n, int64_t k, const double* h, double* out) {
  for (int64_t i = 0; i < k * k; ++i) out[i] = 0;
  for (int64_t first = 0; first < panels(n); first += kBlock) {
    const int64_t count = panels(n) - first < kBlock ? panels(n) - first : kBlock;
    const double *block = rows + first * k * kPanel, *weights = h + first * kPanel;
    int64_t i = 0;
    for (; i + kLeft <= k; i += kLeft) curve_strip<kLeft>(block, count, k, weights, i, out);
    for (; i + 2 <= k; i += 2) curve_strip<2>(block, count, k, weights, i, out);
    if (i < k) curve_strip<1>(block, count, k, weights, i, out);
  }
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < i; ++j) out[i * k + j] = out[j * k + i];
}

}  // namespace

SeparableKernels separable_kernels() { return {mix, pull, curve, first_of_loss, second_of_loss}; }

}  // namespace KDEY_ISA
}  // namespace kdey
