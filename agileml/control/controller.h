/* The elasticity controller: takes nodes in, plans (plan.h), starts the job, sums up progress, and all the time
 * brings the cluster to where it should be: nodes that join, are about to go, or have failed (docs/design.md,
 * "Plans"). Decides the last clock, has checkpoints written and the model saved, and ends the job. A state machine
 * behind struct io; what it must not forget is in its store before anyone hears of it. */
#ifndef AGILEML_CONTROL_CONTROLLER_H
#define AGILEML_CONTROL_CONTROLLER_H

#include "agileml/control/job_input.h"
#include "agileml/control/lost.h"
#include "agileml/control/plan.h"
#include "agileml/control/schedule.h"
#include "agileml/control/store.h"
#include "agileml/control/tuner.h"
#include "agileml/net/io.h"
#include "agileml/wire/plan.h"

enum {
    CONTROLLER_OBSERVERS_MAX = 64,
    CONTROLLER_CRASHES_MAX = 16,
    CONTROLLER_ACCUSATIONS_MAX = 64,
    CONTROLLER_LINES_MAX = 1 << 15,           /* of the report kept for observers that fall behind or come late */
    CONTROLLER_BURST_MAX = 512,               /* lines sent for one OBSERVE: who has read them asks for more */
    CONTROLLER_END_WAIT_US = 2 * 1000 * 1000, /* for nodes to leave, and for observers to read on to the last line */
    CONTROLLER_JOIN_WAIT_US = 50 * 1000,      /* after a node has joined: more may be coming; after an eviction that */
    CONTROLLER_NOTICE_PART = 20,              /* leaves time for it, at most so much of its notice */
    /* When several machines are expected, the first one's plan waits this long for the others. */
    CONTROLLER_EXPECTED_WAIT_US = 3 * 1000 * 1000,
    CONTROLLER_STORE_US = 20 * 1000,      /* progress is stored at most so much later, and acknowledged then */
    CONTROLLER_CLOCK_LINE_US = 20 * 1000, /* between clocks that get a line in the report, if not evaluated */
    CONTROLLER_SHARDS_DEFAULT = 1024,
    CONTROLLER_SHARDS_PER_NODE = 16, /* at least, as far as WIRE_SHARDS_MAX allows */
    CONTROLLER_CHECKPOINT_REQUESTS_MAX = 16,
    CONTROLLER_REMOVED_MAX = 64, /* removed incarnations that are remembered */
    CONTROLLER_AHEAD_MAX = 256,  /* PROGRESS is taken up to so many clocks ahead of the slowest origin's, beyond what
                                   staleness and window allow: its flushes may arrive while its PROGRESS is late */
};

struct controller_options {
    unsigned reliable, transient;      /* nodes to wait for before training begins; more may join later */
    struct plan_policy policy;         /* its stage may be STAGE_AUTO */
    struct plan_thresholds thresholds; /* of STAGE_AUTO; 0: the paper's to begin with, then learned */
    uint32_t commit_every;             /* clocks; 0: chosen */
    uint32_t heartbeat_ms;
    uint32_t timeout_ms;       /* silence of a node longer than this is a failure */
    uint32_t answer_ms;        /* so is an answer that a node owes for longer than this; at least timeout_ms */
    uint32_t start_timeout_ms; /* how long to wait for all nodes to register */
    const char *checkpoint;    /* a directory; NULL: none */
    uint32_t checkpoint_every; /* iterations */
    bool checkpoint_at_end;    /* and one of the job's last clock */
    const char *resume;        /* a directory that holds a checkpoint; NULL: start at clock 0 */
    bool observed;             /* who has started all nodes alike will come to observe: the end waits for it, too */
    struct store *store;       /* stays the caller's; NULL: nothing is kept */
    void (*end)(void *context, int code, const char *text); /* the job is over and everyone was told; once */
    void *context;
};

enum controller_phase { PHASE_GATHER, PHASE_LOAD, PHASE_TRAIN, PHASE_SAVE, PHASE_LEAVE, PHASE_ENDED };

/* A change of plan under way. */
enum change {
    CHANGE_NONE,
    CHANGE_PREPARE, /* the plan's next half has no clock yet: nodes get ready */
    CHANGE_HOLD,    /* they are: a clock is being named */
    CHANGE_SWITCH,  /* it is named: until clocks beyond it are committed */
    CHANGE_RECOVER  /* nodes were lost: the others are fenced and say what they have */
};

/* What is to happen at the clock that members are asked not to pass. */
enum hold_purpose { HOLD_SWITCH /* the plan changes */, HOLD_STOP /* the job ends */, HOLD_CHECKPOINT };

