/* The node agent: a node's part in a job, as a state machine behind struct io. Registers with the elasticity
 * controller, passes the plan on to this node's servers, and has the data loaded. Drives the worker through its clocks
 * as staleness allows, and reports progress. Ends when the controller ends the node's part or has been silent for too
 * long. Work that takes time (loading, the app's functions) is requested by hooks and answered later. Contains the
 * client (client.h). */
#ifndef AGILEML_WORKERS_NODE_H
#define AGILEML_WORKERS_NODE_H

#include "workers/client/client.h"

enum {
    NODE_REGISTER_RETRY_US = 200 * 1000,
    NODE_LEAVE_MS = 3000,          /* the longest wait for WELCOME of a node that has to leave */
    NODE_PROGRESS_BURST = 16,      /* PROGRESS messages that a burst repeats; the number doubles whenever all arrive */
    NODE_PROGRESS_BURST_MAX = 512, /* the most that a burst repeats */
    NODE_PROGRESS_STILL_MAX = 8,   /* heartbeats without an acknowledgement after which the burst gets its first size
                                      again */
    NODE_WAITS_US = 200 * 1000,    /* the time between two WAITS */
    NODE_PROGRESS_US = 5000,       /* how long PROGRESS messages of short clocks are collected; an iteration's end sends
                                      them */
    NODE_NOTES_MAX = WIRE_APP_NOTES_MAX + 1, /* the last one shows the controller that there are more */
    NODE_EVALUATIONS_MAX = 64, /* pending EVALUATE requests; the controller repeats those that were not accepted */
};

/* NEW --hooks.prepare--> PREPARING --node_prepared--> PREPARED --first state of its rows--> READY
 * NEW --other nodes may have its shards--> FETCHING --hooks.prepare--> PREPARING */
enum node_set_state {
    SET_NEW,
    SET_FETCHING,  /* other nodes are asked for the shards that are not here (node_fetch.h) */
    SET_PREPARING, /* the process reads and arranges the data */
    SET_PREPARED,  /* the data is there, but rows lack their first state, or the input was not compared yet */
    SET_READY,     /* data and rows are there, and the controller has compared the input: a clock may begin */
};

/* The data shards of one or more assignments, which the process arranges for the app. */
struct node_set {
    unsigned number;  /* unique in this process */
    uint32_t *shards; /* ascending */
    uint32_t count;
    enum node_set_state state;
    uint64_t items; /* training items, once prepared */
    double totals[WIRE_TOTALS];
};

/* One of this node's assignments: work on a set's items in a range of clocks. */
struct node_assignment {
    actor_id origin;                  /* the origin under which its clocks are flushed */
    uint64_t from_clock, until_clock; /* both included */
    uint64_t done;                    /* clocks up to this are flushed under the origin */
    uint64_t last;                    /* the clock that was evaluated and reported as the job's last one; 0: none */
    unsigned set;                     /* index in node_work.sets */
};

/* An evaluation that the controller has requested by EVALUATE. */
struct node_evaluation {
    actor_id origin; /* the origin under which it is reported */
    uint64_t clock;
    bool done;     /* reported */
    uint64_t last; /* as node_assignment.last */
    unsigned set;  /* index in node_work.sets */
};

/* The node's requests to its process. Each hook is called on the io's thread and returns at once. Where a node_*
 * function is named, the process calls that later, on the io's thread, when the request is done. `set` is a number. */
