/* See lost.h. */
#include "agileml/control/decide/lost.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

void lost_close(struct lost *lost) {
    while (lost->evaluation_count > 0) {
        lost_drop_evaluation(lost, 0);
    }
    free(lost->sums);
    free(lost->ranges);
    free(lost->evaluations);
    *lost = (struct lost){0};
}

/* Returns the clock's sums; NULL: there are none. */
static struct lost_sums *find_sums(const struct lost *lost, uint64_t clock) {
    for (unsigned s = 0; s < lost->sums_count; s++) {
        if (lost->sums[s].clock == clock) {
            return &lost->sums[s];
        }
    }
    return NULL;
}

struct lost_sums *lost_sums_at(struct lost *lost, uint64_t clock) {
    struct lost_sums *found = find_sums(lost, clock);
    if (found != NULL) {
        return found;
    }
    lost->sums = memory_resized(lost->sums, lost->sums_count + 1, sizeof *lost->sums);
    lost->sums[lost->sums_count] = (struct lost_sums){.clock = clock};
    return &lost->sums[lost->sums_count++];
}

void lost_add_shards(struct lost *lost, uint64_t clock, uint64_t shards) {
    assert(shards > 0);
    struct lost_range *last = lost->range_count > 0 ? &lost->ranges[lost->range_count - 1] : NULL;
    if (last != NULL && last->until_clock + 1 == clock && last->shards == shards) {
        last->until_clock = clock;
        return;
    }
    lost->ranges = memory_resized(lost->ranges, lost->range_count + 1, sizeof *lost->ranges);
    lost->ranges[lost->range_count++] =
        (struct lost_range){.from_clock = clock, .until_clock = clock, .shards = shards};
}

void lost_add_evaluation(struct lost *lost, actor_id origin, uint64_t clock, uint32_t *shards, uint32_t count) {
    lost->evaluations = memory_resized(lost->evaluations, lost->evaluation_count + 1, sizeof *lost->evaluations);
    lost->evaluations[lost->evaluation_count++] =
        (struct lost_evaluation){.origin = origin, .clock = clock, .shards = shards, .count = count};
}

void lost_drop_evaluation(struct lost *lost, unsigned index) {
    assert(index < lost->evaluation_count);
    free(lost->evaluations[index].shards);
    lost->evaluations[index] = lost->evaluations[--lost->evaluation_count];
}

const struct lost_sums *lost_sums_of(const struct lost *lost, uint64_t clock) {
    return find_sums(lost, clock);
}

uint64_t lost_shards(const struct lost *lost, uint64_t clock) {
    uint64_t shards = 0;
    for (unsigned r = 0; r < lost->range_count; r++) {
        const struct lost_range *range = &lost->ranges[r];
        shards += range->from_clock <= clock && clock <= range->until_clock ? range->shards : 0;
    }
    return shards;
}

bool lost_is_evaluated(const struct lost *lost, uint64_t clock, actor_id origin) {
    for (unsigned e = 0; e < lost->evaluation_count; e++) {
        const struct lost_evaluation *evaluation = &lost->evaluations[e];
        if (evaluation->clock == clock && (origin == ACTOR_NONE || evaluation->origin == origin)) {
            return true;
        }
    }
    return false;
}

bool lost_evaluates(const struct lost *lost, actor_id node) {
    for (unsigned e = 0; e < lost->evaluation_count; e++) {
        if (actor_node(lost->evaluations[e].origin) == node) {
            return true;
        }
    }
    return false;
}

uint64_t lost_latest(const struct lost *lost) {
    uint64_t latest = 0;
    for (unsigned s = 0; s < lost->sums_count; s++) {
        latest = lost->sums[s].clock > latest ? lost->sums[s].clock : latest;
    }
    for (unsigned r = 0; r < lost->range_count; r++) {
        latest = lost->ranges[r].until_clock > latest ? lost->ranges[r].until_clock : latest;
    }
    return latest;
}

/* Forgets all clocks outside from..until. */
static void lost_keep(struct lost *lost, uint64_t from, uint64_t until) {
    unsigned kept = 0;
    for (unsigned s = 0; s < lost->sums_count; s++) {
        if (lost->sums[s].clock >= from && lost->sums[s].clock <= until) {
            lost->sums[kept++] = lost->sums[s];
        }
    }
    lost->sums_count = kept;
    kept = 0;
    for (unsigned r = 0; r < lost->range_count; r++) {
        struct lost_range range = lost->ranges[r];
        range.from_clock = range.from_clock > from ? range.from_clock : from;
        range.until_clock = range.until_clock < until ? range.until_clock : until;
        if (range.from_clock <= range.until_clock) {
            lost->ranges[kept++] = range;
        }
    }
    lost->range_count = kept;
    assert(kept == 0 || (lost->ranges[0].from_clock >= from && lost->ranges[kept - 1].until_clock <= until));
    for (unsigned e = lost->evaluation_count; e-- > 0;) {
        if (lost->evaluations[e].clock < from || lost->evaluations[e].clock > until) {
            lost_drop_evaluation(lost, e);
        }
    }
}

void lost_forget(struct lost *lost, uint64_t clock) {
    lost_keep(lost, clock + 1, WIRE_CLOCK_NEVER);
}

void lost_undo(struct lost *lost, uint64_t clock) {
    lost_keep(lost, 0, clock);
}
