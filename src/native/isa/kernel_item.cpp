// One work item: a group of queries against all blocks of a chunk.
#include "kernel_double.hpp"
#include "kernel_single.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

// Beyond this a scale is infinite in float32, and infinity times the distance of a point to itself
// is no number: such bandwidths (below 1e-18) are left to float64.
constexpr double kLargestScale = 1e36;
constexpr double kLog2e = 1.44269504088896340736, kLn2 = 0.693147180559945309417;

template <class T>
void load_query(const Item& it, int q) {
  const int64_t dim = it.problem.queries.dim, padded = it.chunk.padded_dim;
  const T* row = static_cast<const T*>(it.problem.queries.data) + it.group.rows[q] * dim;
  double* x = it.s.x + q * dim;
  float *high = it.s.x_high + q * padded, *low = it.s.x_low + q * padded;
  for (int64_t d = 0; d < dim; ++d) {
    x[d] = row[d];
    high[d] = static_cast<float>(row[d]);
    low[d] = static_cast<float>(row[d] - high[d]);
  }
  for (int64_t d = dim; d < padded; ++d) high[d] = low[d] = 0.0f;
}

// Squared distances of kTogether queries from q on to every block's box (never too large) and
// centre. Several queries share the loads; those past the group's end are computed idly.
constexpr int kTogether = 4;
static_assert(kGroup % kTogether == 0, "queries past the group's end need room");
void bound_blocks(const Item& it, int q) {
  const int dim = static_cast<int>(it.problem.queries.dim);
  const int64_t stride = it.chunk.stride, padded = it.chunk.padded_dim;
  const float *low = it.chunk.low, *high = it.chunk.high, *middle = it.chunk.centre;
  const float *x = it.s.x_high + q * padded, *rest = it.s.x_low + q * padded;
  const float deflate = 1.0f - (dim + 8) * 0x1p-23f;
  for (int64_t b = 0; b < stride; b += kLanes) {
    VF box[kTogether] = {}, centre[kTogether] = {};
    for (int d = 0; d < dim; ++d) {
      VF l = load<VF>(low + d * stride + b), u = load<VF>(high + d * stride + b);
      VF c = load<VF>(middle + d * stride + b);
#pragma GCC unroll 4
      for (int i = 0; i < kTogether; ++i) {
        const float v = x[i * padded + d];
        VF gap = v - smallest(largest(VF{} + v, l), u), off = (v - c) + rest[i * padded + d];
        box[i] += gap * gap;
        centre[i] += off * off;
      }
    }
    for (int i = 0; i < kTogether; ++i) {
      store(it.s.nearest2 + (q + i) * stride + b, box[i] * deflate);
      store(it.s.norm2 + (q + i) * stride + b, centre[i]);
    }
  }
}

// The block of the largest cap - (distance to the box + share * distance to the centre) among those
// with a finite cap, and this largest value. At share 0 it bounds query q's exponents.
int likeliest_block(const Item& it, int h, int q, float share, double* value) {
  VD best = VD{} - __builtin_inf();
  VL where = VL{} - 1, here;
  for (int i = 0; i < kDoubles; ++i) here[i] = i;
  const float *nearest2 = it.nearest2(q), *norm2 = it.norm2(q);
  for (int b = 0; b < it.chunk.stride; b += kDoubles, here += kDoubles) {
    VD d2 = widen(nearest2 + b) + widen(norm2 + b) * share;
    VD v = load<VD>(it.s.cap + b) - d2 * it.half_scale(h);
    VL better = v > best;
    best = better ? v : best;
    where = better ? here : where;
  }
  int winner = 0;
  for (int i = 1; i < kDoubles; ++i)
    if (best[i] > best[winner]) winner = i;
  *value = best[winner];
  return static_cast<int>(where[winner]);
}

// The largest log-sum of earlier chunks, in log2 units.
double earlier_top(const Item& it, int h, int q) {
  double top = -__builtin_inf();
  if (!it.problem.resumed) return top;
  const double* row = it.row(h, q);
  for (int64_t i = 0; i < it.problem.n_classes; ++i)
    if (row[i] > top) top = row[i];
  return top * kLog2e;
}

// Whether an exponent of block b may be so far above the shift that its power overflows.
bool may_overflow(const Item& it, int q, int b) {
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    const double bound = it.chunk.top_weight[b] - it.nearest2(q)[b] * it.half_scale(h);
    if (bound > it.shift(h, q) + kHeadroom) return true;
  }
  return false;
}

