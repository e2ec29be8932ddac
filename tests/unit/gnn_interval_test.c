/* apps/gnn/interval.c: an interval's view has what the graph has, for every form; bytes that are damaged or belong to
 * another graph are refused with one line, or are as safe as whole ones. */
#include "apps/gnn/interval.h"

#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "tests/test.h"
#include "tests/unit/gnn_graphs.h"

#include <math.h>

enum { BOTH = INTERVAL_FEATURES | INTERVAL_AGGREGATED };

static const struct graphs_kind sparse = {.vertices = 900,
                                          .edges = 3000,
                                          .blocks = 4,
                                          .isolated = 11,
                                          .columns = 300,
                                          .classes = 5,
                                          .aggregated = true,
                                          .seed = 1};

static struct interval_limits limits_of(const struct graph *graph, const struct graph_partition *partition,
                                        unsigned carried) {
    return (struct interval_limits){.vertices = graph->vertices,
                                    .intervals = partition->intervals,
                                    .classes = graph->classes,
                                    .columns = carried != 0 ? graph->features.columns : 0,
                                    .directed = graph->directed,
                                    .carried = carried,
                                    .dense = (carried & INTERVAL_FEATURES) != 0 && graph->features.dense,
                                    .aggregated_dense =
                                        (carried & INTERVAL_AGGREGATED) != 0 && graph->aggregated.dense};
}

static uint32_t element(const void *array, bool wide, uint32_t at) {
    return wide ? ((const uint32_t *)array)[at] : ((const uint16_t *)array)[at];
}

/* The lists of an interval, back as lists of vertices, are the graph's. */
static void assert_lists(const struct interval *interval, const struct graph_partition *partition,
                         const struct nn_lists *lists, const struct graph_lists *expected, uint32_t vertices) {
    FREED bool *named = memory_zeroed(vertices, sizeof *named);
    assert_int_equal(lists->n, interval->own);
    for (uint32_t i = 0; i < interval->own; i++) {
        uint32_t v = partition->order[interval->first + i];
        assert_int_equal(lists->offsets[i + 1] - lists->offsets[i], expected->offsets[v + 1] - expected->offsets[v]);
        for (uint32_t e = lists->offsets[i]; e < lists->offsets[i + 1]; e++) {
            uint32_t id = element(lists->ids, lists->wide, e);
            uint32_t place = id < interval->own ? interval->first + id : interval->ghost_places[id - interval->own];
            named[partition->order[place]] = true;
            assert_true(e == lists->offsets[i] || element(lists->ids, lists->wide, e - 1) < id);
        }
        for (uint64_t e = expected->offsets[v]; e < expected->offsets[v + 1]; e++) {
            assert_true(named[expected->ids[e]]);
            named[expected->ids[e]] = false;
        }
    }
}

static void assert_features(const struct interval *interval, const struct graph_partition *partition,
                            const struct nn_features *features, const struct graph_features *expected) {
    assert_int_equal(features->n, interval->own);
    assert_int_equal(features->columns, expected->columns);
    assert_int_equal(features->dense, expected->dense);
    for (uint32_t i = 0; i < interval->own; i++) {
        uint64_t v = partition->order[interval->first + i];
        if (expected->dense) {
            size_t row = expected->columns * sizeof(float);
            assert_memory_equal(features->values + (size_t)i * expected->columns,
                                expected->values + v * expected->columns, row);
            continue;
        }
        uint64_t count = expected->offsets[v + 1] - expected->offsets[v];
        assert_int_equal(features->offsets[i + 1] - features->offsets[i], count);
        for (uint32_t e = 0; e < count; e++) {
            uint32_t at = features->offsets[i] + e;
            assert_int_equal(element(features->at, features->wide, at), expected->at[expected->offsets[v] + e]);
            assert_true(features->values[at] == expected->values[expected->offsets[v] + e]);
        }
    }
}

