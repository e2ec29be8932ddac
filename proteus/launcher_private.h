/* What the parts of the launcher share: launcher.c (the job as a whole, the loop), launcher_controller.c (the
 * controller's process and report), launcher_nodes.c (the nodes' processes), launcher_market.c (in place of these a
 * market, and bidbrain, which buys machines there) and launcher_events.c. One thread. */
#ifndef PROTEUS_LAUNCHER_PRIVATE_H
#define PROTEUS_LAUNCHER_PRIVATE_H

#include "agileml/base/process.h"
#include "agileml/control/observer.h"
#include "proteus/child_lines.h"
#include "proteus/launcher.h"
#include "proteus/run_folder.h"

#include <limits.h>

enum launcher_phase {
    LAUNCHER_CHECK, /* the app checks its options and input */
    LAUNCHER_START, /* the controller starts */
    LAUNCHER_JOB,   /* the nodes run */
    LAUNCHER_END    /* the summary has come, or all were killed: wait for the processes to end */
};

/* The node at index K - 1 is node-K. */
struct launched_node {
    struct process process;
    enum node_tier tier;
    bool extra;        /* a feeder that the controller has asked for: the job needs it in no case */
    bool joined;       /* by the report */
    bool excused;      /* its end is no failure of the job: an event caused it, or the controller knows it */
    bool given_up;     /* the job went on without it; it may have rejoined as a new node */
    bool paused;       /* by an event */
    uint64_t cpu_us;   /* what it had taken at the last look at missing nodes */
    uint64_t kill_us;  /* end of its notice; 0: no notice */
    uint64_t judge_us; /* when to judge its end; 0: it runs, or its end was judged */
};

/* The controller's process; only launcher_controller.c changes it. */
struct launched_controller {
    struct process process;
    struct child_lines ready; /* the pipe on which it writes its endpoint */
    bool is_ready;            /* the present process has written its endpoint */
    unsigned restarts;        /* other than by events */
    bool killed;              /* by an event, and not restarted yet */
    uint64_t lost_us;         /* when it was lost; 0: it runs */
};

/* The progress of training, by the report. */
struct launched_training {
    uint64_t iteration; /* the last one that has ended */
    json_t *line;       /* the report's line about that iteration; NULL: none */
    double pace;        /* seconds of that iteration */
    uint64_t began_us;  /* when training began; 0: not known yet */
};

struct launcher {
    const struct launcher_options *options;
    struct events *events;
    struct report_file *report;
    struct progress *progress;
    struct net *net;
    struct net_io *io;
    int signal_fd;
    struct run_folder folder;       /* for the controller's store and the market */
    struct launcher_market *market; /* NULL: the nodes are our child processes */

    enum launcher_phase phase;
    bool elastic; /* nodes may come and go */
    struct process check;
    struct launched_node *nodes;
    unsigned node_count;
    unsigned first_nodes;  /* number of nodes that the job begins with */
    unsigned joined_count; /* how many of these have joined */

    struct launched_controller controller;
    char endpoint[WIRE_ENDPOINT_MAX + 1]; /* of all controllers, chosen by the first; empty: not known yet */
    char page[WEB_ADDRESS_MAX];           /* likewise; empty: there is none */

    struct observer observer;
    struct launched_training training;

    struct message_text stop; /* why we end the job; code 0: we do not */
    unsigned signals;         /* received that ask us to end */
    bool told_missing;        /* that nodes still look at the input was said */
    /* Deadlines; 0: none. */
    uint64_t start_us;   /* for all first nodes to join */
    uint64_t silence_us; /* for the summary of a controller that has ended */
    uint64_t kill_us;    /* for processes to end before they are killed */

    struct error error; /* why the job failed */
    int status;         /* our exit status, for `error` or for a reason that a child has printed; 0: none yet */
};

/* ---- launcher.c ---- */

uint64_t launcher_now(const struct launcher *launcher);
uint64_t launcher_after(const struct launcher *launcher, unsigned ms);
void launcher_kill_all(struct launcher *launcher);
/* Kills everything. Keeps only the first reason. */
__attribute__((format(printf, 3, 4))) void launcher_fail(struct launcher *launcher, int code, const char *format, ...);
/* Has the controller end the job, so that every process gets the reason. */
void launcher_stop(struct launcher *launcher, int code, const char *text);
/* Call it at the end of each callback: carries out what is due, checks for the end, sets the timer. */
void launcher_settle(struct launcher *launcher);
/* Returns the seconds that the nodes have to join. */
double launcher_start_timeout(const struct launcher *launcher);
void launcher_add_net_arguments(const struct launcher *launcher, struct arguments *arguments);

