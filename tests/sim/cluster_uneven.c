/* Nodes of different speeds, and what `--balance shares` does about them. In CAMPAIGN_UNEVEN speeds are steady and
 * nothing fails: invariants I10 (shares change rarely) and I12 (no node waits long) hold. In other campaigns some nodes
 * become slow for a while, and shares change at random in half of the runs. See cluster_private.h. */
#include "agileml/control/decide/balance.h"
#include "tests/sim/cluster_private.h"

#include <math.h>
#include <string.h>

enum {
    SECOND_US = 1000 * 1000,
    SALT = 0x51035, /* the salt of choices that use no random number of other faults */
    SALT_SERVER = 0x5E12E,
    SERVE_US_LEAST = 40 * 1000,
    ITERATIONS = 240,
    NODES_MOST = 8,
    SHARDS_EACH = 64,
    CHANGES_MOST = 2,
};
#define JITTER_ALIKE  0.05
#define JITTER_UNEVEN 0.02
#define WINDOW_LONG   10.0 /* seconds */
#define LONGER_MOST   1.1
#define LONGER_CHANCE 1.04 /* allowance for jitter, messages and evaluations */

/* Returns a number that depends on the seed and on `number` alone. */
static uint64_t salted(const struct cluster *cluster, uint64_t number) {
    return hash_mix(hash_mix(cluster->options.seed ^ SALT) + number);
}

static double part_of_one(uint64_t random) {
    return (double)(random >> 11) / (double)(UINT64_C(1) << 53);
}

static bool is_uneven(const struct cluster *cluster) {
    return cluster->options.campaign == CAMPAIGN_UNEVEN;
}

/* ---- What is drawn ---- */

void cluster_uneven_shape(struct cluster *cluster) {
    static const enum stage stages[] = {STAGE_1, STAGE_2, STAGE_3};
    struct cluster_drawn *drawn = &cluster->drawn;
    if (!is_uneven(cluster)) {
        return;
    }
    cluster->uneven.alike = cluster_one_in(cluster, 3);
    cluster->uneven.fixed_us = cluster_one_in(cluster, 2) ? 0 : (double)cluster_between(cluster, 1000, 20 * 1000);
    cluster->uneven.joins = cluster_one_in(cluster, 3);
    cluster->uneven.late = !cluster->uneven.alike && cluster_one_in(cluster, 3);
    cluster->uneven.replaces = !cluster->uneven.alike && !cluster->uneven.joins && cluster_one_in(cluster, 2);
    cluster->uneven.slow_server = salted(cluster, SALT_SERVER) % 3 == 0;
    cluster->terms.iterations = ITERATIONS;
    cluster->terms.clocks_per_iteration = 1; /* each clock has an iteration line */
    cluster->terms.tolerance = cluster->terms.seconds = 0;
    cluster->terms.staleness = (uint32_t)cluster_between(cluster, 0, 1);
    drawn->initial_reliable = (unsigned)cluster_between(cluster, 1, 2);
    drawn->initial_transient = (unsigned)cluster_between(cluster, 1, NODES_MOST - 2);
    drawn->checkpoint_every = 0;
    drawn->compute_us = 1000; /* evaluations take a time in proportion */
    cluster->policy.stage = stages[cluster_draw(cluster) % 3];
    cluster->policy.partitions = (uint32_t)cluster_between(cluster, 1, 8);
    cluster->policy.shards = SHARDS_EACH * (drawn->initial_reliable + drawn->initial_transient);
}

void cluster_uneven_options(const struct cluster *cluster, struct controller_options *options) {
    options->balance = is_uneven(cluster) || salted(cluster, 0) % 2 == 0 ? balance_shares : NULL;
    if (cluster->uneven.replaces) {
        options->balance = balance_nd;
        options->replacements = 2;
    }
    if (is_uneven(cluster)) {
        options->window_short = 0.5;
        options->window_long = WINDOW_LONG;
    } else { /* as often as possible */
        options->window_short = 0.02;
        options->window_long = 4;
    }
}

