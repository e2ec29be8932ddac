/* Reads a file of ratings, in chunks of lines (line_chunks.h). See ratings.h. */
#include "workers/data/ratings.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_input.h"
#include "workers/data/line_chunks.h"
#include "workers/data/rating_ids.h"

#include <assert.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RATINGS_NUMBER_MAX = 4096, /* characters of a rating */
    RATINGS_SHOWN_MAX = 40     /* characters of a bad line in a message */
};

/* ---- Parsing. Text ends in a line's end, which stops every scan, as no field or separator contains one. ---- */

static inline bool ratings_is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Each ratings_take_... function parses at p what its name says. It returns the place after that, or NULL if p has
 * something else. */

/* The rules for parsing a line. */
struct ratings_rules {
    struct ratings_layout layout;
    char separator; /* 0 if the separator is not one character */
    bool plain;     /* the fields are user, item, rating and others, in this order */
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

/* A number without leading zeros; rating_id_key knows the other ids. */
static inline const char *ratings_take_id(const char *p, uint64_t *id) {
    if (!ratings_is_digit(*p) || (*p == '0' && ratings_is_digit(p[1]))) {
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

/* A value of any form, by the C library. That needs a terminated copy, and the C locale whatever the process has
 * set. */
static const char *ratings_take_any_value(const char *p, locale_t c_locale, float *value) {
    const char *end = rating_number_end(p);
    if (end == NULL || end - p > RATINGS_NUMBER_MAX) {
        return NULL;
    }
    char copy[RATINGS_NUMBER_MAX + 1];
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

/* Skips the fields after the rating; the first of them begins at p. Returns the line's end, or NULL when these fields
 * have to be looked at one by one. */
static inline const char *ratings_skip_fields(const char *p, struct ratings_rules rules) {
    const char *start = p;
    while (ratings_is_digit(*p)) {
        p++;
    }
    if (p > start && text_is_line_end(*p)) { /* whole seconds, as most times are */
        return p;
    }
    if (rules.separator == '\0') {
        return NULL;
    }
    size_t fields = RATING_ROLES + 1;
    for (; !text_is_line_end(*p); p++) {
        fields += *p == rules.separator;
        if (*p == '"') {
            return NULL;
        }
    }
    return fields <= rules.layout.columns ? p : NULL;
}

/* Parses a line of the usual form: without quotes, ids that are numbers, and blanks at its end alone. Returns its end
 * (at the CR or LF), or NULL for any other line, for which ratings_take_fields decides. */
static inline const char *ratings_take_line(const char *p, struct ratings_rules rules, struct rating *rating) {
    bool blanks = rules.layout.separator == TEXT_BLANKS;
    p = blanks ? text_skip_blanks(p) : p;
    if ((p = ratings_take_id(p, &rating->user)) == NULL || (p = ratings_take_separator(p, rules)) == NULL ||
        (p = ratings_take_id(p, &rating->item)) == NULL) {
        return NULL;
    }
    if (rules.layout.missing == RATINGS_TAKE_MISSING && text_is_line_end(*p)) {
        rating->value = NAN;
        return p;
    }
    if ((p = ratings_take_separator(p, rules)) == NULL ||
        (p = ratings_take_value(p, rules.c_locale, &rating->value)) == NULL) {
        return NULL;
    }
    if (text_is_line_end(*p)) {
        return p;
    }
    const char *rest = ratings_take_separator(p, rules);
    if (rest != NULL && !(blanks && text_is_line_end(*rest))) {
        return rules.layout.columns > RATING_ROLES ? ratings_skip_fields(rest, rules) : NULL;
    }
    while (*p == ' ') {
        p++;
    }
    return text_is_line_end(*p) ? p : NULL;
}

/* Takes a field that has a role. Returns false, and sets *reason, when it does not fit. */
static bool ratings_take_field(enum rating_role role, const struct text_field *field, struct ratings_rules rules,
                               struct rating *rating, enum ratings_fault_reason *reason) {
    *reason = (enum ratings_fault_reason)role;
    if (role != RATING_VALUE) {
        uint64_t most = role == RATING_USER ? rules.layout.users : rules.layout.items;
        uint64_t *key = role == RATING_USER ? &rating->user : &rating->item;
        return rating_id_key(field, key) && (!rules.layout.matrix || (*key >= 1 && *key <= most));
    }
    if (rating_is_missing(field)) {
        *reason = RATINGS_NO_RATING;
        return rules.layout.missing != RATINGS_REFUSE_MISSING;
    }
    return ratings_take_value(field->text, rules.c_locale, &rating->value) == field->text + field->length;
}

/* Whether a line with so many fields has all that it needs, and no more than it may have. */
static bool ratings_has_fields(const struct ratings_layout *layout, size_t fields, bool last_is_empty) {
    size_t least = 0;
    for (int r = 0; r < RATING_ROLES; r++) {
        bool needed = r != RATING_VALUE || layout->missing == RATINGS_REFUSE_MISSING;
        least = needed && (size_t)layout->places[r] >= least ? (size_t)layout->places[r] + 1 : least;
    }
    return fields >= least && fields <= layout->columns + (last_is_empty ? 1 : 0);
}

/* Takes a field between tabs that has no role. Ignores the rules for quotes, since texts may use quotes otherwise, say
 * for inches. */
static bool ratings_skip_quotes(const char *begin, const char *line_end, struct ratings_rules rules,
                                struct text_field *field) {
    const char *tab = memchr(begin, '\t', (size_t)(line_end - begin));
    const char *end = tab != NULL ? tab : line_end;
    if (rules.layout.separator != TEXT_TAB) {
        return false;
    }
    *field = (struct text_field){.text = begin, .length = (size_t)(end - begin), .next = tab != NULL ? tab + 1 : NULL};
    return true;
}

/* What a line was found to hold. */
enum ratings_line { RATINGS_LINE_BAD = 0, RATINGS_LINE_EMPTY, RATINGS_LINE_RATING };

/* Parses any line by the rules of text_fields.h. Sets *texts, and *fault when the line is bad. The fault names
 * a field only when the number of fields is right, otherwise the line. */
static enum ratings_line ratings_take_fields(const char *line, const char *line_end, struct ratings_rules rules,
                                             struct rating *rating, struct rating_texts *texts,
                                             struct ratings_fault *fault) {
    const int *places = rules.layout.places;
    struct text_field field = {.next = line};
    int count = 0;
    bool fits = true;
    bool empty = true;
    rating->value = NAN;
    for (; field.next != NULL; count++) {
        int role = count == places[RATING_USER]    ? RATING_USER
                   : count == places[RATING_ITEM]  ? RATING_ITEM
                   : count == places[RATING_VALUE] ? RATING_VALUE
                                                   : RATING_ROLES;
        const char *begin = field.next;
        if (!text_field_take(begin, line_end, rules.layout.separator, &field) &&
            (role < RATING_ROLES || !ratings_skip_quotes(begin, line_end, rules, &field))) {
            *fault = (struct ratings_fault){RATINGS_BAD_QUOTES, field.text, field.length};
            return RATINGS_LINE_BAD;
        }
        empty = empty && field.length == 0 && !field.quoted;
        if (role < RATING_VALUE) {
            *(role == RATING_USER ? &texts->user : &texts->item) = field;
        }
        enum ratings_fault_reason reason;
        if (fits && role < RATING_ROLES &&
            !ratings_take_field((enum rating_role)role, &field, rules, rating, &reason)) {
            *fault = (struct ratings_fault){reason, field.text, field.length};
            fits = false;
        }
    }
    if (empty && count > 1) {
        return RATINGS_LINE_EMPTY;
    }
    if (!ratings_has_fields(&rules.layout, (size_t)count, field.length == 0)) {
        *fault = (struct ratings_fault){RATINGS_BAD_FIELDS, line, (size_t)(line_end - line)};
        return RATINGS_LINE_BAD;
    }
    bool skipped = isnan(rating->value) && rules.layout.missing == RATINGS_SKIP_MISSING;
    return !fits ? RATINGS_LINE_BAD : skipped ? RATINGS_LINE_EMPTY : RATINGS_LINE_RATING;
}

static bool ratings_layout_is_plain(const struct ratings_layout *layout) {
    return layout->places[RATING_USER] == 0 && layout->places[RATING_ITEM] == 1 &&
           layout->places[RATING_VALUE] == RATING_VALUE;
}

/* The line's end when the line is of the usual form; otherwise NULL. */
static inline const char *ratings_take_usual(const char *line, struct ratings_rules rules, struct rating *rating) {
    const char *line_end = rules.plain ? ratings_take_line(line, rules, rating) : NULL;
    const struct ratings_layout *layout = &rules.layout;
    bool fits = line_end != NULL && line_end - line <= RATINGS_LINE_MAX &&
                (!layout->matrix || (rating->user >= 1 && rating->user <= layout->users && rating->item >= 1 &&
                                     rating->item <= layout->items));
    return fits ? line_end : NULL;
}

/* Parses a line that is not of the usual form. */
static enum ratings_line ratings_take_other(const char *line, const char *line_end, struct ratings_rules rules,
                                            struct rating *rating, struct rating_texts *texts,
                                            struct ratings_fault *fault) {
    if (line_end - line > RATINGS_LINE_MAX) {
        *fault = (struct ratings_fault){RATINGS_BAD_LENGTH, line, (size_t)(line_end - line)};
        return RATINGS_LINE_BAD;
    }
    return text_skip_blanks(line) >= line_end ? RATINGS_LINE_EMPTY
                                              : ratings_take_fields(line, line_end, rules, rating, texts, fault);
}

int ratings_parse(const char *text, size_t size, const struct ratings_layout *layout, struct rating *ratings,
                  struct rating_texts *texts, struct ratings_parsed *parsed) {
    assert(size == 0 || text_is_line_end(text[size - 1]));
    *parsed = (struct ratings_parsed){0};
    const struct ratings_rules rules = {.layout = *layout,
                                        .separator = ratings_single_separator(layout->separator),
                                        .plain = texts == NULL && ratings_layout_is_plain(layout),
                                        .c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (rules.c_locale == (locale_t)0) {
        return AML_ENOMEM;
    }
    int code = 0;
    size_t count = 0;
    uint64_t lines = 0;
    const char *end = text + size;
    for (const char *line = text; line < end && code == 0;) {
        lines++;
        struct rating rating;
        const char *line_end = ratings_take_usual(line, rules, &rating);
        if (line_end != NULL) {
            ratings[count++] = rating;
            line = text_next_line(line_end);
            continue;
        }
        struct rating_texts found_texts;
        line_end = text_find_line_end(line);
        enum ratings_line found = ratings_take_other(line, line_end, rules, &rating, &found_texts, &parsed->fault);
        if (found == RATINGS_LINE_RATING) {
            if (texts != NULL) {
                texts[count] = found_texts;
            }
            ratings[count++] = rating;
        }
        parsed->left_out += found == RATINGS_LINE_EMPTY && text_skip_blanks(line) < line_end;
        code = found == RATINGS_LINE_BAD ? AML_EINPUT : 0;
        line = text_next_line(line_end);
    }
    freelocale(rules.c_locale);
    parsed->count = count;
    parsed->lines = lines;
    return code;
}

/* ---- Reading ---- */

/* What a parser has made of the chunk in a slot of the ring. */
struct ratings_outcome {
    struct ratings_parsed parsed;
    bool by_sink; /* the chunk's code is the sink's */
};

/* A parser thread's memory. */
struct ratings_room {
    struct rating *ratings;
    struct rating_texts *texts; /* NULL without a text_sink */
    size_t capacity;
};

/* line_chunk.note: what is known of the file's head. */
enum { RATINGS_NOTE_BLANK = 0, RATINGS_NOTE_KNOWN, RATINGS_NOTE_REFUSED };

struct ratings_reading {
    const struct ratings_reader *reader;
    const char *name;
    const struct extents *extents;
    struct extent_range part;
    struct ratings_room *rooms; /* by thread */
    struct ratings_outcome *outcomes;

    /* Used by the calling thread alone; the layout by the parser threads, too, once it is known. */
    struct ratings_head head;
    uint64_t lines;  /* lines of our part before the first chunk that is not retired */
    uint64_t filled; /* lines of them that are not blank */
    struct error *error;
};

/* Finds the header and the layout (line_reading.head). */
static bool ratings_find_head(void *context, struct line_chunk *chunk) {
    struct ratings_reading *reading = context;
    struct ratings_head *head = &reading->head;
    chunk->skip = ratings_head_take(head, chunk->text, chunk->size);
    chunk->note = head->phase == RATINGS_KNOWN     ? RATINGS_NOTE_KNOWN
                  : head->phase == RATINGS_REFUSED ? RATINGS_NOTE_REFUSED
                                                   : RATINGS_NOTE_BLANK;
    if (head->phase == RATINGS_KNOWN && head->said[0] != '\0' && reading->reader->say != NULL) {
        reading->reader->say(reading->reader->context, head->said);
    }
    return head->phase >= RATINGS_KNOWN;
}

static void ratings_make_room(struct ratings_room *room, size_t size, bool texts) {
    size_t capacity = size / RATINGS_LINE_MIN + 1;
    if (capacity > room->capacity) {
        room->ratings = memory_resized(room->ratings, capacity, sizeof *room->ratings);
        room->texts = texts ? memory_resized(room->texts, capacity, sizeof *room->texts) : NULL;
        room->capacity = capacity;
    }
}

static int ratings_take_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct ratings_reading *reading = context;
    const struct ratings_reader *reader = reading->reader;
    struct ratings_outcome *outcome = &reading->outcomes[chunk->slot];
    struct ratings_room *room = &reading->rooms[thread];
    *outcome = (struct ratings_outcome){.by_sink = false};
    if (chunk->note == RATINGS_NOTE_REFUSED) {
        return AML_EINPUT;
    }
    int code = 0;
    if (chunk->note == RATINGS_NOTE_KNOWN) { /* before, the calling thread may be changing the layout */
        size_t size = chunk->size - chunk->skip;
        ratings_make_room(room, size, reader->text_sink != NULL);
        code = ratings_parse(chunk->text + chunk->skip, size, &reading->head.layout, room->ratings, room->texts,
                             &outcome->parsed);
    }
    if (code == 0) {
        size_t count = outcome->parsed.count;
        code = reader->text_sink != NULL ? reader->text_sink(reader->context, thread, room->ratings, room->texts, count)
                                         : reader->sink(reader->context, thread, chunk, room->ratings, count);
        outcome->by_sink = code != 0;
    }
    return code;
}

/* Copies the part of a text that a message shows. */
static void ratings_show(char shown[RATINGS_SHOWN_MAX + 4], const char *text, size_t length) {
    size_t count = length < RATINGS_SHOWN_MAX ? length : RATINGS_SHOWN_MAX;
    for (size_t i = 0; i < count; i++) {
        shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    memcpy(shown + count, count < length ? "..." : "", count < length ? 4 : 1);
}

/* Names the expected form of a line. */
static void ratings_line_form(const struct ratings_layout *layout, bool may_miss, char *to, size_t room) {
    if (layout->matrix || layout->header) {
        snprintf(to, room, "%zu fields%s, as in the %s,", layout->columns,
                 layout->columns > RATING_ROLES || may_miss ? " or fewer" : "",
                 layout->matrix ? "MatrixMarket format" : "first line");
        return;
    }
    snprintf(to, room, "'%s'", may_miss ? "user item [rating [time]]" : "user item rating [time]");
}

static int ratings_refuse_line(const struct ratings_reading *reading, uint64_t line,
                               const struct ratings_fault *fault) {
    static const char *const expected[] = {
        [RATINGS_BAD_USER] = "a user, which is a number or a text",
        [RATINGS_BAD_ITEM] = "an item, which is a number or a text",
        [RATINGS_BAD_RATING] = "a finite decimal number (float32) as rating",
        [RATINGS_NO_RATING] = "a rating",
        [RATINGS_BAD_FIELDS] = "", /* ratings_line_form has the text */
        [RATINGS_BAD_QUOTES] = "a quoted field that ends on its line, then a separator",
        [RATINGS_BAD_LENGTH] = "a line of at most 1048576 bytes",
    };
    static_assert(RATINGS_LINE_MAX == 1048576, "the text above says so");
    const struct ratings_options *options = &reading->reader->options;
    const struct ratings_layout *layout = &reading->head.layout;
    bool fields = fault->reason == RATINGS_BAD_FIELDS;
    char shown[RATINGS_SHOWN_MAX + 4];
    char form[128] = "";
    ratings_show(shown, fault->text, fault->length);
    if (fields) {
        ratings_line_form(layout, options->missing != RATINGS_REFUSE_MISSING, form, sizeof form);
    }
    const char *hint = fault->reason == RATINGS_NO_RATING && options->has_options
                           ? "; --missing-ratings skip leaves out such lines"
                       : fault->reason <= RATINGS_BAD_FIELDS && !layout->header && !layout->matrix &&
                               options->has_options && line == reading->head.lines + 1
                           ? "; --columns says which columns these are"
                           : "";
    if (layout->matrix && fault->reason <= RATINGS_BAD_ITEM) {
        bool user = fault->reason == RATINGS_BAD_USER;
        return error_set(reading->error, AML_EINPUT, "%s:%" PRIu64 ": expected a %s from 1 to %" PRIu64 ", got '%s'",
                         reading->name, line, user ? "row" : "column", user ? layout->users : layout->items, shown);
    }
    return error_set(reading->error, AML_EINPUT, "%s:%" PRIu64 ": expected %s%s%s%s, got '%s'%s", reading->name, line,
                     expected[fault->reason], form, fields ? " separated by " : "",
                     fields ? text_separator_name(layout->separator) : "", shown, hint);
}

/* The lines before the part. */
static uint64_t ratings_lines_before(const struct ratings_reading *reading) {
    struct error error;
    uint64_t lines = 0;
    if (reading->part.first > 0) {
        (void)line_chunks_count(reading->extents, reading->part.first, 0, &lines, &error);
    }
    return lines;
}

static int ratings_refuse_head(const struct ratings_reading *reading) {
    return error_set(reading->error, AML_EINPUT, "%s:%" PRIu64 ": %s", reading->name, reading->head.lines,
                     reading->head.refusal.text);
}

/* Adds the number of lines of text[size], and of those that are not blank. */
static void ratings_count(const char *text, size_t size, uint64_t *lines, uint64_t *filled) {
    for (const char *p = text; p < text + size; ++*lines) {
        const char *end = text_find_line_end(p);
        *filled += text_skip_blanks(p) < end;
        p = text_next_line(end);
    }
}

static void ratings_retire(void *context, const struct line_chunk *chunk, int code) {
    struct ratings_reading *reading = context;
    const struct ratings_outcome *outcome = &reading->outcomes[chunk->slot];
    if (code == AML_EINPUT && chunk->note == RATINGS_NOTE_REFUSED) {
        ratings_refuse_head(reading);
        return;
    }
    ratings_count(chunk->text, chunk->skip, &reading->lines, &reading->filled);
    reading->lines += outcome->parsed.lines;
    reading->filled += outcome->parsed.count + outcome->parsed.left_out;
    if (code == 0 || outcome->by_sink) {
        return;
    }
    if (code == AML_EINPUT) {
        ratings_refuse_line(reading, ratings_lines_before(reading) + reading->lines, &outcome->parsed.fault);
    } else {
        error_set(reading->error, code, "%s: out of memory", reading->name);
    }
}

static void ratings_close(struct ratings_reading *reading) {
    for (unsigned t = 0; t < reading->reader->threads; t++) {
        free(reading->rooms[t].ratings);
        free(reading->rooms[t].texts);
    }
    free(reading->rooms);
    free(reading->outcomes);
}

/* ---- MatrixMarket's number of entries ---- */

/* Counts the lines of a chunk that are not blank. There is one thread. */
static int ratings_count_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    uint64_t lines = 0;
    (void)thread;
    ratings_count(chunk->text, chunk->size, &lines, context);
    return 0;
}

/* Checks the number of a MatrixMarket file's entries, in the process that has read the file's last extent. */
static int ratings_check_entries(const struct ratings_reading *reading, struct error *error) {
    uint64_t before = 0;
    const struct line_reading lines = {.extents = reading->extents,
                                       .part = {.first = 0, .end = reading->part.first},
                                       .threads = 1,
                                       .line_max = RATINGS_LINE_MAX,
                                       .sink = ratings_count_chunk,
                                       .context = &before};
    int code = reading->part.first > 0 ? line_chunks_read(&lines, error) : 0;
    uint64_t entries = before + reading->filled - reading->head.filled;
    if (code == 0 && entries != reading->head.matrix.entries) {
        code = error_set(error, AML_EINPUT,
                         "%s: the MatrixMarket file is %s: it has %" PRIu64 " entries, and its size line says %" PRIu64,
                         reading->name, entries < reading->head.matrix.entries ? "truncated" : "too long", entries,
                         reading->head.matrix.entries);
    }
    return code;
}

/* Checks what can be known only at the end. */
static int ratings_check_end(const struct ratings_reading *reading, struct error *error) {
    const struct ratings_head *head = &reading->head;
    char form[128];
    if (head->phase == RATINGS_REFUSED) {
        return ratings_refuse_head(reading);
    }
    if (head->matrix.lines > 0 && head->phase == RATINGS_MATRIX) {
        return error_set(error, AML_EINPUT, "%s: MatrixMarket's size line 'rows columns entries' is missing",
                         reading->name);
    }
    if (head->phase != RATINGS_KNOWN) {
        const struct ratings_layout plain = {.separator = TEXT_UNKNOWN};
        ratings_line_form(&plain, reading->reader->options.missing != RATINGS_REFUSE_MISSING, form, sizeof form);
        return error_set(error, AML_EINPUT, "%s: no ratings, expected lines of %s", reading->name, form);
    }
    bool last = reading->part.first < reading->part.end && reading->part.end == reading->extents->count;
    return last && head->matrix.lines > 0 ? ratings_check_entries(reading, error) : 0;
}

int ratings_read_part(const struct ratings_reader *reader, const struct extents *extents, struct extent_range part,
                      struct error *error) {
    struct ratings_reading reading = {.reader = reader,
                                      .name = text_input_name(extents->path),
                                      .extents = extents,
                                      .part = part,
                                      .head = {.options = reader->options},
                                      .error = error};
    const struct line_reading lines = {.extents = extents,
                                       .part = part,
                                       .threads = reader->threads,
                                       .line_max = RATINGS_LINE_MAX,
                                       .head = ratings_find_head,
                                       .sink = ratings_take_chunk,
                                       .retire = ratings_retire,
                                       .context = &reading};
    if (reader->threads < 1 || reader->threads > LINE_THREADS_MAX) {
        return error_set(error, AML_ELIMIT, "expected 1 to %d parser threads, got %u", LINE_THREADS_MAX,
                         reader->threads);
    }
    reading.rooms = memory_zeroed(reader->threads, sizeof *reading.rooms);
    reading.outcomes = memory_zeroed(line_chunk_slots(reader->threads), sizeof *reading.outcomes);
    int code = line_chunks_read(&lines, error);
    code = code != 0 ? code : ratings_check_end(&reading, error);
    ratings_close(&reading);
    return code;
}

int ratings_read(const struct ratings_reader *reader, const char *path, struct error *error) {
    struct extents extents;
    int code = extents_make(&extents, path, 0, error);
    if (code == 0) {
        code = ratings_read_part(reader, &extents, extents_all(&extents), error);
        extents_close(&extents);
    }
    return code;
}
