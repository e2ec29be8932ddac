/* net: neural networks by minibatch gradient descent, on AgileML. All parameters are one replicated table, in
 * contiguous rows of a fixed width. So a layer's weights are a matrix in the rows themselves. The layers are in
 * apps/nn, the network's shape in network.c, the model's file in model.c, and `net --predict` in predict.c. The
 * arithmetic is in compute.c, or on an accelerator (device.h).
 *
 * A step is over --batch samples *of all nodes together*. With S-SGD it is a clock: each process computes its part of
 * the gradient, and the servers' sum of all parts is the step. So the number of nodes changes only the speed. With the
 * other strategies each process takes several such steps with its own part in a clock; then the processes take the
 * mean. See docs/net.md. */
#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/app.h"
#include "apps/net/compute.h"
#include "apps/net/device.h"
#include "apps/net/model.h"
#include "apps/net/network.h"
#include "apps/net/predict.h"
#include "apps/nn/device.h"
#include "apps/samples/learner.h"
#include "apps/tool.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMETERS = 0 }; /* the table */
enum {
    ROW_WIDTH = 256, /* parameters in a row: 1 KiB */
    CLOCKS_MAX = 1 << 20,
    BATCH = 128, /* the default, if an iteration then has PASS_STEPS steps */
    PASS_STEPS = 4
};

static const double RATE = 0.05, RATE_OF_ADAM = 1e-3; /* defaults */
/* Standardized features are centred if at least this part of the values is written in the file. With fewer, values
 * that are not written stay 0. */
static const double CENTRED_FROM = 0.25;
/* Images in tables need no scaling if the root mean square of all pixels is between these: pixels are from 0 or -1
 * to 1, or standardized. */
static const double PIXELS_FROM = 0.03, PIXELS_TO = 1.5;
static const double ADAM_EPSILON = 1e-8;
static const double MOMENTUM = 0.9, BETA2 = 0.999; /* defaults */

/* The learning rate over time, which counts iterations from 0. */
struct schedule {
    double rate;    /* --rate */
    double warm_up; /* iterations in which the rate rises from 0 */
    double decay;   /* factor from iteration to iteration */
    double anneal;  /* the rate falls along a cosine to 0 at the end of this iteration; 0: it does not */
};

enum optimizer { OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM, OPTIMIZER_SGD };

/* The optimizer's parameters: aml_table.parameters. */
struct steps {
    enum optimizer optimizer;
    struct schedule schedule;
    double clocks; /* clocks in an iteration */
    double momentum, beta2;
};

/* The step under way. */
struct step {
    struct compute_batch batch;
    float *target; /* the gradient is added here: the sums for the optimizer, or the parameters themselves */
    float scale;   /* the gradient's factor */
    float decay;   /* factor of the weights in L2's part, which is added to the target */
    bool learn;
    size_t layer; /* the layer whose gradient is computed */
    size_t left;  /* rows, counted from the first, that are not yet in the table */
};

struct net {
    struct samples_input input; /* first */
    const char *model_out, *layers;
    int64_t batch;
    const char *optimizer;
    double lambda;
    struct steps steps;
    /* Set by net_configure. */
    double *centres, *factors; /* of the scale; NULL: the scale has none */
    struct network network;
    bool drops;       /* there is dropout */
    bool with_device; /* on an accelerator */
    /* Allocated when needed, and then kept. */
    struct compute compute;
    struct net_device *device; /* NULL: the threads compute */
    float *parameters;         /* [parameters], from net_begin on: the table's rows, or `copy` */
    uint32_t *labels;          /* [room] */
    uint64_t *keys;            /* [room] */
    size_t room;
    /* [parameters] each, if the table's rows are not contiguous, as with PROTEUS_CHECK. */
    float *copy, *sums;
    struct step step;
};

/* ---- Steps ---- */

/* Returns the rate of the step of `clock` (from 1), with `clocks` in an iteration. It is the rate in the middle of
 * the step, so that the last step of --anneal has a rate above 0. */
static double schedule_rate(const struct schedule *schedule, uint64_t clock, double clocks) {
    static const double PI = 3.14159265358979323846;
    double time = ((double)clock - 0.5) / clocks;
    double rate = schedule->rate * (schedule->decay < 1 ? pow(schedule->decay, time) : 1);
    if (time < schedule->warm_up) {
        rate *= time / schedule->warm_up;
    }
    if (schedule->anneal > 0) {
        rate *= time < schedule->anneal ? (1 + cos(PI * time / schedule->anneal)) / 2 : 0;
    }
    return rate;
}