void cluster_uneven_node(struct cluster_node *node) {
    uint64_t random = salted(node->cluster, 1 + node->number);
    if (is_uneven(node->cluster)) {
        node->threads = 1;
        node->load_us = 0;
        node->input.lazy = false;
        node->speed.item_us = 500 * (node->cluster->uneven.alike ? 1 : 1 + 3 * part_of_one(random));
        bool slow = node->cluster->uneven.replaces && node->number < node->cluster->drawn.initial_reliable + 2;
        slow = slow && node->cluster->drawn.initial_transient > 2; /* two nodes are slow, if there are more */
        node->speed.item_us *= slow && node->tier == TIER_TRANSIENT ? 4 : 1;
        node->speed.fixed_us = node->cluster->uneven.late ? 64000 * part_of_one(hash_mix(random)) : 0;
        uint64_t server = salted(node->cluster, SALT_SERVER + 1);
        unsigned first = node->cluster->drawn.initial_reliable + node->cluster->drawn.initial_transient;
        bool slow_server = node->cluster->uneven.slow_server && node->number == server % first;
        node->speed.serve_us = slow_server ? SERVE_US_LEAST + (server >> 8) % (4 * SERVE_US_LEAST) : 0;
        uint64_t alone_us = (uint64_t)(node->speed.item_us * (double)node->cluster->app.items);
        struct cluster_drawn *drawn = &node->cluster->drawn;
        drawn->slowest_us = alone_us > drawn->slowest_us ? alone_us : drawn->slowest_us;
        return;
    }
    node->speed.serve_us = (random >> 4) % 8 == 0 ? hash_mix(random) % (20 * 1000) : 0;
    node->speed.slowness = random % 4 == 0 ? 2 + (unsigned)(random >> 8) % 7 : 1;
    node->speed.slow_from_us = (random >> 16) % (4 * (uint64_t)SECOND_US);
    node->speed.slow_until_us = node->speed.slow_from_us + (random >> 32) % (8 * (uint64_t)SECOND_US);
}

void cluster_uneven_begin(struct cluster *cluster) {
    if (!is_uneven(cluster)) {
        return;
    }
    if (!cluster->uneven.alike && cluster_one_in(cluster, 3)) {
        cluster_add_restart(cluster, cluster_between(cluster, 2, ITERATIONS / 2));
    }
    if (cluster->uneven.joins) {
        cluster_add_join(cluster, cluster_between(cluster, ITERATIONS / 4, ITERATIONS / 3));
    }
}

static void note_weights(struct cluster *cluster) {
    const struct controller *controller = &cluster->control.controller;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct cluster_node *node = cluster_node_of(cluster, controller->members[m].node.actor);
        if (node != NULL) {
            node->speed.newest_weight = controller->members[m].node.weight;
        }
    }
}

/* Where the controller may change shares, changes them at random now and then. */
void cluster_uneven_stepped(struct cluster *cluster) {
    struct controller *controller = &cluster->control.controller;
    note_weights(cluster);
    cluster_mistake_replace(cluster);
    uint64_t completed = controller->progress.completed;
    bool due = !is_uneven(cluster) && completed > cluster->uneven.shaken && salted(cluster, completed << 16) % 3 == 0;
    if (!due || !cluster->control.running || cluster->control.ended || !rebalance_may(controller)) {
        return;
    }
    cluster->uneven.shaken = completed;
    cluster->result->counts.balances++;
    for (unsigned m = 0; m < controller->member_count; m++) {
        uint64_t random = salted(cluster, (completed << 16) + 1 + m);
        controller->members[m].node.weight = (uint32_t)(random % 5 == 0 ? 0 : 1 << (random >> 8) % 8);
        controller->members[m].node.serve_weight = (uint32_t)((random >> 16) % 3 == 0 ? 1 << (random >> 20) % 8 : 0);
    }
    note_weights(cluster);
    controller->change.due = true; /* the controller's next step makes the plan */
}

