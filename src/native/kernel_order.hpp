// Spatial ordering: points that are near each other come to stand near each other.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel.hpp"

namespace kdey {

// Permutes rows[0..count) so that every aligned run of `leaf` of them lies close together:
// recursive median splits along the coordinate that varies most. At most 2^32 rows.
class SpatialOrder {
 public:
  SpatialOrder(const Points& points, int64_t leaf) : points_(points), leaf_(leaf) {}
  void operator()(int64_t* rows, int64_t count);

 private:
  void split(int64_t* rows, int64_t count);
  int64_t widest(const int64_t* rows, int64_t count);

  Points points_;
  int64_t leaf_;
  std::vector<uint64_t> keys_;  // coordinate above, place in `rows` below
  std::vector<int64_t> copy_;
  std::vector<double> origin_, sum_, squares_;
};

}  // namespace kdey
