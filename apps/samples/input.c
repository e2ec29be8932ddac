/* See input.h. */
#include "apps/samples/input.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/samples/images.h"
#include "apps/samples/input_images.h"
#include "apps/samples/summary.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

struct aml_option *samples_input_options(struct samples_input *input, struct aml_option *options) {
    input->format_name = input->scale_name = input->device.name = "auto";
    input->missing_name = "refuse";
    input->index_base = -1;
    const struct aml_option of_samples[SAMPLES_OPTIONS] = {
        {"data", "FILES", AML_OPTION_STRINGS, &input->data, 0, 0,
         "samples to train on; files, folders or patterns (docs/apps.md)"},
        {"labels", "FILE", AML_OPTION_STRING, &input->file.labels_path, 0, 0, "the labels of idx data"},
        {"test", "FILES", AML_OPTION_STRINGS, &input->test, 0, 0, "samples to test on"},
        {"test-labels", "FILE", AML_OPTION_STRING, &input->test_labels, 0, 0, "the labels of idx data to test on"},
        {"test-fraction", "X", AML_OPTION_REAL, &input->test_fraction, 0, 0.9,
         "hold out this part of the data to test on"},
        {"format", "NAME", AML_OPTION_STRING, &input->format_name, 0, 0,
         input->hashing.taken ? SAMPLES_FORMATS_WITH_CRITEO : SAMPLES_FORMATS},
        {"label-column", "NAME", AML_OPTION_WORD, &input->file.label_column, 0, 0,
         "text, csv: a name in the header, or a number from 1, or from -1 backwards; not given: docs/mlr.md"},
        {"missing-labels", "HOW", AML_OPTION_WORD, &input->missing_name, 0, 0,
         "refuse, skip such samples, or keep: a class"},
        {"index-base", "N", AML_OPTION_INTEGER, &input->index_base, -1, 1,
         "libsvm: the first index; -1: 0 if there is one, else 1"},
        {"scale", "HOW", AML_OPTION_WORD, &input->scale_name, 0, 0,
         "none, byte (by 1/255), max (to -1..1), unit (samples to length 1), standard (mean 0, deviation 1); auto: by "
         "the data"},
        {"shift", "N", AML_OPTION_INTEGER, &input->shift, 0, 1 << 14,
         "move images by up to N pixels, anew in each iteration"},
        {"image-size", "WxH", AML_OPTION_WORD, &input->image_size, 0, 0,
         "tar: resize images to it; not given: the first's size"},
        {"image-width", "N", AML_OPTION_INTEGER, &input->image_width, 0, 1 << 18,
         "of images in other formats, in pixels; 0: they are square"},
        {"channels", "N", AML_OPTION_INTEGER, &input->channels, 0, 1 << 10,
         "of a pixel; 0: 1, of tar as the first image"},
    };
    memcpy(options, of_samples, sizeof of_samples);
    return options + SAMPLES_OPTIONS;
}

int samples_input_choices(aml_worker *worker, struct samples_input *input) {
    struct error error = {0};
    int result = app_check_data(worker, "samples", input->data.values[0], input->test.values[0], input->test_fraction);
    int format = result != 0 ? result : app_choice("format", input->format_name, samples_formats, &error);
    int scale = format < 0 ? format : app_choice("scale", input->scale_name, scale_kinds, &error);
    int missing = scale < 0 ? scale : app_choice("missing-labels", input->missing_name, samples_missing_names, &error);
    int device = missing < 0 ? missing : nn_device_choice(input->device.name, &error);
    if (device < 0) {
        return app_result(worker, device, &error);
    }
    input->file.missing = (enum samples_missing)missing;
    input->file.format = (enum samples_format)format;
    input->scale.kind = (enum scale_kind)scale;
    input->device.choice = (enum nn_device)device;
    return 0;
}