template <bool Weighted>
void look_into_single(const Item& it, int q, int b) {
  constexpr int part = 64;  // of a large block, unless that cannot be enough
  static_assert(part % kTile == 0, "a part is whole tiles");
  const int count = it.chunk.count[b];
  raise_shift_single<Weighted>(it, q, b, 0, part < count ? part : count);
  if (part < count && may_overflow(it, q, b)) raise_shift_single<Weighted>(it, q, b, part, count);
}

void look_into(const Item& it, int q, int b) {
  double worst = 0.0;
  for (int h = 0; h < it.problem.n_bandwidths; ++h)
    worst = it.problem.scale[h] > worst ? it.problem.scale[h] : worst;
  double error = it.dot_unit * worst * (double{it.norm2(q)[b]} + it.chunk.radius2[b]);
  // A shift need not be closer than that.
  if (it.problem.double_mode || worst > kLargestScale || !(error < 1.0))
    raise_shift_double(it, q, b);
  else if (it.chunk.log_weight)
    look_into_single<true>(it, q, b);
  else
    look_into_single<false>(it, q, b);
}

// Looks into one block, then into others until none left can hold an exponent far above the shift.
// The shift is thus near the row's largest exponent; it need not be exact. Boxes overlap, so the
// first choice also looks at the centres.
void find_shift(const Item& it, int q) {
  for (int b = 0; b < it.chunk.stride; ++b) it.s.cap[b] = it.chunk.top_weight[b];
  for (int h = 0; h < it.problem.n_bandwidths; ++h) it.shift(h, q) = earlier_top(it, h, q);
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    for (;;) {
      double bound;
      const bool first = it.shift(h, q) == -__builtin_inf();
      int b = likeliest_block(it, h, q, first ? 0.3f : 0.0f, &bound);
      if (b < 0 || (!first && bound <= it.shift(h, q) + kHeadroom)) break;
      it.s.cap[b] = -__builtin_inf();
      look_into(it, q, b);
    }
  }
}

// Turns the log-sums of earlier chunks into sums relative to the shift.
void open_rows(const Item& it, int q) {
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    double* row = it.row(h, q);
    const double shift = it.shift(h, q);
    const bool kept = it.problem.resumed && shift > -__builtin_inf();
    for (int64_t i = 0; i < it.problem.n_classes; ++i)
      row[i] = kept ? exp2(row[i] * kLog2e - shift) : 0.0;
  }
}

void close_rows(const Item& it, int q) {
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    double* row = it.row(h, q);
    for (int64_t i = 0; i < it.problem.n_classes; ++i)
      row[i] = row[i] > 0 ? (log2(row[i]) + it.shift(h, q)) * kLn2 : -__builtin_inf();
  }
}

VD every(Mode mode) { return VD{} + static_cast<double>(mode); }

// Which of kDots, kDifferences and kDouble holds the error of the exponents to `allowed`, for
// kDoubles blocks. Differences err in proportion to the distance; `reach2` bounds those of
// the references that count. Rounding the coordinates moves an exponent by about
// 0.7 * 2^-24 scale sqrt(reach2 * length2), and 0.7 sqrt(a b) <= 2.9 a + b / 24.
VD exact_enough(const Item& it, double scale, VD length2, VD span, VD allowed, VD reach2) {
  VD left = allowed - span * 0x1p-24;
  VD fine = (reach2 * it.difference_unit + length2 * (0x1p-24 / 24)) * scale;
  VD mode = fine <= left ? every(kDifferences) : every(kDouble);
  return length2 * (scale * it.dot_unit) <= left ? every(kDots) : mode;
}

