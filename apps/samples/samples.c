/* See samples.h. */
#include "apps/samples/samples.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_foreign.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/estimate.h"
#include "agileml/input/source_text.h"
#include "apps/samples/number.h"
#include "apps/samples/shape.h"
#include "workers/data/line_chunks.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    IDX_BYTES = 8,  /* the code for unsigned bytes */
    IDX_WORDS = 12, /* the code for signed numbers of 4 bytes, most significant byte first */
    IDX_DIMENSIONS_MAX = 4,
    VALUES_START = 1024,
    INDEX_LINES = 4, /* this many lines of equal length, with ascending whole numbers, are taken for lines of indexes */
    INDEX_COUNT = 3,
    LOOK_BYTES = 1 << 16 /* bytes of a file's beginning that are examined; more if they don't contain two lines */
};

const char *const samples_formats[] = {"auto", "libsvm", "text", "csv", "idx", "criteo", "tar", NULL};

const char *const samples_missing_names[] = {"refuse", "skip", "keep", NULL};

/* The state while a file is read. */
struct reading {
    const struct samples_file *file;
    enum samples_format format;
    struct text_lines lines;
    uint64_t end_place; /* place after the last line read */
    samples_sink *sink;
    void *context;
    struct error *error;
    struct sample sample;
    uint32_t *features; /* [capacity] */
    double *values;     /* [capacity] */
    uint32_t capacity;
    struct columns own;            /* found by look_at_file */
    const struct columns *columns; /* text, csv: `own`, or the columns of a run's head */
    bool skipping;                 /* the present line's label is missing, and such samples are skipped */
    uint64_t left_out;             /* number of lines skipped so far */
    bool indexes;                  /* libsvm: the present line has only indexes, whose values are 1 */
    bool indexes_alone;            /* some line had only indexes */
    uint64_t empty_line;           /* libsvm: the first empty line after the last sample; 0: none */
    struct criteo_reading *criteo; /* NULL: not a Criteo file, or not begun */
    const struct samples_run *run; /* NULL: a whole file is read, in order */
};

/* How the lines of a Criteo file become samples. */
struct criteo_reading {
    struct criteo_columns columns;
    struct criteo_record record;
    struct criteo_hash_features features;
    struct label labels[2];
};

/* Reports an error of the present line with its place. For a run the caller adds the place. */
static int line_error(const struct reading *r, int code, const char *text) {
    return r->run != NULL
               ? error_set(r->error, code, "%s", text)
               : error_set(r->error, code, "%s:%llu: %s", r->file->path, (unsigned long long)r->lines.number, text);
}

/* Reports an error of the present line. */
__attribute__((format(printf, 2, 3))) static int bad_line(const struct reading *r, const char *format, ...) {
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return line_error(r, AML_EINPUT, text);
}

/* Reports text[length] in place of what was expected. */
static int refuse(const struct reading *r, const char *expected, const char *text, size_t length) {
    return bad_line(r, "expected %s, got '%.*s'%s", expected, text_shown(length), text, text_shown_end(length));
}

uint32_t sample_end(const struct sample *sample) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < sample->count && sample->features != NULL; i++) {
        end = sample->features[i] >= end ? sample->features[i] + 1 : end;
    }
    return sample->features != NULL ? end : sample->count;
}

static int give_sample(struct reading *r) {
    struct error error = {0};
    if (r->skipping) {
        r->skipping = false;
        r->left_out++;
        return 0;
    }
    int result = r->sink(r->context, &r->sample, &error);
    if (error.code != 0 && (r->run != NULL || r->sample.line != 0)) {
        return line_error(r, result, error.text);
    }
    if (error.code != 0) {
        return error_set(r->error, result, "%s: sample %llu: %s", r->file->path,
                         (unsigned long long)r->sample.number + 1, error.text);
    }
    r->sample.number++;
    return result;
}

static void make_room(struct reading *r, uint32_t values) {
    if (values > r->capacity) {
        r->capacity = values > 2 * r->capacity ? values : 2 * r->capacity;
        r->capacity = r->capacity > VALUES_START ? r->capacity : VALUES_START;
        r->features = memory_resized(r->features, r->capacity, sizeof *r->features);
        r->values = memory_resized(r->values, r->capacity, sizeof *r->values);
    }
}

/* Takes text[length] as the sample's label, or handles a missing label. */
static int take_label(struct reading *r, const char *text, size_t length, const char *expected) {
    const struct samples_file *file = r->file;
    bool missing = label_is_missing(text, length);
    if (missing && !file->label_optional && file->missing == SAMPLES_MISSING_SKIP) {
        r->skipping = true;
        return 0;
    }
    if (missing && !file->label_optional && (file->missing == SAMPLES_MISSING_REFUSE || length == 0)) {
        return bad_line(r,
                        "the label is missing, got '%.*s': fill it in, or leave such samples out by --missing-labels "
                        "skip%s",
                        (int)length, text, length > 0 ? " (keep takes the word for a class)" : "");
    }
    if (missing && length == 0) {
        r->sample.label = (struct label){.number = NAN};
        return 0;
    }
    return label_make(&r->sample.label, text, length) ? 0 : refuse(r, expected, text, length);
}

static const char *skip_field(const char *p) {
    while (*p != '\0' && !text_is_blank(*p)) {
        p++;
    }
    return p;
}

/* Takes a number that is finite as a float, and returns the place after it; NULL: there is no such number at `text`. */
static const char *take_value(const char *text, double *value) {
    const char *end = number_take(text, value);
    return end == NULL || fabs(*value) > (double)FLT_MAX ? NULL : end;
}

/* ---- libsvm ---- */

/* Takes the digits of an index, and returns the place after them. */
static const char *take_index(const char *p, uint32_t *index) {
    uint64_t value = 0;
    const char *start = p;
    while (*p >= '0' && *p <= '9' && value <= SAMPLES_INDEX_MAX) {
        value = value * 10 + (uint64_t)(*p++ - '0');
    }
    *index = (uint32_t)value;
    return p == start || value > SAMPLES_INDEX_MAX ? NULL : p;
}

/* Takes `index:value` at p. */
static int take_pair(struct reading *r, const char **p) {
    struct sample *sample = &r->sample;
    const char *field = *p;
    size_t length = (size_t)(skip_field(field) - field);
    uint32_t index;
    const char *end = take_index(field, &index);
    bool alone = end == field + length; /* only an index, whose value is 1 */
    r->indexes = sample->count == 0 ? alone : r->indexes;
    if (end == NULL || (*end != ':' && !alone) || alone != r->indexes) {
        return refuse(r, "index:value with an index up to 2147483647", field, length);
    }
    r->values[sample->count] = 1;
    if (!alone && take_value(end + 1, &r->values[sample->count]) != field + length) {
        return refuse(r, "a finite number behind the index", field, length);
    }
    uint32_t feature = index - r->file->index_base;
    if (index < r->file->index_base) {
        return refuse(r, "indexes from 1 on (see --index-base)", field, length);
    }
    if (sample->count > 0 && feature <= r->features[sample->count - 1]) {
        return refuse(r, "indexes in ascending order", field, length);
    }
    r->features[sample->count++] = feature;
    *p = field + length;
    return 0;
}

/* Returns whether the first field is `index:value`, and so the line has no label. */
static bool begins_with_pair(const char *field) {
    uint32_t index;
    double value;
    const char *end = take_index(field, &index);
    return end != NULL && *end == ':' && take_value(end + 1, &value) == skip_field(field);
}

