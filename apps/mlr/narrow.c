/* See narrow.h. This file has the vector operations of each instruction set; narrow_variants.h has the loops over
 * them, and is included once per set. */
#include "apps/mlr/narrow.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

size_t mlr_narrow_scratch(uint32_t features, uint32_t classes) {
    return (size_t)features * classes;
}

#if defined(__x86_64__)

#define NARROW_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define NARROW_UNROLL _Pragma("unroll")
#else
#define NARROW_UNROLL _Pragma("GCC unroll 8")
#endif

enum {
    NARROW_CLASSES = 5,         /* classes whose sums are in registers at once */
    NARROW_CACHED_MAX = 1 << 20 /* bytes of samples that stay in a core's second-level cache together with as many
                                 * others */
};

/* What an update prefetches: for each sample as many values as it uses, `stride` apart. They may lie beyond the last
 * sample, where prefetching does no harm. */
struct ahead {
    const float *values;
    size_t stride;
};

/* Returns what to prefetch in an update of `width` features from f on, by a thread whose features begin with
 * `first`. If the minibatch fits in the second-level cache, that is the thread's share of the next minibatch, in the
 * order of addresses. Otherwise it is the next `width` features of the same samples. */
static struct ahead ahead_of(const struct mlr_dense *dense, size_t first, size_t f, size_t width) {
    if (dense->count * dense->stride * sizeof(float) > NARROW_CACHED_MAX) {
        return (struct ahead){dense->samples + f + width, dense->stride};
    }
    size_t part = dense->count * first / dense->features * dense->stride;
    return (struct ahead){dense->samples + dense->count * dense->stride + part + (f - first) * dense->count, width};
}

/* Transposes the weights into scratch[classes][features]. */
static void transpose(const struct mlr_weights *weights, uint32_t features, float *scratch) {
    for (uint32_t f = 0; f < features; f++) {
        const float *w = weights->rows + f * weights->stride;
        for (uint32_t k = 0; k < weights->classes; k++) {
            scratch[(size_t)k * features + f] = w[k];
        }
    }
}

#define NARROW_AVX2 __attribute__((target("avx2,fma")))

NARROW_AVX2 NARROW_INLINE float avx2_total(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#define NARROW_SET                  avx2
#define NARROW_LANES                8
#define NARROW_TOGETHER             2
#define NARROW_TARGET               NARROW_AVX2
#define NARROW_VECTOR               __m256
#define NARROW_ZERO()               _mm256_setzero_ps()
#define NARROW_LOAD(p)              _mm256_loadu_ps(p)
#define NARROW_STORE(p, v)          _mm256_storeu_ps(p, v)
#define NARROW_FILL(x)              _mm256_set1_ps(x)
#define NARROW_ADD_PRODUCT(a, b, c) _mm256_fmadd_ps(a, b, c)
#define NARROW_TOTAL(v)             avx2_total(v)
#include "apps/mlr/narrow_variants.h"

#define NARROW_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq")))

NARROW_AVX512 NARROW_INLINE float avx512_total(__m512 v) {
    return avx2_total(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

#define NARROW_SET                  avx512
#define NARROW_LANES                16
#define NARROW_TOGETHER             4
#define NARROW_TARGET               NARROW_AVX512
#define NARROW_VECTOR               __m512
#define NARROW_ZERO()               _mm512_setzero_ps()
#define NARROW_LOAD(p)              _mm512_loadu_ps(p)
#define NARROW_STORE(p, v)          _mm512_storeu_ps(p, v)
#define NARROW_FILL(x)              _mm512_set1_ps(x)
#define NARROW_ADD_PRODUCT(a, b, c) _mm512_fmadd_ps(a, b, c)
#define NARROW_TOTAL(v)             avx512_total(v)
#include "apps/mlr/narrow_variants.h"

#endif

size_t mlr_narrow_list(struct mlr_narrow narrows[MLR_NARROWS_MAX]) {
    size_t count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) {
        narrows[count++] = (struct mlr_narrow){"avx2", avx2_logits, avx2_update};
    }
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        narrows[count++] = (struct mlr_narrow){"avx512", avx512_logits, avx512_update};
    }
#else
    (void)narrows;
#endif
    return count;
}

bool mlr_narrow_choose(uint32_t features, uint32_t classes, struct mlr_narrow *narrow) {
    struct mlr_narrow narrows[MLR_NARROWS_MAX];
    size_t count = mlr_narrow_list(narrows);
    if (count == 0 || classes > MLR_NARROW_CLASSES_MAX || features < MLR_NARROW_FEATURES_MIN ||
        mlr_narrow_scratch(features, classes) > MLR_NARROW_WEIGHTS_MAX) {
        return false;
    }
    *narrow = narrows[count - 1];
    return true;
}
