// Gibbs sampling of many bags whose prevalences share a Dirichlet distribution. A sweep draws the
// class of every instance, then the concentration given the counts of the classes (prevalences
// integrated out, by slice sampling), the means by the tables of a Chinese restaurant
// ("Hierarchical Dirichlet processes", JASA 101, 2006), and the prevalences given all of these.
#include <algorithm>
#include <cmath>
#include <vector>

#include "class_draws.hpp"
#include "guard.hpp"
#include "kdey.h"

namespace kdey {
namespace {

// Counts up to it are summarised by histograms; the few larger ones are listed.
constexpr int64_t kNear = 32;
// Bounds of scale / (scale + concentration).
constexpr double kFirst = 1e-6, kLast = 1 - 1e-6;
constexpr int kMostTries = 200;
constexpr double kLargestScale = 1e15;
constexpr double kSmallestParameter = 1e-300;

using Doubles = std::vector<double>;
using Counts = std::vector<int64_t>;

// Logarithm of the gamma function for x >= kNear, by Stirling's series: std::lgamma writes a
// global.
double log_gamma_far(double x) {
  const double r = 1 / x, r2 = r * r;
  return (x - 0.5) * std::log(x) - x + 0.91893853320467274178 +
         r * (1.0 / 12 - r2 * (1.0 / 360 - r2 / 1260));
}

// Sums of log rising factorials, log(a (a + 1) ... (a + c - 1)), over counts c with the same a.
class CountSet {
 public:
  void clear() {
    std::fill(more_, more_ + kNear, 0);
    far_.clear();
  }
  void add(int64_t count) {
    const int64_t near = std::min(count, kNear);
    if (near > 0) ++more_[near - 1];
    if (count > kNear) far_.push_back(count);
  }
  // After the last count: more_[j] becomes the number of counts larger than j.
  void finish() {
    for (int64_t j = kNear - 1; j > 0; --j) more_[j - 1] += more_[j];
  }
  double log_rising(double a) const {
    double sum = 0;
    for (int64_t j = 0; j < kNear && more_[j]; ++j)
      sum += static_cast<double>(more_[j]) * std::log(a + static_cast<double>(j));
    if (far_.empty()) return sum;
    const double start = log_gamma_far(a + static_cast<double>(kNear));
    for (int64_t count : far_) sum += log_gamma_far(a + static_cast<double>(count)) - start;
    return sum;
  }
  // Tables at which customers sit: the one after j others opens a new one with chance a / (a + j).
  int64_t draw_tables(double a, Random& random) const {
    int64_t tables = more_[0];
    auto opens = [&](int64_t j) { return random.uniform() * (a + static_cast<double>(j)) < a; };
    for (int64_t j = 1; j < kNear; ++j)
      for (int64_t n = 0; n < more_[j]; ++n) tables += opens(j);
    for (int64_t count : far_)
      for (int64_t j = kNear; j < count; ++j) tables += opens(j);
    return tables;
  }

 private:
  int64_t more_[kNear] = {};
  Counts far_;
};

// Counts of children, whose shares are Dirichlet around the mean of their parent.
class Level {
 public:
  Level(int64_t n_parents, int64_t k) : k_(k), cells_(static_cast<size_t>(n_parents * k)) {}

  // counts: (n, k); parents: (n), or NULL for a single parent.
  void read(const int64_t* counts, const int64_t* parents, int64_t n) {
    for (CountSet& cell : cells_) cell.clear();
    sizes_.clear();
    for (int64_t g = 0; g < n; ++g) {
      CountSet* cell = cells_.data() + (parents ? parents[g] : 0) * k_;
      int64_t size = 0;
      for (int64_t i = 0; i < k_; ++i) {
        const int64_t count = counts[g * k_ + i];
        cell[i].add(count);
        size += count;
      }
      sizes_.add(size);
    }
    for (CountSet& cell : cells_) cell.finish();
    sizes_.finish();
  }

  // Slice sampling of u = scale / (scale + concentration), which is uniform a priori.
  double draw_concentration(double current, const double* means, double scale,
                            Random& random) const {
    double first = kFirst, last = kLast;
    const double now = std::min(std::max(scale / (scale + current), first), last);
    const double least =
        log_likelihood(scale * (1 - now) / now, means) + std::log(random.uniform());
    for (int tries = 0; tries < kMostTries; ++tries) {
      const double u = first + (last - first) * random.uniform();
      const double concentration = scale * (1 - u) / u;
      if (log_likelihood(concentration, means) >= least) return concentration;
      (u < now ? first : last) = u;
    }
    return scale * (1 - now) / now;
  }

  // tables: (n_parents, k).
  void draw_tables(double concentration, const double* means, Random& random,
                   int64_t* tables) const {
    for (size_t c = 0; c < cells_.size(); ++c)
      tables[c] = cells_[c].draw_tables(parameter(concentration, means[c]), random);
  }

 private:
  static double parameter(double concentration, double mean) {
    return std::max(concentration * mean, kSmallestParameter);
  }
  double log_likelihood(double concentration, const double* means) const {
    double sum = -sizes_.log_rising(concentration);
    for (size_t c = 0; c < cells_.size(); ++c)
      sum += cells_[c].log_rising(parameter(concentration, means[c]));
    return sum;
  }

