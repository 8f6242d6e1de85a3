// What the parts of a work item share: the views, and which blocks matter to which query.
#pragma once
#include "kernel_simd.hpp"

namespace kdey {
namespace KDEY_ISA {

// Errors allowed in exp(l_ji - max_i l_ji). Skipped references add at most 2^-kSkipBits per class;
// a float32 exponent may err by kFloatError (log2 units).
constexpr double kSkipBits = 26.0, kSkipBitsDouble = 46.0;
constexpr double kFloatError = 3e-5;
constexpr double kHeadroom = 100.0;  // largest exponent above the shift: 2^127 is float32's end

enum Mode : uint8_t { kSkipped = 0, kFloat = 1, kDouble = 3 };

struct Item {
  const Problem& problem;
  const Chunk& chunk;
  const Group& group;
  Scratch& s;
  double error_unit;  // error of a float32 exponent per unit of scale * (|x - c|^2 + radius^2)
  double skip_bits;

  double& shift(int h, int q) const { return s.shift[h * kGroup + q]; }
  double half_scale(int h) const { return 0.5 * problem.scale[h]; }
  double* row(int h, int q) const {
    return problem.out + (h * problem.n_queries + group.rows[q]) * problem.n_classes;
  }
  const float* nearest2(int q) const { return s.nearest2 + int64_t{q} * chunk.stride; }
  const float* norm2(int q) const { return s.norm2 + int64_t{q} * chunk.stride; }
  uint8_t* mode(int q) const { return s.mode + int64_t{q} * chunk.stride; }

  // Bits by which all of a class's references, were they as near as block b may be, would fall
  // short of the shift: what the block adds to the class is at most 2^-shortfall.
  double shortfall(int h, int q, int b) const {
    return nearest2(q)[b] * half_scale(h) + shift(h, q) - chunk.top_weight[b] - chunk.log_count[b];
  }
  double float_error(int h, int q, int b) const {
    return error_unit * (problem.scale[h] * (double{norm2(q)[b]} + chunk.radius2[b]) +
                         chunk.weight_span[b]);
  }
  int excluded_lane(int q, int b) const { return s.skip_block[q] == b ? s.skip_lane[q] : -1; }
};

}  // namespace KDEY_ISA
}  // namespace kdey
