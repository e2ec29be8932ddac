/* Reads which vertices are for training, validation and test, or chooses them: so many of each class. */
#include "agileml.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_foreign.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/source_text.h"
#include "apps/gnn/npy.h"
#include "apps/gnn/reading.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SPLITS = 3,
    SPLIT_LINE_MAX = 1 << 30,
    SPLIT_CHUNK = 1 << 12,
    PLACE_MAX = 64 /* bytes of a place such as ":3" */
};

static const char *const names[SPLITS + 1] = {"unused", "training", "validation", "test"};

/* The state while a split is read. */
struct splits {
    const struct graph_reading *reading;
    struct graph *graph;
    struct error *error;
    const char *path; /* the present file */
};

static const char *splits_name(const struct splits *splits) {
    return text_input_name(splits->path);
}

/* Where a vertex is named: a line, or an element of an array. */
struct place {
    bool element;
    uint64_t number;
};

/* Refuses a vertex that can't be in the split. */
static int refuse_vertex(const struct splits *splits, struct place place, int64_t vertex, enum graph_split split) {
    const struct graph *graph = splits->graph;
    char where[PLACE_MAX];
    snprintf(where, sizeof where, place.element ? ": element [%llu]" : ":%llu", (unsigned long long)place.number);
    if (vertex < 0 || vertex >= (int64_t)graph->vertices) {
        return error_set(splits->error, AML_EINPUT,
                         "%s%s: expected a vertex from 0 to %u, as %s has %u rows, got %lld%s", splits_name(splits),
                         where, graph->vertices - 1, text_input_name(splits->reading->counted), graph->vertices,
                         (long long)vertex, vertex == (int64_t)graph->vertices ? " (vertices count from 0)" : "");
    }
    const unsigned char other = graph->splits[vertex];
    if (other != GRAPH_UNUSED) {
        return error_set(splits->error, AML_EINPUT, "%s%s: vertex %lld is for %s %s%s: expected it once",
                         splits_name(splits), where, (long long)vertex, names[split],
                         other == split ? "already" : "and ", other == split ? "" : names[other]);
    }
    return error_set(splits->error, AML_EINPUT, "%s%s: vertex %lld is for %s, but has no label", splits_name(splits),
                     where, (long long)vertex, names[split]);
}

static int put_vertex(struct splits *splits, struct place place, int64_t vertex, enum graph_split split) {
    const struct graph *graph = splits->graph;
    const bool need_label = splits->reading->need_labels;
    if (vertex < 0 || vertex >= (int64_t)graph->vertices || graph->splits[vertex] != GRAPH_UNUSED ||
        (need_label && graph->labels[vertex] < 0)) {
        return refuse_vertex(splits, place, vertex, split);
    }
    graph->splits[vertex] = (unsigned char)split;
    return 0;
}

/* ---- Text ---- */

/* Takes the vertices of a line, separated by blanks, commas or semicolons. */
static int take_vertices(struct splits *splits, uint64_t number, const char *line, enum graph_split split) {
    for (const char *p = text_skip_blanks(line); *p != '\0';) {
        int64_t vertex;
        const char *end = reading_take_number(p, &vertex);
        if (end == NULL || (*end != '\0' && !text_is_blank(*end) && *end != ',' && *end != ';')) {
            const size_t length = strcspn(p, " \t,;");
            return error_set(splits->error, AML_EINPUT, "%s:%llu: expected vertices' numbers, got '%.*s'%s",
                             splits_name(splits), (unsigned long long)number, text_shown(length), p,
                             text_shown_end(length));
        }
        int code = put_vertex(splits, (struct place){.number = number}, vertex, split);
        if (code != 0) {
            return code;
        }
        p = text_skip_blanks(end);
        p = *p == ',' || *p == ';' ? text_skip_blanks(p + 1) : p;
    }
    return 0;
}

/* Returns the split of this name; GRAPH_UNUSED: it is no name of a split. */
static enum graph_split split_of(const char *name, size_t length) {
    static const struct {
        const char *name;
        enum graph_split split;
    } words[] = {{"train", GRAPH_TRAIN},      {"training", GRAPH_TRAIN}, {"val", GRAPH_VALIDATION},
                 {"valid", GRAPH_VALIDATION}, {"dev", GRAPH_VALIDATION}, {"validation", GRAPH_VALIDATION},
                 {"test", GRAPH_TEST},        {"testing", GRAPH_TEST}};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        if (length == strlen(words[w].name) && strncasecmp(name, words[w].name, length) == 0) {
            return words[w].split;
        }
    }
    return GRAPH_UNUSED;
}

