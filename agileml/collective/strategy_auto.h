/* `--strategy auto`: begins with S-SGD, goes over to S-MA where nodes spend most of their time waiting for each other,
 * and returns where S-SGD would do as well. Pure state: no clock reads.
 *
 * A node's rate beside that of a single node is the part of its time in which it computes, as a single node waits for
 * nobody. Spotnik (section 4) changes the strategy where that falls below 40 %. What S-SGD's would be is measured while
 * it holds; while S-MA holds, it is estimated by what an exchange takes there.
 *
 * It does not flap: several iterations must agree, the two limits are apart, S-MA must also be faster than S-SGD was
 * under the same membership, and after each return, and each vain change to S-MA, the next one waits twice as long.
 * Where nodes come or go, or the stage changes, while S-MA holds, S-SGD is tried once: how fast it is there must be
 * known. Such a trial is no return, and doubles no wait. */
#ifndef AGILEML_COLLECTIVE_STRATEGY_AUTO_H
#define AGILEML_COLLECTIVE_STRATEGY_AUTO_H

#include "agileml/collective/strategy.h"

enum {
    STRATEGY_AUTO_SAMPLES = 5, /* the last iterations, whose median counts ... */
    STRATEGY_AUTO_LEAST = 3,   /* ... at least so many of them */
    STRATEGY_AUTO_WAIT = 20,   /* iterations until the same change is made again; doubles each time */
    STRATEGY_AUTO_WAIT_MAX = 5000
};

#define STRATEGY_AUTO_LOW    0.4  /* the paper's limit */
#define STRATEGY_AUTO_HIGH   0.5  /* so much S-SGD must reach for a return */
#define STRATEGY_AUTO_MARGIN 0.05 /* S-MA stays only if it is faster by this part */

/* One iteration by one strategy and in one stage, without a change of plan. */
struct strategy_sample {
    enum strategy strategy;
    unsigned nodes, threads; /* that worked */
    unsigned stage;          /* enum stage: in another one, iterations are not comparable */
    double seconds;          /* that the iteration took, without evaluations */
    double computed;         /* the part of these that it would have taken if the exchange took no time */
};

/* When a change may be made again. */
struct strategy_pause {
    uint64_t until; /* the iteration */
    uint64_t wait;  /* iterations that the next pause lasts */
};

struct strategy_auto {
    struct strategy_clocks clocks;
    enum strategy wanted;
    unsigned nodes, threads, stage; /* the membership */
    unsigned count;                 /* iterations by `wanted`, under this membership */
    double rates[STRATEGY_AUTO_SAMPLES], seconds[STRATEGY_AUTO_SAMPLES];
    double before;       /* seconds of an iteration by S-SGD under this membership; 0: not known */
    uint64_t iterations; /* all so far */
    uint64_t trial_from; /* the iteration from which S-SGD may be tried under another membership */
    struct strategy_pause to_sma, to_ssgd;
};

void strategy_auto_open(struct strategy_auto *chooser, const struct strategy_clocks *clocks, enum strategy present);
void strategy_auto_add(struct strategy_auto *chooser, const struct strategy_sample *sample);

#endif
