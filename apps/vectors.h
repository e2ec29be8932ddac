/* Vectors of floats, for loops that are written once and compiled for several sets of instructions:
 *
 *     portable   4 floats, by the compiler's vector extension: SSE2 on x86-64, NEON on ARM, plain code elsewhere
 *     avx2       8 floats, AVX2 and FMA (x86-64-v3)
 *     avx512     16 floats, AVX-512
 *
 * Each function names the instructions that it needs. So a file is compiled for the baseline processor, and its other
 * functions run anywhere. vector_sets.h includes loops once for each set. In them SET(name) is the set's `name`:
 *
 *     SET(vector)         the type, of VECTOR_LANES floats
 *     load, store         any address
 *     load_part(x, n)     the first n of x, 1 to VECTOR_LANES, then zeros; reads no more of x
 *     store_part(x, v, n) writes only the first n
 *     fill(x)             x in all places
 *     multiply_add        a b + c; rounded once, but twice in `portable`
 *     maximum             a > b ? a : b in each place; so b where one is NaN
 *     sum                 of all places
 *     sums(v, x)          writes the sums of 8 vectors' places to x[8]
 *     nonzeros            a bit for each place that is not 0; NaN is not 0 */
#ifndef APPS_VECTORS_H
#define APPS_VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define VECTOR_INLINE static inline __attribute__((always_inline))
#define VECTOR_AVX2   __attribute__((target("avx2,fma,bmi,popcnt")))
#define VECTOR_AVX512 __attribute__((target("avx2,fma,bmi,popcnt,avx512f,avx512dq")))
#if defined(__clang__)
#define VECTOR_UNROLL _Pragma("unroll")
#else
#define VECTOR_UNROLL _Pragma("GCC unroll 8")
#endif

/* Number of sets in this program. An array with an implementation for each has them in the order of their vectors. */
#if defined(__x86_64__)
enum { VECTOR_SETS = 3 };
#else
enum { VECTOR_SETS = 1 };
#endif

/* Returns how many of avx2 and avx512 this processor has: 0, 1 or 2. So it is the index of the widest set. */
static inline size_t vectors_wide(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("popcnt")) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") ? 2 : 1;
    }
#endif
    return 0;
}

/* ---- portable ---- */

typedef float portable_vector __attribute__((vector_size(16)));

VECTOR_INLINE portable_vector portable_load(const float *x) {
    portable_vector v;
    memcpy(&v, x, sizeof v);
    return v;
}

VECTOR_INLINE portable_vector portable_load_part(const float *x, size_t n) {
    portable_vector v = {x[0], n > 1 ? x[1] : 0, n > 2 ? x[2] : 0, 0};
    return n < 4 ? v : portable_load(x);
}

VECTOR_INLINE void portable_store(float *x, portable_vector v) {
    memcpy(x, &v, sizeof v);
}

VECTOR_INLINE void portable_store_part(float *x, portable_vector v, size_t n) {
    for (size_t k = 0; k < n && k < 4; k++) {
        x[k] = v[k];
    }
}

/* Subtracts 0, since adding 0 would make -0 into 0. */
VECTOR_INLINE portable_vector portable_fill(float x) {
    return x - (portable_vector){0};
}

VECTOR_INLINE portable_vector portable_multiply_add(portable_vector a, portable_vector b, portable_vector c) {
    return a * b + c;
}

VECTOR_INLINE portable_vector portable_maximum(portable_vector a, portable_vector b) {
    typedef int32_t places __attribute__((vector_size(16)));
    const places greater = (places)(a > b);
    return (portable_vector)((greater & (places)a) | (~greater & (places)b));
}

VECTOR_INLINE float portable_sum(portable_vector v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
}

VECTOR_INLINE void portable_sums(const portable_vector *v, float *x) {
    for (size_t k = 0; k < 8; k++) {
        x[k] = portable_sum(v[k]);
    }
}

