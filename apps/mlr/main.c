/* mlr: multinomial logistic regression by minibatch gradient descent, on AgileML. The table of weights has a row for
 * each feature and one for the biases, with one float for each class. The servers add up all workers' steps. Dense
 * samples are a matrix, and a step is two matrix products with the cached rows of the replicated table. Sparse
 * samples name the rows of their features. The arithmetic is in kernel.c and dense.c, or on an accelerator
 * (device.h). Reading is in apps/samples, the model's file in model.c, `mlr --predict` in predict.c.
 *
 * Steps and nodes: a step is over --batch samples *of all nodes together*. Each process computes its part, and the
 * servers' sum of all parts is the step. So the number of nodes changes only the speed. With local steps (--strategy
 * sma), which dense samples have in long iterations, each process makes the step by its own part, and the servers take
 * the mean of many such steps. See docs/mlr.md. */
#include "agileml.h"
#include "agileml/base/hash.h"
#include "apps/app.h"
#include "apps/mlr/device.h"
#include "apps/mlr/kernel.h"
#include "apps/mlr/model.h"
#include "apps/mlr/narrow.h"
#include "apps/mlr/predict.h"
#include "apps/mlr/tuning.h"
#include "apps/nn/device.h"
#include "apps/optimizer.h"
#include "apps/samples/learner.h"
#include "apps/tool.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 0 }; /* the table */
enum {
    CLOCKS_MAX = 1 << 20,
    PART_FEATURES = 16 /* a thread's part of a dense table is a multiple of this many rows */
};

/* Dense products are faster if at least this part of the values is written in the file. */
static const double DENSE_FROM = 0.25;
/* The numerator of the rate that --rate 0 chooses for plain steps without a survey of the values (Criteo lines,
 * images decoded in each iteration). The denominator is the mean squared length of a sample, including its bias. The
 * curvature of the loss is at most half that length, and mostly far less: probabilities are near 0 or 1, and
 * features differ. */
static const double RATE_OF_LENGTH = 40;
/* With --rare 0.5 that rate is multiplied by this factor, as most steps are then longer than the rate. */
static const double RATE_OF_RARE = 0.1;
/* The numerators of the rates that --rate 0 chooses for Criteo lines with --rare. The denominator is the mean
 * squared length of a sample, including its bias. RATE_OF_LINE gives the rate for each sample of a step.
 * RATE_OF_COMMON limits the steps of common features: if all samples of a step have a feature, its weights move at
 * most by that rate. */
static const double RATE_OF_LINE = 0.048;
static const double RATE_OF_COMMON = 4;
/* The numerator of the rate that --rate 0 chooses for plain steps and momentum. The denominator is the largest
 * eigenvalue of the samples' second moments, which is twice the largest possible curvature. */
static const double RATE_OF_CURVATURE = 3;
/* The numerator for momentum when the eigenvalue is not known. */
static const double RATE_OF_MOMENTUM = 0.03;
/* The numerator of the rate that --rate 0 chooses for Adam, AdaGrad and FTRL, whose steps are about as long as the
 * rate in each weight. The denominator is the root of the mean squared length of a sample, including its bias. */
static const double RATE_OF_ADAPTIVE = 0.3;
/* The mean square of a pixel's value scaled by 1/255, when it is not known. */
static const double PIXEL_SQUARE = 0.2;
/* --batch 0: the samples divided by BATCH_PART, within limits. */
enum { BATCH_PART = 16, BATCH_MIN = 8, BATCH_MAX = 256 };
/* The default of --iterations is at least ITERATIONS_MIN, and enough for CLOCKS_MIN clocks. */
enum { ITERATIONS_MIN = 10, CLOCKS_MIN = 2000, ITERATIONS_CRITEO = 20 };
/* The default of --iterations for Criteo lines with --rare: until ENOUGH_RARE samples have been used, but at most
 * ITERATIONS_RARE iterations. With few lines there are more iterations, until SAMPLES_MIN_RARE samples have been
 * used. */
enum { SAMPLES_MIN_RARE = 10000, ITERATIONS_RARE = 4, ENOUGH_RARE = 300000 };
/* --batch 0 for these lines: the default iterations, up to ITERATIONS_RARE, have STEPS_RARE steps, if that needs no
 * steps of more than BATCH_MAX_RARE samples. */
enum { STEPS_RARE = 64, BATCH_MAX_RARE = 8192 };
/* The number of first Criteo lines that are drawn, and the result with which their sink then ends the reading. */
enum { DRAWN_CRITEO = 4000, DRAWN_ALL = 1 };
/* --lambda -1 when no sample could be drawn to choose lambda. */
static const double LAMBDA_DEFAULT = 1e-4;
/* The default of --rare for hashed samples, most of whose features are rare. */
static const double RARE_OF_CRITEO = 0.5;
/* The default of --decay with plain steps. */
static const double DECAY_OF_SGD = 0.98;

/* A thread's sums, in a cache line of their own. */
struct thread_loss {
    _Alignas(64) struct nn_loss loss;
};

/* The step in progress. */
struct minibatch {
    size_t room; /* samples */
    float *logits;
    uint32_t *labels;
    struct mlr_sparse *sparse;
    struct mlr_dense dense;
    size_t count;
    uint64_t values;            /* the values that are multiplied in a pass over the samples */
    struct mlr_weights weights; /* to be changed: the weights, or with --optimizer the sums of gradients */
    struct mlr_weights seen;    /* the weights from which errors are computed; in slices a copy from before the step */
    float *before;              /* rows of that copy; NULL: not needed yet */
    unsigned char *touched;
    struct mlr_step step;
};

struct mlr_threads {
    unsigned count;
    struct thread_loss *losses; /* [count] */
    float *scratch;             /* narrow: [count][scratch_of] */
    size_t scratch_of;
};

/* The values of --layout. */
enum layout { LAYOUT_AUTO, LAYOUT_DENSE, LAYOUT_SPARSE };

/* The values of options with a choice, as given on the command line. */
struct mlr_names {
    const char *layout, *optimizer;
};

/* Settings that `configure` chooses when options leave them open. */
struct mlr_chosen {
    int64_t batch;
    double lambda;
    struct tuning tuning; /* for samples with a survey of their values */
    bool tuned;
    bool constant; /* no model is better than the classes' shares, so no steps are taken */
    float *biases; /* [classes] start values; NULL: zeros */
};

