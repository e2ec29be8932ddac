/* Reads a file of ratings. See ratings.h. The calling thread fills a ring of chunks. Parser threads take them in file
 * order and finish them in any order. The calling thread retires them in file order, so that line numbers are exact and
 * the reported failure is the file's first. */
#include "workers/ratings.h"

#include "workers/crash.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agileml/base/text_input.h"

enum { RATINGS_SHOWN_MAX = 40 /* characters of a bad line in a message */ };

/* ---- Parsing. Text ends in a line's end, which stops every scan, as no field or separator contains one. ---- */

static inline bool ratings_is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Each ratings_take_... function parses what its name says, at p. It returns the place behind that, or NULL if it is
 * not there. */

/* The rules for parsing a line. */
struct ratings_rules {
    struct ratings_layout layout;
    char separator; /* 0 if the separator is not one character */
    locale_t c_locale;
};

static char ratings_single_separator(enum text_separator separator) {
    switch (separator) {
    case TEXT_TAB:
        return '\t';
    case TEXT_COMMA:
        return ',';
    case TEXT_SEMICOLON:
        return ';';
    case TEXT_COLONS:
    case TEXT_BLANKS:
    case TEXT_UNKNOWN:
        break;
    }
    return '\0';
}

static inline const char *ratings_take_separator(const char *p, struct ratings_rules rules) {
    if (rules.separator != '\0') {
        return *p == rules.separator ? p + 1 : NULL;
    }
    if (rules.layout.separator == TEXT_BLANKS) {
        return text_is_blank(*p) ? text_skip_blanks(p + 1) : NULL;
    }
    return rules.layout.separator == TEXT_COLONS && p[0] == ':' && p[1] == ':' ? p + 2 : NULL;
}

static inline const char *ratings_take_id(const char *p, uint64_t *id) {
    if (!ratings_is_digit(*p)) {
        return NULL;
    }
    uint64_t value = 0;
    for (; ratings_is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value >= UINT64_MAX / 10 && (value > UINT64_MAX / 10 || digit > UINT64_MAX % 10)) {
            return NULL;
        }
        value = value * 10 + digit;
    }
    *id = value;
    return p;
}

/* A number: [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static const char *ratings_take_number(const char *p) {
    p += *p == '-' || *p == '+';
    size_t digits = 0;
    for (; ratings_is_digit(*p); p++) {
        digits++;
    }
    if (*p == '.') {
        for (p++; ratings_is_digit(*p); p++) {
            digits++;
        }
    }
    if (digits == 0) {
        return NULL;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        if (!ratings_is_digit(*p)) {
            return NULL;
        }
        while (ratings_is_digit(*p)) {
            p++;
        }
    }
    return p;
}

/* A value of any form, by the C library. That needs a terminated copy, and the C locale whatever the process has
 * set. */
static const char *ratings_take_any_value(const char *p, locale_t c_locale, float *value) {
    const char *end = ratings_take_number(p);
    if (end == NULL || end - p > RATINGS_LINE_MAX) {
        return NULL;
    }
    char copy[RATINGS_LINE_MAX + 1];
    size_t length = (size_t)(end - p);
    memcpy(copy, p, length);
    copy[length] = '\0';
    *value = strtof_l(copy, NULL, c_locale);
    return isfinite(*value) ? end : NULL;
}

/* A value of the common form, such as 3 and -4.25. Digits that make an integer up to 2^24 are exact in a float, and so
 * is the power of ten; so the one division rounds as strtof does. */
static inline const char *ratings_take_value(const char *p, locale_t c_locale, float *value) {
    static const float power_of_ten[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F};
    const char *start = p;
    p += *p == '-';
    const char *digits = p;
    uint32_t integer = 0;
    while (ratings_is_digit(*p)) {
        integer = integer * 10 + (uint32_t)(*p++ - '0');
    }
    ptrdiff_t digit_count = p - digits;
    ptrdiff_t decimals = 0;
    if (*p == '.') {
        const char *point = p++;
        while (ratings_is_digit(*p)) {
            integer = integer * 10 + (uint32_t)(*p++ - '0');
        }
        decimals = p - point - 1;
        digit_count += decimals;
    }
    /* Nine digits fit in `integer`; with more it has overflowed. */
    if (digit_count < 1 || digit_count > 9 || integer > 1U << 24 || *p == 'e' || *p == 'E') {
        return ratings_take_any_value(start, c_locale, value);
    }
    float magnitude = (float)integer / power_of_ten[decimals];
    *value = *start == '-' ? -magnitude : magnitude;
    return p;
}