VECTOR_INLINE unsigned portable_nonzeros(portable_vector v) {
    return (v[0] != 0) + (v[1] != 0) * 2U + (v[2] != 0) * 4U + (v[3] != 0) * 8U;
}

#if defined(__x86_64__)

/* ---- avx2 ---- */

typedef __m256 avx2_vector;

VECTOR_AVX2 VECTOR_INLINE __m256i avx2_mask(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

VECTOR_AVX2 VECTOR_INLINE __m256 avx2_load(const float *x) {
    return _mm256_loadu_ps(x);
}

VECTOR_AVX2 VECTOR_INLINE __m256 avx2_load_part(const float *x, size_t n) {
    return _mm256_maskload_ps(x, avx2_mask(n));
}

VECTOR_AVX2 VECTOR_INLINE void avx2_store(float *x, __m256 v) {
    _mm256_storeu_ps(x, v);
}

VECTOR_AVX2 VECTOR_INLINE void avx2_store_part(float *x, __m256 v, size_t n) {
    _mm256_maskstore_ps(x, avx2_mask(n), v);
}

VECTOR_AVX2 VECTOR_INLINE __m256 avx2_fill(float x) {
    return _mm256_set1_ps(x);
}

VECTOR_AVX2 VECTOR_INLINE __m256 avx2_multiply_add(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}

VECTOR_AVX2 VECTOR_INLINE float avx2_sum(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

VECTOR_AVX2 VECTOR_INLINE __m256 avx2_maximum(__m256 a, __m256 b) {
    return _mm256_max_ps(a, b);
}

/* Adds neighbouring places, first within each half of the vectors. */
VECTOR_AVX2 VECTOR_INLINE void avx2_sums(const __m256 *v, float *x) {
    const __m256 low = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    const __m256 high = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    avx2_store(x, _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)));
}

VECTOR_AVX2 VECTOR_INLINE unsigned avx2_nonzeros(__m256 v) {
    return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}

/* ---- avx512 ---- */

typedef __m512 avx512_vector;

VECTOR_AVX512 VECTOR_INLINE __mmask16 avx512_mask(size_t n) {
    return (__mmask16)((1U << n) - 1U);
}

VECTOR_AVX512 VECTOR_INLINE __m512 avx512_load(const float *x) {
    return _mm512_loadu_ps(x);
}

VECTOR_AVX512 VECTOR_INLINE __m512 avx512_load_part(const float *x, size_t n) {
    return _mm512_maskz_loadu_ps(avx512_mask(n), x);
}

VECTOR_AVX512 VECTOR_INLINE void avx512_store(float *x, __m512 v) {
    _mm512_storeu_ps(x, v);
}

VECTOR_AVX512 VECTOR_INLINE void avx512_store_part(float *x, __m512 v, size_t n) {
    _mm512_mask_storeu_ps(x, avx512_mask(n), v);
}

VECTOR_AVX512 VECTOR_INLINE __m512 avx512_fill(float x) {
    return _mm512_set1_ps(x);
}

VECTOR_AVX512 VECTOR_INLINE __m512 avx512_multiply_add(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}

VECTOR_AVX512 VECTOR_INLINE float avx512_sum(__m512 v) {
    return avx2_sum(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

VECTOR_AVX512 VECTOR_INLINE __m512 avx512_maximum(__m512 a, __m512 b) {
    return _mm512_max_ps(a, b);
}

VECTOR_AVX512 VECTOR_INLINE void avx512_sums(const __m512 *v, float *x) {
    __m256 halves[8];
    VECTOR_UNROLL
    for (unsigned k = 0; k < 8; k++) {
        halves[k] = _mm256_add_ps(_mm512_castps512_ps256(v[k]), _mm512_extractf32x8_ps(v[k], 1));
    }
    avx2_sums(halves, x);
}

VECTOR_AVX512 VECTOR_INLINE unsigned avx512_nonzeros(__m512 v) {
    return (unsigned)_mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

#endif

#endif
