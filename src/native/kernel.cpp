// kdey_class_log_sums: chunks of references against groups of queries.
#include "kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "isa.hpp"
#include "kdey.h"
#include "kernel_order.hpp"
#include "kernel_pack.hpp"
#include "parallel.hpp"

namespace kdey {
namespace {

constexpr int64_t kQuerySpan = 8192;  // queries ordered together

const KernelIsa& kernel_isa() {
#if defined(KDEY_HAVE_X86_ISAS)
  if (active_isa() == Isa::avx512) return avx512::kernel;
  if (active_isa() == Isa::avx2) return avx2::kernel;
#endif
  return baseline::kernel;
}

// One worker's memory in a single allocation.
class Worker {
 public:
  Worker(const Problem& problem, const Chunk& chunk, const Layout& layout, const KernelIsa& isa) {
    memory_.reserve(place(nullptr, problem, chunk, layout, isa));
    place(memory_.data(), problem, chunk, layout, isa);
  }
  Scratch scratch{};

 private:
  size_t place(void* base, const Problem& problem, const Chunk& chunk, const Layout& layout,
               const KernelIsa& isa) {
    uintptr_t start = reinterpret_cast<uintptr_t>(base);
    size_t used = 0;
    auto take = [&](auto*& pointer, int64_t count) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(start + used);
      used += (count * sizeof(*pointer) + 63) / 64 * 64;
    };
    int64_t dim = problem.queries.dim, h = problem.n_bandwidths;
    int64_t pairs = int64_t{kGroup} * chunk.stride;
    Scratch& s = scratch;
    s.block_stride = static_cast<int>((layout.block + 31) / 32 * 32);
    take(s.x_high, int64_t{kGroup} * chunk.padded_dim);
    take(s.x_low, int64_t{kGroup} * chunk.padded_dim);
    take(s.x, kGroup * dim);
    take(s.nearest2, pairs);
    take(s.norm2, pairs);
    take(s.mode, pairs);
    take(s.cap, chunk.stride);
    take(s.shift, h * kGroup);
    take(s.centred, (dim + 63) / 64 * 64 * isa.batch);
    take(s.bias, h * isa.batch);
    take(s.sums, h * isa.batch * isa.lanes);
    take(s.tops, h * isa.lanes);
    take(s.block, dim * s.block_stride);
    return used;
  }
  Aligned<char> memory_;
};

// Runs all groups of one span of queries against one chunk.
void run_span(const Problem& problem, const Packer& packer, const Layout& layout,
              const KernelIsa& isa, const std::vector<int64_t>& rows, const int64_t* exclude,
              int n_threads) {
  int64_t n_groups = (static_cast<int64_t>(rows.size()) + kGroup - 1) / kGroup;
  std::atomic<int64_t> next{0};
  parallel_for(std::min<int64_t>(n_threads, n_groups), n_threads, [&](int64_t) {
    Worker worker(problem, packer.chunk(), layout, isa);
    for (int64_t g = next++; g < n_groups; g = next++) {
      Group group{rows.data() + g * kGroup, 0};
      group.size = static_cast<int>(std::min<int64_t>(kGroup, rows.size() - g * kGroup));
      for (int q = 0; q < group.size; ++q)
        packer.locate(exclude ? exclude[group.rows[q]] : -1, &worker.scratch.skip_block[q],
                      &worker.scratch.skip_lane[q]);
      isa.run_group(problem, packer.chunk(), group, worker.scratch);
    }
  });
}

// All queries, all references, at most kMaxBandwidths bandwidths.
void run_pass(Problem problem, const References& references, const Layout& layout,
              const KernelIsa& isa, const int64_t* exclude, int n_threads) {
  Packer packer(references, layout);
  SpatialOrder order(problem.queries, kGroup);
  std::vector<int64_t> rows;
  while (packer.next(n_threads)) {
    for (int64_t start = 0; start < problem.n_queries; start += kQuerySpan) {
      rows.resize(std::min(kQuerySpan, problem.n_queries - start));
      std::iota(rows.begin(), rows.end(), start);
      order(rows.data(), static_cast<int64_t>(rows.size()));
      run_span(problem, packer, layout, isa, rows, exclude, n_threads);
    }
    problem.resumed = true;
  }
  int64_t size = problem.n_bandwidths * problem.n_queries * problem.n_classes;
  if (!problem.resumed)  // not a single reference
    std::fill_n(problem.out, size, -std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace kdey

KDEY_API int32_t kdey_class_log_sums(const void* queries, const void* references,
                                     int64_t queries_double, int64_t references_double, int64_t m,
                                     int64_t n, int64_t dim, const int64_t* offsets, int64_t k,
                                     const double* bandwidths, int64_t n_bandwidths,
                                     const double* weights, const int64_t* exclude,
                                     int64_t double_mode, int64_t n_threads, int64_t block_size,
                                     int64_t skip, double* out) try {
  using namespace kdey;
  if (m < 0 || n < 0 || dim < 1 || k < 1 || n_bandwidths < 1 || n_threads < 1 || block_size < 0 ||
      offsets[0] != 0 || offsets[k] != n || !std::is_sorted(offsets, offsets + k + 1))
    return KDEY_BAD_ARGUMENT;
  const KernelIsa& isa = kernel_isa();
  References refs{{references, references_double != 0, dim}, offsets, k, weights};
  Layout layout = make_layout(dim, block_size, isa, double_mode != 0);
  int threads = static_cast<int>(std::min<int64_t>(n_threads, 1024));
  double scale[kMaxBandwidths];
  for (int64_t h = 0; h < n_bandwidths; h += kMaxBandwidths) {
    int count = static_cast<int>(std::min<int64_t>(kMaxBandwidths, n_bandwidths - h));
    for (int i = 0; i < count; ++i) {
      if (!(bandwidths[h + i] > 0)) return KDEY_BAD_ARGUMENT;
      scale[i] = 1.0 / std::log(2.0) / (bandwidths[h + i] * bandwidths[h + i]);
    }
    Problem problem{{queries, queries_double != 0, dim},
                    m,
                    k,
                    count,
                    scale,
                    double_mode != 0,
                    skip != 0,
                    false,
                    out + h * m * k};
    run_pass(problem, refs, layout, isa, exclude, threads);
  }
  return KDEY_OK;
} catch (const std::bad_alloc&) {
  return KDEY_OUT_OF_MEMORY;
} catch (...) {
  return KDEY_INTERNAL;
}