/* Takes the label of the line at *p, if samples have labels. The first sample decides. */
static int take_libsvm_label(struct reading *r, const char **p) {
    struct sample *sample = &r->sample;
    const char *end = skip_field(*p);
    size_t length = (size_t)(end - *p);
    if (sample->number == 0) {
        sample->labelled = !r->file->label_optional || !begins_with_pair(*p);
    }
    if (!sample->labelled) {
        return begins_with_pair(*p) ? 0 : refuse(r, "index:value without a label, as in the first line", *p, length);
    }
    if (memchr(*p, ',', length) != NULL) {
        return bad_line(r,
                        "expected one label, then index:value, got '%.*s': of several labels none is "
                        "learned; make a file for each label",
                        text_shown(length), *p);
    }
    if (memchr(*p, ':', length) != NULL) {
        return bad_line(
            r,
            "expected one label, then index:value, got '%.*s': the label is missing, or has a weight, which "
            "is not supported",
            text_shown(length), *p);
    }
    int result = take_label(r, *p, length, "one label, then index:value");
    *p = text_skip_blanks(end);
    return result;
}

/* Skips svmlight's `qid:NUMBER`, the number of a query. */
static const char *skip_query(const char *p) {
    if (strncmp(p, "qid:", 4) != 0) {
        return p;
    }
    size_t digits = strspn(p + 4, "0123456789");
    return digits > 0 && (p[4 + digits] == '\0' || text_is_blank(p[4 + digits])) ? text_skip_blanks(p + 4 + digits) : p;
}

/* Skips empty lines. Rejects them between samples without labels, where an empty line could mean a sample of zeros. */
static int check_empty_line(struct reading *r, bool empty) {
    if (empty) {
        r->empty_line = r->empty_line == 0 ? r->lines.number : r->empty_line;
        return 0;
    }
    if (r->empty_line != 0 && !r->sample.labelled) {
        return error_set(r->error, AML_EINPUT,
                         "%s:%llu: an empty line between samples without labels: expected index:value (1:0 for a "
                         "sample of zeros)",
                         r->file->path, (unsigned long long)r->empty_line);
    }
    r->empty_line = 0;
    return 0;
}

static int read_libsvm_line(struct reading *r, char *line, size_t length) {
    struct sample *sample = &r->sample;
    char *comment = memchr(line, '#', length);
    if (comment != NULL) {
        *comment = '\0';
    }
    const char *p = text_skip_blanks(line);
    if (*p == '\0') {
        return comment != NULL ? 0 : check_empty_line(r, true);
    }
    p = skip_query(p);
    int result = take_libsvm_label(r, &p);
    result = result != 0 ? result : check_empty_line(r, false);
    sample->count = 0;
    make_room(r, 1); /* a sample of zeros needs an array, too */
    r->indexes = false;
    p = skip_query(p);
    for (; result == 0 && *p != '\0'; p = text_skip_blanks(p)) {
        if (sample->count == SAMPLES_VALUES_MAX) {
            return refuse(r, "at most 262000 values in a sample", p, (size_t)(skip_field(p) - p));
        }
        make_room(r, sample->count + 1);
        result = take_pair(r, &p);
    }
    if (numbering_is_used(r->file->numbering)) {
        sample->count = numbering_apply(r->file->numbering, r->features, r->values, sample->count);
    }
    sample->features = r->features;
    sample->values = r->values;
    sample->ones = r->indexes;
    r->indexes_alone = r->indexes_alone || r->indexes;
    return result != 0 ? result : give_sample(r);
}

/* ---- text and csv ---- */

static int bad_quotes(const struct reading *r, const struct text_field *field) {
    return refuse(r, "a quoted field that ends on its line, then a separator", field->text, field->length);
}

/* Takes a feature at *p in its usual form: a number without quotes, and without blanks before the separator. Moves
 * *p to the next field; after the last field, to NULL. */
static bool take_plain_value(const struct reading *r, const char **p, double *value) {
    const char *end = take_value(text_skip_blanks(*p), value);
    if (end == NULL) {
        return false;
    }
    if (*end == '\0') {
        *p = NULL;
        return true;
    }
    enum text_separator separator = r->columns->separator;
    if (separator == TEXT_BLANKS && text_is_blank(*end)) {
        end = text_skip_blanks(end);
        *p = *end != '\0' ? end : NULL;
        return true;
    }
    if ((separator == TEXT_COMMA && *end == ',') || (separator == TEXT_SEMICOLON && *end == ';') ||
        (separator == TEXT_TAB && *end == '\t')) {
        *p = end + 1;
        return true;
    }
    return false;
}

/* Reports why a feature can't be read, with its column and the remedy. */
static int refuse_value(const struct reading *r, uint32_t column, const struct text_field *field) {
    const struct column_names *names = &r->columns->names;
    bool named = names->count > 0;
    const char *name = named ? names->features[r->columns->roles[column]] : "";
    const char *point = memchr(field->text, ',', field->length);
    double number;
    const char *hint =
        label_is_missing(field->text, field->length) ? ": a missing value; fill it in, or leave the sample out"
        : point != NULL && number_take(field->text, &number) == point && number_take(point + 1, &number) != NULL
            ? ": write decimal points"
        : strspn(field->text, "0123456789+-.eE") >= field->length ? ": too large, or no number"
        : r->columns->placed && column + 1 == r->columns->count
            ? ": mlr and net take numbers; if this column is the label: --label-column -1"
            : ": mlr and net take numbers; give each word of such a column a column of 0 and 1 (one-hot), or leave it "
              "out";
    return bad_line(r, "column %u%s%.*s%s: expected a finite number, got '%.*s'%s%s", column + 1, named ? " ('" : "",
                    TEXT_SHOWN_MAX, name, named ? "')" : "", text_shown(field->length), field->text,
                    text_shown_end(field->length), hint);
}

/* Takes a feature in any form. */
static int take_field_value(struct reading *r, uint32_t column, const struct text_field *field) {
    double number;
    if (!column_value(field->text, field->length, &number) || fabs(number) > (double)FLT_MAX) {
        return refuse_value(r, column, field);
    }
    r->values[r->columns->roles[column]] = number;
    return 0;
}

/* Takes the field at *p, number `column`, into the sample, and moves *p like take_plain_value. */
static int take_column(struct reading *r, const char **p, const char *end, uint32_t column) {
    const struct columns *table = r->columns;
    struct text_field field;
    int32_t role = column < table->count ? table->roles[column] : COLUMN_LEFT_OUT; /* beyond: read_column_line */
    if (role >= 0 && take_plain_value(r, p, &r->values[role])) {
        return 0;
    }
    if (!text_field_take(*p, end, table->separator, &field)) {
        return bad_quotes(r, &field);
    }
    *p = field.next;
    if (role == COLUMN_LABEL) {
        char text[LABEL_MAX + 1];
        size_t length = text_field_copy(&field, text, LABEL_MAX);
        return take_label(r, text, length, "a label of 1 to 55 bytes");
    }
    if (role == COLUMN_EMPTY && field.length > 0) {
        return refuse(r, "nothing behind the last separator, as in the first lines", field.text, field.length);
    }
    return role >= 0 ? take_field_value(r, column, &field) : 0;
}

