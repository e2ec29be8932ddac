/* One replica of a partition: the state of a fixed subset of the rows at one clock, and the flushes that have arrived
 * of the next clocks (docs/design.md, "State lives at clock boundaries"). Also keeps what is needed to go back to an
 * earlier clock and to follow another replica (docs/design.md, "Commit points"). Pure state; server.h sends and
 * receives its messages.
 *
 *   partition = clock, rows exactly as of that clock, pending[clock+1 ..]
 *               commit points before that clock to go back to, held updates after it
 *
 * One thread uses a partition. */
#ifndef AGILEML_PS_PARTITION_H
#define AGILEML_PS_PARTITION_H

#include "agileml/ps/table.h"

/* Rows of one table from one flush or update, kept as they arrived. */
struct contribution {
    struct buffer *values;       /* `count` rows without gaps; one reference held */
    enum wire_encoding encoding; /* of `values` */
    uint32_t *slots;             /* count, owned */
    uint32_t count;
    uint32_t writer; /* 1 + index of the origin in partition.origins; 0: from an update */
    uint64_t clock;
};

/* What has arrived of one clock for one table. A single add contribution waits as it came, without a copy. When a
 * second one arrives, both are summed. Put contributions touch different rows, so all of them wait as they came. Sparse
 * ones of whole numbers wait too while they take less memory than their sum would. */
struct pending_table {
    struct contribution *waiting;
    unsigned waiting_count;
    struct arena sums;  /* packed rows by slot; valid where marked */
    struct arena marks; /* a byte per slot */
    struct arena slots; /* uint32_t each: the marked slots, in order of arrival */
    uint32_t summed;    /* number of marked slots */
};

/* Puts that count as applied, but whose values are still in the frames of their flushes, not in the table.
 * partition_settle copies them when the table is read. When a worker puts the same rows in each iteration, its new
 * flush replaces the earlier one that no recovery can restore. So most values are never copied. For each commit point
 * that is kept, there are at most as many late rows as the table has. If the table's rows are in a file, puts are
 * copied at once. */
struct late_puts {
    struct contribution *list; /* in the order in which they apply, ascending by clock */
    unsigned count;
    uint64_t rows;    /* in all */
    uint64_t settled; /* the highest clock of which rows were copied into the table */
};

enum {
    PARTITION_ORIGINS_GONE_MAX = 256, /* origins that are listed although no flush of theirs is expected any more */
    PARTITION_REPEATS_MAX = 2,        /* times the table's rows that a subscription lists: workers may repeat some */
    PARTITION_LATE_MAX = 1024,        /* late puts of a table, for each commit point */
    PARTITION_SPARSE_KEPT = 4         /* sparse deltas are kept, to go back, if their rows are so many times larger */
};

/* What has arrived of one clock that is not complete yet. */
struct pending {
    uint64_t clock;
    unsigned expected;        /* number of origins that are to deliver the clock */
    unsigned delivered_count; /* number of expected origins that have delivered it */
    unsigned last;            /* index of the origin that delivered last */
    unsigned char *delivered; /* a byte per origin index */
    uint32_t *pieces;         /* per origin index: pieces that have arrived of a flush that is not complete */
    struct pending_table tables[WIRE_TABLES_MAX];
};

/* An origin, and the clocks in which its flushes are expected. Rows name their writers by index, so an origin that is
 * gone stays listed until there are more than PARTITION_ORIGINS_GONE_MAX: forgetting takes a pass over the rows. */
struct origin {
    actor_id actor;
    uint64_t received; /* its flushes have arrived up to this clock, without a gap */
    struct clock_range {
        uint64_t from, until; /* both included */
    } * ranges;
    unsigned range_count;
};

/* What is needed to undo a change of rows: their old values, or the deltas that were added to whole numbers, which can
 * be subtracted exactly. */
struct saved_rows {
    unsigned table;
    uint32_t count;
    uint32_t *slots;
    unsigned char *values;       /* the old values, packed; NULL: `deltas` are kept instead */
    struct buffer *deltas;       /* as they came in the flush; one reference held */
    enum wire_encoding encoding; /* of `deltas` */
};

/* A clock that the partition can go back to, by undoing the changes saved since then, last first. */
struct commit_point {
    uint64_t clock;
    struct saved_rows *saved;
    unsigned saved_count;
};

/* Rows that a worker wants pushed. */
struct subscription {
    actor_id subscriber;
    uint64_t needs_from; /* the first clock of its node's assignments; WIRE_CLOCK_NEVER: none, or not decided */
    uint64_t sent_clock; /* the clock of the last PUSH to it, or of the state with which it subscribed */
    bool by_ring;        /* that PUSH was sent by a ring */
    uint64_t request;    /* number of its last SUBSCRIBE */
    struct slot_list {
        uint32_t *slots;
        uint32_t count, capacity;
    } lists[WIRE_TABLES_MAX];
};

