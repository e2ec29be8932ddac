/* Reads the vertices' labels, one a line or from numpy's array, and numbers the classes as all apps do. */
#include "apps/samples/labels.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_foreign.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/source_text.h"
#include "apps/gnn/npy.h"
#include "apps/gnn/reading.h"
#include "apps/samples/number.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL_LINE_MAX = 1 << 20,
    LABELS_CHUNK = 1 << 12,
    LABELS_DIRECT = 1 << 12, /* labels 0 to here are looked up by their value */
    UNKNOWN = -1
};

/* ---- Classes ---- */

int reading_take_label(struct labels *labels, const char *text, size_t length, int32_t *label, struct error *error) {
    struct label made;
    *label = UNKNOWN;
    if (label_is_missing(text, length)) {
        return 0;
    }
    if (!label_make(&made, text, length)) {
        return error_set(error, AML_EINPUT, "expected a label of at most %d printable bytes, got '%.*s'%s", LABEL_MAX,
                         text_shown(length), text, text_shown_end(length));
    }
    if (made.number == -1) {
        return 0;
    }
    int64_t found = labels_find(labels, &made);
    if (found == INDEX_NONE && labels->count == GRAPH_CLASSES_MAX) {
        return error_set(error, AML_EINPUT, "expected at most %d different labels", GRAPH_CLASSES_MAX);
    }
    labels_add(labels, &made);
    *label = found != INDEX_NONE ? (int32_t)found : (int32_t)labels->count - 1;
    return 0;
}

/* Refuses labels that are no classes. */
static int check_classes(const struct graph_reading *reading, const struct labels *labels, const char *path) {
    const enum labels_doubt doubt = reading->need_labels ? labels_check(labels) : LABELS_FINE;
    if (doubt == LABELS_FINE) {
        return 0;
    }
    return error_set(reading->error, AML_EINPUT,
                     "%s: %u different labels, such as %s and %s, are a quantity or names: expected classes with "
                     "several vertices each",
                     text_input_name(path), labels->count, labels->items[0].text,
                     labels->items[labels->count - 1].text);
}

int reading_set_classes(const struct graph_reading *reading, struct labels *labels, const char *path) {
    struct graph *graph = reading->graph;
    assert(graph->labels != NULL);
    int code = check_classes(reading, labels, path);
    if (code != 0) {
        return code;
    }
    const uint32_t count = labels->count;
    struct label *before = memory_zeroed(count > 0 ? count : 1, sizeof *before);
    int32_t *place = memory_zeroed(count > 0 ? count : 1, sizeof *place);
    for (uint32_t c = 0; c < count; c++) {
        before[c] = labels->items[c];
    }
    labels_sort(labels);
    for (uint32_t c = 0; c < count; c++) {
        place[c] = (int32_t)labels_find(labels, &before[c]);
    }
    for (uint32_t v = 0; v < graph->vertices; v++) {
        graph->labels[v] = graph->labels[v] == UNKNOWN ? UNKNOWN : place[graph->labels[v]];
    }
    free(before);
    free(place);
    graph->classes = count;
    graph->class_names = memory_zeroed(count > 0 ? count : 1, sizeof *graph->class_names);
    for (uint32_t c = 0; c < count; c++) {
        graph->class_names[c] = memory_string(labels->items[c].text);
    }
    return 0;
}

/* ---- Text ---- */

/* The state while labels are read. */
struct reader {
    struct graph_reading *reading;
    struct error *error;
    const char *path;
    struct labels labels;
    int32_t *of_vertex; /* [capacity] numbers in `labels` */
    size_t count, capacity;
    size_t filled;             /* labels up to the last line that is not empty */
    char first[LABEL_MAX + 1]; /* the first label as written, which may be a header */
    size_t numbers;            /* labels that are numbers or missing */
};

static const char *reader_name(const struct reader *reader) {
    return text_input_name(reader->path);
}

static void put_label(struct reader *reader, int32_t label) {
    reader->of_vertex = memory_extended(reader->of_vertex, reader->count, &reader->capacity, sizeof *reader->of_vertex);
    reader->of_vertex[reader->count++] = label;
}

/* Whether all words of the text are numbers. */
static bool are_numbers(const char *text) {
    const char *p = text_skip_blanks(text);
    while (*p != '\0') {
        const char *end = number_end(p);
        if (end == NULL || (*end != '\0' && !text_is_blank(*end))) {
            return false;
        }
        p = text_skip_blanks(end);
    }
    return true;
}