static int read_column_line(struct reading *r, const char *line, size_t length) {
    struct sample *sample = &r->sample;
    const struct columns *table = r->columns;
    if (*text_skip_blanks(line) == '\0' || (r->run == NULL && r->lines.number < table->first)) {
        return 0;
    }
    make_room(r, table->features);
    uint32_t column = 0;
    for (const char *p = line; p != NULL; column++) {
        int result = take_column(r, &p, line + length, column);
        if (result != 0) {
            return result;
        }
    }
    if (column != table->count) {
        return bad_line(r, "expected %u fields as in the first line, got %u: '%.*s'%s", table->count, column,
                        text_shown(length), line, text_shown_end(length));
    }
    sample->labelled = table->label >= 0;
    sample->features = NULL;
    sample->values = r->values;
    sample->count = table->features;
    return give_sample(r);
}

/* ---- criteo ---- */

static void criteo_labels(struct criteo_reading *criteo) {
    (void)label_make(&criteo->labels[0], "0", 1);
    (void)label_make(&criteo->labels[1], "1", 1);
}

/* Passes on the sample of a line; for `copy` see criteo_take. */
static int criteo_sample(struct reading *r, const char *line, size_t length, char *copy) {
    struct criteo_reading *criteo = r->criteo;
    struct sample *sample = &r->sample;
    struct error error = {0};
    int result = criteo_take(&criteo->columns, line, length, copy, &criteo->record, &error);
    result = result == 0 ? criteo_hash_run(&r->file->hash, &criteo->record, &criteo->features, &error) : result;
    if (result != 0) {
        return line_error(r, error.code, error.text);
    }
    sample->labelled = criteo->columns.labelled;
    if (sample->labelled && criteo->record.label == CRITEO_NO_LABEL) {
        result = take_label(r, "", 0, "a label 0 or 1");
    } else if (sample->labelled) {
        sample->label = criteo->labels[criteo->record.label];
    }
    sample->features = criteo->features.slots;
    sample->values = criteo->features.values;
    sample->count = criteo->features.count;
    sample->ones = !criteo->features.added;
    return result == 0 ? give_sample(r) : result;
}

static int begin_criteo(struct reading *r, char *line, size_t length, bool *header) {
    struct error error = {0};
    r->criteo = memory_zeroed(1, sizeof *r->criteo);
    criteo_labels(r->criteo);
    int result = criteo_columns(&r->criteo->columns, line, length, r->file->label_optional, header, &error);
    return result == 0 ? 0 : line_error(r, error.code, error.text);
}

static int read_criteo_line(struct reading *r, char *line, size_t length) {
    bool header = false;
    if (length == 0) {
        return 0;
    }
    int result = r->criteo == NULL ? begin_criteo(r, line, length, &header) : 0;
    if (result != 0 || header) {
        return result;
    }
    return criteo_sample(r, line, length, line);
}

/* ---- Lines ---- */

/* Detects the format from a line that is neither empty nor a comment. */
static void detect_format(struct reading *r, const char *line, size_t length) {
    const char *first = text_skip_blanks(line);
    const char *second = text_skip_blanks(skip_field(first));
    bool pairs = memchr(second, ':', (size_t)(skip_field(second) - second)) != NULL ||
                 (r->file->label_optional && begins_with_pair(first));
    enum text_separator separator = text_separator_of(line, line + length);
    if (pairs && *first != '"') {
        r->format = SAMPLES_LIBSVM;
    } else if (separator == TEXT_COMMA || separator == TEXT_SEMICOLON) {
        r->format = SAMPLES_CSV;
    } else { /* a single field: the label of a sample of zeros, or a feature */
        bool feature = r->file->label_optional && r->file->features == 1;
        r->format = *second != '\0' || feature ? SAMPLES_TEXT : SAMPLES_LIBSVM;
    }
}

/* The first lines of a file, without empty ones. */
struct look {
    char *text; /* a copy in which each line ends with a 0 */
    struct columns_line lines[COLUMNS_LOOK_LINES];
    size_t count, comments; /* the number of lines, and of leading comments */
};

/* Finds the lines in the text's first `size` bytes. `whole`: the text has no more bytes. */
static void look_at_text(struct look *look, size_t size, bool whole) {
    char *end = look->text + size;
    uint64_t number = 0;
    look->count = look->comments = 0;
    for (char *line = look->text; line < end && look->count < COLUMNS_LOOK_LINES;) {
        size_t length = strcspn(line, "\r\n");
        char *next = line + length;
        bool complete = next + 1 < end || whole;
        if (!complete || length > SAMPLES_LINE_MAX || (*next == '\0' && next < end)) {
            return; /* truncated, too long, or with a zero byte */
        }
        next = next < end ? (char *)(uintptr_t)text_next_line(next) : end;
        number++;
        line[length] = '\0';
        const char *first = text_skip_blanks(line);
        if (*first != '\0') {
            look->comments += *first == '#' && look->comments == look->count;
            look->lines[look->count++] = (struct columns_line){.text = line, .length = length, .number = number};
        }
        line = next;
    }
}

/* Reads the first lines of a file without taking them. */
static int look_at_lines(struct text_lines *lines, struct look *look, struct error *error) {
    *look = (struct look){.count = 0};
    for (size_t size = LOOK_BYTES;; size *= 2) {
        int result = text_lines_fill(lines, size, error);
        if (result != 0) {
            return result;
        }
        bool whole = lines->held < size;
        size_t known = lines->held;
        look->text = memory_resized(look->text, known + 1, 1);
        memcpy(look->text, lines->bytes, known);
        look->text[known] = '\0';
        look_at_text(look, known, whole);
        if (whole || look->count >= look->comments + 2 || size > 2 * (size_t)SAMPLES_LINE_MAX) {
            return 0;
        }
    }
}

/* Finds the columns of a table. */
static int find_table(struct reading *r, const struct look *look) {
    const struct samples_file *file = r->file;
    const char *column = file->label_column;
    const struct columns_wish wish = {.csv = r->format == SAMPLES_CSV,
                                      .label_column = column != NULL && strcmp(column, "0") != 0 ? column : NULL,
                                      .label_optional = file->label_optional,
                                      .features = file->features,
                                      .like = file->like};
    struct error error = {0};
    uint64_t line = 0;
    int result = columns_find(&wish, look->lines, look->count, &r->own, &line, &error);
    if (result == 0 && r->own.features > SAMPLES_VALUES_MAX) {
        line = r->own.first;
        result =
            error_set(&error, AML_EINPUT, "expected at most %d features, got %u", SAMPLES_VALUES_MAX, r->own.features);
    }
    return result == 0 ? 0
                       : error_set(r->error, result, "%s:%llu: %s", file->path, (unsigned long long)line, error.text);
}

/* Returns the number of indexes of a line with a label and ascending indexes; 0: it is not such a line. Sets *far
 * when the last index is more than twice the first. */
static uint32_t count_indexes(const struct columns_line *line, bool *far) {
    const char *p = text_skip_blanks(line->text);
    uint32_t before = 0;
    uint32_t first = 0;
    uint32_t count = 0;
    for (p = text_skip_blanks(skip_field(p)); *p != '\0'; p = text_skip_blanks(p)) {
        uint32_t index;
        const char *end = take_index(p, &index);
        if (end == NULL || end != skip_field(p) || index <= before) {
            return 0;
        }
        first = count == 0 ? index : first;
        before = index;
        p = end;
        count++;
    }
    *far = *far || before / 2 > first;
    return count;
}

/* Whether lines without a colon are libsvm lines with only indexes. All indexes must ascend, and the lines must
 * differ in length or be too many for chance. But consecutive years or times are columns. */
