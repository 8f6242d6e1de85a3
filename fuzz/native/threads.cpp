// Every threaded entry of the core with few and many threads, from several callers at once: for
// ThreadSanitizer, and for the promise that answers do not depend on the number of threads.
//
//   threads [ROUNDS]
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

#include "kdey.h"
#include "reader.hpp"
#include "separable_kernels.hpp"

namespace {
using namespace fuzz;

using Doubles = std::vector<double>;
using Entry = std::function<Doubles(int64_t n_threads)>;

// Without bytes a reader is a generator of fixed numbers.
Doubles units(Reader& reader, int64_t count) {
  Doubles drawn(static_cast<size_t>(count));
  for (double& value : drawn) value = 0.01 + reader.unit();
  return drawn;
}

void join(Doubles& all, const Doubles& part) { all.insert(all.end(), part.begin(), part.end()); }

// Blocks of two references: more than fit into one chunk.
Entry kernel(Reader& reader, bool double_mode) {
  const int64_t m = 300, n = 2400, dim = 3, k = 3;
  return [=, x = units(reader, m * dim), y = units(reader, n * dim),
          w = units(reader, n)](int64_t threads) {
    const std::vector<int64_t> offsets{0, 700, 1500, n};
    const Doubles bandwidths{0.05, 0.3};
    Doubles out(2 * m * k);
    require(kdey_class_log_sums(x.data(), y.data(), 1, 1, m, n, dim, offsets.data(), k,
                                bandwidths.data(), 2, w.data(), nullptr, double_mode, threads, 2, 1,
                                out.data()) == KDEY_OK,
            "sums");
    return out;
  };
}

// One packed form for all callers.
Entry packed(Reader& reader) {
  const int64_t m = 300, n = 2400, dim = 3, k = 3;
  auto y = std::make_shared<Doubles>(units(reader, n * dim));
  const Doubles w = units(reader, n);
  const std::vector<int64_t> offsets{0, 700, 1500, n};
  kdey_references* made = nullptr;
  require(kdey_pack_references(y->data(), 1, n, dim, offsets.data(), k, w.data(), 0, 2, 2, &made) ==
              KDEY_OK,
          "packing");
  std::shared_ptr<kdey_references> references(made, kdey_free_references);
  return [=, x = units(reader, m * dim)](int64_t threads) {
    (void)y;  // must outlive the packed form
    const Doubles bandwidths{0.05, 0.3};
    Doubles out(2 * m * k);
    require(kdey_packed_log_sums(references.get(), x.data(), 1, m, bandwidths.data(), 2, nullptr,
                                 threads, 1, out.data()) == KDEY_OK,
            "packed sums");
    return out;
  };
}

Entry least_squares(Reader& reader) {
  const int64_t n = 60, r = 7, k = 5;
  const Doubles templates = units(reader, r * k);
  Doubles gram(k * k);
  for (int64_t i = 0; i < r; ++i)
    for (int64_t a = 0; a < k; ++a)
      for (int64_t b = 0; b < k; ++b)
        gram[a * k + b] += templates[i * k + a] * templates[i * k + b];
  return [=, q = units(reader, n * r)](int64_t threads) {
    Doubles x(n * k), value(n), gap(n);
    std::vector<int64_t> steps(n);
    require(kdey_solve_least_squares(templates.data(), gram.data(), q.data(), nullptr, n, r, k, 4,
                                     threads, x.data(), value.data(), gap.data(),
                                     steps.data()) == KDEY_OK,
            "least squares");
    join(x, value), join(x, gap);
    return x;
  };
}

Entry programs(Reader& reader, int64_t simplex) {
  const int64_t n = 60, k = 5;
  Doubles gram = units(reader, k * k);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j <= i; ++j) gram[j * k + i] = gram[i * k + j] += i == j ? k : 0;
  return [=, c = units(reader, n * k)](int64_t threads) {
    Doubles x(n * k);
    std::vector<int64_t> steps(n);
    require(kdey_solve_programs(gram.data(), 0, c.data(), nullptr, n, k, simplex, 4, threads,
                                x.data(), steps.data()) == KDEY_OK,
            "programs");
    return x;
  };
}

