/* See model.h. */
#include "apps/mlr/model.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"
#include "apps/mlr/model_names.h"
#include "apps/model_file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_SIZE = 28, LABEL_SIZE = MLR_LABEL_MAX + 1 };

static struct model_file_kind model_kind(uint32_t version) {
    return (struct model_file_kind){.app = "mlr",
                                    .magic = {'A', 'M', 'L', 'M', 'L', 'M', 'D', 'L'},
                                    .version = version,
                                    .oldest = MLR_MODEL_VERSION,
                                    .smallest = HEADER_SIZE + MODEL_FILE_CHECKSUM};
}

/* ---- Writing ---- */

struct mlr_model_writer {
    struct model_file_writer *file;
    uint32_t features, classes;
    const struct column_names *names; /* NULL: none */
};

static void writer_floats(struct mlr_model_writer *writer, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            model_file_fail(writer->file, AML_EFAIL, "a weight is not finite: the training diverged");
        }
        put_float(model_file_room(writer->file, sizeof(float)), values[i]);
    }
}

static void writer_doubles(struct mlr_model_writer *writer, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_double(model_file_room(writer->file, sizeof(double)), values[i]);
    }
}

static bool is_hashed(const struct mlr_hash *hash) {
    return hash != NULL && hash->bits > 0;
}

static void writer_hash(struct mlr_model_writer *writer, const struct mlr_hash *hash) {
    unsigned char *numbers = model_file_room(writer->file, 8);
    put32(numbers, hash->bits);
    put32(numbers + 4, hash->cross_count);
    for (uint32_t c = 0; c < hash->cross_count; c++) {
        unsigned char *fields = model_file_room(writer->file, 2);
        fields[0] = hash->crosses[c].first;
        fields[1] = hash->crosses[c].second;
    }
}

static void writer_header(struct mlr_model_writer *writer, const struct mlr_model_header *header) {
    const uint32_t numbers[] = {header->scale.kind, header->index_base, writer->features, writer->classes};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        put32(model_file_room(writer->file, sizeof numbers[i]), numbers[i]);
    }
    if (is_hashed(header->hash)) {
        writer_hash(writer, header->hash);
    }
    if (header->images.width > 0) {
        const uint32_t shape[] = {header->images.width, header->images.height, header->images.channels};
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
            put32(model_file_room(writer->file, sizeof shape[i]), shape[i]);
        }
    }
    for (uint32_t k = 0; k < writer->classes; k++) {
        memcpy(model_file_room(writer->file, LABEL_SIZE), header->labels->items[k].text, LABEL_SIZE);
    }
    for (uint32_t f = 0; f < writer->features && numbering_is_used(header->numbering); f++) {
        put32(model_file_room(writer->file, sizeof(uint32_t)),
              (uint32_t)header->numbering->features[f] + header->index_base);
    }
    if (header->scale.kind == SCALE_MAX) {
        writer_floats(writer, header->scale.maxima, writer->features);
    }
    if (header->scale.kind == SCALE_STANDARD) {
        put32(model_file_room(writer->file, sizeof(uint32_t)), header->scale.centres != NULL);
        writer_doubles(writer, header->scale.factors, writer->features);
        writer_doubles(writer, header->scale.centres, header->scale.centres != NULL ? writer->features : 0);
    }
}

