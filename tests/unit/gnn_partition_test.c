/* apps/gnn/partition.c: every vertex has one place, sizes are about equal, the cut and the ghosts are what the lists
 * say and far below those of other divisions, and the same graph gives the same result. */
#include "apps/gnn/partition.h"

#include "agileml/base/memory.h"
#include "tests/test.h"
#include "tests/unit/gnn_graphs.h"

static const struct graphs_kind blocks = {.vertices = 4000, .edges = 30000, .blocks = 16, .isolated = 37, .seed = 1};

static void divide(const struct graph *graph, uint32_t intervals, struct graph_partition *partition) {
    struct error error = {0};
    assert_int_equal(graph_partition_make(graph, intervals, partition, NULL, NULL, &error), 0);
    assert_int_equal(partition->intervals, intervals);
}

/* Asserts that places are a permutation, and that interval sizes are from `low` to `high`. */
static void assert_places(const struct graph *graph, const struct graph_partition *partition, uint32_t low,
                          uint32_t high) {
    FREED bool *seen = memory_zeroed(graph->vertices, sizeof *seen);
    for (uint32_t at = 0; at < graph->vertices; at++) {
        assert_in_range(partition->order[at], 0, graph->vertices - 1);
        assert_false(seen[partition->order[at]]);
        seen[partition->order[at]] = true;
        assert_int_equal(partition->place[partition->order[at]], at);
    }
    assert_int_equal(partition->firsts[0], 0);
    assert_int_equal(partition->firsts[partition->intervals], graph->vertices);
    for (uint32_t k = 0; k < partition->intervals; k++) {
        assert_true(partition->firsts[k + 1] > partition->firsts[k]);
        assert_in_range(partition->firsts[k + 1] - partition->firsts[k], low, high);
    }
}

/* Counts ghosts the slow way: marks[interval][vertex]. */
static uint64_t ghosts_of(const struct graph *graph, const uint32_t *interval, uint32_t intervals, uint64_t *cut) {
    FREED bool *marks = memory_zeroed((size_t)graph->vertices * intervals, sizeof *marks);
    const struct graph_lists *lists[2] = {&graph->in, &graph->out};
    uint64_t ghosts = 0;
    *cut = 0;
    for (uint32_t v = 0; v < graph->vertices; v++) {
        for (unsigned l = 0; l < (graph->directed ? 2 : 1); l++) {
            for (uint64_t e = lists[l]->offsets[v]; e < lists[l]->offsets[v + 1]; e++) {
                uint32_t u = lists[l]->ids[e];
                bool *mark = &marks[(size_t)interval[v] * graph->vertices + u];
                *cut += interval[u] != interval[v] && l == 0;
                ghosts += interval[u] != interval[v] && !*mark;
                *mark = true;
            }
        }
    }
    return ghosts;
}

static uint32_t *intervals_of(const struct graph *graph, const struct graph_partition *partition) {
    uint32_t *interval = memory_zeroed(graph->vertices, sizeof *interval);
    for (uint32_t k = 0; k < partition->intervals; k++) {
        for (uint32_t at = partition->firsts[k]; at < partition->firsts[k + 1]; at++) {
            interval[partition->order[at]] = k;
        }
    }
    return interval;
}

static void assert_figures(const struct graph *graph, const struct graph_partition *partition) {
    FREED uint32_t *interval = intervals_of(graph, partition);
    uint64_t cut;
    assert_int_equal(ghosts_of(graph, interval, partition->intervals, &cut), partition->ghosts);
    assert_int_equal(cut, partition->cut);
}

/* Numbers of intervals on both sides of the numbers of parts and levels. */
TEST(places_and_figures) {
    static const uint32_t intervals[] = {1, 2, 3, 16, 100, 127, 128, 129, 500, 2000, 2049};
    for (unsigned directed = 0; directed < 2; directed++) {
        struct graphs_kind kind = blocks;
        kind.directed = directed == 1;
        CLOSED_BY(graphs_close) struct graph graph;
        graphs_make(&graph, &kind);
        for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
            CLOSED_BY(graph_partition_close) struct graph_partition partition;
            uint32_t mean = kind.vertices / intervals[i];
            divide(&graph, intervals[i], &partition);
            assert_places(&graph, &partition, mean - mean * 3 / 100, mean + 1 + mean * 3 / 100);
            assert_figures(&graph, &partition);
        }
    }
}

TEST(one_vertex_an_interval) {
    const struct graphs_kind kind = {.vertices = 5000, .edges = 9000, .blocks = 1, .isolated = 5, .seed = 2};
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    graphs_make(&graph, &kind);
    divide(&graph, kind.vertices, &partition);
    assert_places(&graph, &partition, 1, 1);
    assert_int_equal(partition.cut, graph.in.offsets[kind.vertices]);
    assert_int_equal(partition.ghosts, graph.in.offsets[kind.vertices]);
}

TEST(no_edges) {
    const struct graphs_kind kind = {.vertices = 1000, .blocks = 1};
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    graphs_make(&graph, &kind);
    divide(&graph, 7, &partition);
    assert_places(&graph, &partition, 142, 143);
    assert_int_equal(partition.cut, 0);
    assert_int_equal(partition.ghosts, 0);
}

/* A vertex joined with all others, and another that all others join. */
TEST(hubs) {
    enum { VERTICES = 3000 };
    CLOSED_BY(graphs_close) struct graph graph = {.vertices = VERTICES};
    FREED uint32_t *pairs = memory_zeroed(4 * (size_t)VERTICES, sizeof *pairs);
    for (uint32_t v = 0; v < VERTICES; v++) {
        memcpy(pairs + 4 * (size_t)v, (uint32_t[]){1234, v, v, 77}, 4 * sizeof *pairs);
    }
    graphs_set_edges(&graph, pairs, 2 * VERTICES, true);
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    divide(&graph, 30, &partition);
    assert_places(&graph, &partition, 97, 103);
    assert_figures(&graph, &partition);
}

