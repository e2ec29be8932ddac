/* See graph.h. This file has the reference; graph_variants.h has the fast loops, for each set of vector instructions
 * (apps/vectors.h). */
#include "apps/nn/graph.h"

#include "agileml/base/hash.h"

#include <assert.h>
#include <math.h>
#include <string.h>

VECTOR_INLINE uint32_t id_at(const void *ids, bool wide, size_t at) {
    return wide ? ((const uint32_t *)ids)[at] : ((const uint16_t *)ids)[at];
}

VECTOR_INLINE const float *row_of(const struct nn_rows *rows, uint32_t id) {
    size_t slot = rows->slots != NULL ? rows->slots[id] : id;
    return (const float *)(const void *)(rows->base + slot * rows->stride);
}

static void check_rows(const struct nn_rows *rows, size_t width) {
    (void)rows;
    (void)width;
    assert(rows->stride % 16 == 0 && rows->stride >= width * sizeof(float) && (uintptr_t)rows->base % 16 == 0);
}

/* ---- Attention's entries ---- */

static void check_attention(const struct nn_attention *attention) {
    (void)attention;
    assert(attention->heads >= 1 && attention->heads <= NN_HEADS_MAX && attention->width >= 1);
    assert(attention->slope >= 0 && attention->drop >= 0 && attention->drop < 1);
    assert(attention->drop <= 0 || attention->places != NULL);
}

/* The choice of what is dropped. Vertex i's entry for j has 32 random bits: the lower half of splitmix64 of both places
 * and the key. A head's bits are MurmurHash3's finaliser of these and the head. */
struct drop {
    uint64_t key;
    const uint32_t *places; /* NULL: nothing is dropped */
    uint32_t limit;         /* heads with bits below it are dropped */
    float factor;           /* of the others */
};

#define HEAD_STEP 0x9E3779B9U /* between the bits of heads */

static struct drop drop_of(const struct nn_attention *attention) {
    return (struct drop){.key = hash_mix(attention->key),
                         .places = attention->drop > 0 ? attention->places : NULL,
                         .limit = (uint32_t)((double)attention->drop * 0x1p32),
                         .factor = 1 / (1 - attention->drop)};
}

VECTOR_INLINE uint32_t entry_bits(const struct drop *drop, uint32_t i, uint32_t j) {
    return (uint32_t)hash_mix(drop->key ^ ((uint64_t)drop->places[i] << 32 | drop->places[j]));
}

static float keep_of(const struct drop *drop, uint32_t i, uint32_t j, uint32_t head) {
    if (drop->places == NULL) {
        return 1;
    }
    uint32_t bits = entry_bits(drop, i, j) + head * HEAD_STEP;
    bits = (bits ^ bits >> 16) * 0x85EBCA6BU;
    bits = (bits ^ bits >> 13) * 0xC2B2AE35U;
    return (bits ^ bits >> 16) < drop->limit ? 0 : drop->factor;
}

/* Random bits of value i: MurmurHash3's finaliser, with the key before and within. */
VECTOR_INLINE uint32_t value_bits(uint64_t key, uint32_t i) {
    uint32_t bits = i * HEAD_STEP + (uint32_t)key;
    bits = (bits ^ bits >> 16) * 0x85EBCA6BU;
    bits = (bits ^ bits >> 13 ^ (uint32_t)(key >> 32)) * 0xC2B2AE35U;
    return bits ^ bits >> 16;
}

VECTOR_INLINE void drop_values(const float *x, size_t count, uint64_t key, float drop, float *y) {
    const uint64_t start = hash_mix(key);
    const uint32_t limit = (uint32_t)((double)drop * 0x1p32);
    const float factor = 1 / (1 - drop);
    for (size_t i = 0; i < count; i++) {
        y[i] = value_bits(start, (uint32_t)i) < limit ? 0 : x[i] * factor;
    }
}

static void plain_drop(const float *x, size_t count, uint64_t key, float drop, float *y) {
    drop_values(x, count, key, drop, y);
}

static float leaky(const struct nn_attention *attention, float x) {
    return x < 0 ? attention->slope * x : x;
}