struct mlr {
    struct samples_input input; /* first */
    const char *model_out;
    struct mlr_names names;
    int64_t batch;
    double rate, decay, lag, lambda, momentum, rare;
    struct optimizer optimizer; /* `name` and l1 are options; `configure` sets the rest */
    /* Set by mlr_configure. */
    struct mlr_chosen chosen;
    enum layout layout;
    struct mlr_kernel kernel;
    bool narrow; /* dense with few classes: narrow_kernel computes the steps */
    struct mlr_narrow narrow_kernel;
    bool with_device; /* dense, on an accelerator */
    /* Set by mlr_begin for the node's current samples. */
    double first_rate;      /* --rate, or the rate that --rate 0 chooses */
    double common_rate;     /* sparse: the largest first rate of a feature that all samples have; 0: no limit */
    struct mlr_pace *paces; /* sparse: [slots], see struct mlr_step */
    /* Made by the first mlr_begin, and then kept. */
    float *velocity;           /* with --momentum */
    struct mlr_device *device; /* NULL: the threads take the steps */
    struct mlr_threads threads;
    struct minibatch minibatch;
};

/* ---- Options ---- */

/* Returns the optimizer's name. `auto` means Adam, unless samples are hashed or other options require plain steps. */
static const char *optimizer_name(const struct mlr *mlr, bool hashed) {
    bool plain = hashed || mlr->lag > 0 || mlr->rare > 0 || mlr->input.device.choice == NN_DEVICE_CUDA;
    return strcmp(mlr->names.optimizer, "auto") != 0 ? mlr->names.optimizer
           : mlr->momentum > 0                       ? (plain ? "sgd" : "momentum")
           : plain                                   ? "sgd"
                                                     : "adam";
}

static int take_choices(struct mlr *mlr, struct error *error) {
    static const char *const layouts[] = {"auto", "dense", "sparse", NULL};
    int layout = app_choice("layout", mlr->names.layout, layouts, error);
    if (layout < 0) {
        return layout;
    }
    mlr->layout = (enum layout)layout;
    mlr->optimizer.name = optimizer_name(mlr, mlr->input.file.format == SAMPLES_CRITEO);
    mlr->optimizer.momentum = mlr->momentum;
    return optimizer_choose(&mlr->optimizer, error);
}

/* Whether the optimizer takes the steps, by the gradients that the processes add up: in the servers, or with local
 * steps in each process. */
static bool server_steps(const struct mlr *mlr) {
    return mlr->optimizer.kind != OPTIMIZER_SGD;
}

/* Whether processes add L2 to the gradients that they send, as a server takes steps of a sparse row only in some
 * clocks. FTRL has L2 in its formula. */
static bool sends_l2(const struct mlr *mlr) {
    return server_steps(mlr) && !mlr->input.dense && mlr->optimizer.kind != OPTIMIZER_FTRL;
}

static int check_options(aml_worker *worker, struct mlr *mlr) {
    struct error error = {0};
    int result = samples_input_choices(worker, &mlr->input);
    result = result == 0 ? app_result(worker, take_choices(mlr, &error), &error) : result;
    if (result == 0 && server_steps(mlr) && (mlr->lag > 0 || mlr->rare > 0)) {
        return aml_error(worker, AML_EINPUT, "--%s: expected --optimizer sgd, got %s", mlr->lag > 0 ? "lag" : "rare",
                         mlr->optimizer.name);
    }
    return result != 0 ? result : samples_input_check(worker, &mlr->input, mlr->model_out);
}

/* Sets mlr->input.dense. */
static int choose_layout(aml_worker *worker, struct mlr *mlr) {
    const struct samples_survey *survey = &mlr->input.survey;
    double filled = (double)survey->values / ((double)survey->samples * survey->features);
    bool fits = survey->features <= SAMPLES_DENSE_MAX;
    mlr->input.dense = mlr->layout == LAYOUT_AUTO ? fits && filled >= DENSE_FROM : mlr->layout == LAYOUT_DENSE;
    if (mlr->input.dense && !fits) {
        return aml_error(worker, AML_EINPUT, "--layout dense: expected at most %d features, %s has %u",
                         SAMPLES_DENSE_MAX, mlr->input.file.path, survey->features);
    }
    if (mlr->rare < 0) {
        bool criteo = !mlr->input.dense && survey->format == SAMPLES_CRITEO;
        mlr->rare = criteo && !server_steps(mlr) ? RARE_OF_CRITEO : 0;
    }
    if (mlr->input.dense && mlr->rare > 0) {
        return aml_error(worker, AML_EINPUT, "--rare: expected sparse samples, these are dense (see --layout)");
    }
    if (!mlr->input.dense && mlr->momentum > 0 && !server_steps(mlr)) {
        return aml_error(worker, AML_EINPUT,
                         "--momentum: expected dense samples, these are sparse (see --layout and --optimizer)");
    }
    return 0;
}

/* Sets mlr->with_device. With few classes `auto` chooses the CPU: a device would spend most of the time on copying
 * the weights, at the beginning and end of each clock. */
static int choose_device(aml_worker *worker, struct mlr *mlr) {
    bool asked = mlr->input.device.choice == NN_DEVICE_CUDA;
    if (asked && !mlr->input.dense) {
        return aml_error(worker, AML_EINPUT, "--device cuda: expected dense samples, these are sparse (see --layout)");
    }
    bool transforms = mlr->input.shift > 0 || samples_input_has_images(&mlr->input);
    if (asked && transforms) {
        return aml_error(worker, AML_EINPUT, "--device cuda: expected %s, as the device keeps the samples",
                         mlr->input.shift > 0 ? "no --shift" : "no images that are decoded in each iteration");
    }
    if (asked && server_steps(mlr)) {
        return aml_error(worker, AML_EINPUT, "--device cuda: expected --optimizer sgd, got %s", mlr->optimizer.name);
    }
    mlr->with_device = asked || (mlr->input.device.choice == NN_DEVICE_AUTO && mlr->input.dense && !mlr->narrow &&
                                 !transforms && !server_steps(mlr));
    return mlr->with_device ? nn_device_find(worker, mlr->input.device.choice, &mlr->with_device) : 0;
}

/* ---- Choices by the data ---- */

