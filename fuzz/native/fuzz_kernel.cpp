// kdey_class_log_sums: kernel sums of classes at queries; and the same sums with packed references.
#include <algorithm>
#include <memory>

#include "kdey.h"
#include "reader.hpp"

namespace {
using namespace fuzz;

// Points in float32 or float64, as the caller may hold either.
struct Cloud {
  int64_t dim;
  std::vector<double> wide;
  std::vector<float> narrow;

  Cloud(Reader& reader, int64_t count, int64_t dim, Range range, double scale)
      : dim(dim), wide(static_cast<size_t>(count * dim)) {
    for (double& value : wide) value = coordinate(reader, range) * scale;
    if (!reader.one_in(3)) return;
    narrow.assign(wide.begin(), wide.end());
    wide.clear();
  }
  // The Python layer wants the squares of all coordinates to sum to less than 1e36.
  static double coordinate(Reader& reader, Range range) {
    const double drawn = reader.number(range);
    return range == Range::hostile ? drawn : std::fmin(drawn, 1e10);
  }
  bool is_double() const { return narrow.empty(); }
  const void* data() const {
    return is_double() ? static_cast<const void*>(wide.data()) : narrow.data();
  }
  long double at(int64_t p) const { return is_double() ? wide[p] : narrow[p]; }
};

struct Sums {
  Range range;
  int64_t m, n, dim, k, n_bandwidths;
  double scale;
  Cloud queries, references;
  std::vector<int64_t> offsets, exclude;
  std::vector<double> bandwidths, weights;
  bool double_mode, skip;
  int64_t block;