/* Takes the step of a row: in a server, or with local steps in this process. */
static void apply_step(const struct aml_step *step, const void *parameters) {
    const struct steps *steps = parameters;
    double rate = schedule_rate(&steps->schedule, step->clock, steps->clocks);
    if (steps->optimizer == OPTIMIZER_ADAM) {
        const struct aml_adam adam = {
            .rate = rate, .beta1 = steps->momentum, .beta2 = steps->beta2, .epsilon = ADAM_EPSILON};
        aml_apply_adam(step, &adam);
    } else {
        const struct aml_momentum momentum = {.rate = rate, .momentum = steps->momentum};
        aml_apply_momentum(step, &momentum);
    }
}

/* ---- Options ---- */

static int choose_optimizer(struct net *net, struct aml_table *table, struct error *error) {
    static const char *const names[] = {"momentum", "adam", "sgd", NULL};
    int optimizer = app_choice("optimizer", net->optimizer, names, error);
    if (optimizer < 0) {
        return optimizer;
    }
    if (optimizer == OPTIMIZER_SGD && net->steps.momentum != MOMENTUM) {
        return error_set(error, AML_EINPUT, "--momentum: expected --optimizer momentum or adam, got %s",
                         net->optimizer);
    }
    if (optimizer != OPTIMIZER_ADAM && net->steps.beta2 != BETA2) {
        return error_set(error, AML_EINPUT, "--beta2: expected --optimizer adam, got %s", net->optimizer);
    }
    net->steps.optimizer = (enum optimizer)optimizer;
    if (optimizer != OPTIMIZER_SGD) {
        table->apply = apply_step;
        table->parameters = &net->steps;
        table->state_width = optimizer == OPTIMIZER_ADAM ? aml_adam_state(ROW_WIDTH) : aml_momentum_state(ROW_WIDTH);
    }
    if (net->steps.schedule.rate == 0) {
        net->steps.schedule.rate = optimizer == OPTIMIZER_ADAM ? RATE_OF_ADAM : RATE;
    }
    return 0;
}

static void forget_scale(struct net *net) {
    free(net->centres);
    free(net->factors);
    net->centres = net->factors = NULL;
    net->input.scale.centres = net->input.scale.factors = NULL;
}

static int check_options(aml_worker *worker, struct net *net, struct aml_table *table) {
    struct samples_input *input = &net->input;
    struct error error = {0};
    forget_scale(net);
    int result = samples_input_choices(worker, input);
    result = result == 0 ? app_result(worker, choose_optimizer(net, table, &error), &error) : result;
    return result != 0 ? result : samples_input_check(worker, input, net->model_out);
}

/* Sets whether the survey computes the features' sums for standardization. It does not for idx data and images,
 * whose values are bytes, unless an option requests it. */
static int choose_statistics(aml_worker *worker, struct samples_input *input, struct error *error) {
    enum samples_format format;
    int result = samples_find_format(&input->file, &format, error);
    bool chosen = input->scale.kind == SCALE_AUTO && format != SAMPLES_IDX && format != SAMPLES_TAR;
    input->with_statistics = (chosen || input->scale.kind == SCALE_STANDARD) && !aml_only_checks(worker);
    input->sums_alone = true;
    input->shift_scaled = true;
    return result;
}

static int survey_data(aml_worker *worker, struct net *net) {
    struct samples_input *input = &net->input;
    struct error error = {0};
    int result = app_result(worker, choose_statistics(worker, input, &error), &error);
    result = result == 0 ? samples_input_survey(worker, input) : result;
    if (result != 0) {
        return result;
    }
    if (input->survey.features > SAMPLES_DENSE_MAX) {
        return aml_error(worker, AML_EINPUT,
                         "%s: expected at most %d features, got %u: samples are dense here; mlr takes sparse ones",
                         input->file.path, SAMPLES_DENSE_MAX, input->survey.features);
    }
    input->dense = true;
    samples_input_mark(worker, input);
    return 0;
}

