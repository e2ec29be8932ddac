/* The sets of data shards that a node's assignments and evaluations consist of, and their data. See node_private.h. */
#include "workers/node/node_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Whether the set is being prepared, computed or evaluated. */
static bool set_in_use(const struct node *node, unsigned index) {
    const struct node_set *set = &node->work.sets[index];
    return set->state == SET_PREPARING || (node->work.activity != NODE_IDLE && node->work.assignment.set == index);
}

static bool set_needed(const struct node *node, unsigned index) {
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        if (node->work.assignments[d].set == index) {
            return true;
        }
    }
    for (unsigned e = 0; e < node->work.evaluation_count; e++) {
        if (node->work.evaluations[e].set == index) {
            return true;
        }
    }
    FOR_SERVICES (node, service, uses) {
        if (service->uses(node, node->work.sets[index].number)) {
            return true;
        }
    }
    return false;
}

/* Checks that every assignment and evaluation has its set, and that the set in use stays. */
static void check_sets(const struct node *node) {
    const struct node_work *work = &node->work;
    for (unsigned d = 0; d < work->assignment_count; d++) {
        assert(work->assignments[d].set < work->set_count);
    }
    for (unsigned e = 0; e < work->evaluation_count; e++) {
        assert(work->evaluations[e].set < work->set_count);
    }
    assert(work->activity == NODE_IDLE || work->assignment.set < work->set_count);
    assert(work->set_count == 0 || work->sets[work->set_count - 1].number <= work->sets_made);
}

static void set_remove(struct node *node, unsigned index) {
    struct node_set old = node->work.sets[index];
    assert(old.state != SET_PREPARING && index < node->work.set_count);
    node->work.set_count--;
    memmove(node->work.sets + index, node->work.sets + index + 1,
            (node->work.set_count - index) * sizeof *node->work.sets);
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        node->work.assignments[d].set -= node->work.assignments[d].set > index ? 1 : 0;
    }
    for (unsigned e = 0; e < node->work.evaluation_count; e++) {
        node->work.evaluations[e].set -= node->work.evaluations[e].set > index ? 1 : 0;
    }
    node->work.assignment.set -= node->work.assignment.set > index ? 1 : 0;
    free(old.shards);
    check_sets(node);
    if (old.state != SET_NEW) {
        node->options.hooks.release(node->options.hooks.context, old.number);
        node->work.set_dropped = true;
    }
}

/* Drops the sets that no assignment, evaluation or service needs. */
static void release(struct node *node) {
    for (unsigned s = node->work.set_count; s > 0; s--) {
        if (!set_needed(node, s - 1) && !set_in_use(node, s - 1)) {
            set_remove(node, s - 1);
        }
    }
}

/* Unsubscribes from the rows that no set names any more, when the client can. */
static void forget_rows(struct node *node) {
    uint32_t oldest = CACHE_NAMED_ALWAYS;
    for (unsigned s = 0; s < node->work.set_count; s++) {
        oldest = node->work.sets[s].number < oldest ? node->work.sets[s].number : oldest;
    }
    node->work.set_dropped = node->work.set_dropped && !client_forget(&node->client, oldest);
}

/* ---- Preparing ---- */

static void become(struct node_set *set, enum node_set_state state) {
    assert(state == set->state + 1 || (set->state == SET_NEW && state == SET_PREPARING));
    set->state = state;
}

/* The order of urgency. First come the clocks that a lost node has left undone, for which all nodes wait. Then the
 * assignment that begins first. */
static bool assignment_before(const struct node_assignment *one, const struct node_assignment *other) {
    bool catch_up = origin_is_catch_up(one->origin);
    return catch_up != (bool)origin_is_catch_up(other->origin) ? catch_up : one->from_clock < other->from_clock;
}

static void prepare(struct node *node, struct node_set *set) {
    become(set, SET_PREPARING);
    node->options.hooks.prepare(node->options.hooks.context, set);
}

/* Begins to take what the process lacks of the set from other nodes, by the first service from `at` on that can. False:
 * none can. */
static bool services_fetch(struct node *node, const struct node_set *set, unsigned at) {
    for (; at < SERVICES; at++) {
        const struct node_service *service = node->services[at];
        if (service->fetch != NULL && service->fetch(node, set)) {
            return true;
        }
    }
    return false;
}

/* Requests one set, unless one is being prepared. That is the set of the most urgent assignment without data, or else
 * of an evaluation, whose data has mostly been read before, or else of a service. True when it requested a set. */