static void input_files(const struct samples_input *input, struct app_file files[SAMPLES_INPUT_FILES]) {
    files[0] = (struct app_file){.option = "data", .values = &input->data};
    files[1] = (struct app_file){.option = "labels", .path = input->file.labels_path};
    files[2] = (struct app_file){.option = "test", .values = &input->test};
    files[3] = (struct app_file){.option = "test-labels", .path = input->test_labels};
}

/* Lists the files of --data and --test. */
static int list_files(aml_worker *worker, struct samples_input *input) {
    struct error error = {0};
    input_list_close(&input->data_files);
    input_list_close(&input->test_files);
    int result = app_list_files("data", &input->data, true, &input->data_files, &error);
    result = result == 0 ? app_list_files("test", &input->test, true, &input->test_files, &error) : result;
    size_t count = input->data_files.count + input->test_files.count;
    if (result == 0 && count > AML_READ_FILES_MAX) {
        result =
            error_set(&error, AML_EINPUT, "--data, --test: %zu files, expected at most %d", count, AML_READ_FILES_MAX);
    }
    if (result == 0) {
        bool tar = false;
        input->file.files = &input->data_files;
        input->file.path = input->data_files.names[0].path;
        result = images_are_tar(&input->file, &tar, &error);
        input->file.format = tar ? SAMPLES_TAR : input->file.format;
    }
    return app_result(worker, result, &error);
}

int samples_input_check(aml_worker *worker, struct samples_input *input, const char *model_out) {
    struct app_file files[SAMPLES_INPUT_FILES];
    if (input->test_labels != NULL && input->test.count == 0) {
        return aml_error(worker, AML_EINPUT, "--test-labels: expected --test too");
    }
    input_files(input, files);
    int result = app_check_files(worker, files, SAMPLES_INPUT_FILES, model_out);
    return result == 0 ? list_files(worker, input) : result;
}

/* ---- Survey ---- */

/* Makes the survey of samples that are not images. */
static int survey_samples(aml_worker *worker, struct samples_input *input) {
    struct error error = {0};
    bool find_base = input->index_base < 0;
    if (input->image_size != NULL) {
        return aml_error(worker, AML_EINPUT,
                         "--image-size: expected images in tar files, %s is something else (see --format)",
                         input->file.path);
    }
    input->file.index_base = find_base ? 0 : (uint32_t)input->index_base;
    statistics_close(&input->statistics);
    input->statistics = (struct statistics){
        .seed = input->seed, .test_fraction = input->test_fraction, .sums_alone = input->sums_alone};
    const struct samples_wanted wanted = {.base = find_base,
                                          .numbered = input->numbered,
                                          .maxima = input->scale.kind == SCALE_MAX,
                                          .sink = input->with_statistics ? statistics_take : NULL,
                                          .context = &input->statistics};
    int result = samples_survey(&input->file, &wanted, &input->survey, &error);
    if (result == 0 && input->with_statistics) {
        statistics_end(&input->statistics, input->survey.numbers, find_base ? input->survey.index_base : 0,
                       input->survey.features, &input->survey.labels);
    }
    input->file.index_base = result == 0 ? input->survey.index_base : input->file.index_base;
    input->file.numbering = &input->survey.numbering;
    return app_result(worker, result, &error);
}

/* Rejects labels that are not classes, and samples without features. */
static int check_labels(aml_worker *worker, const struct samples_input *input) {
    const struct labels *labels = &input->survey.labels;
    const char *path = input->file.path;
    if (input->survey.values == 0) {
        return aml_error(worker, AML_EINPUT, "%s: no sample has a feature: expected a label and features in each line",
                         path);
    }
    if (labels->count < 2) {
        return aml_error(worker, AML_EINPUT,
                         "%s: expected at least 2 different labels, all are '%s': is that the labels' column (see "
                         "--label-column)?",
                         path, labels->items[0].text);
    }
    enum labels_doubt doubt = labels_check(labels);
    const char *first = labels->items[0].text;
    const char *last = labels->items[labels->count - 1].text;
    if (doubt == LABELS_REAL) {
        return aml_error(worker, AML_EINPUT,
                         "%s: the labels are %u different numbers with fractions, %s to %s: a quantity, expected "
                         "classes; is that the labels' column (see --label-column)? If they are classes, write them as "
                         "words",
                         path, labels->count, first, last);
    }
    if (doubt == LABELS_UNIQUE) {
        return aml_error(
            worker, AML_EINPUT,
            "%s: %u different labels of %llu samples, such as %s and %s, are a quantity or names, expected "
            "classes with several samples each; is that the labels' column (see --label-column)?",
            path, labels->count, (unsigned long long)input->survey.samples, first, last);
    }
    return 0;
}