/* Parses a line of the usual form: without quotes, and with blanks at its end alone. Returns its end (at the CR or LF),
 * or NULL for any other line, for which ratings_take_fields decides. */
static inline const char *ratings_take_line(const char *p, struct ratings_rules rules, struct rating *rating) {
    bool blanks = rules.layout.separator == TEXT_BLANKS;
    p = blanks ? text_skip_blanks(p) : p;
    if ((p = ratings_take_id(p, &rating->user)) == NULL || (p = ratings_take_separator(p, rules)) == NULL ||
        (p = ratings_take_id(p, &rating->item)) == NULL) {
        return NULL;
    }
    if (rules.layout.unrated) {
        rating->value = NAN;
        return text_is_line_end(*p) ? p : NULL;
    }
    if ((p = ratings_take_separator(p, rules)) == NULL ||
        (p = ratings_take_value(p, rules.c_locale, &rating->value)) == NULL) {
        return NULL;
    }
    if (text_is_line_end(*p)) {
        return p;
    }
    const char *time = ratings_take_separator(p, rules);
    if (time != NULL && !(blanks && text_is_line_end(*time))) {
        for (p = time; ratings_is_digit(*p); p++) {
        }
        if (p > time && text_is_line_end(*p)) { /* whole seconds, as most times are */
            return p;
        }
        p = ratings_take_number(time);
    }
    while (p != NULL && *p == ' ') {
        p++;
    }
    return p != NULL && text_is_line_end(*p) ? p : NULL;
}

static const char *ratings_find_line_end(const char *line) {
    while (!text_is_line_end(*line)) {
        line++;
    }
    return line;
}

/* Parses field `number` (0: the user, ... 3: the time) of a line. */
static bool ratings_take_field(unsigned number, const struct text_field *field, locale_t c_locale,
                               struct rating *rating) {
    const char *end = NULL;
    switch (number) {
    case RATINGS_BAD_USER:
        end = ratings_take_id(field->text, &rating->user);
        break;
    case RATINGS_BAD_ITEM:
        end = ratings_take_id(field->text, &rating->item);
        break;
    case RATINGS_BAD_RATING:
        end = ratings_take_value(field->text, c_locale, &rating->value);
        break;
    case RATINGS_BAD_TIME:
        end = ratings_take_number(field->text);
        break;
    default:
        break;
    }
    return end == field->text + field->length;
}

/* Parses any line by the rules of text_fields.h. False when it does not fit; then sets *fault. The fault names a field
 * only when the number of fields is right, otherwise the line. */
static bool ratings_take_fields(const char *line, const char *line_end, struct ratings_rules rules,
                                struct rating *rating, struct ratings_fault *fault) {
    struct text_field field = {.next = line};
    unsigned count = 0;
    bool fits = true;
    rating->value = NAN;
    for (; field.next != NULL; count++) {
        if (!text_field_take(field.next, line_end, rules.layout.separator, &field)) {
            *fault = (struct ratings_fault){RATINGS_BAD_QUOTES, field.text, field.length};
            return false;
        }
        if (fits && count <= RATINGS_BAD_TIME && !ratings_take_field(count, &field, rules.c_locale, rating)) {
            *fault = (struct ratings_fault){(enum ratings_fault_reason)count, field.text, field.length};
            fits = false;
        }
    }
    if (rules.layout.unrated ? count != 2 : count != 3 && count != 4) {
        *fault = (struct ratings_fault){RATINGS_BAD_FIELDS, line, (size_t)(line_end - line)};
        return false;
    }
    return fits;
}

