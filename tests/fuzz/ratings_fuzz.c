/* libFuzzer target for workers/data/ratings. The first bytes of the input choose the parser alone, with any columns;
 * the head alone; or ratings_read on the rest as a file (plain or gzip), with or without --columns. Besides crashes it
 * finds parses that depend on the chunks' borders or on which parser took a line. It also finds ratings that are not
 * finite, lost ids, and failures without a message. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <math.h>

#include "workers/data/rating_ids.h"
#include "workers/data/ratings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum {
    FUZZ_HEAD = 12, /* lower first bytes are a separator, plus 6 for lines whose ratings may be missing */
    FUZZ_FILE = 13,
    FUZZ_LINE_MAX = 4096 /* longest line that is parsed alone */
};

/* Checks an id of either parser: its text alone, without quotes, gives the same key. */
static void fuzz_check_id(const struct text_field *field, uint64_t key) {
    char text[RATING_ID_MAX];
    uint64_t found;
    size_t length = rating_id_text(field, text);
    const struct text_field plain = {.text = text, .length = length};
    FUZZ_CHECK(length >= 1 && length <= RATING_ID_MAX);
    FUZZ_CHECK(rating_is_missing(&plain) || (rating_id_key(&plain, &found) && found == key));
}

/* Returns the length of the line with its end. */
static size_t fuzz_line_length(const char *line) {
    const char *end = line;
    while (!text_is_line_end(*end)) {
        end++;
    }
    return (size_t)(text_next_line(end) - line);
}

/* Parses one line. Returns 1 for a rating, 0 for an empty line, or -1 with *fault. */
static int fuzz_parse_line(const char *line, size_t length, const struct ratings_layout *layout, struct rating *rating,
                           const char **fault) {
    struct rating found[FUZZ_LINE_MAX]; /* a correct parser finds one at most */
    struct ratings_parsed parsed;
    char *copy = malloc(length + 1);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, line, length);
    copy[length] = '\0';
    int code = ratings_parse(copy, length, layout, found, NULL, &parsed);
    FUZZ_CHECK(parsed.lines == 1 && parsed.count <= 1);
    if (code != 0) {
        *fault = line + (parsed.fault.text - copy);
        FUZZ_CHECK(*fault >= line && *fault + parsed.fault.length < line + length && parsed.count == 0);
    }
    *rating = found[0];
    free(copy);
    return code != 0 ? -1 : (int)parsed.count;
}

/* Parses the text at once, line by line, and with the ids' texts. All give the same ratings and the same fault at the
 * same line. */
static void fuzz_parse(const char *text, size_t size, const struct ratings_layout *layout) {
    struct rating *ratings = malloc(size / RATINGS_LINE_MIN * sizeof *ratings + 1);
    struct rating *others = malloc(size / RATINGS_LINE_MIN * sizeof *others + 1);
    struct rating_texts *texts = malloc(size / RATINGS_LINE_MIN * sizeof *texts + 1);
    FUZZ_CHECK(ratings != NULL && others != NULL && texts != NULL);
    struct ratings_parsed parsed;
    struct ratings_parsed other;
    int code = ratings_parse(text, size, layout, ratings, NULL, &parsed);
    FUZZ_CHECK(ratings_parse(text, size, layout, others, texts, &other) == code);
    FUZZ_CHECK(other.count == parsed.count && other.lines == parsed.lines);
    FUZZ_CHECK(code == 0 || (other.fault.text == parsed.fault.text && other.fault.reason == parsed.fault.reason));
    for (size_t i = 0; i < parsed.count; i++) {
        FUZZ_CHECK(others[i].user == ratings[i].user && others[i].item == ratings[i].item);
        FUZZ_CHECK(memcmp(&others[i].value, &ratings[i].value, sizeof ratings[i].value) == 0);
        fuzz_check_id(&texts[i].user, ratings[i].user);
        fuzz_check_id(&texts[i].item, ratings[i].item);
    }
    size_t count = 0;
    uint64_t lines = 0;
    const char *fault = NULL;
    for (const char *line = text; line < text + size && fault == NULL; lines++) {
        struct rating rating = {0};
        size_t length = fuzz_line_length(line);
        int found = length < FUZZ_LINE_MAX ? fuzz_parse_line(line, length, layout, &rating, &fault) : 0;
        if (length >= FUZZ_LINE_MAX) {
            break;
        }
        if (found == 1) {
            FUZZ_CHECK(count < parsed.count);
            FUZZ_CHECK(memcmp(&rating.value, &ratings[count].value, sizeof rating.value) == 0);
            FUZZ_CHECK(isfinite(rating.value) || layout->missing == RATINGS_TAKE_MISSING);
            count++;
        }
        line += length;
    }
    FUZZ_CHECK(lines < parsed.lines || (count == parsed.count && lines == parsed.lines));
    FUZZ_CHECK(fault == NULL || (code == AML_EINPUT && fault == parsed.fault.text));
    free(ratings);
    free(others);
    free(texts);
}

