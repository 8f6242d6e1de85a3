// Posteriors of a bag: whether they lie on the simplex.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace kdey {

// The lowest entry (0 if none is negative), and how far the sum of a row is at most from one.
template <class T>
inline void check_rows(const T* rows, int64_t m, int64_t k, double* lowest, double* deviation) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  T low = 0;
  double worst = 0;
  for (int64_t j = 0; j < m; ++j, rows += k) {
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += rows[i];
      low = rows[i] < low ? rows[i] : low;
    }
    const double off = std::fabs(sum - 1);
    worst = std::max(worst, off < infinity ? off : infinity);  // NaN counts as infinite
  }
  *lowest = low;
  *deviation = worst;
}

}  // namespace kdey
