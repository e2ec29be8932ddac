/* See interval.h. The bytes are a struct head and the arrays of `enum array`, in that order, in this machine's order of
 * bytes. Each array begins at a multiple of 4 bytes, and zeros fill the gaps. */
#include "apps/gnn/interval.h"

#include "agileml.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE_IDS = 1, WIDE_COLUMNS = 2, DIRECTED = 4, FEATURES = 8, DENSE = 16, AGGREGATED = 32, AGGREGATED_DENSE = 64 };
enum { NARROW_MAX = 1 << 16 /* numbers that 16 bits have */ };

struct head {
    uint32_t flags;
    uint32_t number, first, own, ghosts, columns;
    uint32_t in, out; /* entries of all lists; `out` 0: the graph is not directed */
    uint32_t values, aggregated_values;
};

/* `ids` and `at` have 2 or 4 bytes an element (WIDE_IDS, WIDE_COLUMNS), splits 1, all others 4. An array that an
 * interval doesn't have is empty. */
enum array {
    VERTICES,
    GHOST_PLACES,
    IN_OFFSETS,
    OUT_OFFSETS,
    LABELS,
    FEATURE_OFFSETS,
    FEATURE_VALUES,
    AGGREGATED_OFFSETS,
    AGGREGATED_VALUES,
    IN_IDS,
    OUT_IDS,
    FEATURE_AT,
    AGGREGATED_AT,
    SPLITS,
    ARRAYS
};

/* Where each array begins, and the size of all. */
struct layout {
    uint64_t at[ARRAYS];
    uint64_t size;
};

static uint64_t padded(uint64_t bytes) {
    return (bytes + 3) / 4 * 4;
}

static void layout_set(struct layout *layout, const struct head *head) {
    uint64_t id = head->flags & WIDE_IDS ? 4 : 2;
    uint64_t column = head->flags & WIDE_COLUMNS ? 4 : 2;
    uint64_t offsets = 4 * (uint64_t)head->own + 4;
    bool sparse = (head->flags & (FEATURES | DENSE)) == FEATURES;
    bool aggregated_sparse = (head->flags & (AGGREGATED | AGGREGATED_DENSE)) == AGGREGATED;
    const uint64_t bytes[ARRAYS] = {
        [VERTICES] = 4 * (uint64_t)head->own,
        [GHOST_PLACES] = 4 * (uint64_t)head->ghosts,
        [IN_OFFSETS] = offsets,
        [OUT_OFFSETS] = head->flags & DIRECTED ? offsets : 0,
        [LABELS] = 4 * (uint64_t)head->own,
        [FEATURE_OFFSETS] = sparse ? offsets : 0,
        [FEATURE_VALUES] = 4 * (uint64_t)head->values,
        [AGGREGATED_OFFSETS] = aggregated_sparse ? offsets : 0,
        [AGGREGATED_VALUES] = 4 * (uint64_t)head->aggregated_values,
        [IN_IDS] = id * head->in,
        [OUT_IDS] = id * head->out,
        [FEATURE_AT] = sparse ? column * head->values : 0,
        [AGGREGATED_AT] = aggregated_sparse ? column * head->aggregated_values : 0,
        [SPLITS] = head->own,
    };
    layout->size = sizeof *head;
    for (unsigned a = 0; a < ARRAYS; a++) {
        layout->at[a] = layout->size;
        layout->size += padded(bytes[a]);
    }
}

/* ---- Encoding ---- */

/* An entry of a list, as one number that sorts entries by local number: 1 bit for a ghost, 31 bits for its place, 1 bit
 * for the list (out), 31 bits for the own vertex. */
enum { ENTRY_GHOST_BIT = 63, ENTRY_PLACE_BIT = 32, ENTRY_OUT_BIT = 31 };

static const uint32_t ENTRY_VERTEX = INT32_MAX;

struct encoding {
    const struct graph *graph;
    const struct graph_partition *partition;
    struct head head;
    struct layout layout;
    uint64_t *entries; /* [head.in + head.out] */
    unsigned char *bytes;
};

static void *array_of(const struct encoding *encoding, enum array array) {
    return encoding->bytes + encoding->layout.at[array];
}

