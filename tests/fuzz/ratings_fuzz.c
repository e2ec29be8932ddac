/* libFuzzer target for workers/ratings. The first byte of the input chooses: the parser alone, or ratings_read on the
 * rest as a file (plain or gzip). Besides crashes it finds: parses that depend on where the text is cut into chunks,
 * ratings that are not finite, numbers that differ from the C library's, and failures without a message. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <math.h>

#include "workers/ratings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum { FUZZ_FILE = 12 /* first bytes below are a separator, plus 6 for lines without ratings */ };

/* The plain way to read an accepted line: by the C library, on a copy without separators and quotes. */
static void fuzz_check_line(const char *line, size_t length, struct ratings_layout layout,
                            const struct rating *rating) {
    char *copy = malloc(length + 1);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, line, length);
    copy[length] = '\0';
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == "?\t,;: "[layout.separator] || text_is_line_end(*c) || text_is_blank(*c) || *c == '"') {
            *c = ' ';
        }
    }
    char *rest = copy;
    FUZZ_CHECK(strtoull(rest, &rest, 10) == rating->user);
    FUZZ_CHECK(strtoull(rest, &rest, 10) == rating->item);
    if (layout.unrated) {
        FUZZ_CHECK(isnan(rating->value));
    } else {
        float value = strtof(rest, &rest);
        FUZZ_CHECK(isfinite(value) && memcmp(&value, &rating->value, sizeof value) == 0);
        if (rest[strspn(rest, " ")] != '\0') {
            (void)strtod(rest, &rest);
        }
    }
    FUZZ_CHECK(rest[strspn(rest, " ")] == '\0');
    free(copy);
}

/* Bytes of the line with its end. */
static size_t fuzz_line_length(const char *line) {
    const char *end = line;
    while (!text_is_line_end(*end)) {
        end++;
    }
    return (size_t)(text_next_line(end) - line);
}

/* Parses the line alone: 1 rating, 0 for an empty line, or -1 with *fault. */
static int fuzz_parse_line(const char *line, size_t length, struct ratings_layout layout, struct rating *rating,
                           const char **fault) {
    struct rating found[RATINGS_LINE_MAX]; /* one is enough, when the parser is right */
    struct ratings_parsed parsed;
    char *copy = malloc(length + 1);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, line, length);
    copy[length] = '\0';
    int code = ratings_parse(copy, length, layout, found, &parsed);
    FUZZ_CHECK(parsed.lines == 1 && parsed.count <= 1);
    if (code != 0) {
        *fault = line + (parsed.fault.text - copy);
        FUZZ_CHECK(*fault >= line && *fault + parsed.fault.length < line + length && parsed.count == 0);
    }
    *rating = found[0];
    free(copy);
    return code != 0 ? -1 : (int)parsed.count;
}

/* Parses the text at once, and line by line: the same ratings, and the same fault at the same line. */
static void fuzz_parse(const char *text, size_t size, struct ratings_layout layout) {
    struct rating *ratings = malloc(size / RATINGS_LINE_MIN * sizeof *ratings + 1);
    FUZZ_CHECK(ratings != NULL);
    struct ratings_parsed parsed;
    int code = ratings_parse(text, size, layout, ratings, &parsed);
    size_t count = 0;
    uint64_t lines = 0;
    const char *fault = NULL;
    for (const char *line = text; line < text + size && fault == NULL; lines++) {
        struct rating rating = {0};
        size_t length = fuzz_line_length(line);
        int found = fuzz_parse_line(line, length, layout, &rating, &fault);
        if (found == 1) {
            FUZZ_CHECK(count < parsed.count);
            FUZZ_CHECK(memcmp(&rating.value, &ratings[count].value, sizeof rating.value) == 0);
            fuzz_check_line(line, length, layout, &ratings[count]);
            count++;
        }
        line += length;
    }
    FUZZ_CHECK(count == parsed.count && lines == parsed.lines);
    FUZZ_CHECK(fault == NULL ? code == 0 : code == AML_EINPUT && fault == parsed.fault.text);
    free(ratings);
}

struct fuzz_read {
    size_t count;
    bool allow_unrated;
};

static int fuzz_sink(void *context, unsigned thread, const struct line_chunk *chunk, const struct rating *ratings,
                     size_t count) {
    struct fuzz_read *reading = context;
    (void)thread;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(isfinite(ratings[i].value) || (reading->allow_unrated && isnan(ratings[i].value)));
    }
    __atomic_fetch_add(&reading->count, count, __ATOMIC_RELAXED);
    return 0;
}

static void fuzz_read(const uint8_t *data, size_t size, bool allow_unrated) {
    int file = memfd_create("ratings", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct fuzz_read reading = {.allow_unrated = allow_unrated};
    struct error error = {0};
    int code = ratings_read(path, allow_unrated, 1 + (unsigned)size % 2, fuzz_sink, &reading, &error);
    FUZZ_CHECK(code == 0 ? reading.count > 0 && error.code == 0 : code == AML_EINPUT && error.code == code);
    FUZZ_CHECK(code == 0 || strncmp(error.text, path, strlen(path)) == 0);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    if (data[0] >= FUZZ_FILE) {
        fuzz_read(data + 1, size - 1, data[0] % 2 == 1);
        return 0;
    }
    /* A copy of just this size, so that a read beyond the 0 behind its last line is seen. */
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = size % 2 == 0 ? '\n' : '\r';
    text[size] = '\0';
    (void)ratings_detect(text, size, size % 3 == 0);
    fuzz_parse(text, size, (struct ratings_layout){(enum text_separator)(data[0] % 6), data[0] >= 6});
    free(text);
    return 0;
}
