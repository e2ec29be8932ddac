/* Every message of AgileML: its meaning, its fields, its frames, its limits.
 *
 * On the wire a message is one head frame and up to MESSAGE_FRAMES_MAX payload frames. The head frame has a fixed
 * header and the fields, little-endian and packed. Payload frames are neither copied nor decoded element by element.
 * The table in message.c defines the head's layout. For frames of rows see rows.h. */
#ifndef AGILEML_WIRE_MESSAGE_H
#define AGILEML_WIRE_MESSAGE_H

#include "agileml/base/buffer.h"
#include "agileml/base/error.h"
#include "agileml/collective/strategy.h"
#include "agileml/types.h"
#include "agileml/wire/peer.h"

#include <stdbool.h>
#include <stdio.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "payload frames are little-endian and used in place: AgileML needs a little-endian machine"
#endif

/* ---- Limits ---- */

enum {
    WIRE_VERSION = 35,
    WIRE_HEAD_MAX = 1024, /* bytes of a head frame */
    WIRE_NAME_MAX = 32,   /* bytes of a node's, table's or metric's name, the final 0 included */
    WIRE_HOST_MAX = 64,
    WIRE_KEY_MAX = 48,      /* a public key: 40 characters of Z85, 0 to the end */
    WIRE_SIGNAL_MAX = 64,   /* the highest number of a signal */
    WIRE_FUNCTION_MAX = 16, /* bytes of the name of one of the app's functions */
    WIRE_ENDPOINT_MAX = 128,
    WIRE_PATH_MAX = 400,
    WIRE_TEXT_MAX = ERROR_TEXT_MAX, /* an error's text */
    WIRE_TABLES_MAX = 16,
    WIRE_METRICS_MAX = 16,
    WIRE_PHASES_MAX = 32,   /* of each part of an iteration */
    WIRE_OPTIONS_MAX = 128, /* of an app, the library's included */
    WIRE_OPTION_MAX = 64,   /* bytes of an option's name or value, the final 0 included */
    WIRE_TOTALS = 16,       /* the first half are sums over nodes, the second half maxima */
    WIRE_NODES_MAX = 4096,
    WIRE_SERVERS_MAX = 64, /* server threads of one node */
    WIRE_PARTITIONS_MAX = 4096,
    WIRE_SHARDS_MAX = 65536,
    WIRE_SHARD_PIECE_MAX = 256 * 1024, /* bytes of a packed shard in one message */
    WIRE_INPUT_FILES_MAX = 64,         /* files that an app reads, in INPUT */
    WIRE_INPUT_RANGES_MAX = 65536,     /* hashes of ranges in INPUT; a node reports no more */
    WIRE_STALENESS_MAX = 64,
    WIRE_LOCAL_STEPS_MAX = 128,
    WIRE_COMMIT_EVERY_MAX = 64, /* clocks between commit points */
    WIRE_WINDOW_MAX = 256,      /* clocks that workers may be ahead of the commit, beyond staleness */
    WIRE_PIECES_MAX = 4096,     /* pieces of a flush */
    WIRE_PROGRESS_MAX = 4096,   /* clocks of a node's unacknowledged PROGRESS; at this limit it begins no clock */
    WIRE_ASSIGNMENTS_MAX = 16384,
    WIRE_ASSIGNMENT_SHARDS_MAX = 4 * 65536, /* in all assignments of a plan */
    WIRE_RESTORE_POINTS_MAX = 1 << 19,
    WIRE_ROW_BYTES_MAX = 1 << 26,
    WIRE_JSON_MAX = 1 << 20,        /* one report line */
    WIRE_NOTE_MAX = 1 << 16,        /* a line for the report, in NOTE */
    WIRE_APP_NOTES_MAX = 64,        /* different APP_NOTE texts in a job's report */
    WIRE_STATUS_MAX = 1 << 26,      /* the answer to STATUS */
    WIRE_PLAN_MAX = 1 << 26,        /* a plan, unpacked */
    WIRE_LOTS_MAX = 8,              /* of a node */
    WIRE_FEED_SHARDS_MAX = 64,      /* in one FEED_ASK or its answer */
    WIRE_TRANSFORMS_MAX = 16,       /* of an app */
    WIRE_BATCH_BYTES_MAX = 1 << 26, /* of one batch */
    WIRE_FEED_BYTES_MAX = 1 << 27,  /* of all batches in one FEED_DONE */
    MESSAGE_FRAMES_MAX = 2 + 2 * WIRE_TABLES_MAX
};
static const uint64_t WIRE_FRAME_BYTES_MAX = UINT64_C(1) << 30;
static const uint64_t WIRE_MESSAGE_BYTES_MAX = MESSAGE_FRAMES_MAX * (UINT64_C(1) << 30);
static const uint64_t WIRE_CLOCK_MAX = UINT64_C(0xFFFFFFF0); /* servers keep a row's clock in 32 bits */
#define WIRE_CLOCK_NEVER WIRE_CLOCK_MAX /* no job reaches this clock; stands for "not decided yet" or "without end" */

/* ---- The messages ---- */

