/* Averages of neighbours' features (graph.h), summed in double precision in the order of the vertices. A sum of sparse
 * rows is made in an array of all columns, with a set of bits for the columns that occur. */
#include "apps/gnn/graph.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD = 64,           /* bits of a word */
    VALUES_FIRST = 1024, /* values of the first allocation */
};

/* The state while averages are made. */
struct averaging {
    const struct graph *graph;
    enum graph_average average;
    struct graph_features made;
    uint64_t count, capacity, limit; /* sparse: values in `made` */
    double *factors;                 /* [vertices] d^-1/2; NULL: GRAPH_MEAN */
    double *sums;                    /* [columns] of the present vertex */
    /* Sparse: bit c of `seen` says that the sum has column c; bit w of `words` that seen[w] is not 0. */
    uint64_t *seen, *words;
};

static uint64_t words_of(uint64_t bits) {
    return (bits + WORD - 1) / WORD;
}

/* ---- Sums ---- */

/* Adds a vertex's features to the sums. */
static void add_row(struct averaging *averaging, uint32_t vertex, double factor) {
    const struct graph_features *features = &averaging->graph->features;
    double *sums = averaging->sums;
    if (features->dense) {
        const float *row = &features->values[(size_t)vertex * features->columns];
        for (uint32_t c = 0; c < features->columns; c++) {
            sums[c] += factor * (double)row[c];
        }
        return;
    }
    for (uint64_t e = features->offsets[vertex]; e < features->offsets[vertex + 1]; e++) {
        const uint32_t c = features->at[e];
        sums[c] += factor * (double)features->values[e];
        averaging->seen[c / WORD] |= UINT64_C(1) << c % WORD;
        averaging->words[c / WORD / WORD] |= UINT64_C(1) << c / WORD % WORD;
    }
}

/* Sums the features of a vertex's neighbours, and its own, each with its factor. */
static void sum_rows(struct averaging *averaging, uint32_t vertex) {
    const struct graph_lists *in = &averaging->graph->in;
    const uint64_t begin = in->offsets[vertex];
    const uint64_t end = in->offsets[vertex + 1];
    const double *factors = averaging->factors;
    bool own = factors != NULL;
    for (uint64_t e = begin; e < end; e++) {
        const uint32_t u = in->ids[e];
        if (own && u > vertex) {
            add_row(averaging, vertex, factors[vertex] * factors[vertex]);
            own = false;
        }
        add_row(averaging, u, factors != NULL ? factors[u] * factors[vertex] : 1 / (double)(end - begin));
    }
    if (own) {
        add_row(averaging, vertex, factors[vertex] * factors[vertex]);
    }
}

/* ---- Results ---- */

static void put_dense(struct averaging *averaging, uint32_t vertex) {
    const uint32_t columns = averaging->made.columns;
    float *row = &averaging->made.values[(size_t)vertex * columns];
    for (uint32_t c = 0; c < columns; c++) {
        row[c] = (float)averaging->sums[c];
        averaging->sums[c] = 0;
    }
}

/* Makes room for a row of all columns, within the limit. Returns 0 or AML_ENOMEM. */
static int make_room(struct averaging *averaging) {
    struct graph_features *made = &averaging->made;
    const uint64_t wanted = averaging->count + made->columns;
    if (wanted <= averaging->capacity) {
        return 0;
    }
    uint64_t capacity = averaging->count + averaging->count / 2 + VALUES_FIRST;
    capacity = capacity > averaging->limit ? averaging->limit : capacity;
    capacity = capacity < wanted ? wanted : capacity;
    float *values = realloc(made->values, (size_t)capacity * sizeof *values);
    made->values = values != NULL ? values : made->values;
    uint32_t *at = realloc(made->at, (size_t)capacity * sizeof *at);
    made->at = at != NULL ? at : made->at;
    averaging->capacity = values != NULL && at != NULL ? capacity : averaging->capacity;
    return values != NULL && at != NULL ? 0 : AML_ENOMEM;
}

/* Puts the columns of seen[word]. */
static void put_word(struct averaging *averaging, size_t word) {
    for (uint64_t bits = averaging->seen[word]; bits != 0; bits &= bits - 1) {
        const size_t c = word * WORD + (size_t)__builtin_ctzll(bits);
        averaging->made.values[averaging->count] = (float)averaging->sums[c];
        averaging->made.at[averaging->count++] = (uint32_t)c;
        averaging->sums[c] = 0;
    }
    averaging->seen[word] = 0;
}