struct hold {
    uint64_t number; /* grows */
    uint64_t clock;  /* WIRE_CLOCK_NEVER: nothing is held */
    enum hold_purpose purpose;
};

/* When the member was heard, and which node it says it can't hear. Only silence.c changes it. */
struct silence {
    uint64_t heard_us;   /* its silence counts from then: when it was last heard, or later */
    uint64_t lively_us;  /* heard without long gaps since then; 0: not heard since silence_begin_anew */
    bool reported;       /* it is silent, and the report says so */
    actor_id accuses;    /* the node that it accuses of silence */
    uint64_t accused_us; /* when it began to */
};

/* What a member that is heard has to answer, without work of the app or a disk. */
enum answer {
    ANSWER_BARRIER,    /* the hold: `held` */
    ANSWER_PLAN,       /* `version` */
    ANSWER_START,      /* `state` */
    ANSWER_FENCE,      /* FENCED */
    ANSWER_CHECKPOINT, /* WRITTEN, at least a promise */
    ANSWERS
};

/* STAYS --is evicted--> LEAVING --no plan and no evaluation needs it: is told DONE--> DISMISSED --LEAVE--> removed.
 * A member that is lost is removed from each of them. */
enum member_stay {
    MEMBER_STAYS,
    MEMBER_LEAVING,   /* new plans have no part for it, but the present one may */
    MEMBER_DISMISSED, /* it has no part in anything */
};

/* What a member goes by, as its HEARTBEAT says. */
struct member_goes_by {
    uint64_t epoch, version, ready; /* of its plan; what it is ready for */
    uint64_t hold;                  /* number of the hold */
    uint64_t plan_us;               /* when the plan was last sent to it */
};

/* How far a member has reported. */
struct member_reported {
    uint64_t clock;           /* the highest begun */
    uint64_t catch_up;        /* clocks up to this were reported under this epoch's catch-up origin ... */
    uint64_t catch_up_stored; /* ... and up to this are stored */
    uint64_t acknowledged;    /* clocks up to this in the last HEARTBEAT_ACK to it */
};

struct member_usage {
    uint64_t bytes_sent, bytes_received;
    uint64_t memory_bytes;
    uint64_t compute_us; /* of its last clock */
    uint64_t worked_us;  /* how long training had lasted when it joined, and its clocks since */
};

/* A member's answer to FENCE, in a recovery. Only recover.c changes it. */
struct member_fence {
    bool answered; /* or it need not answer */
    uint64_t begun, committed;
    struct buffer *reaches;
};

struct member {
    struct plan_node node;
    char name[WIRE_NAME_MAX];
    char key[WIRE_KEY_MAX]; /* its process's public key */
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    struct buffer *endpoints; /* struct wire_endpoint each */
    enum node_state state;    /* as it says */
    enum member_stay stay;
    bool welcome_due; /* it is not stored yet: many that register at once are stored together, then welcomed */
    bool loaded;
    bool named;          /* the plan in force names it: its servers and its peers know it */
    bool planned;        /* it has, or is to have, a part in the plan that is being made */
    bool settled;        /* it has had a part in a plan that took effect */
    bool left;           /* it has said LEAVE, or its process is gone; at the job's end nobody waits for it */
    uint64_t evicted_us; /* when it was asked to leave */
    struct member_goes_by goes_by;
    struct member_reported reported;
    struct silence silence;
    uint64_t owed_us[ANSWERS]; /* how long it has owed each answer while it was heard; only answers.c changes it */
    uint64_t joined_us;
    struct member_usage usage;
    uint64_t input; /* its last INPUT that is the same as the job's; 0: none. Not stored: the node repeats INPUT */
    struct member_fence fence;
};

/* The end of a node's process by a crash of its app. */
struct crash {
    actor_id node;
    char name[WIRE_NAME_MAX];
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    enum node_tier tier;
    struct message_crashed facts;
    bool told;      /* reported by the node itself; else only the signal is known, and the clock roughly */
    bool recovered; /* the other nodes have gone on without this node */
};

/* The last crashes, oldest first: a new crash is compared with these. */
struct controller_crashes {
    struct crash list[CONTROLLER_CRASHES_MAX];
    unsigned count;
};

/* A node's process: it may take part under several incarnations, one after the other. Known by its public key or, in
 * a job without keys, by what it says of itself. */
struct accused_process {
    char key[WIRE_KEY_MAX];
    char host[WIRE_HOST_MAX];
    uint64_t process_id;
    enum node_tier tier;
};

/* Who has accused whom of having sent what can't be, oldest first. Not stored. */
struct controller_accusations {
    struct accusation {
        struct accused_process accuser, accused;
    } list[CONTROLLER_ACCUSATIONS_MAX];
    unsigned count;
};

