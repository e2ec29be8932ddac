/* The shape of a network: its layers as --layers describes them, and the places of their parameters. Holds no
 * values.
 *
 * A description is a list of layers with commas between them, from the input on:
 *
 *     conv FxK     F filters of K x K pixels with stride 1, over images; the output has the image's size
 *     pool K       the largest value of each window of K x K pixels
 *     dense N      N units, each from all values
 *     norm         layer norm: of the channels of each pixel, or of all values of vectors and behind a dense
 *                  layer. Of more than one value
 *     dropout P    in training, a part P of the values, by chance, is 0
 *
 * relu follows each conv and dense layer; if a norm directly follows the layer, relu comes after the norm. A dense
 * layer with one unit for each class ends the network; the description leaves it out. */
#ifndef APPS_NET_NETWORK_H
#define APPS_NET_NETWORK_H

#include "agileml/base/error.h"
#include "apps/nn/layers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NETWORK_LAYERS_MAX = 128,     /* including relu and the output layer */
    NETWORK_TEXT_MAX = 4000,      /* bytes of a description */
    NETWORK_KERNEL_MAX = 31,      /* K of conv */
    NETWORK_UNITS_MAX = 1 << 16,  /* filters or units of a layer */
    NETWORK_VALUES_MAX = 1 << 24, /* values of a sample in a layer's output */
    NETWORK_PARAMETERS_MAX = 1 << 28
};

enum network_kind { NETWORK_CONV, NETWORK_POOL, NETWORK_DENSE, NETWORK_NORM, NETWORK_RELU, NETWORK_DROPOUT };

/* The values of a sample between two layers: an image [height][width][channels], or a vector of `channels` values. */
struct network_shape {
    size_t height, width, channels;
    bool image;
};

static inline size_t network_values(const struct network_shape *shape) {
    return shape->height * shape->width * shape->channels;
}

struct network_layer {
    enum network_kind kind;
    struct network_shape in, out;
    size_t k;                 /* conv, pool */
    float drop;               /* dropout */
    size_t first, parameters; /* place and number of the layer's parameters, in the shapes of layers.h */
    size_t weights;           /* how many of the parameters are weights, which L2 shrinks */
    size_t fan_in;            /* conv, dense: number of weights of one output */
};

struct network {
    struct network_shape input;
    size_t classes;
    struct network_layer layers[NETWORK_LAYERS_MAX];
    size_t count;
    size_t parameters;
    size_t products; /* multiplications for a sample, forward and backward, without errors of the first layer's input */
};

/* The shapes of layers in layers.h. */
static inline struct nn_conv network_conv(const struct network_layer *layer) {
    return (struct nn_conv){.height = layer->in.height,
                            .width = layer->in.width,
                            .channels = layer->in.channels,
                            .k = layer->k,
                            .filters = layer->out.channels};
}

static inline struct nn_pool network_pool(const struct network_layer *layer) {
    return (struct nn_pool){
        .height = layer->in.height, .width = layer->in.width, .channels = layer->in.channels, .size = layer->k};
}

static inline struct nn_dense network_dense(const struct network_layer *layer) {
    return (struct nn_dense){.in = network_values(&layer->in), .out = layer->out.channels};
}

/* Returns the first layer with parameters, at which the errors' propagation ends. */
static inline size_t network_first_trained(const struct network *network) {
    size_t first = 0;
    while (network->layers[first].parameters == 0) { /* ends at the latest at the output layer, which has parameters */
        first++;
    }
    return first;
}

/* Parses a description. Returns 0, or AML_EINPUT with one line: which layer, what was expected. `text` NULL or empty
 * means only the output layer. */
int network_parse(struct network *network, const char *text, const struct network_shape *input, size_t classes,
                  struct error *error);

/* Whether a description has layers for images, conv or pool. `text` may be NULL. */
bool network_needs_images(const char *text);

/* Writes the start values of the parameters first..first + count - 1, and zeros beyond the last one. Weights are
 * uniform with variance 2 / fan_in (He et al., Delving Deep into Rectifiers, 2015); the output's weights have
 * variance 1 / fan_in. A pure function of its arguments. */
void network_start(const struct network *network, uint64_t seed, size_t first, size_t count, float *values);

#endif
