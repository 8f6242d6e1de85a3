#include "kernel_order.hpp"

#include <algorithm>
#include <cstring>

namespace kdey {
namespace {
constexpr int64_t kProbes = 32;

// Unsigned integers in the order of the numbers.
uint32_t ordered_bits(double value) {
  float rounded = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
}  // namespace

void SpatialOrder::operator()(int64_t* rows, int64_t count) {
  if (count <= leaf_) return;
  keys_.resize(count);
  copy_.resize(count);
  split(rows, count);
}

void SpatialOrder::split(int64_t* rows, int64_t count) {
  if (count <= leaf_) return;
  int64_t leaves = (count + leaf_ - 1) / leaf_;
  int64_t cut = leaves / 2 * leaf_;
  int64_t d = widest(rows, count);
  for (int64_t i = 0; i < count; ++i) {
    keys_[i] = uint64_t{ordered_bits(points_.at(rows[i], d))} << 32 | static_cast<uint64_t>(i);
    copy_[i] = rows[i];
  }
  std::nth_element(keys_.begin(), keys_.begin() + cut, keys_.begin() + count);
  for (int64_t i = 0; i < count; ++i) rows[i] = copy_[keys_[i] & 0xffffffffu];
  split(rows, cut);
  split(rows + cut, count - cut);
}

// The coordinate of largest variance, from at most kProbes of the rows: a good split is enough.
int64_t SpatialOrder::widest(const int64_t* rows, int64_t count) {
  const int64_t dim = points_.dim, step = (count + kProbes - 1) / kProbes;
  origin_.resize(dim);
  for (int64_t d = 0; d < dim; ++d) origin_[d] = points_.at(rows[0], d);
  sum_.assign(dim, 0.0);
  squares_.assign(dim, 0.0);
  int64_t used = 1;
  for (int64_t i = step; i < count; i += step, ++used) {
    for (int64_t d = 0; d < dim; ++d) {
      double v = points_.at(rows[i], d) - origin_[d];
      sum_[d] += v;
      squares_[d] += v * v;
    }
  }
  int64_t best = 0;
  double best_spread = -1.0;
  for (int64_t d = 0; d < dim; ++d) {
    double spread = squares_[d] - sum_[d] * sum_[d] / static_cast<double>(used);
    if (spread > best_spread) best = d, best_spread = spread;
  }
  return best;
}

}  // namespace kdey
