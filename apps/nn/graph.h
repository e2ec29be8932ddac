/* Kernels of graph neural networks, as plain functions on arrays in the caller's thread, without allocation. Written
 * first as `nn_graph_plain`, the reference for the faster sets.
 *
 * A process has an interval of the graph: n own vertices with local numbers 0..n-1, and ghosts with the numbers after
 * them. Values of vertices are rows of a table's cache: row i is base + slots[i] * stride. */
#ifndef APPS_NN_GRAPH_H
#define APPS_NN_GRAPH_H

#include "apps/vectors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lists of local numbers, one for each own vertex: list i is ids[offsets[i]..offsets[i + 1] - 1]. */
struct nn_lists {
    uint32_t n;
    bool wide;               /* ids are uint32_t, else uint16_t */
    const uint32_t *offsets; /* [n + 1] */
    const void *ids;
};

/* Rows of floats by local number. A row can be read up to the next multiple of 4 floats. */
struct nn_rows {
    const unsigned char *base;
    size_t stride;         /* bytes; a multiple of 16, as is base */
    const uint32_t *slots; /* NULL: row i is at i * stride */
};

enum { NN_HEADS_MAX = 64 };

/* n rows of features. Dense: values[n][columns]. Sparse: row i has values[offsets[i]..offsets[i + 1] - 1] in the
 * columns `at`, ascending. */
struct nn_features {
    uint32_t n, columns;
    bool dense;
    bool wide; /* `at` is uint32_t, else uint16_t */
    const float *values;
    const uint32_t *offsets; /* [n + 1] */
    const void *at;
};

/* Attention over neighbours: K heads of F values each (Velickovic et al., ICLR 2018, equations 3 to 6). A vertex
 * attends to those of its list and to itself. With s_ij = leaky(l_i + r_j) for each head and a_ij = exp(s_ij) /
 * sum_j exp(s_ij):
 *
 *     o_i = sum_j keep_ij a_ij z_j
 *
 * Nothing is kept for an edge: all is computed again from rows. A vertex j's row forward is z[K][F], r[K]. Vertex i's
 * row backward is do[K][F], l[K], m[K], q[K], c[K], where m is the greatest s_ij, q = 1 / sum_j exp(s_ij - m), and
 * c = do . o. If i's row is older than r_j, s_ij may exceed m: then it counts as m, so that a_ij is at most 1. keep_ij
 * is 1, or with `drop` above 0 either 0 or 1 / (1 - drop), chosen by `key`, both vertices' places and the head: the
 * same forward and backward, on any node. */
struct nn_attention {
    uint32_t heads, width; /* K, at most NN_HEADS_MAX; F */
    float slope;           /* leaky(x) = x < 0 ? slope x : x; at least 0 */
    float drop;            /* at least 0, below 1 */
    uint64_t key;
    const uint32_t *places; /* [local numbers]: vertices' numbers in the graph; only with drop > 0 */
};

/* One implementation. drop: y = x with a part `drop` (0 to below 1) of the values 0 by chance, and the others divided
 * by 1 - drop. Value i's chance depends on `key` and i alone, in every implementation. y may be x.
 *
 * Arrays of own vertices' values have `pitch` floats a row; nothing is written after a row's
 * values. The result for a vertex depends only on its list and the rows in it, not on the others of the call.
 *
 * gather: y[i][0..width-1] = sum over list i of rows; overwrites.
 *
 * features_forward: y[n][width] = x w, with w[columns] rows of `w_pitch` floats; overwrites.
 * features_weights: adds x^T dy to dw[columns] rows of w_pitch floats.
 * Both only for sparse features; dense ones are matrix products (layers.h).
 *
 * attention_forward: sets o[n][K F] and m[n][K], q[n][K] (packed) from l[n][K] and the rows z, r.
 * attention_left: sets dl[n][K], the gradient by l, from l, m, q, c (packed [n][K]), do[n][pitch] and the rows z, r:
 *
 *     dl_i = sum_j a_ij leaky'(l_i + r_j) (keep_ij do_i . z_j - c_i)
 *
 * attention_backward: sets dz[n][K F] and dr[n][K] from backward rows of the vertices i of list j, those that attend to
 * j, and of j itself, and from j's forward row z, r in `own` (local numbers 0..n-1):
 *
 *     dz_j = sum_i keep_ij a_ij do_i
 *     dr_j = sum_i a_ij leaky'(l_i + r_j) (keep_ij do_i . z_j - c_i) */
struct nn_graph {
    const char *name;
    void (*drop)(const float *x, size_t count, uint64_t key, float drop, float *y);
    void (*gather)(const struct nn_lists *lists, const struct nn_rows *rows, size_t width, float *y, size_t pitch);
    void (*features_forward)(const struct nn_features *x, const float *w, size_t w_pitch, size_t width, float *y,
                             size_t pitch);
    void (*features_weights)(const struct nn_features *x, const float *dy, size_t pitch, size_t width, float *dw,
                             size_t w_pitch);
    void (*attention_forward)(const struct nn_attention *attention, const struct nn_lists *lists,
                              const struct nn_rows *rows, const float *l, float *o, size_t pitch, float *m, float *q);
    void (*attention_left)(const struct nn_attention *attention, const struct nn_lists *lists,
                           const struct nn_rows *rows, const float *l, const float *m, const float *q, const float *c,
                           const float *d_o, size_t pitch, float *dl);
    void (*attention_backward)(const struct nn_attention *attention, const struct nn_lists *lists,
                               const struct nn_rows *rows, const struct nn_rows *own, float *dz, size_t pitch,
                               float *dr);
};

extern const struct nn_graph nn_graph_plain;

/* For each set of instructions; this processor runs nn_graphs[0..vectors_wide()]. */
extern const struct nn_graph nn_graphs[VECTOR_SETS];

/* Floats of a forward and of a backward row. */
static inline size_t nn_attention_forward_width(const struct nn_attention *attention) {
    return (size_t)attention->heads * (attention->width + 1);
}
static inline size_t nn_attention_backward_width(const struct nn_attention *attention) {
    return (size_t)attention->heads * (attention->width + 4);
}

#endif
