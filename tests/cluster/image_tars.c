/* image_tars: makes tar files of images for tests and benchmarks, with libarchive, libpng and libjpeg-turbo, from idx
 * data on standard input or from numbered patterns. Prints nothing. See usage below. */
#include <archive.h>
#include <archive_entry.h>
#include <png.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

static const char USAGE[] =
    "usage: image_tars IMAGES LABELS FIRST COUNT TARS PREFIX [jpeg] [folders] [bare]\n"
    "Writes PREFIX-0.tar to PREFIX-(TARS - 1).tar with COUNT images from FIRST on, each file a run of them.\n"
    "IMAGES and LABELS: idx files, not compressed; or IMAGES is WIDTHxHEIGHTxCHANNELS and LABELS a number of classes.\n"
    "jpeg: not PNG. folders: the class is the folder's name, else there is a .cls for each image. bare: no labels.\n";

struct images {
    FILE *pixels, *labels; /* NULL: patterns */
    unsigned width, height, channels, classes;
    bool jpeg, folders, bare;
    unsigned char *image;
};

static void fail(const char *what) {
    fprintf(stderr, "image_tars: %s\n", what);
    exit(1);
}

static uint32_t read_number(FILE *file) {
    unsigned char bytes[4];
    if (fread(bytes, 1, 4, file) != 4) {
        fail("an idx file ends in its header");
    }
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void open_images(struct images *images, const char *from, const char *labels) {
    if (sscanf(from, "%ux%ux%u", &images->width, &images->height, &images->channels) == 3) {
        images->classes = (unsigned)atoi(labels);
    } else {
        images->pixels = fopen(from, "rb");
        images->labels = fopen(labels, "rb");
        if (images->pixels == NULL || images->labels == NULL) {
            fail("can't open the idx files");
        }
        (void)read_number(images->pixels);
        (void)read_number(images->pixels);
        images->height = read_number(images->pixels);
        images->width = read_number(images->pixels);
        images->channels = 1;
    }
    images->image = malloc((size_t)images->width * images->height * images->channels);
    if (images->image == NULL) {
        fail("no memory");
    }
}

/* Makes stripes, whose width and colour show the class, with noise. */
static unsigned make_pattern(const struct images *images, unsigned long number) {
    uint64_t random = number * UINT64_C(6364136223846793005) + 1442695040888963407U;
    unsigned class = (unsigned)(number * 7919 % images->classes);
    unsigned char *at = images->image;
    for (unsigned y = 0; y < images->height; y++) {
        for (unsigned x = 0; x < images->width; x++) {
            for (unsigned c = 0; c < images->channels; c++) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407U;
                unsigned stripe = (x + y * c) / (class + 2) % 2 * 120 + 20 * c;
                *at++ = (unsigned char)(stripe + (random >> 59));
            }
        }
    }
    return class;
}

/* Sets the image's pixels and returns its label. */
static unsigned take_image(const struct images *images, unsigned long number) {
    size_t size = (size_t)images->width * images->height;
    if (images->pixels == NULL) {
        return make_pattern(images, number);
    }
    if (fseek(images->pixels, (long)(16 + number * size), SEEK_SET) != 0 ||
        fread(images->image, 1, size, images->pixels) != size ||
        fseek(images->labels, (long)(8 + number), SEEK_SET) != 0) {
        fail("an idx file ends too early");
    }
    return (unsigned)fgetc(images->labels);
}

static unsigned char *make_png(const struct images *images, size_t *size) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = images->width,
                     .height = images->height,
                     .format = images->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(png);
    unsigned char *memory = malloc(bytes);
    if (memory == NULL || png_image_write_to_memory(&png, memory, &bytes, 0, images->image, 0, NULL) == 0) {
        fail("can't make a PNG");
    }
    *size = bytes;
    return memory;
}

static unsigned char *make_jpeg(const struct images *images, size_t *size) {
    unsigned char *memory = NULL;
    unsigned long bytes = 0;
    tjhandle handle = tjInitCompress();
    if (handle == NULL || tjCompress2(handle, images->image, (int)images->width, 0, (int)images->height,
                                      images->channels == 1 ? TJPF_GRAY : TJPF_RGB, &memory, &bytes,
                                      images->channels == 1 ? TJSAMP_GRAY : TJSAMP_420, 90, 0) != 0) {
        fail("can't make a JPEG");
    }
    *size = bytes;
    unsigned char *copy = malloc(bytes);
    if (copy == NULL) {
        fail("no memory");
    }
    memcpy(copy, memory, bytes);
    tjFree(memory);
    tjDestroy(handle);
    return copy;
}

static void add_entry(struct archive *tar, const char *name, const void *bytes, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    if (archive_write_header(tar, entry) != ARCHIVE_OK || archive_write_data(tar, bytes, size) != (la_ssize_t)size) {
        fail(archive_error_string(tar));
    }
    archive_entry_free(entry);
}

static void add_image(const struct images *images, struct archive *tar, unsigned long number) {
    unsigned label = take_image(images, number);
    size_t size = 0;
    unsigned char *bytes = (images->jpeg ? make_jpeg : make_png)(images, &size);
    const char *end = images->jpeg ? "jpg" : "png";
    char name[64];
    char text[16];
    if (images->folders) {
        snprintf(name, sizeof name, "images/class %u/%06lu.%s", label, number, end);
    } else {
        snprintf(name, sizeof name, "%06lu.%s", number, end);
    }
    add_entry(tar, name, bytes, size);
    if (!images->folders && !images->bare) {
        snprintf(name, sizeof name, "%06lu.cls", number);
        int length = snprintf(text, sizeof text, "%u", label);
        add_entry(tar, name, text, (size_t)length);
    }
    free(bytes);
}

static void write_tar(const struct images *images, const char *path, unsigned long first, unsigned long end) {
    struct archive *tar = archive_write_new();
    if (tar == NULL || archive_write_set_format_ustar(tar) != ARCHIVE_OK ||
        archive_write_open_filename(tar, path) != ARCHIVE_OK) {
        fail("can't write a tar file");
    }
    for (unsigned long number = first; number < end; number++) {
        add_image(images, tar, number);
    }
    if (archive_write_close(tar) != ARCHIVE_OK) {
        fail(archive_error_string(tar));
    }
    archive_write_free(tar);
}

int main(int argc, char **argv) {
    struct images images = {.pixels = NULL};
    if (argc < 7) {
        fputs(USAGE, stderr);
        return 2;
    }
    for (int a = 7; a < argc; a++) {
        images.jpeg = images.jpeg || strcmp(argv[a], "jpeg") == 0;
        images.folders = images.folders || strcmp(argv[a], "folders") == 0;
        images.bare = images.bare || strcmp(argv[a], "bare") == 0;
    }
    open_images(&images, argv[1], argv[2]);
    unsigned long first = strtoul(argv[3], NULL, 10);
    unsigned long count = strtoul(argv[4], NULL, 10);
    unsigned long tars = strtoul(argv[5], NULL, 10);
    for (unsigned long t = 0; t < tars; t++) {
        char path[4096];
        snprintf(path, sizeof path, "%s-%lu.tar", argv[6], t);
        write_tar(&images, path, first + count * t / tars, first + count * (t + 1) / tars);
    }
    free(images.image);
    return 0;
}