/* Takes the name of a split at the line's beginning. Returns GRAPH_UNUSED when there is none. */
static enum graph_split take_name(const char **line) {
    const char *begin = text_skip_blanks(*line);
    const size_t length = strcspn(begin, " \t:,;");
    const enum graph_split split = split_of(begin, length);
    if (split != GRAPH_UNUSED) {
        *line = begin + length + (begin[length] != '\0');
    }
    return split;
}

/* Takes one of three lines: the next split's, or that of the name before its vertices. Sets the bit of its split. */
static int take_split_line(struct splits *splits, uint64_t number, const char *line, unsigned *taken) {
    enum graph_split split = take_name(&line);
    if (split == GRAPH_UNUSED) {
        split = GRAPH_TRAIN;
        while (split < GRAPH_TEST && (*taken & 1U << split) != 0) {
            split++;
        }
    }
    if ((*taken & 1U << split) != 0) {
        return error_set(splits->error, AML_EINPUT, "%s:%llu: a second line for %s: expected one for each split",
                         splits_name(splits), (unsigned long long)number, names[split]);
    }
    *taken |= 1U << split;
    return take_vertices(splits, number, line, split);
}

/* Reads a file's lines into a split; GRAPH_UNUSED: three lines into one each. */
static int read_lines(struct splits *splits, enum graph_split split) {
    struct text_lines lines;
    const unsigned all = 1U << GRAPH_TRAIN | 1U << GRAPH_VALIDATION | 1U << GRAPH_TEST;
    unsigned taken = split == GRAPH_UNUSED ? 0 : all;
    int code = source_lines_open(&lines, splits->path, SPLIT_LINE_MAX, splits->error);
    while (code == 0) {
        char *line;
        size_t length;
        code = text_lines_next(&lines, &line, &length, splits->error);
        if (code != 0 || line == NULL) {
            break;
        }
        const char *foreign = lines.number == 1 ? text_foreign_line(line, line + length) : NULL;
        if (foreign != NULL) {
            code = error_set(splits->error, AML_EINPUT, "%s:1: %s", splits_name(splits), foreign);
        } else if (*line == '#' || (taken == all && length == 0)) {
            continue;
        } else if (split != GRAPH_UNUSED) {
            code = take_vertices(splits, lines.number, line, split);
        } else if (taken == all) {
            code = error_set(splits->error, AML_EINPUT,
                             "%s:%llu: expected three lines (training, validation, test), or three files",
                             splits_name(splits), (unsigned long long)lines.number);
        } else {
            code = take_split_line(splits, lines.number, line, &taken);
        }
    }
    text_lines_close(&lines);
    if (code == 0 && taken != all) {
        code = error_set(splits->error, AML_EINPUT, "%s: expected three lines (training, validation, test), got fewer",
                         splits_name(splits));
    }
    return code;
}

/* ---- numpy ---- */

/* Whether the integers are a mask: one for each vertex, all 0 or 1. As vertices' numbers they would have repeats. */
static bool is_mask(const struct splits *splits, const struct npy *npy, const int64_t *values) {
    if (npy->kind == NPY_BOOL) {
        return true;
    }
    bool mask = npy->count == splits->graph->vertices && npy->count > 2;
    for (uint64_t i = 0; i < npy->count && mask; i++) {
        mask = values[i] == 0 || values[i] == 1;
    }
    return mask;
}

static int take_array(struct splits *splits, struct npy *npy, enum graph_split split) {
    int64_t *values = memory_zeroed(npy->count > 0 ? (size_t)npy->count : 1, sizeof *values);
    int code = npy_read_integers(npy, values, npy->count, splits->error);
    const bool mask = code == 0 && is_mask(splits, npy, values);
    for (uint64_t i = 0; i < npy->count && code == 0; i++) {
        if (!mask || values[i] != 0) {
            code =
                put_vertex(splits, (struct place){.element = true, .number = i}, mask ? (int64_t)i : values[i], split);
        }
    }
    free(values);
    return code;
}

