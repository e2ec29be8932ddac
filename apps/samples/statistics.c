/* See statistics.h. */
#include "apps/samples/statistics.h"

#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/app.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Makes the order of samples independent of the choice of held-out samples. */
static const uint64_t ORDER_SEED = 0x5a3dfb1c9e7720d1;
/* A feature is constant, up to rounding, if its variance is below this part of its squared mean. The limit is small,
 * as numbers such as times differ by little compared with their mean; the sums have enough digits. */
static const double CONSTANT_VARIANCE = 1e-22;

/* ---- Features ---- */

static void make_features(struct statistics *statistics, uint32_t count) {
    size_t bytes = count * sizeof *statistics->features;
    if (count <= statistics->feature_count) {
        return;
    }
    if (arena_reserve(&statistics->memory, bytes) != 0) {
        memory_exhausted(bytes);
    }
    statistics->features = (void *)statistics->memory.base;
    statistics->feature_count = count;
}

static inline void add_value(struct feature_sums *sums, double value) {
    if (sums->written == 0) {
        sums->first = value;
    }
    double difference = value - sums->first;
    sums->sum += difference;
    sums->squares += difference * difference;
    sums->written++;
    sums->nonzeros += value != 0;
}

static void add_values(struct statistics *statistics, const struct sample *sample) {
    make_features(statistics, sample_end(sample));
    for (uint32_t i = 0; i < sample->count; i++) {
        uint32_t feature = sample->features != NULL ? sample->features[i] : i;
        add_value(&statistics->features[feature], sample->values[i]);
    }
}

struct feature_moments statistics_moments(const struct statistics *statistics, uint32_t feature) {
    if (feature >= statistics->feature_count || statistics->samples == 0) {
        return (struct feature_moments){0};
    }
    const struct feature_sums *sums = &statistics->features[feature];
    double n = (double)statistics->samples;
    double zeros = n - sums->written; /* values that are not written are 0: 0 - first, relative to `first` */
    double sum = sums->sum - zeros * sums->first;
    double squares = sums->squares + zeros * sums->first * sums->first;
    double from_first = sum / n;
    return (struct feature_moments){.mean = sums->first + from_first,
                                    .variance = fmax(squares / n - from_first * from_first, 0),
                                    .part = sums->nonzeros / n};
}

double statistics_size(const struct statistics *statistics, uint32_t feature) {
    if (feature >= statistics->feature_count || statistics->features[feature].nonzeros == 0) {
        return 0;
    }
    const struct feature_sums *sums = &statistics->features[feature];
    double squares = sums->squares + 2 * sums->first * sums->sum + sums->written * sums->first * sums->first;
    return sqrt(fmax(squares, 0) / sums->nonzeros);
}

/* Returns the factor for a feature's differences from its mean; 0: the feature is dropped. */
static double centred_factor(const struct feature_moments *moments) {
    if (!(moments->variance > CONSTANT_VARIANCE * moments->mean * moments->mean) || moments->part <= 0) {
        return 0;
    }
    double factor = sqrt(moments->part / moments->variance);
    return isfinite(factor) ? factor : 0;
}

uint32_t statistics_standardize(const struct statistics *statistics, uint32_t features, bool centred, double **centres,
                                double **factors) {
    uint32_t constant = 0;
    *factors = memory_zeroed(features, sizeof **factors);
    *centres = centred ? memory_zeroed(features, sizeof **centres) : NULL;
    for (uint32_t f = 0; f < features; f++) {
        if (centred) {
            struct feature_moments moments = statistics_moments(statistics, f);
            (*centres)[f] = moments.mean;
            (*factors)[f] = centred_factor(&moments);
        } else {
            double size = statistics_size(statistics, f);
            (*factors)[f] = size > 0 && isfinite(1 / size) ? 1 / size : 0;
        }
        constant += (*factors)[f] == 0;
    }
    return constant;
}

/* ---- Classes ---- */

static int add_label(struct statistics *statistics, const struct label *label, uint32_t *number, struct error *error) {
    if (!labels_add(&statistics->labels, label)) {
        return error_set(error, AML_ELIMIT, "more than %d different labels: is --label-column right?", LABELS_MAX);
    }
    *number = (uint32_t)labels_find(&statistics->labels, label);
    return 0;
}

double statistics_log_share(double count, double samples, uint32_t classes) {
    return log((count + 0.5) / (samples + 0.5 * classes));
}

/* ---- Drawn samples ---- */

/* Returns how many samples to draw, as far as known: fewer if samples have more values or classes. */
static size_t drawn_limit(const struct statistics *statistics) {
    double values = fmax((double)statistics->values / (double)statistics->samples, 1);
    double limit = STATISTICS_DRAWN_WORK / values / statistics->labels.count;
    limit = fmin(fmax(limit, STATISTICS_DRAWN_MIN), STATISTICS_DRAWN_MAX);
    return (size_t)fmax(fmin(limit, STATISTICS_DRAWN_VALUES_MAX / values), 1);
}

static void swap(struct drawn *a, struct drawn *b) {
    struct drawn kept = *a;
    *a = *b;
    *b = kept;
}

