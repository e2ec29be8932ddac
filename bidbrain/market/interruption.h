/* When EC2 takes machines back in the `ec2` model, where prices do not decide it. Interruptions come from the rates of
 * the Spot Advisor's file, from measured lifetimes, or from recorded traces of a zone's number of machines. Also gives
 * the probabilities that a policy may expect beforehand.
 *
 * A draw is a pure function of the seed and the arguments, so that all schemes of a study meet the same world, and a
 * run can be repeated. Any thread may draw; one thread opens and closes. */
#ifndef BIDBRAIN_MARKET_INTERRUPTION_H
#define BIDBRAIN_MARKET_INTERRUPTION_H

#include "bidbrain/market/market.h"

enum interruption_kind { INTERRUPTION_NONE, INTERRUPTION_ADVISOR, INTERRUPTION_LIFETIMES, INTERRUPTION_REPLAY };

enum { INTERRUPTION_TRACES_MAX = 256, INTERRUPTION_POINTS_MAX = 4000000 };

/* A step series of a zone's number of machines; times in seconds from 0. */
struct interruption_trace {
    int64_t *times;
    int64_t *counts;
    size_t count;
    int64_t length; /* seconds, after which the trace starts again */
};

struct interruptions {
    enum interruption_kind kind;
    double *hazard;    /* advisor: interruptions per hour of each market */
    double *lifetimes; /* lifetimes: hours, ascending */
    size_t lifetime_count;
    struct interruption_trace *traces;
    size_t trace_count;
    double replay_hazard; /* replay: machines lost per machine-hour over all traces */
};

/* `spec` is one of:
 *     none
 *     advisor:FILE    spot-advisor-data JSON, plain or gzip; a market not in it gets the highest band
 *     lifetimes:FILE  lines of hours and their cdf
 *     replay:PATH     a file or a folder of {"metadata":{"gap_seconds":N},"data":[...]}, `x,count` CSV or
 *                     `ms,add|remove,node` CSV
 * Returns AML_EINPUT with one line. */
int interruptions_open(struct interruptions *interruptions, const char *spec, const struct markets *markets,
                       struct error *error);
void interruptions_close(struct interruptions *interruptions);

/* Returns when a machine of market `m` that starts at `time` is interrupted, or MARKET_NEVER. `draw` distinguishes
 * machines that start at the same time, `seed` distinguishes worlds. */
int64_t interruption_time(const struct interruptions *interruptions, size_t m, int64_t time, uint64_t draw,
                          uint64_t seed);
/* When and how the cloud takes a spot machine of market `m` with the prices `market` that starts at `time` with a bid:
 * when the price passes the bid, or earlier by an interruption. `interruptions` NULL: no interruptions. */
struct interruption {
    int64_t time; /* MARKET_NEVER: the machine is not taken */
    bool by_price;
};
struct interruption interruption_of(const struct interruptions *interruptions, size_t m, const struct market *market,
                                    int64_t bid, int64_t time, uint64_t draw, uint64_t seed);
/* Whether the market has machines at that time: a replayed zone may be empty. `interruptions` NULL: always true. */
bool interruption_open_at(const struct interruptions *interruptions, size_t m, int64_t time, uint64_t seed);
/* Returns the probability that a machine is interrupted within `hours` when it has run for `age` hours. Policies expect
 * this probability. */
double interruption_probability(const struct interruptions *interruptions, size_t m, double age, double hours);

#endif
