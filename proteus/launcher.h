/* The work of `proteus run`. Has the app check its options, starts a controller and the nodes as child processes, and
 * restarts a lost controller. Follows the job as an observer, reports ended nodes to the controller, and carries out
 * events. Leaves no process behind in any case. */
#ifndef PROTEUS_LAUNCHER_H
#define PROTEUS_LAUNCHER_H

#include "proteus/app.h"
#include "proteus/events.h"
#include "proteus/job_options.h"
#include "proteus/marketplace.h"
#include "proteus/progress.h"
#include "proteus/report_file.h"

enum {
    LAUNCHER_OBSERVE_MS = 200,         /* time between requests to the controller for missing lines */
    LAUNCHER_START_MIN_S = 20,         /* least time for nodes to join, since Python may take long to start */
    LAUNCHER_STARTS_MAX_S = 2 * 86400, /* the same time for nodes that compute */
    LAUNCHER_START_MORE_S = 10,        /* time added again and again while missing nodes use CPU time */
    LAUNCHER_STARTS_PER_S = 10,        /* number of nodes that get 1 s more to join */
    LAUNCHER_FAILURE_WAIT_MS = 1000,   /* wait after a node's end, since its last messages may be on the way */
    /* wait after the controller's end, since its last lines may be on the way */
    LAUNCHER_SUMMARY_WAIT_MS = 500,
    LAUNCHER_RESTARTS_MAX = 5,               /* restarts of a lost controller */
    LAUNCHER_STOP_WAIT_MS = 3000,            /* wait after STOP, for the controller to end the job */
    LAUNCHER_END_WAIT_MS = 5000,             /* wait after the job, for the processes to end by themselves */
    LAUNCHER_ABORT_WAIT_MS = 2000,           /* the same wait after a failure, when nothing needs to be saved */
    LAUNCHER_CORE_WAIT_MS = 1000,            /* time added while the kernel writes a node's core dump */
    LAUNCHER_MARKET_START_S = 60,            /* time for bought machines to join */
    LAUNCHER_MARKET_END_WAIT_MS = 60 * 1000, /* time for bidbrain to give all machines back, and for the bill */
    LAUNCHER_MARKET_RESTARTS_MAX = 50,       /* restarts of a killed bidbrain */
    LAUNCHER_NAMED_MAX = 3,                  /* nodes that a message names */
    LAUNCHER_NODES_TEXT = 320,               /* bytes of that message */
    LAUNCHER_REASON_TEXT = LAUNCHER_NODES_TEXT + 160, /* bytes of a text around such a message */
};

struct launcher_options {
    const struct job_options *job;
    const char *host;    /* host on which the controller and the nodes listen */
    int64_t threads;     /* worker threads of each node */
    int64_t feeders;     /* number at the start */
    int64_t feeders_max; /* limit of the number that the controller chooses; 0: it does not choose */
    /* limit of all feeders' threads, if the controller also chooses those; 0: each has `threads` */
    int64_t feeder_threads;
    const struct app *app;
    /* where the nodes' machines are bought; NULL: the nodes are our child processes */
    const struct marketplace *market;
};

/* Runs the job to its end and returns the exit status. *error is the error to print, if any: an app or controller that
 * does not start prints the reason itself. */
int launcher_run(const struct launcher_options *options, struct events *events, struct report_file *report,
                 struct progress *progress, struct error *error);

#endif
