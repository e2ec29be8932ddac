/* What the parts of the simulated cluster share. cluster.c draws the job, puts it together and runs it. cluster_app.c
 * is a process's threads, cluster_control.c the controller's process, its store and the operator. cluster_check.c
 * checks each step, cluster_end.c the end. Every other cluster_*.c is about what its name says. */
#ifndef TESTS_SIM_CLUSTER_PRIVATE_H
#define TESTS_SIM_CLUSTER_PRIVATE_H

#include "agileml/control/state/controller_private.h"
#include "agileml/ps/server.h"
#include "tests/sim/app.h"
#include "tests/sim/cluster.h"
#include "workers/node/feed/node_feed.h"
#include "workers/node/node.h"
#include "workers/process/pulse.h"

enum {
    CLUSTER_MACHINES = 2048,
    CLUSTER_CONTROLLER = 0, /* the controller's machine */
    CLUSTER_OPERATOR = 1,   /* of the operator and the run's own timers: never paused, cut off or removed */
    CLUSTER_FIRST_NODE = 2, /* machines from here on are the nodes' */
    CLUSTER_NODES_MAX = 1000,
    CLUSTER_SERVERS_MAX = 3,
    CLUSTER_PARTITIONS_MAX = 32,
    CLUSTER_STALE_EXTRA = 3, /* extra staleness that MISTAKE_STALE_WORKER allows */
    CLUSTER_ACTIONS_MAX = 40,
    CLUSTER_OFFERS_SEEN = 16,
    CLUSTER_RINGS_SEEN = 64,
    CLUSTER_STATES_SEEN = 64,
    CLUSTER_CHAINS_SEEN = 16,
    CLUSTER_REQUESTS_MAX = 256,
    CLUSTER_STEPS_MAX = 60 * 1000 * 1000
};

/* What nodes report. All but the objective are sums. */
enum {
    METRIC_OBJECTIVE,
    METRIC_ITEMS,     /* items worked on in a clock */
    METRIC_FIGURES,   /* sum of cluster_figure over the shards worked on in a clock */
    METRIC_EVALUATED, /* shards that were evaluated */
    METRIC_LAST,      /* shards that were evaluated at the job's last clock, in its complete state */
    CLUSTER_METRICS
};

/* What a node changed in a clock for one of its origins. */
struct own_change {
    actor_id origin;
    uint64_t clock;
    struct app_changes changes;
};

/* Data shards arranged for the app (node.h). */
struct cluster_set {
    unsigned number;
    uint32_t *shards;
    uint32_t count;
    uint64_t items;
    bool prepared;
    bool lazy; /* the rows of half of its shards are added only in the middle of a clock */
};

struct cluster_server {
    struct cluster_node *node;
    struct server server;
    struct {
        /* The clock and epoch of the last check of the rows. Epoch 0: none yet. */
        uint64_t clock, epoch;
    } checked[CLUSTER_PARTITIONS_MAX];
    uint64_t version; /* of the server's plan when its roles were last checked */
    struct delayed {
        actor_id from;
        struct message message;
    } * delayed; /* messages that a slow server has yet to process, in order */
    unsigned delayed_count;
    uint64_t delayed_until_us;
};

#define CLUSTER_STORE_FULL "the simulated store is full"
/* The texts that every app reports (node_note): each process reports "evaluated" once, the node that saves "saved". */
#define CLUSTER_NOTE_EVALUATED "evaluated"
#define CLUSTER_NOTE_SAVED     "saved"

/* What is wrong with a mad node. Its heartbeats go on. */
enum mad {
    MAD_NOT,
    MAD_AGENT,        /* the node receives nothing from the controller */
    MAD_BARRIER,      /* the node receives no barrier */
    MAD_PLAN,         /* the node receives no plan */
    MAD_FENCE,        /* its servers receive no fence */
    MAD_CHECKPOINT,   /* its servers receive no request for a checkpoint */
    MAD_COMMITTED,    /* it reports clocks as committed that nobody has begun */
    MAD_CLOCK,        /* it reports a clock as begun that nobody can have begun */
    MAD_PROGRESS,     /* it reports that clock as completed, too */
    MAD_ORIGIN,       /* it reports another node's work */
    MAD_BEGUN,        /* when fenced, it reports a clock as begun that nobody can have begun */
    MAD_UNBEGUN,      /* when fenced, it reports that it has begun and committed no clock */
    MAD_OTHER_SERVER, /* when fenced, it reports restore points of another node's servers */
    MAD_POINTS,       /* when fenced, it reports restore points of clocks that nobody has begun */
    MAD_ROWS,         /* it sends nodes rows that are not the job's */
    MAD_ACCUSES,      /* it accuses other nodes of sending impossible messages */
    MAD_FORGES,       /* it changes numbers of all kinds in what it sends: only in CAMPAIGN_MAD */
    MAD_KINDS
};

