/* See eviction.h. */
#include "bidbrain/policy/eviction.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DAY = 24 * HOUR };

/* 100 x 4000^(i/15) */
const int64_t EVICTION_DELTA[EVICTION_DELTAS] = {100,  174,   302,   525,   913,   1588,   2760,   4798,
                                                 8342, 14502, 25213, 43833, 76205, 132485, 230330, 400000};

const double EVICTION_HALF_LIFE[EVICTION_LENGTHS] = {0, 40, 15, 5, 2};
enum { LENGTH_ALL = 0, LENGTH_RECENT = 3 };

void eviction_open(struct eviction *eviction, const struct markets *markets, const int64_t *on_demand) {
    memset(eviction, 0, sizeof *eviction);
    eviction->markets = markets;
    eviction->list = memory_zeroed(markets->count + 1, sizeof *eviction->list);
    for (size_t m = 0; m < markets->count; m++) {
        int64_t first = markets->list[m]->points[0].time;
        assert(on_demand[m] > 0);
        eviction->list[m].on_demand = on_demand[m];
        eviction->list[m].next = (first + EVICTION_STEP - 1) / EVICTION_STEP * EVICTION_STEP;
    }
}

void eviction_close(struct eviction *eviction) {
    free(eviction->list);
    memset(eviction, 0, sizeof *eviction);
}

static unsigned regime_of(int64_t price, int64_t on_demand, int64_t lowest, int64_t highest) {
    double relative = (double)price / (double)on_demand;
    double moved = (double)(highest - lowest) / (double)price;
    unsigned price_class = relative < 0.3 ? 0 : relative < 0.9 ? 1 : 2;
    unsigned move_class = moved < 0.01 ? 0 : moved < 0.1 ? 1 : 2;
    return price_class * EVICTION_MOVE_CLASSES + move_class;
}

unsigned eviction_regime(const struct market *market, int64_t on_demand, int64_t time) {
    size_t index = market_index(market, time);
    assert(index != MARKET_NONE);
    int64_t price = market->points[index].price;
    int64_t lowest = price;
    int64_t highest = price;
    while (index > 0 && market->points[index].time > time - HOUR) {
        int64_t before = market->points[--index].price;
        lowest = before < lowest ? before : lowest;
        highest = before > highest ? before : highest;
    }
    return regime_of(price, on_demand, lowest, highest);
}

/* Adds the sample at `time`. The price passes larger deltas later, if at all, so that one walk over the hour serves all
 * deltas. */
static void eviction_sample(struct eviction_market *own, const struct market *market, int64_t time) {
    size_t index = market_index(market, time);
    if (index == MARKET_NONE) {
        return;
    }
    int64_t price = market->points[index].price;
    struct eviction_counts *counts = own->today[eviction_regime(market, own->on_demand, time)];
    unsigned passed = 0;
    for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
        counts[d].samples += 1;
    }
    for (size_t i = index + 1; i < market->finished && passed < EVICTION_DELTAS; i++) {
        int64_t after = market->points[i].time - time;
        if (after > HOUR) {
            break;
        }
        unsigned bin = (unsigned)((after - 1) / EVICTION_STEP);
        int64_t later = market->points[i].price;
        for (; passed < EVICTION_DELTAS && price_passes(later, price + EVICTION_DELTA[passed]); passed++) {
            counts[passed].evicted[bin] += 1;
        }
    }
}

static void eviction_advance_to(struct eviction *eviction, int64_t now) {
    for (size_t m = 0; m < eviction->markets->count; m++) {
        struct eviction_market *own = &eviction->list[m];
        for (; own->next + HOUR <= now; own->next += EVICTION_STEP) {
            eviction_sample(own, eviction->markets->list[m], own->next);
        }
    }
}

/* ---- From counts to probabilities ---- */

static unsigned pool_delta(int64_t delta, int64_t on_demand) {
    double power = log2((double)delta / (double)on_demand) + 18;
    return power < 0 ? 0 : power >= EVICTION_POOL_DELTAS ? EVICTION_POOL_DELTAS - 1 : (unsigned)power;
}

struct eviction_pool {
    struct eviction_counts counts[EVICTION_REGIMES + 1][EVICTION_POOL_DELTAS];
};

static void counts_add(struct eviction_counts *sum, const struct eviction_counts *counts) {
    sum->samples += counts->samples;
    for (unsigned b = 0; b < EVICTION_BINS; b++) {
        sum->evicted[b] += counts->evicted[b];
    }
}

