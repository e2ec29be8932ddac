/* The set of labels that samples have, as the file says them, and their numbers 0..count-1, which are what the
 * arithmetic calls classes. Numbers come before words; numbers are in the order of their values, words in that of their
 * bytes. Not thread-safe, but any number of threads may look labels up at once. */
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

/* A label. Numbers are equal when their values are, so that "+1", "1" and "1.0" are one: its text is "1". */
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

/* Makes a label of text[length]; false when it is empty, too long or has bytes that do not print. */
bool mlr_label_make(struct mlr_label *label, const char *text, size_t length);

/* The label's number, or INDEX_NONE. */
int64_t mlr_labels_find(const struct mlr_labels *labels, const struct mlr_label *label);
/* Adds the label unless it is there; false when MLR_CLASSES_MAX others are. */
bool mlr_labels_add(struct mlr_labels *labels, const struct mlr_label *label);
/* Numbers the labels in their order, when all are there. */
void mlr_labels_sort(struct mlr_labels *labels);
void mlr_labels_close(struct mlr_labels *labels);

#endif
