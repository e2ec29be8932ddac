/* See kernel.h. This file has the implementations' table and the start values.
 * kernel_variants.h has the fast loops, for each set of vector instructions (apps/vectors.h). */
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

#define VECTOR_LOOPS "apps/mf/kernel_variants.h"
#include "apps/vector_sets.h"

const struct mf_kernel mf_kernels[VECTOR_SETS] = {
    {"portable", portable_sgd_pass, portable_squared_error},
#if defined(__x86_64__)
    {"avx2", avx2_sgd_pass, avx2_squared_error},
    {"avx512", avx512_sgd_pass, avx512_squared_error},
#endif
};

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

float mf_item_share(float rate, float limit, unsigned nodes, float ratings) {
    double way = -(double)nodes * expm1(-(double)rate * (double)ratings / nodes); /* of all nodes together */
    return way > (double)limit ? (float)((double)limit / way) : 1;
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
