/* Lots (docs/design.md, "Lots"): parts of a node's work in a clock that a helper, a fixed other node, may do in its
 * place. The owner of a lot gives it away once at most, adds what comes back to its own flush, and does itself what
 * does not come. So nobody else knows of lots: neither the servers nor the controller. */
#ifndef AGILEML_WORKERS_NODE_LOTS_H
#define AGILEML_WORKERS_NODE_LOTS_H

#include "agileml/wire/message.h"

#include <stdatomic.h>
#include <stdbool.h>

enum {
    NODE_LOTS_WORTH_US = 2000, /* a node whose own work took less asks for no lots */
    NODE_LOTS_WAIT_US = 5000,  /* the shortest wait for a lot that was given away */
};

/* FREE --node_lot_take--> OURS
 * FREE --LOT_ASK--> GIVEN --LOT_DONE and LOT_METRICS, in whichever order--> THEIRS
 * GIVEN --LOT_LEFT, too long, the helper or the epoch is gone--> FREE */
enum node_lot_state { LOT_FREE, LOT_OURS, LOT_GIVEN, LOT_THEIRS };

/* A lot of this node's clock under way. */
struct node_lot {
    _Atomic unsigned char state; /* enum node_lot_state; any thread */
    actor_id helper;
    uint64_t claim;                                   /* of the helper's LOT_ASK */
    uint64_t epoch;                                   /* in which it was given away */
    struct message changes;                           /* LOT_DONE, whose frames are held; type 0: it has not come */
    bool measured;                                    /* LOT_METRICS has come */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX]; /* from the helper */
};

/* The lots of the clock under way. */
struct node_lots {
    struct node_lot lots[WIRE_LOTS_MAX];
    unsigned count;       /* 0: the clock has none */
    bool computed;        /* the process is through with all that it has taken */
    uint64_t computed_us; /* when */
    uint64_t theirs;      /* items in lots that helpers have done */
    uint64_t given, done; /* lots of all clocks: given away; those that came back in time */
};

/* Another node's lot that this node may do. */
struct node_helped {
    actor_id owner;
    unsigned lot;
    uint64_t from_clock; /* the first clock in which it is the owner's */
    uint64_t digest;     /* of its shards */
    unsigned set;        /* index in node_work.sets */
    uint64_t asked;      /* for this clock */
};

/* NONE --LOT_ASK--> ASKED --LOT_GIVE--> RUNNING --node_helped--> NONE
 * ASKED --LOT_KEEP, or a clock begins--> NONE */
enum node_help_state { HELP_NONE, HELP_ASKED, HELP_RUNNING };

struct node_help {
    struct node_helped *list;
    unsigned count;
    enum node_help_state state;
    struct node_helped present; /* that was asked for, or is worked on */
    uint64_t claim;             /* of the last LOT_ASK */
    uint64_t clock;             /* of the lot */
    uint64_t epoch;
};

/* Takes a lot that nobody has taken, for this node's own process. Returns its number; -1: there is none. Any thread. */
int node_lot_take(struct node_lots *lots);

#endif