static float leaky_slope(const struct nn_attention *attention, float x) {
    return x < 0 ? attention->slope : 1;
}

/* Returns the entries of vertex i: those of its list, then itself. */
VECTOR_INLINE size_t entries_of(const struct nn_lists *lists, uint32_t i) {
    return (size_t)lists->offsets[i + 1] - lists->offsets[i] + 1;
}

VECTOR_INLINE uint32_t entry_at(const struct nn_lists *lists, uint32_t i, size_t at) {
    size_t place = lists->offsets[i] + at;
    return place < lists->offsets[i + 1] ? id_at(lists->ids, lists->wide, place) : i;
}

/* ---- The reference ---- */

static void plain_gather(const struct nn_lists *lists, const struct nn_rows *rows, size_t width, float *y,
                         size_t pitch) {
    check_rows(rows, width);
    for (uint32_t i = 0; i < lists->n; i++) {
        float *sum = y + i * pitch;
        memset(sum, 0, width * sizeof *sum);
        for (size_t at = lists->offsets[i]; at < lists->offsets[i + 1]; at++) {
            const float *row = row_of(rows, id_at(lists->ids, lists->wide, at));
            for (size_t k = 0; k < width; k++) {
                sum[k] += row[k];
            }
        }
    }
}

static void plain_features_forward(const struct nn_features *x, const float *w, size_t w_pitch, size_t width, float *y,
                                   size_t pitch) {
    assert(!x->dense);
    for (uint32_t i = 0; i < x->n; i++) {
        float *sum = y + i * pitch;
        memset(sum, 0, width * sizeof *sum);
        for (size_t at = x->offsets[i]; at < x->offsets[i + 1]; at++) {
            const float *row = w + id_at(x->at, x->wide, at) * w_pitch;
            for (size_t k = 0; k < width; k++) {
                sum[k] += x->values[at] * row[k];
            }
        }
    }
}

static void plain_features_weights(const struct nn_features *x, const float *dy, size_t pitch, size_t width, float *dw,
                                   size_t w_pitch) {
    assert(!x->dense);
    for (uint32_t i = 0; i < x->n; i++) {
        const float *errors = dy + i * pitch;
        for (size_t at = x->offsets[i]; at < x->offsets[i + 1]; at++) {
            float *sum = dw + id_at(x->at, x->wide, at) * w_pitch;
            for (size_t k = 0; k < width; k++) {
                sum[k] += x->values[at] * errors[k];
            }
        }
    }
}

static float dot(const float *a, const float *b, size_t count) {
    float sum = 0;
    for (size_t k = 0; k < count; k++) {
        sum += a[k] * b[k];
    }
    return sum;
}

static void add_scaled(float *sum, float factor, const float *x, size_t count) {
    for (size_t k = 0; k < count; k++) {
        sum[k] += factor * x[k];
    }
}

static void plain_attention_forward(const struct nn_attention *attention, const struct nn_lists *lists,
                                    const struct nn_rows *rows, const float *l, float *o, size_t pitch, float *m,
                                    float *q) {
    const size_t heads = attention->heads;
    const size_t width = attention->width;
    const struct drop drop = drop_of(attention);
    check_attention(attention);
    check_rows(rows, nn_attention_forward_width(attention));
    for (uint32_t i = 0; i < lists->n; i++) {
        const size_t entries = entries_of(lists, i);
        for (uint32_t head = 0; head < heads; head++) {
            const size_t place = i * heads + head;
            float *sum = o + i * pitch + head * width;
            float total = 0;
            m[place] = -INFINITY;
            for (size_t e = 0; e < entries; e++) {
                const float r = row_of(rows, entry_at(lists, i, e))[heads * width + head];
                m[place] = fmaxf(m[place], leaky(attention, l[place] + r));
            }
            memset(sum, 0, width * sizeof *sum);
            for (size_t e = 0; e < entries; e++) {
                const uint32_t j = entry_at(lists, i, e);
                const float *row = row_of(rows, j);
                const float part = expf(leaky(attention, l[place] + row[heads * width + head]) - m[place]);
                total += part;
                add_scaled(sum, keep_of(&drop, i, j, head) * part, row + head * width, width);
            }
            q[place] = 1 / total;
            for (size_t k = 0; k < width; k++) {
                sum[k] *= q[place];
            }
        }
    }
}