struct node_hooks {
    /* Lists in `lacking` those of the set's shards that the process does not have, and returns their number. From now
     * on until `release` the process keeps the set's shards that it has or takes. `set` is valid only during the call.
     * This hook and the next three are used with options.fetches only. This hook and `unpack` are never called while a
     * set is prepared. */
    uint32_t (*lacks)(void *context, const struct node_set *set, uint32_t *lacking);
    bool (*has)(void *context, uint32_t shard); /* whether the shard's items are in memory */
    /* Returns a shard's items as bytes that `unpack` takes; NULL: they are not in memory. Also while a set is
     * prepared, as `has` is. */
    struct buffer *(*pack)(void *context, uint32_t shard);
    /* Takes a shard of a set that lacks it. False when the bytes are not a packed shard. */
    bool (*unpack)(void *context, uint32_t shard, const unsigned char *bytes, size_t size);
    /* Reads this node's part of an input that is divided into `count` parts; then node_part_read. Only called once, and
     * never while a set is prepared. */
    void (*read_part)(void *context, uint32_t index, uint32_t count);
    /* Lists in `lacking` the set's shards of which the process lacks what `part` has, if the part's node may give it.
     * Returns their number. This hook and the next two are used with options.fetches only. This hook and `take_pieces`
     * are never called while something is read. */
    uint32_t (*lacks_pieces)(void *context, const struct node_set *set, uint32_t part, uint32_t *lacking);
    /* Packs what this node's part has of the first of these shards, up to about `limit` bytes, for `take_pieces`. */
    struct buffer *(*pack_pieces)(void *context, const uint32_t *shards, uint32_t count, size_t limit);
    bool (*take_pieces)(void *context, uint32_t part, const uint32_t *shards, uint32_t count,
                        const unsigned char *bytes, size_t size);
    /* All nodes have loaded: from now on the process keeps its part only if it has room. */
    void (*settle)(void *context);
    /* Brings the set's items into memory, arranges them, and adds the rows that they name to the cache; then
     * node_prepared. Runs in the background of clocks, one set at a time. `set` is valid only during the call. */
    void (*prepare)(void *context, const struct node_set *set);
    /* Frees a set. Its shards may be in a later set. Never called while the set is prepared, computed or evaluated. */
    void (*release)(void *context, unsigned set);
    /* Computes a clock and calls client_gather for all partitions; then node_computed. In clocks whose steps are a call
     * each (work.steps is not 0), computes the step work.step, and does not gather. */
    void (*compute)(void *context, unsigned set, uint64_t clock);
    /* With lots (node_lots.h) `compute` works on the items in no lot, then on the lots that it gets from node_lot_take,
     * and does not gather. `compute_lots` works on further lots from node_lot_take; then node_computed again. `gather`
     * calls client_gather for all partitions; then node_gathered. */
    void (*compute_lots)(void *context, unsigned set, uint64_t clock);
    void (*gather)(void *context);
    /* Computes a clock of another node's lot, all items of the set, without the app's `begin`; then node_helped. Must
     * keep what a later evaluation of this node's own clock needs. */
    void (*help)(void *context, unsigned set, uint64_t clock);
    /* Evaluates a clock; then node_evaluated. With `again` the evaluation does not follow the clock's compute: its
     * metrics replace those reported for the clock, or are reported without the clock's own. */
    void (*evaluate)(void *context, unsigned set, uint64_t clock, bool again);
    /* Returns how many of the app's first transforms feeders may run. NULL: no app of this process has transforms; the
     * next four hooks may then be NULL, too. */
    unsigned (*feeds)(void *context);
    /* Returns how many of these transforms feeders are to run, at least 1, for clocks whose batches are not requested
     * yet. */
    unsigned (*feed_transforms)(void *context);
    /* Makes the batches of some of the set's shards in the background, by the first `transforms`, with
     * node_feeding_threads threads; then node_feed_made. The bytes depend only on the job's options, the shard's items,
     * the clock and the transforms. A feeder's sets need no rows in the cache. The set may be released before
     * node_feed_made. False: the shards' items are not in memory. */
    bool (*feed_make)(void *context, unsigned set, uint64_t clock, unsigned transforms, const uint32_t *shards,
                      unsigned count);
    /* Takes the batch of a shard for a coming clock of the set. `compute` of that set and clock uses the batch, and
     * itself makes batches that were not taken. Called once for each shard and clock, until feed_drop. `own`: this
     * process has made the batch. False: the bytes are not such a batch. */
    bool (*feed_take)(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned transforms,
                      const void *bytes, size_t size, bool own);
    /* Drops the batches of clocks below `clock_below`; UINT64_MAX: all batches, also of released sets. Never called
     * while a clock is computed that may use batches. */
    void (*feed_drop)(void *context, uint64_t clock_below);
    /* Runs the app's finish function; then node_saved. */
    void (*save)(void *context);
    /* Makes the running finish function return soon, as a node has failed; then node_saved. `save` may follow. */
    void (*unsave)(void *context);
    void (*end)(void *context, int code, const char *text);     /* ends this node's part in the job; once */
    void (*rejoin)(void *context, const char *why);             /* starts anew as a new node; instead of end */
    void (*count)(void *context, struct node_numbers *numbers); /* adds what the process counts; may be NULL */
    void *context;
};

