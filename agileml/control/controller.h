/* The elasticity controller (Proteus (EuroSys 2017), section 3): registers nodes, makes the plans (plan.h), starts the
 * job and sums up its progress. Changes the plan when nodes join, are to leave, or have failed (docs/design.md,
 * "Plans"). Decides the last clock, has checkpoints written and the model saved, and ends the job. The controller is a
 * state machine behind struct io. It stores each decision before it sends a message that depends on the decision. */
#ifndef AGILEML_CONTROL_CONTROLLER_H
#define AGILEML_CONTROL_CONTROLLER_H

#include "agileml/balance.h"
#include "agileml/collective/strategy_auto.h"
#include "agileml/control/feeders.h"
#include "agileml/control/folder_task.h"
#include "agileml/control/job_input.h"
#include "agileml/control/lost.h"
#include "agileml/control/monitor.h"
#include "agileml/control/plan.h"
#include "agileml/control/schedule.h"
#include "agileml/control/store.h"
#include "agileml/control/suspect.h"
#include "agileml/control/tuner.h"
#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

enum {
    CONTROLLER_OBSERVERS_MAX = 64,
    CONTROLLER_OBSERVER_GONE_US = 10 * 1000 * 1000, /* of silence, after which another observer may have its place */
    CONTROLLER_CRASHES_MAX = 16,
    CONTROLLER_ACCUSATIONS_MAX = 64,
    CONTROLLER_LINES_MAX = 1 << 15,           /* report lines kept for observers that fall behind or come late */
    CONTROLLER_BURST_MAX = 512,               /* report lines sent for one OBSERVE; the observer then asks for more */
    CONTROLLER_END_WAIT_US = 2 * 1000 * 1000, /* wait for nodes to leave, and for observers to read the last line */
    /* After a node has joined or was evicted, the next plan waits this long for others that join or are evicted. */
    CONTROLLER_JOIN_WAIT_US = 50 * 1000,
    CONTROLLER_NOTICE_PART = 20,  /* after an eviction the next plan waits at most this fraction (1/20) of the notice */
    CONTROLLER_PLAN_SEND_US = 20, /* about what it takes to send a plan to one node */
    /* When several machines are expected, the plan for the first of them waits this long for the others. */
    CONTROLLER_EXPECTED_WAIT_US = 3 * 1000 * 1000,
    CONTROLLER_STORE_US = 20 * 1000,      /* longest delay until new progress is stored and acknowledged */
    CONTROLLER_CLOCK_LINE_US = 20 * 1000, /* shortest time between two report lines of clocks without evaluation */
    CONTROLLER_SHARDS_DEFAULT = 1024,
    CONTROLLER_SHARDS_PER_NODE = 64,     /* so that shares can be chosen in fine steps, as far as ... */
    CONTROLLER_SHARDS_FINE_MAX = 16384,  /* ... so many allow: a PLAN has 4 bytes for each shard ... */
    CONTROLLER_SHARDS_PER_NODE_MIN = 16, /* ... but this many in any case, as far as WIRE_SHARDS_MAX allows */
    CONTROLLER_CHECKPOINT_REQUESTS_MAX = 16,
    CONTROLLER_REPLACE_NOTICE_MS = 60 * 1000, /* of a straggler that another node is to replace */
    CONTROLLER_REMOVED_MAX = 64,              /* removed incarnations that are remembered */
    /* PROGRESS is accepted this many clocks further ahead of the slowest origin's PROGRESS than staleness and window
     * allow: the slowest origin's flushes may have arrived while its PROGRESS is late. */
    CONTROLLER_AHEAD_MAX = 256,
};