static void plain_attention_left(const struct nn_attention *attention, const struct nn_lists *lists,
                                 const struct nn_rows *rows, const float *l, const float *m, const float *q,
                                 const float *c, const float *d_o, size_t pitch, float *dl) {
    const size_t heads = attention->heads;
    const size_t width = attention->width;
    const struct drop drop = drop_of(attention);
    check_attention(attention);
    check_rows(rows, nn_attention_forward_width(attention));
    for (uint32_t i = 0; i < lists->n; i++) {
        const size_t entries = entries_of(lists, i);
        for (uint32_t head = 0; head < heads; head++) {
            const size_t place = i * heads + head;
            const float *errors = d_o + i * pitch + head * width;
            dl[place] = 0;
            for (size_t e = 0; e < entries; e++) {
                const uint32_t j = entry_at(lists, i, e);
                const float *row = row_of(rows, j);
                const float x = l[place] + row[heads * width + head];
                const float a = expf(fminf(leaky(attention, x) - m[place], 0)) * q[place];
                const float d_a = keep_of(&drop, i, j, head) * dot(errors, row + head * width, width);
                dl[place] += a * leaky_slope(attention, x) * (d_a - c[place]);
            }
        }
    }
}

static void plain_attention_backward(const struct nn_attention *attention, const struct nn_lists *lists,
                                     const struct nn_rows *rows, const struct nn_rows *own, float *dz, size_t pitch,
                                     float *dr) {
    const size_t heads = attention->heads;
    const size_t width = attention->width;
    const struct drop drop = drop_of(attention);
    check_attention(attention);
    check_rows(rows, nn_attention_backward_width(attention));
    check_rows(own, nn_attention_forward_width(attention));
    for (uint32_t j = 0; j < lists->n; j++) {
        const size_t entries = entries_of(lists, j);
        for (uint32_t head = 0; head < heads; head++) {
            const float *z = row_of(own, j) + head * width;
            const float r = row_of(own, j)[heads * width + head];
            float *sum = dz + j * pitch + head * width;
            float *sum_r = dr + j * heads + head;
            memset(sum, 0, width * sizeof *sum);
            *sum_r = 0;
            for (size_t e = 0; e < entries; e++) {
                const uint32_t i = entry_at(lists, j, e);
                const float *errors = row_of(rows, i) + head * width;
                const float *parts = row_of(rows, i) + heads * width + head; /* l, m, q, c: `heads` floats apart */
                const float x = parts[0] + r;
                const float a = expf(fminf(leaky(attention, x) - parts[heads], 0)) * parts[2 * heads];
                const float keep = keep_of(&drop, i, j, head);
                add_scaled(sum, keep * a, errors, width);
                *sum_r += a * leaky_slope(attention, x) * (keep * dot(errors, z, width) - parts[3 * heads]);
            }
        }
    }
}

const struct nn_graph nn_graph_plain = {.name = "plain",
                                        .drop = plain_drop,
                                        .gather = plain_gather,
                                        .features_forward = plain_features_forward,
                                        .features_weights = plain_features_weights,
                                        .attention_forward = plain_attention_forward,
                                        .attention_left = plain_attention_left,
                                        .attention_backward = plain_attention_backward};

/* ---- The fast sets ---- */

enum {
    SUM_VECTORS = 8,        /* vectors of a row whose sums are in registers at once */
    PREFETCH_DISTANCE = 16, /* entries between a row's prefetch and its use */
    CACHE_LINE = 64
};

/* y[i][columns] = sum of rows over list i, each times its value, if `values` is not NULL. */
struct row_sums {
    struct nn_lists lists;
    const float *values; /* NULL or one for each entry */
    struct nn_rows rows;
    size_t columns;
    float *y;
    size_t pitch;
};

