/* See model.h. The file, in the frame of model_file.h:
 *
 *     12 x 4        kind, features, classes, heads, output heads, L, bytes of `layers`, 1 if directed, the scale's kind
 *                   (graph.h), then 0
 *     bytes         the text of --layers
 *     K times       4 bytes of length and a class's name
 *     scale         GRAPH_SCALE_STANDARD only: floats: centres, then factors, one for each feature
 *     by layer      floats without padding: W, then W' (sage) or both vectors of the attention (gat), then b
 */
#include "apps/gnn/model.h"

#include "agileml/base/memory.h"
#include "apps/gnn/scale.h"
#include "apps/little_endian.h"
#include "apps/model_file.h"

#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, NUMBERS = 12, HEADER_SIZE = MODEL_FILE_START + 4 * NUMBERS, TEXT_MAX = 64, NAME_MAX = 1 << 12 };

static const struct model_file_kind KIND = {.app = "gnn",
                                            .magic = {'A', 'M', 'L', 'G', 'N', 'N', 'M', 'D'},
                                            .version = VERSION,
                                            .oldest = VERSION,
                                            .smallest = HEADER_SIZE + MODEL_FILE_CHECKSUM};

/* The matrices of a layer among the parameters, in the order of the file. */
struct block {
    size_t first, pitch, rows, columns;
};

enum { BLOCKS = 4 };

static size_t blocks_of(const struct gnn_network *network, unsigned l, struct block blocks[BLOCKS]) {
    const struct gnn_layer *layer = &network->layers[l];
    size_t count = 0;
    blocks[count++] = (struct block){layer->weights, layer->pitch, layer->in, layer->made};
    if (network->kind == GNN_SAGE) {
        blocks[count++] = (struct block){layer->self, layer->pitch, layer->in, layer->made};
    } else if (network->kind == GNN_GAT) {
        blocks[count++] = (struct block){layer->left, layer->pitch, 1, layer->made};
        blocks[count++] = (struct block){layer->right, layer->pitch, 1, layer->made};
    }
    blocks[count++] = (struct block){layer->bias, layer->out_pitch, 1, layer->out};
    return count;
}

/* ---- Writing ---- */

static void write_text(struct model_file_writer *file, const char *text, size_t length) {
    if (length > 0) {
        memcpy(model_file_room(file, length), text, length);
    }
}

int gnn_model_write(const char *path, const struct gnn_model *model, struct error *error) {
    struct model_file_writer *file;
    const struct gnn_network *network = &model->network;
    size_t length = strlen(model->layers);
    int result = model_file_begin(&file, path, &KIND, 0, error);
    if (result != 0) {
        return result;
    }
    const uint32_t numbers[NUMBERS] = {
        (uint32_t)network->kind,    model->features, model->classes,   model->heads,
        model->output_heads,        network->count,  (uint32_t)length, model->directed ? 1 : 0,
        (uint32_t)model->scale.kind};
    for (size_t i = 0; i < NUMBERS; i++) {
        put32(model_file_room(file, 4), numbers[i]);
    }
    write_text(file, model->layers, length);
    for (uint32_t k = 0; k < model->classes; k++) {
        size_t size = strlen(model->class_names[k]);
        put32(model_file_room(file, 4), (uint32_t)size);
        write_text(file, model->class_names[k], size);
    }
    if (model->scale.kind == GRAPH_SCALE_STANDARD) {
        model_file_floats(file, model->scale.centres, model->features);
        model_file_floats(file, model->scale.factors, model->features);
    }
    for (unsigned l = 1; l <= network->count; l++) {
        struct block blocks[BLOCKS];
        size_t count = blocks_of(network, l, blocks);
        for (size_t b = 0; b < count; b++) {
            for (size_t r = 0; r < blocks[b].rows; r++) {
                model_file_floats(file, model->parameters + blocks[b].first + r * blocks[b].pitch, blocks[b].columns);
            }
        }
    }
    return model_file_end(file, 0, NULL, error);
}

/* ---- Loading ---- */

static int take_numbers(struct model_file_reader *reader, uint32_t numbers[NUMBERS]) {
    for (size_t i = 0; i < NUMBERS; i++, reader->at += 4) {
        numbers[i] = get32(reader->bytes + reader->at);
    }
    return numbers[0] > GNN_SAGE || numbers[1] < 1 || numbers[1] > GRAPH_FEATURES_MAX || numbers[2] < 2 ||
                   numbers[2] > GRAPH_CLASSES_MAX || numbers[3] < 1 || numbers[3] > GNN_HEADS_MAX || numbers[4] < 1 ||
                   numbers[4] > GNN_HEADS_MAX || numbers[6] > TEXT_MAX || numbers[7] > 1 ||
                   numbers[8] >= GRAPH_SCALE_AUTO
               ? model_file_refuse(reader, "has a number in its header that is out of range")
               : 0;
}

