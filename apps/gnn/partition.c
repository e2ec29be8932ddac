/* See partition.h. The vertices are divided into a few parts, each part again, down to single intervals. So a part of
 * many intervals holds a whole community of the graph, and its intervals lie together in the order.
 *
 * A division streams a group's vertices in breadth-first order. Each goes to the part that has most of its neighbours,
 * weighted by the part's free room: linear deterministic greedy, Stanton and Kliot, KDD 2012, section 3. The stream is
 * repeated with what the last one has assigned: Nishimura and Ugander, KDD 2013. Then vertices move to a part with more
 * of their neighbours while the limits of sizes allow it. */
#include "apps/gnn/partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARTS_MAX = 128, /* of one division */
    GROUPS_MIN = 16, /* parts of a division that does not end at intervals */
    RESTREAMS = 5,
    MOVES = 5,                      /* passes of moves after the streams */
    PASSES = 1 + RESTREAMS + MOVES, /* over a group's vertices in a division */
    SIZE_PERCENT = 3,               /* by which an interval's size may differ from the mean */
    WINDOW = 8,                     /* parts whose edges decide which part comes next */
    LEVELS_MAX = 6                  /* divisions from all vertices down to any number of intervals */
};

static const uint32_t NO_PART = UINT32_MAX;

/* A group's vertices, which become the intervals first..first + intervals - 1. */
struct group {
    uint32_t *members; /* [count]: a piece of divider.order, in breadth-first order */
    uint32_t count, first, intervals;
};

/* The division of a group. While it lasts, marks[v] of its vertices are group.first + part, or NO_PART. */
struct division {
    struct group group;
    uint32_t parts;
    uint32_t firsts[PARTS_MAX + 1]; /* part p becomes the intervals firsts[p]..firsts[p + 1] - 1 */
    uint32_t sizes[PARTS_MAX];
    uint32_t low[PARTS_MAX], high[PARTS_MAX]; /* limits of sizes */
    uint32_t counts[PARTS_MAX];               /* of a vertex's neighbours in each part; zeros in between */
    uint32_t found[PARTS_MAX], found_count;   /* the parts whose counts are not 0 */
};

struct divider {
    const struct graph *graph;
    const struct graph_lists *lists[2];
    unsigned list_count;
    uint32_t intervals;
    uint32_t low, high; /* limits of an interval's size */
    uint32_t *order;    /* [vertices] */
    uint32_t *marks;    /* [vertices]: outside of a division the first interval that a vertex may still get */
    uint32_t *sorted;   /* [vertices]: scratch */
    void (*progress)(void *context, double done);
    void *context;
    double visits, visits_all, visits_told; /* of vertices by passes */
};

static uint32_t smaller(uint32_t one, uint32_t other) {
    return one < other ? one : other;
}

static uint32_t greater(uint32_t one, uint32_t other) {
    return one > other ? one : other;
}

static void divider_visited(struct divider *divider, uint32_t vertices) {
    divider->visits += vertices;
    if (divider->progress != NULL && divider->visits - divider->visits_told > divider->visits_all / 100) {
        divider->visits_told = divider->visits;
        divider->progress(divider->context, divider->visits / divider->visits_all);
    }
}

static uint64_t degree(const struct divider *divider, uint32_t vertex) {
    uint64_t sum = 0;
    for (unsigned l = 0; l < divider->list_count; l++) {
        sum += divider->lists[l]->offsets[vertex + 1] - divider->lists[l]->offsets[vertex];
    }
    return sum;
}

/* ---- The order of the stream ---- */

static void order_from(struct divider *divider, uint32_t root, uint32_t *ordered) {
    uint32_t next = *ordered;
    divider->marks[root] = 0;
    divider->order[(*ordered)++] = root;
    while (next < *ordered) {
        uint32_t v = divider->order[next++];
        for (unsigned l = 0; l < divider->list_count; l++) {
            const struct graph_lists *lists = divider->lists[l];
            for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
                if (divider->marks[lists->ids[e]] == NO_PART) {
                    divider->marks[lists->ids[e]] = 0;
                    divider->order[(*ordered)++] = lists->ids[e];
                }
            }
        }
    }
}

