/* See model.h. */
#include "apps/net/model.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"
#include "apps/samples/input.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_NUMBERS = 10, HEADER_SIZE = MODEL_FILE_START + 4 * HEADER_NUMBERS };

static struct model_file_kind model_kind(uint32_t version) {
    return (struct model_file_kind){.app = "net",
                                    .magic = {'A', 'M', 'L', 'N', 'N', 'M', 'D', 'L'},
                                    .version = version,
                                    .oldest = NET_MODEL_VERSION,
                                    .smallest = HEADER_SIZE + MODEL_FILE_CHECKSUM};
}

int net_model_write(const char *path, const struct samples_model *samples, const char *layers,
                    const struct network *network, const float *parameters, struct error *error) {
    size_t length = layers != NULL ? strlen(layers) : 0;
    struct model_file_writer *file;
    assert(samples->labels.count == network->classes && length <= NETWORK_TEXT_MAX);
    struct model_file_kind kind =
        model_kind(samples->scale.kind == SCALE_STANDARD ? NET_MODEL_VERSION_STANDARD : NET_MODEL_VERSION);
    int result = samples_model_begin(&file, path, &kind, samples, error);
    if (result != 0) {
        return result;
    }
    const size_t numbers[HEADER_NUMBERS] = {samples->scale.kind,   samples->index_base,  samples->scale.features,
                                            network->input.height, network->input.width, network->input.channels,
                                            network->input.image,  network->classes,     length,
                                            network->parameters};
    for (size_t i = 0; i < HEADER_NUMBERS; i++) {
        put32(model_file_room(file, 4), (uint32_t)numbers[i]);
    }
    if (length > 0) {
        memcpy(model_file_room(file, length), layers, length);
    }
    samples_model_write_labels(file, samples);
    samples_model_write_scale(file, samples);
    model_file_floats(file, parameters, network->parameters);
    return samples_model_end(file, 0, samples, error);
}

/* ---- Loading ---- */

/* The rest of the header. */
struct header {
    struct network_shape shape;
    uint32_t classes, length, parameters;
};

static int take_header(struct model_file_reader *reader, struct samples_model *samples, struct header *header) {
    bool standard = get32(reader->bytes + MODEL_FILE_MAGIC) == NET_MODEL_VERSION_STANDARD;
    uint32_t numbers[HEADER_NUMBERS];
    for (size_t i = 0; i < HEADER_NUMBERS; i++, reader->at += 4) {
        numbers[i] = get32(reader->bytes + reader->at);
    }
    uint32_t kind = numbers[0];
    uint32_t features = numbers[2];
    uint32_t height = numbers[3];
    uint32_t width = numbers[4];
    uint32_t channels = numbers[5];
    uint32_t image = numbers[6];
    *header = (struct header){.shape = {.height = height, .width = width, .channels = channels, .image = image == 1},
                              .classes = numbers[7],
                              .length = numbers[8],
                              .parameters = numbers[9]};
    samples->index_base = numbers[1];
    samples->scale.features = features;
    if (kind >= SCALE_AUTO || (kind == SCALE_STANDARD) != standard || samples->index_base > 1 || features < 1 ||
        features > SAMPLES_DENSE_MAX || image > 1 || height > features || width > features || channels > features ||
        (uint64_t)height * width > features || (uint64_t)height * width * channels != features ||
        (image == 0 && channels != features) || header->classes < 2 || header->classes > LABELS_MAX ||
        header->length > NETWORK_TEXT_MAX) {
        return model_file_refuse(reader, "has a number in its header that is out of range");
    }
    uint64_t rest = header->length + (uint64_t)(LABEL_MAX + 1) * header->classes + 4 * (uint64_t)header->parameters +
                    (kind == SCALE_MAX ? 4 * (uint64_t)features : 0);
    uint64_t left = reader->size - reader->at;
    uint64_t doubles = 8 * (uint64_t)features;
    if (standard ? left != rest + 4 + doubles && left != rest + 4 + 2 * doubles : left != rest) {
        return model_file_refuse(reader, "has another length than its header says");
    }
    samples->scale.kind = (enum scale_kind)kind;
    return 0;
}

static int take_layers(struct model_file_reader *reader, const struct header *header, struct network *network) {
    char text[NETWORK_TEXT_MAX + 1] = "";
    struct error reason = {0};
    memcpy(text, reader->bytes + reader->at, header->length);
    reader->at += header->length;
    if (strlen(text) != header->length) {
        return model_file_refuse(reader, "has layers that are no text");
    }
    if (network_parse(network, text, &header->shape, header->classes, &reason) != 0) {
        return error_set(reader->error, AML_EINPUT, "%s: the model file's %s", reader->path, reason.text);
    }
    return network->parameters == header->parameters
               ? 0
               : model_file_refuse(reader, "has parameters that do not fit its layers");
}

/* Takes the parameters, which must be the end of the file. */
static int take_parameters(struct model_file_reader *reader, struct net_model *model) {
    if (reader->size - reader->at != 4 * (uint64_t)model->network.parameters) {
        return model_file_refuse(reader, "has another length than its header says");
    }
    return model_file_take_floats(reader, model->network.parameters, "has a parameter that is not finite",
                                  &model->parameters);
}

int net_model_load(const char *path, struct net_model *model, struct error *error) {
    *model = (struct net_model){0};
    struct model_file_reader reader;
    struct header header;
    struct model_file_kind kind = model_kind(NET_MODEL_NEWEST);
    int result = samples_model_load(path, &kind, &reader, &model->samples, error);
    result = result != 0 ? result : take_header(&reader, &model->samples, &header);
    result = result != 0 ? result : take_layers(&reader, &header, &model->network);
    result = result != 0 ? result : samples_model_take_labels(&reader, header.classes, &model->samples);
    result = result != 0 ? result : samples_model_take_scale(&reader, &model->samples);
    result = result != 0 ? result : take_parameters(&reader, model);
    free(reader.bytes);
    if (result != 0) {
        net_model_close(model);
    }
    return result;
}

void net_model_close(struct net_model *model) {
    samples_model_close(&model->samples);
    free(model->parameters);
    *model = (struct net_model){0};
}
