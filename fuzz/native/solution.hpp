// What a solver that certifies its answers must honour.
#pragma once
#include <algorithm>

#include "reader.hpp"

namespace fuzz {

struct Limits {
  double tol;
  int64_t max_iter;
  Limits(Reader& reader, Range range)
      : tol(reader.one_in(8) ? reader.number(range) : 1e-8), max_iter(reader.between(0, 200)) {}
};

// The same by plain loops in extended precision; `size` is that of the terms they are sums of.
struct Slow {
  long double value, gap, size;
};

inline long double slow_gap(const std::vector<long double>& gradient, const double* x) {
  const long double lowest = *std::min_element(gradient.begin(), gradient.end());
  long double gap = 0;
  for (size_t i = 0; i < gradient.size(); ++i)
    if (x[i] > 0) gap += x[i] * (gradient[i] - lowest);
  return gap;
}

struct Answers {
  int64_t k;
  std::vector<double> x, objective, gap;
  std::vector<int64_t> n_iter;

  // As the Python layer makes them: nothing is known yet.
  Answers(int64_t n, int64_t k)
      : k(k), x(n * k, 1.0 / static_cast<double>(k)), objective(n, NAN), gap(n, NAN), n_iter(n) {}

  // For a look at a case that was kept: FUZZ_PRINT=1 build/fuzz/... FILE.
  void print(int64_t b, const Limits& limits, Range range, const Slow& slow) const {
    std::fprintf(stderr, "bag %ld, range %d: tol %g, %ld of %ld iterations\n", static_cast<long>(b),
                 static_cast<int>(range), limits.tol, static_cast<long>(n_iter[b]),
                 static_cast<long>(limits.max_iter));
    std::fprintf(stderr, "gap %.17g (%.17Lg), objective %.17g (%.17Lg), size %Lg, x", gap[b],
                 slow.gap, objective[b], slow.value, slow.size);
    for (int64_t i = 0; i < k; ++i) std::fprintf(stderr, " %g", x[b * k + i]);
    std::fprintf(stderr, "\n");
  }

  template <class Compute>
  void check(int64_t b, const Limits& limits, Range range, const Compute& slow) const {
    const double* found = x.data() + b * k;
    if (std::getenv("FUZZ_PRINT")) print(b, limits, range, slow(found));
    const bool claimed = gap[b] <= limits.tol;
    require(n_iter[b] >= 0 && n_iter[b] <= limits.max_iter, "iterations stay below max_iter");
    for (int64_t i = 0; i < k && claimed; ++i)
      require(!std::isnan(found[i]), "NaN has not converged");
    if (range == Range::hostile) return;
    require(on_simplex(found, k), "a prevalence lies on the simplex");
    require(!(gap[b] < 0), "a gap is not negative");
    if (range == Range::wide) return;
    require(std::isfinite(gap[b]) && std::isfinite(objective[b]), "plain numbers give plain ones");
    const Slow s = slow(found);
    require(std::fabs(s.gap - gap[b]) <= 1e-12 * (s.size + s.gap), "the gap is the gap");
    require(std::fabs(s.value - objective[b]) <= 1e-12 * (1 + s.size + std::fabs(s.value)),
            "the objective is the objective");
  }
};

}  // namespace fuzz