/* Reads the head at once and line by line. Both give the same layout. */
static void fuzz_head(const char *text, size_t size, const struct ratings_options *options) {
    struct ratings_head whole = {.options = *options};
    struct ratings_head parts = {.options = *options};
    size_t taken = ratings_head_take(&whole, text, size);
    size_t at = 0;
    FUZZ_CHECK(taken <= size && (whole.phase >= RATINGS_KNOWN || taken == size));
    while (at < size && parts.phase < RATINGS_KNOWN) {
        char *line = strndup(text + at, fuzz_line_length(text + at));
        size_t length = strlen(line);
        FUZZ_CHECK(length <= fuzz_line_length(text + at));
        if (length < fuzz_line_length(text + at)) { /* the line contains a 0 */
            free(line);
            return;
        }
        size_t part = ratings_head_take(&parts, line, length);
        free(line);
        at += part;
        if (part < length) {
            break;
        }
    }
    /* Whether pairs without ratings have a header can depend on the line after it. */
    if (options->missing != RATINGS_TAKE_MISSING) {
        FUZZ_CHECK(parts.phase == whole.phase && at == taken);
        FUZZ_CHECK(whole.phase != RATINGS_KNOWN ||
                   (memcmp(parts.layout.places, whole.layout.places, sizeof whole.layout.places) == 0 &&
                    parts.layout.columns == whole.layout.columns));
    }
    FUZZ_CHECK((whole.phase == RATINGS_REFUSED) == (whole.refusal.code != 0));
    if (whole.phase == RATINGS_KNOWN) {
        fuzz_parse(text + taken, size - taken, &whole.layout);
    }
}

struct fuzz_read {
    size_t count;
    struct ratings_options options;
};

static int fuzz_sink(void *context, unsigned thread, const struct line_chunk *chunk, const struct rating *ratings,
                     size_t count) {
    struct fuzz_read *reading = context;
    (void)thread;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(isfinite(ratings[i].value) ||
                   (reading->options.missing == RATINGS_TAKE_MISSING && isnan(ratings[i].value)));
    }
    __atomic_fetch_add(&reading->count, count, __ATOMIC_RELAXED);
    return 0;
}

static void fuzz_read(const uint8_t *data, size_t size, const struct ratings_options *options) {
    int file = memfd_create("ratings", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct fuzz_read reading = {.options = *options};
    struct error error = {0};
    const struct ratings_reader reader = {
        .options = *options, .threads = 1 + (unsigned)size % 2, .sink = fuzz_sink, .context = &reading};
    int code = ratings_read(&reader, path, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : code == AML_EINPUT && error.code == code);
    FUZZ_CHECK(code == 0 || strncmp(error.text, path, strlen(path)) == 0);
    close(file);
}

static struct ratings_options fuzz_options(uint8_t choice) {
    static const char *const columns[] = {NULL,    NULL, "user=2,item=1", "rating=hours", "item=title,user=1,rating=4",
                                          "user=3"};
    return (struct ratings_options){.columns = columns[choice / 3 % (sizeof columns / sizeof columns[0])],
                                    .missing = (enum ratings_missing)(choice % 3),
                                    .has_options = choice % 2 == 0};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    const struct ratings_options options = fuzz_options(data[1]);
    if (data[0] >= FUZZ_FILE) {
        fuzz_read(data + 2, size - 2, &options);
        return 0;
    }
    /* A copy of just this size, so that sanitizers see a read past the 0 after its last line. */
    size -= 1;
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    memcpy(text, data + 2, size - 1);
    text[size - 1] = size % 2 == 0 ? '\n' : '\r';
    text[size] = '\0';
    if (data[0] == FUZZ_HEAD) {
        fuzz_head(text, size, &options);
    } else {
        static const int orders[][RATING_ROLES] = {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}, {0, 1, -1}, {1, 3, 0}};
        struct ratings_layout layout = {.separator = (enum text_separator)(data[0] % 6),
                                        .columns = 4 + data[1] / 64,
                                        .missing = data[0] >= 6 ? RATINGS_TAKE_MISSING : RATINGS_REFUSE_MISSING};
        memcpy(layout.places, orders[data[1] % 5 == 3 && data[0] < 6 ? 0 : data[1] % 5], sizeof layout.places);
        fuzz_parse(text, size, &layout);
    }
    free(text);
    return 0;
}
