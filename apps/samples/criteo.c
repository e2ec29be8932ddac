/* See criteo.h. */
#include "apps/samples/criteo.h"

#include "agileml/base/text_fields.h"
#include "apps/samples/labels.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { DIGITS = 8 /* digits of a category */ };

/* ---- Names ---- */

int criteo_field(const char *text, size_t length) {
    int number = 0;
    if (length < 2 || length > 3 || text[1] == '0') {
        return -1;
    }
    for (size_t i = 1; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        number = number * 10 + (text[i] - '0');
    }
    if (*text == 'I') {
        return number <= CRITEO_INTEGERS ? number - 1 : -1;
    }
    return *text == 'C' && number <= CRITEO_CATEGORIES ? CRITEO_INTEGERS + number - 1 : -1;
}

void criteo_name(unsigned field, char *name) {
    bool integer = field < CRITEO_INTEGERS;
    snprintf(name, CRITEO_NAME_MAX, "%c%u", integer ? 'I' : 'C',
             (integer ? field : field - CRITEO_INTEGERS) % CRITEO_FIELDS + 1);
}

static bool is_word(const struct criteo_text *text, const char *word) {
    return text->length == strlen(word) && strncasecmp(text->text, word, text->length) == 0;
}

/* ---- Splitting ---- */

static int wrong_count(uint32_t expected, bool more, uint32_t count, struct error *error) {
    return error_set(error, AML_EINPUT, "expected %u fields%s, got %s%u", expected,
                     expected >= CRITEO_FIELDS + 1 ? " (a label, 13 integers and 26 categories)" : "",
                     more ? "more than " : "", count);
}

/* Splits a line with quotes or blanks by the rules of text_fields.h, in place. Returns the number of fields, or
 * CRITEO_COLUMNS_MAX + 1 when there are more. For bad quotes returns -1 and sets *bad to the field. */
static int split_slowly(char *line, size_t length, char separator, struct criteo_text *fields, struct text_field *bad) {
    enum text_separator kind = separator == ',' ? TEXT_COMMA : TEXT_TAB;
    struct text_field field = {.next = line};
    int count = 0;
    while (field.next != NULL && count <= CRITEO_COLUMNS_MAX) {
        if (!text_field_take(field.next, line + length, kind, &field)) {
            *bad = field;
            return -1;
        }
        if (count < CRITEO_COLUMNS_MAX) {
            char *to = line + (field.text - line);
            size_t copied = field.quoted ? text_field_copy(&field, to, field.length) : field.length;
            fields[count] = (struct criteo_text){.text = to, .length = (uint32_t)copied};
        }
        count++;
    }
    return count;
}

/* The state while a line is split. */
struct splitting {
    const char *line;
    struct criteo_text *fields; /* [CRITEO_COLUMNS_MAX] */
    int count;
    size_t begin; /* where the field that has not ended yet begins */
};

/* Ends the present field at `at`, the place of a separator or of the line's end. */
static inline void end_field(struct splitting *s, size_t at) {
    if (s->count < CRITEO_COLUMNS_MAX) {
        s->fields[s->count] = (struct criteo_text){.text = s->line + s->begin, .length = (uint32_t)(at - s->begin)};
    }
    s->count++;
    s->begin = at + 1;
}

#if defined(__SSE2__)
/* Ends fields at the separators in bytes[16], which are the line's bytes from `at` on. Returns false when they
 * contain a quote or a blank. */
static inline bool split_block(struct splitting *s, const char *bytes, size_t at, char separator, char blank) {
    __m128i block = _mm_loadu_si128((const __m128i *)(const void *)bytes);
    __m128i special =
        _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')), _mm_cmpeq_epi8(block, _mm_set1_epi8(' ')));
    special = _mm_or_si128(special, _mm_cmpeq_epi8(block, _mm_set1_epi8(blank)));
    unsigned mask = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8(separator)));
    for (; mask != 0; mask &= mask - 1) {
        end_field(s, at + (size_t)__builtin_ctz(mask));
    }
    return _mm_movemask_epi8(special) == 0;
}
#endif

