/* A simulated node's hooks (node.h), in place of a process's threads. See cluster_private.h. */
#include "tests/sim/cluster_private.h"
#include "workers/data/lots.h"
#include "workers/node/lots/node_lots.h"
#include "workers/node/parts/node_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVE_RETRY_US = 500 * 1000 };

static void at_later(struct cluster_node *node, uint64_t after_us, void (*function)(void *context)) {
    sim_schedule(node->cluster->sim, node->machine, sim_now(node->cluster->sim) + after_us, function, node);
}

static struct cluster_set *set_find(struct cluster_node *node, unsigned number) {
    for (unsigned s = 0; s < node->app.set_count; s++) {
        if (node->app.sets[s].number == number) {
            return &node->app.sets[s];
        }
    }
    cluster_violation(node->cluster, "app", "%s names set %u, which it has not", node->node.name, number);
    return NULL;
}

/* Adds the rows of every `step`th shard to the cache: as the set's rows, or (`by_key`) one by one, as an app does in
 * the middle of a clock. */
static void add_rows(struct cluster_node *node, const struct cluster_set *set, unsigned step, bool by_key) {
    struct cluster *cluster = node->cluster;
    if (node->app.slots == NULL) {
        node->app.slots = memory_resized(NULL, cluster->app.row_count, sizeof *node->app.slots);
        memset(node->app.slots, 0xFF, cluster->app.row_count * sizeof *node->app.slots);
    }
    for (unsigned s = 0; s < set->count; s += step) {
        const struct app_shard *shard = &cluster->app.shards[set->shards[s]];
        for (unsigned k = 0; k < shard->row_count; k++) {
            unsigned number = shard->rows[k];
            const struct app_row *row = &cluster->app.rows[number];
            int64_t slot = by_key ? cache_add(&node->node.cache, row->table, row->key)
                                  : cache_add_for(&node->node.cache, row->table, row->key, set->number);
            if (slot < 0) {
                cluster_violation(cluster, "app", "cache_add: %lld", (long long)slot);
                return;
            }
            if (node->app.slots[number] == slot) {
                continue;
            }
            node->app.slots[number] = slot;
            node->app.row_of[row->table] =
                memory_resized(node->app.row_of[row->table], (size_t)slot + 1, sizeof(unsigned));
            node->app.row_of[row->table][slot] = number;
        }
    }
}

/* ---- Data shards, own and of other nodes ---- */

static void hold_shard(struct cluster_node *node, uint32_t shard, enum cluster_held held) {
    if (node->app.held == NULL) {
        node->app.held = memory_zeroed(node->cluster->policy.shards, 1);
    }
    node->app.held[shard] = (unsigned char)held;
}

static enum cluster_held held_shard(const struct cluster_node *node, uint32_t shard) {
    return node->app.held != NULL ? (enum cluster_held)node->app.held[shard] : HELD_NOT;
}

/* Returns the hashes of the node's part of the input, and of the sample of the next part. */
static struct buffer *ranges_read(const struct cluster_node *node, bool other) {
    struct wire_input_range ranges[3];
    unsigned count = node->app.parts != 0 ? 3 : 0;
    for (unsigned r = 0; r < count; r++) {
        uint32_t part = (node->app.part + r / 2) % node->app.parts;
        uint64_t hash = hash_mix(part) + (other ? 1 : 0);
        ranges[r] = (struct wire_input_range){.first = part, .end = part + 1, .hash = hash, .part = part};
        ranges[r].sampled = r > 0 ? 1 : 0;
    }
    return buffer_copy(ranges, count * sizeof *ranges);
}

/* Reports the fingerprint of the node's input: of all shards (`whole`), or of those that it holds. Other input changes
 * the hash of every third shard. Where the input is read in parts, it may show in the hashes of ranges only. */
static void tell_input(struct cluster_node *node, bool whole) {
    const struct app *app = &node->cluster->app;
    bool reports_other = node->input.other && !node->input.conceals;
    bool unseen = node->cluster->other_input.unseen && node->app.parts != 0 && !whole;
    bool other = reports_other && !unseen;
    struct buffer *shards = buffer_new(app->shard_count * sizeof(struct wire_input_shard));
    struct wire_input_shard *records = (void *)shards->data;
    for (unsigned s = 0; s < app->shard_count; s++) {
        records[s] = (struct wire_input_shard){.items = app->shards[s].items,
                                               .hash = hash_mix(app->seed ^ s) + (other && s % 3 == 0 ? 1 : 0)};
        if (!whole && held_shard(node, s) == HELD_NOT) {
            records[s] = (struct wire_input_shard){.items = WIRE_ITEMS_UNKNOWN};
        }
    }
    const struct wire_input_file file = {.path = "data", .bytes = other ? 600 : 1000, .blocks = other ? 3 : 5};
    node_read(&node->node, shards, (struct wire_input_shard){.items = 7}, buffer_copy(&file, sizeof file),
              ranges_read(node, reports_other));
}

bool cluster_app_has_other(const struct cluster_node *node, const struct cluster_set *set) {
    for (unsigned s = 0; s < set->count; s++) {
        if (held_shard(node, set->shards[s]) == HELD_OTHER) {
            return true;
        }
    }
    return false;
}

/* Reads the shards that the set lacks. Returns whether there were any. */
static bool read_shards(struct cluster_node *node, const struct cluster_set *set) {
    bool lacking = false;
    for (unsigned s = 0; s < set->count; s++) {
        if (held_shard(node, set->shards[s]) == HELD_NOT) {
            hold_shard(node, set->shards[s], node->input.other ? HELD_OTHER : HELD_JOBS);
            lacking = true;
        }
    }
    return lacking;
}

/* Forgets half of the set's shards, unless other sets need them. */
static void drop_shards(struct cluster_node *node, const struct cluster_set *set) {
    for (unsigned s = 0; s < set->count; s++) {
        bool needed = (hash_mix(set->number ^ hash_mix(set->shards[s])) & 1) != 0;
        for (unsigned other = 0; other < node->app.set_count && !needed; other++) {
            for (unsigned i = 0; i < node->app.sets[other].count && node->app.sets[other].number != set->number; i++) {
                needed = needed || node->app.sets[other].shards[i] == set->shards[s];
            }
        }
        if (!needed) {
            hold_shard(node, set->shards[s], HELD_NOT);
        }
    }
}

