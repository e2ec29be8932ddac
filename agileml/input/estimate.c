/* See estimate.h. */
#include "agileml/input/estimate.h"

#include "agileml/base/text_input.h"
#include "agileml/input/source.h"

#include <stdbool.h>
#include <stddef.h>

enum { STEP = 4096 /* bytes of one read, which limit the estimate's precision */ };

/* A source that counts the bytes read from it. */
struct watched {
    struct source *source;
    uint64_t stored; /* bytes read from the file as it is stored */
    uint64_t text;   /* bytes of text from these stored bytes */
    /* The values of `stored` and `text` just before the latest read of the file, when all stored bytes had been
     * decoded. */
    uint64_t stored_used, text_used;
};

static int read_watched(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct watched *watched = context;
    watched->stored_used = watched->stored;
    watched->text_used = watched->text;
    int code = source_read(watched->source, bytes, size, got, error);
    watched->stored += code == 0 ? *got : 0;
    return code;
}

static uint64_t count_line_ends(const char *bytes, size_t size) {
    uint64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count += bytes[i] == '\n';
    }
    return count;
}

/* Estimates the lines of a file of `size` bytes whose first watched->text bytes of text have `ends` line ends. */
static uint64_t estimate(uint64_t ends, const struct watched *watched, uint64_t size) {
    double whole = (double)size / (double)watched->stored_used * (double)watched->text_used; /* bytes of all text */
    double lines = (double)ends * (whole / (double)watched->text);
    return lines >= 1 ? (uint64_t)(lines + 0.5) : 1;
}

/* Reads until the sample is complete and at least one buffer of stored bytes has been decoded. */
static int read_sample(struct text_input *input, struct watched *watched, uint64_t *ends, bool *ended,
                       struct error *error) {
    char bytes[STEP];
    char last = '\n';
    *ends = 0;
    *ended = false;
    while (!*ended && (watched->text < ESTIMATE_SAMPLE || watched->text_used == 0)) {
        size_t got;
        int code = text_input_read(input, bytes, sizeof bytes, &got, error);
        if (code != 0) {
            return code;
        }
        *ends += count_line_ends(bytes, got);
        last = got > 0 ? bytes[got - 1] : last;
        watched->text += got;
        *ended = got < sizeof bytes;
    }
    *ends += *ended && last != '\n';
    return 0;
}

int estimate_lines(const char *path, uint64_t *lines, struct error *error) {
    struct source_identity identity;
    struct watched watched = {.stored = 0};
    struct text_input *input;
    uint64_t ends = 0;
    bool ended = false;
    *lines = 1;
    int code = source_identify(path, &identity, error);
    code = code != 0 ? code : source_open(&watched.source, path, &identity, 0, identity.bytes, error);
    if (code != 0) {
        return code;
    }
    code = text_input_open_source(&input, path, read_watched, &watched, error);
    if (code == 0) {
        code = read_sample(input, &watched, &ends, &ended, error);
        text_input_close(input);
    }
    source_close(watched.source);
    if (code == 0 && !ended && identity.bytes == SOURCE_TO_END) {
        code = error_set(error, AML_EINPUT, "%s: expected a file whose size is known", text_input_name(path));
    }
    if (code == 0) {
        *lines = ended ? (ends > 0 ? ends : 1) : estimate(ends, &watched, identity.bytes);
    }
    return code;
}
