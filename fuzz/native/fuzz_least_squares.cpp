// kdey_solve_least_squares: mean rows matched to templates, with objective and gap.
#include "kdey.h"
#include "solution.hpp"

namespace {
using namespace fuzz;

struct Matches {
  Range range;
  int64_t n, r, k, passes;
  std::vector<double> templates, gram, targets, start;

  explicit Matches(Reader& reader)
      : range(reader.range()), n(reader.one_in(4) ? reader.between(0, 3) : 1),
        r(reader.one_in(32) ? reader.between(13, 60) : reader.between(1, 12)), k(reader.classes()),
        passes(reader.one_in(4) ? reader.between(1, 3) : 4),
        templates(reader.numbers(r * k, range)), gram(static_cast<size_t>(k * k)),
        targets(reader.numbers(n * r, range)) {
    for (int64_t i = 0; i < r; ++i)
      for (int64_t a = 0; a < k; ++a)
        for (int64_t b = 0; b < k; ++b)
          gram[a * k + b] += templates[i * k + a] * templates[i * k + b];
    if (reader.one_in(3)) start = simplex_points(reader, n, k, range);
  }

  Slow slow(int64_t b, const double* x) const {
    std::vector<long double> gradient(static_cast<size_t>(k), 0.0L);
    long double squares = 0, size = 0;
    for (int64_t i = 0; i < r; ++i) {
      const double target = targets[b * r + i];
      long double residual = -static_cast<long double>(target);
      for (int64_t a = 0; a < k; ++a)
        residual += static_cast<long double>(templates[i * k + a]) * x[a];
      for (int64_t a = 0; a < k; ++a) {
        const long double entry = templates[i * k + a];
        gradient[a] += residual * entry;
        size += std::fabs(entry) * (std::fabs(entry) + std::fabs(target));
      }
      squares += residual * residual;
      size += static_cast<long double>(target) * target;
    }
    return {squares / 2, slow_gap(gradient, x), size};
  }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  const Matches m(reader);
  Answers answers(m.n, m.k);
  const int32_t status = kdey_solve_least_squares(
      m.templates.data(), m.gram.data(), m.targets.data(), or_null(m.start), m.n, m.r, m.k,
      m.passes, reader.threads(), answers.x.data(), answers.objective.data(), answers.gap.data(),
      answers.n_iter.data());
  require(status == KDEY_OK, "the programs were solved");
  for (int64_t b = 0; b < m.n; ++b) {
    const double* x = answers.x.data() + b * m.k;
    require(answers.n_iter[b] >= 1 && answers.n_iter[b] <= m.passes * (10 * m.k + 50),
            "steps stay below the limit");
    if (m.range != Range::plain || !starts_well(m.start, b, m.k)) continue;
    require(on_simplex(x, m.k), "a prevalence lies on the simplex");
    const Slow slow = m.slow(b, x);
    require(answers.gap[b] >= 0, "a gap is not negative");
    require(std::fabs(slow.gap - answers.gap[b]) <= 1e-12 * (1 + slow.size), "the gap is the gap");
    require(std::fabs(slow.value - answers.objective[b]) <= 1e-12 * (1 + slow.size),
            "the objective is the objective");
    if (m.passes == 4) require(answers.gap[b] <= 1e-9 * (1 + slow.size), "the match is the best");
  }
  return 0;
}