/* The sink of draw_criteo: ends the reading when there are enough samples. */
static int take_criteo(void *context, const struct sample *sample, struct error *error) {
    struct statistics *statistics = context;
    struct sample named = *sample;
    named.place = hash_pair(aml_mix(0, 0), sample->place); /* as in the job, for the first file's first lines */
    int result = statistics_take(statistics, &named, error);
    return result != 0 ? result : statistics->samples == DRAWN_CRITEO ? DRAWN_ALL : 0;
}

/* Makes statistics of the first Criteo lines, which have no survey. */
static int draw_criteo(aml_worker *worker, struct mlr *mlr) {
    struct samples_input *input = &mlr->input;
    struct error error = {0};
    statistics_close(&input->statistics);
    input->statistics =
        (struct statistics){.seed = input->seed, .test_fraction = input->test_fraction, .drawn_alone = true};
    int result = samples_read(&input->file, take_criteo, &input->statistics, &error);
    if (result != 0 && result != DRAWN_ALL) {
        return app_result(worker, result, &error);
    }
    statistics_end(&input->statistics, NULL, 0, input->survey.features, &input->survey.labels);
    return 0;
}

/* Sets the biases at the start, by the classes' shares of the training samples. */
static int choose_biases(aml_worker *worker, struct mlr *mlr) {
    const struct statistics *statistics = &mlr->input.statistics;
    uint32_t classes = mlr->input.survey.labels.count;
    if (strcmp(mlr->names.optimizer, "ftrl") == 0) {
        return 0; /* FTRL's first step discards any start value but 0 */
    }
    mlr->chosen.biases = calloc(classes, sizeof *mlr->chosen.biases);
    if (mlr->chosen.biases == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for the shares of %u classes", classes);
    }
    for (uint32_t k = 0; k < classes; k++) {
        mlr->chosen.biases[k] =
            (float)statistics_log_share((double)statistics->label_counts[k], (double)statistics->samples, classes);
    }
    return 0;
}

/* Whether the samples are Criteo lines with plain steps that are longer for rare features. Call it after
 * choose_layout. */
static bool rare_steps(const struct mlr *mlr) {
    return mlr->input.survey.format == SAMPLES_CRITEO && mlr->rare > 0;
}

/* Returns the rate for rare_steps, for each sample of a step, multiplied by the mean squared length of a sample. */
static double rate_of_line(const struct mlr *mlr) {
    return RATE_OF_LINE * pow(RATE_OF_RARE, 2 * mlr->rare - 1);
}

/* Returns the factor from the best C for the drawn samples to that for all samples; 1 unless samples are hashed
 * without rare_steps. Most slots are rare: with more samples their weights are better known, so the best C grows
 * (docs/mlr.md). */
static double larger_c(const struct mlr *mlr) {
    bool grows = mlr->input.survey.format == SAMPLES_CRITEO && !rare_steps(mlr);
    return grows ? sqrt(fmax(samples_input_training(&mlr->input) / (double)mlr->input.statistics.drawn_count, 1)) : 1;
}

/* Notes what cross-validation has chosen. */
static void note_validation(aml_worker *worker, const struct mlr *mlr) {
    const struct tuning *tuning = &mlr->chosen.tuning;
    const struct validated *validation = &tuning->validation;
    size_t drawn = mlr->input.statistics.drawn_count;
    if (mlr->chosen.constant) {
        aml_note(
            worker,
            "the features say nothing about the classes: cross-validation on %zu samples has a loss of %.4g at "
            "best, the classes' shares alone have %.4g. So the model is the shares (--lambda X trains all the same)",
            drawn, validation->loss, validation->constant);
        return;
    }
    aml_note(worker,
             "by cross-validation on %zu samples: --scale %s --lambda %.3g (C = %g), loss %.4g; the classes' shares "
             "alone have %.4g",
             drawn, scale_kinds[tuning->scale.kind], mlr->chosen.lambda, validation->c * larger_c(mlr),
             validation->loss, validation->constant);
}

static void make_tuning(struct mlr *mlr) {
    const struct samples_input *input = &mlr->input;
    struct tuning *tuning = &mlr->chosen.tuning;
    bool choose_c = mlr->lambda < 0;
    if (rare_steps(mlr)) {
        /* Each class has weights, so a step changes the difference of the logits twice. */
        const struct validate_pace pace = {.rate = 2 * rate_of_line(mlr), .rare = mlr->rare};
        tuning_make_by_steps(tuning, &input->statistics, &input->scale, &pace, choose_c);
    } else {
        tuning_make(tuning, &input->statistics, &input->scale, input->dense, input->survey.labels.count, choose_c);
    }
}

/* Sets the scale of samples and the regularization of weights, by the survey's statistics. */
static int tune(aml_worker *worker, struct mlr *mlr) {
    struct samples_input *input = &mlr->input;
    struct mlr_chosen *chosen = &mlr->chosen;
    make_tuning(mlr);
    chosen->tuned = true;
    samples_input_standardize(worker, input, &chosen->tuning.scale);
    if (chosen->tuning.validated) {
        const struct validated *validation = &chosen->tuning.validation;
        chosen->constant = !(validation->loss < validation->constant);
        chosen->lambda = validate_lambda(validation->c * larger_c(mlr), samples_input_training(&mlr->input),
                                         input->survey.labels.count);
        note_validation(worker, mlr);
    }
    statistics_drop_samples(&input->statistics);
    return choose_biases(worker, mlr);
}

/* Returns the mean squared length of a sample, including the bias, as far as it is known before samples are read. */
static double expected_length(const struct mlr *mlr) {
    const struct samples_survey *survey = &mlr->input.survey;
    if (mlr->chosen.tuned) {
        return 1 + mlr->chosen.tuning.length;
    }
    double values = (double)survey->values / (double)survey->samples;
    return 1 + (mlr->input.scale.kind == SCALE_BYTE ? values * PIXEL_SQUARE : values);
}

/* Returns the rate of the servers' optimizer. */
static double optimizer_rate(const struct mlr *mlr) {
    double curvature = mlr->chosen.tuned ? mlr->chosen.tuning.curvature : 0;
    if (mlr->rate > 0) {
        return mlr->rate;
    }
    if (mlr->optimizer.kind == OPTIMIZER_MOMENTUM && curvature > 0) {
        return RATE_OF_CURVATURE / curvature * (1 - optimizer_momentum(&mlr->optimizer));
    }
    return mlr->optimizer.kind == OPTIMIZER_MOMENTUM ? RATE_OF_MOMENTUM : RATE_OF_ADAPTIVE / sqrt(expected_length(mlr));
}

