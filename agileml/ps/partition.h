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
    struct buffer *values;       /* `count` rows, one behind the other; one reference held */
    enum wire_encoding encoding; /* of `values` */
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

/* Puts that count as applied, but whose values are not in the table yet: they stand in the flushes that brought
 * them. They are copied when the table is read (partition_settle). A worker that puts the same rows again in each
 * iteration only replaces its last flush, once no recovery can restore that, so most values are never copied. There
 * are at most as many rows as the table has, for each commit point that is kept. Where the rows are in a file, puts
 * are copied at once. */
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
    uint32_t *pieces;         /* per origin index: so many pieces of a flush that is not delivered yet have arrived */
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

/* What rows were before they changed: their old values; or the deltas that were added to whole numbers, which can be
 * subtracted again exactly. */
struct saved_rows {
    unsigned table;
    uint32_t count;
    uint32_t *slots;
    unsigned char *values;       /* the old values, packed; NULL: `deltas` are kept instead */
    struct buffer *deltas;       /* as they came in the flush; one reference held */
    enum wire_encoding encoding; /* of `deltas` */
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
    bool by_ring;        /* that PUSH was sent by a ring */
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
    struct pending **ring; /* partition_ahead entries; clock c at c % entries; NULL: nothing of it has arrived */
    struct pending **spare;
    unsigned spare_count;
    struct origin *origins;
    unsigned origin_count;
    struct index_map origin_index; /* actor -> index */
    unsigned alone;              /* 1 + index of the only origin expected at the clocks after mixed_clock; 0: several */
    uint64_t mixed_clock;        /* the last clock for which that does not hold */
    bool pushes_all;             /* pushes leave out no rows that a worker knows as it was alone */
    struct commit_point *points; /* oldest first, the last one at `clock` or before */
    unsigned point_count;        /* 0: nothing is kept for undoing */
    struct message *held;        /* UPDATEs ahead of `clock`, each from where the one before ends, frames held */
    unsigned held_count;
    struct subscription *subscriptions;
    unsigned subscription_count;
    struct index_map subscription_index; /* actor -> index */
    uint32_t *scratch;                   /* changed slots while a message is built */
    uint32_t scratch_capacity;
    struct error step_error; /* the first failure of an optimizer: the rows are wrong from then on */
};

/* An empty partition at clock 0, all rows at their start values. NULL on error. */
struct partition *partition_open(const struct job *job, uint32_t id, uint32_t partitions, struct error *error);
void partition_close(struct partition *partition);

/* Another partition with the same rows at the same clock, and nothing else. NULL on error. */
struct partition *partition_copy(struct partition *partition, struct error *error);

/* To be called after the tables were filled from outside: the rows are those of `clock`, and each row's own clock, at
 * most `clock`, is the one that last changed it. */
void partition_loaded(struct partition *partition, uint64_t clock);

/* ---- Clocks ---- */

/* Replaces who is expected: an origin at those clocks that an assignment of it covers. What has arrived stays. */
void partition_expect(struct partition *partition, const struct wire_assignment *assignments, unsigned count);

enum flush_result {
    FLUSH_TAKEN,
    FLUSH_TAKEN_PIECE, /* a piece was taken, and more are to follow */
    FLUSH_REPEATED,
    FLUSH_UNEXPECTED, /* not expected, or too far ahead: ignored */
    FLUSH_GAP,        /* a piece before this one is missing: ignored */
    FLUSH_OVERLAPS    /* a sum, of which a part was delivered before: ignored */
};

/* Clocks beyond partition_reached of which flushes are taken: no worker can be further ahead. */
static inline unsigned partition_ahead(const struct job *job) {
    return job->staleness + WIRE_WINDOW_MAX + 2;
}

/* Makes views of the rows in a SUBSCRIBE or UPDATE. Returns the number of views, or AML_EPROTOCOL if the message is
 * malformed or a row belongs to another partition. */
int partition_views(const struct partition *partition, const struct message *message, struct rows_view *views,
                    struct error *error);

/* Takes one flush of `origin`, or one piece of it: the origin has delivered the clock with the first piece behind which
 * there are no `more`. `views` come from rows_check of a message, whose frames may be held. A repeated flush or piece
 * changes nothing. Returns a flush_result; AML_EPROTOCOL, AML_ELIMIT or AML_EINPUT (in a checked job: a row put twice),
 * with nothing of the flush taken; or AML_ENOMEM, after which the partition can't be used any more. */
int partition_flush_piece(struct partition *partition, actor_id origin, uint64_t clock, uint32_t piece, bool more,
                          const struct rows_view *views, unsigned view_count, struct error *error);
/* Takes a whole flush, in one piece. */
int partition_flush(struct partition *partition, actor_id origin, uint64_t clock, const struct rows_view *views,
                    unsigned view_count, struct error *error);

/* The same for the sum of the flushes of several origins. FLUSH_REPEATED: all of them have delivered the clock before.
 * FLUSH_OVERLAPS: some have, so that the sum can't be taken. */
int partition_flush_sum(struct partition *partition, const actor_id *origins, unsigned origin_count, uint64_t clock,
                        const struct rows_view *views, unsigned view_count, struct error *error);

/* Applies the next clock if it is complete. True when the clock advanced. */
bool partition_advance(struct partition *partition);

/* Returns the clock up to which all flushes of `origin` have arrived; for an unknown origin partition_reached. */
uint64_t partition_received(struct partition *partition, actor_id origin);

/* Returns the number of pieces of the flush of `clock` that have arrived of `origin`; 0 for a flush that is delivered
 * or not expected. */
uint32_t partition_pieces(const struct partition *partition, actor_id origin, uint64_t clock);

/* ---- Going back ---- */

/* With `keep`, old values are kept from now on, to go back to the present clock and to each partition_point after it.
 * Without, no more are kept, and those that were are freed. */
void partition_keep(struct partition *partition, bool keep);

/* Makes the present clock a commit point. Does nothing unless partition_keep is on. */
void partition_point(struct partition *partition);

/* No replica will ever be restored at a clock before `committed`: frees what was kept for that, and applies the held
 * updates up to there. Returns an error when a held update can't be applied. */
int partition_commit(struct partition *partition, uint64_t committed, struct error *error);

/* Returns the number of clocks that partition_restore can restore the replica at, ascending in *clocks, which the
 * caller frees. */
unsigned partition_restore_points(const struct partition *partition, uint64_t **clocks);

/* Restores the replica at `clock`: a commit point, or a clock whose later updates are only held. Drops what is pending.
 * Returns false, with nothing changed, when the clock is not among partition_restore_points. */
bool partition_restore(struct partition *partition, uint64_t clock);

/* ---- Following ---- */

/* Holds an UPDATE that is no piece and begins at partition_reached or before. An error when it is malformed. */
int partition_hold(struct partition *partition, const struct message *update, struct error *error);

/* Applies the oldest held update, committed or not. The commit points that are kept stay. */
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

/* Makes a table's rows what they are at the partition's clock, for reading: applies puts that are kept aside. The
 * functions below that put rows into messages call it themselves. */
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

/* Appends to `push` the frames of the rows in `subscription` that changed after `from_clock`. Leaves out put rows that
 * the subscriber wrote last. Appends no rows when the subscriber was the only origin since `from_clock`: client_gather
 * has added the same deltas to the subscriber's own rows, bit for bit. That does not hold for tables with an optimizer,
 * nor for tables whose pushes round; their rows are always pushed, with the same bytes until they change again. With
 * `pushes_all` no rows are left out. `model` is the push built just before for another subscriber from the same clock,
 * or NULL: equal tables share its frames. */
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
