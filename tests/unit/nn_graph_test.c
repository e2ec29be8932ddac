/* Kernels of graph neural networks: each instruction set of this processor against the reference, over shapes around
 * those of vectors and blocks. */
#include "agileml/base/hash.h"
#include "apps/nn/graph.h"
#include "tests/test.h"
#include "tests/unit/nn_values.h"

#include <math.h>

static size_t sets(void) {
    return 1 + vectors_wide();
}

/* ---- Made graphs ---- */

struct made_lists {
    struct nn_lists lists;
    uint32_t numbers; /* local numbers: own vertices and ghosts */
    uint32_t *offsets;
    void *ids;
};

static void set_id(void *ids, bool wide, size_t at, uint32_t id) {
    if (wide) {
        ((uint32_t *)ids)[at] = id;
    } else {
        ((uint16_t *)ids)[at] = (uint16_t)id;
    }
}

static uint32_t id_of(const struct nn_lists *lists, size_t at) {
    return lists->wide ? ((const uint32_t *)lists->ids)[at] : ((const uint16_t *)lists->ids)[at];
}

/* Lists with lengths around those of unrolled loops and blocks, some of them empty. */
static void open_lists(struct made_lists *made, uint32_t n, bool wide, uint64_t seed) {
    static const uint32_t lengths[] = {3, 0, 1, 40, 2, 17, 5, 0, 31, 4, 130, 8, 16, 33};
    *made = (struct made_lists){.numbers = n + 5};
    made->offsets = malloc((n + 1) * sizeof *made->offsets);
    assert_non_null(made->offsets);
    made->offsets[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        made->offsets[i + 1] = made->offsets[i] + lengths[(i + (uint32_t)seed) % (sizeof lengths / sizeof lengths[0])];
    }
    size_t size = made->offsets[n] * (wide ? sizeof(uint32_t) : sizeof(uint16_t));
    made->ids = malloc(size > 0 ? size : 1);
    assert_non_null(made->ids);
    for (size_t at = 0; at < made->offsets[n]; at++) {
        set_id(made->ids, wide, at, (uint32_t)(hash_pair(seed, at) % made->numbers));
    }
    made->lists = (struct nn_lists){.n = n, .wide = wide, .offsets = made->offsets, .ids = made->ids};
}

static void close_lists(struct made_lists *made) {
    free(made->offsets);
    free(made->ids);
}

/* Rows of a table: memory ends with the last row, and what follows a row's values is NaN. */
struct made_rows {
    struct nn_rows rows;
    float *floats;
    uint32_t *slots;
};

static float *made_row(const struct made_rows *made, uint32_t id) {
    size_t slot = made->slots != NULL ? made->slots[id] : id;
    return made->floats + slot * made->rows.stride / sizeof(float);
}

static void open_rows(struct made_rows *made, uint32_t count, size_t width, bool with_slots, uint64_t seed) {
    const size_t stride = (width + 3) / 4 * 4 + (seed % 2 > 0 ? 4 : 0);
    const uint32_t slots = with_slots ? 2 * count : count;
    *made = (struct made_rows){.floats = nn_values(slots * stride, seed)};
    if (with_slots) {
        made->slots = malloc(count * sizeof *made->slots);
        assert_non_null(made->slots);
        for (uint32_t id = 0; id < count; id++) {
            made->slots[id] = 2 * (count - id) - 1;
        }
    }
    for (size_t slot = 0; slot < slots; slot++) {
        for (size_t k = width; k < stride; k++) {
            made->floats[slot * stride + k] = NAN;
        }
    }
    made->rows =
        (struct nn_rows){.base = (unsigned char *)made->floats, .stride = stride * sizeof(float), .slots = made->slots};
}

static void close_rows(struct made_rows *made) {
    free(made->floats);
    free(made->slots);
}

/* Fails if values after a row's first `width` changed from those of nn_values(seed). */
static void check_untouched(const float *y, size_t n, size_t width, size_t pitch, uint64_t seed) {
    FREED float *before = nn_values(n * pitch + 1, seed);
    for (size_t i = 0; i < n; i++) {
        assert_memory_equal(y + i * pitch + width, before + i * pitch + width, (pitch - width) * sizeof *y);
    }
}

/* ---- Sums of rows ---- */