static uint64_t list_entries(const struct encoding *encoding, const struct graph_lists *lists) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < encoding->head.own; i++) {
        uint32_t v = encoding->partition->order[encoding->head.first + i];
        sum += lists->offsets[v + 1] - lists->offsets[v];
    }
    return sum;
}

static uint64_t feature_values(const struct encoding *encoding, const struct graph_features *features) {
    const struct graph_lists rows = {.offsets = features->offsets};
    return features->columns == 0 ? 0
           : features->dense      ? (uint64_t)encoding->head.own * features->columns
                                  : list_entries(encoding, &rows);
}

/* Sets all of the head but `ghosts` and WIDE_IDS. Returns the least size that the interval may have. */
static uint64_t measure(struct encoding *encoding, uint32_t k, unsigned carried) {
    const struct graph *graph = encoding->graph;
    const struct graph_features *features = &graph->features;
    const struct graph_features *aggregated = &graph->aggregated;
    struct head *head = &encoding->head;
    bool has_features = (carried & INTERVAL_FEATURES) != 0 && features->columns > 0;
    bool has_aggregated = (carried & INTERVAL_AGGREGATED) != 0 && aggregated->columns > 0;
    assert(!has_features || !has_aggregated || features->columns == aggregated->columns);
    head->number = k;
    head->first = encoding->partition->firsts[k];
    head->own = encoding->partition->firsts[k + 1] - head->first;
    head->columns = has_features ? features->columns : has_aggregated ? aggregated->columns : 0;
    head->flags = (head->columns > NARROW_MAX ? WIDE_COLUMNS : 0U) | (graph->directed ? DIRECTED : 0U) |
                  (has_features ? FEATURES : 0U) | (has_features && features->dense ? DENSE : 0U) |
                  (has_aggregated ? AGGREGATED : 0U) | (has_aggregated && aggregated->dense ? AGGREGATED_DENSE : 0U);
    const uint64_t counts[] = {list_entries(encoding, &graph->in),
                               graph->directed ? list_entries(encoding, &graph->out) : 0,
                               has_features ? feature_values(encoding, features) : 0,
                               has_aggregated ? feature_values(encoding, aggregated) : 0};
    uint64_t least = 2 * (counts[0] + counts[1]) + 4 * (counts[2] + counts[3]);
    if (least > AML_ITEM_BYTES_MAX) {
        return least;
    }
    head->in = (uint32_t)counts[0];
    head->out = (uint32_t)counts[1];
    head->values = (uint32_t)counts[2];
    head->aggregated_values = (uint32_t)counts[3];
    layout_set(&encoding->layout, head);
    return encoding->layout.size;
}