/* ---- How long a clock takes ---- */

uint64_t cluster_uneven_duration(struct cluster_node *node, uint64_t items, uint64_t duration_us) {
    struct cluster *cluster = node->cluster;
    uint64_t now = sim_now(cluster->sim);
    if (is_uneven(cluster)) {
        double jitter = cluster->uneven.alike ? JITTER_ALIKE : JITTER_UNEVEN;
        double chance = 1 + jitter * (2 * part_of_one(cluster_draw(cluster)) - 1);
        return (uint64_t)((cluster->uneven.fixed_us + node->speed.fixed_us + node->speed.item_us * (double)items) *
                          chance);
    }
    bool slow = now >= node->speed.slow_from_us && now < node->speed.slow_until_us;
    return slow ? duration_us * node->speed.slowness : duration_us;
}

uint64_t cluster_uneven_serve_us(const struct cluster_node *node) {
    uint64_t now = sim_now(node->cluster->sim);
    bool slow = is_uneven(node->cluster) || (now >= node->speed.slow_from_us && now < node->speed.slow_until_us);
    return slow ? node->speed.serve_us : 0;
}

/* Returns the delay of a slow server that can't be avoided: no other server could take its partitions. */
static double server_us(const struct cluster *cluster) {
    const struct plan_view *plan = &cluster->seen.plan;
    double longest = 0;
    bool another = false;
    actor_id first = ACTOR_NONE;
    for (uint32_t p = 0; p < plan->terms.partitions; p++) {
        actor_id node = actor_node(plan->placement[p].server);
        const struct cluster_node *serving = cluster_node_of(cluster, node);
        another = another || (first != ACTOR_NONE && node != first);
        first = node;
        longest = serving != NULL ? fmax(longest, (double)serving->speed.serve_us) : longest;
    }
    return another ? 0 : longest;
}

/* Returns how many items all nodes can do in a clock of this length. */
static double items_within(const struct cluster *cluster, double clock_us) {
    double items = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        bool works = !node->speed.replaced && (cluster->policy.stage != STAGE_3 || node->tier == TIER_TRANSIENT);
        double left_us = clock_us - cluster->uneven.fixed_us - node->speed.fixed_us;
        items += works && left_us > 0 ? left_us / node->speed.item_us : 0;
    }
    return items;
}

/* Returns the duration of a clock in which no node waits. */
static double ideal_us(const struct cluster *cluster) {
    double low = 0;
    double high = 1e9;
    while (high - low > 1) {
        double middle = (low + high) / 2;
        *(items_within(cluster, middle) < (double)cluster->app.items ? &low : &high) = middle;
    }
    return high;
}

/* ---- What is checked ---- */

/* Whether balancing has two causes: a node has joined, and nodes have fixed times or a server is slow. The second
 * measure follows a window after the first. */
static bool changes_twice(const struct cluster *cluster) {
    return cluster->uneven.joined > 0 && (cluster->uneven.late || cluster->uneven.slow_server);
}

void cluster_uneven_iteration(struct cluster *cluster, uint64_t iteration, double seconds) {
    struct cluster_uneven *uneven = &cluster->uneven;
    bool settles = changes_twice(cluster) && seconds < uneven->join_seconds + 2 * WINDOW_LONG;
    if (iteration == ITERATIONS * 2 / 3) {
        uneven->late_seconds = seconds;
    }
    if (uneven->settled == 0 && iteration >= ITERATIONS * 2 / 3 && (!settles || iteration >= ITERATIONS * 9 / 10)) {
        uneven->settled = iteration;
        uneven->settled_seconds = seconds;
    }
    uneven->last_seconds = seconds;
}