enum message_type {
    /* node <-> controller */
    MESSAGE_REGISTER = 1,
    MESSAGE_WELCOME = 2,
    MESSAGE_PLAN = 3, /* within a node: its agent to servers and pulse */
    MESSAGE_LOADED = 4,
    MESSAGE_START = 5,
    MESSAGE_PROGRESS = 6,
    MESSAGE_HEARTBEAT = 7,
    MESSAGE_HEARTBEAT_ACK = 8,
    MESSAGE_SAVE = 9,
    MESSAGE_SAVED = 10,
    MESSAGE_DONE = 11,
    MESSAGE_LEAVE = 12,
    MESSAGE_FAIL = 13,
    MESSAGE_ABORT = 14,
    MESSAGE_FENCE = 15,
    /* observer <-> controller */
    MESSAGE_OBSERVE = 16,
    MESSAGE_REPORT = 17,
    MESSAGE_STOP = 18,
    MESSAGE_EVICT = 19,
    MESSAGE_GONE = 20,
    MESSAGE_OUTCOME = 21,
    MESSAGE_STATUS = 22,
    MESSAGE_ALLOCATION = 23,
    /* more of node <-> controller */
    MESSAGE_FENCED = 24,
    MESSAGE_REJOIN = 25,
    MESSAGE_CHECKPOINT = 26,
    MESSAGE_WRITTEN = 27,
    MESSAGE_REPLICAS = 28, /* within a node: a server to its agent */
    MESSAGE_INPUT = 29,    /* node -> controller */
    MESSAGE_CRASHED = 31,
    MESSAGE_ACCUSE = 41,   /* node -> controller; a server to its agent */
    MESSAGE_WAITS = 45,    /* node -> controller */
    MESSAGE_APP_NOTE = 52, /* node -> controller */
    /* more of observer <-> controller */
    MESSAGE_CHECKPOINT_NOW = 30,
    MESSAGE_NOTE = 42,
    MESSAGE_REVOKE = 46,
    /* worker <-> partition server */
    MESSAGE_SUBSCRIBE = 32,
    MESSAGE_PULL = 33,
    MESSAGE_PUSH = 34,
    MESSAGE_FLUSH = 35,
    MESSAGE_SCAN = 36,
    MESSAGE_ROWS = 37,
    /* follower <-> serving replica */
    MESSAGE_FOLLOW = 38,
    MESSAGE_UPDATE = 39,
    /* node <-> node, passed on by a server */
    MESSAGE_PEER = 43,
    /* controller -> node */
    MESSAGE_EVALUATE = 40,
    MESSAGE_PACKED_PLAN = 47,
    /* between pulses; pulse <-> controller */
    MESSAGE_PULSE = 50
};

/* The part of a job's description that all nodes must agree on and the controller acts on. */
struct job_terms {
    char app[WIRE_NAME_MAX];       /* the app's name */
    uint64_t digest;               /* hash of what the app is made of: tables, metrics, the form of items */
    uint32_t staleness;            /* s of SSP, at most WIRE_STALENESS_MAX */
    uint32_t clocks_per_iteration; /* >= 1 */
    uint32_t phases;               /* clocks in turn that work on each part of an iteration; 0: one (job_phases) */
    uint32_t local_steps;          /* parts of an iteration that a clock works on, unless under S-SGD; >= 1 */
    uint8_t strategy;              /* enum strategy (collective/strategy.h) */
    uint32_t ssgd_iterations;      /* the first iterations, in which each strategy is S-SGD */
    uint64_t iterations;           /* stop after so many iterations; 0: no such limit */
    double seconds;                /* stop after so many seconds of training; 0: no such limit */
    double tolerance;              /* stop when the objective's relative change stays below this; 0: never */
    uint32_t tolerance_iterations; /* iterations in a row in which the change must stay below `tolerance` */
};

/* Returns in how many clocks in turn each part of an iteration is worked on (aml_app.phases). It divides
 * clocks_per_iteration. */
static inline uint32_t job_phases(const struct job_terms *job) {
    return job->phases > 0 ? job->phases : 1;
}

/* Whether items count in this clock: an item counts once an iteration, in its last phase. */
static inline bool job_counts_items(const struct job_terms *job, uint64_t clock) {
    return clock % job_phases(job) == 0;
}

static inline struct strategy_clocks job_clocks(const struct job_terms *job) {
    return (struct strategy_clocks){.per_iteration = job->clocks_per_iteration, .local_steps = job->local_steps};
}

/* A node requests to join. Repeated until WELCOME. Frames:
 *
 *   struct wire_endpoint each: the endpoints of its server threads and its pulse
 *   struct wire_metric each: the metrics
 *   struct wire_option each: the options that must be the same at all nodes */
struct message_register {
    char name[WIRE_NAME_MAX];  /* the requested name; empty: the controller chooses */
    char host[WIRE_HOST_MAX];  /* for people; also the node's group if `group` is empty */
    char group[WIRE_NAME_MAX]; /* nodes of one group may all fail at once: a zone, a market, a rack; may be empty */
    char key[WIRE_KEY_MAX];    /* the process's public key; empty in a job without a key */
    uint64_t process_id;       /* for people */
    uint8_t tier;              /* enum node_tier */
    uint32_t threads;          /* worker threads */
    uint32_t threads_max;      /* of a feeder: the most threads that the controller may set; 0: always `threads` */
    uint64_t slice;            /* items that all threads together work on at once; 0: any number */
    struct job_terms job;
};

