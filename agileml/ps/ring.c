/* See ring.h. */
#include "agileml/ps/ring.h"

#include <stdlib.h>
#include <string.h>

/* The costs that `auto` assumes: a cloud's fast network, and EC2's prices of 2024. Only their ratios matter, and only
 * roughly: where both ways cost nearly the same, either is good. */
static const double MESSAGE_SECONDS = 200e-6;             /* alpha */
static const double BYTE_SECONDS = 8.0 / 10e9;            /* beta: 10 Gbit/s */
static const double NODE_DOLLARS_PER_SECOND = 0.1 / 3600; /* a small spot machine */
static const double CROSSING_DOLLARS_PER_BYTE = 0.02e-9;  /* between zones, charges of both sides */

unsigned ring_unfit_table(const struct job *job) {
    unsigned t = 0;
    while (t < job->table_count &&
           (table_hidden(&job->tables[t]) || (job->tables[t].whole && job->tables[t].mode == AML_ADD &&
                                              !job->tables[t].given && job->shapes[t].encoding == WIRE_FULL))) {
        t++;
    }
    return t;
}

/* ---- The members ---- */

/* Lists the origins that work in `clock`, in order, perhaps repeatedly. The caller frees the list. NULL: a catch-up
 * origin is among them, so that its node would have two flushes of the clock. */
static actor_id *find_origins(const struct plan_view *plan, uint64_t clock, size_t *count) {
    actor_id *origins = memory_resized(NULL, plan->assignment_count + 1, sizeof *origins);
    *count = 0;
    for (size_t a = 0; a < plan->assignment_count; a++) {
        if (!assignment_covers(&plan->assignments[a], clock)) {
            continue;
        }
        if (actor_part(plan->assignments[a].origin) != 0) {
            free(origins);
            return NULL;
        }
        origins[(*count)++] = plan->assignments[a].origin;
    }
    qsort(origins, *count, sizeof *origins, actor_compare);
    return origins;
}

static size_t count_different(const actor_id *actors, size_t count) {
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        different += i == 0 || actors[i] != actors[i - 1];
    }
    return different;
}

/* Orders by group, then by `servers`: until count_servers, `servers` holds the member's place in the plan. */
static int member_compare(const void *one, const void *other) {
    const struct ring_member *a = one;
    const struct ring_member *b = other;
    if (a->group != b->group) {
        return a->group < b->group ? -1 : 1;
    }
    return a->servers < b->servers ? -1 : a->servers > b->servers;
}

static void count_servers(const struct plan_view *plan, struct ring *ring) {
    struct index_map index = {0};
    for (unsigned m = 0; m < ring->count; m++) {
        ring->members[m].servers = 0;
        index_map_add(&index, ring->members[m].node, m);
    }
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        int64_t member = index_map_find(&index, actor_node(plan->endpoints[e].actor));
        if (member != INDEX_NONE && !actor_is_pulse(plan->endpoints[e].actor)) {
            ring->members[member].servers++;
        }
    }
    index_map_close(&index);
}

static unsigned count_groups(const struct ring *ring) {
    unsigned groups = 0;
    for (unsigned m = 0; m < ring->count; m++) {
        groups += m == 0 || ring->members[m].group != ring->members[m - 1].group;
    }
    return groups;
}

/* Returns how many nodes serve partitions, at most all members. */
static unsigned count_serving(const struct plan_view *plan, const struct ring *ring, uint64_t clock) {
    uint32_t partitions = plan->terms.partitions;
    actor_id *nodes = memory_resized(NULL, partitions, sizeof *nodes);
    for (uint32_t p = 0; p < partitions; p++) {
        nodes[p] = actor_node(plan_server_at(plan, clock, p));
    }
    qsort(nodes, partitions, sizeof *nodes, actor_compare);
    size_t serving = count_different(nodes, partitions);
    free(nodes);
    return serving < ring->count ? (unsigned)serving : ring->count;
}

static bool is_wanted(const struct job *job, const struct plan_view *plan, const struct ring *ring, uint64_t clock) {
    if (job->exchange != EXCHANGE_AUTO) {
        return true;
    }
    struct ring_job facts = {.nodes = ring->count,
                             .serving = count_serving(plan, ring, clock),
                             .groups = count_groups(ring),
                             .partitions = plan->terms.partitions};
    for (unsigned t = 0; t < job->table_count; t++) {
        const struct table_spec *spec = &job->tables[t];
        facts.bytes += table_hidden(spec) ? 0 : (double)spec->rows * spec->row_bytes;
    }
    return ring_is_cheaper(&facts);
}