/* The input that this node has read, and the controller's comparison of it with the job's. */
struct node_input {
    uint64_t reading;  /* of the newest INPUT; 0: none yet */
    uint64_t compared; /* the newest INPUT that the controller found equal to the job's input; 0: none */
    struct buffer *shards, *files, *ranges; /* the frames of the newest INPUT */
    struct wire_input_shard own;            /* the field `own` of the newest INPUT */
    uint64_t sent_us;                       /* when INPUT was sent last */
};

struct node_options {
    actor_id self;                        /* part 0 */
    const char *controller;               /* endpoint */
    struct message_register registration; /* sent unchanged */
    const struct wire_endpoint *servers;  /* this node's server threads */
    unsigned server_count;
    const struct wire_endpoint *pulse; /* of this process; NULL: it has none */
    const struct wire_metric *metrics;
    const struct buffer *settings; /* struct wire_option each, owned by the caller; NULL: none */
    unsigned metric_count;
    unsigned lots;        /* of each node, at most WIRE_LOTS_MAX; 0: none */
    bool fetches;         /* shards are taken from other nodes, and given to them */
    uint64_t feed_credit; /* bytes of batches that may be requested or held; 0: NODE_FEED_CREDIT */
    size_t fetch_piece;   /* bytes of a piece of a shard; 0: WIRE_SHARD_PIECE_MAX */
    uint32_t timeout_ms;  /* used until WELCOME brings the job's timeout */
    uint32_t patience_ms; /* after its WELCOME the node fails if the controller is silent for this long */
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

/* The node's assignments and its present activity. */
struct node_work {
    struct node_set *sets;
    unsigned set_count, sets_made;
    bool set_dropped; /* a set was dropped, and rows that only it named are still subscribed to */
    struct node_assignment *assignments;
    unsigned assignment_count;
    struct node_evaluation *evaluations;
    unsigned evaluation_count;
    enum node_activity activity;
    struct node_assignment assignment;    /* the assignment of the present activity, or while IDLE of the last one */
    uint64_t clock;                       /* the clock of the present activity, or while IDLE of the last one */
    uint32_t idle;                        /* clocks without work before `clock` that were begun with it */
    bool again;                           /* EVALUATING: the evaluation does not follow the clock's compute */
    bool last;                            /* EVALUATING: the job's last clock, in that clock's own state */
    uint64_t items, compute_us, began_us; /* of the clock */
    uint64_t helped;                      /* of the clock: items that other nodes have worked on, in lots */
    uint32_t steps, step;                 /* of the clock: local steps that are a call of hooks.compute each, or 0; the
                                             step under way, `steps` after the last one */
    uint64_t evaluates_us;                /* when the evaluation began */
    uint64_t begun;                       /* the highest clock begun under any origin */
    uint64_t evaluated;                   /* the highest clock evaluated and reported under part 0 */
    bool occupied;                        /* a service has the process work: nothing else may begin there */
    bool reading;                         /* a service has the process read: it prepares no set meanwhile */
};

/* The PROGRESS messages that the controller has not acknowledged. */
struct node_reports {
    struct message *list; /* in the order of clocks */
    unsigned count;
    unsigned clocks;   /* that they report, at most WIRE_PROGRESS_MAX */
    unsigned sent;     /* the first `sent` messages were sent; the rest is being collected */
    uint64_t sent_us;  /* when PROGRESS was sent last */
    uint64_t waits_us; /* when WAITS was sent last */
    unsigned again;    /* messages of the last repeated burst that are not acknowledged yet */
    unsigned burst;    /* how many messages the next burst repeats */
    unsigned still;    /* heartbeats since a message was acknowledged */
};

/* What the app has said and the controller has not answered. */
struct node_notes {
    struct message_app_note *list; /* oldest first */
    unsigned count;
    unsigned said; /* different notes of the app so far, at most NODE_NOTES_MAX */
};

/* NONE --SAVE--> REQUESTED --hooks.save--> RUNNING --node_saved--> OVER --SAVE of a later attempt--> REQUESTED
 * A new epoch leads back to NONE. */
enum node_save_state {
    SAVE_NONE,
    SAVE_REQUESTED, /* waits for the last clock's state */
    SAVE_RUNNING,   /* the app's finish function runs */
    SAVE_OVER,      /* `outcome` has its result */
};

struct node_save {
    enum node_save_state state;
    uint32_t attempt;                 /* of the last SAVE */
    double metrics[WIRE_METRICS_MAX]; /* the job's, of the last SAVE; NaN: none */
    struct message_saved outcome;
    bool unsaving; /* the finish function of an earlier epoch still runs; its outcome does not count */
};

/* The last report of one of our servers. */
struct node_server {
    bool has_role;    /* the server has a replica by the present plan */
    uint64_t version; /* version of the plan in the server's report */
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
    uint64_t told_committed;           /* the committed clock that the last heartbeat reported */
};

/* The node's departure after a warning that its machine will be taken away. */
struct node_departure {
    bool requested;    /* EVICT has no answer yet; it is sent once the node is welcomed */
    uint64_t until_us; /* when the machine will be gone; 0: no warning has come */
    bool failed;       /* the node has ended with a FAIL, which the controller answers by ABORT */
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
    const struct node_service *const *services; /* the table of all services (node_service.h) */
    void *service_states[SERVICES];
    struct node_reports reports;
    struct node_notes notes;
    struct node_save save;
    struct node_server *servers; /* by index in options.servers */
    struct node_barrier barrier;
    struct node_checkpoint checkpoint;
    struct message_accuse accusation; /* of this epoch; accused ACTOR_NONE: none */
    struct node_departure departure;
    uint64_t total_items;       /* of all nodes; valid from START on */
    double totals[WIRE_TOTALS]; /* of all nodes; valid from START on */
    uint64_t final;             /* the job's last clock; 0: not known yet */
    uint64_t loaded, ready;     /* the plan's version in the last LOADED; the last version for which this node was
                                   ready, sent with each heartbeat */
    uint64_t timer_us;          /* when node_timer is due */
    bool stepping;              /* node_step is running */
    bool ended;
};

void node_init(struct node *node, struct io *io, const struct node_options *options, const struct job *job);
void node_close(struct node *node);
/* Sends the first REGISTER. */
void node_start(struct node *node);

/* ---- The process's answers to the hooks ---- */

/* Reports that the input was read: for the first time, or with a changed fingerprint. `shards` is the fingerprint: a
 * struct wire_input_shard for each data shard. `own` is the fingerprint of what `read` emits itself, `files` the input
 * files (struct wire_input_file), `ranges` those that were read (struct wire_input_range). The node takes over the
 * buffers. Call it before node_part_read, and before node_prepared of the set that the input was read for. */
void node_read(struct node *node, struct buffer *shards, struct wire_input_shard own, struct buffer *files,
               struct buffer *ranges);
void node_prepared(struct node *node, unsigned set, uint64_t items, const double totals[WIRE_TOTALS]);
/* Reports that the process has worked on `items` items in `compute_us`. */
void node_computed(struct node *node, uint64_t items, uint64_t compute_us);
void node_gathered(struct node *node);
void node_evaluated(struct node *node, const struct wire_metric_sum *metrics);
void node_saved(struct node *node, int code, const char *text);

/* Reports a line of the app to the people who run the job, at most NODE_NOTES_MAX different ones. The text is printable
 * and shorter than WIRE_TEXT_MAX. The controller gets the line before this node's report that its clocks are done or
 * its model is saved. */
void node_note(struct node *node, const char *text);

/* How many different nodes have assignments in `clock`. */
unsigned node_origins(const struct node *node, uint64_t clock);

/* Begins what can begin now and sets the timer. Call it after the client or a service was used from outside. */
void node_wake(struct node *node);

/* Requests from the controller, until it answers, that this node may leave within the notice. The node works on until
 * DONE. Of several warnings the one that leaves least time counts. */
void node_leave_soon(struct node *node, uint32_t notice_ms);

/* Reports a crash of the app to the controller, which answers DONE or ABORT, and stops the node. False: the node takes
 * no part in the job yet, so there is no controller to report to. */
bool node_crashed(struct node *node, const struct message_crashed *facts);

/* Reports to the controller that this node can't go on, and ends. */
void node_fail(struct node *node, int code, const char *text);

/* Handles a new connection to `peer`: a controller that was started again gets a heartbeat at once. */
void node_connected(struct node *node, actor_id peer);

/* The actor's functions, `self` a struct node. */
void node_receive(void *self, actor_id from, struct message *message);
void node_timer(void *self);

#endif
