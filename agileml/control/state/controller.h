/* The elasticity controller (Proteus (EuroSys 2017), section 3): registers nodes, makes the plans (plan.h), starts the
 * job and sums up its progress. Changes the plan when nodes join, are to leave, or have failed (docs/design.md,
 * "Plans"). Decides the last clock, has checkpoints written and the model saved, and ends the job. The controller is a
 * state machine behind struct io. It stores each decision before it sends a message that depends on the decision. */
#ifndef AGILEML_CONTROL_CONTROLLER_H
#define AGILEML_CONTROL_CONTROLLER_H

#include "agileml/control/decide/lost.h"
#include "agileml/control/decide/monitor.h"
#include "agileml/control/decide/plan.h"
#include "agileml/control/decide/schedule.h"
#include "agileml/control/state/accusations.h"
#include "agileml/control/state/answers.h"
#include "agileml/control/state/app_notes.h"
#include "agileml/control/state/feeding.h"
#include "agileml/control/state/folder_task.h"
#include "agileml/control/state/job_ranges.h"
#include "agileml/control/state/pulses.h"
#include "agileml/control/state/rebalance.h"
#include "agileml/control/state/revoked.h"
#include "agileml/control/state/silence.h"
#include "agileml/control/state/stages.h"
#include "agileml/control/state/store.h"
#include "agileml/control/state/strategies.h"
#include "agileml/control/state/waiting.h"
#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

enum {
    CONTROLLER_OBSERVERS_MAX = 64,
    CONTROLLER_OBSERVER_GONE_US = 10 * 1000 * 1000, /* an observer that is silent for so long loses its place */
    CONTROLLER_MESSAGE_BYTES = 1 << 26, /* of one message to the controller: four times the largest FENCED */
    CONTROLLER_CRASHES_MAX = 16,
    CONTROLLER_LINES_MAX = 1 << 15,           /* report lines kept for observers that fall behind or come late */
    CONTROLLER_BURST_MAX = 512,               /* report lines sent for one OBSERVE; the observer then requests more */
    CONTROLLER_END_WAIT_US = 2 * 1000 * 1000, /* wait for nodes to leave, and for observers to read the last line */
    /* After a node has joined or was evicted, the next plan waits this long for others that join or are evicted. */
    CONTROLLER_JOIN_WAIT_US = 50 * 1000,
    CONTROLLER_NOTICE_PART = 20,  /* after an eviction the next plan waits at most this fraction (1/20) of the notice */
    CONTROLLER_PLAN_SEND_US = 20, /* approximate time to send a plan to one node */
    /* From a plan to the next change that need not hurry, for each member: every plan goes to every member. */
    CONTROLLER_CHANGE_GAP_US = 10 * 1000,
    /* When several machines are expected, the plan for the first of them waits this long for the others. */
    CONTROLLER_EXPECTED_WAIT_US = 3 * 1000 * 1000,
    CONTROLLER_STORE_US = 20 * 1000,      /* longest delay until new progress is stored and acknowledged */
    CONTROLLER_CLOCK_LINE_US = 20 * 1000, /* shortest time between two report lines of clocks without evaluation */
    CONTROLLER_SHARDS_DEFAULT = 1024,
    CONTROLLER_SHARDS_PER_NODE = 64,     /* the wanted number, so that shares can change in fine steps */
    CONTROLLER_SHARDS_FINE_MAX = 16384,  /* shards up to which that number is kept: a PLAN has 4 bytes per shard */
    CONTROLLER_SHARDS_PER_NODE_MIN = 16, /* the least number beyond that, as far as WIRE_SHARDS_MAX allows */
    CONTROLLER_CHECKPOINT_REQUESTS_MAX = 16,
    CONTROLLER_REPLACE_NOTICE_MS = 60 * 1000, /* notice for a straggler that another node is to replace */
    CONTROLLER_REMOVED_MAX = 64,              /* removed incarnations that the controller remembers */
    /* PROGRESS is accepted this many clocks further ahead of the slowest origin's PROGRESS than staleness and window
     * allow: the slowest origin's flushes may have arrived while its PROGRESS is late. */
    CONTROLLER_AHEAD_MAX = 256,
};

