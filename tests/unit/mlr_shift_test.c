/* apps/samples/shift.c: each pixel of the shifted image comes from the right place, or is 0 if that is outside. All
 * shifts occur about equally often. */
#include "apps/samples/shift.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

enum { WIDTH = 7, HEIGHT = 5 };

static float pixel(const float *image, int x, int y) {
    return x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT ? image[y * WIDTH + x] : 0;
}

static bool is_shifted(const float *in, const float *out, int right, int down) {
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            if (pixel(out, x, y) != pixel(in, x - right, y - down)) {
                return false;
            }
        }
    }
    return true;
}

TEST(every_shift) {
    const struct image_shape image = {.width = WIDTH, .height = HEIGHT, .channels = 1};
    float in[WIDTH * HEIGHT];
    float out[WIDTH * HEIGHT];
    for (unsigned i = 0; i < WIDTH * HEIGHT; i++) {
        in[i] = (float)(i + 1);
    }
    for (int most = 0; most < HEIGHT; most++) {
        unsigned counts[2 * HEIGHT][2 * HEIGHT] = {{0}};
        unsigned shifts = (unsigned)((2 * most + 1) * (2 * most + 1));
        for (unsigned n = 0; n < 200 * shifts; n++) {
            unsigned found = 0;
            shift_image(in, out, &image, sizeof *in, (uint32_t)most, hash_mix(n));
            for (int right = -most; right <= most; right++) {
                for (int down = -most; down <= most; down++) {
                    bool fits = is_shifted(in, out, right, down);
                    counts[right + most][down + most] += fits ? 1 : 0;
                    found += fits ? 1 : 0;
                }
            }
            assert_int_equal(found, 1);
        }
        for (unsigned n = 0; n < shifts; n++) {
            unsigned count = counts[n % (unsigned)(2 * most + 1)][n / (unsigned)(2 * most + 1)];
            assert_true(count > 120 && count < 280);
        }
    }
}

/* All channels of a pixel are shifted together. */
TEST(channels) {
    enum { CHANNELS = 3 };
    const struct image_shape plain = {.width = WIDTH, .height = HEIGHT, .channels = 1};
    const struct image_shape colours = {.width = WIDTH, .height = HEIGHT, .channels = CHANNELS};
    float in[WIDTH * HEIGHT];
    float out[WIDTH * HEIGHT];
    float in_colours[WIDTH * HEIGHT * CHANNELS];
    float out_colours[WIDTH * HEIGHT * CHANNELS];
    for (unsigned i = 0; i < WIDTH * HEIGHT; i++) {
        in[i] = (float)(i + 1);
        for (unsigned c = 0; c < CHANNELS; c++) {
            in_colours[i * CHANNELS + c] = in[i] * (float)(c + 1);
        }
    }
    for (unsigned n = 0; n < 100; n++) {
        shift_image(in, out, &plain, sizeof *in, 3, hash_mix(n));
        shift_image(in_colours, out_colours, &colours, sizeof *in, 3, hash_mix(n));
        for (unsigned i = 0; i < WIDTH * HEIGHT * CHANNELS; i++) {
            assert_true(out_colours[i] == out[i / CHANNELS] * (float)(i % CHANNELS + 1));
        }
    }
}