/* Orders the vertices breadth-first, each component from a vertex of few neighbours: roots by the logarithm of their
 * numbers of neighbours, then by number. Vertices without neighbours come last, where they fill up the parts. */
static void order_vertices(struct divider *divider) {
    uint32_t vertices = divider->graph->vertices;
    uint32_t ordered = 0;
    memset(divider->marks, 0xff, vertices * sizeof *divider->marks);
    for (unsigned bits = 0; ordered < vertices && bits < 64; bits++) {
        for (uint32_t v = 0; v < vertices; v++) {
            if (divider->marks[v] == NO_PART && degree(divider, v) >> bits == 1) {
                order_from(divider, v, &ordered);
            }
        }
    }
    for (uint32_t v = 0; v < vertices; v++) {
        if (divider->marks[v] == NO_PART) {
            divider->order[ordered++] = v;
        }
        divider->marks[v] = 0;
    }
}

/* ---- A division ---- */

/* Returns into how many parts a group is divided. */
static uint32_t parts_of(uint32_t intervals) {
    uint32_t parts = (uint32_t)(((uint64_t)intervals + PARTS_MAX - 1) / PARTS_MAX);
    return intervals <= PARTS_MAX ? intervals : smaller(greater(parts, GROUPS_MIN), PARTS_MAX);
}

/* Sets the number of parts, the intervals and the limits of each. The limits add up to those of the group, so its
 * vertices always fit. */
static void division_init(struct division *division, const struct divider *divider, const struct group *group) {
    memset(division, 0, sizeof *division);
    division->group = *group;
    division->parts = parts_of(group->intervals);
    for (uint64_t p = 0; p <= division->parts; p++) {
        division->firsts[p] = group->first + (uint32_t)(p * group->intervals / division->parts);
    }
    for (uint32_t p = 0; p < division->parts; p++) {
        uint64_t intervals = division->firsts[p + 1] - division->firsts[p];
        division->low[p] = (uint32_t)(intervals * divider->low);
        division->high[p] = (uint32_t)(intervals * divider->high);
    }
}

static void count_neighbours(struct division *division, const struct divider *divider, uint32_t vertex) {
    uint32_t first = division->group.first;
    division->found_count = 0;
    for (unsigned l = 0; l < divider->list_count; l++) {
        const struct graph_lists *lists = divider->lists[l];
        for (uint64_t e = lists->offsets[vertex]; e < lists->offsets[vertex + 1]; e++) {
            uint32_t part = divider->marks[lists->ids[e]] - first;
            if (part < division->parts && division->counts[part]++ == 0) {
                division->found[division->found_count++] = part;
            }
        }
    }
}

static void clear_counts(struct division *division) {
    for (uint32_t f = 0; f < division->found_count; f++) {
        division->counts[division->found[f]] = 0;
    }
}

static double room(const struct division *division, uint32_t part) {
    return 1 - (double)division->sizes[part] / division->high[part];
}

/* Returns the part with most room. */
static uint32_t roomiest_part(const struct division *division) {
    uint32_t best = 0;
    for (uint32_t p = 1; p < division->parts; p++) {
        best = room(division, p) > room(division, best) ? p : best;
    }
    return best;
}

/* Returns the part for a vertex whose neighbours are counted. */
static uint32_t greedy_part(const struct division *division) {
    uint32_t best = NO_PART;
    double best_score = 0;
    for (uint32_t f = 0; f < division->found_count; f++) {
        uint32_t part = division->found[f];
        double score = division->counts[part] * room(division, part);
        if (score > best_score || (score == best_score && score > 0 && part < best)) {
            best = part;
            best_score = score;
        }
    }
    return best != NO_PART ? best : roomiest_part(division);
}

static void stream(struct division *division, struct divider *divider) {
    memset(division->sizes, 0, sizeof division->sizes);
    for (uint32_t i = 0; i < division->group.count; i++) {
        uint32_t v = division->group.members[i];
        count_neighbours(division, divider, v);
        uint32_t part = greedy_part(division);
        clear_counts(division);
        divider->marks[v] = division->group.first + part;
        division->sizes[part]++;
    }
    divider_visited(divider, division->group.count);
}

