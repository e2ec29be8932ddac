/* Requests batches from feeders, and takes them. See node_feed.h and node_private.h; node_feeding.c has a feeder's
 * part. */
#include "workers/node/feed/node_feed.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/wire/records.h"
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is known of batches and feeders ---- */

static struct feed_clock *clock_at(struct node_feed *feed, uint64_t clock) {
    return &feed->clocks[clock % (NODE_FEED_AHEAD + 1)];
}

static struct feed_feeder *find_feeder(const struct node_feed *feed, actor_id node) {
    for (unsigned f = 0; f < feed->feeder_count; f++) {
        if (feed->feeders[f].node == node) {
            return &feed->feeders[f];
        }
    }
    return NULL;
}

/* Changes a batch's state as drawn in node_feed.h. */
static void batch_become(struct feed_batch *batch, enum feed_state state) {
    static const unsigned legal[] = {
        [FEED_WANTED] = 1 << FEED_ASKED,
        [FEED_ASKED] = 1 << FEED_WANTED | 1 << FEED_MAKING | 1 << FEED_HERE | 1 << FEED_LOCAL,
        [FEED_MAKING] = 1 << FEED_HERE | 1 << FEED_LOCAL,
        [FEED_HERE] = 0,
        [FEED_LOCAL] = 0,
    };
    assert((legal[batch->state] >> state & 1) != 0);
    batch->state = state;
}

/* Gives back a batch's credit. */
static void batch_release(struct node_feed *feed, struct feed_batch *batch) {
    struct feed_feeder *feeder = batch->state == FEED_ASKED ? find_feeder(feed, batch->feeder) : NULL;
    if (feeder != NULL) {
        assert(feeder->outstanding >= batch->bytes);
        feeder->outstanding -= batch->bytes;
    }
    assert(feed->used >= batch->bytes);
    feed->used -= batch->bytes;
    batch->bytes = 0;
}

static void batch_become_local(struct node_feed *feed, struct feed_batch *batch) {
    batch_release(feed, batch);
    batch_become(batch, FEED_LOCAL);
}

/* Takes the credit of a batch that is here, in place of the guess while it was awaited. */
static void batch_become_here(struct node_feed *feed, struct feed_batch *batch, uint64_t bytes) {
    batch_release(feed, batch);
    batch_become(batch, FEED_HERE);
    batch->bytes = bytes;
    feed->used += bytes;
}

/* Notes a batch that was requested from the feeder, but is not needed from it any more. */
static void note_obsolete(struct node_feed *feed, const struct feed_batch *batch, uint64_t clock) {
    struct feed_feeder *feeder = find_feeder(feed, batch->feeder);
    if (feeder != NULL && clock > feeder->obsolete) {
        feeder->obsolete = clock;
    }
}

/* Marks a batch that the process makes. An answer of the feeder is then a repeat. */
static void batch_become_making(struct node_feed *feed, struct feed_batch *batch, uint64_t clock) {
    uint64_t bytes = batch->bytes;
    note_obsolete(feed, batch, clock);
    batch_release(feed, batch);
    batch_become(batch, FEED_MAKING);
    batch->bytes = bytes;
    feed->used += bytes;
}

/* Gives up a question: the feeder does not answer, or does not make the batch. */
static void batch_become_wanted(struct node_feed *feed, struct feed_batch *batch) {
    batch_release(feed, batch);
    batch_become(batch, batch->attempts < NODE_FEED_ATTEMPTS ? FEED_WANTED : FEED_LOCAL);
}

/* Checks that the credits in use are those of all batches, and of each feeder those of the batches that are asked of
 * it. */
static void check_credits(const struct node_feed *feed) {
    uint64_t used = 0;
    uint64_t asked = 0;
    uint64_t outstanding = 0;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        for (uint32_t b = 0; b < feed->clocks[c].count; b++) {
            const struct feed_batch *batch = &feed->clocks[c].batches[b];
            used += batch->bytes;
            asked += batch->state == FEED_ASKED && find_feeder(feed, batch->feeder) != NULL ? batch->bytes : 0;
        }
    }
    for (unsigned f = 0; f < feed->feeder_count; f++) {
        outstanding += feed->feeders[f].outstanding;
    }
    assert(used == feed->used && asked == outstanding);
}

