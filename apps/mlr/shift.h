/* Shifts an image at random, for --shift. A pure function. */
#ifndef APPS_MLR_SHIFT_H
#define APPS_MLR_SHIFT_H

#include <stddef.h>
#include <stdint.h>

/* Pixels are [height][width][channels]. */
struct mlr_image {
    uint32_t width, height, channels;
};

/* Copies the image `in` to `out`, moved by -most to `most` pixels in each direction; the bits of `random` choose the
 * shift. Each channel has `value` bytes. Pixels from outside the image are 0. `most` must be below width and height. */
void mlr_shift(const void *in, void *out, const struct mlr_image *image, size_t value, uint32_t most, uint64_t random);

#endif
