// What the parts of a work item share: the views, and which blocks matter to which query.
#pragma once
#include "kernel_simd.hpp"

namespace kdey {
namespace KDEY_ISA {

// Errors allowed in exp(l_ji - max_i l_ji). Skipped references add at most 2^-kSkipBits per class;
// a float32 exponent may err by kFloatError (log2 units).
constexpr double kSkipBits = 23.0, kSkipBitsDouble = 46.0;
constexpr double kFloatError = 8e-5;
constexpr double kReachBits = 10.0;  // references this far below the shift no longer count
constexpr double kHeadroom = 100.0;  // largest exponent above the shift: 2^127 is float32's end

// How a query meets a block, from the fastest to the most exact: not at all, by float32 dot
// products, by float32 differences (rounding is relative to the distance, not to the norms), by
// float64 differences.
enum Mode : uint8_t { kSkipped = 0, kDots = 1, kDifferences = 2, kDouble = 3 };

struct Item {
  const Problem& problem;
  const Chunk& chunk;
  const Group& group;
  Scratch& s;
  double dot_unit;  // errors of float32 exponents, per unit of scale times squared length
  double difference_unit;
  double skip_bits;

  double& shift(int h, int q) const { return s.shift[h * kGroup + q]; }
  double half_scale(int h) const { return 0.5 * problem.scale[h]; }
  double* row(int h, int q) const {
    return problem.out + (h * problem.n_queries + group.rows[q]) * problem.n_classes;
  }
  const float* nearest2(int q) const { return s.nearest2 + int64_t{q} * chunk.stride; }
  const float* norm2(int q) const { return s.norm2 + int64_t{q} * chunk.stride; }

  // Whether products are scaled by the only bandwidth, and so are exponents already.
  bool scaled() const { return problem.n_bandwidths == 1; }
  // Whether a block that matters to a query may still not matter for one of the bandwidths.
  bool choosing() const { return problem.skip && problem.n_bandwidths > 1; }
  int excluded_lane(int q, int b) const { return s.skip_block[q] == b ? s.skip_lane[q] : -1; }
};

}  // namespace KDEY_ISA
}  // namespace kdey