struct controller_options {
    unsigned reliable, transient;      /* nodes to wait for before training begins; more may join later */
    struct plan_policy policy;         /* its stage may be STAGE_AUTO */
    struct plan_thresholds thresholds; /* of STAGE_AUTO; 0: learned, beginning with the paper's thresholds */
    uint32_t commit_every;             /* clocks; 0: the controller chooses */
    uint32_t heartbeat_ms;
    uint32_t timeout_ms;       /* a node that is silent for longer than this has failed */
    uint32_t answer_ms;        /* a node that owes an answer for longer than this has failed; at least timeout_ms */
    uint32_t probe_ms;         /* nodes' pulses probe one another this often; 0: never */
    uint32_t start_timeout_ms; /* how long to wait for all nodes to register */
    double window_short, window_long; /* the monitor's windows, in seconds; 0: its defaults */
    aml_balance_policy *balance;      /* the policy for nodes of different speeds; NULL: none */
    uint32_t replacements;            /* most stragglers that the policy may replace */
    uint32_t feeders_max;             /* most feeders that the controller may choose; 0: it chooses none */
    uint32_t feeder_threads;          /* most threads of all these feeders together; 0: one thread each */
    const char *checkpoint;           /* the directory, or s3://BUCKET/PREFIX; NULL: no checkpoints are written */
    uint32_t checkpoint_every;        /* iterations */
    bool checkpoint_at_end;           /* also write a checkpoint of the job's last clock */
    const char *resume;               /* a directory that holds a checkpoint; NULL: start at clock 0 */
    bool observed; /* a launcher started all nodes with the same options, and observes: the job's end waits for its
                            OBSERVE */
    struct store *store; /* owned by the caller; NULL: nothing is stored */
    /* Takes over a task and runs it in another thread. Then controller_folder_done must be called. Tasks are run in
     * their order. NULL: the controller runs each task at once. */
    void (*folder_task)(void *context, struct folder_task *task);
    void (*end)(void *context, int code, const char *text); /* called once, when the job is over and the
                                                               controller waits for nobody any more */
    void *context;
};

/* The phases of a job; controller_set_phase makes the transitions:
 *
 *   GATHER --nodes registered--> LOAD --data loaded--> TRAIN --last clock done--> SAVE --saved--> LEAVE --> ENDED
 *                                                        ^---a new epoch----------'
 *
 * A failure or an ABORT leads from each phase before LEAVE to LEAVE. A controller that is started again after the end
 * is in LEAVE. */
enum controller_phase { PHASE_GATHER, PHASE_LOAD, PHASE_TRAIN, PHASE_SAVE, PHASE_LEAVE, PHASE_ENDED };

/* A change of plan under way. */
enum change {
    CHANGE_NONE,
    CHANGE_PREPARE, /* nodes prepare for the plan's `next_` half, which has no clock yet */
    CHANGE_BARRIER, /* all nodes are prepared: a barrier names the switch's clock */
    CHANGE_SWITCH,  /* the switch's clock is named; lasts until clocks beyond the switch are committed */
    CHANGE_RECOVER  /* nodes were lost: the others are fenced and report which clocks they can restore */
};

/* The purpose of the barrier, that is, of the clock that members are asked not to pass. */
enum barrier_purpose { BARRIER_SWITCH /* the plan changes */, BARRIER_STOP /* the job ends */, BARRIER_CHECKPOINT };

struct barrier {
    uint64_t number; /* grows when a barrier is set or lifted */
    uint64_t clock;  /* WIRE_CLOCK_NEVER: there is no barrier */
    enum barrier_purpose purpose;
};

/* Whether a member stays in the job. member_set_stay makes the transitions; a lost member is removed from any state.
 *
 *   STAYS --evicted--> LEAVING --no plan or evaluation needs it; DONE is sent--> DISMISSED --sends LEAVE--> removed */
enum member_stay {
    MEMBER_STAYS,
    MEMBER_LEAVING,   /* new plans have no part for the member, but the present plan may */
    MEMBER_DISMISSED, /* the member has no part in any plan */
};

