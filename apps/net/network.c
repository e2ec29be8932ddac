/* See network.h. */
#include "apps/net/network.h"

#include "agileml/base/hash.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 16 };

/* The state while a description is parsed. */
struct parsing {
    struct network *network;
    struct network_shape shape; /* shape of the output of the layers so far */
    bool relu;                  /* a relu is due, but may come after a norm or pool */
    bool dense;                 /* a dense layer has been read */
    bool norm;                  /* a norm may come before that relu */
    unsigned number;            /* number of the layer, from 1 */
    const char *text;           /* [length] text of the layer */
    size_t length;
    struct error *error;
};

static int refuse(const struct parsing *p, const char *expected) {
    return error_set(p->error, AML_EINPUT, "--layers: layer %u, '%.*s': expected %s", p->number, (int)p->length,
                     p->text, expected);
}

/* Rejects a layer of images where the values are not images. */
static int refuse_image(const struct parsing *p, const char *what) {
    if (p->dense) {
        return error_set(p->error, AML_EINPUT, "--layers: layer %u, '%.*s': expected no %s behind a dense layer",
                         p->number, (int)p->length, p->text, what);
    }
    return error_set(p->error, AML_EINPUT,
                     "--layers: layer %u, '%.*s': expected images, %zu features are none: see --image-width and "
                     "--channels",
                     p->number, (int)p->length, p->text, network_values(&p->shape));
}

static int add_layer(struct parsing *p, struct network_layer layer) {
    struct network *network = p->network;
    layer.in = p->shape;
    layer.first = network->parameters;
    size_t values = layer.out.height * layer.out.width; /* both are small enough for this product */
    if (network->count == NETWORK_LAYERS_MAX) {
        return error_set(p->error, AML_EINPUT, "--layers: expected at most %d layers, with relu", NETWORK_LAYERS_MAX);
    }
    if (layer.out.channels > NETWORK_VALUES_MAX / values) {
        return error_set(p->error, AML_EINPUT, "--layers: layer %u gives more than %d values", p->number,
                         NETWORK_VALUES_MAX);
    }
    if (layer.parameters > NETWORK_PARAMETERS_MAX - network->parameters) {
        return error_set(p->error, AML_EINPUT, "--layers: more than %d parameters up to layer %u",
                         NETWORK_PARAMETERS_MAX, p->number);
    }
    size_t passes = network->parameters > 0 ? 3 : 2; /* the first needs no errors of its input */
    network->products += passes * layer.weights * (layer.kind == NETWORK_CONV ? values : 1);
    network->parameters += layer.parameters;
    network->layers[network->count++] = layer;
    p->shape = layer.out;
    return 0;
}

static int add_relu(struct parsing *p) {
    bool due = p->relu;
    p->relu = false;
    p->norm = false;
    return due ? add_layer(p, (struct network_layer){.kind = NETWORK_RELU, .out = p->shape}) : 0;
}

static int add_conv(struct parsing *p, size_t filters, size_t k) {
    if (!p->shape.image) {
        return refuse_image(p, "conv");
    }
    struct network_layer layer = {.kind = NETWORK_CONV, .out = p->shape, .k = k};
    layer.fan_in = k * k * p->shape.channels;
    layer.weights = layer.fan_in * filters;
    layer.parameters = layer.weights + filters;
    layer.out.channels = filters;
    int result = add_relu(p);
    result = result == 0 ? add_layer(p, layer) : result;
    p->relu = true;
    p->norm = true;
    return result;
}

static int add_pool(struct parsing *p, size_t k) {
    if (!p->shape.image) {
        return refuse_image(p, "pool");
    }
    if (k > p->shape.height || k > p->shape.width) {
        return error_set(p->error, AML_EINPUT, "--layers: layer %u, '%.*s': the images there have %zu x %zu pixels",
                         p->number, (int)p->length, p->text, p->shape.width, p->shape.height);
    }
    struct network_layer layer = {.kind = NETWORK_POOL, .out = p->shape, .k = k};
    layer.out.height /= k;
    layer.out.width /= k;
    p->norm = false; /* relu may come after the pool, where there are fewer values */
    return add_layer(p, layer);
}

static int add_dense(struct parsing *p, size_t units) {
    struct network_layer layer = {.kind = NETWORK_DENSE, .out = {.height = 1, .width = 1, .channels = units}};
    layer.fan_in = network_values(&p->shape);
    p->dense = true;
    layer.weights = layer.fan_in * units;
    layer.parameters = layer.weights + units;
    int result = add_relu(p);
    result = result == 0 ? add_layer(p, layer) : result;
    p->relu = true;
    p->norm = true;
    return result;
}

static int add_norm(struct parsing *p) {
    if (p->shape.channels == 1) { /* with a single value, the norm's result would always be the bias */
        return refuse(p, p->shape.image ? "images of more than one channel, as norm is over a pixel's channels"
                                        : "more than one value before a norm");
    }
    int result = p->norm ? 0 : add_relu(p);
    p->norm = false;
    return result != 0 ? result
                       : add_layer(p, (struct network_layer){
                                          .kind = NETWORK_NORM, .out = p->shape, .parameters = 2 * p->shape.channels});
}

static int add_dropout(struct parsing *p, double drop) {
    int result = add_relu(p);
    return result != 0
               ? result
               : add_layer(p, (struct network_layer){.kind = NETWORK_DROPOUT, .out = p->shape, .drop = (float)drop});
}

