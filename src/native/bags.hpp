// Bags over a pool: bag b owns indices[offsets[b] .. offsets[b + 1]).
#pragma once
#include <algorithm>
#include <cstdint>

namespace kdey {

// Whether every bag lies within `indices` and every index within the pool.
inline bool bags_fit(const int64_t* indices, const int64_t* offsets, int64_t n_bags, int64_t pool) {
  if (n_bags < 1) return true;
  return offsets[0] >= 0 && std::is_sorted(offsets, offsets + n_bags + 1) &&
         std::all_of(indices + offsets[0], indices + offsets[n_bags],
                     [pool](int64_t index) { return index >= 0 && index < pool; });
}

}  // namespace kdey
