// A parallel loop in which every thread keeps a workspace of its own over all its items.
#pragma once
#include <atomic>
#include <cstdint>

#include "parallel.hpp"

namespace kdey {

// Calls body(workspace, item) once for every item, with one make() workspace per thread.
template <class Make, class Body>
void parallel_with(int64_t n_items, int64_t n_threads, const Make& make, const Body& body) {
  std::atomic<int64_t> next{0};
  int64_t wanted = n_threads < n_items ? n_threads : n_items;
  if (wanted < 1) wanted = 1;
  parallel_for(wanted, static_cast<int>(wanted), [&](int64_t) {
    auto workspace = make();
    for (int64_t i = next++; i < n_items; i = next++) body(workspace, i);
  });
}

}  // namespace kdey