/* Packs a shard: its number, what the node holds of it, and words that depend on both. */
static struct buffer *shard_words(const struct cluster *cluster, uint32_t shard, enum cluster_held held) {
    size_t count = 2 + shard % 40;
    struct buffer *bytes = buffer_new(count * sizeof(uint64_t));
    uint64_t *words = (void *)bytes->data;
    words[0] = shard;
    words[1] = held;
    for (size_t w = 2; w < count; w++) {
        words[w] = hash_mix(hash_mix(cluster->app.seed ^ shard) + w * 3 + held);
    }
    return bytes;
}

static bool hook_has(void *context, uint32_t shard) {
    const struct cluster_node *node = context;
    return held_shard(node, shard) != HELD_NOT;
}

static struct buffer *hook_pack(void *context, uint32_t shard) {
    struct cluster_node *node = context;
    if (held_shard(node, shard) == HELD_NOT) {
        return NULL;
    }
    if (cluster_mistake_due(node->cluster, MISTAKE_SHARD_MIXED)) {
        shard = (shard + 1) % node->cluster->policy.shards;
    }
    return shard_words(node->cluster, shard, held_shard(node, shard) == HELD_OTHER ? HELD_OTHER : HELD_JOBS);
}

static bool hook_unpack(void *context, uint32_t shard, const unsigned char *bytes, size_t size) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    uint64_t held = HELD_NOT;
    if (held_shard(node, shard) != HELD_NOT) {
        cluster_violation(cluster, "app", "%s takes shard %u, which it has", node->node.name, shard);
    }
    memcpy(&held, bytes + sizeof held, size >= 2 * sizeof held ? sizeof held : 0);
    struct buffer *expected = shard_words(cluster, shard, held == HELD_OTHER ? HELD_OTHER : HELD_JOBS);
    bool good = expected->size == size && memcmp(expected->data, bytes, size) == 0;
    buffer_drop(expected);
    if (good || cluster->options.mistake == MISTAKE_SHARD_MIXED) {
        hold_shard(node, shard, good ? (enum cluster_held)held : HELD_OTHER);
        cluster->result->counts.shards_taken++;
        return true;
    }
    if (cluster->options.campaign != CAMPAIGN_MAD) {
        cluster_violation(cluster, "app", "%s gets %zu bytes that are not shard %u", node->node.name, size, shard);
    }
    return false;
}

static uint32_t lacking_shards(const struct cluster_node *node, const struct cluster_set *set, uint32_t *lacking) {
    uint32_t count = 0;
    for (unsigned s = 0; s < set->count; s++) {
        if (held_shard(node, set->shards[s]) == HELD_NOT) {
            if (lacking != NULL) {
                lacking[count] = set->shards[s];
            }
            count++;
        }
    }
    return count;
}

/* ---- Input that is read in parts ---- */

/* In place of enum cluster_held: the node of this part no longer has the piece. */
enum { PIECE_GONE = HELD_OTHER + 1 };

/* Returns the content of a part's piece of a shard. */
static uint64_t piece_content(const struct cluster *cluster, uint32_t shard, uint32_t part, uint64_t held) {
    return hash_mix(hash_mix(cluster->app.seed ^ shard) + part * 3 + held);
}

static void piece_add(struct cluster_node *node, uint32_t shard, uint32_t part, enum cluster_held held) {
    size_t count = node->cluster->policy.shards;
    if (node->app.pieces == NULL) {
        node->app.pieces = memory_zeroed(count * node->app.parts, 1);
        node->app.contents = memory_zeroed(count, sizeof *node->app.contents);
    }
    node->app.pieces[shard * node->app.parts + part] = (unsigned char)held;
    node->app.contents[shard] += piece_content(node->cluster, shard, part, held);
}

static unsigned held_piece(const struct cluster_node *node, uint32_t shard, uint32_t part) {
    return node->app.pieces != NULL ? node->app.pieces[shard * node->app.parts + part] : HELD_NOT;
}

/* Assembles the shard when it has a piece of every part, and frees the pieces. The shard is the job's if it has each
 * part's content once. */
static void put_together(struct cluster_node *node, uint32_t shard) {
    uint64_t expected = 0;
    for (uint32_t p = 0; p < node->app.parts; p++) {
        expected += piece_content(node->cluster, shard, p, HELD_JOBS);
        if (held_piece(node, shard, p) == HELD_NOT || held_piece(node, shard, p) == PIECE_GONE) {
            return;
        }
    }
    hold_shard(node, shard, node->app.contents[shard] == expected ? HELD_JOBS : HELD_OTHER);
    memset(node->app.pieces + (size_t)shard * node->app.parts, HELD_NOT, node->app.parts);
    node->app.contents[shard] = 0;
}

static void read_part_done(void *context) {
    struct cluster_node *node = context;
    if (node->fate.gone) {
        return;
    }
    for (uint32_t s = 0; s < node->cluster->policy.shards; s++) {
        piece_add(node, s, node->app.part, node->input.other ? HELD_OTHER : HELD_JOBS);
    }
    node->app.reading = 0;
    tell_input(node, false);
    node_part_read(&node->node, true);
}

static void hook_read_part(void *context, uint32_t index, uint32_t count) {
    struct cluster_node *node = context;
    if (node->app.preparing != 0 || node->app.parts != 0 || index >= count || count < 2) {
        cluster_violation(node->cluster, "app", "%s reads part %u of %u, prepares set %u and has read one of %u",
                          node->node.name, index, count, node->app.preparing, node->app.parts);
        return;
    }
    node->app.part = index;
    node->app.parts = count;
    node->app.reading = 1;
    at_later(node, node->load_us / count, read_part_done);
}

