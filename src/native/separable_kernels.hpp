// The loops over rows of a separable problem, one set per instruction set (isa/separable_*.cpp).
// Rows are padded with zeros to ld doubles, a multiple of 8, and 64-byte aligned.
#pragma once
#include <cstdint>

namespace kdey {

// Codes shared with kdey/problems/generator.py.
enum Loss : int64_t {
  kNegativeLog = 0,
  kHellinger = 1,
  kTopsoe = 2,
  kJensenShannon = 3,
  kKl = 4,
  kReverseKl = 5,
  kChi2 = 6,
};
constexpr int64_t kLosses = 7;

struct SeparableKernels {
  // p = R x
  void (*mix)(const double* rows, int64_t n, int64_t ld, const double* x, double* p);
  // g = R' s
  void (*pull)(const double* rows, int64_t n, int64_t ld, const double* s, double* g);
  // H = R' diag(h) R, both triangles; scratch: curve_scratch(ld) doubles
  void (*curve)(const double* rows, int64_t n, int64_t ld, const double* h, double* scratch,
                double* out);
  // v phi'(p, q) and v phi''(p, q)
  void (*first)(int64_t loss, int64_t n, const double* v, const double* p, const double* q,
                double* out);
  void (*second)(int64_t loss, int64_t n, const double* v, const double* p, const double* q,
                 double* out);
};

// Rows scaled at a time by `curve`: a block that stays in the first-level cache.
constexpr int64_t curve_rows(int64_t ld) { return ld >= 256 ? 8 : 2048 / ld; }
constexpr int64_t curve_scratch(int64_t ld) { return curve_rows(ld) * ld; }

namespace baseline { SeparableKernels separable_kernels(); }
namespace avx2 { SeparableKernels separable_kernels(); }
namespace avx512 { SeparableKernels separable_kernels(); }

}  // namespace kdey