/* Sets *text to the next `length` bytes, which the caller frees. */
static int take_text(struct model_file_reader *reader, size_t length, char **text) {
    const unsigned char *bytes;
    int result = model_file_take(reader, length, &bytes);
    if (result == 0) {
        *text = memory_zeroed(length + 1, 1);
        memcpy(*text, bytes, length);
        result = strlen(*text) != length ? model_file_refuse(reader, "has a name that is no text") : 0;
    }
    return result;
}

static int take_names(struct model_file_reader *reader, struct gnn_model *model) {
    model->class_names = memory_zeroed(model->classes, sizeof *model->class_names);
    int result = 0;
    for (uint32_t k = 0; k < model->classes && result == 0; k++) {
        const unsigned char *bytes;
        result = model_file_take(reader, 4, &bytes);
        uint32_t length = result == 0 ? get32(bytes) : 0;
        result = result == 0 && length > NAME_MAX ? model_file_refuse(reader, "has a class's name that is too long")
                                                  : result;
        result = result != 0 ? result : take_text(reader, length, &model->class_names[k]);
    }
    return result;
}

static int take_scale(struct model_file_reader *reader, struct gnn_model *model) {
    static const char what[] = "has a scale that is not finite";
    if (model->scale.kind != GRAPH_SCALE_STANDARD) {
        return 0;
    }
    int result = model_file_take_floats(reader, model->features, what, &model->scale.centres);
    return result != 0 ? result : model_file_take_floats(reader, model->features, what, &model->scale.factors);
}

static int take_parameters(struct model_file_reader *reader, struct gnn_model *model) {
    const struct gnn_network *network = &model->network;
    model->parameters = memory_zeroed(network->parameters, sizeof *model->parameters);
    int result = 0;
    for (unsigned l = 1; l <= network->count && result == 0; l++) {
        struct block blocks[BLOCKS];
        size_t count = blocks_of(network, l, blocks);
        for (size_t b = 0; b < count && result == 0; b++) {
            float *values = NULL;
            result = model_file_take_floats(reader, blocks[b].rows * blocks[b].columns,
                                            "has a parameter that is not finite", &values);
            for (size_t r = 0; r < blocks[b].rows && result == 0; r++) {
                memcpy(model->parameters + blocks[b].first + r * blocks[b].pitch, values + r * blocks[b].columns,
                       blocks[b].columns * sizeof *values);
            }
            free(values);
        }
    }
    return result == 0 && reader->at != reader->size
               ? model_file_refuse(reader, "has another length than its header says")
               : result;
}

static int take_network(struct model_file_reader *reader, const uint32_t numbers[NUMBERS], struct gnn_model *model) {
    struct error reason = {0};
    model->features = numbers[1];
    model->classes = numbers[2];
    model->heads = numbers[3];
    model->output_heads = numbers[4];
    model->directed = numbers[7] == 1;
    model->scale = (struct graph_scale){.kind = (enum graph_scale_kind)numbers[8], .columns = model->features};
    int result = take_text(reader, numbers[6], &model->layers);
    if (result != 0) {
        return result;
    }
    const struct gnn_shape shape = {.kind = (enum gnn_kind)numbers[0],
                                    .layers = model->layers,
                                    .heads = model->heads,
                                    .output_heads = model->output_heads,
                                    .features = model->features,
                                    .classes = model->classes};
    if (gnn_network_make(&model->network, &shape, &reason) != 0 || model->network.count != numbers[5]) {
        return model_file_refuse(reader, "has layers that can't be");
    }
    return 0;
}

int gnn_model_load(const char *path, struct gnn_model *model, struct error *error) {
    *model = (struct gnn_model){0};
    struct model_file_reader reader = {.path = path, .error = error, .at = MODEL_FILE_START};
    uint32_t numbers[NUMBERS];
    int result = model_file_load(path, &KIND, &reader.bytes, &reader.size, error);
    if (result != 0) {
        return result;
    }
    result = take_numbers(&reader, numbers);
    result = result != 0 ? result : take_network(&reader, numbers, model);
    result = result != 0 ? result : take_names(&reader, model);
    result = result != 0 ? result : take_scale(&reader, model);
    result = result != 0 ? result : take_parameters(&reader, model);
    free(reader.bytes);
    if (result != 0) {
        gnn_model_close(model);
    }
    return result;
}

void gnn_model_close(struct gnn_model *model) {
    for (uint32_t k = 0; model->class_names != NULL && k < model->classes; k++) {
        free(model->class_names[k]);
    }
    free(model->class_names);
    free(model->layers);
    free(model->parameters);
    graph_scale_close(&model->scale);
    *model = (struct gnn_model){0};
}