/* Makes the survey of Criteo lines, by --hash-bits and --cross. */
static int survey_criteo(aml_worker *worker, struct samples_input *input) {
    struct error error = {0};
    struct criteo_hash *hash = &input->file.hash;
    if (!input->hashing.taken) {
        return aml_error(worker, AML_EINPUT, "%s: these are Criteo lines: mlr trains on such", input->file.path);
    }
    *hash = (struct criteo_hash){
        .bits = (uint32_t)(input->hashing.bits > 0 ? input->hashing.bits : CRITEO_HASH_BITS_DEFAULT)};
    if (hash->bits < CRITEO_HASH_BITS_MIN) {
        return aml_error(worker, AML_EINPUT, "--hash-bits: expected %d to %d, got %u", CRITEO_HASH_BITS_MIN,
                         CRITEO_HASH_BITS_MAX, hash->bits);
    }
    if (input->scale.kind != SCALE_AUTO && input->scale.kind != SCALE_NONE && input->scale.kind != SCALE_UNIT) {
        return aml_error(worker, AML_EINPUT, "--scale: expected none or unit for Criteo lines, got '%s'",
                         input->scale_name);
    }
    input->scale.kind = input->scale.kind == SCALE_AUTO ? SCALE_NONE : input->scale.kind;
    input->file.format = SAMPLES_CRITEO;
    int result = input->hashing.crosses != NULL ? criteo_hash_add_crosses(hash, input->hashing.crosses, &error) : 0;
    result = result == 0 ? samples_survey_criteo(&input->file, &input->survey, &error) : result;
    return app_result(worker, result, &error);
}

static int survey_others(aml_worker *worker, struct samples_input *input) {
    bool images = samples_input_has_images(input);
    if (input->hashing.bits > 0 || input->hashing.crosses != NULL) {
        return aml_error(worker, AML_EINPUT, "--%s: expected Criteo lines, %s is something else (see --format)",
                         input->hashing.bits > 0 ? "hash-bits" : "cross", input->file.path);
    }
    int result = (images ? input_images_survey : survey_samples)(worker, input);
    result = result == 0 ? check_labels(worker, input) : result;
    bool left = input->shift > 0 && !input->shift_scaled; /* pixels that are shifted can't be scaled by their place */
    if (result == 0 && input->scale.kind == SCALE_AUTO && (images || left || !input->with_statistics)) {
        input->scale.kind = images || input->survey.format == SAMPLES_IDX ? SCALE_BYTE : SCALE_NONE;
    }
    return result;
}

int samples_input_survey(aml_worker *worker, struct samples_input *input) {
    struct error error = {0};
    enum samples_format format;
    samples_survey_close(&input->survey);
    free(input->zeros);
    input->zeros = NULL;
    input->seed = aml_seed(worker);
    int result = app_result(worker, samples_find_format(&input->file, &format, &error), &error);
    result = result == 0 ? (format == SAMPLES_CRITEO ? survey_criteo : survey_others)(worker, input) : result;
    input->scale.features = input->survey.features;
    input->scale.maxima = input->survey.maxima;
    return result;
}

double samples_input_training(const struct samples_input *input) {
    return (double)input->survey.samples * (1 - input->test_fraction);
}