static void assert_interval(const struct graph *graph, const struct graph_partition *partition,
                            const struct interval *interval, unsigned carried) {
    assert_int_equal(interval->first, partition->firsts[interval->number]);
    assert_int_equal(interval->own, partition->firsts[interval->number + 1] - interval->first);
    assert_lists(interval, partition, &interval->in, &graph->in, graph->vertices);
    assert_lists(interval, partition, &interval->out, graph->directed ? &graph->out : &graph->in, graph->vertices);
    for (uint32_t i = 0; i < interval->own; i++) {
        uint32_t v = partition->order[interval->first + i];
        assert_int_equal(interval->labels[i], graph->labels != NULL ? graph->labels[v] : -1);
        assert_int_equal(interval->splits[i], graph->splits != NULL ? graph->splits[v] : GRAPH_UNUSED);
    }
    if ((carried & INTERVAL_FEATURES) != 0 && graph->features.columns > 0) {
        assert_features(interval, partition, &interval->features, &graph->features);
    } else {
        assert_int_equal(interval->features.columns, 0);
    }
    if ((carried & INTERVAL_AGGREGATED) != 0 && graph->features.columns > 0) {
        assert_features(interval, partition, &interval->aggregated, &graph->aggregated);
    } else {
        assert_int_equal(interval->aggregated.columns, 0);
    }
}

/* Encodes, checks and views all intervals; their ghosts are those of the partition. Returns whether ids are wide. */
static bool assert_round_trip(const struct graphs_kind *kind, uint32_t intervals, unsigned carried) {
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    struct interval_bytes bytes = {.bytes = NULL};
    struct error error = {0};
    uint64_t ghosts = 0;
    bool wide = false;
    graphs_make(&graph, kind);
    assert_int_equal(graph_partition_make(&graph, intervals, &partition, NULL, NULL, &error), 0);
    struct interval_limits limits = limits_of(&graph, &partition, carried);
    for (uint32_t k = 0; k < intervals; k++) {
        struct interval interval;
        assert_int_equal(interval_encode(&graph, &partition, k, carried, &bytes, &error), 0);
        int result = interval_check(bytes.bytes, bytes.size, &limits, &error);
        assert_string_equal(error.text, "");
        assert_int_equal(result, 0);
        interval_view(bytes.bytes, &interval);
        assert_int_equal(interval.number, k);
        assert_interval(&graph, &partition, &interval, carried);
        ghosts += interval.ghosts;
        wide = wide || interval.in.wide;
    }
    assert_int_equal(ghosts, partition.ghosts);
    free(bytes.bytes);
    return wide;
}

TEST(round_trips) {
    for (unsigned form = 0; form < 8; form++) {
        struct graphs_kind kind = sparse;
        kind.directed = (form & 1) != 0;
        kind.dense = (form & 2) != 0;
        kind.classes = (form & 4) != 0 ? 0 : 5; /* no labels */
        for (unsigned carried = 0; carried <= BOTH; carried++) {
            assert_false(assert_round_trip(&kind, 7, carried));
        }
    }
}

TEST(one_interval_and_one_vertex_each) {
    struct graphs_kind kind = sparse;
    assert_false(assert_round_trip(&kind, 1, BOTH));
    kind.vertices = 60;
    assert_false(assert_round_trip(&kind, 60, BOTH));
}

TEST(no_features) {
    struct graphs_kind kind = sparse;
    kind.columns = 0;
    assert_false(assert_round_trip(&kind, 5, 0));
    assert_false(assert_round_trip(&kind, 5, BOTH));
}

/* Columns on both sides of 16 bits. */
TEST(wide_columns) {
    for (uint32_t columns = 65536; columns <= 65537; columns++) {
        struct graphs_kind kind = sparse;
        kind.columns = columns;
        assert_round_trip(&kind, 7, BOTH);
    }
}

/* Local numbers on both sides of 16 bits. */
TEST(wide_ids) {
    struct graphs_kind kind = {.vertices = 65536, .edges = 10000, .blocks = 1, .seed = 3};
    assert_false(assert_round_trip(&kind, 1, 0));
    kind.vertices = 65537;
    assert_true(assert_round_trip(&kind, 1, 0));
}

/* Own vertices and ghosts need more than 16 bits together. */
TEST(wide_with_ghosts) {
    const struct graphs_kind kind = {.vertices = 80000, .edges = 20000, .blocks = 1, .seed = 3};
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    struct interval_bytes bytes = {.bytes = NULL};
    struct interval interval;
    struct error error = {0};
    graphs_make(&graph, &kind);
    assert_int_equal(graph_partition_make(&graph, 1, &partition, NULL, NULL, &error), 0);
    assert_int_equal(graph_partition_split(&partition, 0, &error), 0);
    struct interval_limits limits = limits_of(&graph, &partition, 0);
    unsigned wide = 0;
    for (uint32_t own = 60000; own <= 65536; own += 692) { /* vertices without edges are the last in the order */
        partition.firsts[1] = kind.vertices - own;
        assert_int_equal(interval_encode(&graph, &partition, 1, 0, &bytes, &error), 0);
        assert_int_equal(interval_check(bytes.bytes, bytes.size, &limits, &error), 0);
        interval_view(bytes.bytes, &interval);
        assert_int_equal(interval.in.wide, own + interval.ghosts > 65536);
        assert_interval(&graph, &partition, &interval, 0);
        wide += interval.in.wide;
    }
    assert_in_range(wide, 1, 8);
    assert_true(interval.ghosts > 0 && interval.in.wide);
    free(bytes.bytes);
}