static uint32_t hook_lacks_pieces(void *context, const struct node_set *set, uint32_t part, uint32_t *lacking) {
    const struct cluster_node *node = context;
    uint32_t count = 0;
    for (uint32_t s = 0; s < set->count; s++) {
        if (held_shard(node, set->shards[s]) == HELD_NOT && held_piece(node, set->shards[s], part) == HELD_NOT) {
            lacking[count++] = set->shards[s];
        }
    }
    return count;
}

/* Words of a packed piece: the shard, the part, what is held of it (enum cluster_held), the content. */
enum { PIECE_WORDS = 4 };

static struct buffer *hook_pack_pieces(void *context, const uint32_t *shards, uint32_t count, size_t limit) {
    const struct cluster_node *node = context;
    uint32_t packed = 1 + (uint32_t)(hash_mix(node->cluster->app.seed ^ shards[0]) % 7);
    (void)limit;
    if (node->app.reading != 0 || node->app.parts == 0) {
        cluster_violation(node->cluster, "app", "%s is to give of a part that it has not read", node->node.name);
    }
    packed = packed < count ? packed : count;
    struct buffer *bytes = buffer_new(packed * PIECE_WORDS * sizeof(uint64_t));
    uint64_t *words = (void *)bytes->data;
    for (uint32_t s = 0; s < packed; s++, words += PIECE_WORDS) {
        uint64_t held = held_piece(node, shards[s], node->app.part);
        words[0] = shards[s];
        words[1] = node->app.part;
        words[2] = held;
        words[3] = piece_content(node->cluster, shards[s], node->app.part, held);
    }
    return bytes;
}

/* Whether the words are a piece of the shard. */
static bool piece_is_good(const struct cluster_node *node, const uint64_t *words, uint32_t shard, uint32_t part) {
    return words[0] == shard && words[1] == part && words[2] <= HELD_OTHER &&
           words[3] == piece_content(node->cluster, shard, part, words[2]);
}

static bool hook_take_pieces(void *context, uint32_t part, const uint32_t *shards, uint32_t count,
                             const unsigned char *bytes, size_t size) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    size_t given = size / (PIECE_WORDS * sizeof(uint64_t));
    bool good = size % (PIECE_WORDS * sizeof(uint64_t)) == 0 && given <= count;
    for (size_t s = 0; s < given && good; s++) {
        uint64_t words[PIECE_WORDS];
        memcpy(words, bytes + s * sizeof words, sizeof words);
        good = piece_is_good(node, words, shards[s], part);
        if (!good || held_shard(node, shards[s]) != HELD_NOT || held_piece(node, shards[s], part) != HELD_NOT) {
            continue;
        }
        if (words[2] == HELD_NOT) {
            node->app.pieces[shards[s] * node->app.parts + part] = PIECE_GONE;
            continue;
        }
        piece_add(node, shards[s], part, (enum cluster_held)words[2]);
        if (cluster_mistake_due(cluster, MISTAKE_PIECE_TWICE)) {
            piece_add(node, shards[s], part, (enum cluster_held)words[2]);
        }
        uint32_t next = (part + 1) % node->app.parts;
        if (held_piece(node, shards[s], next) == HELD_NOT && cluster_mistake_due(cluster, MISTAKE_PIECE_LEFT_OUT)) {
            node->app.pieces[shards[s] * node->app.parts + next] = HELD_JOBS;
        }
        put_together(node, shards[s]);
        cluster->result->counts.pieces_taken++;
    }
    if (!good && cluster->options.campaign != CAMPAIGN_MAD) {
        cluster_violation(cluster, "app", "%s gets %zu bytes that are no pieces of part %u", node->node.name, size,
                          part);
    }
    return good;
}

static void hook_settle(void *context) {
    struct cluster_node *node = context;
    if (node->app.reading != 0) {
        cluster_violation(node->cluster, "app", "%s starts while its part is read", node->node.name);
    }
}

static void prepare_done(void *context) {
    struct cluster_node *node = context;
    if (node->fate.gone) {
        return;
    }
    struct cluster_set *set = set_find(node, node->app.preparing);
    if (set == NULL) {
        return;
    }
    set->lazy = node->input.lazy && node->cluster->app.kind->lazy;
    if (node->tier != TIER_FEEDER) {
        add_rows(node, set, set->lazy ? 2 : 1, false);
    }
    set->prepared = true;
    node->app.preparing = 0;
    bool assembled = node->app.parts != 0 && lacking_shards(node, set, NULL) == 0;
    if (read_shards(node, set) ? !node->app.read_all : assembled && !node->app.read_all) {
        node->app.read_all = node->app.read_all || !assembled;
        tell_input(node, node->app.read_all);
    }
    double totals[WIRE_TOTALS] = {(double)set->items};
    totals[WIRE_TOTALS / 2] = set->shards[set->count - 1];
    totals[WIRE_TOTALS / 2 + 1] = -1.0 - set->shards[0]; /* a maximum below 0: it must not begin at 0 */
    node_prepared(&node->node, set->number, set->items, totals);
}

static struct cluster_set *set_of(struct cluster_node *node, const struct node_set *wanted) {
    struct cluster *cluster = node->cluster;
    for (unsigned s = 0; s < node->app.set_count; s++) {
        if (node->app.sets[s].number == wanted->number) {
            return &node->app.sets[s];
        }
    }
    node->app.sets = memory_resized(node->app.sets, node->app.set_count + 1, sizeof *node->app.sets);
    struct cluster_set *set = &node->app.sets[node->app.set_count++];
    *set = (struct cluster_set){.number = wanted->number};
    set->shards = memory_zeroed((size_t)wanted->count + 1, sizeof *set->shards);
    set->count = wanted->count;
    memcpy(set->shards, wanted->shards, wanted->count * sizeof *set->shards);
    if (cluster->node_count > 1 && node->node.work.assignment.origin == 0 &&
        cluster_mistake_due(cluster, MISTAKE_TWO_OWNERS)) {
        set->shards[set->count++] = (set->shards[0] + 1) % cluster->policy.shards;
    }
    for (unsigned s = 0; s < set->count; s++) {
        set->items += cluster->app.shards[set->shards[s]].items;
    }
    return set;
}

