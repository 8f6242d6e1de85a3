// Turns the bytes of a fuzzer into sizes, choices and numbers.
#pragma once
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

namespace fuzz {

// Which numbers a problem is made of. plain: zeros, ones, ties and magnitudes that real rows have:
// every promise must hold. wide: any finite number of at least zero, which the Python checks let
// pass: an answer may fail to converge, but must say so. hostile: NaN, infinities, negative
// numbers too, which the checks refuse: no crash, no endless loop, no false claim.
enum class Range { plain, wide, hostile };

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  // Past the end the bytes come from a generator seeded by those read, so that a few bytes
  // describe a whole problem and a fuzzer can still change each of its numbers.
  uint8_t byte() {
    const uint8_t found = at_ < end_ ? *at_++ : static_cast<uint8_t>(mix(state_) >> 56);
    state_ = (state_ ^ found) * 0x100000001b3u + 0x9e3779b97f4a7c15u;
    return found;
  }
  bool one_in(int count) { return byte() % count == 1; }  // zero bytes are the usual case
  int64_t between(int64_t low, int64_t high) {
    const int64_t drawn = high - low < 256 ? byte() : byte() * 256 + byte();
    return low + drawn % (high - low + 1);
  }
  Range range() {
    const uint8_t drawn = byte();
    return drawn < 128 ? Range::plain : drawn < 208 ? Range::wide : Range::hostile;
  }
  int64_t classes() { return one_in(32) ? between(8, 40) : between(1, 7); }
  double unit() { return (byte() * 256 + byte()) / 65535.0; }

  double number(Range range) {
    const uint8_t kind = byte();
    if (range == Range::hostile && kind % 8 == 7) return last_ = special();
    if (range != Range::plain && kind % 8 == 6)
      return last_ = std::ldexp(1 + unit(), static_cast<int>(between(-1074, 1022)));
    return last_ = ordinary(kind / 8);
  }
  double positive(Range range) {
    const double drawn = number(range);
    return drawn == 0 ? 1 : drawn;
  }
  std::vector<double> numbers(int64_t count, Range range) {
    std::vector<double> drawn(static_cast<size_t>(count));
    for (double& value : drawn) value = number(range);
    return drawn;
  }

  // Lowers the instruction set, which the core asks for at every call. (setenv would leak.)
  void choose_isa() {
    static char names[3][20] = {"KDEY_ISA=avx512", "KDEY_ISA=avx2", "KDEY_ISA=baseline"};
    putenv(names[between(0, 2)]);
  }
  // Threads cost the fuzzer more than most problems do.
  int64_t threads() { return one_in(64) ? 3 : 1; }

 private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double ordinary(int kind) {  // 0..31
    if (kind < 6) return 0;
    if (kind < 9) return 1;
    if (kind < 13) return last_;
    if (kind < 18) return std::ldexp(1 + unit(), -static_cast<int>(byte() % 40));
    return unit();
  }
  double special() {
    static const double values[] = {NAN,      INFINITY, -INFINITY, -1,      -0.0,
                                    -DBL_MAX, DBL_MAX,  DBL_MIN,   -1e-300, 5e-324};
    return values[byte() % 10];
  }

  const uint8_t *at_, *end_;
  uint64_t state_ = 0x9e3779b97f4a7c15u;
  double last_ = 0;
};

// What must hold; the fuzzer keeps the input where it does not.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: does not hold: %s\n", what);
  std::abort();
}

inline bool on_simplex(const double* x, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    if (!(x[i] >= 0)) return false;
    sum += x[i];
  }
  return std::fabs(sum - 1) <= 1e-9;
}

// A point of the simplex, which may lie on its border.
inline void to_simplex(double* x, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += x[i];
  for (int64_t i = 0; i < k; ++i) x[i] = sum > 0 && sum < DBL_MAX ? x[i] / sum : i == 0;
}

inline std::vector<double> simplex_points(Reader& reader, int64_t count, int64_t k, Range range) {
  std::vector<double> points = reader.numbers(count * k, range);
  if (range != Range::hostile)
    for (int64_t b = 0; b < count; ++b) to_simplex(points.data() + b * k, k);
  return points;
}

// Whether a bag has no start, or one that the Python layer would let pass.
inline bool starts_well(const std::vector<double>& start, int64_t b, int64_t k) {
  return start.empty() || on_simplex(start.data() + b * k, k);
}

inline const double* or_null(const std::vector<double>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace fuzz