static void sift_up(struct drawn *heap, size_t at) {
    while (at > 0 && heap[at].order > heap[(at - 1) / 2].order) {
        swap(&heap[at], &heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void sift_down(struct drawn *heap, size_t count) {
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && heap[child + 1].order > heap[child].order;
        if (heap[child].order <= heap[at].order) {
            return;
        }
        swap(&heap[at], &heap[child]);
    }
}

static void drop_largest(struct statistics *statistics) {
    struct drawn *largest = &statistics->drawn[0];
    statistics->drawn_values -= largest->count;
    free(largest->features);
    free(largest->values);
    *largest = statistics->drawn[--statistics->drawn_count];
    sift_down(statistics->drawn, statistics->drawn_count);
}

static void draw(struct statistics *statistics, const struct sample *sample, uint32_t label) {
    size_t limit = drawn_limit(statistics);
    uint64_t order = aml_mix(statistics->seed ^ ORDER_SEED, statistics->seen);
    while (statistics->drawn_count > limit) {
        drop_largest(statistics);
    }
    if (statistics->drawn_count == limit) {
        if (order >= statistics->drawn[0].order) {
            return;
        }
        drop_largest(statistics);
    }
    if (statistics->drawn == NULL) {
        statistics->drawn = memory_zeroed(STATISTICS_DRAWN_MAX, sizeof *statistics->drawn);
    }
    struct drawn *drawn = &statistics->drawn[statistics->drawn_count];
    *drawn = (struct drawn){.order = order, .label = label, .count = sample->count};
    drawn->features = memory_zeroed((size_t)sample->count + 1, sizeof *drawn->features);
    drawn->values = memory_zeroed((size_t)sample->count + 1, sizeof *drawn->values);
    for (uint32_t i = 0; i < sample->count; i++) {
        drawn->features[i] = sample->features != NULL ? sample->features[i] : i;
        drawn->values[i] = sample->values[i];
    }
    statistics->drawn_values += sample->count;
    sift_up(statistics->drawn, statistics->drawn_count++);
}

/* ---- All samples ---- */

int statistics_take(void *context, const struct sample *sample, struct error *error) {
    struct statistics *statistics = context;
    uint32_t label = 0;
    statistics->seen++;
    if (app_held_out(aml_mix(statistics->seed, sample->place), statistics->test_fraction)) {
        return 0;
    }
    int result = add_label(statistics, &sample->label, &label, error);
    if (result != 0) {
        return result;
    }
    statistics->samples++;
    statistics->values += sample->count;
    if (!statistics->drawn_alone) {
        add_values(statistics, sample);
    }
    if (!statistics->sums_alone) {
        draw(statistics, sample, label);
    }
    return 0;
}

static int drawn_order(const void *a, const void *b) {
    const struct drawn *left = a;
    const struct drawn *right = b;
    return left->order < right->order ? -1 : left->order > right->order;
}

/* Reorders the labels and their counts as in `labels`. */
static void number_labels(struct statistics *statistics, const struct labels *labels) {
    uint64_t *counts = memory_zeroed(labels->count, sizeof *counts);
    uint32_t *numbers = memory_zeroed((size_t)statistics->labels.count + 1, sizeof *numbers);
    for (uint32_t l = 0; l < statistics->labels.count; l++) {
        int64_t number = labels_find(labels, &statistics->labels.items[l]);
        assert(number != INDEX_NONE);
        numbers[l] = (uint32_t)number;
        counts[number] += statistics->labels.items[l].count;
    }
    for (size_t i = 0; i < statistics->drawn_count; i++) {
        statistics->drawn[i].label = numbers[statistics->drawn[i].label];
    }
    free(numbers);
    statistics->label_counts = counts;
}

/* Reorders the sums by numbers[feature_count]; there are `features` final numbers. */
static void number_sums(struct statistics *statistics, const uint32_t *numbers, uint32_t features) {
    struct statistics numbered = {.feature_count = 0};
    make_features(&numbered, features);
    for (uint32_t f = 0; f < statistics->feature_count; f++) {
        if (statistics->features[f].written > 0) {
            numbered.features[numbers[f]] = statistics->features[f];
        }
    }
    arena_close(&statistics->memory);
    statistics->memory = numbered.memory;
    statistics->features = numbered.features;
    statistics->feature_count = features;
}

void statistics_end(struct statistics *statistics, const uint32_t *numbers, uint32_t base, uint32_t features,
                    const struct labels *labels) {
    while (statistics->drawn_count > 0 && statistics->drawn_count > drawn_limit(statistics)) {
        drop_largest(statistics);
    }
    number_labels(statistics, labels);
    if (statistics->drawn_count > 0) {
        qsort(statistics->drawn, statistics->drawn_count, sizeof *statistics->drawn, drawn_order);
    }
    for (size_t i = 0; i < statistics->drawn_count && (numbers != NULL || base > 0); i++) {
        for (uint32_t f = 0; f < statistics->drawn[i].count; f++) {
            uint32_t *feature = &statistics->drawn[i].features[f];
            *feature = numbers != NULL ? numbers[*feature] : *feature - base;
        }
    }
    if (numbers != NULL) {
        number_sums(statistics, numbers, features);
        return;
    }
    make_features(statistics, statistics->drawn_alone ? 0 : features + base);
    if (base > 0) {
        statistics->feature_count--;
        statistics->features++;
    }
}

void statistics_drop_samples(struct statistics *statistics) {
    for (size_t i = 0; i < statistics->drawn_count; i++) {
        free(statistics->drawn[i].features);
        free(statistics->drawn[i].values);
    }
    free(statistics->drawn);
    arena_close(&statistics->memory);
    statistics->drawn = NULL;
    statistics->features = NULL;
    statistics->drawn_count = 0;
    statistics->feature_count = 0;
}

void statistics_close(struct statistics *statistics) {
    statistics_drop_samples(statistics);
    free(statistics->label_counts);
    labels_close(&statistics->labels);
    *statistics = (struct statistics){0};
}
