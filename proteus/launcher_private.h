/* What the parts of the launcher share. The parts, from the lowest up, each of which calls only those before it:
 * launcher_common.c, launcher_nodes.c (the nodes' processes), launcher_controller.c (the controller's process),
 * launcher_events.c, launcher_market.c (a market in place of the nodes, with bidbrain, which buys machines there),
 * launcher_report.c and launcher.c (the job as a whole, the loop). One thread. */
#ifndef PROTEUS_LAUNCHER_PRIVATE_H
#define PROTEUS_LAUNCHER_PRIVATE_H

#include "agileml/base/process.h"
#include "agileml/control/state/observer.h"
#include "proteus/child_lines.h"
#include "proteus/launcher.h"
#include "proteus/run_folder.h"

#include <limits.h>

enum launcher_phase {
    LAUNCHER_CHECK, /* the app checks its options and input */
    LAUNCHER_START, /* the controller starts */
    LAUNCHER_JOB,   /* the nodes run */
    LAUNCHER_END    /* the summary is here, or all were killed; waits for the processes to end */
};

/* The node at index K - 1 is node-K. */
struct launched_node {
    struct process process;
    enum node_tier tier;
    bool extra;        /* a feeder requested by the controller: the job does not need it */
    bool joined;       /* the report says that it joined */
    bool excused;      /* its end is no failure of the job: an event caused it, or the controller knows about it */
    bool given_up;     /* the job went on without it; it may have rejoined as a new node */
    bool paused;       /* an event paused it */
    uint64_t cpu_us;   /* its CPU time at the last look at missing nodes */
    uint64_t kill_us;  /* end of its notice; 0: no notice */
    uint64_t judge_us; /* when to judge its end; 0: it runs, or its end was judged */
};

/* The controller's process, as launcher_controller.c starts it. */
struct launched_controller {
    struct process process;
    struct child_lines ready; /* the pipe on which it writes its endpoint */
    bool is_ready;            /* the present process has written its endpoint */
    unsigned restarts;        /* number of restarts that no event caused */
    bool killed;              /* an event killed it, and it is not restarted yet */
    uint64_t lost_us;         /* when it was lost; 0: it runs */
    uint64_t observe_us;      /* when missing lines of the report are next requested */
};

/* The progress of training, by the report. */
struct launched_training {
    uint64_t iteration;       /* last ended iteration */
    struct report_line *line; /* its line in the report; NULL: none */
    double pace;              /* seconds of that iteration */
    uint64_t began_us;        /* when training began; 0: unknown */
};

/* Decisions of a step, which launcher_settle carries out at its end, in this order. */
struct launcher_verdicts {
    bool stop; /* report to the controller why we end the job */
    bool kill; /* kill all processes */
};

struct launcher {
    const struct launcher_options *options;
    struct events *events;
    struct report_file *report;
    struct progress *progress;
    struct net *net;
    struct net_io *io;
    int signal_fd;
    struct run_folder folder;       /* holds the controller's store and the market */
    struct launcher_market *market; /* NULL: the nodes are our child processes */

    enum launcher_phase phase;
    bool elastic; /* nodes may join and leave */
    struct process check;
    struct launched_node *nodes;
    unsigned node_count;
    unsigned first_nodes;  /* nodes at the start of the job */
    unsigned joined_count; /* how many of the first nodes have joined */

    struct launched_controller controller;
    char endpoint[WIRE_ENDPOINT_MAX + 1]; /* chosen by the first controller, used by all; empty: unknown */
    char page[WEB_ADDRESS_MAX];           /* the page's address, chosen by the first controller; empty: no page */

    struct observer observer;
    struct launched_training training;

    struct launcher_verdicts verdicts;
    struct message_text stop; /* why we end the job; code 0: we don't */
    unsigned signals;         /* number of received signals that request our end */
    bool told_missing;        /* a note said that some nodes still read the input */
    /* Deadlines; 0: none. */
    uint64_t start_us;   /* limit for all first nodes to join */
    uint64_t silence_us; /* limit for the summary after the controller's end */
    uint64_t kill_us;    /* limit for processes to end by themselves */

    struct error error; /* why the job failed */
    int status;         /* our exit status, for `error` or for a reason that a child printed; 0: none yet */
};

/* ---- launcher_common.c ---- */

