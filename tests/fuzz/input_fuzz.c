/* libFuzzer target for agileml/input: the walkers of gzip and zstd headers, the indexes, and the lines of extents. The
 * input is the size of the extents, the length of an index, the index, and the file. Besides crashes it finds gaps
 * between extents, failures without a message, and extents whose texts together differ from the whole file's text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agileml/input/lines.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum { FUZZ_TEXT_MAX = 1 << 16, FUZZ_STEP = 1000, FUZZ_SPLITS_MAX = 12 /* roughly, for speed */ };

static char fuzz_folder[] = "/tmp/input_fuzz.XXXXXX";
static char fuzz_path[64], fuzz_index[64];

struct fuzz_text {
    size_t size;
    char bytes[FUZZ_TEXT_MAX];
};

static void fuzz_remove_folder(void) {
    unlink(fuzz_path);
    unlink(fuzz_index);
    rmdir(fuzz_folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    FUZZ_CHECK(mkdtemp(fuzz_folder) != NULL);
    snprintf(fuzz_path, sizeof fuzz_path, "%s/data", fuzz_folder);
    snprintf(fuzz_index, sizeof fuzz_index, "%s/data.gzi", fuzz_folder);
    return atexit(fuzz_remove_folder);
}

static void fuzz_write(const char *path, const uint8_t *data, size_t size) {
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

/* Appends the input's text. Returns 1 when it is too long. */
static int fuzz_read(struct text_input *input, struct fuzz_text *text, struct error *error) {
    size_t got = FUZZ_STEP;
    int code = 0;
    while (code == 0 && got == FUZZ_STEP) {
        if (text->size + FUZZ_STEP > FUZZ_TEXT_MAX) {
            return 1;
        }
        code = text_input_read(input, text->bytes + text->size, FUZZ_STEP, &got, error);
        text->size += code == 0 ? got : 0;
    }
    return code;
}

/* Reads the whole file. Returns 1, too, when a foreign format within compressed data is rejected: an extent may see
 * only a part of its beginning. */
static int fuzz_whole(struct fuzz_text *text, bool foreign) {
    struct text_input *input;
    struct error error = {0};
    int code = text_input_open(&input, fuzz_path, &error);
    code = code == 0 ? fuzz_read(input, text, &error) : code;
    FUZZ_CHECK(code >= 0 || (code == AML_EINPUT && strncmp(error.text, fuzz_path, strlen(fuzz_path)) == 0));
    text_input_close(input);
    bool inside = strstr(error.text, ": damaged") == NULL && strstr(error.text, ": truncated") == NULL;
    return code < 0 && inside && !foreign ? 1 : code;
}

static int fuzz_extents(uint64_t extent_size, struct fuzz_text *text, bool *plain) {
    struct extents extents;
    struct error error = {0};
    uint64_t covered = 0;
    int code = extents_make(&extents, fuzz_path, extent_size, &error);
    *plain = code == 0 && extents.form == TEXT_FORM_PLAIN;
    for (uint32_t s = 0; s < extents.count; s++) {
        FUZZ_CHECK(extents.at[s].offset == covered && (s == 0 || extents.at[s].length > 0));
        covered += extents.at[s].length;
    }
    FUZZ_CHECK(code != 0 || covered == extents_file(&extents)->identity.bytes);
    for (uint32_t s = 0; s < extents.count && code == 0; s++) {
        struct text_input *input;
        code = input_lines_open(&input, &extents, s, &error);
        code = code == 0 ? fuzz_read(input, text, &error) : code;
        text_input_close(input);
    }
    FUZZ_CHECK(code >= 0 || (code == AML_EINPUT && strncmp(error.text, fuzz_path, strlen(fuzz_path)) == 0));
    extents_close(&extents);
    return code;
}

/* Checks that every first line is named as a kind of format, or not at all. */
static void fuzz_line(const uint8_t *data, size_t size) {
    const char *line = (const char *)data;
    const char *end = memchr(line, '\n', size);
    const char *kind = text_foreign_line(line, end != NULL ? end : line + size);
    FUZZ_CHECK(kind == NULL || strlen(kind) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || data[1] > size - 2) {
        return 0;
    }
    size_t index = data[1];
    fuzz_line(data + 2 + index, size - 2 - index);
    fuzz_write(fuzz_path, data + 2 + index, size - 2 - index);
    if (index > 0) {
        fuzz_write(fuzz_index, data + 2, index);
    } else {
        unlink(fuzz_index);
    }
    static struct fuzz_text texts[2];
    struct fuzz_text *whole = &texts[0];
    struct fuzz_text *parts = &texts[1];
    whole->size = 0;
    parts->size = 0;
    size_t least = size / FUZZ_SPLITS_MAX;
    bool plain;
    enum text_form form;
    bool foreign = text_form_detect("", data + 2 + index, size - 2 - index, &form, NULL) != 0;
    int of_whole = fuzz_whole(whole, foreign);
    int of_parts = fuzz_extents(data[0] == 0 || data[0] > least ? data[0] : least, parts, &plain);
    FUZZ_CHECK(!foreign || (of_whole == AML_EINPUT && of_parts == AML_EINPUT));
    if (of_whole <= 0 && of_parts <= 0) { /* 1: not to be compared */
        FUZZ_CHECK(of_parts != 0 || of_whole == 0);
        FUZZ_CHECK(of_parts == 0 || of_whole != 0 || !plain);
        FUZZ_CHECK(of_parts != 0 ||
                   (whole->size == parts->size && memcmp(whole->bytes, parts->bytes, whole->size) == 0));
    }
    return 0;
}