int mlr_model_writer_open(struct mlr_model_writer **opened, const char *path, const struct mlr_model_header *header,
                          struct error *error) {
    assert(header->scale.kind < SCALE_AUTO && header->labels->count >= 2);
    *opened = NULL;
    struct model_file_writer *file;
    struct model_file_kind kind = model_kind(is_hashed(header->hash)                ? MLR_MODEL_VERSION_HASHED
                                             : header->images.width > 0             ? MLR_MODEL_VERSION_IMAGES
                                             : numbering_is_used(header->numbering) ? MLR_MODEL_VERSION_NUMBERED
                                             : header->scale.kind == SCALE_STANDARD ? MLR_MODEL_VERSION_STANDARD
                                                                                    : MLR_MODEL_VERSION);
    const struct column_names *names = header->names != NULL && header->names->count > 0 ? header->names : NULL;
    kind.version += names != NULL ? MODEL_NAMES_VERSION : 0;
    int result = model_file_begin(&file, path, &kind, 0, error);
    if (result != 0) {
        return result;
    }
    struct mlr_model_writer *writer = memory_zeroed(1, sizeof *writer);
    *writer = (struct mlr_model_writer){
        .file = file, .features = header->scale.features, .classes = header->labels->count, .names = names};
    writer_header(writer, header);
    *opened = writer;
    return 0;
}

static bool is_zero(const float *row, uint32_t classes) {
    for (uint32_t k = 0; k < classes; k++) {
        if (row[k] != 0) { /* also true for NaN */
            return false;
        }
    }
    return true;
}

int mlr_model_writer_rows(struct mlr_model_writer *writer, const uint64_t *numbers, const float *rows, size_t count,
                          struct error *error) {
    for (size_t i = 0; i < count; i++) {
        const float *row = rows + i * writer->classes;
        assert(numbers[i] <= writer->features);
        if (numbers[i] == writer->features || !is_zero(row, writer->classes)) {
            put32(model_file_room(writer->file, sizeof(uint32_t)), (uint32_t)numbers[i]);
            writer_floats(writer, row, writer->classes);
        }
    }
    return model_file_failed(writer->file, error);
}

int mlr_model_writer_close(struct mlr_model_writer *writer, int result, struct error *error) {
    if (writer->names != NULL && result == 0) {
        model_names_write(writer->file, writer->names);
    }
    result = model_file_end(writer->file, result, NULL, error);
    free(writer);
    return result;
}

/* ---- Loading ---- */

/* The state while a file is checked. */
struct loading {
    const char *path;
    struct error *error;
    unsigned char *bytes;
    size_t size; /* without the checksum */
    size_t at;
    struct mlr_model *model;
};

static int load_refuse(const struct loading *l, const char *what) {
    return error_set(l->error, AML_EINPUT, "%s: the model file %s", l->path, what);
}

static int load_hash(struct loading *l) {
    struct mlr_hash *hash = &l->model->hash;
    const unsigned char *bytes = l->bytes + l->at;
    size_t left = l->size - l->at;
    *hash = left >= 8 ? (struct mlr_hash){.bits = get32(bytes), .cross_count = get32(bytes + 4)} : *hash;
    if (left < 8 || hash->cross_count > MLR_HASH_CROSSES_MAX || left - 8 < 2 * (size_t)hash->cross_count) {
        return load_refuse(l, "ends in its header, or has too many crosses");
    }
    for (uint32_t c = 0; c < hash->cross_count; c++) {
        hash->crosses[c] = (struct mlr_hash_cross){.first = bytes[8 + 2 * c], .second = bytes[9 + 2 * c]};
    }
    l->at += 8 + 2 * (size_t)hash->cross_count;
    return mlr_hash_valid(hash) && l->model->scale.features == UINT32_C(1) << hash->bits
               ? 0
               : load_refuse(l, "has bits or crosses of its hash out of range");
}

static int load_images(struct loading *l) {
    struct image_shape *shape = &l->model->images;
    const unsigned char *bytes = l->bytes + l->at;
    if (l->size - l->at < 12) {
        return load_refuse(l, "ends in its header");
    }
    *shape = (struct image_shape){.width = get32(bytes), .height = get32(bytes + 4), .channels = get32(bytes + 8)};
    l->at += 12;
    bool good = shape->width >= 1 && shape->width <= IMAGE_SIDE_MAX && shape->height >= 1 &&
                shape->height <= IMAGE_SIDE_MAX && (shape->channels == 1 || shape->channels == 3) &&
                image_values(shape) == l->model->scale.features;
    return good ? 0 : load_refuse(l, "has a shape of images out of range");
}

