/* One partition: the state of a fixed subset of the rows at one clock, and what has arrived of the next clocks
 * (DESIGN section 1). Pure state, no messages sent: server.h speaks for it.
 *
 *   partition = clock, rows exactly as of that clock, pending[clock+1 .. clock+1+staleness]
 *
 * One thread uses a partition. */
#ifndef AGILEML_PS_PARTITION_H
#define AGILEML_PS_PARTITION_H

#include "agileml/ps/table.h"

/* What one origin delivered of one table and clock, kept as it arrived. */
struct contribution {
    struct buffer *values; /* count packed rows, one reference held */
    uint32_t *slots;       /* count, owned */
    uint32_t count;
    uint32_t writer; /* index of the origin in partition.origins */
};

/* The deltas of one clock for one table. A single add contribution waits as it came, without a copy; when a
 * second arrives both are summed. Put contributions touch different rows, so all wait as they came. */
struct pending_table {
    struct contribution *waiting;
    unsigned waiting_count;
    struct arena sums;  /* packed rows by slot; valid where marked */
    struct arena marks; /* a byte per slot */
    struct arena slots; /* uint32_t each: the marked slots in order of arrival */
    uint32_t summed;    /* how many */
};

/* Puts that have been applied in all but copying: the rows' values still stand in the flushes that brought them. They
 * are copied when someone reads the table (partition_settle); a worker that puts the same rows again each iteration
 * only replaces its last flush. Bounded by the table's rows. */
struct late_puts {
    struct contribution *list; /* in the order in which they apply */
    unsigned count;
    uint64_t rows; /* in all */
};

enum { PARTITION_LATE_MAX = 1024 };

struct pending {
    uint64_t clock;           /* 0: nothing of this ring entry has arrived */
    unsigned delivered_count; /* origins whose flush is here */
    unsigned char *delivered; /* a byte per origin index */
    struct pending_table tables[WIRE_TABLES_MAX];
};

/* An origin that the plan expects to flush clocks from_clock..until_clock. */
struct origin {
    actor_id actor;
    uint64_t from_clock;
    uint64_t until_clock;
    uint64_t received; /* its flushes have arrived up to this clock, without a gap */
};

/* Rows that a worker wants pushed. */
struct subscription {
    actor_id subscriber;
    uint64_t sent_clock; /* the clock of the last PUSH to it */
    uint64_t request;    /* its last SUBSCRIBE */
    struct slot_list {
        uint32_t *slots;
        uint32_t count, capacity;
    } lists[WIRE_TABLES_MAX];
};

struct partition {
    const struct job *job;
    uint32_t id;
    uint64_t clock;
    struct table tables[WIRE_TABLES_MAX]; /* rows of put tables: see late */
    struct late_puts late[WIRE_TABLES_MAX];
    struct pending *ring; /* staleness + 1 entries; clock c at c % entries */
    struct origin *origins;
    unsigned origin_count;
    unsigned alone;       /* 1 + index of the only origin expected at the clocks after mixed_clock; 0: several */
    uint64_t mixed_clock; /* the last clock for which that does not hold */
    struct subscription *subscriptions;
    unsigned subscription_count;
    uint32_t *scratch; /* changed slots while a push is built */
    uint32_t scratch_capacity;
};

/* An empty partition at clock 0, all rows at their start values. NULL on error. */
struct partition *partition_open(const struct job *job, uint32_t id, uint32_t partitions, struct error *error);
void partition_close(struct partition *partition);

/* Sets who is expected from `from_clock` on: each of `count` different origins. Origins of earlier plans that
 * are not among them are expected up to from_clock - 1. */
void partition_expect(struct partition *partition, const actor_id *origins, unsigned count, uint64_t from_clock);

enum flush_result { FLUSH_TAKEN, FLUSH_REPEATED, FLUSH_UNEXPECTED /* not expected, or beyond the window: ignored */ };

/* Takes one flush of `origin`: `views` come from rows_check of `message`, whose frames may be held. Exactly once:
 * a repeat changes nothing. A flush_result, or AML_EPROTOCOL/AML_ELIMIT with nothing changed. */
int partition_flush(struct partition *partition, actor_id origin, uint64_t clock, const struct message *message,
                    const struct rows_view *views, unsigned view_count, struct error *error);

/* Makes the rows of a table what they are at the partition's clock, for reading. The functions below do it themselves. */
void partition_settle(struct partition *partition, unsigned table);

/* One row at the partition's clock, without settling: searches, so for tests and single rows. */
const unsigned char *partition_row(const struct partition *partition, unsigned table, uint32_t slot);

/* Applies every pending clock that is complete, in order. True when the clock advanced. */
bool partition_advance(struct partition *partition);

/* Adds rows to the subscription of `subscriber` (made when new) unless `request` was seen. */
int partition_subscribe(struct partition *partition, actor_id subscriber, uint64_t request,
                        const struct rows_view *views, unsigned view_count, struct error *error);

/* The subscription of `subscriber`, or NULL. */
struct subscription *partition_subscription(struct partition *partition, actor_id subscriber);

/* Appends to `push` the frames of the rows in `subscription` that changed after `from_clock`, without the put
 * rows that the subscriber itself wrote last, and without any when it was alone since: it knows them to the bit, as
 * client_gather adds deltas to its rows as the server does. `model` is the push built just before for another subscriber
 * from the same clock, or NULL: equal tables share its frames. */
void partition_changes(struct partition *partition, const struct subscription *subscription, uint64_t from_clock,
                       const struct subscription *model_subscription, const struct message *model,
                       struct message *push);

/* Appends to `push` the rows named by `views` (of a SUBSCRIBE that was taken), whatever their clock. */
void partition_rows(struct partition *partition, const struct rows_view *views, unsigned view_count,
                    struct message *push);

/* Appends to `message` rows of `table` from slot `cursor` on, up to about `bytes`; the next cursor, or 0 at the end. */
uint64_t partition_scan(struct partition *partition, uint32_t table, uint64_t cursor, size_t bytes,
                        struct message *message);

/* The contiguous clock up to which flushes of `origin` have arrived; the partition's clock for a stranger. */
uint64_t partition_received(const struct partition *partition, actor_id origin);

#endif
