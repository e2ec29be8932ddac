/* See schedule.h. */
#include "agileml/control/decide/schedule.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static actor_id *owners_copy(const struct schedule *schedule, const actor_id *owners) {
    actor_id *copy = memory_resized(NULL, schedule->shards, sizeof *copy);
    memcpy(copy, owners, schedule->shards * sizeof *copy);
    return copy;
}

/* Adds a part, in the order of clocks, and returns its index. */
static unsigned add_part(struct schedule *schedule, uint64_t from_clock, const actor_id *owners) {
    schedule->parts = memory_resized(schedule->parts, schedule->part_count + 1, sizeof *schedule->parts);
    unsigned at = schedule->part_count++;
    for (; at > 0 && schedule->parts[at - 1].from_clock > from_clock; at--) {
        schedule->parts[at] = schedule->parts[at - 1];
    }
    schedule->parts[at] = (struct schedule_part){.from_clock = from_clock, .owners = owners_copy(schedule, owners)};
    return at;
}

static void drop_part(struct schedule *schedule, unsigned index) {
    free(schedule->parts[index].owners);
    schedule->part_count--;
    memmove(schedule->parts + index, schedule->parts + index + 1,
            (schedule->part_count - index) * sizeof *schedule->parts);
}

static void drop_catch_up(struct schedule *schedule, unsigned index) {
    free(schedule->catch_ups[index].shards);
    schedule->catch_ups[index] = schedule->catch_ups[--schedule->catch_up_count];
}

void schedule_open(struct schedule *schedule, uint32_t shards, const actor_id *owners, uint64_t from_clock) {
    *schedule = (struct schedule){.shards = shards};
    add_part(schedule, from_clock, owners);
}

void schedule_close(struct schedule *schedule) {
    while (schedule->part_count > 0) {
        drop_part(schedule, schedule->part_count - 1);
    }
    while (schedule->catch_up_count > 0) {
        drop_catch_up(schedule, 0);
    }
    free(schedule->parts);
    free(schedule->catch_ups);
    *schedule = (struct schedule){0};
}

/* Checks that the parts are in the order of clocks, of which only the last may have none, and that every catch-up has
 * clocks and shards. */
static void check_schedule(const struct schedule *schedule) {
    assert(schedule->part_count > 0 && schedule->parts[0].owners != NULL);
    for (unsigned p = 1; p < schedule->part_count; p++) {
        assert(schedule->parts[p - 1].from_clock < schedule->parts[p].from_clock);
    }
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *late = &schedule->catch_ups[c];
        assert(late->from_clock <= late->until_clock && late->until_clock < WIRE_CLOCK_NEVER);
        assert(late->count > 0 && late->shards[late->count - 1] < schedule->shards);
    }
}

/* Returns the last clock of a part. */
static uint64_t part_until(const struct schedule *schedule, unsigned index) {
    bool last = index + 1 == schedule->part_count || schedule->parts[index + 1].from_clock == WIRE_CLOCK_NEVER;
    return last ? WIRE_CLOCK_NEVER : schedule->parts[index + 1].from_clock - 1;
}

/* Returns the index of the part of `clock`; 0 for clocks before the first part, which are over. */
static unsigned part_at(const struct schedule *schedule, uint64_t clock) {
    unsigned at = 0;
    while (at + 1 < schedule->part_count && schedule->parts[at + 1].from_clock <= clock) {
        at++;
    }
    return at;
}

const actor_id *schedule_present(const struct schedule *schedule) {
    return schedule->parts[part_at(schedule, WIRE_CLOCK_NEVER - 1)].owners;
}

uint64_t schedule_named(const struct schedule *schedule) {
    return schedule->parts[part_at(schedule, WIRE_CLOCK_NEVER - 1)].from_clock;
}

void schedule_cancel(struct schedule *schedule) {
    if (schedule_is_prepared(schedule)) {
        drop_part(schedule, schedule->part_count - 1);
    }
    assert(schedule->part_count > 0 && !schedule_is_prepared(schedule));
}