static int entry_order(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one;
    uint64_t b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static uint64_t *add_entries(const struct encoding *encoding, const struct graph_lists *lists, uint64_t out,
                             uint64_t *entry) {
    const struct head *head = &encoding->head;
    for (uint32_t i = 0; i < head->own; i++) {
        uint32_t v = encoding->partition->order[head->first + i];
        for (uint64_t e = lists->offsets[v]; e < lists->offsets[v + 1]; e++) {
            uint32_t place = encoding->partition->place[lists->ids[e]];
            uint64_t ghost = place - head->first >= head->own;
            *entry++ = ghost << ENTRY_GHOST_BIT | (uint64_t)place << ENTRY_PLACE_BIT | out << ENTRY_OUT_BIT | i;
        }
    }
    return entry;
}

static uint32_t entry_place(uint64_t entry) {
    return (uint32_t)(entry >> ENTRY_PLACE_BIT) & INT32_MAX;
}

/* Sorts the entries, and sets the number of ghosts and the layout. */
static int sort_entries(struct encoding *encoding, struct error *error) {
    struct head *head = &encoding->head;
    size_t count = (size_t)head->in + head->out;
    encoding->entries = malloc((count + 1) * sizeof *encoding->entries);
    if (encoding->entries == NULL) {
        return error_set(error, AML_ENOMEM, "no memory for the %zu neighbours of interval %u", count, head->number);
    }
    uint64_t *end = add_entries(encoding, &encoding->graph->in, 0, encoding->entries);
    if (encoding->graph->directed) {
        add_entries(encoding, &encoding->graph->out, 1, end);
    }
    qsort(encoding->entries, count, sizeof *encoding->entries, entry_order);
    for (size_t e = 0; e < count; e++) {
        bool same = e > 0 && entry_place(encoding->entries[e]) == entry_place(encoding->entries[e - 1]);
        head->ghosts += encoding->entries[e] >> ENTRY_GHOST_BIT != 0 && !same;
    }
    head->flags |= (uint64_t)head->own + head->ghosts > NARROW_MAX ? WIDE_IDS : 0U;
    layout_set(&encoding->layout, head);
    return 0;
}

static void set_id(void *ids, bool wide, uint32_t at, uint32_t value) {
    if (wide) {
        ((uint32_t *)ids)[at] = value;
    } else {
        ((uint16_t *)ids)[at] = (uint16_t)value;
    }
}

static void write_offsets(const struct encoding *encoding, const uint64_t *from, enum array array) {
    uint32_t *to = array_of(encoding, array);
    for (uint32_t i = 0; i < encoding->head.own; i++) {
        uint32_t v = encoding->partition->order[encoding->head.first + i];
        to[i + 1] = to[i] + (uint32_t)(from[v + 1] - from[v]);
    }
}

/* Writes the lists and the ghosts. While ids are written, offsets[i] is where the next id of list i goes: in the end
 * where the next list begins. */
static void write_lists(const struct encoding *encoding) {
    const struct head *head = &encoding->head;
    uint32_t *places = array_of(encoding, GHOST_PLACES);
    uint32_t *offsets[] = {array_of(encoding, IN_OFFSETS), array_of(encoding, OUT_OFFSETS)};
    void *ids[] = {array_of(encoding, IN_IDS), array_of(encoding, OUT_IDS)};
    uint32_t ghosts = 0;
    write_offsets(encoding, encoding->graph->in.offsets, IN_OFFSETS);
    if (encoding->graph->directed) {
        write_offsets(encoding, encoding->graph->out.offsets, OUT_OFFSETS);
    }
    for (size_t e = 0; e < (size_t)head->in + head->out; e++) {
        uint64_t entry = encoding->entries[e];
        uint32_t place = entry_place(entry);
        unsigned list = entry >> ENTRY_OUT_BIT & 1;
        bool ghost = entry >> ENTRY_GHOST_BIT != 0;
        if (ghost && (ghosts == 0 || places[ghosts - 1] != place)) {
            places[ghosts++] = place;
        }
        set_id(ids[list], (head->flags & WIDE_IDS) != 0, offsets[list][entry & ENTRY_VERTEX]++,
               ghost ? head->own + ghosts - 1 : place - head->first);
    }
    for (unsigned list = 0; list < (encoding->graph->directed ? 2 : 1); list++) {
        memmove(offsets[list] + 1, offsets[list], head->own * sizeof *offsets[list]);
        offsets[list][0] = 0;
    }
}

static void write_vertices(const struct encoding *encoding) {
    const struct graph *graph = encoding->graph;
    uint32_t *ids = array_of(encoding, VERTICES);
    int32_t *labels = array_of(encoding, LABELS);
    unsigned char *splits = array_of(encoding, SPLITS);
    for (uint32_t i = 0; i < encoding->head.own; i++) {
        uint32_t v = encoding->partition->order[encoding->head.first + i];
        ids[i] = v;
        labels[i] = graph->labels != NULL ? graph->labels[v] : -1;
        splits[i] = labels[i] >= 0 && graph->splits != NULL ? graph->splits[v] : GRAPH_UNUSED;
    }
}

static void write_features(const struct encoding *encoding, const struct graph_features *features,
                           enum array offsets_array, enum array values_array, enum array at_array) {
    float *values = array_of(encoding, values_array);
    void *at = array_of(encoding, at_array);
    uint32_t next = 0;
    if (!features->dense) {
        write_offsets(encoding, features->offsets, offsets_array);
    }
    for (uint32_t i = 0; i < encoding->head.own; i++) {
        uint64_t v = encoding->partition->order[encoding->head.first + i];
        uint64_t from = features->dense ? v * features->columns : features->offsets[v];
        uint64_t end = features->dense ? from + features->columns : features->offsets[v + 1];
        for (uint64_t e = from; e < end; e++) {
            values[next] = features->values[e];
            if (!features->dense) {
                set_id(at, (encoding->head.flags & WIDE_COLUMNS) != 0, next, features->at[e]);
            }
            next++;
        }
    }
}

static int make_room(struct interval_bytes *bytes, size_t size, struct error *error) {
    if (size > bytes->room) {
        free(bytes->bytes);
        bytes->room = size + size / 4;
        bytes->bytes = malloc(bytes->room);
    }
    if (bytes->bytes == NULL) {
        *bytes = (struct interval_bytes){.bytes = NULL};
        return error_set(error, AML_ENOMEM, "no memory for an interval of %zu bytes", size);
    }
    return 0;
}

static int encode(struct encoding *encoding, struct interval_bytes *bytes, struct error *error) {
    int result = sort_entries(encoding, error);
    bytes->size = result == 0 ? (size_t)encoding->layout.size : 0;
    if (result != 0 || bytes->size > AML_ITEM_BYTES_MAX) {
        return result;
    }
    size_t size = bytes->size;
    result = make_room(bytes, size, error);
    if (result != 0) {
        return result;
    }
    encoding->bytes = bytes->bytes;
    memset(bytes->bytes, 0, size);
    memcpy(bytes->bytes, &encoding->head, sizeof encoding->head);
    write_lists(encoding);
    write_vertices(encoding);
    if (encoding->head.flags & FEATURES) {
        write_features(encoding, &encoding->graph->features, FEATURE_OFFSETS, FEATURE_VALUES, FEATURE_AT);
    }
    if (encoding->head.flags & AGGREGATED) {
        write_features(encoding, &encoding->graph->aggregated, AGGREGATED_OFFSETS, AGGREGATED_VALUES, AGGREGATED_AT);
    }
    return 0;
}

int interval_encode(const struct graph *graph, const struct graph_partition *partition, uint32_t k, unsigned carried,
                    struct interval_bytes *bytes, struct error *error) {
    struct encoding encoding = {.graph = graph, .partition = partition};
    assert(k < partition->intervals);
    uint64_t least = measure(&encoding, k, carried);
    if (least > AML_ITEM_BYTES_MAX) {
        bytes->size = least < SIZE_MAX ? (size_t)least : SIZE_MAX;
        return 0;
    }
    int result = encode(&encoding, bytes, error);
    free(encoding.entries);
    return result;
}

/* ---- Views ---- */

static const void *array_in(const void *bytes, const struct layout *layout, enum array array) {
    return (const unsigned char *)bytes + layout->at[array];
}

static struct nn_features view_features(const void *bytes, const struct layout *layout, bool aggregated) {
    const struct head *head = bytes;
    bool dense = (head->flags & (aggregated ? AGGREGATED_DENSE : DENSE)) != 0;
    bool has = (head->flags & (aggregated ? AGGREGATED : FEATURES)) != 0;
    return (struct nn_features){
        .n = head->own,
        .columns = has ? head->columns : 0,
        .dense = dense,
        .wide = (head->flags & WIDE_COLUMNS) != 0,
        .values = array_in(bytes, layout, aggregated ? AGGREGATED_VALUES : FEATURE_VALUES),
        .offsets = dense ? NULL : array_in(bytes, layout, aggregated ? AGGREGATED_OFFSETS : FEATURE_OFFSETS),
        .at = dense ? NULL : array_in(bytes, layout, aggregated ? AGGREGATED_AT : FEATURE_AT)};
}

static struct nn_lists view_lists(const void *bytes, const struct layout *layout, bool out) {
    const struct head *head = bytes;
    return (struct nn_lists){.n = head->own,
                             .wide = (head->flags & WIDE_IDS) != 0,
                             .offsets = array_in(bytes, layout, out ? OUT_OFFSETS : IN_OFFSETS),
                             .ids = array_in(bytes, layout, out ? OUT_IDS : IN_IDS)};
}

void interval_view(const void *bytes, struct interval *interval) {
    const struct head *head = bytes;
    struct layout layout;
    layout_set(&layout, head);
    *interval = (struct interval){.number = head->number,
                                  .first = head->first,
                                  .own = head->own,
                                  .ghosts = head->ghosts,
                                  .ids = array_in(bytes, &layout, VERTICES),
                                  .ghost_places = array_in(bytes, &layout, GHOST_PLACES),
                                  .in = view_lists(bytes, &layout, false),
                                  .out = view_lists(bytes, &layout, (head->flags & DIRECTED) != 0),
                                  .labels = array_in(bytes, &layout, LABELS),
                                  .splits = array_in(bytes, &layout, SPLITS),
                                  .features = view_features(bytes, &layout, false),
                                  .aggregated = view_features(bytes, &layout, true)};
}

/* ---- Checks ---- */

static int check_size(size_t size, uint64_t expected, struct error *error) {
    return size == expected ? 0
                            : error_set(error, AML_EINPUT, "the interval has %zu bytes, expected %llu", size,
                                        (unsigned long long)expected);
}

static int check_flags(const struct head *head, const struct interval_limits *limits, struct error *error) {
    unsigned carried = limits->columns > 0 ? limits->carried : 0;
    unsigned expected = (limits->directed ? DIRECTED : 0U) | (carried & INTERVAL_FEATURES ? FEATURES : 0U) |
                        (carried & INTERVAL_FEATURES && limits->dense ? DENSE : 0U) |
                        (carried & INTERVAL_AGGREGATED ? AGGREGATED : 0U) |
                        (carried & INTERVAL_AGGREGATED && limits->aggregated_dense ? AGGREGATED_DENSE : 0U) |
                        ((uint64_t)head->own + head->ghosts > NARROW_MAX ? WIDE_IDS : 0U) |
                        (head->columns > NARROW_MAX ? WIDE_COLUMNS : 0U);
    uint32_t columns = carried != 0 ? limits->columns : 0;
    if (head->columns != columns) {
        return error_set(error, AML_EINPUT, "the interval has %u columns of features, expected %u", head->columns,
                         columns);
    }
    return head->flags == expected ? 0
                                   : error_set(error, AML_EINPUT, "the interval has the contents 0x%x, expected 0x%x",
                                               head->flags, expected);
}

/* Checks the numbers of the head against the limits and each other. */
static int check_head(const struct head *head, const struct interval_limits *limits, struct error *error) {
    uint64_t dense = (uint64_t)head->own * head->columns;
    if (head->number >= limits->intervals) {
        return error_set(error, AML_EINPUT, "the interval has number %u, expected below %u", head->number,
                         limits->intervals);
    }
    if (head->own == 0 || head->first >= limits->vertices || head->own > limits->vertices - head->first ||
        head->ghosts > limits->vertices - head->own) {
        return error_set(error, AML_EINPUT,
                         "interval %u has %u vertices from place %u on and %u ghosts, of %u vertices", head->number,
                         head->own, head->first, head->ghosts, limits->vertices);
    }
    int result = check_flags(head, limits, error);
    if (result != 0) {
        return result;
    }
    if ((!(head->flags & DIRECTED) && head->out != 0) || (!(head->flags & FEATURES) && head->values != 0) ||
        (!(head->flags & AGGREGATED) && head->aggregated_values != 0) ||
        ((head->flags & DENSE) && head->values != dense) ||
        ((head->flags & AGGREGATED_DENSE) && head->aggregated_values != dense)) {
        return error_set(error, AML_EINPUT, "interval %u has numbers of list entries or values that it can't have",
                         head->number);
    }
    return 0;
}

/* Rows of ascending numbers: lists of neighbours, or columns of features. */
struct check_rows {
    const char *what; /* an entry */
    uint32_t number;  /* of the interval */
    uint32_t n, entries, below;
    bool wide;
    bool lists; /* row i does not name i */
    const uint32_t *offsets;
    const void *ids;
};

static int check_row(const struct check_rows *rows, uint32_t row, struct error *error) {
    for (uint32_t e = rows->offsets[row]; e < rows->offsets[row + 1]; e++) {
        uint32_t id = rows->wide ? ((const uint32_t *)rows->ids)[e] : ((const uint16_t *)rows->ids)[e];
        bool first = e == rows->offsets[row];
        uint32_t last = first        ? 0
                        : rows->wide ? ((const uint32_t *)rows->ids)[e - 1]
                                     : ((const uint16_t *)rows->ids)[e - 1];
        if (id >= rows->below || (!first && id <= last) || (rows->lists && id == row)) {
            return error_set(error, AML_EINPUT,
                             "interval %u: vertex %u has the %s %u after %u, expected ascending numbers below %u%s",
                             rows->number, row, rows->what, id, last, rows->below, rows->lists ? " but its own" : "");
        }
    }
    return 0;
}

static int check_rows(const struct check_rows *rows, struct error *error) {
    bool right = rows->offsets[0] == 0 && rows->offsets[rows->n] == rows->entries;
    for (uint32_t i = 0; i < rows->n && right; i++) {
        right = rows->offsets[i] <= rows->offsets[i + 1];
    }
    if (!right) {
        return error_set(error, AML_EINPUT, "interval %u: the %ss' offsets don't ascend from 0 to %u", rows->number,
                         rows->what, rows->entries);
    }
    int result = 0;
    for (uint32_t i = 0; i < rows->n && result == 0; i++) {
        result = check_row(rows, i, error);
    }
    return result;
}

static int check_lists(const struct interval *interval, const struct nn_lists *lists, uint32_t entries,
                       struct error *error) {
    const struct check_rows rows = {.what = "neighbour",
                                    .number = interval->number,
                                    .n = lists->n,
                                    .entries = entries,
                                    .below = interval->own + interval->ghosts,
                                    .wide = lists->wide,
                                    .lists = true,
                                    .offsets = lists->offsets,
                                    .ids = lists->ids};
    return check_rows(&rows, error);
}

static int check_features(const struct interval *interval, const struct nn_features *features, uint32_t values,
                          struct error *error) {
    const struct check_rows rows = {.what = "column",
                                    .number = interval->number,
                                    .n = features->n,
                                    .entries = values,
                                    .below = features->columns,
                                    .wide = features->wide,
                                    .offsets = features->offsets,
                                    .ids = features->at};
    for (uint32_t i = 0; i < values; i++) {
        if (!isfinite(features->values[i])) {
            return error_set(error, AML_EINPUT, "interval %u: a value of a feature is not finite", interval->number);
        }
    }
    return features->columns == 0 || features->dense ? 0 : check_rows(&rows, error);
}

static int check_vertices(const struct interval *interval, const struct interval_limits *limits, struct error *error) {
    for (uint32_t g = 0; g < interval->ghosts; g++) {
        uint32_t place = interval->ghost_places[g];
        if (place >= limits->vertices || place - interval->first < interval->own ||
            (g > 0 && place <= interval->ghost_places[g - 1])) {
            return error_set(error, AML_EINPUT, "interval %u: ghost %u has place %u, expected ascending ones below %u",
                             interval->number, g, place, limits->vertices);
        }
    }
    for (uint32_t i = 0; i < interval->own; i++) {
        int32_t label = interval->labels[i];
        if (interval->ids[i] >= limits->vertices) {
            return error_set(error, AML_EINPUT, "interval %u: vertex %u was number %u of the input, expected below %u",
                             interval->number, i, interval->ids[i], limits->vertices);
        }
        if (label < -1 || (label >= 0 && (uint32_t)label >= limits->classes)) {
            return error_set(error, AML_EINPUT, "interval %u: vertex %u has class %d, expected below %u",
                             interval->number, i, label, limits->classes);
        }
        if (interval->splits[i] > GRAPH_TEST || (label < 0 && interval->splits[i] != GRAPH_UNUSED)) {
            return error_set(error, AML_EINPUT, "interval %u: vertex %u of class %d is in split %u", interval->number,
                             i, label, interval->splits[i]);
        }
    }
    return 0;
}

int interval_check(const void *bytes, size_t size, const struct interval_limits *limits, struct error *error) {
    struct interval interval;
    struct layout layout;
    const struct head *head = bytes;
    if (size < sizeof *head || size > AML_ITEM_BYTES_MAX) {
        return error_set(error, AML_EINPUT, "the interval has %zu bytes, expected %zu to %d", size, sizeof *head,
                         AML_ITEM_BYTES_MAX);
    }
    int result = check_head(head, limits, error);
    if (result != 0) {
        return result;
    }
    layout_set(&layout, head);
    result = check_size(size, layout.size, error);
    if (result != 0) {
        return result;
    }
    interval_view(bytes, &interval);
    result = check_vertices(&interval, limits, error);
    result = result != 0 ? result : check_lists(&interval, &interval.in, head->in, error);
    result = result != 0 || !limits->directed ? result : check_lists(&interval, &interval.out, head->out, error);
    result = result != 0 ? result : check_features(&interval, &interval.features, head->values, error);
    return result != 0 ? result : check_features(&interval, &interval.aggregated, head->aggregated_values, error);
}
