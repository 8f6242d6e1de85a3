// Values of the losses, needed once per solution; see kdey/matching/divergence.py.
#pragma once
#include <cmath>
#include <limits>

#include "separable.hpp"

namespace kdey {

// a log(a / b), zero at a = 0, infinite at b = 0 < a.
inline double relative_entropy(double a, double b) {
  if (a == 0) return 0;
  if (b == 0) return std::numeric_limits<double>::infinity();
  const double ratio = a / b;
  return a * (ratio > 0 && std::isfinite(ratio) ? std::log(ratio) : std::log(a) - std::log(b));
}

inline double topsoe(double p, double q) {
  // Twice both, since half of the smallest number there is would be none.
  return (relative_entropy(2 * p, p + q) + relative_entropy(2 * q, p + q)) / 2;
}

inline double loss_at(int64_t loss, double p, double q) {
  switch (loss) {
    case kNegativeLog: return -std::log(p);
    case kHellinger: {
      double difference = std::sqrt(p) - std::sqrt(q);
      return difference * difference;
    }
    case kTopsoe: return topsoe(p, q);
    case kJensenShannon: return topsoe(p, q) / 2;
    case kKl: return relative_entropy(q, p) - q + p;
    case kReverseKl: return relative_entropy(p, q) - p + q;
    default: return p + q > 0 ? (p - q) * (p - q) / (p + q) : 0;
  }
}

inline double loss_value(const SeparableProblem& problem, const double* p) {
  double sum = 0;
  for (int64_t j = 0; j < problem.n; ++j)
    sum += problem.v[j] * loss_at(problem.loss, p[j], problem.q[j]);
  return sum;
}

}  // namespace kdey
