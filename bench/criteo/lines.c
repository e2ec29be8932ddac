/* criteo_lines: writes made-up Criteo lines (label, 13 integers, 26 categories, separated by tabs) to standard output.
 * Writes any number of lines, faster than most disks.
 *
 * A line is a noisy copy of a random line of --source:
 *  - Each field comes from another line with probability 1/8.
 *  - A category is a new value with probability 1/64, so that the distinct values grow with the file, as in real logs.
 *  - A label is flipped with probability 1/8, so that no model can reach a log-loss below 0.377.
 *
 * Line N depends on --seed and N alone. Another range (--first) gives other lines of the same distribution, for
 * tests. */
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_lines.h"
#include "bench/measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FIELDS = 40,
    FIRST_CATEGORY = 14,
    FIELD_ROOM = 16, /* bytes of a field and its tab or line end, copied as a whole */
    LINE_MAX = FIELDS * FIELD_ROOM,
    SOURCE_LINE_MAX = 1 << 16,
    SOURCE_LINES_MAX = 1 << 20,
    WRITTEN_AT_ONCE = 1 << 20
};

static const uint64_t FIELD_MASK = (UINT64_C(1) << FIELDS) - 2; /* all fields but the label */

struct field {
    char text[FIELD_ROOM];
};

struct source_line {
    struct field fields[FIELDS];
    unsigned char lengths[FIELDS];
};

struct source {
    struct source_line *lines;
    size_t count, capacity;
};

/* ---- The source ---- */

static int take_source_line(struct source_line *line, const char *text, const struct text_lines *from,
                            struct error *error) {
    for (unsigned f = 0; f < FIELDS; f++) {
        size_t length = strcspn(text, "\t");
        if ((text[length] == '\t') != (f + 1 < FIELDS)) {
            return error_set(error, AML_EINPUT, "%s:%llu: expected %d fields separated by tabs", from->path,
                             (unsigned long long)from->number, FIELDS);
        }
        if (length >= FIELD_ROOM || (f == 0 && (length != 1 || (*text != '0' && *text != '1')))) {
            return error_set(error, AML_EINPUT, "%s:%llu: expected a label 0 or 1, then fields of at most %d bytes",
                             from->path, (unsigned long long)from->number, FIELD_ROOM - 1);
        }
        memcpy(line->fields[f].text, text, length);
        line->fields[f].text[length] = f + 1 < FIELDS ? '\t' : '\n';
        line->lengths[f] = (unsigned char)(length + 1);
        text += length + 1;
    }
    return 0;
}

static int load_source(struct source *source, const char *path, struct error *error) {
    struct text_lines lines;
    char *text = NULL;
    size_t length;
    int result = text_lines_open(&lines, path, SOURCE_LINE_MAX, error);
    if (result != 0) {
        return result;
    }
    while (result == 0 && source->count < SOURCE_LINES_MAX) {
        result = text_lines_next(&lines, &text, &length, error);
        if (result != 0 || text == NULL) {
            break;
        }
        if (source->count == source->capacity) {
            source->capacity = 2 * source->capacity + 1024;
            source->lines = memory_resized(source->lines, source->capacity, sizeof *source->lines);
        }
        result = take_source_line(&source->lines[source->count++], text, &lines, error);
    }
    text_lines_close(&lines);
    if (result == 0 && source->count == 0) {
        result = error_set(error, AML_EINPUT, "%s: no lines", path);
    }
    return result;
}

/* ---- Made lines ---- */

/* Returns the next of a sequence of random words. */
static inline uint64_t next_word(uint64_t *state) {
    return hash_mix(*state += 0x9E3779B97F4A7C15U);
}

static inline const struct source_line *random_line(const struct source *source, uint64_t word) {
    return &source->lines[hash_product_high(word, source->count)];
}

static char *put_new_category(char *to, uint64_t word, char end) {
    for (unsigned digit = 0; digit < 8; digit++) {
        *to++ = "0123456789abcdef"[word >> 4 * digit & 15];
    }
    *to++ = end;
    return to;
}