static void put_sparse(struct averaging *averaging, uint32_t vertex) {
    const uint64_t groups = words_of(words_of(averaging->made.columns));
    for (size_t g = 0; g < groups; g++) {
        for (uint64_t bits = averaging->words[g]; bits != 0; bits &= bits - 1) {
            put_word(averaging, g * WORD + (size_t)__builtin_ctzll(bits));
        }
        averaging->words[g] = 0;
    }
    averaging->made.offsets[vertex + 1] = averaging->count;
}

/* Makes all averages. Returns 0, 1 when they take more than the limit, or AML_ENOMEM. */
static int make_rows(struct averaging *averaging) {
    for (uint32_t v = 0; v < averaging->graph->vertices; v++) {
        if (!averaging->made.dense && make_room(averaging) != 0) {
            return AML_ENOMEM;
        }
        sum_rows(averaging, v);
        if (averaging->made.dense) {
            put_dense(averaging, v);
            continue;
        }
        put_sparse(averaging, v);
        if (averaging->count > averaging->limit) {
            return 1;
        }
    }
    return 0;
}

/* ---- Memory ---- */

/* Makes the factors d^-1/2 of all vertices. */
static int make_factors(struct averaging *averaging) {
    const struct graph *graph = averaging->graph;
    if (averaging->average == GRAPH_MEAN) {
        return 0;
    }
    averaging->factors = malloc((size_t)graph->vertices * sizeof *averaging->factors);
    for (uint32_t v = 0; v < graph->vertices && averaging->factors != NULL; v++) {
        averaging->factors[v] = 1 / sqrt((double)(graph->in.offsets[v + 1] - graph->in.offsets[v]) + 1);
    }
    return averaging->factors != NULL ? 0 : AML_ENOMEM;
}

static int begin(struct averaging *averaging) {
    const struct graph_features *features = &averaging->graph->features;
    struct graph_features *made = &averaging->made;
    const size_t vertices = averaging->graph->vertices;
    const size_t columns = features->columns;
    *made = (struct graph_features){.columns = features->columns, .dense = features->dense};
    averaging->sums = calloc(columns, sizeof *averaging->sums);
    bool ready = averaging->sums != NULL;
    if (features->dense) {
        made->values = malloc(vertices * columns * sizeof *made->values);
        ready = ready && made->values != NULL;
    } else {
        made->offsets = calloc(vertices + 1, sizeof *made->offsets);
        averaging->seen = calloc(words_of(columns), sizeof *averaging->seen);
        averaging->words = calloc(words_of(words_of(columns)), sizeof *averaging->words);
        ready = ready && made->offsets != NULL && averaging->seen != NULL && averaging->words != NULL;
    }
    return ready ? make_factors(averaging) : AML_ENOMEM;
}

/* Moves the result to the graph, or frees it. */
static void end(struct averaging *averaging, struct graph_features *to, bool keep) {
    struct graph_features *made = &averaging->made;
    if (keep && !made->dense) {
        const size_t count = averaging->count > 0 ? (size_t)averaging->count : 1;
        float *values = realloc(made->values, count * sizeof *values);
        uint32_t *at = realloc(made->at, count * sizeof *at);
        made->values = values != NULL ? values : made->values;
        made->at = at != NULL ? at : made->at;
    }
    if (keep) {
        *to = *made;
    } else {
        free(made->values);
        free(made->offsets);
        free(made->at);
    }
    free(averaging->factors);
    free(averaging->sums);
    free(averaging->seen);
    free(averaging->words);
}

int graph_aggregate(struct graph *graph, enum graph_average average, uint64_t limit, struct error *error) {
    const struct graph_features *features = &graph->features;
    struct averaging averaging = {.graph = graph, .average = average, .limit = limit};
    assert(features->columns > 0 && graph->aggregated.columns == 0 && graph->in.offsets != NULL);
    if (features->dense && (uint64_t)graph->vertices * features->columns > limit) {
        return 1;
    }
    int result = begin(&averaging);
    result = result == 0 ? make_rows(&averaging) : result;
    end(&averaging, &graph->aggregated, result == 0);
    return result < 0
               ? error_set(error, AML_ENOMEM, "no memory for the averages of %u vertices' features", graph->vertices)
               : result;
}