void schedule_prepare(struct schedule *schedule, const actor_id *owners) {
    schedule_cancel(schedule);
    add_part(schedule, WIRE_CLOCK_NEVER, owners);
    check_schedule(schedule);
}

void schedule_name(struct schedule *schedule, uint64_t from_clock) {
    struct schedule_part *part = &schedule->parts[schedule->part_count - 1];
    assert(part->from_clock == WIRE_CLOCK_NEVER &&
           (schedule->part_count == 1 || schedule->parts[schedule->part_count - 2].from_clock <= from_clock));
    part->from_clock = from_clock;
    if (schedule->part_count > 1 && schedule->parts[schedule->part_count - 2].from_clock == from_clock) {
        drop_part(schedule, schedule->part_count - 2); /* no node has begun the part's clocks */
    }
    check_schedule(schedule);
}

void schedule_forget(struct schedule *schedule, uint64_t committed) {
    while (schedule->part_count > 1 && part_until(schedule, 0) <= committed) {
        drop_part(schedule, 0);
    }
    for (unsigned c = 0; c < schedule->catch_up_count;) {
        if (schedule->catch_ups[c].until_clock <= committed) {
            drop_catch_up(schedule, c);
        } else {
            c++;
        }
    }
    check_schedule(schedule);
}

/* ---- Recovery ---- */

/* The work of dead nodes in a range of clocks. */
struct stretch {
    uint64_t from_clock, until_clock;
    bool done;        /* the restored state contains the work; only a recovery to an earlier clock repeats it */
    actor_id *takers; /* [shards]: the node that takes over the shard's work; ACTOR_NONE: no dead node had the shard */
};

static int clock_order(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Returns the clocks in (committed, end + 1] at which stretches begin, ascending, each once. These are the first clocks
 * of parts and catch-ups, the clocks after catch-ups, committed + 1, the clock after the restored one, and end + 1. */
static uint64_t *stretch_bounds(const struct schedule *schedule, const struct schedule_restore *restore, uint64_t end,
                                unsigned *count) {
    unsigned most = 3 + schedule->part_count + 2 * schedule->catch_up_count;
    uint64_t *bounds = memory_resized(NULL, most, sizeof *bounds);
    unsigned used = 0;
    bounds[used++] = restore->committed + 1;
    bounds[used++] = restore->clock + 1;
    bounds[used++] = end + 1;
    for (unsigned p = 0; p < schedule->part_count; p++) {
        bounds[used++] = schedule->parts[p].from_clock;
    }
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        bounds[used++] = schedule->catch_ups[c].from_clock;
        bounds[used++] = schedule->catch_ups[c].until_clock + 1;
    }
    qsort(bounds, used, sizeof *bounds, clock_order);
    *count = 0;
    for (unsigned b = 0; b < used; b++) {
        bool inside = bounds[b] > restore->committed && bounds[b] <= end + 1;
        if (inside && (*count == 0 || bounds[*count - 1] != bounds[b])) {
            bounds[(*count)++] = bounds[b];
        }
    }
    return bounds;
}

/* Adds the catch-ups of one stretch: one for each node that takes over work, or one with the origin ACTOR_NONE if the
 * work is done. If the previous stretch has a catch-up with the same shards, extends that instead. */