/* The controller accepts the node. */
struct message_welcome {
    char name[WIRE_NAME_MAX];
    uint32_t heartbeat_ms; /* send a HEARTBEAT at least this often */
    uint32_t timeout_ms;   /* silence longer than this counts as a failure, on both sides */
    uint32_t probe_ms;     /* the pulse probes its neighbours this often; 0: never */
};

/* A plan: which servers serve and follow each partition, and which origin works on which data shards in which clocks
 * (docs/design.md, "Plans"). The header's epoch is the plan's. Versions grow from plan to plan, over all epochs. Each
 * plan is complete: a receiver needs no earlier plan. Frames:
 *
 *   struct wire_node each: the nodes
 *   struct wire_placement each: the placement, one record per partition
 *   struct wire_assignment each: the assignments
 *   uint32_t each: the assignments' shards
 *   struct wire_endpoint each: the endpoints of every server thread and pulse */
struct message_plan {
    uint64_t version;
    uint64_t restore; /* the clock to which this epoch's first plan restored every partition; 0 in the first epoch */
    /* The servers of the placement's `next_` half serve this clock and later ones. WIRE_CLOCK_NEVER: not decided yet;
     * meanwhile their replicas get ready in the background. */
    uint64_t from_clock;
    uint32_t commit_every, next_commit_every; /* clocks between commit points, before from_clock and from then on */
    uint32_t window;                          /* a worker may begin clocks up to committed + 1 + staleness + window */
    uint8_t strategy, next_strategy;          /* enum strategy, before strategy_from and from then on */
    uint64_t strategy_from;
    uint32_t partitions;
    uint32_t shards;
    uint64_t final;      /* the job's last clock, if it is a commit point; 0: not decided, or no commit point */
    uint8_t recoverable; /* 0: a failure ends the job, so nothing is kept to undo clocks */
    /* 1: stage transient, in which no machine counts as reliable. If the job's tables allow it (job_unkept_table in
     * ps/table.h), workers keep what servers push, so that a worker can replace lost replicas. */
    uint8_t transient;
    char resume[WIRE_PATH_MAX]; /* in the first plan of a resumed job: load the partitions from this checkpoint */
};

/* A PLAN as the controller sends it to nodes (plan_pack.h). Frame: the packed bytes. */
struct message_packed_plan {
    uint64_t version; /* of the plan */
    uint64_t base;    /* the version of the plan that the receiver must have to unpack this one; 0: none */
    uint64_t bytes;   /* unpacked */
};

/* The fingerprint of one data shard, or of several together. */
struct wire_input_shard {
    uint64_t items; /* WIRE_ITEMS_UNKNOWN: the sender does not know the shard */
    uint64_t hash;  /* the sum of the items' hashes, each over use, keys and bytes */
};
#define WIRE_ITEMS_UNKNOWN UINT64_MAX

/* The node reports the input that it has read, including data shards that it does not keep. If the nodes read the input
 * in parts, the node reports the shards that it has put together, and hashes of the ranges that it has read. Sent after
 * the node's first reading, and whenever the node knows more shards or has read something else. Repeated until
 * HEARTBEAT_ACK confirms that this input is the job's. Until then the node begins no clock. Frames: the fingerprint
 * (struct wire_input_shard, one for each data shard), the files that were read (struct wire_input_file), the ranges
 * (struct wire_input_range). */
struct message_input {
    uint64_t reading;            /* counts the node's INPUTs from 1 */
    struct wire_input_shard own; /* what the app's `read` has emitted, without the files that the library reads */
};

/* A node has loaded the data of its assignments at the epoch's first clock. Frame: WIRE_TOTALS doubles over its
 * items. */
struct message_loaded {
    uint64_t version; /* of the plan with these assignments */
    uint64_t items;   /* training items of its shards */
};

/* Every node has loaded: begin. Frame: WIRE_TOTALS doubles over all nodes' items. */
struct message_start {
    uint64_t items;
};

/* What a node counts, or has now; each service adds its own (workers/node/node_service.h). The rows NUMBER of
 * report_keys.def say what the fields mean, and how the report and the status show them. */
struct node_numbers {
#define NUMBER(types, kind, name, field, most, label, meaning) uint64_t field;
#include "agileml/wire/report_keys.def"
};

/* An origin has finished and evaluated a clock. Repeated until a HEARTBEAT_ACK covers the clock. Clocks without work
 * are reported with the next one, as FLUSH delivers them.
 * Frame: metrics, a struct wire_metric_sum each. */