static struct eviction_counts counts_of(const struct eviction_market *own, unsigned length, bool today, unsigned r,
                                        unsigned d) {
    struct eviction_counts counts = own->counts[length][r][d];
    if (today) {
        counts_add(&counts, &own->today[r][d]);
    }
    return counts;
}

/* Sums one memory's counts of all markets by regime and relative delta, with or without today's samples. */
static void pool_fill(struct eviction_pool *pool, const struct eviction *eviction, unsigned length, bool today) {
    for (size_t m = 0; m < eviction->markets->count; m++) {
        const struct eviction_market *own = &eviction->list[m];
        for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
            unsigned relative = pool_delta(EVICTION_DELTA[d], own->on_demand);
            for (unsigned r = 0; r < EVICTION_REGIMES; r++) {
                struct eviction_counts counts = counts_of(own, length, today, r, d);
                counts_add(&pool->counts[r][relative], &counts);
                counts_add(&pool->counts[EVICTION_ANY][relative], &counts);
            }
        }
    }
}

/* Turns counts into probabilities by the end of each bin, with `prior` counted as `weight` samples. */
static void counts_smooth(const struct eviction_counts *counts, double weight, const float prior[EVICTION_BINS],
                          float result[EVICTION_BINS]) {
    double evicted = 0;
    for (unsigned b = 0; b < EVICTION_BINS; b++) {
        evicted += (double)counts->evicted[b];
        result[b] = (float)((evicted + weight * (double)prior[b]) / ((double)counts->samples + weight));
    }
}

/* Makes probabilities fall with the delta, as a higher bid is never less safe; the priors may have broken this
 * order. */
static void rows_order(float rows[EVICTION_DELTAS][EVICTION_BINS]) {
    for (unsigned d = 1; d < EVICTION_DELTAS; d++) {
        for (unsigned b = 0; b < EVICTION_BINS; b++) {
            rows[d][b] = fminf(rows[d][b], rows[d - 1][b]);
        }
    }
}

/* Fills in a market's estimates from one memory: by regime, and the average in row EVICTION_ANY. */
static void market_fill(struct eviction_market_table *table, const struct eviction_market *own, unsigned length,
                        bool today, const struct eviction_pool *pool) {
    float half[EVICTION_BINS];
    for (unsigned b = 0; b < EVICTION_BINS; b++) {
        half[b] = 0.5F * (float)(b + 1) / EVICTION_BINS;
    }
    for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
        unsigned relative = pool_delta(EVICTION_DELTA[d], own->on_demand);
        struct eviction_counts counts[EVICTION_REGIMES];
        struct eviction_counts all = {0};
        float pooled[EVICTION_BINS];
        for (unsigned r = 0; r < EVICTION_REGIMES; r++) {
            counts[r] = counts_of(own, length, today, r, d);
            counts_add(&all, &counts[r]);
        }
        counts_smooth(&pool->counts[EVICTION_ANY][relative], 1, half, pooled);
        counts_smooth(&all, EVICTION_MARKET_PRIOR, pooled, table->by_bin[EVICTION_ANY][d]);
        for (unsigned r = 0; r < EVICTION_REGIMES; r++) {
            float average[EVICTION_BINS];
            counts_smooth(&pool->counts[r][relative], 1, half, pooled);
            counts_smooth(&all, EVICTION_MARKET_PRIOR, pooled, average);
            counts_smooth(&counts[r], EVICTION_REGIME_PRIOR, average, table->by_bin[r][d]);
        }
    }
    for (unsigned r = 0; r <= EVICTION_REGIMES; r++) {
        rows_order(table->by_bin[r]);
    }
}

/* ---- Memories, compared by how well they predict ---- */

static double log_loss(const struct eviction_counts *seen, float predicted) {
    double evicted = 0;
    double p = fmin(fmax((double)predicted, 1e-6), 1 - 1e-6);
    for (unsigned b = 0; b < EVICTION_BINS; b++) {
        evicted += (double)seen->evicted[b];
    }
    return -evicted * log(p) - ((double)seen->samples - evicted) * log1p(-p);
}

/* Adds the loss of predicting today's samples from the knowledge before today. */
static void market_score(struct eviction_market *own, unsigned length, const struct eviction_market_table *known) {
    double fade = exp2(-1.0 / EVICTION_LOSS_DAYS);
    double loss = 0;
    double average_loss = 0;
    for (unsigned r = 0; r < EVICTION_REGIMES; r++) {
        for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
            loss += log_loss(&own->today[r][d], known->by_bin[r][d][EVICTION_BINS - 1]);
            average_loss += log_loss(&own->today[r][d], known->by_bin[EVICTION_ANY][d][EVICTION_BINS - 1]);
        }
    }
    own->loss[length] = own->loss[length] * fade + loss;
    own->average_loss[length] = own->average_loss[length] * fade + average_loss;
}

