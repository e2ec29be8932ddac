/* See measure.h. */
#include "bidbrain/daemon/measure.h"

#include "agileml/base/median.h"

#include <math.h>

enum { MEASURE_SETTLING = 1 /* iterations of a change after its last join or leave */, MEASURE_SIZES_MAX = 32 };

static size_t kept(size_t count, size_t most) {
    return count < most ? count : most;
}

/* Returns the rate of the newest clean iterations of the same size. */
static bool rate_before(const struct measure *measure, double *rate, double *work) {
    double rates[MEASURE_BEFORE];
    size_t count = 0;
    size_t there = kept(measure->count, MEASURE_SAMPLES_MAX);
    for (size_t i = 1; i <= there && count < MEASURE_BEFORE; i++) {
        const struct measure_sample *sample = &measure->samples[(measure->count - i) % MEASURE_SAMPLES_MAX];
        if (count > 0 && sample->work != *work) {
            break;
        }
        *work = sample->work;
        rates[count++] = sample->rate;
    }
    if (count > 0) {
        *rate = median_sort(rates, count);
    }
    return count > 0;
}

static void change_begin(struct measure *measure) {
    measure->evicting = false;
    measure->change_seconds = measure->change_items = 0;
    measure->measured = rate_before(measure, &measure->before_rate, &measure->before_work);
    measure->least_work = measure->before_work;
}

static void change_end(struct measure *measure) {
    double share = measure->before_work > 0 ? measure->least_work / measure->before_work : 1;
    struct measure_losses *losses = measure->evicting ? &measure->evictions : &measure->joins;
    if (measure->measured && share > 0 && measure->before_rate > 0) {
        double lost = measure->change_seconds - measure->change_items / (measure->before_rate * share);
        losses->seconds[losses->count++ % MEASURE_LOSSES_MAX] = fmax(0, lost);
    }
}

void measure_add(struct measure *measure, const struct measure_iteration *iteration) {
    bool changed = iteration->joined || iteration->left;
    if (!(iteration->seconds > 0 && iteration->items > 0) || isinf(iteration->seconds)) {
        return;
    }
    if (changed && measure->settling == 0) {
        change_begin(measure);
    }
    if (changed) {
        measure->settling = 1 + MEASURE_SETTLING;
        measure->evicting = measure->evicting || iteration->left;
    }
    if (measure->settling == 0) {
        measure->samples[measure->count++ % MEASURE_SAMPLES_MAX] =
            (struct measure_sample){iteration->work, iteration->items / iteration->seconds};
        return;
    }
    measure->least_work = fmin(measure->least_work, iteration->work);
    measure->change_seconds += iteration->seconds;
    measure->change_items += iteration->items;
    if (--measure->settling == 0) {
        change_end(measure);
    }
}

void measure_forget_rates(struct measure *measure) {
    measure->count = 0;
    measure->measured = false;
}

bool measure_throughput(const struct measure *measure, double *items_per_vcpu_second) {
    double each[MEASURE_SAMPLES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < kept(measure->count, MEASURE_SAMPLES_MAX); i++) {
        if (measure->samples[i].work > 0) {
            each[count++] = measure->samples[i].rate / measure->samples[i].work;
        }
    }
    if (count < MEASURE_LEAST) {
        return false;
    }
    *items_per_vcpu_second = median_sort(each, count);
    return true;
}

/* Returns the sizes with enough samples, smallest first, with their median rates. */
static size_t measure_sizes(const struct measure *measure, struct measure_sample sizes[MEASURE_SIZES_MAX]) {
    double rates[MEASURE_SAMPLES_MAX];
    size_t there = kept(measure->count, MEASURE_SAMPLES_MAX);
    size_t count = 0;
    double last = 0;
    while (count < MEASURE_SIZES_MAX) {
        double next = INFINITY;
        size_t found = 0;
        for (size_t i = 0; i < there; i++) {
            next = measure->samples[i].work > last ? fmin(next, measure->samples[i].work) : next;
        }
        if (isinf(next)) {
            break;
        }
        for (size_t i = 0; i < there; i++) {
            if (measure->samples[i].work == next) {
                rates[found++] = measure->samples[i].rate;
            }
        }
        if (found >= MEASURE_LEAST) {
            sizes[count++] = (struct measure_sample){next, median_sort(rates, found)};
        }
        last = next;
    }
    return count;
}

bool measure_phi(const struct measure *measure, double *phi, double *reference_work) {
    struct measure_sample sizes[MEASURE_SIZES_MAX];
    double slopes[MEASURE_SIZES_MAX * (MEASURE_SIZES_MAX - 1) / 2];
    size_t count = measure_sizes(measure, sizes);
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            slopes[pairs++] = (sizes[i].rate - sizes[j].rate) / (sizes[i].work - sizes[j].work);
        }
    }
    if (pairs == 0) {
        return false;
    }
    *phi = fmin(1, fmax(MEASURE_PHI_MIN, median_sort(slopes, pairs) / (sizes[0].rate / sizes[0].work)));
    *reference_work = sizes[0].work;
    return true;
}

bool measure_loss(const struct measure_losses *losses, double *seconds) {
    double sorted[MEASURE_LOSSES_MAX];
    size_t count = kept(losses->count, MEASURE_LOSSES_MAX);
    for (size_t i = 0; i < count; i++) {
        sorted[i] = losses->seconds[i];
    }
    if (count < MEASURE_LEAST) {
        return false;
    }
    *seconds = median_sort(sorted, count);
    return true;
}
