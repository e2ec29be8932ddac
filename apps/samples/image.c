/* See image.h. */
#include "apps/samples/image.h"

#include <png.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

enum { JPEG_SCANS_MAX_FLAG = TJFLAG_LIMITSCANS /* a few bytes of a progressive file can cause hours of work */ };

enum kind { KIND_UNKNOWN, KIND_JPEG, KIND_PNG };

static enum kind kind_of(const unsigned char *bytes, size_t size) {
    static const unsigned char jpeg[] = {0xFF, 0xD8, 0xFF};
    static const unsigned char png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    return size >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0 ? KIND_JPEG
           : size >= sizeof png && memcmp(bytes, png, sizeof png) == 0  ? KIND_PNG
                                                                        : KIND_UNKNOWN;
}

static int check_size(const char *what, uint32_t width, uint32_t height, struct error *error) {
    bool fits = width > 0 && height > 0 && width <= IMAGE_SIDE_MAX && height <= IMAGE_SIDE_MAX &&
                (uint64_t)width * height <= IMAGE_PIXELS_MAX;
    return fits ? 0
                : error_set(error, AML_EINPUT, "%s of %u x %u pixels: expected 1 to %d pixels", what, width, height,
                            IMAGE_PIXELS_MAX);
}

/* Rejects bytes that are neither JPEG nor PNG, with a message that names their format if it is known. */
static int refuse_kind(const unsigned char *bytes, size_t size, struct error *error) {
    static const struct {
        const char *bytes;
        size_t size, at;
        const char *kind;
    } kinds[] = {
        {"WEBP", 4, 8, "a WebP image"},
        {"GIF8", 4, 0, "a GIF image"},
        {"II*\0", 4, 0, "a TIFF image"},
        {"MM\0*", 4, 0, "a TIFF image"},
        {"ftypavif", 8, 4, "an AVIF image"},
        {"ftyphei", 7, 4, "an HEIC image"},
        {"ftypmif1", 8, 4, "an HEIC image"},
        {"\0\0\0\x0CjP", 6, 0, "a JPEG 2000 image"},
        {"\xFF\x4F\xFF\x51", 4, 0, "a JPEG 2000 image"},
        {"\xFF\x0A", 2, 0, "a JPEG XL image"},
        {"\0\0\0\x0CJXL", 7, 0, "a JPEG XL image"},
        {"BM", 2, 0, "a BMP image"},
        {"\x93NUMPY", 6, 0, "an npy file of numpy"},
        {"version https://git-lfs", 23, 0, "a Git LFS pointer, not the image itself ('git lfs pull' gets it)"},
        {"<!DOCTYPE html", 14, 0, "an HTML page"},
        {"<html", 5, 0, "an HTML page"},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (size >= kinds[k].at + kinds[k].size && memcmp(bytes + kinds[k].at, kinds[k].bytes, kinds[k].size) == 0) {
            return error_set(error, AML_EINPUT, "%s: expected a JPEG or PNG image", kinds[k].kind);
        }
    }
    return error_set(error, AML_EINPUT, "expected a JPEG or PNG image");
}

static int no_memory(size_t bytes, struct error *error) {
    return error_set(error, AML_ENOMEM, "no memory for an image of %zu bytes", bytes);
}

/* ---- JPEG ---- */

static int damaged_jpeg(tjhandle handle, struct error *error) {
    return error_set(error, AML_EINPUT, "damaged JPEG image: %s", tjGetErrorStr2(handle));
}

/* Reads the shape. Sets *inks if the colours are amounts of four inks (CMYK), not of light. */
static int look_jpeg(tjhandle handle, const unsigned char *bytes, size_t size, struct image_shape *shape, bool *inks,
                     struct error *error) {
    int width = 0;
    int height = 0;
    int sampling = 0;
    int colours = 0;
    if (tjDecompressHeader3(handle, bytes, (unsigned long)size, &width, &height, &sampling, &colours) != 0) {
        return damaged_jpeg(handle, error);
    }
    if (width < 1 || height < 1) {
        return error_set(error, AML_EINPUT, "damaged JPEG image: it has no pixels");
    }
    *inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
    *shape = (struct image_shape){
        .width = (uint32_t)width, .height = (uint32_t)height, .channels = colours == TJCS_GRAY ? 1 : 3};
    return check_size("JPEG image", shape->width, shape->height, error);
}

/* Decodes to out[own->height][own->width] with pixels in `format`. */
static int decompress_jpeg(tjhandle handle, const unsigned char *bytes, size_t size, const struct image_shape *own,
                           int format, unsigned char *out, struct error *error) {
    return tjDecompress2(handle, bytes, (unsigned long)size, out, (int)own->width, 0, (int)own->height, format,
                         JPEG_SCANS_MAX_FLAG) == 0
               ? 0
               : damaged_jpeg(handle, error);
}