/* The plan and barrier that the member obeys, as its last HEARTBEAT reports. */
struct member_goes_by {
    uint64_t epoch;
    uint64_t version; /* of the plan */
    uint64_t ready;   /* the plan version that the member is ready to switch to */
    uint64_t barrier; /* number of the barrier */
    uint64_t sent;    /* the version of the plan that was last sent to the member. Not stored */
    uint64_t plan_us; /* when that was */
    uint64_t told_us; /* when the member first reported this version. Not stored */
};

/* How far a member has reported. */
struct member_reported {
    uint64_t clock;           /* the highest clock begun */
    uint64_t catch_up;        /* this epoch's catch-up origin has reported the clocks up to this one */
    uint64_t catch_up_stored; /* the store has the catch-up origin's reports up to this clock */
    uint64_t acknowledged;    /* the last HEARTBEAT_ACK to the member acknowledged the clocks up to this one */
    uint64_t computed_us; /* when the member would have computed its last clock; see controller_clocks. Not stored */
};

struct member_usage {
    struct node_numbers numbers; /* as the member last reported them */
    uint64_t items;              /* of completed clocks */
    uint64_t worked_us; /* how long training had lasted when the member joined, plus the time of its clocks since */
};

/* A member's answer to FENCE, in a recovery. Only recover.c changes it. */
struct member_fence {
    bool answered; /* the member has answered, or need not answer */
    uint64_t begun, committed;
    struct buffer *restore_points;
};

/* What the report's last line about the member says, so that only changes are reported. Only nodes.c changes it. */
struct member_shown {
    bool known; /* the report has such a line */
    enum node_state state;
    bool leaving;
    unsigned threads;
    uint32_t shards;
    uint64_t roles; /* digest of the partitions that it serves and follows */
};

/* By what the member was let in. */
struct member_pass {
    char key[WIRE_KEY_MAX]; /* its process's public key */
    uint64_t token;         /* serial number of its token; 0: none */
};

struct member {
    struct plan_node node;
    char name[WIRE_NAME_MAX];
    struct member_pass pass;
    char host[WIRE_HOST_MAX];
    char group[WIRE_NAME_MAX]; /* nodes of one group may fail together; empty: the host is the group */
    uint64_t process_id;
    uint64_t slice;           /* items that the node works on at once; 0: any number */
    uint32_t threads_max;     /* of a feeder: most threads that the controller may choose; 0: always node.threads */
    struct buffer *endpoints; /* struct wire_endpoint each */
    enum node_state state;    /* as the member's last HEARTBEAT reports */
    enum member_stay stay;
    bool welcome_due; /* not stored yet: nodes that register at once are stored together, then welcomed */
    bool loaded;
    bool named;          /* the plan in force names the member, so servers and peers know it */
    bool planned;        /* the plan that is being made has a part for the member */
    bool settled;        /* the member has had a part in a plan that took effect */
    bool left;           /* the member has sent LEAVE, or its process has ended: the job's end does not wait for it */
    uint64_t evicted_us; /* when the eviction was requested */
    struct member_goes_by goes_by;
    struct member_reported reported;
    struct silence silence;
    struct member_pulse pulse;
    struct owed owed;
    struct member_waiting waiting;
    uint64_t joined_us;
    struct member_usage usage;
    struct member_feeding feeding;
    uint64_t input; /* number of the last INPUT equal to the job's; 0: none. Not stored: the node repeats INPUT */
    struct member_fence fence;
    struct member_shown shown;
};

/* The end of a node's process by a crash of its app. */
struct crash {
    actor_id node;
    char name[WIRE_NAME_MAX];
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    enum node_tier tier;
    struct message_crashed facts;
    bool told;      /* the node itself sent CRASHED; otherwise only the signal is known, and roughly the clock */
    bool recovered; /* the other nodes have recovered from the loss of this node */
};

/* Oldest first. Only crashes.c changes them. */
struct controller_crashes {
    struct crash_list {
        struct crash list[CONTROLLER_CRASHES_MAX];
        unsigned count;
    } known;                 /* the last crashes: a new crash is compared with these */
    struct crash_list ended; /* the last nodes that were given up because their processes had ended. A launcher may
                                report later that they have crashed. Not stored */
};

