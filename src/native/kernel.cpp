// Class-wise log-sums: chunks of references, packed for one call or once for many, against groups
// of queries.
#include "kernel.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "guard.hpp"
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
    // A single query need not touch the memory of a whole group.
    const int64_t group = std::min<int64_t>(kGroup, (problem.n_queries + 3) / 4 * 4);
    const int64_t pairs = group * chunk.stride;
    Scratch& s = scratch;
    s.width = static_cast<int>((group + 7) / 8 * 8);
    s.block_stride = static_cast<int>((layout.largest + 31) / 32 * 32);
    take(s.x_high, group * chunk.padded_dim);
    take(s.x_low, group * chunk.padded_dim);
    take(s.x, group * dim);
    take(s.nearest2, pairs);
    take(s.norm2, pairs);
    take(s.mode, s.width * chunk.stride);
    take(s.cap, chunk.stride);
    take(s.shift, h * kGroup);
    take(s.centred, (dim + 63) / 64 * 64 * isa.batch);
    take(s.bias, h * ((isa.batch + isa.lanes - 1) / isa.lanes * isa.lanes));
    take(s.sums, h * isa.batch * isa.lanes);
    take(s.tops, h * isa.lanes);
    take(s.block, dim * s.block_stride);
    return used;
  }
  Aligned<char> memory_;
};

// Queries per group: whole batches, and as many groups for every thread.
int64_t group_size(int64_t n_rows, int n_threads, const KernelIsa& isa) {
  constexpr int64_t smallest = kGroup / 2;  // fewer are not worth a thread
  const int64_t least = (n_rows + kGroup - 1) / kGroup, most = (n_rows + smallest - 1) / smallest;
  const int64_t even = (least + n_threads - 1) / n_threads * n_threads;
  const int64_t n_groups = std::max<int64_t>(1, std::min(even, most));
  const int64_t size = (n_rows + n_groups - 1) / n_groups;
  return std::min<int64_t>(kGroup, (size + isa.batch - 1) / isa.batch * isa.batch);
}

// Runs all groups of one span of queries against one chunk.
void run_span(const Problem& problem, const Packer& packer, const Layout& layout,
              const KernelIsa& isa, const std::vector<int64_t>& rows, int64_t size,
              const int64_t* exclude, int n_threads) {
  const int64_t n_rows = rows.size(), n_groups = (n_rows + size - 1) / size;
  std::atomic<int64_t> next{0};
  parallel_for(std::min<int64_t>(n_threads, n_groups), n_threads, [&](int64_t) {
    Worker worker(problem, packer.chunk(), layout, isa);
    for (int64_t g = next++; g < n_groups; g = next++) {
      Group group{rows.data() + g * size, static_cast<int>(std::min(size, n_rows - g * size))};
      for (int q = 0; q < group.size; ++q)
        packer.locate(exclude ? exclude[group.rows[q]] : -1, &worker.scratch.skip_block[q],
                      &worker.scratch.skip_lane[q]);
      isa.run_group(problem, packer.chunk(), group, worker.scratch);
    }
  });
}

// All queries against one chunk. A later chunk adds to the sums of the earlier ones.
void run_chunk(Problem& problem, const Packer& packer, const Layout& layout, const KernelIsa& isa,
               const int64_t* exclude, int n_threads) {
  std::vector<int64_t> rows;
  for (int64_t start = 0; start < problem.n_queries; start += kQuerySpan) {
    rows.resize(std::min(kQuerySpan, problem.n_queries - start));
    std::iota(rows.begin(), rows.end(), start);
    const int64_t n_rows = rows.size(), size = group_size(n_rows, n_threads, isa);
    SpatialOrder(problem.queries, size)(rows.data(), n_rows);
    run_span(problem, packer, layout, isa, rows, size, exclude, n_threads);
  }
  problem.resumed = true;
}

// The sums where there is not a single reference.
void close_pass(const Problem& problem) {
  int64_t size = problem.n_bandwidths * problem.n_queries * problem.n_classes;
  if (!problem.resumed) std::fill_n(problem.out, size, -std::numeric_limits<double>::infinity());
}

// What both entries are asked for, beside the references.
struct Request {
  Points queries;
  int64_t n_queries, n_classes;
  const double* bandwidths;
  int64_t n_bandwidths;
  bool double_mode, skip;
  double* out;
};

// Calls pass(problem) for at most kMaxBandwidths bandwidths at a time.
template <class Pass>
int32_t run_passes(const Request& request, const Pass& pass) {
  const double* h = request.bandwidths;
  if (!std::all_of(h, h + request.n_bandwidths, [](double width) { return width > 0; }))
    return KDEY_BAD_ARGUMENT;
  double scale[kMaxBandwidths];
  for (int64_t first = 0; first < request.n_bandwidths; first += kMaxBandwidths) {
    int count = static_cast<int>(std::min<int64_t>(kMaxBandwidths, request.n_bandwidths - first));
    for (int i = 0; i < count; ++i) scale[i] = 1.0 / std::log(2.0) / (h[first + i] * h[first + i]);
    Problem problem{request.queries,
                    request.n_queries,
                    request.n_classes,
                    count,
                    scale,
                    request.double_mode,
                    request.skip,
                    false,
                    request.out + first * request.n_queries * request.n_classes};
    pass(problem);
    close_pass(problem);
  }
  return KDEY_OK;
}