/* Multiplies two values in units of 1/255, rounded. */
static unsigned multiply_parts(unsigned one, unsigned other) {
    return (one * other + 127) / 255;
}

/* Converts pixels of four inks to pixels of `channels` bytes. JPEG files store inks inverted, as Adobe did first:
 * 255 is no ink. So a value is the light that the ink lets through. The light of a colour is multiplied by that of
 * black. */
static void convert_inks(const unsigned char *inks, size_t pixels, uint32_t channels, unsigned char *out) {
    for (size_t i = 0; i < pixels; i++, inks += 4) {
        unsigned red = multiply_parts(inks[0], inks[3]);
        unsigned green = multiply_parts(inks[1], inks[3]);
        unsigned blue = multiply_parts(inks[2], inks[3]);
        if (channels == 1) {
            *out++ = (unsigned char)((299 * red + 587 * green + 114 * blue + 500) / 1000); /* the weights of JPEG */
        } else {
            *out++ = (unsigned char)red;
            *out++ = (unsigned char)green;
            *out++ = (unsigned char)blue;
        }
    }
}

static int decode_inks(tjhandle handle, const unsigned char *bytes, size_t size, const struct image_shape *own,
                       unsigned char *out, struct error *error) {
    size_t pixels = (size_t)own->width * own->height;
    unsigned char *inks = malloc(4 * pixels);
    if (inks == NULL) {
        return no_memory(4 * pixels, error);
    }
    int result = decompress_jpeg(handle, bytes, size, own, TJPF_CMYK, inks, error);
    if (result == 0) {
        convert_inks(inks, pixels, own->channels, out);
    }
    free(inks);
    return result;
}

/* Decodes to out[own->height][own->width][channels]. */
static int decode_jpeg(const unsigned char *bytes, size_t size, const struct image_shape *own, unsigned char *out,
                       struct error *error) {
    struct image_shape again;
    bool inks = false;
    tjhandle handle = tjInitDecompress();
    if (handle == NULL) {
        return no_memory(size, error);
    }
    int result = look_jpeg(handle, bytes, size, &again, &inks, error);
    if (result == 0) {
        result = inks
                     ? decode_inks(handle, bytes, size, own, out, error)
                     : decompress_jpeg(handle, bytes, size, own, own->channels == 1 ? TJPF_GRAY : TJPF_RGB, out, error);
    }
    tjDestroy(handle);
    return result;
}

/* ---- PNG ---- */