/* What one origin reported of one clock. */
struct clock_report {
    actor_id origin;
    uint64_t items, items_fed;
    uint64_t helped;      /* items in lots that other nodes have worked on; part of `items` */
    uint64_t clock_us;    /* how long the origin took for the clock, waiting included */
    uint64_t compute_us;  /* how long it computed, scaled up to all of its items if others helped */
    uint64_t evaluate_us; /* how long it evaluated; part of clock_us */
    uint64_t starved_us;  /* how long it waited for batches, or ran transforms that feeders may run */
    bool evaluation;      /* evaluated in place of a lost node whose work on the clock remains valid (lost.h) */
    bool last;            /* evaluated as the job's last clock, in the complete state at that clock */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

/* The reports of one clock. */
struct clock_window {
    uint64_t clock; /* 0: the entry is free */
    struct clock_report *reports;
    unsigned count, capacity;
};

/* The number of origins that a clock has under a version of the plan. */
struct clock_origins {
    uint64_t clock, version;
    unsigned count;
};

/* What nodes have reported of clocks. Only progress.c changes it; the monitor also changes when nodes leave. Not
 * stored. */
struct controller_clocks {
    struct clock_window *window; /* clock c is at index c % entries */
    struct clock_origins origins; /* of the clock for which progress.c has counted them last */
    uint64_t completed_us;       /* when this controller last completed a clock; 0: it has completed none */
    uint64_t lasted_us;          /* how long that clock took */
    uint64_t worked_us;          /* how long the clocks of the iteration under way took, without evaluations */
    /* When all nodes would have computed each clock if the exchange took no time, but nodes waited for each other as
     * the staleness demands. Microseconds from an arbitrary start; clock c is at index c % entries. */
    uint64_t computed_us[WIRE_STALENESS_MAX + 2];
    uint64_t computed_from_us; /* computed_us of the previous iteration's last clock */
    struct monitor monitor;
};

/* The job's progress. The store has an exact copy of these bytes. */
struct controller_progress {
    uint64_t completed;              /* every origin has reported the clocks up to this one */
    struct clock_sums iteration;     /* of the iteration under way */
    double objective;                /* of the last iteration */
    double values[WIRE_METRICS_MAX]; /* the metrics' values of the last iteration */
    uint64_t evaluated;              /* iterations for which `values` were computed; 0: none yet */
    double covered;                  /* share of the last iteration's items that its metrics cover; 1: all */
    double compared;                 /* the objective of the last iteration whose metrics cover all items */
    uint64_t compared_count;         /* iterations whose metrics cover all items */
    uint32_t calm;                   /* the latest of these in a row that changed less than the tolerance */
    uint64_t items_processed;        /* each item counts once an iteration */
    uint64_t items_redone;           /* items processed again, in clocks that a lost node had begun */
    uint64_t items_helped;           /* items of a node's lots that other nodes have worked on */
    uint64_t items_fed;              /* from batches that feeders have made */
    uint64_t feed_wait_us;           /* how long clocks waited for batches, summed over nodes */
    uint64_t iteration_items_fed, iteration_feed_wait_us; /* the same, up to the iteration's start */
    uint64_t failures, evictions;
    uint64_t trained_us;           /* how long training lasted under earlier runs of the controller */
    struct node_numbers gone;      /* sums over nodes that are gone */
    uint64_t iteration_bytes_sent; /* by all nodes, up to the iteration's start */
    uint64_t iteration_bytes_received;
    uint64_t first;                   /* the clock at which the job began: 0, or the clock of the resumed checkpoint */
    uint64_t before_us, before_items; /* training time and items processed up to `first`, by earlier jobs */
    bool reliable_lost; /* a reliable node was lost without warning, perhaps with the only copy of state */
    struct rebalance_kept rebalance;
    struct feeding_kept feeding;
    struct app_notes_kept notes;
};

/* A checkpoint under way:
 *
 *   NONE --> BEGIN --> BEGUN --> BARRIER --> ASK --> WRITE --> FINISH --> NONE
 *
 * At the job's end no barrier is needed, and BEGUN is followed by ASK. A checkpoint that fails or is put off returns to
 * NONE from any state. In FINISH it can't be put off, as nothing depends on the nodes any more. */
enum checkpoint_state {
    CHECKPOINT_NONE,
    CHECKPOINT_BEGIN,   /* the folder is being made */
    CHECKPOINT_BEGUN,   /* the folder is there */
    CHECKPOINT_BARRIER, /* a barrier asks members not to pass the checkpoint's clock */
    CHECKPOINT_ASK,     /* no member has passed the clock: the chosen replicas are asked to write it */
    CHECKPOINT_WRITE,   /* all chosen replicas have promised: the barrier is lifted */
    CHECKPOINT_FINISH   /* all files are written: the manifest is being written */
};

/* An operator's request for a checkpoint. */
struct checkpoint_request {
    actor_id from; /* ACTOR_NONE: the entry is free */
    uint64_t request;
    bool begun;    /* the checkpoint under way has a clock after the request, and so answers it */
    bool answered; /* an OUTCOME with `code` and `text` was sent */
    int code;
    char text[ERROR_TEXT_MAX];
};

struct controller_checkpoint {
    enum checkpoint_state state;
    enum checkpoint_state after; /* what follows CHECKPOINT_BEGUN */
    unsigned tasks;              /* folder tasks that are not finished; until then no attempt begins */
    struct checkpoint_kept {
        uint64_t number;  /* of the last attempt */
        uint64_t due;     /* the iteration at whose end, or later, the next checkpoint is written */
        uint64_t written; /* the clock of the newest checkpoint that this job has written; 0: none */
        bool slow;        /* the report has a `checkpoint-slow` line */
    } kept;               /* the stored part */
    uint64_t clock;
    char path[WIRE_PATH_MAX]; /* of the unfinished folder */
    struct checkpoint_file {
        actor_id writer; /* the replica's server */
        bool promised, written;
        uint64_t bytes;
        uint32_t checksum;
    } * files;                     /* by partition */
    bool reported;                 /* every origin has reported the checkpoint's clock */
    struct controller_progress at; /* the job's progress at that clock, once `reported` */
    uint64_t begun_us;
    uint64_t retry_us;            /* no attempt begins before then */
    unsigned failures;            /* since the last success */
    unsigned refusals;            /* since the last success or failure */
    bool given_up;                /* the checkpoint of the job's last clock has failed */
    char failure[ERROR_TEXT_MAX]; /* why the last failed attempt failed */
    struct checkpoint_request requests[CONTROLLER_CHECKPOINT_REQUESTS_MAX];
};

/* What is known of the job's input. */
struct controller_input {
    struct job_input job; /* its fingerprint */
    bool stored;
    struct job_ranges ranges; /* of this job, not of a checkpoint's */
};

/* Machines that are allocated to the job and have not joined it yet, sorted by name. Only expected.c changes the list.
 * It is not stored: the sender of ALLOCATION repeats it. */
struct controller_expected {
    struct wire_machine *machines;
    uint64_t *since_us; /* when the controller first heard of each machine */
    size_t count;
};

/* The job, as the first registered node has described it. All nodes must agree. */
struct controller_job {
    struct job_terms terms;
    struct buffer *settings; /* struct wire_option each; until a node registers, those of the checkpoint; NULL: none */
    struct wire_metric metrics[WIRE_METRICS_MAX];
    unsigned metric_count;
    uint64_t items; /* training items of all nodes together */
    double totals[WIRE_TOTALS];
    uint64_t final; /* the last clock; 0: not known yet */
    bool stopping;  /* a barrier is to decide the last clock */
    /* Of the checkpoint from which the job resumes; 0: none. Needed until the first node registers. */
    struct strategy_clocks resumed_clocks;
    enum strategy resumed_strategy;
    char resume[WIRE_PATH_MAX]; /* the checkpoint's path */
};

/* The plan in force. change.c changes it; recover.c changes it when an epoch begins. */
struct controller_plan {
    struct plan_view view;   /* the PLAN message as sent */
    struct plan_view before; /* the plan before `view`; empty: this controller has made no other */
    struct message whole;    /* `view` as PACKED_PLAN; no frame: it is not packed yet */
    struct message changed;  /* the same for members to which `before` was sent last */
    uint64_t epoch, version; /* the highest numbers that were ever used */
    enum stage stage;
    struct wire_placement *placement; /* by partition */
    struct schedule schedule;
    actor_id *previous;  /* by shard: the previous owner, which may still have the shard's data */
    uint64_t from_clock; /* the first clock of the `next_` half; 0: no such half; WIRE_CLOCK_NEVER: not named yet */
    uint64_t restore;    /* the clock from which the epoch goes on */
    uint32_t commit_every;
    enum strategy strategy, next_strategy; /* before strategy_from, and from that clock on */
    uint64_t strategy_from;
    bool names_absent;     /* the plan names members that were removed or dismissed */
    uint64_t published_us; /* when the last version was sent to all members; 0: not since this controller's start */
    bool steady;           /* unchanged since the iteration began, so the tuner may use its time; not stored */
};

/* The change of plan under way, and when the next change is due. change.c and recover.c change it; `state` changes only
 * by change_set. */
struct controller_change {
    enum change state;
    enum stage next_stage; /* of the plan that is being prepared */
    uint32_t next_commit_every;
    enum strategy strategy; /* the wanted strategy; a change of plan at the first clock of a group puts it in force */
    uint64_t began_us; /* when the change's first plan was made; 0 after a restart of the controller, as the next two */
    uint64_t ready_us; /* when all nodes were ready for the change's last plan */
    uint64_t named_us; /* when every node and server had the plan that names the switch's clock */
    bool due;          /* the desired plan may differ from the present one */
    uint64_t due_us;   /* no change begins before this time, as more nodes may join or leave */
};

struct controller_commit {
    uint64_t clock;   /* the committed clock: no recovery restores an earlier clock */
    uint64_t claimed; /* the highest clock that a member has reported as committed. It counts only up to the last
                         completed clock. Not stored: members repeat the report */
    uint32_t chosen;  /* the lengthened interval between commit points, in clocks; 0: not lengthened */
    unsigned late;    /* iterations in a row at whose end the commit was far behind */
};

struct controller_recovery {
    uint64_t lost_us;      /* when the first node of the recovery was lost */
    uint32_t cached;       /* partitions that the last recovery has restored from nodes' caches */
    uint64_t redone_until; /* up to this clock, catch-ups repeat work that a lost node had begun */
    uint64_t mixed_until;  /* nodes had begun this clock; up to it they may evaluate a clock in another one's state */
};

/* The report's lines, and the observers that read them. */
struct controller_report {
    char **lines;      /* the last lines, from number `first` on */
    size_t first;      /* number of the oldest line kept in memory */
    size_t count;      /* lines of the whole report so far */
    size_t stored;     /* lines below this number are stored, and may be sent to observers */
    size_t pruned;     /* the store has dropped the lines below this number */
    uint64_t clock_us; /* when the last line about a clock was written */
    struct report_reader {
        actor_id actor;
        size_t read; /* lines that the observer has */
    } observers[CONTROLLER_OBSERVERS_MAX];
    unsigned observer_count;
    uint64_t heard_us[CONTROLLER_OBSERVERS_MAX]; /* when each observer last sent OBSERVE. Not stored */
    struct {
        actor_id actor;
        uint64_t request;
    } noted; /* the last NOTE that was reported, and its sender. Not stored */
};

/* When the report's next lines about nodes are due. Only nodes.c changes it. Not stored: after a restart the controller
 * reports all nodes again. */
struct controller_nodes {
    uint64_t due_us;   /* no line `nodes` is written before this time */
    uint64_t usage_us; /* no line `usage` is written before this time */
    uint64_t version;  /* of the plan from which `shown.roles` and `shown.shards` were computed */
    bool switched;     /* that plan's `next_` half was in force */
    struct node_gone {
        char name[WIRE_NAME_MAX];
        bool lost;
        struct member_usage usage;
    } * gone; /* removed members that the report has not named yet */
    size_t gone_count;
};

/* How far the store is behind. */
struct controller_stored {
    bool due;               /* some progress is not stored yet */
    uint64_t due_us;        /* when this progress is to be stored */
    uint64_t registered_us; /* when newly registered members were last stored */
    uint64_t completed;     /* the last completed clock that the store has */
};

/* Decisions about the whole job. Any function may record one. Only `carry_out` (controller.c) carries them out, in the
 * order below. `settle`, which each callback calls last, calls it. GONE and CRASHED are answered only after another
 * call.
 *
 *   1. end     from now on nothing is planned, and only the outcome is sent
 *   2. fence   the epoch ends; the change of plan and the checkpoint under way are given up
 *   3. cancel  the change may be given up; void after a fence, which has done so
 *
 * Then come the steps of a recovery, checkpoint, change, clock and saving, which may record verdicts again. */
struct controller_verdicts {
    bool end;    /* the job ends as `controller.end` says; `phase` is PHASE_LEAVE already */
    bool fence;  /* members were lost: fence the others */
    bool cancel; /* a member without a part is gone: a change that has no clock yet may be void */
};

/* How the job has ended. */
struct controller_end {
    int code;
    char text[ERROR_TEXT_MAX];
    bool told;             /* the outcome may have been sent to members, so it is final. Not stored */
    uint64_t observers_us; /* the end waits until this time for observers to read the report */
    uint64_t members_us;   /* the end waits until this time for members to leave */
};

/* The saving of the model. Only save.c changes it. */
struct controller_save {
    uint32_t attempt;  /* from 1; 0: not begun */
    uint64_t retry_us; /* no SAVE is sent before this time */
};

/* A ring of the last removed nodes' incarnations. */
struct controller_removed {
    actor_id last[CONTROLLER_REMOVED_MAX];
    unsigned count; /* number of all nodes that this controller has removed */
};

struct controller_times {
    uint64_t began_us;   /* when this controller began */
    uint64_t started_us; /* when training began under this controller; 0: not yet */
    uint64_t tick_us;    /* when the timer is due */
};

/* The state of each feature (feature.h). Only the feature's own file changes it. */
struct controller_features {
    struct silences silence;
    struct pulses pulses;
    struct answers answers;
    struct accusations accusations;
    struct strategy_auto strategies;
    struct tuner stages;
    struct rebalance rebalance;
    struct feeding feeding;
    struct waiting waiting;
    struct revoked revoked;
};

struct controller {
    struct io *io;
    struct controller_options options;
    enum controller_phase phase;
    struct member *members; /* longest running first */
    unsigned member_count;
    struct controller_removed removed;
    struct controller_expected expected;
    struct controller_job job;
    struct controller_input input;
    struct controller_plan plan;
    struct controller_change change;
    struct barrier barrier;
    struct controller_commit commit;
    struct controller_recovery recovery;
    struct controller_verdicts verdicts;
    struct controller_progress progress;
    struct controller_clocks clocks;
    struct lost lost; /* the work of lost nodes on clocks that are not completed */
    struct controller_checkpoint checkpoint;
    struct controller_save save;
    struct controller_crashes crashes;
    struct controller_features features;
    struct controller_stored stored;
    struct controller_report report;
    struct controller_nodes nodes;
    struct controller_end end;
    struct controller_times times;
};

/* Returns the number of data shards of a job that begins with `nodes` nodes. */
uint32_t controller_shards(unsigned nodes);

/* Continues the job in the store, or begins a new job when the store is empty. Returns AML_EINPUT when the options are
 * out of range or do not fit the store or the checkpoint. */
int controller_init(struct controller *controller, struct io *io, const struct controller_options *options,
                    struct error *error);
void controller_close(struct controller *controller);

/* Ends the job and sends every process `text` as the reason. Called outside callbacks. */
void controller_abort(struct controller *controller, int code, const char *text);

/* Returns the report's line `number`, from 0; NULL when that line was dropped or is not written yet. */
const char *controller_line(const struct controller *controller, size_t number);

/* Changes the job's strategy, at the next clock at which that is possible. */
void controller_want_strategy(struct controller *controller, enum strategy strategy);

/* The actor's callbacks; `self` is a struct controller. */
void controller_receive(void *self, actor_id from, struct message *message);
void controller_timer(void *self);
void controller_broken(void *self, actor_id peer);
void controller_dialed(void *self, actor_id actor, uint64_t began_us, bool listens);
/* Takes over a finished task that options.folder_task had taken. Must be called in the controller's thread. */
void controller_folder_done(struct controller *controller, struct folder_task *task);

#endif