struct message_progress {
    actor_id origin; /* an origin of the sender's node */
    uint64_t clock;
    uint32_t idle;               /* clocks without work before `clock` that are reported, too */
    uint8_t evaluation;          /* 1: the clock was only evaluated, for EVALUATE or for `last`, not worked on */
    uint8_t last;                /* 1: evaluated as the job's last clock, in the complete state at that clock */
    uint64_t items;              /* training items processed in this clock; 0 with `evaluation` */
    uint64_t helped;             /* items in lots that other nodes have worked on; part of `items` */
    uint64_t committed;          /* the last commit point that the node's client knows to be committed */
    uint64_t compute_us;         /* wall time in the app's function; with `helped`, scaled up to all `items` */
    uint64_t clock_us;           /* wall time of the whole clock, waiting included */
    uint64_t evaluate_us;        /* wall time of the clock's evaluation; part of `clock_us` */
    uint64_t items_fed;          /* items in batches that feeders have made; part of `items` */
    uint64_t feed_wait_us;       /* how long the clock waited for batches without making any itself */
    uint64_t transforms_us;      /* how long the node itself ran transforms that feeders can run; 0 if they are cheap */
    struct node_numbers numbers; /* when this message is sent */
};

/* A node reports how long it has waited for each server's state since its last WAITS. Never repeated. Frame: struct
 * wire_server_wait each. */
struct message_waits {
    uint64_t version; /* of the plan */
    uint64_t clocks;  /* how many clocks the waits are from */
};

/* Evaluate these data shards: the node that worked on them was lost before it could report, but its work in this clock
 * remains valid. Repeated until PROGRESS with `evaluation` of this origin and clock arrives. Frame: at least one shard,
 * uint32_t each, ascending. */
struct message_evaluate {
    actor_id origin; /* the receiver's origin, under which it reports */
    uint64_t clock;  /* at or below the plan's `restore`; the receiver may evaluate a later state */
};

/* A node reports that it is alive and how far it is. The header's epoch and `version` identify its plan. The controller
 * repeats whatever the node lacks. */
struct message_heartbeat {
    uint8_t state;    /* enum node_state */
    uint64_t clock;   /* the highest clock begun under any of its origins */
    uint64_t barrier; /* number of the latest barrier that this node obeys */
    uint64_t version; /* of its plan */
    /* Version of the latest plan for which the node is ready: the data of its assignments is loaded, the first state of
     * their rows has arrived, and its replicas are in step. */
    uint64_t ready;
    uint64_t committed; /* the last commit point that the node's client knows to be committed */
    actor_id silent;    /* the node (part 0) of a server that has been silent beyond the timeout; 0: none */
    uint8_t waits;      /* enum node_waits */
    actor_id waits_on;  /* of which node (part 0) it waits; 0: no certain one */
    struct node_numbers numbers;
};

/* The controller reports that it is alive, and what it requests. Sent in answer to HEARTBEAT, and when something
 * changes. All fields are state, not events, so a lost or repeated message does no harm. */
struct message_heartbeat_ack {
    uint64_t progress; /* every PROGRESS of the node's origin of part 0 up to this clock is stored */
    uint64_t catch_up; /* every PROGRESS of the node's catch-up origin of this epoch up to this clock is stored */
    uint64_t barrier;  /* number of the barrier; a barrier with a higher number replaces it */
    /* Begin no clock above this; WIRE_CLOCK_NEVER: there is no barrier. Once every origin waits at or below this clock,
     * none can have passed it. */
    uint64_t barrier_clock;
    uint64_t final; /* the last clock of the job; 0: not known yet */
    uint64_t input; /* `reading` of the node's last INPUT that equals the job's; 0: none */
    /* Threads with which each feeder makes batches, up to its own `threads_max`; 0: those it was started with. For
     * feeders, and for nodes that request batches. */
    uint32_t feed_threads;
};

/* FENCE: one or more nodes have failed; stop. From now on the receiver and its servers drop messages of epochs below
 * the header's, begin no clock and serve nobody. They answer FENCED; FENCE is repeated until then. A PLAN of the
 * header's epoch follows. */

/* The answer to FENCE. Frame, struct wire_restore_point each: the clocks to which the node's replicas can be restored,
 * and those whose state its worker's cache has. */
struct message_fenced {
    uint64_t begun;     /* the highest clock begun under any of its origins */
    uint64_t committed; /* the last commit point that its client and servers know to be committed */
};

/* A server reports its replicas to its node's agent: after each plan, when `in_step` changes, and once fenced. Frame:
 * as in FENCED; empty unless fenced. */
struct message_replicas {
    uint64_t version; /* of the server's plan */
    uint8_t fenced;   /* 1: the server is fenced */
    uint8_t in_step;  /* 1: each of its replicas in this plan serves, or follows closely */
    uint64_t committed;
};

/* Reports that a node has sent an impossible message to the sender, or to one of the sender's servers. The impossible
 * message was dropped without effect. The header's epoch is the one in which it arrived. ACCUSE is repeated with each
 * HEARTBEAT until that epoch is over. */
struct message_accuse {
    actor_id accused;         /* the node, part 0 */
    char text[WIRE_TEXT_MAX]; /* what was wrong with the message */
};

/* An operator requests that nodes be evicted, or a node that it may leave. Frame: the nodes' names, WIRE_NAME_MAX bytes
 * each; a node that leaves by itself sends no name. Names that no node has are skipped. Answered by OUTCOME with code 0
 * and a text with the skipped names, or with an error code when no name is left. */
struct message_evict {
    uint64_t request;   /* the sender's number for this request, repeated in OUTCOME */
    uint32_t notice_ms; /* the nodes must have left after this time */
};

