/* See network.h. */
#include "apps/gnn/network.h"

#include "agileml.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t padded(size_t count, size_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* Reads the widths of the hidden layers. Returns their number, or AML_EINPUT. */
static int parse_layers(const char *text, uint32_t widths[GNN_LAYERS_MAX], struct error *error) {
    int count = 0;
    for (const char *at = text;; at++) {
        char *end;
        long width = strtol(at, &end, 10);
        if (*at < '0' || *at > '9' || width < 1 || width > GNN_WIDTH_MAX || (*end != ',' && *end != 0)) {
            return error_set(
                error, AML_EINPUT,
                "--layers: expected the width of each hidden layer, 1 to %d, such as 64 or 64,64; got '%s'",
                GNN_WIDTH_MAX, text);
        }
        if (count == GNN_LAYERS_MAX - 1) {
            return error_set(error, AML_EINPUT, "--layers: expected at most %d hidden layers, got '%s'",
                             GNN_LAYERS_MAX - 1, text);
        }
        widths[count++] = (uint32_t)width;
        at = end;
        if (*at == 0) {
            return count;
        }
    }
}

/* Places the layer's parameters behind `first`. */
static void place_parameters(struct gnn_layer *layer, enum gnn_kind kind, size_t first) {
    size_t matrix = layer->in * layer->pitch;
    layer->weights = first;
    layer->self = first + matrix;
    layer->left = layer->self + (kind == GNN_SAGE ? matrix : 0);
    layer->right = layer->left + (kind == GNN_GAT ? layer->pitch : 0);
    layer->bias = layer->right + (kind == GNN_GAT ? layer->pitch : 0);
    layer->end = padded(layer->bias + layer->out_pitch, GNN_ROW);
}

static void make_layer(struct gnn_layer *layer, const struct gnn_shape *shape, uint32_t in, uint32_t width, bool last) {
    bool attends = shape->kind == GNN_GAT;
    layer->in = in;
    layer->heads = !attends ? 1 : last ? shape->output_heads : shape->heads;
    layer->width = width;
    layer->made = layer->heads * width;
    layer->out = last ? width : layer->made;
    layer->pitch = padded(layer->made, GNN_PAD);
    layer->out_pitch = padded(layer->out, GNN_PAD);
    layer->message = (uint32_t)padded(attends ? layer->made + layer->heads : layer->made, 4);
    layer->error = (uint32_t)padded(attends ? layer->made + 5 * layer->heads : layer->made, 4);
}

int gnn_network_make(struct gnn_network *network, const struct gnn_shape *shape, struct error *error) {
    uint32_t widths[GNN_LAYERS_MAX];
    int hidden = parse_layers(shape->layers, widths, error);
    if (hidden < 0) {
        return hidden;
    }
    *network = (struct gnn_network){.kind = shape->kind, .he = shape->he, .count = (unsigned)hidden + 1};
    gnn_network_set_once(network, shape->once);
    uint32_t in = shape->features;
    for (unsigned l = 1; l <= network->count; l++) {
        struct gnn_layer *layer = &network->layers[l];
        bool last = l == network->count;
        make_layer(layer, shape, in, last ? shape->classes : widths[l - 1], last);
        place_parameters(layer, shape->kind, network->parameters);
        if (layer->made > GNN_WIDTH_MAX) {
            return error_set(error, AML_EINPUT,
                             "--layers, --heads: expected at most %d values of a vertex in a layer, got %u x %u",
                             GNN_WIDTH_MAX, layer->heads, layer->width);
        }
        if (layer->end > GNN_PARAMETERS_MAX) {
            return error_set(error, AML_EINPUT,
                             "--layers: expected at most %d parameters, got %zu in the first %u of %u layers",
                             GNN_PARAMETERS_MAX, layer->end, l, network->count);
        }
        network->parameters = layer->end;
        in = layer->out;
    }
    return 0;
}

void gnn_network_set_once(struct gnn_network *network, bool once) {
    network->once = once;
    network->gathered = once ? 2 : 1;
}

unsigned gnn_network_layer_of(const struct gnn_network *network, size_t place) {
    unsigned l = 1;
    while (l < network->count && place >= network->layers[l].end) {
        l++;
    }
    return l;
}

/* ---- Start values ---- */

enum part { WEIGHTS, SELF, LEFT, RIGHT };

/* A matrix [in][out] among a layer's parameters, whose rows are `pitch` floats apart. */
struct matrix {
    size_t first, pitch;
    size_t in, out;         /* of the values that are not 0 */
    size_t fan_in, fan_out; /* for the bound */
    enum part part;
};

/* Finds the matrix that a layer's parameter belongs to. Returns false for biases and what pads the layer. */
static bool find_matrix(const struct gnn_layer *layer, enum gnn_kind kind, size_t place, struct matrix *matrix) {
    *matrix = (struct matrix){
        .pitch = layer->pitch, .in = layer->in, .out = layer->made, .fan_in = layer->in, .fan_out = layer->made};
    if (place < layer->self) {
        matrix->first = layer->weights;
        matrix->part = WEIGHTS;
    } else if (kind == GNN_SAGE && place < layer->left) {
        matrix->first = layer->self;
        matrix->part = SELF;
    } else if (kind == GNN_GAT && place < layer->bias) {
        matrix->in = 1;
        matrix->fan_in = layer->width;
        matrix->fan_out = 1;
        matrix->part = place < layer->right ? LEFT : RIGHT;
        matrix->first = place < layer->right ? layer->left : layer->right;
    } else {
        return false;
    }
    return true;
}

static float start_value(const struct gnn_network *network, uint64_t seed, size_t place) {
    static const uint64_t LAYER = 1000; /* layers' parts in the sequence of seeds */
    unsigned l = gnn_network_layer_of(network, place);
    struct matrix matrix;
    if (!find_matrix(&network->layers[l], network->kind, place, &matrix)) {
        return 0;
    }
    size_t row = (place - matrix.first) / matrix.pitch;
    size_t column = (place - matrix.first) % matrix.pitch;
    if (row >= matrix.in || column >= matrix.out) {
        return 0;
    }
    uint64_t bits = aml_mix(aml_mix(seed, LAYER * l + matrix.part), row * matrix.out + column);
    double uniform = ((double)(bits >> 40) + 0.5) * 0x1p-24;
    double fans = (double)(network->he ? matrix.fan_in : matrix.fan_in + matrix.fan_out);
    return (float)((2 * uniform - 1) * sqrt(6 / fans));
}

void gnn_network_start(const struct gnn_network *network, uint64_t seed, size_t first, size_t count, float *values) {
    for (size_t i = 0; i < count; i++) {
        values[i] = first + i < network->parameters ? start_value(network, seed, first + i) : 0;
    }
}
