// Vectors of the instruction set this file is compiled for, by the compilers' vector extensions.
//
// Files in isa/ are compiled several times with different flags. They must not instantiate
// templates or inline functions from outside their own namespace (the standard library's, say):
// the linker keeps one copy of such a function, and it might be the one this machine cannot run.
#pragma once
#include <math.h>
#include <stdint.h>

#if defined(KDEY_ISA_avx512) || defined(KDEY_ISA_avx2)
#include <immintrin.h>
#endif

#include "kernel.hpp"

namespace kdey {
namespace KDEY_ISA {

#if defined(KDEY_ISA_avx512)
constexpr int kLanes = 16, kBatch = 12, kSmallBatch = 4;  // 24 of 32 registers accumulate
#elif defined(KDEY_ISA_avx2)
constexpr int kLanes = 8, kBatch = 6, kSmallBatch = 2;  // 12 of 16
#else
constexpr int kLanes = 4, kBatch = 6, kSmallBatch = 2;
#endif
constexpr int kTile = 2 * kLanes;
constexpr int kDoubles = kLanes / 2;

typedef float VF __attribute__((vector_size(4 * kLanes)));
typedef int32_t VI __attribute__((vector_size(4 * kLanes)));
typedef uint32_t VU __attribute__((vector_size(4 * kLanes)));
typedef double VD __attribute__((vector_size(8 * kDoubles)));
typedef int64_t VL __attribute__((vector_size(8 * kDoubles)));
typedef uint64_t VUL __attribute__((vector_size(8 * kDoubles)));
typedef float VH __attribute__((vector_size(4 * kDoubles)));    // as many floats as doubles
typedef int32_t VW __attribute__((vector_size(4 * kDoubles)));  // as many integers

template <class V, class T>
inline V load(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class V, class T>
inline void store(T* p, V v) {
  __builtin_memcpy(p, &v, sizeof(V));
}

// Widening floats, and whether any lane of a mask is set: what the vector extensions compile badly.
#if defined(KDEY_ISA_avx512)
inline VD widen(const float* p) { return (VD)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(p)); }
inline bool any(VL mask) { return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0; }
#elif defined(KDEY_ISA_avx2)
inline VD widen(const float* p) { return (VD)_mm256_cvtps_pd(_mm_loadu_ps(p)); }
inline bool any(VL mask) { return _mm256_movemask_pd((__m256d)mask) != 0; }
#else
inline VD widen(const float* p) { return __builtin_convertvector(load<VH>(p), VD); }
inline bool any(VL mask) { return (mask[0] | mask[1]) != 0; }
#endif

template <class V>
inline V largest(V a, V b) {
  return a > b ? a : b;  // b where a is NaN
}

// The sum of n lanes by halves, so that it costs log n additions.
template <class T, int n>
struct Lanes {
  typedef T Whole __attribute__((vector_size(n * sizeof(T))));
  typedef T Half __attribute__((vector_size(n / 2 * sizeof(T))));
  static inline T sum(Whole v) {
    Half part[2];
    __builtin_memcpy(part, &v, sizeof(v));
    return Lanes<T, n / 2>::sum(part[0] + part[1]);
  }
};
template <class T>
struct Lanes<T, 2> {
  typedef T Whole __attribute__((vector_size(2 * sizeof(T))));
  static inline T sum(Whole v) { return v[0] + v[1]; }
};
inline float sum_lanes(VF v) { return Lanes<float, kLanes>::sum(v); }
inline double sum_lanes(VD v) { return Lanes<double, kDoubles>::sum(v); }

template <class T, class V>
inline T max_lanes(V v) {
  constexpr int n = sizeof(V) / sizeof(T);
  T best = v[0];
  for (int i = 1; i < n; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

// 2^e to 2e-7, exactly 0 for e <= -126 and for NaN; e < 127. Adding 1.5 * 2^23 rounds e to an
// integer that then stands in the low bits, ready to become the exponent.
inline VF exp2_or_zero(VF e) {
  VF t = e + 12582912.0f;
  VF f = e - (t - 12582912.0f);
  VF p = f * 0.001327647129073739f + 0.009675540961325169f;
  p = p * f + 0.05550713092088699f;
  p = p * f + 0.24022120237350464f;
  p = p * f + 0.6931469440460205f;
  p = p * f + 1.0000001192092896f;
  VU bits = (VU)p + ((VU)t << 23);
  return (VF)(bits & (VU)(e > -126.0f));
}

// The same to 1e-15: e <= -1022 gives 0, e < 1023. Taylor series of degree 12.
inline VD exp2_or_zero(VD e) {
  constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  VD t = e + magic;
  VD f = (e - (t - magic)) * 0.693147180559945309417;
  VD p = f * (1.0 / 479001600.0) + 1.0 / 39916800.0;
  p = p * f + 1.0 / 3628800.0;
  p = p * f + 1.0 / 362880.0;
  p = p * f + 1.0 / 40320.0;
  p = p * f + 1.0 / 5040.0;
  p = p * f + 1.0 / 720.0;
  p = p * f + 1.0 / 120.0;
  p = p * f + 1.0 / 24.0;
  p = p * f + 1.0 / 6.0;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  VUL bits = (VUL)p + ((VUL)t << 52);
  return (VD)(bits & (VUL)(e > -1022.0));
}

}  // namespace KDEY_ISA
}  // namespace kdey