static int load_header(struct loading *l, uint32_t *classes) {
    struct mlr_model *model = l->model;
    const unsigned char *numbers = l->bytes + MODEL_FILE_MAGIC;
    uint32_t kind = get32(numbers + 4);
    model->index_base = get32(numbers + 8);
    model->scale.features = get32(numbers + 12);
    *classes = get32(numbers + 16);
    uint32_t version = get32(numbers);
    bool numbered = version == MLR_MODEL_VERSION_NUMBERED;
    bool standard = version == MLR_MODEL_VERSION_STANDARD || (numbered && kind == SCALE_STANDARD);
    if (kind >= SCALE_AUTO || (kind == SCALE_STANDARD) != standard || model->index_base > 1 ||
        model->scale.features < 1 || model->scale.features > SAMPLES_FEATURES_MAX || *classes < 2 ||
        *classes > MLR_CLASSES_MAX) {
        return load_refuse(l, "has a scale, index base, number of features or number of classes out of range");
    }
    model->scale.kind = (enum scale_kind)kind;
    l->at = HEADER_SIZE;
    int result = version == MLR_MODEL_VERSION_HASHED   ? load_hash(l)
                 : version == MLR_MODEL_VERSION_IMAGES ? load_images(l)
                                                       : 0;
    if (result != 0) {
        return result;
    }
    size_t maxima = kind == SCALE_MAX ? model->scale.features * sizeof(float) : 0;
    size_t standards = standard ? 4 + model->scale.features * sizeof(double) : 0;
    size_t indexes = numbered ? model->scale.features * sizeof(uint32_t) : 0;
    return l->size - l->at < *classes * (size_t)LABEL_SIZE + indexes + maxima + standards
               ? load_refuse(l, "ends in its header")
               : 0;
}

static int load_labels(struct loading *l, uint32_t classes) {
    struct mlr_labels *labels = &l->model->labels;
    for (uint32_t k = 0; k < classes; k++, l->at += LABEL_SIZE) {
        struct mlr_label label;
        const char *text = (const char *)l->bytes + l->at;
        if (!mlr_label_make(&label, text, strnlen(text, LABEL_SIZE)) || memcmp(label.text, text, LABEL_SIZE) != 0) {
            return load_refuse(l, "has a malformed label");
        }
        mlr_labels_add(labels, &label);
    }
    mlr_labels_sort(labels);
    const unsigned char *first = l->bytes + l->at - classes * (size_t)LABEL_SIZE;
    for (uint32_t k = 0; k < labels->count; k++) {
        if (memcmp(labels->items[k].text, first + k * (size_t)LABEL_SIZE, LABEL_SIZE) != 0) {
            return load_refuse(l, "has labels out of order");
        }
    }
    return labels->count == classes ? 0 : load_refuse(l, "has a label twice");
}

static int load_numbering(struct loading *l) {
    struct mlr_model *model = l->model;
    uint32_t count = model->scale.features;
    if (get32(l->bytes + MODEL_FILE_MAGIC) != MLR_MODEL_VERSION_NUMBERED) {
        return 0;
    }
    uint64_t *features = memory_zeroed(count, sizeof *features);
    bool good = true;
    for (uint32_t f = 0; f < count; f++, l->at += sizeof(uint32_t)) {
        uint32_t index = get32(l->bytes + l->at);
        features[f] = index - model->index_base;
        good = good && index >= model->index_base && index <= SAMPLES_INDEX_MAX &&
               (f == 0 || features[f] > features[f - 1]);
    }
    numbering_make(&model->numbering, features, good ? count : 0);
    return good ? 0 : load_refuse(l, "has indexes of features that are out of range or do not ascend");
}