void samples_input_standardize(aml_worker *worker, struct samples_input *input, const struct scale *scale) {
    size_t features = input->survey.features;
    input->scale = *scale;
    if (scale->factors != NULL && input->survey.places.count == 0) { /* the values' bytes are not compared yet */
        aml_input_mark(worker, "values",
                       hash_bytes((const void *)scale->factors, features * sizeof *scale->factors, 0));
    }
    input->zeros = scale->centres != NULL ? memory_zeroed(features, sizeof *input->zeros) : NULL;
    if (scale->centres != NULL) {
        scale_zeros(scale, input->zeros);
    }
}

void samples_input_mark(aml_worker *worker, const struct samples_input *input) {
    const struct samples_survey *survey = &input->survey;
    char summary[AML_NOTE_BYTES_MAX + 1];
    samples_summary(&input->file, survey, summary, sizeof summary);
    aml_note(worker, "%s", summary);
    uint64_t labels = survey->labels.count;
    for (uint32_t l = 0; l < survey->labels.count; l++) {
        const char *text = survey->labels.items[l].text;
        labels = hash_bytes((const void *)text, strlen(text), labels);
    }
    aml_input_mark(worker, "labels", labels);
    aml_input_mark(worker, "features", hash_pair((uint64_t)survey->features << 1 | survey->index_base, survey->format));
    aml_input_mark(worker, "numbers of samples", hash_pair(survey->samples, survey->values));
    if (survey->maxima != NULL) {
        const unsigned char *maxima = (const void *)survey->maxima;
        aml_input_mark(worker, "maxima", hash_bytes(maxima, survey->features * sizeof *survey->maxima, 0));
    }
    if (survey->places.count > 0) {
        aml_input_mark(worker, samples_input_has_images(input) ? "images" : "lines", survey->text);
    }
}

/* ---- Transforms ---- */

static int run_shift(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    const struct samples_input *input = context;
    bool images = samples_input_has_images(input);
    size_t value = images ? 1 : sizeof(float);
    size_t pixels = input->survey.features * value; /* bytes */
    size_t all = images ? input_images_bytes(input) : pixels + sizeof(float);
    (void)worker;
    shift_image(in, out, &input->image, value, (uint32_t)input->shift, random);
    memcpy((unsigned char *)out + pixels, (const unsigned char *)in + pixels, all - pixels); /* the label */
    return 0;
}

bool samples_input_find_image(struct samples_input *input) {
    uint32_t features = input->survey.features;
    if (samples_input_has_images(input)) {
        input->image = input->file.images.shape;
        return true;
    }
    uint32_t channels = input->channels > 0 ? (uint32_t)input->channels : 1;
    uint32_t pixels = features / channels;
    uint32_t square = (uint32_t)lround(sqrt(pixels));
    uint32_t width = input->image_width > 0 ? (uint32_t)input->image_width : square > 0 ? square : 1;
    input->image = (struct image_shape){.width = width, .height = pixels / width, .channels = channels};
    return pixels / width > 0 && (uint64_t)(pixels / width) * width * channels == features;
}

/* Finds the images' size for --shift. */
static int check_shift(aml_worker *worker, struct samples_input *input) {
    bool found = samples_input_find_image(input);
    const struct image_shape *image = &input->image;
    if (!found) {
        return aml_error(worker, AML_EINPUT, "--shift: %u features are no image %u pixels wide: see --image-width",
                         input->survey.features, image->width);
    }
    if (input->shift >= image->width || input->shift >= image->height) {
        return aml_error(worker, AML_EINPUT, "--shift %lld: expected less than the image's width and height, %u x %u",
                         (long long)input->shift, image->width, image->height);
    }
    return 0;
}

