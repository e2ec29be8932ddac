/* Dense steps with few classes. A general product of matrices with few columns spends most of its time on packing
 * and unused lanes. Here vectors run along the features, of which there are many. Results differ from dense.c by
 * rounding. */
#ifndef APPS_MLR_NARROW_H
#define APPS_MLR_NARROW_H

#include "apps/mlr/kernel.h"

enum {
    MLR_NARROW_CLASSES_MAX = 32,
    MLR_NARROW_FEATURES_MIN = 64,
    MLR_NARROW_WEIGHTS_MAX = 1 << 16 /* d K: the weights stay in a core's cache */
};

/* One implementation, with the arguments of mlr_dense_logits and mlr_dense_update. `scratch` is a thread's own memory
 * of mlr_narrow_scratch floats. `update` does not support momentum. */
struct mlr_narrow {
    const char *name;
    void (*logits)(const struct mlr_weights *weights, const struct mlr_dense *dense, size_t first, size_t end,
                   float *scratch, float *logits);
    void (*update)(const struct mlr_weights *weights, const struct mlr_dense *dense, const float *errors,
                   const struct mlr_step *step, uint32_t first, uint32_t end);
};

/* avx2 and avx512. This processor runs the first vectors_wide() of them. */
extern const struct mlr_narrow mlr_narrows[2];
/* Chooses the fastest implementation. Returns false when there is none, or the shape exceeds the limits above. */
bool mlr_narrow_choose(uint32_t features, uint32_t classes, struct mlr_narrow *narrow);
size_t mlr_narrow_scratch(uint32_t features, uint32_t classes);

#endif
