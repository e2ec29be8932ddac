/* The shape of a graph neural network: its layers, the places of their parameters, and the phases of its training.
 * Holds no values.
 *
 * Layer l, from 1 to L, makes H_l, a row for each vertex, of H_l-1; H_0 are the features. With W, b its parameters, D
 * the dropout of training, and the averages of graph.h:
 *
 *     gcn    H_l = act(average_symmetric(D(H_l-1) W) + b)      Kipf, Welling, ICLR 2017
 *     sage   H_l = act(average_mean(D(H_l-1) W) + D(H_l-1) W' + b)   Hamilton et al., NIPS 2017, mean aggregator
 *     gat    H_l = act(attention(D(H_l-1) W) + b)              Velickovic et al., ICLR 2018; struct nn_attention
 *
 * act is relu, with gat elu; the last layer has none, and its H are the logits. A layer of gat puts its heads' values
 * side by side, the last layer takes their mean.
 *
 * What vertices exchange are rows of tables. The *message* of a vertex in layer l is what its neighbours gather: its
 * row of H W, with gat also its part of the attention. Its *error* is what they gather in the backward pass. Averages
 * of features alone never change. So with `once` the first layer uses them, and exchanges nothing. */
#ifndef APPS_GNN_NETWORK_H
#define APPS_GNN_NETWORK_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GNN_LAYERS_MAX = 7,   /* each layer that gathers has two tables */
    GNN_WIDTH_MAX = 4096, /* values of a vertex in a layer */
    GNN_HEADS_MAX = 64,
    GNN_ROW = 256, /* parameters in a row of their table */
    GNN_PAD = 16,  /* rows of matrices have a multiple of so many floats; the rest are zeros */
    GNN_PARAMETERS_MAX = 1 << 28
};

enum gnn_kind { GNN_GCN, GNN_GAT, GNN_SAGE };

/* A layer. Offsets of parameters count from the network's first one. */
struct gnn_layer {
    uint32_t in, out;        /* values of a vertex in H_l-1 and H_l */
    uint32_t heads, width;   /* gat: K and F; else 1 and out */
    uint32_t made;           /* values of H W: heads * width */
    size_t pitch, out_pitch; /* `made` and `out`, padded */
    uint32_t message, error; /* floats of a row, multiples of 4 */
    size_t weights;          /* W[in][pitch] */
    size_t self;             /* sage: W'[in][pitch] */
    size_t left, right;      /* gat: [pitch] each, of l_i = left . z_i and r_j = right . z_j */
    size_t bias;             /* [out_pitch] */
    size_t end;              /* behind the layer's parameters: a multiple of GNN_ROW */
};

struct gnn_network {
    enum gnn_kind kind;
    bool once;                                   /* the features are averaged: the first layer gathers nothing */
    bool he;                                     /* start values by He instead of Xavier */
    unsigned gathered;                           /* the first layer that gathers: 2 with `once`, else 1 */
    unsigned count;                              /* L */
    struct gnn_layer layers[GNN_LAYERS_MAX + 1]; /* from 1 */
    size_t parameters;                           /* a multiple of GNN_ROW */
};

/* What the options say of the network. */
struct gnn_shape {
    enum gnn_kind kind;
    const char *layers; /* --layers: values of each hidden layer, "64" or "64,64"; gat: of each head */
    uint32_t heads, output_heads;
    bool once, he;
    uint32_t features, classes;
};

/* Sets the network. Returns 0, or AML_EINPUT with one line: which option, what was expected. */
int gnn_network_make(struct gnn_network *network, const struct gnn_shape *shape, struct error *error);

/* Sets whether the features are averaged once, which does not change the parameters. */
void gnn_network_set_once(struct gnn_network *network, bool once);

/* Returns the layer to which parameter `place` belongs. */
unsigned gnn_network_layer_of(const struct gnn_network *network, size_t place);

/* Writes the start values of parameters first..first + count - 1. Glorot, Bengio, AISTATS 2010 (Xavier): uniform to
 * +- sqrt(6 / (in + out)); or He et al., ICCV 2015: uniform to +- sqrt(6 / in). Biases and what pads a row are 0. A
 * pure function of its arguments. */
void gnn_network_start(const struct gnn_network *network, uint64_t seed, size_t first, size_t count, float *values);

/* ---- Phases (aml_app.phases) of --pipeline sync, from 0 ----
 *
 *     0           gather the last layer's messages: the loss, and its errors
 *     1 .. G      gather the errors of layer L - phase + 1: gradients, and the errors of the layer below
 *     G+1 .. 2G   with the new parameters: make the messages of layer gathered + phase - G - 1
 *
 * with G = L - gathered + 1. So at an iteration's end the messages are of its own parameters, and can be evaluated. */
static inline unsigned gnn_network_gathers(const struct gnn_network *network) {
    return network->count - network->gathered + 1;
}
static inline unsigned gnn_network_phases(const struct gnn_network *network) {
    return 2 * gnn_network_gathers(network) + 1;
}

#endif