static int read_npy(struct splits *splits, enum graph_split split) {
    struct npy npy;
    char shape[128];
    int code = npy_open(&npy, splits->path, splits->error);
    if (code != 0) {
        return code;
    }
    npy_print_shape(&npy, shape, sizeof shape);
    if (npy.dimensions != 1) {
        code = error_set(splits->error, AML_EINPUT,
                         "%s: expected a mask of shape (vertices,) or an array of vertices' numbers, got shape %s",
                         splits_name(splits), shape);
    } else if (npy.kind == NPY_BOOL && npy.count != splits->graph->vertices) {
        code = error_set(splits->error, AML_EINPUT, "%s: expected a mask of %u elements, as %s has %u rows, got %llu",
                         splits_name(splits), splits->graph->vertices, text_input_name(splits->reading->counted),
                         splits->graph->vertices, (unsigned long long)npy.count);
    } else if (npy.count > splits->graph->vertices) {
        code = error_set(splits->error, AML_EINPUT, "%s: expected at most %u vertices, got %llu", splits_name(splits),
                         splits->graph->vertices, (unsigned long long)npy.count);
    } else {
        code = take_array(splits, &npy, split);
    }
    npy_close(&npy);
    return code;
}

/* ---- Files ---- */

static int read_file(struct splits *splits, const char *path, enum graph_split split) {
    enum graph_file kind;
    splits->path = path;
    int code = reading_kind(splits->reading, path, &kind);
    if (code != 0) {
        return code;
    }
    if (kind == GRAPH_FILE_NPY && split == GRAPH_UNUSED) {
        return error_set(splits->error, AML_EINPUT,
                         "%s: expected text of three lines, or three files TRAINING,VALIDATION,TEST",
                         splits_name(splits));
    }
    return kind == GRAPH_FILE_NPY ? read_npy(splits, split) : read_lines(splits, split);
}

/* Splits the value at its commas into paths[SPLITS], in place. Returns false when it has another number of paths. */
static bool take_paths(char *value, const char *paths[SPLITS]) {
    unsigned count = 0;
    for (char *path = strsep(&value, ","); path != NULL; path = strsep(&value, ",")) {
        if (count == SPLITS || *path == '\0') {
            return false;
        }
        paths[count++] = path;
    }
    return count == SPLITS;
}

/* Refuses a file whose name is that of another split, as test.csv. */
static int check_order(const struct splits *splits, const char *path, enum graph_split split) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const enum graph_split named = split_of(name, strcspn(name, "._-"));
    if (named == GRAPH_UNUSED || named == split) {
        return 0;
    }
    return error_set(splits->error, AML_EINPUT,
                     "--split: expected the files of training, validation and test in this order, got '%s' for %s",
                     text_input_name(path), names[split]);
}

/* Reads three files separated by commas. */
static int read_files(struct splits *splits, const char *value) {
    const char *paths[SPLITS] = {NULL};
    char *copy = memory_string(value);
    int code = 0;
    if (!take_paths(copy, paths)) {
        code =
            error_set(splits->error, AML_EINPUT,
                      "--split: expected a file, or three separated by commas (training, validation, test), got '%s'",
                      text_input_name(value));
    }
    for (unsigned f = 0; f < SPLITS && code == 0; f++) {
        code = check_order(splits, paths[f], (enum graph_split)(GRAPH_TRAIN + f));
    }
    for (unsigned f = 0; f < SPLITS && code == 0; f++) {
        code = read_file(splits, paths[f], (enum graph_split)(GRAPH_TRAIN + f));
    }
    splits->path = value;
    free(copy);
    return code;
}

static int read_split(struct splits *splits) {
    const char *value = splits->reading->input->split;
    struct source_identity identity;
    struct error error = {0};
    const bool whole = strchr(value, ',') == NULL || source_identify(value, &identity, &error) == 0;
    return whole ? read_file(splits, value, GRAPH_UNUSED) : read_files(splits, value);
}

/* ---- Choice ---- */

struct drawn {
    uint64_t key;
    uint32_t vertex;
};

static int drawn_order(const void *a, const void *b) {
    const struct drawn *left = a;
    const struct drawn *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->vertex < right->vertex ? -1 : left->vertex > right->vertex;
}

