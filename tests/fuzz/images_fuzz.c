/* Fuzzes images: any bytes as a tar file of labelled images, or as a compressed image. Images are read and decoded, or
 * rejected with an error of one line, and nothing is printed. A survey agrees with a reading, and decoding twice gives
 * the same pixels.
 *
 * Input: a byte for the kind of file and the place of labels, a byte for the shape, then the file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/samples/images.h"

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_HEAD = 2, FUZZ_IMAGE = 1, FUZZ_OPTIONAL = 2, FUZZ_FOLDERS = 4, FUZZ_PIXELS_MAX = 1 << 18, SIDE = 8 };

struct seen {
    struct image_shape shape;
    bool label_optional;
    uint64_t images;
};

static void check_error(int result, const struct error *error) {
    FUZZ_CHECK(result == AML_EINPUT || result == AML_ENOMEM || result == AML_EFAIL);
    FUZZ_CHECK(error->code == result && error->text[0] != '\0' && strchr(error->text, '\n') == NULL);
}

static int check_image(const void *bytes, size_t size, const struct image_shape *shape, struct error *error) {
    unsigned char pixels[2][SIDE * SIDE * 3];
    struct image_shape own;
    struct error again = {0};
    int result = image_look(bytes, size, &own, error);
    if (result == 0 && (uint64_t)own.width * own.height > FUZZ_PIXELS_MAX) {
        return error_set(error, AML_EINPUT, "more pixels than there is time for");
    }
    memset(pixels, 1, sizeof pixels);
    result = result == 0 ? image_decode(bytes, size, shape, pixels[0], error) : result;
    FUZZ_CHECK(image_decode(bytes, size, shape, pixels[1], &again) == result);
    FUZZ_CHECK(result != 0 || memcmp(pixels[0], pixels[1], image_values(shape)) == 0);
    return result;
}

static int see_image(void *context, const struct images_entry *entry, struct error *error) {
    struct seen *seen = context;
    size_t length = strlen(entry->label.text);
    FUZZ_CHECK(entry->number == seen->images++);
    FUZZ_CHECK(entry->size >= 1 && entry->size <= IMAGES_BYTES_MAX && strlen(entry->name) < IMAGES_NAME_MAX);
    FUZZ_CHECK(entry->labelled ? length >= 1 && length <= LABEL_MAX : seen->label_optional);
    return check_image(entry->bytes, entry->size, &seen->shape, error);
}

static int see_entry(void *context, const struct images_entry *entry, struct error *error) {
    struct seen *seen = context;
    (void)entry;
    (void)error;
    seen->images++;
    return 0;
}

/* Checks that a reading accepts what a survey accepts, apart from damage within images. */
static void check_survey(const struct samples_file *file) {
    struct samples_survey survey;
    struct images_form form = {.shape = {.width = 0}};
    struct error error = {0};
    int result = images_survey(file, &form, &survey, &error);
    if (result != 0) {
        check_error(result, &error);
        return;
    }
    struct seen seen = {.images = 0};
    FUZZ_CHECK(survey.samples >= 1 && survey.labels.count >= 1 && form.shape.width >= 1 && form.shape.channels >= 1);
    FUZZ_CHECK(images_read(file->path, form.labels, false, see_entry, &seen, &error) == 0);
    FUZZ_CHECK(seen.images == survey.samples);
    samples_survey_close(&survey);
}

static void check_tar(const char *path, uint8_t options, const struct image_shape *shape) {
    const struct samples_file file = {.path = path, .format = SAMPLES_TAR};
    struct seen seen = {.shape = *shape, .label_optional = (options & FUZZ_OPTIONAL) != 0};
    enum images_labels labels = (options & FUZZ_FOLDERS) != 0 ? IMAGES_LABELS_FOLDER : IMAGES_LABELS_CLASS;
    struct error error = {0};
    int result = images_read(path, labels, seen.label_optional, see_image, &seen, &error);
    if (result != 0) {
        check_error(result, &error);
        FUZZ_CHECK(strncmp(error.text, path, strlen(path)) == 0);
    }
    check_survey(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < FUZZ_HEAD) {
        return 0;
    }
    const struct image_shape shape = {
        .width = 1 + data[1] % SIDE, .height = 1 + data[1] / SIDE % SIDE, .channels = (data[1] & 128) != 0 ? 3 : 1};
    size_t rest = size - FUZZ_HEAD;
    if ((data[0] & FUZZ_IMAGE) != 0) {
        struct error error = {0};
        unsigned char *copy = malloc(rest > 0 ? rest : 1); /* so that a read past its end is seen */
        FUZZ_CHECK(copy != NULL);
        memcpy(copy, data + FUZZ_HEAD, rest);
        int result = check_image(copy, rest, &shape, &error);
        if (result != 0) {
            check_error(result, &error);
        }
        free(copy);
        return 0;
    }
    char path[32];
    int file = memfd_create("images", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data + FUZZ_HEAD, rest) == (ssize_t)rest);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    check_tar(path, data[0], &shape);
    close(file);
    return 0;
}
