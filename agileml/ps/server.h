/* A partition server: one actor in one thread, with the replicas of a set of partitions (docs/design.md, "Plans"). Does
 * no I/O of its own. Its messages:
 *
 *   with its node's agent   PLAN and FENCE come in. REPLICAS reports whether the server is in step with the plan and,
 *                           once fenced, its replicas' restore points. ACCUSE reports a node that has sent an
 *                           impossible message. CHECKPOINT comes in, WRITTEN answers it.
 *                           If all replicas of a partition were lost, UPDATE brings its rows from the node's cache. It
 *                           comes before the PLAN that makes this server serve the partition.
 *   with workers            SUBSCRIBE, PULL, FLUSH and SCAN come in. PUSH brings the changed rows to the subscribers
 *                           each time a served partition advances. ROWS answers SCAN.
 *   with other servers      FOLLOW comes in from followers; the server answers with UPDATE, at once and at each commit
 *                           point. It follows other servers by the same two messages. As its node's relay in a ring
 *                           the server adds its node's FLUSH to that of the node before it, and sends the sum to the
 *                           next node. It also passes PUSH on (server_relay.c). */
#ifndef AGILEML_PS_SERVER_H
#define AGILEML_PS_SERVER_H

#include "agileml/net/io.h"
#include "agileml/ps/partition.h"
#include "agileml/ps/ring.h"
#include "agileml/wire/plan.h"

enum {
    SERVER_SCAN_BYTES = 4 << 20,              /* of rows in a ROWS message or a piece of a copy, approximately */
    SERVER_SCANS_MAX = 64,                    /* SCANs that wait for their clock */
    SERVER_EARLY_MAX = 1024,                  /* messages of an epoch that are kept until the epoch's plan comes */
    SERVER_EARLY_BYTES_MAX = 1 << 30,         /* of their frames, but for one message */
    SERVER_UPDATES_MAX = 64,                  /* unanswered updates to a follower; then one update replaces them all */
    SERVER_FOLLOW_RETRY_US = 100 * 1000,      /* a follower's first wait for an answer before it repeats FOLLOW */
    SERVER_FOLLOW_RETRY_MAX_US = 1000 * 1000, /* its longest wait; each wait is twice the one before */
};

/* A follower of one of our replicas, on another server: what it has. server_follow.c makes the transitions:
 *
 *   COPYING --has every piece--> COPIED --reports a clock--> CAUGHT_UP
 *      ^---requests a piece again------'                         |
 *      ^---requests a piece: it begins anew----------------------'
 *
 * A follower that has its state from another server reports a clock while it is COPYING here, and is CAUGHT_UP. */
enum follower_state {
    FOLLOWER_COPYING,   /* we send the follower the pieces of the copy */
    FOLLOWER_COPIED,    /* it has every piece, of different clocks, but lacks the rows changed since `copied_from` */
    FOLLOWER_CAUGHT_UP, /* it has the state at clock `reached` and takes updates */
};

struct server_follower {
    actor_id actor;
    enum follower_state state;
    uint64_t reached;        /* CAUGHT_UP: the clock of its state */
    uint64_t caught_up_from; /* it can be restored to all needed commit points from this clock to `reached` */
    uint64_t copied_from;    /* our clock when its copy began */
    uint64_t cursor;         /* where the piece sent last begins; FOLLOW_COPIED: no piece is outstanding */
    uint64_t sent;           /* updates up to this clock were sent */
    struct message *updates; /* sent but unanswered, oldest first */
    unsigned update_count;
};

/* The state of one of our replicas. The plan's server of a clock is its ParamServ (on a reliable machine) or ActivePS
 * (on a transient one). A reliable replica that follows an ActivePS is its BackupPS (the paper, section 3.2).
 *
 *   COPYING --catches up--> FOLLOWING --is promoted--> SERVING
 *                               ^                       |   ^
 *                               '-applies-- HANDED_OVER <'   |
 *                                updates        |--promoted--'
 *
 * A new epoch puts a replica that is not COPYING back to FOLLOWING. */
enum replica_state {
    REPLICA_COPYING,     /* the copy is not complete; its rows are of different clocks */
    REPLICA_FOLLOWING,   /* the replica has the state at its clock */
    REPLICA_SERVING,     /* the replica takes the flushes of the next clock */
    REPLICA_HANDED_OVER, /* another server takes the flushes of the next clock; this replica still answers PULLs */
};

/* How a replica follows another. Only server_follow.c changes the fields; server.c resets `heard`. */
struct replica_following {
    uint64_t cursor;        /* where the next piece of the copy begins; FOLLOW_COPIED: every piece is here */
    uint64_t copy_from;     /* the server's clock when the copy began */
    uint64_t heard;         /* the clock of the newest UPDATE */
    uint64_t retry_us;      /* when to send FOLLOW again; 0: the replica follows nobody */
    uint64_t retry_wait_us; /* the wait that ends at `retry_us` */
    uint64_t number;        /* of the last FOLLOW */
    uint64_t again;         /* number of the last FOLLOW that requested a lost update again; 0: none yet */
};

