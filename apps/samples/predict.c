/* See predict.h. */
#include "apps/samples/predict.h"

#include "agileml/base/text_input.h"
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
    const struct samples_model *model;
    struct tool_output out; /* without a path, samples with labels give only the accuracy */
    uint64_t count, known, correct;
    double loss; /* sum over the samples whose label is known */
    bool labelled;
    bool probabilities; /* --probabilities */
    char said[COLUMNS_SAID_MAX];
};

static void compare(struct run *run, const struct sample *sample, const float *probabilities, uint32_t best) {
    int64_t label = labels_find(&run->model->labels, &sample->label);
    if (label != INDEX_NONE) {
        run->known++;
        run->correct += label == best;
        run->loss -= log(fmax((double)probabilities[label], 1e-38));
    }
}

/* Whether to write a line for each sample. For samples with labels the accuracy alone may be enough. */
static bool writes_lines(const struct run *run) {
    return !run->labelled || run->out.path != NULL || run->probabilities;
}

/* Writes the names of the columns of --probabilities. */
static void write_header(const struct run *run) {
    const struct labels *labels = &run->model->labels;
    fprintf(run->out.file, "%sprediction\tprobability", run->labelled ? "label\t" : "");
    for (uint32_t k = 0; k < labels->count; k++) {
        fprintf(run->out.file, "\t%s", labels->items[k].text);
    }
    fputc('\n', run->out.file);
}

static int write_line(const struct run *run, const struct sample *sample, const float *probabilities, uint32_t best,
                      struct error *error) {
    const struct labels *labels = &run->model->labels;
    if (run->probabilities && run->count == 1) {
        write_header(run);
    }
    fprintf(run->out.file, "%s%s", run->labelled ? sample->label.text : "", run->labelled ? "\t" : "");
    fprintf(run->out.file, "%s\t%.6g", labels->items[best].text, (double)probabilities[best]);
    for (uint32_t k = 0; k < labels->count && run->probabilities; k++) {
        fprintf(run->out.file, "\t%.6g", (double)probabilities[k]);
    }
    fputc('\n', run->out.file);
    return ferror(run->out.file) ? tool_output_failed(&run->out, error) : 0;
}

static int predict_sample(void *context, const struct sample *sample, struct error *error) {
    struct run *run = context;
    const struct samples_predictor *predictor = run->predictor;
    if (sample->features == NULL && sample->count != run->model->scale.features) {
        return error_set(error, AML_EINPUT, "expected %u features, as %s has, got %u", run->model->scale.features,
                         run->model_path, sample->count);
    }
    if (run->count++ == 0) {
        run->labelled = sample->labelled; /* either all samples of a file have labels or none has */
    } else if (run->labelled != sample->labelled) {
        return error_set(error, AML_EINPUT, "expected %s, as in the files before",
                         run->labelled ? "a label" : "no label");
    }
    uint32_t best;
    const float *probabilities = predictor->predict(predictor->context, sample, &best);
    if (run->labelled) {
        compare(run, sample, probabilities, best);
    }
    return writes_lines(run) ? write_line(run, sample, probabilities, best, error) : 0;
}

/* The state for images, which become samples here. */
struct image_run {
    struct run *run;
    unsigned char *pixels; /* [features] */
    double *values;        /* [features] */
    enum images_labels labels;
    bool nameless; /* folders are no labels, as the first image's folder is none of the model's classes */
};

static int predict_image(void *context, const struct images_entry *entry, struct error *error) {
    struct image_run *images = context;
    struct run *run = images->run;
    uint32_t features = run->model->scale.features;
    if (run->count == 0) {
        images->nameless = images->labels == IMAGES_LABELS_FOLDER && entry->labelled &&
                           labels_find(&run->model->labels, &entry->label) == INDEX_NONE;
    }
    int result = image_decode(entry->bytes, entry->size, &run->model->images, images->pixels, error);
    for (uint32_t i = 0; i < features && result == 0; i++) {
        images->values[i] = images->pixels[i];
    }
    const struct sample sample = {.number = entry->number,
                                  .labelled = entry->labelled && !images->nameless,
                                  .label = entry->label,
                                  .values = images->values,
                                  .count = features};
    return result == 0 ? predict_sample(run, &sample, error) : result;
}

