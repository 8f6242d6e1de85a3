// Random numbers that depend on a caller's state alone: xoshiro256++ (Blackman and Vigna, 2021),
// normal by the polar method, gamma by Marsaglia and Tsang (2000).
#pragma once
#include <cmath>
#include <cstdint>

namespace kdey {

class Random {
 public:
  // state: four words, not all zero; it is moved on as numbers are drawn.
  explicit Random(uint64_t* state) : s_(state) {}

  uint64_t bits() {
    const uint64_t result = rotl(s_[0] + s_[3], 23) + s_[0], t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return result;
  }

  // In (0, 1): never zero, so that its logarithm is finite.
  double uniform() { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1.0p-53; }

  double normal() {
    double x, r;
    do {
      x = 2 * uniform() - 1;
      const double y = 2 * uniform() - 1;
      r = x * x + y * y;
    } while (r >= 1 || r == 0);
    return x * std::sqrt(-2 * std::log(r) / r);
  }

  // Logarithm of a Gamma(shape, 1) number: small shapes underflow without it.
  double log_gamma(double shape) {
    const double boosted = shape < 1 ? shape + 1 : shape;
    const double value = std::log(marsaglia_tsang(boosted));
    return shape < 1 ? value + std::log(uniform()) / shape : value;
  }

 private:
  static uint64_t rotl(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

  double marsaglia_tsang(double shape) {
    const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
    for (;;) {
      const double x = normal(), root = 1 + c * x;
      if (root <= 0) continue;
      const double v = root * root * root;
      if (std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

  uint64_t* s_;
};

}  // namespace kdey
