// kdey_solve_divergence: divergences between a bag's profile and the mixture of the classes'.
#include "kdey.h"
#include "reader.hpp"
#include "separable_kernels.hpp"
#include "solution.hpp"

namespace {
using namespace fuzz;

struct Match {
  Range range;
  int64_t loss, k, t, n_bags;
  std::vector<double> templates, targets, reference, start;

  explicit Match(Reader& reader)
      : range(reader.range()), loss(reader.between(0, kdey::kLosses - 1)), k(reader.classes()),
        // From 2048 points on the solver starts with some of them.
        t(reader.one_in(128) ? reader.between(2048, 2300) : reader.between(1, 20)),
        n_bags(reader.one_in(8) ? reader.between(1, 3) : 1),
        templates(reader.numbers(t * k, range)), targets(reader.numbers(n_bags * t, range)),
        reference(static_cast<size_t>(t), 1.0) {
    if (reader.one_in(2))
      for (double& entry : reference) entry = reader.positive(range);
    if (reader.one_in(3)) start = simplex_points(reader, n_bags, k, range);
  }

  bool bare(int64_t j) const {
    for (int64_t i = 0; i < k; ++i)
      if (templates[j * k + i] != 0) return false;
    return true;
  }
  // Whether the Python layer passes this bag on: the divergence is finite for all prevalences of
  // positive entries. (A negative logarithm is asked for by kdey_solve_mixture alone.)
  bool asked(int64_t b) const {
    if (loss == kdey::kNegativeLog) return false;
    for (int64_t j = 0; j < t; ++j) {
      const double q = targets[b * t + j];
      if (loss == kdey::kKl && q > 0 && bare(j)) return false;
      if (loss == kdey::kReverseKl && !(q > 0) && !bare(j)) return false;
    }
    return true;
  }
};

long double entropy(long double a, long double b) { return a > 0 ? a * std::log(a / b) : 0; }

// phi(p, q), as kdey/matching/divergence.py has it.
long double phi(int64_t loss, long double p, long double q) {
  const long double middle = (p + q) / 2;
  const long double topsoe = entropy(p, middle) + entropy(q, middle);
  switch (loss) {
    case kdey::kHellinger: return p + q - 2 * std::sqrt(p) * std::sqrt(q);
    case kdey::kTopsoe: return topsoe;
    case kdey::kJensenShannon: return topsoe / 2;
    case kdey::kKl: return entropy(q, p) - q + p;
    case kdey::kReverseKl: return entropy(p, q) - p + q;
    default: return p + q > 0 ? (p - q) * (p - q) / (p + q) : 0;
  }
}

// Its derivative in p.
long double slope(int64_t loss, long double p, long double q) {
  switch (loss) {
    case kdey::kHellinger: return q > 0 ? 1 - std::sqrt(q / p) : 1;
    case kdey::kTopsoe: return q > 0 ? std::log(2 * p / (p + q)) : std::log(2.0L);
    case kdey::kJensenShannon: return (q > 0 ? std::log(2 * p / (p + q)) : std::log(2.0L)) / 2;
    case kdey::kKl: return q > 0 ? 1 - q / p : 1;
    case kdey::kReverseKl: return std::log(p / q);
    default: return q > 0 ? 1 - 4 * (q / (p + q)) * (q / (p + q)) : 1;
  }
}

Slow slow_match(const Match& m, int64_t b, const double* x) {
  std::vector<long double> g(m.k, 0), size(m.k, 0);
  long double value = 0, terms = 0;
  for (int64_t j = 0; j < m.t; ++j) {
    const double *row = m.templates.data() + j * m.k, q = m.targets[b * m.t + j];
    long double p = 0;
    for (int64_t i = 0; i < m.k; ++i) p += static_cast<long double>(row[i]) * x[i];
    value += phi(m.loss, p, q) / m.reference[j];
    terms += (p + q) / m.reference[j];
    if (m.bare(j)) continue;
    const long double s = slope(m.loss, p, q) / m.reference[j];
    for (int64_t i = 0; i < m.k; ++i) {
      g[i] += s * row[i];
      size[i] += (std::fabs(s) + 1 / m.reference[j]) * row[i];
    }
  }
  return {value, slow_gap(g, x), terms + *std::max_element(size.begin(), size.end())};
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  reader.choose_isa();
  const Match m(reader);
  const Limits limits(reader, m.range);
  Answers answers(m.n_bags, m.k);
  const int32_t status = kdey_solve_divergence(
      m.loss, m.templates.data(), m.targets.data(), m.reference.data(), m.n_bags, m.t, m.k,
      or_null(m.start), limits.tol, limits.max_iter, reader.threads(), answers.x.data(),
      answers.objective.data(), answers.gap.data(), answers.n_iter.data());
  require(status == KDEY_OK, "the divergence was minimised");
  for (int64_t b = 0; b < m.n_bags; ++b) {
    if (m.asked(b) && starts_well(m.start, b, m.k))
      answers.check(b, limits, m.range, [&](const double* x) { return slow_match(m, b, x); });
  }
  return 0;
}
