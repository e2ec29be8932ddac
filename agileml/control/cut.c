/* See cut.h. */
#include "agileml/control/cut.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    SOURCE,    /* its side of a minimum cut: at feeders */
    SINK,      /* its side: at the trainers */
    NODES = 2, /* then the stages, then an output for each stage */
    NODES_MAX = NODES + 2 * CUT_STAGES,
    EDGES_MAX = CUT_STAGES * (4 + CUT_STAGES),
    ROUNDS = 6 /* of changing the weights, for one bound */
};

static cut_set bit(size_t stage) {
    return (cut_set)1 << stage;
}

/* ---- Costs ---- */

static bool is_cost(double value) {
    return isfinite(value) && value >= 0;
}

static int check_machines(const struct cut_machines *machines, struct error *error) {
    if (!(machines->trainer_cpus > 0 && isfinite(machines->trainer_cpus)) ||
        !(machines->feeder_cpus > 0 && isfinite(machines->feeder_cpus)) || !(machines->link_bytes_us > 0) ||
        !is_cost(machines->receive_us) || !is_cost(machines->send_us)) {
        return error_set(error, AML_EINPUT,
                         "cut: threads %g and %g, %g bytes a microsecond, %g and %g microseconds a byte: expected "
                         "positive threads and bandwidth, and costs from 0",
                         machines->trainer_cpus, machines->feeder_cpus, machines->link_bytes_us, machines->receive_us,
                         machines->send_us);
    }
    return 0;
}

int cut_check(const struct cut_tree *tree, const struct cut_machines *machines, struct error *error) {
    if (tree->count == 0 || tree->count > CUT_STAGES) {
        return error_set(error, AML_EINPUT, "cut: %zu stages, expected 1 to %d", tree->count, CUT_STAGES);
    }
    for (size_t s = 0; s < tree->count; s++) {
        const struct cut_stage *stage = &tree->stages[s];
        if (!is_cost(stage->us) || !is_cost(stage->bytes)) {
            return error_set(error, AML_EINPUT, "cut: stage %zu: %g microseconds and %g bytes an item, expected from 0",
                             s, stage->us, stage->bytes);
        }
        if ((stage->from >> s) != 0) {
            return error_set(error, AML_EINPUT, "cut: stage %zu reads from itself or from a later stage", s);
        }
    }
    return check_machines(machines, error);
}

cut_set cut_stateless(const struct cut_tree *tree) {
    cut_set stateless = 0;
    for (size_t s = 0; s < tree->count; s++) {
        const struct cut_stage *stage = &tree->stages[s];
        if (!stage->state && (stage->from & ~stateless) == 0) {
            stateless |= bit(s);
        }
    }
    return stateless;
}

bool cut_possible(const struct cut_tree *tree, cut_set feeders) {
    if ((feeders & ~cut_stateless(tree)) != 0) {
        return false;
    }
    for (size_t s = 0; s < tree->count; s++) {
        if ((feeders & bit(s)) != 0 && (tree->stages[s].from & ~feeders) != 0) {
            return false;
        }
    }
    return true;
}

struct cut_cost cut_cost(const struct cut_tree *tree, const struct cut_machines *machines, cut_set feeders) {
    struct cut_cost cost = {0};
    cut_set sent = 0;
    double bytes = 0;
    for (size_t s = 0; s < tree->count; s++) {
        if ((feeders & bit(s)) != 0) {
            cost.feeders_us += tree->stages[s].us;
        } else {
            cost.trainer_us += tree->stages[s].us;
            sent |= tree->stages[s].from & feeders;
        }
    }
    for (size_t s = 0; s < tree->count; s++) {
        bytes += (sent & bit(s)) != 0 ? tree->stages[s].bytes : 0;
    }
    double threads = machines->feeder_cpus * machines->feeders;
    cost.trainer_us = (cost.trainer_us + bytes * machines->receive_us) / machines->trainer_cpus;
    cost.link_us = bytes / machines->link_bytes_us;
    cost.feeders_us = feeders == 0 ? 0 : (cost.feeders_us + bytes * machines->send_us) / threads;
    return cost;
}

