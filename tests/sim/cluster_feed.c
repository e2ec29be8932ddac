/* Feeders of a simulated job: their number, their faults, their hooks (node.h), and invariants I13 to I16
 * (docs/design.md). See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <stdlib.h>
#include <string.h>

enum {
    SECOND_US = 1000 * 1000,
    FEEDERS_MAX = 3,  /* at the job's start */
    TROUBLES_MAX = 6, /* faults of feeders in a job */
    TRANSFORMS = 3,   /* transforms that feeders may run */
    BATCH_WORDS = 24, /* words of a batch at most, after the first three */
    CREDIT = 3000,    /* bytes */
    THREADS_MAX = 4   /* threads of a feeder */
};

static bool is_feeder(const struct cluster_node *node) {
    return node->tier == TIER_FEEDER;
}

static bool mistake_needs_feeders(enum mistake mistake) {
    return mistake == MISTAKE_BATCH_OF_OTHER_CLOCK || mistake == MISTAKE_BATCH_TWICE ||
           mistake == MISTAKE_CREDIT_LOST || mistake == MISTAKE_FEEDER_COUNTS;
}

/* Draws feeders for a third of the jobs whose clock durations are not measured. */
void cluster_feed_draw(struct cluster *cluster) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ 0xFEED);
    bool possible = cluster->options.campaign != CAMPAIGN_UNEVEN && cluster->options.campaign != CAMPAIGN_MISSING &&
                    cluster->other_input.who == OTHER_INPUT_NOBODY && !cluster_strategy_is_drawn(cluster) &&
                    cluster->terms.phases == 0;
    bool wanted = drawn % 3 == 0 || mistake_needs_feeders(cluster->options.mistake);
    cluster->feed.feeders = possible && wanted ? (unsigned)(1 + drawn / 3 % FEEDERS_MAX) : 0;
}

uint64_t cluster_feed_credit(const struct cluster *cluster) {
    return hash_mix(cluster->options.seed ^ 0xC4ED) % 2 == 0 ? CREDIT : 0;
}

/* ---- Threads ---- */

/* Half of the jobs with feeders control the feeders' threads. */
static bool chooses_threads(const struct cluster *cluster) {
    return cluster->feed.feeders > 0 && hash_mix(cluster->options.seed ^ 0x7EAD) % 2 == 0;
}

/* Returns the most threads of a feeder. Some feeders have a fixed number. */
uint32_t cluster_feed_threads_max(const struct cluster_node *node) {
    return is_feeder(node) ? (uint32_t)(hash_mix(node->cluster->options.seed ^ node->number) % (THREADS_MAX + 1)) : 0;
}

void cluster_feed_options(const struct cluster *cluster, struct controller_options *options) {
    options->feeders_max = chooses_threads(cluster) ? CLUSTER_MACHINES : 0;
    options->feeder_threads = CLUSTER_MACHINES;
}

/* Requests another number of threads each second, as a policy might. */
void cluster_feed_control(struct cluster *cluster) {
    if (chooses_threads(cluster)) {
        uint64_t second = sim_now(cluster->sim) / SECOND_US;
        cluster->control.controller.progress.feeding.policy.threads =
            1 + (unsigned)(hash_mix(cluster->options.seed ^ second) % THREADS_MAX);
    }
}

/* ---- What happens to feeders ---- */

static unsigned living_feeders(struct cluster *cluster, struct cluster_node **nodes) {
    unsigned count = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        if (is_feeder(cluster->nodes[n]) && cluster_node_lives(cluster->nodes[n])) {
            nodes[count++] = cluster->nodes[n];
        }
    }
    return count;
}

static void trouble(void *context) {
    struct cluster *cluster = context;
    struct cluster_node *nodes[CLUSTER_MACHINES];
    if (cluster->control.ended) {
        return;
    }
    unsigned count = living_feeders(cluster, nodes);
    unsigned one = count > 0 ? (unsigned)(cluster_draw(cluster) % count) : 0;
    switch (cluster_draw(cluster) % 5) {
    case 0:
        cluster_kill_some(cluster, nodes + one, count > 0 ? 1 : 0, count > 0 && cluster_one_in(cluster, 2));
        break;
    case 1:
        cluster_kill_some(cluster, nodes, count, count > 0 && cluster_one_in(cluster, 2));
        break;
    case 2:
        if (count > 0) {
            cluster_evict(cluster, nodes + one, 1, cluster_between(cluster, 0, 4 * SECOND_US), false,
                          cluster_one_in(cluster, 2));
        }
        break;
    case 3:
        if (count > 0) {
            nodes[one]->fate.hurt = true;
            cluster_pause(cluster, nodes[one]->machine,
                          sim_now(cluster->sim) + cluster_between(cluster, 1000, 2 * SECOND_US));
            cluster->faults.disturbed = true;
        }
        break;
    default:
        cluster_node_add(cluster, TIER_FEEDER, 0, cluster_between(cluster, 0, 200 * 1000));
        break;
    }
    if (++cluster->feed.troubles < TROUBLES_MAX) {
        sim_schedule(cluster->sim, CLUSTER_OPERATOR,
                     sim_now(cluster->sim) + cluster_between(cluster, 10 * 1000, 2 * SECOND_US), trouble, cluster);
    }
}

