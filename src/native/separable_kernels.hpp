// The loops over rows of a separable problem, one set per instruction set (isa/separable_*.cpp).
// Rows are stored in panels of eight: the eight values of class 0, then those of class 1, and so
// on. So a product over classes or over rows is a run of whole vectors, however few classes there
// are, with no sum across a vector until the end. The last panel is filled up with zeros; panels,
// and vectors of n that the loops read, are 64-byte aligned and filled up to a whole panel.
#pragma once
#include <cstdint>

namespace kdey {

// Codes shared with kdey/matching/divergence.py.
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

constexpr int64_t kPanel = 8;
constexpr int64_t panels(int64_t n) { return (n + kPanel - 1) / kPanel; }
constexpr int64_t panelled(int64_t n) { return panels(n) * kPanel; }
// Where row j begins; its next class is kPanel further on.
constexpr int64_t row_at(int64_t j, int64_t k) { return j / kPanel * kPanel * k + j % kPanel; }

struct SeparableKernels {
  // p = R x
  void (*mix)(const double* rows, int64_t n, int64_t k, const double* x, double* p);
  // g = R' s; s is zero in the last panel beyond n
  void (*pull)(const double* rows, int64_t n, int64_t k, const double* s, double* g);
  // H = R' diag(h) R, both triangles, k x k; h as s above
  void (*curve)(const double* rows, int64_t n, int64_t k, const double* h, double* out);
  // v phi'(p, q) and v phi''(p, q)
  void (*first)(int64_t loss, int64_t n, const double* v, const double* p, const double* q,
                double* out);
  void (*second)(int64_t loss, int64_t n, const double* v, const double* p, const double* q,
                 double* out);
};

namespace baseline { SeparableKernels separable_kernels(); }
namespace avx2 { SeparableKernels separable_kernels(); }
namespace avx512 { SeparableKernels separable_kernels(); }

}  // namespace kdey