/* Sets the network's shape from the samples and --layers. */
static int shape_network(aml_worker *worker, struct net *net) {
    struct samples_input *input = &net->input;
    struct error error = {0};
    struct network_shape shape = {.height = 1, .width = 1, .channels = input->survey.features};
    bool image = samples_input_find_image(input);
    if (!samples_input_has_images(input) && input->image_width == 0) { /* samples may be images, if they are square */
        image = image && input->image.width == input->image.height &&
                (input->channels > 0 || network_needs_images(net->layers));
    }
    if (image) {
        shape = (struct network_shape){.height = input->image.height,
                                       .width = input->image.width,
                                       .channels = input->image.channels,
                                       .image = true};
    } else if (input->image_width > 0 || input->channels > 1) {
        return aml_error(worker, AML_EINPUT,
                         "--image-width, --channels: %u features are no image %u pixels wide of %u channels",
                         input->survey.features, input->image.width, input->image.channels);
    }
    int result = network_parse(&net->network, net->layers, &shape, input->survey.labels.count, &error);
    net->drops = false;
    for (size_t l = 0; result == 0 && l < net->network.count; l++) {
        net->drops = net->drops || net->network.layers[l].kind == NETWORK_DROPOUT;
    }
    return app_result(worker, result, &error);
}

/* Standardizes features with the survey's sums. */
static void standardize(aml_worker *worker, struct net *net) {
    struct samples_input *input = &net->input;
    const struct samples_survey *survey = &input->survey;
    bool centred = (double)survey->values >= CENTRED_FROM * (double)survey->samples * survey->features;
    uint32_t constant =
        statistics_standardize(&input->statistics, survey->features, centred, &net->centres, &net->factors);
    const struct scale scale = {.kind = SCALE_STANDARD,
                                .features = survey->features,
                                .maxima = survey->maxima,
                                .centres = net->centres,
                                .factors = net->factors};
    samples_input_standardize(worker, input, &scale);
    aml_note(worker,
             centred
                 ? "--scale standard: each of %u features less its mean, by its deviation; %u are constant and left "
                   "out (--scale none: as they are)"
                 : "--scale standard: each of %u features by the root mean square of its values, most of which are "
                   "0; %u are always 0 (--scale none: as they are)",
             survey->features, constant);
}

/* Chooses how images in tables are scaled: all pixels by one factor, which preserves their proportions. */
static void scale_images(aml_worker *worker, struct net *net) {
    struct scale *scale = &net->input.scale;
    double squares = 0;
    for (uint32_t f = 0; f < scale->features; f++) {
        struct feature_moments moments = statistics_moments(&net->input.statistics, f);
        squares += (moments.variance + moments.mean * moments.mean) / scale->features;
    }
    double size = sqrt(squares);
    scale->kind = SCALE_NONE;
    if ((size >= PIXELS_FROM && size <= PIXELS_TO) || !(size > 0) || !isfinite(1 / size)) {
        return;
    }
    scale->kind = SCALE_STANDARD;
    net->factors = memory_zeroed(scale->features, sizeof *net->factors);
    for (uint32_t f = 0; f < scale->features; f++) {
        net->factors[f] = 1 / size;
    }
    scale->factors = net->factors;
    aml_note(worker, "--scale standard: all pixels by their root mean square, %.4g (--scale none: as they are)", size);
}

/* Chooses --scale auto where the survey has not. The network is known now, and whether samples are images. */
static void choose_scale(aml_worker *worker, struct net *net) {
    struct scale *scale = &net->input.scale;
    if (scale->kind == SCALE_AUTO && (net->network.input.image || net->input.shift > 0)) {
        scale_images(worker, net);
    } else if (net->input.with_statistics) {
        standardize(worker, net);
    }
    statistics_close(&net->input.statistics);
}