/* Splits a line without quotes and blanks. Returns like split_slowly, or -1 when the line contains a quote or a
 * blank. */
static inline int split_plainly(const char *line, size_t length, char separator, struct criteo_text *fields) {
    struct splitting s = {.line = line, .fields = fields};
    char blank = separator == ',' ? '\t' : ' ';
    size_t at = 0;
#if defined(__SSE2__)
    for (; at + 16 <= length; at += 16) {
        if (!split_block(&s, line + at, at, separator, blank)) {
            return -1;
        }
    }
#endif
    for (; at < length; at++) {
        if (line[at] == '"' || line[at] == ' ' || (line[at] == blank && blank != separator)) {
            return -1;
        }
        if (line[at] == separator) {
            end_field(&s, at);
        }
    }
    end_field(&s, length);
    return s.count < CRITEO_COLUMNS_MAX ? s.count : s.count > CRITEO_COLUMNS_MAX ? CRITEO_COLUMNS_MAX + 1 : s.count;
}

/* Returns the number of fields, at most CRITEO_COLUMNS_MAX + 1; negative: AML_EINPUT. For `copy` see criteo_take. */
static inline int split(const char *line, size_t length, char separator, char *copy, struct criteo_text *fields,
                        struct error *error) {
    int count = split_plainly(line, length, separator, fields);
    if (count < 0) {
        struct text_field bad = {0};
        if (copy != line) {
            memcpy(copy, line, length);
        }
        count = split_slowly(copy, length, separator, fields, &bad);
        if (count < 0) {
            return error_set(error, AML_EINPUT,
                             "expected a quoted field that ends on its line, then a separator, got '%.*s'%s",
                             text_shown(bad.length), bad.text, text_shown_end(bad.length));
        }
    }
    return count;
}

/* ---- The first line ---- */

/* Sets the columns from a header, or reports what is missing or unknown in it. */
static int take_header(struct criteo_columns *columns, const struct criteo_text *names, struct error *error) {
    bool there[CRITEO_FIELDS] = {false};
    uint32_t fields = 0;
    for (uint32_t c = 0; c < columns->count; c++) {
        const struct criteo_text *name = &names[c];
        int field = criteo_field(name->text, name->length);
        bool label = is_word(name, "label") && !columns->labelled;
        if (field < 0 && !label && !is_word(name, "id")) {
            return error_set(error, AML_EINPUT, "expected a header of Id, label, I1 to I13 and C1 to C26, got '%.*s'",
                             text_shown(name->length), name->text);
        }
        if (field >= 0 && there[field]) {
            return error_set(error, AML_EINPUT, "expected each column once in the header, got '%.*s' twice",
                             (int)name->length, name->text);
        }
        if (field >= 0) {
            there[field] = true;
            fields++;
        }
        columns->labelled = columns->labelled || label;
        columns->field_of[c] = (signed char)(field >= 0 ? field : label ? CRITEO_LABEL : CRITEO_ID);
    }
    return fields == CRITEO_FIELDS
               ? 0
               : error_set(error, AML_EINPUT, "expected a header of all of I1 to I13 and C1 to C26, got %u of them",
                           fields);
}

/* Returns whether the fields begin like a header. */
static bool begins_header(const struct criteo_text *fields, int count) {
    for (int f = 0; f < count && f < 2; f++) {
        if (is_word(&fields[f], "id") || is_word(&fields[f], "label") ||
            (fields[f].length > 0 && criteo_field(fields[f].text, fields[f].length) >= 0)) {
            return true;
        }
    }
    return false;
}

static char separator_of(const char *line, size_t length) {
    return memchr(line, '\t', length) == NULL && memchr(line, ',', length) != NULL ? ',' : '\t';
}

