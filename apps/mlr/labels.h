/* The set of labels of samples, as the file writes them, and their numbers 0..count-1: the classes of the arithmetic.
 * Numeric labels come before words; numeric ones are in the order of their values, words in that of their bytes. Says
 * which texts mean that a label is missing, and which sets are no classes. Any number of threads may look labels up at
 * once; one thread at a time may add. */
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

/* A label. Numeric labels are equal when their values are: "+1", "1" and "1.0" are one label. Whole numbers are
 * compared by their digits where a double does not hold them exactly. */
struct mlr_label {
    double number;                /* NAN: the label is a word */
    uint64_t count;               /* of a label in a set: how often it was added */
    char text[MLR_LABEL_MAX + 1]; /* as it is written; in a set as it was written first */
};

/* A zeroed struct is an empty set. */
struct mlr_labels {
    struct mlr_label *items;
    uint32_t count, capacity;
    struct index_map places; /* by a hash of the label */
};

/* Makes a label of text[length]. Returns false when the text is empty, too long or has bytes that do not print. */
bool mlr_label_make(struct mlr_label *label, const char *text, size_t length);
/* Returns whether text[length] stands for a label that is missing: it is empty, `?`, `.`, `--`, or, in capitals or not
 * and perhaps with a sign, one of the words nan, NA, null, none, missing, inf and their like; or it is a number too
 * large for a double. `+` and `-` are labels. */
bool mlr_label_is_missing(const char *text, size_t length);

/* Returns the label's number, or INDEX_NONE. */
int64_t mlr_labels_find(const struct mlr_labels *labels, const struct mlr_label *label);
/* Adds the label, or counts it when it is in the set. Returns false when the set has MLR_CLASSES_MAX others. */
bool mlr_labels_add(struct mlr_labels *labels, const struct mlr_label *label);
/* Numbers the labels in their order, after the last one was added. */
void mlr_labels_sort(struct mlr_labels *labels);

/* What labels can be other than classes. */
enum mlr_labels_doubt {
    MLR_LABELS_FINE = 0,
    MLR_LABELS_REAL,  /* more than 20 numbers, some with a fraction: values of a quantity */
    MLR_LABELS_UNIQUE /* more than 20 labels, most of them rare: a quantity, numbers of rows, names */
};
/* Decides by the labels' counts. */
enum mlr_labels_doubt mlr_labels_check(const struct mlr_labels *labels);
void mlr_labels_close(struct mlr_labels *labels);

#endif
