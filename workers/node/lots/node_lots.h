/* Lots (docs/design.md, "Lots"): parts of a node's work in a clock. Each lot has a helper, a fixed other node, which
 * may do the lot in the owner's place. In a clock the owner gives a lot away at most once, and adds the helper's
 * changes to its own flush. If these don't come, the owner does the lot itself. So neither the servers nor the
 * controller know of lots. */
#ifndef AGILEML_WORKERS_NODE_LOTS_H
#define AGILEML_WORKERS_NODE_LOTS_H

#include "workers/node/node_service.h"

#include <stdatomic.h>

enum {
    NODE_LOTS_WORTH_US = 2000, /* a node whose own work took less time than this asks for no lots */
    NODE_LOTS_WAIT_US = 5000,  /* the shortest wait for a lot that was given away */
};

/* FREE --node_lot_take--> OURS
 * FREE --LOT_ASK--> GIVEN --LOT_DONE--> THEIRS
 * GIVEN --LOT_LEFT, is_overdue (too late, or another epoch), a row is lacking here--> FREE */
enum node_lot_state { LOT_FREE, LOT_OURS, LOT_GIVEN, LOT_THEIRS };

/* A lot of this node's clock under way. */
struct node_lot {
    _Atomic unsigned char state; /* enum node_lot_state; changed by any thread */
    actor_id helper;
    uint64_t claim;                                   /* the number of the helper's LOT_ASK */
    uint64_t epoch;                                   /* the epoch in which the lot was given away */
    struct message changes;                           /* the LOT_DONE message, with its rows; type 0: it has not come */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX]; /* from the LOT_DONE */
};

/* The lots of the clock under way. */
struct own_lots {
    struct node_lot lots[WIRE_LOTS_MAX];
    unsigned count;       /* 0: the clock has none */
    bool computed;        /* the process has done all of its own work, and the lots that it took */
    uint64_t computed_us; /* when `computed` was set */
    uint64_t given, done; /* numbers of lots in all clocks: given away, and done by helpers in time */
};

/* Another node's lot that this node may do. */
struct node_helped {
    actor_id owner;
    unsigned lot;
    uint64_t from_clock; /* the first clock in which the lot is the owner's */
    uint64_t digest;     /* of the lot's shards */
    unsigned set;        /* the number of the set of the lot's data */
    uint64_t asked;      /* the last clock for which this node asked for the lot */
};

/* NONE --LOT_ASK--> ASKED --LOT_GIVE--> RUNNING --node_helped--> NONE
 * ASKED --LOT_KEEP, or a clock begins--> NONE */
enum node_help_state { HELP_NONE, HELP_ASKED, HELP_RUNNING };

struct node_help {
    struct node_helped *list;
    unsigned count;
    enum node_help_state state;
    struct node_helped present; /* the lot that was asked for, or is worked on */
    uint64_t claim;             /* the number of the last LOT_ASK */
    uint64_t clock;             /* the clock of `present` */
    uint64_t epoch;             /* the epoch in which this node asked for `present` */
};

struct node_lots {
    struct own_lots own;
    struct node_help help;
};

extern const struct node_service NODE_LOTS;

static inline struct node_lots *node_lots(const struct node *node) {
    return node_service_state(node, SERVICE_LOTS);
}

/* Takes a free lot for this node's own process. Returns the lot's number; -1: no lot is free. Any thread. */
int node_lot_take(const struct node *node);
/* Reports that a lot of `items` items of another node was worked on. metrics[metric_count] are the app's. */
void node_helped(struct node *node, uint64_t items, const struct wire_metric_sum *metrics);
/* Adds the metrics of the last clock's lots that other nodes have done to the process's own of that clock. */
void node_lots_add_metrics(const struct node *node, struct wire_metric_sum *sums);

#endif
