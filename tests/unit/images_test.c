/* apps/samples/image.c, tar.c and images.c: encoded images are decoded to the same pixels, and sizes and colours are
 * converted as image.h says. Tar files are read with both forms of labels. Each error is refused with one line. */
#include "apps/samples/images.h"
#include "tests/test.h"

#include <archive.h>
#include <archive_entry.h>
#include <png.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#include <unistd.h>
#include <zlib.h>

enum { WIDTH = 13, HEIGHT = 9, ENCODED_MAX = 1 << 16 };

struct encoded {
    unsigned char bytes[ENCODED_MAX];
    size_t size;
};

/* Paints a smooth picture, which JPEG reproduces closely. */
static void paint(unsigned char *pixels, const struct image_shape *shape) {
    for (uint32_t y = 0; y < shape->height; y++) {
        for (uint32_t x = 0; x < shape->width; x++) {
            for (uint32_t c = 0; c < shape->channels; c++) {
                *pixels++ = (unsigned char)(40 + 12 * x + 5 * y + 20 * c);
            }
        }
    }
}

static void encode_png(struct encoded *to, const unsigned char *pixels, uint32_t width, uint32_t height,
                       uint32_t format) {
    png_image png = {.version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = format};
    png_alloc_size_t size = sizeof to->bytes;
    assert_true(png_image_write_to_memory(&png, to->bytes, &size, 0, pixels, 0, NULL) != 0);
    to->size = size;
}

static void encode_jpeg(struct encoded *to, const unsigned char *pixels, uint32_t width, uint32_t height, int format,
                        int sampling) {
    unsigned char *at = to->bytes;
    unsigned long size = sizeof to->bytes;
    tjhandle handle = tjInitCompress();
    assert_int_equal(
        tjCompress2(handle, pixels, (int)width, 0, (int)height, format, &at, &size, sampling, 98, TJFLAG_NOREALLOC), 0);
    to->size = size;
    tjDestroy(handle);
}

static void assert_near(const unsigned char *one, const unsigned char *other, size_t count, int apart) {
    for (size_t i = 0; i < count; i++) {
        assert_in_range(one[i] - other[i] + apart, 0, 2 * apart);
    }
}

static void assert_decoded(const struct encoded *from, const struct image_shape *shape, unsigned char *pixels) {
    struct error error = {0};
    int result = image_decode(from->bytes, from->size, shape, pixels, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(result, 0);
}

/* ---- Decoding ---- */

TEST(what_was_encoded) {
    struct encoded encoded;
    unsigned char in[WIDTH * HEIGHT * 3];
    unsigned char out[WIDTH * HEIGHT * 3];
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        const struct image_shape shape = {.width = WIDTH, .height = HEIGHT, .channels = channels};
        struct image_shape found;
        struct error error = {0};
        paint(in, &shape);
        encode_png(&encoded, in, WIDTH, HEIGHT, channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB);
        assert_int_equal(image_look(encoded.bytes, encoded.size, &found, &error), 0);
        assert_memory_equal(&found, &shape, sizeof shape);
        assert_decoded(&encoded, &shape, out);
        assert_memory_equal(in, out, image_values(&shape));
        encode_jpeg(&encoded, in, WIDTH, HEIGHT, channels == 1 ? TJPF_GRAY : TJPF_RGB,
                    channels == 1 ? TJSAMP_GRAY : TJSAMP_444);
        assert_int_equal(image_look(encoded.bytes, encoded.size, &found, &error), 0);
        assert_memory_equal(&found, &shape, sizeof shape);
        assert_decoded(&encoded, &shape, out);
        assert_near(in, out, image_values(&shape), 6);
    }
}

static void add_bytes(png_structp png, png_bytep bytes, size_t size) {
    struct encoded *to = png_get_io_ptr(png);
    assert_true(to->size + size <= sizeof to->bytes);
    memcpy(to->bytes + to->size, bytes, size);
    to->size += size;
}

