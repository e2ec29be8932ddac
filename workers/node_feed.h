/* Feeders (docs/design.md, "Feeders"): a node that works asks feeders for batches of its coming clocks. While it waits
 * for some, it makes those itself that would come last. A feeder makes the batches that it is asked for. So commits,
 * recoveries and plans know nothing of batches. */
#ifndef AGILEML_WORKERS_NODE_FEED_H
#define AGILEML_WORKERS_NODE_FEED_H

#include "agileml/wire/message.h"

#include <limits.h>
#include <stdbool.h>

enum {
    NODE_FEED_AHEAD = 4,              /* clocks for which batches are asked, the next one included */
    NODE_FEED_FUSED = 8,              /* batches in one question: so many, or as many as take ... */
    NODE_FEED_FUSED_US = 2000,        /* ... so long to make; a node makes as many at once, and a feeder answers then */
    NODE_FEED_MAKE_US = 16000,        /* a feeder with several threads has each make batches for so long at once */
    NODE_FEED_CREDIT = 64 << 20,      /* bytes asked for and held, unless options.feed_credit says otherwise */
    NODE_FEED_GUESS = 64 << 10,       /* bytes of a batch while no size is known */
    NODE_FEED_TIMES = 32,             /* answers whose times count */
    NODE_FEED_LATE_US = 200000,       /* an answer is never overdue before */
    NODE_FEED_LATE_MEDIANS = 3,       /* medians of the answers' times after which an answer is overdue */
    NODE_FEED_AVOID_US = 500000,      /* how long a feeder with an overdue answer is asked for nothing */
    NODE_FEED_GONE_US = 20000,        /* the same of one that has no data yet; at least doubles with each such answer */
    NODE_FEED_WORTH_US = 2000,        /* a node that makes all batches of a clock itself in less asks for none */
    NODE_FEED_ATTEMPTS = 2,           /* feeders that are asked for a batch, one after the other */
    NODE_FEED_QUESTIONS_MAX = 1024,   /* that a feeder keeps; further ones are answered FEED_GONE, newest clock first */
    NODE_FEED_SEND_BYTES = 256 << 10, /* a feeder answers when so much is made, or the question is over */
    NODE_FEED_NO_SET = INT_MAX
};

/* A batch that the node may use in a coming clock:
 *
 *   WANTED --FEED_ASK--> ASKED --FEED_DONE--> HERE
 *   ASKED --FEED_GONE--> WANTED; ASKED --overdue, the feeder is gone--> WANTED, after the last attempt LOCAL
 *   ASKED --the clock waits for it, hooks.feed_make--> MAKING --node_feed_made--> HERE
 *   ASKED, MAKING --larger than the credit, or no such batch--> LOCAL
 *   ASKED --the process can't make single batches of the data--> LOCAL
 *
 * At the end of its clock, or when the clock or the shard is not this node's any more, it is forgotten in any state. A
 * clock begins when none of its batches is ASKED or MAKING; the process makes those that are not HERE with the clock.
 */
enum feed_state { FEED_WANTED, FEED_ASKED, FEED_MAKING, FEED_HERE, FEED_LOCAL };

struct feed_batch {
    enum feed_state state;
    unsigned attempts;
    actor_id feeder;
    uint64_t claim, asked_us; /* ASKED */
    uint64_t bytes;           /* of the credit: a guess while ASKED or MAKING, exact while HERE; else 0 */
};

/* The batches of one clock. */
struct feed_clock {
    uint64_t clock;  /* 0: none */
    unsigned set;    /* number of the set of data */
    unsigned stages; /* that the batches have been through */
    uint32_t *shards;
    uint32_t count;
    struct feed_batch *batches; /* by index in `shards` */
};

/* A feeder of the plan, as a node that asks knows it. */
struct feed_feeder {
    actor_id node, server;
    uint64_t outstanding;    /* bytes */
    uint64_t answered_us;    /* when its last answer came */
    uint64_t avoid_until_us; /* it is asked for nothing before */
    uint64_t gone_us;        /* the last pause after a FEED_GONE; 0: it has made batches since */
    uint64_t obsolete;       /* the highest clock with a batch asked of it that is not needed any more; 0: none */
    unsigned behind;         /* while batches to make are chosen: how many of the clock's are ASKED of it */
};

/* Batches that the process makes at once: for other nodes one for each thread, for a clock of its own perhaps more. */
struct feed_made {
    uint64_t clock;
    unsigned count;
    uint32_t shards[WIRE_FEED_SHARDS_MAX];
    struct buffer *bytes[WIRE_FEED_SHARDS_MAX];
    uint64_t us; /* that making all of them took */
};

/* A question that a feeder has still to answer. */
struct feed_question {
    actor_id asker, server; /* server: of this node, which passes the answer on */
    uint64_t clock, claim;
    unsigned stages;
    uint64_t number;   /* of its arrival */
    uint64_t since_us; /* when the first of the batches that are not sent was begun */
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
    bool making;      /* feed_make is under way, for the question of `asker` and `claim` */
    actor_id asker;
    uint64_t claim;
    unsigned threads;      /* by which */
    uint64_t batch_us;     /* about, of one thread for a batch; 0: not known */
    unsigned char *wanted; /* by shard: was asked for, and is in neither set; NULL: none was */
    unsigned kept, coming; /* indexes in node_work.sets: shards that are here; the next such set. NODE_FEED_NO_SET */
    uint64_t batches;      /* made, since the process began */
    uint64_t made_us;      /* how long that took; without the one that is being made ... */
    uint64_t since_us;     /* ... since then */
};

struct node_feed {
    struct feed_clock clocks[NODE_FEED_AHEAD + 1]; /* clock c at c % (NODE_FEED_AHEAD + 1) */
    struct feed_feeder *feeders;
    unsigned feeder_count;
    unsigned threads;            /* of each feeder, as the controller says; 0: as many as it was started with */
    unsigned stages;             /* that the batches of `sizes` and `times_us` went through */
    bool stale;                  /* all batches are to be forgotten, as soon as no clock is computed */
    uint64_t used;               /* bytes of the credit: the sum over all batches */
    uint64_t claim;              /* of the last FEED_ASK */
    uint32_t *sizes;             /* by shard: bytes of its last batch; 0: not known. NULL: none is */
    uint64_t known, known_bytes; /* sizes that are known, and their sum */
    uint64_t times_us[NODE_FEED_TIMES];
    unsigned times;              /* answers so far */
    uint64_t local_us;           /* about, for a batch that the process makes itself; 0: not known */
    uint64_t clock_us;           /* for all batches of a clock */
    uint64_t waits_since_us;     /* when the next clock could have begun; 0: it does not wait for batches */
    uint64_t waits_until_us;     /* when it makes what it waits for */
    bool making;                 /* the process makes batches: those MAKING, or forgotten ones */
    uint64_t making_since_us;    /* while `making` */
    uint64_t made_us;            /* time of the waiting that went into making batches */
    uint64_t taken, asked, late; /* batches, since the process began */
    struct node_feeding feeding;
};

#endif
