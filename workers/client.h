/* The worker's side of the parameter server protocol: subscribes to the rows in the cache, takes each clock's
 * deltas and flushes them, retains flushes until they are committed, receives pushes and puts them into the cache,
 * and says when staleness allows the next clock. A state machine behind struct io: no threads, no sockets.
 *
 * Time: everything but client_gather runs on the io's thread. Pushes that arrive while a clock is being worked on
 * wait and are applied when it has been flushed, so the cache changes only between clocks; nor does it
 * change between client_freeze and client_thaw. */
#ifndef AGILEML_WORKERS_CLIENT_H
#define AGILEML_WORKERS_CLIENT_H

#include "agileml/net/io.h"
#include "agileml/wire/plan.h"
#include "workers/cache.h"

enum {
    CLIENT_RETRY_MIN_US = 50 * 1000,   /* first PULL after so much silence ... */
    CLIENT_RETRY_MAX_US = 1000 * 1000, /* ... then twice as long each time, up to this */
};

/* A flush that is not committed yet. */
struct retained_flush {
    actor_id origin;
    uint64_t clock;
    uint64_t pull;                    /* the last PULL before it was sent: see client_partition.pulls */
    struct message message;           /* its frames held; sent again as it is */
    uint32_t *slots[WIRE_TABLES_MAX]; /* cache slots of its rows, in order; by table number */
    uint32_t counts[WIRE_TABLES_MAX];
};

/* What one server has been asked about one partition. Two of them while a plan changes: each row is subscribed to with
 * both. */
struct client_subscription {
    actor_id server;    /* ACTOR_NONE: unused */
    uint64_t request;   /* number of the SUBSCRIBE under way, or of the last one answered; numbers never come again */
    uint64_t agreed;    /* the last one answered; 0: none */
    uint64_t since;     /* the `known` it says */
    uint64_t pull;      /* the last PULL before it was sent */
    uint64_t again;     /* number of the PULL that has pushes sent again that were lost; 0: that was answered */
    bool open;          /* it is not answered yet */
    bool only;          /* it names all rows that are still wanted, whose state we have */
    bool known;         /* the first SUBSCRIBE was answered */
    uint32_t *asked;    /* per table: rows of the cache's list named in SUBSCRIBEs so far */
    uint32_t *answered; /* per table: rows of the list that were answered */
    uint64_t heard_us;  /* when the server last answered; since when we wait if later */
};

/* A PUSH that has come while the app has the cache. */
struct waiting_push {
    actor_id from;
    struct message message; /* frames held */
};

struct client_partition {
    struct client_subscription now, next; /* with the server of the next clock's state; with the one after the switch */
    bool subscribed;                      /* the first state has come: `clock` holds */
    uint64_t clock;                       /* the state in the cache, own later updates aside */
    uint32_t *filled; /* per table: rows of the cache's list whose first state has come: they have a stamp */
    uint64_t durable, durable_from; /* on a reliable machine, as the server says */
    bool restoring;           /* rows seen beyond the epoch's `restore` are asked for again: CACHE_CLOCK_VOID ... */
    uint64_t restore_request; /* ... by this request; 0: not asked yet */
    uint64_t restore_pull;    /* the last PULL before it was sent */
    struct retained_flush gathered;  /* of the clock under way; touched by client_gather until client_flush */
    struct retained_flush *retained; /* in the order of clocks, then of origins */
    unsigned retained_count;
    struct waiting_push *waiting; /* pushes that came during a clock or while frozen, each from where the one before
                                     ends; and the answer to `restore_request` */
    unsigned waiting_count;
    uint64_t pulls;    /* number of the last PULL. When a server answers one, what was sent to it before that has come,
                          and so has what it sent on that; or it was lost, and is sent again */
    uint64_t retry_us; /* when to ask again, 0: not waiting */
    uint64_t retry_wait_us;
};