/* Rows of a table as the clock's first message has them, in an encoding that takes time to write. Other messages of the
 * clock copy them. The first message's values stay in memory until the first message of a later clock. */
struct encoded_rows {
    uint64_t clock;
    struct buffer *values; /* of that message; one reference held. NULL: none */
    uint32_t *places;      /* [count] by slot: 1 + where the row begins in `values`; 0: it is not there */
    uint32_t count;
};

struct partition {
    const struct job *job;
    uint32_t id;
    uint64_t clock;
    struct table tables[WIRE_TABLES_MAX]; /* the last puts may be only in `late` */
    struct late_puts late[WIRE_TABLES_MAX];
    struct pending **ring; /* partition_ahead entries; clock c is at c % entries; NULL: nothing has arrived */
    struct pending **spare;
    unsigned spare_count;
    struct origin *origins;
    unsigned origin_count;
    struct index_map origin_index; /* actor -> index */
    unsigned alone;              /* 1 + index of the only origin of all clocks after mixed_clock; 0: several origins */
    uint64_t mixed_clock;        /* the last clock that `alone` does not describe */
    bool pushes_all;             /* pushes include the rows that a worker knows, as it was the only origin */
    struct commit_point *points; /* oldest first, the last one at `clock` or before */
    unsigned point_count;        /* 0: nothing is kept for undoing */
    struct message *held;        /* UPDATEs after `clock`, in order and without gaps; frames held */
    unsigned held_count;
    struct subscription *subscriptions;
    unsigned subscription_count;
    struct index_map subscription_index;          /* actor -> index */
    struct encoded_rows encoded[WIRE_TABLES_MAX]; /* of tables whose encoded rows have different sizes */
    uint32_t *scratch;                            /* changed slots while a message is built */
    uint32_t scratch_capacity;
    struct error step_error; /* the first failure of an optimizer; after it the rows are wrong */
};

/* Opens a partition at clock 0, with all rows at their start values. NULL on error. */
struct partition *partition_open(const struct job *job, uint32_t id, uint32_t partitions, struct error *error);
void partition_close(struct partition *partition);

/* Returns a partition with the same rows at the same clock, without pending flushes, commit points or subscriptions.
 * NULL on error. */
struct partition *partition_copy(struct partition *partition, struct error *error);

/* Call it after filling the tables directly. The rows must be those of `clock`, and each row's own clock must be the
 * clock that last changed it. */
void partition_loaded(struct partition *partition, uint64_t clock);

/* ---- Clocks ---- */

/* Replaces the expected flushes: each origin at the clocks that its assignments cover. Flushes that have arrived
 * stay. */
void partition_expect(struct partition *partition, const struct wire_assignment *assignments, unsigned count);

enum flush_result {
    FLUSH_TAKEN,
    FLUSH_TAKEN_PIECE, /* a piece was taken, and more pieces are to follow */
    FLUSH_REPEATED,
    FLUSH_UNEXPECTED, /* not expected, or too far ahead: ignored */
    FLUSH_GAP,        /* a piece before this one is missing: ignored */
    FLUSH_OVERLAPS    /* a sum that contains a flush which was delivered before: ignored */
};

/* Returns how many clocks after partition_reached flushes are taken for. No worker can be further ahead. */
static inline unsigned partition_ahead(const struct job *job) {
    return job->staleness + WIRE_WINDOW_MAX + 2;
}

/* Makes views of the rows in a SUBSCRIBE or UPDATE. Returns the number of views, or AML_EPROTOCOL if the message is
 * malformed or a row belongs to another partition. */
int partition_views(const struct partition *partition, const struct message *message, struct rows_view *views,
                    struct error *error);

/* Takes one flush of `origin`, or one piece of it. A flush is complete with the piece that is not followed by `more`; a
 * flush in one piece has only piece 0. `views` are from rows_check of the message; the partition may hold its frames. A
 * repeated flush or piece changes nothing. Returns a flush_result or an error. After AML_EPROTOCOL, AML_ELIMIT or
 * AML_EINPUT (in a checked job: a row put twice) nothing was taken. After AML_ENOMEM the partition can only be
 * closed. */
int partition_flush(struct partition *partition, actor_id origin, uint64_t clock, uint32_t piece, bool more,
                    const struct rows_view *views, unsigned view_count, struct error *error);

/* Takes the sum of the flushes of several origins. Returns as partition_flush. FLUSH_REPEATED: all of these origins
 * have delivered the clock before. FLUSH_OVERLAPS: some of them have, so that the sum can't be taken. */
int partition_flush_sum(struct partition *partition, const actor_id *origins, unsigned origin_count, uint64_t clock,
                        const struct rows_view *views, unsigned view_count, struct error *error);

/* Applies the next clock if it is complete. Returns true when the clock advanced. */
bool partition_advance(struct partition *partition);

/* Returns the clock up to which all flushes of `origin` have arrived. For an unknown origin, returns
 * partition_reached. */
uint64_t partition_received(struct partition *partition, actor_id origin);

