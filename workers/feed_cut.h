/* How many of an app's first stages feeders run (docs/design.md, "Feeders"; GoldMiner, Zhao et al., SIGMOD 2023,
 * section 3.2). Each process that works decides for its own clocks: it measures its stages on some of the items that it
 * makes itself, and takes the cut with the least time for an item by these costs (control/cut.h). At first, and until
 * every stage is measured, feeders run all stages that they may.
 *
 * A cut whose output has more bytes than that of all these stages is never taken: so no cut takes more of the link, of
 * credit or of memory than the first one.
 *
 * Threads: feed_cut_measure may be called in any; feed_cut_choose while no other calls it. */
#ifndef AGILEML_WORKERS_FEED_CUT_H
#define AGILEML_WORKERS_FEED_CUT_H

#include "agileml.h"
#include "agileml/control/cut.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    FEED_CUT_SAMPLED = 16,      /* one in so many items is measured */
    FEED_CUT_SAMPLES = 20,      /* of each stage, before cuts are compared */
    FEED_CUT_SAMPLES_MAX = 1024 /* older samples count half, and half again, so that the costs follow the job */
};

#define FEED_CUT_MARGIN  0.1    /* another cut has to be faster by this part */
#define FEED_CUT_BYTE_US 0.0005 /* of a thread, for each byte that is sent, and received: some copies and a hash */

/* What one stage took, in all samples together. */
struct feed_cut_cost {
    _Atomic uint64_t samples, ns;
};

struct feed_cut {
    struct cut_stage stages[AML_STAGES_MAX + 1]; /* the last stands for `clock`, which takes what they make */
    struct feed_cut_cost costs[AML_STAGES_MAX];
    unsigned count;    /* stages */
    unsigned feedable; /* the first so many have no AML_STAGE_STATE */
    unsigned wanted;   /* how many feeders are to run; 0: they may run none */
};

/* Who shares the work. */
struct feed_cut_job {
    unsigned threads;        /* of this process */
    unsigned feeder_threads; /* of each feeder; 0: not known, they are taken to have as many as this process */
    unsigned feeders;        /* of the job */
    unsigned nodes;          /* that work, at least 1; all have the feeders in common */
};

/* A zeroed struct becomes that of these stages. `list` ends with a NULL name, or is NULL. */
void feed_cut_open(struct feed_cut *cut, const struct aml_stage *list);
/* A stage took so long for one item. */
void feed_cut_measure(struct feed_cut *cut, unsigned stage, double seconds);
/* Sets `wanted` by what was measured. */
void feed_cut_choose(struct feed_cut *cut, const struct feed_cut_job *job);

#endif