static int net_configure(aml_worker *worker, struct aml_app *app) {
    struct net *net = app->context;
    struct samples_input *input = &net->input;
    int result = check_options(worker, net, &app->tables[PARAMETERS]);
    result = result == 0 ? survey_data(worker, net) : result;
    result = result == 0 ? shape_network(worker, net) : result;
    if (result != 0) {
        return result;
    }
    choose_scale(worker, net);
    app->tables[PARAMETERS].rows = (net->network.parameters + ROW_WIDTH - 1) / ROW_WIDTH;
    app->item_bytes = ((size_t)input->survey.features + 1) * sizeof(float);
    /* One step per clock, so that without local steps the number of nodes changes only the speed. */
    double samples = samples_input_training(input);
    double batch = net->batch > 0 ? (double)net->batch : fmin(fmax(floor(samples / PASS_STEPS), 1), BATCH);
    double steps = samples / batch;
    if (app->clocks_per_iteration == 0) { /* the option is not given */
        app->clocks_per_iteration = (int64_t)fmin(fmax(round(steps), 1), CLOCKS_MAX);
    }
    net->steps.clocks = (double)app->clocks_per_iteration;
    nn_blas_begin();
    result = samples_input_declare_transforms(worker, input, app);
    learner_choose_strategy(worker, app, true);
    return result != 0 ? result : nn_device_find(worker, net->input.device.choice, &net->with_device);
}

static void start_row(void *context, uint64_t key, void *row) {
    const struct net *net = context;
    network_start(&net->network, net->input.seed, key * ROW_WIDTH, ROW_WIDTH, row);
}

/* ---- Training ---- */

/* Makes room on the device, and opens the device at first. On failure `auto` computes in the threads from now on, as
 * between clocks the device holds no data. */
static int room_on_device(aml_worker *worker, struct net *net, size_t count) {
    struct error error = {0};
    int result = net->device == NULL ? net_cuda.open(&net->device, &net->network, &error) : 0;
    result = result == 0 ? net_cuda.room(net->device, count, &error) : result;
    if (result == 0) {
        return 0;
    }
    net_cuda.close(net->device);
    net->device = NULL;
    net->with_device = false;
    return net->input.device.choice == NN_DEVICE_AUTO ? 0 : nn_device_result(worker, result, &error);
}

static int room_in_threads(aml_worker *worker, struct net *net, size_t count) {
    struct error error = {0};
    unsigned threads = aml_threads(worker);
    if (count <= net->compute.room && threads == net->compute.threads) {
        return 0;
    }
    return app_result(worker, compute_room(&net->compute, &net->network, count, threads, &error), &error);
}

/* Makes room for steps of `count` samples. */
static int room(aml_worker *worker, struct net *net, size_t count) {
    if (count > net->room) {
        free(net->labels);
        free(net->keys);
        net->labels = malloc(count * sizeof *net->labels);
        net->keys = malloc(count * sizeof *net->keys);
        net->room = count;
    }
    if (count > 0 && (net->labels == NULL || net->keys == NULL)) {
        return aml_error(worker, AML_ENOMEM, "no memory for %zu samples: use a smaller --batch", count);
    }
    int result = net->with_device ? room_on_device(worker, net, count) : 0;
    return result != 0 || net->with_device ? result : room_in_threads(worker, net, count);
}

static bool rows_are_flat(const struct aml_rows *rows) {
    return rows->stride == ROW_WIDTH * sizeof(float);
}

/* Returns the number of a row's elements that are parameters. */
static size_t row_elements(const struct net *net, size_t row) {
    size_t left = net->network.parameters - row * ROW_WIDTH;
    return left < ROW_WIDTH ? left : ROW_WIDTH;
}

/* Sets net->parameters to all parameters, contiguous. */
static int flat_parameters(aml_worker *worker, struct net *net) {
    struct aml_rows rows = aml_table_rows(worker, PARAMETERS);
    net->parameters = (float *)(void *)rows.base;
    if (rows_are_flat(&rows)) {
        return 0;
    }
    net->copy = net->copy != NULL ? net->copy : malloc(net->network.parameters * sizeof *net->copy);
    net->sums = net->sums != NULL ? net->sums : malloc(net->network.parameters * sizeof *net->sums);
    if (net->copy == NULL || net->sums == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for a copy of %zu parameters", net->network.parameters);
    }
    for (size_t r = 0; r < rows.count; r++) {
        memcpy(net->copy + r * ROW_WIDTH, rows.base + r * rows.stride, row_elements(net, r) * sizeof(float));
    }
    memset(net->sums, 0, net->network.parameters * sizeof *net->sums);
    net->parameters = net->copy;
    return 0;
}

/* Returns what a step changes, in the table or in a copy: the parameters, or with an optimizer the sums for the
 * servers. */
