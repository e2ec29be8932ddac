/* Feeders (docs/design.md, "Feeders"). A node that works requests batches of its coming clocks from feeders, which make
 * them. While the node waits for batches, it makes those itself that would come last. Commits, recoveries and plans
 * don't depend on batches. */
#ifndef AGILEML_WORKERS_NODE_FEED_H
#define AGILEML_WORKERS_NODE_FEED_H

#include "workers/node/node_service.h"

enum {
    NODE_FEED_AHEAD = 4,              /* clocks whose batches are requested, with the next clock */
    NODE_FEED_FUSED = 8,              /* batches in one question, or as many as take NODE_FEED_FUSED_US if that is
                                         more */
    NODE_FEED_FUSED_US = 2000,        /* the time of the batches in a question, and of those that a node makes at once;
                                         a feeder answers after this time */
    NODE_FEED_MAKE_US = 16000,        /* a feeder with several threads has each of them make batches for this long at
                                         once */
    NODE_FEED_CREDIT = 64 << 20,      /* bytes requested and held, unless options.feed_credit says otherwise */
    NODE_FEED_GUESS = 64 << 10,       /* bytes of a batch while no size is known */
    NODE_FEED_TIMES = 32,             /* answers whose times count */
    NODE_FEED_LATE_US = 200000,       /* no answer is overdue before this */
    NODE_FEED_LATE_MEDIANS = 3,       /* medians of the answers' times after which an answer is overdue */
    NODE_FEED_AVOID_US = 500000,      /* how long a feeder with an overdue answer is asked for nothing */
    NODE_FEED_GONE_US = 20000,        /* the same after a FEED_GONE, as the feeder lacks the data; the pause at least
                                         doubles with each further FEED_GONE */
    NODE_FEED_WORTH_US = 2000,        /* a node that makes all batches of a clock in less time requests none */
    NODE_FEED_ATTEMPTS = 2,           /* feeders that are asked for a batch, one after the other */
    NODE_FEED_QUESTIONS_MAX = 1024,   /* questions that a feeder keeps; further ones are answered FEED_GONE, newest
                                         clock first */
    NODE_FEED_SEND_BYTES = 256 << 10, /* a feeder answers when so many bytes are made, or the question's last batch */
};

/* A batch that the node may use in a coming clock:
 *
 *   WANTED --FEED_ASK--> ASKED --FEED_DONE--> HERE
 *   ASKED --FEED_GONE--> WANTED; ASKED --overdue, the feeder is gone--> WANTED, after the last attempt LOCAL
 *   ASKED --the clock waits for it, hooks.feed_make--> MAKING --node_feed_made--> HERE
 *   ASKED, MAKING --larger than the credit, or no such batch--> LOCAL
 *   ASKED --the process can't make single batches of the data--> LOCAL
 *
 * A batch is forgotten, in any state, at the end of its clock, or when its clock or shard is no longer this node's. A
 * clock begins when none of its batches is ASKED or MAKING. The process makes the batches that are not HERE with the
 * clock. */
enum feed_state { FEED_WANTED, FEED_ASKED, FEED_MAKING, FEED_HERE, FEED_LOCAL };

struct feed_batch {
    enum feed_state state;
    unsigned attempts;
    actor_id feeder;
    uint64_t claim, asked_us; /* ASKED: number of the question, and when it was sent */
    uint64_t bytes;           /* of the credit: a guess while ASKED or MAKING, exact while HERE; else 0 */
};

/* The batches of one clock. */
struct feed_clock {
    uint64_t clock;      /* 0: none */
    unsigned set;        /* number of the set of data */
    unsigned transforms; /* number of transforms that the batches have been through */
    uint32_t *shards;
    uint32_t count;
    struct feed_batch *batches; /* by index in `shards` */
};

/* A feeder of the plan, as a node that requests batches knows it. */
struct feed_feeder {
    actor_id node, server;
    uint64_t outstanding;    /* bytes of batches requested and not answered */
    uint64_t answered_us;    /* when its last answer came */
    uint64_t avoid_until_us; /* nothing is requested from the feeder before */
    uint64_t gone_us;        /* the last pause after a FEED_GONE; 0: the feeder has made batches since */
    uint64_t obsolete;       /* the highest clock with a batch that was requested from this feeder and is no longer
                                needed; 0: none */
    unsigned behind;         /* while batches to make are chosen: how many of the clock's batches are ASKED of this
                                feeder */
};

/* Batches that the process makes at once. For other nodes one or more for each thread, for this node's own clock a
 * few. */
struct feed_made {
    uint64_t clock;
    unsigned count;
    uint32_t shards[WIRE_FEED_SHARDS_MAX];
    struct buffer *bytes[WIRE_FEED_SHARDS_MAX];
    uint64_t us; /* the time that making all of them took */
};

