/* A stage of the input: turns the fields of a record into features by hashing. Each field, missing or not, names one of
 * 2^bits slots by its number and what it holds, and each cross of two fields by what both hold; the sample has the
 * value 1 there. Fields that hash to the same slot of a sample add up. An integer holds its octave: 0, 1, 2..3, 4..7,
 * 8..15 and so on, negative ones likewise, so that near values share a weight.
 *
 * The stage is a pure function of the record and the spec, in any thread; it has no state, and needs no look at the
 * data beforehand. The slots are part of a model's meaning: they are the same on every machine, and must never
 * change. */
#ifndef APPS_MLR_HASH_H
#define APPS_MLR_HASH_H

#include "agileml/base/error.h"
#include "apps/mlr/criteo.h"

#include <stddef.h>
#include <stdint.h>

enum {
    MLR_HASH_BITS_MIN = 8,
    MLR_HASH_BITS_MAX = 24, /* slots of a table */
    MLR_HASH_BITS_DEFAULT = 20,
    MLR_HASH_CROSSES_MAX = CRITEO_FIELDS * (CRITEO_FIELDS - 1) / 2, /* all pairs */
    MLR_HASH_SLOTS_MAX = CRITEO_FIELDS + MLR_HASH_CROSSES_MAX
};

struct mlr_hash_cross {
    unsigned char first, second; /* fields, first < second */
};

/* How records are hashed. A model's file has it. */
struct mlr_hash {
    uint32_t bits; /* 0: samples are not hashed */
    uint32_t cross_count;
    struct mlr_hash_cross crosses[MLR_HASH_CROSSES_MAX]; /* ascending, none twice */
};

/* A sample's features. `seen` is zeroed at first, and after each call. */
struct mlr_hash_features {
    uint32_t slots[MLR_HASH_SLOTS_MAX]; /* [count] each once, in the order of the fields */
    double values[MLR_HASH_SLOTS_MAX];  /* [count] all 1 unless `added` */
    uint32_t count;
    bool added;             /* some fields share a slot */
    uint16_t seen[1 << 12]; /* scratch: by a slot's last bits, the number + 1 of a feature whose slot has them */
};

/* Adds the crosses of a text such as "C1xC2,I5xC3" to the spec. Returns 0, or AML_EINPUT: not such a text, or a cross
 * twice. */
int mlr_hash_add_crosses(struct mlr_hash *hash, const char *text, struct error *error);
/* Returns whether the spec's numbers are in their ranges, and its crosses ascend. For specs from a file. */
bool mlr_hash_valid(const struct mlr_hash *hash);

/* Runs the stage. Returns 0, or AML_EINPUT when an integer field is no number. */
int mlr_hash_run(const struct mlr_hash *hash, const struct criteo_record *record, struct mlr_hash_features *features,
                 struct error *error);

#endif
