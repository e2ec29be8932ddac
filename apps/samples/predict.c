/* See predict.h. */
#include "apps/samples/predict.h"

#include "apps/app.h"
#include "apps/samples/images.h"
#include "apps/tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

struct run {
    const struct samples_predictor *predictor;
    const char *model_path, *format;
    struct aml_strings data;
    struct input_list files;
    struct samples_file file;
    struct samples_model model;
    struct tool_output out; /* without a path samples with labels give the accuracy alone */
    uint64_t count, known, correct;
    double loss; /* of the samples whose label is known */
    bool labelled;
};

static void compare(struct run *run, const struct sample *sample, const float *probabilities, uint32_t best) {
    int64_t label = mlr_labels_find(run->model.labels, &sample->label);
    if (label != INDEX_NONE) {
        run->known++;
        run->correct += label == best;
        run->loss -= log(fmax((double)probabilities[label], 1e-38));
    }
}

static int predict_sample(void *context, const struct sample *sample, struct error *error) {
    struct run *run = context;
    const struct samples_predictor *predictor = run->predictor;
    if (sample->features == NULL && sample->count != run->model.features) {
        return error_set(error, AML_EINPUT, "expected %u features, as %s has, got %u", run->model.features,
                         run->model_path, sample->count);
    }
    if (run->count++ == 0) {
        run->labelled = sample->labelled; /* all samples of a file have labels, or none has */
    } else if (run->labelled != sample->labelled) {
        return error_set(error, AML_EINPUT, "expected %s, as in the files before",
                         run->labelled ? "a label" : "no label");
    }
    uint32_t best;
    const float *probabilities = predictor->predict(predictor->context, sample, &best);
    if (run->labelled) {
        compare(run, sample, probabilities, best);
    }
    if (run->labelled && run->out.path == NULL) {
        return 0;
    }
    const char *predicted = run->model.labels->items[best].text;
    int printed = run->labelled ? fprintf(run->out.file, "%s\t", sample->label.text) : 0;
    if (printed < 0 || fprintf(run->out.file, "%s\t%.6g\n", predicted, (double)probabilities[best]) < 0) {
        return tool_output_failed(&run->out, error);
    }
    return 0;
}

/* Images become samples here. */
struct image_run {
    struct run *run;
    unsigned char *pixels; /* [features] */
    float *values;         /* [features] */
    enum images_labels labels;
    bool nameless; /* folders are no labels: that of the first image is none of the model's classes */
};

static int predict_image(void *context, const struct images_entry *entry, struct error *error) {
    struct image_run *images = context;
    struct run *run = images->run;
    uint32_t features = run->model.features;
    if (run->count == 0) {
        images->nameless = images->labels == IMAGES_LABELS_FOLDER && entry->labelled &&
                           mlr_labels_find(run->model.labels, &entry->label) == INDEX_NONE;
    }
    int result = image_decode(entry->bytes, entry->size, &run->model.images, images->pixels, error);
    for (uint32_t i = 0; i < features && result == 0; i++) {
        images->values[i] = (float)images->pixels[i];
    }
    const struct sample sample = {.number = entry->number,
                                  .labelled = entry->labelled && !images->nameless,
                                  .label = entry->label,
                                  .values = images->values,
                                  .count = features};
    return result == 0 ? predict_sample(run, &sample, error) : result;
}

static int predict_images(struct run *run, struct error *error) {
    uint32_t features = run->model.features;
    struct image_run images = {
        .run = run, .pixels = malloc(features), .values = malloc(features * sizeof *images.values)};
    int result = images.pixels == NULL || images.values == NULL
                     ? error_set(error, AML_ENOMEM, "no memory for an image of %u values", features)
                     : images_find_labels(&run->file, &images.labels, error);
    for (size_t f = 0; f < run->files.count && result == 0; f++) {
        result = images_read(run->files.names[f].path, images.labels, true, predict_image, &images, error);
    }
    free(images.pixels);
    free(images.values);
    return result == 0 && run->count == 0
               ? error_set(error, AML_EINPUT, "%s: no images: expected .jpg, .jpeg or .png", run->file.path)
               : result;
}

/* Sets whether the samples are images in tar files. */
static int choose_images(struct run *run, bool *images, struct error *error) {
    int result = images_are_tar(&run->file, images, error);
    if (result == 0 && *images && run->model.images.width == 0) {
        return error_set(error, AML_EINPUT, "%s: these are images in a tar file, but %s was not trained on images",
                         run->file.path, run->model_path);
    }
    return result;
}