/* How a node reads its input. */
struct cluster_node_input {
    bool lazy;     /* the rows of half of a set's shards are added only in the middle of a clock */
    bool other;    /* its input differs from that of most nodes */
    bool conceals; /* it reports the fingerprint of most nodes' input: MISTAKE_INPUT_CONCEALED */
};

/* A data shard in a process's memory. */
enum cluster_held {
    HELD_NOT,
    HELD_JOBS,  /* of the input that most nodes read */
    HELD_OTHER, /* of other input */
};

/* The app's process in a node. */
struct cluster_node_app {
    unsigned char *held; /* by shard: enum cluster_held; NULL: none */
    /* For an input that is read in parts. */
    uint32_t part, parts;  /* this node's part, and the number of parts; parts 0: nothing was read yet */
    unsigned char *pieces; /* by shard and part: enum cluster_held; NULL: none */
    uint64_t *contents;    /* by shard: the sum of its pieces' contents */
    unsigned reading;      /* 1: the part is being read now */
    bool read_all;         /* the whole input was read */
    struct cluster_set *sets;
    unsigned set_count;
    unsigned preparing;               /* number of the set being prepared; 0: none */
    int64_t *slots;                   /* by row of the app: its slot in the cache, or -1 */
    unsigned *row_of[APP_TABLES_MAX]; /* by table and slot: the row of the app */
    void *process;                    /* the app's own */
    struct own_change *own;           /* changes of clocks not yet committed, in order */
    unsigned own_count;
};

/* A batch that a process has received or made. */
struct cluster_fed {
    unsigned set;
    uint32_t shard;
    uint64_t clock;
    bool own; /* this process has made it */
    bool used;
};

/* A process's batches. */
struct cluster_node_feed {
    struct cluster_fed *list;
    unsigned count;
    uint64_t below; /* batches of lower clocks were dropped */
    bool busy;      /* this feeder is making the batches of `making` */
    struct feed_made making;
    unsigned transforms; /* the transforms to run for `making` */
};

/* The job's feeders. */
struct cluster_feed {
    unsigned feeders;  /* feeders at the job's start; 0: the app has no transforms */
    unsigned troubles; /* faults that have hit feeders */
    /* The controller's members after its last step: feeders, and all others. */
    unsigned members, other_members;
    bool recovers; /* whether the controller was recovering after its last step */
};

/* The clock that a node's app computes. */
struct cluster_node_work {
    bool computing;
    struct node_assignment at; /* the assignment under way */
    unsigned set;              /* number of the assignment's set */
    unsigned parts;            /* parts of the iteration in this clock */
    uint64_t began_us;
    uint64_t items;             /* with lots: items worked on since began_us */
    bool theirs[WIRE_LOTS_MAX]; /* other nodes have worked on these lots */
    struct node_offer {
        uint64_t claim, clock, epoch;
    } offers[CLUSTER_OFFERS_SEEN]; /* the node's last GOSSIP_OFFERs, by number */
    uint64_t done[APP_TABLES_MAX]; /* by table: rows declared done in this clock */
    unsigned helped;               /* set of another node's lot that this node works on; 0: none */
    uint64_t helped_clock;
};

struct cluster_node_evaluation {
    bool under_way;
    bool said;  /* CLUSTER_NOTE_EVALUATED was reported */
    bool again; /* the evaluation is not of the clock just computed */
    bool last;  /* the evaluation is of the job's last clock, in its complete state */
    uint64_t clock;
    uint64_t hash; /* of the cache's rows when the evaluation began */
};

/* A node that saves the model. */
struct cluster_node_save {
    bool saving, unsaving;
    uint32_t partition, table; /* the partition and table to save next */
    uint64_t *elements;        /* all elements of the app: saved so far, else start values */
    uint64_t asked_us;
};

/* What happens to a node, and what becomes of it. */
struct cluster_node_fate {
    uint64_t fenced;   /* epoch of its last FENCED message */
    uint64_t leave_us; /* when its machine goes; 0: no notice was given */
    bool generous;     /* the notice was long enough to leave in order */
    enum mad mad;
    bool hurt;          /* a fault hit it that may cost it its place in the job */
    uint32_t notice_ms; /* the notice with which the node itself asks to leave */
    bool gone;          /* its process has ended, for any reason */
    bool ended;         /* its process ended by itself, with `code` and `text` */
    int code;
    char text[ERROR_TEXT_MAX];
    bool crash_heard; /* the controller has received CRASHED from the node */
};

/* How fast a node computes. */
struct cluster_node_speed {
    double item_us, fixed_us;             /* CAMPAIGN_UNEVEN: microseconds for an item, and for each clock */
    unsigned slowness;                    /* other campaigns: the factor by which it is slow for a while */
    uint64_t slow_from_us, slow_until_us; /* the time in which `slowness` applies, since the job began */
    uint32_t weight, newest_weight; /* the weight of its share in the newest plan, and the controller's present one */
    uint64_t computed_us;           /* when it last completed a clock's work */
    bool replaced;                  /* it was evicted so that another node replaces it */
    uint64_t serve_us;              /* delay of its servers with each message */
};

