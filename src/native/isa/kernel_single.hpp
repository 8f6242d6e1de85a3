// float32: a register block of queries against the tiles of one block of references.
//
// With x' = x - c and y' = y - c for the block's centre c, an exponent is
//   dots:         scale (x'y' - |y'|^2 / 2) + log2 w + bias,  bias = -scale |x'|^2 / 2 - shift,
//   differences: -scale |x' - y'|^2 / 2 + log2 w + bias,      bias = -shift,
// where log2 w is counted from the block's largest weight, which joins the bias.
#pragma once
#include "kernel_state.hpp"

namespace kdey {
namespace KDEY_ISA {

// Queries of a batch stand in panels of kPanel dimensions, so that a query's address is a
// compile-time displacement from one pointer.
constexpr int kPanel = 64;
constexpr int kRunDims = 8;
static_assert(kPanel % kRunDims == 0, "a run lies within a panel");

// x' of the queries of a batch, for block b.
template <int Q>
inline void centre_queries(const Item& it, int b, const int* queries) {
  // Local copies, here and below: stores through float pointers might change the structs.
  const int padded = it.chunk.padded_dim;
  const float* centre = it.chunk.centre_rows + int64_t{b} * padded;
  const float *all_high = it.s.x_high, *all_low = it.s.x_low;
  float* panel = it.s.centred;
  for (int start = 0; start < padded; start += kPanel, panel += kPanel * Q) {
    const int end = padded - start < kPanel ? padded - start : kPanel;
    for (int i = 0; i < Q; ++i) {
      const float* high = all_high + int64_t{queries[i]} * padded + start;
      const float* low = all_low + int64_t{queries[i]} * padded + start;
      for (int d = 0; d < end; d += kLanes) {
        VF u = (load<VF>(high + d) - load<VF>(centre + start + d)) + load<VF>(low + d);
        store(panel + i * kPanel + d, u);
      }
    }
  }
}

// x'y' - |y'|^2 / 2 for Q queries and one tile. The norm comes last: partial sums stay smaller.
template <int Q>
inline void dot_tile(const float* x, const float* tile, int dim, VF (&acc)[Q][2]) {
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) acc[q][0] = acc[q][1] = VF{};
  for (int start = 0; start < dim; start += kPanel, x += kPanel * Q) {
    int end = dim - start < kPanel ? dim - start : kPanel;
    for (int d = 0; d < end; ++d, tile += kTile) {
      VF y0 = load<VF>(tile), y1 = load<VF>(tile + kLanes);
#pragma GCC unroll 12
      for (int q = 0; q < Q; ++q) {
        acc[q][0] += y0 * x[q * kPanel + d];
        acc[q][1] += y1 * x[q * kPanel + d];
      }
    }
  }
  VF n0 = load<VF>(tile), n1 = load<VF>(tile + kLanes);
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) acc[q][0] += n0, acc[q][1] += n1;
}