static uint32_t hook_lacks(void *context, const struct node_set *wanted, uint32_t *lacking) {
    struct cluster_node *node = context;
    if (node->app.preparing != 0 || node->app.reading != 0) {
        cluster_violation(node->cluster, "app", "%s looks for shards while it prepares set %u", node->node.name,
                          node->app.preparing);
    }
    struct cluster_set set = {.number = wanted->number, .shards = wanted->shards, .count = wanted->count};
    set_of(node, wanted);
    return lacking_shards(node, &set, lacking);
}

static void hook_prepare(void *context, const struct node_set *wanted) {
    struct cluster_node *node = context;
    if (node->app.preparing != 0 || node->app.reading != 0 || wanted->number == 0 || wanted->count == 0) {
        cluster_violation(node->cluster, "app", "%s prepares set %u of %u shards while it prepares set %u",
                          node->node.name, wanted->number, wanted->count, node->app.preparing);
        return;
    }
    const struct cluster_set *set = set_of(node, wanted);
    node->app.preparing = set->number;
    at_later(node, lacking_shards(node, set, NULL) > 0 ? node->load_us : node->load_us / 8, prepare_done);
}

static void set_close(struct cluster_set *set) {
    free(set->shards);
}

static void hook_release(void *context, unsigned number) {
    struct cluster_node *node = context;
    struct cluster_set *set = set_find(node, number);
    if (set == NULL) {
        return;
    }
    if (((node->work.computing || node->evaluation.under_way) && node->work.set == number) ||
        node->work.helped == number) {
        cluster_violation(node->cluster, "app", "%s releases set %u, which it works on", node->node.name, number);
    }
    if (node->app.preparing == number) {
        cluster_violation(node->cluster, "app", "%s releases set %u, which is being prepared", node->node.name, number);
    }
    drop_shards(node, set);
    set_close(set);
    *set = node->app.sets[--node->app.set_count];
}

/* ---- A clock ---- */

/* Forgets changes that every later push includes. */
static void own_forget(struct cluster_node *node) {
    const struct client *client = &node->node.client;
    uint64_t known = client->committed;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        known = client->partitions[p].clock < known ? client->partitions[p].clock : known;
    }
    unsigned kept = 0;
    for (unsigned o = 0; o < node->app.own_count; o++) {
        if (node->app.own[o].clock <= known) {
            app_changes_close(&node->app.own[o].changes);
        } else {
            node->app.own[kept++] = node->app.own[o];
        }
    }
    node->app.own_count = kept;
}

/* Adds an empty entry behind those of the same clock and earlier. */
static void own_add(struct cluster_node *node, actor_id origin, uint64_t clock) {
    own_forget(node);
    node->app.own = memory_resized(node->app.own, node->app.own_count + 1, sizeof *node->app.own);
    unsigned at = node->app.own_count++;
    while (at > 0 && node->app.own[at - 1].clock > clock) {
        node->app.own[at] = node->app.own[at - 1];
        at--;
    }
    node->app.own[at] = (struct own_change){.origin = origin, .clock = clock};
}

static struct own_change *own_find(struct cluster_node *node, actor_id origin, uint64_t clock) {
    for (unsigned o = 0; o < node->app.own_count; o++) {
        if (node->app.own[o].origin == origin && node->app.own[o].clock == clock) {
            return &node->app.own[o];
        }
    }
    cluster_violation(node->cluster, "app", "%s does not know its own clock %llu", node->node.name,
                      (unsigned long long)clock);
    return NULL;
}

static struct app_work work_of(struct cluster_node *node, const uint32_t *shards, uint32_t count,
                               const struct cluster_set *set, uint64_t clock) {
    return (struct app_work){.cache = &node->node.cache,
                             .slots = node->app.slots,
                             .shards = shards,
                             .shard_count = count,
                             .set = set->number,
                             .threads = node->threads,
                             .nodes = node_origins(&node->node, clock),
                             .clock = clock,
                             .parts = node->work.parts,
                             .origin = node->work.at.origin,
                             .process = &node->app.process};
}

/* Does one half of the clock's work. */
static void compute_half(struct cluster_node *node, const struct cluster_set *set, unsigned half) {
    struct app *app = &node->cluster->app;
    struct own_change *own = own_find(node, node->work.at.origin, node->node.client.clock);
    if (own == NULL ||
        (origin_is_catch_up(node->work.at.origin) && cluster_mistake_due(node->cluster, MISTAKE_CATCH_UP_SKIPPED))) {
        return;
    }
    struct app_work work = work_of(node, set->shards, set->count, set, own->clock);
    work.changes = &own->changes;
    if ((own->clock - 1) % app->phases > 0 && cluster_mistake_due(node->cluster, MISTAKE_PHASE_AGAIN)) {
        work.clock--;
    }
    app->kind->compute(app, &work, half);
}

static uint64_t shards_items(const struct cluster_node *node, const uint32_t *shards, uint32_t count, uint64_t clock) {
    uint64_t items = 0;
    for (uint32_t s = 0; s < count; s++) {
        items += node->cluster->app.kind->items(&node->cluster->app, shards[s], clock);
    }
    return items;
}

/* Returns the set's items in the clock under way. */
static uint64_t clock_items(const struct cluster_node *node, const struct cluster_set *set) {
    return shards_items(node, set->shards, set->count, node->node.client.clock);
}

static uint64_t clock_duration(struct cluster_node *node, uint64_t items) {
    struct cluster *cluster = node->cluster;
    uint64_t duration = cluster_between(cluster, node->compute_us / 2, node->compute_us * 3 / 2);
    duration = cluster_one_in(cluster, 40) ? 8 * duration : duration;
    return cluster_uneven_duration(node, items, duration);
}

/* ---- Lots ---- */

