/* libFuzzer target for workers/ratings. The first byte of the input chooses: the parser alone, or ratings_read on the
 * rest as a file (plain or gzip). Besides crashes it finds: parses that depend on where the text is cut into chunks,
 * ratings that are not finite, numbers that differ from the C library's, and failures without a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <math.h>

#include "workers/ratings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum { FUZZ_FILE = 5 /* first bytes below are separators */ };

/* The plain way to read an accepted line: by the C library, on a copy without the separators. */
static void fuzz_check_line(const char *line, const char *end, enum ratings_separator separator,
                            const struct rating *rating) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    FUZZ_CHECK(newline != NULL);
    size_t length = (size_t)(newline - line);
    char *copy = malloc(length + 1);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, line, length);
    copy[length] = '\0';
    for (char *c = copy; *c != '\0'; c++) {
        if (*c == "?\t, :"[separator] || *c == '\r') {
            *c = ' ';
        }
    }
    char *rest = copy;
    FUZZ_CHECK(strtoull(rest, &rest, 10) == rating->user);
    FUZZ_CHECK(strtoull(rest, &rest, 10) == rating->item);
    float value = strtof(rest, &rest);
    FUZZ_CHECK(isfinite(value) && memcmp(&value, &rating->value, sizeof value) == 0);
    if (rest[strspn(rest, " ")] != '\0') {
        (void)strtod(rest, &rest);
    }
    FUZZ_CHECK(rest[strspn(rest, " ")] == '\0');
    free(copy);
}

/* Parses the text at once, and line by line: the same ratings, and the same fault at the same line. */
static void fuzz_parse(const char *text, size_t size, enum ratings_separator separator) {
    struct rating *ratings = malloc(size / RATINGS_LINE_MIN * sizeof *ratings + 1);
    FUZZ_CHECK(ratings != NULL);
    struct ratings_parsed parsed;
    int code = ratings_parse(text, size, separator, ratings, &parsed);
    size_t count = 0;
    uint64_t lines = 0;
    const char *fault = NULL;
    for (const char *line = text; line < text + size && fault == NULL; lines++) {
        size_t length = (size_t)((const char *)memchr(line, '\n', (size_t)(text + size - line)) + 1 - line);
        struct rating rating[RATINGS_LINE_MAX]; /* one is enough, when the parser is right */
        struct ratings_parsed one;
        if (ratings_parse(line, length, separator, rating, &one) != 0) {
            fault = one.fault.text;
            FUZZ_CHECK(fault >= line && fault + one.fault.length < line + length);
            FUZZ_CHECK(one.lines == 1 && one.count == 0);
        } else if (one.count != 0) {
            FUZZ_CHECK(one.count == 1 && one.lines == 1 && count < parsed.count);
            FUZZ_CHECK(memcmp(&rating[0].value, &ratings[count].value, sizeof ratings->value) == 0);
            fuzz_check_line(line, text + size, separator, &ratings[count]);
            count++;
        }
        line += length;
    }
    FUZZ_CHECK(count == parsed.count && lines == parsed.lines);
    FUZZ_CHECK(fault == NULL ? code == 0 : code == AML_EINPUT && fault == parsed.fault.text);
    free(ratings);
}

static int fuzz_sink(void *context, unsigned thread, uint64_t chunk, const struct rating *ratings, size_t count) {
    (void)thread;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(isfinite(ratings[i].value));
    }
    __atomic_fetch_add((size_t *)context, count, __ATOMIC_RELAXED);
    return 0;
}

static void fuzz_read(const uint8_t *data, size_t size) {
    int file = memfd_create("ratings", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    size_t count = 0;
    struct error error = {0};
    int code = ratings_read(path, 1 + (unsigned)size % 2, fuzz_sink, &count, &error);
    FUZZ_CHECK(code == 0 ? count > 0 && error.code == 0 : code == AML_EINPUT && error.code == code);
    FUZZ_CHECK(code == 0 || strncmp(error.text, path, strlen(path)) == 0);
    close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    if (data[0] >= FUZZ_FILE) {
        fuzz_read(data + 1, size - 1);
        return 0;
    }
    /* A copy of just this size, so that a read beyond its last LF is seen. */
    char *text = malloc(size);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\n';
    (void)ratings_detect(text, size);
    fuzz_parse(text, size, (enum ratings_separator)data[0]);
    free(text);
    return 0;
}