/* Prefetches the row of entry `at`, which has `bytes` bytes. */
VECTOR_INLINE void prefetch_entry(const struct nn_lists *lists, const bool wide, const struct nn_rows *rows, size_t at,
                                  size_t bytes) {
    if (at < lists->offsets[lists->n]) {
        const unsigned char *row = (const unsigned char *)row_of(rows, id_at(lists->ids, wide, at));
        for (size_t byte = 0; byte < bytes; byte += CACHE_LINE) {
            __builtin_prefetch(row + byte);
        }
    }
}

static size_t smaller(size_t one, size_t other) {
    return one < other ? one : other;
}

enum {
    BLOCK_ENTRIES = 16, /* entries of a vertex whose rows stay in a first-level cache */
    BLOCK_HEADS = 8,    /* heads that are computed together, if they are narrow */
    /* Full vectors are stored, also for the last heads. */
    BLOCK_VALUES = BLOCK_ENTRIES * NN_HEADS_MAX + 16
};

/* What a call for attention has in common for all vertices. */
struct attention_pass {
    const struct nn_attention *attention;
    const struct nn_lists *lists;
    const struct nn_rows *rows; /* of the other vertices */
    size_t heads, width;
    size_t values; /* K F: what follows in a row are heads' values */
    size_t bytes;  /* of a row */
    bool backward; /* the others attend to the vertex, instead of the vertex to them */
    struct drop drop;
};

/* Some entries of a vertex. Heads' values are [entries][heads]. */
struct entry_block {
    size_t entries;
    uint32_t ids[BLOCK_ENTRIES];
    const float *rows[BLOCK_ENTRIES];
    float parts[BLOCK_VALUES];  /* a_ij, or forward and left a_ij / q_i */
    float slopes[BLOCK_VALUES]; /* leaky' */
    float keeps[BLOCK_VALUES];
    float dots[BLOCK_VALUES]; /* do_i . z_j, then times keep */
};

VECTOR_INLINE struct attention_pass attention_pass(const struct nn_attention *attention, const struct nn_lists *lists,
                                                   const struct nn_rows *rows, size_t heads, size_t width,
                                                   bool backward) {
    const size_t floats = heads * (width + (backward ? 4 : 1));
    check_attention(attention);
    check_rows(rows, floats);
    return (struct attention_pass){.attention = attention,
                                   .lists = lists,
                                   .rows = rows,
                                   .heads = heads,
                                   .width = width,
                                   .values = heads * width,
                                   .bytes = floats * sizeof(float),
                                   .backward = backward,
                                   .drop = drop_of(attention)};
}

VECTOR_INLINE void open_block(const struct attention_pass *pass, uint32_t i, size_t first, struct entry_block *block) {
    const struct nn_lists *lists = pass->lists;
    block->entries = smaller(entries_of(lists, i) - first, BLOCK_ENTRIES);
    for (size_t e = 0; e < block->entries; e++) {
        prefetch_entry(lists, lists->wide, pass->rows, lists->offsets[i] + first + e + BLOCK_ENTRIES, pass->bytes);
        block->ids[e] = entry_at(lists, i, first + e);
        block->rows[e] = row_of(pass->rows, block->ids[e]);
    }
}

#define VECTOR_LOOPS "apps/nn/graph_variants.h"
#include "apps/vector_sets.h"
#undef VECTOR_LOOPS
#define VECTOR_LOOPS "apps/nn/graph_attention_variants.h"
#include "apps/vector_sets.h"

const struct nn_graph nn_graphs[VECTOR_SETS] = {
    {"portable", portable_drop, portable_gather, portable_features_forward, portable_features_weights,
     portable_attention_forward, portable_attention_left, portable_attention_backward},
#if defined(__x86_64__)
    {"avx2", avx2_drop, avx2_gather, avx2_features_forward, avx2_features_weights, avx2_attention_forward,
     avx2_attention_left, avx2_attention_backward},
    {"avx512", avx512_drop, avx512_gather, avx512_features_forward, avx512_features_weights, avx512_attention_forward,
     avx512_attention_left, avx512_attention_backward},
#endif
};
