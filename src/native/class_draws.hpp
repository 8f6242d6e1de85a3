// What samplers of mixtures share: the class of an instance given a prevalence, and a prevalence
// given the parameters of its Dirichlet distribution.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "random.hpp"

namespace kdey {

// Keeps products with densities of one row representable.
constexpr double kSmallestShare = 1e-290;

// Four sums at once: the compiler may not reorder one.
inline double weigh(const double* row, const double* x, int64_t k, double* parts) {
  double a = 0, b = 0, c = 0, d = 0;
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    a += parts[i] = row[i] * x[i];
    b += parts[i + 1] = row[i + 1] * x[i + 1];
    c += parts[i + 2] = row[i + 2] * x[i + 2];
    d += parts[i + 3] = row[i + 3] * x[i + 3];
  }
  for (; i < k; ++i) a += parts[i] = row[i] * x[i];
  return (a + b) + (c + d);
}

// The class at which the cumulative sum of parts passes a uniform share of their total.
inline int64_t pick(const double* parts, double total, int64_t k, Random& random) {
  double left = random.uniform() * total;
  int64_t last = 0;
  for (int64_t i = 0; i < k; ++i) {
    if (parts[i] <= 0) continue;
    last = i;
    if ((left -= parts[i]) <= 0) return i;
  }
  return last;  // rounding left a crumb
}

// The class of an instance with a row of densities, given their weighted parts and total.
inline int64_t draw_class(const double* row, const double* parts, double total, int64_t k,
                          Random& random) {
  return total > 0 ? pick(parts, total, k, random) : std::max_element(row, row + k) - row;
}

// Draws x from the Dirichlet distribution whose parameters x holds.
inline void draw_dirichlet(int64_t k, Random& random, double* x, double* parameters) {
  std::copy(x, x + k, parameters);
  for (int64_t i = 0; i < k; ++i) x[i] = random.log_gamma(parameters[i]);
  double largest = *std::max_element(x, x + k), total = 0;
  if (largest == -HUGE_VAL) {  // parameters so small that all but one class vanish
    for (int64_t i = 0; i < k; ++i) total += parameters[i];
    const int64_t only = pick(parameters, total, k, random);
    for (int64_t i = 0; i < k; ++i) x[i] = i == only ? 0 : -HUGE_VAL;
    largest = total = 0;
  }
  for (int64_t i = 0; i < k; ++i) total += x[i] = std::exp(x[i] - largest);
  for (int64_t i = 0; i < k; ++i) x[i] = std::max(x[i] / total, kSmallestShare);
}

// Whether gamma numbers with these parameters can be drawn: no generator ends for other ones.
inline bool are_parameters(const double* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!(values[i] > 0) || !std::isfinite(values[i])) return false;
  return true;
}

// Whether a generator moves.
inline bool moves(const uint64_t* state) { return state[0] | state[1] | state[2] | state[3]; }

}  // namespace kdey