/* An interval above the limit of items reports its size, or a lower bound, and is not encoded. */
TEST(too_large) {
    struct graphs_kind kind = sparse;
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    struct interval_bytes bytes = {.bytes = NULL};
    struct error error = {0};
    kind.dense = true;
    graphs_make(&graph, &kind);
    assert_int_equal(graph_partition_make(&graph, 1, &partition, NULL, NULL, &error), 0);
    assert_int_equal(interval_encode(&graph, &partition, 0, INTERVAL_FEATURES, &bytes, &error), 0);
    assert_true(bytes.size > AML_ITEM_BYTES_MAX && bytes.bytes == NULL);
    assert_true(bytes.size >= 900 * 300 * sizeof(float));
    assert_int_equal(graph_partition_split(&partition, 0, &error), 0);
    for (uint32_t k = 0; k < 2; k++) {
        assert_int_equal(interval_encode(&graph, &partition, k, INTERVAL_FEATURES, &bytes, &error), 0);
        assert_true(bytes.size < AML_ITEM_BYTES_MAX);
    }
    free(bytes.bytes);
}

/* A vertex whose label is not known is in no split. */
TEST(splits_without_labels) {
    CLOSED_BY(graphs_close) struct graph graph;
    CLOSED_BY(graph_partition_close) struct graph_partition partition;
    struct interval_bytes bytes = {.bytes = NULL};
    struct interval interval;
    struct error error = {0};
    graphs_make(&graph, &sparse);
    memset(graph.splits, GRAPH_TEST, graph.vertices);
    assert_int_equal(graph_partition_make(&graph, 1, &partition, NULL, NULL, &error), 0);
    assert_int_equal(interval_encode(&graph, &partition, 0, 0, &bytes, &error), 0);
    interval_view(bytes.bytes, &interval);
    for (uint32_t i = 0; i < interval.own; i++) {
        assert_int_equal(interval.splits[i], interval.labels[i] >= 0 ? GRAPH_TEST : GRAPH_UNUSED);
    }
    free(bytes.bytes);
}

/* ---- Damage ---- */

struct whole {
    struct graph graph;
    struct graph_partition partition;
    struct interval_bytes bytes;
    struct interval_limits limits;
    struct interval interval;
};

static void whole_open(struct whole *whole, bool dense, bool directed) {
    struct graphs_kind kind = sparse;
    struct error error = {0};
    kind.dense = dense;
    kind.directed = directed;
    kind.columns = dense ? 20 : kind.columns;
    *whole = (struct whole){.bytes = {.bytes = NULL}};
    graphs_make(&whole->graph, &kind);
    assert_int_equal(graph_partition_make(&whole->graph, 9, &whole->partition, NULL, NULL, &error), 0);
    assert_int_equal(interval_encode(&whole->graph, &whole->partition, 4, BOTH, &whole->bytes, &error), 0);
    whole->limits = limits_of(&whole->graph, &whole->partition, BOTH);
    interval_view(whole->bytes.bytes, &whole->interval);
}

static void whole_close(struct whole *whole) {
    graphs_close(&whole->graph);
    graph_partition_close(&whole->partition);
    free(whole->bytes.bytes);
}

/* Reads all that a view has, as kernels do, in a copy of exact size. */
static double touch(const void *bytes) {
    struct interval interval;
    double sum = 0;
    interval_view(bytes, &interval);
    const struct nn_lists *lists[] = {&interval.in, &interval.out};
    const struct nn_features *features[] = {&interval.features, &interval.aggregated};
    FREED double *local = memory_zeroed((size_t)interval.own + interval.ghosts, sizeof *local);
    for (unsigned l = 0; l < 2; l++) {
        for (uint32_t e = 0; e < lists[l]->offsets[lists[l]->n]; e++) {
            local[element(lists[l]->ids, lists[l]->wide, e)] += 1;
        }
        size_t dense = (size_t)features[l]->n * features[l]->columns;
        FREED double *columns = memory_zeroed(features[l]->columns + (size_t)1, sizeof *columns);
        for (size_t e = 0; e < (features[l]->dense          ? dense
                                : features[l]->columns == 0 ? 0
                                                            : features[l]->offsets[interval.own]);
             e++) {
            columns[features[l]->dense ? 0 : element(features[l]->at, features[l]->wide, (uint32_t)e)] +=
                (double)features[l]->values[e];
        }
        sum += columns[0];
    }
    for (uint32_t g = 0; g < interval.ghosts; g++) {
        sum += interval.ghost_places[g];
    }
    for (uint32_t i = 0; i < interval.own; i++) {
        sum += interval.labels[i] + interval.splits[i] + local[i];
    }
    return sum;
}

