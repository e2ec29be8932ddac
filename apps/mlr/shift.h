/* Shifts an image at random: the augmentation of --shift. Pure. */
#ifndef APPS_MLR_SHIFT_H
#define APPS_MLR_SHIFT_H

#include <stddef.h>
#include <stdint.h>

/* Pixels are [height][width][channels]. */
struct mlr_image {
    uint32_t width, height, channels;
};

/* Copies the image `in` to `out`, of values of `value` bytes, moved by -most to `most` pixels in each direction, which
 * the bits of `random` choose. Pixels that come in from outside are 0. `most` is below width and height. */
void mlr_shift(const void *in, void *out, const struct mlr_image *image, size_t value, uint32_t most, uint64_t random);

#endif