/* The operator reports that these nodes' processes have ended. Frame: as in EVICT. Answered by OUTCOME. */
struct message_gone {
    uint64_t request; /* as in message_evict */
    uint32_t signal;  /* the signal that ended all of them; 0: none, or not known */
};

/* The process that buys machines lists those that have not joined yet. Each message has the complete list; it is empty
 * when no machine is expected. Frame: struct wire_machine each, with different names. Answered by OUTCOME. The sender
 * repeats the message now and then, since a controller that is started again has no list. */
struct message_allocation {
    uint64_t request; /* as in message_evict */
};

/* A line for the report, from the process that buys machines: what it decided, or what it has spent. Frame: a JSON
 * object whose `type` is "money" or "decision" (docs/proteus.md, "The report"). Repeated until OUTCOME answers it. The
 * report has a repeated note only once. */
struct message_note {
    uint64_t request; /* as in message_evict; greater than in the sender's earlier notes */
};

/* A line from the app to the people who run the job (aml_note). Repeated until OUTCOME reports that it is stored. The
 * report has each text once, even if several nodes send it. */
struct message_app_note {
    uint64_t request; /* the sender's number for this request, repeated in OUTCOME */
    char text[WIRE_TEXT_MAX];
};

/* Who holds the job's key revokes the token with this serial number: the controller lets nobody in by it any more, and
 * cuts off who came by it. Answered by OUTCOME, whose text says how many that were. */
struct message_revoke {
    uint64_t request; /* as in message_evict */
    uint64_t serial;  /* of the token */
};

/* The result of an operator's request, or of a node's. */
struct message_outcome {
    uint64_t request; /* the request's own number */
    int32_t code;     /* enum aml_error_code */
    char text[WIRE_TEXT_MAX];
};

/* An operator's or observer's request for the job's status (an empty frame), and the answer (a frame of JSON text). */
struct message_status {
    uint64_t request;
};

/* Write a checkpoint of these replicas of this reliable node (docs/design.md, "Checkpoints"). Frame: the partitions,
 * uint32_t each. Repeated until WRITTEN has arrived for all of them. */
struct message_checkpoint {
    uint64_t number;          /* of this attempt; each attempt has another */
    uint64_t clock;           /* write the replicas' state at this clock */
    uint64_t committed;       /* the clock up to which the controller knows everything to be committed */
    char path[WIRE_PATH_MAX]; /* an existing folder */
};

enum written_state {
    WRITTEN_DONE = 0,     /* the file is complete on disk */
    WRITTEN_PROMISED = 1, /* the replica is before the clock, and will be written when it reaches it */
    WRITTEN_REFUSED = 2,  /* the replica can't write this clock; `text` says why; another attempt may succeed */
    WRITTEN_FAILED = 3    /* the file can't be written; `text` says why */
};

/* The state of one partition's file in a checkpoint. */
struct message_written {
    uint64_t number; /* of the CHECKPOINT */
    uint32_t partition;
    uint8_t state; /* enum written_state */
    uint64_t clock;
    uint64_t bytes;
    uint32_t checksum; /* CRC-32 of the file */
    char text[WIRE_TEXT_MAX];
};

/* The sender's app has crashed. Its process ends when DONE or ABORT arrives, or soon without them. */
struct message_crashed {
    uint32_t signal;                  /* the signal that ends the process; 0: the app has called exit */
    int32_t status;                   /* the argument of exit, with signal 0 */
    uint64_t clock;                   /* the clock for which `function` was called; 0: none */
    char function[WIRE_FUNCTION_MAX]; /* the app's function that was entered last; empty: none */
};

/* An operator requests a checkpoint now. Repeated until OUTCOME answers: the checkpoint is complete (`text` names its
 * clock and folder), or has failed. */
struct message_checkpoint_now {
    uint64_t request; /* as in message_evict */
};

/* SAVE: every clock is done; the receiver runs the app's finish function (writes the model) and answers SAVED. Both are
 * repeated. Frame of SAVE: the values of the job's metrics at its end; NaN for a metric without a value. After a failed
 * attempt the controller begins another one, perhaps at another node. */
struct message_save {
    uint32_t attempt; /* from 1 */
};
struct message_saved {
    uint32_t attempt; /* SAVE's */
    int32_t code;     /* enum aml_error_code; 0: success */
    char text[WIRE_TEXT_MAX];
};

/* DONE: the job, or the receiver's part in it, is over; the receiver leaves. LEAVE: the sender leaves. FENCE: see
 * above. REJOIN: the receiver was declared dead and the controller does not know it any more. Its work since then is
 * void; it may register as a new node. */
struct message_empty {
    uint8_t unused; /* 0 */
};

/* FAIL, from a node, and ABORT, to every node: an error that ends the job. STOP, from an operator: `text` is the
 * reason; with code 0 the job ends successfully at one of the next clocks. */
struct message_text {
    int32_t code; /* enum aml_error_code */
    char text[WIRE_TEXT_MAX];
};

/* An observer requests the report's lines from number `from` on. */
struct message_observe {
    uint64_t from;
};

