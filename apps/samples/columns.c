/* See columns.h. */
#include "apps/samples/columns.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_columns.h"
#include "apps/samples/labels.h"
#include "apps/samples/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SHOWN_NAMES = 8,  /* names in a message */
    NUMBERED_MIN = 5, /* a first line with at least this many numbers 0, 1, 2 ... is a header */
    FEW_CLASSES = 20, /* most different numbers of a label in the first lines */
    MANY_LINES = 50,  /* with this many first lines, equal counts are no chance */
    NO_COLUMN = -1,
};

/* Normalized names (text_columns.h) of label columns. A name of the second list counts only if the first list has
 * none. */
static const char *const sure_names[] = {"label",      "labels",    "target",      "targets",  "class",
                                         "classlabel", "classname", "cls",         "classid",  "labelid",
                                         "outcome",    "response",  "targetclass", "category", NULL};
static const char *const likely_names[] = {"y",      "species", "variety", "diagnosis", "survived", "quality",
                                           "spam",   "fraud",   "isfraud", "churn",     "exited",   "default",
                                           "income", "digit",   "result",  "classes",   "yclass",   NULL};

enum kind { KIND_EMPTY, KIND_NUMBER, KIND_MISSING, KIND_WORD };

/* A table whose columns are being found. */
struct finding {
    const struct columns_wish *wish;
    struct columns *table;
    uint64_t *line;
    struct error *error;
    const struct columns_line *lines; /* [count] lines of data */
    size_t count;
    struct text_field *names; /* [named] fields of the header; NULL: there is none */
    uint32_t named;
    uint32_t offset; /* columns before the first name: 1 if unnamed row names come first */
    bool counts;     /* the first line is a header of counts, see is_counts */
};

/* ---- Fields ---- */

bool column_value(const char *text, size_t length, double *value) {
    if (length == 4 && strncasecmp(text, "true", 4) == 0) {
        *value = 1;
        return true;
    }
    if (length == 5 && strncasecmp(text, "false", 5) == 0) {
        *value = 0;
        return true;
    }
    return length > 0 && number_take(text, value) == text + length;
}

static enum kind kind_of(const struct text_field *field) {
    double value;
    return field->length == 0                                 ? KIND_EMPTY
           : column_value(field->text, field->length, &value) ? KIND_NUMBER
           : label_is_missing(field->text, field->length)     ? KIND_MISSING
                                                              : KIND_WORD;
}

/* Returns the number of fields; 0 for bad quotes. */
static uint32_t count_fields(const struct columns_line *line, enum text_separator separator) {
    return (uint32_t)text_fields_count(line->text, line->text + line->length, separator);
}

/* Returns the line's fields, which the caller frees, and sets *count. *count is 0 for bad quotes or too many fields. */
static struct text_field *split(const struct columns_line *line, enum text_separator separator, uint32_t *count) {
    *count = count_fields(line, separator);
    *count = *count <= COLUMNS_MAX ? *count : 0;
    struct text_field *fields = memory_zeroed((size_t)*count + 1, sizeof *fields);
    const char *next = line->text;
    for (uint32_t f = 0; f < *count; f++) {
        (void)text_field_take(next, line->text + line->length, separator, &fields[f]);
        next = fields[f].next;
    }
    return fields;
}

/* Takes field number `column` of a line. Returns false when the line has no such field. */
static bool take_field(const struct finding *f, const struct columns_line *line, uint32_t column,
                       struct text_field *field) {
    return text_field_at(line->text, line->text + line->length, f->table->separator, column, field);
}

/* Returns whether the lines have `columns` fields and the last field of every data line is empty. */
static bool ends_empty(const struct finding *f, uint32_t columns) {
    for (size_t l = 0; l < f->count; l++) {
        struct text_field last;
        if (count_fields(&f->lines[l], f->table->separator) != columns ||
            !take_field(f, &f->lines[l], columns - 1, &last) || last.length > 0 || last.quoted) {
            return false;
        }
    }
    return f->count > 0;
}

/* Returns whether all lines have the same number of fields, and more than one. */
static bool is_even(const struct columns_line lines[], size_t count, enum text_separator separator) {
    uint32_t fields = count_fields(&lines[0], separator);
    for (size_t l = 1; l < count; l++) {
        if (count_fields(&lines[l], separator) != fields) {
            return false;
        }
    }
    return fields > 1;
}

/* Tries blanks before tabs, as several tabs may stand between columns. */
static enum text_separator find_separator(const struct columns_wish *wish, const struct columns_line lines[],
                                          size_t count) {
    enum text_separator separator = text_separator_of(lines[0].text, lines[0].text + lines[0].length);
    if (wish->csv) {
        return separator == TEXT_SEMICOLON || separator == TEXT_TAB ? separator : TEXT_COMMA;
    }
    return !is_even(lines, count, TEXT_BLANKS) && is_even(lines, count, TEXT_TAB) ? TEXT_TAB : TEXT_BLANKS;
}