static void check_gather(const struct made_lists *made, size_t width, bool with_slots) {
    const size_t n = made->lists.n;
    const size_t pitch = (width + 15) / 16 * 16;
    struct made_rows rows;
    FREED float *expected = nn_values(n * pitch + 1, 3);
    open_rows(&rows, made->numbers, width, with_slots, width);
    nn_graph_plain.gather(&made->lists, &rows.rows, width, expected, pitch);
    check_untouched(expected, n, width, pitch, 3);
    for (size_t k = 0; k < sets(); k++) {
        FREED float *y = nn_values(n * pitch + 1, 3);
        nn_graphs[k].gather(&made->lists, &rows.rows, width, y, pitch);
        nn_values_assert_close(y, expected, n * pitch + 1, 2e-6);
        check_untouched(y, n, width, pitch, 3);
    }
    close_rows(&rows);
}

TEST(gather) {
    static const uint32_t ns[] = {29, 0, 1, 2};
    for (size_t width = 1; width <= 270; width += width < 130 ? 1 : 35) {
        for (unsigned choice = 0; choice < 4; choice++) {
            struct made_lists made;
            open_lists(&made, ns[(width + choice) % 4], choice % 2 > 0, width);
            check_gather(&made, width, choice / 2 > 0);
            close_lists(&made);
        }
    }
}

/* The plain sum against its definition, in double. */
TEST(gather_plain) {
    enum { N = 29, WIDTH = 3, PITCH = 16 };
    struct made_lists made;
    struct made_rows rows;
    float y[N][PITCH];
    open_lists(&made, N, false, 4);
    open_rows(&rows, made.numbers, WIDTH, true, 5);
    nn_graph_plain.gather(&made.lists, &rows.rows, WIDTH, y[0], PITCH);
    for (uint32_t i = 0; i < N; i++) {
        for (size_t k = 0; k < WIDTH; k++) {
            double sum = 0;
            for (size_t at = made.offsets[i]; at < made.offsets[i + 1]; at++) {
                sum += (double)made_row(&rows, id_of(&made.lists, at))[k];
            }
            assert_true(fabs(sum - (double)y[i][k]) < 1e-4);
        }
    }
    close_lists(&made);
    close_rows(&rows);
}

/* ---- Sparse features ---- */

struct made_features {
    struct nn_features x;
    uint32_t *offsets;
    float *values;
    void *at;
};

enum { COLUMNS = 200 };

static void open_features(struct made_features *made, uint32_t n, bool wide, uint64_t seed) {
    *made = (struct made_features){.offsets = malloc((n + 1) * sizeof *made->offsets),
                                   .values = nn_values((size_t)n * COLUMNS + 1, seed),
                                   .at = malloc(((size_t)n * COLUMNS + 1) * sizeof(uint32_t))};
    assert_non_null(made->offsets);
    assert_non_null(made->at);
    uint32_t count = 0;
    made->offsets[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t column = 0; column < COLUMNS; column++) {
            /* Rows have from none to about half of the columns. */
            if (hash_pair(seed, (uint64_t)i * COLUMNS + column) % 20 < i % 10) {
                set_id(made->at, wide, count++, column);
            }
        }
        made->offsets[i + 1] = count;
    }
    made->x = (struct nn_features){
        .n = n, .columns = COLUMNS, .wide = wide, .values = made->values, .offsets = made->offsets, .at = made->at};
}

static void close_features(struct made_features *made) {
    free(made->offsets);
    free(made->values);
    free(made->at);
}

static void check_features(const struct made_features *made, size_t width, size_t pitch, size_t w_pitch) {
    const size_t n = made->x.n;
    const size_t weights = (COLUMNS - 1) * w_pitch + width; /* ends with the last row's values */
    FREED float *w = nn_values(weights, 1);
    FREED float *dy = nn_values(n * pitch + 1, 2);
    FREED float *y = nn_values(n * pitch + 1, 3);
    FREED float *dw = nn_values(weights, 4);
    nn_graph_plain.features_forward(&made->x, w, w_pitch, width, y, pitch);
    nn_graph_plain.features_weights(&made->x, dy, pitch, width, dw, w_pitch);
    check_untouched(y, n, width, pitch, 3);
    for (size_t k = 0; k < sets(); k++) {
        FREED float *set_y = nn_values(n * pitch + 1, 3);
        FREED float *set_dw = nn_values(weights, 4);
        nn_graphs[k].features_forward(&made->x, w, w_pitch, width, set_y, pitch);
        nn_graphs[k].features_weights(&made->x, dy, pitch, width, set_dw, w_pitch);
        nn_values_assert_close(set_y, y, n * pitch + 1, 2e-6);
        nn_values_assert_close(set_dw, dw, weights, 2e-6);
        check_untouched(set_y, n, width, pitch, 3);
        check_untouched(set_dw, COLUMNS - 1, width, w_pitch, 4);
    }
}

