/* The connection to the job's elasticity controller, as its observer: reads the report as it is written, and requests
 * that nodes leave. Owns the process's net and the daemon's loop (net_io). Requests are repeated until answered,
 * so a controller may start late, or again. Decides nothing. One thread. */
#ifndef BIDBRAIN_DAEMON_LINK_H
#define BIDBRAIN_DAEMON_LINK_H

#include "agileml/net/zmq.h"

#include <jansson.h>

enum {
    LINK_REPEAT_MS = 500,
    LINK_NODES_MAX = 1 << 16, /* names that a job has ever had */
    LINK_NOTES_MAX = 256,     /* lines for the job's report that wait */
};

/* What an iteration's line of the report says. */
struct job_link_iteration {
    uint64_t iteration;
    uint64_t iterations;   /* that the job is to have; 0: the report does not say */
    double ended;          /* seconds since training began */
    double items, seconds; /* of it */
};

/* What a status says of a node's speed. */
struct job_link_speed {
    const char *node;
    double slowness; /* over the controller's long window: 1 for equal nodes, 2 for one that takes twice as long */
};

/* Called from the loop for the whole report from its start, also for lines that an earlier bidbrain has read. */
struct job_link_listener {
    void (*joined)(void *context, const char *node);
    void (*left)(void *context, const char *node, bool failed); /* it is no part of the job any more */
    void (*iteration)(void *context, const struct job_link_iteration *iteration);
    void (*summary)(void *context, bool ok, const char *error, double seconds, uint64_t iterations);
    /* The controller knows no node of this name: the answer to an EVICT. */
    void (*unknown)(void *context, const char *node);
    /* A status has come, every few seconds: its nodes whose slowness is known. NULL: statuses are not read. */
    void (*speeds)(void *context, const struct job_link_speed *speeds, size_t count);
    void (*timer)(void *context);
    /* A checkpoint is complete, this many seconds after training began. */
    void (*checkpoint)(void *context, double seconds);
    /* A status has come: whether the job is in stage transient, or, before it begins, waits for no reliable node. */
    void (*stage)(void *context, bool transient);
    void *context;
};

struct job_link_options {
    const char *controller; /* its endpoint */
    const char *key;        /* a file; NULL: none */
    bool insecure;
    struct job_link_listener listener;
};

struct job_link;

/* 0, AML_EINPUT (key, address) or AML_EFAIL. */
int job_link_open(struct job_link **link, const struct job_link_options *options, struct error *error);
void job_link_close(struct job_link *link); /* NULL is allowed */
/* The loop, for net_io_watch, net_io_run and net_io_stop; its timer is the caller's, by net_io_of. */
struct net_io *job_link_io(struct job_link *link);
/* To be called every LINK_REPEAT_MS or so, and at least once before anything is heard. */
void job_link_step(struct job_link *link);

/* Whether the node is part of the job now, as far as the report says. */
bool job_link_has(const struct job_link *link, const char *node);
/* Whether the report has been read up to its end once. Before, a node that is not known may be part of the job. */
bool job_link_caught_up(const struct job_link *link);
size_t job_link_nodes(const struct job_link *link);
/* Calls `visit` for each node that is part of the job. */
void job_link_visit(const struct job_link *link, void (*visit)(void *context, const char *node), void *context);
/* Seconds since the controller's last message; infinite if there was none. It is asked every LINK_REPEAT_MS, but
 * answers only when there is news. */
double job_link_silence(const struct job_link *link);

/* Requests that these nodes (at most WIRE_NODES_MAX) leave before the notice is over. */
void job_link_evict(struct job_link *link, const char *const *nodes, size_t count, uint32_t notice_ms);
/* Reports the machines whose nodes have not joined yet, all of them each time. Sent when the list changes, and
 * repeated, since a controller that is started again knows none. */
void job_link_expect(struct job_link *link, const struct wire_machine *machines, size_t count);
/* Adds a line to the job's report: an object of type money or decision (MESSAGE_NOTE). Lines are sent one after the
 * other. Of lines `money` that wait only the newest is kept; of others at most LINK_NOTES_MAX, then a warning says that
 * some are left out. */
void job_link_note(struct job_link *link, json_t *line);
/* Reports that these nodes' processes have ended. */
void job_link_gone(struct job_link *link, const char *const *nodes, size_t count);

#endif