static bool are_indexes(const struct reading *r, const struct look *look) {
    bool far = false;
    uint32_t first = count_indexes(&look->lines[look->comments], &far);
    bool differ = false;
    for (size_t l = look->comments; l < look->count; l++) {
        uint32_t count = count_indexes(&look->lines[l], &far);
        if (count == 0) {
            return false;
        }
        differ = differ || count != first;
    }
    bool many = look->count - look->comments >= INDEX_LINES && first >= INDEX_COUNT && !r->file->label_optional;
    return differ || (many && far);
}

/* Detects the format, if it is not known, and the columns of a table, from the file's first lines. */
static int look_at_file(struct reading *r, struct text_lines *lines) {
    struct look look;
    int result = look_at_lines(lines, &look, r->error);
    if (result == 0 && look.comments < look.count) {
        const struct columns_line *first = &look.lines[look.comments];
        const char *foreign = text_foreign_line(first->text, first->text + first->length);
        if (foreign != NULL) {
            result = error_set(r->error, AML_EINPUT, "%s:%llu: %s", r->file->path, (unsigned long long)first->number,
                               foreign);
        } else if (r->format == SAMPLES_AUTO) {
            detect_format(r, first->text, first->length);
            bool indexes = r->format == SAMPLES_TEXT && are_indexes(r, &look);
            r->format = indexes ? SAMPLES_LIBSVM : r->format;
        }
    }
    if (result == 0 && (r->format == SAMPLES_TEXT || r->format == SAMPLES_CSV)) {
        result = find_table(r, &look);
        if (r->file->said != NULL) {
            memcpy(r->file->said, r->own.said, COLUMNS_SAID_MAX);
        }
    }
    r->columns = &r->own;
    free(look.text);
    return result;
}

static int read_line(struct reading *r, char *line, size_t length) {
    if (r->format == SAMPLES_CRITEO) {
        return read_criteo_line(r, line, length);
    }
    if (r->format == SAMPLES_AUTO || r->format == SAMPLES_LIBSVM) { /* AUTO: the file is empty, or has only comments */
        return read_libsvm_line(r, line, length);
    }
    return read_column_line(r, line, length);
}

/* The lines of text [next, end), each with its end. */
struct line_walk {
    const char *next, *end;
    /* The first line feed from `next` on; NULL: not known yet. It is kept, so that lines ending in CR don't search for
     * it each time. */
    const char *feed;
    const char *zero; /* the first zero byte, or NULL */
    bool with_cr;
};

static struct line_walk walk_lines(const char *text, size_t size) {
    return (struct line_walk){.next = text,
                              .end = text + size,
                              .zero = memchr(text, '\0', size),
                              .with_cr = memchr(text, '\r', size) != NULL};
}

/* Takes the next line. *line is NULL when there is none. */
static int next_line(struct reading *r, struct line_walk *walk, const char **line, size_t *length) {
    const char *text = walk->next;
    size_t left = (size_t)(walk->end - text);
    *line = NULL;
    if (left == 0) {
        return 0;
    }
    if (walk->feed == NULL || walk->feed < text) {
        walk->feed = memchr(text, '\n', left);
        walk->feed = walk->feed != NULL ? walk->feed : walk->end;
    }
    size_t to_feed = (size_t)(walk->feed - text);
    const char *cr = walk->with_cr ? memchr(text, '\r', to_feed) : NULL;
    *length = cr != NULL ? (size_t)(cr - text) : to_feed;
    *line = text;
    walk->next = text_next_line(text + *length);
    r->lines.number++;
    if (walk->zero != NULL && walk->zero < text + *length) {
        return bad_line(r, "expected text, got a zero byte");
    }
    return *length <= SAMPLES_LINE_MAX ? 0 : bad_line(r, "expected a line of at most %d bytes", SAMPLES_LINE_MAX);
}

static int read_lines(struct reading *r) {
    for (;;) {
        char *line;
        size_t length;
        int result = text_lines_next(&r->lines, &line, &length, r->error);
        if (result == 0 && line == NULL) {
            r->format = r->format == SAMPLES_AUTO ? SAMPLES_LIBSVM : r->format; /* there are only comments */
            return 0;
        }
        if (result == 0) {
            r->sample.line = r->lines.number;
            r->sample.place = r->file->first_place + r->lines.start;
            r->end_place = r->sample.place + length + 1; /* 1: the line end, which may be missing */
            result = read_line(r, line, length);
        }
        if (result != 0) {
            return result;
        }
    }
}

/* ---- idx ---- */

struct idx {
    int type;
    uint64_t count; /* the first dimension */
    uint64_t size;  /* values of each sample: the product of the other dimensions */
};

static uint32_t get_big_endian(const char *bytes) {
    const unsigned char *b = (const unsigned char *)bytes;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
}

/* Reads a header: two zero bytes, the type, the number of dimensions, then each dimension in 4 bytes. `words`:
 * values of 4 bytes are allowed. */
static int read_idx_header(struct text_lines *input, bool words, struct idx *idx, struct error *error) {
    int code = text_lines_fill(input, 4, error);
    if (code != 0) {
        return code;
    }
    const char *bytes = input->bytes;
    bool known = input->held >= 4 && bytes[0] == 0 && bytes[1] == 0 && bytes[3] >= 1 && bytes[3] <= IDX_DIMENSIONS_MAX;
    if (!known || (bytes[2] != IDX_BYTES && !(words && bytes[2] == IDX_WORDS))) {
        return error_set(error, AML_EINPUT, "%s: expected idx data of unsigned bytes%s, of 1 to %d dimensions",
                         input->path, words ? " or 4-byte numbers" : "", IDX_DIMENSIONS_MAX);
    }
    int type = bytes[2];
    size_t dimensions = (size_t)bytes[3];
    size_t size = 4 + 4 * dimensions;
    code = text_lines_fill(input, size, error);
    if (code == 0 && input->held < size) {
        code = error_set(error, AML_EINPUT, "%s: the file ends in its header", input->path);
    }
    if (code != 0) {
        return code;
    }
    bytes = input->bytes + 4;
    *idx = (struct idx){.type = type, .count = get_big_endian(bytes), .size = 1};
    for (size_t d = 1; d < dimensions && idx->size <= SAMPLES_VALUES_MAX; d++) {
        idx->size *= get_big_endian(bytes + 4 * d);
    }
    text_lines_skip(input, size);
    if (idx->size == 0 || idx->size > SAMPLES_VALUES_MAX) {
        return error_set(error, AML_EINPUT, "%s: expected 1 to %d values in each sample", input->path,
                         SAMPLES_VALUES_MAX);
    }
    return 0;
}

/* Opens the labels, and checks that their number equals that of the samples. */
static int open_idx_labels(const struct samples_file *file, struct text_lines *labels, uint64_t samples, int *type,
                           struct error *error) {
    if (file->labels_path == NULL) {
        return error_set(
            error, AML_EINPUT,
            "%s: the labels of idx data are in another file: expected --labels (for a test set, --test-labels)",
            file->path);
    }
    struct idx idx = {0};
    int result = source_lines_open(labels, file->labels_path, SAMPLES_LINE_MAX, error);
    if (result != 0) {
        return result;
    }
    result = read_idx_header(labels, true, &idx, error);
    *type = idx.type;
    if (result == 0 && idx.size != 1) {
        result = error_set(error, AML_EINPUT, "%s: expected one number for each label, got %llu", file->labels_path,
                           (unsigned long long)idx.size);
    }
    if (result == 0 && idx.count != samples) {
        result = error_set(error, AML_EINPUT, "%s: expected %llu labels, as there are samples in %s, got %llu",
                           file->labels_path, (unsigned long long)samples, file->path, (unsigned long long)idx.count);
    }
    return result;
}

