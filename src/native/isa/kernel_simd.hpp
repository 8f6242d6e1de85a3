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

// A batch of queries is prepared together and multiplied in register blocks of some of them: as
// many as the registers hold (kRegisterRows, by two vectors of references), or fewer where powers
// are computed in between (mixed_rows; 0: they are not).
#if defined(KDEY_ISA_avx512)
constexpr int kLanes = 16, kBatch = 12, kRegisterRows = 12;  // 24 of 32 registers accumulate
constexpr int mixed_rows(int batch) { return batch % 6 == 0 ? 6 : batch % 4 == 0 ? 4 : 0; }
#elif defined(KDEY_ISA_avx2)
constexpr int kLanes = 8, kBatch = 12, kRegisterRows = 6;  // 12 of 16
constexpr int mixed_rows(int batch) { return batch % 4 == 0 ? 4 : 0; }
#else
constexpr int kLanes = 4, kBatch = 6, kRegisterRows = 6;
constexpr int mixed_rows(int) { return 0; }
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

// Functions on vectors in registers: one that is not inlined takes them through memory.
#define KDEY_INLINE inline __attribute__((always_inline))

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

// A product that the compiler does not know of, and cannot join with a sum to a multiply-add.
KDEY_INLINE VF multiplied_alone(VF v, float factor) {
  v *= factor;
#if defined(KDEY_ISA_avx512) || defined(KDEY_ISA_avx2)
  asm("" : "+v"(v));
#elif defined(__aarch64__)  // which has multiply-adds, too
  asm("" : "+w"(v));
#endif
  return v;
}