static int begin_png(png_image *image, const unsigned char *bytes, size_t size, struct image_shape *shape,
                     struct error *error) {
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    if (png_image_begin_read_from_memory(image, bytes, size) == 0) {
        return error_set(error, AML_EINPUT, "damaged PNG image: %s", image->message);
    }
    *shape = (struct image_shape){.width = image->width,
                                  .height = image->height,
                                  .channels = (image->format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1};
    return check_size("PNG image", shape->width, shape->height, error);
}

static int decode_png(const unsigned char *bytes, size_t size, const struct image_shape *own, unsigned char *out,
                      struct error *error) {
    static const png_color black = {0, 0, 0};
    struct image_shape again;
    png_image image;
    int result = begin_png(&image, bytes, size, &again, error);
    if (result == 0) {
        image.format = own->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
        image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* 16-bit values are like 8-bit ones, without their own gamma */
        if (png_image_finish_read(&image, &black, out, 0, NULL) == 0) {
            result = error_set(error, AML_EINPUT, "damaged PNG image: %s", image.message);
        }
    }
    png_image_free(&image);
    return result;
}

/* ---- Both ---- */

int image_look(const void *bytes, size_t size, struct image_shape *shape, struct error *error) {
    enum kind kind = kind_of(bytes, size);
    int result = 0;
    if (kind == KIND_PNG) {
        png_image image;
        result = begin_png(&image, bytes, size, shape, error);
        png_image_free(&image);
        return result;
    }
    if (kind != KIND_JPEG) {
        return refuse_kind(bytes, size, error);
    }
    tjhandle handle = tjInitDecompress();
    if (handle == NULL) {
        return no_memory(size, error);
    }
    bool inks;
    result = look_jpeg(handle, bytes, size, shape, &inks, error);
    tjDestroy(handle);
    return result;
}

int image_decode(const void *bytes, size_t size, const struct image_shape *shape, unsigned char *pixels,
                 struct error *error) {
    struct image_shape own;
    int result = image_look(bytes, size, &own, error);
    if (result != 0) {
        return result;
    }
    own.channels = shape->channels;
    bool fits = own.width == shape->width && own.height == shape->height;
    unsigned char *out = fits ? pixels : malloc(image_values(&own));
    if (out == NULL) {
        return no_memory(image_values(&own), error);
    }
    result = (kind_of(bytes, size) == KIND_PNG ? decode_png : decode_jpeg)(bytes, size, &own, out, error);
    if (!fits) {
        result = result == 0 ? image_resize(out, &own, pixels, shape, error) : result;
        free(out);
    }
    return result;
}

/* ---- Resizing, first along one axis, then along the other ---- */

/* One axis: `from` old pixels become `to` new ones. In a unit of which the axis has 2 from to, old pixel j has its
 * middle at (2j + 1) to, and new pixel i at (2i + 1) from. */
struct axis {
    uint64_t from, to;
    uint64_t reach; /* half the width of the triangle */
};

static struct axis axis_of(uint32_t from, uint32_t to) {
    return (struct axis){.from = from, .to = to, .reach = 2 * (uint64_t)(from > to ? from : to)};
}

/* Sets *first and *end to the range of old pixels that contribute to the new pixel i, under a triangle around its
 * middle. */
static void axis_range(const struct axis *axis, uint64_t i, uint64_t *first, uint64_t *end) {
    uint64_t middle = (2 * i + 1) * axis->from;
    uint64_t low = middle > axis->reach ? (middle - axis->reach) / (2 * axis->to) : 0;
    uint64_t high = (middle + axis->reach) / (2 * axis->to) + 1;
    *first = low;
    *end = high < axis->from ? high : axis->from;
}

/* Returns the weight of old pixel j in new pixel i: the triangle's height there. */
static uint64_t axis_weight(const struct axis *axis, uint64_t i, uint64_t j) {
    uint64_t middle = (2 * i + 1) * axis->from;
    uint64_t place = (2 * j + 1) * axis->to;
    uint64_t apart = middle > place ? middle - place : place - middle;
    return apart < axis->reach ? axis->reach - apart : 0;
}

/* Resizes `count` lines. Pixel j of line l has `channels` bytes at in[l * in_line + j * in_step]; likewise in `out`. */
struct lines {
    size_t count, in_line, in_step, out_line, out_step, channels;
};

static void resize_lines(const struct axis *axis, const struct lines *lines, const unsigned char *in,
                         unsigned char *out, uint64_t *weights) {
    for (uint64_t i = 0; i < axis->to; i++) {
        uint64_t first;
        uint64_t end;
        uint64_t sum = 0;
        axis_range(axis, i, &first, &end);
        for (uint64_t j = first; j < end; j++) {
            weights[j - first] = axis_weight(axis, i, j);
            sum += weights[j - first];
        }
        for (size_t l = 0; l < lines->count; l++) {
            const unsigned char *from = in + l * lines->in_line + first * lines->in_step;
            for (size_t c = 0; c < lines->channels; c++) {
                uint64_t value = sum / 2;
                for (uint64_t j = 0; j < end - first; j++) {
                    value += weights[j] * from[j * lines->in_step + c];
                }
                out[l * lines->out_line + i * lines->out_step + c] = (unsigned char)(value / sum);
            }
        }
    }
}

/* Resizes rows to another width. */
static void resize_across(const unsigned char *in, uint32_t from, unsigned char *out, uint32_t to, uint32_t rows,
                          size_t channels, uint64_t *weights) {
    const struct axis axis = axis_of(from, to);
    const struct lines lines = {.count = rows,
                                .in_line = from * channels,
                                .in_step = channels,
                                .out_line = to * channels,
                                .out_step = channels,
                                .channels = channels};
    resize_lines(&axis, &lines, in, out, weights);
}

/* Resizes columns to another height; a row has `row` bytes. */
static void resize_down(const unsigned char *in, uint32_t from, unsigned char *out, uint32_t to, size_t row,
                        uint64_t *weights) {
    const struct axis axis = axis_of(from, to);
    const struct lines lines = {.count = 1, .in_step = row, .out_step = row, .channels = row};
    resize_lines(&axis, &lines, in, out, weights);
}

int image_resize(const unsigned char *in, const struct image_shape *from, unsigned char *out,
                 const struct image_shape *to, struct error *error) {
    size_t channels = from->channels;
    size_t across = (size_t)from->height * to->width * channels;
    size_t down = (size_t)from->width * to->height * channels;
    size_t bytes = across <= down ? across : down; /* the smaller way: the other could need gigabytes */
    size_t longest = from->width > from->height ? from->width : from->height;
    unsigned char *between = malloc(bytes);
    uint64_t *weights = malloc(longest * sizeof *weights);
    int result = between == NULL || weights == NULL ? no_memory(bytes, error) : 0;
    if (result == 0 && across <= down) {
        resize_across(in, from->width, between, to->width, from->height, channels, weights);
        resize_down(between, from->height, out, to->height, to->width * channels, weights);
    } else if (result == 0) {
        resize_down(in, from->height, between, to->height, from->width * channels, weights);
        resize_across(between, from->width, out, to->width, to->height, channels, weights);
    }
    free(between);
    free(weights);
    return result;
}
