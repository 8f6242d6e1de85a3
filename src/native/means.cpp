// Mean kernels of bags at fixed points: every kernel value is computed once for all bags that
// contain its instance, a few points at a time, so that values stay in the cache.
#include <algorithm>
#include <cmath>
#include <vector>

#include "bags.hpp"
#include "guard.hpp"
#include "isa.hpp"
#include "kdey.h"
#include "means_kernels.hpp"
#include "workers.hpp"

namespace kdey {
namespace {

constexpr double kLog2E = 1.44269504088896340736;
// Instances whose values at kMeanPoints points are in memory at once: half a megabyte.
constexpr int64_t kInstances = 4096;

MeanKernels active_kernels() {
#if defined(KDEY_HAVE_X86_ISAS)
  if (active_isa() == Isa::avx512) return avx512::mean_kernels();
  if (active_isa() == Isa::avx2) return avx2::mean_kernels();
#endif
  return baseline::mean_kernels();
}

// The instances that are in any bag, moved to their mean and scaled so that a kernel is a power of
// two: u . x + a + b with x the point from the same mean.
struct Instances {
  std::vector<int64_t> place;  // of each instance of the pool among those used, or -1
  std::vector<double> centre, u, a;
  int64_t count = 0;

  Instances(const double* coordinates, int64_t pool, int64_t dim, const int64_t* indices,
            int64_t n_entries, double factor)
      : place(pool, -1), centre(dim, 0.0) {
    for (int64_t e = 0; e < n_entries; ++e) place[indices[e]] = 0;
    for (int64_t j = 0; j < pool; ++j) {
      if (place[j] < 0) continue;
      place[j] = count++;
      for (int64_t d = 0; d < dim; ++d) centre[d] += coordinates[j * dim + d];
    }
    for (double& value : centre) value /= static_cast<double>(std::max<int64_t>(count, 1));
    u.reserve(count * dim);
    a.reserve(count);
    for (int64_t j = 0; j < pool; ++j) {
      if (place[j] < 0) continue;
      double norm = 0;
      for (int64_t d = 0; d < dim; ++d) {
        const double value = coordinates[j * dim + d] - centre[d];
        norm += value * value;
        u.push_back(-2 * factor * value);
      }
      a.push_back(factor * norm);
    }
  }
};

// The members of a bag among one run of kInstances instances.
struct Entries {
  int64_t bag, first, last;
};

// All entries of all bags, by runs of instances, within a run by bags.
struct Schedule {
  std::vector<int64_t> rows;  // within the run
  std::vector<double> shares;
  std::vector<Entries> entries;
  std::vector<int64_t> runs;  // run c owns entries[runs[c] .. runs[c + 1])

  Schedule(const Instances& instances, const int64_t* indices, const int64_t* offsets,
           const double* weights, int64_t n_bags) {
    const int64_t n_runs = (instances.count + kInstances - 1) / kInstances;
    std::vector<int64_t> ends(n_runs + 1, 0);
    const int64_t n_entries = n_bags ? offsets[n_bags] - offsets[0] : 0;
    for (int64_t e = 0; e < n_entries; ++e)
      ++ends[instances.place[indices[offsets[0] + e]] / kInstances + 1];
    for (int64_t c = 0; c < n_runs; ++c) ends[c + 1] += ends[c];
    rows.resize(n_entries);
    shares.resize(n_entries);
    std::vector<std::vector<Entries>> of_run(n_runs);
    for (int64_t b = 0; b < n_bags; ++b) {
      double total = static_cast<double>(offsets[b + 1] - offsets[b]);
      if (weights) {
        total = 0;
        for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) total += weights[j];
      }
      for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
        const int64_t place = instances.place[indices[j]], run = place / kInstances;
        const int64_t at = ends[run]++;
        rows[at] = place % kInstances;
        shares[at] = (weights ? weights[j] : 1.0) / total;
        if (of_run[run].empty() || of_run[run].back().bag != b) of_run[run].push_back({b, at, at});
        of_run[run].back().last = at + 1;
      }
    }
    runs.push_back(0);
    for (const auto& part : of_run) {
      entries.insert(entries.end(), part.begin(), part.end());
      runs.push_back(static_cast<int64_t>(entries.size()));
    }
  }
};