void cluster_feed_begin(struct cluster *cluster) {
    cluster->feed.troubles = 0;
    for (unsigned f = 0; f < cluster->feed.feeders; f++) {
        cluster_node_add(cluster, TIER_FEEDER, 0, cluster_between(cluster, 0, SECOND_US));
    }
    if (cluster->feed.feeders > 0) {
        sim_schedule(cluster->sim, CLUSTER_OPERATOR, cluster_between(cluster, SECOND_US / 2, 4 * SECOND_US), trouble,
                     cluster);
    }
}

/* ---- Batches ---- */

/* Returns a batch's content: shard, clock, seed, transforms, and words that depend on them. */
static struct buffer *batch_words(const struct cluster *cluster, uint32_t shard, uint64_t clock, unsigned transforms) {
    size_t count = 3 + hash_mix(shard ^ clock * 7 ^ transforms) % BATCH_WORDS;
    struct buffer *bytes = buffer_new(count * sizeof(uint64_t));
    uint64_t *words = (void *)bytes->data;
    words[0] = shard;
    words[1] = clock;
    words[2] = cluster->app.seed + transforms;
    for (size_t w = 3; w < count; w++) {
        words[w] = hash_mix(hash_mix(cluster->app.seed ^ shard) + clock * 31 + w);
    }
    return bytes;
}

static unsigned hook_feeds(void *context) {
    const struct cluster_node *node = context;
    return node->cluster->feed.feeders > 0 ? TRANSFORMS : 0;
}

/* Each node now and then changes the number of transforms that feeders run. */
static unsigned hook_feed_transforms(void *context) {
    const struct cluster_node *node = context;
    uint64_t second = sim_now(node->cluster->sim) / SECOND_US;
    return 1 + (unsigned)(hash_mix(node->cluster->options.seed ^ second << 8 ^ node->number) % TRANSFORMS);
}

static void make_done(void *context) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    if (node->fate.gone) {
        return;
    }
    struct feed_made *made = &node->feed.making;
    for (unsigned b = 0; b < made->count; b++) {
        bool wrong = is_feeder(node) && cluster_mistake_due(cluster, MISTAKE_BATCH_OF_OTHER_CLOCK);
        made->bytes[b] = batch_words(cluster, made->shards[b], made->clock + (wrong ? 1 : 0), node->feed.transforms);
        if (is_feeder(node) && cluster->options.campaign == CAMPAIGN_MAD && cluster_one_in(cluster, 200)) {
            made->bytes[b]->data[cluster_draw(cluster) % made->bytes[b]->size] ^= 1; /* a faulty feeder */
        }
    }
    node->feed.busy = false;
    cluster->result->counts.batches_at_once += is_feeder(node) && made->count > 1 ? made->count : 0;
    node_feed_made(&node->node, made);
}

static bool has_shard(const struct cluster_node *node, unsigned set, uint32_t shard) {
    bool has = false;
    for (unsigned s = 0; s < node->app.set_count; s++) {
        const struct cluster_set *mine = &node->app.sets[s];
        for (unsigned i = 0; i < mine->count && mine->number == set && mine->prepared; i++) {
            has = has || mine->shards[i] == shard;
        }
    }
    return has;
}