/* Returns the part to which a vertex of `own` moves, with as many neighbours or more: `own`, if there is none. */
static uint32_t better_part(const struct division *division, uint32_t own) {
    uint32_t best = own;
    uint32_t most = division->counts[own];
    for (uint32_t f = 0; f < division->found_count; f++) {
        uint32_t part = division->found[f];
        bool gains = division->counts[part] > most ||
                     (division->counts[part] == most && division->sizes[part] + 1 < division->sizes[best]);
        if (part != own && division->sizes[part] < division->high[part] && gains) {
            best = part;
            most = division->counts[part];
        }
    }
    return best;
}

static void move(struct division *division, struct divider *divider, uint32_t vertex, uint32_t part) {
    division->sizes[divider->marks[vertex] - division->group.first]--;
    division->sizes[part]++;
    divider->marks[vertex] = division->group.first + part;
}

static void move_vertices(struct division *division, struct divider *divider) {
    for (uint32_t i = 0; i < division->group.count; i++) {
        uint32_t v = division->group.members[i];
        uint32_t own = divider->marks[v] - division->group.first;
        if (division->sizes[own] > division->low[own]) {
            count_neighbours(division, divider, v);
            uint32_t part = better_part(division, own);
            clear_counts(division);
            if (part != own) {
                move(division, divider, v, part);
            }
        }
    }
    divider_visited(divider, division->group.count);
}

/* Returns a part below its limit: that with most of the counted neighbours; NO_PART, if there is none. */
static uint32_t lacking_part(const struct division *division, bool neighbours) {
    uint32_t best = NO_PART;
    for (uint32_t p = 0; p < division->parts; p++) {
        if (division->sizes[p] < division->low[p] && (!neighbours || division->counts[p] > 0) &&
            (best == NO_PART || division->counts[p] > division->counts[best])) {
            best = p;
        }
    }
    return best;
}

/* Moves vertices to parts below their limits: in a first pass neighbours of these parts, then any. After the second
 * pass no part lacks vertices: some part would still be above its limit, and have given its vertices. */
static void fill_parts(struct division *division, struct divider *divider) {
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < division->group.count && lacking_part(division, false) != NO_PART; i++) {
            uint32_t v = division->group.members[i];
            uint32_t own = divider->marks[v] - division->group.first;
            if (division->sizes[own] > division->low[own]) {
                count_neighbours(division, divider, v);
                uint32_t part = lacking_part(division, pass == 0);
                clear_counts(division);
                if (part != NO_PART) {
                    move(division, divider, v, part);
                }
            }
        }
    }
    assert(lacking_part(division, false) == NO_PART);
}

/* ---- The order of the parts ---- */

/* Edges of each part with the others, and with the intervals before the group. */
struct weights {
    uint64_t between[PARTS_MAX][PARTS_MAX];
    uint64_t before[PARTS_MAX];
};

static void weigh_parts(const struct division *division, const struct divider *divider, struct weights *weights) {
    const struct group *group = &division->group;
    uint32_t before = smaller(WINDOW * (group->intervals / division->parts), group->first);
    memset(weights, 0, sizeof *weights);
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t v = group->members[i];
        uint32_t own = divider->marks[v] - group->first;
        for (unsigned l = 0; l < divider->list_count; l++) {
            const struct graph_lists *lists = divider->lists[l];
            for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
                uint32_t mark = divider->marks[lists->ids[e]];
                if (mark - group->first < division->parts) {
                    weights->between[own][mark - group->first]++;
                } else if (mark - (group->first - before) < before) {
                    weights->before[own]++;
                }
            }
        }
    }
}

/* Sets chain[parts] to the parts in a new order: each has most edges with the WINDOW parts before it. */
static void chain_parts(const struct division *division, const struct weights *weights, uint32_t *chain) {
    bool used[PARTS_MAX] = {false};
    for (uint32_t at = 0; at < division->parts; at++) {
        uint32_t best = NO_PART;
        uint64_t most = 0;
        for (uint32_t p = 0; p < division->parts; p++) {
            uint64_t sum = at < WINDOW ? weights->before[p] : 0;
            for (uint32_t w = at > WINDOW ? at - WINDOW : 0; w < at; w++) {
                sum += weights->between[p][chain[w]];
            }
            if (!used[p] && (best == NO_PART || sum > most)) {
                best = p;
                most = sum;
            }
        }
        used[best] = true;
        chain[at] = best;
    }
}