struct Workspace {
  std::vector<double> x, values, sums;
};

struct Means {
  const double *points, *log_scale;
  int64_t t, dim, n_bags;
  double factor, lowest;
  const Instances& instances;
  const Schedule& schedule;
  MeanKernels kernels;

  Workspace workspace() const {
    return {std::vector<double>((dim + 1) * kMeanPoints),
            std::vector<double>(std::min(kInstances, instances.count) * kMeanPoints),
            std::vector<double>(n_bags * kMeanPoints)};
  }

  // The means of all bags at points first .. first + kMeanPoints, as many as there are.
  void block(Workspace& space, int64_t first, double* out) const {
    const int64_t width = std::min(kMeanPoints, t - first);
    double *x = space.x.data(), *b = x + dim * kMeanPoints;
    std::fill(space.x.begin(), space.x.end(), 0.0);
    for (int64_t i = 0; i < width; ++i) {
      double norm = 0;
      for (int64_t d = 0; d < dim; ++d) {
        const double value = points[(first + i) * dim + d] - instances.centre[d];
        norm += value * value;
        x[d * kMeanPoints + i] = value;
      }
      b[i] = factor * norm - kLog2E * log_scale[first + i];
    }
    std::fill(space.sums.begin(), space.sums.end(), 0.0);
    for (int64_t start = 0, run = 0; start < instances.count; start += kInstances, ++run) {
      const int64_t count = std::min(kInstances, instances.count - start);
      kernels.values(instances.u.data() + start * dim, instances.a.data() + start, count, dim, x, b,
                     lowest, space.values.data());
      for (int64_t e = schedule.runs[run]; e < schedule.runs[run + 1]; ++e) {
        const Entries& entry = schedule.entries[e];
        kernels.add(space.values.data(), schedule.rows.data() + entry.first,
                    schedule.shares.data() + entry.first, entry.last - entry.first,
                    space.sums.data() + entry.bag * kMeanPoints);
      }
    }
    const double least = std::exp2(lowest);
    for (int64_t bag = 0; bag < n_bags; ++bag)
      for (int64_t i = 0; i < width; ++i)
        out[bag * t + first + i] = std::max(space.sums[bag * kMeanPoints + i], least);
  }
};

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_kernel_means(const double* points, const double* log_scale, int64_t t,
                                   const double* coordinates, int64_t pool, int64_t dim,
                                   const int64_t* indices, const int64_t* offsets,
                                   const double* weights, int64_t n_bags, double bandwidth,
                                   double log_floor, int64_t n_threads, double* out) {
  using namespace kdey;
  if (t < 0 || pool < 1 || dim < 1 || n_bags < 0 || n_threads < 1 || !(bandwidth > 0) ||
      !(log_floor * kLog2E >= -1021 && log_floor <= 0) || !bags_fit(indices, offsets, n_bags, pool))
    return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const double factor = -0.5 / (bandwidth * bandwidth) * kLog2E;
    const int64_t first = n_bags ? offsets[0] : 0, last = n_bags ? offsets[n_bags] : 0;
    const Instances instances(coordinates, pool, dim, indices + first, last - first, factor);
    const Schedule schedule(instances, indices, offsets, weights, n_bags);
    const Means means{points, log_scale,          t,         dim,      n_bags,
                      factor, log_floor * kLog2E, instances, schedule, active_kernels()};
    const int64_t n_blocks = (t + kMeanPoints - 1) / kMeanPoints;
    parallel_with(
        n_blocks, n_threads, [&] { return means.workspace(); },
        [&](Workspace& space, int64_t i) { means.block(space, i * kMeanPoints, out); });
  });
}