TEST(features) {
    static const uint32_t ns[] = {23, 0, 1, 5};
    for (size_t width = 1; width <= 270; width += width < 130 ? 1 : 35) {
        for (unsigned wide = 0; wide < 2; wide++) {
            struct made_features made;
            open_features(&made, ns[(width + wide) % 4], wide > 0, width);
            check_features(&made, width, (width + 15) / 16 * 16, width + width % 3);
            close_features(&made);
        }
    }
}

/* The plain products against their definitions, in double. */
TEST(features_plain) {
    enum { N = 23, WIDTH = 3, PITCH = 16 };
    static double dense[N][COLUMNS];
    static float dw[COLUMNS][WIDTH];
    float y[N][PITCH];
    struct made_features made;
    FREED float *w = nn_values((size_t)COLUMNS * WIDTH, 1);
    FREED float *dy = nn_values((size_t)N * PITCH, 2);
    open_features(&made, N, true, 7);
    memset(dense, 0, sizeof dense);
    for (size_t k = 0; k < COLUMNS * WIDTH; k++) {
        dw[k / WIDTH][k % WIDTH] = 1;
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t at = made.offsets[i]; at < made.offsets[i + 1]; at++) {
            dense[i][((uint32_t *)made.at)[at]] = (double)made.values[at];
        }
    }
    nn_graph_plain.features_forward(&made.x, w, WIDTH, WIDTH, y[0], PITCH);
    nn_graph_plain.features_weights(&made.x, dy, PITCH, WIDTH, dw[0], WIDTH);
    for (size_t k = 0; k < WIDTH; k++) {
        for (size_t i = 0; i < N; i++) {
            double sum = 0;
            for (size_t column = 0; column < COLUMNS; column++) {
                sum += dense[i][column] * (double)w[column * WIDTH + k];
            }
            assert_true(fabs(sum - (double)y[i][k]) < 1e-4);
        }
        for (size_t column = 0; column < COLUMNS; column++) {
            double sum = 1;
            for (size_t i = 0; i < N; i++) {
                sum += dense[i][column] * (double)dy[i * PITCH + k];
            }
            assert_true(fabs(sum - (double)dw[column][k]) < 1e-4);
        }
    }
    close_features(&made);
}

/* ---- Attention ---- */

/* A graph with `numbers` local numbers, of which n are own vertices, and all that attention reads. */
struct made_attention {
    struct nn_attention attention;
    struct made_lists made;
    struct made_rows forward, backward;
    size_t values, pitch; /* K F, and floats between rows of o */
    float *l, *d_o, *c;
    uint32_t *places;
};

/* What attention computes. */
struct results {
    float *o, *m, *q, *dl, *dz, *dr;
};

static void open_attention(struct made_attention *a, uint32_t heads, uint32_t width, float drop, uint32_t n,
                           unsigned choice) {
    *a = (struct made_attention){
        .attention = {.heads = heads, .width = width, .slope = 0.2F, .drop = drop, .key = 3 + choice},
        .values = (size_t)heads * width};
    a->pitch = (a->values + 15) / 16 * 16;
    open_lists(&a->made, n, choice % 2 > 0, heads + width);
    const uint32_t numbers = a->made.numbers;
    const size_t forward = nn_attention_forward_width(&a->attention);
    open_rows(&a->forward, numbers, forward, choice % 4 > 1, 11 + choice);
    open_rows(&a->backward, numbers, nn_attention_backward_width(&a->attention), choice % 4 > 1, 12 + choice);
    a->l = nn_values(n * heads + 1, 13);
    a->c = nn_values(n * heads + 1, 14);
    a->d_o = nn_values(n * a->pitch + 1, 15);
    a->places = malloc(numbers * sizeof *a->places);
    assert_non_null(a->places);
    for (uint32_t id = 0; id < numbers; id++) {
        a->places[id] = id * 7919 + 5;
        for (size_t head = 0; head < heads; head++) {
            /* Some scores are so far apart that the smaller ones' parts vanish. */
            made_row(&a->forward, id)[a->values + head] *= id % 3 == 0 ? 60 : 2;
        }
    }
    a->attention.places = a->places;
}

