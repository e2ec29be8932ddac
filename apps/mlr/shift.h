/* Shifts an image at random: the augmentation of --shift. Pure. */
#ifndef APPS_MLR_SHIFT_H
#define APPS_MLR_SHIFT_H

#include <stdint.h>

/* Pixels are [height][width][channels]. */
struct mlr_image {
    uint32_t width, height, channels;
};

/* Copies the image `in` to `out`, moved by -most to `most` pixels in each direction, which the bits of `random` choose.
 * Pixels that come in from outside are 0. `most` is below width and height. */
void mlr_shift(const float *in, float *out, const struct mlr_image *image, uint32_t most, uint64_t random);

#endif
