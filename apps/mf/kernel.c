/* See kernel.h. This file has the reference loop, the vector operations that differ between instruction sets, the
 * choice of an implementation, and the start values. kernel_variants.h has the other operations and the loops, and
 * is included once per set. */
#include "apps/mf/kernel.h"

#include "agileml/base/hash.h"
#include "apps/mf/step.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    /* Ratings between the prefetch and the use of an item's row: about the time to load a row from memory or the
     * third-level cache. */
    MF_PREFETCH_DISTANCE = 8,
    MF_CACHE_LINE = 64
};

static inline float *mf_row(unsigned char *rows, size_t stride, uint32_t slot) {
    return (float *)(void *)(rows + (size_t)slot * stride);
}

static void mf_check(const struct mf_sgd *sgd) {
    size_t row_size = ((size_t)sgd->rank + sgd->biases) * sizeof(float);
    (void)row_size;
    assert(sgd->rank >= 1 && sgd->rank <= MF_RANK_MAX);
    assert(sgd->user_stride % 16 == 0 && sgd->user_stride >= row_size);
    assert(sgd->item_stride % 16 == 0 && sgd->item_stride >= row_size);
}

/* The reference: the formulas of kernel.h, one number at a time. */

static float reference_error(const struct mf_sgd *sgd, const struct mf_item *rating, const float *p, const float *q) {
    float prediction = 0;
    for (uint32_t k = 0; k < sgd->rank; k++) {
        prediction += p[k] * q[k];
    }
    if (sgd->biases) {
        prediction += p[sgd->rank] + q[sgd->rank];
    }
    return (rating->rating - sgd->mean) * sgd->scale - prediction;
}

static inline float mf_rate_of(const struct mf_sgd *sgd, uint32_t item) {
    return sgd->item_rates != NULL ? sgd->item_rates[item] : sgd->rate;
}

static double reference_sgd_pass(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    mf_check(sgd);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        float *p = mf_row(sgd->users, sgd->user_stride, ratings[i].user);
        float *q = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
        float error = reference_error(sgd, &ratings[i], p, q);
        sum += (double)error * (double)error;
        error = mf_clipped(error, sgd->clip);
        float item_rate = mf_rate_of(sgd, ratings[i].item);
        for (uint32_t k = 0; k < sgd->rank; k++) {
            float old_p = p[k];
            p[k] += sgd->rate * (error * q[k] - sgd->lambda * old_p);
            q[k] += item_rate * (error * old_p - sgd->lambda * q[k]);
        }
        if (sgd->biases) {
            float user_penalty = mf_penalty(sgd->user_penalties, ratings[i].user, sgd->lambda_bias);
            float item_penalty = mf_penalty(sgd->item_penalties, ratings[i].item, sgd->lambda_bias);
            p[sgd->rank] += sgd->rate * (error - user_penalty * p[sgd->rank]);
            q[sgd->rank] += item_rate * (error - item_penalty * q[sgd->rank]);
        }
        if (sgd->users_touched != NULL) {
            sgd->users_touched[ratings[i].user] = 1;
        }
        if (sgd->items_touched != NULL) {
            sgd->items_touched[ratings[i].item] = 1;
        }
    }
    return sum;
}

static double reference_squared_error(const struct mf_sgd *sgd, const struct mf_item *ratings, size_t count) {
    mf_check(sgd);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const float *p = mf_row(sgd->users, sgd->user_stride, ratings[i].user);
        const float *q = mf_row(sgd->items, sgd->item_stride, ratings[i].item);
        float error = reference_error(sgd, &ratings[i], p, q);
        sum += (double)error * (double)error;
    }
    return sum;
}

#define MF_INLINE static inline __attribute__((always_inline))

/* Vectors of 4 floats in the compiler's vector extension: SSE2 on x86-64, NEON on ARM, plain code elsewhere. */

typedef float portable_vector __attribute__((vector_size(16)));

MF_INLINE portable_vector portable_load_part(const float *x, uint32_t n) {
    portable_vector v = {x[0], n > 1 ? x[1] : 0, n > 2 ? x[2] : 0, 0};
    return v;
}

MF_INLINE void portable_store_part(float *x, portable_vector v, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        x[k] = v[k];
    }
}

MF_INLINE portable_vector portable_multiply_add(portable_vector a, portable_vector b, portable_vector c) {
    return a * b + c;
}

MF_INLINE float portable_sum(portable_vector v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
}

#define MF_SET   portable
#define MF_LANES 4
#define MF_TARGET
#include "apps/mf/kernel_variants.h"

#if defined(__x86_64__)