struct controller_options {
    unsigned reliable, transient;      /* nodes to wait for before training begins; more may join later */
    struct plan_policy policy;         /* its stage may be STAGE_AUTO */
    struct plan_thresholds thresholds; /* of STAGE_AUTO; 0: the paper's thresholds at first, then learned ones */
    uint32_t commit_every;             /* clocks; 0: the controller chooses */
    uint32_t heartbeat_ms;
    uint32_t timeout_ms;       /* a node that is silent for longer than this has failed */
    uint32_t answer_ms;        /* a node that owes an answer for longer than this has failed; at least timeout_ms */
    uint32_t probe_ms;         /* nodes' pulses ask one another this often; 0: they do not */
    uint32_t start_timeout_ms; /* how long to wait for all nodes to register */
    double window_short, window_long; /* seconds, of the monitor; 0: its defaults */
    aml_balance_policy *balance;      /* what to do about nodes of different speeds; NULL: nothing */
    uint32_t replacements;            /* nodes that the policy may have replaced */
    uint32_t feeders_max;             /* the controller chooses a number of feeders up to this; 0: it chooses none */
    uint32_t feeder_threads;          /* ... and threads of each, in all up to this; 0: one of each */
    const char *checkpoint;           /* the directory, or s3://BUCKET/PREFIX; NULL: no checkpoints are written */
    uint32_t checkpoint_every;        /* iterations */
    bool checkpoint_at_end;           /* a checkpoint of the job's last clock is written, too */
    const char *resume;               /* a directory that holds a checkpoint; NULL: start at clock 0 */
    bool observed;       /* a launcher started all nodes with the same options and observes: the job's end waits
                                  for its OBSERVE, too */
    struct store *store; /* remains the caller's; NULL: nothing is stored */
    /* Takes a task over, runs it in another thread, and then calls controller_folder_done; NULL: tasks are run at once.
     * Tasks are run in their order. */
    void (*folder_task)(void *context, struct folder_task *task);
    void (*end)(void *context, int code, const char *text); /* called once, when the job is over and nobody is waited
                                                               for any more */
    void *context;
};

enum controller_phase { PHASE_GATHER, PHASE_LOAD, PHASE_TRAIN, PHASE_SAVE, PHASE_LEAVE, PHASE_ENDED };

/* A change of plan under way. */
enum change {
    CHANGE_NONE,
    CHANGE_PREPARE, /* nodes prepare for the plan's next half, which has no clock yet */
    CHANGE_BARRIER, /* all nodes are prepared: a barrier names the switch's clock */
    CHANGE_SWITCH,  /* the switch's clock is named; lasts until clocks beyond the switch are committed */
    CHANGE_RECOVER  /* nodes were lost: the others are fenced and report which clocks they can restore */
};

/* What is to happen at the barrier, the clock that members are asked not to pass. */
enum barrier_purpose { BARRIER_SWITCH /* the plan changes */, BARRIER_STOP /* the job ends */, BARRIER_CHECKPOINT };

struct barrier {
    uint64_t number; /* grows with each barrier, and when one is lifted */
    uint64_t clock;  /* WIRE_CLOCK_NEVER: there is no barrier */
    enum barrier_purpose purpose;
};

/* When the controller heard the member, and which node the member can't hear. Only silence.c changes it. */
struct silence {
    uint64_t heard_us;   /* the member's silence counts from here: when it was last heard, or later */
    uint64_t lively_us;  /* the member was heard without long gaps since then; 0: not heard since silence_begin_anew */
    bool reported;       /* the report has a line about the member's present silence */
    actor_id accuses;    /* the node that the member accuses of silence */
    uint64_t accused_us; /* when this accusation began */
};

/* What a member has to answer within options.answer_ms. None of these answers needs the app's work or a disk. */
enum answer {
    ANSWER_BARRIER,    /* the latest barrier: HEARTBEAT's `hold` */
    ANSWER_PLAN,       /* HEARTBEAT's `version` */
    ANSWER_START,      /* HEARTBEAT's `state` */
    ANSWER_FENCE,      /* FENCED */
    ANSWER_CHECKPOINT, /* WRITTEN, which may only promise the file */
    ANSWERS
};

/* STAYS --is evicted--> LEAVING --no plan and no evaluation needs it: is sent DONE--> DISMISSED --LEAVE--> removed.
 * A member that is lost is removed from any state. */
enum member_stay {
    MEMBER_STAYS,
    MEMBER_LEAVING,   /* new plans have no part for the member, but the present plan may */
    MEMBER_DISMISSED, /* the member has no part in any plan */
};

/* What the member works by, as its last HEARTBEAT reports. */
struct member_goes_by {
    uint64_t epoch;
    uint64_t version; /* of the plan */
    uint64_t ready;   /* the plan version that the member is ready to switch to */
    uint64_t barrier; /* number of the barrier */
    uint64_t plan_us; /* when the controller last sent a plan to the member */
};

