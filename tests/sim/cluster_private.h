/* What the parts of the simulated cluster share: cluster.c (what is drawn, putting together, the run), cluster_app.c (a
 * process's threads), cluster_control.c (the controller's process, its store, the operator), cluster_crash.c (an app
 * that crashes), cluster_disk.c (checkpoints), cluster_faults.c (what happens to the machines), cluster_mad.c
 * (mad nodes), cluster_schedules.c,
 * cluster_mistakes.c, cluster_trace.c (recorded traces), cluster_check.c (step by
 * step) and cluster_end.c (at the end). */
#ifndef TESTS_SIM_CLUSTER_PRIVATE_H
#define TESTS_SIM_CLUSTER_PRIVATE_H

#include "agileml/control/controller_private.h"
#include "agileml/ps/server.h"
#include "tests/sim/app.h"
#include "tests/sim/cluster.h"
#include "workers/node.h"
#include "workers/pulse.h"

enum {
    CLUSTER_MACHINES = 1024,
    CLUSTER_CONTROLLER = 0, /* its machine */
    CLUSTER_OPERATOR = 1,   /* of the operator, and of what happens at its time: never paused, cut off or gone */
    CLUSTER_FIRST_NODE = 2, /* nodes' machines follow */
    CLUSTER_NODES_MAX = 500,
    CLUSTER_SERVERS_MAX = 3,
    CLUSTER_PARTITIONS_MAX = 32,
    CLUSTER_STALE_EXTRA = 3, /* of MISTAKE_STALE_WORKER */
    CLUSTER_ACTIONS_MAX = 40,
    CLUSTER_OFFERS_SEEN = 16,
    CLUSTER_RINGS_SEEN = 64,
    CLUSTER_STATES_SEEN = 64,
    CLUSTER_CHAINS_SEEN = 16,
    CLUSTER_REQUESTS_MAX = 256,
    CLUSTER_STEPS_MAX = 60 * 1000 * 1000
};

/* What nodes report, all sums but the first. */
enum {
    METRIC_OBJECTIVE,
    METRIC_ITEMS,     /* of a clock */
    METRIC_FIGURES,   /* cluster_figure of each shard that was worked on in a clock */
    METRIC_EVALUATED, /* shards that were evaluated ... */
    METRIC_LAST,      /* ... as of the job's last clock, in its whole state */
    CLUSTER_METRICS
};

/* What a node has changed in a clock under one of its origins. */
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
    bool lazy; /* the rows of half of its shards are added only when a clock comes to them */
};

struct cluster_server {
    struct cluster_node *node;
    struct server server;
    struct {
        uint64_t clock, epoch; /* at which the rows were checked; epoch 0: not yet */
    } checked[CLUSTER_PARTITIONS_MAX];
    uint64_t version; /* of its plan, when its roles were checked */
    struct delayed {
        actor_id from;
        struct message message;
    } * delayed; /* messages that a slow server has not come to yet, in order */
    unsigned delayed_count;
    uint64_t delayed_until_us;
};

#define CLUSTER_STORE_FULL "the simulated store is full"
/* What every app says (node_note), by each process once, and by the one that saves. */
#define CLUSTER_NOTE_EVALUATED "evaluated"
#define CLUSTER_NOTE_SAVED     "saved"

/* What is wrong with a node that goes on with its heartbeats. */
enum mad {
    MAD_NOT,
    MAD_AGENT,        /* its agent hears nothing from the controller */
    MAD_BARRIER,      /* ... hears no hold */
    MAD_PLAN,         /* ... hears no plan */
    MAD_FENCE,        /* its servers hear no fence */
    MAD_CHECKPOINT,   /* its servers are not asked for checkpoints */
    MAD_COMMITTED,    /* it calls clocks committed that nobody has begun */
    MAD_CLOCK,        /* it has begun a clock that nobody can have begun */
    MAD_PROGRESS,     /* ... and is through with it */
    MAD_ORIGIN,       /* it reports another node's work */
    MAD_BEGUN,        /* when fenced, as MAD_CLOCK */
    MAD_UNBEGUN,      /* when fenced, it denies to have begun what others have the state of */
    MAD_OTHER_SERVER, /* when fenced, it has restore points of another node's servers */
    MAD_POINTS,       /* when fenced, it has restore points of clocks that nobody has begun */
    MAD_ROWS,         /* it sends nodes rows that are not the job's */
    MAD_ACCUSES,      /* it accuses others of having sent what can't be */
    MAD_FORGES,       /* it changes numbers of all kinds in what it sends: only in CAMPAIGN_MAD */
    MAD_KINDS
};

