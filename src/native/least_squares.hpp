// Quadratic programs on the simplex around ActiveSet: scale, start, certificate.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "quadratic.hpp"

namespace kdey {

inline double bilinear(const double* gram, int64_t k, const double* x) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < k; ++j) sum += x[i] * gram[i * k + j] * x[j];
  return sum;
}

// On the simplex: the scale of the matrix around x.
inline double level_of(const double* gram, int64_t k, const double* x) {
  double natural = bilinear(gram, k, x);
  if (natural > 0) return natural;
  double largest = 0;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, gram[i * k + i]);
  return largest > 0 ? largest : 1;
}

// out_j = sum_i row_i M_ij, for M (r, k).
inline void multiply(const double* row, const double* templates, int64_t r, int64_t k,
                     double* out) {
  std::fill(out, out + k, 0.0);
  for (int64_t i = 0; i < r; ++i)
    for (int64_t j = 0; j < k; ++j) out[j] += row[i] * templates[i * k + j];
}

// Scales x to a sum of one. Where the entries of c are 1e16 times those of Q the sum is lost in
// rounding, and only the vertices can be compared.
inline void onto_simplex(const double* gram, const double* linear, int64_t k, double* x) {
  double sum = std::accumulate(x, x + k, 0.0);
  if (!(std::fabs(sum - 1) < 0.5)) {
    int64_t best = 0;
    auto value = [&](int64_t i) { return gram[i * k + i] / 2 - linear[i]; };
    for (int64_t i = 1; i < k; ++i)
      if (value(i) < value(best)) best = i;
    std::fill(x, x + k, 0.0);
    x[best] = sum = 1;
  }
  for (int64_t i = 0; i < k; ++i) x[i] /= sum;
}

// x . g - min g, for the gradient g of a convex function: how far it is at most from its minimum.
inline double frank_wolfe_gap(const double* x, const double* gradient, int64_t k) {
  const double lowest = *std::min_element(gradient, gradient + k);
  double gap = 0;
  for (int64_t i = 0; i < k; ++i)
    if (x[i] > 0) gap += x[i] * (gradient[i] - lowest);
  return gap;
}

// Least squares on the simplex with a certificate, one bag after the other: min |M x - q|^2 / 2.
class LeastSquares {
 public:
  // templates: M, (r, k); gram: M'M, (k, k). Both must outlive this object.
  LeastSquares(const double* templates, const double* gram, int64_t r, int64_t k)
      : templates_(templates), gram_(gram), r_(r), k_(k), program_(k), linear_(k), residual_(r),
        gradient_(k) {
    const std::vector<double> uniform(k, 1.0 / static_cast<double>(k));
    program_.set_gram(gram, k, level_of(gram, k, uniform.data()));
  }

  // Replaces the start x by the minimiser for the target q, (r); returns the number of steps.
  int64_t solve(const double* target, int64_t passes, double* x, double* objective, double* gap) {
    multiply(target, templates_, r_, k_, linear_.data());
    const int64_t steps = program_.solve(linear_.data(), x, passes);
    onto_simplex(gram_, linear_.data(), k_, x);
    double squares = 0;
    for (int64_t i = 0; i < r_; ++i) {
      const double* row = templates_ + i * k_;
      const double mixture = std::inner_product(row, row + k_, x, 0.0);
      residual_[i] = mixture - target[i];
      squares += residual_[i] * residual_[i];
    }
    multiply(residual_.data(), templates_, r_, k_, gradient_.data());
    *objective = squares / 2;
    *gap = frank_wolfe_gap(x, gradient_.data(), k_);
    return steps;
  }

 private:
  const double *templates_, *gram_;
  int64_t r_, k_;
  ActiveSet program_;
  std::vector<double> linear_, residual_, gradient_;
};

}  // namespace kdey
