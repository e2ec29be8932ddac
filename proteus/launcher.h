/* The work of `proteus run`. Has the app check its options, starts a controller and the nodes as child processes, and
 * restarts a controller that is lost. Follows the job as an observer, reports ended nodes to the controller, and
 * carries out events. Leaves no process behind, whatever happens. */
#ifndef PROTEUS_LAUNCHER_H
#define PROTEUS_LAUNCHER_H

#include "proteus/app.h"
#include "proteus/events.h"
#include "proteus/job_options.h"
#include "proteus/marketplace.h"
#include "proteus/progress.h"
#include "proteus/report_file.h"

enum {
    LAUNCHER_OBSERVE_MS = 200,               /* between requests to the controller for missing lines */
    LAUNCHER_START_MIN_S = 20,               /* at least, for nodes to join: Python may take long to start */
    LAUNCHER_STARTS_MAX_S = 2 * 86400,       /* for nodes that compute */
    LAUNCHER_START_MORE_S = 10,              /* more, again and again, for nodes that take CPU time */
    LAUNCHER_STARTS_PER_S = 10,              /* nodes that get 1 s more to join */
    LAUNCHER_FAILURE_WAIT_MS = 1000,         /* after a node's end, as its last messages may be on the way */
    LAUNCHER_SUMMARY_WAIT_MS = 500,          /* after the controller's end, as its last lines may be on the way */
    LAUNCHER_RESTARTS_MAX = 5,               /* of a lost controller */
    LAUNCHER_STOP_WAIT_MS = 3000,            /* for the controller to end the job after STOP */
    LAUNCHER_END_WAIT_MS = 5000,             /* for the processes to end by themselves after the job */
    LAUNCHER_ABORT_WAIT_MS = 2000,           /* the same after a failure: nothing is left to be saved */
    LAUNCHER_CORE_WAIT_MS = 1000,            /* more, while the kernel writes a node's core dump */
    LAUNCHER_MARKET_START_S = 60,            /* for bought machines to join */
    LAUNCHER_MARKET_END_WAIT_MS = 60 * 1000, /* for bidbrain to give everything back, and the bill */
    LAUNCHER_MARKET_RESTARTS_MAX = 50,       /* of a bidbrain that was killed */
    LAUNCHER_NAMED_MAX = 3,                  /* nodes that a message names */
    LAUNCHER_NODES_TEXT = 320,               /* bytes of that message */
    LAUNCHER_REASON_TEXT = LAUNCHER_NODES_TEXT + 160, /* of a message around it */
};

struct launcher_options {
    const struct job_options *job;
    const char *host;       /* where the controller and the nodes listen */
    int64_t threads;        /* worker threads of each node */
    int64_t feeders;        /* to begin with */
    int64_t feeders_max;    /* the controller chooses a number up to this; 0: it chooses none */
    int64_t feeder_threads; /* ... and how many threads each has, in all up to this; 0: `threads`, as other nodes */
    const struct app *app;
    const struct marketplace *market; /* buys the nodes' machines; NULL: the nodes are our child processes */
};

/* Runs the job to its end and returns the exit status. *error is what to print, if anything: an app or controller that
 * refuses to start prints the reason itself. */
int launcher_run(const struct launcher_options *options, struct events *events, struct report_file *report,
                 struct progress *progress, struct error *error);

#endif