/* Returns the shards of a slice of the set. Slice 0 has the shards that are in no lot. */
static const uint32_t *slice_shards(const struct cluster_node *node, const struct cluster_set *set, unsigned slice,
                                    uint32_t *count) {
    unsigned lots = lots_count(set->count, node->node.options.lots);
    uint32_t first = lots_slice_first(set->count, lots, slice);
    *count = lots_slice_first(set->count, lots, slice + 1) - first;
    return set->shards + first;
}

/* Works on a slice, or (`theirs`) records what another node has done in it. */
static void compute_slice(struct cluster_node *node, const struct cluster_set *set, unsigned slice, bool theirs) {
    struct app *app = &node->cluster->app;
    struct own_change *own = own_find(node, node->work.at.origin, node->node.client.clock);
    uint32_t count;
    const uint32_t *shards = slice_shards(node, set, slice, &count);
    struct app_work work = work_of(node, shards, count, set, node->node.client.clock);
    work.cache = theirs ? NULL : work.cache;
    work.changes = own != NULL ? &own->changes : NULL;
    for (unsigned half = 0; half < 2 && own != NULL; half++) {
        app->kind->compute(app, &work, half);
    }
    node->work.items += theirs ? 0 : shards_items(node, shards, count, node->node.client.clock);
}

/* Continues with the clock's next lot. */
static void lots_next(void *context) {
    struct cluster_node *node = context;
    struct own_lots *lots = &node_lots(&node->node)->own;
    struct cluster_set *set = node->fate.gone ? NULL : set_find(node, node->work.set);
    if (set == NULL) {
        return;
    }
    int lot = node_lot_take(&node->node);
    for (unsigned l = 0; l < lots->count && lot < 0; l++) {
        if (lots->lots[l].state == LOT_GIVEN && lots->lots[l].changes.type != 0 &&
            cluster_mistake_due(node->cluster, MISTAKE_LOT_TWICE)) {
            compute_slice(node, set, l + 1, false);
        }
    }
    if (lot >= 0) {
        compute_slice(node, set, (unsigned)lot + 1, false);
        at_later(node, clock_duration(node, clock_items(node, set)) / (2 * lots->count), lots_next);
        return;
    }
    node->work.computing = false;
    uint64_t compute_us = sim_now(node->cluster->sim) - node->work.began_us;
    node_computed(&node->node, node->work.items, cluster_mistake_compute(node, compute_us));
}

static void hook_compute_lots(void *context, unsigned number, uint64_t clock) {
    struct cluster_node *node = context;
    if (node->work.computing || number != node->work.set || clock != node->node.client.clock) {
        cluster_violation(node->cluster, "app", "%s is told to go on with lots of clock %llu, set %u", node->node.name,
                          (unsigned long long)clock, number);
    }
    node->work.began_us = sim_now(node->cluster->sim);
    node->work.items = 0;
    node->work.computing = true;
    at_later(node, 10, lots_next);
}

static void gather(struct cluster_node *node) {
    struct error error = {0};
    for (uint32_t p = 0; p < node->node.client.partition_count; p++) {
        if (client_gather(&node->node.client, p, &error) != 0) {
            cluster_violation(node->cluster, "app", "client_gather: %s", error.text);
        }
    }
}

static void hook_gather(void *context) {
    struct cluster_node *node = context;
    const struct cluster_set *set = set_find(node, node->work.set);
    for (unsigned l = 0; l < WIRE_LOTS_MAX && set != NULL; l++) {
        node->work.theirs[l] = node_lots(&node->node)->own.lots[l].state == LOT_THEIRS;
        if (node->work.theirs[l]) {
            compute_slice(node, set, l + 1, true);
            node->cluster->result->counts.lots++;
        }
    }
    gather(node);
    node_gathered(&node->node);
}

/* Adds the app's metrics of these shards to `sums`. */
static void add_metrics(const struct cluster_node *node, const uint32_t *shards, uint32_t count, uint64_t clock,
                        double factor, struct wire_metric_sum sums[CLUSTER_METRICS]) {
    sums[METRIC_ITEMS].sum += factor * (double)shards_items(node, shards, count, clock);
    for (uint32_t s = 0; s < count; s++) {
        sums[METRIC_FIGURES].sum += factor * cluster_figure(node->cluster, shards[s], clock);
    }
}

static void help_done(void *context) {
    struct cluster_node *node = context;
    const struct cluster_set *set = node->fate.gone ? NULL : set_find(node, node->work.helped);
    struct wire_metric_sum sums[CLUSTER_METRICS] = {0};
    if (set == NULL) {
        return;
    }
    node->work.helped = 0;
    add_metrics(node, set->shards, set->count, node->work.helped_clock, 1, sums);
    node_helped(&node->node, shards_items(node, set->shards, set->count, node->work.helped_clock), sums);
}

static void hook_help(void *context, unsigned number, uint64_t clock) {
    struct cluster_node *node = context;
    struct app *app = &node->cluster->app;
    struct app_changes changes = {0};
    const struct cluster_set *set = set_find(node, number);
    if (set == NULL) {
        return;
    }
    if (!set->prepared || node->work.computing || node->evaluation.under_way || node->work.helped != 0 ||
        node->feed.busy || node->node.client.clock < clock) {
        cluster_violation(node->cluster, "app", "%s is told to help with clock %llu, set %u", node->node.name,
                          (unsigned long long)clock, number);
    }
    struct app_work work = work_of(node, set->shards, set->count, set, clock);
    work.changes = &changes;
    for (unsigned half = 0; half < 2; half++) {
        app->kind->compute(app, &work, half);
    }
    app_changes_close(&changes);
    node->work.helped = number;
    node->work.helped_clock = clock;
    at_later(node, clock_duration(node, clock_items(node, set)) / (2 * node->node.options.lots), help_done);
}

/* ---- The end of a clock, with a flush in pieces or not ---- */

static void clock_done(struct cluster_node *node, const struct cluster_set *set) {
    if (node->node.work.steps == 0) {
        gather(node);
    }
    node->work.computing = false;
    uint64_t compute_us = sim_now(node->cluster->sim) - node->work.began_us;
    node_computed(&node->node, clock_items(node, set), cluster_mistake_compute(node, compute_us));
}