int samples_input_declare_transforms(aml_worker *worker, struct samples_input *input, struct aml_app *app) {
    bool images = samples_input_has_images(input);
    struct aml_transform *transform = input->transforms;
    assert(app->context == input); /* the transforms' context, too */
    size_t dense_bytes = app->item_bytes;
    if (!input->dense && (images || input->shift > 0)) {
        return aml_error(worker, AML_EINPUT, "%s: expected dense samples, these are sparse (see --layout)",
                         images ? input->file.path : "--shift");
    }
    int result = input->shift > 0 ? check_shift(worker, input) : 0;
    if (images) {
        app->item_varied = 1;
        app->item_bytes = 0;
        *transform++ =
            (struct aml_transform){.name = "decode", .bytes = input_images_bytes(input), .run = input_images_decode};
    }
    if (input->shift > 0) {
        *transform++ = (struct aml_transform){.name = "shift",
                                              .from = images ? "decode" : NULL,
                                              .flags = AML_TRANSFORM_TRAIN,
                                              .bytes = images ? input_images_bytes(input) : dense_bytes,
                                              .run = run_shift};
    }
    if (images) {
        *transform = (struct aml_transform){
            .name = "scale", .from = transform[-1].name, .bytes = dense_bytes, .run = input_images_scale};
    }
    app->transforms = transform != input->transforms ? input->transforms : NULL;
    return result;
}

/* ---- Reading ---- */

struct emitting {
    aml_worker *worker;
    const struct samples_input *input;
    enum aml_item_use use;
    float *values;  /* [capacity] the sample's scaled values */
    uint64_t *keys; /* [capacity] */
    float *bytes;   /* [capacity + 1] the item; dense: all features and the label; sparse: the label and the values */
    uint32_t capacity;
};

static bool emitting_room(struct emitting *emitting, uint32_t count) {
    if (count < emitting->capacity) {
        return true;
    }
    uint32_t capacity = 2 * count;
    float *values = realloc(emitting->values, capacity * sizeof *values);
    emitting->values = values != NULL ? values : emitting->values;
    uint64_t *keys = realloc(emitting->keys, capacity * sizeof *keys);
    emitting->keys = keys != NULL ? keys : emitting->keys;
    float *bytes = realloc(emitting->bytes, ((size_t)capacity + 1) * sizeof *bytes);
    emitting->bytes = bytes != NULL ? bytes : emitting->bytes;
    if (values == NULL || keys == NULL || bytes == NULL) {
        return false;
    }
    emitting->capacity = capacity;
    return true;
}

static int emit_dense(struct emitting *emitting, enum aml_item_use use, const struct sample *sample, uint32_t count,
                      uint32_t label) {
    uint32_t features = emitting->input->survey.features;
    float *item = emitting->bytes;
    if (emitting->input->zeros != NULL && count < features) {
        memcpy(item, emitting->input->zeros, features * sizeof *item);
    } else {
        memset(item, 0, features * sizeof *item);
    }
    for (uint32_t i = 0; i < count; i++) {
        item[sample->features != NULL ? sample->features[i] : i] = emitting->values[i];
    }
    memcpy(&item[features], &label, sizeof label);
    return aml_emit_numbered(emitting->worker, use, sample->number, item);
}

/* Emits a sparse sample with the first `used` of the keys, and the row of the biases after them. Its bytes are the
 * label, then the values. When all values are 1 (`ones`), its bytes are only the label. */
static int emit_keys(struct emitting *emitting, enum aml_item_use use, const struct sample *sample, uint32_t used,
                     uint32_t label, bool ones) {
    memcpy(&emitting->bytes[0], &label, sizeof label);
    emitting->keys[used] = emitting->input->survey.features;
    const struct aml_keys run = {.table = 0, .count = used + 1, .keys = emitting->keys};
    return aml_emit_varied(emitting->worker, use, sample->number, &run, 1, emitting->bytes,
                           ones ? sizeof label : ((size_t)used + 1) * sizeof(float));
}