  explicit Sums(Reader& reader)
      : range(reader.range()),
        m(reader.one_in(64) ? reader.between(60, 200) : reader.between(0, 6)),
        n(reader.one_in(64) ? reader.between(60, 700) : reader.between(0, 20)),
        dim(reader.one_in(64) ? reader.between(7, 140) : reader.between(1, 4)),
        k(reader.between(1, 4)),
        n_bandwidths(reader.one_in(64) ? reader.between(30, 70) : reader.between(1, 2)),
        scale(std::ldexp(1, static_cast<int>(reader.between(-5, 10)))),
        queries(reader, m, dim, range, scale), references(reader, n, dim, range, scale),
        offsets(static_cast<size_t>(k + 1), 0) {
    for (int64_t i = 1; i < k; ++i) offsets[i] = reader.between(0, n);
    offsets[k] = n;
    if (range != Range::hostile || !reader.one_in(8)) std::sort(offsets.begin(), offsets.end());
    for (int64_t h = 0; h < n_bandwidths; ++h) bandwidths.push_back(bandwidth(reader));
    if (reader.one_in(3)) weights = reader.numbers(n, range);
    if (reader.one_in(3))
      for (int64_t j = 0; j < m; ++j) exclude.push_back(reader.between(-1, n - 1));
    double_mode = reader.one_in(4);
    skip = !reader.one_in(4);
    block = reader.one_in(3) ? reader.between(1, 40) : 0;
  }
  double bandwidth(Reader& reader) const {
    if (range == Range::plain) return std::ldexp(1 + reader.unit(), -(reader.byte() % 12));
    if (range == Range::hostile) return reader.number(range);
    return std::pow(10, 100 * reader.unit() - 50);
  }
  double weight(int64_t r) const { return weights.empty() ? 1 : weights[r]; }
};

// The log-sums of one query and bandwidth by plain loops; the largest squared distance beside.
std::vector<long double> slow_sums(const Sums& s, int64_t h, int64_t j, long double* farthest) {
  std::vector<long double> out(s.k, -INFINITY);
  for (int64_t i = 0; i < s.k; ++i) {
    for (int64_t r = s.offsets[i]; r < s.offsets[i + 1]; ++r) {
      if (!(s.weight(r) > 0) || (!s.exclude.empty() && s.exclude[j] == r)) continue;
      long double d2 = 0;
      for (int64_t d = 0; d < s.dim; ++d) {
        const long double u = s.queries.at(j * s.dim + d) - s.references.at(r * s.dim + d);
        d2 += u * u;
      }
      *farthest = std::max(*farthest, d2);
      const long double e = std::log(static_cast<long double>(s.weight(r))) -
                            d2 / (2 * static_cast<long double>(s.bandwidths[h]) * s.bandwidths[h]);
      const long double top = std::max(out[i], e);
      out[i] = top + std::log(std::exp(out[i] - top) + std::exp(e - top));
    }
  }
  return out;
}

// For a look at a case that was kept: FUZZ_PRINT=1 build/fuzz/... FILE.
void print(const Sums& s, int64_t h, int64_t j, int64_t i, double found, long double wanted) {
  std::fprintf(stderr, "range %d, double %d, isa %d, h %g, dim %ld, class %ld: %.17g (%.17Lg)\n",
               static_cast<int>(s.range), s.double_mode, kdey_isa(), s.bandwidths[h],
               static_cast<long>(s.dim), static_cast<long>(i), found, wanted);
  for (int64_t d = 0; d < s.dim; ++d) std::fprintf(stderr, " %.17Lg", s.queries.at(j * s.dim + d));
  for (int64_t r = s.offsets[i]; r < s.offsets[i + 1]; ++r) {
    std::fprintf(stderr, "\n%.17g:", s.weight(r));
    for (int64_t d = 0; d < s.dim; ++d)
      std::fprintf(stderr, " %.17Lg", s.references.at(r * s.dim + d));
  }
  std::fprintf(stderr, "\n");
}

void check_row(const Sums& s, int64_t h, int64_t j, const double* found) {
  long double farthest = 0;
  const std::vector<long double> wanted = slow_sums(s, h, j, &farthest);
  const long double top = *std::max_element(wanted.begin(), wanted.end());
  // Where float64 itself cannot tell the exponents apart there is nothing to compare.
  const long double lost = farthest / s.bandwidths[h] / s.bandwidths[h] * 1e-16L * s.dim;
  const double allowed = s.double_mode ? 1e-9 : 1e-4;
  for (int64_t i = 0; i < s.k; ++i) {
    require(found[i] < INFINITY, "a sum is a number or -inf");
    if (wanted[i] == -INFINITY) require(found[i] == -INFINITY, "an empty class is -inf");
    if (top == -INFINITY || lost > allowed / 10) continue;
    const long double error = std::exp(found[i] - top) - std::exp(wanted[i] - top);
    if (std::getenv("FUZZ_PRINT") && std::fabs(error) > allowed)
      print(s, h, j, i, found[i], wanted[i]);
    require(std::fabs(error) <= allowed, "a sum is as exact as promised");
  }
}

// Packed references give the same bits, from two calls as from one.
void check_packed(const Sums& s, int64_t n_threads, int32_t status,
                  const std::vector<double>& out) {
  kdey_references* made = nullptr;
  const int32_t packing = kdey_pack_references(s.references.data(), s.references.is_double(), s.n,
                                               s.dim, s.offsets.data(), s.k, or_null(s.weights),
                                               s.double_mode, n_threads, s.block, &made);
  const std::unique_ptr<kdey_references, void (*)(kdey_references*)> packed(made,
                                                                            kdey_free_references);
  require(packing == KDEY_OK || packing == status, "references are packed unless sums are refused");
  require((packing == KDEY_OK) == (made != nullptr), "what was packed is handed over");
  if (!made) return;
  require(kdey_packed_bytes(made) > 0, "the packed form takes memory");
  for (int call = 0; call < 2; ++call) {
    std::vector<double> again(out.size(), NAN);
    const int32_t found = kdey_packed_log_sums(
        made, s.queries.data(), s.queries.is_double(), s.m, s.bandwidths.data(), s.n_bandwidths,
        s.exclude.empty() ? nullptr : s.exclude.data(), n_threads, s.skip, again.data());
    require(found == status, "packed references are refused where others are");
    if (s.range != Range::hostile)
      require(out.empty() || !std::memcmp(out.data(), again.data(), out.size() * sizeof(double)),
              "the sums are the same to the last bit");
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  reader.choose_isa();
  const Sums s(reader);
  const int64_t threads = reader.threads();
  std::vector<double> out(s.n_bandwidths * s.m * s.k, NAN);
  const int32_t status = kdey_class_log_sums(
      s.queries.data(), s.references.data(), s.queries.is_double(), s.references.is_double(), s.m,
      s.n, s.dim, s.offsets.data(), s.k, s.bandwidths.data(), s.n_bandwidths, or_null(s.weights),
      s.exclude.empty() ? nullptr : s.exclude.data(), s.double_mode, threads, s.block, s.skip,
      out.data());
  check_packed(s, threads, status, out);
  if (s.range == Range::hostile) {
    require(status == KDEY_OK || status == KDEY_BAD_ARGUMENT, "the sums were made or refused");
    return 0;
  }
  require(status == KDEY_OK, "the sums were made");
  const int64_t step = 1 + s.m * s.n * s.dim * s.n_bandwidths / 2000;  // a part of large cases
  for (int64_t h = 0; h < s.n_bandwidths; ++h)
    for (int64_t j = 0; j < s.m; j += step) check_row(s, h, j, &out[(h * s.m + j) * s.k]);
  return 0;
}