/* One line of the report. Frame: JSON text. */
struct message_report {
    uint64_t number; /* lines count from 0 */
    uint64_t oldest; /* lines below this number are gone */
};

/* A worker subscribes to rows, which are pushed from now on. Frames: rows without values. The server answers with a
 * PUSH that carries `request` and the rows' state; with `only` it has no rows. A replica that does not serve yet
 * answers with clock 0 and without rows, and pushes once it serves. */
struct message_subscribe {
    uint32_t partition;
    uint64_t request;
    uint64_t after; /* `request` of the worker's last answered SUBSCRIBE. A server without that subscription, as another
                       replica answered it, can't apply this one. */
    uint64_t known; /* the worker has the rows' state at this clock: send only what changed since; 0: send all */
    uint8_t again;  /* 1: the worker is subscribed to these rows already, and requests only their state */
    uint8_t only;   /* 1: cancels the subscription to all rows but these; no state is requested */
};

/* A worker that has received nothing for a while reports how far it is. The server always answers, but without rows
 * that it sent before: these may still be on their way. Connections keep order, so the answer arrives after these rows
 * and after the answers to all earlier messages. What has not arrived by then was lost: the worker requests or sends it
 * again. */
struct message_pull {
    uint32_t partition;
    uint64_t number; /* counts a worker's PULLs about a partition, from 1; the answer repeats it */
    uint64_t clock;  /* the worker has the state at this clock */
    uint8_t again;   /* 1: what was sent beyond `clock` was lost: send what changed since */
};

/* State of a partition. Frames: the rows of the receiver's subscription that changed in clocks (from_clock, clock];
 * none when nothing changed. */
struct message_push {
    uint32_t partition;
    uint64_t from_clock;
    uint64_t clock;
    uint64_t durable; /* the partition's state at this clock is on a reliable machine */
    /* Reliable machines also have the states at the commit points from this clock to `durable`, except those before the
     * newest committed one. */
    uint64_t durable_from;
    uint64_t received; /* flushes of the receiver's origin of part 0 have arrived up to this clock, without a gap */
    uint32_t pieces;   /* pieces that have arrived of the flush of clock `received` + 1, without a gap */
    uint64_t request;  /* the SUBSCRIBE that this answers; the frames then have its rows; 0: none */
    /* The PULL that this answers; 0: none. In an answer without rows, both clocks are the one up to which rows were
     * sent before. */
    uint64_t pull;
    uint64_t subscribed; /* answering a PULL: the receiver's last SUBSCRIBE that the replica has applied; 0: none */
    uint8_t left_out;    /* 1: rows were left out that the receiver has already, as the only origin */
    uint64_t ring; /* the digest of the ring by which this PUSH travels; 0: it travels directly. In an answer to PULL
                      without rows, not 0: the rows up to `clock` travel by a ring and may arrive later */
};

/* An origin's summed deltas of one clock for one partition. By a ring: the sum of the flushes of all origins from the
 * chain's first to `origin` (ps/ring.h). Frames: rows; none when no row changed.
 *
 * Clocks without work (agileml/collective/strategy.h) are delivered with the next one: `idle` counts those
 * before `clock`. Such a flush is whole and travels directly.
 *
 * A flush that travels directly may come in pieces: several messages with different rows. The flush counts when all
 * pieces have arrived; an incomplete flush is dropped at the end of the epoch. A piece is taken only after the piece
 * before it. */
struct message_flush {
    uint32_t partition;
    actor_id origin;
    uint64_t clock;
    uint32_t idle;      /* clocks without work before `clock` that this flush delivers, too */
    uint32_t piece;     /* number of this piece, from 0 */
    uint8_t more;       /* 1: more pieces of the flush follow */
    uint64_t ring;      /* the digest of the ring by which this flush travels; 0: directly */
    uint64_t committed; /* every partition is durable up to this clock, so earlier states need not be kept */
};

/* A follower reports how far it is: after each UPDATE, and again when it has received nothing for a while. Missing
 * updates may still be on their way, so, as for a PULL, the answer only reports what was sent. */
struct message_follow {
    uint32_t partition;
    uint64_t number;   /* counts a replica's FOLLOWs, from 1 */
    uint8_t again;     /* 1: what was sent beyond `clock` or `cursor` was lost: send it again */
    uint8_t caught_up; /* 1: the follower has the state at `clock`; 0: it is being copied: send the piece at `cursor` */
    uint64_t clock;    /* the follower's clock; while it is being copied, the `from_clock` of its pieces */
    uint64_t cursor;   /* 0 at first, then UPDATE's `next`; UINT64_MAX: all pieces are here, send what changed */
};

/* Rows for a follower. Frames: rows. These are a piece of the copy; or, without `piece`, all rows that changed in
 * (from_clock, clock], as of the commit point `clock`. */
struct message_update {
    uint32_t partition;
    uint8_t piece; /* 1: a piece of the copy */
    /* In a piece: the server's clock when the copy began. Once the follower has all pieces, it requests the rows that
     * changed since. */
    uint64_t from_clock;
    uint64_t clock;
    uint64_t committed;
    uint64_t cursor, next; /* in a piece: FOLLOW's cursor, and the next piece's; `next` 0: the last piece */
    uint64_t follow;       /* not 0: no rows; answers this FOLLOW by describing, in the other fields, what was sent
                              before */
};

