/* A whole job in the simulation. The controller, nodes and servers are the real ones, the app is one of two (app.h).
 * Cluster, job, network, joins, leaves and faults are drawn from the seed. The invariants of docs/design.md are checked
 * after every step that could break them. */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "tests/sim/sim.h"

enum campaign {
    CAMPAIGN_FAULTS, /* broken connections, pauses and separations shorter than the timeout: the job ends well */
    /* Stage traditional. A machine or a way to it is missing for longer than the timeout: the job ends with an error
     * that names what is missing. */
    CAMPAIGN_MISSING,
    CAMPAIGN_ELASTIC, /* nodes join, are evicted, die or restart, and so does the controller: the job ends well */
    /* Like CAMPAIGN_ELASTIC, and a node goes mad. Where it forges messages, the job may end in any way. */
    CAMPAIGN_MAD,
    CAMPAIGN_UNEVEN, /* nothing fails; nodes have different, steady speeds, which shares follow */
    CAMPAIGNS
};
extern const char *const campaign_names[CAMPAIGNS];

/* The job's app. */
enum cluster_app { APP_ADDER, APP_LDA, APPS };
extern const char *const app_names[APPS];

/* Mistakes that are put into a run to see that the checks find them. */
enum mistake {
    MISTAKE_NONE,
    MISTAKE_FLUSH_WITHOUT_ROWS,    /* a server loses a flush's rows */
    MISTAKE_FLUSH_TWICE,           /* a server adds a flush twice */
    MISTAKE_PUSH_WITHOUT_ROWS,     /* a worker loses a push's rows */
    MISTAKE_STALE_WORKER,          /* a worker is further ahead than the staleness allows */
    MISTAKE_TWO_OWNERS,            /* two nodes work on one shard */
    MISTAKE_TWO_SERVERS,           /* two servers serve one partition */
    MISTAKE_DEAF_SERVER,           /* a server ignores every flush from some clock on */
    MISTAKE_PROGRESS_TWICE,        /* the controller counts a clock's items twice */
    MISTAKE_FLUSH_LOST_IN_RESTORE, /* a flush that is repeated after a recovery has lost its rows */
    MISTAKE_CATCH_UP_SKIPPED,      /* nobody repeats the work that a dead node left undone */
    MISTAKE_UNDO_SKIPPED,          /* a replica restored to an earlier clock keeps a row of the later clock */
    MISTAKE_COMMIT_TOO_EARLY,      /* a server reports a clock as durable that no reliable machine has */
    MISTAKE_TWO_SERVERS_FENCED,    /* after a recovery two servers serve one partition */
    MISTAKE_NOT_FENCED,            /* a node works on after it has reported FENCED */
    MISTAKE_STORE_WRITE_LOST,      /* the store loses a write, then the controller restarts */
    MISTAKE_ROW_GIVEN_UP,          /* a worker gives up a row that it still needs */
    MISTAKE_INPUT_CONCEALED,       /* a node with other input reports the fingerprint of most nodes' input */
    MISTAKE_TOPICS_FORGOTTEN,      /* lda: a document that has topics is taken for a new one */
    MISTAKE_IMPATIENT_RESTART,     /* a restarted controller counts silence from before its nodes can reach it */
    MISTAKE_CHECKPOINT_NOT_HELD,   /* a checkpoint's clock is named, but no node waits at that clock */
    MISTAKE_LOSS_CONCEALED,        /* after a recovery the controller forgets that reports of lost nodes are missing */
    MISTAKE_LAST_UNSAID,    /* an evaluation from before the last clock was named counts as that of the last clock */
    MISTAKE_ANSWER_AWAITED, /* the controller waits for ever for a node that does not answer */
    MISTAKE_LIE_BELIEVED,   /* the controller believes a node that reports clocks as committed which nobody has begun */
    MISTAKE_WAITING_COUNTED,      /* nodes report waiting time as computing time */
    MISTAKE_SPEED_REVERSED,       /* slower nodes seem to be faster */
    MISTAKE_WEIGHTS_LOST,         /* a restarted controller has forgotten the nodes' weights */
    MISTAKE_TWO_REPLACED,         /* the controller forgets that it is replacing a node */
    MISTAKE_WAITS_UNTOLD,         /* nodes never report that they wait for servers */
    MISTAKE_LOT_TWICE,            /* a node works on a lot that it has given to another node */
    MISTAKE_SHARD_MIXED,          /* a node sends another data shard than requested, unnoticed */
    MISTAKE_BATCH_OF_OTHER_CLOCK, /* a feeder makes the batch of another clock */
    MISTAKE_BATCH_TWICE,          /* a node accepts a repeated batch again */
    MISTAKE_CREDIT_LOST,          /* a node does not return a batch's credit */
    MISTAKE_FEEDER_COUNTS,        /* the controller counts a feeder as a node that works */
    MISTAKE_PIECE_TWICE,          /* a node counts one part's piece of a shard twice */
    MISTAKE_PIECE_LEFT_OUT,       /* a node takes one part's missing piece of a shard for received */
    MISTAKE_STEP_TWICE,           /* a server applies the sum of a clock's updates to a row twice */
    MISTAKE_SUSPICION_BELIEVED,   /* the controller gives a suspected node up without a question to it */
    MISTAKE_SUSPICION_IGNORED,    /* the controller does not question suspected nodes */
    MISTAKE_WOKEN_ACCUSES,        /* a node that was paused takes its own pause for other nodes' silence */
    MISTAKE_STATE_KEPT,           /* a server restored to an earlier clock keeps the later optimizer state of a row */
    MISTAKE_RING_TWICE,           /* a relay adds the contribution of the node before it twice */
    MISTAKE_RING_OVERLAPS,     /* a server adds a sum although an origin in the sum has delivered the clock directly */
    MISTAKE_RING_KEPT,         /* a relay keeps waiting messages in a new epoch */
    MISTAKE_RING_MIXED,        /* one node's plan has another order of the ring, or lacks a node */
    MISTAKE_STRATEGY_KEPT,     /* a node works on a clock by the previous strategy */
    MISTAKE_GOSSIP_LATE,       /* a node averages with a replica of an earlier clock */
    MISTAKE_REPLICA_APART,     /* a partition's replica has different bits in an averaged row */
    MISTAKE_FLUSH_PIECE_WHOLE, /* a server takes the first piece of a flush for the whole flush */
    MISTAKE_FLUSH_PIECE_TWICE, /* a server forgets that it has a piece, and adds the repeat too */
    MISTAKE_CACHE_OTHER_CLOCK, /* a lost partition is restored from a cache's rows of another clock */
    MISTAKE_CACHE_UNFINISHED,  /* a lost partition is restored from a cache's rows with uncommitted work */
    MISTAKE_CACHE_LACKS_ROW,   /* a lost partition is restored from a cache that lacks a row */
    MISTAKE_CACHES_IGNORED,    /* the controller restores no partition from caches */
    MISTAKE_PHASE_AGAIN,       /* a node works on a clock as in the phase before */
    MISTAKES
};
extern const char *const mistake_names[MISTAKES];

