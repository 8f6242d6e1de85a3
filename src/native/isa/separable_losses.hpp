// Derivatives of the losses of separable problems; see kdey/matching/divergence.py for what they
// are and why each limit at p = 0 or q = 0 is as it is.
#pragma once
#include <math.h>

#include <cstdint>

#include "separable_kernels.hpp"

namespace kdey {
namespace KDEY_ISA {
namespace {

// Second derivatives come with their weight, divided by p once more at the end: the curvature of a
// row of weight 1e-190 at p = 1e-190 is a number, its square root's inverse is not.
struct NegativeLog {
  static double first(double p, double) { return -1 / p; }
  static double second(double v, double p, double) { return v / p / p; }
};

struct Hellinger {
  static double first(double p, double q) { return q > 0 ? 1 - __builtin_sqrt(q / p) : 1.0; }
  static double second(double v, double p, double q) {
    return q > 0 ? 0.5 * v * __builtin_sqrt(q / p) / p : 0.0;
  }
};

struct Topsoe {
  static double first(double p, double q) { return log(q > 0 ? 2 * p / (p + q) : 2.0); }
  static double second(double v, double p, double q) { return q > 0 ? v * (q / (p + q)) / p : 0.0; }
};

struct JensenShannon {
  static double first(double p, double q) { return 0.5 * Topsoe::first(p, q); }
  static double second(double v, double p, double q) { return 0.5 * Topsoe::second(v, p, q); }
};

struct Kl {
  static double first(double p, double q) { return q > 0 ? 1 - q / p : 1.0; }
  static double second(double v, double p, double q) { return q > 0 ? v * (q / p) / p : 0.0; }
};

struct ReverseKl {
  static double first(double p, double q) { return log(p / q); }
  static double second(double v, double p, double) { return v / p; }
};

struct Chi2 {
  static double first(double p, double q) {
    double share = q > 0 ? q / (p + q) : 0.0;
    return 1 - 4 * share * share;
  }
  static double second(double v, double p, double q) {
    double share = q > 0 ? q / (p + q) : 0.0;
    return q > 0 ? 8 * v * share * share / (p + q) : 0.0;
  }
};

template <class L>
void all_first(int64_t n, const double* v, const double* p, const double* q, double* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = v[j] * L::first(p[j], q[j]);
}

template <class L>
void all_second(int64_t n, const double* v, const double* p, const double* q, double* out) {
  for (int64_t j = 0; j < n; ++j) out[j] = L::second(v[j], p[j], q[j]);
}

typedef void (*Map)(int64_t, const double*, const double*, const double*, double*);

void first_of_loss(int64_t loss, int64_t n, const double* v, const double* p, const double* q,
                   double* out) {
  static constexpr Map maps[kLosses] = {
      all_first<NegativeLog>, all_first<Hellinger>, all_first<Topsoe>, all_first<JensenShannon>,
      all_first<Kl>,          all_first<ReverseKl>, all_first<Chi2>};
  maps[loss](n, v, p, q, out);
}

void second_of_loss(int64_t loss, int64_t n, const double* v, const double* p, const double* q,
                    double* out) {
  static constexpr Map maps[kLosses] = {
      all_second<NegativeLog>, all_second<Hellinger>, all_second<Topsoe>, all_second<JensenShannon>,
      all_second<Kl>,          all_second<ReverseKl>, all_second<Chi2>};
  maps[loss](n, v, p, q, out);
}

}  // namespace
}  // namespace KDEY_ISA
}  // namespace kdey