/* Puts the parts into their new order. `rank` becomes the new number of each. */
static void reorder_parts(struct division *division, const uint32_t *chain, uint32_t *rank) {
    uint32_t sizes[PARTS_MAX];
    uint32_t intervals[PARTS_MAX];
    for (uint32_t at = 0; at < division->parts; at++) {
        uint32_t part = chain[at];
        rank[part] = at;
        sizes[at] = division->sizes[part];
        intervals[at] = division->firsts[part + 1] - division->firsts[part];
    }
    for (uint32_t p = 0; p < division->parts; p++) {
        division->sizes[p] = sizes[p];
        division->firsts[p + 1] = division->firsts[p] + intervals[p];
    }
}

/* Sorts the members by their parts' new numbers, and sets their marks to the first interval of their part. */
static void sort_members(struct division *division, struct divider *divider, const uint32_t *rank) {
    const struct group *group = &division->group;
    uint32_t ends[PARTS_MAX];
    uint32_t sum = 0;
    for (uint32_t p = 0; p < division->parts; p++) {
        ends[p] = sum;
        sum += division->sizes[p];
    }
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t v = group->members[i];
        uint32_t part = rank[divider->marks[v] - group->first];
        divider->sorted[ends[part]++] = v;
        divider->marks[v] = division->firsts[part];
    }
    memcpy(group->members, divider->sorted, group->count * sizeof *group->members);
}

/* ---- All divisions ---- */

struct workspace {
    struct weights weights;
    struct group groups[PARTS_MAX * LEVELS_MAX]; /* still to be divided, the last one next */
    uint32_t count;
};

/* Divides a group, and adds its parts to those still to be divided. */
static void divide(struct divider *divider, const struct group *group, struct workspace *workspace) {
    struct division division;
    uint32_t chain[PARTS_MAX];
    uint32_t rank[PARTS_MAX];
    division_init(&division, divider, group);
    for (uint32_t i = 0; i < group->count; i++) {
        divider->marks[group->members[i]] = NO_PART;
    }
    for (unsigned pass = 0; pass <= RESTREAMS; pass++) {
        stream(&division, divider);
    }
    for (unsigned pass = 0; pass < MOVES; pass++) {
        move_vertices(&division, divider);
    }
    fill_parts(&division, divider);
    weigh_parts(&division, divider, &workspace->weights);
    chain_parts(&division, &workspace->weights, chain);
    reorder_parts(&division, chain, rank);
    sort_members(&division, divider, rank);
    uint32_t end = group->count;
    for (uint32_t p = division.parts; p-- > 0;) {
        end -= division.sizes[p];
        workspace->groups[workspace->count++] = (struct group){
            group->members + end, division.sizes[p], division.firsts[p], division.firsts[p + 1] - division.firsts[p]};
    }
}

/* Sets the partition's order and firsts. */
static void divide_all(struct divider *divider, struct graph_partition *partition, struct workspace *workspace) {
    workspace->groups[0] = (struct group){divider->order, divider->graph->vertices, 0, divider->intervals};
    workspace->count = 1;
    while (workspace->count > 0) {
        struct group group = workspace->groups[--workspace->count];
        if (group.intervals > 1) {
            divide(divider, &group, workspace);
        } else {
            partition->firsts[group.first] = (uint32_t)(group.members - divider->order);
        }
    }
    partition->firsts[divider->intervals] = divider->graph->vertices;
}

/* ---- Figures ---- */

