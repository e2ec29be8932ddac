/* The line to the job's elasticity controller: an observer of it, which reads the report as it is written, and has
 * nodes leave. Owns the process's net and the loop of the daemon (net_io). What is asked is asked again until it is
 * answered; a controller that is started again, or comes late, is found. Decides nothing. One thread. */
#ifndef BIDBRAIN_DAEMON_LINK_H
#define BIDBRAIN_DAEMON_LINK_H

#include "agileml/net/zmq.h"

enum {
    LINK_REPEAT_MS = 500,
    LINK_NODES_MAX = 1 << 16, /* names that a job has ever had */
};

/* What an iteration's line of the report says. */
struct job_link_iteration {
    uint64_t iteration;
    uint64_t iterations;   /* that the job is to have; 0: the report does not say */
    double ended;          /* seconds since training began */
    double items, seconds; /* of it */
};

/* Called from the loop. Lines that were told to an earlier bidbrain are told again: all of the report, from its
 * start. */
struct job_link_listener {
    void (*joined)(void *context, const char *node);
    void (*left)(void *context, const char *node, bool failed); /* it is no part of the job any more */
    void (*iteration)(void *context, const struct job_link_iteration *iteration);
    void (*summary)(void *context, bool ok, const char *error, double seconds, uint64_t iterations);
    /* An EVICT that the controller knows no node for: not part of the job. */
    void (*unknown)(void *context, const char *node);
    void (*timer)(void *context);
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
/* All that the controller had to tell has been read once: until then a node that is not known may be there. */
bool job_link_caught_up(const struct job_link *link);
size_t job_link_nodes(const struct job_link *link);
/* Calls `visit` for each node that is part of the job. */
void job_link_visit(const struct job_link *link, void (*visit)(void *context, const char *node), void *context);
/* Seconds since the controller last said something; infinite if it never did. It is asked every LINK_REPEAT_MS, but
 * answers only when there is news. */
double job_link_silence(const struct job_link *link);

/* Has these nodes leave before the notice is over. At most WIRE_NODES_MAX. */
void job_link_evict(struct job_link *link, const char *const *nodes, size_t count, uint32_t notice_ms);
/* Tells which machines are there whose nodes have not joined yet: all of them each time. Sent when it changes, and now
 * and then, since a controller that is started again knows of none. */
void job_link_expect(struct job_link *link, const struct wire_machine *machines, size_t count);
/* Tells that these nodes' processes are gone. */
void job_link_gone(struct job_link *link, const char *const *nodes, size_t count);

#endif
