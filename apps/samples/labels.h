/* The set of labels of samples, as the file writes them, and their numbers 0..count-1: the classes of the
 * arithmetic. Numeric labels come before words. Numeric labels are ordered by value, words by their bytes. Decides
 * which texts mean a missing label, and which sets are not classes. Any number of threads may look labels up at
 * once; one thread at a time may add. */
#ifndef APPS_SAMPLES_LABELS_H
#define APPS_SAMPLES_LABELS_H

#include "agileml/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LABELS_MAX = 1 << 16, /* different labels */
    LABEL_MAX = 55        /* bytes of a label */
};

/* A label. Numeric labels are equal when their values are: "+1", "1" and "1.0" are one label. Whole numbers that a
 * double does not hold exactly are compared by their digits. */
struct label {
    double number;            /* NAN: the label is a word */
    uint64_t count;           /* in a set: how often the label was added */
    char text[LABEL_MAX + 1]; /* as written in the file; in a set, as first written */
};

/* A zeroed struct is an empty set. */
struct labels {
    struct label *items;
    uint32_t count, capacity;
    struct index_map places; /* keys are hashes of labels */
};

/* Makes a label of text[length]. Returns false when the text is empty, too long, or has bytes that are not
 * printable. */
bool label_make(struct label *label, const char *text, size_t length);
/* Returns whether text[length] stands for a missing label. That is an empty text, `?`, `.`, `--`, or one of the
 * words nan, NA, null, none, missing, inf and the like, in any case and perhaps with a sign. It is also a number too
 * large for a double. `+` and `-` are labels. */
bool label_is_missing(const char *text, size_t length);

/* Returns the label's number, or INDEX_NONE. */
int64_t labels_find(const struct labels *labels, const struct label *label);
/* Adds the label, or counts it if it is already in the set. Returns false when the set has LABELS_MAX other
 * labels. */
bool labels_add(struct labels *labels, const struct label *label);
/* Numbers the labels in their order. Call it after the last label was added. */
void labels_sort(struct labels *labels);

/* Reasons why labels may not be classes. */
enum labels_doubt {
    LABELS_FINE = 0,
    LABELS_REAL,  /* more than 20 numbers, some with fractions: a quantity */
    LABELS_UNIQUE /* more than 20 labels, most of them rare: a quantity, row numbers, or names */
};
/* Finds the doubt by the labels' counts. */
enum labels_doubt labels_check(const struct labels *labels);
void labels_close(struct labels *labels);

#endif