static int emit_sparse(struct emitting *emitting, enum aml_item_use use, const struct sample *sample, uint32_t count,
                       uint32_t label) {
    uint32_t used = 0;
    bool ones = true;
    for (uint32_t i = 0; i < count; i++) {
        if (emitting->values[i] != 0) {
            emitting->keys[used++] = sample->features != NULL ? sample->features[i] : i;
            emitting->bytes[used] = emitting->values[i];
            ones = ones && emitting->values[i] == 1;
        }
    }
    return emit_keys(emitting, use, sample, used, label, ones);
}

/* Emits a sparse sample whose values are all 1. */
static int emit_ones(struct emitting *emitting, enum aml_item_use use, const struct sample *sample, uint32_t count,
                     uint32_t label) {
    for (uint32_t i = 0; i < count; i++) {
        emitting->keys[i] = sample->features[i];
    }
    return emit_keys(emitting, use, sample, count, label, true);
}

static double sum_squares(const float *values, uint32_t count) {
    double squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        squares += (double)values[i] * (double)values[i];
    }
    return squares;
}

static int emit_sample(void *context, const struct sample *sample, struct error *error) {
    struct emitting *emitting = context;
    const struct samples_input *input = emitting->input;
    enum aml_item_use use = emitting->use;
    int64_t label = labels_find(&input->survey.labels, &sample->label);
    if (label == INDEX_NONE) {
        return error_set(error, AML_EINPUT, "expected a label that occurs in the training data, got '%s'",
                         sample->label.text);
    }
    bool whole = input->survey.dense || numbering_is_used(input->file.numbering);
    if (whole && sample->features == NULL && sample->count != input->survey.features) {
        return error_set(error, AML_EINPUT, "expected %u features as in %s, got %u", input->survey.features,
                         input->file.path, sample->count);
    }
    uint32_t room = input->dense && input->survey.features > sample->count ? input->survey.features : sample->count;
    if (!emitting_room(emitting, room + 1)) {
        return error_set(error, AML_ENOMEM, "no memory for a sample of %u values", sample->count);
    }
    if (app_held_out(aml_mix(input->seed, sample->place), input->test_fraction)) {
        use = AML_TEST;
    }
    bool ones = !input->dense && sample->ones && sample->features != NULL && input->scale.kind == SCALE_NONE;
    uint32_t count = ones ? scale_known(&input->scale, sample) : scale_sample(&input->scale, sample, emitting->values);
    int kept = (ones           ? emit_ones
                : input->dense ? emit_dense
                               : emit_sparse)(emitting, use, sample, count, (uint32_t)label);
    if (kept == 1 && use == AML_TRAIN) {
        aml_total_add(emitting->worker, SAMPLES_TOTAL_SQUARES, ones ? count : sum_squares(emitting->values, count));
        aml_total_add(emitting->worker, SAMPLES_TOTAL_LABELS, (double)label);
    }
    return kept < 0 ? kept : 0;
}

static void emitting_close(struct emitting *emitting) {
    free(emitting->values);
    free(emitting->keys);
    free(emitting->bytes);
}

/* A file of lines that is being read, in several threads. */
struct line_file {
    const struct samples_input *input;
    const struct samples_file *file;
    enum aml_item_use use;
    struct samples_head head;
};

/* Names the run's samples by their places in all files, which the survey has; without a survey, by the places in
 * their split. */
static int name_samples(aml_worker *worker, const struct line_file *lines, const struct aml_lines *from,
                        struct samples_run *run) {
    const struct samples_input *input = lines->input;
    if (lines->use == AML_TEST || input->survey.format == SAMPLES_CRITEO) {
        run->named = true;
        run->name = aml_mix(from->file, from->split);
        run->place = from->offset;
        return 0;
    }
    const struct samples_chunk *chunk =
        samples_find_chunk(&input->survey.places, from->file, from->split, from->offset);
    if (chunk == NULL) {
        return aml_error(worker, AML_EINPUT, "%s: the file has changed since this process began", lines->file->path);
    }
    run->place = chunk->place;
    run->number = chunk->number;
    return 0;
}

