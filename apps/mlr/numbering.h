/* Numbers the features of sparse samples whose indexes are far apart, such as hashes of words: those that occur in the
 * training data, from 0 on, in the order of their indexes. So a job's memory is for the features that there are, not
 * for all up to the largest. While no feature is NUMBERING_FROM or above, nothing is numbered: features stay as they
 * are.
 *
 * A survey adds features (numbering_add) and ends the numbering; a model's is made whole. After that lookups may run in
 * parallel. Here a feature is an index less that of the first feature (samples_file.index_base). */
#ifndef APPS_MLR_NUMBERING_H
#define APPS_MLR_NUMBERING_H

#include "agileml/base/slot_index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBERING_FROM = 1 << 20 };

/* A zeroed struct numbers nothing. */
struct numbering {
    /* [places.count] Before the end those from NUMBERING_FROM on, as they came; then all that occur, ascending. */
    uint64_t *features;
    size_t capacity;
    struct slot_index places;
    unsigned char *low; /* until the end: a bit for each feature below NUMBERING_FROM that occurs; NULL: none does */
};

/* Whether features are numbered; `numbering` may be NULL. After the end. */
static inline bool numbering_is_used(const struct numbering *numbering) {
    return numbering != NULL && numbering->places.count > 0;
}

/* Adds a sample's features[count], which ascend. Writes numbers[count], which count until the end: a feature below
 * NUMBERING_FROM has itself, others follow from there on. Returns a number above all that were given so far. */
uint32_t numbering_add(struct numbering *numbering, const uint32_t *features, uint32_t count, uint32_t *numbers);
/* Ends the numbering; `base` (0 or 1) is subtracted from all features. Returns NULL: nothing is numbered; or an array
 * of the final numbers by those of numbering_add, for the caller to free. */
uint32_t *numbering_end(struct numbering *numbering, uint32_t base);

/* Makes the numbering of features[count], which ascend, and takes the array over. */
void numbering_make(struct numbering *numbering, uint64_t *features, uint32_t count);

/* Replaces a sample's features[count] by their numbers, and leaves out those that have none, with their values. Returns
 * how many are left. */
uint32_t numbering_apply(const struct numbering *numbering, uint32_t *features, double *values, uint32_t count);

void numbering_close(struct numbering *numbering);

#endif
