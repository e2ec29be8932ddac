/* Writes the seeds of images_fuzz into the folder that is its only argument: images of each kind, and tar files of them
 * with both forms of labels, plain and compressed. No seed is stored in the repository. */
#include "tests/fuzz/corpus.h"

#include <archive.h>
#include <archive_entry.h>
#include <png.h>
#include <stdio.h>
#include <string.h>
#include <turbojpeg.h>

enum { SEED_MAX = 1 << 16, WIDTH = 9, HEIGHT = 7, IMAGE = 1, OPTIONAL = 2, FOLDERS = 4, COLOUR = 128, IMAGES = 7 };

struct image {
    unsigned char bytes[4096];
    size_t size;
    const char *end; /* end of the file's name */
};

static bool make_png(struct image *image, const unsigned char *pixels, bool colour) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = WIDTH,
                     .height = HEIGHT,
                     .format = colour ? PNG_FORMAT_RGBA : PNG_FORMAT_GRAY};
    png_alloc_size_t size = sizeof image->bytes;
    image->end = "png";
    bool made = png_image_write_to_memory(&png, image->bytes, &size, 0, pixels, 0, NULL) != 0;
    image->size = size;
    return made;
}

static bool make_jpeg(struct image *image, const unsigned char *pixels, int format, int flags) {
    unsigned char *at = image->bytes;
    unsigned long size = sizeof image->bytes;
    tjhandle handle = tjInitCompress();
    image->end = "jpg";
    bool made = handle != NULL &&
                tjCompress2(handle, pixels, WIDTH, 0, HEIGHT, format, &at, &size,
                            format == TJPF_GRAY ? TJSAMP_GRAY : TJSAMP_420, 80, TJFLAG_NOREALLOC | flags) == 0;
    image->size = size;
    tjDestroy(handle);
    return made;
}

static bool add_entry(struct archive *tar, const char *name, const void *bytes, size_t size) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    bool added =
        archive_write_header(tar, entry) == ARCHIVE_OK && archive_write_data(tar, bytes, size) == (la_ssize_t)size;
    archive_entry_free(entry);
    return added;
}

/* Makes a tar of all images. Returns its size, 0 on failure. */
static size_t make_tar(const struct image *images, size_t count, bool folders, int filter, unsigned char *bytes) {
    struct archive *tar = archive_write_new();
    size_t used = 0;
    bool made = archive_write_set_format_pax_restricted(tar) == ARCHIVE_OK &&
                (filter == 0 || archive_write_add_filter(tar, filter) == ARCHIVE_OK) &&
                archive_write_set_bytes_per_block(tar, 512) == ARCHIVE_OK &&
                archive_write_open_memory(tar, bytes, SEED_MAX - 2, &used) == ARCHIVE_OK;
    for (size_t i = 0; i < count && made; i++) {
        char name[160];
        snprintf(name, sizeof name, folders ? "x/class %zu/%zu.%s" : "%zu%zu.input.%s", i % 2, i, images[i].end);
        made = add_entry(tar, name, images[i].bytes, images[i].size);
        snprintf(name, sizeof name, "%zu%zu.cls", i % 2, i);
        made = made && (folders || add_entry(tar, name, i % 2 == 0 ? "3\n" : "-1.5", i % 2 == 0 ? 2 : 4));
    }
    made = archive_write_close(tar) == ARCHIVE_OK && made;
    archive_write_free(tar);
    return made ? used : 0;
}

int main(int argc, char **argv) {
    static struct image images[IMAGES];
    static unsigned char seed[SEED_MAX];
    unsigned char pixels[WIDTH * HEIGHT * 4];
    bool written = argc == 2;
    for (size_t i = 0; i < sizeof pixels; i++) {
        pixels[i] = (unsigned char)(i * 7);
    }
    written = written && make_png(&images[0], pixels, false) && make_png(&images[1], pixels, true) &&
              make_jpeg(&images[2], pixels, TJPF_GRAY, 0) && make_jpeg(&images[3], pixels, TJPF_RGBX, 0) &&
              make_jpeg(&images[4], pixels, TJPF_RGBX, TJFLAG_PROGRESSIVE) &&
              make_jpeg(&images[5], pixels, TJPF_GRAY, TJFLAG_PROGRESSIVE) &&
              make_jpeg(&images[6], pixels, TJPF_CMYK, 0);
    for (size_t i = 0; i < IMAGES && written; i++) {
        char name[32];
        seed[0] = IMAGE;
        seed[1] = (unsigned char)(i % 2 == 0 ? 60 : COLOUR + 27);
        memcpy(seed + 2, images[i].bytes, images[i].size);
        snprintf(name, sizeof name, "image-%zu", i);
        written = corpus_write(argv[1], name, seed, images[i].size + 2);
    }
    static const int filters[] = {0, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_ZSTD};
    for (size_t t = 0; t < 6 && written; t++) {
        char name[32];
        bool folders = t % 2 == 1;
        seed[0] = (unsigned char)(folders ? FOLDERS : t == 2 ? OPTIONAL : 0);
        seed[1] = 9;
        size_t size = make_tar(images, IMAGES, folders, filters[t / 2], seed + 2);
        snprintf(name, sizeof name, "tar-%zu", t);
        written = size > 0 && corpus_write(argv[1], name, seed, size + 2);
    }
    if (!written) {
        fprintf(stderr, "usage: images_corpus FOLDER\n");
    }
    return written ? 0 : 2;
}
