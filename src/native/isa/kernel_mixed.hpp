// float32: the tiles of a block with products and powers mixed.
//
// The products of a register block end all at once, and none of them can be done while its powers
// wait for each other. Therefore the powers of one register block are computed in between the
// products of the next, a step at a time: a row of powers for every few coordinates.
#pragma once
#include "kernel_tiles.hpp"

namespace kdey {
namespace KDEY_ISA {

// What a row of powers is mixed with: at least so many coordinates, or it is not worth it, and at
// most so many.
constexpr int kFewestMixed = 2, kMostMixed = 7;

// Steps of a power stay where they are, between products.
KDEY_INLINE void keep_place(VF& v) {
#if defined(__clang__) && (defined(KDEY_ISA_avx512) || defined(KDEY_ISA_avx2))
  asm volatile("" : "+v"(v));
#else
  (void)v;
#endif
}

// The powers of one query and two vectors of references, in steps: a load, those of the power, and
// the sum, for one vector and then for the other.
constexpr int kVectorSteps = kPowerSteps + 2, kRowSteps = 2 * kVectorSteps;
struct PowerRow {
  const float* waiting;  // [2][kLanes] exponents without the bias
  float bias;
  Power power;
  VF sum;
};

template <int step, bool Bounded>
KDEY_INLINE void take_row_step(PowerRow& row) {
  constexpr int part = step / kVectorSteps, i = step % kVectorSteps;
  if constexpr (i == 0)
    row.power.e = started<Bounded>(load<VF>(row.waiting + part * kLanes) + row.bias);
  if constexpr (i > 0 && i <= kPowerSteps) take_step<i - 1, Bounded>(row.power);
  if constexpr (i == 0) keep_place(row.power.e);
  if constexpr (i == 1) keep_place(row.power.rest);
  if constexpr (i > 1 && i <= kPowerSteps) keep_place(row.power.factor);
  if constexpr (i > kPowerSteps) row.sum = add_power(row.sum, row.power);
}

template <int step, int end, bool Bounded>
KDEY_INLINE void take_row_steps(PowerRow& row) {
  if constexpr (step < end) {
    take_row_step<step, Bounded>(row);
    take_row_steps<step + 1, end, Bounded>(row);
  }
}

// The products of coordinates d to D, between which all steps of a row are taken.
template <int R, int D, bool Bounded, int d = 0>
KDEY_INLINE void mix_row(const float* x, const float* tile, VF (&acc)[R][2], PowerRow& row) {
  if constexpr (d < D) {
    add_products<R>(x + d, tile + d * kTile, acc);
    take_row_steps<d * kRowSteps / D, (d + 1) * kRowSteps / D, Bounded>(row);
    mix_row<R, D, Bounded, d + 1>(x, tile, acc, row);
  }
}

// A register block's exponents, less the biases, that wait for their powers.
template <int R>
struct Waiting {
  alignas(64) float exponents[R][2][kLanes];
  Exponents to;

  KDEY_INLINE void put(const VF (&acc)[R][2], Exponents where) {
#pragma GCC unroll 12
    for (int q = 0; q < R; ++q)
      store(exponents[q][0], acc[q][0]), store(exponents[q][1], acc[q][1]);
    to = where;
  }
};

// The products of a register block with a tile, and the powers of the one that waits.
template <int R, int D, bool Bounded>
KDEY_INLINE void mix_tile(Centred x, const float* tile, int dim, float norm_factor,
                          const Waiting<R>& waiting, VF (&acc)[R][2]) {
  static_assert(R * D <= kPanel, "rows are mixed within the first panel");
  clear<R>(acc);
#pragma GCC unroll 12
  for (int q = 0; q < R; ++q) {
    float* sums = waiting.to.sums + q * kLanes;
    PowerRow row{waiting.exponents[q][0], waiting.to.bias[q], {}, load<VF>(sums)};
    mix_row<R, D, Bounded>(x.at + q * D, tile + q * D * kTile, acc, row);
    store(sums, row.sum);
  }
  add_dots<R>(x, tile + R * D * kTile, R * D, dim, norm_factor, acc);
}

// A batch and a block.
struct MixedTiles {
  Centred x;
  const float* tiles;
  int dim, count, batch;
  float norm_factor;
  Exponents to;

  const float* tile(int t) const { return tiles + int64_t{t} * (dim + 1) * kTile; }
  Centred rows(int first) const { return {x.at + first * kPanel, x.panel}; }
};

// The last tile's padding lanes have infinite exponents, which makes it no different from tiles
// that are not Bounded.
template <int R, int D, bool Bounded>
__attribute__((noinline)) void add_mixed_tiles(const MixedTiles& original) {
  const MixedTiles all = original;  // a copy: stores might change it
  const int whole = all.count / kTile, n_tiles = Bounded ? whole : (all.count + kTile - 1) / kTile;
  const VF none[2] = {};
  VF acc[R][2];
  if (n_tiles > 0) {
    Waiting<R> waiting;
    dot_tile<R>(all.x, all.tiles, all.dim, all.norm_factor, acc);
    waiting.put(acc, all.to);
    for (int t = 0, first = R; t < n_tiles; ++t, first = 0)
      for (; first < all.batch; first += R) {
        mix_tile<R, D, Bounded>(all.rows(first), all.tile(t), all.dim, all.norm_factor, waiting,
                                acc);
        waiting.put(acc, all.to.from(first));
      }
    add_powers<R, Bounded, false, false>(acc, waiting.to, none, nullptr, 0);
  }
  if (n_tiles * kTile >= all.count) return;
  for (int first = 0; first < all.batch; first += R) {
    dot_tile<R>(all.rows(first), all.tile(whole), all.dim, all.norm_factor, acc);
    add_powers<R, false, false, false>(acc, all.to.from(first), none, nullptr, 0);
  }
}

template <int R, bool Bounded>
inline void add_mixed(const MixedTiles& all) {
  static_assert(kFewestMixed == 2 && kMostMixed == 7, "one case for each");
  switch (all.dim / R) {
    case 2: return add_mixed_tiles<R, 2, Bounded>(all);
    case 3: return add_mixed_tiles<R, 3, Bounded>(all);
    case 4: return add_mixed_tiles<R, 4, Bounded>(all);
    case 5: return add_mixed_tiles<R, 5, Bounded>(all);
    case 6: return add_mixed_tiles<R, 6, Bounded>(all);
    default: return add_mixed_tiles<R, 7, Bounded>(all);
  }
}

}  // namespace KDEY_ISA
}  // namespace kdey
