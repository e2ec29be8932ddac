/* Reads a graph from its files: edges, features, labels and splits, in the formats that other programs write. Every
 * message names the file, the line or element, and what was expected.
 *
 * Vertices are the rows of the features, or of the labels when there are no features, and count from 0. Features are
 * stored sparse or dense by their share of non-zeros (feature_rows.h). Classes are numbered in the order of labels
 * (apps/samples/labels.h); a label that is missing, -1 or nan is not known. --train-per-class takes so many vertices of
 * each class in the order of aml_mix(seed, vertex), then those for validation, and leaves the rest for the test. */
#ifndef APPS_GNN_INPUT_H
#define APPS_GNN_INPUT_H

#include "apps/gnn/graph.h"

/* The options' values; NULL or 0: not given. */
struct graph_input {
    const char *edges;    /* --edges: text or .npy */
    const char *features; /* --features: libsvm (with labels, if --labels is not given), csv or .npy */
    const char *labels;   /* --labels: text or .npy */
    const char *split;    /* --split: text, masks or numbers in .npy, or three files separated by commas */
    bool directed;        /* --directed */
    int64_t train_per_class, validation_per_class; /* instead of --split */
    uint64_t seed;                                 /* for the choice of these */
};

/* Reads the graph. `need_labels` 0: for predictions; labels and splits are read if they are given. Notes, such as
 * repeated edges or a third column that is ignored, go to `note` with `context`. Returns 0, and graph_close must
 * follow; or AML_EINPUT, AML_ENOMEM, AML_EFAIL with nothing to free. */
int graph_input_read(const struct graph_input *input, bool need_labels, struct graph *graph,
                     void (*note)(void *context, const char *text), void *context, struct error *error);

#endif