/* Encodes rows of packed pixels with `bits` bits a value; `palette` is for pixels that are indices of colours. */
static void encode_bits(struct encoded *to, unsigned char *pixels, size_t row, int bits, int colour,
                        const png_color *palette) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    to->size = 0;
    png_set_write_fn(png, to, add_bytes, NULL);
    png_set_IHDR(png, info, WIDTH, HEIGHT, bits, colour, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    if (palette != NULL) {
        png_set_PLTE(png, info, palette, 2);
    }
    png_write_info(png, info);
    for (size_t y = 0; y < HEIGHT; y++) {
        png_write_row(png, pixels + y * row);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}

/* PNG images of 16 bits, of one bit, with a palette, and of grey with transparency. */
TEST(kinds_of_png) {
    const struct image_shape grey = {.width = WIDTH, .height = HEIGHT, .channels = 1};
    const struct image_shape colour = {.width = WIDTH, .height = HEIGHT, .channels = 3};
    const png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    struct encoded encoded;
    struct image_shape found;
    struct error error = {0};
    unsigned char in[WIDTH * HEIGHT * 2];
    unsigned char out[WIDTH * HEIGHT * 3];
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        in[2 * i] = (unsigned char)(2 * i);
        in[2 * i + 1] = 128; /* the lower byte of 16 bits, or half opacity of a grey */
    }
    encode_bits(&encoded, in, 2 * WIDTH, 16, PNG_COLOR_TYPE_GRAY, NULL);
    assert_int_equal(image_look(encoded.bytes, encoded.size, &found, &error), 0);
    assert_memory_equal(&found, &grey, sizeof grey);
    assert_decoded(&encoded, &grey, out);
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        assert_in_range(out[i] - (int)in[2 * i] + 1, 0, 2);
    }
    memset(in + 1, 255, 1);
    encode_bits(&encoded, in, 2 * WIDTH, 8, PNG_COLOR_TYPE_GRAY_ALPHA, NULL);
    assert_decoded(&encoded, &grey, out);
    assert_int_equal(out[0], in[0]);
    assert_true(out[WIDTH * HEIGHT - 1] < in[2 * (WIDTH * HEIGHT - 1)]); /* blended over black */
    memset(in, 0xAA, sizeof in);
    encode_bits(&encoded, in, (WIDTH + 7) / 8, 1, PNG_COLOR_TYPE_GRAY, NULL);
    assert_decoded(&encoded, &grey, out);
    assert_int_equal(out[0], 255);
    assert_int_equal(out[1], 0);
    encode_bits(&encoded, in, (WIDTH + 7) / 8, 1, PNG_COLOR_TYPE_PALETTE, palette);
    assert_int_equal(image_look(encoded.bytes, encoded.size, &found, &error), 0);
    assert_memory_equal(&found, &colour, sizeof colour);
    assert_decoded(&encoded, &colour, out);
    assert_memory_equal(out, ((const unsigned char[6]){200, 100, 50, 10, 20, 30}), 6);
}

/* The colour of a pixel of four inks, rounded. JPEG files have inks inverted: 255 is no ink. */
static void expect_inks(const unsigned char inks[4], int expected[3]) {
    for (unsigned c = 0; c < 3; c++) {
        expected[c] = (inks[c] * inks[3] + 127) / 255;
    }
}

/* CMYK, and YCCK, which most CMYK files use, become RGB or grey. */
TEST(inks) {
    static const int samplings[] = {TJSAMP_444, TJSAMP_420};
    enum { SIDE = 32 };
    static const unsigned char pixels[][4] = {{255, 255, 255, 255}, {255, 255, 255, 0}, {0, 255, 255, 255},
                                              {255, 0, 255, 128},   {30, 60, 90, 255},  {200, 100, 50, 200}};
    for (size_t p = 0; p < sizeof pixels / sizeof pixels[0]; p++) {
        const struct image_shape colour = {.width = SIDE, .height = SIDE, .channels = 3};
        const struct image_shape grey = {.width = SIDE, .height = SIDE, .channels = 1};
        struct encoded encoded;
        unsigned char in[SIDE * SIDE * 4];
        unsigned char out[SIDE * SIDE * 3];
        int expected[3];
        expect_inks(pixels[p], expected);
        for (size_t i = 0; i < SIDE * SIDE; i++) {
            memcpy(in + 4 * i, pixels[p], 4);
        }
        for (size_t s = 0; s < 2; s++) {
            struct image_shape found;
            struct error error = {0};
            encode_jpeg(&encoded, in, SIDE, SIDE, TJPF_CMYK, samplings[s]);
            assert_int_equal(image_look(encoded.bytes, encoded.size, &found, &error), 0);
            assert_memory_equal(&found, &colour, sizeof colour);
            assert_decoded(&encoded, &colour, out);
            for (size_t i = 0; i < image_values(&colour); i++) {
                assert_in_range(out[i] - expected[i % 3] + 4, 0, 8);
            }
            assert_decoded(&encoded, &grey, out);
            int shade = (299 * expected[0] + 587 * expected[1] + 114 * expected[2]) / 1000;
            for (size_t i = 0; i < image_values(&grey); i++) {
                assert_in_range(out[i] - shade + 4, 0, 8);
            }
        }
    }
}

