/* The measured refinement of a cut: runs each candidate of cut_candidates for some windows of time and keeps the one
 * with the highest measured rate. What stages cost each other (caches, memory bandwidth, how copying overlaps with
 * computing) shows in no cost that was measured stage by stage. Pure state: no sockets, no clock reads. */
#ifndef AGILEML_CONTROL_CUT_TRIALS_H
#define AGILEML_CONTROL_CUT_TRIALS_H

#include "agileml/control/cut.h"

enum {
    CUT_TRIALS_SAMPLES = 7, /* windows of a trial; their median counts */
    CUT_TRIALS_WAIT = 100,  /* windows after the first choice until costs may be called stale; doubles each time */
    CUT_TRIALS_STALE = 6    /* at most so often */
};

#define CUT_TRIALS_MARGIN   0.05 /* a candidate replaces one that was predicted to be faster if it is so much faster */
#define CUT_TRIALS_HOPELESS 0.5  /* a candidate with less than this part of the best rate is given up after a window */
#define CUT_TRIALS_DRIFT    0.2  /* costs are stale when the chosen cut's rate has changed by more than this part */

struct cut_trials {
    struct cut cuts[CUT_CANDIDATES];
    double rates[CUT_CANDIDATES]; /* items a second, the median; 0: not measured */
    size_t count;
    size_t trying; /* `count`: all are measured */
    size_t best;
    unsigned samples; /* of the present cut so far */
    double window[CUT_TRIALS_SAMPLES];
    uint64_t windows; /* since the choice */
    uint64_t wait;
    unsigned stale; /* how often costs were */
};

/* A zeroed struct begins with these cuts. Where there were trials before, their waits go on. `count`: 1 to
 * CUT_CANDIDATES. */
void cut_trials_begin(struct cut_trials *trials, const struct cut *cuts, size_t count);

/* The cut that is to run now. */
const struct cut *cut_trials_wanted(const struct cut_trials *trials);

/* Adds the rate of a window in which these stages ran on feeders and nothing changed. Other cuts' windows, and rates
 * that are no positive number, are ignored. Returns whether the costs are stale: then the stages are to be measured
 * again, and the trials to begin with new candidates. */
bool cut_trials_add(struct cut_trials *trials, cut_set feeders, double rate);

#endif