// Skips blocks that cannot matter and finds the cheapest arithmetic for the others. `bits` is how
// far all of a class's references, were they as near as the block may be, would fall short of the
// shift: what the block adds to the class is at most 2^-bits. An error counts by that share; the
// polynomial is the start of 2^bits' series and so on the safe side.
void choose_modes(const Item& it, int q) {
  const Chunk chunk = it.chunk;  // a copy, here and below: stores might change the original
  const float *nearest2 = it.nearest2(q), *norm2 = it.norm2(q);
  const bool always_double = it.problem.double_mode;
  const double skip_bits = it.problem.skip ? it.skip_bits : __builtin_inf();
  double* mode = it.s.cap;  // no longer needed there
  for (int b = 0; b < chunk.stride; ++b) mode[b] = kSkipped;
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    const double shift = it.shift(h, q), scale = it.problem.scale[h], inverse = 2.0 / scale;
    const bool plain = !always_double && scale <= kLargestScale;
    if (shift == -__builtin_inf()) continue;
    for (int b = 0; b < chunk.n_blocks; b += kDoubles) {
      VD above = load<VD>(chunk.top_weight + b) - shift;
      VD bits = widen(nearest2 + b) * (0.5 * scale) - above - load<VD>(chunk.log_count + b);
      VL matters = bits <= skip_bits;
      if (!any(matters)) continue;
      VD length2 = widen(norm2 + b) + widen(chunk.radius2 + b);
      VD span = widen(chunk.weight_span + b);
      VD z = largest(bits, VD{}) * kLn2;
      VD series = ((z * (1.0 / 720) + 1.0 / 120) * z + 1.0 / 24) * z + 1.0 / 6;
      VD allowed = (((series * z + 0.5) * z + 1.0) * z + 1.0) * kFloatError;
      VD reach2 = largest(above + kReachBits, VD{}) * inverse;
      VD found = exact_enough(it, scale, length2, span, allowed, reach2);
      if (!plain) found = every(kDouble);
      store(mode + b, largest(matters ? found : VD{}, load<VD>(mode + b)));
    }
  }
  int32_t whole[kMaxBlocks];
  for (int b = 0; b < chunk.n_blocks; b += kDoubles)
    store(whole + b, __builtin_convertvector(load<VD>(mode + b), VW));
  const int64_t width = it.s.width;
  uint8_t* out = it.s.mode + q;
  for (int b = 0; b < chunk.n_blocks; ++b, out += width) *out = static_cast<uint8_t>(whole[b]);
}

// The queries of the group that meet a block in float32.
struct Meeting {
  int dots[kGroup], differences[kGroup];
  int n_dots = 0, n_differences = 0;
};

void add_block(const Item& it, int b) {
  constexpr int word = 8;
  constexpr uint64_t all_dots = 0x0101010101010101u * kDots;
  const uint8_t* modes = it.s.mode + int64_t{b} * it.s.width;
  Meeting m;
  for (int start = 0; start < it.group.size; start += word) {
    const uint64_t several = load<uint64_t>(modes + start);
    if (several == 0) continue;
    if (several == all_dots && start + word <= it.group.size) {
      for (int i = 0; i < word; ++i) m.dots[m.n_dots + i] = start + i;
      m.n_dots += word;
      continue;
    }
    for (int q = start; q < start + word && q < it.group.size; ++q) {
      m.dots[m.n_dots] = m.differences[m.n_differences] = q;
      m.n_dots += modes[q] == kDots;
      m.n_differences += modes[q] == kDifferences;
      if (modes[q] == kDouble) add_block_double(it, q, b);
    }
  }
  if (m.n_dots + m.n_differences == 0) return;
  // Two sums per pair of differences, so half as many queries fit into the registers.
  constexpr int few = kRegisterRows / 2;
  add_block_single<kDots, kBatch>(it, b, m.dots, m.n_dots);
  add_block_single<kDifferences, few>(it, b, m.differences, m.n_differences);
}

// Modes are read eight at a time: those past the group's end are no query's.
void end_modes(const Item& it) {
  for (int b = 0; b < it.chunk.n_blocks; ++b)
    for (int q = it.group.size; q % 8 != 0; ++q) it.s.mode[int64_t{b} * it.s.width + q] = kSkipped;
}

void run_group(const Problem& problem, const Chunk& chunk, const Group& group, Scratch& s) {
  // Rounding errors of a sum of D terms reach D/2 times 2^-24 where all terms are alike, and they
  // are: most log-ratios of a sure posterior are the same number.
  const double unit = 0x1p-24, dim = static_cast<double>(problem.queries.dim);
  Item it{problem,
          chunk,
          group,
          s,
          unit * (2.0 + dim / 4),
          unit * (4.0 + dim / (4 * kRunDims)),
          problem.double_mode ? kSkipBitsDouble : kSkipBits};
  s.block_held = -1;
  for (int q = 0; q < group.size; ++q)
    problem.queries.is_double ? load_query<double>(it, q) : load_query<float>(it, q);
  for (int q = 0; q < group.size; q += kTogether) bound_blocks(it, q);
  for (int q = 0; q < group.size; ++q) {
    find_shift(it, q);
    open_rows(it, q);
    choose_modes(it, q);
  }
  end_modes(it);
  for (int b = 0; b < chunk.n_blocks; ++b) add_block(it, b);
  for (int q = 0; q < group.size; ++q) close_rows(it, q);
}

}  // namespace

extern const KernelIsa kernel;
const KernelIsa kernel = {kLanes, kTile, kBatch, run_group};

}  // namespace KDEY_ISA
}  // namespace kdey
