// float32: a register block of queries against the tiles of one block of references.
//
// With x' = x - c and y' = y - c for the block's centre c, an exponent is
//   dots:         scale (x'y' - |y'|^2 / 2) + log2 w + bias,  bias = -scale |x'|^2 / 2 - shift,
//   differences: -scale |x' - y'|^2 / 2 + log2 w + bias,      bias = -shift,
// where log2 w is counted from the block's largest weight, which joins the bias. With one bandwidth
// its scale multiplies x' and the norms of y' instead of the dots.
#pragma once
#include "kernel_mixed.hpp"

namespace kdey {
namespace KDEY_ISA {

// What multiplies dot products before they are summed.
inline float dot_factor(const Item& it) {
  return it.scaled() ? static_cast<float>(it.problem.scale[0]) : 1.0f;
}

// x' of the queries of a batch, for block b, times a factor.
template <int Q>
inline void centre_queries(const Item& it, int b, const int* queries, float factor) {
  // Local copies, here and below: stores through float pointers might change the structs.
  const int padded = it.chunk.padded_dim;
  const float* centre = it.chunk.centre_rows + int64_t{b} * padded;
  const float *all_high = it.s.x_high, *all_low = it.s.x_low;
  float* out = it.s.centred;
  for (int i = 0; i < Q; ++i, out += kPanel) {
    const int64_t at = int64_t{queries[i]} * padded;
    const float *high = all_high + at, *low = all_low + at;
    for (int start = 0; start < padded; start += kPanel) {
      float* panel = out + start * Q;
      const int end = padded - start < kPanel ? padded : start + kPanel;
      for (int d = start; d < end; d += kLanes, panel += kLanes) {
        VF off = (load<VF>(high + d) - load<VF>(centre + d)) + load<VF>(low + d);
        store(panel, off * factor);
      }
    }
  }
}

struct Batch {
  int block, size;
  int query[kBatch];     // positions in the group; the last one repeated as filling
  int excluded[kBatch];  // lane left out, or -1
  bool excluding;        // whether any lane is left out
  // Bandwidths that matter to some query: s.active[0..n_active). Those whose exponents cannot
  // leave the range of bounded powers come first.
  int n_bounded, n_active;
};

// Rows of s.bias: whole vectors of float64, for the largest batch.
constexpr int kBiasRow = (kBatch + kLanes - 1) / kLanes * kLanes;

// All tiles of the batch's block, for every bandwidth.
template <int R, Mode mode, bool Weighted, bool Excluding>
__attribute__((noinline)) void add_tiles(const Item& it, const Batch& batch) {
  const int size = batch.size;
  const int dim = static_cast<int>(it.problem.queries.dim), count = it.chunk.count[batch.block];
  const int64_t floats = (dim + 1 + Weighted) * kTile;
  const float* tile = it.chunk.tiles + it.chunk.tile_offset[batch.block];
  const int n_active = batch.n_active;
  const float norm_factor = dot_factor(it);
  Exponents exponents[kMaxBandwidths];
  for (int a = 0; a < n_active; ++a) {
    const int h = it.s.active[a];
    const double factor = mode == kDifferences ? -0.5 * it.problem.scale[h]
                          : it.scaled()        ? 1.0
                                               : it.problem.scale[h];
    exponents[a] = {static_cast<float>(factor), it.s.bias + h * kBiasRow,
                    it.s.sums + h * size * kLanes};
  }
  for (int lane = 0; lane < count; lane += kTile, tile += floats) {
    VF acc[R][2], weight[2] = {};
    for (int part = 0; Weighted && part < 2; ++part)
      weight[part] = load<VF>(tile + (dim + 1) * kTile + part * kLanes);
    // The exponents of padding lanes are infinite.
    const int n_bounded = count - lane >= kTile ? batch.n_bounded : 0;
    for (int first = 0; first < size; first += R) {
      const Centred x{it.s.centred + first * kPanel, kPanel * size};
      if (mode == kDots)
        dot_tile<R>(x, tile, dim, norm_factor, acc);
      else
        difference_tile<R>(x, tile, dim, acc);
      int a = 0;
      for (; a < n_bounded; ++a)
        add_powers<R, true, Weighted, Excluding>(acc, exponents[a].from(first), weight,
                                                 batch.excluded + first, lane);
      for (; a < n_active; ++a)
        add_powers<R, false, Weighted, Excluding>(acc, exponents[a].from(first), weight,
                                                  batch.excluded + first, lane);
    }
  }
}

// The same for a single bandwidth, with products and powers mixed.
template <int R>
__attribute__((noinline)) void add_tiles_mixed(const Item& it, const Batch& batch) {
  const int h = it.s.active[0];
  const MixedTiles tiles{{it.s.centred, kPanel * batch.size},
                         it.chunk.tiles + it.chunk.tile_offset[batch.block],
                         static_cast<int>(it.problem.queries.dim),
                         it.chunk.count[batch.block],
                         batch.size,
                         dot_factor(it),
                         {1.0f, it.s.bias + h * kBiasRow, it.s.sums + h * batch.size * kLanes}};
  if (batch.n_bounded == 1)
    add_mixed<R, true>(tiles);
  else
    add_mixed<R, false>(tiles);
}

// Whether the batch's tiles can be mixed: one bandwidth, nothing that powers need beside exponents,
// and coordinates enough to stand between the powers.
template <int Q, Mode mode>
bool mixable(const Item& it, const Batch& batch) {
  return mode == kDots && mixed_rows(Q) > 0 && it.scaled() && batch.n_active == 1 &&
         !batch.excluding && !it.chunk.log_weight &&
         it.problem.queries.dim >= kFewestMixed * mixed_rows(Q);
}

// What the biases of a batch rest on. Lanes past the batch repeat its last query.
template <int Q>
struct Lengths {
  static constexpr int kParts = (Q + kDoubles - 1) / kDoubles;
  VD nearest2[kParts], norm2[kParts];
};

template <int Q>
inline Lengths<Q> batch_lengths(const Item& it, const Batch& batch) {
  Lengths<Q> lengths;
  for (int part = 0; part < Lengths<Q>::kParts; ++part) {
    lengths.norm2[part] = lengths.nearest2[part] = VD{};
    for (int i = 0; i < kDoubles; ++i) {
      const int lane = part * kDoubles + i, q = batch.query[lane < Q ? lane : Q - 1];
      lengths.norm2[part][i] = it.norm2(q)[batch.block];
      if (it.choosing()) lengths.nearest2[part][i] = it.nearest2(q)[batch.block];
    }
  }
  return lengths;
}

struct Reach {
  bool matters;  // to any query of the batch
  bool bounded;  // all exponents lie within the range of bounded powers
};

// The biases of one bandwidth, -inf for a query to which the block does not matter.
template <int Q, Mode mode>
inline Reach fill_bias(const Item& it, const Batch& batch, const Lengths<Q>& lengths, int h) {
  const int b = batch.block;
  constexpr double lowest = kLowest + 1.0;  // leaves room for rounding
  const double half = it.half_scale(h), top = it.chunk.top_weight[b];
  const double far = it.choosing() ? top + it.chunk.log_count[b] + it.skip_bits : __builtin_inf();
  // The farthest reference of the block is at most 2 (norm2 + radius2) away, squared.
  const double edge = lowest - top + it.chunk.weight_span[b] + 2 * half * it.chunk.radius2[b];
  const double* all_shifts = it.s.shift + h * kGroup;
  float* bias = it.s.bias + h * kBiasRow;
  VL some{}, all = VL{} - 1;
  for (int part = 0; part < Lengths<Q>::kParts; ++part) {
    VD shift;
    for (int i = 0; i < kDoubles; ++i) {
      const int lane = part * kDoubles + i;
      shift[i] = all_shifts[batch.query[lane < Q ? lane : Q - 1]];
    }
    VD off = lengths.norm2[part] * half;
    VL on = lengths.nearest2[part] * half + shift <= far;
    VD value = top - shift;
    if (mode == kDots) value -= off;
    value = on ? value : VD{} - __builtin_inf();
    store(bias + part * kDoubles, __builtin_convertvector(value, VH));
    some |= on;
    all &= on & (-2.0 * off - shift > edge);
  }
  for (int i = 0; i < Q; ++i) store(it.s.sums + (h * Q + i) * kLanes, VF{});
  return {any(some), !any(~all)};
}

template <int Q, Mode mode>
inline void start_batch(const Item& it, const int* queries, int count, Batch& batch) {
  batch.excluding = false;
  for (int i = 0; i < Q; ++i) {
    batch.query[i] = queries[i < count ? i : count - 1];
    batch.excluded[i] = it.excluded_lane(batch.query[i], batch.block);
    batch.excluding |= batch.excluded[i] >= 0;
  }
  centre_queries<Q>(it, batch.block, batch.query, mode == kDots ? dot_factor(it) : 1.0f);
  const Lengths<Q> lengths = batch_lengths<Q>(it, batch);
  int unbounded[kMaxBandwidths], n_unbounded = 0, n_bounded = 0;
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    const Reach reach = fill_bias<Q, mode>(it, batch, lengths, h);
    if (!reach.matters) continue;
    if (reach.bounded)
      it.s.active[n_bounded++] = h;
    else
      unbounded[n_unbounded++] = h;
  }
  for (int a = 0; a < n_unbounded; ++a) it.s.active[n_bounded + a] = unbounded[a];
  batch.n_bounded = n_bounded;
  batch.n_active = n_bounded + n_unbounded;
}

template <int Q>
inline void finish_batch(const Item& it, const Batch& batch, int count) {
  const int64_t k = it.problem.n_classes;
  int64_t row[Q];
  for (int i = 0; i < Q; ++i) row[i] = it.group.rows[batch.query[i]] * k;
  for (int a = 0; a < batch.n_active; ++a) {
    const int h = it.s.active[a];
    double* out = it.problem.out + h * it.problem.n_queries * k + it.chunk.label[batch.block];
    float totals[Q];
    sum_rows<Q>(it.s.sums + h * Q * kLanes, totals);
    for (int i = 0; i < count; ++i) out[row[i]] += totals[i];
  }
}

// Adds a block of references to the sums of `count` <= Q queries.
template <int Q, Mode mode>
__attribute__((noinline)) void add_batch(const Item& it, int b, const int* queries, int count) {
  Batch batch;
  constexpr int rows = Q % kRegisterRows == 0 ? kRegisterRows : Q % 4 == 0 ? 4 : Q;
  batch.block = b;
  batch.size = Q;
  start_batch<Q, mode>(it, queries, count, batch);
  if (mixable<Q, mode>(it, batch)) {
    if constexpr (mixed_rows(Q) > 0) add_tiles_mixed<mixed_rows(Q)>(it, batch);
  } else if (it.chunk.log_weight)
    batch.excluding ? add_tiles<rows, mode, true, true>(it, batch)
                    : add_tiles<rows, mode, true, false>(it, batch);
  else
    batch.excluding ? add_tiles<rows, mode, false, true>(it, batch)
                    : add_tiles<rows, mode, false, false>(it, batch);
  finish_batch<Q>(it, batch, count);
}

// Batches of `Wide`, and the rest in the narrowest that holds it.
template <Mode mode, int Wide>
inline void add_block_single(const Item& it, int b, const int* queries, int count) {
  static_assert(Wide % 3 == 0, "batches come in thirds");
  constexpr int third = Wide / 3;
  for (; count > 2 * third; queries += Wide, count -= Wide)
    add_batch<Wide, mode>(it, b, queries, count < Wide ? count : Wide);
  if (count <= 0) return;
  if constexpr (third % 2 == 0) {
    if (count <= third / 2) return add_batch<third / 2, mode>(it, b, queries, count);
    if (count > third && count <= Wide / 2) return add_batch<Wide / 2, mode>(it, b, queries, count);
  }
  if (count > third)
    add_batch<2 * third, mode>(it, b, queries, count);
  else
    add_batch<third, mode>(it, b, queries, count);
}

// x'y' - |y'|^2 / 2 of one query and N tiles, in four chains each: one query alone cannot hide the
// latency of two.
template <int N>
inline void dot_tiles_alone(const float* x, const float* tile, int64_t floats, int dim,
                            VF (&acc)[N][2]) {
  VF odd[N][2] = {};
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < 2; ++part)
      acc[n][part] = load<VF>(tile + n * floats + dim * kTile + part * kLanes);
  int d = 0;
  for (; d + 1 < dim; d += 2, tile += 2 * kTile) {
    const float x0 = x[d], x1 = x[d + 1];
    for (int n = 0; n < N; ++n)
      for (int part = 0; part < 2; ++part) {
        const float* y = tile + n * floats + part * kLanes;
        acc[n][part] += load<VF>(y) * x0;
        odd[n][part] += load<VF>(y + kTile) * x1;
      }
  }
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < 2; ++part) {
      if (d < dim) acc[n][part] += load<VF>(tile + n * floats + part * kLanes) * x[d];
      acc[n][part] += odd[n][part];
    }
}

