/* Numbers the features of sparse samples whose indexes are far apart, such as hashes of words. Features of the
 * training data are numbered from 0 in the order of their indexes. So a job needs memory only for features that
 * occur, not for all up to the largest. While no feature is NUMBERING_FROM or above, nothing is numbered: features
 * keep their indexes.
 *
 * A survey adds features (numbering_add) and ends the numbering. A model's numbering is made in one step. After
 * that, lookups may run in parallel. Here a feature is an index minus that of the first feature
 * (samples_file.index_base). */
#ifndef APPS_SAMPLES_NUMBERING_H
#define APPS_SAMPLES_NUMBERING_H

#include "agileml/base/slot_index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBERING_FROM = 1 << 20 };

/* A zeroed struct numbers nothing. */
struct numbering {
    /* [places.count] Before the end: the features from NUMBERING_FROM on, in the order of addition. After it: all
     * that occur, ascending. */
    uint64_t *features;
    size_t capacity;
    struct slot_index places;
    unsigned char *low; /* before the end: a bit for each feature below NUMBERING_FROM that occurs; NULL: none */
};

/* Whether features are numbered; `numbering` may be NULL. For use after the end. */
static inline bool numbering_is_used(const struct numbering *numbering) {
    return numbering != NULL && numbering->places.count > 0;
}

/* Adds a sample's features[count], which ascend. Writes numbers[count], which are valid until the end: a feature
 * below NUMBERING_FROM is its own number, others get numbers from NUMBERING_FROM on. Returns a number above all
 * numbers given so far. */
uint32_t numbering_add(struct numbering *numbering, const uint32_t *features, uint32_t count, uint32_t *numbers);
/* Ends the numbering, and subtracts `base` (0 or 1) from all features. Returns NULL if nothing is numbered.
 * Otherwise returns an array that maps the numbers of numbering_add to final ones; the caller frees it. */
uint32_t *numbering_end(struct numbering *numbering, uint32_t base);

/* Makes the numbering of features[count], which ascend, and takes the array over. */
void numbering_make(struct numbering *numbering, uint64_t *features, uint32_t count);

/* Replaces a sample's features[count] by their numbers. Leaves out features without a number, and their values.
 * Returns how many remain. */
uint32_t numbering_apply(const struct numbering *numbering, uint32_t *features, double *values, uint32_t count);

void numbering_close(struct numbering *numbering);

#endif
