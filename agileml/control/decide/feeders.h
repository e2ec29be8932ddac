/* Chooses the number of feeders of a job, and of their threads, from how long trainers and feeders wait for each other.
 * GoldMiner (Zhao et al., SIGMOD 2023), section 3.4.1. Pure state: no sockets, no clock reads.
 *
 * The caller measures windows of some seconds and calls feeders_decide once for each window. The answer is at most one
 * action:
 *
 *     PROFILE --starved--> THREADS --no longer linear, or all threads--> COUNT --no longer linear--> HOLD
 *        |                  |  ^                                                                    |  ^
 *        +---not starved----+--|------------------------ no longer starved -----------------------> |  |
 *                              +----------------------------- starved anew -------------------------+  |
 *                                                                                 idle: SHRINK <-----> +
 *
 * PROFILE measures the rate without feeders. THREADS doubles the threads of the present feeders. COUNT adds feeders one
 * by one. Threads come first, as a thread costs nothing where a processor idles, but a feeder costs money. A step is
 * kept if it gains at least FEEDERS_LINEAR of what is possible: of a linear gain, or of what trainers can still take
 * where that is less. In the end feeders stay only if the job is faster with them than without.
 *
 * SHRINK: when one feeder fewer would be enough, each feeder first gets fewer threads, as many fewer in all. This can
 * be undone at once. If the job is then as fast, one feeder is given back, and the others get their threads back.
 *
 * Linear gain: the output of feeders grows with their number. In the paper a trainer either has its batches made or
 * makes them itself. Here a trainer may also make some while it waits. If trainers make as much as `own` feeders in
 * that time, one feeder more than f multiplies the rate by (own + f + 1) / (own + f), not by (f + 1) / f.
 *
 * HOLD changes nothing until the rate or the trainers' waiting has changed for two blocks of windows, or feeders have
 * been idle for as long. A try without success doubles the wait until the next try. If nothing changes, the try is
 * repeated after FEEDERS_AGAIN windows, doubled each time, at most FEEDERS_RETRIES times.
 *
 * Lost feeders are requested again, one at a time. The waits between requests double while feeders don't come or don't
 * stay. After FEEDERS_REQUESTS requests the job goes on with the feeders that it has. */
#ifndef AGILEML_CONTROL_FEEDERS_H
#define AGILEML_CONTROL_FEEDERS_H

#include "agileml/base/trial.h"

enum {
    FEEDERS_WINDOWS = 5,      /* the fewest windows from which a number of feeders is judged */
    FEEDERS_WINDOWS_MAX = 40, /* the most such windows */
    FEEDERS_BLOCK = 10,       /* windows of a block; HOLD compares blocks */
    FEEDERS_WAIT = 20,        /* windows from a decision until the first try after it; doubles */
    FEEDERS_WAIT_MAX = 1280,
    FEEDERS_AGAIN = 1200,  /* windows until a try is repeated when nothing has changed; doubles */
    FEEDERS_RETRIES = 4,   /* most tries without success in a row, when nothing has changed */
    FEEDERS_REQUESTS = 10, /* most requests in a row for feeders that don't come or don't stay */
    FEEDERS_PATIENCE = 20, /* windows until other feeders or threads than requested are accepted */
    FEEDERS_REASON = 160   /* bytes of a reason, the final 0 included */
};

#define FEEDERS_LINEAR  0.9  /* a step is kept if it gains this part of what is possible */
#define FEEDERS_STARVED 0.1  /* trainers that wait for more than this part of the time may get more */
#define FEEDERS_FULL    0.05 /* trainers that wait for less than this part of the time have enough feeders */
#define FEEDERS_DOUBT   0.05 /* the possible error of the part of the time in which trainers wait */
#define FEEDERS_MARGIN  0.05 /* with feeders the job must be faster by this part than without */
#define FEEDERS_DRIFT   0.15 /* a rate, or a part of the time, has changed if it differs by more */
#define FEEDERS_SPARE   0.9  /* fewer feeders or threads are enough if they are busy for less than this part */

/* One window. */
struct feeders_view {
    unsigned feeders, feeders_max; /* feeders that work; the most that the job may have */
    unsigned coming;               /* feeders that were requested and are still expected */
    unsigned threads, threads_max; /* of each feeder, now and at most; not used without feeders */
    unsigned threads_next;         /* most threads of each if there were one feeder more */
    bool changed;                  /* the plan or the trainers changed within the window: it does not count */
    double rate;                   /* items a second that trainers worked on */
    /* The part of trainers' time in which they waited for items, or made some while they waited. Without feeders: the
     * part that they spent on the transforms that feeders would run. */
    double starved;
    double busy; /* the part of feeders' time in which they did not wait for credits */
    double fed;  /* the part of the items that feeders have made; 1: trainers make none */
};

enum feeders_act { FEEDERS_NONE, FEEDERS_ADD, FEEDERS_REMOVE, FEEDERS_SET_THREADS, FEEDERS_BASELINE };

struct feeders_action {
    enum feeders_act act;
    unsigned feeders; /* wanted from now on: one more with FEEDERS_ADD; one or more fewer with FEEDERS_REMOVE */
    unsigned threads; /* wanted of each feeder from now on, an added one included; 0 without feeders */
};

enum feeders_state { FEEDERS_PROFILE, FEEDERS_THREADS, FEEDERS_COUNT, FEEDERS_HOLD, FEEDERS_SHRINK };

/* Windows that are judged together. */
struct feeders_run {
    unsigned count;
    double rates, squares, starved, busy, fed; /* sums */
};

/* What was measured with some feeders. */
struct feeders_measure {
    unsigned feeders, threads; /* all 0: nothing was measured */
    double rate, error;        /* the mean; its standard error */
    double starved, busy, fed;
};

/* The state of the policy. It begins zeroed. */
struct feeders {
    enum feeders_state state;
    unsigned wanted, threads;    /* feeders and threads of each, as last requested */
    struct feeders_run run;      /* the windows with these */
    struct feeders_measure kept; /* the last step that was kept */
    struct feeders_measure held; /* the first block in HOLD */
    double baseline;             /* items a second without feeders */
    double deviations, freedom;  /* of windows' rates from their run's: sum of squares; degrees of freedom */
    uint64_t windows;            /* all so far */
    unsigned from, from_threads; /* feeders and threads with which this try began */
    struct trial_pause pause;    /* since the last decision, in windows */
    unsigned drifted, spare;     /* blocks in a row that differ from `held`; blocks with a feeder too many */
    unsigned seen;               /* feeders of the last window */
    unsigned requests;           /* requests in a row without a feeder that came and stayed */
    uint64_t next_request;       /* the first window in which a feeder may be requested again */
    unsigned unsettled;          /* windows in a row with other feeders or threads than requested */
};

/* Takes a window and returns what to do now. Writes the reason, for people, into `reason`; empty if nothing was
 * decided. Some decisions have no action: the end of tuning, and to accept fewer feeders than requested. Windows with
 * impossible numbers, such as a part above 1, do not count. */
struct feeders_action feeders_decide(struct feeders *feeders, const struct feeders_view *view,
                                     char reason[FEEDERS_REASON]);

/* To be called when the trainers have changed: drops all measurements. Goes on with the feeders that were last
 * requested: in THREADS, as if the first of them had just come; without feeders, in PROFILE. In THREADS the rate
 * without feeders is then not known, so feeders are not given back for being slower than that. */
void feeders_begin_anew(struct feeders *feeders);

#endif