/* Separate cliques of an interval's size are found whole, in any order of vertices. */
TEST(cliques_are_not_cut) {
    enum { CLIQUES = 40, SIZE = 25, VERTICES = CLIQUES * SIZE };
    CLOSED_BY(graphs_close) struct graph graph = {.vertices = VERTICES};
    FREED uint32_t *pairs = memory_zeroed(2 * (size_t)VERTICES * SIZE, sizeof *pairs);
    for (uint32_t v = 0; v < VERTICES; v++) {
        for (uint32_t i = 0; i < SIZE; i++) {
            memcpy(pairs + 2 * ((size_t)v * SIZE + i), (uint32_t[]){v, v % CLIQUES + i * CLIQUES}, 2 * sizeof *pairs);
        }
    }
    graphs_set_edges(&graph, pairs, VERTICES * SIZE, false);
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    divide(&graph, CLIQUES, &partition);
    assert_places(&graph, &partition, SIZE, SIZE);
    assert_int_equal(partition.cut, 0);
}

/* A grid in a random order of ids: few edges are cut, and an interval's neighbours in the order are its neighbours in
 * the grid. */
TEST(neighbours_come_together) {
    enum { SIDE = 128, VERTICES = SIDE * SIDE, STEP = 7919 /* prime */, INTERVALS = 128 };
    CLOSED_BY(graphs_close) struct graph graph = {.vertices = VERTICES};
    FREED uint32_t *pairs = memory_zeroed(4 * (size_t)VERTICES, sizeof *pairs);
    uint32_t count = 0;
    for (uint32_t at = 0; at < VERTICES; at++) {
        uint32_t right = at % SIDE + 1 < SIDE ? at + 1 : at;
        uint32_t below = at + SIDE < VERTICES ? at + SIDE : at;
        uint32_t id = at * STEP % VERTICES;
        memcpy(pairs + 2 * (size_t)count++, (uint32_t[]){id, right * STEP % VERTICES}, 2 * sizeof *pairs);
        memcpy(pairs + 2 * (size_t)count++, (uint32_t[]){id, below * STEP % VERTICES}, 2 * sizeof *pairs);
    }
    graphs_set_edges(&graph, pairs, count, false);
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    divide(&graph, INTERVALS, &partition);
    assert_places(&graph, &partition, 124, 131);
    uint64_t edges = graph.in.offsets[VERTICES];
    assert_true(partition.cut < edges * 30 / 100); /* squares of 128 vertices: 18 %; random: 99 % */
    FREED uint32_t *interval = intervals_of(&graph, &partition);
    uint64_t district_cut = 0;
    for (uint32_t v = 0; v < VERTICES; v++) {
        for (uint64_t e = graph.in.offsets[v]; e < graph.in.offsets[v + 1]; e++) {
            district_cut += interval[graph.in.ids[e]] / 8 != interval[v] / 8;
        }
    }
    assert_true(district_cut < partition.cut * 60 / 100);
}

TEST(fewer_ghosts_than_other_orders) {
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    graphs_make(&graph, &blocks);
    divide(&graph, 16, &partition);
    FREED uint32_t *interval = memory_zeroed(graph.vertices, sizeof *interval);
    uint64_t cut;
    for (uint32_t v = 0; v < graph.vertices; v++) {
        interval[v] = v % 16; /* the blocks */
    }
    uint64_t of_blocks = ghosts_of(&graph, interval, 16, &cut);
    for (uint32_t v = 0; v < graph.vertices; v++) {
        interval[v] = v / 250;
    }
    uint64_t of_ids = ghosts_of(&graph, interval, 16, &cut);
    assert_true(partition.ghosts * 100 < of_blocks * 105);
    assert_true(partition.ghosts * 2 < of_ids);
}

struct steps {
    double last;
    unsigned count;
};

static void step(void *context, double done) {
    struct steps *steps = context;
    assert_true(done >= steps->last && done <= 1);
    steps->last = done;
    steps->count++;
}

TEST(the_same_twice_with_progress) {
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition one;
    CLOSED_BY(graph_partition_close) struct graph_partition other;
    struct steps steps = {.last = 0};
    struct error error = {0};
    graphs_make(&graph, &blocks);
    divide(&graph, 100, &one);
    assert_int_equal(graph_partition_make(&graph, 100, &other, step, &steps, &error), 0);
    assert_memory_equal(one.order, other.order, graph.vertices * sizeof *one.order);
    assert_memory_equal(one.firsts, other.firsts, 101 * sizeof *one.firsts);
    assert_true(steps.last == 1 && steps.count > 10);
}

TEST(splitting) {
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    struct error error = {0};
    graphs_make(&graph, &blocks);
    divide(&graph, 3, &partition);
    uint32_t firsts[4];
    memcpy(firsts, partition.firsts, sizeof firsts);
    assert_int_equal(graph_partition_split(&partition, 1, &error), 0);
    assert_int_equal(partition.intervals, 4);
    assert_int_equal(partition.firsts[1], firsts[1]);
    assert_in_range(partition.firsts[2] - firsts[1], (firsts[2] - firsts[1]) / 2, (firsts[2] - firsts[1] + 1) / 2);
    assert_int_equal(partition.firsts[3], firsts[2]);
    assert_int_equal(partition.firsts[4], firsts[3]);
    assert_int_equal(graph_partition_split(&partition, 3, &error), 0);
    assert_int_equal(partition.firsts[5], graph.vertices);
    assert_places(&graph, &partition, 600, 1400);
}