/* Sets the optimizer's parameters. Sparse steps add L2 to the gradient themselves (kernel.h). */
static void set_optimizer(struct mlr *mlr) {
    struct optimizer *optimizer = &mlr->optimizer;
    optimizer->rate = optimizer_rate(mlr);
    optimizer->samples = (double)mlr->chosen.batch;
    optimizer->l2 = mlr->input.dense || optimizer->kind == OPTIMIZER_FTRL ? mlr->chosen.lambda : 0;
    optimizer->bare = mlr->input.survey.features;
}

/* Returns the default of --iterations for rare_steps. */
static double rare_iterations(const struct mlr *mlr) {
    double samples = samples_input_training(&mlr->input);
    return fmax(ceil(SAMPLES_MIN_RARE / samples), fmin(ceil(ENOUGH_RARE / samples), ITERATIONS_RARE));
}

/* Chooses what the options leave open. Call it after the survey and choose_layout. */
static int choose_steps(aml_worker *worker, struct mlr *mlr) {
    struct mlr_chosen *chosen = &mlr->chosen;
    const struct samples_survey *survey = &mlr->input.survey;
    double samples = samples_input_training(&mlr->input);
    chosen->lambda = mlr->lambda >= 0 ? mlr->lambda : LAMBDA_DEFAULT;
    double batch = samples / BATCH_PART;
    double most = BATCH_MAX;
    if (rare_steps(mlr)) {
        batch = samples * fmin(rare_iterations(mlr), ITERATIONS_RARE) / STEPS_RARE;
        most = BATCH_MAX_RARE;
    }
    chosen->batch = mlr->batch > 0 ? mlr->batch : (int64_t)fmin(fmax(floor(batch), BATCH_MIN), most);
    int result = survey->format == SAMPLES_CRITEO && mlr->input.with_statistics ? draw_criteo(worker, mlr) : 0;
    result = result == 0 && mlr->input.statistics.samples > 0 ? tune(worker, mlr) : result;
    set_optimizer(mlr);
    return result;
}

/* Returns the default of --iterations. */
static int64_t default_iterations(const struct mlr *mlr, int64_t clocks) {
    if (mlr->chosen.constant) {
        return 1;
    }
    if (rare_steps(mlr)) {
        return (int64_t)rare_iterations(mlr);
    }
    int64_t iterations = (CLOCKS_MIN + clocks - 1) / clocks;
    iterations = iterations > ITERATIONS_MIN ? iterations : ITERATIONS_MIN;
    return mlr->input.survey.format == SAMPLES_CRITEO ? ITERATIONS_CRITEO : iterations;
}

/* Sets the job's clocks and iterations, and how the rate falls over them. */
static void choose_clocks(aml_worker *worker, struct mlr *mlr, struct aml_app *app) {
    double steps = fmax(round(samples_input_training(&mlr->input) / (double)mlr->chosen.batch), 1);
    /* One step per clock, so that without local steps the number of nodes changes only the speed. */
    int64_t clocks = (int64_t)fmin(steps, CLOCKS_MAX);
    int64_t given = aml_iterations(worker);
    clocks = app->clocks_per_iteration > 0 ? app->clocks_per_iteration : clocks;
    app->clocks_per_iteration = clocks;
    int64_t iterations = default_iterations(mlr, clocks);
    app->iterations = iterations;
    mlr->optimizer.fall = (struct optimizer_fall){.decay = mlr->decay,
                                                  .iteration = (uint64_t)clocks,
                                                  .clocks = (uint64_t)(clocks * (given > 0 ? given : iterations)),
                                                  .open = given == 0};
}

/* Sets the start value of a row of weights (aml_table.start). */
static void weights_start(void *context, uint64_t key, void *row) {
    const struct mlr *mlr = context;
    if (key == mlr->input.survey.features && mlr->chosen.biases != NULL) {
        memcpy(row, mlr->chosen.biases, mlr->input.survey.labels.count * sizeof *mlr->chosen.biases);
    }
}

static int survey_data(aml_worker *worker, struct mlr *mlr) {
    struct error error = {0};
    mlr->input.with_statistics = !aml_only_checks(worker);
    mlr->input.numbered = true;
    int result = samples_input_survey(worker, &mlr->input);
    if (result != 0) {
        return result;
    }
    samples_input_mark(worker, &mlr->input);
    mlr->optimizer.name = optimizer_name(mlr, mlr->input.survey.format == SAMPLES_CRITEO);
    result = app_result(worker, optimizer_choose(&mlr->optimizer, &error), &error);
    result = result == 0 ? choose_layout(worker, mlr) : result;
    return result != 0 ? result : choose_steps(worker, mlr);
}

static int mlr_configure(aml_worker *worker, struct aml_app *app) {
    static const char *const steering[] = {"rate", "decay", "lag", NULL};
    static const char *const steering_of_ftrl[] = {"decay", "lag", NULL}; /* FTRL's z depends on all earlier rates */
    struct mlr *mlr = app->context;
    int result = check_options(worker, mlr);
    result = result == 0 ? survey_data(worker, mlr) : result;
    if (result != 0) {
        return result;
    }
    app->tables[WEIGHTS].rows = (uint64_t)mlr->input.survey.features + 1;
    app->tables[WEIGHTS].width = mlr->input.survey.labels.count;
    app->tables[WEIGHTS].whole = mlr->input.dense;
    app->item_varied = !mlr->input.dense;
    app->slices = mlr->input.dense;
    app->item_bytes = mlr->input.dense ? ((size_t)mlr->input.survey.features + 1) * sizeof(float) : 0;
    choose_clocks(worker, mlr, app);
    mlr->kernel = mlr_kernel_choose();
    optimizer_declare(&mlr->optimizer, &app->tables[WEIGHTS]);
    app->strategies = mlr->input.dense == server_steps(mlr);
    app->steering = mlr->optimizer.kind == OPTIMIZER_FTRL ? steering_of_ftrl : steering;
    mlr->narrow = mlr->input.dense && (mlr->momentum == 0 || server_steps(mlr)) &&
                  mlr_narrow_choose(mlr->input.survey.features, mlr->input.survey.labels.count, &mlr->narrow_kernel);
    nn_blas_begin();
    const enum optimizer_kind kind = mlr->optimizer.kind;
    result = samples_input_declare_transforms(worker, &mlr->input, app);
    /* AdaGrad and FTRL add up the squares of all gradients. These are larger when a step has fewer samples, so local
     * steps would become too short. */
    learner_choose_strategy(worker, app, kind == OPTIMIZER_ADAM || kind == OPTIMIZER_MOMENTUM || rare_steps(mlr));
    return result != 0 ? result : choose_device(worker, mlr);
}