struct client {
    struct io *io;
    actor_id self; /* the node's origin of part 0 */
    const struct job *job;
    struct cache *cache;
    uint64_t epoch;
    bool fenced;           /* no plan of `epoch` has come yet: nothing is sent or taken */
    struct plan_view plan; /* in force */
    uint32_t partition_count;
    struct client_partition *partitions;
    bool subscribing;        /* client_subscribe was called: what is new is asked for, a plan's new servers too */
    uint64_t requests;       /* the last SUBSCRIBE's number */
    uint64_t committed;      /* every partition is durable up to there */
    uint64_t flushed; /* the highest clock flushed under `self`; before the first assignment, the clock before it */
    uint64_t possible;       /* no server can be beyond this clock: the next one is ours to flush */
    uint64_t wanted;         /* the state that the next clock of an assignment waits for, at the most ... */
    uint64_t durable_wanted; /* ... and the commit */
    uint64_t last;           /* the job's last clock, once every partition is there (client_want_last); 0: not so */
    bool joins; /* none of our assignments is of before the plan's switch: who serves from there pushes what we miss */
    actor_id origin; /* of the clock under way ... */
    uint64_t clock;  /* ... which is this one */
    bool alone;      /* ... and in which this origin is the plan's only one: nothing of it is pushed back */
    bool working;    /* the app is at work on it: the cache is its own */
    bool frozen;     /* the app reads the cache between clocks: it does not change */
    uint32_t stamp;  /* number of the last push applied */
    void (*row_state)(void *context, uint32_t partition, uint64_t clock); /* tests: called after each push applied */
    /* An answer to SCAN, rows_check done; the message stays the caller's. */
    void (*rows)(void *context, const struct message *message);
    void *context;
    /* The node of a server that has sent what can't be, and what that was, until the agent sets it to ACTOR_NONE. */
    actor_id accused;
    char accusation[WIRE_TEXT_MAX];
};

/* `cache` is open and may already hold rows. */
void client_init(struct client *client, struct io *io, actor_id self, const struct job *job, struct cache *cache);
void client_close(struct client *client);

/* Goes by `plan` from now on. A plan of a later epoch ends the fence: what was seen beyond its `restore` is asked for
 * again, flushes beyond it are sent again. */
void client_plan(struct client *client, const struct plan_view *plan);
/* The epoch is over: sends and takes nothing more until a plan of `epoch` or a later one comes. */
void client_fence(struct client *client, uint64_t epoch);

/* The server thread that serves `clock` of a partition. */
actor_id client_server(const struct client *client, uint32_t partition, uint64_t clock);

/* Asks for the state of every row in the cache that was not asked for yet. AML_ELIMIT when a partition's rows do
 * not fit one message. */
int client_subscribe(struct client *client, struct error *error);
/* Rows that only sets of data below `oldest` named (cache_forget) are not pushed any more; one that is added again is
 * asked for again, like a new one. False when that can't be done now: while the app works, something is being asked for
 * or restored, or servers are about to change. */
bool client_forget(struct client *client, uint32_t oldest);
/* Every row in the cache has its first state: a clock that touches any of them may begin. */
bool client_filled(const struct client *client);
/* ... and will be pushed by the servers, those after the switch too. */
bool client_subscribed(const struct client *client);

/* `clock` may begin: state >= clock - 1 - staleness is in the cache (SSP), nothing is being restored, and the commit is
 * not further behind than the plan's window allows. */
bool client_may_begin(const struct client *client, uint64_t clock);
/* The state at `clock` itself, or later, is in the cache. */
bool client_has_state(const struct client *client, uint64_t clock);
/* Every partition is at the job's last clock. Whether the partitions that this node is subscribed to are there in its
 * cache too; asks for what has not come. What it subscribes to from now on comes as of that clock. */
bool client_want_last(struct client *client, uint64_t clock);
/* The app begins `clock` under one of this node's origins: pushes wait from now on. */
void client_begin(struct client *client, actor_id origin, uint64_t clock);
/* Takes the deltas of one partition's touched rows, once per clock, origin and partition. Any thread, different
 * partitions at the same time; nobody else may touch the rows meanwhile. AML_ELIMIT as client_subscribe. */
int client_gather(struct client *client, uint32_t partition, struct error *error);
/* Checks that the numbers which were gathered of the partition are finite. AML_EINPUT names table, row, clock and
 * `node`, this node. Any thread, as client_gather. */
int client_check_numbers(const struct client *client, uint32_t partition, const char *node, struct error *error);
/* Sends what was gathered for the clock under way, then applies the pushes that waited. */
void client_flush(struct client *client);

/* The app reads the cache until client_thaw: pushes wait. Not during a clock. */
void client_freeze(struct client *client);
void client_thaw(struct client *client);

/* A message of a server: PUSH or ROWS. */
void client_receive(struct client *client, actor_id from, struct message *message);
/* Asks where an answer is overdue whether it was sent. Returns when to call next, 0: nothing to wait for. */
uint64_t client_timer(struct client *client);
/* The server that has been silent for longest while we wait for it, and since when; ACTOR_NONE: we wait for none. */
actor_id client_silent(const struct client *client, uint64_t *since_us);
/* This process stood still for the last `late_us` microseconds: subtracts them from every server's silence. No server
 * counts as heard after `latest_us` by that. */
void client_excuse(struct client *client, uint64_t late_us, uint64_t latest_us);

#endif