static void close_attention(struct made_attention *a) {
    close_lists(&a->made);
    close_rows(&a->forward);
    close_rows(&a->backward);
    free(a->l);
    free(a->c);
    free(a->d_o);
    free(a->places);
}

static void open_results(struct results *results, const struct made_attention *a) {
    const size_t n = a->made.lists.n;
    const size_t heads = a->attention.heads;
    *results = (struct results){.o = nn_values(n * a->pitch + 1, 21),
                                .m = nn_values(n * heads + 1, 22),
                                .q = nn_values(n * heads + 1, 23),
                                .dl = nn_values(n * heads + 1, 24),
                                .dz = nn_values(n * a->pitch + 1, 25),
                                .dr = nn_values(n * heads + 1, 26)};
}

static void close_results(struct results *results) {
    free(results->o);
    free(results->m);
    free(results->q);
    free(results->dl);
    free(results->dz);
    free(results->dr);
}

/* Own vertices' m and q are set in their backward rows; those of ghosts stay as they are, within the range of a real
 * part: scores at most m. */
static void set_backward_rows(const struct made_attention *a, const struct results *results) {
    const size_t heads = a->attention.heads;
    for (uint32_t id = 0; id < a->made.numbers; id++) {
        float *row = made_row(&a->backward, id);
        const bool own = id < a->made.lists.n;
        for (size_t k = 0; k < heads; k++) {
            row[a->values + k] = own ? a->l[id * heads + k] : row[a->values + k];
            row[a->values + heads + k] = own ? results->m[id * heads + k] : 61;
            row[a->values + 2 * heads + k] = own ? results->q[id * heads + k] : 0.5F;
        }
    }
}

static void run_forward(const struct nn_graph *graph, const struct made_attention *a, const struct results *results) {
    graph->attention_forward(&a->attention, &a->made.lists, &a->forward.rows, a->l, results->o, a->pitch, results->m,
                             results->q);
}

/* With m and q of `forward`, so that all sets have the same. */
static void run_backward(const struct nn_graph *graph, const struct made_attention *a, const struct results *forward,
                         const struct results *results) {
    graph->attention_left(&a->attention, &a->made.lists, &a->forward.rows, a->l, forward->m, forward->q, a->c, a->d_o,
                          a->pitch, results->dl);
    graph->attention_backward(&a->attention, &a->made.lists, &a->backward.rows, &a->forward.rows, results->dz, a->pitch,
                              results->dr);
}

static void check_attention(const struct made_attention *a) {
    const size_t n = a->made.lists.n;
    const size_t heads = n * a->attention.heads + 1; /* and one that may not change */
    struct results expected;
    open_results(&expected, a);
    run_forward(&nn_graph_plain, a, &expected);
    set_backward_rows(a, &expected);
    run_backward(&nn_graph_plain, a, &expected, &expected);
    for (size_t k = 0; k < sets(); k++) {
        struct results results;
        open_results(&results, a);
        run_forward(&nn_graphs[k], a, &results);
        run_backward(&nn_graphs[k], a, &expected, &results);
        nn_values_assert_close(results.o, expected.o, n * a->pitch + 1, 1e-5);
        assert_memory_equal(results.m, expected.m, heads * sizeof *results.m);
        nn_values_assert_close(results.q, expected.q, heads, 1e-5);
        nn_values_assert_close(results.dl, expected.dl, heads, 1e-5);
        nn_values_assert_close(results.dz, expected.dz, n * a->pitch + 1, 1e-5);
        nn_values_assert_close(results.dr, expected.dr, heads, 1e-5);
        check_untouched(results.o, n, a->values, a->pitch, 21);
        check_untouched(results.dz, n, a->values, a->pitch, 25);
        close_results(&results);
    }
    close_results(&expected);
}

TEST(attention) {
    static const uint32_t shapes[][2] = {{1, 1},   {1, 7},  {8, 8},  {8, 16},  {4, 5},  {3, 17},
                                         {2, 33},  {9, 8},  {7, 3},  {16, 4},  {17, 3}, {1, 41},
                                         {1, 130}, {5, 40}, {64, 2}, {12, 24}, {8, 1},  {1, 300}};
    static const uint32_t ns[] = {29, 1, 0, 17};
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        for (unsigned choice = 0; choice < 8; choice++) {
            struct made_attention a;
            open_attention(&a, shapes[shape][0], shapes[shape][1], choice > 3 ? 0.6F : 0, ns[(shape + choice) % 4],
                           choice);
            check_attention(&a);
            close_attention(&a);
        }
    }
}

