// kdey_solve_programs: small quadratic programs over x >= 0 or the simplex.
#include <algorithm>
#include <numeric>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

struct Programs {
  Range range;
  int64_t k, n;
  bool shared, simplex;
  int64_t passes;
  std::vector<double> grams, linear, start;

  explicit Programs(Reader& reader)
      : range(reader.range()), k(reader.classes()), n(reader.one_in(4) ? reader.between(1, 3) : 1),
        shared(reader.byte() % 2), simplex(reader.byte() % 2),
        passes(reader.one_in(4) ? reader.between(1, 3) : 4), grams((shared ? 1 : n) * k * k),
        linear(n * k) {
    for (int64_t b = 0; b < n; ++b) fill(reader, b);
    if (reader.one_in(3)) start = simplex_points(reader, n, k, range);
  }

  double* gram(int64_t b) { return grams.data() + (shared ? 0 : b * k * k); }
  const double* gram(int64_t b) const { return grams.data() + (shared ? 0 : b * k * k); }

  // Plain: those of |M x - q|^2 / 2, as the problems of kdey have them, so they are convex and
  // bounded. Otherwise any numbers at all.
  void fill(Reader& reader, int64_t b) {
    double *g = gram(b), *c = linear.data() + b * k;
    if (range != Range::plain) {
      for (int64_t i = 0; i < k * k && (b == 0 || !shared); ++i) g[i] = reader.number(range);
      for (int64_t i = 0; i < k; ++i) c[i] = reader.number(range);
      return;
    }
    if (b == 0 || !shared) {
      height_ = reader.between(1, 12);
      matrix_ = reader.numbers(height_ * k, range);
      if (reader.one_in(2))
        for (double& entry : matrix_) entry -= 0.5;
      for (int64_t i = 0; i < k * k; ++i) g[i] = dot(i / k, i % k);
    }
    const std::vector<double> q = reader.numbers(height_, range);
    for (int64_t i = 0; i < k; ++i) {
      c[i] = 0;
      for (int64_t r = 0; r < height_; ++r) c[i] += matrix_[r * k + i] * q[r];
    }
  }

 private:
  double dot(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t r = 0; r < height_; ++r) sum += matrix_[r * k + i] * matrix_[r * k + j];
    return sum;
  }
  int64_t height_ = 1;
  std::vector<double> matrix_;
};

// For a look at a case that was kept: FUZZ_PRINT=1 build/fuzz/... FILE.
void print(const Programs& p, int64_t b, const double* x) {
  std::fprintf(stderr, "program %ld, simplex %d\n", static_cast<long>(b), p.simplex);
  for (int64_t i = 0; i < p.k; ++i) {
    std::fprintf(stderr, "x %.17g, c %.17g, Q", x[i], p.linear[b * p.k + i]);
    for (int64_t j = 0; j < p.k; ++j) std::fprintf(stderr, " %.17g", p.gram(b)[i * p.k + j]);
    std::fprintf(stderr, "\n");
  }
}

// The distance from the optimum by the gradient, relative to the largest numbers of the program.
void check_optimal(const Programs& p, int64_t b, const double* x) {
  std::vector<long double> g(p.k);
  long double size = 0, along = 0, length = 0;
  for (int64_t i = 0; i < p.k; ++i) {
    const double *row = p.gram(b) + i * p.k, c = p.linear[b * p.k + i];
    g[i] = -static_cast<long double>(c);
    for (int64_t j = 0; j < p.k; ++j) {
      g[i] += static_cast<long double>(row[j]) * x[j];
      size = std::max<long double>(size, std::fabs(row[j]));
    }
    size = std::max<long double>(size, std::fabs(c));
    along += x[i] * g[i], length += x[i];
  }
  const long double lowest = *std::min_element(g.begin(), g.end());
  length = std::max(length, 1.0L);
  const long double bound = 1e-9 * size * length;
  if (p.simplex) {
    require(along - lowest <= bound, "the simplex program is solved");
  } else {
    require(lowest >= -bound, "no class could enter");
    require(std::fabs(along) <= bound * length, "classes in play have no slope");
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  const Programs p(reader);
  std::vector<double> x(p.n * p.k, NAN);
  std::vector<int64_t> steps(p.n, -1);
  const int32_t status = kdey_solve_programs(p.grams.data(), p.shared ? 0 : p.k * p.k,
                                             p.linear.data(), or_null(p.start), p.n, p.k, p.simplex,
                                             p.passes, reader.threads(), x.data(), steps.data());
  require(status == KDEY_OK, "the programs were solved");
  for (int64_t b = 0; b < p.n; ++b) {
    double* found = x.data() + b * p.k;
    if (std::getenv("FUZZ_PRINT")) print(p, b, found);
    require(steps[b] >= 1 && steps[b] <= p.passes * (10 * p.k + 50), "steps stay below the limit");
    if (p.range != Range::plain) continue;
    for (int64_t i = 0; i < p.k; ++i) require(found[i] >= 0, "an entry is not negative");
    if (p.simplex) {
      // Targets far larger than the matrix cost digits of the sum; every caller scales it to one.
      const double sum = std::accumulate(found, found + p.k, 0.0);
      require(sum > 0.5 && sum < 2, "x sums to about one");
      to_simplex(found, p.k);
    }
    if (p.passes == 4) check_optimal(p, b, found);
  }
  return 0;
}
