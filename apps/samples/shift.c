/* See shift.h. */
#include "apps/samples/shift.h"

#include <string.h>

/* Returns a number from -most to `most`, chosen by 32 random bits. */
static int32_t shift_of(uint32_t bits, uint32_t most) {
    return (int32_t)((uint64_t)bits * (2 * (uint64_t)most + 1) >> 32) - (int32_t)most;
}

void shift_image(const void *in, void *out, const struct image_shape *image, size_t value, uint32_t most,
                 uint64_t random) {
    const unsigned char *from_image = in;
    unsigned char *to_image = out;
    size_t pixel = image->channels * value; /* bytes */
    size_t row = image->width * pixel;
    int32_t right = shift_of((uint32_t)random, most);
    int32_t down = shift_of((uint32_t)(random >> 32), most);
    uint32_t from = right < 0 ? (uint32_t)-right : 0;
    uint32_t to = right > 0 ? (uint32_t)right : 0;
    uint32_t columns = image->width - from - to;
    memset(out, 0, row * image->height);
    for (int32_t y = 0; y < (int32_t)image->height; y++) {
        int32_t source = y - down;
        if (source >= 0 && source < (int32_t)image->height) {
            memcpy(to_image + (size_t)y * row + to * pixel, from_image + (size_t)source * row + from * pixel,
                   columns * pixel);
        }
    }
}