/* ---- Attention's gradients ---- */

enum { VERTICES = 7, HEADS = 3, WIDTH = 5, SCORES = VERTICES * HEADS, VALUES = SCORES * WIDTH };

/* A directed graph, whose vertices are all own, in double. The function of l, r and z whose gradients are checked is
 * the sum of weights[VERTICES][HEADS][WIDTH] times o. */
struct exact {
    unsigned count[VERTICES][VERTICES]; /* i attends to j so many times */
    double keep[VERTICES][VERTICES][HEADS];
    double l[SCORES], r[SCORES], z[VALUES], weights[VALUES];
    double o[VALUES];
};

static double exact_score(const struct exact *exact, size_t i, size_t j, size_t head) {
    const double x = exact->l[i * HEADS + head] + exact->r[j * HEADS + head];
    return x < 0 ? 0.2 * x : x;
}

static double exact_forward(struct exact *exact) {
    double function = 0;
    for (size_t i = 0; i < VERTICES; i++) {
        for (size_t head = 0; head < HEADS; head++) {
            double total = 0;
            for (size_t j = 0; j < VERTICES; j++) {
                total += exact->count[i][j] * exp(exact_score(exact, i, j, head));
            }
            for (size_t k = 0; k < WIDTH; k++) {
                double sum = 0;
                for (size_t j = 0; j < VERTICES; j++) {
                    sum += exact->count[i][j] * exact->keep[i][j][head] * exp(exact_score(exact, i, j, head)) / total *
                           exact->z[(j * HEADS + head) * WIDTH + k];
                }
                exact->o[(i * HEADS + head) * WIDTH + k] = sum;
                function += exact->weights[(i * HEADS + head) * WIDTH + k] * sum;
            }
        }
    }
    return function;
}

/* The derivative by one of l, r and z. */
static double exact_derivative(struct exact *exact, double *by) {
    const double step = 1e-5;
    const double before = *by;
    *by = before + step;
    const double above = exact_forward(exact);
    *by = before - step;
    const double below = exact_forward(exact);
    *by = before;
    return (above - below) / (2 * step);
}

/* The lists of those that each vertex attends to, or that attend to it. */
static void open_exact_lists(struct made_lists *made, const struct exact *exact, bool backward) {
    uint32_t at = 0;
    *made = (struct made_lists){.numbers = VERTICES,
                                .offsets = malloc((VERTICES + 1) * sizeof *made->offsets),
                                .ids = malloc(4 * VERTICES * VERTICES * sizeof(uint16_t))};
    assert_non_null(made->offsets);
    assert_non_null(made->ids);
    made->offsets[0] = 0;
    for (uint32_t i = 0; i < VERTICES; i++) {
        for (uint32_t j = 0; j < VERTICES; j++) {
            const unsigned count = backward ? exact->count[j][i] : exact->count[i][j];
            for (unsigned k = i == j; k < count; k++) { /* a vertex is not in its own list once */
                set_id(made->ids, false, at++, j);
            }
        }
        made->offsets[i + 1] = at;
    }
    made->lists = (struct nn_lists){.n = VERTICES, .offsets = made->offsets, .ids = made->ids};
}

/* What `graph` keeps: with z_j = the j-th unit vector, o_i[j] is keep_ij a_ij times the count. */
static void find_keeps(const struct nn_graph *graph, const struct nn_attention *attention, const struct nn_lists *lists,
                       struct exact *exact) {
    enum { PITCH = HEADS * VERTICES + 3, STRIDE = 24 };
    _Alignas(16) float rows[VERTICES][STRIDE] = {{0}};
    float l[SCORES] = {0};
    float o[VERTICES][PITCH];
    float m[SCORES];
    float q[SCORES];
    struct nn_attention wide = *attention;
    wide.width = VERTICES;
    assert_int_equal(nn_attention_forward_width(&wide), STRIDE);
    for (size_t j = 0; j < VERTICES; j++) {
        for (size_t head = 0; head < HEADS; head++) {
            rows[j][head * VERTICES + j] = 1;
        }
    }
    const struct nn_rows table = {.base = (const unsigned char *)rows, .stride = sizeof rows[0]};
    graph->attention_forward(&wide, lists, &table, l, o[0], PITCH, m, q);
    for (size_t i = 0; i < VERTICES; i++) {
        const double entries = lists->offsets[i + 1] - lists->offsets[i] + 1; /* each has the same part */
        for (size_t head = 0; head < HEADS; head++) {
            for (size_t j = 0; j < VERTICES; j++) {
                const double part = (double)o[i][head * VERTICES + j] * entries;
                const double keep = exact->count[i][j] > 0 ? part / exact->count[i][j] : 0;
                assert_true(fabs(keep) < 1e-6 || fabs(keep - 1 / (1 - (double)attention->drop)) < 1e-5);
                exact->keep[i][j][head] = keep;
            }
        }
    }
}