/* How far a member has reported. */
struct member_reported {
    uint64_t clock;           /* the highest clock begun */
    uint64_t catch_up;        /* this epoch's catch-up origin has reported the clocks up to this one */
    uint64_t catch_up_stored; /* the store has the catch-up origin's reports up to this clock */
    uint64_t acknowledged;    /* the last HEARTBEAT_ACK to the member acknowledged the clocks up to this one */
    uint64_t computed_us;     /* when it would have computed its last clock: see controller_clocks. Not stored */
};

/* What a node has moved since it joined. */
struct member_traffic {
    uint64_t bytes_sent, bytes_received; /* over the network */
    uint64_t bytes_read;                 /* of input files */
    uint64_t shards_taken;               /* from other nodes, instead of reading */
    uint64_t disk_wait_us;               /* how long clocks have waited for data on disk */
};

struct member_usage {
    struct member_traffic traffic;
    uint64_t items; /* of completed clocks */
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* of data that does not fit in memory */
    uint64_t worked_us;  /* how long training had lasted when the member joined, plus the time of its clocks since */
};

/* What a feeder's heartbeats report. Only feeding.c changes it. Not stored. */
struct member_feeding {
    unsigned threads;                /* with which it makes batches; 0: not reported yet */
    uint64_t us, heard_us;           /* HEARTBEAT's `feed_us`, and when it came; 0: not yet */
    uint64_t from_us, from_heard_us; /* the same, of the heartbeat from which on `busy` is measured next */
    double busy;
};

/* A member's answer to FENCE, in a recovery. Only recover.c changes it. */
struct member_fence {
    bool answered; /* the member has answered, or need not */
    uint64_t begun, committed;
    struct buffer *restore_points;
};

/* What the report's last line about the member says. Only nodes.c changes it. */
struct member_shown {
    bool known; /* the report has such a line */
    enum node_state state;
    bool leaving;
    unsigned threads;
    uint32_t shards;
    uint64_t roles; /* digest of the partitions that it serves and follows */
};

/* The controller's questions to the member's pulse, and its attempts to connect to it. Not stored. */
struct member_pulse {
    uint64_t asked; /* number of the last question; 0: it was answered */
    uint64_t asked_us;
    uint32_t reach_attempts; /* to connect to the pulse, until one succeeds */
    uint64_t reach_us;       /* when the next attempt may begin */
};

struct member {
    struct plan_node node;
    char name[WIRE_NAME_MAX];
    char key[WIRE_KEY_MAX]; /* its process's public key */
    char host[WIRE_HOST_MAX];
    char group[WIRE_NAME_MAX]; /* what fails together; empty: the host */
    uint64_t process_id;
    uint64_t slice;           /* items that it works on at once; 0: any number */
    uint32_t threads_max;     /* of a feeder, that the controller may choose; 0: always node.threads */
    struct buffer *endpoints; /* struct wire_endpoint each */
    enum node_state state;    /* as the member's last HEARTBEAT reports */
    enum member_stay stay;
    bool welcome_due; /* the member is not stored yet: all that register at once are stored together, then welcomed */
    bool loaded;
    bool named;          /* the plan in force names the member, so servers and peers know it */
    bool planned;        /* the plan that is being made has a part for the member */
    bool settled;        /* the member has had a part in a plan that took effect */
    bool left;           /* the member has sent LEAVE, or its process has ended: the job's end does not wait for it */
    uint64_t evicted_us; /* when the eviction was asked for */
    struct member_goes_by goes_by;
    struct member_reported reported;
    struct silence silence;
    struct suspect suspect; /* only pulses.c changes it and `pulse`. Not stored */
    struct member_pulse pulse;
    uint64_t owed_us[ANSWERS]; /* how long the member has owed each answer while heard; only answers.c changes it */
    uint64_t joined_us;
    struct member_usage usage;
    struct member_feeding feeding;
    uint64_t input; /* number of the last INPUT that equals the job's; 0: none. Not stored: the node repeats INPUT */
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
    bool told;      /* the node itself sent CRASHED; if not, only the signal is known, and roughly the clock */
    bool recovered; /* the other nodes have recovered from the loss of this node */
};