static void add_catch_ups(struct schedule *schedule, const struct stretch *stretch, uint64_t epoch) {
    struct index_map nodes = {0};
    unsigned first = schedule->catch_up_count;
    for (uint32_t s = 0; s < schedule->shards; s++) {
        if (stretch->takers[s] == ACTOR_NONE) {
            continue;
        }
        actor_id taker = stretch->done ? ACTOR_NONE : stretch->takers[s];
        int64_t at = index_map_find(&nodes, taker);
        if (at == INDEX_NONE) {
            at = schedule->catch_up_count - first;
            index_map_add(&nodes, taker, (uint32_t)at);
            schedule->catch_ups =
                memory_resized(schedule->catch_ups, schedule->catch_up_count + 1, sizeof *schedule->catch_ups);
            schedule->catch_ups[schedule->catch_up_count++] =
                (struct schedule_catch_up){.origin = stretch->done ? ACTOR_NONE : origin_catch_up(taker, epoch),
                                           .from_clock = stretch->from_clock,
                                           .until_clock = stretch->until_clock};
        }
        struct schedule_catch_up *mine = &schedule->catch_ups[first + (unsigned)at];
        mine->shards = memory_resized(mine->shards, mine->count + 1, sizeof *mine->shards);
        mine->shards[mine->count++] = s;
    }
    index_map_close(&nodes);
    for (unsigned c = schedule->catch_up_count; c-- > first;) {
        const struct schedule_catch_up *added = &schedule->catch_ups[c];
        for (unsigned o = 0; o < first; o++) {
            struct schedule_catch_up *old = &schedule->catch_ups[o];
            if (old->origin == added->origin && old->until_clock + 1 == added->from_clock &&
                old->count == added->count &&
                memcmp(old->shards, added->shards, old->count * sizeof *old->shards) == 0) {
                old->until_clock = added->until_clock;
                drop_catch_up(schedule, c);
                break;
            }
        }
    }
}

/* The caller's test whether a node is dead. */
struct death {
    bool (*dead)(const void *context, actor_id node);
    const void *context;
};

static bool has_died(const struct death *death, actor_id actor) {
    return actor == ACTOR_NONE || death->dead(death->context, actor_node(actor));
}

/* Finds the nodes that take over the work of dead nodes in the stretch. */
static void find_takers(const struct schedule *schedule, const struct death *death, const actor_id *takeover,
                        struct stretch *stretch) {
    const actor_id *owners = schedule->parts[part_at(schedule, stretch->from_clock)].owners;
    stretch->takers = memory_zeroed(schedule->shards, sizeof(actor_id));
    for (uint32_t s = 0; s < schedule->shards; s++) {
        stretch->takers[s] = owners[s] != ACTOR_NONE && has_died(death, owners[s]) ? takeover[s] : ACTOR_NONE;
    }
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *old = &schedule->catch_ups[c];
        bool holds = old->from_clock <= stretch->from_clock && stretch->from_clock <= old->until_clock;
        for (uint32_t i = 0; holds && has_died(death, old->origin) && i < old->count; i++) {
            stretch->takers[old->shards[i]] = takeover[old->shards[i]];
        }
    }
}

/* Removes dead nodes' assignments. Up to clock `end`, catch-ups have the dead nodes' work. In later clocks the nodes
 * that take over own the shards. */
static void drop_dead(struct schedule *schedule, const struct death *death, const actor_id *takeover, uint64_t end) {
    for (unsigned c = 0; c < schedule->catch_up_count;) {
        if (has_died(death, schedule->catch_ups[c].origin)) {
            drop_catch_up(schedule, c);
        } else {
            c++;
        }
    }
    for (unsigned p = 0; p < schedule->part_count; p++) {
        struct schedule_part *part = &schedule->parts[p];
        for (uint32_t s = 0; s < schedule->shards; s++) {
            if (has_died(death, part->owners[s])) {
                part->owners[s] = part->from_clock > end ? takeover[s] : ACTOR_NONE;
            }
        }
    }
}