static void open_exact(struct exact *exact) {
    memset(exact, 0, sizeof *exact);
    for (size_t i = 0; i < VERTICES; i++) {
        for (size_t j = 0; j < VERTICES; j++) {
            /* Vertex 2 attends only to itself, and some pairs are in a list twice. */
            const uint64_t bits = hash_pair(i, j);
            exact->count[i][j] = (i == j) + (i == 2 ? 0U : bits % 8 == 0 ? 2U : bits % 2 == 0 ? 1U : 0U);
        }
    }
    for (size_t k = 0; k < SCORES; k++) {
        exact->l[k] = (double)(float)(hash_pair(1, k) % 1000) / 500 - 1;
        exact->r[k] = (double)(float)(hash_pair(2, k) % 1000) / 500 - 1;
    }
    for (size_t k = 0; k < VALUES; k++) {
        exact->z[k] = (double)(float)(hash_pair(3, k) % 1000) / 500 - 1;
        exact->weights[k] = (double)(float)(hash_pair(4, k) % 1000) / 500 - 1;
    }
}

/* The exact graph's values in float. */
struct exact_rows {
    _Alignas(16) float forward[VERTICES][20];
    _Alignas(16) float backward[VERTICES][28];
    float l[SCORES], m[SCORES], q[SCORES], c[SCORES];
    float o[VALUES], d_o[VALUES], dl[SCORES], dz[VALUES], dr[SCORES];
};

/* Runs forward and backward as an app does. */
static void run_exact(const struct nn_graph *graph, const struct nn_attention *attention, const struct exact *exact,
                      const struct nn_lists *in, const struct nn_lists *out, struct exact_rows *x) {
    enum { F = HEADS * WIDTH };
    const struct nn_rows forward = {.base = (unsigned char *)x->forward, .stride = sizeof x->forward[0]};
    const struct nn_rows backward = {.base = (unsigned char *)x->backward, .stride = sizeof x->backward[0]};
    for (size_t i = 0; i < VERTICES; i++) {
        for (size_t k = 0; k < F; k++) {
            x->forward[i][k] = (float)exact->z[i * F + k];
            x->d_o[i * F + k] = (float)exact->weights[i * F + k];
        }
        for (size_t k = 0; k < HEADS; k++) {
            x->forward[i][F + k] = (float)exact->r[i * HEADS + k];
            x->l[i * HEADS + k] = (float)exact->l[i * HEADS + k];
        }
    }
    graph->attention_forward(attention, in, &forward, x->l, x->o, F, x->m, x->q);
    for (size_t i = 0; i < VERTICES; i++) {
        memcpy(x->backward[i], x->d_o + i * F, F * sizeof(float));
        for (size_t head = 0; head < HEADS; head++) {
            const size_t at = i * HEADS + head;
            x->c[at] = 0;
            for (size_t k = 0; k < WIDTH; k++) {
                x->c[at] += x->d_o[at * WIDTH + k] * x->o[at * WIDTH + k];
            }
            x->backward[i][F + head] = x->l[at];
            x->backward[i][F + HEADS + head] = x->m[at];
            x->backward[i][F + 2 * HEADS + head] = x->q[at];
            x->backward[i][F + 3 * HEADS + head] = x->c[at];
        }
    }
    graph->attention_left(attention, in, &forward, x->l, x->m, x->q, x->c, x->d_o, F, x->dl);
    graph->attention_backward(attention, out, &backward, &forward, x->dz, F, x->dr);
}

static void check_derivatives(struct exact *exact, double *by, const float *gradient, size_t count) {
    for (size_t k = 0; k < count; k++) {
        const double expected = exact_derivative(exact, &by[k]);
        if (!(fabs(expected - (double)gradient[k]) < 2e-5)) {
            fail_msg("derivative %zu is %g, expected %g", k, (double)gradient[k], expected);
        }
    }
}