/* A process's pulse. */
struct cluster_node_pulse {
    struct pulse pulse;
    struct wire_endpoint endpoint;
    uint64_t paused_until_us; /* end of its last pause, past or present; 0: it was never paused */
    uint64_t ticked_us;       /* when pulse_timer was last called */
    uint64_t gone_us;         /* when the process ended or its machine went; 0: neither */
    uint64_t planned_us;      /* when a plan first named it; 0: not yet */
};

/* With options.caches: the last clocks of which the cache had a partition's complete state. An epoch that the node
 * missed clears them. */
struct cluster_node_states {
    uint64_t epoch;
    uint64_t clocks[CLUSTER_PARTITIONS_MAX][CLUSTER_STATES_SEEN]; /* at clock % CLUSTER_STATES_SEEN: clock + 1 */
};

/* One incarnation of a node's process. */
struct cluster_node {
    struct cluster *cluster;
    unsigned number, machine;
    unsigned group; /* 1 + its group in stage transient; 0: the group follows from the number */
    actor_id id;
    struct node node;
    struct io *io;
    struct job job; /* a copy, which MISTAKE_STALE_WORKER changes */
    struct wire_endpoint endpoints[CLUSTER_SERVERS_MAX];
    struct cluster_server servers[CLUSTER_SERVERS_MAX];
    unsigned server_count;
    unsigned threads;
    enum node_tier tier;
    uint64_t start_us, load_us, compute_us;
    struct cluster_node_input input;
    struct cluster_node_app app;
    struct cluster_node_work work;
    struct cluster_node_feed feed;
    struct cluster_node_evaluation evaluation;
    struct cluster_node_save save;
    struct cluster_node_fate fate;
    struct cluster_node_pulse pulse;
    struct cluster_node_speed speed;
    struct cluster_node_states states;
};

/* The controller's process. Its io delivers nothing after a crash. */
struct cluster_controller {
    struct io io;
    struct io *network;
    struct cluster *cluster;
    struct controller controller;
    bool started; /* it was started at least once */
    bool running;
    uint64_t strategy_moment; /* the last time at which another strategy was requested */
    uint64_t ended_us;
    bool crashed; /* in the step under way */
    bool ended;
    int code;
    char text[ERROR_TEXT_MAX];
    uint64_t restart_us; /* how long after a crash it starts again */
};

enum store_fault { STORE_WORKS, STORE_FAILS, STORE_CRASH_BEFORE, STORE_CRASH_AFTER };

struct cluster_store {
    struct store store; /* must be first */
    struct cluster *cluster;
    struct stored {
        char key[STORE_KEY_MAX];
        unsigned char *bytes;
        size_t size;
    } * entries; /* ordered by key */
    unsigned count;
    enum store_fault fault;
    unsigned writes_left; /* writes before the fault happens */
    bool forgets;         /* MISTAKE_STORE_WRITE_LOST, until the controller starts again */
};

enum action_kind {
    ACTION_BREAK,
    ACTION_PAUSE,    /* machines stop */
    ACTION_SEPARATE, /* the network is separated at random */
    ACTION_CUT,      /* some machines are cut off from all others */
    ACTION_REMOVE,   /* CAMPAIGN_MISSING: a machine goes for good */
    ACTION_JOIN,
    ACTION_EVICT, /* the operator requests the eviction */
    ACTION_LEAVE, /* the node itself asks to leave */
    ACTION_KILL,
    ACTION_CONTROLLER_KILL,
    ACTION_CONTROLLER_PAUSE,
    ACTION_STORE_FAULT,
    ACTION_MAD /* nodes go mad */
};

enum who { WHO_TRANSIENT, WHO_RELIABLE, WHO_ANY };

struct action {
    struct cluster *cluster;
    enum action_kind kind;
    bool triggered;
    uint64_t at_clock; /* the action is triggered when the first node begins this clock */
    uint64_t delay_us; /* delay after the trigger */
    /* Length of a pause, a separation or a notice, or the time until the controller starts again. */
    uint64_t length_us;
    enum who who;
    unsigned count; /* number of nodes hit */
    unsigned group; /* 1 + the group of the nodes hit; 0: any group */
    unsigned spare; /* number of nodes not hit; 0: `count` applies */
    /* The operator reports lost nodes or announces new ones to the controller; a notice is long enough. */
    bool told;
    unsigned machine;
    int other;
    enum store_fault store_fault;
    enum mad mad;
    unsigned char *sides; /* by machine */
};

struct operator_request {
    uint64_t number;
    enum message_type type; /* EVICT, GONE or ALLOCATION; 0: it was answered */
    uint32_t detail;        /* of EVICT: notice_ms; of GONE: the signal */
    struct buffer *frame;
};

struct cluster_work {
    actor_id origin; /* the origin that worked on a shard in a clock */
};