/* Takes the only field of a line. */
static bool only_field(const char *line, size_t length, struct text_field *field) {
    const enum text_separator separator = text_separator_of(line, line + length);
    const size_t count = text_fields_count(line, line + length, separator);
    const bool several = separator == TEXT_BLANKS ? are_numbers(line) : separator != TEXT_UNKNOWN;
    if (count > 1 && several) {
        return false;
    }
    const char *begin = text_skip_blanks(line);
    if (*begin == '"') {
        return text_field_take(begin, line + length, TEXT_COMMA, field) && field->next == NULL;
    }
    while (length > 0 && line + length > begin && text_is_blank(line[length - 1])) {
        length--;
    }
    *field = (struct text_field){.text = begin, .length = (size_t)(line + length - begin)};
    return true;
}

static int take_label_line(struct reader *reader, uint64_t number, const char *line, size_t length) {
    struct text_field field;
    struct error error = {0};
    double value;
    int32_t label;
    const char *foreign = number == 1 ? text_foreign_line(line, line + length) : NULL;
    if (foreign != NULL) {
        return error_set(reader->error, AML_EINPUT, "%s:%llu: %s", reader_name(reader), (unsigned long long)number,
                         foreign);
    }
    if (!only_field(line, length, &field)) {
        return error_set(reader->error, AML_EINPUT, "%s:%llu: expected one label in each line, got '%.*s'%s",
                         reader_name(reader), (unsigned long long)number, text_shown(length), line,
                         text_shown_end(length));
    }
    int code = reading_take_label(&reader->labels, field.text, field.length, &label, &error);
    if (code != 0) {
        return error_set(reader->error, code, "%s:%llu: %s", reader_name(reader), (unsigned long long)number,
                         error.text);
    }
    if (reader->count == 0 && field.length <= LABEL_MAX) {
        memcpy(reader->first, field.text, field.length);
    }
    reader->numbers += label == UNKNOWN || number_take(field.text, &value) == field.text + field.length;
    put_label(reader, label);
    reader->filled = field.length > 0 ? reader->count : reader->filled;
    return reader->count <= (size_t)GRAPH_VERTICES_MAX + 1
               ? 0
               : error_set(reader->error, AML_EINPUT, "%s: expected at most %d vertices", reader_name(reader),
                           GRAPH_VERTICES_MAX);
}

/* Whether the first line is a header: a word before numbers alone, or a label that occurs once where there is one line
 * too many. */
static bool has_header(const struct reader *reader) {
    if (reader->count < 2 || reader->of_vertex[0] == UNKNOWN) {
        return false;
    }
    double value;
    const char *end = number_take(reader->first, &value);
    const bool word = end == NULL || *end != '\0';
    const bool counted = reader->reading->counted != NULL;
    const bool excess = counted && reader->filled == (size_t)reader->reading->graph->vertices + 1;
    const bool first_word = reader->numbers + 1 == reader->count && reader->labels.count > 1;
    return word && (first_word || (excess && reader->labels.items[0].count == 1));
}

/* Takes the first line, a header, out of the labels. */
static void drop_header(struct reader *reader) {
    struct labels others = {0};
    for (uint32_t c = 1; c < reader->labels.count; c++) {
        labels_add(&others, &reader->labels.items[c]);
        others.items[c - 1].count = reader->labels.items[c].count;
    }
    for (size_t v = 1; v < reader->count; v++) {
        reader->of_vertex[v - 1] = reader->of_vertex[v] == UNKNOWN ? UNKNOWN : reader->of_vertex[v] - 1;
    }
    labels_close(&reader->labels);
    reader->labels = others;
    reader->count--;
    reader->filled--;
    reading_note(reader->reading, "%s: takes line 1, '%s', for the column's name", reader_name(reader), reader->first);
}

static int read_text(struct reader *reader) {
    struct text_lines lines;
    int code = source_lines_open(&lines, reader->path, LABEL_LINE_MAX, reader->error);
    while (code == 0) {
        char *line;
        size_t length;
        code = text_lines_next(&lines, &line, &length, reader->error);
        if (code != 0 || line == NULL) {
            break;
        }
        code = take_label_line(reader, lines.number, line, length);
    }
    text_lines_close(&lines);
    if (code == 0 && has_header(reader)) {
        drop_header(reader);
    }
    return code;
}

/* ---- numpy ---- */