/* Checks a copy of exact size, which sanitizers watch. Returns the result of the check. */
static int check_copy(const void *bytes, size_t size, const struct interval_limits *limits, struct error *error) {
    FREED void *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    int result = interval_check(copy, size, limits, error);
    if (result == 0) {
        assert_true(isfinite(touch(copy)));
    } else {
        assert_int_equal(result, AML_EINPUT);
        assert_true(error->text[0] != '\0' && strchr(error->text, '\n') == NULL);
    }
    return result;
}

/* Writes `value` over 4 bytes inside of the whole bytes, asserts that the message has `expected`, and restores them. */
static void assert_refused(struct whole *whole, const void *where, uint32_t value, const char *expected) {
    size_t at = (size_t)((const unsigned char *)where - whole->bytes.bytes);
    struct error error = {0};
    uint32_t old;
    memcpy(&old, whole->bytes.bytes + at, sizeof old);
    assert_int_not_equal(old, value);
    memcpy(whole->bytes.bytes + at, &value, sizeof value);
    assert_int_equal(check_copy(whole->bytes.bytes, whole->bytes.size, &whole->limits, &error), AML_EINPUT);
    if (strstr(error.text, expected) == NULL) {
        fail_msg("'%s' does not have '%s'", error.text, expected);
    }
    memcpy(whole->bytes.bytes + at, &old, sizeof old);
}

TEST(each_field_is_checked) {
    CLOSED_BY(whole_close) struct whole whole;
    whole_open(&whole, false, true);
    const struct interval *interval = &whole.interval;
    const uint32_t *head = (const void *)whole.bytes.bytes;
    const float nan_value = NAN;
    uint32_t nan_bits;
    memcpy(&nan_bits, &nan_value, sizeof nan_bits);
    assert_refused(&whole, head, head[0] | 1024, "contents");
    assert_refused(&whole, head, head[0] ^ 1, "contents");
    assert_refused(&whole, head, head[0] ^ 4, "contents");
    assert_refused(&whole, head + 1, 9, "number 9, expected below 9");
    assert_refused(&whole, head + 2, 890, "vertices from place 890");
    assert_refused(&whole, head + 3, 0, "0 vertices");
    assert_refused(&whole, head + 3, 901, "901 vertices");
    assert_refused(&whole, head + 3, UINT32_MAX, "vertices from place");
    assert_refused(&whole, head + 4, 900, "900 ghosts");
    assert_refused(&whole, head + 5, 299, "299 columns");
    assert_refused(&whole, head + 6, head[6] + 8, "bytes, expected");
    assert_refused(&whole, head + 7, UINT32_MAX, "bytes, expected");
    assert_refused(&whole, head + 8, head[8] + 8, "bytes, expected");
    assert_refused(&whole, head + 9, UINT32_MAX, "bytes, expected");
    assert_refused(&whole, interval->ghost_places, interval->first, "ghost 0");
    assert_refused(&whole, interval->ghost_places + 3, interval->ghost_places[2], "ghost 3");
    assert_refused(&whole, interval->ghost_places + interval->ghosts - 1, 900, "below 900");
    assert_refused(&whole, interval->in.offsets, 1, "offsets");
    assert_refused(&whole, interval->out.offsets + 5, UINT32_MAX, "offsets");
    assert_refused(&whole, interval->out.offsets + interval->own, head[7] + 1, "offsets");
    assert_refused(&whole, interval->in.ids, 0xffffffff, "neighbour 65535");
    assert_refused(&whole, interval->out.ids, 0xfffefffe, "neighbour 65534");
    assert_refused(&whole, interval->labels, 5, "class 5, expected below 5");
    assert_refused(&whole, interval->labels + 1, (uint32_t)-2, "class -2");
    assert_refused(&whole, interval->splits, 0x04040404, "split 4");
    assert_refused(&whole, interval->features.offsets + 2, 1 << 20, "offsets");
    assert_refused(&whole, interval->features.values + 2, nan_bits, "not finite");
    assert_refused(&whole, interval->aggregated.values, 0x7f800000, "not finite");
    assert_refused(&whole, interval->features.at, 0x012d012d, "column 301");
    assert_refused(&whole, interval->aggregated.at, 0xffffffff, "column 65535");
}

