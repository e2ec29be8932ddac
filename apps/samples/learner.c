/* See learner.h. */
#include "apps/samples/learner.h"

#include "agileml/base/clock.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Metrics. TEST_CONSTANT: the test loss of a model that knows only the classes' shares of the training data. */
enum { LOSS = 0, TRAIN_ACCURACY, TEST_LOSS, TEST_ACCURACY, TEST_CONSTANT, SPEED, METRICS };
enum {
    OWN_OPTIONS_MAX = 24,
    LOCAL_STEPS_FROM = 64 /* steps in an iteration from which on nodes take local steps */
};

static int run_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct samples_input *input = context;
    const struct learner *learner = input->learner;
    struct nn_loss loss;
    double operations = 0;
    uint64_t start_us = monotonic_us();
    int result = learner->begin(worker, context, count, true);
    result = result == 0 ? learner->train(worker, context, items, count, &operations) : result;
    result = result == 0 ? learner->end(worker, context, true, &loss) : result;
    if (result == 0) {
        aml_metric_add(worker, LOSS, loss.loss, (double)count);
        aml_metric_add(worker, TRAIN_ACCURACY, (double)loss.correct, (double)count);
        aml_metric_add(worker, SPEED, 1e-9 * operations, (double)(monotonic_us() - start_us) * 1e-6);
    }
    return result;
}

/* Returns the logarithm of a class's share of the training samples. */
static double log_share(const aml_worker *worker, const struct samples_input *input, uint32_t label) {
    double samples = (double)input->survey.samples;
    double count = (double)input->survey.labels.items[label].count;
    if (input->survey.format == SAMPLES_CRITEO) { /* there are no counts: the shares are those of the samples read */
        double clicks = aml_total(worker, SAMPLES_TOTAL_LABELS);
        samples = (double)aml_total_items(worker);
        count = label == 1 ? clicks : samples - clicks;
    } else if (input->statistics.samples > 0) {
        samples = (double)input->statistics.samples;
        count = (double)input->statistics.label_counts[label];
    }
    return statistics_log_share(count, samples, input->survey.labels.count);
}

static int evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct samples_input *input = context;
    const struct learner *learner = input->learner;
    struct nn_loss loss;
    double constant = 0;
    int result = learner->begin(worker, context, count < learner->together ? count : learner->together, false);
    for (size_t first = 0; first < count && result == 0; first += learner->together) {
        const uint32_t *labels;
        size_t together = count - first < learner->together ? count - first : learner->together;
        result = learner->test(worker, context, &items, together, first + together == count, &labels);
        for (size_t s = 0; s < together && result == 0; s++) {
            constant -= log_share(worker, input, labels[s]);
        }
    }
    result = result == 0 ? learner->end(worker, context, false, &loss) : result;
    if (result == 0) {
        aml_metric_add(worker, TEST_LOSS, loss.loss, (double)count);
        aml_metric_add(worker, TEST_CONSTANT, constant, (double)count);
        aml_metric_add(worker, TEST_ACCURACY, (double)loss.correct, (double)count);
    }
    return result;
}

int learner_main(struct aml_app *app, const struct aml_option *own, int argc, char **argv) {
    static const struct aml_metric metrics[METRICS] = {
        [LOSS] = {.name = "loss", .kind = AML_MEAN},
        [TRAIN_ACCURACY] = {.name = "train_accuracy", .kind = AML_MEAN},
        [TEST_LOSS] = {.name = "test_loss", .kind = AML_MEAN, .evaluated = 1},
        [TEST_ACCURACY] = {.name = "test_accuracy", .kind = AML_MEAN, .evaluated = 1},
        [TEST_CONSTANT] = {.name = "test_constant", .kind = AML_MEAN, .evaluated = 1},
        [SPEED] = {.name = "node_gflops", .kind = AML_MEAN},
    };
    struct samples_input *input = app->context;
    struct aml_option options[SAMPLES_OPTIONS + OWN_OPTIONS_MAX];
    struct aml_option *next = samples_input_options(input, options);
    do {
        assert(next < options + SAMPLES_OPTIONS + OWN_OPTIONS_MAX);
        *next++ = *own;
    } while (own++->name != NULL);
    app->options = options;
    app->table_count = 1;
    app->metrics = metrics;
    app->metric_count = METRICS;
    app->clock_alone = 1;
    app->evaluate_every = APP_EVALUATE_EVERY;
    app->read_only_emits = 1;
    app->read = samples_input_read;
    app->clock = run_clock;
    app->evaluate = evaluate;
    return aml_main(app, argc, argv);
}

void learner_choose_strategy(aml_worker *worker, struct aml_app *app, bool able) {
    bool transforms = app->transforms != NULL && app->transforms[0].name != NULL;
    app->strategy =
        able && app->strategies && !transforms && app->clocks_per_iteration >= LOCAL_STEPS_FROM ? "sma" : NULL;
    if (app->strategy != NULL && aml_averages(worker)) {
        aml_note(worker, "nodes take steps on copies of the model, whose mean is taken several times in an iteration "
                         "(--strategy ssgd: all nodes make each step together)");
    }
}

void learner_compare(aml_worker *worker, const struct samples_input *input, bool advise) {
    double test_loss = aml_metric_value(worker, TEST_LOSS);
    double test_constant = aml_metric_value(worker, TEST_CONSTANT);
    double loss = aml_metric_value(worker, LOSS);
    bool trained = !isnan(aml_metric_value(worker, TRAIN_ACCURACY)); /* false when a resumed job had no clock left */
    double constant = 0;
    for (uint32_t k = 0; k < input->survey.labels.count; k++) {
        double share = log_share(worker, input, k);
        constant -= exp(share) * share;
    }
    if (!isnan(test_constant) && !(test_loss < test_constant)) {
        aml_note(worker,
                 "the model is no better than a constant: its test loss is %.6g, that of the classes' shares %.6g",
                 test_loss, test_constant);
    } else if (trained && !(loss < constant)) {
        aml_note(worker,
                 "the model is no better than a constant: its loss on the training data is %.6g, that of the classes' "
                 "shares %.6g%s",
                 loss, constant, advise ? ". More passes (--iterations), another --rate or --scale may help" : "");
    }
}