static float *step_target(aml_worker *worker, const struct net *net) {
    struct aml_rows rows = aml_table_rows(worker, PARAMETERS);
    if (rows.sums == NULL) {
        return net->parameters;
    }
    return rows_are_flat(&rows) ? (float *)(void *)rows.sums : net->sums;
}

/* Copies the step's rows from `from` on into the table, and declares them done. */
static int put_rows(aml_worker *worker, struct net *net, size_t from) {
    struct aml_rows rows = aml_table_rows(worker, PARAMETERS);
    const size_t end = net->step.left;
    if (from >= end) {
        return 0;
    }
    for (size_t r = from; r < end && !rows_are_flat(&rows); r++) {
        size_t first = r * ROW_WIDTH;
        float *row = (float *)(void *)(rows.sums != NULL ? rows.sums + r * rows.stride : rows.base + r * rows.stride);
        for (size_t i = 0; i < row_elements(net, r); i++) {
            row[i] = rows.sums != NULL ? row[i] + net->sums[first + i] : net->copy[first + i];
        }
    }
    memset(rows.touched + from, 1, end - from);
    net->step.left = from;
    return aml_rows_done(worker, PARAMETERS, from, end - from);
}

static void begin_step(aml_worker *worker, struct net *net, const float *items, size_t count, bool learn) {
    size_t features = net->input.survey.features;
    struct step *step = &net->step;
    *step = (struct step){.learn = learn};
    step->batch = (struct compute_batch){.samples = items,
                                         .stride = features + 1,
                                         .count = count,
                                         .labels = net->labels,
                                         .keys = learn && net->drops ? net->keys : NULL};
    for (size_t s = 0; s < count; s++) {
        const float *item = items + s * step->batch.stride;
        memcpy(&net->labels[s], item + features, sizeof net->labels[s]);
        if (step->batch.keys != NULL) { /* dropout depends only on the sample and the clock */
            uint64_t sample = hash_bytes((const void *)item, step->batch.stride * sizeof *item, net->input.seed);
            net->keys[s] = hash_mix(sample + aml_clock(worker) + aml_local_step(worker));
        }
    }
    step->left = (net->network.parameters + ROW_WIDTH - 1) / ROW_WIDTH;
}

/* Computes the errors of a thread's part of the samples. */
static void part_errors(void *context, unsigned thread, unsigned threads) {
    struct net *net = context;
    struct step *step = &net->step;
    (void)threads;
    compute_forward(&net->compute, net->parameters, &step->batch, thread);
    if (step->learn) {
        compute_backward(&net->compute, net->parameters, &step->batch, thread);
    }
}

/* Adds L2's part for a thread's part of the parameters. */
static void part_decay(void *context, unsigned thread, unsigned threads) {
    const struct net *net = context;
    const struct step *step = &net->step;
    for (size_t l = 0; l < net->network.count; l++) {
        const struct network_layer *layer = &net->network.layers[l];
        size_t end = layer->weights * (thread + 1) / threads;
        for (size_t i = layer->weights * thread / threads; i < end; i++) {
            step->target[layer->first + i] += step->decay * net->parameters[layer->first + i];
        }
    }
}

static void part_gradient(void *context, unsigned thread, unsigned threads) {
    struct net *net = context;
    (void)threads;
    compute_gradient(&net->compute, &net->step.batch, net->step.layer, thread, net->step.scale, net->step.target);
}

/* Computes the gradient layer by layer, the last one first, so that the exchange of a layer's rows may begin while
 * the layers before it are computed. A row may belong to two layers. */
static int compute_step(aml_worker *worker, struct net *net) {
    int result = 0;
    for (size_t l = net->network.count; l-- > 0 && result == 0;) {
        const struct network_layer *layer = &net->network.layers[l];
        if (layer->parameters > 0) {
            net->step.layer = l;
            aml_parallel(worker, part_gradient, net);
            result = put_rows(worker, net, (layer->first + ROW_WIDTH - 1) / ROW_WIDTH);
        }
    }
    return result;
}

/* Sets the step's target and factors. A gradient is that of the mean loss over the step's samples. If the servers add
 * up the nodes' parts, these are the samples of all nodes. Otherwise they are this node's own, as its model is one of
 * several whose mean is taken. */
