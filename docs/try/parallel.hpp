// The loop of src/native/parallel.hpp for a machine of one thread, which a page in a browser is.
#pragma once
#include <cstdint>

namespace kdey {

template <class Body>
void parallel_for(int64_t n_items, int, const Body& body) {
  for (int64_t i = 0; i < n_items; ++i) body(i);
}

}  // namespace kdey