/* How a node reads its input. */
struct cluster_node_input {
    bool lazy;     /* the rows of half of its shards are added only when a clock comes to them */
    bool other;    /* it reads other input than most nodes */
    bool conceals; /* it reports the input that most nodes read: MISTAKE_INPUT_CONCEALED */
};

/* A data shard in a process's memory. */
enum cluster_held {
    HELD_NOT,
    HELD_JOBS,  /* as most nodes read it */
    HELD_OTHER, /* of other input */
};

/* The app's process in a node. */
struct cluster_node_app {
    unsigned char *held; /* by shard: enum cluster_held; NULL: none */
    /* Of an input that is read in parts. */
    uint32_t part, parts;  /* the node's; parts 0: it has read none */
    unsigned char *pieces; /* by shard and part: enum cluster_held; NULL: none */
    uint64_t *contents;    /* by shard: the sum of its pieces' contents */
    unsigned reading;      /* 1: the part is being read */
    bool read_all;         /* the whole input was read */
    struct cluster_set *sets;
    unsigned set_count;
    unsigned preparing;               /* the set's number; 0: none */
    int64_t *slots;                   /* by the app's rows: the cache's slot, or -1 */
    unsigned *row_of[APP_TABLES_MAX]; /* by table and slot: the app's row */
    void *process;                    /* the app's own */
    struct own_change *own;           /* of the clocks not yet committed, in order */
    unsigned own_count;
};

/* A batch that a process has taken, or makes. */
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
    uint64_t below; /* batches of clocks below were dropped */
    bool busy;      /* it makes `making` */
    struct feed_made making;
    unsigned stages; /* of `making` */
};

/* The job's feeders. */
struct cluster_feed {
    unsigned feeders;                /* to begin with; 0: the app has no stages */
    unsigned troubles;               /* that have happened */
    unsigned members, other_members; /* of the controller after its last step: feeders, and others */
    bool recovers;                   /* it recovered then */
};

/* The clock that a node's app computes. */
struct cluster_node_work {
    bool computing;
    struct node_assignment at; /* at work on */
    unsigned set;              /* its set's number */
    unsigned parts;            /* of the iteration */
    uint64_t began_us;
    uint64_t items;             /* with lots: worked on since then */
    bool theirs[WIRE_LOTS_MAX]; /* other nodes have worked on these lots */
    struct node_offer {
        uint64_t claim, clock, epoch;
    } offers[CLUSTER_OFFERS_SEEN]; /* the last GOSSIP_OFFERs that it made, by number */
    uint64_t done[APP_TABLES_MAX]; /* by table: rows that were declared done in this clock */
    unsigned helped;               /* the set of another node's lot that is worked on; 0: none */
    uint64_t helped_clock;
};

struct cluster_node_evaluation {
    bool under_way;
    bool said;  /* CLUSTER_NOTE_EVALUATED */
    bool again; /* of what was not just computed */
    bool last;  /* of the job's last clock, in its whole state */
    uint64_t clock;
    uint64_t hash; /* of the cache's rows when evaluation began */
};

/* A node that saves the model. */
struct cluster_node_save {
    bool saving, unsaving;
    uint32_t partition, table; /* the next to be saved */
    uint64_t *elements;        /* the app's so far, or their start values */
    uint64_t asked_us;
};

/* What happens to a node, and what becomes of it. */
struct cluster_node_fate {
    uint64_t fenced;   /* it has reported FENCED of this epoch */
    uint64_t leave_us; /* its machine goes then; 0: not asked to leave */
    bool generous;     /* the notice was long enough */
    enum mad mad;
    bool hurt;          /* something was done to it that may cost it its place in the job */
    uint32_t notice_ms; /* to ask for by itself */
    bool gone;          /* its process has ended, in whatever way */
    bool ended;         /* its process has ended by itself, with `code` and `text` */
    int code;
    char text[ERROR_TEXT_MAX];
    bool crash_heard; /* the controller has heard that its app crashed */
};

