// A parallel loop over independent items with plain threads made per call: no second OpenMP
// runtime beside scikit-learn's, nothing left alive to break after a fork.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kdey {

// Calls body(item) once for every item in [0, n_items), items handed out in order to n_threads
// threads. Results must not depend on which thread runs an item. The first exception thrown by
// body is thrown again here after all threads ended.
template <class Body>
void parallel_for(int64_t n_items, int n_threads, const Body& body) {
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex guard;
  auto work = [&] {
    for (int64_t i = next++; i < n_items; i = next++) {
      try {
        body(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(guard);
        if (!failure) failure = std::current_exception();
        next = n_items;
      }
    }
  };
  int64_t wanted = n_threads < n_items ? n_threads : n_items;
  std::vector<std::thread> helpers;
  for (int64_t t = 1; t < wanted; ++t) {
    try {
      helpers.emplace_back(work);
    } catch (...) {
      break;  // fewer threads than asked for is slower, not wrong
    }
  }
  work();
  for (auto& h : helpers) h.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kdey
