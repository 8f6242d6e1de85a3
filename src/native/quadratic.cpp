#include "quadratic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kdey {
namespace {
constexpr double kProximal = 1e-11;
constexpr double kRounding = 1e-14;
}  // namespace

ActiveSet::ActiveSet(int64_t k)
    : k_(k), gram_(k * k), factor_(k * k), full_(k * k), diagonal_(k), linear_(k), target_(k),
      ones_(k), right_(k), last_(k), reduced_(k), size_(k), state_(k) {
  free_.reserve(k);
}

void ActiveSet::set_gram(const double* gram, int64_t ld, double level) {
  double largest = 0;
  for (int64_t i = 0; i < k_; ++i) largest = std::max(largest, gram[i * ld + i]);
  if (largest <= 0) largest = 1;
  level_ = level;
  for (int64_t i = 0; i < k_; ++i) {
    for (int64_t j = 0; j < k_; ++j) gram_[i * k_ + j] = gram[i * ld + j] + level;
    double own = gram_[i * k_ + i];
    diagonal_[i] = own > 0 ? own : largest;
    gram_[i * k_ + i] += kProximal * diagonal_[i];
  }
  full_ready_ = false;
}

int64_t ActiveSet::solve(const double* linear, double* x, int64_t passes) {
  int64_t steps = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i < k_; ++i) {
      linear_[i] = linear[i] + kProximal * diagonal_[i] * x[i];
      last_[i] = x[i];
    }
    // Later passes hardly move: the factor of the first one still holds.
    if (pass == 0) open(x);
    steps += minimise(x);
    double moved = 0, largest = 0;
    for (int64_t i = 0; i < k_; ++i) {
      moved = std::max(moved, std::fabs(x[i] - last_[i]));
      largest = std::max(largest, std::fabs(x[i]));
    }
    if (moved <= 1e-15 * largest) break;
  }
  return steps;
}

// Frees the classes of positive x and factors their part of the matrix. All classes free is the
// usual start of a batch with one matrix, so that factor is kept.
void ActiveSet::open(const double* x) {
  free_.clear();
  bool all = std::all_of(x, x + k_, [](double value) { return value > 0; });
  if (all && full_ready_) {
    factor_ = full_;
    for (int64_t i = 0; i < k_; ++i) free_.push_back(i);
  } else {
    for (int64_t i = 0; i < k_; ++i)
      if (x[i] > 0) append(i);
    if (all) {
      full_ = factor_;
      full_ready_ = true;
    }
  }
}

int64_t ActiveSet::minimise(double* x) {
  std::fill(state_.begin(), state_.end(), 0);
  for (int64_t i : free_) state_[i] = 1;
  entered_ = -1;
  const int64_t limit = 10 * k_ + 50;
  for (int64_t step = 1; step <= limit; ++step) {
    if (!solve_free()) {  // beyond what numbers hold, and more steps would not help
      std::fill(x, x + k_, std::numeric_limits<double>::quiet_NaN());
      return step;
    }
    if (retreat(x)) continue;
    std::fill(x, x + k_, 0.0);
    for (size_t r = 0; r < free_.size(); ++r) x[free_[r]] = target_[r];
    entered_ = most_negative(x);
    if (entered_ < 0) return step;
    append(entered_);
    state_[entered_] = 1;
  }
  return limit;
}

// Where the target leaves the orthant, moves x to the border and closes the classes that reach
// it; returns whether it did.
bool ActiveSet::retreat(double* x) {
  double t = 1;
  bool outside = false;
  for (size_t r = 0; r < free_.size(); ++r) {
    if (target_[r] > 0) continue;
    outside = true;
    double from = x[free_[r]];
    if (from <= 0)
      t = 0;
    else
      t = std::min(t, from / (from - target_[r]));
  }
  if (!outside) return false;
  for (int64_t r = static_cast<int64_t>(free_.size()) - 1; r >= 0; --r) {
    int64_t i = free_[r];
    double from = x[i];
    bool blocks = target_[r] <= 0 && (from <= 0 || from / (from - target_[r]) <= t);
    x[i] = from + t * (target_[r] - from);
    if (!blocks && !(target_[r] <= 0 && x[i] <= 0)) continue;
    x[i] = 0;
    // A class that just entered and falls back at once did so by rounding: keep it out.
    state_[i] = (i == entered_ && t == 0) ? 2 : 0;
    remove(r);
  }
  return true;
}

