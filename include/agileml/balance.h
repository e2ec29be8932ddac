/* Policies for uneven machines: what to do about nodes that compute at different speeds. `--balance NAME` chooses one
 * that is built in, and `--balance ./FILE.so` one of yours: a shared library that defines
 *
 *     const unsigned aml_balance_version = AML_BALANCE_VERSION;
 *     bool aml_balance(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
 *                      char reason[AML_BALANCE_REASON]);
 *
 * It includes this header alone, and links with nothing of Proteus. The controller calls it after iterations, at most
 * twice a second, in its only thread: it should return within a few milliseconds. It is not called while another
 * change is under way or the stage tuner tries something. Speeds may be unknown: then `clocks` is 0.
 *
 * The idea of a policy that sees measured speeds and returns actions is that of AntDT (Xiao et al.), section V. */
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
    AML_BALANCE_MEMORY = 256,       /* bytes */
    AML_BALANCE_REASON = 160,       /* bytes, with the end */
    AML_BALANCE_NAME = 64           /* bytes, with the end */
};

/* The two windows of time over which speeds are measured: --window-short and --window-long. */
enum aml_balance_span { AML_BALANCE_SHORT, AML_BALANCE_LONG, AML_BALANCE_SPANS };

/* How fast a node was within a window. Times are in seconds, and are times of computing: waiting for others is not in
 * them. */
struct aml_balance_speed {
    double clocks;        /* that were measured; 0: nothing is known, and all else is 0 */
    double seconds;       /* that these clocks lasted, waiting included */
    double clock_seconds; /* of a clock */
    double fixed_seconds; /* of a clock, whatever its share; 0 where all clocks had about as many items */
    double slice_seconds; /* of the fixed part, for each slice of a clock; a clock is at least one */
    double shard_seconds; /* of a clock, for each data shard beyond the fixed part */
    double error;         /* the standard error of clock_seconds, by clock_seconds */
    double
        slowness; /* the node's time for an equal share by the mean of all nodes' times; 0: not known. From 1.5 on the
                        node is a straggler */
};

/* How long nodes waited within a window for a server's state, in each clock, after they had it of the earliest server.
 * That of all servers waits for the slowest worker. */
struct aml_balance_wait {
    double clocks;  /* by which it is known, each node's counted; 0: nothing is known */
    double seconds; /* of a clock */
};

/* A node that works on data. */
struct aml_balance_node {
    char name[AML_BALANCE_NAME];
    unsigned threads;
    double shards;   /* of the data, that it has at present */
    double slice_shards; /* of a clock, that it works on at once (--slice); 0: any number */
    uint32_t weight; /* its present one, see struct aml_balance_action */
    bool transient;
    bool replaceable; /* it may be replaced now: the job can do without it, no other one is being replaced, and fewer
                         than --replacements nodes were */
    struct aml_balance_speed speeds[AML_BALANCE_SPANS];
    /* As a server of parameters. */
    unsigned partitions;   /* that it serves */
    uint32_t serve_weight; /* its present one, see struct aml_balance_action */
    struct aml_balance_wait waits[AML_BALANCE_SPANS];
};

struct aml_balance_view {
    size_t count;
    const struct aml_balance_node *nodes;
    double now;                        /* seconds since training began */
    double windows[AML_BALANCE_SPANS]; /* their lengths in seconds; each has at least 8 clocks, if need be older ones */
    double seconds_left;    /* that the job is to go on, as far as can be told: as long as until now where it ends by a
                               tolerance */
    double
        pending_seconds; /* from a node's eviction until the one in its place works; before the first one how long the
                               last machine took from its allocation to its joining; a guess before that */
};

/* What is to become of the node with the same index. At first: nothing is to change. */
struct aml_balance_action {
    uint32_t weight; /* of its share of the data, up to AML_BALANCE_WEIGHT_MAX; shares are in proportion to weights. 0:
                        as nodes with weights have by their worker threads, the default */
    uint32_t serve_weight; /* of its share of the partitions, up to AML_BALANCE_WEIGHT_MAX; shares are in proportion to
                              weights, to within a partition. 0: AML_BALANCE_EVEN, the default */
    bool replace; /* it is evicted, with notice, and `proteus run` starts another in its place. At most one node, and a
                        replaceable one: else the job ends with an error */
};

/* Returns whether `actions` (view->count of them) are to be carried out, with the reason for people in `reason`.
 * `memory` is the policy's own: AML_BALANCE_MEMORY bytes, 0 at first, and again when the controller was restarted. */
typedef bool aml_balance_policy(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                                char reason[AML_BALANCE_REASON]);

/* What a library defines. */
extern const unsigned aml_balance_version;
aml_balance_policy aml_balance;

#ifdef __cplusplus
}
#endif

#endif