static void check_gradients(const struct nn_graph *graph, float drop) {
    static struct exact exact;
    static struct exact_rows x;
    static const uint32_t places[VERTICES] = {40, 3, 77, 12345678, 5, 6, 0};
    const struct nn_attention attention = {
        .heads = HEADS, .width = WIDTH, .slope = 0.2F, .drop = drop, .key = 99, .places = places};
    struct made_lists in;
    struct made_lists out;
    open_exact(&exact);
    open_exact_lists(&in, &exact, false);
    open_exact_lists(&out, &exact, true);
    find_keeps(graph, &attention, &in.lists, &exact);
    run_exact(graph, &attention, &exact, &in.lists, &out.lists, &x);
    exact_forward(&exact);
    for (size_t k = 0; k < VALUES; k++) {
        assert_true(fabs(exact.o[k] - (double)x.o[k]) < 1e-5);
    }
    check_derivatives(&exact, exact.l, x.dl, SCORES);
    check_derivatives(&exact, exact.r, x.dr, SCORES);
    check_derivatives(&exact, exact.z, x.dz, VALUES);
    close_lists(&in);
    close_lists(&out);
}

TEST(gradients) {
    static const float drops[] = {0, 0.6F};
    for (size_t d = 0; d < 2; d++) {
        check_gradients(&nn_graph_plain, drops[d]);
        for (size_t k = 0; k < sets(); k++) {
            check_gradients(&nn_graphs[k], drops[d]);
        }
    }
}

/* ---- Dropout ---- */

/* Returns how many of all pairs of 200 vertices are kept both with one key and with another key and other places. */
static size_t count_kept(const struct nn_graph *graph, uint64_t key, uint64_t other, uint32_t shift) {
    enum { N = 200 };
    static float o[2][N][N], rows[N][N + 4], m[N], q[N];
    static uint32_t offsets[N + 1], places[2][N];
    static uint16_t ids[N * N];
    float l[N] = {0};
    size_t kept = 0;
    uint32_t at = 0;
    memset(rows, 0, sizeof rows);
    for (uint16_t i = 0; i < N; i++) {
        rows[i][i] = 1;
        places[0][i] = 1000 + i;
        places[1][i] = 1000 + i + shift;
        for (uint16_t j = 0; j < N; j++) {
            ids[at] = j;
            at += i != j;
        }
        offsets[i + 1] = at;
    }
    const struct nn_lists lists = {.n = N, .offsets = offsets, .ids = ids};
    const struct nn_rows table = {.base = (unsigned char *)rows, .stride = sizeof rows[0]};
    for (size_t k = 0; k < 2; k++) {
        const struct nn_attention attention = {
            .heads = 1, .width = N, .slope = 0.2F, .drop = 0.6F, .key = k == 0 ? key : other, .places = places[k]};
        graph->attention_forward(&attention, &lists, &table, l, o[k][0], N, m, q);
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < N; j++) {
            kept += o[0][i][j] > 0 && o[1][i][j] > 0;
        }
    }
    return kept;
}

/* Of 40000 entries 0.4 are kept; with another key or another place others, so that 0.16 are kept by both. */
TEST(dropped_share) {
    for (size_t k = 0; k < sets(); k++) {
        assert_in_range(count_kept(&nn_graphs[k], 1, 1, 0), 15500, 16500);
        assert_in_range(count_kept(&nn_graphs[k], 1, 2, 0), 6000, 6800);
        assert_in_range(count_kept(&nn_graphs[k], 1, 1, 1), 6000, 6800);
    }
}

/* ---- Vertices alone ---- */

/* A graph with one own vertex, i of another graph, whose local numbers are one greater here: rows and places of number
 * k + 1 are those of k there. */
struct alone {
    uint32_t *offsets, *ids, *slots, *places;
    struct nn_lists lists;
};

static void open_alone(struct alone *alone, const struct made_attention *a, uint32_t i) {
    const struct nn_lists *lists = &a->made.lists;
    const uint32_t count = lists->offsets[i + 1] - lists->offsets[i];
    *alone = (struct alone){.offsets = malloc(2 * sizeof(uint32_t)),
                            .ids = malloc((count + 1) * sizeof(uint32_t)),
                            .slots = malloc((a->made.numbers + 1) * sizeof(uint32_t)),
                            .places = malloc((a->made.numbers + 1) * sizeof(uint32_t))};
    assert_true(alone->offsets && alone->ids && alone->slots && alone->places);
    alone->offsets[0] = 0;
    alone->offsets[1] = count;
    for (uint32_t at = 0; at < count; at++) {
        alone->ids[at] = id_of(lists, lists->offsets[i] + at) + 1;
    }
    for (uint32_t k = 0; k <= a->made.numbers; k++) {
        const uint32_t id = k == 0 ? i : k - 1;
        alone->slots[k] = a->forward.slots[id];
        alone->places[k] = a->places[id];
    }
    alone->lists = (struct nn_lists){.n = 1, .wide = true, .offsets = alone->offsets, .ids = alone->ids};
}

