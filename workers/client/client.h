/* The worker's side of the parameter server protocol, as a state machine behind struct io: no threads, no sockets.
 * Subscribes to the rows in the cache. Takes each clock's deltas, flushes them, and retains the flushes until they are
 * committed. Receives pushes and applies them to the cache. Decides when staleness allows the next clock.
 *
 * Everything but client_gather, client_gather_piece and client_check_numbers runs on the io's thread. Rows that have a
 * state change only between clocks: a push that arrives during a clock waits until the clock has been flushed. A push
 * that arrives between client_freeze and client_thaw waits likewise. The first state of a new row is applied at once,
 * as no clock uses the row yet. */
#ifndef AGILEML_WORKERS_CLIENT_H
#define AGILEML_WORKERS_CLIENT_H

#include "agileml/net/io.h"
#include "agileml/ps/ring.h"
#include "agileml/wire/plan.h"
#include "workers/client/cache.h"

enum {
    CLIENT_RETRY_MIN_US = 50 * 1000,   /* silence before the first PULL; longer where states usually come later */
    CLIENT_RETRY_MAX_US = 1000 * 1000, /* the longest wait between PULLs; each wait is twice the one before */
    CLIENT_RING_MIN_US = 500 * 1000,   /* see struct client_ring */
    CLIENT_RING_MAX_US = 10 * 1000 * 1000,
    CLIENT_RING_FACTOR = 4,
    CLIENT_RING_LOSSES_MAX = 7,
    CLIENT_RING_LOSSES_TOLD = 5, /* then the node's log says that the ring is hardly used */
    CLIENT_ASK_BYTES = 4 << 20   /* see struct client_asking */
};

/* A flush that is not committed yet. A flush in pieces has one of these for each piece. */
struct retained_flush {
    actor_id origin;
    uint64_t clock;
    uint64_t pull;                    /* number of the last PULL before it was sent: see client_partition.pulls */
    uint64_t ring_us;                 /* when a ring last sent the flush; 0: it was last sent directly */
    uint64_t lost_us;                 /* when a ring sent the flush, if the flush or its push then counted as lost; else
                                         0 */
    bool sent;                        /* sent in this epoch; a piece waits for the piece before it */
    struct message message;           /* its frames are held, for sending it again */
    uint32_t *slots[WIRE_TABLES_MAX]; /* cache slots of its rows, in order; by table number */
    uint32_t counts[WIRE_TABLES_MAX];
};

/* The subscription to one partition's rows with one server. While a plan changes there are two of them, and each row is
 * subscribed to with both servers. */
struct client_subscription {
    actor_id server;    /* ACTOR_NONE: unused */
    uint64_t request;   /* number of the present SUBSCRIBE, or of the last one; no number is used twice */
    uint64_t agreed;    /* number of the last SUBSCRIBE that was answered; 0: none */
    uint64_t since;     /* the field `known` of the present SUBSCRIBE */
    uint64_t pull;      /* number of the last PULL before the present SUBSCRIBE */
    uint64_t again;     /* number of the unanswered PULL that has requested lost pushes; 0: none */
    bool open;          /* the present SUBSCRIBE is not answered yet */
    bool only;          /* the present SUBSCRIBE names every row that is still wanted, and the cache has their states */
    bool known;         /* the first SUBSCRIBE was answered */
    uint32_t *asked;    /* per table: how many rows of the cache's list SUBSCRIBEs have named */
    uint32_t *answered; /* per table: for how many rows of the list SUBSCRIBEs were answered */
    uint64_t heard_us;  /* when the server last answered, or when we began to wait, whichever is later */
};

/* A PUSH that has come while the app uses the cache. */
struct waiting_push {
    actor_id from;
    struct message message; /* its frames are held */
};

/* The ring by which flushes and pushes may travel (ps/ring.h). Messages on the ring wait for slow nodes. The answer to
 * a PULL comes directly, and may overtake them. A message on the ring counts as lost when that answer lacks it and it
 * was sent long enough ago: CLIENT_RING_FACTOR times the length of recent exchanges, but at least CLIENT_RING_MIN_US
 * and at most CLIENT_RING_MAX_US. A lost message is sent again directly. It may only have been slow: then half the time
 * that its exchange took is the new length, which doubles the time allowed.
 *
 * After losses in several clocks in a row only every 2nd, 4th... up to 64th clock uses the ring, until one succeeds or
 * another plan comes. */
