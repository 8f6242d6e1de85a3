// Passes over the rows of a pool that stand around every solve: checks, means, scales.
#include <algorithm>
#include <cmath>
#include <limits>

#include "bags.hpp"
#include "kdey.h"
#include "posterior_rows.hpp"

namespace kdey {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Divides a row by its largest entry; returns false if the row is not valid.
bool scale_plain(const double* row, int64_t k, double* out, double* log_scale) {
  double top = 0;
  for (int64_t i = 0; i < k; ++i) {
    if (!(row[i] >= 0 && row[i] < kInfinity)) return false;
    top = std::max(top, row[i]);
  }
  const double divisor = top > 0 ? top : 1;
  for (int64_t i = 0; i < k; ++i) out[i] = row[i] / divisor;
  *log_scale = std::log(divisor);
  return true;
}

// As scale_plain for a row of logarithms; -inf stands for zero.
bool scale_logs(const double* row, int64_t k, double* out, double* log_scale) {
  double top = -kInfinity;
  for (int64_t i = 0; i < k; ++i) {
    if (!(row[i] < kInfinity)) return false;
    top = std::max(top, row[i]);
  }
  const double shift = top > -kInfinity ? top : 0;
  for (int64_t i = 0; i < k; ++i) out[i] = std::exp(row[i] - shift);
  *log_scale = shift;
  return true;
}

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_check_posteriors(const void* posteriors, int64_t is_double, int64_t m,
                                       int64_t k, double* out) {
  if (m < 1 || k < 1) return KDEY_BAD_ARGUMENT;
  if (is_double)
    kdey::check_rows(static_cast<const double*>(posteriors), m, k, out, out + 1);
  else
    kdey::check_rows(static_cast<const float*>(posteriors), m, k, out, out + 1);
  return KDEY_OK;
}

KDEY_API int32_t kdey_bag_means(const double* rows, int64_t pool, int64_t r, const int64_t* indices,
                                const int64_t* offsets, const double* weights, int64_t n_bags,
                                double* out) {
  if (pool < 1 || r < 0 || n_bags < 0 || !kdey::bags_fit(indices, offsets, n_bags, pool))
    return KDEY_BAD_ARGUMENT;
  for (int64_t b = 0; b < n_bags; ++b) {
    double total = static_cast<double>(offsets[b + 1] - offsets[b]);
    if (weights) {
      total = 0;
      for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) total += weights[j];
    }
    double* mean = out + b * r;
    std::fill(mean, mean + r, 0.0);
    for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
      const double share = (weights ? weights[j] : 1.0) / total;
      const double* row = rows + indices[j] * r;
      for (int64_t i = 0; i < r; ++i) mean[i] += share * row[i];
    }
  }
  return KDEY_OK;
}

KDEY_API int32_t kdey_scale_rows(const double* rows, int64_t pool, int64_t k, int64_t logs,
                                 double* out_rows, double* out_log_scales, uint8_t* out_empty) {
  if (pool < 1 || k < 1) return KDEY_BAD_ARGUMENT;
  for (int64_t j = 0; j < pool; ++j) {
    const double* row = rows + j * k;
    double* scaled = out_rows + j * k;
    const bool valid = logs ? kdey::scale_logs(row, k, scaled, out_log_scales + j)
                            : kdey::scale_plain(row, k, scaled, out_log_scales + j);
    if (!valid) return KDEY_BAD_ARGUMENT;
    out_empty[j] = std::all_of(scaled, scaled + k, [](double value) { return value == 0; });
  }
  return KDEY_OK;
}