/* The last crashes, oldest first: a new crash is compared with these. */
struct controller_crashes {
    struct crash list[CONTROLLER_CRASHES_MAX];
    unsigned count;
};

/* A node's process, which may register again as a new node after each removal. Its public key identifies the process;
 * in a job without keys, host and process number do. */
struct accused_process {
    char key[WIRE_KEY_MAX];
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    enum node_tier tier;
};

/* Accusations of having sent an impossible message, oldest first. Not stored. */
struct controller_accusations {
    struct accusation {
        struct accused_process accuser, accused;
    } list[CONTROLLER_ACCUSATIONS_MAX];
    unsigned count;
};

/* What one origin reported of one clock. */
struct clock_report {
    actor_id origin;
    uint64_t items, items_fed;
    uint64_t helped;      /* of the items, those in lots that other nodes have worked on */
    uint64_t clock_us;    /* how long the origin took for the clock, waiting included */
    uint64_t compute_us;  /* how long it computed, scaled up to all of its items if others helped */
    uint64_t evaluate_us; /* how long it evaluated, which is part of clock_us */
    uint64_t starved_us;  /* how long it waited for batches, or ran stages that feeders may run */
    bool evaluation;      /* an evaluation in place of a lost node, whose work on the clock remains valid: see lost.h */
    bool last;            /* the clock was evaluated as the job's last clock, in its whole state */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

struct clock_window {
    uint64_t clock; /* 0: none */
    struct clock_report *reports;
    unsigned count, capacity;
};

/* A straggler's replacement:
 * NOBODY --the straggler is evicted--> WAITED_FOR --a node joins--> JOINED --all speeds are known--> NOBODY */
enum { REPLACING_NOBODY, REPLACING_WAITED_FOR, REPLACING_JOINED };

/* The policy for uneven machines; only rebalance.c changes it. Not stored. */
struct controller_balance {
    _Alignas(16) unsigned char memory[AML_BALANCE_MEMORY]; /* the policy's */
    uint64_t looked_us;                                    /* when it was last asked */
    uint64_t asked_us;                                     /* when the last straggler was evicted */
    double pending_seconds; /* that the last replacement took; before the first one how long the last machine took from
                               its allocation to its joining, or else a guess */
};

/* A window by which the policy judges: whole clocks. Only feeding.c changes it. Not stored. */
struct controller_feeding {
    uint64_t since_us;                                      /* 0: no window has begun */
    uint64_t version;                                       /* of the plan, when the window began */
    unsigned feeders, threads;                              /* that worked then, with how many threads each */
    uint64_t clocks, reports, items, items_fed, starved_us; /* sums; a report is one node's of one clock */
    uint64_t unsteady; /* clocks up to this one are no measure: their batches were asked for before a change */
    uint64_t asked_us; /* when the last feeder was asked for */
};

/* What nodes have reported of clocks; only progress.c changes it, and the monitor when nodes go. Not stored. */
struct controller_clocks {
    struct clock_window *window; /* clock c is at index c % entries */
    uint64_t completed_us;       /* when this controller last completed a clock; 0: it has completed none */
    uint64_t lasted_us;          /* how long that clock took */
    uint64_t worked_us;          /* how long the clocks of the iteration under way took, without evaluations */
    /* When all nodes would have computed each clock, if the exchange took no time but nodes waited for each other as
     * the staleness demands. In microseconds from an arbitrary start; clock c is at index c % entries. */
    uint64_t computed_us[WIRE_STALENESS_MAX + 2];
    uint64_t computed_from_us;    /* computed_us of the last clock of the iteration before */
    struct strategy_auto chooser; /* of --strategy auto; not stored */
    struct monitor monitor;
    struct controller_balance balance;
    struct controller_feeding feeding;
};

/* The number of feeders, and of their threads, that the controller has chosen. Only feeding.c changes it. */
struct feeding_kept {
    struct feeders policy;
    uint32_t coming;             /* feeders that were asked for and have not joined */
    uint32_t trainers;           /* nodes that worked on data in the last window that was measured */
    char reason[FEEDERS_REASON]; /* of the last decision; empty: there was none */
};

/* The texts of the app's notes that the report has, by their hashes. Only app_notes.c changes it. */
struct app_notes_kept {
    uint64_t hashes[WIRE_APP_NOTES_MAX];
    uint32_t count;
    uint32_t left_out; /* 1: the report says that there are more texts */
};

/* The job's progress. The store has these bytes as they are. */
struct controller_progress {
    uint64_t completed;              /* every origin has reported the clocks up to this one */
    struct clock_sums iteration;     /* of the iteration under way */
    double objective;                /* of the last iteration */
    double values[WIRE_METRICS_MAX]; /* every metric's, of the last iteration */
    uint64_t evaluated;              /* iterations that `values` were computed for; 0: none yet */
    double covered;                  /* share of the last iteration's items that its metrics cover; 1: all */
    double compared;                 /* the objective of the last iteration whose metrics cover all items */
    uint64_t compared_count;         /* iterations whose metrics cover all items */
    uint32_t calm;                   /* of these iterations, the latest in a row that changed less than the tolerance */
    uint64_t items_processed;        /* each item of each clock counts once */
    uint64_t items_redone;           /* items processed again, of clocks that a lost node had begun */
    uint64_t items_helped;           /* items of a node's lots that other nodes have worked on */
    uint64_t items_fed;              /* from batches that feeders have made */
    uint64_t feed_wait_us;           /* how long nodes' clocks waited for batches, all nodes together */
    uint64_t iteration_items_fed, iteration_feed_wait_us; /* the same, up to the iteration's start */
    uint64_t failures, evictions;
    uint64_t trained_us;           /* how long training lasted under earlier runs of the controller */
    struct member_traffic gone;    /* of nodes that are gone */
    uint64_t iteration_bytes_sent; /* by all nodes, up to the iteration's start */
    uint64_t iteration_bytes_received;
    uint64_t first; /* the clock at which the job began: 0, or that of the checkpoint that the job resumed from */
    uint64_t before_us, before_items; /* training time and items processed up to `first`, by earlier jobs */
    bool reliable_lost;    /* a reliable node was lost without warning, perhaps with the only copy of state */
    uint32_t replacements; /* stragglers that were evicted for others in their place */
    uint32_t replacing;    /* REPLACING_... */
    struct feeding_kept feeding;
    struct app_notes_kept notes;
};

/* A checkpoint under way: none -> begin -> begun -> barrier -> ask -> write -> finish -> none. At the job's end no
 * origin goes on, so there it goes begun -> ask. A checkpoint that fails, or is put off, goes to none from any state;
 * but from finish, where nothing depends on the nodes any more, only when it fails. */
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
    actor_id from; /* ACTOR_NONE: free */
    uint64_t request;
    bool begun;    /* the checkpoint under way has a clock after the request, and so serves it */
    bool answered; /* an OUTCOME with `code` and `text` was sent */
    int code;
    char text[ERROR_TEXT_MAX];
};