static void clock_forget(struct node_feed *feed, struct feed_clock *clock) {
    for (uint32_t b = 0; b < clock->count; b++) {
        batch_release(feed, &clock->batches[b]);
    }
    free(clock->shards);
    free(clock->batches);
    *clock = (struct feed_clock){0};
}

/* Forgets all batches, here and in the process. */
static void forget_all(struct node *node) {
    const struct node_hooks *hooks = &node->options.hooks;
    bool any = false;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        any = any || node_feed(node)->clocks[c].clock != 0;
        clock_forget(node_feed(node), &node_feed(node)->clocks[c]);
    }
    if (any) {
        hooks->feed_drop(hooks->context, UINT64_MAX);
    }
    check_credits(node_feed(node)); /* of no batch */
    node_feed(node)->stale = false;
    node_feed(node)->waits_since_us = node_feed(node)->made_us = 0;
}

static void feed_close(struct node *node) {
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        clock_forget(node_feed(node), &node_feed(node)->clocks[c]);
    }
    free(node_feed(node)->feeders);
    free(node_feed(node)->sizes);
    node_feeding_close(node);
}

/* ---- Which batches are wanted ---- */

/* Whether the process works on a clock of its own, and so may use the batches of that clock. */
static bool computes_own(const struct node *node) {
    return node->work.activity == NODE_COMPUTING && node->work.assignment.origin == node->options.self;
}

/* The first clock of this node's own that has not begun. */
static uint64_t next_clock(const struct node *node) {
    uint64_t done = node->client.flushed;
    uint64_t first = WIRE_CLOCK_NEVER;
    done = computes_own(node) && node->work.clock > done ? node->work.clock : done;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        if (assignment->origin == node->options.self && assignment->until_clock > done) {
            first = assignment->from_clock < first ? assignment->from_clock : first;
        }
    }
    return first > done ? first : done + 1;
}

/* The data of this node's own assignment in the clock; NULL: it has none, or the data is not there yet. */
static const struct node_set *set_at(const struct node *node, uint64_t clock) {
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_assignment *assignment = &node->work.assignments[d];
        if (assignment->origin == node->options.self && assignment->from_clock != WIRE_CLOCK_NEVER &&
            assignment->from_clock <= clock && clock <= assignment->until_clock) {
            const struct node_set *set = &node->work.sets[assignment->set];
            return set->state == SET_READY ? set : NULL;
        }
    }
    return NULL;
}

/* Whether making a clock's batches takes long enough to request them from feeders. */
static bool is_worth(const struct node_feed *feed) {
    return feed->local_us == 0 || feed->clock_us >= NODE_FEED_WORTH_US;
}

static bool may_ask(const struct node *node) {
    return node_feed(node)->feeder_count > 0 && node->state == NODE_STARTED && !node->client.fenced &&
           !node_feed(node)->stale && node->options.registration.tier != TIER_FEEDER &&
           node_feeding_transforms(node) > 0 && is_worth(node_feed(node));
}

/* Whether a clock's batches are of data that is not this node's in that clock any more. */
static bool is_stale(const struct node *node, const struct feed_clock *clock) {
    const struct node_set *set = set_at(node, clock->clock);
    return clock->clock != 0 && (set == NULL || set->number != clock->set);
}

/* Forgets batches of clocks or data that are not this node's any more. */
static void forget_stale(struct node *node) {
    struct node_feed *feed = node_feed(node);
    uint64_t computed = computes_own(node) ? node->work.clock : 0;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        feed->stale = feed->stale || (feed->clocks[c].clock != computed && is_stale(node, &feed->clocks[c]));
    }
    if (feed->stale && computed == 0) {
        forget_all(node);
    }
}

/* Forgets sizes and times of batches, if they have been through another number of transforms. */
static void transforms_become(struct node *node, unsigned transforms) {
    struct node_feed *feed = node_feed(node);
    if (transforms != feed->transforms) {
        free(feed->sizes);
        feed->sizes = NULL;
        feed->known = feed->known_bytes = 0;
        feed->times = 0;
        feed->transforms = transforms;
    }
}

/* Makes room for the batches of the coming clocks. */
static void clocks_want(struct node *node, uint64_t from, uint64_t until) {
    const struct node_hooks *hooks = &node->options.hooks;
    for (uint64_t c = from; c < until; c++) {
        struct feed_clock *clock = clock_at(node_feed(node), c);
        const struct node_set *set = set_at(node, c);
        if (set == NULL || clock->clock == c || clock->clock != 0) {
            continue;
        }
        transforms_become(node, hooks->feed_transforms(hooks->context));
        *clock = (struct feed_clock){
            .clock = c, .set = set->number, .transforms = node_feed(node)->transforms, .count = set->count};
        clock->shards = memory_resized(NULL, set->count, sizeof *clock->shards);
        memcpy(clock->shards, set->shards, set->count * sizeof *clock->shards);
        clock->batches = memory_zeroed(set->count, sizeof *clock->batches);
    }
}

