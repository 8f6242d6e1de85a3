#include "kernel_order.hpp"

#include <algorithm>

namespace kdey {
namespace {
constexpr int64_t kProbes = 32;
}

void SpatialOrder::operator()(int64_t* rows, int64_t count) {
  if (count <= leaf_) return;
  keyed_.resize(count);
  split(rows, count);
}

void SpatialOrder::split(int64_t* rows, int64_t count) {
  if (count <= leaf_) return;
  int64_t leaves = (count + leaf_ - 1) / leaf_;
  int64_t cut = leaves / 2 * leaf_;
  int64_t d = widest(rows, count);
  for (int64_t i = 0; i < count; ++i) keyed_[i] = {points_.at(rows[i], d), rows[i]};
  std::nth_element(keyed_.begin(), keyed_.begin() + cut, keyed_.begin() + count,
                   [](const Keyed& a, const Keyed& b) {
                     return a.key < b.key || (a.key == b.key && a.row < b.row);
                   });
  for (int64_t i = 0; i < count; ++i) rows[i] = keyed_[i].row;
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