double cut_time(const struct cut_cost *cost) {
    return fmax(cost->trainer_us, fmax(cost->link_us, cost->feeders_us));
}

/* ---- Minimum cuts ---- */

/* A flow network. Edge e and edge e ^ 1 are each other's reverse. */
struct network {
    unsigned nodes, edges;
    int first[NODES_MAX]; /* the node's last added edge, -1: none */
    int next[2 * EDGES_MAX];
    uint16_t to[2 * EDGES_MAX];
    double left[2 * EDGES_MAX]; /* capacity that no flow uses */
};

static void network_open(struct network *network, unsigned nodes) {
    network->nodes = nodes;
    network->edges = 0;
    for (unsigned n = 0; n < nodes; n++) {
        network->first[n] = -1;
    }
}

static void add_edge(struct network *network, unsigned from, unsigned to, double capacity) {
    const unsigned ends[] = {from, to};
    for (unsigned side = 0; side < 2; side++) {
        unsigned edge = network->edges++;
        assert(edge < 2 * EDGES_MAX);
        network->to[edge] = (uint16_t)ends[1 - side];
        network->left[edge] = side == 0 ? capacity : 0;
        network->next[edge] = network->first[ends[side]];
        network->first[ends[side]] = (int)edge;
    }
}

/* Finds a shortest path with capacity left. Sets `by` to the edge to each node on the source's side; -1: not
 * reached. */
static bool find_path(const struct network *network, int by[NODES_MAX]) {
    uint16_t queue[NODES_MAX];
    unsigned head = 0;
    unsigned tail = 0;
    for (unsigned n = 0; n < network->nodes; n++) {
        by[n] = -1;
    }
    queue[tail++] = SOURCE;
    by[SOURCE] = 2 * EDGES_MAX; /* reached, by no edge */
    while (head < tail) {
        unsigned node = queue[head++];
        for (int edge = network->first[node]; edge >= 0; edge = network->next[edge]) {
            unsigned to = network->to[edge];
            if (network->left[edge] > 0 && by[to] < 0) {
                by[to] = edge;
                queue[tail++] = (uint16_t)to;
            }
        }
    }
    return by[SINK] >= 0;
}

/* Sends as much as the path to the sink takes. */
static void augment(struct network *network, const int by[NODES_MAX]) {
    double flow = INFINITY;
    for (unsigned n = SINK; n != SOURCE; n = network->to[by[n] ^ 1]) {
        flow = fmin(flow, network->left[by[n]]);
    }
    assert(isfinite(flow));
    for (unsigned n = SINK; n != SOURCE; n = network->to[by[n] ^ 1]) {
        network->left[by[n]] -= flow;
        network->left[by[n] ^ 1] += flow;
    }
}

/* ---- The search ---- */

struct search {
    const struct cut_tree *tree;
    const struct cut_machines *machines;
    cut_set stateless;
    cut_set ancestors[CUT_STAGES]; /* of a stage, itself included: at feeders if it is */
    cut_set heirs[CUT_STAGES];     /* stages that read from it, directly or not, itself included */
    struct network network;
    unsigned min_cuts;
    double bound_us; /* of the cuts that the search has not looked at, as it ended by its limit; INFINITY: none */
    size_t count;
    struct cut found[2 * CUT_CANDIDATES]; /* the fastest first */
};

/* The resources' weights; they add up to 1. */
struct weights {
    double trainer, link, feeders;
};

static void search_open(struct search *search, const struct cut_tree *tree, const struct cut_machines *machines) {
    *search = (struct search){.tree = tree, .machines = machines, .bound_us = INFINITY};
    search->stateless = machines->feeders > 0 ? cut_stateless(tree) : 0;
    for (size_t s = 0; s < tree->count; s++) {
        search->ancestors[s] = bit(s);
        for (size_t p = 0; p < s; p++) {
            search->ancestors[s] |= (tree->stages[s].from & bit(p)) != 0 ? search->ancestors[p] : 0;
        }
        for (size_t p = 0; p <= s; p++) {
            search->heirs[p] |= (search->ancestors[s] & bit(p)) != 0 ? bit(s) : 0;
        }
    }
}