/* ---- Training ---- */

static void mlr_forget_items(struct mlr *mlr) {
    struct minibatch *batch = &mlr->minibatch;
    free(mlr->paces);
    free(mlr->threads.losses);
    free(mlr->threads.scratch);
    free(batch->logits);
    free(batch->labels);
    free(batch->sparse);
    free(batch->before);
    mlr->paces = NULL;
    mlr->threads.losses = NULL;
    mlr->threads.scratch = NULL;
    *batch = (struct minibatch){0};
}

/* Estimates how many samples of all nodes have a feature from how many of this node's have it. Samples are spread at
 * random. But a rare feature is seen here because this node has one of its few samples, so the other nodes have
 * fewer of them. The Good-Turing estimate (Good, The population frequencies of species, 1953) needs only the number
 * of features with each count. `share` is this node's share of the samples; with 1 the counts are those of all
 * nodes. */
enum { ESTIMATED = 6, FEATURES_ENOUGH = 50 };
struct estimate {
    double share;
    double of[ESTIMATED + 1]; /* by the count on this node */
};

static struct estimate make_estimate(const struct mlr_pace *counts, uint32_t slots, double share) {
    struct estimate estimate = {.share = share};
    double features[ESTIMATED + 2] = {0};
    for (uint32_t slot = 0; slot < slots; slot++) {
        if (counts[slot].rate <= ESTIMATED + 1) {
            features[(size_t)counts[slot].rate]++;
        }
    }
    for (unsigned count = 1; count <= ESTIMATED; count++) {
        bool enough = features[count] >= FEATURES_ENOUGH;
        double again = enough ? (count + 1) * features[count + 1] / features[count] : count;
        estimate.of[count] = fmax(count + again * (1 - share) / share, estimate.of[count - 1]);
    }
    return estimate;
}

static double estimated(const struct estimate *estimate, float count) {
    return count <= ESTIMATED ? estimate->of[(size_t)count]
                              : estimate->of[ESTIMATED] + ((double)count - ESTIMATED) / estimate->share;
}

/* Sets the pace of a feature that an estimated part `part` of all nodes' samples have. L2 takes more from the
 * weights of a rare feature, as a sparse step changes only its samples' features. So the expected decay of each
 * weight is that of a dense step. */
static void set_pace(const struct mlr *mlr, struct mlr_pace *pace, double part) {
    if (mlr->rare == 0) {
        *pace = (struct mlr_pace){.rate = 1, .decay = (float)(1 / part)};
        return;
    }
    pace->rate = (float)pow(part, -mlr->rare);
    if (mlr->common_rate > 0) {
        pace->rate = (float)fmin((double)pace->rate, mlr->common_rate / (mlr->first_rate * part));
    }
    pace->decay = pace->rate / (float)part;
}

/* Sets the pace of the biases. They are like features that all samples have, but without L2. */
static void set_bias_pace(const struct mlr *mlr, struct mlr_pace *pace) {
    bool limited = mlr->common_rate > 0 && mlr->common_rate < mlr->first_rate;
    *pace = (struct mlr_pace){.rate = limited ? (float)(mlr->common_rate / mlr->first_rate) : 1};
}

static int make_paces(aml_worker *worker, struct mlr *mlr) {
    size_t count;
    const struct aml_item *item = aml_items(worker, &count);
    uint32_t slots = aml_table_rows(worker, WEIGHTS).count;
    mlr->paces = calloc((size_t)slots + 1, sizeof *mlr->paces);
    if (mlr->paces == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for the counts of %u features", slots);
    }
    uint32_t bias = slots; /* without samples there is no bias row */
    for (size_t i = 0; i < count; i++) {
        const uint32_t *features = aml_item_slots(item);
        for (uint32_t f = 0; f + 1 < item->row_count; f++) {
            mlr->paces[features[f]].rate++; /* first used as a count */
        }
        bias = features[item->row_count - 1]; /* the same in all items */
        item = i + 1 < count ? aml_item_next(item) : item;
    }
    double total = (double)aml_total_items(worker);
    struct estimate estimate = make_estimate(mlr->paces, slots, (double)count / total);
    for (uint32_t slot = 0; slot < slots; slot++) {
        float here = mlr->paces[slot].rate;
        if (here > 0) {
            set_pace(mlr, &mlr->paces[slot], estimated(&estimate, here) / total);
        }
    }
    set_bias_pace(mlr, &mlr->paces[bias]);
    return 0;
}

static struct mlr_weights whole_weights(const struct mlr *mlr, struct aml_rows rows) {
    return (struct mlr_weights){.rows = (float *)(void *)rows.base,
                                .stride = rows.stride / sizeof(float),
                                .bias = mlr->input.survey.features, /* of the replicated table */
                                .classes = mlr->input.survey.labels.count};
}

static int begin_device(aml_worker *worker, struct mlr *mlr) {
    struct error error = {0};
    size_t count;
    const float *items = aml_items(worker, &count);
    if (mlr->device == NULL) {
        struct mlr_weights weights = whole_weights(mlr, aml_table_rows(worker, WEIGHTS));
        int result = mlr_cuda.open(&mlr->device, &weights, mlr->momentum > 0, &error);
        if (result != 0) {
            mlr->with_device = false;
            return mlr->input.device.choice == NN_DEVICE_AUTO ? 0 : nn_device_result(worker, result, &error);
        }
    }
    return nn_device_result(worker, mlr_cuda.items(mlr->device, items, count, &error), &error);
}

static double mean_length(const aml_worker *worker) {
    return 1 + aml_total(worker, SAMPLES_TOTAL_SQUARES) / (double)aml_total_items(worker);
}

/* Returns the number of samples in a step over all nodes, about --batch, and sets *steps to the steps in a clock. A
 * server takes one step a clock. */
static double step_samples(aml_worker *worker, const struct mlr *mlr, size_t *steps) {
    double clock_samples = (double)aml_total_items(worker) / aml_clocks_per_iteration(worker);
    *steps = server_steps(mlr) ? 1 : (size_t)fmax(round(clock_samples / (double)mlr->chosen.batch), 1);
    return clock_samples / (double)*steps;
}