int64_t ActiveSet::most_negative(const double* x) {
  double level = std::fabs(shift_);
  for (int64_t i = 0; i < k_; ++i) {
    reduced_[i] = -linear_[i] - shift_;
    size_[i] = std::fabs(linear_[i]) + level;
  }
  for (int64_t f : free_) {
    const double* g = &gram_[f * k_];
    for (int64_t i = 0; i < k_; ++i) {
      reduced_[i] += x[f] * g[i];
      size_[i] += x[f] * std::fabs(g[i]);
    }
  }
  int64_t best = -1;
  double lowest = 0;
  for (int64_t i = 0; i < k_; ++i) {
    if (state_[i] != 0 || reduced_[i] >= -kRounding * size_[i]) continue;
    double score = reduced_[i] / std::sqrt(diagonal_[i]);
    if (score < lowest) {
      lowest = score;
      best = i;
    }
  }
  return best;
}

void ActiveSet::append(int64_t i) {
  const int64_t m = static_cast<int64_t>(free_.size());
  double* mine = row(m);
  const double* g = &gram_[i * k_];
  double pivot = g[i];
  for (int64_t r = 0; r < m; ++r) {
    const double* other = row(r);
    double value = g[free_[r]];
    for (int64_t s = 0; s < r; ++s) value -= other[s] * mine[s];
    mine[r] = value / other[r];
    pivot -= mine[r] * mine[r];
  }
  mine[m] = std::sqrt(std::max(pivot, kRounding * g[i]));
  free_.push_back(i);
}

// Deletes one row of the factor and turns the rest lower triangular again by rotations.
void ActiveSet::remove(int64_t position) {
  const int64_t m = static_cast<int64_t>(free_.size());
  for (int64_t r = position; r + 1 < m; ++r) {
    std::copy(row(r + 1), row(r + 1) + r + 2, row(r));
    free_[r] = free_[r + 1];
  }
  free_.pop_back();
  for (int64_t c = position; c + 1 < m; ++c) {
    double a = row(c)[c], b = row(c)[c + 1];
    double length = std::hypot(a, b);
    double cosine = a / length, sine = b / length;
    row(c)[c] = length;
    for (int64_t r = c + 1; r + 1 < m; ++r) {
      double* p = row(r) + c;
      double left = p[0], right = p[1];
      p[0] = cosine * left + sine * right;
      p[1] = cosine * right - sine * left;
    }
  }
}

void ActiveSet::substitute(const double* right, double* out) const {
  const int64_t m = static_cast<int64_t>(free_.size());
  for (int64_t r = 0; r < m; ++r) {
    const double* l = row(r);
    double value = right[r];
    for (int64_t s = 0; s < r; ++s) value -= l[s] * out[s];
    out[r] = value / l[r];
  }
  for (int64_t r = m - 1; r >= 0; --r) {
    const double* l = row(r);
    out[r] /= l[r];
    for (int64_t s = 0; s < r; ++s) out[s] -= out[r] * l[s];
  }
}

// Minimises over the free classes alone, into target_ (in the order of free_) and shift_; returns
// whether they are finite.
bool ActiveSet::solve_free() {
  const size_t m = free_.size();
  shift_ = 0;
  if (m == 0) return true;
  for (size_t r = 0; r < m; ++r) right_[r] = linear_[free_[r]];
  substitute(right_.data(), target_.data());
  double sum = 0, unit = 0;
  for (size_t r = 0; r < m; ++r) sum += target_[r];
  if (level_ == 0) return std::isfinite(sum);
  std::fill(right_.begin(), right_.begin() + m, 1.0);
  substitute(right_.data(), ones_.data());
  for (size_t r = 0; r < m; ++r) unit += ones_[r];
  shift_ = (1 - sum) / unit;
  for (size_t r = 0; r < m; ++r) target_[r] += shift_ * ones_[r];
  return std::isfinite(shift_);
}

}  // namespace kdey