/* How fast a node computes. */
struct cluster_node_speed {
    double item_us, fixed_us;             /* CAMPAIGN_UNEVEN */
    unsigned slowness;                    /* others: by so much, in this time */
    uint64_t slow_from_us, slow_until_us; /* ... since the job began */
    uint32_t weight, newest_weight;       /* its share's: by the newest plan; as the controller has it */
    uint64_t computed_us;                 /* when it last ended a clock's work */
    bool replaced;                        /* evicted for another one */
    uint64_t serve_us;                    /* how late its servers are with each message */
};

/* A process's pulse. */
struct cluster_node_pulse {
    struct pulse pulse;
    struct wire_endpoint endpoint;
    uint64_t paused_until_us; /* the node stands still until then, or stood; 0: it never did */
    uint64_t ticked_us;       /* when pulse_timer was last called */
    uint64_t gone_us;         /* when the process ended, or its machine was gone; 0: not */
    uint64_t planned_us;      /* when the newest plan has named it first; 0: not yet */
};

/* CAMPAIGN caches: of which of the last clocks the cache had a partition's whole state, without a gap. */
struct cluster_node_states {
    uint64_t epoch;
    uint64_t clocks[CLUSTER_PARTITIONS_MAX][CLUSTER_STATES_SEEN]; /* clock + 1; at clock % CLUSTER_STATES_SEEN */
};