int ratings_parse(const char *text, size_t size, struct ratings_layout layout, struct rating *ratings,
                  struct ratings_parsed *parsed) {
    assert(size == 0 || text_is_line_end(text[size - 1]));
    *parsed = (struct ratings_parsed){0};
    const struct ratings_rules rules = {.layout = layout,
                                        .separator = ratings_single_separator(layout.separator),
                                        .c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (rules.c_locale == (locale_t)0) {
        return AML_ENOMEM;
    }
    int code = 0;
    size_t count = 0;
    uint64_t lines = 0;
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        lines++;
        struct rating rating;
        const char *line_end = ratings_take_line(line, rules, &rating);
        if (line_end != NULL && line_end - line <= RATINGS_LINE_MAX) {
            ratings[count++] = rating;
        } else {
            line_end = ratings_find_line_end(line);
            if (line_end - line > RATINGS_LINE_MAX) {
                parsed->fault = (struct ratings_fault){RATINGS_BAD_LENGTH, line, (size_t)(line_end - line)};
                code = AML_EINPUT;
                break;
            }
            if (text_skip_blanks(line) < line_end) {
                if (!ratings_take_fields(line, line_end, rules, &rating, &parsed->fault)) {
                    code = AML_EINPUT;
                    break;
                }
                ratings[count++] = rating;
            }
        }
        line = text_next_line(line_end);
    }
    freelocale(rules.c_locale);
    parsed->count = count;
    parsed->lines = lines;
    return code;
}

struct ratings_layout ratings_detect(const char *text, size_t size, bool allow_unrated) {
    struct ratings_layout layout = {TEXT_UNKNOWN, false};
    const char *end = text + size;
    for (const char *line = text; line < end; line = text_next_line(ratings_find_line_end(line))) {
        const char *line_end = ratings_find_line_end(line);
        if (text_skip_blanks(line) < line_end) {
            struct text_field field = {.next = line};
            unsigned fields = 0;
            layout.separator = text_separator_of(line, line_end);
            while (field.next != NULL && fields <= 2 &&
                   text_field_take(field.next, line_end, layout.separator, &field)) {
                fields++;
            }
            layout.unrated = allow_unrated && fields == 2;
            break;
        }
    }
    return layout;
}

/* The size of the header line at the start of a file, with its end; 0 when there is none. */
static size_t ratings_header(const char *text) {
    const char *line_end = ratings_find_line_end(text);
    const char *p = text_skip_blanks(text);
    p += *p == '"';
    bool empty = p >= line_end;
    p += *p == '-' || *p == '+';
    p += *p == '.';
    if (empty || ratings_is_digit(*p) || line_end - text > RATINGS_LINE_MAX) {
        return 0;
    }
    return (size_t)(text_next_line(line_end) - text);
}

/* ---- The ring of chunks between the calling thread and the parsers. ---- */

/* A piece of the file. The calling thread uses it from when it is retired until it is published; then a parser uses it
 * until `done`, which the mutex guards. */
struct ratings_chunk {
    char *text; /* RATINGS_CHUNK_BYTES */
    size_t start, size;
    struct ratings_layout layout;
    bool done;
    int code;     /* 0, or the code of the failure in this chunk */
    bool by_sink; /* `code` is the sink's result */
    struct ratings_parsed parsed;
};

struct ratings_parser {
    struct ratings_ring *ring;
    unsigned index;
    pthread_t thread;
    struct rating *ratings; /* RATINGS_CHUNK_BYTES / RATINGS_LINE_MIN */
};

/* Chunk n is in chunks[n % chunk_count]; retired <= claimed <= published <= retired + chunk_count. */
struct ratings_ring {
    ratings_sink *sink;
    void *context;
    struct ratings_chunk *chunks;
    unsigned chunk_count;
    struct ratings_parser *parsers;
    unsigned parser_count; /* started */

    /* Used by the calling thread alone. */
    uint64_t retired;      /* chunks that are done and counted below */
    uint64_t lines;        /* lines before the first chunk that is not retired */
    uint64_t rating_count; /* ratings before it */

    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t work;   /* wakes parsers: published, closed or failed has changed */
    pthread_cond_t room;   /* wakes the calling thread: a chunk is done */
    uint64_t published, claimed;
    bool closed; /* no more chunks will be published */
    bool failed; /* a chunk has failed: claim no more. All chunks before it are claimed and will be done. */
};

