/* The set of labels of samples, as the file writes them, and their numbers 0..count-1: the classes of the arithmetic.
 * Numeric labels come before words; numeric ones are in the order of their values, words in that of their bytes. Any
 * number of threads may look labels up at once; one thread at a time may add. */
#ifndef APPS_MLR_LABELS_H
#define APPS_MLR_LABELS_H

#include "agileml/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MLR_CLASSES_MAX = 1 << 16, /* different labels */
    MLR_LABEL_MAX = 55         /* bytes of a label */
};

/* A label. Numeric labels are equal when their values are: "+1", "1" and "1.0" are one label with the text "1". */
struct mlr_label {
    double number; /* NAN: the label is a word */
    char text[MLR_LABEL_MAX + 1];
};

/* A zeroed struct is an empty set. */
struct mlr_labels {
    struct mlr_label *items;
    uint32_t count, capacity;
    struct index_map places; /* by a hash of the label */
};

/* Makes a label of text[length]. Returns false when the text is empty, too long or has bytes that do not print. */
bool mlr_label_make(struct mlr_label *label, const char *text, size_t length);

/* Returns the label's number, or INDEX_NONE. */
int64_t mlr_labels_find(const struct mlr_labels *labels, const struct mlr_label *label);
/* Adds the label unless it is in the set. Returns false when the set has MLR_CLASSES_MAX others. */
bool mlr_labels_add(struct mlr_labels *labels, const struct mlr_label *label);
/* Numbers the labels in their order, after the last one was added. */
void mlr_labels_sort(struct mlr_labels *labels);
void mlr_labels_close(struct mlr_labels *labels);

#endif