// |x' - y'|^2 for Q queries and one tile, summed in runs of kRunDims: coordinates are often all
// alike, and then the rounding errors of one long sum all have the same sign.
template <int Q>
inline void difference_tile(const float* x, const float* tile, int dim, VF (&acc)[Q][2]) {
#pragma GCC unroll 12
  for (int q = 0; q < Q; ++q) acc[q][0] = acc[q][1] = VF{};
  for (int start = 0; start < dim; start += kRunDims) {
    if (start > 0 && start % kPanel == 0) x += kPanel * Q;
    const float* panel = x + start % kPanel;
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

struct Batch {
  int block;
  int query[kBatch];     // positions in the group; the last one repeated as filling
  int excluded[kBatch];  // lane left out, or -1
  bool excluding;        // whether any lane is left out
  int n_active;          // bandwidths that matter to some query: s.active[0..n_active)
};

// Adds 2^exponent of one tile to the sums of the batch.
template <int Q, Mode mode, bool Weighted, bool Excluding>
inline void add_tile(const Item& it, const Batch& batch, const float* tile, int first_lane) {
  const int dim = static_cast<int>(it.problem.queries.dim);
  VF acc[Q][2];
  if (mode == kDots)
    dot_tile<Q>(it.s.centred, tile, dim, acc);
  else
    difference_tile<Q>(it.s.centred, tile, dim, acc);
  VF w0{}, w1{};
  if (Weighted) {
    w0 = load<VF>(tile + (dim + 1) * kTile);
    w1 = load<VF>(tile + (dim + 1) * kTile + kLanes);
  }
  for (int a = 0; a < batch.n_active; ++a) {
    const int h = it.s.active[a];
    const float scale = static_cast<float>(it.problem.scale[h] * (mode == kDots ? 1.0 : -0.5));
    const float* bias = it.s.bias + h * Q;
    float* sums = it.s.sums + h * Q * kLanes;
#pragma GCC unroll 12
    for (int q = 0; q < Q; ++q) {
      VF e0 = acc[q][0] * scale + bias[q], e1 = acc[q][1] * scale + bias[q];
      if (Weighted) e0 += w0, e1 += w1;
      VF v0 = exp2_or_zero(e0), v1 = exp2_or_zero(e1);
      if (Excluding) {
        VI lane = lane_numbers() + first_lane;
        v0 = (VF)((VI)v0 & (lane != batch.excluded[q]));
        v1 = (VF)((VI)v1 & (lane + kLanes != batch.excluded[q]));
      }
      store(sums + q * kLanes, load<VF>(sums + q * kLanes) + (v0 + v1));
    }
  }
}

// The biases of one bandwidth, -inf for a query to which the block does not matter; whether it
// matters to any.
template <int Q, Mode mode>
inline bool fill_bias(const Item& it, const Batch& batch, int h) {
  const int b = batch.block;
  const int64_t stride = it.chunk.stride;
  const bool choose = it.problem.skip && it.problem.n_bandwidths > 1;
  const double half = it.half_scale(h), top = it.chunk.top_weight[b], bits = it.skip_bits;
  const double far = top + it.chunk.log_count[b] + bits;
  const double* shift = it.s.shift + h * kGroup;
  const float *norm2 = it.s.norm2 + b, *nearest2 = it.s.nearest2 + b;
  float *bias = it.s.bias + h * Q, *sums = it.s.sums + h * Q * kLanes;
  bool matters = false;
  for (int i = 0; i < Q; ++i) {
    const int q = batch.query[i];
    const bool on = !choose || nearest2[q * stride] * half + shift[q] <= far;
    const double value = top - shift[q] - (mode == kDots ? norm2[q * stride] * half : 0.0);
    bias[i] = on ? static_cast<float>(value) : -__builtin_inff();
    store(sums + i * kLanes, VF{});
    matters |= on;
  }
  return matters;
}

template <int Q, Mode mode>
inline void start_batch(const Item& it, const int* queries, int count, Batch& batch) {
  batch.n_active = 0;
  batch.excluding = false;
  for (int i = 0; i < Q; ++i) {
    batch.query[i] = queries[i < count ? i : count - 1];
    batch.excluded[i] = it.excluded_lane(batch.query[i], batch.block);
    batch.excluding |= batch.excluded[i] >= 0;
  }
  centre_queries<Q>(it, batch.block, batch.query);
  for (int h = 0; h < it.problem.n_bandwidths; ++h)
    if (fill_bias<Q, mode>(it, batch, h)) it.s.active[batch.n_active++] = h;
}

template <int Q>
inline void finish_batch(const Item& it, const Batch& batch, int count) {
  const int64_t k = it.problem.n_classes;
  const int64_t* rows = it.group.rows;
  for (int a = 0; a < batch.n_active; ++a) {
    const int h = it.s.active[a];
    const float* sums = it.s.sums + h * Q * kLanes;
    double* out = it.problem.out + h * it.problem.n_queries * k + it.chunk.label[batch.block];
    for (int i = 0; i < count; ++i)
      out[rows[batch.query[i]] * k] += sum_lanes(load<VF>(sums + i * kLanes));
  }
}

template <int Q, Mode mode, bool Weighted, bool Excluding>
__attribute__((noinline)) void add_tiles(const Item& it, const Batch& batch) {
  const int64_t floats = (it.problem.queries.dim + 1 + Weighted) * kTile;
  const float* tile = it.chunk.tiles + it.chunk.tile_offset[batch.block];
  for (int lane = 0; lane < it.chunk.count[batch.block]; lane += kTile, tile += floats)
    add_tile<Q, mode, Weighted, Excluding>(it, batch, tile, lane);
}

// Adds a block of references to the sums of `count` <= Q queries.
template <int Q, Mode mode>
__attribute__((noinline)) void add_batch(const Item& it, int b, const int* queries, int count) {
  Batch batch{};
  batch.block = b;
  start_batch<Q, mode>(it, queries, count, batch);
  if (it.chunk.log_weight)
    batch.excluding ? add_tiles<Q, mode, true, true>(it, batch)
                    : add_tiles<Q, mode, true, false>(it, batch);
  else
    batch.excluding ? add_tiles<Q, mode, false, true>(it, batch)
                    : add_tiles<Q, mode, false, false>(it, batch);
  finish_batch<Q>(it, batch, count);
}

// Batches of `Wide`, but for the rest of them.
template <Mode mode, int Wide, int Small>
inline void add_block_single(const Item& it, int b, const int* queries, int count) {
  while (count > 0) {
    const bool wide = count > 2 * Small;
    int taken = wide ? Wide : Small;
    if (taken > count) taken = count;
    if (wide)
      add_batch<Wide, mode>(it, b, queries, taken);
    else
      add_batch<Small, mode>(it, b, queries, taken);
    queries += taken, count -= taken;
  }
}

// x'y' - |y'|^2 / 2 of one query and one tile, in four chains: one query alone cannot hide the
// latency of two.
inline void dot_tile_alone(const float* x, const float* tile, int dim, VF (&acc)[2]) {
  VF even[2] = {load<VF>(tile + dim * kTile), load<VF>(tile + dim * kTile + kLanes)};
  VF odd[2] = {};
  int d = 0;
  for (; d + 1 < dim; d += 2, tile += 2 * kTile) {
    const float x0 = x[d], x1 = x[d + 1];
    for (int part = 0; part < 2; ++part) {
      even[part] += load<VF>(tile + part * kLanes) * x0;
      odd[part] += load<VF>(tile + kTile + part * kLanes) * x1;
    }
  }
  for (int part = 0; part < 2; ++part) {
    if (d < dim) even[part] += load<VF>(tile + part * kLanes) * x[d];
    acc[part] = even[part] + odd[part];
  }
}

// The largest exponent of query q in block b, per bandwidth, into the shifts where it is larger.
// Without weights the nearest reference is the largest for every bandwidth.
template <bool Weighted>
inline void raise_shift_single(const Item& it, int q, int b) {
  const int dim = static_cast<int>(it.problem.queries.dim), out = it.excluded_lane(q, b);
  const int n_tops = Weighted ? it.problem.n_bandwidths : 1, count = it.chunk.count[b];
  const float* tile = it.chunk.tiles + it.chunk.tile_offset[b];
  float *tops = it.s.sums, *centred = it.s.centred;
  const VF none = VF{} - __builtin_inff();
  for (int h = 0; h < n_tops; ++h) store(tops + h * kLanes, none);
  centre_queries<1>(it, b, &q);
  for (int lane = 0; lane < count; lane += kTile, tile += (dim + 1 + Weighted) * kTile) {
    VF acc[2];
    dot_tile_alone(centred, tile, dim, acc);
    for (int part = 0; part < 2; ++part) {
      VI kept = lane_numbers() + (lane + part * kLanes) != out;
      for (int h = 0; h < n_tops; ++h) {
        VF e = acc[part];
        if (Weighted)
          e = e * static_cast<float>(it.problem.scale[h]) +
              load<VF>(tile + (dim + 1) * kTile + part * kLanes);
        store(tops + h * kLanes, largest(kept ? e : none, load<VF>(tops + h * kLanes)));
      }
    }
  }
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    double top = max_lanes<float>(load<VF>(tops + (Weighted ? h : 0) * kLanes));
    if (!Weighted) top *= it.problem.scale[h];
    top += it.chunk.top_weight[b] - it.norm2(q)[b] * it.half_scale(h);
    if (top > it.shift(h, q)) it.shift(h, q) = top;
  }
}

}  // namespace KDEY_ISA
}  // namespace kdey
