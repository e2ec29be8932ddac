/* Policies for nodes that compute at different speeds. `--balance NAME` chooses a built-in policy, and `--balance
 * ./FILE.so` your own: a shared library that defines
 *
 *     const unsigned aml_balance_version = AML_BALANCE_VERSION;
 *     bool aml_balance(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
 *                      char reason[AML_BALANCE_REASON]);
 *
 * The library includes only this header, and links with nothing of Proteus. The controller calls aml_balance at the
 * end of iterations, at most twice a second. A call should return within a few milliseconds, as the controller has
 * only one thread. No call is made during a change of plan or a trial of the stage tuner. A speed may be unknown:
 * then its `clocks` is 0.
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
    AML_BALANCE_MEMORY = 256,       /* bytes of the policy's memory */
    AML_BALANCE_REASON = 160,       /* bytes, with the terminating 0 */
    AML_BALANCE_NAME = 64           /* bytes, with the terminating 0 */
};

/* The two windows of time over which speeds are measured: --window-short and --window-long. */
enum aml_balance_span { AML_BALANCE_SHORT, AML_BALANCE_LONG, AML_BALANCE_SPANS };

/* How fast a node was within a window. Times are in seconds of computing, without waiting for other nodes, unless a
 * field says otherwise. A clock of a node takes fixed_seconds, plus shard_seconds for each data shard. */
struct aml_balance_speed {
    double clocks;        /* number of clocks measured; 0: nothing is known, and all other fields are 0 */
    double seconds;       /* duration of all these clocks, waiting included */
    double clock_seconds; /* the mean time of a clock */
    double fixed_seconds; /* per clock, whatever the node's share; 0: not known, or none */
    double slice_seconds; /* the fixed part per slice of the clock (--slice; otherwise a clock is one slice) */
    double shard_seconds; /* per data shard and clock, in addition to the fixed part */
    double error;         /* the standard error of clock_seconds, relative to clock_seconds */
    /* The node's time for an equal share of the data, divided by the mean of all nodes' times. From 1.5 on the node is
     * a straggler. 0: not known. */
    double slowness;
};

/* How long nodes waited within a window for a server's state. In each clock a node's wait for a server begins when
 * the state of the first server arrives, as until then all servers may be waiting for the slowest worker. */
struct aml_balance_wait {
    double clocks;  /* number of clocks measured, summed over the waiting nodes; 0: nothing is known */
    double seconds; /* the mean wait of a node in a clock */
    double error;   /* the standard error of `seconds` */
};

/* A node that works on data. */
struct aml_balance_node {
    char name[AML_BALANCE_NAME];
    unsigned threads;    /* worker threads */
    double shards;       /* the node's data shards at present */
    double slice_shards; /* number of shards with the items of one slice in a clock (--slice); 0: no limit */
    uint32_t weight;     /* present weight, see struct aml_balance_action */
    bool transient;
    /* Whether the node may be replaced now: the job can do without it, no other node is being replaced, and fewer
     * than --replacements nodes have been replaced. */
    bool replaceable;
    struct aml_balance_speed speeds[AML_BALANCE_SPANS];
    /* The node as a server of parameters. */
    unsigned partitions;                              /* number of partitions that the node serves */
    uint32_t serve_weight;                            /* present weight, see struct aml_balance_action */
    struct aml_balance_wait waits[AML_BALANCE_SPANS]; /* waits of other nodes for this node's server */
};

struct aml_balance_view {
    size_t count;
    const struct aml_balance_node *nodes;
    double now;                        /* seconds since training began */
    double windows[AML_BALANCE_SPANS]; /* their lengths in seconds; a window is longer if it has fewer than 8 clocks */
    /* Expected remaining time, by --iterations or --seconds. If the job has neither, the time since the start. */
    double seconds_left;
    /* Expected time of a replacement, from a node's eviction until its successor works. Before the first
     * replacement: the last machine's time from allocation to joining, or else a guess. */
    double pending_seconds;
};

/* The action for the node with the same index in the view. The controller initializes the weights with the present
 * ones, and `replace` with false. */
struct aml_balance_action {
    /* The node's share of the data is in proportion to its weight, at most AML_BALANCE_WEIGHT_MAX. 0, the default:
     * each of its worker threads counts like the mean thread of the nodes with weights. */
    uint32_t weight;
    /* The node's share of the partitions is in proportion to this weight, to within a partition; at most
     * AML_BALANCE_WEIGHT_MAX. 0, the default: AML_BALANCE_EVEN. */
    uint32_t serve_weight;
    /* Evicts the node with notice; `proteus run` starts another node in its place. Allowed for at most one node,
     * which must be replaceable; otherwise the job ends with an error. */
    bool replace;
};

/* Returns whether to carry out `actions` (view->count of them), and sets `reason` to the reason for people. `memory`
 * belongs to the policy: AML_BALANCE_MEMORY bytes, zeroed before the first call and after a restart of the
 * controller. */
typedef bool aml_balance_policy(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                                char reason[AML_BALANCE_REASON]);

/* The symbols that the library must define. */
extern const unsigned aml_balance_version;
aml_balance_policy aml_balance;

#ifdef __cplusplus
}
#endif

#endif