/* Chooses the next rows of a table to declare done: up to four, from the table's end. Returns false when none are left
 * or the table does not allow it. */
static bool next_done(struct cluster_node *node, unsigned t, struct client_range *range) {
    const struct table_spec *spec = &node->cluster->app.job.tables[t];
    uint64_t done = node->work.done[t];
    if (!spec->whole || spec->mode != AML_ADD || spec->given || table_hidden(spec) || done >= spec->rows) {
        return false;
    }
    uint64_t count = cluster_between(node->cluster, 1, 4);
    count = count < spec->rows - done ? count : spec->rows - done;
    *range =
        (struct client_range){.table = t, .first = spec->rows - done - count, .count = count}; /* from the end on */
    node->work.done[t] += count;
    return true;
}

/* Declares some rows done, which sends their pieces. Returns false when no rows were chosen. */
static bool send_pieces(struct cluster_node *node) {
    struct client *client = &node->node.client;
    struct client_range ranges[APP_TABLES_MAX];
    unsigned count = 0;
    for (unsigned t = 0; t < node->cluster->app.job.table_count; t++) {
        count += cluster_one_in(node->cluster, 4) ? 0 : next_done(node, t, &ranges[count]);
    }
    for (uint32_t p = 0; p < client->partition_count && count > 0; p++) {
        struct retained_flush piece;
        if (client_gather_piece(client, p, ranges, count, &piece)) {
            client_add_piece(client, p, &piece);
        }
    }
    client_send_pieces(client);
    node_wake(&node->node);
    return count > 0;
}

static void pieces_next(void *context) {
    struct cluster_node *node = context;
    struct cluster_set *set = node->fate.gone ? NULL : set_find(node, node->work.set);
    if (set == NULL) {
        return;
    }
    if (send_pieces(node) && !cluster_one_in(node->cluster, 6)) {
        at_later(node, cluster_between(node->cluster, 0, node->compute_us / 8), pieces_next);
        return;
    }
    clock_done(node, set);
}

/* ---- A whole clock ---- */

/* Whether the clock has local steps, and the present step is not the last of them. */
static bool is_step(const struct cluster_node *node) {
    const struct node_work *work = &node->node.work;
    return work->steps > 0 && work->step + 1 < work->steps;
}

/* Completes a local step; the node then starts the next one by hook_compute. */
static void step_done(struct cluster_node *node) {
    node->work.computing = false;
    node_computed(&node->node, 0, sim_now(node->cluster->sim) - node->work.began_us);
    cluster_strategy_offered(node);
}

static void compute_done(void *context) {
    struct cluster_node *node = context;
    struct error error = {0};
    if (node->fate.gone) {
        return;
    }
    struct cluster_set *set = set_find(node, node->work.set);
    if (set == NULL) {
        return;
    }
    if (is_step(node)) {
        step_done(node);
        return;
    }
    if (set->lazy) {
        set->lazy = false;
        add_rows(node, set, 1, true);
        if (client_subscribe(&node->node.client, &error) != 0) {
            cluster_violation(node->cluster, "app", "client_subscribe: %s", error.text);
        }
        node_wake(&node->node);
    }
    if (!client_filled(&node->node.client)) {
        at_later(node, 1000, compute_done);
        return;
    }
    compute_half(node, set, 1);
    if (node->cluster->app.pieces && client_may_piece(&node->node.client)) {
        memset(node->work.done, 0, sizeof node->work.done);
        pieces_next(node);
        return;
    }
    clock_done(node, set);
}

static void hook_compute(void *context, unsigned number, uint64_t clock) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    const struct node *agent = &node->node;
    struct cluster_set *set = set_find(node, number);
    if (set == NULL) {
        return;
    }
    node->work.at = agent->work.assignment;
    node->work.set = number;
    if (!set->prepared || node->work.computing || node->evaluation.under_way || node->feed.busy ||
        agent->work.sets[agent->work.assignment.set].number != number || agent->client.clock != clock ||
        agent->client.origin != agent->work.assignment.origin) {
        cluster_violation(cluster, "app", "%s is told to compute clock %llu with set %u, its client clock %llu",
                          agent->name, (unsigned long long)clock, number, (unsigned long long)agent->client.clock);
        return;
    }
    if (agent->work.step > 0) {
        node->work.began_us = sim_now(cluster->sim);
        node->work.computing = true;
        at_later(node, clock_duration(node, clock_items(node, set)) / agent->work.steps, compute_done);
        return;
    }
    cluster_check_begin(node, set, agent->work.assignment.origin, clock);
    const double *totals = agent->totals;
    if (totals[0] != (double)cluster->app.items || totals[WIRE_TOTALS / 2] != cluster->policy.shards - 1 ||
        totals[WIRE_TOTALS / 2 + 1] != -1 || agent->total_items != cluster->app.items) {
        cluster_violation(cluster, "app", "%s began with totals %g, %g and %g over %llu items", agent->name, totals[0],
                          totals[WIRE_TOTALS / 2], totals[WIRE_TOTALS / 2 + 1], (unsigned long long)agent->total_items);
    }
    for (uint64_t c = clock - agent->client.part.idle; c <= clock; c++) {
        node->work.parts = cluster_strategy_parts(node, c);
        own_add(node, agent->work.assignment.origin, c);
    }
    node->work.began_us = sim_now(cluster->sim);
    node->work.computing = true;
    bool lots = node_lots(agent)->own.count > 0;
    node->work.items = 0;
    memset(node->work.theirs, 0, sizeof node->work.theirs);
    if (lots) {
        compute_slice(node, set, 0, false);
    } else {
        compute_half(node, set, 0);
    }
    cluster_feed_consume(node, set, clock);
    cluster_faults_clock(cluster, clock);
    if (cluster_crash(node, set, clock)) {
        return;
    }
    uint64_t duration = clock_duration(node, clock_items(node, set));
    at_later(node, lots ? duration / 2 : duration, lots ? lots_next : compute_done);
}

