// float32: a register block of queries against the tiles of one block of references.
//
// With x' = x - c and y' = y - c for the block's centre c, an exponent is
//   scale (x'y' - |y'|^2 / 2) + log2 w + bias,   bias = -scale |x'|^2 / 2 - shift + top weight.
#pragma once
#include "kernel_state.hpp"

namespace kdey {
namespace KDEY_ISA {

// Queries of a batch stand in panels of kPanel dimensions, so that a query's address is a
// compile-time displacement from one pointer.
constexpr int kPanel = 64;

// x' of query q into slot `slot` of a batch of Q.
template <int Q>
inline void centre_query(const Item& it, int q, int b, int slot) {
  const float* high = it.s.x_high + int64_t{q} * it.chunk.padded_dim;
  const float* low = it.s.x_low + int64_t{q} * it.chunk.padded_dim;
  const float* centre = it.chunk.centre_rows + int64_t{b} * it.chunk.padded_dim;
  for (int d = 0; d < it.chunk.padded_dim; d += kLanes) {
    float* out = it.s.centred + d / kPanel * (kPanel * Q) + slot * kPanel + d % kPanel;
    store(out, (load<VF>(high + d) - load<VF>(centre + d)) + load<VF>(low + d));
  }
}

// x'y' - |y'|^2 / 2 for Q queries and one tile.
template <int Q>
inline void dot_tile(const float* x, const float* tile, int dim, VF (&acc)[Q][2]) {
  VF n0 = load<VF>(tile + dim * kTile), n1 = load<VF>(tile + dim * kTile + kLanes);
  for (int q = 0; q < Q; ++q) acc[q][0] = n0, acc[q][1] = n1;
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
  int n_active;          // bandwidths that matter to some query of the batch
  int active[kMaxBandwidths];
};

// Adds 2^exponent of one tile to the sums of the batch.
template <int Q, bool Weighted, bool Excluding>
inline void add_tile(const Item& it, const Batch& batch, const float* tile, int first_lane) {
  const int dim = static_cast<int>(it.problem.queries.dim);
  VF acc[Q][2];
  dot_tile<Q>(it.s.centred, tile, dim, acc);
  VF w0{}, w1{};
  if (Weighted) {
    w0 = load<VF>(tile + (dim + 1) * kTile);
    w1 = load<VF>(tile + (dim + 1) * kTile + kLanes);
  }
  for (int a = 0; a < batch.n_active; ++a) {
    const int h = batch.active[a];
    const float scale = static_cast<float>(it.problem.scale[h]);
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

template <int Q>
inline void start_batch(const Item& it, const int* queries, int count, Batch& batch) {
  const int b = batch.block;
  batch.n_active = 0;
  for (int i = 0; i < Q; ++i) {
    batch.query[i] = queries[i < count ? i : count - 1];
    batch.excluded[i] = it.excluded_lane(batch.query[i], b);
    centre_query<Q>(it, batch.query[i], b, i);
  }
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    bool matters = false;
    for (int i = 0; i < Q; ++i) {
      int q = batch.query[i];
      bool on = !it.problem.skip || it.shortfall(h, q, b) <= it.skip_bits;
      double bias = it.chunk.top_weight[b] - it.norm2(q)[b] * it.half_scale(h) - it.shift(h, q);
      it.s.bias[h * Q + i] = on ? static_cast<float>(bias) : -__builtin_inff();
      matters |= on;
    }
    if (!matters) continue;
    batch.active[batch.n_active++] = h;
    for (int i = 0; i < Q; ++i) store(it.s.sums + (h * Q + i) * kLanes, VF{});
  }
}

template <int Q>
inline void finish_batch(const Item& it, const Batch& batch, int count) {
  for (int a = 0; a < batch.n_active; ++a) {
    int h = batch.active[a];
    for (int i = 0; i < count; ++i)
      it.row(h, batch.query[i])[it.chunk.label[batch.block]] +=
          sum_lanes<float>(load<VF>(it.s.sums + (h * Q + i) * kLanes));
  }
}

template <int Q, bool Weighted, bool Excluding>
__attribute__((noinline)) void add_tiles(const Item& it, const Batch& batch) {
  const int64_t floats = (it.problem.queries.dim + 1 + Weighted) * kTile;
  const float* tile = it.chunk.tiles + it.chunk.tile_offset[batch.block];
  for (int lane = 0; lane < it.chunk.count[batch.block]; lane += kTile, tile += floats)
    add_tile<Q, Weighted, Excluding>(it, batch, tile, lane);
}

// Adds a block of references to the sums of `count` <= Q queries.
template <int Q>
inline void add_batch(const Item& it, int b, const int* queries, int count) {
  Batch batch;
  batch.block = b;
  start_batch<Q>(it, queries, count, batch);
  bool excluding = false;
  for (int i = 0; i < count; ++i) excluding |= batch.excluded[i] >= 0;
  if (it.chunk.log_weight)
    excluding ? add_tiles<Q, true, true>(it, batch) : add_tiles<Q, true, false>(it, batch);
  else
    excluding ? add_tiles<Q, false, true>(it, batch) : add_tiles<Q, false, false>(it, batch);
  finish_batch<Q>(it, batch, count);
}

inline void add_block_single(const Item& it, int b, const int* queries, int count) {
  while (count > 0) {
    bool wide = count > 2 * kSmallBatch;
    int taken = wide ? kBatch : kSmallBatch;
    if (taken > count) taken = count;
    if (wide)
      add_batch<kBatch>(it, b, queries, taken);
    else
      add_batch<kSmallBatch>(it, b, queries, taken);
    queries += taken, count -= taken;
  }
}

// The largest exponent of query q in block b, per bandwidth, into the shifts where it is larger.
inline void raise_shift_single(const Item& it, int q, int b) {
  const int dim = static_cast<int>(it.problem.queries.dim), out = it.excluded_lane(q, b);
  const bool weighted = it.chunk.log_weight != nullptr;
  const int64_t floats = (dim + 1 + weighted) * kTile;
  const float* tile = it.chunk.tiles + it.chunk.tile_offset[b];
  float* tops = it.s.sums;
  const VF none = VF{} - __builtin_inff();
  for (int h = 0; h < it.problem.n_bandwidths; ++h) store(tops + h * kLanes, none);
  centre_query<1>(it, q, b, 0);
  for (int lane = 0; lane < it.chunk.count[b]; lane += kTile, tile += floats) {
    VF acc[1][2];
    dot_tile<1>(it.s.centred, tile, dim, acc);
    for (int part = 0; part < 2; ++part) {
      VI kept = lane_numbers() + (lane + part * kLanes) != out;
      for (int h = 0; h < it.problem.n_bandwidths; ++h) {
        VF e = acc[0][part] * static_cast<float>(it.problem.scale[h]);
        if (weighted) e += load<VF>(tile + (dim + 1) * kTile + part * kLanes);
        e = kept ? e : none;
        store(tops + h * kLanes, largest(e, load<VF>(tops + h * kLanes)));
      }
    }
  }
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    double base = it.chunk.top_weight[b] - it.norm2(q)[b] * it.half_scale(h);
    double top = base + max_lanes<float>(load<VF>(tops + h * kLanes));
    if (top > it.shift(h, q)) it.shift(h, q) = top;
  }
}

}  // namespace KDEY_ISA
}  // namespace kdey
