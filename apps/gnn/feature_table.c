/* See feature_table.h. */
#include "apps/gnn/feature_table.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_columns.h"
#include "agileml/base/text_foreign.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/source_text.h"
#include "apps/gnn/feature_rows.h"
#include "apps/samples/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_LINE_MAX = 1 << 28, NUMBERED_HEADER_MIN = 3 };

struct table {
    const struct graph_reading *reading;
    struct error *error;
    const char *path;
    struct text_lines lines;
    enum text_separator separator;
    size_t columns; /* fields of a line; 0: not known yet */
    bool index;     /* the first column is the row's number */
    uint64_t empty; /* the first empty line after the last row; 0: none */
    struct feature_rows rows;
    float *values; /* [columns] of the present row */
};

static const char *table_name(const struct table *table) {
    return text_input_name(table->path);
}

/* Refuses a field of the present line. */
static int refuse_field(const struct table *table, size_t column, const char *expected,
                        const struct text_field *field) {
    return error_set(table->error, AML_EINPUT, "%s:%llu: column %zu: expected %s, got '%.*s'%s", table_name(table),
                     (unsigned long long)table->lines.number, column + 1, expected, text_shown(field->length),
                     field->text, text_shown_end(field->length));
}

static int refuse_count(const struct table *table, const char *line, size_t length) {
    const size_t count = text_fields_count(line, line + length, table->separator);
    return error_set(table->error, AML_EINPUT, "%s:%llu: expected %zu fields as in the lines before, got %zu",
                     table_name(table), (unsigned long long)table->lines.number, table->columns, count);
}

/* ---- The first line ---- */

/* Whether the field stands for a value, perhaps one that is refused: a number, or a word such as nan. */
static bool is_value(const struct text_field *field) {
    return field->length > 0 &&
           (number_end(field->text) == field->text + field->length || label_is_missing(field->text, field->length));
}

/* What the fields of a line look like. */
struct look {
    size_t count, values;
    bool counting; /* the fields are 0, 1, 2 ... */
    bool index;    /* the first is empty or called an index */
    bool quotes;   /* a quote is open */
};

/* Whether a column of this name has the rows' numbers. */
static bool is_row_name(const struct text_field *field) {
    static const struct text_role rows = {"row", "id node nodeid vertex vertexid row rowid"};
    char name[TEXT_COLUMN_NAME_MAX];
    return text_column_is_index(field, 0) ||
           (text_column_normalize(field, name, sizeof name) < sizeof name && text_role_has(&rows, name));
}

static struct look look_at(const char *line, size_t length, enum text_separator separator) {
    struct look look = {.counting = true};
    struct text_field field = {.next = line};
    while (field.next != NULL && !look.quotes) {
        double value;
        if (!text_field_take(field.next, line + length, separator, &field)) {
            look.quotes = true;
            break;
        }
        look.index = look.count == 0 ? is_row_name(&field) : look.index;
        look.values += is_value(&field);
        const size_t expected = look.count - look.index; /* a row's number has no number as its name */
        look.counting = look.counting &&
                        ((look.count == 0 && look.index) ||
                         (number_take(field.text, &value) == field.text + field.length && value == (double)expected));
        look.count++;
    }
    return look;
}

/* Takes the first line that is no comment. Sets *header when it has the columns' names. */
static int begin_table(struct table *table, const char *line, size_t length, bool *header) {
    const char *foreign = text_foreign_line(line, line + length);
    if (foreign != NULL) {
        return error_set(table->error, AML_EINPUT, "%s:%llu: %s", table_name(table),
                         (unsigned long long)table->lines.number, foreign);
    }
    table->separator = text_separator_of(line, line + length);
    const struct look look = look_at(line, length, table->separator);
    const bool counting = look.counting && look.count - look.index >= NUMBERED_HEADER_MIN;
    *header = look.values == 0 || counting;
    table->index = *header && look.index && look.count > 1;
    table->columns = look.count;
    table->rows.features.columns = (uint32_t)(look.count - table->index);
    if (look.quotes || look.count > GRAPH_FEATURES_MAX) {
        return error_set(table->error, AML_EINPUT, "%s:%llu: expected at most %d numbers, and no open quote",
                         table_name(table), (unsigned long long)table->lines.number, GRAPH_FEATURES_MAX);
    }
    table->values = memory_zeroed(table->columns, sizeof *table->values);
    if (counting) {
        reading_note(table->reading, "%s: takes line %llu for the columns' names: it counts from 0", table_name(table),
                     (unsigned long long)table->lines.number);
    }
    if (table->index) {
        reading_note(table->reading, "%s: takes column 1 for the vertices' numbers, not for a feature",
                     table_name(table));
    }
    return 0;
}

