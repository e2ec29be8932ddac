/* See narrow.h. narrow_variants.h has the loops, for each wide set of vector instructions (apps/vectors.h). */
#include "apps/mlr/narrow.h"

#include "apps/vectors.h"

#include <string.h>

size_t mlr_narrow_scratch(uint32_t features, uint32_t classes) {
    return (size_t)features * classes;
}

#if defined(__x86_64__)

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

#define VECTOR_WIDE_ALONE
#define VECTOR_LOOPS "apps/mlr/narrow_variants.h"
#include "apps/vector_sets.h"

const struct mlr_narrow mlr_narrows[2] = {{"avx2", avx2_logits, avx2_update}, {"avx512", avx512_logits, avx512_update}};
#else
const struct mlr_narrow mlr_narrows[2] = {{0}};
#endif

bool mlr_narrow_choose(uint32_t features, uint32_t classes, struct mlr_narrow *narrow) {
    size_t count = vectors_wide();
    if (count == 0 || classes > MLR_NARROW_CLASSES_MAX || features < MLR_NARROW_FEATURES_MIN ||
        mlr_narrow_scratch(features, classes) > MLR_NARROW_WEIGHTS_MAX) {
        return false;
    }
    *narrow = mlr_narrows[count - 1];
    return true;
}