static void scale_step(aml_worker *worker, struct net *net, size_t count) {
    struct step *step = &net->step;
    unsigned clocks = aml_clocks_per_iteration(worker);
    uint64_t number = aml_clock(worker) + aml_local_step(worker);
    double samples = (double)aml_total_items(worker) / clocks; /* samples of the step in all nodes */
    bool plain = net->steps.optimizer == OPTIMIZER_SGD;        /* the process takes the step itself */
    bool sum = plain ? aml_strategy(worker) == AML_SSGD : !aml_averages(worker);
    step->target = step_target(worker, net);
    step->scale = (float)(1 / (sum ? samples : samples * aml_share(worker)));
    if (plain) {
        step->scale *= -(float)schedule_rate(&net->steps.schedule, number, clocks);
    }
    step->decay = step->scale * (float)net->lambda * (float)count;
}

static struct nn_loss take_losses(struct net *net) {
    struct nn_loss sum = {0};
    for (unsigned t = 0; t < net->compute.threads; t++) {
        struct nn_loss *loss = &net->compute.thread[t].loss;
        sum.loss += loss->loss;
        sum.correct += loss->correct;
        *loss = (struct nn_loss){0};
    }
    return sum;
}

/* Computes the errors of the step. A device only queues the work. */
static int compute_errors(aml_worker *worker, struct net *net) {
    struct error error = {0};
    if (net->with_device) {
        int result = net_cuda.step(net->device, &net->step.batch, net->step.learn, &error);
        return nn_device_result(worker, result, &error);
    }
    aml_parallel(worker, part_errors, net);
    return 0;
}

static int net_begin(aml_worker *worker, void *context, size_t count, bool learn) {
    struct net *net = context;
    struct error error = {0};
    int result = room(worker, net, count);
    (void)learn;
    result = result == 0 ? flat_parameters(worker, net) : result;
    if (result == 0 && net->with_device) {
        result = net_cuda.begin(net->device, net->parameters, &error);
        return nn_device_result(worker, result, &error);
    }
    return result;
}

static int net_train(aml_worker *worker, void *context, const void *items, size_t count, double *operations) {
    struct net *net = context;
    begin_step(worker, net, items, count, true);
    scale_step(worker, net, count);
    int result = compute_errors(worker, net);
    if (result == 0 && net->lambda > 0) {
        aml_parallel(worker, part_decay, net);
    }
    *operations = 2 * (double)net->network.products * (double)count;
    return result;
}

static int net_test(aml_worker *worker, void *context, const void **items, size_t count, bool last,
                    const uint32_t **labels) {
    struct net *net = context;
    const float *samples = *items;
    (void)last;
    begin_step(worker, net, samples, count, false);
    *items = samples + count * net->step.batch.stride;
    *labels = net->labels;
    return compute_errors(worker, net);
}

/* Adds the gradient to the step's target, if it learns, and takes the losses. */
static int net_end(aml_worker *worker, void *context, bool learn, struct nn_loss *loss) {
    struct net *net = context;
    const struct step *step = &net->step;
    struct error error = {0};
    int result = 0;
    if (net->with_device) {
        result = net_cuda.end(net->device, step->scale, learn ? step->target : NULL, loss, &error);
        result = nn_device_result(worker, result, &error);
    } else {
        result = learn ? compute_step(worker, net) : 0;
        *loss = take_losses(net);
    }
    return result == 0 && learn ? put_rows(worker, net, 0) : result;
}

/* ---- Saving ---- */

struct gathering {
    float *parameters; /* [count] */
    size_t count;
};

static int gather_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    const struct gathering *gathering = context;
    for (size_t r = 0; r < count; r++) {
        size_t first = keys[r] * ROW_WIDTH;
        size_t left = gathering->count - first;
        memcpy(gathering->parameters + first, (const float *)rows + r * ROW_WIDTH,
               (left < ROW_WIDTH ? left : ROW_WIDTH) * sizeof(float));
    }
    return 0;
}