static int take_idx_label(struct text_lines *labels, int type, struct label *label, struct error *error) {
    size_t size = type == IDX_WORDS ? 4 : 1;
    int result = text_lines_fill(labels, size, error);
    if (result == 0 && labels->held < size) {
        result = error_set(error, AML_EINPUT, "%s: the file ends before its last label", labels->path);
    }
    if (result == 0) {
        char text[16];
        const char *bytes = labels->bytes;
        int32_t value = type == IDX_WORDS ? (int32_t)get_big_endian(bytes) : (unsigned char)bytes[0];
        int length = snprintf(text, sizeof text, "%d", value);
        bool made = label_make(label, text, (size_t)length);
        assert(made);
        (void)made;
        text_lines_skip(labels, size);
    }
    return result;
}

/* Checks that the file ends at the present place. */
static int expect_end(struct text_lines *input, struct error *error) {
    int result = text_lines_fill(input, 1, error);
    if (result == 0 && input->held > 0) {
        result = error_set(error, AML_EINPUT, "%s: the file is longer than its header says", input->path);
    }
    return result;
}

static int read_idx_sample(struct reading *r, struct text_lines *labels, int label_type, uint32_t size) {
    int result = text_lines_fill(&r->lines, size, r->error);
    if (result == 0 && r->lines.held < size) {
        result = error_set(r->error, AML_EINPUT, "%s: the file ends before its last sample", r->file->path);
    }
    if (result == 0 && r->sample.labelled) {
        result = take_idx_label(labels, label_type, &r->sample.label, r->error);
    }
    if (result != 0) {
        return result;
    }
    const unsigned char *bytes = (const unsigned char *)r->lines.bytes;
    for (uint32_t i = 0; i < size; i++) {
        r->values[i] = bytes[i];
    }
    text_lines_skip(&r->lines, size);
    r->sample.count = size;
    r->sample.place = r->sample.number;
    r->sample.values = r->values;
    return give_sample(r);
}

static int read_idx(struct reading *r) {
    struct idx idx = {0};
    struct text_lines labels = {0};
    int label_type = 0;
    int result = read_idx_header(&r->lines, false, &idx, r->error);
    r->sample.labelled = !r->file->label_optional || r->file->labels_path != NULL;
    if (result == 0 && r->sample.labelled) {
        result = open_idx_labels(r->file, &labels, idx.count, &label_type, r->error);
    }
    make_room(r, result == 0 ? (uint32_t)idx.size : 0);
    for (uint64_t i = 0; result == 0 && i < idx.count; i++) {
        result = read_idx_sample(r, &labels, label_type, (uint32_t)idx.size);
    }
    if (result == 0) {
        result = expect_end(&r->lines, r->error);
    }
    if (result == 0 && r->sample.labelled) {
        result = expect_end(&labels, r->error);
    }
    text_lines_close(&labels);
    return result;
}

/* ---- Any format ---- */

static bool begins_as_idx(const struct text_lines *lines) {
    return lines->held >= 2 && lines->bytes[0] == 0 && lines->bytes[1] == 0;
}

static size_t file_count(const struct samples_file *file) {
    return file->files != NULL ? file->files->count : 1;
}

static int refuse_idx_files(const struct samples_file *file, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: idx data: expected one file, got %zu", file->path, file_count(file));
}

/* Rejects a separate file of labels for a file of lines. */
static int check_labels_path(const struct reading *r) {
    return r->file->labels_path == NULL
               ? 0
               : error_set(r->error, AML_EINPUT, "%s: expected idx data, as its labels are in another file; this is %s",
                           r->file->path, r->format == SAMPLES_AUTO ? "text" : samples_formats[r->format]);
}

static int check_samples(const struct reading *r) {
    if (r->sample.number == 0 && r->left_out > 0) {
        return error_set(r->error, AML_EINPUT,
                         "%s: the labels of all %llu samples are missing, so that --missing-labels skip leaves none",
                         r->file->path, (unsigned long long)r->left_out);
    }
    return r->sample.number > 0 ? 0
                                : error_set(r->error, AML_EINPUT, "%s: no samples, expected %s data", r->file->path,
                                            r->format == SAMPLES_IDX      ? "idx"
                                            : r->format == SAMPLES_CRITEO ? "criteo"
                                                                          : "libsvm, text or csv");
}

static int read_any(struct reading *r) {
    int result = r->format == SAMPLES_AUTO ? text_lines_fill(&r->lines, 2, r->error) : 0;
    r->format = r->format == SAMPLES_AUTO && begins_as_idx(&r->lines) ? SAMPLES_IDX : r->format;
    if (result == 0 && r->format == SAMPLES_IDX && file_count(r->file) > 1) {
        return refuse_idx_files(r->file, r->error);
    }
    if (result == 0 && r->format != SAMPLES_IDX) {
        result = check_labels_path(r);
        result = result == 0 && r->format != SAMPLES_CRITEO ? look_at_file(r, &r->lines) : result;
    }
    if (result == 0) {
        result = r->format == SAMPLES_IDX ? read_idx(r) : read_lines(r);
    }
    return result == 0 ? check_samples(r) : result;
}

static void reading_close(struct reading *r) {
    text_lines_close(&r->lines);
    columns_close(&r->own);
    free(r->features);
    free(r->values);
    free(r->criteo);
}

/* Takes over the columns of the first file that is a table. */
static void keep_table(struct columns *first, struct columns *found) {
    if (first->count == 0 && found->count > 0) {
        *first = *found;
        *found = (struct columns){0};
    }
}

/* Reads the file at file->path. Sets *format to the detected format, *table to the columns of the first file that is
 * a table, and *end to the place after its lines. */
static int read_file(const struct samples_file *file, samples_sink *sink, void *context, enum samples_format *format,
                     struct columns *table, uint64_t *end, struct error *error) {
    struct reading reading = {.file = file, .format = file->format, .sink = sink, .context = context, .error = error};
    reading.sample.labelled = true;
    int result = source_lines_open(&reading.lines, file->path, SAMPLES_LINE_MAX, error);
    if (result == 0) {
        result = read_any(&reading);
    }
    *format = reading.format;
    *end = file->first_place + reading.lines.taken;
    *end = reading.end_place > *end ? reading.end_place : *end;
    keep_table(table, &reading.own);
    reading_close(&reading);
    return result;
}

/* Reads all the files. The first file's format applies to all. */
static int read_files(const struct samples_file *file, samples_sink *sink, void *context, enum samples_format *format,
                      struct error *error) {
    struct samples_file one = *file;
    struct columns table = {0};
    int result = 0;
    for (size_t f = 0; f < file_count(file) && result == 0; f++) {
        one.path = file->files != NULL ? file->files->names[f].path : file->path;
        result = read_file(&one, sink, context, format, &table, &one.first_place, error);
        one.format = *format;
        one.said = NULL;
        one.like = file->like != NULL ? file->like : &table;
    }
    columns_close(&table);
    return result;
}

int samples_read(const struct samples_file *file, samples_sink *sink, void *context, struct error *error) {
    enum samples_format format;
    return read_files(file, sink, context, &format, error);
}

