// kdey_check_posteriors, kdey_bag_means and kdey_scale_rows: the passes around every solve.
#include <algorithm>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

// Rows of a pool and bags of them; hostile ones may reach outside the pool.
struct Pool {
  Range range;
  int64_t size, k, n_bags;
  std::vector<double> rows, weights;
  std::vector<int64_t> indices, offsets{0};

  explicit Pool(Reader& reader)
      : range(reader.range()),
        size(reader.one_in(16) ? reader.between(0, 90) : reader.between(1, 9)), k(reader.classes()),
        n_bags(reader.between(0, 4)), rows(reader.numbers(size * k, range)) {
    for (int64_t b = 0; b < n_bags; ++b) {
      for (int64_t left = reader.between(0, 6); left > 0 && size > 0; --left)
        indices.push_back(reader.between(0, size - 1));
      offsets.push_back(static_cast<int64_t>(indices.size()));
    }
    if (range == Range::hostile && reader.one_in(3) && !indices.empty())
      indices[reader.byte() % indices.size()] = reader.one_in(2) ? -1 : size + reader.byte();
    if (reader.one_in(3))
      for (size_t j = 0; j < indices.size(); ++j) weights.push_back(reader.positive(range));
  }
};

void check_posteriors(const Pool& p, bool narrow) {
  const std::vector<float> floats(p.rows.begin(), p.rows.end());
  double out[2] = {NAN, NAN};
  const int32_t status = narrow ? kdey_check_posteriors(floats.data(), 0, p.size, p.k, out)
                                : kdey_check_posteriors(p.rows.data(), 1, p.size, p.k, out);
  require((status == KDEY_OK) == (p.size > 0), "an empty pool is refused, no other");
  if (status != KDEY_OK) return;
  double lowest = 0, worst = 0;
  for (int64_t j = 0; j < p.size; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < p.k; ++i) {
      const double value = narrow ? floats[j * p.k + i] : p.rows[j * p.k + i];
      sum += value;
      if (value < lowest) lowest = value;
    }
    worst = std::max(worst, std::isfinite(sum) ? std::fabs(sum - 1) : INFINITY);
  }
  require(out[0] == lowest, "the lowest entry is the lowest");
  require(out[1] == worst, "the largest distance of a sum from one");
}

void check_means(const Pool& p) {
  std::vector<double> out(static_cast<size_t>(p.n_bags * p.k), NAN);
  const int32_t status = kdey_bag_means(p.rows.data(), p.size, p.k, p.indices.data(),
                                        p.offsets.data(), or_null(p.weights), p.n_bags, out.data());
  const bool inside = std::all_of(p.indices.begin(), p.indices.end(),
                                  [&](int64_t j) { return j >= 0 && j < p.size; });
  require((status == KDEY_OK) == (inside && p.size > 0), "bags outside the pool are refused");
  if (status != KDEY_OK || p.range != Range::plain) return;
  for (int64_t b = 0; b < p.n_bags; ++b)
    for (int64_t i = 0; i < p.k && p.offsets[b] < p.offsets[b + 1]; ++i) {
      long double sum = 0, total = 0;
      for (int64_t j = p.offsets[b]; j < p.offsets[b + 1]; ++j) {
        const long double weight = p.weights.empty() ? 1 : p.weights[j];
        sum += weight * p.rows[p.indices[j] * p.k + i], total += weight;
      }
      require(std::fabs(out[b * p.k + i] - sum / total) <= 1e-14L * (1 + sum / total),
              "a mean is the mean");
    }
}

void check_scales(const Pool& p, bool logs) {
  std::vector<double> rows(p.rows.size(), NAN), scales(static_cast<size_t>(p.size), NAN);
  std::vector<uint8_t> empty(static_cast<size_t>(p.size), 2);
  const int32_t status =
      kdey_scale_rows(p.rows.data(), p.size, p.k, logs, rows.data(), scales.data(), empty.data());
  const bool valid = std::all_of(p.rows.begin(), p.rows.end(), [&](double value) {
    return logs ? value < INFINITY : value >= 0 && value < INFINITY;
  });
  require((status == KDEY_OK) == (valid && p.size > 0), "rows are scaled unless they are invalid");
  if (status != KDEY_OK) return;
  for (int64_t j = 0; j < p.size; ++j) {
    const double* row = rows.data() + j * p.k;
    const double top = *std::max_element(row, row + p.k);
    require(std::isfinite(scales[j]), "a scale is finite");
    require(top == 1 || (top == 0 && empty[j] == 1), "the largest entry is one, or all are zero");
    require(empty[j] == (top == 0), "empty rows are named");
    for (int64_t i = 0; i < p.k && p.range == Range::plain; ++i) {
      const long double before = p.rows[j * p.k + i];
      const long double log = logs ? before : std::log(before);
      const long double again = std::log(static_cast<long double>(row[i])) + scales[j];
      require(row[i] == 0 || std::fabs(again - log) <= 1e-13L * (1 + std::fabs(log)),
              "what was taken out can be put back");
    }
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  const Pool pool(reader);
  check_posteriors(pool, reader.one_in(2));
  check_means(pool);
  check_scales(pool, reader.one_in(2));
  return 0;
}
