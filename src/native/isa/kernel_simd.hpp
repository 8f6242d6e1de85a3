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
constexpr int kLanes = 16, kBatch = 12;  // 24 of 32 registers accumulate
#elif defined(KDEY_ISA_avx2)
constexpr int kLanes = 8, kBatch = 6;  // 12 of 16
#else
constexpr int kLanes = 4, kBatch = 6;
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

// Lanes of two vectors, numbered through.
typedef float V4 __attribute__((vector_size(16)));
template <int i, int j, int m, int n>
inline V4 shuffle(V4 a, V4 b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, i, j, m, n);
#else
  typedef int32_t I4 __attribute__((vector_size(16)));
  return __builtin_shuffle(a, b, I4{i, j, m, n});
#endif
}

// The sums of Q vectors that follow each other. Four of them fold into one vector of sums together.
inline V4 fold_to_four(const float* row) {
  V4 part[kLanes / 4];
  for (int i = 0; i < kLanes / 4; ++i) part[i] = load<V4>(row + 4 * i);
  for (int n = kLanes / 8; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) part[i] += part[i + n];
  return part[0];
}
template <int Q>
inline void sum_rows(const float* rows, float* totals) {
  constexpr int fours = Q / 4 * 4;
#pragma GCC unroll 3
  for (int i = 0; i < fours; i += 4) {
    const float* row = rows + i * kLanes;
    V4 a = fold_to_four(row), b = fold_to_four(row + kLanes);
    V4 c = fold_to_four(row + 2 * kLanes), d = fold_to_four(row + 3 * kLanes);
    V4 ab = shuffle<0, 4, 1, 5>(a, b) + shuffle<2, 6, 3, 7>(a, b);
    V4 cd = shuffle<0, 4, 1, 5>(c, d) + shuffle<2, 6, 3, 7>(c, d);
    store(totals + i, shuffle<0, 1, 4, 5>(ab, cd) + shuffle<2, 3, 6, 7>(ab, cd));
  }
  for (int i = fours; i < Q; ++i) {
    V4 v = fold_to_four(rows + i * kLanes);
    totals[i] = (v[0] + v[2]) + (v[1] + v[3]);
  }
}

template <class T, class V>
inline T max_lanes(V v) {
  constexpr int n = sizeof(V) / sizeof(T);
  T best = v[0];
  for (int i = 1; i < n; ++i) best = v[i] > best ? v[i] : best;
  return best;
}

// 2^e to 2e-7 for -126 <= e < 127, and anything elsewhere. Adding 1.5 * 2^23 rounds e to an integer
// that then stands in the low bits, ready to become the exponent; adding 1.5 * 2^23 / 2^n rounds it
// to n bits behind the point, which find the power of their fraction in a table. The shorter what
// is left, the shorter the polynomial of its power.
#if defined(KDEY_ISA_avx512)
// The bits of 2^(j / 32), less what the shifted j will add to them.
constexpr uint32_t kPowers[32] = {
    0x3f800000, 0x3f7ecd87, 0x3f7daac3, 0x3f7c980f, 0x3f7b95c2, 0x3f7aa43a, 0x3f79c3d3, 0x3f78f4f0,
    0x3f7837f0, 0x3f778d3a, 0x3f76f532, 0x3f767043, 0x3f75fed7, 0x3f75a15b, 0x3f75583f, 0x3f7523f6,
    0x3f7504f3, 0x3f74fbaf, 0x3f7508a4, 0x3f752c4d, 0x3f75672a, 0x3f75b9be, 0x3f76248c, 0x3f76a81e,
    0x3f7744fd, 0x3f77fbb8, 0x3f78ccdf, 0x3f79b907, 0x3f7ac0c7, 0x3f7be4ba, 0x3f7d257d, 0x3f7e83b3};
inline VF exp2_in_range(VF e) {
  VF t = e + 393216.0f;
  VF f = e - (t - 393216.0f);
  __m512i fraction = _mm512_permutex2var_epi32(_mm512_loadu_si512(kPowers), (__m512i)t,
                                               _mm512_loadu_si512(kPowers + 16));
  VF power = (VF)((VU)fraction + ((VU)t << 18));
  VF p = f * 0.24022649228572845f + 0.6931573152542114f;
  return power + f * power * p;
}
#elif defined(KDEY_ISA_avx2)
constexpr uint32_t kPowers[8] = {0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7,
                                 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7};
inline VF exp2_in_range(VF e) {
  VF t = e + 1572864.0f;
  VF f = e - (t - 1572864.0f);
  __m256i fraction =
      _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i*)kPowers), (__m256i)t);
  VF power = (VF)((VU)fraction + ((VU)t << 20));
  VF p = f * 0.0554962232708931f + 0.2402576357126236f;
  p = p * f + 0.6931472420692444f;
  return power + f * power * p;
}
#else
inline VF exp2_in_range(VF e) {
  VF t = e + 12582912.0f;
  VF f = e - (t - 12582912.0f);
  VF p = f * 0.001327647129073739f + 0.009675540961325169f;
  p = p * f + 0.05550713092088699f;
  p = p * f + 0.24022120237350464f;
  p = p * f + 0.6931469440460205f;
  p = p * f + 1.0000001192092896f;
  return (VF)((VU)p + ((VU)t << 23));
}
#endif

// The same for every e < 127, to the last bit: exactly 0 for e <= -126 and for NaN.
inline VF exp2_or_zero(VF e) {
  VF lowest = VF{} - 126.0f;
  return (VF)((VI)exp2_in_range(largest(e, lowest)) & (e > lowest));
}

// In float64, to 1e-15: e <= -1022 gives 0, e < 1023. Taylor series of degree 12.
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