/* Hashes all rows that the set's items name. */
static uint64_t rows_hash(const struct cluster_node *node, const struct cluster_set *set) {
    const struct app *app = &node->cluster->app;
    uint64_t hash = 0;
    for (uint32_t s = 0; s < set->count; s += set->lazy ? 2 : 1) {
        const struct app_shard *shard = &app->shards[set->shards[s]];
        for (unsigned k = 0; k < shard->row_count; k++) {
            const struct cache_table *table = &node->node.cache.tables[app->rows[shard->rows[k]].table];
            const unsigned char *row = cache_row(table, (uint32_t)node->app.slots[shard->rows[k]]);
            for (uint32_t b = 0; b < table->spec->row_bytes; b += (uint32_t)sizeof(uint32_t)) {
                uint32_t word;
                memcpy(&word, row + b, sizeof word);
                hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* odd: any changed word changes the hash */
            }
        }
    }
    return hash;
}

static void evaluate_done(void *context) {
    struct cluster_node *node = context;
    if (node->fate.gone) {
        return;
    }
    struct cluster_set *set = set_find(node, node->work.set);
    if (set == NULL) {
        return;
    }
    if (node->evaluation.hash != rows_hash(node, set)) {
        cluster_violation(node->cluster, "I2", "%s: the cache changed while clock %llu was evaluated", node->node.name,
                          (unsigned long long)node->evaluation.clock);
    }
    node->evaluation.under_way = false;
    if (!node->evaluation.said) {
        node_note(&node->node, CLUSTER_NOTE_EVALUATED);
    }
    node->evaluation.said = true;
    double all = (double)set->items;
    struct wire_metric_sum sums[CLUSTER_METRICS] = {
        [METRIC_OBJECTIVE] = {.sum = cluster_objective(node->evaluation.clock) * all, .weight = all},
        [METRIC_EVALUATED] = {.sum = set->count, .weight = 1},
        [METRIC_LAST] = {.sum = node->evaluation.last ? set->count : 0, .weight = 1}};
    if (!node->evaluation.again) {
        sums[METRIC_ITEMS].weight = sums[METRIC_FIGURES].weight = 1;
        add_metrics(node, set->shards, set->count, node->evaluation.clock, 1, sums);
        for (unsigned l = 0; l < WIRE_LOTS_MAX; l++) { /* other nodes report the lots that they did */
            uint32_t count = 0;
            const uint32_t *shards = node->work.theirs[l] ? slice_shards(node, set, l + 1, &count) : set->shards;
            add_metrics(node, shards, count, node->evaluation.clock, -1, sums);
        }
        node_lots_add_metrics(&node->node, sums);
    }
    node_evaluated(&node->node, sums);
}

static void hook_evaluate(void *context, unsigned number, uint64_t clock, bool again) {
    struct cluster_node *node = context;
    const struct node *agent = &node->node;
    if ((!again && (clock != agent->client.clock || number != node->work.set)) || node->work.computing ||
        node->feed.busy || node->evaluation.under_way) {
        cluster_violation(node->cluster, "app", "%s evaluates clock %llu with set %u after clock %llu with set %u",
                          agent->name, (unsigned long long)clock, number, (unsigned long long)agent->client.clock,
                          node->work.set);
    }
    struct cluster_set *set = set_find(node, number);
    if (set != NULL && !set->prepared) {
        cluster_violation(node->cluster, "app", "%s evaluates set %u, which it has not prepared", agent->name, number);
    }
    node->work.set = number;
    node->evaluation.clock = clock;
    node->evaluation.again = again;
    node->evaluation.last = agent->work.last && agent->final == clock && client_has_state(&agent->client, clock);
    node->cluster->result->counts.evaluations += again ? 1 : 0;
    node->evaluation.hash = set != NULL ? rows_hash(node, set) : 0;
    node->evaluation.under_way = true;
    at_later(node, cluster_between(node->cluster, 0, node->compute_us / 4), evaluate_done);
}

/* ---- The end ---- */

static void save_over(struct cluster_node *node) {
    struct cluster *cluster = node->cluster;
    struct app *app = &cluster->app;
    bool fails = !node->save.unsaving && cluster->run.saves_fail > 0;
    node->save.saving = false;
    node_note(&node->node, CLUSTER_NOTE_SAVED);
    if (fails) {
        cluster->run.saves_fail--;
        cluster->result->counts.unsaved++;
        /* The model is read again, which may take longer than a notice. */
        cluster_not_calm(cluster, sim_now(cluster->sim));
        for (unsigned n = 0; n < cluster->node_count; n++) {
            cluster->nodes[n]->fate.generous = false; /* no node may leave before the end */
        }
    } else if (!node->save.unsaving && app->kind->finish != NULL) {
        app->kind->finish(app, node->node.final, node->save.elements);
    }
    node_saved(&node->node,
               node->save.unsaving ? AML_ESTOP
               : fails             ? AML_EFAIL
                                   : 0,
               node->save.unsaving || fails ? "stopped" : "");
}

static void save_again(void *context);

/* Requests the next table of the next partition, repeatedly until it arrives. */
static void save_ask(void *context) {
    struct cluster_node *node = context;
    struct client *client = &node->node.client;
    if (node->fate.gone || !node->save.saving) {
        return;
    }
    if (node->save.unsaving || node->save.partition == client->partition_count) {
        save_over(node);
        return;
    }
    struct message scan = {.type = MESSAGE_SCAN, .epoch = client->epoch};
    scan.scan.partition = node->save.partition;
    scan.scan.table = node->save.table;
    scan.scan.min_clock = node->node.final;
    node->io->send(node->io, client_server(client, node->save.partition, node->node.final), &scan);
    node->save.asked_us = sim_now(node->cluster->sim);
    at_later(node, SAVE_RETRY_US, save_again);
}

static void save_again(void *context) {
    struct cluster_node *node = context;
    if (sim_now(node->cluster->sim) - node->save.asked_us >= SAVE_RETRY_US) {
        save_ask(node);
    }
}