/* What is drawn for a job. */
struct cluster_drawn {
    unsigned initial_reliable, initial_transient;
    uint32_t heartbeat_ms, timeout_ms, patience_ms, commit_every, checkpoint_every;
    uint32_t probe_ms; /* interval of probes; 0: no probes */
    uint64_t far_us;   /* usual upper limit of a small message's round trip */
    struct plan_thresholds thresholds;
    uint64_t compute_us;                /* computing time of a typical node and clock */
    uint64_t load_us;                   /* loading time of a typical node */
    uint64_t slowest_us;                /* computing time of the slowest node and clock */
    unsigned lots;                      /* lots of each node */
    bool fetches;                       /* nodes take data shards from each other */
    char resume[WIRE_PATH_MAX];         /* path of the checkpoint to resume; empty: none */
    uint64_t resume_clock, first_clock; /* the checkpoint's clock, and the clock of the job's first state */
};

/* What happens to a job's machines and network. */
struct cluster_faults {
    struct action actions[CLUSTER_ACTIONS_MAX];
    unsigned action_count;
    uint64_t calm_us;             /* no fault is active later */
    bool calm_only;               /* only actions that cost no recovery are drawn */
    bool disturbed;               /* a fault happened that may cost a recovery */
    uint64_t apart_us;            /* nodes did not hear each other until then */
    uint64_t stunned_us;          /* the controller was paused, down or in doubt of itself until then */
    bool split;                   /* the network had a fault that may cost any node its place */
    bool may_fail;                /* a fault happened that may end the job */
    bool loss_intended;           /* all reliable nodes are to be lost after the first checkpoint */
    struct cluster_node *missing; /* CAMPAIGN_MISSING: the node that is missing; NULL: the controller */
    bool removed;                 /* the missing machine does not come back */
};

/* Stage transient: what was lost since the last commit. */
struct cluster_groups {
    unsigned count; /* number of groups; 1: each node is a group */
    unsigned joins; /* 1 + the group of the nodes being added; 0: the group follows from a node's number */
    unsigned weak;  /* the worst weakness() of the plans (cluster_groups.c) */
    unsigned lost_count;
    unsigned lost_group; /* group of the node lost last */
    bool lost_several;   /* nodes of several groups were lost */
};

/* What was observed of a job, over all its processes. */
struct cluster_seen {
    struct plan_view plan;   /* the newest plan that the controller sent */
    uint64_t begun;          /* the highest clock that a node has begun */
    uint64_t committed;      /* the highest clock that a node believed committed */
    uint64_t recovery_begun; /* `begun` at the last recovery */
    uint64_t restored_most;  /* the highest clock that a recovery restored */
    struct {
        actor_id server;
        uint64_t clock, epoch;
    } served[CLUSTER_PARTITIONS_MAX]; /* by partition: the server that last advanced its clock */
    struct cluster_work *works;       /* by clock - first_clock - 1 and shard */
    uint64_t work_clocks;
    uint64_t redone_most; /* items that recoveries may have repeated, at most */
    uint64_t first_epoch;
    struct seen_ring {
        uint64_t epoch, clock, digest;
        uint32_t partition;
        /* By clock and chain, for the last clocks in which a message came by a ring. */
    } rings[CLUSTER_RINGS_SEEN][CLUSTER_CHAINS_SEEN];
    struct seen_replica {
        bool known[APP_REPLICA_ROWS];
        double rows[APP_REPLICA_ROWS][APP_REPLICA_WIDTH];
    } * replicas; /* by clock - first_clock: the averaged table's rows, as first seen */
    uint64_t replica_clocks;
};

/* What the lines of the controller's report said. */
struct cluster_report {
    uint64_t lines_read;
    size_t lines_written; /* lines of the controller's report checked when it wrote them */
    /* By iteration: what its line must say, by the parts that its clocks had when the line was written. A recovery may
     * repeat these clocks by another strategy before the operator reads the line. */
    struct report_due {
        bool written;
        uint64_t items, worked; /* app_items, app_worked */
        double figures;
    } * due;
    uint64_t due_iterations;
    uint64_t iterations;
    /* Items lost in the iteration in which the job resumed: no line reports them. */
    uint64_t untold_items;
    double last_evaluated; /* METRIC_LAST in the last iteration's line */
    bool last_partial;
    double seconds; /* time in the last line */
    bool summed_up;
    uint64_t completed;                  /* completed clocks, from the summary */
    unsigned said_evaluated, said_saved; /* lines with the app's two notes */
};

/* The nodes whose input differs from that of most nodes. */
struct cluster_other_input {
    enum { OTHER_INPUT_NOBODY, OTHER_INPUT_AT_START, OTHER_INPUT_JOINS } who;
    bool began[2]; /* a clock was begun by a node with most nodes' input [0], with other input [1] */
    bool reported; /* the controller has received the other input's fingerprint */
    bool unseen;   /* of an input that is read in parts, only the hashes of ranges differ */
};

/* State of the schedule. */
struct cluster_schedule_state {
    unsigned step, left;
    uint64_t mark;
    actor_id mark_id;
    uint64_t mistake_left; /* opportunities still to skip before the mistake is made */
};

