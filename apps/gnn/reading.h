/* What the readers of a graph's files share. Each reads one option's files into the graph (input.h), in the order of
 * the functions below. */
#ifndef APPS_GNN_READING_H
#define APPS_GNN_READING_H

#include "apps/gnn/input.h"
#include "apps/samples/labels.h"

struct npy;

struct graph_reading {
    const struct graph_input *input;
    struct graph *graph;
    bool need_labels;
    const char *counted; /* the file whose rows are the vertices; NULL: graph->vertices is not known yet */
    void (*note)(void *context, const char *text);
    void *context;
    struct error *error;
};

/* What kind of file it is. */
enum graph_file { GRAPH_FILE_TEXT, GRAPH_FILE_NPY };

/* Reads the features, which say how many vertices there are, and the labels in the file, if it has some and --labels is
 * not given. All functions return 0, AML_EINPUT, AML_ENOMEM or AML_EFAIL. */
int features_read(struct graph_reading *reading);
/* Reads --labels. */
int vertex_labels_read(struct graph_reading *reading);
int edges_read(struct graph_reading *reading);
/* Reads or chooses the split, and checks it. */
int splits_read(struct graph_reading *reading);

/* Finds out what kind of file it is. Refuses pickles and archives of them by name, with the lines that convert them. */
int reading_kind(const struct graph_reading *reading, const char *path, enum graph_file *kind);

/* Numbers the classes, and sets graph->classes and their names. graph->labels are numbers in the order in which
 * `labels` got them, or -1. */
int reading_set_classes(const struct graph_reading *reading, struct labels *labels, const char *path);

/* Takes text[length] as a vertex's label: sets *label to its number in `labels`, or -1 when it is missing. Returns
 * AML_EINPUT without FILE:LINE. */
int reading_take_label(struct labels *labels, const char *text, size_t length, int32_t *label, struct error *error);

/* Passes a note on. */
__attribute__((format(printf, 2, 3))) void reading_note(const struct graph_reading *reading, const char *format, ...);

/* Takes a whole number at p, perhaps written as 3.0 or 3e0. Returns the place after it; NULL: there is none. */
const char *reading_take_number(const char *p, int64_t *number);

#endif
