/* See model.h. */
#include "apps/mlr/model.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_SIZE = 28 };

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
    const struct samples_model *samples;
    uint32_t features, classes;
};

static void writer_hash(struct mlr_model_writer *writer, const struct criteo_hash *hash) {
    unsigned char *numbers = model_file_room(writer->file, 8);
    put32(numbers, hash->bits);
    put32(numbers + 4, hash->cross_count);
    for (uint32_t c = 0; c < hash->cross_count; c++) {
        unsigned char *fields = model_file_room(writer->file, 2);
        fields[0] = hash->crosses[c].first;
        fields[1] = hash->crosses[c].second;
    }
}

static void writer_header(struct mlr_model_writer *writer) {
    const struct samples_model *samples = writer->samples;
    const uint32_t numbers[] = {samples->scale.kind, samples->index_base, writer->features, writer->classes};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        put32(model_file_room(writer->file, sizeof numbers[i]), numbers[i]);
    }
    if (samples->hash.bits > 0) {
        writer_hash(writer, &samples->hash);
    }
    if (samples->images.width > 0) {
        const uint32_t shape[] = {samples->images.width, samples->images.height, samples->images.channels};
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
            put32(model_file_room(writer->file, sizeof shape[i]), shape[i]);
        }
    }
    samples_model_write_labels(writer->file, samples);
    for (uint32_t f = 0; f < writer->features && numbering_is_used(&samples->numbering); f++) {
        put32(model_file_room(writer->file, sizeof(uint32_t)),
              (uint32_t)samples->numbering.features[f] + samples->index_base);
    }
    samples_model_write_scale(writer->file, samples);
}

int mlr_model_writer_open(struct mlr_model_writer **opened, const char *path, const struct samples_model *samples,
                          struct error *error) {
    struct model_file_writer *file;
    *opened = NULL;
    struct model_file_kind kind = model_kind(samples->hash.bits > 0                   ? MLR_MODEL_VERSION_HASHED
                                             : samples->images.width > 0              ? MLR_MODEL_VERSION_IMAGES
                                             : numbering_is_used(&samples->numbering) ? MLR_MODEL_VERSION_NUMBERED
                                             : samples->scale.kind == SCALE_STANDARD  ? MLR_MODEL_VERSION_STANDARD
                                                                                      : MLR_MODEL_VERSION);
    int result = samples_model_begin(&file, path, &kind, samples, error);
    if (result != 0) {
        return result;
    }
    *opened = memory_zeroed(1, sizeof **opened);
    **opened = (struct mlr_model_writer){
        .file = file, .samples = samples, .features = samples->scale.features, .classes = samples->labels.count};
    writer_header(*opened);
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
            model_file_floats(writer->file, row, writer->classes);
        }
    }
    return model_file_failed(writer->file, error);
}

int mlr_model_writer_close(struct mlr_model_writer *writer, int result, struct error *error) {
    result = samples_model_end(writer->file, result, writer->samples, error);
    free(writer);
    return result;
}

/* ---- Loading ---- */

static int take_hash(struct model_file_reader *reader, struct samples_model *samples) {
    struct criteo_hash *hash = &samples->hash;
    const unsigned char *bytes;
    int result = model_file_take(reader, 8, &bytes);
    if (result != 0) {
        return result;
    }
    *hash = (struct criteo_hash){.bits = get32(bytes), .cross_count = get32(bytes + 4)};
    if (hash->cross_count > CRITEO_HASH_CROSSES_MAX) {
        return model_file_refuse(reader, "has too many crosses");
    }
    result = model_file_take(reader, 2 * (size_t)hash->cross_count, &bytes);
    for (uint32_t c = 0; c < hash->cross_count && result == 0; c++) {
        hash->crosses[c] = (struct criteo_hash_cross){.first = bytes[2 * c], .second = bytes[2 * c + 1]};
    }
    return result != 0 || (criteo_hash_valid(hash) && samples->scale.features == UINT32_C(1) << hash->bits)
               ? result
               : model_file_refuse(reader, "has bits or crosses of its hash out of range");
}

static int take_images(struct model_file_reader *reader, struct samples_model *samples) {
    struct image_shape *shape = &samples->images;
    const unsigned char *bytes;
    int result = model_file_take(reader, 12, &bytes);
    if (result != 0) {
        return result;
    }
    *shape = (struct image_shape){.width = get32(bytes), .height = get32(bytes + 4), .channels = get32(bytes + 8)};
    bool good = shape->width >= 1 && shape->width <= IMAGE_SIDE_MAX && shape->height >= 1 &&
                shape->height <= IMAGE_SIDE_MAX && (shape->channels == 1 || shape->channels == 3) &&
                image_values(shape) == samples->scale.features;
    return good ? 0 : model_file_refuse(reader, "has a shape of images out of range");
}

static int take_numbering(struct model_file_reader *reader, struct samples_model *samples) {
    uint32_t count = samples->scale.features;
    const unsigned char *bytes;
    int result = model_file_take(reader, count * sizeof(uint32_t), &bytes);
    if (result != 0) {
        return result;
    }
    uint64_t *features = memory_zeroed(count, sizeof *features);
    bool good = true;
    for (uint32_t f = 0; f < count; f++) {
        uint32_t index = get32(bytes + f * sizeof(uint32_t));
        features[f] = index - samples->index_base;
        good = good && index >= samples->index_base && index <= SAMPLES_INDEX_MAX &&
               (f == 0 || features[f] > features[f - 1]);
    }
    numbering_make(&samples->numbering, features, good ? count : 0);
    return good ? 0 : model_file_refuse(reader, "has indexes of features that are out of range or do not ascend");
}

