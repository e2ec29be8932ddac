/* The sets of data shards that a node's assignments and evaluations consist of, and their data. See node_private.h. */
#include "workers/node_private.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Whether the set is being prepared, computed, evaluated, or worked on for another node. */
static bool set_in_use(const struct node *node, unsigned index) {
    const struct node_set *set = &node->work.sets[index];
    return set->state == SET_PREPARING || (node->work.activity != NODE_IDLE && node->work.assignment.set == index) ||
           (node->work.help.state == HELP_RUNNING && node->work.help.present.set == index) ||
           (node->feed.feeding.making && node->feed.feeding.kept == index);
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
    for (unsigned h = 0; h < node->work.help.count; h++) {
        if (node->work.help.list[h].set == index) {
            return true;
        }
    }
    return node->feed.feeding.kept == index || node->feed.feeding.coming == index;
}

/* The index of a feeder's set when another set has gone. */
static unsigned moved(unsigned set, unsigned gone) {
    return set != NODE_FEED_NO_SET && set > gone ? set - 1 : set;
}

static void set_remove(struct node *node, unsigned index) {
    struct node_set old = node->work.sets[index];
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
    for (unsigned h = 0; h < node->work.help.count; h++) {
        node->work.help.list[h].set -= node->work.help.list[h].set > index ? 1 : 0;
    }
    node->work.help.present.set -= node->work.help.present.set > index ? 1 : 0;
    node->feed.feeding.kept = moved(node->feed.feeding.kept, index);
    node->feed.feeding.coming = moved(node->feed.feeding.coming, index);
    free(old.shards);
    node_fetch_give_up(node, old.number);
    node_parts_give_up(node, old.number);
    if (old.state != SET_NEW) {
        node->options.hooks.release(node->options.hooks.context, old.number);
        node->work.set_dropped = true;
    }
}

void node_sets_release(struct node *node) {
    for (unsigned s = node->work.set_count; s > 0; s--) {
        if (!set_needed(node, s - 1) && !set_in_use(node, s - 1)) {
            set_remove(node, s - 1);
        }
    }
}

void node_sets_forget_rows(struct node *node) {
    uint32_t oldest = CACHE_NAMED_ALWAYS;
    for (unsigned s = 0; s < node->work.set_count; s++) {
        oldest = node->work.sets[s].number < oldest ? node->work.sets[s].number : oldest;
    }
    node->work.set_dropped = node->work.set_dropped && !client_forget(&node->client, oldest);
}

/* The order of urgency: first the clocks that a dead node has left undone, for which all nodes wait; then the
 * assignment that begins first. */
static bool assignment_before(const struct node_assignment *one, const struct node_assignment *other) {
    bool catch_up = origin_is_catch_up(one->origin);
    return catch_up != (bool)origin_is_catch_up(other->origin) ? catch_up : one->from_clock < other->from_clock;
}

bool node_sets_prepare_next(struct node *node) {
    const struct node_assignment *first = NULL;
    unsigned next = node->work.set_count;
    if (node->parts.state == PARTS_READING) {
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
    for (unsigned h = 0; h < node->work.help.count && next == node->work.set_count && node->state == NODE_STARTED;
         h++) {
        next = node->work.sets[node->work.help.list[h].set].state == SET_NEW ? node->work.help.list[h].set : next;
    }
    unsigned coming = node->feed.feeding.coming;
    next = coming != NODE_FEED_NO_SET && node->work.sets[coming].state == SET_NEW ? coming : next;
    next = first != NULL ? first->set : next;
    if (next == node->work.set_count) {
        return false;
    }
    if (node_fetch_begin(node, &node->work.sets[next]) || node_parts_begin(node, &node->work.sets[next])) {
        node->work.sets[next].state = SET_FETCHING;
        return true;
    }
    node->work.sets[next].state = SET_PREPARING;
    node->options.hooks.prepare(node->options.hooks.context, &node->work.sets[next]);
    return true;
}

void node_sets_prepare(struct node *node, unsigned number) {
    const struct node_hooks *hooks = &node->options.hooks;
    for (unsigned s = 0; s < node->work.set_count; s++) {
        if (node->work.sets[s].number == number) {
            node->work.sets[s].state = SET_PREPARING;
            hooks->prepare(hooks->context, &node->work.sets[s]);
        }
    }
}

void node_sets_fill(struct node *node) {
    bool lacking = false;
    for (unsigned s = 0; s < node->work.set_count; s++) {
        lacking = lacking || node->work.sets[s].state == SET_PREPARED;
    }
    bool filled = lacking && node_input_is_compared(node) && client_filled(&node->client);
    for (unsigned s = 0; s < node->work.set_count && filled; s++) {
        struct node_set *set = &node->work.sets[s];
        set->state = set->state == SET_PREPARED ? SET_READY : set->state;
    }
}

int node_compare_shards(const void *one, const void *other) {
    uint32_t a;
    uint32_t b;
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