/* Writes line `number` into to[LINE_MAX]. Returns the end of the line. */
static char *make_line(const struct source *source, uint64_t seed, uint64_t number, char *to) {
    uint64_t state = hash_pair(seed, number);
    const struct source_line *line = random_line(source, next_word(&state));
    /* each bit is 1 with probability 1/8 */
    uint64_t eighth = next_word(&state) & next_word(&state) & next_word(&state);
    uint64_t fresh = eighth & next_word(&state) & next_word(&state) & next_word(&state);
    *to++ = (char)(line->fields[0].text[0] ^ (char)(eighth & 1));
    *to++ = '\t';
    uint64_t others = eighth & FIELD_MASK;
    for (unsigned f = 1; f < FIELDS; f++) {
        if ((others >> f & 1) == 0) {
            memcpy(to, line->fields[f].text, FIELD_ROOM);
            to += line->lengths[f];
        } else if (f >= FIRST_CATEGORY && (fresh >> f & 1) != 0) {
            to = put_new_category(to, next_word(&state), f + 1 < FIELDS ? '\t' : '\n');
        } else {
            const struct source_line *other = random_line(source, next_word(&state));
            memcpy(to, other->fields[f].text, FIELD_ROOM);
            to += other->lengths[f];
        }
    }
    return to;
}

static bool write_all(const char *bytes, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t n = write(STDOUT_FILENO, bytes + done, size - done);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Writes `lines` lines, or as many whole lines as `bytes` bytes hold. 0: no such limit. */
static bool write_lines(const struct source *source, uint64_t seed, uint64_t first, uint64_t lines, uint64_t bytes) {
    char *buffer = memory_zeroed(WRITTEN_AT_ONCE + LINE_MAX, 1);
    uint64_t written = 0;
    size_t held = 0;
    bool good = true;
    for (uint64_t done = 0; good && (lines == 0 || done < lines); done++) {
        size_t end = (size_t)(make_line(source, seed, first + done, buffer + held) - buffer);
        if (bytes > 0 && written + end > bytes) {
            break;
        }
        held = end;
        if (held >= WRITTEN_AT_ONCE) {
            good = write_all(buffer, held);
            written += held;
            held = 0;
        }
    }
    good = good && write_all(buffer, held);
    free(buffer);
    return good;
}

int main(int argc, char **argv) {
    const char *path = "../shared/data/ctr-criteo/criteo_train.tsv.gz";
    int64_t lines = 0;
    int64_t bytes = 0;
    int64_t first = 0;
    int64_t seed = 1;
    const struct aml_option options[] = {
        {"source", "FILE", AML_OPTION_STRING, &path, 0, 0, "Criteo lines to vary, plain or gzip"},
        {"lines", "N", AML_OPTION_INTEGER, &lines, 0, 1e15, "how many to write; 0: no limit"},
        {"bytes", "N", AML_OPTION_INTEGER, &bytes, 0, 1e15, "write as many whole lines as fit; 0: no limit"},
        {"first", "N", AML_OPTION_INTEGER, &first, 0, 1e15, "the first line's number"},
        {"seed", "N", AML_OPTION_INTEGER, &seed, 0, 1e15, "of the random choices"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct source source = {0};
    struct error error = {0};
    int status = measure_options(options, "criteo_lines: made-up Criteo lines onto standard output", argc, argv);
    if (status >= 0) {
        return status;
    }
    int result = load_source(&source, path, &error);
    if (result != 0) {
        fprintf(stderr, "criteo_lines: %s\n", error.text);
        return error_exit_status(result);
    }
    bool good = write_lines(&source, (uint64_t)seed, (uint64_t)first, (uint64_t)lines, (uint64_t)bytes);
    if (!good) {
        fprintf(stderr, "criteo_lines: cannot write: %s\n", strerror(errno));
    }
    free(source.lines);
    return good ? 0 : 1;
}
