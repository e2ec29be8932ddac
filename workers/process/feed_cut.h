/* How many of an app's first transforms feeders run: the cut (docs/design.md, "Feeders"; GoldMiner, Zhao et al., SIGMOD
 * 2023, section 3.2). Each working process chooses the cut for its own clocks. It measures its transforms on some of
 * the items that it makes itself, and takes the cut with the least time for an item. Until every transform is measured,
 * feeders run all transforms that they may.
 *
 * A cut is never taken if its output has more bytes than the output of all transforms that feeders may run. So no cut
 * takes more of the link, of credit or of memory than the first one.
 *
 * Threads: feed_cut_measure may be called in any thread; feed_cut_choose while no other thread calls it. */
#ifndef AGILEML_WORKERS_FEED_CUT_H
#define AGILEML_WORKERS_FEED_CUT_H

#include "agileml.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    FEED_CUT_SAMPLED = 16,      /* one in so many items is measured */
    FEED_CUT_SAMPLES = 20,      /* of each transform, before cuts are compared */
    FEED_CUT_SAMPLES_MAX = 1024 /* from so many samples on, older samples count half, so that the costs follow the
                                   job */
};

#define FEED_CUT_MARGIN  0.1    /* another cut is taken only if it is faster by this part */
#define FEED_CUT_BYTE_US 0.0005 /* time of a thread for each byte that it sends or receives: some copies and a hash */

struct feed_cut_transform {
    _Atomic uint64_t samples, ns; /* how many samples, and the time that all of them took */
    double us;                    /* microseconds of one thread for an item, by these samples */
    double bytes;                 /* of its output for an item */
};

struct feed_cut {
    struct feed_cut_transform transforms[AML_TRANSFORMS_MAX];
    unsigned count;    /* transforms */
    unsigned feedable; /* the number of first transforms without AML_TRANSFORM_STATE, which feeders may run */
    unsigned wanted;   /* the number of first transforms that feeders are to run; 0: they may run none */
};

/* The processes and threads that share the work. */
struct feed_cut_job {
    unsigned threads;        /* of this process */
    unsigned feeder_threads; /* of each feeder; 0: not known, as many as this process is assumed */
    unsigned feeders;        /* of the job */
    unsigned nodes;          /* working nodes, at least 1; they share the feeders */
};

/* Sets a zeroed struct up for these transforms. `list` ends with a NULL name, or is NULL. */
void feed_cut_open(struct feed_cut *cut, const struct aml_transform *list);
/* Adds a sample: a transform took so long for one item. */
void feed_cut_measure(struct feed_cut *cut, unsigned transform, double seconds);
/* Sets `wanted` by what was measured. */
void feed_cut_choose(struct feed_cut *cut, const struct feed_cut_job *job);

#endif