struct client_ring {
    struct rings rings;
    uint64_t exchange_us; /* the longest recent time from a flush to its state; decays */
    unsigned losses;      /* watched clocks in a row that had losses, at most CLIENT_RING_LOSSES_MAX */
    uint64_t watched;     /* the one clock that is watched: sent by the ring, its state not here yet; 0: none */
    bool told;            /* the node's log says that the ring loses messages */
};

/* How long this node waits for each server's state of its own clocks: for AntDT's Monitor
 * (agileml/control/decide/monitor.h). One clock at a time is measured. */
struct client_waits {
    uint64_t clock;                   /* the clock that is measured; 0: none */
    uint64_t flushed_us;              /* when that clock was flushed */
    uint64_t *arrived_us;             /* by partition: how long after the flush the state came; UINT64_MAX: not yet */
    uint32_t missing;                 /* partitions whose state has not come */
    unsigned settling;                /* clocks after a change of plan that still do not count */
    uint64_t clocks;                  /* clocks measured since the last report */
    struct wire_server_wait *servers; /* the sums since the last report, of the servers of the present plan */
    uint32_t *server_of;              /* by partition: its index in `servers` */
    unsigned server_count;
    bool moves; /* the plan has other servers from its from_clock on */
    /* Whether flushes are sent from the last partition to the first; alternates between measured clocks. A starved node
     * sends its last flush late. Always the same server would get that flush, and look slow. */
    bool descending;
    struct client_ring ring;
};

/* Work on another node's lot. */
struct client_lot {
    bool under_way;
    struct client_saved { /* a put table's rows from before the lot */
        uint32_t *slots;  /* ascending */
        unsigned char *rows;
        uint32_t count;
    } saved[WIRE_TABLES_MAX];
};

/* A kept push of changes. */
struct client_kept_push {
    struct message message; /* its frames are held */
    bool whole;             /* the push has every row of the partition */
    bool point;             /* some plan since the push came had its clock as a commit point */
};

/* A partition's rows at the last committed clock, and the pushes since then, in a job whose workers can replace lost
 * replicas. The cache's own rows can't do that: they have our later updates, and the app's unfinished work.
 *
 * A push that has every row makes all that was kept before it needless, once it is committed. As long as all pushes
 * have every row, no row is copied, and there are no `values`. Otherwise committed pushes are copied into `values`. */
struct client_kept {
    bool on;                                /* the plan's stage and the job's tables allow it (job_is_kept) */
    unsigned char *values[WIRE_TABLES_MAX]; /* per table: rows by their place in the partition; NULL: none is copied */
    uint32_t *clocks[WIRE_TABLES_MAX];      /* per row of `values`: the clock of its push; CACHE_CLOCK_VOID: the row is
                                               missing */
    uint64_t missing;                       /* number of missing rows. Without `values`: all rows, or 0 if a kept push
                                               has every row */
    uint64_t clock;                         /* `values` includes all pushes up to this clock */
    uint64_t since;                         /* the latest clock in `clocks`; no earlier state can be given */
    uint64_t newest;                        /* pushes have come up to this clock, without a gap */
    struct client_kept_push *pushes;        /* in the order of clocks */
    unsigned push_count;
};

struct client_partition {
    struct client_subscription now, next; /* with the server of the next clock; with the server after the plan's
                                             switch */
    bool subscribed;                      /* the first state has come, and `clock` is valid */
    uint64_t clock;                       /* clock of the state in the cache, which also has our own later updates */
    uint32_t *filled; /* per table: how many rows of the cache's list have their first state, and so a stamp */
    uint64_t durable, durable_from;  /* of the last PUSH that came from the server itself */
    uint64_t durable_asked;          /* `durable` of a PUSH by a ring, which is not trusted; a PULL requests the
                                        server's own value */
    uint64_t ring_us;                /* since when we know that rows are on their way by a ring; 0: none are */
    bool restoring;                  /* rows newer than the epoch's `restore` (CACHE_CLOCK_VOID) are requested again */
    uint64_t restore_request;        /* number of the request for such rows; 0: none is open */
    uint64_t restore_pull;           /* number of the last PULL before that request for rows */
    struct retained_flush gathered;  /* of the present clock; client_gather fills it, client_flush takes it */
    struct retained_flush *retained; /* in the order of clocks, then of origins, then of pieces */
    unsigned retained_count;
    struct waiting_push *waiting; /* pushes that came during a clock or while frozen, in order and without gaps; also
                                     the answer to `restore_request` */
    unsigned waiting_count;
    struct client_kept kept;
    struct client_pieces {
        uint32_t count; /* pieces of the present clock's flush, without the last one */
        uint64_t pull;  /* number of the PULL behind the last piece sent; 0: that PULL is answered */
    } pieces;
    uint64_t pulls;    /* number of the last PULL. Connections keep order: once a PULL is answered, all earlier messages
                          to that server, and its answers, have arrived or were lost */
    uint64_t retry_us; /* when to send PULL; 0: nothing is awaited */
    uint64_t since_us; /* since when something is awaited */
    uint64_t retry_wait_us;
};