/* Grey becomes colour, and colour grey; transparent pixels are blended over black. */
TEST(grey_and_colour) {
    const struct image_shape grey = {.width = WIDTH, .height = HEIGHT, .channels = 1};
    const struct image_shape colour = {.width = WIDTH, .height = HEIGHT, .channels = 3};
    struct encoded encoded;
    unsigned char in[WIDTH * HEIGHT * 4];
    unsigned char out[WIDTH * HEIGHT * 3];
    paint(in, &grey);
    for (unsigned jpeg = 0; jpeg < 2; jpeg++) {
        if (jpeg == 0) {
            encode_png(&encoded, in, WIDTH, HEIGHT, PNG_FORMAT_GRAY);
        } else {
            encode_jpeg(&encoded, in, WIDTH, HEIGHT, TJPF_GRAY, TJSAMP_GRAY);
        }
        assert_decoded(&encoded, &colour, out);
        for (size_t i = 0; i < image_values(&grey); i++) {
            assert_int_equal(out[3 * i], out[3 * i + 1]);
            assert_int_equal(out[3 * i], out[3 * i + 2]);
            assert_in_range(out[3 * i] - in[i] + 6, 0, 12);
        }
    }
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) { /* a colour that is a shade of grey */
        in[3 * i] = in[3 * i + 1] = in[3 * i + 2] = (unsigned char)(i + 60);
    }
    encode_png(&encoded, in, WIDTH, HEIGHT, PNG_FORMAT_RGB);
    assert_decoded(&encoded, &grey, out);
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        assert_in_range(out[i] - (int)(i + 60) + 1, 0, 2);
    }
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        memcpy(in + 4 * i, (const unsigned char[4]){200, 100, 50, i % 2 == 0 ? 0 : 255}, 4);
    }
    encode_png(&encoded, in, WIDTH, HEIGHT, PNG_FORMAT_RGBA);
    assert_decoded(&encoded, &colour, out);
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        assert_memory_equal(out + 3 * i,
                            ((const unsigned char[3]){i % 2 == 0 ? 0 : 200, i % 2 == 0 ? 0 : 100, i % 2 == 0 ? 0 : 50}),
                            3);
    }
}

/* ---- Resizing ---- */

static void resize(const unsigned char *in, uint32_t width, uint32_t height, unsigned char *out, uint32_t to_width,
                   uint32_t to_height, uint32_t channels) {
    const struct image_shape from = {.width = width, .height = height, .channels = channels};
    const struct image_shape to = {.width = to_width, .height = to_height, .channels = channels};
    struct error error = {0};
    assert_int_equal(image_resize(in, &from, out, &to, &error), 0);
}

TEST(resized) {
    unsigned char out[64];
    static const unsigned char two[] = {0, 100};
    resize(two, 2, 1, out, 4, 1, 1); /* bilinear: 1/4 and 3/4 of the way */
    assert_memory_equal(out, ((const unsigned char[]){0, 25, 75, 100}), 4);
    static const unsigned char four[] = {0, 40, 80, 120};
    resize(four, 4, 1, out, 2, 1, 1); /* weights 3 3 1, and mirrored */
    assert_memory_equal(out, ((const unsigned char[]){29, 91}), 2);
    resize(four, 1, 4, out, 1, 2, 1); /* the other axis */
    assert_memory_equal(out, ((const unsigned char[]){29, 91}), 2);
    resize(four, 2, 2, out, 2, 2, 1);
    assert_memory_equal(out, four, 4);
    static const unsigned char colours[] = {0, 10, 20, 100, 110, 120};
    resize(colours, 2, 1, out, 1, 1, 3); /* channels are not mixed */
    assert_memory_equal(out, ((const unsigned char[]){50, 60, 70}), 3);
    unsigned char white[12 * 7];
    memset(white, 255, sizeof white);
    for (uint32_t width = 1; width <= 8; width++) {
        for (uint32_t height = 1; height <= 8; height++) {
            memset(out, 0, sizeof out);
            resize(white, 12, 7, out, width, height, 1);
            for (uint32_t i = 0; i < width * height; i++) {
                assert_int_equal(out[i], 255);
            }
        }
    }
}