/* Read a whole table, in pieces, at the partition's present clock. */
struct message_scan {
    uint32_t partition;
    uint32_t table;
    uint64_t cursor;    /* 0 at first, then ROWS's `next` */
    uint64_t min_clock; /* the answer waits until the partition has reached this clock */
};

/* The answer to SCAN: a piece of a table. Frames: rows. */
struct message_rows {
    uint32_t partition;
    uint32_t table;
    uint64_t cursor; /* of the SCAN that this answers */
    uint64_t next;   /* the cursor of the next piece; 0: this is the last piece */
};

/* Probes whether a process still runs (docs/design.md, "Pulses"). Sent by pulses, and by the controller.
 *
 *   PULSE_ASK      to a pulse, from another pulse or from the controller: do you run?
 *   PULSE_ANSWER   from the pulse. Also sent to the controller unasked, with number 0, so that the controller can ask
 *   PULSE_SUSPECT  to the controller: the connection to the suspect's pulse has broken, or that pulse does not answer
 *
 * After a suspicion the controller asks the suspect itself. */
enum pulse_kind { PULSE_ASK = 0, PULSE_ANSWER, PULSE_SUSPECT };

struct message_pulse {
    uint8_t kind;     /* enum pulse_kind */
    uint64_t number;  /* of the question, unique for its sender; PULSE_SUSPECT: the number of unanswered questions */
    actor_id suspect; /* PULSE_SUSPECT: the node, part 0; else 0 */
};

struct message {
    enum message_type type;
    uint64_t epoch; /* of the sender's plan; 0: it has none yet */
    union {
        struct message_register registration;
        struct message_welcome welcome;
        struct message_plan plan;
        struct message_packed_plan packed_plan;
        struct message_input input;
        struct message_loaded loaded;
        struct message_start start;
        struct message_progress progress;
        struct message_evaluate evaluate;
        struct message_heartbeat heartbeat;
        struct message_heartbeat_ack heartbeat_ack;
        struct message_fenced fenced;
        struct message_replicas replicas;
        struct message_crashed crashed;
        struct message_accuse accuse;
        struct message_waits waits;
        struct message_evict evict;
        struct message_gone gone; /* begins as message_evict */
        struct message_allocation allocation;
        struct message_note note;
        struct message_app_note app_note;
        struct message_revoke revoke;
        struct message_outcome outcome;
        struct message_status status;
        struct message_checkpoint checkpoint;
        struct message_written written;
        struct message_checkpoint_now checkpoint_now;
        struct message_save save;
        struct message_saved saved;
        struct message_empty empty; /* DONE, LEAVE, FENCE, REJOIN */
        struct message_text text;   /* FAIL, ABORT, STOP */
        struct message_observe observe;
        struct message_report report;
        struct message_subscribe subscribe;
        struct message_pull pull;
        struct message_push push;
        struct message_flush flush;
        struct message_scan scan;
        struct message_rows rows;
        struct message_follow follow;
        struct message_update update;
        struct message_peer peer;
        struct message_pulse pulse;
    };
    unsigned frame_count;
    struct buffer *frames[MESSAGE_FRAMES_MAX]; /* one reference each, owned by the message */
};

/* ---- Records in payload frames: packed by construction, little-endian ---- */

/* What a node is for. A feeder makes batches for the nodes that work (docs/design.md, "Feeders"): it serves and follows
 * no partition and has no assignment, so its loss needs no recovery. */
enum node_tier { TIER_RELIABLE = 0, TIER_TRANSIENT = 1, TIER_FEEDER = 2, TIERS = 3 };

/* How far a node is. */
enum node_state {
    NODE_REGISTERING = 0, /* no plan yet */
    NODE_LOADING = 1,     /* reading its data shards */
    NODE_LOADED = 2,      /* has its data and its rows' first state: ready for clock 1 */
    NODE_STARTED = 3,     /* has received START */
    NODE_FINISHED = 4     /* has finished the last clock */
};

/* What a node waits for before it can begin its next work. */
enum node_waits {
    NODE_WAITS_NOT,     /* it works */
    NODE_WAITS_INPUT,   /* its data: it reads, or asks other nodes, or the controller has not compared it */
    NODE_WAITS_ROWS,    /* the state of rows, of a server */
    NODE_WAITS_COMMIT,  /* a commit point, of a server */
    NODE_WAITS_BARRIER, /* to be allowed beyond the barrier's clock */
    NODE_WAITS_TURN,    /* it has no clock to begin */
    NODE_WAITS          /* how many there are */
};

struct wire_endpoint {
    actor_id actor;
    char endpoint[WIRE_ENDPOINT_MAX]; /* tcp://HOST:PORT, 0-terminated */
};

struct wire_metric {
    char name[WIRE_NAME_MAX];
    uint32_t kind;      /* enum aml_metric_kind */
    uint32_t evaluated; /* 1: the value at the latest clock counts; 0: the sum over an iteration's clocks */
};

