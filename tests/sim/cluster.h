/* A whole job in the simulation: the real controller, nodes and servers, one of two apps (app.h), everything else
 * drawn from the seed: the cluster, the job, the network, who joins and leaves, and what goes wrong. The invariants of
 * docs/design.md are checked after every step that could break them. */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "tests/sim/sim.h"

enum campaign {
    CAMPAIGN_FAULTS,  /* breaks, pauses, separations, all shorter than the timeout: the job ends well */
    CAMPAIGN_MISSING, /* stage traditional, a machine or a way to it is missing for longer: the job ends with an error
                         that names it */
    CAMPAIGN_ELASTIC, /* nodes join, are evicted, die, wake up again; so does the controller: the job ends well */
    CAMPAIGN_MAD,     /* the same, and a node goes mad. Where it forges what it sends, the job ends in whatever way */
    CAMPAIGN_UNEVEN,  /* nothing fails, but nodes have different, steady speeds: shares follow these */
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
    MISTAKE_STALE_WORKER,          /* a worker waits for less than the staleness demands */
    MISTAKE_TWO_OWNERS,            /* two nodes work on one shard */
    MISTAKE_TWO_SERVERS,           /* two servers serve one partition */
    MISTAKE_DEAF_SERVER,           /* a server ignores every flush from some time on */
    MISTAKE_PROGRESS_TWICE,        /* the controller counts a clock's items twice */
    MISTAKE_FLUSH_LOST_IN_RESTORE, /* a flush that is sent again after a recovery has lost its rows */
    MISTAKE_CATCH_UP_SKIPPED,      /* what a dead node left undone is not done */
    MISTAKE_UNDO_SKIPPED,          /* a replica that goes back to an earlier clock keeps a row of the later one */
    MISTAKE_COMMIT_TOO_EARLY,      /* a server calls durable what no reliable machine has */
    MISTAKE_TWO_SERVERS_FENCED,    /* after a recovery two servers serve one partition */
    MISTAKE_NOT_FENCED,            /* a node goes on after it has said that it stands still */
    MISTAKE_STORE_WRITE_LOST,      /* the store forgets a write, then the controller starts again */
    MISTAKE_ROW_GIVEN_UP,          /* a worker that gives rows up gives up one that it needs */
    MISTAKE_INPUT_CONCEALED,       /* a node that has read other data than the others reports theirs */
    MISTAKE_TOPICS_FORGOTTEN,      /* lda: whoever works on a document takes it for one that is new */
    MISTAKE_IMPATIENT_RESTART,     /* a restarted controller counts silence from before its nodes can reach it */
    MISTAKE_CHECKPOINT_NOT_HELD,   /* a checkpoint's clock is named, but nobody waits there */
    MISTAKE_LOSS_CONCEALED,        /* after a recovery the controller forgets that lost nodes' reports are missing */
    MISTAKE_LAST_UNSAID,           /* how the last clock was evaluated before it was named counts as its evaluation */
    MISTAKE_ANSWER_AWAITED,        /* the controller waits for ever for a node that answers nothing */
    MISTAKE_LIE_BELIEVED,          /* the controller believes a node that calls clocks committed that nobody began */
    MISTAKE_WAITING_COUNTED,       /* nodes call the time in which they wait time in which they compute */
    MISTAKE_SPEED_REVERSED,        /* the slower a node is the faster it seems to be */
    MISTAKE_WEIGHTS_LOST,          /* a restarted controller has forgotten the nodes' weights */
    MISTAKE_TWO_REPLACED,          /* the controller forgets that a node is being replaced */
    MISTAKE_WAITS_UNTOLD,          /* nodes never say that they wait for servers */
    MISTAKE_LOT_TWICE,             /* a node works on a lot that it has given to another one */
    MISTAKE_SHARD_MIXED,           /* a node gives another data shard than it was asked for, and nobody notices */
    MISTAKE_BATCH_OF_OTHER_CLOCK,  /* a feeder makes the batch of another clock */
    MISTAKE_BATCH_TWICE,           /* a node takes a repeated batch once more */
    MISTAKE_CREDIT_LOST,           /* a node does not give the credit of a batch back */
    MISTAKE_FEEDER_COUNTS,         /* the controller takes a feeder for a node that works */
    MISTAKE_PIECE_TWICE,           /* a node counts what one part has of a shard twice */
    MISTAKE_PIECE_LEFT_OUT,        /* a node does not miss what one part has of a shard */
    MISTAKE_STEP_TWICE,            /* a server applies the sum of a clock's updates to a row twice */
    MISTAKE_SUSPICION_BELIEVED,    /* the controller gives a suspected node up without asking it */
    MISTAKE_SUSPICION_IGNORED,     /* the controller does not look after suspected nodes */
    MISTAKE_WOKEN_ACCUSES,         /* a node that stood still takes the time for others' silence */
    MISTAKE_STATE_KEPT,            /* a server that goes back does not undo the state of one row's optimizer */
    MISTAKE_RING_TWICE,            /* a relay adds what comes from the node before twice */
    MISTAKE_RING_OVERLAPS,         /* a server takes a sum although one of its origins has delivered the clock */
    MISTAKE_RING_KEPT,             /* a relay keeps what waits there in a new epoch */
    MISTAKE_RING_MIXED,            /* a node's plan has another order of nodes, or one node less */
    MISTAKE_STRATEGY_KEPT,         /* a node works on a clock by the strategy before */
    MISTAKE_GOSSIP_LATE,           /* a node averages with a replica of an earlier clock */
    MISTAKE_REPLICA_APART,         /* a replica of a partition has other bits in an averaged row */
    MISTAKE_FLUSH_PIECE_WHOLE,     /* a server takes the first piece of a flush for all of it */
    MISTAKE_FLUSH_PIECE_TWICE,     /* a server forgets that it has a piece, and adds the repeat, too */
    MISTAKE_CACHE_OTHER_CLOCK,     /* a lost partition is restored from what a cache has of another clock */
    MISTAKE_CACHE_UNFINISHED,      /* ... from the cache's own rows, with work that is not committed */
    MISTAKE_CACHE_LACKS_ROW,       /* ... from a cache that lacks a row */
    MISTAKE_CACHES_IGNORED,        /* the controller takes no partition out of a cache */
    MISTAKES
};
extern const char *const mistake_names[MISTAKES];

