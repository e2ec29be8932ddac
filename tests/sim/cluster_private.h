/* What the simulated cluster (cluster.c) and its checks (cluster_check.c) share. */
#ifndef TESTS_SIM_CLUSTER_PRIVATE_H
#define TESTS_SIM_CLUSTER_PRIVATE_H

#include "tests/sim/cluster.h"

enum {
    CLUSTER_NODES_MAX = 32,
    CLUSTER_SERVERS_MAX = 3,
    CLUSTER_PARTITIONS_MAX = 32,
    CLUSTER_CONTROLLER = 0, /* its machine; node n runs on machine n + 1 */
    CLUSTER_METRICS = 2,
    CLUSTER_STALE_EXTRA = 3, /* of MISTAKE_STALE_WORKER */
    CLUSTER_STEPS_MAX = 20 * 1000 * 1000
};

struct cluster_server {
    struct cluster_node *node;
    struct server server;
    uint64_t checked[CLUSTER_PARTITIONS_MAX]; /* the clock at which each partition's rows were checked */
};

struct cluster_node {
    struct cluster *cluster;
    unsigned number, machine;
    actor_id id;
    struct node node;
    struct io *io;
    struct job job; /* a copy of its own for MISTAKE_STALE_WORKER */
    struct wire_endpoint endpoints[CLUSTER_SERVERS_MAX];
    struct cluster_server servers[CLUSTER_SERVERS_MAX];
    unsigned server_count;
    unsigned threads;
    enum node_tier tier;
    uint64_t start_us, load_us, compute_us;
    bool lazy; /* adds the rows of half of its shards only when a clock comes to them */
    unsigned *shards;
    unsigned shard_count;
    uint64_t items;
    int64_t *slots;                   /* by the adder's rows: the cache's slot, or -1 */
    unsigned *rows[ADDER_TABLES_MAX]; /* by table and slot: the adder's row */
    struct adder_change *own;         /* own changes of the clocks not yet committed; clock c at c % own_count */
    unsigned own_count;
    uint64_t clock;          /* at work on */
    uint64_t computed_us;    /* when that began */
    uint32_t evaluate_stamp; /* the cache's when evaluation began */
    unsigned saves;
    bool started, ended;
    int code;
    char text[ERROR_TEXT_MAX];
};

enum fault_kind { FAULT_BREAK, FAULT_PAUSE, FAULT_SEPARATE, FAULT_REMOVE };

struct fault {
    struct cluster *cluster;
    enum fault_kind kind;
    unsigned machine;
    int other;
    uint64_t at_us, until_us;
    unsigned char sides[CLUSTER_NODES_MAX + 1];
};

struct cluster {
    struct cluster_options options;
    struct cluster_result *result;
    uint64_t random;
    struct sim *sim;
    struct adder adder;
    struct job_terms terms;
    struct controller controller;
    struct io *controller_io;
    bool controller_ended;
    int code;
    char text[ERROR_TEXT_MAX];
    struct cluster_node nodes[CLUSTER_NODES_MAX];
    unsigned node_count, reliable;
    struct plan_policy policy;
    uint32_t heartbeat_ms, timeout_ms;
    actor_id serving[CLUSTER_PARTITIONS_MAX]; /* I7: who holds each partition */
    struct buffer *plan_shards, *plan_placement;
    uint64_t *worked; /* I6: by shard, the last clock worked on */
    struct fault faults[24];
    unsigned fault_count;
    int missing;           /* in CAMPAIGN_MISSING: the node's number; node_count: the controller */
    bool removed;          /* the missing one is gone for good */
    uint64_t calm_us;      /* no fault is active after that */
    uint64_t mistake_left; /* opportunities to let pass before the mistake is made */
};

/* Keeps the first violation: the run ends with it. */
__attribute__((format(printf, 3, 4))) void cluster_violation(struct cluster *cluster, const char *invariant,
                                                             const char *format, ...);

/* The objective that every node reports of a clock. */
double cluster_objective(uint64_t clock);

/* After a step of a server, of a node; when a worker begins a clock; after a push (client.row_state). */
void cluster_check_server(struct cluster_server *server);
void cluster_check_node(struct cluster_node *node);
void cluster_check_begin(struct cluster_node *node, uint64_t clock);
void cluster_check_row_state(void *node, uint32_t partition, uint64_t clock);
/* At the end of a run of each campaign. */
void cluster_check_good_end(struct cluster *cluster);
void cluster_check_bad_end(struct cluster *cluster);

#endif
