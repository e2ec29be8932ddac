/* See model.h. */
#include "apps/net/model.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"
#include "apps/mlr/model_names.h"
#include "apps/model_file.h"
#include "apps/samples/input.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_NUMBERS = 10, HEADER_SIZE = MODEL_FILE_START + 4 * HEADER_NUMBERS, LABEL_SIZE = MLR_LABEL_MAX + 1 };

static const struct model_file_kind KIND = {.app = "net",
                                            .magic = {'A', 'M', 'L', 'N', 'N', 'M', 'D', 'L'},
                                            .version = NET_MODEL_NEWEST + MODEL_NAMES_VERSION,
                                            .oldest = NET_MODEL_VERSION,
                                            .smallest = HEADER_SIZE + MODEL_FILE_CHECKSUM};

/* ---- Writing ---- */

static void write_floats(struct model_file_writer *file, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            model_file_fail(file, AML_EFAIL, "a parameter is not finite: the training diverged; use a lower --rate");
            return;
        }
        put_float(model_file_room(file, sizeof(float)), values[i]);
    }
}

static void write_doubles(struct model_file_writer *file, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_double(model_file_room(file, sizeof(double)), values[i]);
    }
}

static void write_scale(struct model_file_writer *file, const struct scale *scale) {
    if (scale->kind == SCALE_MAX) {
        write_floats(file, scale->maxima, scale->features);
    }
    if (scale->kind == SCALE_STANDARD) {
        put32(model_file_room(file, 4), scale->centres != NULL);
        write_doubles(file, scale->factors, scale->features);
        write_doubles(file, scale->centres, scale->centres != NULL ? scale->features : 0);
    }
}

int net_model_write(const char *path, const struct net_model_header *header, const float *parameters,
                    struct error *error) {
    const struct network *network = header->network;
    const char *layers = header->layers != NULL ? header->layers : "";
    size_t length = strlen(layers);
    struct model_file_writer *file;
    assert(header->scale.kind < SCALE_AUTO && header->labels->count == network->classes);
    assert(length <= NETWORK_TEXT_MAX);
    bool named = header->names != NULL && header->names->count > 0;
    struct model_file_kind kind = KIND;
    kind.version = header->scale.kind == SCALE_STANDARD ? NET_MODEL_VERSION_STANDARD : NET_MODEL_VERSION;
    kind.version += named ? MODEL_NAMES_VERSION : 0;
    int result = model_file_begin(&file, path, &kind, 0, error);
    if (result != 0) {
        return result;
    }
    const size_t numbers[HEADER_NUMBERS] = {header->scale.kind,    header->index_base,   header->scale.features,
                                            network->input.height, network->input.width, network->input.channels,
                                            network->input.image,  network->classes,     length,
                                            network->parameters};
    for (size_t i = 0; i < HEADER_NUMBERS; i++) {
        put32(model_file_room(file, 4), (uint32_t)numbers[i]);
    }
    if (length > 0) {
        memcpy(model_file_room(file, length), layers, length);
    }
    for (uint32_t k = 0; k < network->classes; k++) {
        memcpy(model_file_room(file, LABEL_SIZE), header->labels->items[k].text, LABEL_SIZE);
    }
    write_scale(file, &header->scale);
    write_floats(file, parameters, network->parameters);
    if (named) {
        model_names_write(file, header->names);
    }
    return model_file_end(file, 0, NULL, error);
}

/* ---- Loading ---- */

/* A file that is being checked. */
struct loading {
    const char *path;
    struct error *error;
    unsigned char *bytes;
    size_t size; /* without the checksum */
    size_t at;
    struct net_model *model;
    uint32_t classes, length, parameters;
};

static int load_refuse(const struct loading *l, const char *what) {
    return error_set(l->error, AML_EINPUT, "%s: the model file %s", l->path, what);
}

static uint32_t take32(struct loading *l) {
    uint32_t value = get32(l->bytes + l->at);
    l->at += 4;
    return value;
}

static int load_header(struct loading *l, struct network_shape *shape) {
    struct net_model *model = l->model;
    bool standard = get32(l->bytes + MODEL_FILE_MAGIC) == NET_MODEL_VERSION_STANDARD;
    l->at = MODEL_FILE_START;
    uint32_t kind = take32(l);
    model->index_base = take32(l);
    model->scale.features = take32(l);
    uint32_t height = take32(l);
    uint32_t width = take32(l);
    uint32_t channels = take32(l);
    uint32_t image = take32(l);
    l->classes = take32(l);
    l->length = take32(l);
    l->parameters = take32(l);
    uint32_t features = model->scale.features;
    if (kind >= SCALE_AUTO || (kind == SCALE_STANDARD) != standard || model->index_base > 1 || features < 1 ||
        features > SAMPLES_DENSE_MAX || image > 1 || height > features || width > features || channels > features ||
        (uint64_t)height * width > features || (uint64_t)height * width * channels != features ||
        (image == 0 && channels != features) || l->classes < 2 || l->classes > MLR_CLASSES_MAX ||
        l->length > NETWORK_TEXT_MAX) {
        return load_refuse(l, "has a number in its header that is out of range");
    }
    uint64_t rest = l->length + (uint64_t)LABEL_SIZE * l->classes + 4 * (uint64_t)l->parameters +
                    (kind == SCALE_MAX ? 4 * (uint64_t)features : 0);
    uint64_t left = l->size - l->at;
    uint64_t doubles = 8 * (uint64_t)features;
    if (standard ? left != rest + 4 + doubles && left != rest + 4 + 2 * doubles : left != rest) {
        return load_refuse(l, "has another length than its header says");
    }
    model->scale.kind = (enum scale_kind)kind;
    *shape = (struct network_shape){.height = height, .width = width, .channels = channels, .image = image == 1};
    return 0;
}