static int net_finish(aml_worker *worker, void *context) {
    const struct net *net = context;
    struct error error = {0};
    learner_compare(worker, &net->input, true);
    if (net->model_out == NULL) {
        return 0;
    }
    struct gathering gathering = {.count = net->network.parameters};
    gathering.parameters = malloc(gathering.count * sizeof *gathering.parameters);
    if (gathering.parameters == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for %zu parameters", gathering.count);
    }
    /* The scan lacks rows that no clock has changed. */
    network_start(&net->network, net->input.seed, 0, gathering.count, gathering.parameters);
    int result = aml_scan(worker, PARAMETERS, gather_rows, &gathering);
    const struct samples_model samples = samples_input_model(&net->input);
    result = result == 0
                 ? net_model_write(net->model_out, &samples, net->layers, &net->network, gathering.parameters, &error)
                 : result;
    free(gathering.parameters);
    return app_result(worker, result, &error);
}

/* ---- The command line ---- */

static int run_job(struct net *net, const struct aml_option *options, int argc, char **argv) {
    struct aml_table tables[] = {[PARAMETERS] = {.name = "parameters",
                                                 .type = AML_FLOAT32,
                                                 .mode = AML_ADD,
                                                 .width = ROW_WIDTH,
                                                 .whole = 1,
                                                 .start = start_row}};
    static const char *const steering[] = {"rate", "decay", "warm-up", "anneal", NULL};
    struct aml_app app = {
        .name = "net",
        .summary = "neural networks of dense and convolutional layers; also: net --predict MODEL --data FILE",
        .steering = steering,
        .tables = tables,
        .strategies = 1,
        .configure = net_configure,
        .finish = net_finish,
        .context = net,
    };
    int status = learner_main(&app, options, argc, argv);
    compute_close(&net->compute);
    if (net->device != NULL) {
        net_cuda.close(net->device);
    }
    free(net->labels);
    free(net->keys);
    free(net->copy);
    free(net->sums);
    forget_scale(net);
    samples_input_close(&net->input);
    return status;
}

int main(int argc, char **argv) {
    static const struct learner learner = {
        .together = 256, .begin = net_begin, .train = net_train, .test = net_test, .end = net_end};
    struct net net = {.input = {.learner = &learner},
                      .layers = "dense 128",
                      .optimizer = "momentum",
                      .steps = {.schedule = {.decay = 1}, .momentum = MOMENTUM, .beta2 = BETA2}};
    const char *predict = NULL; /* only for --help: predict.c parses `net --predict` */
    const struct aml_option options[] = {
        {"layers", "TEXT", AML_OPTION_WORD, &net.layers, 0, 0,
         "such as 'conv 32x5, pool 2, dense 128'; also norm, dropout P (docs/net.md)"},
        {"device", "NAME", AML_OPTION_STRING, &net.input.device.name, 0, 0, "cpu, or cuda; auto: cuda where it is"},
        {"batch", "N", AML_OPTION_INTEGER, &net.batch, 0, 1 << 24,
         "samples of a step, of all nodes together; 0: 128, of less than 512 samples a quarter"},
        {"optimizer", "NAME", AML_OPTION_WORD, &net.optimizer, 0, 0, "momentum, adam or sgd"},
        {"rate", "X", AML_OPTION_REAL, &net.steps.schedule.rate, 0, 1e6, "learning rate; 0: 0.05, with adam 0.001"},
        {"warm-up", "X", AML_OPTION_REAL, &net.steps.schedule.warm_up, 0, 1e6,
         "iterations in which the rate rises to its value"},
        {"decay", "X", AML_OPTION_REAL, &net.steps.schedule.decay, 0.01, 1, "the rate's factor each iteration"},
        {"anneal", "N", AML_OPTION_REAL, &net.steps.schedule.anneal, 0, 1e6,
         "the rate falls to 0 in so many iterations, along a cosine; 0: it does not"},
        {"momentum", "X", AML_OPTION_REAL, &net.steps.momentum, 0, 0.999, "of momentum, and adam's beta1"},
        {"beta2", "X", AML_OPTION_REAL, &net.steps.beta2, 0, 0.999999, "of adam"},
        {"lambda", "X", AML_OPTION_REAL, &net.lambda, 0, 100, "L2 regularization, of all weights but biases"},
        {"model-out", "FILE", AML_OPTION_STRING, &net.model_out, 0, 0, "write the model there (docs/net.md)"},
        {"predict", "MODEL", AML_OPTION_STRING, &predict, 0, 0, "no job: predict by a model; see net --predict --help"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    return tool_is_asked("predict", argc, argv) ? net_predict_main(argc, argv) : run_job(&net, options, argc, argv);
}