/* Sets `cut` and `ghosts`. `seen` is scratch: [vertices]. marks[v] is the interval of v. */
static void count_cut(const struct divider *divider, struct graph_partition *partition, uint32_t *seen) {
    memset(seen, 0xff, divider->graph->vertices * sizeof *seen);
    partition->cut = 0;
    partition->ghosts = 0;
    for (uint32_t at = 0; at < divider->graph->vertices; at++) {
        uint32_t v = partition->order[at];
        uint32_t own = divider->marks[v];
        for (unsigned l = 0; l < divider->list_count; l++) {
            const struct graph_lists *lists = divider->lists[l];
            for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
                uint32_t u = lists->ids[e];
                bool outside = divider->marks[u] != own;
                partition->cut += outside && l == 0;
                partition->ghosts += outside && seen[u] != own;
                seen[u] = outside ? own : seen[u];
            }
        }
    }
}

static void run(struct divider *divider, struct graph_partition *partition, struct workspace *workspace) {
    uint32_t vertices = divider->graph->vertices;
    uint64_t mean = vertices / divider->intervals;
    uint64_t high = (uint64_t)vertices * (100 + SIZE_PERCENT) / 100 / divider->intervals;
    uint64_t low = (uint64_t)vertices * (100 - SIZE_PERCENT) / 100 / divider->intervals;
    divider->low = (uint32_t)(low < mean ? low + 1 : mean);
    divider->high = (uint32_t)(high * divider->intervals < vertices ? mean + 1 : high);
    divider->visits_all = 1;
    for (uint32_t left = divider->intervals; left > 1; left = left / parts_of(left) + (left % parts_of(left) != 0)) {
        divider->visits_all += (double)PASSES * vertices;
    }
    order_vertices(divider);
    divide_all(divider, partition, workspace);
    count_cut(divider, partition, divider->sorted);
    for (uint32_t at = 0; at < vertices; at++) {
        partition->place[partition->order[at]] = at;
    }
    if (divider->progress != NULL) {
        divider->progress(divider->context, 1);
    }
}

int graph_partition_make(const struct graph *graph, uint32_t intervals, struct graph_partition *partition,
                         void (*progress)(void *context, double done), void *context, struct error *error) {
    assert(intervals >= 1 && intervals <= graph->vertices);
    size_t vertices = graph->vertices;
    *partition = (struct graph_partition){.order = malloc(vertices * sizeof *partition->order),
                                          .place = malloc(vertices * sizeof *partition->place),
                                          .firsts = malloc((intervals + (size_t)1) * sizeof *partition->firsts),
                                          .intervals = intervals};
    struct divider divider = {.graph = graph,
                              .lists = {&graph->in, &graph->out},
                              .list_count = graph->directed ? 2 : 1,
                              .intervals = intervals,
                              .order = partition->order,
                              .marks = malloc(vertices * sizeof *divider.marks),
                              .sorted = partition->place,
                              .progress = progress,
                              .context = context};
    struct workspace *workspace = malloc(sizeof *workspace);
    bool got = partition->order != NULL && partition->place != NULL && partition->firsts != NULL &&
               divider.marks != NULL && workspace != NULL;
    if (got) {
        run(&divider, partition, workspace);
    } else {
        graph_partition_close(partition);
        error_set(error, AML_ENOMEM, "no memory to divide %zu vertices into intervals", vertices);
    }
    free(divider.marks);
    free(workspace);
    return got ? 0 : AML_ENOMEM;
}

void graph_partition_close(struct graph_partition *partition) {
    free(partition->order);
    free(partition->place);
    free(partition->firsts);
    *partition = (struct graph_partition){.order = NULL};
}

int graph_partition_split(struct graph_partition *partition, uint32_t k, struct error *error) {
    assert(k < partition->intervals && partition->firsts[k + 1] - partition->firsts[k] >= 2);
    size_t count = partition->intervals + (size_t)2;
    uint32_t *firsts = realloc(partition->firsts, count * sizeof *firsts);
    if (firsts == NULL) {
        return error_set(error, AML_ENOMEM, "no memory for %zu intervals", count);
    }
    memmove(firsts + k + 2, firsts + k + 1, (partition->intervals - k) * sizeof *firsts);
    firsts[k + 1] = firsts[k] + (firsts[k + 2] - firsts[k]) / 2;
    partition->firsts = firsts;
    partition->intervals++;
    return 0;
}