static void ratings_parser_run(const struct ratings_parser *parser, uint64_t number, struct ratings_chunk *chunk) {
    chunk->code = ratings_parse(chunk->text + chunk->start, chunk->size - chunk->start, chunk->layout, parser->ratings,
                                &chunk->parsed);
    if (chunk->code == 0) {
        const struct ratings_ring *ring = parser->ring;
        chunk->code = ring->sink(ring->context, parser->index, number, parser->ratings, chunk->parsed.count);
        chunk->by_sink = chunk->code != 0;
    }
}

static void *ratings_parser_main(void *argument) {
    struct ratings_parser *parser = argument;
    struct ratings_ring *ring = parser->ring;
    crash_thread_begin(); /* the sink calls the app in this thread */
    pthread_mutex_lock(&ring->mutex);
    for (;;) {
        while (ring->claimed == ring->published && !ring->closed && !ring->failed) {
            pthread_cond_wait(&ring->work, &ring->mutex);
        }
        if (ring->failed || ring->claimed == ring->published) {
            break;
        }
        uint64_t number = ring->claimed++;
        struct ratings_chunk *chunk = &ring->chunks[number % ring->chunk_count];
        pthread_mutex_unlock(&ring->mutex);
        ratings_parser_run(parser, number, chunk);
        pthread_mutex_lock(&ring->mutex);
        chunk->done = true;
        ring->failed = ring->failed || chunk->code != 0;
        pthread_cond_signal(&ring->room);
    }
    pthread_mutex_unlock(&ring->mutex);
    crash_thread_end();
    return NULL;
}

/* Ends the parser threads when they have done all published chunks, or, after a failure, the claimed ones. */
static void ratings_ring_join(struct ratings_ring *ring) {
    pthread_mutex_lock(&ring->mutex);
    ring->closed = true;
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->mutex);
    for (unsigned i = 0; i < ring->parser_count; i++) {
        pthread_join(ring->parsers[i].thread, NULL);
    }
}

static void ratings_ring_close(struct ratings_ring *ring) {
    for (unsigned i = 0; ring->chunks != NULL && i < ring->chunk_count; i++) {
        free(ring->chunks[i].text);
    }
    free(ring->chunks);
    for (unsigned i = 0; ring->parsers != NULL && i < ring->parser_count; i++) {
        free(ring->parsers[i].ratings);
    }
    free(ring->parsers);
    pthread_cond_destroy(&ring->work);
    pthread_cond_destroy(&ring->room);
    pthread_mutex_destroy(&ring->mutex);
}

static int ratings_ring_start_parser(struct ratings_ring *ring, unsigned index, struct error *error) {
    struct ratings_parser *parser = &ring->parsers[index];
    parser->ring = ring;
    parser->index = index;
    parser->ratings = malloc(RATINGS_CHUNK_BYTES / RATINGS_LINE_MIN * sizeof *parser->ratings);
    if (parser->ratings == NULL) {
        return error_set(error, AML_ENOMEM, "out of memory for a parser thread");
    }
    int status = pthread_create(&parser->thread, NULL, ratings_parser_main, parser);
    if (status != 0) {
        free(parser->ratings);
        return error_set(error, AML_EFAIL, "cannot start a parser thread: %s", strerror(status));
    }
    ring->parser_count++;
    return 0;
}

static int ratings_ring_open(struct ratings_ring *ring, unsigned threads, ratings_sink *sink, void *context,
                             struct error *error) {
    *ring = (struct ratings_ring){.sink = sink, .context = context};
    pthread_mutex_init(&ring->mutex, NULL);
    pthread_cond_init(&ring->work, NULL);
    pthread_cond_init(&ring->room, NULL);
    ring->chunk_count = threads * RATINGS_CHUNKS_PER_THREAD + 1;
    ring->chunks = calloc(ring->chunk_count, sizeof *ring->chunks);
    ring->parsers = calloc(threads, sizeof *ring->parsers);
    bool complete = ring->chunks != NULL && ring->parsers != NULL;
    for (unsigned i = 0; complete && i < ring->chunk_count; i++) {
        ring->chunks[i].text = malloc(RATINGS_CHUNK_BYTES);
        complete = ring->chunks[i].text != NULL;
    }
    int code = complete ? 0 : error_set(error, AML_ENOMEM, "out of memory for reading ratings");
    for (unsigned i = 0; code == 0 && i < threads; i++) {
        code = ratings_ring_start_parser(ring, i, error);
    }
    if (code != 0) {
        ratings_ring_join(ring);
        ratings_ring_close(ring);
    }
    return code;
}