/* I10: shares change rarely. */
void cluster_uneven_balance(struct cluster *cluster, const char *text) {
    cluster->result->counts.balances++;
    unsigned most = cluster->uneven.alike && !cluster->uneven.joins
                        ? 0
                        : CHANGES_MOST + cluster->uneven.joined + cluster->uneven.late;
    most += cluster->uneven.slow_server ? 2 : 0; /* once to relieve the server, and once more for shares */
    if (is_uneven(cluster) && ++cluster->uneven.changes > most) {
        cluster_violation(cluster, "I10", "shares change for the %u. time under steady speeds: %s",
                          cluster->uneven.changes, text);
    }
}

/* I11: replaces one node at a time, which is transient, and only if there is another transient node. The operator
 * starts the replacement. */
void cluster_uneven_replace(struct cluster *cluster, const char *name, const char *text) {
    struct cluster_node *replaced = NULL;
    unsigned others = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        struct cluster_node *node = cluster->nodes[n];
        bool same = strcmp(node->node.name, name) == 0;
        replaced = same ? node : replaced;
        others += !same && node->tier == TIER_TRANSIENT && cluster_node_lives(node) ? 1 : 0;
    }
    bool again = cluster->uneven.replacing || ++cluster->uneven.replaced > 2;
    if (replaced == NULL || replaced->tier != TIER_TRANSIENT || others == 0 || again) {
        cluster_violation(cluster, "I11", "%s: %u other transient nodes%s", text, others,
                          again ? ", and the last one that was to be replaced was not, or there were two" : "");
        return;
    }
    replaced->speed.replaced = true;
    cluster->uneven.replacing = true;
    cluster->result->counts.replacements++;
    cluster_node_add(cluster, TIER_TRANSIENT, 0, SECOND_US);
}

void cluster_uneven_join(struct cluster *cluster) {
    cluster->uneven.replacing = false;
    if (plan_is_there(&cluster->seen.plan)) {
        cluster->uneven.joined++;
        cluster->uneven.join_seconds = cluster->uneven.last_seconds;
    }
}

/* I12: no node waits long. */
void cluster_uneven_end(struct cluster *cluster) {
    if (!is_uneven(cluster)) {
        return;
    }
    double late_us = (cluster->uneven.last_seconds - cluster->uneven.late_seconds) * 1e6;
    double clock_us = (cluster->uneven.last_seconds - cluster->uneven.settled_seconds) * 1e6 /
                      (double)(ITERATIONS - cluster->uneven.settled);
    double ideal = ideal_us(cluster) + server_us(cluster);
    double window_us = fmin(fmax(WINDOW_LONG * 1e6, BALANCE_CLOCKS * ideal), late_us);
    double unpaid = (BALANCE_COST * 1e6 + ideal) / window_us; /* a gain too small to be worth a change of plan */
    if (!(clock_us <= fmax(LONGER_MOST, LONGER_CHANCE + unpaid) * ideal)) {
        cluster_violation(cluster, "I12", "a clock takes %.0f us, and would take %.0f us if nobody waited", clock_us,
                          ideal);
    }
}

/* Records the nodes' weights in the new plan. A restarted controller must have these or newer weights. */
void cluster_uneven_planned(struct cluster *cluster) {
    const struct controller *controller = &cluster->control.controller;
    cluster->uneven.version = controller->plan.version;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct cluster_node *node = cluster_node_of(cluster, controller->members[m].node.actor);
        if (node != NULL) {
            node->speed.weight = controller->members[m].node.weight;
        }
    }
}

void cluster_uneven_restarted(struct cluster *cluster) {
    const struct controller *controller = &cluster->control.controller;
    for (unsigned m = 0; m < controller->member_count && controller->plan.version == cluster->uneven.version; m++) {
        const struct cluster_node *node = cluster_node_of(cluster, controller->members[m].node.actor);
        uint32_t weight = controller->members[m].node.weight;
        if (node != NULL && node->speed.weight != weight && node->speed.newest_weight != weight) {
            cluster_violation(cluster, "I12", "%s had weight %u before the controller started again, and has %u",
                              node->node.name, node->speed.weight, weight);
        }
    }
}
