// kdey_solve_mixture: maximum likelihood of bags of rows.
#include "kdey.h"
#include "reader.hpp"
#include "solution.hpp"

namespace {
using namespace fuzz;

struct Mixture {
  Range range;
  int64_t k, pool, n_bags;
  std::vector<double> rows, log_scales, weights, start;
  std::vector<int64_t> indices, offsets;
  bool broken = false;

  explicit Mixture(Reader& reader)
      : range(reader.range()), k(reader.classes()),
        pool(reader.one_in(8) ? reader.between(1, 40) : reader.between(1, 9)),
        n_bags(reader.one_in(8) ? reader.between(1, 3) : 1), rows(reader.numbers(pool * k, range)),
        log_scales(reader.numbers(pool, range == Range::hostile ? range : Range::plain)),
        offsets{0} {
    if (range != Range::hostile) scale_rows();
    for (int64_t b = 0; b < n_bags; ++b) {
      // From 2048 rows on the solver starts with some of them.
      const int64_t size = reader.one_in(128) ? reader.between(2048, 2600) : reader.between(1, 20);
      for (int64_t j = 0; j < size; ++j) indices.push_back(reader.between(0, pool - 1));
      offsets.push_back(static_cast<int64_t>(indices.size()));
    }
    indices.shrink_to_fit();
    if (reader.one_in(3)) weights = reader.numbers(static_cast<int64_t>(indices.size()), range);
    if (reader.one_in(3)) start = simplex_points(reader, n_bags, k, range);
    if (range == Range::hostile && reader.one_in(4)) spoil(reader);
  }

  // An index outside the pool, or a bag that ends before it begins.
  void spoil(Reader& reader) {
    broken = true;
    if (reader.one_in(2))
      offsets[n_bags] = -reader.between(1, 9);
    else
      indices[reader.between(0, offsets[1] - 1)] = reader.one_in(2) ? pool : -1;
  }

  // As the Python layer holds them: a largest entry of one, or nothing but zeros.
  void scale_rows() {
    for (int64_t j = 0; j < pool; ++j) {
      double* row = rows.data() + j * k;
      double largest = 0;
      for (int64_t i = 0; i < k; ++i) largest = std::fmax(largest, row[i]);
      for (int64_t i = 0; i < k && largest > 0; ++i) row[i] /= largest;
    }
  }

  double weight(int64_t at) const { return weights.empty() ? 1 : weights[at]; }
  const double* row(int64_t at) const { return rows.data() + indices[at] * k; }
  bool informs(int64_t at) const {
    for (int64_t i = 0; i < k; ++i)
      if (row(at)[i] != 0) return weight(at) != 0;
    return false;
  }
  // The Python layer refuses weights whose sum is not finite, and answers bags without
  // information itself.
  double mass(int64_t b) const {
    double sum = 0;
    for (int64_t at = offsets[b]; at < offsets[b + 1]; ++at) sum += informs(at) ? weight(at) : 0;
    return sum;
  }
};

// Objective and gap of one bag by plain loops.
Slow slow_mixture(const Mixture& m, int64_t b, const double* x) {
  std::vector<long double> g(m.k, 0);
  long double value = 0, mass = 0;
  for (int64_t at = m.offsets[b]; at < m.offsets[b + 1]; ++at) {
    if (!m.informs(at)) continue;
    long double p = 0;
    for (int64_t i = 0; i < m.k; ++i) p += static_cast<long double>(m.row(at)[i]) * x[i];
    for (int64_t i = 0; i < m.k; ++i) g[i] -= m.weight(at) * (m.row(at)[i] / p);
    value -= m.weight(at) * (std::log(p) + m.log_scales[m.indices[at]]);
    mass += m.weight(at);
  }
  for (long double& entry : g) entry /= mass;
  return {value / mass, slow_gap(g, x), 1};
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  reader.choose_isa();
  const Mixture m(reader);
  const Limits limits(reader, m.range);
  Answers answers(m.n_bags, m.k);
  const int32_t status = kdey_solve_mixture(
      m.rows.data(), m.log_scales.data(), m.pool, m.k, m.indices.data(), m.offsets.data(),
      or_null(m.weights), m.n_bags, or_null(m.start), limits.tol, limits.max_iter, reader.threads(),
      answers.x.data(), answers.objective.data(), answers.gap.data(), answers.n_iter.data());
  require(status == (m.broken ? KDEY_BAD_ARGUMENT : KDEY_OK), "the mixture was solved or refused");
  if (m.broken) return 0;
  for (int64_t b = 0; b < m.n_bags; ++b) {
    if (m.mass(b) > 0 && m.mass(b) < DBL_MAX && starts_well(m.start, b, m.k))
      answers.check(b, limits, m.range, [&](const double* x) { return slow_mixture(m, b, x); });
  }
  return 0;
}
