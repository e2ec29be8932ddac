/* What the steps of all loops (kernel.h, gradient.h) have in common. */
#ifndef APPS_MF_STEP_H
#define APPS_MF_STEP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the error that a step takes; NaN stays NaN. Few errors are beyond `clip`: a branch that is predicted costs
 * nothing, while the minimum and the maximum would lengthen the chain from each rating of a user to the next. */
static inline float mf_clipped(float error, float clip) {
    if (__builtin_expect(fabsf(error) > clip, 0)) {
        return copysignf(clip, error);
    }
    return error;
}

/* The regularization of the bias of row `slot`. */
static inline float mf_penalty(const float *penalties, uint32_t slot, float lambda_bias) {
    return penalties != NULL ? penalties[slot] : lambda_bias;
}

#endif
