/* `--strategy auto`: begins with S-SGD, changes to S-MA when nodes spend most of their time waiting for each other, and
 * returns when S-SGD would be as fast. Pure state: reads no time.
 *
 * A node's rate is the part of its time in which it computes; a single node, which waits for nobody, has rate 1.
 * Spotnik (section 4) changes the strategy when the rate falls below 40 %. The rate under S-SGD is measured while S-SGD
 * is in force. While S-MA is in force, it is estimated from the time that an exchange takes.
 *
 * Several rules keep the strategy from changing back and forth. The median of several iterations decides. The limits
 * for the two changes differ. S-MA must also be faster than S-SGD was with the same nodes. After each return, and each
 * change to S-MA that gained nothing, the next such change waits twice as long.
 *
 * When nodes come or go, or the stage changes, while S-MA is in force, S-SGD is tried once, to measure its speed. Such
 * a trial is no return, and doubles no wait. */
#ifndef AGILEML_CONTROL_STRATEGY_AUTO_H
#define AGILEML_CONTROL_STRATEGY_AUTO_H

#include "agileml/base/trial.h"
#include "agileml/collective/strategy.h"

enum {
    STRATEGY_AUTO_SAMPLES = 5,    /* the median of so many last iterations counts */
    STRATEGY_AUTO_LEAST = 3,      /* no decision with fewer iterations than these */
    STRATEGY_AUTO_WAIT = 20,      /* iterations until the same change may be made again; doubles each time */
    STRATEGY_AUTO_WAIT_MAX = 5000 /* the longest such wait */
};

#define STRATEGY_AUTO_LOW    0.4  /* below this rate S-SGD changes to S-MA: the paper's limit */
#define STRATEGY_AUTO_HIGH   0.5  /* from this estimated rate on S-MA returns to S-SGD */
#define STRATEGY_AUTO_MARGIN 0.05 /* S-MA stays only if its iterations are shorter by this part */

/* One iteration by one strategy and in one stage, without a change of plan. */
struct strategy_sample {
    enum strategy strategy;
    unsigned nodes, threads; /* nodes and worker threads that worked */
    unsigned stage;          /* enum stage; iterations of different stages are not comparable */
    double seconds;          /* the iteration's time, without evaluations */
    double computed;         /* the part of `seconds` without waiting for the exchange, 0 to 1 */
};

struct strategy_auto {
    struct strategy_clocks clocks;
    enum strategy wanted;
    unsigned nodes, threads, stage; /* the membership: of the last sample */
    struct trial_run rates;         /* of the iterations by `wanted`, under this membership */
    struct trial trial;             /* of S-MA; samples: seconds of an iteration, the usual ones by S-SGD */
    bool measured;                  /* S-SGD was measured under this membership */
    uint64_t iterations;            /* all so far */
    /* In iterations. The pause until S-SGD is measured again does not become longer. */
    struct trial_pause to_sma, to_ssgd, to_measure;
};

void strategy_auto_open(struct strategy_auto *chooser, const struct strategy_clocks *clocks, enum strategy present);
void strategy_auto_add(struct strategy_auto *chooser, const struct strategy_sample *sample);

#endif
