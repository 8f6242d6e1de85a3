// Gibbs sampling of the prevalence of a mixture given rows of class densities: the class of every
// instance given the prevalence, then the prevalence given the classes' counts. One chain is one
// item of the parallel loop and has a generator of its own, so results do not depend on threads.
#include <algorithm>
#include <vector>

#include "class_draws.hpp"
#include "guard.hpp"
#include "kdey.h"
#include "parallel.hpp"

namespace kdey {
namespace {

constexpr double kMostInstances = 1e9;  // that one row may stand for

struct Bag {
  const double *rows, *weights;
  int64_t m, k;
};

// A whole weight is that many instances, each with a class of its own; what is left over is one
// instance that counts in part.
void draw_classes(const Bag& bag, const double* x, Random& random, double* parts, double* counts) {
  std::fill(counts, counts + bag.k, 0.0);
  for (int64_t j = 0; j < bag.m; ++j) {
    const double* row = bag.rows + j * bag.k;
    const double total = weigh(row, x, bag.k, parts);
    for (double left = bag.weights ? bag.weights[j] : 1; left > 0; left -= 1) {
      counts[draw_class(row, parts, total, bag.k, random)] += std::min(left, 1.0);
    }
  }
}

bool can_draw(const double* prior, int64_t k, const uint64_t* states, int64_t n_chains) {
  for (int64_t chain = 0; chain < n_chains; ++chain)
    if (!moves(states + 4 * chain)) return false;
  return are_parameters(prior, k);
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
        for (int64_t i = 0; i < k; ++i) x[i] = prior[i] + out_counts[at + i];
        draw_dirichlet(k, random, x, parts.data());
        std::copy(x, x + k, out_prevalence + at);
      }
    });
  });
}
