// kdey_gibbs: draws of a prevalence and of class counts.
#include <algorithm>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

struct Chains {
  Range range;
  int64_t m, k, n_chains, n_sweeps;
  std::vector<double> rows, weights, prior, current;
  std::vector<uint64_t> states;

  explicit Chains(Reader& reader)
      : range(reader.range()), m(reader.between(1, 20)), k(reader.between(1, 9)),
        n_chains(reader.between(0, 3)), n_sweeps(reader.between(0, 5)),
        rows(reader.numbers(m * k, range)), prior(reader.numbers(k, range)),
        current(simplex_points(reader, n_chains, k, range)) {
    if (reader.one_in(3)) weights = reader.numbers(m, range);
    for (int64_t i = 0; i < 4 * n_chains; ++i)
      states.push_back(reader.one_in(3) ? 0 : reader.byte() * 0x0101010101010101u);
    // Large weights are allowed and just as long at work.
    for (double& entry : weights) entry = entry > 50 && entry <= 1e9 ? 50 : entry;
    if (range != Range::hostile) tame(reader);
  }

  // What the Python layer sees to: a positive entry in every row, a positive prior, weights that
  // stand for a number of instances and are not all zero, generators that move.
  void tame(Reader& reader) {
    for (int64_t j = 0; j < m; ++j) {
      double* row = rows.data() + j * k;
      const double largest = *std::max_element(row, row + k);
      if (largest == 0) row[0] = 1;
      for (int64_t i = 0; i < k && largest > 0; ++i) row[i] /= largest;
    }
    for (double& entry : prior) entry = entry > 0 ? entry : 1;
    for (double& entry : weights) entry = std::min(entry, 50.0);
    if (!weights.empty() && *std::max_element(weights.begin(), weights.end()) == 0) weights[0] = 1;
    for (int64_t c = 0; c < n_chains; ++c) states[4 * c] |= 1 + reader.byte();
  }
  double total() const {
    if (weights.empty()) return static_cast<double>(m);
    double sum = 0;
    for (double entry : weights) sum += entry;
    return sum;
  }
};

void check_sweep(const Chains& c, const double* x, const double* counts) {
  double sum = 0;
  for (int64_t i = 0; i < c.k; ++i) {
    require(counts[i] >= 0, "a count is not negative");
    require(x[i] > 0, "a drawn prevalence is positive");
    sum += counts[i];
  }
  require(on_simplex(x, c.k), "a draw lies on the simplex");
  require(std::fabs(sum - c.total()) <= 1e-9 * c.total(), "every instance was given a class");
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  Chains c(reader);
  const int64_t drawn = c.n_chains * c.n_sweeps * c.k;
  std::vector<double> prevalence(drawn, NAN), counts(drawn, NAN);
  const int32_t status = kdey_gibbs(c.rows.data(), or_null(c.weights), c.m, c.k, c.prior.data(),
                                    c.n_chains, c.n_sweeps, c.current.data(), c.states.data(),
                                    reader.threads(), prevalence.data(), counts.data());
  if (c.range == Range::hostile) {
    require(status == KDEY_OK || status == KDEY_BAD_ARGUMENT, "draws were made or refused");
    return 0;
  }
  require(status == KDEY_OK, "draws were made");
  for (int64_t s = 0; s < drawn; s += c.k) check_sweep(c, &prevalence[s], &counts[s]);
  return 0;
}
