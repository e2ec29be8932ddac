/* Shifts an image at random: the augmentation of `mlr --shift`. Pure. */
#ifndef APPS_MLR_SHIFT_H
#define APPS_MLR_SHIFT_H

#include <stdint.h>

/* Copies the image in[height][width] to out[height][width], moved by -most to `most` pixels in each direction, which
 * the bits of `random` choose. Pixels that come in from outside are 0. `most` is below width and height. */
void mlr_shift(const float *in, float *out, uint32_t width, uint32_t height, uint32_t most, uint64_t random);

#endif