/* ---- Asking ---- */

static uint64_t size_guess(const struct node_feed *feed, uint32_t shard) {
    uint64_t mean = feed->known > 0 ? feed->known_bytes / feed->known + 1 : NODE_FEED_GUESS;
    return feed->sizes != NULL && feed->sizes[shard] > 0 ? feed->sizes[shard] : mean;
}

static void size_learn(struct node *node, uint32_t shard, uint32_t bytes) {
    struct node_feed *feed = node_feed(node);
    if (feed->sizes == NULL) {
        feed->sizes = memory_zeroed(node->plan.terms.shards, sizeof *feed->sizes);
    }
    bytes = bytes > 0 ? bytes : 1;
    feed->known += feed->sizes[shard] == 0 ? 1 : 0;
    feed->known_bytes += bytes;
    assert(feed->known_bytes >= feed->sizes[shard]);
    feed->known_bytes -= feed->sizes[shard];
    feed->sizes[shard] = bytes;
}

static uint64_t credit(const struct node *node) {
    return node->options.feed_credit > 0 ? node->options.feed_credit : NODE_FEED_CREDIT;
}

/* Returns how many batches to request at once: as many as this process makes in NODE_FEED_FUSED_US, and at least
 * NODE_FEED_FUSED; for feeders with several threads, twice as many for each thread. */
static unsigned fused(const struct node_feed *feed) {
    uint64_t count = feed->local_us > 0 ? NODE_FEED_FUSED_US / feed->local_us : NODE_FEED_FUSED;
    count = count > NODE_FEED_FUSED ? count : NODE_FEED_FUSED;
    count *= feed->threads > 1 ? 2 * feed->threads : 1;
    return count < WIRE_FEED_SHARDS_MAX ? (unsigned)count : WIRE_FEED_SHARDS_MAX;
}

/* How long an answer may take: three times the median, and three times what this process would take. This may be long,
 * as a clock that waits makes batches meanwhile. It only has to detect a feeder that is far behind. */
static uint64_t patience_us(const struct node_feed *feed) {
    uint64_t sorted[NODE_FEED_TIMES] = {0};
    unsigned count = feed->times < NODE_FEED_TIMES ? feed->times : NODE_FEED_TIMES;
    memcpy(sorted, feed->times_us, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, node_compare_numbers);
    uint64_t usual_us = NODE_FEED_LATE_MEDIANS * sorted[count / 2];
    uint64_t late_us = NODE_FEED_LATE_MEDIANS * fused(feed) * feed->local_us;
    late_us = late_us > NODE_FEED_LATE_US ? late_us : NODE_FEED_LATE_US;
    return late_us > usual_us ? late_us : usual_us;
}

/* Returns the feeder with the least to do; NULL: nothing is to be requested now. */
static struct feed_feeder *least_loaded(const struct node *node) {
    struct feed_feeder *least = NULL;
    for (unsigned f = 0; f < node_feed(node)->feeder_count; f++) {
        struct feed_feeder *feeder = &node_feed(node)->feeders[f];
        if (node_now(node) >= feeder->avoid_until_us && (least == NULL || feeder->outstanding < least->outstanding)) {
            least = feeder;
        }
    }
    return least;
}

static void batch_become_asked(struct node *node, struct feed_batch *batch, struct feed_feeder *feeder,
                               uint64_t bytes) {
    struct node_feed *feed = node_feed(node);
    uint64_t now_us = node_now(node);
    assert(batch->bytes == 0 && bytes <= credit(node) - feed->used);
    batch_become(batch, FEED_ASKED);
    *batch = (struct feed_batch){.state = batch->state,
                                 .attempts = batch->attempts + 1,
                                 .feeder = feeder->node,
                                 .claim = feed->claim,
                                 .asked_us = now_us,
                                 .bytes = bytes};
    feeder->outstanding += bytes;
    feed->used += bytes;
    feed->asked++;
}

/* Requests from one feeder the next batches of the clock that are wanted and for which there is credit. False: there is
 * nothing to request. */
