/* A partition server: one actor, one thread, the replicas of a set of partitions. Takes PLAN and FENCE from its own
 * node's agent; from workers SUBSCRIBE, PULL, FLUSH and SCAN, and pushes changed rows to its subscribers each time a
 * partition that it serves advances; from followers FOLLOW, which it answers with UPDATE, now and at each
 * commit point; and follows others itself (docs/design.md, "Plans"). Tells its agent (REPLICAS) when it is in step
 * with a plan and, once fenced, at which clocks its replicas can be put; and of a node that has sent what can't be
 * (ACCUSE). Does no I/O of its own. */
#ifndef AGILEML_PS_SERVER_H
#define AGILEML_PS_SERVER_H

#include "agileml/net/io.h"
#include "agileml/ps/partition.h"
#include "agileml/wire/plan.h"

enum {
    SERVER_SCAN_BYTES = 4 << 20,              /* about so much of a table per ROWS, or per piece of a copy */
    SERVER_SCANS_MAX = 64,                    /* that wait for their clock */
    SERVER_EARLY_MAX = 1024,                  /* messages of an epoch whose plan has not come yet, kept until then */
    SERVER_UPDATES_MAX = 64,                  /* sent to a follower that does not answer; beyond, it gets one for all */
    SERVER_FOLLOW_RETRY_US = 100 * 1000,      /* a follower that hears nothing says again how far it is ... */
    SERVER_FOLLOW_RETRY_MAX_US = 1000 * 1000, /* ... then after twice as long each time, up to this */
};

/* What a follower elsewhere has of one of our replicas. server_follow.c makes the transitions:
 *
 *   COPYING --has every piece--> COPIED --reports a clock--> CAUGHT_UP
 *      ^-----asks for a piece again----'                         |
 *      ^-----------asks for a piece: it begins anew--------------'
 */
enum follower_state {
    FOLLOWER_COPYING,   /* pieces of the copy are being sent to it */
    FOLLOWER_COPIED,    /* it has every piece; what changed since `copied_from` makes them the state of one clock */
    FOLLOWER_CAUGHT_UP, /* it has the state of clock `reached` and takes updates */
};

struct server_follower {
    actor_id actor;
    enum follower_state state;
    uint64_t reached;        /* caught up: the clock of its state */
    uint64_t caught_up_from; /* it has every commit point from this one to `reached`, or from the committed one on */
    uint64_t copied_from;    /* our clock when its copy began */
    uint64_t cursor;         /* of the piece sent last; FOLLOW_COPIED: none, or all */
    uint64_t sent;           /* updates up to this clock were sent */
    struct message *updates; /* sent and not answered yet, oldest first */
    unsigned update_count;
};

/* What a replica here is. The plan's server of a clock is its ParamServ (on a reliable machine) or ActivePS (on a
 * transient one); a reliable replica that follows an ActivePS is its BackupPS (the paper, section 3.2).
 *
 *   COPYING --catches up--> FOLLOWING --is promoted--> SERVING
 *                               ^                       |   ^
 *                               '-applies-- HANDED_OVER <'   |
 *                                updates        |--promoted--'
 *
 * A new epoch puts a replica that is not COPYING back to FOLLOWING. */
enum replica_state {
    REPLICA_COPYING,     /* its rows are not those of one clock yet */
    REPLICA_FOLLOWING,   /* it has the state of its clock */
    REPLICA_SERVING,     /* it takes the flushes of the next clock */
    REPLICA_HANDED_OVER, /* another server takes them; it still answers for the clocks up to its own */
};

/* How a replica follows another. Only server_follow.c changes it, but for `heard`, which begins anew. */
struct replica_following {
    uint64_t cursor;    /* of the copy; FOLLOW_COPIED: every piece is here */
    uint64_t copy_from; /* the server's clock when the copy began */
    uint64_t heard;     /* the clock of the newest UPDATE */
    uint64_t retry_us;  /* when to send FOLLOW again; 0: it does not follow */
    uint64_t retry_wait_us;
    uint64_t number; /* of the last FOLLOW */
    uint64_t again;  /* number of the last FOLLOW that requested a lost update anew; 0: none yet */
};