/* An item whose processing crashes the app. */
struct cluster_app_crash {
    uint64_t clock; /* first clock in which the app crashes on the item; 0: it never does */
    unsigned shard; /* the item's shard */
    unsigned count; /* nodes that have crashed on the item */
    unsigned heard; /* crashed nodes of which the controller has heard */
};

/* What belongs to all jobs of a run. */
struct cluster_run {
    uint64_t mad_random; /* source of a mad node's false values */
    bool mad_certain;    /* CAMPAIGN_MAD: one node is mad in any case, and may forge */
    bool forged;         /* a node forges what it sends: states, metrics and clocks may have any value */
    char disk[64];       /* a folder for checkpoints; empty: none */
    bool disk_failed;    /* writing a checkpoint failed */
    bool checkpoint_at_end;
    /* Attempts to save the model that fail: one fewer than the controller allows. */
    unsigned saves_fail;
    unsigned **partition_rows; /* by partition: the app's rows in it */
    unsigned *partition_row_counts;
    unsigned jobs; /* jobs begun so far */
};

/* State of CAMPAIGN_UNEVEN. */
struct cluster_uneven {
    bool alike, joins, replaces; /* all nodes have one speed; a node joins; two slow nodes are replaced */
    bool late;                   /* each node has its own fixed time a clock */
    bool slow_server;            /* the servers of one node are slow */
    double fixed_us;             /* added to each clock */
    unsigned changes;            /* changes of shares so far */
    unsigned joined;             /* nodes that joined after the first plan */
    bool replacing;              /* a node was evicted and its replacement has yet to join */
    unsigned replaced;
    double join_seconds;    /* when the last node joined after training began */
    double late_seconds;    /* when two thirds of the iterations were completed */
    double settled_seconds; /* after this no node should wait */
    uint64_t settled;       /* the iteration at settled_seconds; 0: not yet */
    double last_seconds;    /* when the last iteration was completed */
    uint64_t version;       /* version of the newest plan */
    uint64_t shaken;        /* other campaigns: the clock after the last random change of shares */
};

/* The operator's process. */
struct cluster_operator {
    struct io *io;
    struct operator_request requests[CLUSTER_REQUESTS_MAX];
    unsigned request_count;
};

struct cluster {
    struct cluster_options options;
    struct cluster_result *result;
    uint64_t random;
    struct app app;
    struct job_terms terms;
    struct plan_policy policy;
    struct cluster_run run;
    /* What follows belongs to the present job. */
    struct sim *sim;
    struct cluster_controller control;
    struct cluster_store store;
    struct cluster_operator operator;
    struct cluster_node **nodes;
    unsigned node_count;
    struct index_map node_index;  /* by id */
    unsigned machine_count;       /* machines in use */
    struct cluster_write *writes; /* checkpoint writes under way */
    struct cluster_drawn drawn;
    struct cluster_faults faults;
    struct cluster_seen seen;
    struct cluster_report report;
    struct cluster_other_input other_input;
    struct cluster_schedule_state schedule;
    struct cluster_app_crash crash;
    struct cluster_uneven uneven;
    struct cluster_feed feed;
    struct cluster_groups groups;
};

/* ---- Chance ---- */

uint64_t cluster_draw(struct cluster *cluster);
/* Draws from least..most, both included. */
uint64_t cluster_between(struct cluster *cluster, uint64_t least, uint64_t most);
bool cluster_one_in(struct cluster *cluster, unsigned many);

/* ---- cluster_trace.c: with options.traces ---- */

void cluster_trace_shape(struct cluster *cluster);
/* Sets groups.joins for the node with this number, one of the job's first nodes. */
void cluster_trace_initial(struct cluster *cluster, unsigned number);
void cluster_trace_draw(struct cluster *cluster);

/* ---- cluster_groups.c ---- */

void cluster_groups_shape(struct cluster *cluster);
void cluster_groups_register(const struct cluster_node *node, struct message_register *registration);
/* Chooses the nodes that a fault hits: mostly one node, or nodes of one group. Returns their number. */
unsigned cluster_groups_pick(struct cluster *cluster, struct cluster_node **nodes, unsigned count);
/* Keeps only the nodes of one group. Returns their number. */
unsigned cluster_groups_only(struct cluster_node **nodes, unsigned count, unsigned group);
/* Called before `plan` replaces seen.plan. */
void cluster_groups_plan(struct cluster *cluster, const struct plan_view *plan);
/* Called when seen.committed has grown. */
void cluster_groups_committed(struct cluster *cluster);
void cluster_groups_end(struct cluster *cluster);
bool cluster_groups_may_lose(const struct cluster *cluster);
/* Called when a node's cache has reached a partition's clock, and when an epoch's first plan restores a clock. */
void cluster_groups_state(struct cluster_node *node, uint32_t partition, uint64_t clock);
void cluster_groups_restore(struct cluster *cluster, uint64_t restore);

/* ---- cluster_strategy.c ---- */