static void market_learn_today(struct eviction_market *own) {
    for (unsigned l = 0; l < EVICTION_LENGTHS; l++) {
        float factor = EVICTION_HALF_LIFE[l] > 0 ? (float)exp2(-1 / EVICTION_HALF_LIFE[l]) : 1;
        for (unsigned r = 0; r < EVICTION_REGIMES; r++) {
            for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
                struct eviction_counts *counts = &own->counts[l][r][d];
                counts->samples *= factor;
                for (unsigned b = 0; b < EVICTION_BINS; b++) {
                    counts->evicted[b] *= factor;
                }
                counts_add(counts, &own->today[r][d]);
            }
        }
    }
    memset(own->today, 0, sizeof own->today);
}

/* Ends a day: scores each memory by the day's samples, then adds the samples to the memories. */
static void eviction_end_day(struct eviction *eviction) {
    struct eviction_pool *pool = memory_zeroed(1, sizeof *pool);
    struct eviction_market_table *known = memory_zeroed(1, sizeof *known);
    for (unsigned l = 0; l < EVICTION_LENGTHS; l++) {
        memset(pool, 0, sizeof *pool);
        pool_fill(pool, eviction, l, false);
        for (size_t m = 0; m < eviction->markets->count; m++) {
            market_fill(known, &eviction->list[m], l, false, pool);
            market_score(&eviction->list[m], l, known);
        }
    }
    for (size_t m = 0; m < eviction->markets->count; m++) {
        market_learn_today(&eviction->list[m]);
    }
    free(known);
    free(pool);
}

/* Learns day by day, so that the result does not depend on the number of calls. */
void eviction_advance(struct eviction *eviction, int64_t now) {
    if (eviction->day == 0) {
        int64_t first = 0;
        int64_t last = 0;
        (void)markets_span(eviction->markets, &first, &last);
        eviction->day = first / DAY * DAY;
    }
    for (; eviction->day + DAY <= now; eviction->day += DAY) {
        eviction_advance_to(eviction, eviction->day + DAY);
        eviction_end_day(eviction);
    }
    eviction_advance_to(eviction, now);
}

unsigned eviction_chosen(const struct eviction *eviction, size_t m, bool average) {
    const double *loss = average ? eviction->list[m].average_loss : eviction->list[m].loss;
    unsigned best = 0;
    for (unsigned l = 1; l < EVICTION_LENGTHS; l++) {
        best = loss[l] < loss[best] ? l : best;
    }
    return best;
}

/* ---- Tables ---- */

static unsigned length_of(const struct eviction *eviction, enum eviction_memory memory, size_t m, bool average) {
    return memory == EVICTION_CHOSEN ? eviction_chosen(eviction, m, average)
           : memory == EVICTION_ALL  ? (unsigned)LENGTH_ALL
                                     : (unsigned)LENGTH_RECENT;
}

/* Returns the pool of a memory with today's samples, computed at its first use. */
static const struct eviction_pool *pool_of(struct eviction_pool *pools[EVICTION_LENGTHS],
                                           const struct eviction *eviction, unsigned length) {
    if (pools[length] == NULL) {
        pools[length] = memory_zeroed(1, sizeof *pools[length]);
        pool_fill(pools[length], eviction, length, true);
    }
    return pools[length];
}

void eviction_table_open(struct eviction_table *table, const struct eviction *eviction, enum eviction_memory memory,
                         int64_t now) {
    struct eviction_pool *pools[EVICTION_LENGTHS] = {NULL};
    table->time = now;
    table->count = eviction->markets->count;
    table->markets = memory_zeroed(table->count + 1, sizeof *table->markets);
    for (size_t m = 0; m < table->count; m++) {
        struct eviction_market_table average;
        unsigned length = length_of(eviction, memory, m, false);
        unsigned average_length = length_of(eviction, memory, m, true);
        market_fill(&table->markets[m], &eviction->list[m], length, true, pool_of(pools, eviction, length));
        if (average_length != length) {
            market_fill(&average, &eviction->list[m], average_length, true, pool_of(pools, eviction, average_length));
            memcpy(table->markets[m].by_bin[EVICTION_ANY], average.by_bin[EVICTION_ANY],
                   sizeof average.by_bin[EVICTION_ANY]);
        }
    }
    for (unsigned l = 0; l < EVICTION_LENGTHS; l++) {
        free(pools[l]);
    }
}