static bool ask_some(struct node *node, struct feed_clock *clock) {
    struct node_feed *feed = node_feed(node);
    struct feed_feeder *feeder = least_loaded(node);
    uint32_t shards[WIRE_FEED_SHARDS_MAX];
    unsigned most = fused(feed);
    unsigned count = 0;
    for (uint32_t b = 0; b < clock->count && feeder != NULL && count < most; b++) {
        uint64_t bytes = size_guess(feed, clock->shards[b]);
        if (clock->batches[b].state != FEED_WANTED || bytes > credit(node) - feed->used) {
            continue;
        }
        feed->claim += count == 0 ? 1 : 0;
        batch_become_asked(node, &clock->batches[b], feeder, bytes);
        shards[count++] = clock->shards[b];
    }
    if (count == 0) {
        return false;
    }
    uint64_t begun = next_clock(node) - 1;
    struct message question = {.type = MESSAGE_PEER, .peer = {.service = SERVICE_FEED, .kind = FEED_ASK}};
    question.peer.feed = (struct peer_feed){
        .transforms = (uint8_t)clock->transforms, .clock = clock->clock, .claim = feed->claim, .begun = begun};
    message_add_copy(&question, shards, count * sizeof *shards);
    node_send_by(node, feeder->server, feeder->node, &question);
    feeder->obsolete = feeder->obsolete > begun ? feeder->obsolete : 0;
    return true;
}

/* Reports begun clocks to feeders that may still make batches of them, unless a question has reported these clocks
 * already. */
static void report_begun(struct node *node) {
    uint64_t begun = next_clock(node) - 1;
    for (unsigned f = 0; f < node_feed(node)->feeder_count; f++) {
        struct feed_feeder *feeder = &node_feed(node)->feeders[f];
        if (feeder->obsolete == 0 || feeder->obsolete > begun) {
            continue;
        }
        struct message report = {.type = MESSAGE_PEER, .peer = {.service = SERVICE_FEED, .kind = FEED_ASK}};
        report.peer.feed = (struct peer_feed){.clock = begun, .claim = ++node_feed(node)->claim, .begun = begun};
        message_add(&report, buffer_new(0));
        node_send_by(node, feeder->server, feeder->node, &report);
        feeder->obsolete = 0;
    }
}

/* Since when the feeder is expected to answer. It makes batches one after the other, so earlier answers come first. */
static uint64_t expected_since_us(const struct feed_batch *batch, const struct feed_feeder *feeder) {
    return feeder != NULL && feeder->answered_us > batch->asked_us ? feeder->answered_us : batch->asked_us;
}

static void check_overdue(struct node *node, struct feed_clock *clock) {
    struct node_feed *feed = node_feed(node);
    uint64_t now_us = node_now(node);
    uint64_t longest_us = clock->count > 0 ? patience_us(feed) : 0;
    for (uint32_t b = 0; b < clock->count; b++) {
        struct feed_batch *batch = &clock->batches[b];
        struct feed_feeder *feeder = batch->state == FEED_ASKED ? find_feeder(feed, batch->feeder) : NULL;
        if (batch->state == FEED_ASKED && now_us >= expected_since_us(batch, feeder) + longest_us) {
            if (feeder != NULL) {
                feeder->avoid_until_us = now_us + NODE_FEED_AVOID_US;
            }
            feed->late++;
            note_obsolete(feed, batch, clock->clock);
            batch_become_wanted(feed, batch);
        }
    }
}

/* Requests batches of the coming clocks from feeders, and makes batches for others. */
static bool feed_advance(struct node *node) {
    struct node_feed *feed = node_feed(node);
    if (node_feeding_advance(node)) {
        return true;
    }
    feed->waits_until_us = UINT64_MAX;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        check_overdue(node, &feed->clocks[c]);
    }
    if (!may_ask(node)) {
        return false;
    }
    uint64_t from = next_clock(node);
    uint64_t until = from + NODE_FEED_AHEAD;
    until = node->final != 0 && until > node->final + 1 ? node->final + 1 : until;
    clocks_want(node, from, until);
    for (uint64_t c = from; c < until; c++) {
        while (clock_at(feed, c)->clock == c && ask_some(node, clock_at(feed, c))) {
        }
    }
    report_begun(node);
    return false;
}