Entry mixture(Reader& reader) {
  const int64_t pool = 300, k = 4, n = 16, size = 50;
  std::vector<int64_t> indices, offsets{0};
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t j = 0; j < size; ++j) indices.push_back(reader.between(0, pool - 1));
    offsets.push_back((b + 1) * size);
  }
  return [=, rows = units(reader, pool * k), w = units(reader, n * size)](int64_t threads) {
    Doubles x(n * k), value(n), gap(n), scales(pool);
    std::vector<int64_t> steps(n);
    require(kdey_solve_mixture(rows.data(), scales.data(), pool, k, indices.data(), offsets.data(),
                               w.data(), n, nullptr, 1e-8, 100, threads, x.data(), value.data(),
                               gap.data(), steps.data()) == KDEY_OK,
            "mixture");
    join(x, value), join(x, gap);
    return x;
  };
}

Entry divergence(Reader& reader, int64_t loss) {
  const int64_t t = 30, k = 4, n = 16;
  return [=, m = units(reader, t * k), q = units(reader, n * t)](int64_t threads) {
    const Doubles reference(t, 1.0);
    Doubles x(n * k), value(n), gap(n);
    std::vector<int64_t> steps(n);
    require(kdey_solve_divergence(loss, m.data(), q.data(), reference.data(), n, t, k, nullptr,
                                  1e-8, 100, threads, x.data(), value.data(), gap.data(),
                                  steps.data()) == KDEY_OK,
            "divergence");
    join(x, value), join(x, gap);
    return x;
  };
}

Entry gibbs(Reader& reader) {
  const int64_t m = 40, k = 3, chains = 6, sweeps = 20;
  return [=, rows = units(reader, m * k)](int64_t threads) {
    const Doubles prior(k, 1.0);
    Doubles current(chains * k, 1.0 / k), x(chains * sweeps * k), counts(chains * sweeps * k);
    std::vector<uint64_t> states;
    for (int64_t i = 0; i < 4 * chains; ++i) states.push_back(0x9e3779b97f4a7c15u * (i + 1));
    require(kdey_gibbs(rows.data(), nullptr, m, k, prior.data(), chains, sweeps, current.data(),
                       states.data(), threads, x.data(), counts.data()) == KDEY_OK,
            "gibbs");
    join(x, counts);
    return x;
  };
}

std::vector<Entry> entries() {
  Reader reader(nullptr, 0);
  std::vector<Entry> all{kernel(reader, false), kernel(reader, true), programs(reader, 0),
                         programs(reader, 1),   mixture(reader),      gibbs(reader),
                         packed(reader),        least_squares(reader)};
  for (int64_t loss = 0; loss < kdey::kLosses; ++loss) all.push_back(divergence(reader, loss));
  return all;
}

bool same_bits(const Doubles& a, const Doubles& b) {
  return a.size() == b.size() && !std::memcmp(a.data(), b.data(), a.size() * sizeof(double));
}
}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  const std::vector<Entry> all = entries();
  std::vector<Doubles> expected;
  for (const Entry& entry : all) expected.push_back(entry(1));
  auto caller = [&](size_t first) {
    for (int round = 0; round < rounds; ++round)
      for (size_t i = 0; i < all.size(); ++i) {
        const size_t at = (first + i) % all.size();  // callers meet in different entries
        for (int64_t threads : {2, 7, 64})
          require(same_bits(all[at](threads), expected[at]), "the answer is the same to the bit");
      }
  };
  std::vector<std::thread> callers;
  for (size_t c = 0; c < 4; ++c) callers.emplace_back(caller, 3 * c);
  for (std::thread& t : callers) t.join();
  std::printf("%zu entries, %d rounds, 4 callers, isa %d: the same bits\n", all.size(), rounds,
              kdey_isa());
  return 0;
}