/* ---- Messages ---- */

__attribute__((format(printf, 3, 4))) static int refuse(const struct finding *f, uint64_t line, const char *format,
                                                        ...) {
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *f->line = line;
    return error_set(f->error, AML_EINPUT, "%s", text);
}

/* Appends to the note for the user. */
__attribute__((format(printf, 2, 3))) static void say(const struct finding *f, const char *format, ...) {
    char *said = f->table->said;
    size_t used = strlen(said);
    va_list arguments;
    if (used > 0 && used + 2 < COLUMNS_SAID_MAX) {
        memcpy(said + used, ", ", 3);
        used += 2;
    }
    va_start(arguments, format);
    vsnprintf(said + used, COLUMNS_SAID_MAX - used, format, arguments);
    va_end(arguments);
}

/* Writes the first column names to text[room]. */
static const char *list_names(const struct finding *f, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t n = 0; n < f->named && n < SHOWN_NAMES && used < room; n++) {
        used += (size_t)snprintf(text + used, room - used, "%s%.*s", n > 0 ? ", " : "", text_shown(f->names[n].length),
                                 f->names[n].text);
    }
    if (f->named > SHOWN_NAMES && used < room) {
        snprintf(text + used, room - used, ", ...");
    }
    return text;
}

/* ---- Names ---- */

/* Returns the header's field of a column; NULL: the column has no name. */
static const struct text_field *name_of(const struct finding *f, uint32_t column) {
    return column >= f->offset && column - f->offset < f->named ? &f->names[column - f->offset] : NULL;
}

static size_t copy_name(const struct text_field *field, char name[COLUMN_NAME_MAX + 1]) {
    size_t length = text_field_copy(field, name, COLUMN_NAME_MAX);
    length = length <= COLUMN_NAME_MAX ? length : COLUMN_NAME_MAX;
    name[length] = '\0';
    return length;
}

static char *new_name(const struct text_field *field) {
    char name[COLUMN_NAME_MAX + 1] = "";
    if (field != NULL) {
        copy_name(field, name);
    }
    return memory_string(name);
}

static bool is_called(const struct text_field *field, const char *name) {
    char own[COLUMN_NAME_MAX + 1];
    copy_name(field, own);
    return strcmp(own, name) == 0;
}