/* The checkpoint that a replica is to write. Only server_checkpoint.c changes it. */
struct replica_checkpoint {
    struct message_checkpoint *asked; /* not written yet; NULL: none */
    bool writing;                     /* the hook writes it */
    bool in_place;                    /* the hook reads this very partition, which does not change meanwhile */
    struct message_written *written;  /* the last one that went well, to report it again */
};

/* One partition's place on this server. */
struct server_replica {
    struct partition *partition; /* NULL: none here */
    enum replica_state state;
    bool in_step;          /* as counted in server.lagging */
    uint64_t durable;      /* a reliable machine has its state up to this clock ... */
    uint64_t durable_from; /* ... at every commit point from this one on, or from the committed one on */
    uint64_t promoted;     /* its clock when it began to serve: its predecessor has reported what was durable by then */
    struct server_follower *followers;
    unsigned follower_count;
    struct replica_following following;
    struct replica_checkpoint checkpoint;
};

/* The nodes of a plan, and which is the first clock of the assignments of each; WIRE_CLOCK_NEVER: none, or not
 * named. */
struct plan_members {
    struct index_map index; /* actor -> place in needs_from */
    uint64_t *needs_from;
    uint32_t count;
};

struct server_hooks {
    /* Writes `partition`, which is at the checkpoint's clock, to the checkpoint's path. Without `copy` its rows do not
     * change meanwhile; with `copy` it is the hook's own to partition_close. Returns at once; server_written is called
     * later, on the io's thread. NULL: no checkpoints here. */
    void (*write)(void *context, struct partition *partition, const struct message_checkpoint *checkpoint, bool copy);
    /* Fills a partition that was just opened from a checkpoint in `path`, up to partition_loaded: 0 or an error. A row
     * whose clock is left 0 has its start value. Blocks. */
    int (*read)(void *context, struct partition *partition, const char *path, uint64_t clock, struct error *error);
    void *context;
};

struct server {
    struct io *io;
    actor_id self;
    const struct job *job;
    struct server_hooks hooks;
    uint64_t epoch;                  /* of the plan in force, or of the fence: nothing of an older one is taken */
    bool fenced;                     /* no plan of `epoch` has come yet */
    struct plan_view plan;           /* in force */
    struct plan_members members;     /* of the plan */
    struct plan_view later_plan;     /* came while a replica was being written in place */
    bool reliable;                   /* our node, in this plan */
    uint32_t partition_count;        /* of the job */
    struct server_replica *replicas; /* by partition */
    uint64_t committed;              /* the highest that any FLUSH or UPDATE said */
    unsigned lagging;                /* replicas of the plan that are not in step */
    bool in_step;                    /* as last told to the agent */
    uint64_t timer_us;               /* what was asked of set_timer */
    struct early_message {
        actor_id from;
        struct message message;
    } * early;
    unsigned early_count;
    struct scan_request {
        actor_id from;
        struct message_scan scan;
    } * scans; /* waiting for their clock */
    unsigned scan_count;
    bool accused;        /* a node, in this epoch: see server_accuse */
};

/* `hooks` may be NULL. */
void server_init(struct server *server, struct io *io, actor_id self, const struct job *job,
                 const struct server_hooks *hooks);
void server_close(struct server *server);

/* The hook's answer; `written` tells number, partition, clock, bytes, checksum, or the error. Sent on to the agent. */
void server_written(struct server *server, const struct message_written *written);

/* Whether this server takes flushes of `clock` for the partition now. For tests: I7. */
bool server_serves(const struct server *server, uint32_t partition, uint64_t clock);

/* The actor's functions (net/io.h), `self` a struct server. */
void server_receive(void *self, actor_id from, struct message *message);
void server_timer(void *self);

#endif
