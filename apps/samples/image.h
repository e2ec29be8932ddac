/* Decodes compressed images: JPEG by libjpeg-turbo, PNG by libpng. An image with any damage that the decoders detect
 * is rejected. Prints nothing and keeps no state; any thread. The pixels depend only on the bytes and the shape (and
 * on the version of the decoders). */
#ifndef APPS_SAMPLES_IMAGE_H
#define APPS_SAMPLES_IMAGE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    IMAGE_PIXELS_MAX = 1 << 24, /* pixels of an image: decoding takes a thread 48 MiB of memory, for CMYK 112 MiB */
    IMAGE_SIDE_MAX = 1 << 16    /* pixels */
};

struct image_shape {
    uint32_t width, height;
    uint32_t channels; /* 1: grey, 3: red, green and blue */
};

/* Returns the number of values of an image. */
static inline size_t image_values(const struct image_shape *shape) {
    return (size_t)shape->width * shape->height * shape->channels;
}

/* Finds the shape of a compressed image by its header. Returns 0 or AML_ENOMEM. Returns AML_EINPUT when it is
 * neither JPEG nor PNG, its header is damaged, or it has too many pixels. */
int image_look(const void *bytes, size_t size, struct image_shape *shape, struct error *error);

/* Decodes an image to pixels[height][width][channels] of `shape`: in grey or colour, resized if its own width and
 * height differ. Transparent pixels are drawn over black. CMYK becomes RGB without a colour profile. An orientation
 * in EXIF data is ignored: pixels are as they are stored. Returns what image_look does; AML_EINPUT also for damaged
 * data. */
int image_decode(const void *bytes, size_t size, const struct image_shape *shape, unsigned char *pixels,
                 struct error *error);

/* Resizes in[from->height][from->width][channels] to out[to->height][to->width][channels]; both have the same
 * channels. Each new pixel is a weighted mean of old pixels around its place. The weights form a triangle two pixels
 * wide, in pixels of the coarser image. Uses only whole numbers, so the result is the same on every machine. Returns
 * 0 or AML_ENOMEM. */
int image_resize(const unsigned char *in, const struct image_shape *from, unsigned char *out,
                 const struct image_shape *to, struct error *error);

#endif