/* Takes a label that is a number; NaN: not known. */
static int take_value(struct reader *reader, double value, int32_t direct[LABELS_DIRECT]) {
    char text[LABEL_MAX + 1];
    struct error error = {0};
    const bool small = value >= 0 && value < LABELS_DIRECT && value == trunc(value);
    int32_t label = small ? direct[(int)value] : UNKNOWN;
    if (label == UNKNOWN && !isnan(value)) {
        if (value != trunc(value) || fabs(value) >= 0x1p53) {
            return error_set(reader->error, AML_EINPUT, "%s: element [%zu]: expected a whole number or nan, got %g",
                             reader_name(reader), reader->count, value);
        }
        const int length = snprintf(text, sizeof text, "%.0f", value);
        int code = reading_take_label(&reader->labels, text, (size_t)length, &label, &error);
        if (code != 0) {
            return error_set(reader->error, code, "%s: element [%zu]: %s", reader_name(reader), reader->count,
                             error.text);
        }
    } else if (label != UNKNOWN) {
        reader->labels.items[label].count++;
    }
    if (small) {
        direct[(int)value] = label;
    }
    put_label(reader, label);
    return 0;
}

static int read_values(struct reader *reader, struct npy *npy) {
    static const uint64_t chunk = LABELS_CHUNK;
    double values[LABELS_CHUNK];
    int32_t direct[LABELS_DIRECT];
    int code = 0;
    for (size_t i = 0; i < LABELS_DIRECT; i++) {
        direct[i] = UNKNOWN;
    }
    for (uint64_t first = 0; first < npy->count && code == 0; first += chunk) {
        const uint64_t count = npy->count - first < chunk ? npy->count - first : chunk;
        code = npy_read_doubles(npy, values, count, reader->error);
        for (uint64_t i = 0; i < count && code == 0; i++) {
            code = take_value(reader, values[i], direct);
        }
    }
    reader->filled = reader->count;
    return code;
}

static int read_npy(struct reader *reader) {
    struct npy npy;
    char shape[128];
    int code = npy_open(&npy, reader->path, reader->error);
    if (code != 0) {
        return code;
    }
    npy_print_shape(&npy, shape, sizeof shape);
    const bool column = npy.dimensions == 2 && npy.shape[1] == 1;
    if ((npy.dimensions != 1 && !column) || npy.count > GRAPH_VERTICES_MAX) {
        code =
            error_set(reader->error, AML_EINPUT, "%s: expected an array of shape (vertices,), a label for each, got %s",
                      reader_name(reader), shape);
    } else {
        code = read_values(reader, &npy);
    }
    npy_close(&npy);
    return code;
}

/* ---- Both ---- */

/* Compares the number of labels with that of vertices. Empty lines at the end are labels only where there are vertices
 * left. */
static int check_count(struct reader *reader) {
    struct graph_reading *reading = reader->reading;
    if (reading->counted == NULL) {
        reader->count = reader->filled;
        if (reader->count == 0 || reader->count > GRAPH_VERTICES_MAX) {
            return error_set(reader->error, AML_EINPUT, "%s: expected 1 to %d labels, got %zu", reader_name(reader),
                             GRAPH_VERTICES_MAX, reader->count);
        }
        reading->graph->vertices = (uint32_t)reader->count;
        reading->counted = reader->path;
        return 0;
    }
    const size_t vertices = reading->graph->vertices;
    if (reader->filled > vertices || reader->count < vertices) {
        const size_t got = reader->filled > vertices ? reader->filled : reader->count;
        return error_set(reader->error, AML_EINPUT, "%s has %zu rows, but %s has %zu: expected one of each vertex",
                         reader_name(reader), got, text_input_name(reading->counted), vertices);
    }
    return 0;
}

int vertex_labels_read(struct graph_reading *reading) {
    enum graph_file kind;
    struct reader reader = {.reading = reading, .error = reading->error, .path = reading->input->labels};
    int code = reading_kind(reading, reader.path, &kind);
    if (code == 0) {
        code = kind == GRAPH_FILE_NPY ? read_npy(&reader) : read_text(&reader);
    }
    code = code == 0 ? check_count(&reader) : code;
    if (code == 0) {
        reading->graph->labels = reader.of_vertex;
        reader.of_vertex = NULL;
        code = reading_set_classes(reading, &reader.labels, reader.path);
    }
    labels_close(&reader.labels);
    free(reader.of_vertex);
    return code;
}
