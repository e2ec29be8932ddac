/* Shifts an image at random, for --shift. A pure function. */
#ifndef APPS_SAMPLES_SHIFT_H
#define APPS_SAMPLES_SHIFT_H

#include "apps/samples/image.h"

#include <stddef.h>
#include <stdint.h>

/* Copies the image `in` to `out`, both [height][width][channels], moved by -most to `most` pixels in each direction;
 * the bits of `random` choose the shift. Each channel has `value` bytes. Pixels from outside the image are 0. `most`
 * must be below width and height. */
void shift_image(const void *in, void *out, const struct image_shape *image, size_t value, uint32_t most,
                 uint64_t random);

#endif