/* Splits the vertices of a class, drawn[count]. */
static int choose_class(struct splits *splits, uint32_t class, struct drawn *drawn, uint64_t count) {
    const struct graph_input *input = splits->reading->input;
    const uint64_t training = (uint64_t)input->train_per_class;
    const uint64_t validation = (uint64_t)input->validation_per_class;
    if (training > count || validation > count - training) {
        return error_set(splits->error, AML_EINPUT,
                         "--train-per-class: class '%s' has %llu vertices: expected at least %llu + %llu for training "
                         "and validation",
                         splits->graph->class_names[class], (unsigned long long)count, (unsigned long long)training,
                         (unsigned long long)validation);
    }
    qsort(drawn, (size_t)count, sizeof *drawn, drawn_order);
    for (uint64_t i = 0; i < count; i++) {
        splits->graph->splits[drawn[i].vertex] = i < training                ? GRAPH_TRAIN
                                                 : i < training + validation ? GRAPH_VALIDATION
                                                                             : GRAPH_TEST;
    }
    return 0;
}

static int choose(struct splits *splits) {
    const struct graph *graph = splits->graph;
    const uint64_t seed = splits->reading->input->seed;
    if (graph->labels == NULL) {
        return error_set(splits->error, AML_EINPUT, "--train-per-class: expected labels (--labels)");
    }
    uint64_t *ends = memory_zeroed((size_t)graph->classes + 1, sizeof *ends);
    struct drawn *drawn = memory_zeroed((size_t)graph->vertices, sizeof *drawn);
    for (uint32_t v = 0; v < graph->vertices; v++) {
        ends[graph->labels[v] + 1]++;
    }
    ends[0] = 0; /* those without a label */
    for (uint32_t c = 1; c <= graph->classes; c++) {
        ends[c] += ends[c - 1];
    }
    for (uint32_t v = 0; v < graph->vertices; v++) {
        if (graph->labels[v] >= 0) {
            drawn[ends[graph->labels[v]]++] = (struct drawn){.key = aml_mix(seed, v), .vertex = v};
        }
    }
    int code = 0;
    for (uint32_t c = 0; c < graph->classes && code == 0; c++) {
        const uint64_t begin = c > 0 ? ends[c - 1] : 0; /* ends[c] has moved to the end of class c */
        code = choose_class(splits, c, &drawn[begin], ends[c] - begin);
    }
    free(ends);
    free(drawn);
    return code;
}

/* ---- Checks ---- */

static int check_splits(const struct splits *splits) {
    const struct graph *graph = splits->graph;
    int32_t class = -1;
    uint64_t training = 0;
    bool several = false;
    for (uint32_t v = 0; v < graph->vertices; v++) {
        if (graph->splits[v] == GRAPH_TRAIN) {
            training++;
            several = several || (class >= 0 && graph->labels[v] != class);
            class = graph->labels[v];
        }
    }
    const char *from = splits->path != NULL ? splits_name(splits) : "--train-per-class";
    if (training == 0) {
        return error_set(splits->error, AML_EINPUT, "%s: expected vertices for training, there are none", from);
    }
    if (!several) {
        return error_set(splits->error, AML_EINPUT,
                         "%s: expected training vertices of at least 2 classes, all are of '%s' (a label -1 means: not "
                         "known)",
                         from, graph->class_names[class]);
    }
    return 0;
}

int splits_read(struct graph_reading *reading) {
    const struct graph_input *input = reading->input;
    struct graph *graph = reading->graph;
    struct splits splits = {.reading = reading, .graph = graph, .error = reading->error};
    const bool chosen = input->train_per_class != 0 || input->validation_per_class != 0;
    if (input->split != NULL && chosen) {
        return error_set(reading->error, AML_EINPUT, "--split: expected it without --train-per-class");
    }
    if (chosen && (input->train_per_class < 1 || input->validation_per_class < 0)) {
        return error_set(reading->error, AML_EINPUT, "--train-per-class: expected at least 1");
    }
    if (input->split == NULL && !chosen) {
        return reading->need_labels ? error_set(reading->error, AML_EINPUT,
                                                "--split or --train-per-class: expected one of them, to train on")
                                    : 0;
    }
    if (!reading->need_labels && graph->labels == NULL && chosen) {
        return 0; /* predictions need no split */
    }
    graph->splits = memory_zeroed(graph->vertices, sizeof *graph->splits);
    int code = input->split != NULL ? read_split(&splits) : choose(&splits);
    return code == 0 && reading->need_labels ? check_splits(&splits) : code;
}
