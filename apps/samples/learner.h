/* A job that learns classes from labelled samples, as mlr and net do: its metrics, its clocks and evaluations as loops
 * over the app's steps, and the comparison of the model with a constant one. The app has its own configure, tables,
 * steps and model file. Its context begins with a struct samples_input. One thread. */
#ifndef APPS_SAMPLES_LEARNER_H
#define APPS_SAMPLES_LEARNER_H

#include "apps/nn/layers.h"
#include "apps/samples/input.h"

/* An app's steps, with its context. All return 0, or a code after aml_error. */
struct learner {
    size_t together; /* test samples whose values are in memory at once */
    /* Prepares for a clock's `count` samples (`learn`), or for an evaluation by up to `count` samples at a time. */
    int (*begin)(aml_worker *worker, void *context, size_t count, bool learn);
    /* Takes the clock's steps with items[count]. Sets *operations to the number of arithmetic operations. */
    int (*train)(aml_worker *worker, void *context, const void *items, size_t count, double *operations);
    /* Adds the losses of the next `count` samples at *items, and moves *items behind them; with `last` no samples
     * follow. Returns after setting *labels to their labels [count]. */
    int (*test)(aml_worker *worker, void *context, const void **items, size_t count, bool last,
                const uint32_t **labels);
    /* Ends what `begin` began, and sets *loss to the sums since then. */
    int (*end)(aml_worker *worker, void *context, bool learn, struct nn_loss *loss);
};

/* Runs the job of `app`, which has name, summary, context, one table, configure, begin and finish, and what is its own.
 * `own` are the app's options after those of samples_input_options; the last one is empty. Returns the exit status. */
int learner_main(struct aml_app *app, const struct aml_option *own, int argc, char **argv);

/* Sets app->strategy, at the end of `configure`. If `able`, nodes take local steps in iterations of many steps: a
 * shorter one takes no time, and then the sums of all nodes give the same result on any number of nodes. Transforms are
 * left to feeders. */
void learner_choose_strategy(aml_worker *worker, struct aml_app *app, bool able);

/* Notes when the model is no better than the classes' shares: on the test samples, else on the training samples; with
 * `advise` also what may help. For `finish`. */
void learner_compare(aml_worker *worker, const struct samples_input *input, bool advise);

#endif