/* The checkpoint that a replica is to write. Only server_checkpoint.c changes it. */
struct replica_checkpoint {
    struct message_checkpoint *asked; /* requested, but not written yet; NULL: none */
    bool writing;                     /* the hook is writing it */
    bool in_place;                    /* the hook reads the replica's own rows; until it is done they must not change */
    struct message_written *written;  /* the last success, kept to report it again; NULL: none */
};

/* One partition, and this server's replica of it. */
struct server_replica {
    struct partition *partition; /* NULL: no replica here */
    enum replica_state state;
    bool in_step;     /* serves, or follows at most one commit interval behind; counted in server.lagging */
    uint64_t durable; /* the newest clock whose state is on a reliable machine, or on two machines in stage transient */
    uint64_t durable_from; /* all needed commit points from this clock to `durable` are durable too */
    uint64_t sum_clock;    /* the newest clock of which this epoch has brought a ring's sum */
    uint64_t promoted;     /* its clock when it began to serve; the server before it answers for earlier clocks */
    struct server_follower *followers;
    unsigned follower_count;
    struct replica_following following;
    struct replica_checkpoint checkpoint;
};

/* One clock of a partition at a relay. */
struct relay_entry {
    uint64_t clock;
    struct message own, sum; /* our node's flush, and the sum of the nodes before it in the chain */
    bool has_own, has_sum;
    bool sent; /* the sum of both was sent to the next node */
};

/* What waits at a relay. Only server_relay.c changes it. */
struct relay {
    struct relay_partition {
        struct relay_entry *entries; /* at most 2 x (staleness + 1) */
        unsigned count;
    } * partitions;
    uint32_t partition_count; /* 0: nothing has arrived yet in this epoch */
    uint64_t sums_taken;      /* sums of a whole chain that this server has taken; for tests */
    uint64_t sums_overlapped; /* sums that were rejected with FLUSH_OVERLAPS; for tests */
};

/* The nodes of a plan. */
struct plan_members {
    struct index_map index; /* node -> place in needs_from */
    uint64_t *needs_from;   /* first clock of the node's assignments; WIRE_CLOCK_NEVER: none, or not decided */
    uint32_t count;
};

struct server_hooks {
    /* Starts to write `partition`, which is at the checkpoint's clock, to the checkpoint's path, and returns at once.
     * When the file is written, the hook's owner calls server_written on the io's thread. With `copy` the hook owns the
     * partition and closes it. Without `copy` the server keeps the rows unchanged until server_written. NULL: this
     * server writes no checkpoints. */
    void (*write)(void *context, struct partition *partition, const struct message_checkpoint *checkpoint, bool copy);
    /* Fills a newly opened partition from the checkpoint in `path`, calls partition_loaded, and returns 0 or an error.
     * A row whose clock stays 0 has its start value. Blocks. */
    int (*read)(void *context, struct partition *partition, const char *path, uint64_t clock, struct error *error);
    void *context;
};

struct server {
    struct io *io;
    actor_id self;
    const struct job *job;
    struct server_hooks hooks;
    uint64_t epoch;              /* of the plan in force, or of a newer FENCE; messages of older epochs are dropped */
    bool fenced;                 /* no plan of `epoch` has come yet */
    struct plan_view plan;       /* in force */
    struct plan_members members; /* of the plan */
    struct plan_view later_plan; /* newer; waits until no replica is being written in place */
    bool reliable;               /* the plan names our node as reliable */
    uint32_t partition_count;    /* of the job */
    struct server_replica *replicas; /* by partition */
    uint64_t committed;              /* the newest clock that is known to be committed */
    unsigned lagging;                /* replicas of the plan that are not in step */
    bool in_step;                    /* as last reported to the agent */
    uint64_t timer_us;               /* when server_timer is due; 0: no timer is set */
    struct early_message {
        actor_id from;
        struct message message;
    } * early;
    unsigned early_count;
    uint64_t early_bytes;
    struct message *given; /* UPDATEs from the node's cache, one per partition; they wait for their epoch's plan */
    unsigned given_count;
    struct scan_request {
        actor_id from;
        struct message_scan scan;
    } * scans; /* waiting for their clock */
    unsigned scan_count;
    struct rings rings;
    struct relay relay;
    bool accused; /* this server has accused a node in this epoch */
};

/* `hooks` may be NULL. */
void server_init(struct server *server, struct io *io, actor_id self, const struct job *job,
                 const struct server_hooks *hooks);
void server_close(struct server *server);

/* Takes the write hook's result and reports it to the agent. `written` has number, partition, clock and state; also
 * bytes and checksum after a success, or the error's text. */
void server_written(struct server *server, const struct message_written *written);

/* Whether this server takes flushes of `clock` for the partition now. Tests check I7 by it. */
bool server_serves(const struct server *server, uint32_t partition, uint64_t clock);

/* The actor's functions (net/io.h), `self` a struct server. */
void server_receive(void *self, actor_id from, struct message *message);
void server_timer(void *self);

#endif