/* Fills in the members. Returns false when the clock has no ring. */
static bool find_members(struct ring *ring, const struct job *job, const struct plan_view *plan, uint64_t clock) {
    size_t listed;
    actor_id *origins = find_origins(plan, clock, &listed);
    if (origins == NULL) {
        return false;
    }
    size_t working = count_different(origins, listed);
    ring->members = memory_resized(ring->members, working + 1, sizeof *ring->members);
    ring->count = 0;
    for (size_t n = 0; n < plan->node_count; n++) {
        const struct wire_node *node = &plan->nodes[n];
        if (ring->count < working && bsearch(&node->actor, origins, listed, sizeof *origins, actor_compare) != NULL) {
            ring->members[ring->count] =
                (struct ring_member){.node = node->actor, .group = node->group, .servers = ring->count};
            ring->count++;
        }
    }
    free(origins);
    qsort(ring->members, ring->count, sizeof *ring->members, member_compare);
    count_servers(plan, ring);
    assert(ring->count <= working);
    bool whole = ring->count == working && ring->count >= RING_NODES_MIN;
    for (unsigned m = 0; m < ring->count; m++) {
        whole = whole && ring->members[m].servers > 0;
    }
    return whole && is_wanted(job, plan, ring, clock);
}

static uint64_t members_digest(const struct ring *ring) {
    uint64_t digest = ring->count;
    for (unsigned m = 0; m < ring->count; m++) {
        digest = hash_mix(digest ^ ring->members[m].node);
        digest = hash_mix(digest ^ ring->members[m].servers);
    }
    return digest | 1;
}

const struct ring *rings_at(struct rings *rings, const struct job *job, const struct plan_view *plan, uint64_t clock) {
    if (job->exchange == EXCHANGE_DIRECT || !plan_is_there(plan)) {
        return NULL;
    }
    struct ring *ring = &rings->kept[clock % RINGS_KEPT];
    if (ring->version != plan->terms.version || ring->epoch != plan->epoch || ring->clock != clock) {
        ring->epoch = plan->epoch;
        ring->version = plan->terms.version;
        ring->clock = clock;
        ring->digest = find_members(ring, job, plan, clock) ? members_digest(ring) : 0;
    }
    return ring->digest != 0 ? ring : NULL;
}

void rings_close(struct rings *rings) {
    for (unsigned r = 0; r < RINGS_KEPT; r++) {
        free(rings->kept[r].members);
    }
    memset(rings, 0, sizeof *rings);
}

/* ---- Chains ---- */

struct ring_chain ring_chain(const struct ring *ring, uint32_t partition, actor_id server) {
    struct ring_chain chain = {.ring = ring,
                               .partition = partition,
                               .first = partition % ring->count,
                               .length = ring->count,
                               .digest = hash_mix(ring->digest ^ server) | 1};
    for (unsigned m = 0; m < ring->count; m++) {
        if (ring->members[m].node == actor_node(server)) {
            chain.first = (m + 1) % ring->count;
            chain.length = ring->count - 1;
        }
    }
    return chain;
}

static const struct ring_member *chain_member(const struct ring_chain *chain, unsigned place) {
    assert(place < chain->length && chain->length <= chain->ring->count);
    return &chain->ring->members[(chain->first + place) % chain->ring->count];
}

actor_id ring_node(const struct ring_chain *chain, unsigned place) {
    return chain_member(chain, place)->node;
}

actor_id ring_relay(const struct ring_chain *chain, unsigned place) {
    const struct ring_member *member = chain_member(chain, place);
    return actor_of_part(member->node, 1 + chain->partition % member->servers);
}

int ring_place(const struct ring_chain *chain, actor_id actor) {
    for (unsigned place = 0; place < chain->length; place++) {
        if (ring_node(chain, place) == actor_node(actor)) {
            return (int)place;
        }
    }
    return -1;
}

/* ---- Which way is better ---- */

double ring_crossing_bytes(const struct ring_job *job, bool ring) {
    double nodes = job->nodes;
    double groups = job->groups;
    if (job->groups < 2) {
        return 0;
    }
    return ring ? 2 * job->bytes * groups * (nodes - 1) / nodes : 2 * job->bytes * nodes * (groups - 1) / groups;
}

/* Returns the time of a clock's exchange: latencies, and the transfer over the busiest link. */
static double exchange_seconds(const struct ring_job *job, bool ring) {
    double others = job->nodes - 1.0;
    if (ring) {
        /* Each partition's rows go over every link once; the last partition's rows wait for all hops. */
        double last = job->serving < job->nodes ? others * job->bytes / job->partitions : 0;
        return 2 * others * MESSAGE_SECONDS + 2 * (job->bytes * others / job->nodes + last) * BYTE_SECONDS;
    }
    double serving = job->serving > 0 ? job->serving : 1;
    double most = others / serving > 1 ? others / serving : others / job->nodes;
    return 2 * MESSAGE_SECONDS + 2 * job->bytes * most * BYTE_SECONDS;
}

static double dollars(const struct ring_job *job, bool ring) {
    return job->nodes * exchange_seconds(job, ring) * NODE_DOLLARS_PER_SECOND +
           ring_crossing_bytes(job, ring) * CROSSING_DOLLARS_PER_BYTE;
}

bool ring_is_cheaper(const struct ring_job *job) {
    return job->nodes >= RING_NODES_MIN && dollars(job, true) < dollars(job, false);
}
