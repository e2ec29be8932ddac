/* Reads features: libsvm's lines, a table of numbers as text, or numpy's array. */
#include "agileml/base/text_lines.h"
#include "agileml/input/source_text.h"
#include "apps/gnn/feature_rows.h"
#include "apps/gnn/feature_table.h"
#include "apps/gnn/npy.h"
#include "apps/gnn/reading.h"
#include "apps/samples/samples.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agileml/base/memory.h"

enum { LOOK_LINES = 100 /* first lines that show whether a text is libsvm's */ };

static const char *features_name(const struct graph_reading *reading) {
    return text_input_name(reading->input->features);
}

/* ---- libsvm ---- */

/* The state while libsvm's lines are read. */
struct listed {
    const struct graph_reading *reading;
    struct feature_rows rows;
    bool labelled;
    struct labels labels;
    int32_t *of_vertex; /* [capacity] */
    size_t capacity;
    bool zero;      /* index 0 occurs */
    uint64_t apart; /* lines before the first sample */
};

static int check_row(const struct listed *listed, const struct sample *sample, struct error *error) {
    if (listed->rows.rows >= GRAPH_VERTICES_MAX) {
        return error_set(error, AML_EINPUT, "expected at most %d vertices", GRAPH_VERTICES_MAX);
    }
    if (sample->line - sample->number != listed->apart) {
        return error_set(error, AML_EINPUT,
                         "expected a line for each vertex: there is an empty line or a comment before this one");
    }
    if (sample->count > 0 && sample->features[sample->count - 1] > GRAPH_FEATURES_MAX) {
        return error_set(error, AML_EINPUT, "expected indexes up to %d, got %u", GRAPH_FEATURES_MAX,
                         sample->features[sample->count - 1]);
    }
    return 0;
}

static int take_sample(void *context, const struct sample *sample, struct error *error) {
    struct listed *listed = context;
    const size_t row = (size_t)listed->rows.rows;
    listed->apart = sample->number == 0 ? sample->line : listed->apart;
    int code = check_row(listed, sample, error);
    if (code == 0 && sample->labelled) {
        int32_t label;
        listed->labelled = true;
        code = reading_take_label(&listed->labels, sample->label.text, strlen(sample->label.text), &label, error);
        listed->of_vertex = memory_extended(listed->of_vertex, row, &listed->capacity, sizeof *listed->of_vertex);
        listed->of_vertex[row] = label;
    }
    if (code == 0) {
        listed->zero = listed->zero || (sample->count > 0 && sample->features[0] == 0);
        feature_rows_add_listed(&listed->rows, sample->features, sample->values, sample->count);
    }
    return code;
}

/* Makes columns of indexes that count from 1. */
static void subtract_base(struct listed *listed) {
    struct graph_features *features = &listed->rows.features;
    if (listed->zero || features->columns == 0) {
        return;
    }
    for (uint64_t i = 0; i < listed->rows.nonzeros; i++) {
        features->at[i]--;
    }
    features->columns--;
}

static int keep_labels(struct graph_reading *reading, struct listed *listed) {
    if (!listed->labelled) {
        return 0;
    }
    if (reading->input->labels != NULL) {
        reading_note(reading, "%s: ignores the labels in it, as --labels is given", features_name(reading));
        return 0;
    }
    reading->graph->labels = listed->of_vertex;
    listed->of_vertex = NULL;
    return reading_set_classes(reading, &listed->labels, reading->input->features);
}

static int read_listed(struct graph_reading *reading) {
    struct graph *graph = reading->graph;
    struct listed listed = {.reading = reading};
    const struct samples_file file = {.path = reading->input->features,
                                      .format = SAMPLES_LIBSVM,
                                      .index_base = 0,
                                      .label_optional = true,
                                      .features = 1};
    int code = samples_read(&file, take_sample, &listed, reading->error);
    if (code == 0) {
        subtract_base(&listed);
        graph->vertices = (uint32_t)listed.rows.rows;
        feature_rows_finish(&listed.rows, FEATURES_DENSE_LISTED, &graph->features);
        code = keep_labels(reading, &listed);
    }
    feature_rows_close(&listed.rows);
    labels_close(&listed.labels);
    free(listed.of_vertex);
    return code;
}

