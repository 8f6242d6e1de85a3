// float32: a register block of queries against one tile of references.
#pragma once
#include "kernel_state.hpp"

namespace kdey {
namespace KDEY_ISA {

// Queries of a batch stand in panels of kPanel dimensions, so that a query's address is a
// compile-time displacement from one pointer.
constexpr int kPanel = 64;
constexpr int kRunDims = 8;
static_assert(kPanel % kRunDims == 0, "a run lies within a panel");

// The centred queries of a register block: the first panel of its first query, and from there to
// the next panel.
struct Centred {
  const float* at;
  int64_t panel;
};

template <int Q>
KDEY_INLINE void clear(VF (&acc)[Q][2]) {
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) acc[q][0] = acc[q][1] = VF{};
}

// Adds the products of one coordinate of a query with two vectors of references. A processor that
// has to write the coordinate into all lanes of a register of 512 bits could have multiplied in
// that time, and compilers do it where the register is used twice; multiplying by a coordinate in
// memory does it on the way. Clang collects the loads and products of many coordinates and, for
// want of registers, keeps them in memory: as instructions of their own they stay where they are.
KDEY_INLINE void add_two_products(const float& x, VF y0, VF y1, VF& acc0, VF& acc1) {
#if defined(KDEY_ISA_avx512)
  asm volatile(
      "vfmadd231ps %[x]%{1to16%}, %[y0], %[acc0]\n\t"
      "vfmadd231ps %[x]%{1to16%}, %[y1], %[acc1]"
      : [acc0] "+v"(acc0), [acc1] "+v"(acc1)
      : [x] "m"(x), [y0] "v"(y0), [y1] "v"(y1));
#elif defined(KDEY_ISA_avx2) && defined(__clang__)
  VF all;
  asm volatile(
      "vbroadcastss %[x], %[all]\n\t"
      "vfmadd231ps %[y0], %[all], %[acc0]\n\t"
      "vfmadd231ps %[y1], %[all], %[acc1]"
      : [acc0] "+v"(acc0), [acc1] "+v"(acc1), [all] "=&v"(all)
      : [x] "m"(x), [y0] "v"(y0), [y1] "v"(y1));
#else
  acc0 += y0 * x;
  acc1 += y1 * x;
#endif
}

// Adds the products of one coordinate, which stands at x and at `tile`.
template <int Q>
KDEY_INLINE void add_products(const float* x, const float* tile, VF (&acc)[Q][2]) {
  const VF y0 = load<VF>(tile), y1 = load<VF>(tile + kLanes);
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) add_two_products(x[q * kPanel], y0, y1, acc[q][0], acc[q][1]);
}

// Adds x'y' over the coordinates from `start` on, which stand at `tile`, and then -|y'|^2 / 2 times
// the factor of x'. The norm comes last: partial sums stay smaller.
template <int Q>
KDEY_INLINE void add_dots(Centred x, const float* tile, int start, int dim, float norm_factor,
                          VF (&acc)[Q][2]) {
  for (int d = start; d < dim;) {
    const float* panel = x.at + d / kPanel * x.panel;
    const int first = d % kPanel, end = dim - d < kPanel - first ? first + dim - d : kPanel;
    d += end - first;
    for (int i = first; i < end; ++i, tile += kTile) add_products<Q>(panel + i, tile, acc);
  }
  const VF n0 = multiplied_alone(load<VF>(tile), norm_factor);
  const VF n1 = multiplied_alone(load<VF>(tile + kLanes), norm_factor);
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) acc[q][0] += n0, acc[q][1] += n1;
}

// x'y' - |y'|^2 / 2 for Q queries and one tile.
template <int Q>
KDEY_INLINE void dot_tile(Centred x, const float* tile, int dim, float norm_factor,
                          VF (&acc)[Q][2]) {
  clear<Q>(acc);
  add_dots<Q>(x, tile, 0, dim, norm_factor, acc);
}

// |x' - y'|^2 for Q queries and one tile, summed in runs of kRunDims: coordinates are often all
// alike, and then the rounding errors of one long sum all have the same sign.
template <int Q>
KDEY_INLINE void difference_tile(Centred x, const float* tile, int dim, VF (&acc)[Q][2]) {
  clear<Q>(acc);
  for (int start = 0; start < dim; start += kRunDims) {
    const float* panel = x.at + start / kPanel * x.panel + start % kPanel;
    VF run[Q][2] = {};
    for (int d = 0; d < (dim - start < kRunDims ? dim - start : kRunDims); ++d, tile += kTile) {
      VF y0 = load<VF>(tile), y1 = load<VF>(tile + kLanes);
#pragma GCC unroll 12
      for (int q = 0; q < Q; ++q) {
        VF u0 = y0 - panel[q * kPanel + d], u1 = y1 - panel[q * kPanel + d];
        run[q][0] += u0 * u0;
        run[q][1] += u1 * u1;
      }
    }
#pragma GCC unroll 12
    for (int q = 0; q < Q; ++q) acc[q][0] += run[q][0], acc[q][1] += run[q][1];
  }
}

inline VI lane_numbers() {
  VI v;
  for (int i = 0; i < kLanes; ++i) v[i] = i;
  return v;
}

// What 2^exponent needs to know of one bandwidth and the queries of a batch.
struct Exponents {
  float factor;
  const float* bias;  // [Q]
  float* sums;        // [Q][kLanes]

  // The same from query q on.
  Exponents from(int q) const { return {factor, bias + q, sums + q * kLanes}; }
};

// Adds 2^exponent of one tile to the sums of a register block.
template <int Q, bool Bounded, bool Weighted, bool Excluding>
KDEY_INLINE void add_powers(const VF (&acc)[Q][2], Exponents to, const VF (&weight)[2],
                            const int* excluded, int first_lane) {
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) {
    VF e0 = acc[q][0] * to.factor + to.bias[q], e1 = acc[q][1] * to.factor + to.bias[q];
    if (Weighted) e0 += weight[0], e1 += weight[1];
    Power p0 = power_of_two<Bounded>(e0), p1 = power_of_two<Bounded>(e1);
    if (Excluding) {
      VI lane = lane_numbers() + first_lane;
      p0 = masked(p0, lane != excluded[q]);
      p1 = masked(p1, lane + kLanes != excluded[q]);
    }
    store(to.sums + q * kLanes, add_power(add_power(load<VF>(to.sums + q * kLanes), p0), p1));
  }
}

}  // namespace KDEY_ISA
}  // namespace kdey