static uint64_t feed_due_us(const struct node *node) {
    const struct node_feed *feed = node_feed(node);
    uint64_t longest_us = patience_us(feed);
    uint64_t due_us = UINT64_MAX;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        for (uint32_t b = 0; b < feed->clocks[c].count; b++) {
            const struct feed_batch *batch = &feed->clocks[c].batches[b];
            if (batch->state == FEED_ASKED) {
                uint64_t late_us = expected_since_us(batch, find_feeder(feed, batch->feeder)) + longest_us;
                due_us = late_us < due_us ? late_us : due_us;
            }
        }
    }
    return feed->waits_since_us != 0 && feed->waits_until_us < due_us ? feed->waits_until_us : due_us;
}

/* ---- Clocks ---- */

/* Counts, for each feeder, the batches of the clock that it is expected to make. Returns their sum. */
static unsigned count_behind(struct node_feed *feed, const struct feed_clock *clock) {
    unsigned asked = 0;
    for (unsigned f = 0; f < feed->feeder_count; f++) {
        feed->feeders[f].behind = 0;
    }
    for (uint32_t b = 0; b < clock->count; b++) {
        if (clock->batches[b].state == FEED_ASKED) {
            struct feed_feeder *feeder = find_feeder(feed, clock->batches[b].feeder);
            if (feeder != NULL) {
                feeder->behind++;
            }
            asked++;
        }
    }
    return asked;
}

/* How long the node waits for a batch that a feeder is making, before it makes the batch itself. */
static uint64_t wait_us(const struct node_feed *feed) {
    return feed->local_us > 0 ? 2 * feed->local_us + NODE_FEED_FUSED_US : 0;
}

/* Leaves each feeder the batches that it is probably making, unless they are late. Returns when the next of them will
 * be late. */
static uint64_t leave_begun(struct node *node, const struct feed_clock *clock) {
    struct node_feed *feed = node_feed(node);
    uint64_t late_us = UINT64_MAX;
    for (unsigned f = 0; f < feed->feeder_count; f++) {
        struct feed_feeder *feeder = &feed->feeders[f];
        uint32_t first = 0;
        while (first < clock->count &&
               (clock->batches[first].state != FEED_ASKED || clock->batches[first].feeder != feeder->node)) {
            first++;
        }
        uint64_t until_us =
            first < clock->count ? expected_since_us(&clock->batches[first], feeder) + wait_us(feed) : 0;
        if (node_now(node) < until_us) {
            unsigned made = node_feeding_at_once(feed->threads, feed->local_us);
            late_us = until_us < late_us ? until_us : late_us;
            feeder->behind -= made < feeder->behind ? made : feeder->behind;
        }
    }
    return late_us;
}

/* Returns the last batch of the feeder with the most batches that are not in the making; NULL: there is none. */
static struct feed_batch *last_behind(struct node_feed *feed, const struct feed_clock *clock) {
    struct feed_feeder *longest = NULL;
    for (unsigned f = 0; f < feed->feeder_count; f++) {
        unsigned behind = feed->feeders[f].behind;
        longest = behind > (longest != NULL ? longest->behind : 0) ? &feed->feeders[f] : longest;
    }
    for (uint32_t b = clock->count; longest != NULL && b > 0; b--) {
        struct feed_batch *batch = &clock->batches[b - 1];
        if (batch->state == FEED_ASKED && batch->feeder == longest->node) {
            longest->behind--;
            return batch;
        }
    }
    return NULL;
}

/* Has the process make those of the clock's batches that would come last: as many as take 2 ms, but at most half of the
 * missing ones, and at least one. False: the process can't make single batches of this data. */
static bool make_some(struct node *node, struct feed_clock *clock, unsigned asked) {
    struct node_feed *feed = node_feed(node);
    const struct node_hooks *hooks = &node->options.hooks;
    struct feed_made made = {.clock = clock->clock};
    uint64_t most = feed->local_us > 0 ? NODE_FEED_FUSED_US / feed->local_us : 1;
    most = most < WIRE_FEED_SHARDS_MAX ? most : WIRE_FEED_SHARDS_MAX;
    most = most < asked / 2 ? most : asked / 2;
    most = most > 1 ? most : 1;
    struct feed_batch *batch = last_behind(feed, clock);
    while (batch != NULL) {
        batch_become_making(feed, batch, clock->clock);
        assert(made.count < WIRE_FEED_SHARDS_MAX);
        made.shards[made.count++] = clock->shards[batch - clock->batches];
        batch = made.count < most ? last_behind(feed, clock) : NULL;
    }
    if (made.count > 0) {
        feed->making =
            hooks->feed_make(hooks->context, clock->set, made.clock, clock->transforms, made.shards, made.count);
        node->work.occupied = feed->making;
        feed->making_since_us = node_now(node);
    }
    return made.count == 0 || feed->making;
}

