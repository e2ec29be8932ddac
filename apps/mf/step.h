/* Functions shared by the steps of all loops (kernel.h, gradient.h). */
#ifndef APPS_MF_STEP_H
#define APPS_MF_STEP_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the error clipped to +-`clip`; NaN stays NaN. Few errors are beyond `clip`, so the branch is well
 * predicted and costs nothing. A minimum and a maximum would lengthen the dependency chain from each rating of a
 * user to the next. */
static inline float mf_clipped(float error, float clip) {
    if (__builtin_expect(fabsf(error) > clip, 0)) {
        return copysignf(clip, error);
    }
    return error;
}

/* Returns the regularization of the bias of row `slot`. */
static inline float mf_penalty(const float *penalties, uint32_t slot, float lambda_bias) {
    return penalties != NULL ? penalties[slot] : lambda_bias;
}

#endif