static bool prepare_next(struct node *node) {
    const struct node_assignment *first = NULL;
    unsigned next = node->work.set_count;
    if (node->work.reading) {
        return false;
    }
    for (unsigned s = 0; s < node->work.set_count; s++) {
        if (node->work.sets[s].state == SET_PREPARING || node->work.sets[s].state == SET_FETCHING) {
            return false; /* one at a time */
        }
    }
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        if (node->work.sets[assignment->set].state == SET_NEW &&
            (first == NULL || assignment_before(assignment, first))) {
            first = assignment;
        }
    }
    for (unsigned e = 0; e < node->work.evaluation_count; e++) {
        next = node->work.sets[node->work.evaluations[e].set].state == SET_NEW ? node->work.evaluations[e].set : next;
    }
    for (unsigned s = 0; s < node->work.set_count && next == node->work.set_count; s++) {
        next = node->work.sets[s].state == SET_NEW ? s : next; /* a service's, unless `first` is not NULL */
    }
    next = first != NULL ? first->set : next;
    if (next == node->work.set_count) {
        return false;
    }
    if (services_fetch(node, &node->work.sets[next], 0)) {
        become(&node->work.sets[next], SET_FETCHING);
    } else {
        prepare(node, &node->work.sets[next]);
    }
    return true;
}

/* Goes on with what other nodes give of a set. At the end, has the process prepare the set. True when it did, or the
 * next service begins to give. */
static bool take(struct node *node) {
    for (unsigned s = 0; s < SERVICES; s++) {
        const struct node_service *service = node->services[s];
        struct node_set *set = service->fetched != NULL ? node_set_find(node, service->fetched(node)) : NULL;
        if (set != NULL && !services_fetch(node, set, s + 1)) {
            prepare(node, set);
        }
        if (set != NULL) {
            return true;
        }
    }
    return false;
}

void node_sets_prepared(struct node *node, unsigned number, uint64_t items, const double totals[WIRE_TOTALS]) {
    struct node_set *set = node_set_find(node, number);
    struct error error = {0};
    if (node->ended) {
        return;
    }
    if (set != NULL) {
        become(set, SET_PREPARED);
        set->items = items;
        memcpy(set->totals, totals, sizeof set->totals);
    }
    if (client_subscribe(&node->client, &error) != 0) {
        node_fail(node, error.code, error.text);
    }
}

/* Moves all sets from PREPARED to READY, if the rows have their states and the input was compared. */
static void fill(struct node *node) {
    bool lacking = false;
    for (unsigned s = 0; s < node->work.set_count; s++) {
        lacking = lacking || node->work.sets[s].state == SET_PREPARED;
    }
    bool filled = lacking && node_input_is_compared(node) && client_filled(&node->client);
    for (unsigned s = 0; s < node->work.set_count && filled; s++) {
        struct node_set *set = &node->work.sets[s];
        if (set->state == SET_PREPARED) {
            become(set, SET_READY);
        }
    }
}

bool node_sets_advance(struct node *node) {
    release(node);
    forget_rows(node);
    if (prepare_next(node)) {
        return true;
    }
    fill(node);
    return take(node);
}

/* ---- Sets by their shards ---- */

int node_compare_shards(const void *one, const void *other) {
    uint32_t a;
    uint32_t b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return a < b ? -1 : a > b;
}

int node_compare_numbers(const void *one, const void *other) {
    uint64_t a;
    uint64_t b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return a < b ? -1 : a > b;
}

unsigned node_set_of_shards(struct node *node, uint32_t *shards, uint32_t count) {
    qsort(shards, count, sizeof *shards, node_compare_shards);
    for (unsigned s = 0; s < node->work.set_count; s++) {
        const struct node_set *set = &node->work.sets[s];
        if (set->count == count && memcmp(set->shards, shards, count * sizeof *shards) == 0) {
            free(shards);
            return s;
        }
    }
    node->work.sets = memory_resized(node->work.sets, node->work.set_count + 1, sizeof *node->work.sets);
    node->work.sets[node->work.set_count] =
        (struct node_set){.number = ++node->work.sets_made, .shards = shards, .count = count};
    return node->work.set_count++;
}

uint32_t node_set_common(const struct node_set *one, const struct node_set *other) {
    uint32_t at = 0;
    uint32_t common = 0;
    for (uint32_t i = 0; i < other->count; i++) {
        while (at < one->count && one->shards[at] < other->shards[i]) {
            at++;
        }
        common += at < one->count && one->shards[at] == other->shards[i] ? 1 : 0;
    }
    return common;
}