static int load_layers(struct loading *l, const struct network_shape *shape) {
    char text[NETWORK_TEXT_MAX + 1] = "";
    struct error reason = {0};
    memcpy(text, l->bytes + l->at, l->length);
    l->at += l->length;
    if (strlen(text) != l->length) {
        return load_refuse(l, "has layers that are no text");
    }
    if (network_parse(&l->model->network, text, shape, l->classes, &reason) != 0) {
        return error_set(l->error, AML_EINPUT, "%s: the model file's %s", l->path, reason.text);
    }
    return l->model->network.parameters == l->parameters ? 0
                                                         : load_refuse(l, "has parameters that do not fit its layers");
}

static int load_labels(struct loading *l) {
    for (uint32_t k = 0; k < l->classes; k++, l->at += LABEL_SIZE) {
        const char *text = (const char *)l->bytes + l->at;
        struct mlr_label label;
        uint32_t before = l->model->labels.count;
        if (text[MLR_LABEL_MAX] != 0 || !mlr_label_make(&label, text, strlen(text)) ||
            memcmp(label.text, text, LABEL_SIZE) != 0 || !mlr_labels_add(&l->model->labels, &label) ||
            l->model->labels.count == before) {
            return load_refuse(l, "has a label that is no label, or twice");
        }
    }
    mlr_labels_sort(&l->model->labels);
    for (uint32_t k = 0; k < l->classes; k++) { /* the parameters are in the order of the labels */
        if (memcmp(l->model->labels.items[k].text, l->bytes + l->at - (size_t)(l->classes - k) * LABEL_SIZE,
                   LABEL_SIZE) != 0) {
            return load_refuse(l, "has labels that are not in order");
        }
    }
    return 0;
}

static int load_floats(struct loading *l, float **values, size_t count, bool negative) {
    *values = memory_zeroed(count, sizeof **values);
    for (size_t i = 0; i < count; i++, l->at += 4) {
        (*values)[i] = get_float(l->bytes + l->at);
        if (!isfinite((*values)[i]) || (!negative && (*values)[i] < 0)) {
            return load_refuse(l, "has a value that is not finite, or a negative maximum");
        }
    }
    return 0;
}

static int load_doubles(struct loading *l, double **values) {
    uint32_t count = l->model->scale.features;
    *values = memory_zeroed(count, sizeof **values);
    for (uint32_t f = 0; f < count; f++, l->at += sizeof(double)) {
        (*values)[f] = get_double(l->bytes + l->at);
        if (!isfinite((*values)[f])) {
            return load_refuse(l, "has a feature's centre or factor that is not finite");
        }
    }
    return 0;
}

/* Loads the scale's numbers, then the parameters, which must be the end of the file. */
static int load_scale(struct loading *l) {
    struct net_model *model = l->model;
    struct scale *scale = &model->scale;
    int result = 0;
    if (scale->kind == SCALE_MAX) {
        result = load_floats(l, &model->maxima, scale->features, false);
    }
    if (scale->kind == SCALE_STANDARD) {
        uint32_t centred = take32(l);
        uint64_t doubles = 8 * (uint64_t)scale->features * (centred == 1 ? 2 : 1);
        if (centred > 1 || l->at + doubles + 4 * (uint64_t)l->parameters != l->size) {
            return load_refuse(l, "has another length than its header says");
        }
        result = load_doubles(l, &model->factors);
        result = result == 0 && centred == 1 ? load_doubles(l, &model->centres) : result;
    }
    scale->maxima = model->maxima;
    scale->factors = model->factors;
    scale->centres = model->centres;
    return result;
}

int net_model_load(const char *path, struct net_model *model, struct error *error) {
    *model = (struct net_model){0};
    struct loading loading = {.path = path, .error = error, .model = model};
    struct network_shape shape = {0};
    int result = model_file_load(path, &KIND, &loading.bytes, &loading.size, error);
    result = result != 0 ? result
                         : model_names_load(path, NET_MODEL_NEWEST, HEADER_SIZE, loading.bytes, &loading.size,
                                            &model->names, error);
    result = result != 0 ? result : load_header(&loading, &shape);
    if (result == 0 && model->names.count > 0 && model->names.count != model->scale.features) {
        result = load_refuse(&loading, "has another number of names than features");
    }
    result = result != 0 ? result : load_layers(&loading, &shape);
    result = result != 0 ? result : load_labels(&loading);
    result = result != 0 ? result : load_scale(&loading);
    result = result != 0 ? result : load_floats(&loading, &model->parameters, model->network.parameters, true);
    free(loading.bytes);
    if (result != 0) {
        net_model_close(model);
    }
    return result;
}

void net_model_close(struct net_model *model) {
    mlr_labels_close(&model->labels);
    column_names_close(&model->names);
    free(model->maxima);
    free(model->factors);
    free(model->centres);
    free(model->parameters);
    *model = (struct net_model){0};
}