/* Leaves the whole clock to the process, which can't make single batches of the clock's data. */
static void clock_become_local(struct node_feed *feed, struct feed_clock *clock) {
    for (uint32_t b = 0; b < clock->count; b++) {
        struct feed_batch *batch = &clock->batches[b];
        if (batch->state == FEED_ASKED || batch->state == FEED_MAKING) {
            note_obsolete(feed, batch, clock->clock);
            batch_become_local(feed, batch);
        }
    }
}

static bool feed_waits(struct node *node, uint64_t clock) {
    struct node_feed *feed = node_feed(node);
    struct feed_clock *batches = clock_at(feed, clock);
    unsigned asked = batches->clock == clock ? count_behind(feed, batches) : 0;
    if (asked == 0) {
        return false;
    }
    feed->waits_since_us = feed->waits_since_us == 0 ? node_now(node) : feed->waits_since_us;
    feed->waits_until_us = leave_begun(node, batches);
    bool can = make_some(node, batches, asked);
    if (!can || (!feed->making && feed->waits_until_us == UINT64_MAX)) {
        clock_become_local(feed, batches);
        return false;
    }
    return true;
}

static void feed_begin(struct node *node) {
    struct node_feed *feed = node_feed(node);
    feed->items = 0;
    feed->transforms_us = feed->made_us;
    assert(feed->waits_since_us == 0 || node_now(node) >= feed->waits_since_us + feed->made_us);
    feed->wait_us = feed->waits_since_us != 0 ? node_now(node) - feed->waits_since_us - feed->made_us : 0;
    feed->waits_since_us = feed->made_us = 0;
}

void node_fed(struct node *node, uint64_t items) {
    node_feed(node)->items += items;
}

/* Learns from `batches` batches that the process has made in `us`, for a set of `count` shards. */
static void local_learn(struct node_feed *feed, uint64_t batches, uint64_t us, uint32_t count) {
    assert(batches > 0);
    uint64_t each_us = us / batches + 1;
    feed->local_us = feed->local_us == 0 ? each_us : (7 * feed->local_us + each_us) / 8;
    feed->clock_us = feed->local_us * count;
}

void node_feed_made_here(struct node *node, uint64_t batches, uint64_t us) {
    node_feed(node)->transforms_us += us;
    if (batches > 0) {
        local_learn(node_feed(node), batches, us, node->work.sets[node->work.assignment.set].count);
    }
}

static void feed_end(struct node *node) {
    const struct node_hooks *hooks = &node->options.hooks;
    bool any = false;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        struct feed_clock *clock = &node_feed(node)->clocks[c];
        if (clock->clock != 0 && clock->clock <= node->work.clock) {
            clock_forget(node_feed(node), clock);
            any = true;
        }
    }
    if (any) {
        hooks->feed_drop(hooks->context, node->work.clock + 1);
    }
    forget_stale(node);
}

/* ---- Answers ---- */

/* Returns the batch that this question has requested and that has not come; NULL: there is none. */
static struct feed_batch *batch_of(struct node *node, const struct message *message, uint32_t shard) {
    const struct peer_feed *answer = &message->peer.feed;
    struct feed_clock *clock = clock_at(node_feed(node), answer->clock);
    for (uint32_t b = 0; clock->clock == answer->clock && b < clock->count; b++) {
        struct feed_batch *batch = &clock->batches[b];
        if (clock->shards[b] == shard && batch->state == FEED_ASKED && batch->claim == answer->claim &&
            batch->feeder == message->peer.sender) {
            return batch;
        }
    }
    return NULL;
}