/* Waits until there is room for the next chunk, and retires the chunk that it replaces. NULL: a chunk has failed. */
static struct ratings_chunk *ratings_ring_next(struct ratings_ring *ring) {
    struct ratings_chunk *chunk = &ring->chunks[ring->published % ring->chunk_count];
    bool replaces = ring->published >= ring->chunk_count;
    pthread_mutex_lock(&ring->mutex);
    while (replaces && !chunk->done && !ring->failed) {
        pthread_cond_wait(&ring->room, &ring->mutex);
    }
    bool failed = ring->failed;
    pthread_mutex_unlock(&ring->mutex);
    if (failed) {
        return NULL;
    }
    if (replaces) {
        ring->lines += chunk->parsed.lines;
        ring->rating_count += chunk->parsed.count;
        ring->retired++;
    }
    return chunk;
}

static void ratings_ring_publish(struct ratings_ring *ring, struct ratings_chunk *chunk) {
    pthread_mutex_lock(&ring->mutex);
    chunk->done = false;
    ring->published++;
    pthread_cond_signal(&ring->work);
    pthread_mutex_unlock(&ring->mutex);
}

/* Retires the remaining chunks, after the join, up to the first that failed. Returns the failed chunk, or NULL. */
static const struct ratings_chunk *ratings_ring_drain(struct ratings_ring *ring) {
    for (; ring->retired < ring->claimed; ring->retired++) {
        const struct ratings_chunk *chunk = &ring->chunks[ring->retired % ring->chunk_count];
        assert(chunk->done);
        if (chunk->code != 0) {
            return chunk;
        }
        ring->lines += chunk->parsed.lines;
        ring->rating_count += chunk->parsed.count;
    }
    return NULL;
}

/* ---- Reading. ---- */

/* How many bytes of text[size] are complete lines, if more text follows. */
static size_t ratings_whole_lines(const char *text, size_t size) {
    size -= size > 0 && text[size - 1] == '\r'; /* an LF may follow */
    const char *lf = memrchr(text, '\n', size);
    size_t whole = lf != NULL ? (size_t)(lf + 1 - text) : 0;
    const char *cr = memrchr(text + whole, '\r', size - whole);
    return cr != NULL ? (size_t)(cr + 1 - text) : whole;
}

/* Fills the ring from the input, until the input ends or fails or a chunk has failed. */
static int ratings_pump(struct ratings_ring *ring, struct text_input *input, bool allow_unrated, struct error *error) {
    char rest[RATINGS_LINE_MAX + 1]; /* the beginning of a line that the end of the last chunk has cut */
    size_t rest_size = 0;
    struct ratings_layout layout = {TEXT_UNKNOWN, false};
    for (bool last = false; !last;) {
        struct ratings_chunk *chunk = ratings_ring_next(ring);
        if (chunk == NULL) {
            break;
        }
        memcpy(chunk->text, rest, rest_size);
        size_t room = RATINGS_CHUNK_BYTES - rest_size - 2; /* 2: for an LF where the file lacks it, and the 0 behind */
        size_t got = 0;
        int code = text_input_read(input, chunk->text + rest_size, room, &got, error);
        if (code != 0) {
            return code;
        }
        chunk->start = 0;
        chunk->size = rest_size + got;
        last = got < room;
        if (chunk->size == 0) {
            break;
        }
        chunk->text[chunk->size] = '\0';
        size_t whole = last ? chunk->size : ratings_whole_lines(chunk->text, chunk->size);
        rest_size = chunk->size - whole;
        if (rest_size <= sizeof rest) {
            memcpy(rest, chunk->text + whole, rest_size);
            chunk->size = whole;
        } else {
            last = true; /* the line is too long: the parser will refuse it */
        }
        if (last && !text_is_line_end(chunk->text[chunk->size - 1])) {
            chunk->text[chunk->size++] = '\n';
            chunk->text[chunk->size] = '\0';
        }
        if (ring->published == 0) {
            chunk->start = ratings_header(chunk->text);
            ring->lines += chunk->start > 0;
        }
        if (layout.separator == TEXT_UNKNOWN) {
            layout = ratings_detect(chunk->text + chunk->start, chunk->size - chunk->start, allow_unrated);
        }
        chunk->layout = layout;
        ratings_ring_publish(ring, chunk);
    }
    return 0;
}

