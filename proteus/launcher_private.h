/* What the parts of the launcher share: launcher.c (the job as a whole, the loop), launcher_controller.c (the
 * controller's process, its report), launcher_nodes.c (the nodes' processes), launcher_market.c (instead of these: a
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
    LAUNCHER_END    /* the summary has come, or everything is being killed: wait for the processes */
};

/* node-K is at K - 1. */
struct launched_node {
    struct process process;
    enum node_tier tier;
    bool joined;       /* the report says so */
    bool excused;      /* an event did it, or the controller was told: its end is no failure of the job */
    bool given_up;     /* the job went on without it; it may have come back as a new node */
    bool paused;       /* by an event */
    uint64_t kill_us;  /* its notice is over then; 0: none was given */
    uint64_t judge_us; /* it has ended: what follows from that is decided then; 0: it runs, or that is done */
};

/* The controller's process; only launcher_controller.c changes it. */
struct launched_controller {
    struct process process;
    struct child_lines ready; /* on which it says its endpoint */
    bool is_ready;            /* the present one has said it */
    unsigned restarts;        /* not by events */
    bool killed;              /* by an event, and not started again yet */
    uint64_t lost_us;         /* when it was lost; 0: it runs */
};

/* How far training is, by the report. */
struct launched_training {
    uint64_t iteration; /* the last that ended */
    json_t *line;       /* what was reported of it; NULL: none */
    double pace;        /* seconds that it took */
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
    struct launcher_market *market; /* NULL: the nodes are processes of ours */

    enum launcher_phase phase;
    bool elastic; /* nodes may come and go */
    struct process check;
    struct launched_node *nodes;
    unsigned node_count;
    unsigned first_nodes;  /* that the job begins with */
    unsigned joined_count; /* of these */

    struct launched_controller controller;
    char endpoint[WIRE_ENDPOINT_MAX + 1]; /* of the first controller, and so of all; empty: not known yet */

    struct observer observer;
    struct launched_training training;

    struct message_text stop; /* why we want the job to end; code 0: we don't */
    unsigned signals;         /* that asked us to end */
    /* Times of what is to be done then; 0: nothing. */
    uint64_t start_us;   /* every node should have joined */
    uint64_t silence_us; /* the controller has ended without a summary */
    uint64_t kill_us;    /* kill what still runs */

    struct error error; /* why the job failed */
    int status;         /* the exit status that goes with it, or that a child printed the reason for; 0: none */
};

/* ---- launcher.c ---- */

uint64_t launcher_now(const struct launcher *launcher);
uint64_t launcher_after(const struct launcher *launcher, unsigned ms);
void launcher_kill_all(struct launcher *launcher);
/* Ends everything at once. Only the first reason is kept. */
__attribute__((format(printf, 3, 4))) void launcher_fail(struct launcher *launcher, int code, const char *format, ...);
/* Has the controller end the job, so that every process hears the reason. */
void launcher_stop(struct launcher *launcher, int code, const char *text);
/* Ends each callback: carries out what is due, sees whether all is over, sets the timer. */
void launcher_settle(struct launcher *launcher);
/* Seconds that the nodes have to join. */
double launcher_start_timeout(const struct launcher *launcher);
void launcher_add_net_arguments(const struct launcher *launcher, struct arguments *arguments);

/* ---- launcher_controller.c ---- */

/* Also again, after the one before has ended. */
void launcher_start_controller(struct launcher *launcher);
void launcher_controller_ended(struct launcher *launcher);
/* Sends EVICT for nodes with these indices, and again until it is answered. */
void launcher_evict(struct launcher *launcher, const unsigned *nodes, unsigned count, double notice);
/* The same with GONE: these nodes' processes have ended, all of them by `signal`; 0: by none. */
void launcher_gone(struct launcher *launcher, const unsigned *nodes, unsigned count, int signal);
/* What the controller must hear again, until it has answered. */
void launcher_remind(struct launcher *launcher);
void launcher_receive(void *self, actor_id from, struct message *message);
/* A line of the report: into its file, and for people. */
void launcher_show(struct launcher *launcher, const json_t *line);
/* The report's last line, when the controller could not write it: as much as we know. */
void launcher_write_summary(struct launcher *launcher, int status);

/* ---- launcher_nodes.c ---- */

/* Starts `count` more; the controller's endpoint is known. */
void launcher_add_nodes(struct launcher *launcher, enum node_tier tier, unsigned count);
void launcher_reap_nodes(struct launcher *launcher);
/* The report says that the node called `name` has joined, was refused, or was given up. */
void launcher_node_joined(struct launcher *launcher, const char *name);
void launcher_node_refused(struct launcher *launcher, const char *name);
void launcher_node_given_up(struct launcher *launcher, const char *name);
/* Sees what follows from nodes that have ended; kills those whose notice is over. Returns when to do so next; 0: at no
 * known time. */
uint64_t launcher_watch_nodes(struct launcher *launcher);
/* The job is over: ends the nodes that may not end by themselves, and whose end is no failure of the job. An event has
 * stopped them; or they were given up and came back, and are still loading, or look for the controller that has
 * ended. */
void launcher_end_others(struct launcher *launcher);
/* Time has stood still for so long. */
void launcher_shift_nodes(struct launcher *launcher, uint64_t by_us);
void launcher_stop_for_missing(struct launcher *launcher);
/* After a job that went well: those nodes that did not, in words. False when there are none. */
bool launcher_describe_unwell(const struct launcher *launcher, char *text, size_t size);

/* ---- launcher_market.c ---- */

/* The market of options->market; NULL without one. 0 or AML_EFAIL. */
int launcher_market_open(struct launcher *launcher, struct error *error);
void launcher_market_close(struct launcher *launcher); /* nothing of it runs any more */
/* Starts the cloud, and the controller when that is ready. */
void launcher_market_start(struct launcher *launcher);
/* The controller is there: starts bidbrain, which gets the job its machines. */
void launcher_market_buy(struct launcher *launcher);
/* The job is over: has bidbrain give everything back, asks for the bill, ends the cloud. */
void launcher_market_finish(struct launcher *launcher);
/* Keeps the report's summary until the bill is there; false for other lines. */
bool launcher_market_holds(struct launcher *launcher, json_t *line);
/* Shows that summary if the bill never came. */
void launcher_market_tell(struct launcher *launcher);
void launcher_market_reap(struct launcher *launcher);
void launcher_market_signal(const struct launcher *launcher, int number);
bool launcher_market_runs(const struct launcher *launcher);
/* Goes on with what it waits for, and when to do so next at the latest; 0: at no known time. */
void launcher_market_step(struct launcher *launcher);
uint64_t launcher_market_due(const struct launcher *launcher);

/* ---- launcher_events.c ---- */

/* Carries out what is due, and returns when the next one is; 0: none whose time is known. */
uint64_t launcher_run_events(struct launcher *launcher);
/* Calls `visit` for each event that has not come, with its place and text: "FILE:LINE: iteration 9 kill node-2". */
void launcher_visit_missed(const struct launcher *launcher, void (*visit)(void *context, const char *event),
                           void *context);
/* An event will start the controller. */
bool launcher_events_start_controller(const struct launcher *launcher);

#endif