/* A file of the input, or a folder. The last of WIRE_INPUT_FILES_MAX records may stand for several files. */
struct wire_input_file {
    char path[WIRE_PATH_MAX]; /* as the app named it; of a longer path only the end */
    uint64_t bytes;
    /* Hashes of samples of a file that the library has read: of blocks spread over the file, and of blocks around the
     * borders of the parts in which it was read. 0: no hash. */
    uint64_t blocks, borders;
};

/* The hash of a range: of the bytes of a file that one part of a divided input has. */
struct wire_input_range {
    uint64_t first, end; /* the range's bytes are [first, end) of the file */
    uint64_t hash;
    uint32_t part;    /* of the input, from 0 */
    uint16_t file;    /* its record among INPUT's files. Of the last record's files there is one hash over all ranges */
    uint16_t sampled; /* 0: the hash is of all bytes. 1: of blocks of them, which are read a second time */
};

/* An option of the app's command line that changes results; or a fact that the app has found in its input
 * (aml_input_mark). */
struct wire_option {
    char name[WIRE_OPTION_MAX];  /* without the dashes, not empty */
    char value[WIRE_OPTION_MAX]; /* as people write it; of a found fact, its hash */
    uint32_t steers;             /* 1: a job resumed from a checkpoint may have another value */
    uint32_t found;              /* 1: a fact found in the input; it must be the same at all nodes of one job */
};

/* A node's name, 0-terminated. */
struct wire_name {
    char name[WIRE_NAME_MAX];
};

struct wire_server_wait {
    actor_id node;    /* the server's */
    uint64_t wait_us; /* time by which its state came after the earliest server's, summed over clocks */
};

struct wire_metric_sum {
    double sum;
    double weight;
};

struct wire_node {
    actor_id actor; /* part 0 */
    uint64_t group; /* the same number for nodes that may all fail at once */
    char name[WIRE_NAME_MAX];
    char key[WIRE_KEY_MAX]; /* the public key of the node's process; empty in a job without a key */
    uint32_t tier;
    uint32_t threads;
};

/* A machine that is to become a node. */
struct wire_machine {
    char name[WIRE_NAME_MAX]; /* the node's, not empty */
    uint32_t tier;
};

/* The server threads that serve a partition (`server`) and follow it (`backup`, which may be ACTOR_NONE). Both halves
 * are equal while no change is under way. */
struct wire_placement {
    actor_id server, backup;           /* in clocks below the plan's from_clock */
    actor_id next_server, next_backup; /* from from_clock on */
};

/* `origin` works on these data shards in these clocks. At each clock a shard is in exactly one assignment. An origin
 * may have several assignments, of different clocks. */
struct wire_assignment {
    actor_id origin;
    uint64_t from_clock;   /* the first clock; WIRE_CLOCK_NEVER: not decided yet, but load the data already */
    uint64_t until_clock;  /* the last clock; WIRE_CLOCK_NEVER: without end */
    uint32_t first, count; /* its shards in the plan's frame of shards; count >= 1 */
};

/* A clock to which a replica can be restored: one record for each such clock. */
struct wire_restore_point {
    actor_id server;
    uint32_t partition;
    uint32_t cache; /* 1: the server has no replica with this state, but can build it from its node's cache */
    uint64_t clock;
};

/* ---- Encoding ---- */

/* Returns "reliable", "transient" or "feeder", as users write it. */
const char *tier_name(enum node_tier tier);
/* Finds the tier of this name. Returns false when there is none. */
bool tier_of_name(const char *name, enum node_tier *tier);
#define TIER_NAMES "reliable, transient or feeder"

/* Returns the message's name, for people; "unknown" for a number that no message has. */
const char *message_name(unsigned type);
/* Prints the type, the epoch and all fields by name, for a trace, as one line without its end. Leaves out payload
 * frames. */
void message_print(FILE *out, const struct message *message);

/* The roles that a process may have in a job, as a set of bits. */
enum wire_role {
    ROLE_OPERATOR = 1, /* may steer the job, and do all that an observer may */
    ROLE_NODE = 2,     /* may take part */
    ROLE_OBSERVER = 4, /* may look */
    ROLE_OWNER = 8,    /* holds the job's key: may revoke tokens */
    ROLES_ALL = 15
};

/* Returns the roles in which another process may send this message; 0: only the controller sends it, or it stays within
 * a process. */
unsigned message_roles(const struct message *message);

/* Writes the head frame into `head` (WIRE_HEAD_MAX bytes) and returns its size. */
size_t message_encode_head(const struct message *message, unsigned char *head);

/* Decodes a head frame and checks it: version, type, size, the end of every text, the limit of every number. Also
 * checks the payload frames, which the caller has put into the message: their number, and the sizes and contents of
 * their records. Leaves the contents of frames of rows to rows_check. Returns 0 or AML_EPROTOCOL. */
int message_decode_head(struct message *message, const void *head, size_t size, struct error *error);

/* Returns a copy of the message, to send or to keep, with references of its own to the frames. */
struct message message_share(const struct message *message);

/* Returns the bytes of all frames. */
size_t message_frame_bytes(const struct message *message);

/* Drops the reference to every frame. The message may be used anew. */
void message_close(struct message *message);

#endif