static bool hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned transforms, const uint32_t *shards,
                           unsigned count) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    if (!is_feeder(node) && cluster_one_in(cluster, 20)) {
        return false; /* no item is in memory: the data is on disk */
    }
    node->feed.making = (struct feed_made){.clock = clock, .count = count};
    node->feed.transforms = transforms;
    unsigned most = is_feeder(node) && node_feeding_threads(&node->node) == 1 ? 1 : WIRE_FEED_SHARDS_MAX;
    bool good = count > 0 && count <= most && !node->feed.busy && !node->work.computing &&
                !node->evaluation.under_way && node->work.helped == 0;
    for (unsigned b = 0; b < count; b++) {
        node->feed.making.shards[b] = shards[b];
        good = good && has_shard(node, set, shards[b]);
    }
    if (!good) {
        cluster_violation(cluster, "app", "%s is told to make %u batches of shard %u, ... with set %u", node->node.name,
                          count, shards[0], set);
    }
    node->feed.busy = true;
    uint64_t most_us = 10 + node->compute_us / 8;
    uint64_t slow = cluster_one_in(cluster, 30) || node->number % 5 == 0 ? 30 : 1; /* slow feeders and slow batches */
    uint64_t us = slow * cluster_between(cluster, 5, most_us);
    node->feed.making.us = us;
    sim_schedule(cluster->sim, node->machine, sim_now(cluster->sim) + us, make_done, node);
    return true;
}

static struct cluster_fed *fed_find(struct cluster_node *node, uint32_t shard, uint64_t clock) {
    for (unsigned f = 0; f < node->feed.count; f++) {
        if (node->feed.list[f].shard == shard && node->feed.list[f].clock == clock) {
            return &node->feed.list[f];
        }
    }
    return NULL;
}

static bool hook_feed_take(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned transforms,
                           const void *bytes, size_t size, bool own) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    struct buffer *expected = batch_words(cluster, shard, clock, transforms);
    bool good = expected->size == size && memcmp(expected->data, bytes, size) == 0;
    buffer_drop(expected);
    if (!good && cluster->options.campaign == CAMPAIGN_MAD) {
        return false;
    }
    if (!good) {
        cluster_violation(cluster, "I13", "%s gets a batch of shard %u, clock %llu that is another one",
                          node->node.name, shard, (unsigned long long)clock);
    }
    if (fed_find(node, shard, clock) != NULL || clock < node->feed.below) {
        cluster_violation(cluster, "I14", "%s takes the batch of shard %u, clock %llu once more", node->node.name,
                          shard, (unsigned long long)clock);
        return true;
    }
    node->feed.list = memory_resized(node->feed.list, node->feed.count + 1, sizeof *node->feed.list);
    node->feed.list[node->feed.count++] = (struct cluster_fed){.set = set, .shard = shard, .clock = clock, .own = own};
    cluster->result->counts.batches += own ? 0 : 1;
    cluster->result->counts.batches_own += own ? 1 : 0;
    return true;
}

static void hook_feed_drop(void *context, uint64_t clock_below) {
    struct cluster_node *node = context;
    unsigned kept = 0;
    if (node->work.computing && node->work.at.origin == node->node.options.self && clock_below == UINT64_MAX) {
        cluster_violation(node->cluster, "app", "%s drops the batches that it works on", node->node.name);
    }
    for (unsigned f = 0; f < node->feed.count; f++) {
        if (node->feed.list[f].clock >= clock_below) {
            node->feed.list[kept++] = node->feed.list[f];
        }
    }
    node->feed.count = kept;
    node->feed.below = clock_below != UINT64_MAX ? clock_below : node->feed.below;
}

void cluster_feed_hooks(struct node_hooks *hooks) {
    hooks->feeds = hook_feeds;
    hooks->feed_transforms = hook_feed_transforms;
    hooks->feed_make = hook_feed_make;
    hooks->feed_take = hook_feed_take;
    hooks->feed_drop = hook_feed_drop;
}

void cluster_feed_close(struct cluster_node *node) {
    free(node->feed.list);
}

/* Called when a clock begins: consumes the batches received for the clock, each once, and makes the missing ones. */
void cluster_feed_consume(struct cluster_node *node, const struct cluster_set *set, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    uint64_t items = 0;
    if (node->work.at.origin != node->node.options.self) {
        return;
    }
    for (unsigned s = 0; s < set->count; s++) {
        struct cluster_fed *fed = fed_find(node, set->shards[s], clock);
        if (fed == NULL) {
            continue;
        }
        if (fed->used || fed->set != set->number) {
            cluster_violation(cluster, "I14", "%s consumes the batch of shard %u, clock %llu, which is %s",
                              node->node.name, fed->shard, (unsigned long long)clock,
                              fed->used ? "used" : "of another set");
        }
        fed->used = true;
        items += fed->own ? 0 : cluster->app.kind->items(&cluster->app, fed->shard, clock);
        cluster->result->counts.batches_used += fed->own ? 0 : 1;
    }
    node_fed(&node->node, items);
    if (hash_mix(cluster->options.seed ^ 0x10CA) % 2 == 0 && !mistake_needs_feeders(cluster->options.mistake)) {
        node_feed_made_here(&node->node, 1, cluster_between(cluster, 100, 20000));
    }
}