TEST(images_of_other_sizes_are_resized) {
    const struct image_shape own = {.width = WIDTH, .height = HEIGHT, .channels = 3};
    const struct image_shape wanted = {.width = 5, .height = 20, .channels = 3};
    struct encoded encoded;
    unsigned char in[WIDTH * HEIGHT * 3];
    unsigned char expected[5 * 20 * 3];
    unsigned char out[5 * 20 * 3];
    paint(in, &own);
    encode_png(&encoded, in, WIDTH, HEIGHT, PNG_FORMAT_RGB);
    resize(in, WIDTH, HEIGHT, expected, 5, 20, 3);
    assert_decoded(&encoded, &wanted, out);
    assert_memory_equal(out, expected, sizeof out);
    struct error error = {0}; /* even the largest shape needs little memory */
    const struct image_shape narrow = {.width = 1, .height = IMAGE_SIDE_MAX, .channels = 1};
    const struct image_shape wide = {.width = IMAGE_SIDE_MAX, .height = 1, .channels = 1};
    unsigned char *long_in = calloc(IMAGE_SIDE_MAX, 1);
    unsigned char *long_out = malloc(IMAGE_SIDE_MAX);
    assert_int_equal(image_resize(long_in, &narrow, long_out, &wide, &error), 0);
    assert_int_equal(long_out[IMAGE_SIDE_MAX - 1], 0);
    free(long_in);
    free(long_out);
}

/* ---- Damage ---- */

static void assert_refused(const unsigned char *bytes, size_t size, const char *message) {
    const struct image_shape shape = {.width = WIDTH, .height = HEIGHT, .channels = 1};
    unsigned char pixels[WIDTH * HEIGHT];
    struct error error = {0};
    assert_int_equal(image_decode(bytes, size, &shape, pixels, &error), AML_EINPUT);
    if (strstr(error.text, message) == NULL) {
        fail_msg("'%s', expected '%s'", error.text, message);
    }
}