/* Rows [first, first + count) of a replicated table. */
struct client_range {
    unsigned table;
    uint64_t first, count;
};

/* How rows, and what is late, are requested. */
struct client_asking {
    bool on;      /* client_subscribe was called: subscribe with a plan's new servers too */
    size_t bytes; /* bytes of keys and values to request at a time, CLIENT_ASK_BYTES except in tests. Partitions and
                     servers get equal parts, and at least one row each */
    uint64_t usual_us;    /* how long a state is usually waited for */
    uint64_t patience_us; /* the longest silence before the first PULL: a part of the failure timeout */
};

/* The origin's part in the present clock, as the plan had it when the clock began: worker threads read it, while the
 * main thread may take a new plan. */
struct client_part {
    uint32_t idle; /* clocks without work before the clock, which end with it */
    bool alone;    /* the only origin of the clock, so its updates are not pushed back */
    bool averages; /* averaged tables become the mean of all origins' rows; false: only if workers make their steps */
    double share;  /* the factor of the origin's changes in a mean */
};

struct client {
    struct io *io;
    actor_id self; /* the node's origin of part 0 */
    const struct job *job;
    struct cache *cache;
    uint64_t epoch;
    bool fenced;           /* no plan of `epoch` has come yet, so nothing is sent or taken */
    struct plan_view plan; /* in force */
    uint32_t partition_count;
    struct client_partition *partitions;
    struct client_asking asking;
    uint64_t requests;  /* number of the last SUBSCRIBE */
    uint64_t committed; /* every partition is durable up to this clock */
    uint64_t flushed;   /* the highest clock flushed under `self`; before the first assignment, the clock before it */
    uint64_t possible;  /* the highest clock that a server can have: the next clock needs our flush */
    uint64_t wanted;    /* the newest state for which the next clock of an assignment may have to wait */
    uint64_t durable_wanted; /* the clock whose commit the next clock of an assignment may have to wait for */
    uint64_t last;   /* the job's last clock, which every partition has reached (client_want_last); 0: not yet */
    bool joins;      /* all our assignments begin after the plan's switch, so we subscribe with the servers after it */
    actor_id origin; /* of the present clock */
    uint64_t clock;  /* the present clock, or the last one */
    struct client_part part;
    bool working;          /* the app works on the clock, and uses the cache alone */
    struct client_lot lot; /* while it is under way, `working` is true */
    bool frozen;           /* the app reads the cache between clocks, so the cache must not change */
    uint32_t stamp;        /* number of the last push that was applied */
    void (*row_state)(void *context, uint32_t partition, uint64_t clock); /* for tests: called after each push */
    /* Takes an answer to SCAN, which rows_check has accepted. The caller keeps the message. */
    void (*rows)(void *context, const struct message *message);
    void *context;
    struct client_waits waits;
    struct message_accuse accusation; /* the node of a server that has sent an impossible message, and the reason; the
                                         agent resets `accused` to ACTOR_NONE */
};

/* `cache` may hold rows already. */
void client_init(struct client *client, struct io *io, actor_id self, const struct job *job, struct cache *cache);
void client_close(struct client *client);

/* Puts `plan` in force. A plan of a later epoch ends the fence: rows seen beyond its `restore` are requested again, and
 * flushes beyond it are sent again. */
void client_plan(struct client *client, const struct plan_view *plan);
/* Ends the present epoch: sends and takes nothing more until a plan of `epoch` or a later one comes. */
void client_fence(struct client *client, uint64_t epoch);

