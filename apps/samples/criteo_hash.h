/* Turns the fields of a record into features by hashing. Each field, missing or not, selects one of 2^bits slots by
 * its number and its content. Each cross of two fields does so by both contents. The sample has the value 1 in these
 * slots; values of fields that hash to the same slot add up. The content of an integer is its octave: 0, 1, 2..3,
 * 4..7, 8..15 and so on, and likewise for negative ones. So near values share a weight.
 *
 * The result is a pure function of the record and the spec, in any thread. It has no state, and needs no pass over
 * the data before. A model depends on the slots: they are the same on every machine, and must never change. */
#ifndef APPS_SAMPLES_CRITEO_HASH_H
#define APPS_SAMPLES_CRITEO_HASH_H

#include "agileml/base/error.h"
#include "apps/samples/criteo.h"

#include <stddef.h>
#include <stdint.h>

enum {
    CRITEO_HASH_BITS_MIN = 8,
    CRITEO_HASH_BITS_MAX = 24, /* a table has at most 2^24 slots */
    CRITEO_HASH_BITS_DEFAULT = 20,
    CRITEO_HASH_CROSSES_MAX = CRITEO_FIELDS * (CRITEO_FIELDS - 1) / 2, /* all pairs */
    CRITEO_HASH_SLOTS_MAX = CRITEO_FIELDS + CRITEO_HASH_CROSSES_MAX
};

struct criteo_hash_cross {
    unsigned char first, second; /* numbers of fields, first < second */
};

/* How records are hashed. It is stored in a model's file. */
struct criteo_hash {
    uint32_t bits; /* 0: samples are not hashed */
    uint32_t cross_count;
    struct criteo_hash_cross crosses[CRITEO_HASH_CROSSES_MAX]; /* ascending, all different */
};

/* A sample's features. `seen` is all zeros before and after each call. */
struct criteo_hash_features {
    uint32_t slots[CRITEO_HASH_SLOTS_MAX]; /* [count] all different, in the order of the fields */
    double values[CRITEO_HASH_SLOTS_MAX];  /* [count] all 1 unless `added` */
    uint32_t count;
    bool added;             /* some fields share a slot */
    uint16_t seen[1 << 12]; /* scratch: by a slot's last bits, the number + 1 of a feature with these bits */
};

/* Adds the crosses of a text such as "C1xC2,I5xC3" to the spec. Returns 0, or AML_EINPUT for any other text or a
 * repeated cross. */
int criteo_hash_add_crosses(struct criteo_hash *hash, const char *text, struct error *error);
/* Returns whether the spec's numbers are in range and its crosses ascend. For specs from a file. */
bool criteo_hash_valid(const struct criteo_hash *hash);

/* Computes the features of a record. Returns 0, or AML_EINPUT when an integer field is not a number. */
int criteo_hash_run(const struct criteo_hash *hash, const struct criteo_record *record,
                    struct criteo_hash_features *features, struct error *error);

#endif
