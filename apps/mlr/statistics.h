/* What a job learns of its training samples before the first step, in the one pass of the survey: sums of each
 * feature's values, by which features are scaled; how many samples each class has; and some samples, drawn at random
 * but the same in every process, on which the regularization is chosen (tuning.h). Held-out samples do not count. */
#ifndef APPS_MLR_STATISTICS_H
#define APPS_MLR_STATISTICS_H

#include "agileml/base/memory.h"
#include "apps/mlr/samples.h"

#include <stdbool.h>

enum {
    STATISTICS_DRAWN_MIN = 500, /* samples that are drawn, if there are as many */
    STATISTICS_DRAWN_MAX = 20000,
    STATISTICS_DRAWN_WORK = 1000000,        /* about so many products of a value and a class's weight in all of them */
    STATISTICS_DRAWN_VALUES_MAX = 16 << 20, /* values of all drawn samples */
};

/* Of the values of a feature that samples have written; the others are 0. Sums are of differences from `first`, so that
 * they keep their digits where values are far from 0. */
struct feature_sums {
    double first; /* the first value */
    double sum, squares;
    uint32_t written, nonzeros;
};

/* A sample that was drawn. */
struct drawn {
    uint64_t order; /* a random number of the sample: those with the smallest are drawn */
    uint32_t label; /* its number in `labels` */
    uint32_t count;
    uint32_t *features; /* [count] ascending */
    double *values;     /* [count] */
};

struct statistics {
    uint64_t seed;
    double test_fraction;
    bool drawn_alone;              /* features have no sums; those of a sample may come in any order */
    bool sums_alone;               /* no samples are drawn */
    uint64_t seen;                 /* samples, held-out ones too */
    uint64_t samples;              /* for training */
    uint64_t values;               /* written in them */
    struct feature_sums *features; /* [feature_count] in `memory`, where only those that occur are resident */
    struct arena memory;
    uint32_t feature_count;
    struct mlr_labels labels; /* of training samples, in the order in which they came until statistics_end */
    uint64_t *label_counts;   /* from statistics_end on: of each label of the survey */
    struct drawn *drawn;      /* [drawn_count]; a heap, the largest order first, until statistics_end */
    size_t drawn_count;
    uint64_t drawn_values;
};

/* Begins with a zeroed struct but for seed, test_fraction, drawn_alone and sums_alone. A samples_sink of a struct
 * statistics. */
int statistics_take(void *context, const struct sample *sample, struct error *error);
/* Ends the taking. Gives features their final numbers, of which there are `features`: numbers[f] of each, or, with
 * NULL, f less `base` (0 or 1), the index of the first one. Sorts drawn samples by their order and numbers their labels
 * as `labels`, which has them all. */
void statistics_end(struct statistics *statistics, const uint32_t *numbers, uint32_t base, uint32_t features,
                    const struct mlr_labels *labels);
/* Frees the sums and the drawn samples; the counts stay. */
void statistics_drop_samples(struct statistics *statistics);
void statistics_close(struct statistics *statistics);

/* The mean and the variance of a feature over all training samples, and its part of values that are not 0. */
struct feature_moments {
    double mean, variance, part;
};
struct feature_moments statistics_moments(const struct statistics *statistics, uint32_t feature);
/* The root mean square of a feature's values that are not 0; 0 when all are. */
double statistics_size(const struct statistics *statistics, uint32_t feature);
/* Sets *factors, and with `centred` *centres, to those of a scale of kind SCALE_STANDARD (scale.h) for `features`
 * features, which the caller frees; else *centres is NULL. Centred: by the standard deviation over the root of the part
 * of values that are not 0; else by the root mean square of these values. The statistics have ended. Returns how many
 * features have factor 0, as they are constant, or as good as that. */
uint32_t statistics_standardize(const struct statistics *statistics, uint32_t features, bool centred, double **centres,
                                double **factors);

#endif
