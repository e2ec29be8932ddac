/* The node agent: takes part in a job. Registers with the controller, hands the plan to this node's servers, has
 * the data loaded, drives the worker through its clocks as staleness allows, reports progress, and ends when the
 * controller says so or has gone silent. A state machine behind struct io; what takes time (loading, the app's
 * functions) is asked of the hooks and answered later. Contains the client (client.h). */
#ifndef AGILEML_WORKERS_NODE_H
#define AGILEML_WORKERS_NODE_H

#include "workers/client.h"

enum {
    NODE_REGISTER_RETRY_US = 200 * 1000,
    NODE_LEAVE_MS = 3000,          /* a node that has to leave waits at most so long for a WELCOME that has not come */
    NODE_PROGRESS_BURST = 16,      /* sent again at once; twice as many each time that all have arrived, ... */
    NODE_PROGRESS_BURST_MAX = 512, /* ... up to so many, ... */
    NODE_PROGRESS_STILL_MAX = 8,   /* ... until none arrives for so many heartbeats */
    NODE_PROGRESS_US = 5000,       /* PROGRESS of short clocks is sent together, this often and at an iteration's end */
    NODE_EVALUATIONS_MAX = 64,     /* that the controller has asked for at once; it repeats what was not taken */
};

/* NEW --hooks.prepare--> PREPARING --node_prepared--> PREPARED --first state of its rows--> READY */
enum node_set_state {
    SET_NEW,
    SET_PREPARING, /* the process reads the data */
    SET_PREPARED,  /* the data is there */
    SET_READY,     /* so is the first state of its rows, and the input is the job's: a clock may begin */
};

/* Data shards that one assignment or several consist of, and that the process has arranged for the app. */
struct node_set {
    unsigned number;  /* never used twice */
    uint32_t *shards; /* ascending */
    uint32_t count;
    enum node_set_state state;
    uint64_t items; /* training items, once prepared */
    double totals[WIRE_TOTALS];
};

/* One of this node's assignments: the set's items in these clocks, under that origin. */
struct node_assignment {
    actor_id origin;
    uint64_t from_clock, until_clock;
    uint64_t done; /* clocks up to this are flushed under the origin */
    uint64_t last; /* the clock that was evaluated as the job's last one and reported so; 0: none */
    unsigned set;  /* index in node_work.sets */
};

/* What the controller has asked for in EVALUATE. */
struct node_evaluation {
    actor_id origin;
    uint64_t clock;
    bool done;     /* reported ... */
    uint64_t last; /* ... and as node_duty.last */
    unsigned set;
};

/* What the node asks of its process. Each is called on the io's thread and returns at once; the node_* function named
 * is called later, on the io's thread. A set goes by its number. */
struct node_hooks {
    /* node_prepared, once the set's items are in memory, arranged, and the cache holds the rows that they name. In the
     * background: clocks are computed meanwhile. One at a time; `set` is the node's and stays only during the call. */
    void (*prepare)(void *context, const struct node_set *set);
    /* The set is not needed any more; its shards may be again. Not while it is prepared, computed or evaluated. */
    void (*release)(void *context, unsigned set);
    void (*compute)(void *context, unsigned set,
                    uint64_t clock); /* node_computed, after client_gather of all partitions */
    /* node_evaluated. `again`: the evaluation does not follow the clock's compute; its metrics replace those that were
     * reported for the clock, or are reported without the clock's own. */
    void (*evaluate)(void *context, unsigned set, uint64_t clock, bool again);
    void (*save)(void *context); /* node_saved; asked once */
    void (*unsave)(
        void *context); /* a failure meanwhile: have the app's finish function return soon; node_saved follows,
                                      and save may be asked again */
    void (*end)(void *context, int code, const char *text);           /* the job is over for this node; once */
    void (*rejoin)(void *context, const char *why);                   /* start anew, as a new node; instead of end */
    uint64_t (*memory_bytes)(void *context);                          /* resident set size; may be NULL */
    void (*bytes)(void *context, uint64_t *sent, uint64_t *received); /* over the network; may be NULL */
    void *context;
};

/* What this node has read, and whether the controller has found it equal to the job's input. */
struct node_input {
    uint64_t reading;              /* of the newest INPUT; 0: none yet */
    uint64_t compared;             /* the newest INPUT that the controller found equal to the job's; 0: none */
    struct buffer *shards, *files; /* its frames */
    uint64_t sent_us;
};

struct node_options {
    actor_id self;                        /* part 0 */
    const char *controller;               /* its endpoint */
    struct message_register registration; /* sent as it is */
    const struct wire_endpoint *servers;  /* this node's server threads */
    unsigned server_count;
    const struct wire_metric *metrics;
    const struct buffer *settings; /* struct wire_option each, which the caller keeps; NULL: none */
    unsigned metric_count;
    uint32_t timeout_ms;  /* until WELCOME tells the job's */
    uint32_t patience_ms; /* without a controller for longer than this (once welcomed), the node gives up */
    struct node_hooks hooks;
};

/* IDLE --begin a clock--> COMPUTING --node_computed--> COMPUTED --evaluate--> EVALUATING --node_evaluated--> IDLE
 * IDLE --evaluate again--> EVALUATING */
enum node_activity {
    NODE_IDLE,
    NODE_COMPUTING,  /* the app works on the clock */
    NODE_COMPUTED,   /* the clock is flushed and not evaluated yet */
    NODE_EVALUATING, /* the app evaluates the clock */
};