static int predict_images(struct run *run, struct error *error) {
    uint32_t features = run->model->scale.features;
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
    if (result == 0 && *images && run->model->images.width == 0) {
        return error_set(error, AML_EINPUT, "%s: these are images in a tar file, but %s was not trained on images",
                         run->file.path, run->model_path);
    }
    return result;
}

/* Sets the format. The model decides whether samples are Criteo lines, or have numbered indexes. */
static int choose_format(struct run *run, struct error *error) {
    bool hashed = run->model->hash.bits > 0;
    enum samples_format format = run->file.format;
    int result = hashed ? 0 : samples_find_format(&run->file, &format, error);
    if (result != 0) {
        return result;
    }
    if (hashed && run->file.format != SAMPLES_AUTO && run->file.format != SAMPLES_CRITEO) {
        return error_set(error, AML_EINPUT, "--format %s: expected criteo, as %s was trained on Criteo lines",
                         run->format, run->model_path);
    }
    if (!hashed && format == SAMPLES_CRITEO) {
        return error_set(error, AML_EINPUT, "%s: these are Criteo lines, but %s was not trained on such",
                         run->file.path, run->model_path);
    }
    bool numbered = numbering_is_used(&run->model->numbering) && run->file.format == SAMPLES_AUTO;
    run->file.format = hashed ? SAMPLES_CRITEO : numbered ? SAMPLES_LIBSVM : run->file.format;
    if (hashed) {
        run->file.hash = run->model->hash;
    }
    return 0;
}

/* Prints the number of samples and the quality of the predictions. Uses standard error if the lines are on standard
 * output. */
static void say_result(const struct run *run) {
    if (run->said[0] != '\0') {
        fprintf(stderr, "note: %s: %s\n", text_input_name(run->file.path), run->said);
    }
    if (run->labelled) {
        FILE *to = run->out.path == NULL && run->probabilities ? stderr : stdout;
        fprintf(to, "samples %" PRIu64 "  unknown_labels %" PRIu64, run->count, run->count - run->known);
        if (run->known > 0) {
            fprintf(to, "  accuracy %.6f  loss %.6f", (double)run->correct / (double)run->known,
                    run->loss / (double)run->known);
        }
        fputc('\n', to);
    } else if (run->out.path != NULL) {
        printf("predictions %" PRIu64 "\n", run->count);
    }
}

static int predict_file(struct run *run, struct error *error) {
    bool images = false;
    int result = choose_images(run, &images, error);
    result = result == 0 && !images ? choose_format(run, error) : result;
    result = result == 0 ? tool_output_open(&run->out, error) : result;
    if (result != 0) {
        return result;
    }
    run->file.index_base = run->model->index_base;
    run->file.numbering = &run->model->numbering;
    run->file.label_optional = true;
    run->file.features = run->model->scale.features;
    run->file.said = run->said;
    const struct columns like = {.names = run->model->names};
    run->file.like = like.names.count > 0 ? &like : NULL;
    result = images ? predict_images(run, error) : samples_read(&run->file, predict_sample, run, error);
    result = tool_output_close(&run->out, result, error);
    if (result == 0) {
        say_result(run);
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
         "the header; without one, if lines have a field more than the model has features, the first or the last by "
         "their values"},
        {"probabilities", NULL, AML_OPTION_FLAG, &run.probabilities, 0, 0,
         "write the probabilities of all classes too, and a first line with the columns' names"},
        {"out", "FILE", AML_OPTION_STRING, &run.out.path, 0, 0,
         "write lines of label (if there is one), prediction and its probability there, in the order of --data"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    snprintf(usage, sizeof usage,
             "usage: %s --predict MODEL --data FILE [--labels FILE] [--probabilities] [--out FILE]\n\n"
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