// The largest exponents of query q, already centred, in N tiles, into `tops`.
template <int N, bool Weighted>
inline void raise_tops(const Item& it, const float* tile, int lane, int excluded, float* tops) {
  const int dim = static_cast<int>(it.problem.queries.dim);
  const int n_tops = Weighted ? it.problem.n_bandwidths : 1;
  const int64_t floats = (dim + 1 + Weighted) * kTile;
  const VF none = VF{} - __builtin_inff();
  VF acc[N][2];
  dot_tiles_alone<N>(it.s.centred, tile, floats, dim, acc);
  for (int n = 0; n < N; ++n)
    for (int part = 0; part < 2; ++part) {
      VI kept = lane_numbers() + (lane + n * kTile + part * kLanes) != excluded;
      for (int h = 0; h < n_tops; ++h) {
        VF e = acc[n][part];
        if (Weighted)
          e = e * static_cast<float>(it.problem.scale[h]) +
              load<VF>(tile + n * floats + (dim + 1) * kTile + part * kLanes);
        store(tops + h * kLanes, largest(kept ? e : none, load<VF>(tops + h * kLanes)));
      }
    }
}

// The largest exponent of query q in block b, from one lane up to another, per bandwidth, into the
// shifts where it is larger. Without weights the nearest reference is the largest for every
// bandwidth.
template <bool Weighted>
inline void raise_shift_single(const Item& it, int q, int b, int lane, int end) {
  const int n_tops = Weighted ? it.problem.n_bandwidths : 1;
  const int64_t floats = (it.problem.queries.dim + 1 + Weighted) * kTile;
  const float* tile = it.chunk.tiles + it.chunk.tile_offset[b] + lane / kTile * floats;
  const int excluded = it.excluded_lane(q, b);
  float* tops = it.s.sums;
  for (int h = 0; h < n_tops; ++h) store(tops + h * kLanes, VF{} - __builtin_inff());
  centre_queries<1>(it, b, &q, 1.0f);
  for (; lane + kTile < end; lane += 2 * kTile, tile += 2 * floats)
    raise_tops<2, Weighted>(it, tile, lane, excluded, tops);
  if (lane < end) raise_tops<1, Weighted>(it, tile, lane, excluded, tops);
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    double top = max_lanes<float>(load<VF>(tops + (Weighted ? h : 0) * kLanes));
    if (!Weighted) top *= it.problem.scale[h];
    top += it.chunk.top_weight[b] - it.norm2(q)[b] * it.half_scale(h);
    if (top > it.shift(h, q)) it.shift(h, q) = top;
  }
}

}  // namespace KDEY_ISA
}  // namespace kdey