int thread_limit(int64_t n_threads) { return static_cast<int>(std::min<int64_t>(n_threads, 1024)); }

bool references_fit(int64_t n, int64_t dim, const int64_t* offsets, int64_t k) {
  return n >= 0 && dim >= 1 && k >= 1 && offsets[0] == 0 && offsets[k] == n &&
         std::is_sorted(offsets, offsets + k + 1);
}

}  // namespace
}  // namespace kdey

// All chunks of the references, in the layout of one instruction set.
struct kdey_references {
  const kdey::KernelIsa& isa;
  kdey::Layout layout;
  int64_t n, dim, k;
  bool double_mode;
  std::vector<std::unique_ptr<kdey::Packer>> chunks;
};

KDEY_API int32_t kdey_class_log_sums(const void* queries, const void* references,
                                     int64_t queries_double, int64_t references_double, int64_t m,
                                     int64_t n, int64_t dim, const int64_t* offsets, int64_t k,
                                     const double* bandwidths, int64_t n_bandwidths,
                                     const double* weights, const int64_t* exclude,
                                     int64_t double_mode, int64_t n_threads, int64_t block_size,
                                     int64_t skip, double* out) {
  using namespace kdey;
  if (m < 0 || n_bandwidths < 1 || n_threads < 1 || block_size < 0 ||
      !references_fit(n, dim, offsets, k))
    return KDEY_BAD_ARGUMENT;
  int32_t status = KDEY_OK;
  const int32_t failure = guarded([&] {
    const KernelIsa& isa = kernel_isa();
    const References refs{{references, references_double != 0, dim}, offsets, k, weights};
    const Layout layout = make_layout(dim, block_size, isa, double_mode != 0);
    const int threads = thread_limit(n_threads);
    const Request request{{queries, queries_double != 0, dim},
                          m,
                          k,
                          bandwidths,
                          n_bandwidths,
                          double_mode != 0,
                          skip != 0,
                          out};
    status = run_passes(request, [&](Problem& problem) {
      Packer packer(refs, layout);
      while (packer.next(threads)) run_chunk(problem, packer, layout, isa, exclude, threads);
    });
  });
  return failure ? failure : status;
}

KDEY_API int32_t kdey_pack_references(const void* references, int64_t references_double, int64_t n,
                                      int64_t dim, const int64_t* offsets, int64_t k,
                                      const double* weights, int64_t double_mode, int64_t n_threads,
                                      int64_t block_size, kdey_references** out) {
  using namespace kdey;
  if (n_threads < 1 || block_size < 0 || !references_fit(n, dim, offsets, k))
    return KDEY_BAD_ARGUMENT;
  return guarded([&] {
    const KernelIsa& isa = kernel_isa();
    const References refs{{references, references_double != 0, dim}, offsets, k, weights};
    const Layout layout = make_layout(dim, block_size, isa, double_mode != 0);
    std::unique_ptr<kdey_references> packed(
        new kdey_references{isa, layout, n, dim, k, double_mode != 0, {}});
    for (Place begin;;) {
      auto chunk = std::make_unique<Packer>(refs, layout, begin);
      if (!chunk->next(thread_limit(n_threads))) break;
      begin = chunk->end();
      packed->chunks.push_back(std::move(chunk));
    }
    *out = packed.release();
  });
}

KDEY_API void kdey_free_references(kdey_references* packed) { delete packed; }

KDEY_API int64_t kdey_packed_bytes(const kdey_references* packed) {
  int64_t sum = sizeof(kdey_references);
  for (const auto& chunk : packed->chunks) sum += sizeof(kdey::Packer) + chunk->bytes();
  return sum;
}

KDEY_API int32_t kdey_packed_log_sums(const kdey_references* packed, const void* queries,
                                      int64_t queries_double, int64_t m, const double* bandwidths,
                                      int64_t n_bandwidths, const int64_t* exclude,
                                      int64_t n_threads, int64_t skip, double* out) {
  using namespace kdey;
  if (!packed || m < 0 || n_bandwidths < 1 || n_threads < 1) return KDEY_BAD_ARGUMENT;
  int32_t status = KDEY_OK;
  const int32_t failure = guarded([&] {
    const int threads = thread_limit(n_threads);
    const Request request{{queries, queries_double != 0, packed->dim},
                          m,
                          packed->k,
                          bandwidths,
                          n_bandwidths,
                          packed->double_mode,
                          skip != 0,
                          out};
    status = run_passes(request, [&](Problem& problem) {
      for (const auto& chunk : packed->chunks)
        run_chunk(problem, *chunk, packed->layout, packed->isa, exclude, threads);
    });
  });
  return failure ? failure : status;
}
