// kdey_kernel_means: mean kernels of bags at points.
#include <algorithm>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

constexpr double kFloor = -500;

struct Means {
  Range range;
  int64_t t, pool, dim, n_bags;
  std::vector<double> points, log_scale, coordinates, weights;
  std::vector<int64_t> indices, offsets{0};
  double bandwidth;

  explicit Means(Reader& reader)
      : range(reader.range()), t(reader.one_in(16) ? reader.between(0, 70) : reader.between(0, 6)),
        pool(reader.one_in(64) ? reader.between(4000, 9000) : reader.between(0, 12)),
        dim(reader.one_in(16) ? reader.between(5, 40) : reader.between(1, 4)),
        n_bags(reader.between(0, 4)), points(reader.numbers(t * dim, range)),
        log_scale(reader.numbers(t, range)), coordinates(reader.numbers(pool * dim, range)),
        bandwidth(reader.positive(range)) {
    const bool many = pool > 100 && reader.one_in(2);
    for (int64_t b = 0; b < n_bags; ++b) {
      for (int64_t left = many ? pool : reader.between(1, 6); left > 0 && pool > 0; --left)
        indices.push_back(reader.between(0, pool - 1));
      offsets.push_back(static_cast<int64_t>(indices.size()));
    }
    if (range == Range::hostile && reader.one_in(3) && !indices.empty())
      indices[reader.byte() % indices.size()] = reader.one_in(2) ? -1 : pool + reader.byte();
    if (reader.one_in(3))
      for (size_t j = 0; j < indices.size(); ++j) weights.push_back(reader.positive(range));
    if (range == Range::plain) bandwidth = std::max(bandwidth, 0.01);
  }

  // The mean of one bag at one point, and how much rounding may move it, relative to it.
  // Distances come from products of coordinates relative to the mean of all instances.
  long double mean(int64_t b, int64_t i, long double* rounding) const {
    const long double span = *std::max_element(coordinates.begin(), coordinates.end());
    long double sum = 0, total = 0, widest = 1;
    for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
      long double squared = 0, norms = 0;
      for (int64_t d = 0; d < dim; ++d) {
        const long double x = points[i * dim + d], u = coordinates[indices[j] * dim + d];
        squared += (x - u) * (x - u), norms += 2 * (x * x + span * span);
      }
      const long double factor = 0.5L / (static_cast<long double>(bandwidth) * bandwidth);
      const long double weight = weights.empty() ? 1 : weights[j];
      const long double log = std::max<long double>(-factor * squared - log_scale[i], kFloor);
      sum += weight * std::exp(log), total += weight;
      widest = std::max(widest, 1 + factor * norms + std::fabs(log_scale[i]) + std::fabs(log));
    }
    *rounding = 1e-13L * widest;
    return sum / total;
  }
};

void check(const Means& m, const std::vector<double>& out) {
  const double least = std::exp(kFloor);
  for (int64_t b = 0; b < m.n_bags; ++b)
    for (int64_t i = 0; i < m.t; ++i) {
      const double found = out[b * m.t + i];
      require(found >= 0.999 * least && found < INFINITY, "a mean is positive and finite");
      if (m.indices.size() > 1000) continue;  // the sums below would take long
      long double rounding = 0;
      const long double mean = std::max<long double>(m.mean(b, i, &rounding), least);
      require(std::fabs(found - mean) <= rounding * mean, "a mean is the mean");
    }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  reader.choose_isa();
  const Means m(reader);
  std::vector<double> out(static_cast<size_t>(m.n_bags * m.t), NAN);
  const int32_t status =
      kdey_kernel_means(m.points.data(), m.log_scale.data(), m.t, m.coordinates.data(), m.pool,
                        m.dim, m.indices.data(), m.offsets.data(), or_null(m.weights), m.n_bags,
                        m.bandwidth, kFloor, reader.threads(), out.data());
  const bool inside = std::all_of(m.indices.begin(), m.indices.end(),
                                  [&](int64_t j) { return j >= 0 && j < m.pool; });
  require((status == KDEY_OK) == (inside && m.pool > 0 && m.bandwidth > 0),
          "bags outside the pool and bandwidths that are not positive are refused");
  if (status == KDEY_OK && m.range == Range::plain) check(m, out);
  return 0;
}
