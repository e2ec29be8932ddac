/* Reads a file of ratings, in chunks of lines (line_chunks.h). See ratings.h. */
#include "workers/ratings.h"

#include "workers/line_chunks.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
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

/* ---- Reading ---- */

/* What a parser has made of the chunk in a slot of the ring. */
struct ratings_outcome {
    struct ratings_parsed parsed;
    bool by_sink; /* the chunk's code is the sink's */
};

struct ratings_reading {
    const char *name;
    const struct splits *splits;
    struct split_part part;
    bool allow_unrated;
    ratings_sink *sink;
    void *context;
    struct rating **buffers; /* by thread: LINE_CHUNK_BYTES / RATINGS_LINE_MIN */
    struct ratings_outcome *outcomes;

    /* Used by the calling thread alone. */
    bool begun;     /* a chunk was looked at, so a header can't come any more */
    bool found;     /* a line with data was seen */
    uint64_t lines; /* lines of our part before the first chunk that is not retired */
    struct error *error;
};

static uint32_t ratings_note(struct ratings_layout layout) {
    return (uint32_t)layout.separator << 1 | layout.unrated;
}

static struct ratings_layout ratings_layout_of(uint32_t note) {
    return (struct ratings_layout){(enum text_separator)(note >> 1), (note & 1) != 0};
}

/* Finds the header and the layout (line_reading.head). */
static bool ratings_head(void *context, struct line_chunk *chunk) {
    struct ratings_reading *reading = context;
    chunk->skip = reading->begun ? 0 : ratings_header(chunk->text);
    reading->begun = true;
    struct ratings_layout layout =
        ratings_detect(chunk->text + chunk->skip, chunk->size - chunk->skip, reading->allow_unrated);
    chunk->note = ratings_note(layout);
    for (const char *p = chunk->text + chunk->skip; p < chunk->text + chunk->size && !reading->found; p++) {
        reading->found = !text_is_blank(*p) && !text_is_line_end(*p);
    }
    return layout.separator != TEXT_UNKNOWN;
}

static int ratings_take_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct ratings_reading *reading = context;
    struct ratings_outcome *outcome = &reading->outcomes[chunk->slot];
    struct rating *ratings = reading->buffers[thread];
    outcome->by_sink = false;
    int code = ratings_parse(chunk->text + chunk->skip, chunk->size - chunk->skip, ratings_layout_of(chunk->note),
                             ratings, &outcome->parsed);
    if (code == 0) {
        code = reading->sink(reading->context, thread, chunk, ratings, outcome->parsed.count);
        outcome->by_sink = code != 0;
    }
    return code;
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

/* The lines before the part. */
static uint64_t ratings_lines_before(const struct ratings_reading *reading) {
    struct error error;
    uint64_t lines = 0;
    if (reading->part.first > 0) {
        (void)line_chunks_count(reading->splits, reading->part.first, 0, &lines, &error);
    }
    return lines;
}

static void ratings_retire(void *context, const struct line_chunk *chunk, int code) {
    struct ratings_reading *reading = context;
    const struct ratings_outcome *outcome = &reading->outcomes[chunk->slot];
    reading->lines += outcome->parsed.lines + (chunk->skip > 0);
    if (code == 0 || outcome->by_sink) {
        return;
    }
    if (code == AML_EINPUT) {
        ratings_refuse_line(reading->name, ratings_lines_before(reading) + reading->lines,
                            ratings_layout_of(chunk->note), reading->allow_unrated, &outcome->parsed.fault,
                            reading->error);
    } else {
        error_set(reading->error, code, "%s: out of memory", reading->name);
    }
}

static void ratings_close(struct ratings_reading *reading, unsigned threads) {
    for (unsigned t = 0; reading->buffers != NULL && t < threads; t++) {
        free(reading->buffers[t]);
    }
    free(reading->buffers);
    free(reading->outcomes);
}

static int ratings_open(struct ratings_reading *reading, unsigned threads, struct error *error) {
    reading->buffers = calloc(threads, sizeof *reading->buffers);
    reading->outcomes = calloc(line_chunk_slots(threads), sizeof *reading->outcomes);
    bool complete = reading->buffers != NULL && reading->outcomes != NULL;
    for (unsigned t = 0; complete && t < threads; t++) {
        reading->buffers[t] = malloc(LINE_CHUNK_BYTES / RATINGS_LINE_MIN * sizeof **reading->buffers);
        complete = reading->buffers[t] != NULL;
    }
    return complete ? 0 : error_set(error, AML_ENOMEM, "%s: out of memory", reading->name);
}

int ratings_read_part(const struct splits *splits, struct split_part part, bool allow_unrated, unsigned threads,
                      ratings_sink *sink, void *context, struct error *error) {
    struct ratings_reading reading = {.name = text_input_name(splits->path),
                                      .splits = splits,
                                      .part = part,
                                      .allow_unrated = allow_unrated,
                                      .sink = sink,
                                      .context = context,
                                      .error = error};
    const struct line_reading lines = {.splits = splits,
                                       .part = part,
                                       .threads = threads,
                                       .line_max = RATINGS_LINE_MAX,
                                       .head = ratings_head,
                                       .sink = ratings_take_chunk,
                                       .retire = ratings_retire,
                                       .context = &reading};
    if (threads < 1 || threads > LINE_THREADS_MAX) {
        return error_set(error, AML_ELIMIT, "expected 1 to %d parser threads, got %u", LINE_THREADS_MAX, threads);
    }
    int code = ratings_open(&reading, threads, error);
    code = code != 0 ? code : line_chunks_read(&lines, error);
    if (code == 0 && !reading.found) {
        code = error_set(error, AML_EINPUT, "%s: no ratings, expected lines of %s", reading.name,
                         ratings_line_form((struct ratings_layout){TEXT_UNKNOWN, false}, allow_unrated));
    }
    ratings_close(&reading, threads);
    return code;
}

int ratings_read(const char *path, bool allow_unrated, unsigned threads, ratings_sink *sink, void *context,
                 struct error *error) {
    struct splits splits;
    int code = splits_make(&splits, path, error);
    if (code == 0) {
        code = ratings_read_part(&splits, splits_all(&splits), allow_unrated, threads, sink, context, error);
        splits_close(&splits);
    }
    return code;
}