/* Checks invariant I6 in one clock: every shard has exactly one owner, or is in exactly one catch-up. */
static void check_shards(const struct schedule *schedule, uint64_t clock) {
    const actor_id *owners = schedule->parts[part_at(schedule, clock)].owners;
    unsigned char *found = memory_zeroed(schedule->shards, 1);
    for (uint32_t s = 0; s < schedule->shards; s++) {
        found[s] = owners[s] != ACTOR_NONE ? 1 : 0;
    }
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *late = &schedule->catch_ups[c];
        for (uint32_t i = 0; late->from_clock <= clock && clock <= late->until_clock && i < late->count; i++) {
            assert(found[late->shards[i]] == 0);
            found[late->shards[i]] = 1;
        }
    }
    for (uint32_t s = 0; s < schedule->shards; s++) {
        assert(found[s] == 1);
    }
    free(found);
}

uint64_t schedule_recover(struct schedule *schedule, bool (*dead)(const void *context, actor_id node),
                          const void *context, const actor_id *takeover, const struct schedule_restore *restore) {
    const struct death death = {dead, context};
    uint64_t end = restore->begun > restore->clock ? restore->begun : restore->clock;
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        end = schedule->catch_ups[c].until_clock > end ? schedule->catch_ups[c].until_clock : end;
    }
    if (schedule->parts[part_at(schedule, end + 1)].from_clock != end + 1) {
        add_part(schedule, end + 1, schedule->parts[part_at(schedule, end + 1)].owners);
    }
    unsigned bound_count;
    uint64_t *bounds = stretch_bounds(schedule, restore, end, &bound_count);
    struct stretch *stretches = memory_zeroed(bound_count, sizeof *stretches);
    for (unsigned b = 0; b + 1 < bound_count; b++) {
        stretches[b] = (struct stretch){
            .from_clock = bounds[b], .until_clock = bounds[b + 1] - 1, .done = bounds[b] <= restore->clock};
        find_takers(schedule, &death, takeover, &stretches[b]);
    }
    drop_dead(schedule, &death, takeover, end);
    for (unsigned b = 0; b + 1 < bound_count; b++) {
        add_catch_ups(schedule, &stretches[b], restore->epoch);
        free(stretches[b].takers);
    }
    for (unsigned b = 0; b < bound_count; b++) {
        check_shards(schedule, bounds[b]);
    }
    check_schedule(schedule);
    free(stretches);
    free(bounds);
    return end;
}

/* ---- Views ---- */

unsigned schedule_origins(const struct schedule *schedule, uint64_t clock, actor_id **origins, unsigned *capacity) {
    struct index_map known = {0};
    unsigned count = 0;
    const actor_id *owners = schedule->parts[part_at(schedule, clock)].owners;
    for (uint32_t i = 0; i < schedule->shards + schedule->catch_up_count; i++) {
        actor_id origin = i < schedule->shards ? owners[i] : schedule->catch_ups[i - schedule->shards].origin;
        if (i >= schedule->shards) {
            const struct schedule_catch_up *late = &schedule->catch_ups[i - schedule->shards];
            origin = clock >= late->from_clock && clock <= late->until_clock ? origin : ACTOR_NONE;
        }
        bool repeated = i > 0 && i < schedule->shards && owners[i] == owners[i - 1];
        if (origin == ACTOR_NONE || repeated || index_map_find(&known, origin) != INDEX_NONE) {
            continue;
        }
        if (count == *capacity) {
            *capacity = *capacity > 0 ? 2 * *capacity : 16;
            *origins = memory_resized(*origins, *capacity, sizeof **origins);
        }
        index_map_add(&known, origin, count);
        (*origins)[count++] = origin;
    }
    index_map_close(&known);
    return count;
}

void schedule_owners(const struct schedule *schedule, uint64_t clock, actor_id *owners) {
    memcpy(owners, schedule->parts[part_at(schedule, clock)].owners, schedule->shards * sizeof *owners);
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *late = &schedule->catch_ups[c];
        for (uint32_t i = 0; late->from_clock <= clock && clock <= late->until_clock && i < late->count; i++) {
            owners[late->shards[i]] = late->origin;
        }
    }
}

