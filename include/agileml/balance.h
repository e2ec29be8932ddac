/* Policies for uneven machines: what to do about nodes that compute at different speeds. `--balance NAME` chooses one
 * that is built in, and `--balance ./FILE.so` one of yours: a shared library that defines
 *
 *     const unsigned aml_balance_version = AML_BALANCE_VERSION;
 *     bool aml_balance(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
 *                      char reason[AML_BALANCE_REASON]);
 *
 * The library includes this header alone, and links with nothing of Proteus. The controller calls aml_balance at the
 * end of iterations, at most twice a second, in its only thread: the call should return within a few milliseconds. No
 * call is made while a change of plan is under way or the stage tuner tries something. A speed may be unknown: then its
 * `clocks` is 0.
 *
 * AntDT (Xiao et al.), section V, has such policies, which see measured speeds and return actions. */
#ifndef AGILEML_BALANCE_H
#define AGILEML_BALANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AML_BALANCE_VERSION 1u

enum {
    AML_BALANCE_EVEN = 64,          /* the usual weight of a node with the mean share */
    AML_BALANCE_WEIGHT_MAX = 65536, /* the largest weight */
    AML_BALANCE_MEMORY = 256,       /* bytes of the policy's own */
    AML_BALANCE_REASON = 160,       /* bytes, with the terminating 0 */
    AML_BALANCE_NAME = 64           /* bytes, with the terminating 0 */
};

/* The two windows of time over which speeds are measured: --window-short and --window-long. */
enum aml_balance_span { AML_BALANCE_SHORT, AML_BALANCE_LONG, AML_BALANCE_SPANS };

/* How fast a node was within a window. Times are in seconds. They are times of computing, without waiting for other
 * nodes, unless a field says otherwise. A node's clock takes fixed_seconds, and shard_seconds for each data shard. */
struct aml_balance_speed {
    double clocks;        /* how many were measured; 0: nothing is known, and all other fields are 0 */
    double seconds;       /* how long all these clocks lasted, waiting included */
    double clock_seconds; /* the mean time of a clock */
    double fixed_seconds; /* of each clock, whatever the node's share; 0: not known, or none */
    double slice_seconds; /* the fixed part, for each slice of the clock (--slice; otherwise a clock is one slice) */
    double shard_seconds; /* of each data shard in a clock, beyond the fixed part */
    double error;         /* the standard error of clock_seconds, as a part of clock_seconds */
    /* The node's time for an equal share of the data, divided by the mean of all nodes' times. From 1.5 on the node is
     * a straggler. 0: not known. */
    double slowness;
};

/* How long nodes waited within a window for a server's state. In each clock a node's wait for a server begins when the
 * state of the earliest server has come: until then all servers may wait for the slowest worker. */
struct aml_balance_wait {
    double clocks;  /* how many were measured, summed over the waiting nodes; 0: nothing is known */
    double seconds; /* the mean wait of a node in a clock */
    double error;   /* the standard error of `seconds` */
};

/* A node that works on data. */
struct aml_balance_node {
    char name[AML_BALANCE_NAME];
    unsigned threads;    /* worker threads */
    double shards;       /* the node's data shards at present */
    double slice_shards; /* as many shards as have the items of one slice in a clock (--slice); 0: no limit */
    uint32_t weight;     /* the present one, see struct aml_balance_action */
    bool transient;
    /* The node may be replaced now: the job can do without it, no other node is being replaced, and fewer than
     * --replacements nodes have been replaced. */
    bool replaceable;
    struct aml_balance_speed speeds[AML_BALANCE_SPANS];
    /* The node as a server of parameters. */
    unsigned partitions;                              /* how many it serves */
    uint32_t serve_weight;                            /* the present one, see struct aml_balance_action */
    struct aml_balance_wait waits[AML_BALANCE_SPANS]; /* for this node's servers */
};

struct aml_balance_view {
    size_t count;
    const struct aml_balance_node *nodes;
    double now;                        /* seconds since training began */
    double windows[AML_BALANCE_SPANS]; /* their lengths in seconds; each has at least 8 clocks, older ones if need be */
    /* How long the job is expected to go on: by --iterations or --seconds; as long as until now if it has neither. */
    double seconds_left;
    /* How long a replacement takes, from a node's eviction until the node in its place works. Before the first
     * replacement: the last machine's time from its allocation to its joining, or else a guess. */
    double pending_seconds;
};

/* What is to become of the node with the same index in the view. The controller fills in the present weights, and
 * `replace` false. */
struct aml_balance_action {
    /* The node's share of the data is in proportion to its weight, at most AML_BALANCE_WEIGHT_MAX. 0, the default: each
     * of its worker threads counts as the mean thread of the nodes with weights. */
    uint32_t weight;
    /* The node's share of the partitions is in proportion to this weight, to within a partition; at most
     * AML_BALANCE_WEIGHT_MAX. 0, the default: AML_BALANCE_EVEN. */
    uint32_t serve_weight;
    /* Evicts the node with notice, and `proteus run` starts another one in its place. For one node at most, which must
     * be replaceable; otherwise the job ends with an error. */
    bool replace;
};

/* Returns whether `actions` (view->count of them) are to be carried out, and sets `reason` to the reason for people.
 * `memory` is the policy's own: AML_BALANCE_MEMORY bytes, zeroed before the first call, and again after the controller
 * was restarted. */
typedef bool aml_balance_policy(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                                char reason[AML_BALANCE_REASON]);

/* What the library defines. */
extern const unsigned aml_balance_version;
aml_balance_policy aml_balance;

#ifdef __cplusplus
}
#endif

#endif