/* The server thread that serves `clock` of a partition. */
static inline actor_id client_server(const struct client *client, uint32_t partition, uint64_t clock) {
    return plan_server_at(&client->plan, clock, partition);
}

/* Subscribes to all rows in the cache that are not subscribed to. AML_ELIMIT when a partition's rows do not fit one
 * message. */
int client_subscribe(struct client *client, struct error *error);
/* Unsubscribes from the rows that only sets of data below `oldest` named (cache_forget). A row that is added again
 * later is requested like a new one. False when that can't be done now: the app works, a request is open, rows are
 * being restored, or servers are about to change. */
bool client_forget(struct client *client, uint32_t oldest);
/* Whether every row in the cache has its first state, so that a clock that touches any of them may begin. */
bool client_filled(const struct client *client);
/* client_filled; and all rows are subscribed to, also with the servers after the plan's switch. */
bool client_subscribed(const struct client *client);

/* Whether `clock` may begin. The cache must have a state of clock - 1 - staleness or later (SSP); all clocks of a group
 * (collective/strategy.h) need only the state from before the group. No row may be in restoration, and the commit may
 * lag no further than the plan's window allows. */
bool client_may_begin(const struct client *client, uint64_t clock);
/* By how many clocks the cache's oldest state is behind that of clock - 1, the latest that `clock` can need. */
uint64_t client_lag(const struct client *client, uint64_t clock);
/* Whether the cache has the state of `clock` or a later one. */
bool client_has_state(const struct client *client, uint64_t clock);
/* Call it when every partition's server has reached the job's last clock. Returns whether the cache has that state of
 * all partitions that this node is subscribed to, and requests the states it lacks. Rows subscribed to later arrive
 * with that state. */
bool client_want_last(struct client *client, uint64_t clock);
/* Begins `clock` under one of this node's origins, and the `idle` clocks without work before it. From now on pushes
 * wait. */
void client_begin_clocks(struct client *client, actor_id origin, uint64_t clock, uint32_t idle);
static inline void client_begin(struct client *client, actor_id origin, uint64_t clock) {
    client_begin_clocks(client, origin, clock, 0);
}
/* Takes the deltas of one partition's touched rows, once per clock, origin and partition. Any thread, different
 * partitions at the same time; no other thread may touch the rows meanwhile. AML_ELIMIT as client_subscribe. */
int client_gather(struct client *client, uint32_t partition, struct error *error);
/* Checks that the numbers of a gathered flush are finite. AML_EINPUT names the table, the row, the clock and this node,
 * `node`. Any thread, as client_gather. */
int client_check_numbers(const struct client *client, const struct retained_flush *flush, const char *node,
                         struct error *error);

/* In tables with table_steps_locally, makes a step of the optimizer for each row that the app has updated since the
 * last call; optimizers are told `clock`. Each of `parts` threads calls it with its number as `part`, while the app
 * does not use the rows. Returns 0, or the code with which apply_rows failed. */
int client_step(struct client *client, uint64_t clock, unsigned part, unsigned parts, struct error *error);

/* A flush in pieces: before the present clock ends, rows whose updates are complete are taken and sent.
 *
 *   client_gather_piece   takes them out of the cache
 *   client_add_piece      hands them over to the client
 *   client_send_pieces    sends one piece to each node; the next one follows when the PULL behind it is answered. So no
 *                         other message waits for more than a piece. Where the network is slower than the app,
 *                         partitions are complete one after the other, as they are without pieces
 *   client_gather         takes what is left, and client_flush sends what was not sent
 *
 * All pieces of a flush are kept, sent again and committed together. */

/* Whether the present clock's flush may go in pieces: under S-SGD, without a ring, without own steps (client_step),
 * when other nodes work on the clock too. The flush of a catch-up or of a lot may not. */
bool client_may_piece(struct client *client);
/* Takes the deltas of the partition's touched rows among these ranges of add tables without changes_given. Ranges don't
 * overlap. True: `piece` has some rows, and client_add_piece or client_drop_piece must follow. Any thread, several at
 * once for different ranges; no thread may touch the rows from now on until the clock ends. */
bool client_gather_piece(const struct client *client, uint32_t partition, const struct client_range *ranges,
                         unsigned range_count, struct retained_flush *piece);
