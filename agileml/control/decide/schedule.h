/* Which origin works on which data shard in which clocks: the source of a plan's assignments. Pure data.
 *
 * The schedule consists of parts. A part is a range of clocks with an owner for each shard: it lasts from its clock to
 * the clock before the next part's. The last part may have no clock yet (WIRE_CLOCK_NEVER).
 *
 * A catch-up is work of dead nodes in a range of clocks. In these clocks the parts name no owner for its shards
 * (ACTOR_NONE). A catch-up with an origin is undone work, which that origin does. A catch-up with the origin ACTOR_NONE
 * is work that the state contains but that is not committed: a later recovery may have to do it again. At each
 * uncommitted clock every shard has exactly one owner, or is in exactly one catch-up (docs/design.md, invariant I6). */
#ifndef AGILEML_CONTROL_SCHEDULE_H
#define AGILEML_CONTROL_SCHEDULE_H

#include "agileml/wire/message.h"

struct schedule_part {
    uint64_t from_clock;
    actor_id *owners; /* [shards]: origins, part 0 of a node's actor */
};

struct schedule_catch_up {
    actor_id origin; /* ACTOR_NONE: the dead nodes had done the work */
    uint64_t from_clock, until_clock;
    uint32_t *shards; /* ascending */
    uint32_t count;
};

struct schedule {
    uint32_t shards;
    struct schedule_part *parts; /* by clock */
    unsigned part_count;
    struct schedule_catch_up *catch_ups;
    unsigned catch_up_count;
};

/* Begins with one part: `owners` work from `from_clock` on. */
void schedule_open(struct schedule *schedule, uint32_t shards, const actor_id *owners, uint64_t from_clock);
void schedule_close(struct schedule *schedule);

/* Returns the owners of the latest part that has a clock. */
const actor_id *schedule_present(const struct schedule *schedule);
/* Returns the first clock of the latest part that has a clock. */
uint64_t schedule_named(const struct schedule *schedule);

/* Adds a part without a clock, or replaces it if there is one. */
void schedule_prepare(struct schedule *schedule, const actor_id *owners);
/* Sets the clock of the part without a clock. It must not be below the other parts' clocks. */
void schedule_name(struct schedule *schedule, uint64_t from_clock);
/* Whether the schedule has a part without a clock. */
static inline bool schedule_is_prepared(const struct schedule *schedule) {
    return schedule->parts[schedule->part_count - 1].from_clock == WIRE_CLOCK_NEVER;
}
/* Drops the part without a clock, if the schedule has such a part. */
void schedule_cancel(struct schedule *schedule);

/* Drops parts and catch-ups of clocks up to `committed`: no origin will work on these clocks or report them again. */
void schedule_forget(struct schedule *schedule, uint64_t committed);

/* The clocks of a recovery, and the epoch that it begins. */
struct schedule_restore {
    uint64_t committed; /* no later recovery restores an earlier clock */
    uint64_t clock;     /* the restored clock: work of this clock and earlier ones remains valid */
    uint64_t begun;     /* the highest clock that any node has begun */
    uint64_t epoch;
};

/* Moves the dead nodes' work beyond the restored clock to the nodes takeover[shard]. Up to the highest begun clock this
 * work becomes catch-ups under the nodes' catch-up origins of the epoch. In later clocks these nodes own the shards.
 * `dead` returns whether a node is dead. Returns the last clock of the catch-ups. */
uint64_t schedule_recover(struct schedule *schedule, bool (*dead)(const void *context, actor_id node),
                          const void *context, const actor_id *takeover, const struct schedule_restore *restore);

/* Writes the origins with an assignment in `clock`, each once, into *origins, which has `capacity` entries and grows as
 * needed. Returns their number. */
unsigned schedule_origins(const struct schedule *schedule, uint64_t clock, actor_id **origins, unsigned *capacity);

/* Fills owners[shard] with the origin that works on the data shard in `clock`; ACTOR_NONE: that node was lost. */
void schedule_owners(const struct schedule *schedule, uint64_t clock, actor_id *owners);

/* Returns the first clock after `clock` in which a catch-up origin has an assignment; WIRE_CLOCK_NEVER: none. */
uint64_t schedule_next(const struct schedule *schedule, actor_id origin, uint64_t clock);

/* Returns how many shards `origin` has in `clock`. */
uint32_t schedule_count(const struct schedule *schedule, actor_id origin, uint64_t clock);

/* Makes two frames of PLAN: the assignments (struct wire_assignment each), and the shards to which these refer. */
void schedule_assignments(const struct schedule *schedule, struct buffer **assignments, struct buffer **shards);

#endif