/* ---- launcher_controller.c ---- */

/* Starts a controller, also after an earlier one has ended. */
void launcher_start_controller(struct launcher *launcher);
void launcher_controller_ended(struct launcher *launcher);
/* Sends EVICT for the nodes with these indexes, and repeats it until the answer comes. */
void launcher_evict(struct launcher *launcher, const unsigned *nodes, unsigned count, double notice);
/* Sends GONE in the same way: these nodes' processes have ended by `signal`; 0: by none. */
void launcher_gone(struct launcher *launcher, const unsigned *nodes, unsigned count, int signal);
/* Repeats the requests that the controller has not answered. */
void launcher_remind(struct launcher *launcher);
void launcher_receive(void *self, actor_id from, struct message *message);
/* Writes a line of the report into its file, and shows it. */
void launcher_show(struct launcher *launcher, const json_t *line);
/* Writes the report's summary from what we know, when the controller could not. */
void launcher_write_summary(struct launcher *launcher, int status);

/* ---- launcher_nodes.c ---- */

/* Starts `count` more nodes. The controller's endpoint must be known. */
void launcher_add_nodes(struct launcher *launcher, enum node_tier tier, unsigned count);
/* Starts the feeder that the controller has asked for. */
void launcher_add_feeder(struct launcher *launcher);
void launcher_reap_nodes(struct launcher *launcher);
/* Take note of the report's lines: the node called `name` has joined, was refused, or was given up. */
void launcher_node_replaced(struct launcher *launcher, const char *name);
void launcher_node_joined(struct launcher *launcher, const char *name);
void launcher_node_refused(struct launcher *launcher, const char *name);
void launcher_node_given_up(struct launcher *launcher, const char *name);
/* Judges nodes that have ended, and kills nodes whose notice is over. Returns when to call it next; 0: no such time. */
uint64_t launcher_watch_nodes(struct launcher *launcher);
/* Ends nodes that may not end by themselves after the job, and excuses their end. An event has paused them; or they
 * were given up, rejoined, and still load data or look for the ended controller. */
void launcher_end_others(struct launcher *launcher);
/* Moves the nodes' deadlines by the length of a stop. */
void launcher_shift_nodes(struct launcher *launcher, uint64_t by_us);
/* Gives the first nodes more time when one of those that have not joined computes: it looks at the input. Returns false
 * when none does. */
bool launcher_wait_for_missing(struct launcher *launcher);
void launcher_stop_for_missing(struct launcher *launcher);
/* Describes the nodes that ended unwell in a job that ended well. Returns false when there are none. */
bool launcher_describe_unwell(const struct launcher *launcher, char *text, size_t size);

/* ---- launcher_market.c ---- */

/* Opens the market of options->market; without one does nothing. Returns 0 or AML_EFAIL. */
int launcher_market_open(struct launcher *launcher, struct error *error);
void launcher_market_close(struct launcher *launcher); /* after all its processes have ended */
/* Starts the cloud, and the controller once the cloud is ready. */
void launcher_market_start(struct launcher *launcher);
/* Starts bidbrain, which buys the job's machines. The controller must be ready. */
void launcher_market_buy(struct launcher *launcher);
/* After the job: has bidbrain give all machines back, requests the bill, ends the cloud. */
void launcher_market_finish(struct launcher *launcher);
/* Keeps the report's summary until the bill comes. Returns false for other lines. */
bool launcher_market_holds(struct launcher *launcher, json_t *line);
/* Shows that summary if the bill never came. */
void launcher_market_tell(struct launcher *launcher);
void launcher_market_reap(struct launcher *launcher);
void launcher_market_signal(const struct launcher *launcher, int number);
bool launcher_market_runs(const struct launcher *launcher);
/* Continues what waits; returns the latest time to call it next; 0: no such time. */
void launcher_market_step(struct launcher *launcher);
uint64_t launcher_market_due(const struct launcher *launcher);

/* ---- launcher_events.c ---- */

/* Carries out the events that are due. Returns when the next one is due; 0: not known. */
uint64_t launcher_run_events(struct launcher *launcher);
/* Calls `visit` for each event that was not due before the end: "FILE:LINE: iteration 9 kill node-2". */
void launcher_visit_missed(const struct launcher *launcher, void (*visit)(void *context, const char *event),
                           void *context);
/* Returns whether a later event starts the controller. */
bool launcher_events_start_controller(const struct launcher *launcher);

#endif