/* Keeps the cut if it is among the best. Of equally fast ones the earlier stays first. */
static void note(struct search *search, cut_set feeders) {
    struct cut cut = {.feeders = feeders, .cost = cut_cost(search->tree, search->machines, feeders)};
    cut.time_us = cut_time(&cut.cost);
    size_t place = search->count;
    for (size_t c = 0; c < search->count; c++) {
        if (search->found[c].feeders == feeders) {
            return;
        }
    }
    for (; place > 0 && cut.time_us < search->found[place - 1].time_us; place--) {
    }
    size_t most = sizeof search->found / sizeof search->found[0];
    if (place == most) {
        return;
    }
    search->count += search->count < most;
    memmove(&search->found[place + 1], &search->found[place], (search->count - place - 1) * sizeof search->found[0]);
    search->found[place] = cut;
}

/* The network whose minimum cut is the least weighted cost, of the cuts with the stages `inside` at feeders and
 * `outside` at the trainers. */
static void build(struct search *search, const struct weights *weights, cut_set inside, cut_set outside) {
    const struct cut_machines *machines = search->machines;
    struct network *network = &search->network;
    size_t count = search->tree->count;
    double trainer = weights->trainer / machines->trainer_cpus;
    double feeders = weights->feeders / (machines->feeder_cpus * machines->feeders);
    double byte =
        trainer * machines->receive_us + weights->link / machines->link_bytes_us + feeders * machines->send_us;
    network_open(network, (unsigned)(NODES + 2 * count));
    for (size_t s = 0; s < count; s++) {
        const struct cut_stage *stage = &search->tree->stages[s];
        unsigned node = (unsigned)(NODES + s);
        add_edge(network, SOURCE, node, (inside & bit(s)) != 0 ? INFINITY : trainer * stage->us);
        add_edge(network, node, SINK, (outside & bit(s)) != 0 ? INFINITY : feeders * stage->us);
        add_edge(network, node, (unsigned)(NODES + count + s), byte * stage->bytes);
        for (size_t p = 0; p < s; p++) {
            if ((stage->from & bit(p)) != 0) {
                add_edge(network, node, (unsigned)(NODES + p), INFINITY);
                add_edge(network, (unsigned)(NODES + count + p), node, INFINITY);
            }
        }
    }
}

static double weighted(const struct weights *weights, const struct cut_cost *cost) {
    return weights->trainer * cost->trainer_us + weights->link * cost->link_us + weights->feeders * cost->feeders_us;
}

/* Returns the cut with the least weighted cost, the fewest stages at feeders among equal ones. */
static cut_set least(struct search *search, const struct weights *weights, cut_set inside, cut_set outside) {
    int by[NODES_MAX];
    cut_set feeders = 0;
    build(search, weights, inside, outside);
    while (find_path(&search->network, by)) {
        augment(&search->network, by);
    }
    for (size_t s = 0; s < search->tree->count; s++) {
        feeders |= by[NODES + s] >= 0 ? bit(s) : 0;
    }
    search->min_cuts++;
    return feeders;
}

/* Moves weight to the resources of which this cut needs most. */
static void lean(struct weights *weights, const struct cut_cost *cost) {
    double time = fmax(cut_time(cost), 1e-300);
    weights->trainer *= exp(cost->trainer_us / time);
    weights->link *= exp(cost->link_us / time);
    weights->feeders *= exp(cost->feeders_us / time);
    double sum = weights->trainer + weights->link + weights->feeders;
    weights->trainer /= sum;
    weights->link /= sum;
    weights->feeders /= sum;
}

/* Returns a time that no cut with these stages inside and outside is below, and adapts the weights. Sets `differ` to
 * the stages that some of the cuts met had at feeders, and others not. */
static double bound(struct search *search, struct weights *weights, cut_set inside, cut_set outside, cut_set *differ) {
    double most = 0;
    cut_set any = 0;
    cut_set all = ~(cut_set)0;
    for (unsigned round = 0; round < ROUNDS && most < search->found[0].time_us * (1 - CUT_TOLERANCE); round++) {
        cut_set feeders = least(search, weights, inside, outside);
        struct cut_cost cost = cut_cost(search->tree, search->machines, feeders);
        note(search, feeders);
        most = fmax(most, weighted(weights, &cost));
        any |= feeders;
        all &= feeders;
        lean(weights, &cost);
    }
    *differ = any & ~all;
    return most;
}