int criteo_columns(struct criteo_columns *columns, char *line, size_t length, bool label_optional, bool *header,
                   struct error *error) {
    struct criteo_text fields[CRITEO_COLUMNS_MAX];
    *columns = (struct criteo_columns){.separator = separator_of(line, length)};
    int count = split(line, length, columns->separator, line, fields, error);
    if (count < 0) {
        return count;
    }
    *header = begins_header(fields, count);
    columns->count = (uint32_t)count;
    bool unlabelled = label_optional && count == CRITEO_FIELDS;
    if (*header && count <= CRITEO_COLUMNS_MAX) {
        int result = take_header(columns, fields, error);
        return result != 0 || columns->labelled || label_optional
                   ? result
                   : error_set(error, AML_EINPUT, "expected a column 'label' in the header");
    }
    if (count != CRITEO_FIELDS + 1 && !unlabelled) {
        return wrong_count(CRITEO_FIELDS + 1, count > CRITEO_COLUMNS_MAX,
                           (uint32_t)(count > CRITEO_COLUMNS_MAX ? CRITEO_COLUMNS_MAX : count), error);
    }
    columns->labelled = !unlabelled;
    for (int c = 0; c < count; c++) {
        columns->field_of[c] = (signed char)(unlabelled ? c : c - 1);
    }
    return 0;
}

static bool all_of(const struct criteo_text *text, const char *allowed) {
    for (uint32_t i = 0; i < text->length; i++) {
        if (strchr(allowed, text->text[i]) == NULL || text->text[i] == '\0') {
            return false;
        }
    }
    return true;
}

static bool looks_like_fields(const struct criteo_text *fields) {
    unsigned categories = 0;
    bool good = fields[0].length == 1 && all_of(&fields[0], "01");
    for (unsigned f = 1; f <= CRITEO_INTEGERS; f++) {
        good = good && all_of(&fields[f], "-.0123456789");
    }
    for (unsigned f = 1 + CRITEO_INTEGERS; f <= CRITEO_FIELDS; f++) {
        good =
            good && (fields[f].length == 0 || (fields[f].length == DIGITS && all_of(&fields[f], "0123456789abcdef")));
        categories += fields[f].length > 0;
    }
    return good && categories > 0;
}

bool criteo_recognized(char *line, size_t length) {
    struct criteo_text fields[CRITEO_COLUMNS_MAX];
    struct criteo_columns columns = {.separator = separator_of(line, length)};
    struct error error = {0};
    int count = split(line, length, columns.separator, line, fields, &error);
    if (count < CRITEO_FIELDS || count > CRITEO_COLUMNS_MAX) {
        return false;
    }
    columns.count = (uint32_t)count;
    return (count == CRITEO_FIELDS + 1 && looks_like_fields(fields)) ||
           (begins_header(fields, count) && take_header(&columns, fields, &error) == 0);
}

/* ---- Lines ---- */

static int take_label(const struct criteo_text *text, int *label, struct error *error) {
    if (label_is_missing(text->text, text->length)) {
        *label = CRITEO_NO_LABEL;
        return 0;
    }
    if (text->length != 1 || (*text->text != '0' && *text->text != '1')) {
        return error_set(error, AML_EINPUT, "expected a label 0 or 1, got '%.*s'", text_shown(text->length),
                         text->text);
    }
    *label = *text->text - '0';
    return 0;
}

int criteo_take(const struct criteo_columns *columns, const char *line, size_t length, char *copy,
                struct criteo_record *record, struct error *error) {
    struct criteo_text fields[CRITEO_COLUMNS_MAX];
    int count = split(line, length, columns->separator, copy, fields, error);
    if (count < 0) {
        return count;
    }
    if ((uint32_t)count != columns->count) {
        bool more = count > CRITEO_COLUMNS_MAX;
        return wrong_count(columns->count, more, (uint32_t)(more ? CRITEO_COLUMNS_MAX : count), error);
    }
    record->label = CRITEO_NO_LABEL;
    for (uint32_t c = 0; c < columns->count; c++) {
        int field = columns->field_of[c];
        if (field >= 0) {
            record->fields[field] = fields[c];
        } else if (field == CRITEO_LABEL) {
            int result = take_label(&fields[c], &record->label, error);
            if (result != 0) {
                return result;
            }
        }
    }
    return 0;
}