/* Returns the number of pieces that have arrived of the origin's flush of `clock`; 0 for a complete flush, or one that
 * is not expected. */
uint32_t partition_pieces(const struct partition *partition, actor_id origin, uint64_t clock);

/* ---- Going back ---- */

/* With `keep`, keeps old values from now on, to go back to the present clock and to each partition_point after it.
 * Without `keep`, frees the old values and keeps no more. */
void partition_keep(struct partition *partition, bool keep);

/* Makes the present clock a commit point. Does nothing while no old values are kept (partition_keep). */
void partition_point(struct partition *partition);

/* Call it when no replica will ever be restored at a clock before `committed`. Frees what was kept for such clocks, and
 * applies the held updates up to `committed`. Returns an error when a held update can't be applied. */
int partition_commit(struct partition *partition, uint64_t committed, struct error *error);

/* Sets *clocks to the clocks at which partition_restore can restore the replica, ascending, and returns their number.
 * The caller frees *clocks. */
unsigned partition_restore_points(const struct partition *partition, uint64_t **clocks);

/* Restores the replica at `clock`: a commit point, the present clock, or the clock of a held update. Drops later
 * updates and pending flushes. Returns false, with nothing changed, when the clock is not among
 * partition_restore_points. */
bool partition_restore(struct partition *partition, uint64_t clock);

/* ---- Following ---- */

/* Holds an UPDATE, which must not be a piece and must begin at partition_reached or before. Returns an error when it is
 * malformed. */
int partition_hold(struct partition *partition, const struct message *update, struct error *error);

/* Applies the oldest held update, committed or not. Kept commit points stay. */
int partition_apply(struct partition *partition, struct error *error);

/* Returns the clock of the last held update; without held updates, the partition's clock. */
uint64_t partition_reached(const struct partition *partition);

/* Writes the rows of an UPDATE straight into the tables. The UPDATE is a piece of a copy, or has the rows that changed
 * since the copy began. In the latter case the partition is then at the UPDATE's clock. */
int partition_fill(struct partition *partition, const struct message *update, struct error *error);

/* Appends to `update` rows that were ever changed, from `cursor` on, up to about `bytes`. Returns the next cursor; 0 at
 * the end. */
uint64_t partition_piece(struct partition *partition, uint64_t cursor, size_t bytes, struct message *update);

/* Appends to `update` all rows that changed after `from_clock`, with their present values. Returns AML_ELIMIT when a
 * table's changed rows do not fit in one message. */
int partition_changed(struct partition *partition, uint64_t from_clock, struct message *update, struct error *error);

/* ---- Reading ---- */

/* Copies late puts into the table, so that its rows can be read. The functions below that put rows into messages call
 * it themselves. */
void partition_settle(struct partition *partition, unsigned table);

/* Returns one row at the partition's clock, without settling. It searches the late puts, so use it only for single
 * rows. */
const unsigned char *partition_row(const struct partition *partition, unsigned table, uint32_t slot);

/* Adds rows to the subscription of `subscriber`, made when new; with `only`, replaces its rows. Does nothing when
 * `request` was applied before. */
int partition_subscribe(struct partition *partition, actor_id subscriber, uint64_t request, bool only,
                        const struct rows_view *views, unsigned view_count, struct error *error);

/* Returns the subscription of `subscriber`, or NULL. */
static inline struct subscription *partition_subscription(struct partition *partition, actor_id subscriber) {
    int64_t found = index_map_find(&partition->subscription_index, subscriber);
    return found != INDEX_NONE ? &partition->subscriptions[found] : NULL;
}

/* Drops the subscriptions for which `keep` returns false; all when `keep` is NULL. */
void partition_unsubscribe(struct partition *partition, bool (*keep)(void *context, actor_id subscriber),
                           void *context);

/* Appends to `push` the rows in `subscription` that changed after `from_clock`. Leaves out put rows that the subscriber
 * wrote last. Appends no rows when the subscriber was the only origin since `from_clock`: client_gather has added the
 * same deltas to the subscriber's own rows, bit for bit. Tables with an optimizer, and jobs with pushes that round, are
 * exceptions (partition_rows.c). With `pushes_all` no add rows are left out. `model` is the push built just before for
 * another subscriber from the same clock, or NULL: equal tables share its frames. */
void partition_changes(struct partition *partition, const struct subscription *subscription, uint64_t from_clock,
                       const struct subscription *model_subscription, const struct message *model,
                       struct message *push);

/* Appends to `push` the rows named by `views` (of a SUBSCRIBE) that changed after `known`; with `known` 0, all of
 * them. */
int partition_rows(struct partition *partition, const struct rows_view *views, unsigned view_count, uint64_t known,
                   struct message *push, struct error *error);

/* Appends to `message` rows of `table` from slot `cursor` on, up to about `bytes`. Returns the next cursor; 0 at the
 * end. */
uint64_t partition_scan(struct partition *partition, uint32_t table, uint64_t cursor, size_t bytes,
                        struct message *message);

#endif