/* Parses a whole number 1..maximum at *at, and moves *at behind it. Returns 0 when there is none. */
static size_t take_number(const char **at, const char *end, size_t maximum) {
    size_t number = 0;
    const char *from = *at;
    for (; *at < end && isdigit((unsigned char)**at); (*at)++) {
        number = number * 10 + (size_t)(**at - '0');
        if (number > maximum) {
            return 0;
        }
    }
    return *at > from ? number : 0;
}

/* Parses the arguments of a layer in [at, end). */
static int parse_arguments(struct parsing *p, const char *word, const char *at, const char *end) {
    if (strcmp(word, "conv") == 0) {
        size_t filters = take_number(&at, end, NETWORK_UNITS_MAX);
        bool by = at < end && *at == 'x';
        at += by;
        size_t k = by ? take_number(&at, end, NETWORK_KERNEL_MAX) : 0;
        return filters > 0 && k > 0 && at == end ? add_conv(p, filters, k)
                                                 : refuse(p, "conv FxK, F up to 65536 and K up to 31, as conv 32x5");
    }
    if (strcmp(word, "pool") == 0) {
        size_t k = take_number(&at, end, NN_POOL_MAX);
        return k > 1 && at == end ? add_pool(p, k) : refuse(p, "pool K, K from 2 to 16");
    }
    if (strcmp(word, "dense") == 0) {
        size_t units = take_number(&at, end, NETWORK_UNITS_MAX);
        return units > 0 && at == end ? add_dense(p, units) : refuse(p, "dense N, N up to 65536");
    }
    if (strcmp(word, "norm") == 0) {
        return at == end ? add_norm(p) : refuse(p, "norm alone");
    }
    if (strcmp(word, "dropout") == 0) {
        char number[WORD_MAX + 1] = {0};
        char *rest = number;
        size_t length = (size_t)(end - at);
        memcpy(number, at, length < WORD_MAX ? length : WORD_MAX);
        double drop = strtod(number, &rest);
        bool good = length > 0 && length <= WORD_MAX && rest == number + length && drop > 0 && drop <= 0.95;
        return good ? add_dropout(p, drop) : refuse(p, "dropout P, P above 0 and up to 0.95");
    }
    return refuse(p, "conv FxK, pool K, dense N, norm or dropout P");
}

static int parse_layer(struct parsing *p) {
    char word[WORD_MAX] = "";
    const char *at = p->text;
    const char *end = at + p->length;
    size_t length = 0;
    for (; at < end && isalpha((unsigned char)*at) && length + 1 < WORD_MAX; at++) {
        word[length++] = *at;
    }
    while (at < end && *at == ' ') {
        at++;
    }
    p->number++;
    return parse_arguments(p, word, at, end);
}

static int parse_layers(struct parsing *p, const char *text) {
    int result = 0;
    const char *end = text + strlen(text);
    if ((size_t)(end - text) > NETWORK_TEXT_MAX) {
        return error_set(p->error, AML_EINPUT, "--layers: expected at most %d bytes", NETWORK_TEXT_MAX);
    }
    while (text < end && *text == ' ') {
        text++;
    }
    for (bool more = text < end; more && result == 0;) {
        const char *comma = strchr(text, ',');
        const char *last = comma != NULL ? comma : end;
        more = comma != NULL;
        while (text < last && *text == ' ') {
            text++;
        }
        while (last > text && last[-1] == ' ') {
            last--;
        }
        p->text = text;
        p->length = (size_t)(last - text);
        result = parse_layer(p);
        text = more ? comma + 1 : end;
    }
    return result;
}

bool network_needs_images(const char *text) {
    return text != NULL && (strstr(text, "conv") != NULL || strstr(text, "pool") != NULL);
}

int network_parse(struct network *network, const char *text, const struct network_shape *input, size_t classes,
                  struct error *error) {
    *network = (struct network){.input = *input, .classes = classes};
    struct parsing p = {.network = network, .shape = *input, .error = error};
    int result = text != NULL ? parse_layers(&p, text) : 0;
    p.text = "the output";
    p.length = strlen(p.text);
    p.number++;
    return result == 0 ? add_dense(&p, classes) : result;
}

/* Returns a random value, uniform in -1..1. */
static float random_value(uint64_t seed, uint64_t place) {
    return (float)(int32_t)(hash_mix(hash_mix(seed) + place) >> 40) * 0x1p-23F - 1;
}

static float start_value(const struct network *network, const struct network_layer *layer, uint64_t seed,
                         size_t place) {
    if (layer->kind == NETWORK_NORM) {
        return place < layer->first + layer->parameters / 2 ? 1 : 0; /* gains, biases */
    }
    if (place >= layer->first + layer->weights) {
        return 0;
    }
    bool last = layer == &network->layers[network->count - 1];
    return random_value(seed, place) * sqrtf((last ? 3.0F : 6.0F) / (float)layer->fan_in);
}

void network_start(const struct network *network, uint64_t seed, size_t first, size_t count, float *values) {
    memset(values, 0, count * sizeof *values);
    for (size_t l = 0; l < network->count; l++) {
        const struct network_layer *layer = &network->layers[l];
        size_t from = layer->first > first ? layer->first : first;
        size_t end = layer->first + layer->parameters;
        end = end < first + count ? end : first + count;
        for (size_t place = from; place < end; place++) {
            values[place - first] = start_value(network, layer, seed, place);
        }
    }
}