void eviction_table_close(struct eviction_table *table) {
    free(table->markets);
    memset(table, 0, sizeof *table);
}

/* ---- Estimates ---- */

/* Returns the probability of an eviction within `seconds`, interpolated linearly between the ends of bins. */
static double curve_at(const double curve[EVICTION_BINS], double seconds) {
    double at = seconds / EVICTION_STEP;
    unsigned bin = at >= EVICTION_BINS ? EVICTION_BINS - 1 : (unsigned)at;
    double before = bin == 0 ? 0 : curve[bin - 1];
    return before + (curve[bin] - before) * fmin(1, at - bin);
}

/* Returns the time at which the curve reaches `probability`, at most `limit`. */
static double curve_time(const double curve[EVICTION_BINS], double probability, double limit) {
    for (unsigned b = 0; b < EVICTION_BINS; b++) {
        if (curve[b] >= probability) {
            double before = b == 0 ? 0 : curve[b - 1];
            double part = curve[b] > before ? (probability - before) / (curve[b] - before) : 1;
            return fmin(limit, EVICTION_STEP * (b + part));
        }
    }
    return limit;
}

struct eviction_estimate eviction_estimate(const struct eviction_table *table, size_t m, unsigned regime, int64_t delta,
                                           int64_t seconds) {
    assert(m < table->count && regime <= EVICTION_REGIMES && seconds >= 0 && seconds <= HOUR);
    if (delta < 0) {
        return (struct eviction_estimate){.probability = 1, .median = 0};
    }
    const struct eviction_market_table *own = &table->markets[m];
    unsigned above = 0;
    while (above < EVICTION_DELTAS && EVICTION_DELTA[above] < delta) {
        above++;
    }
    unsigned high = above < EVICTION_DELTAS ? above : EVICTION_DELTAS - 1;
    unsigned low = above == 0 || above == EVICTION_DELTAS ? high : above - 1;
    double part = 0;
    if (low != high) {
        part = log((double)delta / (double)EVICTION_DELTA[low]) /
               log((double)EVICTION_DELTA[high] / (double)EVICTION_DELTA[low]);
    }
    double curve[EVICTION_BINS];
    for (unsigned b = 0; b < EVICTION_BINS; b++) {
        double below = (double)own->by_bin[regime][low][b];
        curve[b] = below + part * ((double)own->by_bin[regime][high][b] - below);
    }
    struct eviction_estimate estimate = {.probability = curve_at(curve, (double)seconds),
                                         .median = (double)seconds / 2};
    if (estimate.probability > 0) {
        estimate.median = curve_time(curve, estimate.probability / 2, (double)seconds);
    }
    return estimate;
}

/* ---- Calibration ---- */

void calibration_add(struct calibration *calibration, double predicted, bool evicted) {
    assert(predicted >= 0 && predicted <= 1);
    unsigned decile = predicted >= 1 ? CALIBRATION_DECILES - 1 : (unsigned)(predicted * CALIBRATION_DECILES);
    calibration->deciles[decile].predicted += predicted;
    calibration->deciles[decile].observed += evicted;
    calibration->deciles[decile].cases++;
    calibration->brier += (predicted - evicted) * (predicted - evicted);
    calibration->cases++;
}

double calibration_worst(const struct calibration *calibration, uint64_t cases_min) {
    double worst = 0;
    for (unsigned d = 0; d < CALIBRATION_DECILES; d++) {
        const struct calibration_decile *decile = &calibration->deciles[d];
        if (decile->cases > cases_min) {
            worst = fmax(worst, fabs(decile->predicted - decile->observed) / (double)decile->cases);
        }
    }
    return worst;
}

void calibration_print(FILE *stream, const struct calibration *calibration) {
    fprintf(stream, "  decile      cases  predicted  observed\n");
    for (unsigned d = 0; d < CALIBRATION_DECILES; d++) {
        const struct calibration_decile *decile = &calibration->deciles[d];
        double cases = decile->cases > 0 ? (double)decile->cases : NAN;
        fprintf(stream, "  %.1f-%.1f %10" PRIu64 " %10.3f %9.3f\n", d / 10.0, (d + 1) / 10.0, decile->cases,
                decile->predicted / cases, decile->observed / cases);
    }
    fprintf(stream,
            "  worst difference of deciles with more than 100 cases: %.3f; Brier score %.4f of %" PRIu64 " cases\n",
            calibration_worst(calibration, 100), calibration->brier / (double)calibration->cases, calibration->cases);
}
