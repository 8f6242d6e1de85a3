// float64: one query against one block of references, distances from differences.
#pragma once
#include "kernel_state.hpp"

namespace kdey {
namespace KDEY_ISA {

constexpr int kRun = 4;                 // vectors held in registers together
constexpr int kStep = kRun * kDoubles;  // references

// Block b, dimension-major in float64, with infinitely distant references as padding.
template <class T>
inline void transpose_block(const Item& it, int b) {
  const int64_t dim = it.problem.queries.dim;
  const T* rows = static_cast<const T*>(it.chunk.references.data);
  const int64_t* order = it.chunk.order + it.chunk.first[b];
  const int count = it.chunk.count[b], stride = it.s.block_stride;
  constexpr int run = 8;  // one cache line of float64 at a time
  for (int start = 0; start < (count + kStep - 1) / kStep * kStep; start += run) {
    const T* row[run];
    for (int i = 0; i < run; ++i) row[i] = rows + order[start + i < count ? start + i : 0] * dim;
    for (int64_t d = 0; d < dim; ++d)
      for (int i = 0; i < run; ++i) it.s.block[d * stride + start + i] = row[i][d];
    for (int i = 0; i < run; ++i)
      if (start + i >= count) it.s.block[start + i] = __builtin_inf();
  }
}

inline void hold_block(const Item& it, int b) {
  if (it.s.block_held == b) return;
  if (it.chunk.references.is_double)
    transpose_block<double>(it, b);
  else
    transpose_block<float>(it, b);
  it.s.block_held = b;
}

// |x_q - y_r|^2 for kStep references from `start` of the block held; infinite for the excluded.
inline void distances(const Item& it, int q, int start, int excluded, VD (&d2)[kRun]) {
  const int64_t dim = it.problem.queries.dim;
  const double* x = it.s.x + q * dim;
  for (int i = 0; i < kRun; ++i) d2[i] = VD{};
  for (int64_t d = 0; d < dim; ++d) {
    const double* y = it.s.block + d * it.s.block_stride + start;
    for (int i = 0; i < kRun; ++i) {
      VD u = load<VD>(y + i * kDoubles) - x[d];
      d2[i] += u * u;
    }
  }
  int lane = excluded - start;
  if (excluded >= 0 && lane >= 0 && lane < kStep)
    d2[lane / kDoubles][lane % kDoubles] = __builtin_inf();
}

// log2 weights of kDoubles references; zero in padding lanes.
inline VD log_weights(const Item& it, int b, int start) {
  VD w{};
  if (!it.chunk.log_weight) return w;
  for (int i = 0; i < kDoubles && start + i < it.chunk.count[b]; ++i)
    w[i] = it.chunk.log_weight[it.chunk.first[b] + start + i];
  return w;
}

inline void add_block_double(const Item& it, int q, int b) {
  hold_block(it, b);
  const int excluded = it.excluded_lane(q, b);
  for (int h = 0; h < it.problem.n_bandwidths; ++h) store(it.s.tops + h * kDoubles, VD{});
  for (int start = 0; start < it.chunk.count[b]; start += kStep) {
    VD d2[kRun];
    distances(it, q, start, excluded, d2);
    for (int i = 0; i < kRun; ++i) {
      VD w = log_weights(it, b, start + i * kDoubles);
      for (int h = 0; h < it.problem.n_bandwidths; ++h) {
        double* sum = it.s.tops + h * kDoubles;
        VD e = w - d2[i] * it.half_scale(h) - it.shift(h, q);
        store(sum, load<VD>(sum) + exp2_or_zero(e));
      }
    }
  }
  for (int h = 0; h < it.problem.n_bandwidths; ++h)
    it.row(h, q)[it.chunk.label[b]] += sum_lanes(load<VD>(it.s.tops + h * kDoubles));
}

// The largest exponent of query q in block b, per bandwidth, into the shifts where it is larger.
inline void raise_shift_double(const Item& it, int q, int b) {
  hold_block(it, b);
  const int excluded = it.excluded_lane(q, b);
  for (int start = 0; start < it.chunk.count[b]; start += kStep) {
    VD d2[kRun];
    distances(it, q, start, excluded, d2);
    for (int i = 0; i < kRun; ++i) {
      VD w = log_weights(it, b, start + i * kDoubles);
      for (int h = 0; h < it.problem.n_bandwidths; ++h) {
        double top = max_lanes<double>(w - d2[i] * it.half_scale(h));
        if (top > it.shift(h, q)) it.shift(h, q) = top;
      }
    }
  }
}

}  // namespace KDEY_ISA
}  // namespace kdey