/* Takes a batch that has come, if the credit covers it. */
static void take(struct node *node, const struct message *message, struct feed_batch *batch,
                 const struct wire_batch *record, const unsigned char *bytes) {
    struct node_feed *feed = node_feed(node);
    const struct node_hooks *hooks = &node->options.hooks;
    const struct feed_clock *clock = clock_at(feed, message->peer.feed.clock);
    size_learn(node, record->shard, record->bytes);
    if (record->bytes > credit(node) - (feed->used - batch->bytes)) {
        batch_become_local(feed, batch);
        return;
    }
    if (hash_bytes(bytes, record->bytes, 0) != record->hash ||
        !hooks->feed_take(hooks->context, clock->set, record->shard, clock->clock, clock->transforms, bytes,
                          record->bytes, false)) {
        batch_become_local(feed, batch);
        client_accuse(&node->client, message->peer.sender, "FEED: %u bytes that are no batch of shard %u in clock %llu",
                      record->bytes, record->shard, (unsigned long long)clock->clock);
        return;
    }
    batch_become_here(feed, batch, record->bytes);
    assert(feed->used <= credit(node));
    feed->taken++;
}

/* Takes a batch that the process has made for a clock of its own, unless the batch was forgotten meanwhile. */
static void take_own(struct node *node, uint64_t number, uint32_t shard, const struct buffer *bytes) {
    struct node_feed *feed = node_feed(node);
    const struct node_hooks *hooks = &node->options.hooks;
    struct feed_clock *clock = clock_at(feed, number);
    uint32_t b = 0;
    while (clock->clock == number && b < clock->count && clock->shards[b] != shard) {
        b++;
    }
    if (clock->clock != number || b == clock->count || clock->batches[b].state != FEED_MAKING) {
        return;
    }
    struct feed_batch *batch = &clock->batches[b];
    bool fits = bytes->size <= WIRE_BATCH_BYTES_MAX && bytes->size <= credit(node) - (feed->used - batch->bytes);
    if (bytes->size <= WIRE_BATCH_BYTES_MAX) {
        size_learn(node, shard, (uint32_t)bytes->size);
    }
    if (fits && hooks->feed_take(hooks->context, clock->set, shard, number, clock->transforms, bytes->data, bytes->size,
                                 true)) {
        batch_become_here(feed, batch, bytes->size);
    } else {
        batch_become_local(feed, batch);
    }
}

static void made_own(struct node *node, const struct feed_made *made) {
    struct node_feed *feed = node_feed(node);
    const struct feed_clock *clock = clock_at(feed, made->clock);
    feed->making = node->work.occupied = false;
    feed->made_us += feed->waits_since_us != 0 ? node_now(node) - feed->making_since_us : 0;
    if (clock->clock == made->clock) {
        local_learn(feed, made->count, made->us, clock->count);
    }
    for (unsigned b = 0; b < made->count; b++) {
        take_own(node, made->clock, made->shards[b], made->bytes[b]);
        buffer_drop(made->bytes[b]);
    }
}

void node_feed_made(struct node *node, const struct feed_made *made) {
    if (node->options.registration.tier == TIER_FEEDER) {
        node_feeding_made(node, made);
    } else {
        made_own(node, made);
    }
    node_wake(node);
}

/* Counts the time of an answer that was expected since `since_us`. */
static void time_learn(struct node *node, uint64_t since_us) {
    struct node_feed *feed = node_feed(node);
    feed->times_us[feed->times++ % NODE_FEED_TIMES] = node_now(node) - since_us;
}

static void refused(struct node *node, struct feed_batch *batch) {
    struct feed_feeder *feeder = find_feeder(node_feed(node), batch->feeder);
    if (feeder != NULL && node_now(node) >= feeder->avoid_until_us) { /* the first batch of an answer */
        feeder->gone_us = 2 * feeder->gone_us + NODE_FEED_GONE_US;
        feeder->gone_us = feeder->gone_us < NODE_FEED_AVOID_US ? feeder->gone_us : NODE_FEED_AVOID_US;
        feeder->avoid_until_us = node_now(node) + feeder->gone_us;
    }
    assert(batch->state == FEED_ASKED && batch->attempts > 0);
    batch->attempts--; /* at the next attempt the feeder may have the data */
    batch_become_wanted(node_feed(node), batch);
}

static void receive_feed(struct node *node, const struct message *message) {
    size_t count;
    const struct wire_batch *records = feed_batches(message, &count);
    const unsigned char *bytes = message->frames[FEED_BYTES]->data;
    struct feed_feeder *feeder = find_feeder(node_feed(node), message->peer.sender);
    bool ours = false;
    for (size_t r = 0; r < count && !node_feed(node)->stale; r++) {
        struct feed_batch *batch =
            records[r].shard < node->plan.terms.shards ? batch_of(node, message, records[r].shard) : NULL;
        if (batch != NULL && !ours && message->peer.kind == FEED_DONE) {
            ours = true;
            if (feeder != NULL) {
                feeder->gone_us = 0;
            }
            time_learn(node, expected_since_us(batch, feeder));
        }
        if (batch != NULL && message->peer.kind == FEED_GONE) {
            refused(node, batch);
        } else if (batch != NULL) {
            take(node, message, batch, &records[r], bytes);
        }
        bytes += records[r].bytes;
    }
    if (feeder != NULL) {
        feeder->answered_us = node_now(node);
    }
}