/* Vectors of 8 floats: AVX2 and FMA (x86-64-v3). Each function names the instructions that it needs. So the file is
 * compiled for the baseline processor, and the rest of it runs anywhere. */

typedef __m256 avx2_vector;
#define MF_AVX2 __attribute__((target("avx2,fma")))

MF_AVX2 MF_INLINE __m256i avx2_mask(uint32_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

MF_AVX2 MF_INLINE __m256 avx2_load_part(const float *x, uint32_t n) {
    return _mm256_maskload_ps(x, avx2_mask(n));
}

MF_AVX2 MF_INLINE void avx2_store_part(float *x, __m256 v, uint32_t n) {
    _mm256_maskstore_ps(x, avx2_mask(n), v);
}

MF_AVX2 MF_INLINE __m256 avx2_multiply_add(__m256 a, __m256 b, __m256 c) {
    return _mm256_fmadd_ps(a, b, c);
}

MF_AVX2 MF_INLINE float avx2_sum(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

#define MF_SET    avx2
#define MF_LANES  8
#define MF_TARGET MF_AVX2
#include "apps/mf/kernel_variants.h"

/* Vectors of 16 floats: AVX-512. */

typedef __m512 avx512_vector;
#define MF_AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq")))

MF_AVX512 MF_INLINE __m512 avx512_load_part(const float *x, uint32_t n) {
    return _mm512_maskz_loadu_ps((__mmask16)((1U << n) - 1U), x);
}

MF_AVX512 MF_INLINE void avx512_store_part(float *x, __m512 v, uint32_t n) {
    _mm512_mask_storeu_ps(x, (__mmask16)((1U << n) - 1U), v);
}

MF_AVX512 MF_INLINE __m512 avx512_multiply_add(__m512 a, __m512 b, __m512 c) {
    return _mm512_fmadd_ps(a, b, c);
}

MF_AVX512 MF_INLINE float avx512_sum(__m512 v) {
    return avx2_sum(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

#define MF_SET    avx512
#define MF_LANES  16
#define MF_TARGET MF_AVX512
#include "apps/mf/kernel_variants.h"

#endif

size_t mf_kernel_list(struct mf_kernel kernels[MF_KERNELS_MAX]) {
    size_t count = 0;
    kernels[count++] = (struct mf_kernel){"reference", reference_sgd_pass, reference_squared_error};
    kernels[count++] = (struct mf_kernel){"portable", portable_sgd_pass, portable_squared_error};
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (avx2) {
        kernels[count++] = (struct mf_kernel){"avx2", avx2_sgd_pass, avx2_squared_error};
    }
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) {
        kernels[count++] = (struct mf_kernel){"avx512", avx512_sgd_pass, avx512_squared_error};
    }
#endif
    return count;
}

struct mf_kernel mf_kernel_choose(void) {
    struct mf_kernel kernels[MF_KERNELS_MAX];
    size_t count = mf_kernel_list(kernels);
    return kernels[count - 1];
}

#if defined(__x86_64__)

uint64_t mf_flush_begin(void) {
    enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x40 };
    unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | FLUSH_RESULTS | FLUSH_OPERANDS);
    return mode;
}

void mf_flush_end(uint64_t mode) {
    _mm_setcsr((unsigned)mode);
}

#elif defined(__aarch64__)

uint64_t mf_flush_begin(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | (uint64_t)1 << 24));
    return mode;
}

void mf_flush_end(uint64_t mode) {
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

#else

uint64_t mf_flush_begin(void) {
    return 0;
}

void mf_flush_end(uint64_t mode) {
    (void)mode;
}

#endif

float mf_item_rate(float rate, float limit, unsigned nodes, float ratings) {
    if (nodes <= 1 || ratings <= 0) {
        return rate;
    }
    double one = -expm1(-(double)rate * (double)ratings / (double)limit); /* one node's way to the goal, in 0..1 */
    double sum = -(double)limit * nodes * log1p(-one / nodes);
    return (float)(sum / (double)ratings);
}

void mf_initial_row(uint64_t seed, unsigned table, uint64_t key, uint32_t rank, bool biases, float *row) {
    assert(rank >= 1 && rank <= MF_RANK_MAX);
    uint64_t start = hash_mix(hash_mix(hash_mix(seed) ^ table) ^ key);
    float scale = MF_INITIAL_SCALE / sqrtf((float)rank);
    for (uint32_t k = 0; k < rank; k++) {
        /* The 24 highest bits make a float in [0, 1) without rounding. */
        float uniform = (float)(hash_mix(start + k) >> 40) * 0x1p-24F;
        row[k] = scale * uniform;
    }
    if (biases) {
        row[rank] = 0;
    }
}