/* What the origins reported of one clock. */
struct clock_report {
    actor_id origin;
    uint64_t items;
    uint64_t clock_us; /* how long it took there, waiting included */
    bool evaluation;   /* reported in place of a lost node, whose work stands: see lost.h */
    bool last;         /* evaluated as the job's last clock, in its whole state */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

struct clock_window {
    uint64_t clock; /* 0: none */
    struct clock_report *reports;
    unsigned count, capacity;
};

/* What training has come to. Stored as it is. */
struct controller_progress {
    uint64_t completed;              /* every origin reported clocks up to this */
    struct clock_sums iteration;     /* of the iteration under way */
    double objective;                /* of the last iteration */
    double values[WIRE_METRICS_MAX]; /* every metric's, of the last iteration */
    uint64_t evaluated;              /* iterations that `values` are of: 0: none yet */
    double covered;                  /* share of the last iteration's items that its metrics are of; 1: all */
    double compared;                 /* the objective of the last iteration whose metrics were of all items */
    uint64_t compared_count;         /* iterations whose metrics were of all items */
    uint32_t calm;                   /* such iterations in a row whose change was below the tolerance */
    uint64_t items_processed;        /* each item of each clock counts once */
    uint64_t items_redone;           /* items done again, of clocks that a lost node had begun */
    uint64_t failures, evictions;
    uint64_t trained_us;                 /* that training lasted, but for the time of this controller */
    uint64_t bytes_sent, bytes_received; /* of nodes that are gone */
    uint64_t iteration_bytes_sent;       /* of all nodes, at the iteration's start */
    uint64_t iteration_bytes_received;
    uint64_t first; /* the clock at which the job began: 0, or that of the checkpoint it resumed from */
    uint64_t before_us, before_items; /* training time and items processed up to `first`, by the jobs before */
    bool reliable_lost;               /* a reliable node was, without warning: what it had may be gone with it */
    uint64_t line_count;              /* of the whole report so far */
};

/* A checkpoint under way: none -> hold -> ask -> write -> none; at the job's end, where nobody goes on, none -> ask.
 * From each state a checkpoint that fails, or is put off, goes to none. */
enum checkpoint_state {
    CHECKPOINT_NONE,
    CHECKPOINT_HOLD, /* members are asked not to pass its clock */
    CHECKPOINT_ASK,  /* nobody has passed it: the replicas that are to be written are asked for it */
    CHECKPOINT_WRITE /* all have promised: nothing is held any more */
};

/* An operator's request for a checkpoint. */
struct checkpoint_request {
    actor_id from; /* ACTOR_NONE: free */
    uint64_t request;
    bool begun;    /* the checkpoint under way is of a clock after the request */
    bool answered; /* by an OUTCOME of `code` and `text` */
    int code;
    char text[ERROR_TEXT_MAX];
};

struct controller_checkpoint {
    enum checkpoint_state state;
    struct checkpoint_kept {
        uint64_t number;  /* of the last attempt */
        uint64_t due;     /* the next checkpoint is of the end of this iteration, or of a later one */
        uint64_t written; /* the clock of the newest checkpoint that this job has written; 0: none */
        bool slow;        /* `checkpoint-slow` was reported */
    } kept;               /* in the store */
    uint64_t clock;
    char path[WIRE_PATH_MAX]; /* of the folder while it is unfinished */
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
    unsigned failures, refusals;  /* since the last success; since the last failure */
    bool given_up;                /* the checkpoint of the job's last clock has failed */
    char failure[ERROR_TEXT_MAX]; /* why the last failed attempt failed */
    struct checkpoint_request requests[CONTROLLER_CHECKPOINT_REQUESTS_MAX];
};

/* What the job's data is, as its first node has read it. */
struct controller_input {
    struct job_input job;
    bool stored;
};

/* For how long nothing has happened that all members answer to. */
struct controller_quiet {
    uint64_t completed, hold; /* as they have been for ... */
    uint64_t us;
};

/* Machines that are allocated to the job and have not joined it yet, by name. Only expected.c changes it. Not stored:
 * the sender of ALLOCATION repeats it. */
struct controller_expected {
    struct wire_machine *machines;
    size_t count;
};

/* The job, as its first node has described it: all nodes must agree. */
struct controller_job {
    struct job_terms terms;
    struct buffer *settings; /* struct wire_option each; before a node comes those of the checkpoint; NULL: none */
    struct wire_metric metrics[WIRE_METRICS_MAX];
    unsigned metric_count;
    uint64_t items; /* of the data, all nodes */
    double totals[WIRE_TOTALS];
    uint64_t final; /* the last clock; 0: not known yet */
    bool stopping;  /* the last clock is to be named */
};

/* The plan in force. Changed by change.c, and by recover.c where an epoch begins. */
struct controller_plan {
    struct plan_view view;   /* as sent */
    uint64_t epoch, version; /* the highest ever used */
    enum stage stage;
    struct wire_placement *placement; /* by partition */
    struct schedule schedule;
    actor_id *previous;  /* by shard: the owner before the present one */
    uint64_t from_clock; /* WIRE_CLOCK_NEVER: not named */
    uint64_t restore;    /* of the epoch */
    uint32_t commit_every;
    bool names_absent; /* it names members that were removed or dismissed */
};

/* The change of plan under way, and when the next one is due. Changed as controller_plan is. */
struct controller_change {
    enum change state;
    enum stage next_stage; /* of the plan that is being prepared */
    uint32_t next_commit_every;
    uint64_t began_us;
    bool due;        /* what should be may differ from what is */
    uint64_t due_us; /* not before then: more nodes may be coming */
};

struct controller_commit {
    uint64_t clock;   /* nobody goes back behind it */
    uint64_t claimed; /* the highest that a member has called committed: counts up to the last completed clock. Not
                         stored: members repeat it */
    uint32_t chosen;  /* clocks between commit points have grown to this; 0: they have not */
    unsigned late;    /* iterations in a row at whose end the commit was far behind */
};

struct controller_recovery {
    bool due;              /* members were lost: those who are left are to be fenced */
    uint64_t lost_us;      /* when the first node of the recovery was lost */
    uint64_t redone_until; /* catch-ups of clocks up to this do again what had been begun */
};

/* The report's lines, and who reads them. */
struct controller_report {
    char **lines;          /* the last lines, from number `first` on */
    size_t first, count;   /* `count` is of the whole report so far */
    size_t stored, pruned; /* lines up to `stored` are stored, and observers hear of them; the store has them from
                               `pruned` on */
    uint64_t clock_us;     /* when the last line was written that is of a clock */
    struct observer {
        actor_id actor;
        size_t read; /* lines it has */
    } observers[CONTROLLER_OBSERVERS_MAX];
    unsigned observer_count;
};

/* What the store has. */
struct controller_stored {
    bool due; /* there is progress that is not stored */
    uint64_t due_us;
    uint64_t registered_us; /* when a member that had just registered was stored last */
    uint64_t completed;     /* clocks */
};

/* How the job has ended. */
struct controller_end {
    int code;
    char text[ERROR_TEXT_MAX];
    uint64_t observers_us, members_us; /* until when observers may read, and members may leave */
};

/* The saving of the model. Only save.c changes it. */
struct controller_save {
    uint32_t attempt;  /* from 1; 0: not yet */
    uint64_t retry_us; /* no SAVE is sent before */
};

/* What answers.c counts. */
struct controller_answers {
    uint64_t checked_us; /* when answers_check was called last; 0: not yet */
    struct controller_quiet quiet;
};

/* Incarnations that were removed last, in a ring. */
struct controller_removed {
    actor_id last[CONTROLLER_REMOVED_MAX];
    unsigned count; /* ever removed here */
};

struct controller_times {
    uint64_t began_us;   /* this controller */
    uint64_t started_us; /* training, here */
    uint64_t tick_us;    /* the timer was called last */
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
    struct hold hold;
    struct controller_commit commit;
    struct controller_recovery recovery;
    struct tuner tuner;
    bool steady; /* nothing has changed since the iteration began: its time tells something */
    struct controller_progress progress;
    struct clock_window *window; /* clock c at c % entries */
    struct lost lost;            /* of clocks that are not completed */
    struct controller_checkpoint checkpoint;
    char resume[WIRE_PATH_MAX];
    struct controller_save save;
    struct controller_crashes crashes;
    struct controller_accusations accusations;
    struct controller_answers answers;
    uint64_t doubt_until_us; /* most members are silent: nobody is given up before; 0: no doubt. silence.c's */
    struct controller_stored stored;
    struct controller_report report;
    struct controller_end end;
    struct controller_times times;
};

/* Takes up what the store holds; starts a new job when it is empty. AML_EINPUT when the options make no sense or do
 * not fit the store or the checkpoint. */
int controller_init(struct controller *controller, struct io *io, const struct controller_options *options,
                    struct error *error);
void controller_close(struct controller *controller);

/* Ends the job: every process gets the one line. */
void controller_abort(struct controller *controller, int code, const char *text);

/* A line of the report by its number, from 0; NULL when it is not there any more, or not yet. */
const char *controller_line(const struct controller *controller, size_t number);

/* The actor's functions, `self` a struct controller. */
void controller_receive(void *self, actor_id from, struct message *message);
void controller_timer(void *self);

#endif