static int load_maxima(struct loading *l) {
    struct mlr_model *model = l->model;
    if (model->scale.kind != SCALE_MAX) {
        return 0;
    }
    model->maxima = memory_zeroed(model->scale.features, sizeof *model->maxima);
    for (uint32_t f = 0; f < model->scale.features; f++, l->at += sizeof(float)) {
        model->maxima[f] = get_float(l->bytes + l->at);
        if (!isfinite(model->maxima[f]) || model->maxima[f] < 0) {
            return load_refuse(l, "has a feature's largest value that is negative or not finite");
        }
    }
    model->scale.maxima = model->maxima;
    return 0;
}

/* Reads doubles[features]. */
static int load_doubles(struct loading *l, double **doubles) {
    uint32_t features = l->model->scale.features;
    if (l->size - l->at < features * sizeof(double)) {
        return load_refuse(l, "ends in its header");
    }
    *doubles = memory_zeroed(features, sizeof **doubles);
    for (uint32_t f = 0; f < features; f++, l->at += sizeof(double)) {
        (*doubles)[f] = get_double(l->bytes + l->at);
        if (!isfinite((*doubles)[f])) {
            return load_refuse(l, "has a feature's centre or factor that is not finite");
        }
    }
    return 0;
}

static int load_standard(struct loading *l) {
    struct mlr_model *model = l->model;
    if (model->scale.kind != SCALE_STANDARD) {
        return 0;
    }
    uint32_t centred = get32(l->bytes + l->at);
    l->at += sizeof centred;
    int result = centred > 1 ? load_refuse(l, "has centres that are neither there nor not there")
                             : load_doubles(l, &model->factors);
    result = result == 0 && centred ? load_doubles(l, &model->centres) : result;
    model->scale.factors = model->factors;
    model->scale.centres = model->centres;
    return result;
}

static int load_rows(struct loading *l, uint32_t classes) {
    struct mlr_model *model = l->model;
    uint32_t bias = model->scale.features;
    size_t row_size = 4 + classes * sizeof(float);
    size_t count = (l->size - l->at) / row_size;
    if ((l->size - l->at) % row_size != 0 || count > (size_t)bias + 1) {
        return load_refuse(l, "has a length that does not fit its header");
    }
    model->row_count = (uint32_t)count + 1;
    model->rows = memory_zeroed(model->row_count, classes * sizeof(float));
    model->places = memory_zeroed((size_t)bias + 1, sizeof *model->places);
    for (uint32_t place = 1; place < model->row_count; place++) { /* row 0 is the row of zeros */
        uint32_t feature = get32(l->bytes + l->at);
        if (feature > bias || model->places[feature] != 0) {
            return load_refuse(l, "has a feature twice, or one out of range");
        }
        model->places[feature] = place;
        l->at += 4;
        float *row = model->rows + (size_t)place * classes;
        for (uint32_t k = 0; k < classes; k++, l->at += sizeof(float)) {
            row[k] = get_float(l->bytes + l->at);
            if (!isfinite(row[k])) {
                return load_refuse(l, "has a weight that is not finite");
            }
        }
    }
    return model->places[bias] != 0 ? 0 : load_refuse(l, "has no biases");
}

static int check_names(const struct loading *l) {
    uint32_t names = l->model->names.count;
    return names == 0 || names == l->model->scale.features
               ? 0
               : load_refuse(l, "has another number of names than features");
}

int mlr_model_load(const char *path, struct mlr_model *model, struct error *error) {
    *model = (struct mlr_model){0};
    struct loading loading = {.path = path, .error = error, .model = model};
    uint32_t classes = 0;
    struct model_file_kind kind = model_kind(MLR_MODEL_NEWEST + MODEL_NAMES_VERSION);
    int result = model_file_load(path, &kind, &loading.bytes, &loading.size, error);
    result = result != 0 ? result
                         : model_names_load(path, MLR_MODEL_NEWEST, HEADER_SIZE, loading.bytes, &loading.size,
                                            &model->names, error);
    result = result != 0 ? result : load_header(&loading, &classes);
    result = result != 0 ? result : check_names(&loading);
    result = result != 0 ? result : load_labels(&loading, classes);
    result = result != 0 ? result : load_numbering(&loading);
    result = result != 0 ? result : load_maxima(&loading);
    result = result != 0 ? result : load_standard(&loading);
    result = result != 0 ? result : load_rows(&loading, classes);
    free(loading.bytes);
    if (result != 0) {
        mlr_model_close(model);
    }
    return result;
}