struct controller_checkpoint {
    enum checkpoint_state state;
    enum checkpoint_state after; /* what follows CHECKPOINT_BEGUN */
    unsigned tasks;              /* folder tasks that are not through; no attempt begins before they are */
    struct checkpoint_kept {
        uint64_t number;  /* of the last attempt */
        uint64_t due;     /* the next checkpoint has the clock that ends this iteration, or a later one */
        uint64_t written; /* the clock of the newest checkpoint that this job has written; 0: none */
        bool slow;        /* the report has a `checkpoint-slow` line */
    } kept;               /* the part that the store has */
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

/* The fingerprint of the job's input, as the first node that read it has reported, or the checkpoint's. */
struct controller_input {
    struct job_input job;
    bool stored;
};

/* How long no clock was completed, and no barrier begun or lifted. */
struct controller_quiet {
    uint64_t completed; /* the last completed clock */
    uint64_t barrier;   /* number of the latest barrier */
    uint64_t us;        /* how long neither has changed */
};

/* Machines that are allocated to the job and have not joined it yet, sorted by name. Only expected.c changes the list.
 * It is not stored: the sender of ALLOCATION repeats it. */
struct controller_expected {
    struct wire_machine *machines;
    uint64_t *since_us; /* when the controller first heard of each */
    size_t count;
};

/* The job, as the first node that registered has described it: all nodes must agree. */
struct controller_job {
    struct job_terms terms;
    struct buffer *settings; /* struct wire_option each; the checkpoint's until a node registers; NULL: none */
    struct wire_metric metrics[WIRE_METRICS_MAX];
    unsigned metric_count;
    uint64_t items; /* training items of all nodes together */
    double totals[WIRE_TOTALS];
    uint64_t final; /* the last clock; 0: not known yet */
    bool stopping;  /* a barrier is to decide the last clock */
    /* Of the checkpoint that the job goes on from; 0: of none. Needed until a node's terms are taken. */
    struct strategy_clocks resumed_clocks;
    enum strategy resumed_strategy;
};

/* The plan in force. Changed by change.c, and by recover.c where an epoch begins. */
struct controller_plan {
    struct plan_view view;   /* the PLAN message as sent */
    uint64_t epoch, version; /* the highest that were ever used */
    enum stage stage;
    struct wire_placement *placement; /* by partition */
    struct schedule schedule;
    actor_id *previous;  /* by shard: the owner before the present one, who may still have the shard's data */
    uint64_t from_clock; /* where the next half takes over; 0: there is none; WIRE_CLOCK_NEVER: not named yet */
    uint64_t restore;    /* the clock from which the epoch goes on */
    uint32_t commit_every;
    enum strategy strategy, next_strategy; /* before strategy_from and from then on */
    uint64_t strategy_from;
    bool names_absent;     /* the plan names members that were removed or dismissed */
    uint64_t published_us; /* when the last version was sent to all members; 0: not since this controller's start */
    bool steady; /* unchanged since the iteration began, so the tuner may use the iteration's time; not stored */
};

/* The change of plan under way, and when the next one is due. Changed as controller_plan is. */
struct controller_change {
    enum change state;
    enum stage next_stage; /* of the plan that is being prepared */
    uint32_t next_commit_every;
    enum strategy strategy; /* the wanted one: a change whose clock begins a group makes it the plan's */
    uint64_t began_us; /* when the change's first plan was made; these times are 0 after a restart of the controller */
    uint64_t ready_us; /* when all nodes were ready for the last one */
    uint64_t named_us; /* when every node and server had the plan that names the switch's clock */
    bool due;          /* the desired plan may differ from the present one */
    uint64_t due_us;   /* no change begins before then, as more nodes may join or leave */
};

struct controller_commit {
    uint64_t clock;   /* the committed clock: no recovery goes back behind it */
    uint64_t claimed; /* the highest clock that a member has reported as committed; it counts only up to the last
                         completed clock. Not stored: members repeat it */
    uint32_t chosen;  /* the interval between commit points, in clocks, if it was lengthened; 0: it was not */
    unsigned late;    /* iterations in a row at whose end the commit was far behind */
};

struct controller_recovery {
    bool due;              /* members were lost: the remaining members are to be fenced */
    uint64_t lost_us;      /* when the first node of the recovery was lost */
    uint32_t cached;       /* partitions that the last recovery has restored from nodes' caches */
    uint64_t redone_until; /* catch-ups of clocks up to this one repeat work that a lost node had begun */
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
    uint64_t heard_us[CONTROLLER_OBSERVERS_MAX]; /* when each of them last asked. Not stored: 0 */
    struct {
        actor_id actor;
        uint64_t request;
    } noted; /* the last NOTE that was reported, and its sender. Not stored */
};

/* When the report's next lines about nodes are due. Only nodes.c changes it. Not stored: a controller that is started
 * again reports all nodes anew. */
struct controller_nodes {
    uint64_t due_us;   /* no line `nodes` before then */
    uint64_t usage_us; /* no line `usage` before then */
    uint64_t version;  /* the plan by which `shown.roles` and `shown.shards` were found */
    bool switched;     /* that plan's next half was in force */
    struct node_gone {
        char name[WIRE_NAME_MAX];
        bool lost;
        struct member_usage usage;
    } * gone; /* removed members that the report does not name as gone yet */
    size_t gone_count;
};

/* How far the store is behind. */
struct controller_stored {
    bool due;               /* there is progress that is not stored */
    uint64_t due_us;        /* when this progress is to be stored */
    uint64_t registered_us; /* when newly registered members were last stored */
    uint64_t completed;     /* the last completed clock that the store has */
};

/* How the job has ended. */
struct controller_end {
    int code;
    char text[ERROR_TEXT_MAX];
    bool told;             /* the members may have been told of it, so it stands. Not stored */
    uint64_t observers_us; /* until when the end waits for observers to read on */
    uint64_t members_us;   /* until when the end waits for members to leave */
};

/* The saving of the model. Only save.c changes it. */
struct controller_save {
    uint32_t attempt;  /* from 1; 0: not begun */
    uint64_t retry_us; /* no SAVE is sent before then */
};

/* The nodes that were given up last because their processes had ended, oldest first: a launcher may tell later that
 * they have crashed. Only crashes.c changes it. Not stored. */
struct controller_ended {
    struct crash list[CONTROLLER_CRASHES_MAX];
    unsigned count;
};

/* The controller's questions to suspected nodes. Only pulses.c changes it. Not stored. */
struct controller_pulses {
    uint64_t number;       /* of the last question */
    uint64_t began_us;     /* when the present interval began */
    uint64_t tick_us;      /* when the interval ends, and the open questions are looked at; 0: none is open */
    uint64_t answered;     /* the highest number of a question that was answered in the interval; 0: none */
    uint64_t slowest_us;   /* the longest that an answer took since questions were opened after a time without any */
    unsigned witness;      /* index of the member to ask next by ask_witnesses, modulo the number of members */
    uint64_t dial_us;      /* when suspected pulses that have not answered are dialed next; 0: they are not */
    uint64_t dial_wait_us; /* the wait before that; the next one is twice as long */
    struct controller_ended ended;
};

/* Answers that are awaited: what answers.c counts, and pulses.c's questions. */
struct controller_answers {
    uint64_t checked_us; /* when answers_check was last called; 0: not yet */
    struct controller_quiet quiet;
    struct controller_pulses pulses;
};

/* A ring of the nodes that were removed last, by incarnation. */
struct controller_removed {
    actor_id last[CONTROLLER_REMOVED_MAX];
    unsigned count; /* all that this controller has removed */
};

struct controller_times {
    uint64_t began_us;   /* when this controller began */
    uint64_t started_us; /* when training began under this controller; 0: not yet */
    uint64_t tick_us;    /* when the timer is due */
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
    struct tuner tuner;
    struct controller_progress progress;
    struct controller_clocks clocks;
    struct lost lost; /* the work of lost nodes on clocks that are not completed */
    struct controller_checkpoint checkpoint;
    char resume[WIRE_PATH_MAX];
    struct controller_save save;
    struct controller_crashes crashes;
    struct controller_accusations accusations;
    struct controller_answers answers;
    uint64_t doubt_until_us; /* most members are silent at once: none is given up before then; 0: no such doubt. Only
                                silence.c changes it */
    struct controller_stored stored;
    struct controller_report report;
    struct controller_nodes nodes;
    struct controller_end end;
    struct controller_times times;
};

/* The number of data shards of a job that begins with so many nodes. */
uint32_t controller_shards(unsigned nodes);

/* Goes on with the job in the store, or begins a new job when the store is empty. Returns AML_EINPUT when the options
 * are out of range or do not fit the store or the checkpoint. */
int controller_init(struct controller *controller, struct io *io, const struct controller_options *options,
                    struct error *error);
void controller_close(struct controller *controller);

/* Ends the job and sends every process `text` as the reason. */
void controller_abort(struct controller *controller, int code, const char *text);

/* Returns the report's line `number`, from 0; NULL when that line was dropped or is not written yet. */
const char *controller_line(const struct controller *controller, size_t number);

/* Has the job go on by this strategy, from the next clock that can be named on. */
void controller_want_strategy(struct controller *controller, enum strategy strategy);

/* The actor's callbacks; `self` is a struct controller. */
void controller_receive(void *self, actor_id from, struct message *message);
void controller_timer(void *self);
void controller_broken(void *self, actor_id peer);
void controller_dialed(void *self, actor_id actor, uint64_t began_us, bool listens);
/* Takes a task over that options.folder_task was given and that was run. In the controller's thread. */
void controller_folder_done(struct controller *controller, struct folder_task *task);

#endif