/* Schedules that aim at a moment: what happens is tied to what is seen, not to a time. */
enum { SCHEDULE_NONE = -1 };
unsigned cluster_schedules(void);
const char *cluster_schedule_name(unsigned schedule);

struct cluster_options {
    uint64_t seed;
    enum campaign campaign;
    enum cluster_app app;
    int schedule; /* SCHEDULE_NONE, or instead of what the campaign draws */
    enum mistake mistake;
    bool transient; /* CAMPAIGN_ELASTIC in stage transient */
    bool caches;    /* with `transient`: tables are whole, and all nodes but one or two are lost at once */
    const struct cluster_traces *traces; /* with `transient`: who comes and goes follows one of them; NULL: is drawn */
    FILE *trace;
};

/* What went by rings, or in pieces. */
struct cluster_ring_counts {
    uint64_t sums;     /* of a whole chain, that servers have taken */
    uint64_t overlaps; /* and those that were dropped, as origins had delivered directly */
    uint64_t pushes;   /* that relays have passed on */
    uint64_t pieces;   /* that servers have taken, except the last one of each flush */
};

/* What happened, to see that a campaign reaches what it is meant to reach. */
struct cluster_counts {
    uint64_t nodes, clocks, plans, recoveries, joins, rejoins, evictions, kills, controller_restarts, checkpoints,
        resumes, redone_items, balances, replacements;
    uint64_t evaluations;     /* of what the node had not just computed */
    uint64_t partial;         /* iterations whose metrics were not of all items */
    uint64_t triggered;       /* runs in which the schedule's moment came */
    uint64_t lost;            /* jobs that ended with an error as they had to */
    uint64_t unsaved;         /* attempts at saving the model that failed */
    uint64_t mad;             /* nodes that went mad */
    uint64_t lots;            /* done by other nodes than their owners */
    uint64_t shards_taken;    /* from other nodes */
    uint64_t batches;         /* from feeders */
    uint64_t batches_used;    /* of them, by clocks */
    uint64_t batches_own;     /* that nodes have made while they waited */
    uint64_t batches_at_once; /* that feeders have made with others, by several threads */
    uint64_t averages;        /* times that an average between local steps has moved a node */
    struct cluster_ring_counts ring;
    uint64_t pieces_taken; /* of shards, from nodes that have read other parts of the input */
    uint64_t cached;       /* partitions restored from caches */
};

struct cluster_result {
    char violation[1024]; /* empty: none. Otherwise when, which invariant, what differs */
    uint64_t virtual_us;
    struct sim_statistics statistics;
    struct cluster_counts counts;
    bool mistaken; /* the mistake was made */
};

/* Recorded traces of spot machines: those of the folders traces-bamboo, traces-skypilot and traces-spothedge-a100 in
 * `folder`. NULL: none is there. */
struct cluster_traces *cluster_traces_read(const char *folder);
void cluster_traces_close(struct cluster_traces *traces);
size_t cluster_traces_count(const struct cluster_traces *traces);

/* Runs one seed. True when nothing was violated. */
bool cluster_run(const struct cluster_options *options, struct cluster_result *result);

#endif