/* Emits the samples of some of the file's lines. */
static int emit_lines(aml_worker *worker, const struct aml_lines *from, void *context) {
    const struct line_file *lines = context;
    struct emitting emitting = {.worker = worker, .input = lines->input, .use = lines->use};
    uint64_t before = from->split == 0 && lines->head.begin > from->offset ? lines->head.begin - from->offset : 0;
    struct samples_run run = {
        .text = from->text, .size = from->size, .skip = before < from->size ? (size_t)before : from->size};
    struct error error = {0};
    const char *at = NULL;
    int result = name_samples(worker, lines, from, &run);
    if (result != 0) {
        return result;
    }
    result = samples_read_run(lines->file, &lines->head, &run, emit_sample, &emitting, &at, &error);
    emitting_close(&emitting);
    if (result != 0 && error.code != 0 && at != NULL) {
        return aml_error(worker, result, "%s:%llu: %s", lines->file->path,
                         (unsigned long long)aml_line_number(worker, from, at), error.text);
    }
    return app_result(worker, result, &error);
}

/* Reads files of lines, which are divided among the processes. The format of the first file applies to all. */
static int read_lines(aml_worker *worker, const struct samples_input *input, const struct samples_file *files,
                      enum aml_item_use use) {
    struct samples_file file = *files;
    struct error error = {0};
    int result = 0;
    for (size_t f = 0; f < files->files->count && result == 0; f++) {
        file.path = files->files->names[f].path;
        file.like = input->survey.columns.count > 0 && (use == AML_TEST || f > 0) ? &input->survey.columns : NULL;
        struct line_file lines = {.input = input, .file = &file, .use = use};
        result = app_result(worker, samples_read_head(&file, &lines.head, &error), &error);
        result = result == 0 ? aml_read_lines(worker, file.path, emit_lines, &lines) : result;
        file.format = lines.head.format;
        samples_head_close(&lines.head);
    }
    return result;
}

/* Reads idx data, which is not divided among the processes. */
static int read_idx(aml_worker *worker, const struct samples_input *input, const struct samples_file *file,
                    enum aml_item_use use) {
    struct emitting emitting = {.worker = worker, .input = input, .use = use};
    struct error error = {0};
    aml_input_file(worker, file->path);
    if (file->labels_path != NULL) {
        aml_input_file(worker, file->labels_path);
    }
    int result = samples_read(file, emit_sample, &emitting, &error);
    emitting_close(&emitting);
    return app_result(worker, result, &error);
}

static int read_files(aml_worker *worker, const struct samples_input *input, const struct samples_file *file,
                      enum aml_item_use use) {
    struct error error = {0};
    enum samples_format format;
    if (samples_input_has_images(input)) {
        return input_images_read(worker, input, file->files, use);
    }
    int result = app_result(worker, samples_find_format(file, &format, &error), &error);
    return result != 0 ? result : (format == SAMPLES_IDX ? read_idx : read_lines)(worker, input, file, use);
}

int samples_input_read(aml_worker *worker, void *context) {
    const struct samples_input *input = context;
    struct samples_file test = input->file;
    test.path = input->test.count > 0 ? input->test_files.names[0].path : NULL;
    test.files = &input->test_files;
    test.labels_path = input->test_labels;
    int result = read_files(worker, input, &input->file, AML_TRAIN);
    return result == 0 && test.path != NULL ? read_files(worker, input, &test, AML_TEST) : result;
}

struct samples_model samples_input_model(const struct samples_input *input) {
    return (struct samples_model){.scale = input->scale,
                                  .index_base = input->file.index_base,
                                  .numbering = input->survey.numbering,
                                  .hash = input->file.hash,
                                  .images = input->file.images.shape,
                                  .labels = input->survey.labels,
                                  .names = input->survey.columns.names};
}

void samples_input_close(struct samples_input *input) {
    statistics_close(&input->statistics);
    samples_survey_close(&input->survey);
    input_list_close(&input->data_files);
    input_list_close(&input->test_files);
    free(input->zeros);
}