/* The expected form of a line, for a message. */
static const char *ratings_line_form(struct ratings_layout layout, bool allow_unrated) {
    return layout.unrated                                      ? "'user item', as in the first line,"
           : allow_unrated && layout.separator == TEXT_UNKNOWN ? "'user item [rating [time]]'"
                                                               : "'user item rating [time]'";
}

static int ratings_refuse_line(const char *name, uint64_t line, struct ratings_layout layout, bool allow_unrated,
                               const struct ratings_fault *fault, struct error *error) {
    static const char *const expected[] = {
        [RATINGS_BAD_USER] = "a user from 0 to 18446744073709551615",
        [RATINGS_BAD_ITEM] = "an item from 0 to 18446744073709551615",
        [RATINGS_BAD_RATING] = "a finite decimal number (float32) as rating",
        [RATINGS_BAD_TIME] = "a decimal number as time",
        [RATINGS_BAD_FIELDS] = "", /* ratings_line_form has the text */
        [RATINGS_BAD_QUOTES] = "a quoted field that ends on its line, then a separator",
        [RATINGS_BAD_LENGTH] = "a line of at most 4096 bytes",
    };
    static_assert(RATINGS_LINE_MAX == 4096, "the text above says so");
    bool fields = fault->reason == RATINGS_BAD_FIELDS;
    char shown[RATINGS_SHOWN_MAX + 1];
    size_t length = fault->length < RATINGS_SHOWN_MAX ? fault->length : RATINGS_SHOWN_MAX;
    for (size_t i = 0; i < length; i++) {
        char c = fault->text[i];
        shown[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    shown[length] = '\0';
    return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": expected %s%s%s%s, got '%s%s'", name, line,
                     expected[fault->reason], fields ? ratings_line_form(layout, allow_unrated) : "",
                     fields ? " separated by " : "", fields ? text_separator_name(layout.separator) : "", shown,
                     length < fault->length ? "..." : "");
}

int ratings_read(const char *path, bool allow_unrated, unsigned threads, ratings_sink *sink, void *context,
                 struct error *error) {
    if (threads < 1 || threads > RATINGS_THREADS_MAX) {
        return error_set(error, AML_ELIMIT, "expected 1 to %d parser threads, got %u", RATINGS_THREADS_MAX, threads);
    }
    const char *name = text_input_name(path);
    struct text_input *input = NULL;
    int code = text_input_open(&input, path, error);
    if (code != 0) {
        return code;
    }
    struct ratings_ring ring;
    code = ratings_ring_open(&ring, threads, sink, context, error);
    if (code == 0) {
        /* Separate from *error, since a bad line before the place where the input failed takes precedence. */
        struct error input_error = {0};
        int input_code = ratings_pump(&ring, input, allow_unrated, &input_error);
        ratings_ring_join(&ring);
        const struct ratings_chunk *bad = ratings_ring_drain(&ring);
        if (bad != NULL && bad->by_sink) {
            code = bad->code;
        } else if (bad != NULL && bad->code == AML_EINPUT) {
            code = ratings_refuse_line(name, ring.lines + bad->parsed.lines, bad->layout, allow_unrated,
                                       &bad->parsed.fault, error);
        } else if (bad != NULL) {
            code = error_set(error, bad->code, "%s: out of memory", name);
        } else if (input_code != 0) {
            code = error_set(error, input_code, "%s", input_error.text);
        } else if (ring.rating_count == 0) {
            code = error_set(error, AML_EINPUT, "%s: no ratings, expected lines of %s", name,
                             ratings_line_form((struct ratings_layout){TEXT_UNKNOWN, false}, allow_unrated));
        }
        ratings_ring_close(&ring);
    }
    text_input_close(input);
    return code;
}