/* In a third of the adder's jobs, draws a strategy and its local steps. */
void cluster_strategy_draw(struct cluster *cluster);
/* Whether the job may have clocks of several parts. */
bool cluster_strategy_is_drawn(const struct cluster *cluster);
/* After each step of the controller: now and then requests another strategy. */
void cluster_strategy_control(struct cluster *cluster);
/* Returns the parts of the iteration that the node's plan assigns to the clock. Checks S5: all nodes' plans agree. */
unsigned cluster_strategy_parts(struct cluster_node *node, uint64_t clock);
/* Notes the node's newest GOSSIP_OFFER. */
void cluster_strategy_offered(struct cluster_node *node);
/* Has the node receive the message. Checks S6: two nodes that average both work on the same clock in the same epoch. */
void cluster_strategy_receive(struct cluster_node *node, actor_id from, struct message *message);
/* After each step of a server: makes a mistake that is due. */
void cluster_strategy_server(struct cluster_server *server);
/* S2: all replicas of an averaged row have the same bits at a clock. */
void cluster_check_replica(struct cluster *cluster, unsigned row, uint64_t clock, const void *memory, const char *who);
/* Forgets the clocks after `clock`, which are repeated. */
void cluster_strategy_restore(struct cluster *cluster, uint64_t clock);
/* Returns how many clocks more a worker may be ahead, because those clocks give it no work. */
uint64_t cluster_strategy_idle(const struct cluster_node *node, uint64_t clock);

/* ---- cluster_feed.c ---- */

void cluster_feed_draw(struct cluster *cluster);
uint64_t cluster_feed_credit(const struct cluster *cluster);
uint32_t cluster_feed_threads_max(const struct cluster_node *node);
void cluster_feed_options(const struct cluster *cluster, struct controller_options *options);
void cluster_feed_control(struct cluster *cluster);
void cluster_feed_begin(struct cluster *cluster);
void cluster_feed_hooks(struct node_hooks *hooks);
void cluster_feed_close(struct cluster_node *node);
void cluster_feed_consume(struct cluster_node *node, const struct cluster_set *set, uint64_t clock);
void cluster_feed_check_node(struct cluster_node *node);
void cluster_feed_check_control(struct cluster *cluster);
void cluster_feed_mistake_control(struct cluster *cluster);
bool cluster_feed_mistake_node(struct cluster_node *node, const struct message *message);

/* ---- cluster_pulse.c ---- */

/* Draws whether the job has probes, and their interval. */
void cluster_pulse_draw(struct cluster *cluster, const struct sim_config *network);
void cluster_pulse_open(struct cluster_node *node);
void cluster_pulse_close(struct cluster_node *node);
/* Sees a message before it reaches the controller. */
void cluster_pulse_see(struct cluster *cluster, struct message *message);
/* After each step of the controller: checks that it has given up lost nodes in time. */
void cluster_pulse_check_control(struct cluster *cluster);
/* Checks a reported failure: no node that could answer may be given up for unanswered questions. */
void cluster_pulse_check_failure(struct cluster *cluster, const char *name, const char *reason);

/* ---- cluster.c ---- */

/* Returns the incarnation with this actor; NULL: none. */
struct cluster_node *cluster_node_of(const struct cluster *cluster, actor_id actor);
/* Whether the node was welcomed, its process is alive, and it is not about to leave. */
bool cluster_node_lives(const struct cluster_node *node);
/* Adds a node with drawn properties on `machine`, or on a new machine if 0. It starts after `after_us`. */
struct cluster_node *cluster_node_add(struct cluster *cluster, enum node_tier tier, unsigned machine,
                                      uint64_t after_us);
/* Whether the newest plan names the node and its machine is still there. */
bool cluster_node_counts(const struct cluster_node *node);
/* Removes the node's machine at once. */
void cluster_kill(struct cluster_node *node);
/* Notes that a fault lasts until `until_us`. */
void cluster_not_calm(struct cluster *cluster, uint64_t until_us);

/* ---- cluster_app.c ---- */

struct node_hooks cluster_app_hooks(struct cluster_node *node);
/* Sets the client's hooks. The node must be open. */
void cluster_app_open(struct cluster_node *node);
/* Whether the process has shards of the set from input that differs from most nodes'. */
bool cluster_app_has_other(const struct cluster_node *node, const struct cluster_set *set);
void cluster_app_close(struct cluster_node *node);

/* ---- cluster_crash.c ---- */

/* Called when the node begins a clock. Returns true when the app is to crash in it. */
bool cluster_crash(struct cluster_node *node, const struct cluster_set *set, uint64_t clock);
/* Checks at the end that the crashes ended the job before the controller heard of a third. */
void cluster_check_crash(struct cluster *cluster);

/* ---- cluster_control.c ---- */

void cluster_control_open(struct cluster *cluster);
void cluster_control_close(struct cluster *cluster);
/* Kills the controller's process; it starts again after `restart_us`. */
void cluster_control_kill(struct cluster *cluster, uint64_t restart_us);
/* The operator repeats the request until it is answered. `detail`: for EVICT the notice_ms, for GONE the signal. */
void cluster_operator_ask(struct cluster *cluster, enum message_type type, struct cluster_node *const *nodes,
                          unsigned count, uint32_t detail);
