/* The cut of an app's input pipeline: which of its stages run on feeders, and which stay with the trainers. GoldMiner
 * (Zhao et al., SIGMOD 2023), section 3.2: algorithm 1 says which stages may be at feeders; among these the cut is
 * chosen by measured costs. Pure functions: no sockets, no clock reads. Cuts of more than two parts (the paper's
 * multi-stage partitioning) are not made. cut_trials.h compares the candidates by measured rates. */
#ifndef AGILEML_CONTROL_CUT_H
#define AGILEML_CONTROL_CUT_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CUT_STAGES = 48,     /* the most stages of an app */
    CUT_CANDIDATES = 4,  /* the most cuts that cut_candidates returns */
    CUT_MIN_CUTS = 20000 /* the most minimum cuts that one search computes */
};

#define CUT_TOLERANCE 1e-4 /* a cut is the best if no other one is faster by more than this part */

/* A set of stages: bit s is stage s. */
typedef uint64_t cut_set;

/* One stage, as measured. */
struct cut_stage {
    cut_set from; /* the stages whose output it reads, all before it; 0: it reads the job's input */
    double us;    /* microseconds of one thread for an item */
    double bytes; /* of its output for an item; sent once, however many stages at the trainer read it */
    bool state;   /* it reads or changes tables or totals */
};

struct cut_tree {
    const struct cut_stage *stages; /* each one behind the stages that it reads from */
    size_t count;
};

struct cut_machines {
    double trainer_cpus;  /* threads of all trainers together; above 0 */
    double feeder_cpus;   /* threads of one feeder; above 0 */
    unsigned feeders;     /* 0: all stages stay with the trainers */
    double link_bytes_us; /* bytes that the trainers' links receive in a microsecond; INFINITY: they are no limit */
    double receive_us;    /* a trainer thread's microseconds for a received byte */
    double send_us;       /* a feeder thread's microseconds for a sent byte */
};

/* Microseconds for an item, of each resource: a job runs at the speed of the largest. */
struct cut_cost {
    double trainer_us, link_us, feeders_us;
};

struct cut {
    cut_set feeders; /* the stages that run on feeders */
    struct cut_cost cost;
    double time_us;  /* the largest of `cost` */
    double bound_us; /* no cut is faster than this: CUT_TOLERANCE below the best cut's time, or less if the search ended
                        by its limit */
};

/* Returns AML_EINPUT when a number is negative, infinite or NaN, when there are no stages or too many, or when a stage
 * reads from itself or from a later one. */
int cut_check(const struct cut_tree *tree, const struct cut_machines *machines, struct error *error);

/* Algorithm 1: the stages that neither have state nor read, directly or not, from one that has. Only these may be at
 * feeders. */
cut_set cut_stateless(const struct cut_tree *tree);

/* Whether feeders can run just these stages: all are stateless, and with each stage are those it reads from. */
bool cut_possible(const struct cut_tree *tree, cut_set feeders);

struct cut_cost cut_cost(const struct cut_tree *tree, const struct cut_machines *machines, cut_set feeders);

/* The largest of the three costs: microseconds for an item. */
double cut_time(const struct cut_cost *cost);

/* Finds the cut with the least time for an item. Errors: those of cut_check.
 *
 * Least largest of three sums is not a minimum cut, but for any weights of the three resources the least weighted sum
 * is one, and a lower bound of the largest. So a search branches over the stages, bounds by minimum cuts with weights
 * that lean towards the largest cost, and takes the cuts that it meets as candidates. */
int cut_choose(const struct cut_tree *tree, const struct cut_machines *machines, struct cut *best, struct error *error);

/* The same, with other cuts that may be faster in reality: the best that the search met, those that differ from the
 * best in one stage at the border, and the cut without feeders. `cuts` has room for CUT_CANDIDATES; the fastest is
 * first, the one without feeders is always among them. */
int cut_candidates(const struct cut_tree *tree, const struct cut_machines *machines, struct cut *cuts, size_t *count,
                   struct error *error);

#endif