/* One incarnation of a node's process. */
struct cluster_node {
    struct cluster *cluster;
    unsigned number, machine;
    unsigned group; /* 1 + its group in stage transient; 0: it follows from the number */
    actor_id id;
    struct node node;
    struct io *io;
    struct job job; /* a copy of its own for MISTAKE_STALE_WORKER */
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

/* The controller's process: its io hears nothing any more once it has crashed. */
struct cluster_controller {
    struct io io;
    struct io *network;
    struct cluster *cluster;
    struct controller controller;
    bool started; /* before */
    bool running;
    uint64_t strategy_moment; /* when another strategy was wanted last */
    uint64_t ended_us;
    bool crashed; /* in the step under way */
    bool ended;
    int code;
    char text[ERROR_TEXT_MAX];
    uint64_t restart_us; /* after a crash: so much later */
};

enum store_fault { STORE_WORKS, STORE_FAILS, STORE_CRASH_BEFORE, STORE_CRASH_AFTER };

struct cluster_store {
    struct store store; /* first */
    struct cluster *cluster;
    struct stored {
        char key[STORE_KEY_MAX];
        unsigned char *bytes;
        size_t size;
    } * entries; /* in the order of keys */
    unsigned count;
    enum store_fault fault;
    unsigned writes_left; /* until it happens */
    bool forgets;         /* MISTAKE_STORE_WRITE_LOST: until the controller starts again */
};

enum action_kind {
    ACTION_BREAK,
    ACTION_PAUSE,    /* machines stand still */
    ACTION_SEPARATE, /* the network falls apart at random */
    ACTION_CUT,      /* some machines are cut off from all others */
    ACTION_REMOVE,   /* a machine is gone, CAMPAIGN_MISSING */
    ACTION_JOIN,
    ACTION_EVICT, /* the operator asks */
    ACTION_LEAVE, /* the node itself does */
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
    uint64_t at_clock;  /* when somebody begins this clock ... */
    uint64_t delay_us;  /* ... and so much later */
    uint64_t length_us; /* of a pause, a separation, a notice; until the controller starts again */
    enum who who;
    unsigned count; /* nodes */
    unsigned group; /* 1 + the nodes' group; 0: of any */
    unsigned spare; /* all nodes are hit but so many; 0: `count` says how many */
    bool told;      /* the operator tells the controller that they are gone, or will join; a notice is generous */
    unsigned machine;
    int other;
    enum store_fault store_fault;
    enum mad mad;
    unsigned char *sides; /* by machine */
};

struct operator_request {
    uint64_t number;
    enum message_type type; /* EVICT, GONE or ALLOCATION; 0: answered */
    uint32_t detail;        /* EVICT's notice_ms, GONE's signal */
    struct buffer *frame;
};

struct cluster_work {
    actor_id origin; /* who worked on a shard in a clock */
};

/* What is drawn for a job. */
struct cluster_drawn {
    unsigned initial_reliable, initial_transient;
    uint32_t heartbeat_ms, timeout_ms, patience_ms, commit_every, checkpoint_every;
    uint32_t probe_ms; /* 0: no probes */
    uint64_t far_us;   /* the longest that a small message usually takes, there and back */
    struct plan_thresholds thresholds;
    uint64_t compute_us;                /* of a typical node and clock */
    uint64_t load_us;                   /* of a typical node */
    uint64_t slowest_us;                /* of the slowest node and clock */
    unsigned lots;                      /* of each node */
    bool fetches;                       /* nodes take data shards from each other */
    char resume[WIRE_PATH_MAX];         /* the checkpoint; empty: none */
    uint64_t resume_clock, first_clock; /* of the checkpoint; of the job's state when it began */
};

/* What happens to a job's machines and network. */
struct cluster_faults {
    struct action actions[CLUSTER_ACTIONS_MAX];
    unsigned action_count;
    uint64_t calm_us;             /* no fault is active after that */
    bool calm_only;               /* nothing is drawn that is a fault */
    bool disturbed;               /* something happened that may cost a recovery */
    uint64_t apart_us;            /* until then nodes did not hear each other */
    uint64_t stunned_us;          /* until then the controller stood still, was not there, or doubted itself */
    bool split;                   /* something happened to the network, which may cost any node its place */
    bool may_fail;                /* something happened that may end the job */
    bool loss_intended;           /* all reliable nodes are to be lost once there is a checkpoint */
    struct cluster_node *missing; /* CAMPAIGN_MISSING; NULL: the controller */
    bool removed;                 /* the missing one is gone for good */
};

/* Stage transient: what was lost since the last commit. */
struct cluster_groups {
    unsigned count; /* of groups; 1: each node is one */
    unsigned joins; /* 1 + the group of nodes that are added now; 0: it follows from a node's number */
    unsigned weak;  /* how much worse than two copies in two groups the plans were: cluster_groups.c */
    unsigned lost_count;
    unsigned lost_group; /* of the node that was lost last */
    bool lost_several;   /* groups */
};

/* What was seen of a job, whoever did it. */
struct cluster_seen {
    struct plan_view plan;   /* the newest that the controller sent */
    uint64_t begun;          /* the highest clock begun by anybody */
    uint64_t committed;      /* the highest clock that anybody believed committed */
    uint64_t recovery_begun; /* `begun` at the last recovery */
    uint64_t restored_most;  /* the highest clock that a recovery restored */
    struct {
        actor_id server;
        uint64_t clock, epoch;
    } served[CLUSTER_PARTITIONS_MAX]; /* who last took a partition to its next clock */
    struct cluster_work *works;       /* by clock - first_clock - 1 and shard */
    uint64_t work_clocks;
    uint64_t redone_most; /* items that recoveries may have done again */
    uint64_t first_epoch;
    struct seen_ring {
        uint64_t epoch, clock, digest;
        uint32_t partition;
    } rings[CLUSTER_RINGS_SEEN][CLUSTER_CHAINS_SEEN]; /* of the last clocks in which a message came by one */
    struct seen_replica {
        bool known[APP_REPLICA_ROWS];
        double rows[APP_REPLICA_ROWS][APP_REPLICA_WIDTH];
    } * replicas; /* by clock - first_clock: rows of the averaged table, as somebody had them first */
    uint64_t replica_clocks;
};

/* What the report's lines have said. */
struct cluster_report {
    uint64_t lines_read;
    uint64_t iterations;
    uint64_t untold_items; /* of the iteration that the job resumed in, whose lost work no line can tell */
    double last_evaluated; /* METRIC_LAST of the last iteration's line */
    bool last_partial;
    double seconds; /* by its last line */
    bool summed_up;
    uint64_t completed;                  /* clocks, by the summary */
    unsigned said_evaluated, said_saved; /* lines about what the app has said */
};

/* The nodes that read other input than most. */
struct cluster_other_input {
    enum { OTHER_INPUT_NOBODY, OTHER_INPUT_AT_START, OTHER_INPUT_JOINS } who;
    bool began[2]; /* a clock was begun by a node with the input that most have; with the other one */
    bool reported; /* the other input has reached the controller */
};

/* The schedule's own state. */
struct cluster_schedule_state {
    unsigned step, left;
    uint64_t mark;
    actor_id mark_id;
    uint64_t mistake_left; /* opportunities to let pass before the mistake is made */
};

/* An item on which the app crashes. */
struct cluster_app_crash {
    uint64_t clock; /* from which on the app crashes on the item; 0: it does not */
    unsigned shard; /* with that item */
    unsigned count; /* nodes that have crashed on it ... */
    unsigned heard; /* ... and of which the controller has heard */
};

/* Of all jobs of a run. */
struct cluster_run {
    uint64_t mad_random; /* chooses what a mad node says */
    bool mad_certain;    /* CAMPAIGN_MAD: there is a mad node in any case, and it may forge */
    bool forged;         /* a node forges what it sends: states, metrics and clocks may be anything */
    char disk[64];       /* a folder for checkpoints; empty: none */
    bool disk_failed;    /* a checkpoint could not be written */
    bool checkpoint_at_end;
    unsigned saves_fail;       /* so many attempts at saving the model, one fewer than the controller allows at most */
    unsigned **partition_rows; /* by partition: the app's rows in it */
    unsigned *partition_row_counts;
    unsigned jobs; /* begun */
};

/* CAMPAIGN_UNEVEN. */
struct cluster_uneven {
    bool alike, joins, replaces; /* all nodes have one speed; another one joins; two slow ones are replaced */
    bool late;                   /* each node has a fixed time of its own */
    bool slow_server;            /* the servers of one node are slow */
    double fixed_us;             /* of each clock */
    unsigned changes;            /* of shares */
    unsigned joined;             /* since the first plan */
    bool replacing;              /* a node was evicted for another one, which has not joined yet */
    unsigned replaced;
    double join_seconds;    /* when the last node joined that came after training began */
    double late_seconds;    /* when two thirds of the iterations were done */
    double settled_seconds; /* from then on nobody should wait */
    uint64_t settled;       /* the iteration at that time; 0: not yet */
    double last_seconds;    /* when the last one was */
    uint64_t version;       /* of the newest plan */
    uint64_t shaken;        /* other campaigns: the clock after which shares were last changed at random */
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
    /* Of the present job: */
    struct sim *sim;
    struct cluster_controller control;
    struct cluster_store store;
    struct cluster_operator operator;
    struct cluster_node **nodes;
    unsigned node_count;
    struct index_map node_index;  /* by id */
    unsigned machine_count;       /* used */
    struct cluster_write *writes; /* of checkpoints, under way */
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
/* least..most, both included. */
uint64_t cluster_between(struct cluster *cluster, uint64_t least, uint64_t most);
bool cluster_one_in(struct cluster *cluster, unsigned many);

/* ---- cluster_trace.c: with options.traces ---- */

void cluster_trace_shape(struct cluster *cluster);
/* Sets groups.joins for the job's node of this number. */
void cluster_trace_initial(struct cluster *cluster, unsigned number);
void cluster_trace_draw(struct cluster *cluster);

/* ---- cluster_groups.c ---- */

void cluster_groups_shape(struct cluster *cluster);
unsigned cluster_group_of(const struct cluster_node *node);
void cluster_groups_register(const struct cluster_node *node, struct message_register *registration);
/* Chooses from the nodes that a fault is to hit: mostly one, or those of one group. Returns their number. */
unsigned cluster_groups_pick(struct cluster *cluster, struct cluster_node **nodes, unsigned count);
/* Keeps the nodes of one group. Returns their number. */
unsigned cluster_groups_only(struct cluster_node **nodes, unsigned count, unsigned group);
/* Before seen.plan becomes the plan. */
void cluster_groups_plan(struct cluster *cluster, const struct plan_view *plan);
/* seen.committed has grown. */
void cluster_groups_committed(struct cluster *cluster);
void cluster_groups_end(struct cluster *cluster);
bool cluster_groups_may_lose(const struct cluster *cluster);
/* The node's cache has come to a partition's clock; an epoch's first plan restores a clock. */
void cluster_groups_state(struct cluster_node *node, uint32_t partition, uint64_t clock);
void cluster_groups_restore(struct cluster *cluster, uint64_t restore);

/* ---- cluster_strategy.c ---- */

/* Draws a strategy and its local steps, in a third of the adder's jobs. */
void cluster_strategy_draw(struct cluster *cluster);
/* Whether the job may have clocks of several parts. */
bool cluster_strategy_is_drawn(const struct cluster *cluster);
/* After each step of the controller: now and then another strategy is wanted. */
void cluster_strategy_control(struct cluster *cluster);
/* Returns how many parts of the iteration the node works on in the clock, by its plan. S5: so do all others. */
unsigned cluster_strategy_parts(struct cluster_node *node, uint64_t clock);
/* Notes the node's newest GOSSIP_OFFER. */
void cluster_strategy_offered(struct cluster_node *node);
/* The node receives the message. S6: of two that average both work on the same clock in the same epoch. */
void cluster_strategy_receive(struct cluster_node *node, actor_id from, struct message *message);
/* After each step of a server, for a mistake that it may make. */
void cluster_strategy_server(struct cluster_server *server);
/* S2: whoever has a row of the averaged table as of a clock has the same bits. */
void cluster_check_replica(struct cluster *cluster, unsigned row, uint64_t clock, const void *memory, const char *who);
/* The clocks after `clock` are done again. */
void cluster_strategy_restore(struct cluster *cluster, uint64_t clock);
/* By how many clocks more a worker may be ahead, as they have no work. */
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

/* Chooses whether the job has probes, and how often. */
void cluster_pulse_draw(struct cluster *cluster, const struct sim_config *network);
void cluster_pulse_open(struct cluster_node *node);
void cluster_pulse_close(struct cluster_node *node);
/* A message that is about to reach the controller. */
void cluster_pulse_see(struct cluster *cluster, struct message *message);
/* After each step of the controller: nodes that are gone are given up in time. */
void cluster_pulse_check_control(struct cluster *cluster);
/* The report tells of a failure: nobody who could answer is given up because of unanswered questions. */
void cluster_pulse_check_failure(struct cluster *cluster, const char *name, const char *reason);

/* ---- cluster.c ---- */

/* The incarnation with this actor, NULL for none. */
struct cluster_node *cluster_node_of(const struct cluster *cluster, actor_id actor);
/* Whether it takes part: welcomed, its process alive and not about to go. */
bool cluster_node_lives(const struct cluster_node *node);
/* Another node, drawn: on `machine`, or a new one if 0. It starts after `after_us`. */
struct cluster_node *cluster_node_add(struct cluster *cluster, enum node_tier tier, unsigned machine,
                                      uint64_t after_us);
/* Whether the job counts on it: the newest plan names it, and nobody has taken its machine away. */
bool cluster_node_counts(const struct cluster_node *node);
/* Its machine is gone at once. */
void cluster_kill(struct cluster_node *node);
/* A fault goes on until then. */
void cluster_not_calm(struct cluster *cluster, uint64_t until_us);

/* ---- cluster_app.c ---- */

struct node_hooks cluster_app_hooks(struct cluster_node *node);
/* The client's hooks, once the node is there. */
void cluster_app_open(struct cluster_node *node);
/* Whether the process has shards of the set from other input than most nodes read. */
bool cluster_app_has_other(const struct cluster_node *node, const struct cluster_set *set);
void cluster_app_close(struct cluster_node *node);

/* ---- cluster_crash.c ---- */

/* The node begins a clock with the set. True: the app will crash instead of ending the clock. */
bool cluster_crash(struct cluster_node *node, const struct cluster_set *set, uint64_t clock);
/* At the end: the crashes have ended the job before the controller heard of a third. */
void cluster_check_crash(struct cluster *cluster);

/* ---- cluster_control.c ---- */

void cluster_control_open(struct cluster *cluster);
void cluster_control_close(struct cluster *cluster);
/* The controller's process dies and starts again after `restart_us`. */
void cluster_control_kill(struct cluster *cluster, uint64_t restart_us);
/* The operator repeats the request until it is answered. `detail`: EVICT's notice_ms, GONE's signal. */
void cluster_operator_ask(struct cluster *cluster, enum message_type type, struct cluster_node *const *nodes,
                          unsigned count, uint32_t detail);
/* He tells that these will join, by the names that they have: the controller is to choose others' names, and waits for
 * them in vain. */
void cluster_operator_announce(struct cluster *cluster, struct cluster_node *const *nodes, unsigned count);

/* ---- cluster_disk.c ---- */

void cluster_disk_open(struct cluster *cluster);
struct server_hooks cluster_disk_hooks(struct cluster_server *server);
/* Forgets what is being written. */
void cluster_disk_cancel(struct cluster *cluster);
void cluster_disk_close(struct cluster *cluster);

/* ---- cluster_faults.c ---- */

void cluster_draw_faults(struct cluster *cluster);
void cluster_draw_missing(struct cluster *cluster);
void cluster_draw_elastic(struct cluster *cluster);
void cluster_faults_begin(struct cluster *cluster);
/* The machine stands still until then. */
void cluster_pause(struct cluster *cluster, unsigned machine, uint64_t until_us);
/* In CAMPAIGN_UNEVEN: the controller starts again, a transient node joins, when somebody begins the clock. */
void cluster_add_restart(struct cluster *cluster, uint64_t clock);
/* Nodes of a group join, or so many are lost at once: in a quarter of the cases after a notice, maybe too short. */
void cluster_add_change(struct cluster *cluster, uint64_t clock, unsigned group, int nodes);
void cluster_add_join(struct cluster *cluster, uint64_t clock);
/* Somebody has begun a clock. */
void cluster_faults_clock(struct cluster *cluster, uint64_t clock);
/* Up to `count` different nodes that live, into `nodes`. */
unsigned cluster_pick(struct cluster *cluster, enum who who, unsigned count, struct cluster_node **nodes);
void cluster_evict(struct cluster *cluster, struct cluster_node **nodes, unsigned count, uint64_t notice_us,
                   bool generous, bool by_itself);
void cluster_kill_some(struct cluster *cluster, struct cluster_node **nodes, unsigned count, bool told);

/* ---- cluster_mad.c ---- */

void cluster_draw_mad(struct cluster *cluster);
void cluster_go_mad(struct cluster_node *node, enum mad mad);
/* Each may change what reaches an actor. False: it does not reach it. */
bool cluster_mad_node(const struct cluster_node *node, actor_id from, struct message *message);
bool cluster_mad_server(const struct cluster_node *node, const struct message *message);
/* Changes what a mad node sends to another one. */
void cluster_mad_peer(const struct cluster_node *node, actor_id from, struct message *message);
void cluster_mad_controller(struct cluster *cluster, actor_id from, struct message *message);

/* ---- cluster_schedules.c ---- */

/* Changes what was drawn to what the schedule needs. */
void cluster_schedule_shape(struct cluster *cluster);
/* Before `message` reaches an actor of `node` (NULL: the controller). */
void cluster_schedule_see(struct cluster *cluster, struct cluster_node *node, actor_id from,
                          const struct message *message);

/* ---- cluster_uneven.c ---- */

/* Changes what was drawn; adds what happens; chooses the controller's options, and a node's speed. */
void cluster_uneven_shape(struct cluster *cluster);
void cluster_uneven_begin(struct cluster *cluster);
void cluster_uneven_options(const struct cluster *cluster, struct controller_options *options);
void cluster_uneven_node(struct cluster_node *node);
/* How long a clock with so many items takes; `duration_us`: a node that is not slow, in other campaigns. */
uint64_t cluster_uneven_duration(struct cluster_node *node, uint64_t items, uint64_t duration_us);
/* The report's lines: an iteration, a change of shares, a replacement, a node that joins. */
void cluster_uneven_iteration(struct cluster *cluster, uint64_t iteration, double seconds);
void cluster_uneven_balance(struct cluster *cluster, const char *text);
void cluster_uneven_replace(struct cluster *cluster, const char *name, const char *text);
void cluster_uneven_join(struct cluster *cluster);
void cluster_uneven_end(struct cluster *cluster);
/* After each step of the controller. */
/* How late the node's servers are with a message that comes now. */
uint64_t cluster_uneven_serve_us(const struct cluster_node *node);
void cluster_uneven_stepped(struct cluster *cluster);
/* The controller sends a plan; it has started again. */
void cluster_uneven_planned(struct cluster *cluster);
void cluster_uneven_restarted(struct cluster *cluster);

/* ---- cluster_mistakes.c ---- */

/* The time that a node says it has computed for. */
/* The controller forgets that a node is being replaced. */
void cluster_mistake_replace(struct cluster *cluster);
uint64_t cluster_mistake_compute(struct cluster_node *node, uint64_t compute_us);

bool cluster_mistake_due(struct cluster *cluster, enum mistake mistake);
/* The same for a mistake that is made again and again once it is due. */
bool cluster_mistake_lasts(struct cluster *cluster, enum mistake mistake);
/* Returns whether the server is to forget this piece of a flush, which it has just taken, so that a repeat is added
 * again. */
bool cluster_mistake_again(struct cluster_server *server, const struct message *message);
/* Each may change what reaches an actor. False: it does not reach it. */
bool cluster_mistake_server(struct cluster_server *server, actor_id from, struct message *message);
void cluster_mistake_node(struct cluster_node *node, struct message *message);
void cluster_mistake_controller(struct cluster *cluster, actor_id from, struct message *message);
/* A controller has just been started. */
void cluster_mistake_restart(struct cluster *cluster);
/* Before and after a server takes a plan that puts a replica back: a row stays as it was. */
struct undo_skipped {
    struct partition *partition;
    unsigned table;
    uint32_t slot;
    unsigned char *row; /* NULL: none */
};
void cluster_mistake_keep_row(struct cluster_server *server, const struct message *message, struct undo_skipped *kept);
void cluster_mistake_put_row(struct cluster_server *server, struct undo_skipped *kept);
/* Before and after a server takes the plan of a new epoch: what waited at its relay stays. */
void cluster_mistake_keep_relayed(struct cluster_server *server, const struct message *message, struct relay *kept);
void cluster_mistake_put_relayed(struct cluster_server *server, struct relay *kept);

/* ---- cluster_check.c ---- */

/* Keeps the first violation: the run ends with it. */
__attribute__((format(printf, 3, 4))) void cluster_violation(struct cluster *cluster, const char *invariant,
                                                             const char *format, ...);

/* The objective that every node reports of a clock. */
double cluster_objective(uint64_t clock);
/* What work on a shard in a clock adds to METRIC_FIGURES: a whole number, small enough that sums are exact; 0 without
 * items. */
double cluster_figure(const struct cluster *cluster, unsigned shard, uint64_t clock);
bool cluster_plan_has(const struct plan_view *plan, actor_id actor);
/* The server that serves a partition at a clock by the newest plan, NULL when it is not known. */
struct cluster_server *cluster_serving(struct cluster *cluster, uint32_t partition, uint64_t clock);

/* Whether the app's states tell what somebody of this epoch is to see: of one that is over they may not. */
bool cluster_state_stands(const struct cluster *cluster, uint64_t epoch);

/* When the controller sends a plan. */
void cluster_check_plan(struct cluster *cluster, const struct message *message);
/* Returns the server's replica of the partition; NULL: there is none, or only part of the copy has come, so that its
 * rows are of different clocks. */
const struct partition *cluster_replica(const struct cluster_server *server, uint32_t partition);
/* Whether the server's replica of the partition can be put at the clock. */
bool cluster_can_put(const struct cluster_server *server, uint32_t partition, uint64_t clock);
/* After a step of a server, of a node; when a worker begins a clock; after a push (client.row_state). */
void cluster_check_server(struct cluster_server *server);
/* A server has received a message: S3, one ring for a clock and epoch. */
void cluster_check_ring(struct cluster *cluster, const struct message *message);
void cluster_check_node(struct cluster_node *node);
void cluster_check_begin(struct cluster_node *node, const struct cluster_set *set, actor_id origin, uint64_t clock);
void cluster_check_row_state(void *node, uint32_t partition, uint64_t clock);
/* Every row of the partition is what the oracle says of `clock`. */
void cluster_check_partition(struct cluster *cluster, const struct partition *partition, uint64_t clock,
                             const char *what);

/* ---- cluster_end.c ---- */

/* The operator reads the report's next line. */
void cluster_check_line(struct cluster *cluster, const char *text);
void cluster_check_good_end(struct cluster *cluster);
/* A message to the controller. */
void cluster_check_written(struct cluster *cluster, const struct message *message);
/* A message from the node to the controller, as the node has sent it: nobody accuses a node that is not mad. */
void cluster_check_accusation(struct cluster *cluster, const struct cluster_node *accuser,
                              const struct message *message);
/* The job was done, and failed only because no checkpoint could be written. */
bool cluster_lacks_checkpoints(const struct cluster *cluster);
void cluster_check_bad_end(struct cluster *cluster);
/* The nodes' input differed at the start: the error tells it, and nobody has worked. */
void cluster_check_input_end(struct cluster *cluster);
/* The job was lost, as it may: the error tells it. */
void cluster_check_lost_end(struct cluster *cluster);

#endif