/* The operator announces that these nodes will join. A node that the controller is to name is announced by a name that
 * never joins. */
void cluster_operator_announce(struct cluster *cluster, struct cluster_node *const *nodes, unsigned count);

/* ---- cluster_disk.c ---- */

void cluster_disk_open(struct cluster *cluster);
struct server_hooks cluster_disk_hooks(struct cluster_server *server);
/* Cancels the writes under way. */
void cluster_disk_cancel(struct cluster *cluster);
void cluster_disk_close(struct cluster *cluster);

/* ---- cluster_faults.c ---- */

void cluster_draw_faults(struct cluster *cluster);
void cluster_draw_missing(struct cluster *cluster);
void cluster_draw_elastic(struct cluster *cluster);
void cluster_faults_begin(struct cluster *cluster);
/* Stops the machine until `until_us`. */
void cluster_pause(struct cluster *cluster, unsigned machine, uint64_t until_us);
/* In CAMPAIGN_UNEVEN, when the first node begins the clock: the controller restarts, or a transient node joins. */
void cluster_add_restart(struct cluster *cluster, uint64_t clock);
/* When the clock begins, adds `nodes` nodes to a group or loses -`nodes` at once. A quarter of the losses have a
 * notice, which may be too short. */
void cluster_add_change(struct cluster *cluster, uint64_t clock, unsigned group, int nodes);
void cluster_add_join(struct cluster *cluster, uint64_t clock);
/* Called when a node has begun a clock. */
void cluster_faults_clock(struct cluster *cluster, uint64_t clock);
/* Chooses up to `count` different living nodes. Returns their number. */
unsigned cluster_pick(struct cluster *cluster, enum who who, unsigned count, struct cluster_node **nodes);
void cluster_evict(struct cluster *cluster, struct cluster_node **nodes, unsigned count, uint64_t notice_us,
                   bool generous, bool by_itself);
void cluster_kill_some(struct cluster *cluster, struct cluster_node **nodes, unsigned count, bool told);

/* ---- cluster_mad.c ---- */

void cluster_draw_mad(struct cluster *cluster);
void cluster_go_mad(struct cluster_node *node, enum mad mad);
/* These may change a message before an actor receives it. They return false when the actor is not to receive it. */
bool cluster_mad_node(const struct cluster_node *node, actor_id from, struct message *message);
bool cluster_mad_server(const struct cluster_node *node, const struct message *message);
/* These may change what a mad node sends to another node or to the controller. */
void cluster_mad_peer(const struct cluster_node *node, actor_id from, struct message *message);
void cluster_mad_controller(struct cluster *cluster, actor_id from, struct message *message);

/* ---- cluster_schedules.c ---- */

/* Adapts the drawn job to the schedule. */
void cluster_schedule_shape(struct cluster *cluster);
/* Called before `message` reaches an actor of `node` (NULL: the controller). */
void cluster_schedule_see(struct cluster *cluster, struct cluster_node *node, actor_id from,
                          const struct message *message);

/* ---- cluster_uneven.c ---- */

/* These adapt the drawn job, add its actions, and choose the controller's options and a node's speed. */
void cluster_uneven_shape(struct cluster *cluster);
void cluster_uneven_begin(struct cluster *cluster);
void cluster_uneven_options(const struct cluster *cluster, struct controller_options *options);
void cluster_uneven_node(struct cluster_node *node);
/* Returns the duration of a clock with `items` items. `duration_us`: of a normal node, in other campaigns. */
uint64_t cluster_uneven_duration(struct cluster_node *node, uint64_t items, uint64_t duration_us);
/* These check lines of the report: an iteration, a change of shares, a replacement, a join. */
void cluster_uneven_iteration(struct cluster *cluster, uint64_t iteration, double seconds);
void cluster_uneven_balance(struct cluster *cluster, const char *text);
void cluster_uneven_replace(struct cluster *cluster, const char *name, const char *text);
void cluster_uneven_join(struct cluster *cluster);
void cluster_uneven_end(struct cluster *cluster);
/* Returns the delay of the node's servers with a message that arrives now. */
uint64_t cluster_uneven_serve_us(const struct cluster_node *node);
/* Called after each step of the controller. */
void cluster_uneven_stepped(struct cluster *cluster);
/* Called when the controller sends a plan, and when it has restarted. */
void cluster_uneven_planned(struct cluster *cluster);
void cluster_uneven_restarted(struct cluster *cluster);

/* ---- cluster_mistakes.c ---- */

/* Makes the controller forget that a node is being replaced (MISTAKE_TWO_REPLACED). */
void cluster_mistake_replace(struct cluster *cluster);
/* Returns the computing time that the node reports. */
uint64_t cluster_mistake_compute(struct cluster_node *node, uint64_t compute_us);