template <class V>
inline V largest(V a, V b) {
  return a > b ? a : b;  // b where a is NaN
}
template <class V>
inline V smallest(V a, V b) {
  return a < b ? a : b;
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

// 2^e to 3e-7 for kLowest < e < 127, in steps that other work can stand between. Adding 1.5 * 2^23
// rounds e to an integer that then stands in the low bits, ready to become the exponent; adding 1.5
// * 2^23 / 2^n rounds it to n bits behind the point, which find the power of their fraction in a
// table. The shorter what is left, the shorter the polynomial of its power. Multiplications are
// what there is least time for: a polynomial's leading coefficient is in the table, its argument is
// moved so that the square or the cube is complete (by a number that the rounding constant can
// hold), and the last product is left to the sum, which multiplies and adds.
constexpr float kLowest = -120.0f;  // the table's factor must not underflow

// 2^e = factor * rest, when all steps are done.
struct Power {
  VF e, factor, rest, moved;
};

// The exponent as the steps take it, and its factor; where it is not Bounded by kLowest, the factor
// is exactly 0 for e <= kLowest and for NaN. Both ways give the same bits where both may be gone.
template <bool Bounded>
KDEY_INLINE VF started(VF e) {
  return Bounded ? e : largest(e, VF{} + kLowest);
}
template <bool Bounded>
KDEY_INLINE VF bounded_factor(VF fraction, VF shifted, VF e) {
  if (Bounded) return (VF)((VU)fraction + (VU)shifted);
#if defined(KDEY_ISA_avx512)
  const __mmask16 on = _mm512_cmp_ps_mask((__m512)e, _mm512_set1_ps(kLowest), _CMP_GT_OQ);
  return (VF)_mm512_maskz_add_epi32(on, (__m512i)fraction, (__m512i)shifted);
#else
  return (VF)((VI)((VU)fraction + (VU)shifted) & (e > kLowest));
#endif
}

#if defined(KDEY_ISA_avx512)
constexpr int kPowerSteps = 4;
// The bits of 0.24109822 * 2^(j / 32), less what the shifted j will add to them.
constexpr uint32_t kPowers[32] = {
    0x3e76e274, 0x3e784a68, 0x3e78e855, 0x3e77baf2, 0x3e769d62, 0x3e758ffd, 0x3e74931e, 0x3e73a722,
    0x3e72cc67, 0x3e72034e, 0x3e714c3b, 0x3e70a791, 0x3e7015b8, 0x3e6f971a, 0x3e6f2c23, 0x3e6ed540,
    0x3e6e92e2, 0x3e6e657c, 0x3e6e4d84, 0x3e6e4b72, 0x3e6e5fc1, 0x3e6e8aed, 0x3e6ecd78, 0x3e6f27e4,
    0x3e6f9ab7, 0x3e70267a, 0x3e70cbb9, 0x3e718b02, 0x3e7264e7, 0x3e7359ff, 0x3e746ae0, 0x3e759827};
template <int step, bool Bounded>
KDEY_INLINE void take_step(Power& p) {
  constexpr float round = 393216.0f, move = 1.4375f;
  if (step == 0) p.rest = p.e + round;
  if (step == 1) {
    p.factor = (VF)_mm512_permutex2var_epi32(_mm512_loadu_si512(kPowers), (__m512i)p.rest,
                                             _mm512_loadu_si512(kPowers + 16));
    p.moved = p.rest - (round + move);
    p.rest = (VF)((VU)p.rest << 18);
  }
  if (step == 2) {
    p.factor = bounded_factor<Bounded>(p.factor, p.rest, p.e);
    p.moved = p.e - p.moved;
  }
  if (step == 3) p.rest = p.moved * p.moved + 2.08128043f;
}
#elif defined(KDEY_ISA_avx2)
constexpr int kPowerSteps = 5;
// The bits of 0.05600181 * 2^(j / 8), less what the shifted j will add to them.
constexpr uint32_t kPowers[8] = {0x3d656227, 0x3d6a24f7, 0x3d686467, 0x3d64bc9b,
                                 0x3d6232d5, 0x3d60e0f9, 0x3d60e340, 0x3d625874};
template <int step, bool Bounded>
KDEY_INLINE void take_step(Power& p) {
  constexpr float round = 1572864.0f, move = 1.0f;
  if (step == 0) p.rest = p.e + round;
  if (step == 1) {
    p.factor = (VF)_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i*)kPowers),
                                               (__m256i)p.rest);
    p.moved = p.rest - (round + move);
    p.rest = (VF)((VU)p.rest << 20);
  }
  if (step == 2) {
    p.factor = bounded_factor<Bounded>(p.factor, p.rest, p.e);
    p.moved = p.e - p.moved;
  }
  if (step == 3) {
    p.rest = p.moved * p.moved + 6.79659749f;
    p.moved += 1.29030227f;
  }
  if (step == 4) p.factor *= p.moved;
}
#else
constexpr int kPowerSteps = 1;
template <int, bool Bounded>
KDEY_INLINE void take_step(Power& p) {
  VF t = p.e + 12582912.0f;
  VF f = p.e - (t - 12582912.0f);
  VF v = f * 0.001327647129073739f + 0.009675540961325169f;
  v = v * f + 0.05550713092088699f;
  v = v * f + 0.24022120237350464f;
  v = v * f + 0.6931469440460205f;
  v = v * f + 1.0000001192092896f;
  p.factor = bounded_factor<Bounded>(v, (VF)((VU)t << 23), p.e);
}
#endif

template <bool Bounded, int step = 0>
KDEY_INLINE Power take_steps(Power p) {
  if constexpr (step < kPowerSteps) {
    take_step<step, Bounded>(p);
    return take_steps<Bounded, step + 1>(p);
  }
  return p;
}
template <bool Bounded>
KDEY_INLINE Power power_of_two(VF e) {
  return take_steps<Bounded>(Power{started<Bounded>(e), {}, {}, {}});
}

// p where the mask is set, and exactly 0 elsewhere.
KDEY_INLINE Power masked(Power p, VI mask) {
  p.factor = (VF)((VI)p.factor & mask);
  return p;
}

KDEY_INLINE VF add_power(VF sum, const Power& p) {
#if defined(KDEY_ISA_avx512) || defined(KDEY_ISA_avx2)
  return sum + p.factor * p.rest;
#else
  return sum + p.factor;
#endif
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
