#include <algorithm>
#include <cmath>
#include <numeric>

#include "guard.hpp"
#include "kdey.h"
#include "quadratic.hpp"
#include "workers.hpp"

namespace kdey {
namespace {

double bilinear(const double* gram, int64_t k, const double* x) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < k; ++j) sum += x[i] * gram[i * k + j] * x[j];
  return sum;
}

// On the simplex: the scale of the matrix around x.
double level_of(const double* gram, int64_t k, const double* x) {
  double natural = bilinear(gram, k, x);
  if (natural > 0) return natural;
  double largest = 0;
  for (int64_t i = 0; i < k; ++i) largest = std::max(largest, gram[i * k + i]);
  return largest > 0 ? largest : 1;
}

// A cold start: uniform on the simplex; scaled to the best length where only x >= 0 is asked.
void first_point(const double* gram, const double* linear, int64_t k, bool simplex, double* x) {
  std::fill(x, x + k, 1.0 / static_cast<double>(k));
  if (simplex) return;
  double slope = 0, curve = bilinear(gram, k, x);
  for (int64_t i = 0; i < k; ++i) slope += linear[i] * x[i];
  double length = slope > 0 && curve > 0 ? slope / curve : 0;
  for (int64_t i = 0; i < k; ++i) x[i] *= length;
}

// out_j = sum_i row_i M_ij, for M (r, k).
void multiply(const double* row, const double* templates, int64_t r, int64_t k, double* out) {
  std::fill(out, out + k, 0.0);
  for (int64_t i = 0; i < r; ++i)
    for (int64_t j = 0; j < k; ++j) out[j] += row[i] * templates[i * k + j];
}

// Scales x to a sum of one. Where the entries of c are 1e16 times those of Q the sum is lost in
// rounding, and only the vertices can be compared.
void onto_simplex(const double* gram, const double* linear, int64_t k, double* x) {
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
double frank_wolfe_gap(const double* x, const double* gradient, int64_t k) {
  const double lowest = *std::min_element(gradient, gradient + k);
  double gap = 0;
  for (int64_t i = 0; i < k; ++i)
    if (x[i] > 0) gap += x[i] * (gradient[i] - lowest);
  return gap;
}

struct LeastSquares {
  LeastSquares(int64_t r, int64_t k) : program(k), linear(k), residual(r), gradient(k) {}
  ActiveSet program;
  std::vector<double> linear, residual, gradient;
};

struct Workspace {
  ActiveSet program;
  const double* prepared = nullptr;
};

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_solve_programs(const double* grams, int64_t gram_stride, const double* linear,
                                     const double* start, int64_t n, int64_t k, int64_t simplex,
                                     int64_t passes, int64_t n_threads, double* out_x,
                                     int64_t* out_steps) {
  using namespace kdey;
  if (n < 0 || k < 1 || passes < 1) return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    std::vector<double> uniform(k, 1.0 / static_cast<double>(k));
    auto make = [&] { return Workspace{ActiveSet(k)}; };
    parallel_with(n, n_threads, make, [&](Workspace& w, int64_t b) {
      const double* gram = grams + b * gram_stride;
      double* x = out_x + b * k;
      if (start)
        std::copy(start + b * k, start + (b + 1) * k, x);
      else
        first_point(gram, linear + b * k, k, simplex, x);
      if (gram != w.prepared) {
        const double* around = gram_stride ? x : uniform.data();
        w.program.set_gram(gram, k, simplex ? level_of(gram, k, around) : 0);
        w.prepared = gram;
      }
      out_steps[b] = w.program.solve(linear + b * k, x, passes);
    });
  });
}

KDEY_API int32_t kdey_solve_least_squares(const double* templates, const double* gram,
                                          const double* targets, const double* start, int64_t n,
                                          int64_t r, int64_t k, int64_t passes, int64_t n_threads,
                                          double* out_x, double* out_objective, double* out_gap,
                                          int64_t* out_steps) {
  using namespace kdey;
  if (n < 0 || r < 1 || k < 1 || passes < 1) return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const std::vector<double> uniform(k, 1.0 / static_cast<double>(k));
    const double level = level_of(gram, k, uniform.data());
    auto make = [&] {
      LeastSquares w(r, k);
      w.program.set_gram(gram, k, level);
      return w;
    };
    parallel_with(n, n_threads, make, [&](LeastSquares& w, int64_t b) {
      const double *target = targets + b * r, *first = start ? start + b * k : uniform.data();
      double* x = out_x + b * k;
      std::copy(first, first + k, x);
      multiply(target, templates, r, k, w.linear.data());
      out_steps[b] = w.program.solve(w.linear.data(), x, passes);
      onto_simplex(gram, w.linear.data(), k, x);
      double squares = 0;
      for (int64_t i = 0; i < r; ++i) {
        const double* row = templates + i * k;
        const double mixture = std::inner_product(row, row + k, x, 0.0);
        w.residual[i] = mixture - target[i];
        squares += w.residual[i] * w.residual[i];
      }
      multiply(w.residual.data(), templates, r, k, w.gradient.data());
      out_objective[b] = squares / 2;
      out_gap[b] = frank_wolfe_gap(x, w.gradient.data(), k);
    });
  });
}
