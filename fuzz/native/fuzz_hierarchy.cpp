// kdey_hierarchy: draws of the prevalences of many groups and of what they have in common.
#include <algorithm>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

struct Table {
  Range range;
  int64_t k, n_groups, n_parents, n_sweeps;
  std::vector<int64_t> offsets{0}, parents;
  std::vector<double> rows, prevalences, means, top, scales, concentrations;
  std::vector<uint64_t> state;

  explicit Table(Reader& reader)
      : range(reader.range()), k(reader.between(1, 6)), n_groups(reader.between(1, 6)),
        n_parents(reader.between(1, 3)), n_sweeps(reader.between(0, 4)) {
    for (int64_t g = 0; g < n_groups; ++g) {
      offsets.push_back(offsets.back() + (reader.one_in(6) ? 60 : reader.between(0, 5)));
      parents.push_back(reader.between(0, n_parents - 1));
    }
    if (range == Range::hostile && reader.one_in(3)) parents[0] = reader.between(-2, 4);
    rows = reader.numbers(offsets.back() * k, range);
    prevalences = simplex_points(reader, n_groups, k, range);
    means = reader.numbers(n_parents * k, range);
    top = reader.numbers(k, range);
    scales = reader.numbers(2, range);
    concentrations = reader.numbers(2, range);
    for (int i = 0; i < 4; ++i) state.push_back(reader.byte() * 0x0101010101010101u);
    if (range != Range::hostile) tame();
  }

  // What the Python layer sees to.
  void tame() {
    for (size_t j = 0; j < rows.size(); j += k) {
      const double largest = *std::max_element(rows.begin() + j, rows.begin() + j + k);
      for (int64_t i = 0; i < k; ++i) rows[j + i] = largest > 0 ? rows[j + i] / largest : 1;
    }
    for (double& entry : means) entry = std::max(entry, 1e-290);
    for (double& entry : top) entry = std::max(entry, 1e-290);
    for (int64_t p = 0; p < n_parents; ++p) to_simplex(means.data() + p * k, k);
    to_simplex(top.data(), k);
    for (double& entry : means) entry = std::max(entry, 1e-290);
    for (double& entry : top) entry = std::max(entry, 1e-290);
    for (double& entry : scales) entry = std::min(std::max(entry, 1.0), 1e9);
    for (double& entry : concentrations) entry = std::min(std::max(entry, 1e-6), 1e12);
    state[0] |= 1;
  }
};
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  Table t(reader);
  std::vector<int64_t> counts(t.n_groups * t.k, -1);
  std::vector<double> trace(t.n_sweeps * 2, NAN);
  const int32_t status = kdey_hierarchy(
      t.rows.data(), t.offsets.back(), t.k, t.offsets.data(), t.n_groups, t.parents.data(),
      t.n_parents, t.scales.data(), t.n_sweeps, t.prevalences.data(), t.means.data(), t.top.data(),
      t.concentrations.data(), t.state.data(), counts.data(), trace.data());
  if (t.range == Range::hostile) {
    require(status == KDEY_OK || status == KDEY_BAD_ARGUMENT, "draws were made or refused");
    return 0;
  }
  require(status == KDEY_OK, "draws were made");
  if (t.n_sweeps == 0) return 0;
  for (int64_t g = 0; g < t.n_groups; ++g) {
    require(on_simplex(&t.prevalences[g * t.k], t.k), "a prevalence lies on the simplex");
    int64_t total = 0;
    for (int64_t i = 0; i < t.k; ++i) total += counts[g * t.k + i];
    require(total == t.offsets[g + 1] - t.offsets[g], "every instance was given a class");
  }
  for (int64_t p = 0; p < t.n_parents; ++p)
    require(on_simplex(&t.means[p * t.k], t.k), "a mean lies on the simplex");
  for (double entry : trace) require(entry > 0 && std::isfinite(entry), "concentrations");
  return 0;
}
