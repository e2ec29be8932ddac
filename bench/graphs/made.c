/* See made.h. */
#include "bench/graphs/made.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>

/* What random bits are for, so that none are used twice. */
enum { FOR_IDS = 1, FOR_WEIGHTS, FOR_EDGES, FOR_MEANS, FOR_NOISE };

static uint64_t bits_of(const struct made *made, uint64_t purpose, uint64_t number) {
    return hash_mix(hash_mix(made->shape.seed * 8 + purpose) + number);
}

static double unit(uint64_t bits) {
    return ((double)(bits >> 11) + 0.5) * 0x1p-53;
}

/* About a normal value: four 16-bit uniform values have the deviation 65536 / sqrt(3) together. */
static float about_normal(uint64_t bits) {
    uint32_t sum = (uint32_t)((bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48));
    return ((float)sum - 131070) * (1.7320508F / 65536);
}

static void shuffle_ids(struct made *made) {
    uint32_t *ids = made->ids;
    for (uint32_t v = 0; v < made->shape.vertices; v++) {
        ids[v] = v;
    }
    for (uint32_t v = made->shape.vertices - 1; v > 0; v--) {
        uint32_t other = (uint32_t)(bits_of(made, FOR_IDS, v) % (v + 1));
        uint32_t id = ids[v];
        ids[v] = ids[other];
        ids[other] = id;
    }
}

/* Returns the weight of a place, at most the root of their number: else a vertex would have edges to all others. */
static double weight_of(const struct made *made, uint32_t place) {
    double weight = pow(unit(bits_of(made, FOR_WEIGHTS, place)), -1 / (made->shape.exponent - 1));
    return fmin(weight, sqrt(made->shape.vertices));
}

/* Vose's construction of the alias table of places first..end-1, whose mean weight is `mean`; kept[] has the weights.
 * `waiting` has room for all of them. */
static void make_alias(struct made *made, uint32_t first, uint32_t end, double mean, uint32_t *waiting) {
    uint32_t low = 0; /* places below the mean at the start of `waiting`, others at its end */
    uint32_t room = end - first;
    uint32_t high = room;
    for (uint32_t p = first; p < end; p++) {
        made->kept[p] = (float)(made->kept[p] / mean);
        made->otherwise[p] = p;
        waiting[made->kept[p] < 1 ? low++ : --high] = p;
    }
    while (low > 0 && high < room) {
        uint32_t small = waiting[--low];
        uint32_t large = waiting[high];
        made->otherwise[small] = large;
        made->kept[large] -= 1 - made->kept[small];
        if (made->kept[large] < 1) {
            high++;
            waiting[low++] = large;
        }
    }
    for (uint32_t i = 0; i < low; i++) {
        made->kept[waiting[i]] = 1; /* rounding left nothing for it */
    }
}

/* Classes have the same number of vertices, but not of weight. */
static void draw_weights(struct made *made) {
    const struct made_shape *shape = &made->shape;
    uint32_t *waiting = memory_zeroed(shape->vertices, sizeof *waiting);
    double *sums = memory_zeroed(shape->classes + 1, sizeof *sums);
    for (uint32_t c = 0; c < shape->classes; c++) {
        uint32_t first = made->firsts[c];
        uint32_t end = made->firsts[c + 1];
        double sum = 0;
        for (uint32_t p = first; p < end; p++) {
            made->kept[p] = (float)weight_of(made, p);
            sum += made->kept[p];
        }
        make_alias(made, first, end, sum / (end - first), waiting);
        sums[c + 1] = sums[c] + sum;
    }
    for (uint32_t c = 0; c <= shape->classes; c++) {
        made->sums[c] = (float)(sums[c] / sums[shape->classes]);
    }
    free(sums);
    free(waiting);
}

void made_open(struct made *made, const struct made_shape *shape) {
    *made = (struct made){.shape = *shape};
    made->ids = memory_zeroed(shape->vertices, sizeof *made->ids);
    made->firsts = memory_zeroed(shape->classes + 1, sizeof *made->firsts);
    made->sums = memory_zeroed(shape->classes + 1, sizeof *made->sums);
    made->kept = memory_zeroed(shape->vertices, sizeof *made->kept);
    made->otherwise = memory_zeroed(shape->vertices, sizeof *made->otherwise);
    made->means = memory_zeroed((size_t)shape->classes * shape->features + 1, sizeof *made->means);
    for (uint32_t c = 0; c <= shape->classes; c++) {
        made->firsts[c] = (uint32_t)((uint64_t)shape->vertices * c / shape->classes);
    }
    shuffle_ids(made);
    draw_weights(made);
    for (size_t i = 0; i < (size_t)shape->classes * shape->features; i++) {
        made->means[i] = (float)shape->signal * about_normal(bits_of(made, FOR_MEANS, i));
    }
}

void made_close(struct made *made) {
    free(made->ids);
    free(made->firsts);
    free(made->sums);
    free(made->kept);
    free(made->otherwise);
    free(made->means);
    *made = (struct made){0};
}

static uint32_t draw_class(const struct made *made, uint64_t bits) {
    float at = (float)unit(bits);
    uint32_t class = 0;
    while (class + 1 < made->shape.classes && made->sums[class + 1] <= at) {
        class ++;
    }
    return class;
}

/* Draws a place of the class by weight. */
static uint32_t draw_place(const struct made *made, uint32_t class, uint64_t bits) {
    uint32_t first = made->firsts[class];
    uint32_t place = first + (uint32_t)((bits >> 32) * (made->firsts[class + 1] - first) >> 32);
    return (float)(bits & 0xFFFFFF) * 0x1p-24F < made->kept[place] ? place : made->otherwise[place];
}

/* Draws the class of an edge's second end. */
static uint32_t draw_other_class(const struct made *made, uint32_t class, uint64_t bits) {
    if (unit(bits) < made->shape.within) {
        return class;
    }
    uint32_t other = class;
    bits = ~bits; /* not the caller's next bits */
    while (other == class) {
        bits = hash_mix(bits);
        other = draw_class(made, bits);
    }
    return other;
}

struct made_edge made_edge(const struct made *made, uint64_t number) {
    uint64_t bits = bits_of(made, FOR_EDGES, number);
    uint32_t class = draw_class(made, bits);
    bits = hash_mix(bits);
    uint32_t one = draw_place(made, class, bits);
    uint32_t other = one;
    while (other == one) {
        bits = hash_mix(bits);
        uint32_t other_class = draw_other_class(made, class, bits);
        bits = hash_mix(bits);
        other = draw_place(made, other_class, bits);
    }
    return (struct made_edge){{made->ids[one], made->ids[other]}};
}

void made_classes(const struct made *made, uint32_t *classes) {
    for (uint32_t c = 0; c < made->shape.classes; c++) {
        for (uint32_t p = made->firsts[c]; p < made->firsts[c + 1]; p++) {
            classes[made->ids[p]] = c;
        }
    }
}

void made_features(const struct made *made, uint32_t id, uint32_t class, float *values) {
    uint32_t features = made->shape.features;
    const float *mean = made->means + (size_t) class * features;
    uint64_t start = (uint64_t)id * features;
    for (uint32_t f = 0; f < features; f++) {
        values[f] = mean[f] + about_normal(bits_of(made, FOR_NOISE, start + f));
    }
}