/* Sets the format: the model says whether samples are Criteo lines. */
static int choose_format(struct run *run, struct error *error) {
    bool hashed = run->model.hash != NULL && run->model.hash->bits > 0;
    bool criteo = false;
    int result = hashed ? 0 : samples_are_criteo(&run->file, &criteo, error);
    if (result != 0) {
        return result;
    }
    if (hashed && run->file.format != SAMPLES_AUTO && run->file.format != SAMPLES_CRITEO) {
        return error_set(error, AML_EINPUT, "--format %s: expected criteo, as %s was trained on Criteo lines",
                         run->format, run->model_path);
    }
    if (criteo) {
        return error_set(error, AML_EINPUT, "%s: these are Criteo lines, but %s was not trained on such",
                         run->file.path, run->model_path);
    }
    run->file.format = hashed ? SAMPLES_CRITEO : run->file.format;
    if (hashed) {
        run->file.hash = *run->model.hash;
    }
    return 0;
}

static int predict_file(struct run *run, struct error *error) {
    bool images = false;
    int result = choose_images(run, &images, error);
    result = result == 0 && !images ? choose_format(run, error) : result;
    result = result == 0 ? tool_output_open(&run->out, error) : result;
    if (result != 0) {
        return result;
    }
    run->file.index_base = run->model.index_base;
    run->file.label_optional = true;
    run->file.features = run->model.features;
    result = images ? predict_images(run, error) : samples_read(&run->file, predict_sample, run, error);
    result = tool_output_close(&run->out, result, error);
    if (result == 0 && run->labelled) {
        printf("samples %" PRIu64 "  unknown_labels %" PRIu64 "  accuracy %.6f  loss %.6f\n", run->count,
               run->count - run->known, (double)run->correct / (double)run->count,
               run->known > 0 ? run->loss / (double)run->known : 0);
    } else if (result == 0 && run->out.path != NULL) {
        printf("predictions %" PRIu64 "\n", run->count);
    }
    return result;
}

static int predict(void *context, struct error *error) {
    struct run *run = context;
    if (run->data.count == 0) {
        return error_set(error, AML_EINPUT, "--data FILE is missing: expected samples to predict");
    }
    int format = app_choice("format", run->format, samples_formats, error);
    if (format < 0) {
        return format;
    }
    run->file.format = (enum samples_format)format;
    int result = app_list_files("data", &run->data, false, &run->files, error);
    if (result == 0) {
        run->file.files = &run->files;
        run->file.path = run->files.names[0].path;
    }
    const struct samples_predictor *predictor = run->predictor;
    result = result == 0 ? predictor->load(predictor->context, run->model_path, &run->model, error) : result;
    if (result == 0) {
        result = predict_file(run, error);
        predictor->close(predictor->context);
    }
    input_list_close(&run->files);
    return result;
}

int samples_predict_main(const struct samples_predictor *predictor, int argc, char **argv) {
    struct run run = {.predictor = predictor, .format = "auto"};
    char usage[512];
    const struct aml_option options[] = {
        {"predict", "MODEL", AML_OPTION_STRING, &run.model_path, 0, 0, "a model that --model-out wrote"},
        {"data", "FILES", AML_OPTION_STRINGS, &run.data, 0, 0,
         "samples, with labels to compare with or without; format as in training"},
        {"labels", "FILE", AML_OPTION_STRING, &run.file.labels_path, 0, 0, "the labels of idx data, if there are any"},
        {"format", "NAME", AML_OPTION_STRING, &run.format, 0, 0, predictor->formats},
        {"label-column", "NAME", AML_OPTION_WORD, &run.file.label_column, 0, 0,
         "the label's name in the header of text and csv, or its number: from 1, or from -1 for the last; default: by "
         "the header, or field 1 if a line has one field more than the model has features"},
        {"out", "FILE", AML_OPTION_STRING, &run.out.path, 0, 0,
         "write lines of label (if there is one), prediction and its probability there, in the order of --data"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    snprintf(usage, sizeof usage,
             "%s --predict MODEL --data FILE [--labels FILE] [--out FILE]\n\n"
             "With labelled samples as data: prints accuracy and loss, and with --out writes\n"
             "predictions. With samples without labels: prints lines of prediction and\n"
             "probability, or with --out writes them.",
             predictor->app);
    const struct tool tool = {.app = predictor->app,
                              .option = "predict",
                              .usage = usage,
                              .options = options,
                              .run = predict,
                              .context = &run};
    return tool_main(&tool, argc, argv);
}