/* ---- The survey ---- */

enum { SEEN_LABELS = 256, SEEN_LABEL_BYTES = 16 };

struct surveyor {
    struct samples_survey *survey;
    uint32_t maxima_capacity;
    const struct samples_wanted *wanted;
    bool index_zero;   /* index 0 occurs */
    uint32_t *numbers; /* [numbers_capacity] the numbers of a sample's features */
    uint32_t numbers_capacity;
    /* For files of lines. */
    struct reading *reading; /* of the present file */
    uint32_t file;
    char *line; /* [capacity] a copy of a line that needs the full reader */
    size_t capacity;
    struct seen_label {
        char text[SEEN_LABEL_BYTES];
        size_t length;
        int64_t place;   /* in the survey's labels */
    } seen[SEEN_LABELS]; /* short labels already added, as written, by a hash of the text */
};

static int add_label(struct labels *labels, const struct label *label, struct error *error) {
    if (!labels_add(labels, label)) {
        return error_set(error, AML_ELIMIT, "more than %d different labels: is --label-column right?", LABELS_MAX);
    }
    return 0;
}

static void survey_maxima(struct surveyor *surveyor, const struct sample *sample) {
    struct samples_survey *survey = surveyor->survey;
    if (survey->features > surveyor->maxima_capacity) {
        uint32_t before = surveyor->maxima_capacity;
        surveyor->maxima_capacity = survey->features > 2 * before ? survey->features : 2 * before;
        survey->maxima = memory_resized(survey->maxima, surveyor->maxima_capacity, sizeof *survey->maxima);
        memset(survey->maxima + before, 0, (surveyor->maxima_capacity - before) * sizeof *survey->maxima);
    }
    for (uint32_t i = 0; i < sample->count; i++) {
        float *maximum = &survey->maxima[sample->features != NULL ? sample->features[i] : i];
        *maximum = fmaxf(*maximum, fabsf((float)sample->values[i]));
    }
}

/* Whether the survey reads the samples' values. */
static bool reads_values(const struct samples_wanted *wanted) {
    return wanted->maxima || wanted->values || wanted->sink != NULL;
}

/* Adds a sample of `values` values, whose features are below `features`. */
static int survey_shape(struct surveyor *surveyor, uint32_t values, uint32_t features, struct error *error) {
    struct samples_survey *survey = surveyor->survey;
    if (features > SAMPLES_FEATURES_MAX && !surveyor->wanted->numbered) {
        return error_set(
            error, AML_EINPUT,
            "expected indexes up to %d, as samples are dense, of all features up to the largest; mlr takes "
            "those that occur",
            SAMPLES_FEATURES_MAX);
    }
    survey->features = features > survey->features ? features : survey->features;
    survey->samples++;
    survey->values += values;
    return 0;
}

/* Numbers the sample's features, and sets *end to a number above all of these. */
static int survey_numbers(struct surveyor *surveyor, struct sample *sample, uint32_t *end, struct error *error) {
    bool low = *end <= NUMBERING_FROM;
    if (sample->count > surveyor->numbers_capacity) {
        surveyor->numbers_capacity = 2 * sample->count;
        surveyor->numbers = memory_resized(surveyor->numbers, surveyor->numbers_capacity, sizeof *surveyor->numbers);
    }
    uint32_t all = numbering_add(&surveyor->survey->numbering, sample->features, sample->count, surveyor->numbers);
    *end = low ? *end : all;
    sample->features = surveyor->numbers;
    return all <= SAMPLES_FEATURES_MAX
               ? 0
               : error_set(error, AML_EINPUT, "expected at most %d different indexes", SAMPLES_FEATURES_MAX);
}

static int survey_sample(void *context, const struct sample *read, struct error *error) {
    struct surveyor *surveyor = context;
    struct sample sample = *read;
    uint32_t end = sample_end(&sample);
    bool sparse = sample.features != NULL && sample.count > 0;
    surveyor->index_zero = surveyor->index_zero || (sparse && sample.features[0] == 0);
    int result = sparse && surveyor->wanted->numbered ? survey_numbers(surveyor, &sample, &end, error) : 0;
    result = result == 0 ? survey_shape(surveyor, sample.count, end, error) : result;
    if (result == 0 && surveyor->wanted->maxima) {
        survey_maxima(surveyor, &sample);
    }
    result = result == 0 ? add_label(&surveyor->survey->labels, &sample.label, error) : result;
    return result == 0 && surveyor->wanted->sink != NULL
               ? surveyor->wanted->sink(surveyor->wanted->context, &sample, error)
               : result;
}

/* Adds the label at text[length], unless the same text was already added. Returns false when it is not a label, or a
 * missing one. */
static bool survey_label(struct surveyor *surveyor, const char *text, size_t length, int *result, struct error *error) {
    struct label label;
    struct seen_label *seen =
        &surveyor->seen[length < SEEN_LABEL_BYTES ? hash_bytes((const void *)text, length, 0) % SEEN_LABELS : 0];
    if (length < SEEN_LABEL_BYTES && seen->length == length && memcmp(seen->text, text, length) == 0 && length > 0) {
        surveyor->survey->labels.items[seen->place].count++;
        return true;
    }
    if (label_is_missing(text, length) || !label_make(&label, text, length)) {
        return false;
    }
    *result = add_label(&surveyor->survey->labels, &label, error);
    if (length < SEEN_LABEL_BYTES && *result == 0) {
        seen->place = labels_find(&surveyor->survey->labels, &label);
        seen->length = length;
        memcpy(seen->text, text, length);
    }
    return true;
}

/* Surveys a line in the usual form. Sets *usual to whether it is. */
static int survey_usual_line(struct surveyor *surveyor, const char *line, const char *end, bool *usual) {
    struct reading *r = surveyor->reading;
    struct shape shape = {.values = 0};
    struct error error = {0};
    uint32_t base = r->file->index_base;
    uint32_t features = 0;
    int result = 0;
    *usual = false;
    if (reads_values(surveyor->wanted)) {
        return 0;
    }
    if (r->format == SAMPLES_LIBSVM) {
        *usual = shape_libsvm(line, end, (uint64_t)SAMPLES_INDEX_MAX + 1, &shape) &&
                 shape.values <= SAMPLES_VALUES_MAX && (shape.values == 0 || shape.first >= base);
        features = shape.values > 0 ? shape.last - base + 1 : 0;
    } else if (r->columns->label >= 0 && r->lines.number >= r->columns->first) {
        *usual =
            shape_columns(line, end, r->columns->separator, (uint32_t)r->columns->label, r->columns->count, &shape);
        features = shape.values = r->columns->features;
    }
    *usual = *usual && survey_label(surveyor, shape.label, shape.label_length, &result, &error);
    if (*usual) {
        r->sample.number++;
        surveyor->index_zero =
            surveyor->index_zero || (r->format == SAMPLES_LIBSVM && shape.values > 0 && shape.first == base);
        result = result == 0 ? survey_shape(surveyor, shape.values, features, &error) : result;
    }
    return result == 0 ? 0 : line_error(r, result, error.text);
}

static int survey_line(struct surveyor *surveyor, const char *line, size_t length) {
    struct reading *r = surveyor->reading;
    bool usual;
    int result = survey_usual_line(surveyor, line, line + length, &usual);
    if (usual || result != 0) {
        return result;
    }
    if (length >= surveyor->capacity) {
        surveyor->capacity = 2 * length + VALUES_START;
        surveyor->line = memory_resized(surveyor->line, surveyor->capacity, 1);
    }
    memcpy(surveyor->line, line, length);
    surveyor->line[length] = '\0';
    r->sample.line = r->lines.number;
    return read_line(r, surveyor->line, length);
}