/* Returns the rate that --rate 0 chooses for plain steps. */
static double plain_rate(aml_worker *worker, const struct mlr *mlr) {
    double length = mean_length(worker);
    double rate = RATE_OF_LENGTH / length;
    size_t steps;
    if (rare_steps(mlr)) {
        return rate_of_line(mlr) * step_samples(worker, mlr, &steps) / length;
    }
    if (mlr->chosen.tuned && mlr->chosen.tuning.curvature > 0 && mlr->rare == 0) {
        rate = RATE_OF_CURVATURE / mlr->chosen.tuning.curvature;
    }
    return rate * (1 - mlr->momentum) * pow(RATE_OF_RARE, 2 * mlr->rare);
}

static int mlr_begin(aml_worker *worker, void *context) {
    struct mlr *mlr = context;
    struct aml_rows rows = aml_table_rows(worker, WEIGHTS);
    mlr_forget_items(mlr);
    int result = mlr->with_device ? begin_device(worker, mlr) : 0;
    if (result != 0) {
        return result;
    }
    mlr->threads.count = aml_threads(worker);
    mlr->threads.losses = aligned_alloc(64, mlr->threads.count * sizeof *mlr->threads.losses);
    mlr->threads.scratch_of =
        (mlr_narrow_scratch(mlr->input.survey.features, mlr->input.survey.labels.count) + 15) / 16 * 16;
    mlr->threads.scratch =
        mlr->narrow ? aligned_alloc(64, mlr->threads.count * mlr->threads.scratch_of * sizeof(float)) : NULL;
    if (mlr->threads.losses == NULL || (mlr->narrow && mlr->threads.scratch == NULL)) {
        return aml_error(worker, AML_ENOMEM, "no memory for %u threads", mlr->threads.count);
    }
    if (mlr->momentum > 0 && !server_steps(mlr) && mlr->device == NULL && mlr->velocity == NULL) {
        mlr->velocity = calloc(rows.count, rows.stride);
        if (mlr->velocity == NULL) {
            return aml_error(worker, AML_ENOMEM, "no memory for the momentum of %u features", rows.count);
        }
    }
    mlr->first_rate = mlr->rate > 0 ? mlr->rate : plain_rate(worker, mlr);
    mlr->common_rate = mlr->rate == 0 && rare_steps(mlr) ? RATE_OF_COMMON / mean_length(worker) : 0;
    return mlr->input.dense ? 0 : make_paces(worker, mlr);
}

/* Makes room for minibatches of `count` samples. */
static int batch_room(aml_worker *worker, struct mlr *mlr, size_t count) {
    struct minibatch *batch = &mlr->minibatch;
    if (count <= batch->room) {
        return 0;
    }
    free(batch->logits);
    free(batch->labels);
    free(batch->sparse);
    batch->logits = aligned_alloc(64, (count * mlr->input.survey.labels.count * sizeof(float) + 63) / 64 * 64);
    batch->labels = malloc(count * sizeof *batch->labels);
    batch->sparse = malloc(count * sizeof *batch->sparse);
    batch->room = count;
    if (batch->logits == NULL || batch->labels == NULL || batch->sparse == NULL) {
        batch->room = 0;
        return aml_error(worker, AML_ENOMEM, "no memory for the logits of %zu samples: use a smaller --batch", count);
    }
    return 0;
}

/* Takes the next `count` samples at `items` and returns the place after them. With `last` no samples follow, and the
 * returned place is not valid. */
static const void *batch_take(struct mlr *mlr, const void *items, size_t count, bool last) {
    struct minibatch *batch = &mlr->minibatch;
    batch->count = count;
    batch->values = 0;
    if (mlr->input.dense) {
        uint32_t features = mlr->input.survey.features;
        const float *samples = items;
        size_t stride = (size_t)features + 1;
        batch->dense = (struct mlr_dense){.samples = samples, .stride = stride, .count = count, .features = features};
        batch->values = count * (uint64_t)features;
        for (size_t s = 0; s < count; s++) {
            memcpy(&batch->labels[s], samples + s * stride + features, sizeof batch->labels[s]);
        }
        return samples + count * stride;
    }
    const struct aml_item *item = items;
    for (size_t s = 0; s < count; s++) {
        const float *bytes = aml_item_bytes(item);
        memcpy(&batch->labels[s], bytes, sizeof batch->labels[s]);
        batch->sparse[s] =
            (struct mlr_sparse){.features = aml_item_slots(item),
                                .values = item->size > sizeof(uint32_t) ? bytes + 1 : NULL, /* NULL: all are 1 */
                                .count = item->row_count - 1};
        batch->seen.bias = batch->weights.bias = aml_item_slots(item)[item->row_count - 1]; /* the same in all items */
        batch->values += item->row_count;
        item = last && s + 1 == count ? item : aml_item_next(item);
    }
    return item;
}

static void set_weights(aml_worker *worker, struct mlr *mlr) {
    struct minibatch *batch = &mlr->minibatch;
    struct aml_rows rows = aml_table_rows(worker, WEIGHTS);
    batch->weights = whole_weights(mlr, rows);
    batch->touched = rows.touched;
    batch->seen = batch->weights;
    if (server_steps(mlr)) {
        batch->weights.rows = (float *)(void *)rows.sums;
    }
    memset(mlr->threads.losses, 0, mlr->threads.count * sizeof *mlr->threads.losses);
}

/* Computes errors from weights for a thread's part of the samples. */
static void part_forward(void *context, unsigned thread, unsigned threads) {
    struct mlr *mlr = context;
    struct minibatch *batch = &mlr->minibatch;
    size_t first = batch->count * thread / threads;
    size_t end = batch->count * (thread + 1) / threads;
    float *logits = batch->logits + first * batch->weights.classes;
    if (mlr->narrow) {
        mlr->narrow_kernel.logits(&batch->seen, &batch->dense, first, end,
                                  mlr->threads.scratch + thread * mlr->threads.scratch_of, batch->logits);
    } else if (mlr->input.dense) {
        mlr_dense_logits(&batch->seen, &batch->dense, first, end, batch->logits);
    } else {
        mlr->kernel.sparse_logits(&batch->seen, batch->sparse + first, end - first, logits);
    }
    mlr->kernel.softmax(logits, batch->labels + first, end - first, batch->weights.classes,
                        &mlr->threads.losses[thread].loss);
}

