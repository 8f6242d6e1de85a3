// One work item: a group of queries against all blocks of a chunk.
#include "kernel_double.hpp"
#include "kernel_single.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

constexpr double kLog2e = 1.44269504088896340736, kLn2 = 0.693147180559945309417;

void load_query(const Item& it, int q) {
  const Points& points = it.problem.queries;
  const int64_t dim = points.dim, padded = it.chunk.padded_dim, row = it.group.rows[q];
  for (int64_t d = 0; d < padded; ++d) {
    double v = 0.0;
    if (d < dim) {
      v = points.is_double ? static_cast<const double*>(points.data)[row * dim + d]
                           : static_cast<const float*>(points.data)[row * dim + d];
      it.s.x[q * dim + d] = v;
    }
    float high = static_cast<float>(v);
    it.s.x_high[q * padded + d] = high;
    it.s.x_low[q * padded + d] = static_cast<float>(v - high);
  }
}

// Squared distances to every block's box (never too large) and centre.
void bound_blocks(const Item& it, int q) {
  const int dim = static_cast<int>(it.problem.queries.dim), stride = it.chunk.stride;
  const float* high = it.s.x_high + int64_t{q} * it.chunk.padded_dim;
  const float* low = it.s.x_low + int64_t{q} * it.chunk.padded_dim;
  const float deflate = 1.0f - (dim + 8) * 0x1p-23f;
  for (int b = 0; b < stride; b += kLanes) {
    VF box{}, centre{};
    for (int d = 0; d < dim; ++d) {
      const int64_t p = int64_t{d} * stride + b;
      VF gap = largest(load<VF>(it.chunk.low + p) - high[d], high[d] - load<VF>(it.chunk.high + p));
      gap = largest(gap, VF{});
      VF u = (high[d] - load<VF>(it.chunk.centre + p)) + low[d];
      box += gap * gap;
      centre += u * u;
    }
    store(it.s.nearest2 + int64_t{q} * stride + b, box * deflate);
    store(it.s.norm2 + int64_t{q} * stride + b, centre);
  }
}

// The block, among those with a finite cap, that may hold query q's largest exponent; that bound.
int likeliest_block(const Item& it, int h, int q, double* bound) {
  VD best = VD{} - __builtin_inf();
  VL where = VL{} - 1, here;
  for (int i = 0; i < kDoubles; ++i) here[i] = i;
  for (int b = 0; b < it.chunk.stride; b += kDoubles, here += kDoubles) {
    VD v = load<VD>(it.s.cap + b) - widen(it.nearest2(q) + b) * it.half_scale(h);
    VL better = v > best;
    best = better ? v : best;
    where = better ? here : where;
  }
  int winner = 0;
  for (int i = 1; i < kDoubles; ++i)
    if (best[i] > best[winner]) winner = i;
  *bound = best[winner];
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

void look_into(const Item& it, int q, int b) {
  bool fine = !it.problem.double_mode;
  for (int h = 0; h < it.problem.n_bandwidths; ++h) fine &= it.float_error(h, q, b) < 1.0;
  if (fine)
    raise_shift_single(it, q, b);
  else
    raise_shift_double(it, q, b);
}

// Looks into the likeliest blocks until no other can hold an exponent far above the shift. The
// shift is thus near the row's largest exponent; it need not be exact.
void find_shift(const Item& it, int q) {
  for (int b = 0; b < it.chunk.stride; ++b) it.s.cap[b] = it.chunk.top_weight[b];
  for (int h = 0; h < it.problem.n_bandwidths; ++h) it.shift(h, q) = earlier_top(it, h, q);
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    for (;;) {
      double bound;
      int b = likeliest_block(it, h, q, &bound);
      if (b < 0 || bound <= it.shift(h, q) + kHeadroom) break;
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

// Skips blocks that cannot matter and sends to float64 those whose float32 error could. An error
// counts by the share of the row that the block can hold, at most 2^-shortfall; the polynomial is
// the start of 2^shortfall's series and so on the safe side.
void choose_modes(const Item& it, int q) {
  uint8_t* mode = it.mode(q);
  for (int b = 0; b < it.chunk.n_blocks; ++b) mode[b] = kSkipped;
  for (int h = 0; h < it.problem.n_bandwidths; ++h) {
    if (it.shift(h, q) == -__builtin_inf()) continue;
    for (int b = 0; b < it.chunk.n_blocks; ++b) {
      double bits = it.shortfall(h, q, b), z = bits > 0 ? bits * kLn2 : 0.0;
      double allowed = kFloatError * (1.0 + z * (1.0 + z * (0.5 + z * (1.0 / 6.0))));
      bool matters = !it.problem.skip || bits <= it.skip_bits;
      bool coarse = it.problem.double_mode || !(it.float_error(h, q, b) <= allowed);
      mode[b] |= matters ? (coarse ? kDouble : kFloat) : kSkipped;
    }
  }
}

void add_blocks(const Item& it) {
  for (int b = 0; b < it.chunk.n_blocks; ++b) {
    int single[kGroup], count = 0;
    for (int q = 0; q < it.group.size; ++q) {
      uint8_t mode = it.mode(q)[b];
      if (mode == kFloat) single[count++] = q;
      if (mode == kDouble) add_block_double(it, q, b);
    }
    add_block_single(it, b, single, count);
  }
}

void run_group(const Problem& problem, const Chunk& chunk, const Group& group, Scratch& s) {
  // Rounding errors of a dot product grow like the root of its length.
  double error_unit = 0x1p-24 * (1.5 + 0.25 * sqrt(static_cast<double>(problem.queries.dim)));
  Item it{problem, chunk, group, s, error_unit,
          problem.double_mode ? kSkipBitsDouble : kSkipBits};
  s.block_held = -1;
  for (int q = 0; q < group.size; ++q) {
    load_query(it, q);
    bound_blocks(it, q);
    find_shift(it, q);
    open_rows(it, q);
    choose_modes(it, q);
  }
  add_blocks(it);
  for (int q = 0; q < group.size; ++q) close_rows(it, q);
}

}  // namespace

extern const KernelIsa kernel;
const KernelIsa kernel = {kLanes, kTile, kBatch, run_group};

}  // namespace KDEY_ISA
}  // namespace kdey