uint64_t launcher_now(const struct launcher *launcher);
uint64_t launcher_after(const struct launcher *launcher, unsigned ms);
/* Sets the timer to now, so that the loop settles at once. */
void launcher_wake(const struct launcher *launcher);
/* Sets the next phase, or LAUNCHER_END, which may follow each phase. */
void launcher_set_phase(struct launcher *launcher, enum launcher_phase phase);
void launcher_kill_all(struct launcher *launcher);
/* Kills everything. Only the first reason is kept. */
__attribute__((format(printf, 3, 4))) void launcher_fail(struct launcher *launcher, int code, const char *format, ...);
/* Has the controller end the job, so that every process gets the reason. */
void launcher_stop(struct launcher *launcher, int code, const char *text);
/* Returns how many seconds the nodes have to join. */
double launcher_start_timeout(const struct launcher *launcher);
/* Sends EVICT for the nodes with these indexes, and repeats it until it is answered. */
void launcher_evict(struct launcher *launcher, const unsigned *nodes, unsigned count, double notice);
/* Sends GONE for these nodes, and repeats it until it is answered. `signal` ended their processes; 0: no signal. */
void launcher_gone(struct launcher *launcher, const unsigned *nodes, unsigned count, int signal);
/* Repeats unanswered requests, and the reason why we end the job. */
void launcher_remind(struct launcher *launcher);
/* Writes a line into the report's file; launcher_show also shows it. */
void launcher_write_line(struct launcher *launcher, json_t *line);
void launcher_show(struct launcher *launcher, json_t *line);

/* ---- launcher_nodes.c ---- */

/* Starts `count` more nodes. The controller's endpoint must be known. */
void launcher_add_nodes(struct launcher *launcher, enum node_tier tier, unsigned count);
/* Starts a feeder for the controller. */
void launcher_add_feeder(struct launcher *launcher);
void launcher_reap_nodes(struct launcher *launcher);
/* Handle lines of the report: the node called `name` has joined, was rejected, or was given up. */
void launcher_node_replaced(struct launcher *launcher, const char *name);
void launcher_node_joined(struct launcher *launcher, const char *name);
void launcher_node_refused(struct launcher *launcher, const char *name);
void launcher_node_given_up(struct launcher *launcher, const char *name);
/* Judges nodes that have ended, and kills nodes whose notice is over. Returns when to call it next; 0: not needed. */
uint64_t launcher_watch_nodes(struct launcher *launcher);
/* Ends nodes that may not end by themselves after the job, and excuses their end. Such a node was paused by an event.
 * Or it was given up and has rejoined, and still loads data or looks for the ended controller. */
void launcher_end_others(struct launcher *launcher);
/* Postpones the nodes' deadlines by the length of a stop. */
void launcher_shift_nodes(struct launcher *launcher, uint64_t by_us);
/* Gives the first nodes more time when a missing node computes, since it then reads the input. Returns false when none
 * does. */
bool launcher_wait_for_missing(struct launcher *launcher);
void launcher_stop_for_missing(struct launcher *launcher);
/* Describes the nodes that ended unwell although the job ended well. Returns false when there are none. */
bool launcher_describe_unwell(const struct launcher *launcher, char *text, size_t size);

/* ---- launcher_controller.c ---- */

/* Starts a controller, or another one after the earlier controller's end. */
void launcher_start_controller(struct launcher *launcher);
void launcher_controller_ended(struct launcher *launcher);

/* ---- launcher_events.c ---- */

/* Carries out due events. Returns when the next one is due; 0: unknown. */
uint64_t launcher_run_events(struct launcher *launcher);

/* ---- launcher_market.c ---- */

/* Opens the market of options->market; does nothing without one. Returns 0 or AML_EFAIL. */
int launcher_market_open(struct launcher *launcher, struct error *error);
void launcher_market_close(struct launcher *launcher); /* call it after the end of all its processes */
/* Starts the cloud, and the controller when the cloud is ready. */
void launcher_market_start(struct launcher *launcher);
/* Starts bidbrain, which buys the job's machines. The controller must be ready. */
void launcher_market_buy(struct launcher *launcher);
/* After the job: has bidbrain give all machines back, requests the bill, and ends the cloud. */
void launcher_market_finish(struct launcher *launcher);
/* Keeps the report's summary until the bill comes. Returns false for other lines. */
bool launcher_market_holds(struct launcher *launcher, struct report_line *line);
/* Shows the kept summary if the bill never came. */
void launcher_market_tell(struct launcher *launcher);
void launcher_market_reap(struct launcher *launcher);
void launcher_market_signal(const struct launcher *launcher, int number);
bool launcher_market_runs(const struct launcher *launcher);
/* _step continues waiting work. _due returns the latest time for the next call; 0: not needed. */
void launcher_market_step(struct launcher *launcher);
uint64_t launcher_market_due(const struct launcher *launcher);

/* ---- launcher_report.c ---- */

void launcher_receive(struct launcher *launcher, actor_id from, struct message *message);
/* Writes the report's summary from our own knowledge, when the controller could not. */
void launcher_write_summary(struct launcher *launcher, int status);

#endif