static bool is_among(const struct text_field *field, const char *const names[]) {
    char name[TEXT_COLUMN_NAME_MAX];
    if (text_column_normalize(field, name, sizeof name) == sizeof name) {
        return false;
    }
    for (size_t n = 0; names[n] != NULL; n++) {
        if (strcmp(names[n], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the field names a column of the training data. */
static bool is_known_feature(const struct finding *f, const struct text_field *field) {
    const struct column_names *names = f->wish->like != NULL ? &f->wish->like->names : NULL;
    for (uint32_t n = 0; names != NULL && n < names->count; n++) {
        if (is_called(field, names->features[n])) {
            return true;
        }
    }
    return false;
}

/* Returns the name that --label-column gives; NULL: it gives none, or a number. */
static const char *wished_name(const struct finding *f) {
    const char *wish = f->wish->label_column;
    char *end = NULL;
    if (wish != NULL) {
        (void)strtoll(wish, &end, 10);
    }
    return wish != NULL && (*wish == '\0' || *end != '\0') ? wish : NULL;
}

/* Returns the column with that name, or NO_COLUMN. */
static int64_t find_name(const struct finding *f, const char *name) {
    for (uint32_t n = 0; n < f->named; n++) {
        if (is_called(&f->names[n], name)) {
            return (int64_t)n + f->offset;
        }
    }
    return NO_COLUMN;
}

/* Whether the field is `y` beside a column `x`, so that both are coordinates. */
static bool is_coordinate(const struct finding *f, const struct text_field *field) {
    static const char *const x[] = {"x", NULL};
    static const char *const y[] = {"y", NULL};
    bool found = false;
    for (uint32_t n = 0; n < f->named && is_among(field, y) && !found; n++) {
        found = is_among(&f->names[n], x);
    }
    return found;
}

/* Sets *column to the column with a typical label name, or to NO_COLUMN. */
static int find_label_name(const struct finding *f, uint64_t header, int64_t *column) {
    const char *const *const lists[] = {sure_names, likely_names};
    *column = NO_COLUMN;
    for (size_t list = 0; list < 2 && *column == NO_COLUMN; list++) {
        for (uint32_t n = 0; n < f->named; n++) {
            const struct text_field *name = &f->names[n];
            if (!is_among(name, lists[list]) || is_known_feature(f, name) || is_coordinate(f, name)) {
                continue;
            }
            if (*column != NO_COLUMN) {
                const struct text_field *first = name_of(f, (uint32_t)*column);
                return refuse(f, header,
                              "columns %lld ('%.*s') and %u ('%.*s') could both be the label: choose one by "
                              "--label-column NAME",
                              (long long)*column + 1, text_shown(first->length), first->text, n + f->offset + 1,
                              text_shown(name->length), name->text);
            }
            *column = (int64_t)n + f->offset;
        }
    }
    return 0;
}

/* ---- The header ---- */

/* The kinds of fields in the first line. */
struct first_line {
    struct text_field *fields;
    uint32_t count, numbers, words, empty, missing;
    uint32_t word; /* the last field that is a word */
    bool quoted;   /* all fields are quoted */
    bool numbered; /* the line's numbers are 0, 1, 2 ... or 1, 2, 3 ... in order */
};

static struct first_line look_at(const struct columns_line *line, enum text_separator separator) {
    struct first_line first = {.quoted = true, .numbered = true};
    double next = -1;
    first.fields = split(line, separator, &first.count);
    for (uint32_t c = 0; c < first.count; c++) {
        const struct text_field *field = &first.fields[c];
        enum kind kind = kind_of(field);
        double value = 0;
        first.empty += kind == KIND_EMPTY;
        first.missing += kind == KIND_MISSING;
        first.numbers += kind == KIND_NUMBER;
        first.words += kind == KIND_WORD;
        first.word = kind == KIND_WORD ? c : first.word;
        first.quoted = first.quoted && field->quoted;
        if (kind == KIND_NUMBER && column_value(field->text, field->length, &value)) {
            bool begins = next < 0 && (value == 0 || value == 1);
            first.numbered = first.numbered && (begins || value == next);
            next = value + 1;
        }
    }
    return first;
}

/* Whether the line is a header of counts, as in tables that scikit-learn and TensorFlow provide: the number of
 * samples, the number of features, and the names of the classes. The label is then the last column. */
static bool is_counts(const struct first_line *first, uint32_t columns) {
    double counts[2] = {0};
    if (first->numbers != 2 || first->words < 2 || first->words + 2 != first->count) {
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (kind_of(&first->fields[i]) != KIND_NUMBER ||
            !column_value(first->fields[i].text, first->fields[i].length, &counts[i])) {
            return false;
        }
    }
    return counts[0] >= 1 && counts[1] == (double)columns - 1;
}

/* Whether the next line has numbers where the first line has words, except in the label. */
static bool next_has_numbers(const struct first_line *first, const struct columns_line *next,
                             enum text_separator separator, int64_t label) {
    uint32_t count;
    struct text_field *fields = split(next, separator, &count);
    uint32_t numbers = 0;
    uint32_t others = 0;
    for (uint32_t c = 0; c < first->count && c < count; c++) {
        if ((int64_t)c != label && kind_of(&first->fields[c]) == KIND_WORD) {
            bool number = kind_of(&fields[c]) == KIND_NUMBER;
            numbers += number;
            others += !number;
        }
    }
    free(fields);
    return numbers > 0 && others == 0;
}

/* Whether another line is numbered too, so that numbers don't show a header. */
static bool others_numbered(const struct columns_line lines[], size_t count, enum text_separator separator) {
    bool found = false;
    for (size_t l = 1; l < count && l < SHOWN_NAMES && !found; l++) {
        struct first_line line = look_at(&lines[l], separator);
        found = line.numbered && line.words == 0;
        free(line.fields);
    }
    return found;
}

/* Whether a first line without words is a header: quoted numbers, or the numbers that pandas gives to columns
 * without names. */
static bool numbers_are_names(const struct first_line *first, const struct columns_line lines[], size_t count,
                              enum text_separator separator) {
    if (first->quoted && count > 1) {
        struct first_line next = look_at(&lines[1], separator);
        bool plain = !next.quoted;
        free(next.fields);
        return plain;
    }
    double value = -1;
    bool index = first->empty == 1 && first->fields[0].length == 0;
    const struct text_field *begin = &first->fields[index ? 1 : 0];
    bool from_0 = first->count > 1 && column_value(begin->text, begin->length, &value) && value == 0;
    return from_0 && first->numbered && first->missing == 0 && (index || first->count >= NUMBERED_MIN) &&
           first->empty == (index ? 1U : 0U) && (index || !others_numbered(lines, count, separator));
}

/* Whether lines[0] is a header and not a sample. Returns 1 or 0; AML_EINPUT when it can't be either. */
static int is_header(const struct finding *f, const struct first_line *first, const struct columns_line lines[],
                     size_t count) {
    enum text_separator separator = f->table->separator;
    const char *wish = wished_name(f);
    int64_t label = NO_COLUMN;
    if (first->words == 0) {
        return numbers_are_names(first, lines, count, separator);
    }
    struct error ignored = {0};
    uint64_t line;
    struct finding names = *f;
    names.names = first->fields;
    names.named = first->count;
    names.error = &ignored;
    names.line = &line;
    int result = find_label_name(&names, 0, &label);
    bool named = wish != NULL && find_name(&names, wish) != NO_COLUMN;
    label = named ? find_name(&names, wish) : label;
    bool sure = named || (label != NO_COLUMN && is_among(&first->fields[label], sure_names));
    if (first->numbers == 0) {
        bool sample = first->missing > 0 && label == NO_COLUMN && result == 0;
        return !sample;
    }
    if (first->words == 1) { /* a header of numbers, or a sample whose label is a word */
        bool next = count > 1 && next_has_numbers(first, &lines[1], separator, NO_COLUMN);
        return label != NO_COLUMN && (sure || (first->numbered && next));
    }
    bool header = count < 2 || next_has_numbers(first, &lines[1], separator, label);
    if (label != NO_COLUMN || result != 0) {
        return header;
    }
    return header && count > 1
               ? refuse(f, lines[0].number,
                        "neither a header nor a sample: some fields are names ('%.*s'), others numbers; a header has "
                        "a name for each column",
                        text_shown(first->fields[first->word].length), first->fields[first->word].text)
               : 0;
}

/* Uses a comment before the first line, without its '#', as the header if it names the label and all columns. */
static void take_comment(struct finding *f, const struct columns_line *comment, uint32_t columns) {
    struct columns_line line = *comment;
    int64_t label = NO_COLUMN;
    struct error error = {0};
    struct finding names = *f;
    uint64_t number;
    while (line.length > 0 && (*line.text == '#' || text_is_blank(*line.text))) {
        line.text++;
        line.length--;
    }
    names.error = &error;
    names.line = &number;
    names.names = split(&line, f->table->separator, &names.named);
    if (names.named == columns && find_label_name(&names, 0, &label) == 0 && label != NO_COLUMN) {
        f->names = names.names;
        f->named = names.named;
        say(f, "line %llu is a header", (unsigned long long)comment->number);
    } else {
        free(names.names);
    }
}

/* Finds the header: sets f->names, and the data lines after it. */
static int find_header(struct finding *f, const struct columns_line lines[], size_t count,
                       const struct columns_line *comment) {
    struct first_line first = look_at(&lines[0], f->table->separator);
    uint32_t next = count > 1 ? count_fields(&lines[1], f->table->separator) : 0;
    f->counts = is_counts(&first, next);
    int header = f->counts ? 0 : is_header(f, &first, lines, count);
    bool sample = header == 0 && !f->counts;
    f->lines = sample ? lines : lines + 1;
    f->count = sample ? count : count - 1;
    f->table->first = sample ? lines[0].number : lines[0].number + 1;
    if (header == 1) {
        f->names = first.fields;
        f->named = first.count;
        say(f, "line %llu is a header", (unsigned long long)lines[0].number);
        return 0;
    }
    if (f->counts) {
        say(f, "line %llu counts samples and features and names the classes", (unsigned long long)lines[0].number);
    } else if (sample && comment != NULL) {
        take_comment(f, comment, first.count);
    }
    free(first.fields);
    return header < 0 ? header : 0;
}

/* ---- The columns ---- */

/* Whether a column's fields differ in all first lines: numbers, or with `names` words and whole numbers. */
static bool all_different(const struct finding *f, uint32_t column, bool names) {
    struct text_field fields[COLUMNS_LOOK_LINES];
    size_t count = f->count < COLUMNS_LOOK_LINES ? f->count : COLUMNS_LOOK_LINES;
    for (size_t l = 0; l < count; l++) {
        double value;
        if (!take_field(f, &f->lines[l], column, &fields[l])) {
            return false;
        }
        bool number = column_value(fields[l].text, fields[l].length, &value);
        if (names ? number && value != trunc(value) : !number) {
            return false;
        }
        for (size_t k = 0; k < l; k++) {
            if (fields[k].length == fields[l].length && memcmp(fields[k].text, fields[l].text, fields[l].length) == 0) {
                return false;
            }
        }
    }
    return count > 1 || names;
}

/* Sets the number of columns, which may exceed the number of names in the header. */
static void count_columns(struct finding *f, uint32_t first_fields) {
    struct columns *table = f->table;
    uint32_t data = f->count > 0 ? count_fields(&f->lines[0], table->separator) : 0;
    table->count = f->names != NULL ? f->named : data > 0 ? data : first_fields;
    if (f->names == NULL || data == 0 || data == f->named) {
        return;
    }
    if (data == f->named + 1 && (ends_empty(f, data) || all_different(f, 0, true))) {
        table->count = data; /* one more than names: a separator after the last value, or R's row names */
        f->offset = ends_empty(f, data) ? 0 : 1;
    } else if (data + 1 == f->named && f->names[data].length == 0) {
        table->count = f->named = data;
    }
}

/* Whether the column's name ends in "id" and its numbers count the lines. */
static bool counts_lines(const struct finding *f, uint32_t column, const struct text_field *name) {
    char normal[COLUMN_NAME_MAX + 1];
    size_t length = text_column_normalize(name, normal, sizeof normal);
    double before = 0;
    if (length < 2 || length >= sizeof normal || strcmp(normal + length - 2, "id") != 0 || f->count < NUMBERED_MIN) {
        return false;
    }
    for (size_t l = 0; l < f->count; l++) {
        struct text_field field;
        double value;
        if (!take_field(f, &f->lines[l], column, &field) || !column_value(field.text, field.length, &value) ||
            (l > 0 && value != before + 1)) {
            return false;
        }
        before = value;
    }
    return true;
}

/* Whether the column is a row index: by its name, or by a name such as `id` if its values differ. */
static bool is_index(const struct finding *f, uint32_t column) {
    static const char *const ids[] = {"id", "rowid", "rownames", "rownumber", "sampleid", NULL};
    const struct text_field *name = name_of(f, column);
    if (f->names == NULL) {
        return false;
    }
    if (name == NULL) {
        return column < f->offset;
    }
    return text_column_is_index(name, column) || (is_among(name, ids) && all_different(f, column, false)) ||
           counts_lines(f, column, name);
}

/* ---- The label ---- */

/* Returns the number of columns that are not empty. */
static uint32_t filled(const struct finding *f) {
    uint32_t count = 0;
    for (uint32_t c = 0; c < f->table->count; c++) {
        count += f->table->roles[c] != COLUMN_EMPTY && f->table->roles[c] != COLUMN_LEFT_OUT;
    }
    return count;
}

/* Returns the first column that is not empty. */
static int64_t first_filled(const struct finding *f) {
    int64_t column = 0;
    while (column + 1 < (int64_t)f->table->count && f->table->roles[column] == COLUMN_LEFT_OUT) {
        column++;
    }
    return column;
}

/* Returns the last column if only it has words and the first has fractions, so that only it can be the label. */
static int64_t last_word(const struct finding *f) {
    int64_t last = NO_COLUMN;
    for (uint32_t c = 0; c < f->table->count; c++) {
        last = f->table->roles[c] == 0 ? (int64_t)c : last;
    }
    int64_t first = first_filled(f);
    bool fraction = false;
    for (size_t l = 0; l < f->count; l++) {
        uint32_t count;
        struct text_field *fields = split(&f->lines[l], f->table->separator, &count);
        bool good = last > first && (int64_t)count > last && kind_of(&fields[last]) == KIND_WORD;
        for (int64_t c = first; c < last && good; c++) {
            good = f->table->roles[c] != 0 || kind_of(&fields[c]) == KIND_NUMBER;
        }
        fraction = fraction || (good && memchr(fields[first].text, '.', fields[first].length) != NULL);
        free(fields);
        if (!good) {
            return NO_COLUMN;
        }
    }
    return fraction ? last : NO_COLUMN;
}

/* The numbers of a column in the first lines. */
struct numbers {
    uint32_t different; /* how many different ones; 0: the column also has other fields */
    bool whole;         /* all numbers are whole */
    bool classes;       /* the numbers look like classes: two values, or values without a gap, each several times */
};

static struct numbers look_at_numbers(const struct finding *f, uint32_t column) {
    double values[COLUMNS_LOOK_LINES];
    uint32_t counts[COLUMNS_LOOK_LINES];
    double least = INFINITY;
    double most = -INFINITY;
    struct numbers numbers = {.whole = true};
    for (size_t l = 0; l < f->count && l < COLUMNS_LOOK_LINES; l++) {
        struct text_field field;
        double value = 0;
        if (!take_field(f, &f->lines[l], column, &field) || !column_value(field.text, field.length, &value)) {
            return (struct numbers){0};
        }
        uint32_t k = 0;
        while (k < numbers.different && values[k] != value) {
            k++;
        }
        if (k == numbers.different) {
            values[k] = value;
            counts[k] = 0;
            numbers.different++;
        }
        counts[k]++;
        least = fmin(least, value);
        most = fmax(most, value);
        numbers.whole = numbers.whole && value == trunc(value);
    }
    bool gaps = most - least + 1 != numbers.different;
    numbers.classes = numbers.whole && numbers.different >= 2 && numbers.different <= FEW_CLASSES &&
                      (numbers.different == 2 || !gaps);
    for (uint32_t k = 0; k < numbers.different; k++) {
        numbers.classes = numbers.classes && counts[k] >= 2;
    }
    return numbers;
}

/* Whether the last column may be the label, by its numbers and those of the first column. If these are few, the
 * first column may be the label too. */
static bool may_be_last(const struct numbers *begin, const struct numbers *end) {
    return begin->different > FEW_CLASSES ? end->whole && end->different >= 2 && end->different <= FEW_CLASSES
                                          : begin->different > 0 && end->classes;
}

/* Sets *column to the last column that is not empty, if its few whole numbers look like classes and the first
 * column, which has no name, has fractions. Rejects the table if both may be classes. */
static int last_number(const struct finding *f, int64_t *column) {
    int64_t first = first_filled(f);
    int64_t last = (int64_t)f->table->count - 1;
    while (last > first && f->table->roles[last] != 0) {
        last--;
    }
    *column = NO_COLUMN;
    if (last <= first + 1) {
        return 0;
    }
    struct numbers begin = look_at_numbers(f, (uint32_t)first);
    struct numbers end = look_at_numbers(f, (uint32_t)last);
    if (!may_be_last(&begin, &end)) {
        return 0;
    }
    if (!begin.whole && f->names != NULL) {
        return 0; /* a named quantity may be what the user wants to learn, which is rejected later */
    }
    if (begin.whole && f->count >= MANY_LINES) {
        return refuse(f, f->table->first,
                      "columns %lld and %lld could both be the label: the first lines have %u and %u different whole "
                      "numbers there; choose one by --label-column",
                      (long long)first + 1, (long long)last + 1, begin.different, end.different);
    }
    *column = begin.whole ? NO_COLUMN : last;
    return 0;
}

/* Takes the label column that --label-column names. */
static int wished_label(const struct finding *f, uint64_t header) {
    const char *wish = f->wish->label_column;
    struct columns *table = f->table;
    if (wished_name(f) == NULL) {
        long long place = strtoll(wish, NULL, 10);
        if (place == 0 || place > table->count || place < -(long long)table->count || table->count < 2) {
            return refuse(f, table->first, "expected a label in --label-column and features, got %u fields",
                          table->count);
        }
        table->label = place > 0 ? place - 1 : (int64_t)table->count + place;
        return table->roles[table->label] == COLUMN_EMPTY
                   ? refuse(f, table->first, "--label-column %s: that column is empty: a separator ends the lines",
                            wish)
                   : 0;
    }
    char names[ERROR_TEXT_MAX / 2];
    table->label = find_name(f, wish);
    if (table->label == NO_COLUMN) {
        return f->names == NULL ? refuse(f, header, "--label-column %s: expected a header with that name", wish)
                                : refuse(f, header, "--label-column %s: no such name in the header: %s", wish,
                                         list_names(f, names, sizeof names));
    }
    return 0;
}

/* Takes the label column by the header's names; NO_COLUMN: none. */
static int named_label(const struct finding *f, uint64_t header) {
    const struct columns *like = f->wish->like;
    f->table->label = like != NULL && like->names.label != NULL ? find_name(f, like->names.label) : NO_COLUMN;
    return f->table->label != NO_COLUMN ? 0 : find_label_name(f, header, &f->table->label);
}

/* Chooses the label by its place, or none. */
static int placed_label(const struct finding *f, uint64_t header) {
    struct columns *table = f->table;
    const struct columns_wish *wish = f->wish;
    uint32_t columns = filled(f);
    if (wish->label_optional && columns == wish->features) {
        return 0;
    }
    if (wish->label_optional && columns != wish->features + 1) {
        return refuse(f, table->first, "expected %u features, and perhaps a label, got %u fields", wish->features,
                      columns);
    }
    if (columns < 2) {
        return refuse(f, f->names != NULL ? header : table->first, "expected a label and features, got %u fields",
                      columns);
    }
    int64_t last = f->counts ? (int64_t)table->count - 1 : last_word(f);
    int result = last == NO_COLUMN ? last_number(f, &last) : 0;
    table->label = last != NO_COLUMN ? last : first_filled(f);
    table->placed = last == NO_COLUMN;
    return result;
}

/* Whether features are matched with the training data by name. */
static bool by_names(const struct finding *f) {
    return f->names != NULL && f->wish->like != NULL && f->wish->like->names.count > 0;
}

static int find_label(const struct finding *f, uint64_t header) {
    f->table->label = NO_COLUMN;
    const char *trained = f->wish->like != NULL ? f->wish->like->names.label : NULL;
    if (f->names != NULL && trained != NULL && find_name(f, trained) != NO_COLUMN) {
        f->table->label = find_name(f, trained); /* a number in --label-column refers to the training data */
        return 0;
    }
    if (f->wish->label_column != NULL) {
        return wished_label(f, header);
    }
    int result = f->names != NULL ? named_label(f, header) : 0;
    if (result != 0 || f->table->label != NO_COLUMN || (by_names(f) && f->wish->label_optional)) {
        return result;
    }
    char names[ERROR_TEXT_MAX / 2];
    return by_names(f) && trained != NULL
               ? refuse(f, header, "no column '%.*s', the label of the training data; the header has: %s",
                        TEXT_SHOWN_MAX, trained, list_names(f, names, sizeof names))
               : placed_label(f, header);
}

/* ---- Roles ---- */

/* A column's name, for sorting. */
struct named {
    char *name;
    uint32_t column;
};

static int named_order(const void *a, const void *b) {
    const struct named *left = a;
    const struct named *right = b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : left->column < right->column ? -1 : left->column > right->column;
}

/* Returns the sorted names of all columns, [columns], which the caller frees. *twice: a name that two columns share,
 * or NULL. */
static struct named *sort_names(const struct finding *f, const char **twice) {
    uint32_t columns = f->table->count;
    struct named *sorted = memory_zeroed(columns, sizeof *sorted);
    for (uint32_t c = 0; c < columns; c++) {
        sorted[c] = (struct named){.name = new_name(name_of(f, c)), .column = c};
    }
    qsort(sorted, columns, sizeof *sorted, named_order);
    *twice = NULL;
    for (uint32_t c = 1; c < columns && *twice == NULL; c++) {
        *twice = strcmp(sorted[c - 1].name, sorted[c].name) == 0 ? sorted[c].name : NULL;
    }
    return sorted;
}

static void free_names(struct named *sorted, uint32_t columns) {
    for (uint32_t c = 0; c < columns; c++) {
        free(sorted[c].name);
    }
    free(sorted);
}

static const struct named *find_sorted(const struct named *sorted, uint32_t columns, const char *name) {
    struct named key = {.name = (char *)(uintptr_t)name, .column = 0};
    uint32_t low = 0;
    uint32_t high = columns;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = named_order(&sorted[middle], &key) < 0;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low < columns && strcmp(sorted[low].name, name) == 0 ? &sorted[low] : NULL;
}

/* Notes which columns with values are ignored, as the training data does not have them. */
static void say_others(const struct finding *f) {
    uint32_t others = 0;
    uint32_t first = 0;
    for (uint32_t c = f->table->count; c > 0; c--) {
        bool label = (int64_t)c - 1 == f->table->label;
        if (f->table->roles[c - 1] == COLUMN_LEFT_OUT && !label && !is_index(f, c - 1)) {
            first = c - 1;
            others++;
        }
    }
    const struct text_field *name = name_of(f, first);
    if (others == 1 && name != NULL) {
        say(f, "column %u ('%.*s') is not in the training data and is left out", first + 1, text_shown(name->length),
            name->text);
    } else if (others > 1 && name != NULL) {
        say(f, "column %u ('%.*s') and %u others are not in the training data and are left out", first + 1,
            text_shown(name->length), name->text, others - 1);
    }
}

/* Assigns to each feature of the training data the column with its name. */
static int match_names(struct finding *f, uint64_t header) {
    struct columns *table = f->table;
    const struct column_names *wanted = &f->wish->like->names;
    const char *twice;
    struct named *sorted = sort_names(f, &twice);
    bool moved = false;
    int result = 0;
    for (uint32_t c = 0; c < table->count; c++) {
        table->roles[c] = table->roles[c] == COLUMN_EMPTY ? COLUMN_EMPTY : COLUMN_LEFT_OUT;
    }
    uint32_t before = 0;
    for (uint32_t n = 0; n < wanted->count && result == 0; n++) {
        const struct named *found = find_sorted(sorted, table->count, wanted->features[n]);
        bool again = found != NULL && twice != NULL && found + 1 < sorted + table->count &&
                     strcmp(found[1].name, found->name) == 0;
        if (found == NULL || (int64_t)found->column == table->label) {
            char names[ERROR_TEXT_MAX / 2];
            result = refuse(f, header, "no column '%.*s', a feature of the training data; the header has: %s",
                            TEXT_SHOWN_MAX, wanted->features[n], list_names(f, names, sizeof names));
        } else if (again) {
            result = refuse(f, header, "two columns named '%.*s'", TEXT_SHOWN_MAX, found->name);
        } else {
            table->roles[found->column] = (int32_t)n;
            moved = moved || found->column < before;
            before = found->column;
        }
    }
    table->features = wanted->count;
    free_names(sorted, table->count);
    if (moved) {
        say(f, "columns are put into the order of the training data");
    }
    if (result == 0) {
        say_others(f);
    }
    return result;
}

/* Numbers the features in the order of their columns. */
static void number_features(struct columns *table) {
    uint32_t features = 0;
    for (uint32_t c = 0; c < table->count; c++) {
        if ((int64_t)c != table->label && table->roles[c] != COLUMN_LEFT_OUT && table->roles[c] != COLUMN_EMPTY) {
            table->roles[c] = (int32_t)features++;
        }
    }
    table->features = features;
}

/* Keeps the header's names, unless two are equal. */
static void keep_names(struct finding *f) {
    struct columns *table = f->table;
    const char *twice;
    struct named *sorted = sort_names(f, &twice);
    table->names.label = table->label != NO_COLUMN ? new_name(name_of(f, (uint32_t)table->label)) : NULL;
    if (twice == NULL) {
        table->names.count = table->features;
        table->names.features = memory_zeroed((size_t)table->features + 1, sizeof *table->names.features);
        for (uint32_t c = 0; c < table->count; c++) {
            if (table->roles[c] >= 0) {
                table->names.features[table->roles[c]] = new_name(name_of(f, c));
            }
        }
    }
    free_names(sorted, table->count);
}

/* Whether the user or the training data needs a column of that name. */
static bool is_needed(const struct finding *f, const struct text_field *name) {
    const char *wish = wished_name(f);
    return name != NULL && (is_known_feature(f, name) || (wish != NULL && is_called(name, wish)));
}

/* Marks the columns that are never features: indexes, and an always empty last column. */
static void leave_out(struct finding *f) {
    struct columns *table = f->table;
    table->roles = memory_zeroed((size_t)table->count + 1, sizeof *table->roles);
    const struct text_field *last = table->count > 0 ? name_of(f, table->count - 1) : NULL;
    if (table->count > 1 && (last == NULL || last->length == 0) && ends_empty(f, table->count)) {
        table->roles[table->count - 1] = COLUMN_EMPTY;
        say(f, "the last column is empty");
    }
    for (uint32_t c = 0; c < table->count; c++) {
        const struct text_field *name = name_of(f, c);
        if (table->roles[c] == 0 && is_index(f, c) && !is_needed(f, name)) {
            table->roles[c] = COLUMN_LEFT_OUT;
            say(f, "column %u%s%.*s%s numbers the rows and is left out", c + 1, name != NULL ? " ('" : "",
                name != NULL ? text_shown(name->length) : 0, name != NULL ? name->text : "", name != NULL ? "')" : "");
        }
    }
}

static void say_label(const struct finding *f) {
    const struct columns *table = f->table;
    const struct text_field *name = table->label != NO_COLUMN ? name_of(f, (uint32_t)table->label) : NULL;
    if (name != NULL) {
        say(f, "the label is column %lld ('%.*s')", (long long)table->label + 1, text_shown(name->length), name->text);
    } else if (table->label != NO_COLUMN) {
        say(f, "the label is column %lld", (long long)table->label + 1);
    }
}

/* Whether the columns equal those of the training data, by place. */
static bool is_like(const struct finding *f) {
    const struct columns *like = f->wish->like;
    return like != NULL && like->roles != NULL && like->count == f->table->count && !by_names(f);
}

static int find_roles(struct finding *f, uint64_t header) {
    struct columns *table = f->table;
    if (is_like(f)) {
        table->roles = memory_zeroed((size_t)table->count + 1, sizeof *table->roles);
        memcpy(table->roles, f->wish->like->roles, table->count * sizeof *table->roles);
        table->label = f->wish->like->label;
        table->features = f->wish->like->features;
        return 0;
    }
    leave_out(f);
    int result = find_label(f, header);
    if (result != 0) {
        return result;
    }
    result = by_names(f) ? match_names(f, header) : 0;
    if (result == 0 && table->label != NO_COLUMN) {
        table->roles[table->label] = COLUMN_LABEL;
    }
    if (result == 0 && !by_names(f)) {
        number_features(table);
    }
    if (result == 0 && f->names != NULL) {
        keep_names(f);
    }
    say_label(f);
    return result;
}

int columns_find(const struct columns_wish *wish, const struct columns_line lines[], size_t count,
                 struct columns *table, uint64_t *line, struct error *error) {
    const struct columns_line *comment = NULL;
    *table = (struct columns){.label = NO_COLUMN};
    for (; count > 0 && *text_skip_blanks(lines->text) == '#'; count--) {
        comment = lines++;
    }
    if (count == 0) {
        return 0;
    }
    struct finding f = {.wish = wish, .table = table, .line = line, .error = error};
    table->separator = find_separator(wish, lines, count);
    uint32_t fields = count_fields(&lines[0], table->separator);
    int result = 0;
    if (fields == 0) {
        result = refuse(&f, lines[0].number, "expected quoted fields that end on their line, each before a separator");
    } else if (fields > COLUMNS_MAX) {
        result = refuse(&f, lines[0].number, "expected at most %d columns, got %u", COLUMNS_MAX, fields);
    }
    result = result == 0 ? find_header(&f, lines, count, comment) : result;
    if (result == 0) {
        count_columns(&f, fields);
        result = find_roles(&f, lines[0].number);
    }
    free(f.names);
    if (result != 0) {
        columns_close(table);
    }
    return result;
}

void column_names_close(struct column_names *names) {
    for (uint32_t n = 0; n < names->count; n++) {
        free(names->features[n]);
    }
    free(names->features);
    free(names->label);
    *names = (struct column_names){0};
}

void columns_close(struct columns *table) {
    column_names_close(&table->names);
    free(table->roles);
    *table = (struct columns){.label = NO_COLUMN};
}