/* Whether the line has a field `index:value`. */
static bool has_pair(const char *line) {
    for (const char *colon = strchr(line, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
        const char *p = colon;
        while (p > line && p[-1] >= '0' && p[-1] <= '9') {
            p--;
        }
        if (p < colon && (p == line || text_is_blank(p[-1])) && colon[1] != ':') {
            return true;
        }
    }
    return false;
}

/* Finds out whether the text is libsvm's, by its first lines. */
static int is_listed(const struct graph_reading *reading, bool *listed) {
    struct text_lines lines;
    char *line = NULL;
    size_t length;
    *listed = false;
    int code = source_lines_open(&lines, reading->input->features, SAMPLES_LINE_MAX, reading->error);
    for (unsigned l = 0; l < LOOK_LINES && code == 0 && !*listed; l++) {
        code = text_lines_next(&lines, &line, &length, reading->error);
        if (code != 0 || line == NULL) {
            break;
        }
        *listed = *line != '#' && has_pair(line);
    }
    text_lines_close(&lines);
    return code;
}

/* ---- numpy ---- */

static int check_value(const struct graph_reading *reading, double value, uint64_t row, uint32_t column) {
    if (fabs(value) <= (double)FLT_MAX) {
        return 0;
    }
    return error_set(reading->error, AML_EINPUT, "%s: element [%llu][%u]: expected a finite number, got %g",
                     features_name(reading), (unsigned long long)row, column, value);
}

static int read_rows(struct graph_reading *reading, struct npy *npy, struct feature_rows *rows) {
    const uint32_t columns = rows->features.columns;
    double *read = memory_zeroed(columns, sizeof *read);
    float *values = memory_zeroed(columns, sizeof *values);
    int code = 0;
    for (uint64_t v = 0; v < npy->shape[0] && code == 0; v++) {
        code = npy_read_doubles(npy, read, columns, reading->error);
        for (uint32_t c = 0; c < columns && code == 0; c++) {
            code = check_value(reading, read[c], v, c);
            values[c] = (float)read[c];
        }
        if (code == 0) {
            feature_rows_add(rows, values);
        }
    }
    free(read);
    free(values);
    return code;
}

static int check_shape(const struct graph_reading *reading, const struct npy *npy) {
    char shape[128];
    npy_print_shape(npy, shape, sizeof shape);
    if (npy->dimensions != 2 || npy->count == 0) {
        return error_set(reading->error, AML_EINPUT, "%s: expected an array of shape (vertices, features), got %s",
                         features_name(reading), shape);
    }
    if (npy->shape[0] > GRAPH_VERTICES_MAX || npy->shape[1] > GRAPH_FEATURES_MAX) {
        return error_set(reading->error, AML_EINPUT, "%s: expected at most %d vertices and %d features, got %s",
                         features_name(reading), GRAPH_VERTICES_MAX, GRAPH_FEATURES_MAX, shape);
    }
    return 0;
}

static int read_npy(struct graph_reading *reading) {
    struct npy npy;
    struct feature_rows rows = {0};
    int code = npy_open(&npy, reading->input->features, reading->error);
    if (code != 0) {
        return code;
    }
    code = check_shape(reading, &npy);
    if (code == 0) {
        rows.features.columns = (uint32_t)npy.shape[1];
        code = read_rows(reading, &npy, &rows);
    }
    if (code == 0) {
        reading->graph->vertices = (uint32_t)npy.shape[0];
        feature_rows_finish(&rows, FEATURES_DENSE_TABLE, &reading->graph->features);
    }
    feature_rows_close(&rows);
    npy_close(&npy);
    return code;
}

/* ---- All ---- */

int features_read(struct graph_reading *reading) {
    enum graph_file kind;
    bool listed = false;
    int code = reading_kind(reading, reading->input->features, &kind);
    if (code == 0 && kind == GRAPH_FILE_TEXT) {
        code = is_listed(reading, &listed);
    }
    if (code == 0) {
        code = kind == GRAPH_FILE_NPY ? read_npy(reading) : listed ? read_listed(reading) : feature_table_read(reading);
    }
    if (code != 0) {
        return code;
    }
    const uint32_t columns = reading->graph->features.columns;
    if (columns == 0 || columns > GRAPH_FEATURES_MAX) {
        return error_set(reading->error, AML_EINPUT, "%s: expected 1 to %d features, got %u", features_name(reading),
                         GRAPH_FEATURES_MAX, columns);
    }
    reading->counted = reading->input->features;
    return 0;
}
