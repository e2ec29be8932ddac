/* Estimates how likely a price rises above a bid, per market and bid delta, in the `ec2-2016` model (section 4.1 of the
 * paper, "Estimating Evictions"). Learns from history up to a moment, never beyond it.
 *
 * History is sampled every EVICTION_STEP seconds: had we bid the price of that moment plus each delta of the grid, when
 * within the next hour would the price have risen above the bid? A sample counts only when its hour is over.
 *
 * The paper weighs all history alike, per market and delta (EVICTION_ALL with EVICTION_ANY). Beyond the paper, samples
 * are kept by the market's regime at their moment: the price relative to on-demand, and how much the price moved in the
 * hour before. Several memories keep them; each halves a sample's weight after another number of days. A market's
 * estimates come from the memory that would have predicted the market's recent days best (prequential log-loss: each
 * day is predicted from the knowledge at its first second, then learned).
 *
 * The prior for sparse data:
 *   by regime       the regime's samples, and EVICTION_REGIME_PRIOR samples of the market's average
 *   market average  the market's samples, and EVICTION_MARKET_PRIOR samples of what all markets did in that regime at
 *                   that delta relative to on-demand
 *   all markets     their samples, and one sample that is half evicted
 *
 * `struct eviction` learns (one thread); `struct eviction_table` holds the estimates of one moment (any thread may read
 * it). */
#ifndef BIDBRAIN_POLICY_EVICTION_H
#define BIDBRAIN_POLICY_EVICTION_H

#include "bidbrain/market/market.h"

#include <stdio.h>

enum {
    EVICTION_STEP = 300, /* seconds between samples, and the width of a bin of times to eviction */
    EVICTION_BINS = HOUR / EVICTION_STEP,
    EVICTION_DELTAS = 16,       /* bid deltas from $0.0001 to $0.4, each 1.74 times the last */
    EVICTION_POOL_DELTAS = 24,  /* deltas relative to on-demand, by powers of two */
    EVICTION_PRICE_CLASSES = 3, /* price / on-demand: below 0.3, below 0.9, above */
    EVICTION_MOVE_CLASSES = 3,  /* (highest - lowest) / price in the hour before: below 0.01, below 0.1, above */
    EVICTION_REGIMES = EVICTION_PRICE_CLASSES * EVICTION_MOVE_CLASSES,
    EVICTION_ANY = EVICTION_REGIMES, /* the market's average over all regimes: the paper's estimate */
    EVICTION_REGIME_PRIOR = 3 * HOUR / EVICTION_STEP,
    EVICTION_MARKET_PRIOR = 24 * HOUR / EVICTION_STEP,
    EVICTION_LENGTHS = 5,    /* memories */
    EVICTION_LOSS_DAYS = 10, /* days after which a day's log-loss has half its weight */
};

/* Days in which a sample's weight halves in each memory, the longest first; 0: never. */
extern const double EVICTION_HALF_LIFE[EVICTION_LENGTHS];

/* The memory that estimates come from. */
enum eviction_memory {
    EVICTION_ALL,    /* weighs all history alike, as the paper does */
    EVICTION_RECENT, /* a half-life of 5 days */
    EVICTION_CHOSEN, /* the memory that predicted the market's recent days best */
    EVICTION_MEMORIES
};

/* The grid of bid deltas, in micro-dollars. */
extern const int64_t EVICTION_DELTA[EVICTION_DELTAS];

/* P(evicted within (b+1) x EVICTION_STEP seconds). Does not fall with b, and does not rise with the delta. */
struct eviction_market_table {
    float by_bin[EVICTION_REGIMES + 1][EVICTION_DELTAS][EVICTION_BINS];
};

struct eviction_table {
    int64_t time; /* no later price was used */
    size_t count; /* markets */
    struct eviction_market_table *markets;
};

struct eviction_counts {
    float samples;
    float evicted[EVICTION_BINS];
};

typedef struct eviction_counts eviction_cells[EVICTION_REGIMES][EVICTION_DELTAS];

struct eviction_market {
    int64_t on_demand;
    int64_t next;                            /* time of the next sample */
    eviction_cells today;                    /* samples whose hour ended since the last whole day */
    eviction_cells counts[EVICTION_LENGTHS]; /* earlier samples with each memory's weights */
    double loss[EVICTION_LENGTHS];           /* log-loss of estimates by regime */
    double average_loss[EVICTION_LENGTHS];   /* log-loss of the market's average, EVICTION_ANY */
};

struct eviction {
    const struct markets *markets; /* may get points between calls; its markets must stay the same */
    struct eviction_market *list;  /* in the order of markets->list */
    int64_t day;                   /* the end of the last whole day that was learned; 0: nothing was learned yet */
};

/* `on_demand[m]` is the on-demand price of market m, above 0. `markets` must outlive `eviction`. */
void eviction_open(struct eviction *eviction, const struct markets *markets, const int64_t *on_demand);
void eviction_close(struct eviction *eviction);
/* Learns from all samples whose hour is over at `now`. `now` must not go back. */
void eviction_advance(struct eviction *eviction, int64_t now);
/* Returns the estimates from all that was learned, with the time `now`. Free them with eviction_table_close. */
void eviction_table_open(struct eviction_table *table, const struct eviction *eviction, enum eviction_memory memory,
                         int64_t now);
/* Returns the memory that EVICTION_CHOSEN uses for market `m`, as an index of EVICTION_HALF_LIFE. `average`: for the
 * market's average, else for estimates by regime. */
unsigned eviction_chosen(const struct eviction *eviction, size_t m, bool average);
void eviction_table_close(struct eviction_table *table);

/* Returns the regime of a market at `time`, from prices up to `time`. The market's first point must not be later. */
unsigned eviction_regime(const struct market *market, int64_t on_demand, int64_t time);

struct eviction_estimate {
    double probability; /* probability of an eviction within `seconds` */
    double median;      /* seconds to eviction, over evictions within `seconds`; half of `seconds` if there are none */
};

/* Estimates the eviction within the next `seconds` (0..3600) of a machine of market `m` whose bid is `delta` above the
 * present price. With a negative delta it is evicted at once. `regime` comes from eviction_regime, or is
 * EVICTION_ANY. */
struct eviction_estimate eviction_estimate(const struct eviction_table *table, size_t m, unsigned regime, int64_t delta,
                                           int64_t seconds);

/* ---- Calibration: predicted against observed ---- */

enum { CALIBRATION_DECILES = 10 };

struct calibration {
    struct calibration_decile {
        double predicted, observed; /* sums */
        uint64_t cases;
    } deciles[CALIBRATION_DECILES];
    double brier; /* sum of squared differences */
    uint64_t cases;
};

/* Adds a case: the predicted probability, and whether an eviction followed. */
void calibration_add(struct calibration *calibration, double predicted, bool evicted);
/* The largest |predicted - observed| of deciles with more than `cases_min` cases; 0 when there are none. */
double calibration_worst(const struct calibration *calibration, uint64_t cases_min);
void calibration_print(FILE *stream, const struct calibration *calibration);

#endif