TEST(damaged_images) {
    const struct image_shape shape = {.width = WIDTH, .height = HEIGHT, .channels = 1};
    unsigned char in[WIDTH * HEIGHT];
    struct encoded png;
    struct encoded jpeg;
    paint(in, &shape);
    encode_png(&png, in, WIDTH, HEIGHT, PNG_FORMAT_GRAY);
    encode_jpeg(&jpeg, in, WIDTH, HEIGHT, TJPF_GRAY, TJSAMP_GRAY);
    assert_refused(png.bytes, 0, "expected a JPEG or PNG image");
    assert_refused((const unsigned char *)"text............", 16, "expected a JPEG or PNG image");
    assert_refused((const unsigned char *)"GIF89a..........", 16, "a GIF image: expected a JPEG or PNG image");
    assert_refused((const unsigned char *)"RIFF\1\1\0\0WEBPVP8 ", 16, "a WebP image: expected a JPEG or PNG image");
    assert_refused((const unsigned char *)"\0\0\0\x1c"
                                          "ftypheic....",
                   16, "an HEIC image: expected a JPEG or PNG image");
    assert_refused((const unsigned char *)"version https://git-lfs.github.com/spec/v1", 42,
                   "a Git LFS pointer, not the image itself ('git lfs pull' gets it): expected a JPEG or PNG image");
    for (size_t size = 8; size + 12 < png.size; size++) { /* the last 12 bytes are IEND */
        assert_refused(png.bytes, size, "damaged PNG image: ");
    }
    for (size_t size = 3; size < jpeg.size; size++) {
        assert_refused(jpeg.bytes, size, "damaged JPEG image: ");
    }
    png.bytes[png.size - 30] ^= 1; /* in the compressed pixels */
    assert_refused(png.bytes, png.size, "damaged PNG image: ");
    static const unsigned char huge[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n', 0,    0,    0,
                                         13,   'I', 'H', 'D', 'R',  0,    0,    0x40, 0,    0,    0,
                                         0x40, 0,   8,   0,   0,    0,    0,    0x6B, 0xD3, 0xBA, 0x7E};
    struct encoded large = {.size = sizeof huge};
    memcpy(large.bytes, huge, sizeof huge);
    uint32_t checksum = (uint32_t)crc32(0, huge + 12, 17);
    for (unsigned i = 0; i < 4; i++) {
        large.bytes[29 + i] = (unsigned char)(checksum >> (24 - 8 * i));
    }
    memcpy(large.bytes + large.size, png.bytes + 33, png.size - 33); /* all after the header */
    large.size += png.size - 33;
    assert_refused(large.bytes, large.size, "PNG image of 16384 x 16384 pixels: expected 1 to 16777216 pixels");
    for (size_t i = 2; i + 9 < jpeg.size; i++) { /* finds the size in the frame's header */
        if (jpeg.bytes[i] == 0xFF && jpeg.bytes[i + 1] == 0xC0) {
            memcpy(jpeg.bytes + i + 5, (const unsigned char[]){0xFF, 0x00, 0xFF, 0x00}, 4);
            break;
        }
    }
    assert_refused(jpeg.bytes, jpeg.size, "JPEG image of 65280 x 65280 pixels: expected 1 to 16777216 pixels");
}

/* ---- Tar files ---- */

struct file {
    char path[64];
    struct archive *archive;
};

static void file_begin_packed(struct file *file, int (*filter)(struct archive *archive)) {
    snprintf(file->path, sizeof file->path, "/tmp/images_test-XXXXXX");
    int descriptor = mkstemp(file->path);
    assert_true(descriptor >= 0);
    file->archive = archive_write_new();
    archive_write_set_format_pax_restricted(file->archive);
    assert_int_equal(filter(file->archive), ARCHIVE_OK);
    assert_int_equal(archive_write_open_fd(file->archive, descriptor), ARCHIVE_OK);
}

static void file_begin(struct file *file) {
    file_begin_packed(file, archive_write_add_filter_none);
}

static void file_add_kind(struct file *file, const char *name, unsigned kind, const char *link, const void *bytes,
                          size_t size) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, kind);
    archive_entry_set_perm(entry, 0644);
    if (link != NULL && kind == AE_IFLNK) {
        archive_entry_set_symlink(entry, link);
    } else if (link != NULL) {
        archive_entry_set_hardlink(entry, link);
    }
    assert_int_equal(archive_write_header(file->archive, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(file->archive, bytes, size), size);
    archive_entry_free(entry);
}

static void file_add(struct file *file, const char *name, const void *bytes, size_t size) {
    file_add_kind(file, name, AE_IFREG, NULL, bytes, size);
}

static void file_end(struct file *file) {
    assert_int_equal(archive_write_close(file->archive), ARCHIVE_OK);
    archive_write_free(file->archive);
}

struct seen {
    char text[1024];
};

static int see(void *context, const struct images_entry *entry, struct error *error) {
    struct seen *seen = context;
    size_t length = strlen(seen->text);
    snprintf(seen->text + length, sizeof seen->text - length, "%s=%s:%zu ", entry->name,
             entry->labelled ? entry->label.text : "?", entry->size);
    return 0;
}

/* Reads the file with the kind of labels that the survey finds, and removes it. */
static int read_tar(struct file *file, bool label_optional, struct seen *seen, struct error *error) {
    const struct samples_file samples = {.path = file->path, .format = SAMPLES_TAR};
    enum images_labels labels;
    *seen = (struct seen){.text = ""};
    int result = images_find_labels(&samples, &labels, error);
    result = result == 0 ? images_read(file->path, labels, label_optional, see, seen, error) : result;
    return result;
}