/* Computes new weights from errors for a thread's part of the features. */
static void part_backward(void *context, unsigned thread, unsigned threads) {
    struct mlr *mlr = context;
    struct minibatch *batch = &mlr->minibatch;
    if (!mlr->input.dense) {
        mlr->kernel.sparse_update(&batch->weights, batch->sparse, batch->logits, batch->count, &batch->step, thread,
                                  threads, batch->touched);
        if (batch->step.l2 > 0) {
            mlr_sparse_l2(&batch->seen, &batch->weights, batch->sparse, batch->count, &batch->step, thread, threads);
        }
        return;
    }
    uint64_t parts = (batch->dense.features + PART_FEATURES - 1) / PART_FEATURES;
    uint64_t first = parts * thread / threads * PART_FEATURES;
    uint64_t end = parts * (thread + 1) / threads * PART_FEATURES;
    end = end < batch->dense.features ? end : batch->dense.features;
    (mlr->narrow ? mlr->narrow_kernel.update : mlr_dense_update)(&batch->weights, &batch->dense, batch->logits,
                                                                 &batch->step, (uint32_t)first, (uint32_t)end);
    if (thread + 1 == threads) {
        mlr_bias_update(&batch->weights, batch->logits, batch->count, &batch->step);
    }
}

static struct nn_loss sum_losses(const struct mlr *mlr) {
    struct nn_loss sum = {0};
    for (unsigned t = 0; t < mlr->threads.count; t++) {
        sum.loss += mlr->threads.losses[t].loss.loss;
        sum.correct += mlr->threads.losses[t].loss.correct;
    }
    return sum;
}

static int mlr_begin_steps(aml_worker *worker, void *context, size_t count, bool learn) {
    struct mlr *mlr = context;
    struct error error = {0};
    int result = learn ? 0 : batch_room(worker, mlr, count);
    set_weights(worker, mlr);
    if (result == 0 && mlr->device != NULL) {
        result = mlr_cuda.begin(mlr->device, &mlr->minibatch.weights, &error);
        return nn_device_result(worker, result, &error);
    }
    return result;
}

static int mlr_end_steps(aml_worker *worker, void *context, bool learn, struct nn_loss *loss) {
    struct mlr *mlr = context;
    struct error error = {0};
    if (mlr->device == NULL) {
        *loss = sum_losses(mlr);
        return 0;
    }
    const struct mlr_weights *weights = learn ? &mlr->minibatch.weights : NULL;
    return nn_device_result(worker, mlr_cuda.end(mlr->device, weights, loss, &error), &error);
}

/* Adds the minibatch's losses and, with `learn`, takes its step. */
static int take_step(aml_worker *worker, struct mlr *mlr, bool learn) {
    struct minibatch *batch = &mlr->minibatch;
    struct error error = {0};
    if (mlr->device != NULL) {
        int result = mlr_cuda.step(mlr->device, &batch->dense, learn ? &batch->step : NULL, &error);
        return nn_device_result(worker, result, &error);
    }
    aml_parallel(worker, part_forward, mlr);
    if (learn) {
        aml_parallel(worker, part_backward, mlr);
    }
    return 0;
}

/* Saves the weights before a step whose slices change them one by one. A device saves them itself. */
static int keep_weights(aml_worker *worker, struct mlr *mlr) {
    struct minibatch *batch = &mlr->minibatch;
    size_t bytes = ((size_t)mlr->input.survey.features + 1) * batch->weights.stride * sizeof(float);
    if (mlr->device != NULL || server_steps(mlr)) {
        return 0;
    }
    batch->before = batch->before != NULL ? batch->before : aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (batch->before == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for a copy of the weights: use no --slice");
    }
    memcpy(batch->before, batch->weights.rows, bytes);
    batch->seen = batch->weights;
    batch->seen.rows = batch->before;
    return 0;
}

/* Takes a step with the next `count` samples at *items, in slices, with the parameters batch->step. All errors are
 * computed from the weights before the step. Adds to *values the values multiplied in a pass over the samples. */
static int take_slices(aml_worker *worker, struct mlr *mlr, const void **items, size_t count, bool last,
                       uint64_t *values) {
    struct minibatch *batch = &mlr->minibatch;
    size_t next = aml_slice(worker, count, 0);
    batch->step.sliced = next < count;
    int result = next < count ? keep_weights(worker, mlr) : 0;
    for (size_t done = 0; result == 0 && done < count; done += next) {
        next = aml_slice(worker, count, done);
        result = batch_room(worker, mlr, next);
        if (result == 0) {
            *items = batch_take(mlr, *items, next, last && done + next == count);
            result = take_step(worker, mlr, !mlr->chosen.constant);
            *values += batch->values;
            batch->step.slice++;
            batch->step.decay = 0; /* decay only once a step */
        }
    }
    if (!server_steps(mlr)) {
        batch->seen = batch->weights;
    }
    return result;
}

/* Returns a step's rate, when the part `done` of the clock is complete. */
static double rate_of(const aml_worker *worker, const struct mlr *mlr, double done) {
    if (server_steps(mlr)) {
        return -1; /* with an optimizer the sum is the gradient itself */
    }
    double decay = mlr->decay > 0 ? mlr->decay : DECAY_OF_SGD;
    double fallen = rare_steps(mlr) && mlr->decay == 0
                        ? optimizer_fallen(&mlr->optimizer.fall, (double)aml_clock(worker) - 1 + done)
                        : pow(decay, (double)aml_iteration(worker) - 1);
    return mlr->first_rate * fallen / (1 + mlr->lag * aml_lag(worker));
}

