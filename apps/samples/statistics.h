/* What a job learns about its training samples in the one pass of the survey, before the first step. These are the
 * sums of each feature's values, for scaling, and the number of samples of each class. Some samples are drawn at
 * random, but the same in every process, to choose the regularization (tuning.h). Held-out samples do not count. */
#ifndef APPS_SAMPLES_STATISTICS_H
#define APPS_SAMPLES_STATISTICS_H

#include "agileml/base/memory.h"
#include "apps/samples/samples.h"

#include <stdbool.h>

enum {
    STATISTICS_DRAWN_MIN = 500, /* samples that are drawn at least, if there are as many */
    STATISTICS_DRAWN_MAX = 20000,
    STATISTICS_DRAWN_WORK = 1000000,        /* about the most products of values and weights in all drawn samples */
    STATISTICS_DRAWN_VALUES_MAX = 16 << 20, /* values of all drawn samples */
};

/* Sums over the written values of a feature; all other values are 0. The sums are of differences from `first`, so
 * that they keep their precision when values are far from 0. */
struct feature_sums {
    double first; /* the first value */
    double sum, squares;
    uint32_t written, nonzeros;
};

/* A sample that was drawn. */
struct drawn {
    uint64_t order; /* a random number of the sample; those with the smallest numbers are drawn */
    uint32_t label; /* number of the label in `labels` */
    uint32_t count;
    uint32_t *features; /* [count] ascending */
    double *values;     /* [count] */
};

struct statistics {
    uint64_t seed;
    double test_fraction;
    bool drawn_alone;              /* no sums of features are made; a sample's features may then come in any order */
    bool sums_alone;               /* no samples are drawn */
    uint64_t seen;                 /* samples seen, including held-out ones */
    uint64_t samples;              /* training samples */
    uint64_t values;               /* number of values written in them */
    struct feature_sums *features; /* [feature_count] in `memory`; pages without written values are not resident */
    struct arena memory;
    uint32_t feature_count;
    struct labels labels;   /* labels of training samples; until statistics_end in order of appearance */
    uint64_t *label_counts; /* after statistics_end: count of each label of the survey */
    struct drawn *drawn;    /* [drawn_count]; a heap, the largest order first, until statistics_end */
    size_t drawn_count;
    uint64_t drawn_values;
};

/* Takes a sample; a samples_sink whose context is a struct statistics. Before the first call the struct must be
 * zeroed, except seed, test_fraction, drawn_alone and sums_alone. */
int statistics_take(void *context, const struct sample *sample, struct error *error);
/* Ends the collection. Gives features their final numbers, 0 to `features` - 1. That is numbers[f] for feature f; if
 * `numbers` is NULL, f minus `base` (0 or 1), the index of the first feature. Sorts drawn samples by their order,
 * and numbers their labels as in `labels`, which has all of them. */
void statistics_end(struct statistics *statistics, const uint32_t *numbers, uint32_t base, uint32_t features,
                    const struct labels *labels);
/* Frees the sums and the drawn samples; the counts stay. */
void statistics_drop_samples(struct statistics *statistics);
void statistics_close(struct statistics *statistics);

/* Returns the logarithm of the share of a class with `count` of the samples. Half a sample is added to each class, as
 * all samples of a class may be held out. */
double statistics_log_share(double count, double samples, uint32_t classes);

/* The mean and the variance of a feature over all training samples, and the part of its values that are not 0. */
struct feature_moments {
    double mean, variance, part;
};
struct feature_moments statistics_moments(const struct statistics *statistics, uint32_t feature);
/* Returns the root mean square of a feature's values that are not 0; 0 when all are 0. */
double statistics_size(const struct statistics *statistics, uint32_t feature);
/* Sets *factors, and with `centred` *centres, to those of a SCALE_STANDARD scale (scale.h) of `features` features.
 * Otherwise *centres is NULL. The caller frees both. With `centred` a factor is one over the standard deviation,
 * multiplied by the root of the part of values that are not 0. Otherwise it is one over the root mean square of
 * these values. Call it after statistics_end. Returns how many features are constant, or nearly so, and have factor
 * 0. */
uint32_t statistics_standardize(const struct statistics *statistics, uint32_t features, bool centred, double **centres,
                                double **factors);

#endif