/* Returns the stage to branch over: the one with the most microseconds, of those that `differ` if there are any. */
static size_t choose_stage(const struct search *search, cut_set open, cut_set differ) {
    cut_set among = (open & differ) != 0 ? open & differ : open;
    size_t chosen = CUT_STAGES;
    for (size_t s = 0; s < search->tree->count; s++) {
        if ((among & bit(s)) != 0 &&
            (chosen == CUT_STAGES || search->tree->stages[s].us > search->tree->stages[chosen].us)) {
            chosen = s;
        }
    }
    return chosen;
}

/* Searches the cuts with the stages `inside` at feeders and `outside` at the trainers. Depth: a stage more is decided
 * with each call, so at most CUT_STAGES. */
static void branch(struct search *search, struct weights weights, cut_set inside, cut_set outside) {
    cut_set differ = 0;
    double time = bound(search, &weights, inside, outside, &differ);
    cut_set open = search->stateless & ~inside & ~outside;
    if (time >= search->found[0].time_us * (1 - CUT_TOLERANCE) || open == 0) {
        return;
    }
    if (search->min_cuts >= CUT_MIN_CUTS) {
        search->bound_us = fmin(search->bound_us, time);
        return;
    }
    size_t stage = choose_stage(search, open, differ);
    branch(search, weights, inside | search->ancestors[stage], outside);
    branch(search, weights, inside, outside | search->heirs[stage]);
}

static void search_all(struct search *search) {
    cut_set every = bit(search->tree->count - 1) | (bit(search->tree->count - 1) - 1);
    note(search, 0);
    if (search->stateless != 0) {
        note(search, search->stateless);
        branch(search, (struct weights){1.0 / 3, 1.0 / 3, 1.0 / 3}, 0, every & ~search->stateless);
    }
    double time = search->found[0].time_us;
    for (size_t c = 0; c < search->count; c++) {
        search->found[c].bound_us = fmin(search->bound_us, time * (1 - CUT_TOLERANCE));
    }
}

/* Checks the arguments of the functions below, and searches. */
static int search_checked(struct search *search, const struct cut_tree *tree, const struct cut_machines *machines,
                          struct error *error) {
    int status = cut_check(tree, machines, error);
    if (status == 0) {
        search_open(search, tree, machines);
        search_all(search);
    }
    return status;
}

int cut_choose(const struct cut_tree *tree, const struct cut_machines *machines, struct cut *best,
               struct error *error) {
    struct search search;
    int status = search_checked(&search, tree, machines, error);
    if (status == 0) {
        *best = search.found[0];
    }
    return status;
}

/* Notes the cuts that differ from the best in one stage at the border. */
static void note_neighbours(struct search *search) {
    cut_set best = search->found[0].feeders;
    for (size_t s = 0; s < search->tree->count; s++) {
        cut_set other = best ^ bit(s);
        if (search->machines->feeders > 0 && cut_possible(search->tree, other)) {
            note(search, other);
        }
    }
}

int cut_candidates(const struct cut_tree *tree, const struct cut_machines *machines, struct cut *cuts, size_t *count,
                   struct error *error) {
    struct search search;
    int status = search_checked(&search, tree, machines, error);
    if (status != 0) {
        return status;
    }
    double bound_us = search.found[0].bound_us;
    note_neighbours(&search);
    *count = search.count < CUT_CANDIDATES ? search.count : CUT_CANDIDATES;
    bool alone = false; /* the cut without feeders is among them */
    for (size_t c = 0; c < *count; c++) {
        cuts[c] = search.found[c];
        cuts[c].bound_us = bound_us;
        alone = alone || cuts[c].feeders == 0;
    }
    if (!alone) {
        struct cut *last = &cuts[*count - 1]; /* there are CUT_CANDIDATES, each of them faster */
        *last = (struct cut){.cost = cut_cost(tree, machines, 0), .bound_us = bound_us};
        last->time_us = cut_time(&last->cost);
    }
    return 0;
}