/* I1: the saved model is the state at the last clock. */
static void check_saved(struct cluster_node *node, const struct message *message) {
    struct cluster *cluster = node->cluster;
    struct app *app = &cluster->app;
    struct rows_view views[WIRE_TABLES_MAX];
    struct error error = {0};
    char text[256];
    bool stands = cluster_state_stands(cluster, node->node.client.epoch);
    const uint64_t *state = stands ? app_state(app, node->node.final) : NULL;
    int count = rows_check(message, app->job.shapes, app->job.table_count, views, &error);
    if (count < 0) {
        cluster_violation(cluster, "app", "ROWS: %s", error.text);
        return;
    }
    for (uint32_t r = 0; count > 0 && r < views[0].count; r++) {
        int64_t row = app_find(app, views[0].table, views[0].keys[r]);
        const unsigned char *values = views[0].values + r * (size_t)app->job.tables[views[0].table].row_bytes;
        bool averages = row >= 0 && app_averages(app, (unsigned)row);
        if (averages && stands && !cluster->run.forged) {
            cluster_check_replica(cluster, (unsigned)row, node->node.final, values, node->node.name);
        } else if (row < 0 ||
                   (!averages && stands && !app_equal(app, (unsigned)row, state, values, text, sizeof text))) {
            cluster_violation(cluster, "I1", "%s saves partition %u of clock %llu: %s", node->node.name,
                              message->rows.partition, (unsigned long long)node->node.final,
                              row < 0 ? "a row that is none of the app's" : text);
            return;
        }
        app_elements(app, (unsigned)row, values, node->save.elements + app->rows[row].first);
    }
}

static void save_rows(void *context, const struct message *message) {
    struct cluster_node *node = context;
    if (!node->save.saving || node->save.unsaving || message->rows.partition != node->save.partition ||
        message->rows.table != node->save.table) {
        return;
    }
    check_saved(node, message);
    if (++node->save.table == job_app_tables(&node->cluster->app.job)) {
        node->save.table = 0;
        node->save.partition++;
    }
    at_later(node, 0, save_ask);
}

static void hook_save(void *context) {
    struct cluster_node *node = context;
    if (node->save.saving || node->feed.busy) {
        cluster_violation(node->cluster, "app", "%s is asked to save while it %s", node->node.name,
                          node->save.saving ? "saves" : "makes batches");
    }
    node->save.saving = true;
    node->save.unsaving = false;
    node->save.partition = node->save.table = 0;
    size_t size = node->cluster->app.element_count * sizeof *node->save.elements;
    node->save.elements =
        memory_resized(node->save.elements, size / sizeof *node->save.elements, sizeof *node->save.elements);
    memcpy(node->save.elements, app_state(&node->cluster->app, 0), size);
    at_later(node, cluster_between(node->cluster, 0, 2 * node->cluster->drawn.heartbeat_ms * UINT64_C(1000)), save_ask);
}

static void hook_unsave(void *context) {
    struct cluster_node *node = context;
    if (!node->save.saving) {
        cluster_violation(node->cluster, "app", "%s is to stop saving, which it does not do", node->node.name);
    }
    node->save.unsaving = true;
    at_later(node, 1000, save_ask);
}

static void hook_end(void *context, int code, const char *text) {
    struct cluster_node *node = context;
    if (node->fate.ended) {
        cluster_violation(node->cluster, "app", "%s ends twice", node->node.name);
    }
    node->fate.ended = node->fate.gone = true;
    node->fate.code = code;
    snprintf(node->fate.text, sizeof node->fate.text, "%s", text);
    sim_remove(node->cluster->sim, node->machine); /* the process leaves, and its servers with it */
}

/* Restarts the process: a new incarnation on the same machine. */
static void hook_rejoin(void *context, const char *why) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    (void)why;
    if (node->fate.gone) {
        cluster_violation(cluster, "app", "%s rejoins after its end", node->node.name);
        return;
    }
    node->fate.gone = true;
    if (node->fate.leave_us == 0) {
        cluster->result->counts.rejoins++;
        cluster_node_add(cluster, node->tier, node->machine, cluster_between(cluster, 1000, 500 * 1000));
    }
}

struct node_hooks cluster_app_hooks(struct cluster_node *node) {
    struct node_hooks hooks = {.lacks = hook_lacks,
                               .has = hook_has,
                               .pack = hook_pack,
                               .unpack = hook_unpack,
                               .read_part = hook_read_part,
                               .lacks_pieces = hook_lacks_pieces,
                               .pack_pieces = hook_pack_pieces,
                               .take_pieces = hook_take_pieces,
                               .settle = hook_settle,
                               .prepare = hook_prepare,
                               .release = hook_release,
                               .compute = hook_compute,
                               .compute_lots = hook_compute_lots,
                               .gather = hook_gather,
                               .help = hook_help,
                               .evaluate = hook_evaluate,
                               .save = hook_save,
                               .unsave = hook_unsave,
                               .end = hook_end,
                               .rejoin = hook_rejoin,
                               .context = node};
    cluster_feed_hooks(&hooks);
    return hooks;
}

void cluster_app_open(struct cluster_node *node) {
    node->node.client.row_state = cluster_check_row_state;
    node->node.client.rows = save_rows;
    node->node.client.context = node;
}

void cluster_app_close(struct cluster_node *node) {
    for (unsigned s = 0; s < node->app.set_count; s++) {
        set_close(&node->app.sets[s]);
    }
    for (unsigned o = 0; o < node->app.own_count; o++) {
        app_changes_close(&node->app.own[o].changes);
    }
    for (unsigned t = 0; t < APP_TABLES_MAX; t++) {
        free(node->app.row_of[t]);
    }
    free(node->app.held);
    cluster_feed_close(node);
    free(node->app.pieces);
    free(node->app.contents);
    free(node->app.sets);
    free(node->app.own);
    free(node->app.slots);
    free(node->save.elements);
    if (node->app.process != NULL) {
        node->cluster->app.kind->process_close(node->app.process);
    }
}