static void assert_tar(struct file *file, const char *expected) {
    struct seen seen;
    struct error error = {0};
    file_end(file);
    int result = read_tar(file, false, &seen, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(result, 0);
    assert_string_equal(seen.text, expected);
    unlink(file->path);
}

static void assert_tar_refused(struct file *file, const char *message) {
    struct seen seen;
    struct error error = {0};
    file_end(file);
    assert_int_equal(read_tar(file, false, &seen, &error), AML_EINPUT);
    if (strncmp(error.text, file->path, strlen(file->path)) != 0 || strstr(error.text, message) == NULL) {
        fail_msg("'%s', expected '%s'", error.text, message);
    }
    unlink(file->path);
}

TEST(labels_in_files) {
    struct file file;
    file_begin(&file);
    file_add(&file, "a/0001.cls", "7\n", 2);
    file_add(&file, "a/0001.jpg", "xyz", 3);
    file_add(&file, "a/0001.json", "{}", 2);
    file_add(&file, "a/0002.PNG", "vw", 2);
    file_add(&file, "a/0002.cls", " -3 ", 4);
    file_add(&file, ".hidden.jpg", "x", 1);
    file_add_kind(&file, "folder/", AE_IFDIR, NULL, NULL, 0);
    file_add_kind(&file, "link.txt", AE_IFLNK, "a/0001.json", NULL, 0);
    file_add(&file, "b.JPeg", "u", 1);
    file_add(&file, "b.cls", "007", 3);
    assert_tar(&file, "a/0001.jpg=7:3 a/0002.PNG=-3:2 b.JPeg=007:1 ");
}

/* As in WebDataset, a key ends at the first dot after the folders. */
TEST(keys_end_at_the_first_dot) {
    struct file file;
    file_begin(&file);
    file_add(&file, "v1.0/0000.input.jpg", "xyz", 3);
    file_add(&file, "v1.0/0000.meta.json", "{}", 2);
    file_add(&file, "v1.0/0000.cls", "7", 1);
    file_add(&file, "v1.0/0001.cls", "8", 1);
    file_add(&file, "v1.0/0001.IMAGE.JPG", "x", 1);
    file_add(&file, "v1.0/0002.jfif", "xy", 2);
    file_add(&file, "v1.0/0002.label.cls", "9", 1);
    assert_tar(&file, "v1.0/0000.input.jpg=7:3 v1.0/0001.IMAGE.JPG=8:1 v1.0/0002.jfif=9:2 ");
    file_begin(&file); /* labels by folder need no keys */
    file_add(&file, "cats/photo.1.jpg", "x", 1);
    file_add(&file, "cats/photo.2.jpg", "xy", 2);
    assert_tar(&file, "cats/photo.1.jpg=cats:1 cats/photo.2.jpg=cats:2 ");
}

/* The tar does not show which of a key's several images is meant. */
TEST(several_images_of_a_key) {
    static const char *const orders[][3] = {{"0.left.jpg", "0.right.jpg", "0.cls"},
                                            {"0.left.jpg", "0.cls", "0.right.jpg"},
                                            {"0.cls", "0.left.jpg", "0.right.jpg"}};
    for (size_t o = 0; o < 3; o++) {
        struct file file;
        file_begin(&file);
        for (size_t e = 0; e < 3; e++) {
            file_add(&file, orders[o][e], "1", 1);
        }
        assert_tar_refused(&file, ": 0.right.jpg: a second image of this key, beside 0.left.jpg: expected one (a key "
                                  "ends at the name's first dot); tar --exclude='*.right.jpg' leaves this one out");
    }
    struct file file;
    file_begin(&file);
    file_add(&file, "0.jpg", "1", 1);
    file_add(&file, "0.seg.png", "1", 1);
    file_add(&file, "0.cls", "1", 1);
    assert_tar_refused(&file, ": 0.seg.png: a second image of this key, beside 0.jpg: expected one");
}

TEST(other_images_are_named) {
    static const char *const names[] = {"a/0.webp", "a/0.GIF", "a/0.tiff", "a/x.0.bmp"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct file file;
        char message[64];
        file_begin(&file);
        file_add(&file, names[n], "x", 1);
        snprintf(message, sizeof message, ": %s: expected a JPEG or PNG image (", names[n]);
        assert_tar_refused(&file, message);
    }
}

TEST(labels_of_folders) {
    struct file file;
    file_begin(&file);
    file_add(&file, "images/cats/1.jpg", "xyz", 3);
    file_add(&file, "images/cats/1.png", "xy", 2);
    file_add(&file, "images/cats/README", "text", 4);
    file_add(&file, "images/03/2.x.png", "z", 1);
    file_add(&file, "a dog/3.png", "z", 1);
    assert_tar(&file, "images/cats/1.jpg=cats:3 images/cats/1.png=cats:2 images/03/2.x.png=03:1 a dog/3.png=a dog:1 ");
}

TEST(images_without_labels) {
    struct file file;
    struct seen seen;
    struct error error = {0};
    file_begin(&file);
    file_add(&file, "./1.jpg", "xyz", 3);
    file_add(&file, "x/2.jpg", "x", 1);
    file_end(&file);
    assert_int_equal(read_tar(&file, true, &seen, &error), 0);
    assert_string_equal(seen.text, "./1.jpg=?:3 x/2.jpg=x:1 ");
    unlink(file.path);
}

TEST(wrong_tars) {
    static const struct {
        const char *name, *bytes, *message;
    } cases[] = {
        {"1.jpg", "x", ": 1.jpg: no label: expected an entry of this name with .cls next to it"},
        {"1.cls", "9", ": 1.cls: a label without an image"},
        {"0.cls", "9", ": 0.cls: a second label of this key"},
        {"0.png", "9", ": 0.png: a second image of this key, beside 0.jpg: expected one"},
        {"1.cls", "cat", ": 1.cls: expected a number as text"},
        {"1.cls", "", ": 1.cls: expected a number as text"},
        {"1.cls", "1 2", ": 1.cls: expected a number as text"},
        {"1.cls", "nan", ": 1.cls: expected a number as text"},
        {"1.cls", "00000000000000000000000000000000000000000000000000000000000000001",
         ": 1.cls: expected a number as text, in at most 64 bytes"},
        {"1.png", "", ": 1.png: an image of 0 bytes: expected 1 to 1048512"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool same = strncmp(cases[c].name, "0.", 2) == 0;
        struct file file;
        file_begin(&file);
        file_add(&file, same ? "z.jpg" : "0.jpg", "x", 1);
        file_add(&file, same ? "z.cls" : "0.cls", "1", 1);
        if (same) { /* a label with the same key exists */
            file_add(&file, strstr(cases[c].name, "cls") != NULL ? "0.cls" : "0.jpg", "1", 1);
        }
        file_add(&file, cases[c].name, cases[c].bytes, strlen(cases[c].bytes));
        assert_tar_refused(&file, cases[c].message);
    }
}

TEST(entries_of_odd_kinds) {
    struct file file;
    static const char big[IMAGES_BYTES_MAX + 1];
    file_begin(&file);
    file_add(&file, "a/0.jpg", "x", 1);
    file_add_kind(&file, "a/1.jpg", AE_IFREG, "a/0.jpg", NULL, 0);
    assert_tar_refused(&file, ": a/1.jpg: a link: expected a file");
    file_begin(&file);
    file_add(&file, "a/0.jpg", "x", 1);
    file_add_kind(&file, "a/1.jpg", AE_IFLNK, "/etc/passwd", NULL, 0);
    assert_tar_refused(&file, ": a/1.jpg: a link: expected a file");
    file_begin(&file);
    file_add(&file, "a/0.jpg", "x", 1);
    file_add_kind(&file, "a/1.jpg", AE_IFIFO, NULL, NULL, 0);
    assert_tar_refused(&file, ": a/1.jpg: expected a file, not a folder or device");
    file_begin(&file);
    file_add(&file, "a/0.jpg", big, sizeof big);
    assert_tar_refused(&file, ": a/0.jpg: an image of 1048513 bytes: expected 1 to 1048512");
    file_begin(&file);
    file_add(&file, "a/0.jpg", "x", 1);
    file_add(&file, "a/1.jpg", "x", 1);
    file_add(&file, "a/1.cls", "1", 1);
    assert_tar_refused(&file, ": a/1.cls: a label of one image, but the first image has none");
    file_begin(&file);
    file_add(&file, "../0.jpg", "x", 1);
    assert_tar_refused(&file, ": ../0.jpg: no label: expected a folder whose name is the class");
}

/* A file cut anywhere is refused, as is a file with a wrong header. */
TEST(cut_tars) {
    struct file file;
    struct seen seen;
    static const char bytes[1500];
    file_begin(&file);
    file_add(&file, "a/0.jpg", bytes, sizeof bytes);
    file_add(&file, "a/1.jpg", bytes, 512);
    file_end(&file);
    for (off_t size = 512 * 7 - 1; size >= 0; size -= size % 512 == 0 ? 1 : 511) { /* both files have 5 + 2 blocks */
        struct error error = {0};
        size = size < 0 ? 0 : size;
        if (truncate(file.path, size) != 0 || size == 0) {
            break;
        }
        if (size == 512 * 6) {
            continue;
        }
        assert_int_equal(read_tar(&file, false, &seen, &error), AML_EINPUT);
        assert_true(strncmp(error.text, file.path, strlen(file.path)) == 0);
    }
    unlink(file.path);
    file_begin(&file);
    file_add(&file, "a/0.jpg", bytes, sizeof bytes);
    file_end(&file);
    FILE *damaged = fopen(file.path, "r+b");
    assert_int_equal(fseek(damaged, 2, SEEK_SET), 0);
    fputc('!', damaged);
    fclose(damaged);
    struct error error = {0};
    assert_int_equal(read_tar(&file, false, &seen, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, ": expected a tar file"));
    unlink(file.path);
}

/* Appends the second file to the first and removes it. Returns the first file's old size. */
static off_t move_behind(const struct file *first, const struct file *second) {
    FILE *from = fopen(second->path, "rb");
    FILE *to = fopen(first->path, "ab");
    assert_true(from != NULL && to != NULL && fseek(to, 0, SEEK_END) == 0);
    off_t before = ftell(to);
    for (int byte = fgetc(from); byte != EOF; byte = fgetc(from)) {
        fputc(byte, to);
    }
    fclose(from);
    fclose(to);
    unlink(second->path);
    return before;
}

/* All of several concatenated tars are read. Anything else after a tar is refused, as is a cut tar. */
TEST(tars_behind_tars) {
    static int (*const filters[])(struct archive *) = {archive_write_add_filter_none, archive_write_add_filter_gzip,
                                                       archive_write_add_filter_zstd};
    struct seen seen;
    for (unsigned f = 0; f < sizeof filters / sizeof *filters; f++) {
        struct error error = {0};
        struct file files[2];
        for (unsigned i = 0; i < 2; i++) {
            file_begin_packed(&files[i], filters[f]);
            file_add(&files[i], i == 0 ? "a/0.jpg" : "b/1.jpg", "xyz", 3);
            file_end(&files[i]);
        }
        off_t before = move_behind(&files[0], &files[1]);
        int result = read_tar(&files[0], false, &seen, &error);
        assert_string_equal(error.text, "");
        assert_int_equal(result, 0);
        assert_string_equal(seen.text, "a/0.jpg=a:3 b/1.jpg=b:3 ");
        for (off_t size = before + 1024; size > before; size -= f == 0 ? 256 : 1) { /* its magic begins at 1024 */
            if (f > 0 && size == before + 1024) {
                struct stat facts;
                assert_int_equal(stat(files[0].path, &facts), 0);
                size = facts.st_size - 1;
            }
            assert_int_equal(truncate(files[0].path, size), 0);
            assert_int_equal(read_tar(&files[0], false, &seen, &error), AML_EINPUT);
        }
        unlink(files[0].path);
    }
    for (unsigned f = 0; f < 2; f++) {
        struct file file;
        struct error error = {0};
        file_begin_packed(&file, filters[f]);
        file_add(&file, "a/0.jpg", "xyz", 3);
        file_end(&file);
        FILE *more = fopen(file.path, "ab");
        for (unsigned i = 0; i < 1024; i++) {
            fputc('!', more);
        }
        fclose(more);
        assert_int_equal(read_tar(&file, false, &seen, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, f == 0 ? ": the tar file is damaged at or behind a/0.jpg"
                                                  : ": the file has bytes behind its end"));
        unlink(file.path);
    }
}
