#include <algorithm>

#include "guard.hpp"
#include "kdey.h"
#include "least_squares.hpp"
#include "workers.hpp"

namespace kdey {
namespace {

// A cold start: uniform on the simplex; scaled to the best length where only x >= 0 is asked.
void first_point(const double* gram, const double* linear, int64_t k, bool simplex, double* x) {
  std::fill(x, x + k, 1.0 / static_cast<double>(k));
  if (simplex) return;
  double slope = 0, curve = bilinear(gram, k, x);
  for (int64_t i = 0; i < k; ++i) slope += linear[i] * x[i];
  double length = slope > 0 && curve > 0 ? slope / curve : 0;
  for (int64_t i = 0; i < k; ++i) x[i] *= length;
}

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
    const double uniform = 1.0 / static_cast<double>(k);
    auto make = [&] { return LeastSquares(templates, gram, r, k); };
    parallel_with(n, n_threads, make, [&](LeastSquares& least_squares, int64_t b) {
      double* x = out_x + b * k;
      if (start)
        std::copy(start + b * k, start + (b + 1) * k, x);
      else
        std::fill(x, x + k, uniform);
      out_steps[b] =
          least_squares.solve(targets + b * r, passes, x, out_objective + b, out_gap + b);
    });
  });
}
