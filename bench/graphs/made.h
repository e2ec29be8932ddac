/* A made-up graph of a degree-corrected block model (Karrer and Newman, Physical Review E 83, 2011): each vertex has
 * a class and a weight of a Pareto distribution. An edge's first end is drawn by weight. Its second end is drawn by
 * weight too: with the chance `within` from the same class, else from the others. Features are the class's mean and
 * normal noise. Ids are shuffled. The same for the same numbers. */
#ifndef BENCH_GRAPHS_MADE_H
#define BENCH_GRAPHS_MADE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct made_shape {
    uint32_t vertices, classes, features;
    uint64_t edges;  /* undirected; no edge from a vertex to itself, but some are there twice */
    double exponent; /* of the degrees, above 2 */
    double within;   /* the part of edges within a class */
    double signal;   /* the deviation of classes' means; noise has 1 */
    uint64_t seed;
};

/* What edges are drawn from: vertices by class, then an alias table for each class (Walker, 1977). */
struct made {
    struct made_shape shape;
    uint32_t *ids;       /* [vertices]: the id of each place; places are in the order of classes */
    uint32_t *firsts;    /* [classes + 1]: the first place of each class */
    float *sums;         /* [classes + 1]: the weight of the classes before, whose last is 1 */
    float *kept;         /* [vertices]: the chance that a place stands for itself */
    uint32_t *otherwise; /* [vertices]: the place that it stands for else */
    float *means;        /* [classes][features] */
};

/* Aborts when memory ends, as memory_zeroed does. */
void made_open(struct made *made, const struct made_shape *shape);
void made_close(struct made *made);

/* Both ends of edge number `number`, from 0. */
struct made_edge {
    uint32_t ends[2];
};
struct made_edge made_edge(const struct made *made, uint64_t number);

/* Sets classes[id] of all vertices. */
void made_classes(const struct made *made, uint32_t *classes);

/* Sets values[features] of the vertex, which has this class. */
void made_features(const struct made *made, uint32_t id, uint32_t class, float *values);

#endif