static uint32_t id_of_row(const struct nn_lists *lists, uint32_t row) {
    return lists->offsets[row + 1] > lists->offsets[row] ? element(lists->ids, lists->wide, lists->offsets[row])
                                                         : UINT32_MAX;
}

/* A vertex in its own list, a repeated neighbour, and a vertex without a label in a split. */
TEST(lists_and_splits_are_checked) {
    CLOSED_BY(whole_close) struct whole whole;
    struct error error = {0};
    whole_open(&whole, true, false);
    const struct interval *interval = &whole.interval;
    uint16_t *ids = (uint16_t *)(uintptr_t)interval->in.ids;
    uint32_t row = 0;
    while (interval->in.offsets[row + 1] - interval->in.offsets[row] < 2 || id_of_row(&interval->in, row) <= row) {
        row++;
    }
    uint32_t at = interval->in.offsets[row];
    uint16_t old = ids[at];
    ids[at] = (uint16_t)row;
    assert_int_equal(check_copy(whole.bytes.bytes, whole.bytes.size, &whole.limits, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "but its own"));
    ids[at] = ids[at + 1];
    error.code = 0;
    assert_int_equal(check_copy(whole.bytes.bytes, whole.bytes.size, &whole.limits, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "ascending"));
    ids[at] = old;
    error.code = 0;
    uint32_t unknown = 0;
    while (interval->labels[unknown] >= 0) {
        unknown++;
    }
    ((unsigned char *)(uintptr_t)interval->splits)[unknown] = GRAPH_TRAIN;
    assert_int_equal(check_copy(whole.bytes.bytes, whole.bytes.size, &whole.limits, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "of class -1 is in split 1"));
}

TEST(each_size_is_checked) {
    CLOSED_BY(whole_close) struct whole whole;
    whole_open(&whole, false, false);
    FREED unsigned char *longer = memory_zeroed(whole.bytes.size + 4, 1);
    memcpy(longer, whole.bytes.bytes, whole.bytes.size);
    for (size_t size = 0; size <= whole.bytes.size + 4; size++) {
        struct error error = {0};
        int expected = size == whole.bytes.size ? 0 : AML_EINPUT;
        assert_int_equal(check_copy(longer, size, &whole.limits, &error), expected);
    }
}

/* Intervals of graphs of other forms. */
TEST(each_limit_is_checked) {
    CLOSED_BY(whole_close) struct whole whole;
    whole_open(&whole, true, true);
    struct interval_limits others[8];
    for (unsigned i = 0; i < 8; i++) {
        others[i] = whole.limits;
    }
    others[0].vertices = 300;
    others[1].intervals = 4;
    others[2].classes = 2;
    others[3].columns--;
    others[4].directed = false;
    others[5].carried = INTERVAL_FEATURES;
    others[6].dense = false;
    others[7].aggregated_dense = false;
    for (unsigned i = 0; i < 8; i++) {
        struct error error = {0};
        assert_int_equal(check_copy(whole.bytes.bytes, whole.bytes.size, &others[i], &error), AML_EINPUT);
    }
}

/* Bytes with random changes are refused, or as safe as whole ones. */
TEST(random_damage) {
    unsigned accepted = 0;
    for (unsigned form = 0; form < 4; form++) {
        CLOSED_BY(whole_close) struct whole whole;
        whole_open(&whole, (form & 1) != 0, (form & 2) != 0);
        for (uint64_t seed = 0; seed < 2000; seed++) {
            FREED unsigned char *copy = memory_zeroed(whole.bytes.size, 1);
            struct error error = {0};
            memcpy(copy, whole.bytes.bytes, whole.bytes.size);
            for (uint64_t i = 0; i <= seed % 3; i++) {
                uint64_t random = hash_seeded(seed + form * 10000, i);
                size_t range = seed % 5 == 0 ? 40 : whole.bytes.size;
                copy[(random >> 16) % range] = (unsigned char)random;
            }
            accepted += check_copy(copy, whole.bytes.size, &whole.limits, &error) == 0;
        }
    }
    assert_in_range(accepted, 1, 7000);
}