/* Takes over the piece. At most WIRE_PIECES_MAX - 1 of a partition in a clock. */
void client_add_piece(struct client *client, uint32_t partition, struct retained_flush *piece);
void client_drop_piece(const struct client *client, struct retained_flush *piece);
void client_send_pieces(struct client *client);
/* Whether `clock` has a ring, even if we don't use it after losses. */
bool client_ring_there(struct client *client, uint64_t clock);
/* Ends the clock: sends the gathered flushes, then applies the pushes that waited. */
void client_flush(struct client *client);

/* Begins work on another node's lot of the last clock, which has been flushed. `set` is the number of its set of data.
 * Pushes wait. */
void client_begin_lot(struct client *client, uint32_t set);
/* Ends work on the lot: adds its changes to `message`, a PEER, and leaves the cache as it was at client_begin_lot. Then
 * applies the pushes that waited. AML_EINPUT: a row was changed that may not be. */
int client_end_lot(struct client *client, struct message *message, struct error *error);
/* Adds another node's changes for our lot to this node's work on the present clock, before client_gather. False, with
 * nothing changed: this node lacks some of the rows. The message's rows were checked. */
bool client_add_lot(struct client *client, const struct message *message);

/* Copies the model, which are the averaged tables, between the local steps of a clock: all of their rows, in the order
 * of their slots. The copy shares the keys of `before`, an earlier copy; `before` may be without a type. Each returned
 * PEER is closed by the caller. */
struct message client_model(const struct client *client, const struct message *before);
/* Returns moves of the model, all 0. Moves say by how much each row changes; they have the rows of `model`. */
struct message client_no_moves(const struct client *client, const struct message *model);
/* Sets *fits to whether the rows are a copy of the model, or moves, of the same rows as here, without a NaN or an
 * infinity. AML_EPROTOCOL and an error: no node of this job sends such rows. */
int client_model_check(const struct client *client, const struct message *message, bool *fits, struct error *error);
/* Averages two copies of the model; `theirs` has this weight, 0 to 1. Adds to `moves` how our copy is to move to the
 * mean, and returns how theirs is to move. The moves so far count as part of `ours`. All have the same rows. */
struct message client_average(const struct client *client, const struct message *ours, const struct message *theirs,
                              double weight, struct message *moves);
/* moves += more */
void client_add_moves(const struct client *client, struct message *moves, const struct message *more);
/* Applies moves to the rows of the cache, which then count as changed in this clock. No thread may work on the rows. */
void client_move(struct client *client, const struct message *moves);

/* Returns the number of clocks for which this client can give a partition's rows. *clocks lists them, ascending; the
 * caller frees it. */
unsigned client_kept_clocks(const struct client *client, uint32_t partition, uint64_t **clocks);
/* Makes `update` an UPDATE with all rows of the partition as of `clock`, one of client_kept_clocks. */
void client_kept_state(const struct client *client, uint32_t partition, uint64_t clock, struct message *update);

/* Freezes the cache, which the app reads, until client_thaw: pushes wait. Not during a clock. */
void client_freeze(struct client *client);
void client_thaw(struct client *client);

/* Receives a server's message: PUSH or ROWS. */
void client_receive(struct client *client, actor_id from, struct message *message);
/* Sends PULL where an answer is overdue. Returns when to call next; 0: nothing is awaited. */
uint64_t client_timer(struct client *client);
/* Accuses a server, or its node, of an impossible message, which must have had no effect. `format` begins with the
 * message's name. Only the first accusation counts. */
__attribute__((format(printf, 3, 4))) void client_accuse(struct client *client, actor_id server, const char *format,
                                                         ...);
/* Adds the measured waits to `message`, a WAITS, and resets them. False: nothing was measured. */
bool client_take_waits(struct client *client, struct message *message);
/* What the client waits for: NODE_WAITS_ROWS or NODE_WAITS_COMMIT and a server, or NODE_WAITS_NOT. */
enum node_waits client_waits_on(const struct client *client, actor_id *server);
/* The server that has been silent for longest while we wait for it, and since when; ACTOR_NONE: we wait for none. */
actor_id client_silent(const struct client *client, uint64_t *since_us);
/* Subtracts the last `late_us` microseconds, in which this process stood still, from every server's silence. No server
 * then counts as heard after `latest_us`. */
void client_excuse(struct client *client, uint64_t late_us, uint64_t latest_us);

#endif