static void add_chunk(struct samples_places *places, const struct samples_chunk *chunk) {
    if (places->count == places->capacity) {
        places->capacity = 2 * places->capacity + 16;
        places->chunks = memory_resized(places->chunks, places->capacity, sizeof *places->chunks);
    }
    places->chunks[places->count++] = *chunk;
}

/* Surveys a chunk of the file's lines (line_reading.sink). With only one thread, chunks come in order. */
static int survey_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct surveyor *surveyor = context;
    struct samples_places *places = &surveyor->survey->places;
    struct reading *r = surveyor->reading;
    struct line_walk walk = walk_lines(chunk->text, chunk->size);
    (void)thread;
    add_chunk(places, &(struct samples_chunk){.file = surveyor->file,
                                              .split = chunk->extent,
                                              .offset = chunk->offset,
                                              .place = places->end,
                                              .number = surveyor->survey->samples});
    places->end += chunk->size;
    surveyor->survey->text += hash_bytes((const void *)chunk->text, chunk->size,
                                         hash_pair((uint64_t)surveyor->file << 32 | chunk->extent, chunk->offset));
    for (;;) {
        const char *line;
        size_t length;
        int result = next_line(r, &walk, &line, &length);
        if (result != 0 || line == NULL) {
            return result;
        }
        r->sample.place = places->end - chunk->size + (uint64_t)(line - chunk->text);
        result = survey_line(surveyor, line, length);
        if (result != 0) {
            return result;
        }
    }
}

static int survey_file(struct surveyor *surveyor, struct reading *r) {
    struct extents extents;
    int result = check_labels_path(r);
    result = result == 0 ? source_lines_open(&r->lines, r->file->path, SAMPLES_LINE_MAX, r->error) : result;
    result = result == 0 ? look_at_file(r, &r->lines) : result;
    text_lines_close(&r->lines);
    result = result == 0 ? extents_make(&extents, r->file->path, 0, r->error) : result;
    if (result != 0) {
        return result;
    }
    const struct line_reading lines = {.extents = &extents,
                                       .part = extents_all(&extents),
                                       .threads = 1,
                                       .line_max = SAMPLES_LINE_MAX,
                                       .sink = survey_chunk,
                                       .context = surveyor};
    result = line_chunks_read(&lines, r->error);
    extents_close(&extents);
    return result == 0 ? check_samples(r) : result;
}

/* Surveys files of lines. The first file's format applies to all. */
static int survey_lines(const struct samples_file *file, struct surveyor *surveyor, struct error *error) {
    struct samples_file one = *file;
    int result = 0;
    for (size_t f = 0; f < file_count(file) && result == 0; f++) {
        one.path = file->files != NULL ? file->files->names[f].path : file->path;
        struct reading reading = {
            .file = &one, .format = one.format, .sink = survey_sample, .context = surveyor, .error = error};
        reading.sample.labelled = true;
        surveyor->file = (uint32_t)f;
        surveyor->reading = &reading;
        result = survey_file(surveyor, &reading);
        one.format = reading.format;
        surveyor->survey->left_out += reading.left_out;
        surveyor->survey->indexes_alone = surveyor->survey->indexes_alone || reading.indexes_alone;
        keep_table(&surveyor->survey->columns, &reading.own);
        one.like = &surveyor->survey->columns;
        reading_close(&reading);
    }
    free(surveyor->line);
    surveyor->survey->format = one.format;
    return result;
}

/* Reads only an idx file's header and labels. The header has everything else that a survey needs. */
static int survey_idx(const struct samples_file *file, struct samples_survey *survey, struct error *error) {
    struct text_lines images = {0};
    struct text_lines labels = {0};
    struct idx idx = {0};
    int label_type = 0;
    int result = source_lines_open(&images, file->path, SAMPLES_LINE_MAX, error);
    if (result == 0) {
        result = read_idx_header(&images, false, &idx, error);
    }
    if (result == 0 && idx.count == 0) {
        result = error_set(error, AML_EINPUT, "%s: no samples", file->path);
    }
    if (result == 0) {
        result = open_idx_labels(file, &labels, idx.count, &label_type, error);
    }
    for (uint64_t i = 0; result == 0 && i < idx.count; i++) {
        struct label label;
        result = take_idx_label(&labels, label_type, &label, error);
        if (result == 0) {
            result = add_label(&survey->labels, &label, error);
        }
    }
    text_lines_close(&images);
    text_lines_close(&labels);
    survey->samples = idx.count;
    survey->features = (uint32_t)idx.size;
    survey->values = idx.count * idx.size;
    return result;
}

int samples_find_format(const struct samples_file *file, enum samples_format *format, struct error *error) {
    struct text_lines lines;
    char *line = NULL;
    size_t length = 0;
    *format = file->format;
    int result = file->format == SAMPLES_AUTO ? source_lines_open(&lines, file->path, SAMPLES_LINE_MAX, error) : 0;
    if (result != 0 || file->format != SAMPLES_AUTO) {
        return result;
    }
    result = text_lines_fill(&lines, 2, error);
    bool idx = result == 0 && begins_as_idx(&lines);
    bool more = !idx && file->labels_path == NULL;
    while (result == 0 && more && length == 0) {
        result = text_lines_next(&lines, &line, &length, error);
        more = line != NULL;
    }
    bool criteo = result == 0 && line != NULL && criteo_recognized(line, length);
    *format = idx ? SAMPLES_IDX : criteo ? SAMPLES_CRITEO : SAMPLES_AUTO;
    text_lines_close(&lines);
    return result;
}

/* Brings the features' data into the order of their final numbers. */
static void number_survey(struct samples_survey *survey) {
    uint32_t before = survey->features;
    survey->features = survey->numbering.places.count;
    if (survey->maxima == NULL) {
        return;
    }
    float *maxima = memory_zeroed(survey->features, sizeof *maxima);
    for (uint32_t f = 0; f < before; f++) {
        if (survey->maxima[f] > 0) {
            maxima[survey->numbers[f]] = survey->maxima[f];
        }
    }
    free(survey->maxima);
    survey->maxima = maxima;
}

