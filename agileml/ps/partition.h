/* One partition: the state of a fixed subset of the rows at one clock, what has arrived of the next clocks
 * (docs/design.md, "State lives at clock boundaries"), and what it takes to go back to an earlier clock or to follow
 * another replica (docs/design.md, "Commit points"). Pure state, no messages sent: server.h speaks for it.
 *
 *   partition = clock, rows exactly as of that clock, pending[clock+1 ..]
 *               commit points behind it that it can go back to, updates ahead of it that it holds
 *
 * One thread uses a partition. */
#ifndef AGILEML_PS_PARTITION_H
#define AGILEML_PS_PARTITION_H

#include "agileml/ps/table.h"

/* Rows of one table at one clock, kept as they arrived. */
struct contribution {
    struct buffer *values;       /* count rows, one behind the other, one reference held ... */
    enum wire_encoding encoding; /* ... written so */
    uint32_t *slots;             /* count, owned */
    uint32_t count;
    uint32_t writer; /* 1 + index of the origin in partition.origins; 0: an update brought it */
    uint64_t clock;
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
 * only replaces its last flush, once nobody can go back to it. Bounded by the table's rows, for each commit point that
 * can be gone back to. */
struct late_puts {
    struct contribution *list; /* in the order in which they apply, so by clock */
    unsigned count;
    uint64_t rows;    /* in all */
    uint64_t settled; /* the highest clock of which rows were copied into the table */
};

enum {
    PARTITION_LATE_MAX = 1024, /* for each commit point */
    PARTITION_SPARSE_KEPT = 4  /* sparse deltas are kept for going back if so many times smaller than their rows */
};

/* What has arrived of one clock that is not complete yet. */
struct pending {
    uint64_t clock;
    unsigned expected;        /* origins that are to deliver it ... */
    unsigned delivered_count; /* ... and those that have */
    unsigned last;            /* index of the origin that delivered last */
    unsigned char *delivered; /* a byte per origin index */
    struct pending_table tables[WIRE_TABLES_MAX];
};

/* Whose flushes are expected in which clocks. Origins stay listed for the life of the replica: rows name their writers
 * by index. */
struct origin {
    actor_id actor;
    uint64_t received; /* its flushes have arrived up to this clock, without a gap */
    struct clock_range {
        uint64_t from, until; /* both included */
    } * ranges;
    unsigned range_count;
};

/* Old values of rows that were changed; or, of whole numbers, what was added to them: that can be taken away again
 * without a rest. */
struct saved_rows {
    unsigned table;
    uint32_t count;
    uint32_t *slots;
    unsigned char *values; /* NULL: */
    struct buffer *deltas; /* one reference held, encoded so: */
    enum wire_encoding encoding;
};

/* A clock that the partition can go back to, by putting back what was saved since, last first. */
struct commit_point {
    uint64_t clock;
    struct saved_rows *saved;
    unsigned saved_count;
};

/* Rows that a worker wants pushed. */
struct subscription {
    actor_id subscriber;
    uint64_t needs_from; /* the first clock of its node's assignments; WIRE_CLOCK_NEVER: none, or none that is named */
    uint64_t sent_clock; /* the clock of the last PUSH to it, or of the state that it had before */
    uint64_t request;    /* its last SUBSCRIBE */
    struct slot_list {
        uint32_t *slots;
        uint32_t count;
    } lists[WIRE_TABLES_MAX];
};

struct partition {
    const struct job *job;
    uint32_t id;
    uint64_t clock;
    struct table tables[WIRE_TABLES_MAX]; /* rows of put tables: see late */
    struct late_puts late[WIRE_TABLES_MAX];
    struct pending **ring; /* partition_ahead entries; clock c at c % entries; NULL: nothing of it has arrived */
    struct pending **spare;
    unsigned spare_count;
    struct origin *origins;
    unsigned origin_count;
    struct index_map origin_index; /* actor -> index */
    unsigned alone;       /* 1 + index of the only origin expected at the clocks after mixed_clock; 0: several */
    uint64_t mixed_clock; /* the last clock for which that does not hold */
    struct commit_point
        *points; /* oldest first, the last one at `clock` or before; none: nothing is kept for undoing */
    unsigned point_count;
    struct message *held; /* UPDATEs ahead of `clock`, each from where the one before ends, frames held */
    unsigned held_count;
    struct subscription *subscriptions;
    unsigned subscription_count;
    struct index_map subscription_index; /* actor -> index */
    uint32_t *scratch;                   /* changed slots while a message is built */
    uint32_t scratch_capacity;
};

/* An empty partition at clock 0, all rows at their start values. NULL on error. */
struct partition *partition_open(const struct job *job, uint32_t id, uint32_t partitions, struct error *error);
void partition_close(struct partition *partition);

/* Another partition with the same rows at the same clock, and nothing else. NULL on error. */
struct partition *partition_copy(struct partition *partition, struct error *error);

/* Someone has written the tables' rows as of `clock`, and into the rows' clocks when they changed, at most `clock`. */
void partition_loaded(struct partition *partition, uint64_t clock);

/* ---- Clocks ---- */

/* Replaces who is expected: an origin at those clocks that an assignment of it covers. What has arrived stays. */
void partition_expect(struct partition *partition, const struct wire_assignment *assignments, unsigned count);

enum flush_result { FLUSH_TAKEN, FLUSH_REPEATED, FLUSH_UNEXPECTED /* not expected, or too far ahead: ignored */ };

/* Clocks beyond partition_reached of which flushes are taken: no worker can be further ahead. */
static inline unsigned partition_ahead(const struct job *job) {
    return job->staleness + WIRE_WINDOW_MAX + 2;
}

/* Views of the rows in a FLUSH, SUBSCRIBE or UPDATE, every one of which is this partition's. Their number, or
 * AML_EPROTOCOL with what is wrong. */
int partition_views(const struct partition *partition, const struct message *message, struct rows_view *views,
                    struct error *error);

/* Takes one flush of `origin`: `views` come from rows_check of a message, whose frames may be held. Exactly once:
 * a repeat changes nothing. A flush_result, or AML_EPROTOCOL/AML_ELIMIT with nothing changed. */
int partition_flush(struct partition *partition, actor_id origin, uint64_t clock, const struct rows_view *views,
                    unsigned view_count, struct error *error);

/* Applies the next clock if it is complete. True when the clock advanced. */
bool partition_advance(struct partition *partition);

/* The contiguous clock up to which flushes of `origin` have arrived; the partition's clock for a stranger. */
uint64_t partition_received(struct partition *partition, actor_id origin);

/* ---- Going back ---- */

/* From now on old values are kept, to go back to the present clock and to each partition_point after it; or are
 * not, and what was kept is forgotten. */
void partition_keep(struct partition *partition, bool keep);

/* The present clock is a commit point. Nothing where nothing is kept. */
void partition_point(struct partition *partition);

/* Nobody need ever go behind `committed`: forgets what was kept for that, and applies what is held up to there. An
 * error when a held update can't be applied. */
int partition_commit(struct partition *partition, uint64_t committed, struct error *error);

/* The clocks that partition_restore can put the replica at, ascending. The caller frees *clocks. */
unsigned partition_restore_points(const struct partition *partition, uint64_t **clocks);

/* Puts the replica at `clock`: back to a commit point, or by dropping what it holds beyond. What is pending is dropped.
 * False, with nothing changed, when the clock is not among partition_restore_points. */
bool partition_restore(struct partition *partition, uint64_t clock);

/* ---- Following ---- */

/* Holds an UPDATE that is no piece and begins at partition_reached or before. An error when it is malformed. */
int partition_hold(struct partition *partition, const struct message *update, struct error *error);

/* Applies the oldest held update, committed or not: what is kept to go back to stays so. */
int partition_apply(struct partition *partition, struct error *error);

/* The clock up to which it has followed: that of the last held update, or else its own. */
uint64_t partition_reached(const struct partition *partition);

/* Writes the rows of an UPDATE straight into the tables: of a piece of a copy, or of what changed since the copy began,
 * and then the partition is at its clock. */
int partition_fill(struct partition *partition, const struct message *update, struct error *error);

/* Appends to `update` the rows that were ever changed, from `cursor` on, up to about `bytes`; the next cursor, or 0 at
 * the end. */
uint64_t partition_piece(struct partition *partition, uint64_t cursor, size_t bytes, struct message *update);

/* Appends to `update` all rows that changed after `from_clock`, as they are. AML_ELIMIT when a table's do not fit one
 * message. */
int partition_changed(struct partition *partition, uint64_t from_clock, struct message *update, struct error *error);

/* ---- Reading ---- */

/* Makes a table's rows what they are at the partition's clock, for reading. The functions below do it themselves. */
void partition_settle(struct partition *partition, unsigned table);

/* One row at the partition's clock, without settling: searches, so for tests and single rows. */
const unsigned char *partition_row(const struct partition *partition, unsigned table, uint32_t slot);

/* Adds rows to the subscription of `subscriber` (made when new) unless `request` was seen; `only`: puts them in the
 * place of those named before. */
int partition_subscribe(struct partition *partition, actor_id subscriber, uint64_t request, bool only,
                        const struct rows_view *views, unsigned view_count, struct error *error);

/* The subscription of `subscriber`, or NULL. */
struct subscription *partition_subscription(struct partition *partition, actor_id subscriber);

/* Drops the subscriptions that are not to be kept; all without `keep`. */
void partition_unsubscribe(struct partition *partition, bool (*keep)(void *context, actor_id subscriber),
                           void *context);

/* Appends to `push` the frames of the rows in `subscription` that changed after `from_clock`, without the put rows that
 * the subscriber itself wrote last, and without any when it was alone since: it knows them to the bit, as client_gather
 * adds deltas to its rows as the server does. Rows that are rounded are written the same each time until they change
 * again; once there were any, nobody knows these rows to the bit. `model` is the push built just before for another
 * subscriber from the same clock, or NULL: equal tables share its frames. */
void partition_changes(struct partition *partition, const struct subscription *subscription, uint64_t from_clock,
                       const struct subscription *model_subscription, const struct message *model,
                       struct message *push);

/* Appends to `push` the rows named by `views` (of a SUBSCRIBE) that changed after `known`; 0: all. */
int partition_rows(struct partition *partition, const struct rows_view *views, unsigned view_count, uint64_t known,
                   struct message *push, struct error *error);

/* Appends to `message` rows of `table` from slot `cursor` on, up to about `bytes`; the next cursor, or 0 at the end. */
uint64_t partition_scan(struct partition *partition, uint32_t table, uint64_t cursor, size_t bytes,
                        struct message *message);

#endif