static void close_alone(struct alone *alone) {
    free(alone->offsets);
    free(alone->ids);
    free(alone->slots);
    free(alone->places);
}

/* Computes each vertex alone. */
static void run_alone(const struct nn_graph *graph, const struct made_attention *a, const struct results *forward,
                      const struct results *results) {
    const size_t heads = a->attention.heads;
    for (uint32_t i = 0; i < a->made.lists.n; i++) {
        struct alone alone;
        open_alone(&alone, a, i);
        struct nn_attention attention = a->attention;
        struct nn_rows rows = a->forward.rows;
        struct nn_rows backward = a->backward.rows;
        attention.places = alone.places;
        rows.slots = alone.slots;
        backward.slots = alone.slots;
        const size_t at = i * heads;
        graph->attention_forward(&attention, &alone.lists, &rows, a->l + at, results->o + i * a->pitch, a->pitch,
                                 results->m + at, results->q + at);
        graph->attention_left(&attention, &alone.lists, &rows, a->l + at, forward->m + at, forward->q + at, a->c + at,
                              a->d_o + i * a->pitch, a->pitch, results->dl + at);
        graph->attention_backward(&attention, &alone.lists, &backward, &rows, results->dz + i * a->pitch, a->pitch,
                                  results->dr + at);
        close_alone(&alone);
    }
}

/* A vertex's results are the same to the bit, whatever else is computed with them and whatever the local numbers. */
TEST(attention_alone) {
    for (size_t k = 0; k < sets(); k++) {
        struct made_attention a;
        struct results whole;
        struct results parts;
        open_attention(&a, 8, 8, 0.5F, 29, 2);
        open_results(&whole, &a);
        open_results(&parts, &a);
        run_forward(&nn_graphs[k], &a, &whole);
        set_backward_rows(&a, &whole);
        run_backward(&nn_graphs[k], &a, &whole, &whole);
        run_alone(&nn_graphs[k], &a, &whole, &parts);
        const size_t heads = 29 * 8 * sizeof(float);
        assert_memory_equal(whole.o, parts.o, 29 * a.pitch * sizeof(float));
        assert_memory_equal(whole.m, parts.m, heads);
        assert_memory_equal(whole.q, parts.q, heads);
        assert_memory_equal(whole.dl, parts.dl, heads);
        assert_memory_equal(whole.dz, parts.dz, 29 * a.pitch * sizeof(float));
        assert_memory_equal(whole.dr, parts.dr, heads);
        close_results(&whole);
        close_results(&parts);
        close_attention(&a);
    }
}

TEST(sums_alone) {
    enum { N = 29, WIDE = 70, PITCH = 80 };
    for (size_t k = 0; k < sets(); k++) {
        struct made_lists made;
        struct made_rows rows;
        struct made_features features;
        float y[2][N][PITCH];
        FREED float *w = nn_values((size_t)COLUMNS * WIDE, 1);
        open_lists(&made, N, false, 8);
        open_rows(&rows, made.numbers, WIDE, true, 9);
        open_features(&features, N, false, 10);
        nn_graphs[k].gather(&made.lists, &rows.rows, WIDE, y[0][0], PITCH);
        for (uint32_t i = 0; i < N; i++) {
            struct nn_lists list = made.lists;
            list.n = 1;
            list.offsets += i;
            nn_graphs[k].gather(&list, &rows.rows, WIDE, y[1][i], PITCH);
            assert_memory_equal(y[0][i], y[1][i], WIDE * sizeof(float));
        }
        nn_graphs[k].features_forward(&features.x, w, WIDE, WIDE, y[0][0], PITCH);
        for (uint32_t i = 0; i < N; i++) {
            struct nn_features row = features.x;
            row.n = 1;
            row.offsets += i;
            nn_graphs[k].features_forward(&row, w, WIDE, WIDE, y[1][i], PITCH);
            assert_memory_equal(y[0][i], y[1][i], WIDE * sizeof(float));
        }
        close_lists(&made);
        close_rows(&rows);
        close_features(&features);
    }
}