int samples_survey(const struct samples_file *file, const struct samples_wanted *wanted, struct samples_survey *survey,
                   struct error *error) {
    struct samples_file from = *file;
    struct surveyor surveyor = {.survey = survey, .wanted = wanted};
    enum samples_format format;
    *survey = (struct samples_survey){.features = 0};
    from.index_base = wanted->base ? 0 : file->index_base;
    from.numbering = NULL;
    int result = samples_find_format(file, &format, error);
    bool is_idx = format == SAMPLES_IDX;
    if (result == 0 && is_idx && file_count(file) > 1) {
        result = refuse_idx_files(file, error);
    } else if (result == 0 && is_idx && !reads_values(wanted)) {
        survey->format = SAMPLES_IDX;
        result = survey_idx(&from, survey, error);
    } else if (result == 0 && is_idx) {
        result = read_files(&from, survey_sample, &surveyor, &survey->format, error);
    } else if (result == 0) {
        result = survey_lines(&from, &surveyor, error);
    }
    free(surveyor.numbers);
    if (result != 0) {
        samples_survey_close(survey);
        return result;
    }
    if (wanted->numbered && !reads_values(wanted) && survey->features > NUMBERING_FROM) {
        struct samples_wanted all = *wanted; /* lines whose indexes are needed were skipped */
        all.values = true;
        samples_survey_close(survey);
        return samples_survey(file, &all, survey, error);
    }
    bool from_one = wanted->base && survey->format == SAMPLES_LIBSVM && !surveyor.index_zero;
    survey->index_base = from_one ? 1 : from.index_base;
    survey->numbers = numbering_end(&survey->numbering, from_one);
    if (survey->numbers != NULL) {
        number_survey(survey);
    } else if (from_one) {
        survey->features -= survey->features > 0;
        if (survey->maxima != NULL) {
            memmove(survey->maxima, survey->maxima + 1, survey->features * sizeof *survey->maxima);
        }
    }
    survey->dense = survey->format != SAMPLES_LIBSVM;
    if (survey->features == 0) { /* there are only samples of zeros */
        survey->features = 1;
        survey->maxima = wanted->maxima ? memory_resized(survey->maxima, 1, sizeof *survey->maxima) : NULL;
        if (wanted->maxima) {
            survey->maxima[0] = 0;
        }
    }
    labels_sort(&survey->labels);
    return 0;
}

/* ---- Files of lines: any parts, in several threads ---- */

enum { HEAD_READ = 1 };

/* Ends the reading at the first sample. */
static int stop_reading(void *context, const struct sample *sample, struct error *error) {
    (void)context;
    (void)sample;
    (void)error;
    return HEAD_READ;
}

int samples_read_head(const struct samples_file *file, struct samples_head *head, struct error *error) {
    struct reading reading = {.file = file, .format = file->format, .sink = stop_reading, .error = error};
    reading.sample.labelled = true;
    int result = source_lines_open(&reading.lines, file->path, SAMPLES_LINE_MAX, error);
    result = result == 0 ? check_labels_path(&reading) : result;
    result = result == 0 && file->format != SAMPLES_CRITEO ? look_at_file(&reading, &reading.lines) : result;
    result = result == 0 ? read_lines(&reading) : result;
    result = result == 0 ? check_samples(&reading) : result;
    *head = (struct samples_head){.format = reading.format, .begin = reading.lines.start};
    if (result == HEAD_READ) {
        keep_table(&head->columns, &reading.own);
        head->criteo = reading.criteo != NULL ? reading.criteo->columns : head->criteo;
    }
    reading_close(&reading);
    return result == HEAD_READ ? 0 : result;
}

void samples_head_close(struct samples_head *head) {
    columns_close(&head->columns);
}

static uint64_t place_in(const struct samples_run *run, const char *line) {
    uint64_t place = run->place + (uint64_t)(line - run->text);
    return run->named ? hash_pair(run->name, place) : place;
}

/* Reads the run's lines. `copy` is a copy of its text that may be changed; NULL if no change is needed. */
static int read_run_lines(struct reading *r, char *copy, const char **at) {
    const struct samples_run *run = r->run;
    struct line_walk walk = walk_lines(run->text + run->skip, run->size - run->skip);
    for (;;) {
        const char *line;
        size_t length;
        int result = next_line(r, &walk, &line, &length);
        *at = line;
        if (result != 0 || line == NULL) {
            return result;
        }
        bool empty = r->format == SAMPLES_CRITEO ? length == 0 : text_is_line_end(*text_skip_blanks(line));
        if (empty) {
            continue;
        }
        r->sample.place = place_in(run, line);
        r->sample.number = run->named ? r->sample.place : r->sample.number;
        if (r->format == SAMPLES_CRITEO) {
            result = criteo_sample(r, line, length, copy);
        } else {
            char *own = copy + (line - run->text);
            own[length] = '\0';
            result = read_line(r, own, length);
        }
        if (result != 0) {
            return result;
        }
    }
}

/* Whether the text of a run of Criteo lines must be copied, see criteo_take. */
static bool criteo_is_special(const struct samples_head *head, const struct samples_run *run) {
    return memchr(run->text, '"', run->size) != NULL || memchr(run->text, ' ', run->size) != NULL ||
           (head->criteo.separator != '\t' && memchr(run->text, '\t', run->size) != NULL);
}

int samples_read_run(const struct samples_file *file, const struct samples_head *head, const struct samples_run *run,
                     samples_sink *sink, void *context, const char **at, struct error *error) {
    struct reading r = {.file = file,
                        .format = head->format,
                        .sink = sink,
                        .context = context,
                        .error = error,
                        .run = run,
                        .columns = &head->columns};
    bool criteo = head->format == SAMPLES_CRITEO;
    bool copies = !criteo || criteo_is_special(head, run);
    char *copy = copies ? malloc(run->size + 1) : NULL;
    int result;
    r.sample.labelled = true;
    r.sample.number = run->number;
    r.criteo = criteo ? calloc(1, sizeof *r.criteo) : NULL;
    *at = NULL;
    if ((criteo && r.criteo == NULL) || (copies && copy == NULL)) {
        result = error_set(error, AML_ENOMEM, "no memory for lines of %zu bytes", run->size);
    } else {
        if (criteo) {
            r.criteo->columns = head->criteo;
            criteo_labels(r.criteo);
        } else {
            memcpy(copy, run->text, run->size + 1);
        }
        result = read_run_lines(&r, copy, at);
    }
    reading_close(&r);
    free(copy);
    return result;
}

const struct samples_chunk *samples_find_chunk(const struct samples_places *places, uint32_t file, uint32_t split,
                                               uint64_t offset) {
    size_t low = 0;
    size_t high = places->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct samples_chunk *chunk = &places->chunks[middle];
        bool before = chunk->file != file     ? chunk->file < file
                      : chunk->split != split ? chunk->split < split
                                              : chunk->offset < offset;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    const struct samples_chunk *found = low < places->count ? &places->chunks[low] : NULL;
    return found != NULL && found->file == file && found->split == split && found->offset == offset ? found : NULL;
}

/* ---- Surveys of Criteo files, without reading them ---- */

int samples_survey_criteo(const struct samples_file *file, struct samples_survey *survey, struct error *error) {
    static const char *const texts[] = {"0", "1"};
    *survey = (struct samples_survey){.format = SAMPLES_CRITEO, .features = UINT32_C(1) << file->hash.bits};
    int result = 0;
    for (size_t f = 0; f < file_count(file) && result == 0; f++) {
        uint64_t lines = 0;
        result = estimate_lines(file->files != NULL ? file->files->names[f].path : file->path, &lines, error);
        survey->samples += lines;
    }
    survey->values = survey->samples * (CRITEO_FIELDS + file->hash.cross_count);
    for (size_t k = 0; k < 2; k++) {
        struct label label;
        (void)label_make(&label, texts[k], 1);
        (void)labels_add(&survey->labels, &label);
        survey->labels.items[k].count = 0; /* the labels have not been counted */
    }
    labels_sort(&survey->labels);
    if (result != 0) {
        samples_survey_close(survey);
    }
    return result;
}

void samples_survey_close(struct samples_survey *survey) {
    labels_close(&survey->labels);
    columns_close(&survey->columns);
    numbering_close(&survey->numbering);
    free(survey->numbers);
    free(survey->maxima);
    free(survey->places.chunks);
    survey->numbers = NULL;
    survey->maxima = NULL;
    survey->places = (struct samples_places){0};
}