  int64_t k_;
  std::vector<CountSet> cells_;
  CountSet sizes_;
};

struct Groups {
  const double* rows;
  int64_t k;
  const int64_t *offsets, *parents;
  int64_t n, n_parents;
};

// Where a chain stands; the arrays are the caller's.
struct State {
  double *prevalences, *means, *top, *concentrations;
};

class Sampler {
 public:
  Sampler(const Groups& groups, const double* scales, const State& state, uint64_t* generator)
      : g_(groups), scales_(scales), s_(state), random_(generator),
        groups_(groups.n_parents, groups.k), parents_(1, groups.k), counts_(size(groups.n)),
        tables_(size(groups.n_parents)), top_tables_(size(1)), parts_(size(1)) {}

  void sweep() {
    draw_counts();
    draw_hyperparameters();
    for (int64_t g = 0; g < g_.n; ++g)
      draw_around(s_.means + g_.parents[g] * g_.k, s_.concentrations[0], &counts_[at(g)],
                  s_.prevalences + at(g));
  }

  const Counts& counts() const { return counts_; }

 private:
  size_t size(int64_t n) const { return static_cast<size_t>(n * g_.k); }
  int64_t at(int64_t n) const { return n * g_.k; }

  void draw_counts() {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (int64_t g = 0; g < g_.n; ++g)
      for (int64_t j = g_.offsets[g]; j < g_.offsets[g + 1]; ++j) {
        const double* row = g_.rows + at(j);
        const double total = weigh(row, s_.prevalences + at(g), g_.k, parts_.data());
        ++counts_[at(g) + draw_class(row, parts_.data(), total, g_.k, random_)];
      }
  }

  void draw_hyperparameters() {
    groups_.read(counts_.data(), g_.parents, g_.n);
    double &kappa = s_.concentrations[0], &tau = s_.concentrations[1];
    kappa = groups_.draw_concentration(kappa, s_.means, scales_[0], random_);
    groups_.draw_tables(kappa, s_.means, random_, tables_.data());
    if (g_.n_parents == 1) {
      draw_uniform(tables_.data(), s_.means);
      return;
    }
    // The tables of a parent are its counts: the same step one level higher, means integrated out.
    parents_.read(tables_.data(), nullptr, g_.n_parents);
    tau = parents_.draw_concentration(tau, s_.top, scales_[1], random_);
    parents_.draw_tables(tau, s_.top, random_, top_tables_.data());
    draw_uniform(top_tables_.data(), s_.top);
    for (int64_t p = 0; p < g_.n_parents; ++p)
      draw_around(s_.top, tau, &tables_[at(p)], s_.means + at(p));
  }

  void draw_uniform(const int64_t* counts, double* x) {
    for (int64_t i = 0; i < g_.k; ++i) x[i] = 1 + static_cast<double>(counts[i]);
    draw_dirichlet(g_.k, random_, x, parts_.data());
  }

  void draw_around(const double* mean, double concentration, const int64_t* counts, double* x) {
    for (int64_t i = 0; i < g_.k; ++i)
      x[i] = std::max(concentration * mean[i], kSmallestParameter) + static_cast<double>(counts[i]);
    draw_dirichlet(g_.k, random_, x, parts_.data());
  }

  const Groups& g_;
  const double* scales_;
  const State& s_;
  Random random_;
  Level groups_, parents_;
  Counts counts_, tables_, top_tables_;
  Doubles parts_;
};

// Whether all parameters of Dirichlet distributions will be finite.
bool are_bounded(const double* values, int64_t n, double most) {
  return are_parameters(values, n) && *std::max_element(values, values + n) <= most;
}

bool well_formed(const Groups& groups, int64_t m) {
  if (m < 0 || groups.k < 1 || groups.n < 1 || groups.n_parents < 1 || groups.offsets[0] != 0 ||
      groups.offsets[groups.n] != m)
    return false;
  for (int64_t g = 0; g < groups.n; ++g)
    if (groups.offsets[g] > groups.offsets[g + 1] || groups.parents[g] < 0 ||
        groups.parents[g] >= groups.n_parents)
      return false;
  return true;
}

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_hierarchy(const double* rows, int64_t m, int64_t k, const int64_t* offsets,
                                int64_t n_groups, const int64_t* parents, int64_t n_parents,
                                const double* scales, int64_t n_sweeps, double* prevalences,
                                double* means, double* top, double* concentrations, uint64_t* state,
                                int64_t* out_counts, double* out_concentrations) {
  using namespace kdey;
  const Groups groups{rows, k, offsets, parents, n_groups, n_parents};
  if (n_sweeps < 0 || !well_formed(groups, m) || !are_bounded(scales, 2, kLargestScale) ||
      !are_bounded(means, n_parents * k, 2) || !are_bounded(top, k, 2) ||
      !are_parameters(concentrations, 2) || !moves(state))
    return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const State chain{prevalences, means, top, concentrations};
    Sampler sampler(groups, scales, chain, state);
    for (int64_t n = 0; n < n_sweeps; ++n) {
      sampler.sweep();
      std::copy(concentrations, concentrations + 2, out_concentrations + 2 * n);
    }
    if (n_sweeps > 0) std::copy(sampler.counts().begin(), sampler.counts().end(), out_counts);
  });
}
