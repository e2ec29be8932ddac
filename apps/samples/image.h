/* Decodes compressed images: JPEG by libjpeg-turbo, PNG by libpng. Strict: an image with any damage that the decoders
 * notice is refused. Nothing is printed, nothing is kept between calls, and any thread may call. The pixels depend on
 * the bytes and the shape alone (and on the version of the decoders). */
#ifndef APPS_SAMPLES_IMAGE_H
#define APPS_SAMPLES_IMAGE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    IMAGE_PIXELS_MAX = 1 << 24, /* of a compressed image: a thread decodes it in 48 MiB of memory, CMYK in 112 MiB */
    IMAGE_SIDE_MAX = 1 << 16    /* pixels */
};

struct image_shape {
    uint32_t width, height;
    uint32_t channels; /* 1: grey, 3: red, green and blue */
};

/* How many values an image of this shape has. */
static inline size_t image_values(const struct image_shape *shape) {
    return (size_t)shape->width * shape->height * shape->channels;
}

/* Finds the shape of a compressed image by its header. Returns 0; AML_EINPUT: it is neither JPEG nor PNG, its header is
 * damaged, or it has more pixels than are allowed; AML_ENOMEM. */
int image_look(const void *bytes, size_t size, struct image_shape *shape, struct error *error);

/* Decodes an image to pixels[height][width][channels] of `shape`: in grey or colour, and resized if its own width and
 * height are others. Transparent pixels are over black. CMYK becomes RGB without a colour profile. The orientation that
 * EXIF data may name is left out: pixels are as they are stored. Returns what image_look does; AML_EINPUT also for
 * damaged data. */
int image_decode(const void *bytes, size_t size, const struct image_shape *shape, unsigned char *pixels,
                 struct error *error);

/* Resizes in[from->height][from->width][channels] to out[to->height][to->width][channels]; both have the same channels.
 * Each pixel is a mean of those around its place, by a triangle that is two pixels wide, in the larger of both images'
 * pixels. Whole numbers alone, so the result is the same on every machine. Returns 0 or AML_ENOMEM. */
int image_resize(const unsigned char *in, const struct image_shape *from, unsigned char *out,
                 const struct image_shape *to, struct error *error);

#endif
