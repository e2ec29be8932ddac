/* The scale of features in apps/gnn. */
#include "apps/gnn/scale.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { VERTICES = 4, COLUMNS = 2 };

static struct graph_features dense(const float values[VERTICES][COLUMNS]) {
    struct graph_features features = {.columns = COLUMNS, .dense = true};
    features.values = malloc(sizeof(float) * VERTICES * COLUMNS);
    memcpy(features.values, values, sizeof(float) * VERTICES * COLUMNS);
    return features;
}

/* Vertex v has values[v] in column v % COLUMNS. */
static struct graph_features sparse(const float values[VERTICES]) {
    struct graph_features features = {.columns = COLUMNS};
    features.values = malloc(sizeof(float) * VERTICES);
    features.offsets = malloc(sizeof(uint64_t) * (VERTICES + 1));
    features.at = malloc(sizeof(uint32_t) * VERTICES);
    memcpy(features.values, values, sizeof(float) * VERTICES);
    for (uint32_t v = 0; v <= VERTICES; v++) {
        features.offsets[v] = v;
    }
    for (uint32_t v = 0; v < VERTICES; v++) {
        features.at[v] = v % COLUMNS;
    }
    return features;
}

static void close_features(struct graph_features *features) {
    free(features->values);
    free(features->offsets);
    free(features->at);
}

static enum graph_scale_kind chosen(struct graph_features features) {
    struct graph_scale scale;
    graph_scale_find(&scale, GRAPH_SCALE_AUTO, &features, VERTICES);
    enum graph_scale_kind kind = scale.kind;
    graph_scale_close(&scale);
    close_features(&features);
    return kind;
}

TEST(auto_is_by_the_data) {
    assert_int_equal(chosen(sparse((const float[]){1, 1, 2, 1})), GRAPH_SCALE_UNIT);
    assert_int_equal(chosen(sparse((const float[]){1, -1, 2, 1})), GRAPH_SCALE_STANDARD);
    assert_int_equal(chosen(sparse((const float[]){1, 2000, 2, 3000})), GRAPH_SCALE_STANDARD);
    assert_int_equal(chosen(dense((const float[VERTICES][COLUMNS]){{1, 1}, {2, 1}, {3, 0}, {4, 1}})),
                     GRAPH_SCALE_STANDARD);
}

static void expect(enum graph_scale_kind kind, struct graph_features features, const float *expected, size_t count) {
    struct graph_scale scale, copy;
    graph_scale_find(&scale, kind, &features, VERTICES);
    graph_scale_copy(&scale, &copy);
    assert_true(graph_scale_equal(&scale, &copy));
    graph_scale_apply(&copy, &features, VERTICES);
    for (size_t i = 0; i < count; i++) {
        assert_true(fabsf(features.values[i] - expected[i]) < 1e-6F);
    }
    graph_scale_close(&scale);
    graph_scale_close(&copy);
    close_features(&features);
}

TEST(rows_have_length_or_sum_1) {
    const float values[VERTICES][COLUMNS] = {{3, 4}, {0, 0}, {-1, 1}, {0.5F, 0}};
    expect(GRAPH_SCALE_UNIT, dense(values), (const float[]){0.6F, 0.8F, 0, 0, -0.70710678F, 0.70710678F, 1, 0}, 8);
    expect(GRAPH_SCALE_ROWS, dense(values), (const float[]){3 / 7.F, 4 / 7.F, 0, 0, -0.5F, 0.5F, 0.5F, 0}, 8);
    expect(GRAPH_SCALE_NONE, dense(values), values[0], 8);
    expect(GRAPH_SCALE_UNIT, sparse((const float[]){2, -3, 0, 1}), (const float[]){1, -1, 0, 1}, 4);
}

TEST(columns_have_mean_0_and_deviation_1) {
    const float values[VERTICES][COLUMNS] = {{2001, 7}, {2003, 7}, {2001, 7}, {2003, 7}};
    expect(GRAPH_SCALE_STANDARD, dense(values), (const float[]){-1, 0, 1, 0, -1, 0, 1, 0}, 8);
    /* Zeros that are not written stay 0: columns are divided by the root mean square of the others. */
    expect(GRAPH_SCALE_STANDARD, sparse((const float[]){1, 30, -7, 40}),
           (const float[]){0.2F, 0.84852814F, -1.4F, 1.1313708F}, 4);
}

TEST(scales_differ) {
    struct graph_features one = dense((const float[VERTICES][COLUMNS]){{1, 2}, {2, 1}, {3, 1}, {4, 1}});
    struct graph_features other = dense((const float[VERTICES][COLUMNS]){{1, 2}, {2, 1}, {3, 1}, {5, 1}});
    struct graph_scale first, second;
    graph_scale_find(&first, GRAPH_SCALE_STANDARD, &one, VERTICES);
    graph_scale_find(&second, GRAPH_SCALE_STANDARD, &other, VERTICES);
    assert_false(graph_scale_equal(&first, &second));
    graph_scale_close(&first);
    graph_scale_close(&second);
    close_features(&one);
    close_features(&other);
}

int main(void) {
    return tests_run(NULL, NULL);
}
