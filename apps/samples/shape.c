/* See shape.h. */
#include "apps/samples/shape.h"

#include <string.h>

static const char *skip_blanks(const char *p, const char *end) {
    while (p < end && text_is_blank(*p)) {
        p++;
    }
    return p;
}

static const char *skip_word(const char *p, const char *end) {
    while (p < end && !text_is_blank(*p)) {
        p++;
    }
    return p;
}

/* Returns the place after the last byte of [p, end) that is not a blank. */
static const char *trim(const char *p, const char *end) {
    while (end > p && text_is_blank(end[-1])) {
        end--;
    }
    return end;
}

/* ---- libsvm ---- */

/* Counts the colons. Sets *comment if there is a '#'. */
static uint64_t count_colons(const char *p, const char *end, bool *comment) {
    uint64_t colons = 0;
    unsigned hashes = 0;
    for (; p < end; p++) {
        colons += *p == ':';
        hashes |= *p == '#';
    }
    *comment = hashes != 0;
    return colons;
}

/* Takes the digits before the colon, which must begin at `from` or after a blank. */
static bool index_before(const char *from, const char *colon, uint64_t limit, uint32_t *index) {
    const char *p = colon;
    uint64_t value = 0;
    while (p > from && p[-1] >= '0' && p[-1] <= '9') {
        p--;
    }
    bool whole = p < colon && (p == from || text_is_blank(p[-1]));
    for (; p < colon && value < limit; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *index = (uint32_t)value;
    return whole && value < limit;
}

bool shape_libsvm(const char *line, const char *end, uint64_t limit, struct shape *shape) {
    bool comment;
    uint64_t pairs = count_colons(line, end, &comment);
    const char *label = skip_blanks(line, end);
    const char *behind = skip_word(label, end);
    size_t length = (size_t)(behind - label);
    const char *first = skip_blanks(behind, end);
    *shape = (struct shape){.label = label, .label_length = length, .values = (uint32_t)pairs};
    if (comment || length == 0 || pairs > limit || (pairs == 0) != (first == end) ||
        memchr(label, ',', length) != NULL || memchr(label, ':', length) != NULL) {
        return false;
    }
    if (pairs == 0) {
        return true;
    }
    /* The first pair's colon must be in the first field, the last pair's in the last field. */
    const char *colon = memchr(first, ':', (size_t)(end - first));
    const char *last = memrchr(first, ':', (size_t)(end - first));
    return colon < skip_word(first, end) && index_before(first, colon, limit, &shape->first) &&
           index_before(first, last, limit, &shape->last) && skip_word(last, end) == trim(last, end) &&
           shape->last >= shape->first && shape->last - shape->first >= pairs - 1;
}

/* ---- text and csv ---- */

/* Returns the beginning of field `column`, or NULL. */
static const char *find_field(const char *line, const char *end, char separator, uint32_t column, uint32_t columns) {
    if (column + 1 == columns) {
        const char *last = memrchr(line, separator, (size_t)(end - line));
        return last != NULL ? last + 1 : NULL;
    }
    for (const char *p = line; p != NULL; column--) {
        if (column == 0) {
            return p;
        }
        p = memchr(p, separator, (size_t)(end - p));
        p += p != NULL ? 1 : 0;
    }
    return NULL;
}

static const char *find_word(const char *line, const char *end, uint32_t column, uint32_t columns) {
    if (column + 1 == columns) {
        const char *p = trim(line, end);
        while (p > line && !text_is_blank(p[-1])) {
            p--;
        }
        return p;
    }
    const char *p = skip_blanks(line, end);
    for (; column > 0 && p < end; column--) {
        p = skip_blanks(skip_word(p, end), end);
    }
    return p < end ? p : NULL;
}

bool shape_columns(const char *line, const char *end, enum text_separator separator, uint32_t column, uint32_t columns,
                   struct shape *shape) {
    struct text_field field;
    if (memchr(line, '"', (size_t)(end - line)) != NULL || skip_blanks(line, end) == end) {
        return false;
    }
    const char *p = separator == TEXT_BLANKS ? find_word(line, end, column, columns)
                                             : find_field(line, end,
                                                          separator == TEXT_COMMA ? ','
                                                          : separator == TEXT_TAB ? '\t'
                                                                                  : ';',
                                                          column, columns);
    if (p == NULL || !text_field_take(p, end, separator, &field)) {
        return false;
    }
    *shape = (struct shape){.label = field.text, .label_length = field.length, .values = columns - 1};
    return true;
}
