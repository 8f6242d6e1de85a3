// Gibbs sampling of the prevalence of a mixture given rows of class densities: the class of every
// instance given the prevalence, then the prevalence given the classes' counts. One chain is one
// item of the parallel loop and has a generator of its own, so results do not depend on threads.
#include <algorithm>
#include <cmath>
#include <vector>

#include "guard.hpp"
#include "kdey.h"
#include "parallel.hpp"
#include "random.hpp"

namespace kdey {
namespace {

// Keeps products with densities of one row representable.
constexpr double kSmallest = 1e-290;
constexpr double kMostInstances = 1e9;  // that one row may stand for

struct Bag {
  const double *rows, *weights;
  int64_t m, k;
};

// Four sums at once: the compiler may not reorder one.
double weigh(const double* row, const double* x, int64_t k, double* parts) {
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
int64_t pick(const double* parts, double total, int64_t k, Random& random) {
  double left = random.uniform() * total;
  int64_t last = 0;
  for (int64_t i = 0; i < k; ++i) {
    if (parts[i] <= 0) continue;
    last = i;
    if ((left -= parts[i]) <= 0) return i;
  }
  return last;  // rounding left a crumb
}

// A whole weight is that many instances, each with a class of its own; what is left over is one
// instance that counts in part.
void draw_classes(const Bag& bag, const double* x, Random& random, double* parts, double* counts) {
  std::fill(counts, counts + bag.k, 0.0);
  for (int64_t j = 0; j < bag.m; ++j) {
    const double* row = bag.rows + j * bag.k;
    const double total = weigh(row, x, bag.k, parts);
    for (double left = bag.weights ? bag.weights[j] : 1; left > 0; left -= 1) {
      const int64_t i =
          total > 0 ? pick(parts, total, bag.k, random) : std::max_element(row, row + bag.k) - row;
      counts[i] += std::min(left, 1.0);
    }
  }
}

void draw_prevalence(const double* prior, const double* counts, int64_t k, Random& random,
                     double* x) {
  for (int64_t i = 0; i < k; ++i) x[i] = random.log_gamma(prior[i] + counts[i]);
  double largest = *std::max_element(x, x + k), total = 0;
  if (largest == -HUGE_VAL) {  // parameters so small that all but one class vanish
    for (int64_t i = 0; i < k; ++i) total += x[i] = prior[i] + counts[i];
    const int64_t only = pick(x, total, k, random);
    for (int64_t i = 0; i < k; ++i) x[i] = i == only ? 0 : -HUGE_VAL;
    largest = total = 0;
  }
  for (int64_t i = 0; i < k; ++i) total += x[i] = std::exp(x[i] - largest);
  for (int64_t i = 0; i < k; ++i) x[i] = std::max(x[i] / total, kSmallest);
}

// No generator of gamma numbers ends for a parameter that is none, nor one that never moves.
bool can_draw(const double* prior, int64_t k, const uint64_t* states, int64_t n_chains) {
  for (int64_t i = 0; i < k; ++i)
    if (!(prior[i] > 0) || !std::isfinite(prior[i])) return false;
  for (const uint64_t *s = states, *end = states + 4 * n_chains; s < end; s += 4)
    if (!(s[0] | s[1] | s[2] | s[3])) return false;
  return true;
}

// Every unit of weight is drawn a class of its own.
bool countable(const double* weights, int64_t m) {
  for (int64_t j = 0; weights && j < m; ++j)
    if (!(weights[j] >= 0 && weights[j] <= kMostInstances)) return false;
  return true;
}

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_gibbs(const double* rows, const double* weights, int64_t m, int64_t k,
                            const double* prior, int64_t n_chains, int64_t n_sweeps,
                            double* current, uint64_t* states, int64_t n_threads,
                            double* out_prevalence, double* out_counts) {
  using namespace kdey;
  if (m < 1 || k < 1 || n_chains < 0 || n_sweeps < 0 || !countable(weights, m) ||
      !can_draw(prior, k, states, n_chains))
    return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const Bag bag{rows, weights, m, k};
    parallel_for(n_chains, static_cast<int>(n_threads), [&](int64_t chain) {
      Random random(states + 4 * chain);
      std::vector<double> parts(static_cast<size_t>(k));
      double* x = current + chain * k;
      for (int64_t sweep = 0; sweep < n_sweeps; ++sweep) {
        const int64_t at = (chain * n_sweeps + sweep) * k;
        draw_classes(bag, x, random, parts.data(), out_counts + at);
        draw_prevalence(prior, out_counts + at, k, random, x);
        std::copy(x, x + k, out_prevalence + at);
      }
    });
  });
}