static void feed_receive(struct node *node, actor_id from, bool answer, struct message *message) {
    if (answer && message->peer.kind != FEED_ASK) {
        receive_feed(node, message);
    } else if (!answer && message->peer.kind == FEED_ASK) {
        node_feeding_receive(node, from, message);
    }
}

/* ---- Plans ---- */

/* Lists the feeders of the plan. Keeps what is known of feeders that the last plan named, too. */
static void find_feeders(struct node *node) {
    struct node_feed *feed = node_feed(node);
    const struct plan_view *plan = &node->plan;
    struct feed_feeder *feeders = memory_zeroed(plan->node_count + 1, sizeof *feeders);
    unsigned count = 0;
    for (size_t n = 0; n < plan->node_count; n++) {
        actor_id server = actor_of_part(plan->nodes[n].actor, 1);
        if (plan->nodes[n].tier != TIER_FEEDER || plan->nodes[n].actor == node->options.self ||
            plan_endpoint(plan, server) == NULL) {
            continue;
        }
        const struct feed_feeder *known = find_feeder(feed, plan->nodes[n].actor);
        feeders[count++] =
            known != NULL ? *known : (struct feed_feeder){.node = plan->nodes[n].actor, .server = server};
    }
    free(feed->feeders);
    feed->feeders = feeders;
    feed->feeder_count = count;
}

static void feed_plan(struct node *node, bool new_epoch) {
    struct node_feed *feed = node_feed(node);
    find_feeders(node);
    feed->stale = feed->stale || new_epoch;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        for (uint32_t b = 0; b < feed->clocks[c].count; b++) {
            struct feed_batch *batch = &feed->clocks[c].batches[b];
            if (batch->state == FEED_ASKED && find_feeder(feed, batch->feeder) == NULL) {
                batch_become_wanted(feed, batch);
            }
        }
    }
    forget_stale(node);
    check_credits(feed);
    if (new_epoch) {
        node_feeding_drop(node);
    }
}

/* ---- The controller ---- */

static void feed_hear(struct node *node, const struct message *message) {
    if (message->type == MESSAGE_HEARTBEAT_ACK) {
        node_feed(node)->threads = message->heartbeat_ack.feed_threads;
    } else if (message->type == MESSAGE_WELCOME && node->options.registration.tier == TIER_FEEDER &&
               node_feeding_transforms(node) == 0) {
        node_fail(
            node, AML_ELIMIT,
            "a feeder has nothing to do: the app has no transforms that run in each iteration, or they may not run "
            "on other nodes");
    }
}

static void feed_report(const struct node *node, struct node_numbers *numbers) {
    bool feeder = node->options.registration.tier == TIER_FEEDER;
    numbers->feed_us = node_feeding_us(node);
    numbers->feed_threads = feeder ? node_feeding_threads(node) : 0;
}

static void feed_measure(const struct node *node, struct message_progress *progress) {
    const struct node_feed *feed = node_feed(node);
    if (!node->work.again) {
        progress->items_fed = feed->items;
        progress->feed_wait_us = feed->wait_us;
        progress->transforms_us = is_worth(feed) ? feed->transforms_us : 0;
    }
}

/* ---- A feeder's data ---- */

static bool feed_uses(const struct node *node, unsigned set) {
    return node_feed(node)->feeding.kept == set || node_feed(node)->feeding.coming == set;
}

const struct node_service NODE_FEED = {.state_bytes = sizeof(struct node_feed),
                                       .close = feed_close,
                                       .plan = feed_plan,
                                       .advance = feed_advance,
                                       .due_us = feed_due_us,
                                       .receive = feed_receive,
                                       .hear = feed_hear,
                                       .report = feed_report,
                                       .waits = feed_waits,
                                       .begin = feed_begin,
                                       .measure = feed_measure,
                                       .end = feed_end,
                                       .uses = feed_uses};
