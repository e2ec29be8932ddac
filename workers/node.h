/* The node agent: takes part in a job. Registers with the controller, hands the plan to this node's servers, has
 * the data loaded, drives the worker through its clocks as staleness allows, reports progress, and ends when the
 * controller says so or has gone silent. A state machine behind struct io; what takes time (loading, the app's
 * functions) is asked of the hooks and answered later. Contains the client (client.h). */
#ifndef AGILEML_WORKERS_NODE_H
#define AGILEML_WORKERS_NODE_H

#include "workers/client.h"

enum {
    NODE_REGISTER_RETRY_US = 200 * 1000,
    NODE_PROGRESS_MAX = 4096, /* PROGRESS messages that wait for their acknowledgement; no clock begins beyond */
    NODE_PROGRESS_BURST = 16, /* sent again at once */
};

/* What the node asks of its process. Each is called on the io's thread and returns at once; the node_* function named
 * is called later, on the io's thread. */
struct node_hooks {
    void (*load)(void *context,
                 const struct message *plan);        /* node_loaded, after filling the cache with the rows it needs */
    void (*compute)(void *context, uint64_t clock);  /* node_computed, after client_gather of every partition */
    void (*evaluate)(void *context, uint64_t clock); /* node_evaluated */
    void (*save)(void *context);                     /* node_saved; asked once */
    void (*end)(void *context, int code, const char *text);           /* the job is over for this node; once */
    uint64_t (*memory_bytes)(void *context);                          /* resident set size; may be NULL */
    void (*bytes)(void *context, uint64_t *sent, uint64_t *received); /* over the network; may be NULL */
    void *context;
};

struct node_options {
    actor_id self;                        /* part 0 */
    const char *controller;               /* its endpoint */
    struct message_register registration; /* sent as it is */
    const struct wire_endpoint *servers;  /* this node's server threads */
    unsigned server_count;
    const struct wire_metric *metrics;
    unsigned metric_count;
    uint32_t timeout_ms; /* until WELCOME tells the job's */
    struct node_hooks hooks;
};

struct node {
    struct io *io;
    struct node_options options;
    const struct job *job;
    struct cache cache; /* open once there is a plan */
    struct client client;
    char name[WIRE_NAME_MAX];
    enum node_state state;
    uint32_t heartbeat_ms, timeout_ms;
    struct message plan;        /* the plan in force, frames held */
    uint64_t loaded_items;      /* training items of this node */
    uint64_t total_items;       /* of all nodes, from START on */
    double totals[WIRE_TOTALS]; /* this node's until START, then the job's */
    bool load_done;             /* node_loaded was called */
    bool busy;                  /* a hook is at work on a clock */
    bool stepping;              /* inside node_step */
    uint64_t hold, final;
    uint64_t evaluated;       /* the highest clock evaluated and reported */
    struct message *progress; /* not acknowledged yet, oldest first */
    unsigned progress_count;
    uint64_t progress_again; /* the last clock of the burst that was sent again; 0: none */
    bool saving, saved;      /* SAVE has come; node_saved was called, and with what: */
    struct message_text save_outcome;
    uint64_t items, compute_us, clock_began_us; /* of the clock under way */
    uint64_t heard_us;                          /* when the controller was last heard */
    uint64_t started_us;
    uint64_t heartbeat_us; /* when the next heartbeat is due */
    uint64_t timer_us;     /* what was asked of set_timer */
    bool ended;
};

void node_init(struct node *node, struct io *io, const struct node_options *options, const struct job *job);
void node_close(struct node *node);
/* Sends the first REGISTER. */
void node_start(struct node *node);

/* The hooks' answers. */
void node_loaded(struct node *node, uint64_t items, const double totals[WIRE_TOTALS]);
void node_computed(struct node *node, uint64_t items, uint64_t compute_us);
void node_evaluated(struct node *node, const struct wire_metric_sum *metrics);
void node_saved(struct node *node, int code, const char *text);

/* Looks again for what can begin and when to call the timer: after the client was used from outside. */
void node_wake(struct node *node);

/* Tells the controller that this node can't go on, and ends. */
void node_fail(struct node *node, int code, const char *text);

/* The actor's functions, `self` a struct node. */
void node_receive(void *self, actor_id from, struct message *message);
void node_timer(void *self);

#endif
