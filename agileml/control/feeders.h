/* How many feeders a job has, and with how many threads, by the state of the queues between feeders and trainers.
 * GoldMiner (Zhao et al., SIGMOD 2023), section 3.4.1. Pure state: no sockets, no clock reads.
 *
 * The caller measures window after window (some seconds each) and calls feeders_decide once for each. The answer is at
 * most one action:
 *
 *     PROFILE --starved--> THREADS --no longer linear, or all threads--> COUNT --no longer linear--> HOLD
 *        |                  |  ^                                                                    |  ^
 *        +---not starved----+--|------------------------ no longer starved -----------------------> |  |
 *                              +----------------------------- starved anew -------------------------+  |
 *                                                                                 idle: SHRINK <-----> +
 *
 * PROFILE measures the rate without feeders. THREADS doubles the threads of those that are there, COUNT adds one feeder
 * after the other: a thread costs nothing where a processor idles, a feeder costs money. Each step is kept if it gains
 * at least FEEDERS_LINEAR of what is possible: of linear, or of what trainers can still take where that is less. In the
 * end feeders stay only if the job is faster with them than without.
 *
 * SHRINK: where one feeder fewer would be enough, each first gets as many threads fewer, which can be undone at once.
 * If the job is then as fast, one feeder is given back, and the others have their threads again.
 *
 * Linear: what feeders make grows with their number. In the paper a trainer has its batches made, or makes them itself.
 * Here it may also make some while it waits for others: if trainers make as much as `own` feeders in the time in which
 * they wait, then one feeder more than f makes (own + f + 1) / (own + f) of the rate, not (f + 1) / f.
 *
 * HOLD changes nothing unless the rate, or the trainers' waiting, has become another for two blocks of windows, or
 * feeders have been idle for as long. A try that changed nothing doubles the wait until the next. Without any change to
 * be seen it is repeated after FEEDERS_AGAIN windows, doubled each time, FEEDERS_RETRIES times at most.
 *
 * Feeders that are lost are asked for again, one at a time. The waits between requests double while feeders don't come
 * or don't stay; after FEEDERS_REQUESTS the job makes do with those it has. */
#ifndef AGILEML_CONTROL_FEEDERS_H
#define AGILEML_CONTROL_FEEDERS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FEEDERS_WINDOWS = 5,      /* the fewest windows by which a number of feeders is judged */
    FEEDERS_WINDOWS_MAX = 40, /* the most */
    FEEDERS_BLOCK = 10,       /* windows that are compared as one in HOLD */
    FEEDERS_WAIT = 20,        /* windows from a decision until the first try after it; doubles */
    FEEDERS_WAIT_MAX = 1280,
    FEEDERS_AGAIN = 1200,  /* windows until a try is repeated though nothing has changed; doubles */
    FEEDERS_RETRIES = 4,   /* of tries without success in a row, where nothing has changed */
    FEEDERS_REQUESTS = 10, /* for feeders that don't come, or don't stay, in a row */
    FEEDERS_PATIENCE = 20, /* windows until more feeders, or other threads, than asked for are taken as they are */
    FEEDERS_REASON = 160   /* bytes, with the end */
};

#define FEEDERS_LINEAR  0.9  /* a step is kept if it gains this part of what is possible */
#define FEEDERS_STARVED 0.1  /* trainers that wait for more than this part of the time may get more */
#define FEEDERS_FULL    0.05 /* those that wait for less have enough */
#define FEEDERS_DOUBT   0.05 /* how far the part of the time in which trainers wait may be off */
#define FEEDERS_MARGIN  0.05 /* with feeders the job has to be faster than without by this part */
#define FEEDERS_DRIFT   0.15 /* a rate, or a part of the time, that differs by more is another */
#define FEEDERS_SPARE   0.9 /* with fewer feeders or threads they have to be busy for less than this part of the time */

/* One window. */
struct feeders_view {
    unsigned feeders, feeders_max; /* that work; that there may be */
    unsigned coming;               /* asked for, and still expected */
    unsigned threads, threads_max; /* of each feeder; before the first one neither is looked at */
    unsigned threads_next;         /* that each may have at most when there is one feeder more */
    bool changed;                  /* there was a change of plan, or other trainers, within the window: no measure */
    double rate;                   /* items a second that trainers worked on */
    double
        starved; /* the part of trainers' time in which they waited for items, or made some meanwhile; without feeders
                       the part that they spent on the stages that feeders would run */
    double busy; /* the part of feeders' time in which they did not wait for credits */
    double fed;  /* the part of the items that feeders have made; 1: trainers make none while there are feeders */
};

enum feeders_act { FEEDERS_NONE, FEEDERS_ADD, FEEDERS_REMOVE, FEEDERS_SET_THREADS, FEEDERS_BASELINE };

struct feeders_action {
    enum feeders_act act;
    unsigned feeders; /* from now on: one more with FEEDERS_ADD; perhaps several fewer with FEEDERS_REMOVE */
    unsigned threads; /* of each feeder from now on, also of one that is added; 0 without feeders */
};

enum feeders_state { FEEDERS_PROFILE, FEEDERS_THREADS, FEEDERS_COUNT, FEEDERS_HOLD, FEEDERS_SHRINK };

/* Windows that are judged together. */
struct feeders_run {
    unsigned count;
    double rates, squares, starved, busy, fed; /* sums */
};

/* What was measured with some feeders. */
struct feeders_measure {
    unsigned feeders, threads; /* all 0: nothing */
    double rate, error;        /* the mean; its standard error */
    double starved, busy, fed;
};

/* A zeroed struct begins. */
struct feeders {
    enum feeders_state state;
    unsigned wanted, threads;    /* feeders and their threads, as last asked for */
    struct feeders_run run;      /* of these */
    struct feeders_measure kept; /* the last step that was kept */
    struct feeders_measure held; /* the first block in HOLD */
    double baseline;             /* items a second without feeders */
    double deviations, freedom;  /* of windows' rates from their run's mean, squared, by the mean; degrees of freedom */
    uint64_t windows;            /* all so far */
    uint64_t since;              /* the window of the last decision */
    unsigned from, from_threads; /* feeders and threads with which this try began */
    unsigned retries;            /* of tries without success, in a row */
    unsigned wait;               /* windows until the next */
    unsigned drifted, spare;     /* blocks in a row */
    unsigned seen;               /* feeders of the last window */
    unsigned requests;           /* that brought no feeder that stayed, in a row */
    uint64_t next_request;       /* the first window for the next one */
    unsigned unsettled;          /* windows in a row with other feeders or threads than asked for */
};

/* Returns what is to be done after this window, with the reason for people in `reason`; empty if nothing was decided.
 * The end of tuning, and to make do with fewer feeders than asked for, may be decisions without an action. Windows with
 * numbers that can't be, such as a part above 1, are not measured. */
struct feeders_action feeders_decide(struct feeders *feeders, const struct feeders_view *view,
                                     char reason[FEEDERS_REASON]);

/* There are other trainers now, so what was measured is void. Goes on from the feeders that were asked for last: in
 * PROFILE without any, else in THREADS, as if the first of them had just come. The rate without feeders is then not
 * known, so they are not given back because of it. */
void feeders_begin_anew(struct feeders *feeders);

#endif