static int mlr_train(aml_worker *worker, void *context, const void *items, size_t count, double *operations) {
    struct mlr *mlr = context;
    struct minibatch *batch = &mlr->minibatch;
    size_t steps;
    uint64_t values = 0;
    int result = 0;
    double samples = step_samples(worker, mlr, &steps);
    /* The part of a step's samples by whose number its gradient is divided: local steps are by this node's own. */
    bool local = server_steps(mlr) ? aml_averages(worker) : aml_strategy(worker) != AML_SSGD;
    double own = local ? aml_share(worker) : 1;
    if (mlr->input.dense && !mlr->chosen.constant) {
        memset(batch->touched, 1, (size_t)mlr->input.survey.features + 1);
    }
    for (size_t s = 0; s < steps && result == 0; s++) {
        size_t first = count * s / steps;
        size_t end = count * (s + 1) / steps;
        if (first == end) {
            continue;
        }
        double rate = rate_of(worker, mlr, (double)s / (double)steps);
        batch->step = (struct mlr_step){.scale = (float)(rate / (samples * own)),
                                        .momentum = (float)mlr->momentum,
                                        .velocity = mlr->velocity,
                                        .paces = mlr->paces};
        /* This node's share of the step's L2 is its share of the samples. */
        double share = (mlr->input.dense ? (double)(end - first) : 1) / (samples * own);
        batch->step.decay = server_steps(mlr) ? 0 : (float)fmin(rate * mlr->chosen.lambda * share, 1);
        batch->step.l2 = sends_l2(mlr) ? (float)(mlr->chosen.lambda / (samples * own)) : 0;
        result = take_slices(worker, mlr, &items, end - first, end == count, &values);
    }
    *operations = 4 * (double)values * mlr->input.survey.labels.count;
    return result;
}

static int mlr_test(aml_worker *worker, void *context, const void **items, size_t count, bool last,
                    const uint32_t **labels) {
    struct mlr *mlr = context;
    *items = batch_take(mlr, *items, count, last);
    *labels = mlr->minibatch.labels;
    return take_step(worker, mlr, false);
}

/* ---- Saving ---- */

struct mlr_save {
    aml_worker *worker;
    struct mlr_model_writer *writer;
};

static int save_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct mlr_save *save = context;
    struct error error = {0};
    int result = mlr_model_writer_rows(save->writer, keys, rows, count, &error);
    return app_result(save->worker, result, &error);
}

static int mlr_finish(aml_worker *worker, void *context) {
    const struct mlr *mlr = context;
    learner_compare(worker, &mlr->input, !mlr->chosen.constant);
    if (mlr->model_out == NULL) {
        return 0;
    }
    const struct samples_model samples = samples_input_model(&mlr->input);
    struct mlr_save save = {.worker = worker};
    struct error error = {0};
    int result = mlr_model_writer_open(&save.writer, mlr->model_out, &samples, &error);
    if (result == 0) {
        result = aml_scan(worker, WEIGHTS, save_rows, &save);
        result = mlr_model_writer_close(save.writer, result, &error);
    }
    return app_result(worker, result, &error);
}

/* ---- The command line ---- */

static int run_job(struct mlr *mlr, const struct aml_option *options, int argc, char **argv) {
    struct aml_table tables[] = {
        [WEIGHTS] = {.name = "weights", .type = AML_FLOAT32, .mode = AML_ADD, .start = weights_start}};
    struct aml_app app = {
        .name = "mlr",
        .summary = "multinomial logistic regression; also: mlr --predict MODEL --data FILE",
        .tables = tables,
        .configure = mlr_configure,
        .begin = mlr_begin,
        .finish = mlr_finish,
        .context = mlr,
    };
    int status = learner_main(&app, options, argc, argv);
    mlr_forget_items(mlr);
    free(mlr->velocity);
    if (mlr->device != NULL) {
        mlr_cuda.close(mlr->device);
    }
    tuning_close(&mlr->chosen.tuning);
    free(mlr->chosen.biases);
    samples_input_close(&mlr->input);
    return status;
}

int main(int argc, char **argv) {
    static const struct learner learner = {
        .together = 1024, .begin = mlr_begin_steps, .train = mlr_train, .test = mlr_test, .end = mlr_end_steps};
    struct mlr mlr = {.input = {.learner = &learner, .hashing = {.taken = true}},
                      .names = {.layout = "auto", .optimizer = "auto"},
                      .lambda = -1,
                      .rare = -1};
    const char *predict = NULL; /* only for --help: predict.c parses `mlr --predict` */
    const struct aml_option options[] = {
        {"hash-bits", "B", AML_OPTION_INTEGER, &mlr.input.hashing.bits, 0, CRITEO_HASH_BITS_MAX,
         "criteo: 2^B features; 0: 20"},
        {"cross", "PAIRS", AML_OPTION_WORD, &mlr.input.hashing.crosses, 0, 0,
         "criteo: pairs' features too, such as C1xC2,I5xC3"},
        {"layout", "NAME", AML_OPTION_STRING, &mlr.names.layout, 0, 0, "dense or sparse; auto: by the zeros"},
        {"device", "NAME", AML_OPTION_STRING, &mlr.input.device.name, 0, 0,
         "cpu, or cuda for dense samples; auto: by the work"},
        {"iterations", "N", AML_OPTION_INTEGER, NULL, 0, 0, "passes over the data; not given: by the data"},
        {"batch", "N", AML_OPTION_INTEGER, &mlr.batch, 0, 1 << 24,
         "samples of a step, of all nodes together; 0: by the data"},
        {"rate", "X", AML_OPTION_REAL, &mlr.rate, 0, 1e6, "learning rate at first; 0: by the data"},
        {"decay", "X", AML_OPTION_REAL, &mlr.decay, 0, 1,
         "its factor each iteration; 0: with sgd 0.98, else a straight fall to 0"},
        {"lag", "X", AML_OPTION_REAL, &mlr.lag, 0, 100, "with --staleness: shorter steps from weights that lag"},
        {"lambda", "X", AML_OPTION_REAL, &mlr.lambda, -1, 1e6, "L2 regularization; -1: by cross-validation"},
        {"momentum", "X", AML_OPTION_REAL, &mlr.momentum, 0, 0.999,
         "of dense samples' steps, or of --optimizer momentum"},
        {"optimizer", "NAME", AML_OPTION_WORD, &mlr.names.optimizer, 0, 0,
         "sgd, momentum, adagrad, adam, ftrl; auto: by the data"},
        {"l1", "X", AML_OPTION_REAL, &mlr.optimizer.l1, 0, 1e6, "ftrl: L1 regularization"},
        {"rare", "X", AML_OPTION_REAL, &mlr.rare, -1, 1, "sparse: longer steps of rare features; -1: by the data"},
        {"model-out", "FILE", AML_OPTION_STRING, &mlr.model_out, 0, 0, "write the model there (docs/mlr.md)"},
        {"predict", "MODEL", AML_OPTION_STRING, &predict, 0, 0, "no job: predict by a model; see mlr --predict --help"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    return tool_is_asked("predict", argc, argv) ? mlr_predict_main(argc, argv) : run_job(&mlr, options, argc, argv);
}