bool cluster_mistake_due(struct cluster *cluster, enum mistake mistake);
/* Like cluster_mistake_due, for a mistake that is repeated once it is due. */
bool cluster_mistake_lasts(struct cluster *cluster, enum mistake mistake);
/* Returns whether the server is to forget this piece of a flush, which it has just received. A repeat is then added
 * again. */
bool cluster_mistake_again(struct cluster_server *server, const struct message *message);
/* These may change a message before an actor receives it. cluster_mistake_server returns false to drop it. */
bool cluster_mistake_server(struct cluster_server *server, actor_id from, struct message *message);
void cluster_mistake_node(struct cluster_node *node, struct message *message);
void cluster_mistake_controller(struct cluster *cluster, actor_id from, struct message *message);
/* Called when a controller has just started. */
void cluster_mistake_restart(struct cluster *cluster);
/* For MISTAKE_UNDO_SKIPPED: keeps a row of a server over a plan that restores an earlier clock. */
struct undo_skipped {
    struct partition *partition;
    unsigned table;
    uint32_t slot;
    unsigned char *row; /* NULL: none */
};
void cluster_mistake_keep_row(struct cluster_server *server, const struct message *message, struct undo_skipped *kept);
void cluster_mistake_put_row(struct cluster_server *server, struct undo_skipped *kept);
/* Called before and after a server receives the plan of a new epoch: keeps its relay's contents. */
void cluster_mistake_keep_relayed(struct cluster_server *server, const struct message *message, struct relay *kept);
void cluster_mistake_put_relayed(struct cluster_server *server, struct relay *kept);

/* ---- cluster_check.c ---- */

/* Records the first violation, which ends the run. */
__attribute__((format(printf, 3, 4))) void cluster_violation(struct cluster *cluster, const char *invariant,
                                                             const char *format, ...);

/* The objective that every node reports of a clock. */
double cluster_objective(uint64_t clock);
/* What the work on a shard in a clock adds to METRIC_FIGURES: a whole number, small enough for exact sums. 0 without
 * items. */
double cluster_figure(const struct cluster *cluster, unsigned shard, uint64_t clock);
bool cluster_plan_has(const struct plan_view *plan, actor_id actor);
/* Returns the server of the partition at the clock by the newest plan; NULL when it is not known. */
struct cluster_server *cluster_serving(struct cluster *cluster, uint32_t partition, uint64_t clock);

/* Whether the app's states hold for actors of this epoch. For a past epoch they may not. */
bool cluster_state_stands(const struct cluster *cluster, uint64_t epoch);

/* Called when the controller sends a plan. */
void cluster_check_plan(struct cluster *cluster);
/* Returns the plan that a PLAN or PACKED_PLAN brings, if it is the newest; else NULL. */
const struct plan_view *cluster_plan_in(const struct cluster *cluster, const struct message *message);
/* Returns the server's replica of the partition. NULL: none, or an incomplete copy with rows of different clocks. */
const struct partition *cluster_replica(const struct cluster_server *server, uint32_t partition);
/* Whether the server can restore its replica of the partition to the clock. */
bool cluster_can_put(const struct cluster_server *server, uint32_t partition, uint64_t clock);
/* Called after each step of a server. */
void cluster_check_server(struct cluster_server *server);
/* Called when a server has received a message. Checks S3: all messages of a clock and epoch came by one ring. */
void cluster_check_ring(struct cluster *cluster, const struct message *message);
/* Called after each step of a node, when it begins a clock, and after a push (client.row_state). */
void cluster_check_node(struct cluster_node *node);
void cluster_check_begin(struct cluster_node *node, const struct cluster_set *set, actor_id origin, uint64_t clock);
void cluster_check_row_state(void *node, uint32_t partition, uint64_t clock);
/* Checks that every row of the partition equals the oracle's state at `clock`. */
void cluster_check_partition(struct cluster *cluster, const struct partition *partition, uint64_t clock,
                             const char *what);

/* ---- cluster_end.c ---- */

/* Called after the controller's step: notes what the iteration lines that it wrote must say. */
void cluster_lines_written(struct cluster *cluster);
/* Called when the operator reads the report's next line. */
void cluster_check_line(struct cluster *cluster, const char *text);
void cluster_check_good_end(struct cluster *cluster);
/* Called for a message to the controller. */
void cluster_check_written(struct cluster *cluster, const struct message *message);
/* Called for a message as the node sent it to the controller. Checks that only mad nodes are accused. */
void cluster_check_accusation(struct cluster *cluster, const struct cluster_node *accuser,
                              const struct message *message);
/* Whether the job was completed and failed only because no checkpoint could be written. */
bool cluster_lacks_checkpoints(const struct cluster *cluster);
void cluster_check_bad_end(struct cluster *cluster);
/* The nodes' input differed at the start: checks that the error says so and no node has worked. */
void cluster_check_input_end(struct cluster *cluster);
/* The job was lost, as it may be: checks that the error says so. */
void cluster_check_lost_end(struct cluster *cluster);

#endif
