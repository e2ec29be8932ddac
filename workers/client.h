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
#include "workers/cache.h"

enum {
    CLIENT_RETRY_MIN_US = 50 * 1000,   /* first PULL or SUBSCRIBE again after so much silence ... */
    CLIENT_RETRY_MAX_US = 1000 * 1000, /* ... then twice as long each time, up to this */
};

/* A flush that is not committed yet. */
struct retained_flush {
    uint64_t clock;                   /* 0: free */
    struct message message;           /* its frames held; sent again as it is */
    uint32_t *slots[WIRE_TABLES_MAX]; /* cache slots of its rows, in order; by table number */
    uint32_t counts[WIRE_TABLES_MAX];
};

struct client_partition {
    actor_id server;
    bool subscribed;                 /* the first SUBSCRIBE was answered: `clock` holds */
    uint64_t clock;                  /* the state in the cache, own later updates aside */
    uint64_t committed;              /* flushes up to this clock need not be retained; may be ahead of our own */
    uint64_t request;                /* number of the SUBSCRIBE under way, or of the last one answered */
    bool request_open;               /* it is not answered yet */
    uint32_t *asked;                 /* per table: rows of the cache's list named in SUBSCRIBEs so far */
    uint32_t *answered;              /* per table: rows of the list whose first state has arrived */
    struct retained_flush *retained; /* staleness + 2 entries; clock c at c % entries */
    struct message *waiting; /* pushes that came during a clock or while frozen, each from where the one before ends */
    unsigned waiting_count;
    uint64_t retry_us; /* when to ask again, 0: not waiting */
    uint64_t retry_wait_us;
    uint64_t heard_us; /* when the server last answered; since when we wait if later */
};

struct client {
    struct io *io;
    actor_id self;
    const struct job *job;
    struct cache *cache;
    uint64_t epoch;
    bool alone; /* this worker is the plan's only origin: nothing it flushed is pushed back to it */
    uint32_t partition_count;
    struct client_partition *partitions;
    uint64_t begun;   /* the highest clock begun */
    uint64_t flushed; /* the highest clock flushed */
    bool working;     /* the app is at work on clock `begun`: the cache is its own */
    bool frozen;      /* the app reads the cache between clocks: it does not change */
    uint32_t stamp;   /* number of the last push applied */
    void (*row_state)(void *context, uint32_t partition, uint64_t clock); /* tests: called after each push applied */
    /* An answer to SCAN; the message stays the caller's. */
    void (*rows)(void *context, const struct message *message);
    void *context;
    struct error error; /* a server sent what the protocol does not allow: the node can't go on */
};

/* `cache` is open and may already hold rows. */
void client_init(struct client *client, struct io *io, actor_id self, const struct job *job, struct cache *cache);
void client_close(struct client *client);

/* Goes by `plan` from now on: where partitions are served. */
void client_plan(struct client *client, const struct message *plan);

/* Asks for the state of every row in the cache that was not asked for yet. AML_ELIMIT when a partition's rows do
 * not fit one message. */
int client_subscribe(struct client *client, struct error *error);
/* Every row in the cache has its state. */
bool client_subscribed(const struct client *client);

/* SSP: state >= clock - 1 - staleness is in the cache, so `clock` may begin. */
bool client_may_begin(const struct client *client, uint64_t clock);
/* The state at `clock` itself, or later, is in the cache. */
bool client_has_state(const struct client *client, uint64_t clock);
/* The app begins `clock` (the one after `begun`): pushes wait from now on. */
void client_begin(struct client *client, uint64_t clock);
/* Takes the deltas of one partition's touched rows, once per clock and partition. Any thread, different partitions
 * at the same time; nobody else may touch the rows meanwhile. AML_ELIMIT as client_subscribe. */
int client_gather(struct client *client, uint32_t partition, struct error *error);
/* Sends what was gathered for clock `begun`, then applies the pushes that waited. */
void client_flush(struct client *client);

/* The app reads the cache until client_thaw: pushes wait. Not during a clock. */
void client_freeze(struct client *client);
void client_thaw(struct client *client);

/* A message of a server: PUSH or ROWS. */
void client_receive(struct client *client, actor_id from, struct message *message);
/* Asks again where an answer is overdue. Returns when to call next, 0: nothing to wait for. */
uint64_t client_timer(struct client *client);
/* The server that has been silent for longest while we wait for it, and since when; ACTOR_NONE when we wait for none. */
actor_id client_silent(const struct client *client, uint64_t *since_us);

#endif
