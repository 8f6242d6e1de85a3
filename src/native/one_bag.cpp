// The answer for one bag by its mean row in a single call: checks, mean and solution.
#include <algorithm>
#include <cmath>
#include <vector>

#include "guard.hpp"
#include "kdey.h"
#include "least_squares.hpp"
#include "posterior_rows.hpp"

namespace kdey {
namespace {

// The mean posterior or, with `decide`, the share of instances for which each class is the most
// probable one (the first of them, if several are); summed as kdey_bag_means does.
template <class T>
void mean_row(const T* rows, int64_t m, int64_t k, bool decide, double* mean) {
  const double share = 1.0 / static_cast<double>(m);
  std::fill(mean, mean + k, 0.0);
  for (int64_t j = 0; j < m; ++j, rows += k) {
    if (decide)
      mean[std::max_element(rows, rows + k) - rows] += share;
    else
      for (int64_t i = 0; i < k; ++i) mean[i] += share * static_cast<double>(rows[i]);
  }
}

// False if a row is not on the simplex.
template <class T>
bool checked_mean(const T* rows, int64_t m, int64_t k, bool decide, double tolerance,
                  double* mean) {
  double lowest = 0, deviation = 0;
  check_rows(rows, m, k, &lowest, &deviation);
  if (!(lowest >= 0 && deviation < tolerance)) return false;
  mean_row(rows, m, k, decide, mean);
  return true;
}

// The gap below which least squares have converged: solvers/quadratic.py says why.
double gap_limit(const double* gram, const double* target, int64_t k, double tolerance) {
  double longest = 0, squares = 0;
  for (int64_t i = 0; i < k; ++i) {
    longest = std::max(longest, gram[i * k + i]);
    squares += target[i] * target[i];
  }
  longest = std::sqrt(longest);
  return tolerance * longest * (std::sqrt(squares) + longest);
}

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_match_one_bag(const void* posteriors, int64_t is_double, int64_t m, int64_t k,
                                    int64_t decide, const double* templates, const double* gram,
                                    int64_t passes, double sum_tolerance, double gap_tolerance,
                                    double* out) {
  using namespace kdey;
  if (m < 1 || k < 1 || passes < 1 || (templates && !gram)) return KDEY_BAD_ARGUMENT;
  bool is_answered = false;
  const int32_t status = guarded([&] {
    std::vector<double> mean(k);
    const bool on_simplex = is_double ? checked_mean(static_cast<const double*>(posteriors), m, k,
                                                     decide, sum_tolerance, mean.data())
                                      : checked_mean(static_cast<const float*>(posteriors), m, k,
                                                     decide, sum_tolerance, mean.data());
    if (!on_simplex) return;
    if (!templates) {
      std::copy(mean.begin(), mean.end(), out);
      is_answered = true;
      return;
    }
    double objective = 0, gap = 0;
    std::fill(out, out + k, 1.0 / static_cast<double>(k));
    LeastSquares(templates, gram, k, k).solve(mean.data(), passes, out, &objective, &gap);
    is_answered = gap <= gap_limit(gram, mean.data(), k, gap_tolerance);
  });
  return status != KDEY_OK ? status : is_answered ? KDEY_OK : KDEY_UNANSWERED;
}