/* A question that a feeder has still to answer. */
struct feed_question {
    actor_id asker, server; /* the node that asked; this node's server, which passes the answer on */
    uint64_t clock, claim;
    unsigned transforms;
    uint64_t number;   /* counts the questions in the order of arrival */
    uint64_t since_us; /* when the first batch that is not sent yet was begun */
    uint32_t shards[WIRE_FEED_SHARDS_MAX];
    unsigned count, next; /* shards before `next` are made */
    struct wire_batch batches[WIRE_FEED_SHARDS_MAX];
    unsigned made; /* batches that are not sent yet */
    struct buffer *bytes[WIRE_FEED_SHARDS_MAX];
};

/* What a feeder does. */
struct node_feeding {
    struct feed_question *questions;
    unsigned count;
    uint64_t arrived; /* questions, since the process began */
    bool making;      /* feed_make is under way, for the question with `asker` and `claim` */
    actor_id asker;
    uint64_t claim;
    unsigned threads;      /* number of threads that make these batches */
    uint64_t batch_us;     /* about how long one thread takes for a batch; 0: not known */
    unsigned char *wanted; /* by shard: requested, and in neither set; NULL: no shard was */
    unsigned kept, coming; /* numbers of sets: that of the shards that are here, and the next one; 0: none */
    uint64_t batches;      /* batches made, since the process began */
    uint64_t made_us;      /* how long making batches took, without those that are being made */
    uint64_t since_us;     /* when making the present batches began */
};

struct node_feed {
    struct feed_clock clocks[NODE_FEED_AHEAD + 1]; /* clock c at c % (NODE_FEED_AHEAD + 1) */
    struct feed_feeder *feeders;
    unsigned feeder_count;
    unsigned threads;            /* threads of each feeder, by the controller; 0: as many as the feeder was started
                                    with */
    unsigned transforms;         /* number of transforms that the batches of `sizes` and `times_us` went through */
    bool stale;                  /* all batches are to be forgotten, as soon as no clock is computed */
    uint64_t used;               /* bytes of the credit: the sum over all batches */
    uint64_t claim;              /* number of the last FEED_ASK */
    uint32_t *sizes;             /* by shard: bytes of its last batch; 0: not known. NULL: none is */
    uint64_t known, known_bytes; /* sizes that are known, and their sum */
    uint64_t times_us[NODE_FEED_TIMES];
    unsigned times;              /* answers so far */
    uint64_t local_us;           /* about how long this process takes for a batch; 0: not known */
    uint64_t clock_us;           /* about how long this process takes for all batches of a clock */
    uint64_t waits_since_us;     /* since when the next clock has waited for batches; 0: it does not */
    uint64_t waits_until_us;     /* when this process begins to make the batches that the clock waits for */
    bool making;                 /* the process makes batches: those in MAKING, or some that were forgotten since */
    uint64_t making_since_us;    /* while `making` */
    uint64_t made_us;            /* how much of the waiting this process has made batches */
    uint64_t taken, asked, late; /* batches taken, requested and overdue, since the process began */
    uint64_t items;              /* of the clock: items from batches */
    uint64_t wait_us;            /* of the clock: how long it has waited for batches alone */
    uint64_t transforms_us;      /* of the clock: how long this process itself ran the transforms that feeders run */
    struct node_feeding feeding;
};

extern const struct node_service NODE_FEED;

static inline struct node_feed *node_feed(const struct node *node) {
    return node_service_state(node, SERVICE_FEED);
}

/* ---- For the process ---- */

/* Reports that `items` items of the clock under way came from batches. Call it before node_computed. */
void node_fed(struct node *node, uint64_t items);
/* Reports that the process itself made `batches` batches of the clock, in `us`. Call it before node_computed. */
void node_feed_made_here(struct node *node, uint64_t batches, uint64_t us);
/* Reports batches that were made. The node takes over their `bytes`. */
void node_feed_made(struct node *node, const struct feed_made *made);
/* Returns the number of threads for the next batches: a feeder's by the controller, another node's threads of the
 * process. */
unsigned node_feeding_threads(const struct node *node);

/* ---- A feeder's part, node_feeding.c ---- */

void node_feeding_close(struct node *node);
/* Drops all questions. */
void node_feeding_drop(struct node *node);
/* Returns how many of the app's first transforms feeders may run. */
unsigned node_feeding_transforms(const struct node *node);
/* Returns how many batches a feeder with so many threads makes at once. `batch_us`: the time of one thread for one
 * batch. */
unsigned node_feeding_at_once(unsigned threads, uint64_t batch_us);
/* Takes the batches that the process has made. */
void node_feeding_made(struct node *node, const struct feed_made *made);
/* Returns how long the process has made batches for others. */
uint64_t node_feeding_us(const struct node *node);
/* Begins what a feeder can do now. True when it began something. */
bool node_feeding_advance(struct node *node);
/* Receives FEED_ASK; `server` is the server of this node that has passed it on. */
void node_feeding_receive(struct node *node, actor_id server, const struct message *message);

#endif