void mlr_model_close(struct mlr_model *model) {
    mlr_labels_close(&model->labels);
    column_names_close(&model->names);
    numbering_close(&model->numbering);
    free(model->maxima);
    free(model->factors);
    free(model->centres);
    free(model->rows);
    free(model->places);
    *model = (struct mlr_model){0};
}

/* ---- Predictions ---- */

static void prediction_room(struct mlr_prediction *prediction, uint32_t classes, uint32_t count) {
    if (prediction->probabilities == NULL) {
        prediction->probabilities = memory_zeroed(classes, sizeof(float));
    }
    if (count > prediction->capacity) {
        prediction->capacity = count > 2 * prediction->capacity ? count : 2 * prediction->capacity;
        prediction->places = memory_resized(prediction->places, prediction->capacity, sizeof *prediction->places);
        prediction->values = memory_resized(prediction->values, prediction->capacity, sizeof *prediction->values);
    }
}

/* Sets the values of a sample when zeros have scaled values too. Returns their number. */
static uint32_t centred_values(const struct mlr_model *model, const struct sample *sample,
                               struct mlr_prediction *prediction) {
    uint32_t features = model->scale.features;
    float *scaled = prediction->values + features;
    uint32_t count = scale_sample(&model->scale, sample, scaled);
    scale_zeros(&model->scale, prediction->values);
    for (uint32_t i = 0; i < count; i++) {
        prediction->values[sample->features != NULL ? sample->features[i] : i] = scaled[i];
    }
    memcpy(prediction->places, model->places, features * sizeof *prediction->places);
    return features;
}

/* Sets the values of a sample and the places of their rows. Returns their number. */
static uint32_t prediction_values(const struct mlr_model *model, const struct sample *sample,
                                  struct mlr_prediction *prediction) {
    bool centred = model->scale.centres != NULL;
    prediction_room(prediction, model->labels.count, centred ? model->scale.features + sample->count : sample->count);
    if (centred) {
        return centred_values(model, sample, prediction);
    }
    uint32_t count = scale_sample(&model->scale, sample, prediction->values);
    for (uint32_t i = 0; i < count; i++) {
        prediction->places[i] = model->places[sample->features != NULL ? sample->features[i] : i];
    }
    return count;
}

void mlr_model_predict(const struct mlr_model *model, const struct sample *sample, struct mlr_prediction *prediction) {
    uint32_t classes = model->labels.count;
    uint32_t count = prediction_values(model, sample, prediction);
    const struct mlr_weights weights = {
        .rows = model->rows, .stride = classes, .bias = model->places[model->scale.features], .classes = classes};
    const struct mlr_sparse x = {.features = prediction->places, .values = prediction->values, .count = count};
    struct mlr_kernel kernel = mlr_kernel_choose();
    float *p = prediction->probabilities;
    kernel.sparse_logits(&weights, &x, 1, p);
    prediction->best = 0;
    for (uint32_t k = 1; k < classes; k++) {
        prediction->best = p[k] > p[prediction->best] ? k : prediction->best;
    }
    struct mlr_loss loss = {0};
    kernel.softmax(p, &prediction->best, 1, classes, &loss);
    p[prediction->best] += 1; /* errors become probabilities */
}

void mlr_prediction_close(struct mlr_prediction *prediction) {
    free(prediction->probabilities);
    free(prediction->places);
    free(prediction->values);
    *prediction = (struct mlr_prediction){0};
}