/* ---- After each step ---- */

/* I15. Also checks that node and process have the same batches. */
void cluster_feed_check_node(struct cluster_node *node) {
    const struct node_feed *feed = node_feed(&node->node);
    uint64_t credit = node->node.options.feed_credit > 0 ? node->node.options.feed_credit : NODE_FEED_CREDIT;
    uint64_t used = 0;
    unsigned here = 0;
    for (unsigned c = 0; c <= NODE_FEED_AHEAD; c++) {
        for (uint32_t b = 0; b < feed->clocks[c].count; b++) {
            const struct feed_batch *batch = &feed->clocks[c].batches[b];
            bool counts = batch->state != FEED_WANTED && batch->state != FEED_LOCAL;
            used += counts ? batch->bytes : 0;
            here += batch->state == FEED_HERE ? 1 : 0;
        }
    }
    if (feed->used != used || used > credit) {
        cluster_violation(node->cluster, "I15", "%s has batches of %llu bytes, counts %llu, and may have %llu",
                          node->node.name, (unsigned long long)used, (unsigned long long)feed->used,
                          (unsigned long long)credit);
    }
    unsigned threads = node_feeding_threads(&node->node);
    uint32_t most = node->node.options.registration.threads_max;
    most = most > node->threads ? most : node->threads;
    if (is_feeder(node) && (threads == 0 || threads > most)) {
        cluster_violation(node->cluster, "app", "%s feeds with %u threads, it has %u", node->node.name, threads, most);
    }
    if (here != node->feed.count) {
        cluster_violation(node->cluster, "I14", "%s has %u batches, its process %u", node->node.name, here,
                          node->feed.count);
    }
}

/* I16: no recovery when only feeders are lost. */
void cluster_feed_check_control(struct cluster *cluster) {
    const struct controller *controller = &cluster->control.controller;
    unsigned others = 0;
    unsigned feeders = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct cluster_node *node = cluster_node_of(cluster, controller->members[m].node.actor);
        others += node == NULL || !is_feeder(node) ? 1 : 0;
        feeders += node != NULL && is_feeder(node) ? 1 : 0;
    }
    bool due = controller->verdicts.fence || controller->change.state == CHANGE_RECOVER;
    if (feeders < cluster->feed.members && others >= cluster->feed.other_members && due && !cluster->feed.recovers) {
        cluster_violation(cluster, "I16", "the loss of a feeder begins a recovery");
    }
    cluster->feed.members = feeders;
    cluster->feed.other_members = others;
    cluster->feed.recovers = due;
}

/* ---- Mistakes ---- */

/* Makes the controller count a feeder as a node that works. */
void cluster_feed_mistake_control(struct cluster *cluster) {
    struct controller *controller = &cluster->control.controller;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        bool lasts = cluster->options.mistake == MISTAKE_FEEDER_COUNTS && member->node.tier == TIER_FEEDER &&
                     member->goes_by.version > 0 && controller->phase == PHASE_TRAIN;
        if (lasts && (cluster->result->mistaken || cluster_mistake_due(cluster, MISTAKE_FEEDER_COUNTS))) {
            member->node.tier = TIER_TRANSIENT;
            member->node.threads = member->node.servers = 0;
        }
    }
}

/* Makes the node forget a received batch, so that a repeat is accepted again, or keep its credit. Returns whether the
 * message is to be received again. */
bool cluster_feed_mistake_node(struct cluster_node *node, const struct message *message) {
    struct node_feed *feed = node_feed(&node->node);
    if (message->type != MESSAGE_PEER || message->peer.service != SERVICE_FEED || message->peer.kind != FEED_DONE) {
        return false;
    }
    struct feed_clock *clock = &feed->clocks[message->peer.feed.clock % (NODE_FEED_AHEAD + 1)];
    for (uint32_t b = 0; b < clock->count; b++) {
        struct feed_batch *batch = &clock->batches[b];
        if (batch->state != FEED_HERE || batch->claim != message->peer.feed.claim) {
            continue;
        }
        if (cluster_mistake_due(node->cluster, MISTAKE_BATCH_TWICE)) {
            for (unsigned f = 0; f < feed->feeder_count; f++) {
                feed->feeders[f].outstanding += feed->feeders[f].node == batch->feeder ? batch->bytes : 0;
            }
            batch->state = FEED_ASKED;
            return true;
        }
        if (cluster_mistake_due(node->cluster, MISTAKE_CREDIT_LOST)) {
            feed->used += batch->bytes;
        }
    }
    return false;
}