/* ---- Rows ---- */

/* Takes a number in its usual form at *p, and moves *p to the next field; after the last, to NULL. */
static inline bool take_plain(const struct table *table, const char **p, double *value) {
    static const char separators[] = {[TEXT_UNKNOWN] = ' ',   [TEXT_TAB] = '\t',   [TEXT_COMMA] = ',',
                                      [TEXT_SEMICOLON] = ';', [TEXT_COLONS] = ' ', [TEXT_BLANKS] = ' '};
    const char *end = number_take(*p, value);
    if (end == NULL) {
        return false;
    }
    if (*end == '\0') {
        *p = NULL;
        return true;
    }
    const char separator = separators[table->separator];
    if (*end != separator || (separator == ' ' && (end[1] == '\0' || text_is_blank(end[1])))) {
        return false;
    }
    *p = end + 1;
    return true;
}

/* Takes a number in any form. */
static int take_number(const struct table *table, const char **p, const char *end, size_t column, double *value) {
    struct text_field field;
    if (!text_field_take(*p, end, table->separator, &field)) {
        return refuse_field(table, column, "a field without an open quote", &field);
    }
    if (number_take(field.text, value) != field.text + field.length) {
        return refuse_field(table, column, "a finite number", &field);
    }
    *p = field.next;
    return 0;
}

static int put_number(struct table *table, const char *text, const char *end, size_t column, double value) {
    struct text_field field;
    if (table->index && column == 0) {
        if (value == (double)table->rows.rows) {
            return 0;
        }
        text_field_take(text, end, table->separator, &field);
        char expected[64];
        snprintf(expected, sizeof expected, "the vertex's number %llu, in order", (unsigned long long)table->rows.rows);
        return refuse_field(table, column, expected, &field);
    }
    if (fabs(value) > (double)FLT_MAX) {
        text_field_take(text, end, table->separator, &field);
        return refuse_field(table, column, "a finite number", &field);
    }
    table->values[column - table->index] = (float)value;
    return 0;
}

static int take_row(struct table *table, const char *line, size_t length) {
    const char *end = line + length;
    const char *p = text_skip_blanks(line);
    p = table->separator == TEXT_TAB ? line : p;
    size_t column = 0;
    for (; p != NULL; column++) {
        double value = 0;
        const char *text = p;
        if (column == table->columns) {
            return refuse_count(table, line, length);
        }
        int code = take_plain(table, &p, &value) ? 0 : take_number(table, &p, end, column, &value);
        code = code == 0 ? put_number(table, text, end, column, value) : code;
        if (code != 0) {
            return code;
        }
    }
    if (column != table->columns) {
        return refuse_count(table, line, length);
    }
    if (table->rows.rows == GRAPH_VERTICES_MAX) {
        return error_set(table->error, AML_EINPUT, "%s:%llu: expected at most %d vertices", table_name(table),
                         (unsigned long long)table->lines.number, GRAPH_VERTICES_MAX);
    }
    feature_rows_add(&table->rows, table->values);
    return 0;
}

static int take_line(struct table *table, const char *line, size_t length) {
    if (*text_skip_blanks(line) == '\0') {
        table->empty = table->empty == 0 ? table->lines.number : table->empty;
        return 0;
    }
    if (table->columns == 0) {
        bool header = false;
        table->empty = 0;
        int code = *line == '#' ? 0 : begin_table(table, line, length, &header);
        if (*line == '#' || code != 0 || header) {
            return code;
        }
    }
    if (table->empty != 0) {
        return error_set(table->error, AML_EINPUT, "%s:%llu: expected a line for each vertex, got an empty line",
                         table_name(table), (unsigned long long)table->empty);
    }
    return take_row(table, line, length);
}

int feature_table_read(struct graph_reading *reading) {
    struct table table = {.reading = reading, .error = reading->error, .path = reading->input->features};
    int code = source_lines_open(&table.lines, table.path, TABLE_LINE_MAX, reading->error);
    while (code == 0) {
        char *line;
        size_t length;
        code = text_lines_next(&table.lines, &line, &length, reading->error);
        if (code != 0 || line == NULL) {
            break;
        }
        code = take_line(&table, line, length);
    }
    text_lines_close(&table.lines);
    if (code == 0 && table.rows.rows == 0) {
        code = error_set(reading->error, AML_EINPUT, "%s: expected a line of numbers for each vertex, it has none",
                         table_name(&table));
    }
    if (code == 0) {
        reading->graph->vertices = (uint32_t)table.rows.rows;
        feature_rows_finish(&table.rows, FEATURES_DENSE_TABLE, &reading->graph->features);
    }
    feature_rows_close(&table.rows);
    free(table.values);
    return code;
}
