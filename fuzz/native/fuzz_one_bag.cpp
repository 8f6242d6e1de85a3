// kdey_match_one_bag: checks, mean and solution of one bag in a single call, which gives what the
// calls for many bags give.
#include <algorithm>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

struct Bag {
  Range range;
  int64_t k, m;
  bool narrow, decide, means_only;
  int64_t passes;
  std::vector<double> rows, templates, gram;
  std::vector<float> floats;

  explicit Bag(Reader& reader)
      : range(reader.range()), k(reader.classes()),
        m(reader.one_in(16) ? reader.between(0, 90) : reader.between(1, 9)),
        narrow(reader.one_in(3)), decide(reader.one_in(3)), means_only(reader.one_in(4)),
        passes(reader.one_in(4) ? reader.between(1, 3) : 4),
        rows(simplex_points(reader, m, k, range)), templates(reader.numbers(k * k, range)),
        gram(static_cast<size_t>(k * k)) {
    if (narrow) {
      floats.assign(rows.begin(), rows.end());
      rows.assign(floats.begin(), floats.end());  // what the core reads
    }
    for (int64_t i = 0; i < k; ++i)
      for (int64_t a = 0; a < k; ++a)
        for (int64_t b = 0; b < k; ++b)
          gram[a * k + b] += templates[i * k + a] * templates[i * k + b];
  }
  const void* data() const {
    return narrow ? static_cast<const void*>(floats.data()) : rows.data();
  }

  std::vector<double> mean() const {
    std::vector<int64_t> indices, offsets{0, m};
    for (int64_t j = 0; j < m; ++j) indices.push_back(j);
    std::vector<double> counted(rows.size(), 0.0), out(static_cast<size_t>(k), NAN);
    for (int64_t j = 0; j < m; ++j) {
      const double* row = rows.data() + j * k;
      counted[j * k + (std::max_element(row, row + k) - row)] = 1;
    }
    require(kdey_bag_means((decide ? counted : rows).data(), m, k, indices.data(), offsets.data(),
                           nullptr, 1, out.data()) == KDEY_OK,
            "the bag has a mean");
    return out;
  }
  // Where the templates are matched to the mean, and the gap of that.
  std::vector<double> match(const std::vector<double>& target, double* gap) const {
    std::vector<double> x(static_cast<size_t>(k), NAN);
    double objective = NAN;
    int64_t steps = 0;
    require(kdey_solve_least_squares(templates.data(), gram.data(), target.data(), nullptr, 1, k, k,
                                     passes, 1, x.data(), &objective, gap, &steps) == KDEY_OK,
            "the mean was matched");
    return x;
  }
};

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return !std::memcmp(a.data(), b.data(), a.size() * sizeof(double));
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  const Bag bag(reader);
  constexpr double sums = 1e-3, gaps = 1e-12;
  std::vector<double> out(static_cast<size_t>(bag.k), NAN);
  const int32_t status = kdey_match_one_bag(bag.data(), !bag.narrow, bag.m, bag.k, bag.decide,
                                            bag.means_only ? nullptr : bag.templates.data(),
                                            bag.gram.data(), bag.passes, sums, gaps, out.data());
  if (bag.m < 1) {
    require(status == KDEY_BAD_ARGUMENT, "an empty bag is refused");
    return 0;
  }
  double seen[2] = {NAN, NAN};
  require(kdey_check_posteriors(bag.data(), !bag.narrow, bag.m, bag.k, seen) == KDEY_OK, "a check");
  const bool valid = seen[0] >= 0 && seen[1] < sums;
  require(status == KDEY_OK || status == KDEY_UNANSWERED, "the bag is answered or left alone");
  if (!valid) require(status == KDEY_UNANSWERED, "rows that are no posteriors are left alone");
  if (!valid) return 0;
  const std::vector<double> mean = bag.mean();
  if (bag.means_only) {
    require(status == KDEY_OK && same_bits(out, mean), "the mean is that of many bags");
    return 0;
  }
  double gap = NAN;
  const std::vector<double> matched = bag.match(mean, &gap);
  if (status == KDEY_OK) {
    require(same_bits(out, matched), "the answer is that of many bags");
    require(gap >= 0 || bag.range != Range::plain, "a gap is not negative");
  }
  if (bag.range != Range::plain) return 0;
  require(on_simplex(matched.data(), bag.k), "a prevalence lies on the simplex");
  double longest = 0, squares = 0;
  for (int64_t i = 0; i < bag.k; ++i) {
    longest = std::max(longest, std::sqrt(bag.gram[i * bag.k + i]));
    squares += mean[i] * mean[i];
  }
  const double limit = gaps * longest * (std::sqrt(squares) + longest);
  if (gap < 0.99 * limit) require(status == KDEY_OK, "what has converged is answered");
  if (gap > 1.01 * limit) require(status == KDEY_UNANSWERED, "what has not is left alone");
  return 0;
}