/* Schedules: each strikes at an observed moment of the protocol, not at a fixed time. */
enum { SCHEDULE_NONE = -1 };
unsigned cluster_schedules(void);
const char *cluster_schedule_name(unsigned schedule);

struct cluster_options {
    uint64_t seed;
    enum campaign campaign;
    enum cluster_app app;
    int schedule; /* replaces the campaign's faults unless SCHEDULE_NONE */
    enum mistake mistake;
    bool transient; /* CAMPAIGN_ELASTIC in stage transient */
    bool large;     /* CAMPAIGN_ELASTIC with hundreds of nodes, whose processors take time for each message */
    bool caches;    /* with `transient`: all tables are replicated, and all nodes but one or two are lost at once */
    const struct cluster_traces *traces; /* with `transient`: gives joins and losses; NULL: they are drawn */
    FILE *trace;
};

/* Messages of rings and flushes in pieces. */
struct cluster_ring_counts {
    uint64_t sums;     /* sums of a whole chain that servers have added */
    uint64_t overlaps; /* sums dropped because an origin had delivered directly */
    uint64_t pushes;   /* pushes that relays have forwarded */
    uint64_t pieces;   /* pieces that servers have received, without each flush's last one */
};

/* What happened: shows whether a campaign reaches what it is meant to reach. */
struct cluster_counts {
    uint64_t nodes, clocks, plans, recoveries, joins, rejoins, evictions, kills, controller_restarts, checkpoints,
        resumes, redone_items, balances, replacements;
    uint64_t evaluations;     /* evaluations of a clock that the node had not just computed */
    uint64_t partial;         /* iterations whose metrics did not cover all items */
    uint64_t triggered;       /* runs in which the schedule's moment was observed */
    uint64_t lost;            /* jobs that ended with an error, as they had to */
    uint64_t unsaved;         /* attempts at saving the model that failed */
    uint64_t mad;             /* nodes that went mad */
    uint64_t lots;            /* lots done by other nodes than their owners */
    uint64_t shards_taken;    /* data shards received from other nodes */
    uint64_t batches;         /* batches received from feeders */
    uint64_t batches_used;    /* batches from feeders that clocks consumed */
    uint64_t batches_own;     /* batches that nodes made themselves while they waited */
    uint64_t batches_at_once; /* batches that feeders made in several threads at once */
    uint64_t averages;        /* averages between local steps that changed a node's rows */
    struct cluster_ring_counts ring;
    uint64_t pieces_taken; /* pieces of shards received from nodes that read other parts of the input */
    uint64_t cached;       /* partitions restored from caches */
};

struct cluster_result {
    /* When, which invariant and what differs; empty: nothing was violated. */
    char violation[1024];
    uint64_t virtual_us;
    struct sim_statistics statistics;
    struct cluster_counts counts;
    bool mistaken; /* the mistake was made */
};

/* Reads the recorded traces of spot machines in the folders traces-bamboo, traces-skypilot and traces-spothedge-a100 of
 * `folder`. Returns NULL when there are none. */
struct cluster_traces *cluster_traces_read(const char *folder);
void cluster_traces_close(struct cluster_traces *traces);

/* Runs one seed. Returns true when nothing was violated. */
bool cluster_run(const struct cluster_options *options, struct cluster_result *result);

#endif
