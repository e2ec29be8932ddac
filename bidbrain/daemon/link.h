/* The connection to the job's elasticity controller, as its observer. Reads the report as it is written, and requests
 * that nodes leave. Owns the process's net and the daemon's loop (net_io). Repeats requests until they are answered, so
 * that the controller may start late or restart. Decides nothing. One thread. */
#ifndef BIDBRAIN_DAEMON_LINK_H
#define BIDBRAIN_DAEMON_LINK_H

#include "agileml/net/zmq.h"

#include <jansson.h>

enum {
    LINK_REPEAT_MS = 500,
    LINK_NODES_MAX = 1 << 16, /* most node names of a job, over its whole life */
    LINK_NOTES_MAX = 256,     /* most lines for the job's report that wait */
};

/* An iteration's line of the report. */
struct job_link_iteration {
    uint64_t iteration;
    uint64_t iterations;   /* total of the job; 0: not in the report */
    double ended;          /* seconds since training began */
    double items, seconds; /* work and duration of this iteration */
};

/* A node's speed in a status. */
struct job_link_speed {
    const char *node;
    double slowness; /* over the controller's long window; 1: as fast as the others, 2: takes twice as long */
};

/* Called from the loop for the whole report from its start, also for lines that an earlier run has read. */
struct job_link_listener {
    void (*joined)(void *context, const char *node);
    void (*left)(void *context, const char *node, bool failed); /* the node is not part of the job any more */
    void (*iteration)(void *context, const struct job_link_iteration *iteration);
    void (*summary)(void *context, bool ok, const char *error, double seconds, uint64_t iterations);
    /* Answer to an EVICT: the controller knows no node of this name. */
    void (*unknown)(void *context, const char *node);
    /* A status came (every few seconds). Lists its nodes with a known slowness. NULL: the speeds are ignored. */
    void (*speeds)(void *context, const struct job_link_speed *speeds, size_t count);
    void (*timer)(void *context);
    /* A checkpoint is complete, this many seconds after training began. */
    void (*checkpoint)(void *context, double seconds);
    /* A status came: whether the job is in stage transient; before the job begins, whether it waits for no reliable
     * node. */
    void (*stage)(void *context, bool transient);
    void *context;
};

struct job_link_options {
    const char *controller; /* endpoint of the controller */
    const char *key;        /* path of the key file; NULL: none */
    bool insecure;
    struct job_link_listener listener;
};

struct job_link;

/* Returns 0, AML_EINPUT (wrong key or address) or AML_EFAIL. */
int job_link_open(struct job_link **link, const struct job_link_options *options, struct error *error);
void job_link_close(struct job_link *link); /* NULL is allowed */
/* The loop, for net_io_watch, net_io_run and net_io_stop. Its timer is the caller's, by net_io_of. */
struct net_io *job_link_io(struct job_link *link);
/* Call it about every LINK_REPEAT_MS, for the first time before anything is heard. */
void job_link_step(struct job_link *link);

/* Whether the node is part of the job now, by the report read so far. */
bool job_link_has(const struct job_link *link, const char *node);
/* Whether the report has been read to its end once. Until then, an unknown node may be part of the job. */
bool job_link_caught_up(const struct job_link *link);
size_t job_link_nodes(const struct job_link *link);
/* Calls `visit` for each node that is part of the job. */
void job_link_visit(const struct job_link *link, void (*visit)(void *context, const char *node), void *context);
/* Returns the seconds since the controller's last message; infinite if there was none. It gets a request every
 * LINK_REPEAT_MS, but answers only when there is news. */
double job_link_silence(const struct job_link *link);

/* Requests that these nodes (at most WIRE_NODES_MAX) leave before the notice is over. */
void job_link_evict(struct job_link *link, const char *const *nodes, size_t count, uint32_t notice_ms);
/* Reports all machines whose nodes have not joined yet. The list is sent when it changes, and repeated, since a
 * restarted controller does not know it. */
void job_link_expect(struct job_link *link, const struct wire_machine *machines, size_t count);
/* Adds a line to the job's report: an object of type money or decision (MESSAGE_NOTE). Lines are sent one by one. Of
 * waiting lines `money` only the newest is kept. Of all others at most LINK_NOTES_MAX wait; a warning says if some were
 * dropped. */
void job_link_note(struct job_link *link, json_t *line);
/* Reports that these nodes' processes have ended. */
void job_link_gone(struct job_link *link, const char *const *nodes, size_t count);

#endif
