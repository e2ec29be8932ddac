/* Who works on which data shard in which clocks: the source of a plan's duties. Pure data.
 *
 * From each part's clock on its owners hold, up to the next part's. The last part may have no clock yet
 * (WIRE_CLOCK_NEVER). What dead nodes left undone is in catch-ups: there the parts name no owner (ACTOR_NONE). What
 * they did, but is not committed, is in catch-ups of nobody: the state holds it, and a later recovery may go back
 * behind it. At each clock that is not committed every shard has exactly one owner, or is in exactly one catch-up:
 * I6. */
#ifndef AGILEML_CONTROL_SCHEDULE_H
#define AGILEML_CONTROL_SCHEDULE_H

#include "agileml/wire/message.h"

struct schedule_part {
    uint64_t from_clock;
    actor_id *owners; /* [shards], of part 0 */
};

struct schedule_catch_up {
    actor_id origin; /* ACTOR_NONE: it is done, by nodes that are dead */
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

/* `owners` hold from `from_clock` on. */
void schedule_open(struct schedule *schedule, uint32_t shards, const actor_id *owners, uint64_t from_clock);
void schedule_close(struct schedule *schedule);

/* The owners of the latest part that has a clock, and that clock. */
const actor_id *schedule_present(const struct schedule *schedule);
uint64_t schedule_named(const struct schedule *schedule);

/* Adds a part without a clock, in place of one that is there. */
void schedule_prepare(struct schedule *schedule, const actor_id *owners);
/* Names its clock, beyond those of the other parts. */
void schedule_name(struct schedule *schedule, uint64_t from_clock);
/* Drops a part without a clock. */
void schedule_cancel(struct schedule *schedule);

/* Forgets what is over once clocks up to `committed` will never be worked on again, nor asked about. */
void schedule_forget(struct schedule *schedule, uint64_t committed);

/* Where a recovery goes back to, and whose plan it is. */
struct schedule_restore {
    uint64_t committed; /* no recovery will go back behind this clock */
    uint64_t clock;     /* what is done at this clock and before stands */
    uint64_t begun;     /* the highest clock that anyone has begun */
    uint64_t epoch;
};

/* Nodes died: what they had to do beyond the restored clock goes to `takeover[shard]`, as catch-ups under origins of
 * the epoch up to the clock begun, beyond as part of the owners' own. `dead` tells of a node whether it is. Returns the
 * last clock of a catch-up. */
uint64_t schedule_recover(struct schedule *schedule, bool (*dead)(const void *context, actor_id node),
                          const void *context, const actor_id *takeover, const struct schedule_restore *restore);

/* The different origins with a duty in `clock`, into *origins (grown as needed, `capacity` entries); their number. */
unsigned schedule_origins(const struct schedule *schedule, uint64_t clock, actor_id **origins, unsigned *capacity);

/* Fills owners[shard] with the origin that works on the data shard in `clock`; ACTOR_NONE: that node was lost. */
void schedule_owners(const struct schedule *schedule, uint64_t clock, actor_id *owners);

/* The first clock after `clock` in which a catch-up origin has a duty; WIRE_CLOCK_NEVER: none. */
uint64_t schedule_next(const struct schedule *schedule, actor_id origin, uint64_t clock);

/* How many shards `origin` has in `clock`. */
uint32_t schedule_count(const struct schedule *schedule, actor_id origin, uint64_t clock);

/* The plan's two frames: struct wire_duty each, and the shards that they name. */
void schedule_duties(const struct schedule *schedule, struct buffer **duties, struct buffer **shards);

#endif