/* Takes all that comes before the rows. */
static int take_header(struct model_file_reader *reader, struct samples_model *samples) {
    const unsigned char *numbers;
    uint32_t version = get32(reader->bytes + MODEL_FILE_MAGIC);
    bool numbered = version == MLR_MODEL_VERSION_NUMBERED;
    int result = model_file_take(reader, HEADER_SIZE - MODEL_FILE_START, &numbers);
    if (result != 0) {
        return result;
    }
    uint32_t kind = get32(numbers);
    uint32_t classes = get32(numbers + 12);
    samples->index_base = get32(numbers + 4);
    samples->scale.features = get32(numbers + 8);
    bool standard = version == MLR_MODEL_VERSION_STANDARD || (numbered && kind == SCALE_STANDARD);
    if (kind >= SCALE_AUTO || (kind == SCALE_STANDARD) != standard || samples->index_base > 1 ||
        samples->scale.features < 1 || samples->scale.features > SAMPLES_FEATURES_MAX || classes < 2 ||
        classes > LABELS_MAX) {
        return model_file_refuse(reader,
                                 "has a scale, index base, number of features or number of classes out of range");
    }
    samples->scale.kind = (enum scale_kind)kind;
    result = version == MLR_MODEL_VERSION_HASHED   ? take_hash(reader, samples)
             : version == MLR_MODEL_VERSION_IMAGES ? take_images(reader, samples)
                                                   : 0;
    result = result != 0 ? result : samples_model_take_labels(reader, classes, samples);
    result = result != 0 || !numbered ? result : take_numbering(reader, samples);
    return result != 0 ? result : samples_model_take_scale(reader, samples);
}

static int take_rows(struct model_file_reader *reader, struct mlr_model *model) {
    uint32_t classes = model->samples.labels.count;
    uint32_t bias = model->samples.scale.features;
    size_t row_size = 4 + classes * sizeof(float);
    size_t count = (reader->size - reader->at) / row_size;
    if ((reader->size - reader->at) % row_size != 0 || count > (size_t)bias + 1) {
        return model_file_refuse(reader, "has a length that does not fit its header");
    }
    const unsigned char *bytes = reader->bytes + reader->at;
    model->row_count = (uint32_t)count + 1;
    model->rows = memory_zeroed(model->row_count, classes * sizeof(float));
    model->places = memory_zeroed((size_t)bias + 1, sizeof *model->places);
    for (uint32_t place = 1; place < model->row_count; place++) { /* row 0 is the row of zeros */
        uint32_t feature = get32(bytes);
        if (feature > bias || model->places[feature] != 0) {
            return model_file_refuse(reader, "has a feature twice, or one out of range");
        }
        model->places[feature] = place;
        bytes += 4;
        float *row = model->rows + (size_t)place * classes;
        for (uint32_t k = 0; k < classes; k++, bytes += sizeof(float)) {
            row[k] = get_float(bytes);
            if (!isfinite(row[k])) {
                return model_file_refuse(reader, "has a weight that is not finite");
            }
        }
    }
    return model->places[bias] != 0 ? 0 : model_file_refuse(reader, "has no biases");
}

int mlr_model_load(const char *path, struct mlr_model *model, struct error *error) {
    *model = (struct mlr_model){0};
    struct model_file_reader reader;
    struct model_file_kind kind = model_kind(MLR_MODEL_NEWEST);
    int result = samples_model_load(path, &kind, &reader, &model->samples, error);
    result = result != 0 ? result : take_header(&reader, &model->samples);
    result = result != 0 ? result : take_rows(&reader, model);
    free(reader.bytes);
    if (result != 0) {
        mlr_model_close(model);
    }
    return result;
}

void mlr_model_close(struct mlr_model *model) {
    samples_model_close(&model->samples);
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

/* Sets the values of a sample and the places of their rows. Returns their number. */
static uint32_t prediction_values(const struct mlr_model *model, const struct sample *sample,
                                  struct mlr_prediction *prediction) {
    const struct scale *scale = &model->samples.scale;
    bool centred = scale->centres != NULL; /* so that zeros have values, too */
    prediction_room(prediction, model->samples.labels.count, centred ? scale->features + sample->count : sample->count);
    if (centred) {
        scale_all(scale, sample, prediction->values + scale->features, prediction->values);
        memcpy(prediction->places, model->places, scale->features * sizeof *prediction->places);
        return scale->features;
    }
    uint32_t count = scale_sample(scale, sample, prediction->values);
    for (uint32_t i = 0; i < count; i++) {
        prediction->places[i] = model->places[sample->features != NULL ? sample->features[i] : i];
    }
    return count;
}

void mlr_model_predict(const struct mlr_model *model, const struct sample *sample, struct mlr_prediction *prediction) {
    uint32_t classes = model->samples.labels.count;
    uint32_t count = prediction_values(model, sample, prediction);
    const struct mlr_weights weights = {.rows = model->rows,
                                        .stride = classes,
                                        .bias = model->places[model->samples.scale.features],
                                        .classes = classes};
    const struct mlr_sparse x = {.features = prediction->places, .values = prediction->values, .count = count};
    struct mlr_kernel kernel = mlr_kernel_choose();
    float *p = prediction->probabilities;
    kernel.sparse_logits(&weights, &x, 1, p);
    prediction->best = 0;
    for (uint32_t k = 1; k < classes; k++) {
        prediction->best = p[k] > p[prediction->best] ? k : prediction->best;
    }
    struct nn_loss loss = {0};
    kernel.softmax(p, &prediction->best, 1, classes, &loss);
    p[prediction->best] += 1; /* errors become probabilities */
}

void mlr_prediction_close(struct mlr_prediction *prediction) {
    free(prediction->probabilities);
    free(prediction->places);
    free(prediction->values);
    *prediction = (struct mlr_prediction){0};
}