uint64_t schedule_next(const struct schedule *schedule, actor_id origin, uint64_t clock) {
    uint64_t next = WIRE_CLOCK_NEVER;
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *late = &schedule->catch_ups[c];
        uint64_t first = late->from_clock > clock + 1 ? late->from_clock : clock + 1;
        next = late->origin == origin && first <= late->until_clock && first < next ? first : next;
    }
    return next;
}

uint32_t schedule_count(const struct schedule *schedule, actor_id origin, uint64_t clock) {
    const actor_id *owners = schedule->parts[part_at(schedule, clock)].owners;
    uint32_t count = 0;
    for (uint32_t s = 0; s < schedule->shards; s++) {
        count += owners[s] == origin ? 1 : 0;
    }
    return count;
}

/* Adds one part's assignments. The owners are in the order of their first shards. */
static void part_assignments(const struct schedule *schedule, unsigned index, struct wire_assignment **assignments,
                             unsigned *assignment_count, uint32_t *shards, uint32_t *shard_count) {
    const struct schedule_part *part = &schedule->parts[index];
    struct index_map known = {0};
    unsigned first = *assignment_count;
    for (uint32_t s = 0; s < schedule->shards; s++) { /* counts each owner's shards */
        if (part->owners[s] == ACTOR_NONE) {
            continue;
        }
        int64_t at = index_map_find(&known, part->owners[s]);
        if (at == INDEX_NONE) {
            at = *assignment_count - first;
            index_map_add(&known, part->owners[s], (uint32_t)at);
            *assignments = memory_resized(*assignments, *assignment_count + 1, sizeof **assignments);
            (*assignments)[(*assignment_count)++] = (struct wire_assignment){
                .origin = part->owners[s],
                .from_clock = part->from_clock,
                .until_clock = part->from_clock == WIRE_CLOCK_NEVER ? WIRE_CLOCK_NEVER : part_until(schedule, index)};
        }
        (*assignments)[first + (unsigned)at].count++;
    }
    for (unsigned d = first; d < *assignment_count; d++) {
        (*assignments)[d].first = *shard_count;
        *shard_count += (*assignments)[d].count;
        (*assignments)[d].count = 0;
    }
    for (uint32_t s = 0; s < schedule->shards; s++) {
        if (part->owners[s] != ACTOR_NONE) {
            struct wire_assignment *assignment =
                &(*assignments)[first + (unsigned)index_map_find(&known, part->owners[s])];
            shards[assignment->first + assignment->count++] = s;
        }
    }
    index_map_close(&known);
}

void schedule_assignments(const struct schedule *schedule, struct buffer **assignments, struct buffer **shards) {
    struct wire_assignment *list = NULL;
    unsigned assignment_count = 0;
    uint32_t shard_count = 0;
    size_t most = (size_t)schedule->part_count * schedule->shards;
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        most += schedule->catch_ups[c].count;
    }
    uint32_t *numbers = memory_resized(NULL, most, sizeof *numbers);
    for (unsigned p = 0; p < schedule->part_count; p++) {
        part_assignments(schedule, p, &list, &assignment_count, numbers, &shard_count);
    }
    for (unsigned c = 0; c < schedule->catch_up_count; c++) {
        const struct schedule_catch_up *late = &schedule->catch_ups[c];
        if (late->origin == ACTOR_NONE) {
            continue;
        }
        list = memory_resized(list, assignment_count + 1, sizeof *list);
        list[assignment_count++] = (struct wire_assignment){.origin = late->origin,
                                                            .from_clock = late->from_clock,
                                                            .until_clock = late->until_clock,
                                                            .first = shard_count,
                                                            .count = late->count};
        memcpy(numbers + shard_count, late->shards, late->count * sizeof *numbers);
        shard_count += late->count;
    }
    assert(shard_count <= most);
    *assignments = buffer_copy(list, assignment_count * sizeof *list);
    *shards = buffer_copy(numbers, shard_count * sizeof *numbers);
    free(list);
    free(numbers);
}