/* What the node works on. Only node_work.c and node_sets.c change it. */
struct node_work {
    struct node_set *sets;
    unsigned set_count, sets_made;
    bool set_dropped; /* since rows that no set names any more were forgotten */
    struct node_assignment *assignments;
    unsigned assignment_count;
    struct node_evaluation *evaluations;
    unsigned evaluation_count;
    enum node_activity activity;
    struct node_assignment assignment;    /* of the activity, or of the last one */
    uint64_t clock;                       /* likewise */
    bool again;                           /* it evaluates what it has not just computed */
    bool last;                            /* it evaluates the job's last clock, in the state of that very clock */
    uint64_t items, compute_us, began_us; /* of the clock */
    uint64_t begun;                       /* the highest clock begun under any origin */
    uint64_t evaluated;                   /* the highest clock evaluated and reported under part 0 */
};

/* The PROGRESS that the controller has not acknowledged. Only node_reports.c changes it. */
struct node_reports {
    struct message *list; /* in the order of clocks */
    unsigned count;
    unsigned sent;    /* the rest has not been sent yet: more may go with it */
    uint64_t sent_us; /* when PROGRESS was sent last */
    unsigned again;   /* so many of the burst that was sent again are not acknowledged yet */
    unsigned burst;   /* how many the next burst has */
    unsigned still;   /* heartbeats since one was acknowledged */
};

/* NONE --SAVE--> REQUESTED --hooks.save--> RUNNING --node_saved--> OVER --SAVE of a later attempt--> REQUESTED
 * A new epoch puts it back to NONE. */
enum node_save_state {
    SAVE_NONE,
    SAVE_REQUESTED, /* waits for the last clock's state */
    SAVE_RUNNING,   /* the app's finish function runs */
    SAVE_OVER,      /* `outcome` is what came of it */
};

struct node_save {
    enum node_save_state state;
    uint32_t attempt; /* of the last SAVE */
    struct message_saved outcome;
    bool unsaving; /* the finish function of an earlier epoch is to return: its outcome does not count */
};

/* What one of our servers reported last. */
struct node_server {
    bool has_role;    /* in the plan */
    uint64_t version; /* of the plan that the rest is about */
    bool in_step, fenced;
    uint64_t committed;
    struct buffer *restore_points;
};

struct node_barrier {
    uint64_t number, clock;
};

/* The checkpoint that our servers write. */
struct node_checkpoint {
    uint64_t number; /* of the last CHECKPOINT; 0: none in this epoch */
    struct message_written *written;
    unsigned count;
};

/* The contact with the controller. */
struct node_contact {
    uint32_t heartbeat_ms, timeout_ms; /* heartbeat_ms 0: WELCOME has not come */
    uint64_t heard_us;                 /* when the controller was last heard */
    uint64_t heartbeat_us;             /* when the next heartbeat, or REGISTER, is due */
    uint64_t told_committed;           /* in the last heartbeat */
};

/* What a warning leads to. */
struct node_departure {
    bool requested;    /* EVICT was sent, or will be, and has no answer yet */
    uint64_t until_us; /* when the node has to be gone; 0: nobody has warned it */
};

struct node {
    struct io *io;
    struct node_options options;
    const struct job *job;
    struct cache cache; /* open once there is a plan */
    struct client client;
    char name[WIRE_NAME_MAX];
    enum node_state state;
    struct node_contact contact;
    struct plan_view plan; /* in force */
    struct node_input input;
    struct node_work work;
    struct node_reports reports;
    struct node_save save;
    struct node_server *servers; /* by index in options.servers */
    struct node_barrier barrier;
    struct node_checkpoint checkpoint;
    struct message_accuse accusation; /* of this epoch; accused ACTOR_NONE: none */
    struct node_departure departure;
    uint64_t total_items;       /* of all nodes, from START on */
    double totals[WIRE_TOTALS]; /* likewise */
    uint64_t final;             /* the job's last clock; 0: not known yet */
    uint64_t loaded, ready;     /* the plan's versions that the last LOADED and the last heartbeat named */
    uint64_t timer_us;          /* what was asked of set_timer */
    bool stepping;              /* inside node_step */
    bool ended;
};

void node_init(struct node *node, struct io *io, const struct node_options *options, const struct job *job);
void node_close(struct node *node);
/* Sends the first REGISTER. */
void node_start(struct node *node);

/* The hooks' answers. */

/* The input was read, for the first time or otherwise than before: its fingerprint (struct wire_input_shard, one for
 * each data shard) and its files (struct wire_input_file), which the node takes over. Before node_prepared of the set
 * that it was read for. */
void node_read(struct node *node, struct buffer *shards, struct buffer *files);
void node_prepared(struct node *node, unsigned set, uint64_t items, const double totals[WIRE_TOTALS]);
void node_computed(struct node *node, uint64_t items, uint64_t compute_us);
void node_evaluated(struct node *node, const struct wire_metric_sum *metrics);
void node_saved(struct node *node, int code, const char *text);

/* How many different nodes have assignments in `clock`. */
unsigned node_origins(const struct node *node, uint64_t clock);

/* Looks again for what can begin and when to call the timer: after the client was used from outside. */
void node_wake(struct node *node);

/* Asks the controller to let this node leave within the notice; it goes on until DONE. Repeated until then. Of several
 * warnings the one that leaves least time counts. */
void node_leave_soon(struct node *node, uint32_t notice_ms);

/* The app has crashed: reports that to the controller, which answers DONE or ABORT; the node does nothing more. False:
 * the node takes no part in the job, so there is no controller to report to. */
bool node_crashed(struct node *node, const struct message_crashed *facts);

/* Tells the controller that this node can't go on, and ends. */
void node_fail(struct node *node, int code, const char *text);

/* A connection to `peer` has come about. A controller that was started again hears at once of a node that it knows. */
void node_connected(struct node *node, actor_id peer);

/* The actor's functions, `self` a struct node. */
void node_receive(void *self, actor_id from, struct message *message);
void node_timer(void *self);

#endif
