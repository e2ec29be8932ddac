/* mf: matrix factorization of ratings by stochastic gradient descent, on AgileML. Users' rows are in overwrite mode, as
 * each user's ratings stay with one worker thread. Items' rows are summed over all workers every clock. With
 * --optimizer the servers instead take a step with the sum of the items' gradients. The arithmetic is in kernel.c and
 * gradient.c, the model's file in model.c, `mf --predict` in predict.c. */
#include "agileml.h"
#include "apps/app.h"
#include "apps/mf/gradient.h"
#include "apps/mf/kernel.h"
#include "apps/mf/model.h"
#include "apps/mf/names.h"
#include "apps/mf/predict.h"
#include "apps/mf/schedule.h"
#include "apps/mf/spread.h"
#include "apps/optimizer.h"
#include "apps/tool.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MF_CLOCKS = 8,        /* per iteration, for staleness 0 */
    MF_SERVER_CLOCKS = 64 /* per iteration when the servers step items' rows, as each row then has one step a clock */
};
enum { USERS = 0, ITEMS = 1 };          /* tables */
enum { TRAIN_RMSE = 0, TEST_RMSE = 1 }; /* metrics */
/* Totals: the members of struct mf_sums over training ratings, and from TOTAL_TEST on over test ratings. */
enum { TOTAL_RATINGS = 0, TOTAL_SQUARES_HIGH = 1, TOTAL_SQUARES_LOW = 2, TOTAL_TEST = 3, TOTAL_TEST_COUNT = 6 };
enum { MAXIMUM_RATING = 0, MAXIMUM_MINUS = 1 }; /* maxima of training ratings and of their negatives */

static const double ITEM_RATE = 0.06; /* default */

/* A number for each row of a table, indexed by slot. */
struct mf_floats {
    float *values; /* [count] */
    uint32_t count;
};

/* What a thread has prepared. */
struct mf_steps {
    uint64_t iteration; /* for which the thread set its part of the items' shares, for so many rows and local steps */
    uint32_t rows;
    unsigned parts;
    struct mf_floats users, items; /* penalties of the biases, when longer than the node's own; else empty */
};

struct mf {
    struct aml_strings data, test;
    const char *columns, *missing; /* --columns, --missing-ratings */
    const char *model_out;
    int64_t rank;
    double test_fraction, lambda, lambda_bias, bias_prior, clip, item_limit;
    struct mf_schedule schedule;
    bool no_biases, log1p;
    struct optimizer optimizer; /* optimizer of items' rows; `rate` is --item-rate */
    uint64_t seed;
    struct mf_kernel kernel;
    /* Set by mf_begin for the node's present ratings. */
    struct mf_spread spread;
    struct mf_floats item_counts;                    /* ratings of each item slot in a clock, on all nodes */
    struct mf_floats user_penalties, item_penalties; /* regularization of each slot's bias */
    struct mf_steps *steps;
    unsigned threads;
};

static bool mf_biases(const struct mf *mf) {
    return !mf->no_biases;
}

static void users_start(void *context, uint64_t key, void *row) {
    const struct mf *mf = context;
    mf_initial_row(mf->seed, USERS, key, (uint32_t)mf->rank, mf_biases(mf), row);
}

static void items_start(void *context, uint64_t key, void *row) {
    const struct mf *mf = context;
    mf_initial_row(mf->seed, ITEMS, key, (uint32_t)mf->rank, mf_biases(mf), row);
}

/* Whether the servers take the steps of items' rows. */
static bool server_steps(const struct mf *mf) {
    return mf->optimizer.kind != OPTIMIZER_SGD;
}

/* Shares of an item's row (aml_table.shares). */
static unsigned item_shares(const struct mf *mf) {
    return mf_biases(mf) ? 2 : 1;
}

static int mf_configure(aml_worker *worker, struct aml_app *app) {
    struct mf *mf = app->context;
    uint32_t width = (uint32_t)mf->rank + (mf_biases(mf) ? 1U : 0U);
    struct error error = {0};
    static const char *const optimizers[] = {"sgd", "adagrad", NULL};
    static const char *const missing[] = {"refuse", "skip", NULL};
    if (app_choice("optimizer", mf->optimizer.name, optimizers, &error) < 0 ||
        ratings_columns_check(mf->columns, &error) != 0 ||
        app_choice("missing-ratings", mf->missing, missing, &error) < 0 ||
        optimizer_choose(&mf->optimizer, &error) != 0) {
        return app_result(worker, AML_EINPUT, &error);
    }
    if (server_steps(mf) && mf->item_limit != MF_ITEM_LIMIT) {
        return aml_error(worker, AML_EINPUT, "--item-limit: expected --optimizer sgd, got %s", mf->optimizer.name);
    }
    if (!server_steps(mf) && mf->optimizer.rate != ITEM_RATE) {
        return aml_error(worker, AML_EINPUT, "--item-rate: expected --optimizer adagrad, got %s", mf->optimizer.name);
    }
    app->tables[USERS].width = width;
    app->tables[ITEMS].width = width;
    /* In the first iteration nodes exchange items' rows often, so that they learn factors that go together. */
    app->clocks_per_iteration = MF_CLOCKS * (1 + (int64_t)aml_staleness(worker));
    app->strategies = !server_steps(mf);
    app->tables[ITEMS].shares = server_steps(mf) ? 0 : item_shares(mf);
    app->strategy = server_steps(mf) || aml_staleness(worker) > 0 ? NULL : "sma";
    if (server_steps(mf)) {
        app->clocks_per_iteration = MF_SERVER_CLOCKS;
        optimizer_declare(&mf->optimizer, &app->tables[ITEMS]);
    }
    mf->schedule.iterations = (uint64_t)app->iterations;
    mf->seed = aml_seed(worker);
    mf->kernel = mf_kernels[vectors_wide()];
    const struct app_file files[] = {{.option = "data", .values = &mf->data}, {.option = "test", .values = &mf->test}};
    int result = app_check_data(worker, "ratings", mf->data.values[0], mf->test.values[0], mf->test_fraction);
    return result == 0 ? app_check_files(worker, files, 2, mf->model_out) : result;
}

/* ---- Reading ---- */

/* Adds the rating that was emitted last to the totals from index `first` on. */
static void add_totals(aml_worker *worker, unsigned first, float rating) {
    struct mf_sums sums = {0};
    mf_sums_add(&sums, rating);
    aml_total_add(worker, first + TOTAL_RATINGS, sums.ratings);
    aml_total_add(worker, first + TOTAL_SQUARES_HIGH, sums.squares_high);
    aml_total_add(worker, first + TOTAL_SQUARES_LOW, sums.squares_low);
}

/* Sets `value` to what the model learns instead of the rating: the rating itself, or its logarithm. */
static int learned_value(aml_worker *worker, const struct mf *mf, const struct aml_rating *rating, float *value) {
    *value = rating->value;
    if (mf->log1p && rating->value < 0) {
        return aml_error(worker, AML_EINPUT, "--log1p: expected ratings of at least 0, got %g", (double)rating->value);
    }
    if (mf->log1p) {
        *value = (float)log1p((double)rating->value);
    }
    if (fabsf(*value) < FLT_MIN) {
        *value = 0; /* subnormal numbers are imprecise, and arithmetic with them is slow */
    }
    return 0;
}

static int emit_ratings(aml_worker *worker, const struct mf *mf, const struct aml_rating *ratings, size_t count,
                        bool test) {
    for (size_t i = 0; i < count; i++) {
        uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        float value;
        int result = learned_value(worker, mf, &ratings[i], &value);
        if (result != 0) {
            return result;
        }
        bool held_out = test || app_held_out(aml_mix(mf->seed ^ keys[0], keys[1]), mf->test_fraction);
        int kept = aml_emit(worker, held_out ? AML_TEST : AML_TRAIN, keys, &value);
        if (kept < 0) {
            return kept;
        }
        if (kept == 1 && held_out) {
            add_totals(worker, TOTAL_TEST, value);
            aml_total_add(worker, TOTAL_TEST_COUNT, 1);
        } else if (kept == 1) {
            add_totals(worker, 0, value);
            aml_total_raise(worker, MAXIMUM_RATING, (double)value);
            aml_total_raise(worker, MAXIMUM_MINUS, -(double)value);
        }
    }
    return 0;
}

static int read_training(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context) {
    return emit_ratings(worker, context, ratings, count, false);
}

static int read_test(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context) {
    return emit_ratings(worker, context, ratings, count, true);
}

static bool skips_missing(const struct mf *mf) {
    return strcmp(mf->missing, "skip") == 0;
}

static int mf_read(aml_worker *worker, void *context) {
    struct mf *mf = context;
    const struct aml_ratings_options options = {.columns = mf->columns, .skip_missing = skips_missing(mf)};
    int result = 0;
    for (unsigned v = 0; v < mf->data.count && result == 0; v++) {
        result = aml_read_ratings_by(worker, mf->data.values[v], &options, read_training, mf);
    }
    for (unsigned v = 0; v < mf->test.count && result == 0; v++) {
        result = aml_read_ratings_by(worker, mf->test.values[v], &options, read_test, mf);
    }
    return result;
}

/* ---- Training ---- */

static struct mf_sums mf_sums(const aml_worker *worker, unsigned first, double count) {
    return (struct mf_sums){.count = count,
                            .ratings = aml_total(worker, first + TOTAL_RATINGS),
                            .squares_high = aml_total(worker, first + TOTAL_SQUARES_HIGH),
                            .squares_low = aml_total(worker, first + TOTAL_SQUARES_LOW)};
}

/* Computes the spread from all nodes' ratings; the same in every process. */
static int find_spread(aml_worker *worker, struct mf_spread *spread) {
    struct error error = {0};
    struct mf_sums sums = mf_sums(worker, 0, (double)aml_total_items(worker));
    int result = mf_spread_of(&sums, -aml_total_maximum(worker, MAXIMUM_MINUS),
                              aml_total_maximum(worker, MAXIMUM_RATING), spread, &error);
    return app_result(worker, result, &error);
}

static void mf_forget_items(struct mf *mf) {
    for (unsigned t = 0; mf->steps != NULL && t < mf->threads; t++) {
        free(mf->steps[t].users.values);
        free(mf->steps[t].items.values);
    }
    free(mf->steps);
    free(mf->item_counts.values);
    free(mf->user_penalties.values);
    free(mf->item_penalties.values);
    mf->steps = NULL;
    mf->item_counts = mf->user_penalties = mf->item_penalties = (struct mf_floats){0};
}

static int floats_open(aml_worker *worker, struct mf_floats *floats, uint32_t count) {
    *floats = (struct mf_floats){.values = calloc(count + 1U, sizeof *floats->values), .count = count};
    return floats->values != NULL ? 0 : aml_error(worker, AML_ENOMEM, "no memory for the counts of %u rows", count);
}

/* Returns the regularization of the bias of a row with this many ratings. The prior acts like bias_prior more
 * ratings at the mean. */
static float bias_penalty(const struct mf *mf, float ratings) {
    return (float)(mf->lambda_bias + mf->bias_prior / fmax((double)ratings, 1));
}

/* Counts this node's ratings of each user and item, and sets what depends on the counts. Users are spread over nodes
 * at random. So this node's counts of items, scaled up, estimate the counts on all nodes. */
static void count_ratings(const aml_worker *worker, struct mf *mf) {
    size_t count;
    const struct mf_item *items = aml_items(worker, &count);
    for (size_t i = 0; i < count; i++) {
        mf->item_counts.values[items[i].item]++;
        mf->user_penalties.values[items[i].user]++;
    }
    double nodes = (double)aml_total_items(worker) / (count > 0 ? (double)count : 1);
    double clocks = (double)aml_clocks_per_iteration(worker);
    for (uint32_t u = 0; u < mf->user_penalties.count; u++) {
        mf->user_penalties.values[u] = bias_penalty(mf, mf->user_penalties.values[u]);
    }
    for (uint32_t i = 0; i < mf->item_counts.count; i++) {
        float ratings = (float)(mf->item_counts.values[i] * nodes);
        mf->item_penalties.values[i] = bias_penalty(mf, ratings);
        mf->item_counts.values[i] = (float)(ratings / clocks);
    }
}

/* Notes when a few ratings decide what is learned. Logarithms (--log1p) need no such note. */
static void note_tail(aml_worker *worker, const struct mf *mf) {
    char text[256];
    if (!mf->log1p && mf_spread_has_tail(&mf->spread, text, sizeof text)) {
        aml_note(worker, "%s", text);
    }
}

static int mf_begin(aml_worker *worker, void *context) {
    struct mf *mf = context;
    mf_forget_items(mf);
    int result = find_spread(worker, &mf->spread);
    if (result != 0) {
        return result;
    }
    mf->threads = aml_threads(worker);
    mf->steps = calloc(mf->threads, sizeof *mf->steps);
    uint32_t users = aml_table_rows(worker, USERS).count;
    uint32_t items = aml_table_rows(worker, ITEMS).count;
    if (mf->steps == NULL || floats_open(worker, &mf->user_penalties, users) != 0 ||
        floats_open(worker, &mf->item_penalties, items) != 0 || floats_open(worker, &mf->item_counts, items) != 0) {
        return aml_error(worker, AML_ENOMEM, "no memory for the steps of %u threads", mf->threads);
    }
    count_ratings(worker, mf);
    note_tail(worker, mf);
    return 0;
}

static struct mf_sgd mf_sgd(aml_worker *worker, const struct mf *mf) {
    struct aml_rows users = aml_table_rows(worker, USERS);
    struct aml_rows items = aml_table_rows(worker, ITEMS);
    return (struct mf_sgd){.users = users.base,
                           .user_stride = users.stride,
                           .users_touched = users.touched,
                           .items = items.base,
                           .item_stride = items.stride,
                           .items_touched = items.touched,
                           .rank = (uint32_t)mf->rank,
                           .biases = mf_biases(mf),
                           .mean = mf->spread.mean,
                           .scale = 1 / mf->spread.unit,
                           .clip = mf->clip > 0 ? (float)mf->clip : INFINITY,
                           .lambda = (float)mf->lambda,
                           .lambda_bias = (float)mf->lambda_bias};
}

/* Adds to a metric a sum of squared errors from the kernel, whose ratings have standard deviation 1. */
static void add_squares(aml_worker *worker, const struct mf *mf, unsigned metric, double squares, size_t count) {
    double unit = (double)mf->spread.unit;
    aml_metric_add(worker, metric, squares * unit * unit, (double)count);
}

/* Sets `penalties` for `count` rows: the node's own, or a longer copy of the thread's. With --lots, rows of other
 * nodes' ratings may have been added since `begin`; this node does not know their numbers of ratings. */
static int find_penalties(aml_worker *worker, const struct mf *mf, const struct mf_floats *own,
                          struct mf_floats *longer, uint32_t count, const float **penalties) {
    if (own->count < count && longer->count < count) {
        free(longer->values);
        int result = floats_open(worker, longer, count);
        if (result != 0) {
            return result;
        }
        memcpy(longer->values, own->values, own->count * sizeof *own->values);
        for (uint32_t i = own->count; i < count; i++) {
            longer->values[i] = (float)mf->lambda_bias;
        }
    }
    *penalties = own->count < count ? longer->values : own->values;
    return 0;
}

/* Sets the thread's part of the items' shares, for an exchange after `parts` parts of the iteration. With --lots, items
 * of other nodes' ratings may have been added since `begin`. Their changes are summed, as this node does not know how
 * often they are rated. */
static void set_shares(aml_worker *worker, const struct mf *mf, float rate, struct mf_steps *steps) {
    struct aml_rows rows = aml_table_rows(worker, ITEMS);
    unsigned parts = aml_local_steps(worker);
    float limit = (float)(mf->item_limit / (1.0 + aml_staleness(worker)));
    if (steps->iteration == aml_iteration(worker) && steps->rows == rows.count && steps->parts == parts) {
        return;
    }
    unsigned shares = item_shares(mf);
    for (uint32_t i = (uint32_t)aml_thread(worker); i < rows.count; i += mf->threads) {
        float ratings = i < mf->item_counts.count ? mf->item_counts.values[i] * (float)parts : 0;
        float *own = rows.shares + (size_t)i * shares; /* of the factors, then of the bias */
        own[0] = mf_item_share(rate / MF_FACTOR_PACE, limit, aml_nodes(worker), ratings);
        own[shares - 1] = shares > 1 ? mf_item_share(rate, limit, aml_nodes(worker), ratings) : own[0];
    }
    steps->iteration = aml_iteration(worker);
    steps->rows = rows.count;
    steps->parts = parts;
}

/* Completes the thread's step parameters for this clock. */
static int prepare_steps(aml_worker *worker, const struct mf *mf, struct mf_sgd *sgd) {
    struct mf_steps *steps = &mf->steps[aml_thread(worker)];
    uint64_t iteration = aml_iteration(worker);
    uint32_t users = aml_table_rows(worker, USERS).count;
    uint32_t items = aml_table_rows(worker, ITEMS).count;
    sgd->rate = (float)mf_schedule_rate(&mf->schedule, iteration);
    int result = find_penalties(worker, mf, &mf->user_penalties, &steps->users, users, &sgd->user_penalties);
    if (result == 0) {
        result = find_penalties(worker, mf, &mf->item_penalties, &steps->items, items, &sgd->item_penalties);
    }
    if (result == 0 && !server_steps(mf) && mf->item_limit > 0 && aml_nodes(worker) > 1) {
        set_shares(worker, mf, sgd->rate, steps);
    }
    return result;
}

static int mf_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    struct mf *mf = context;
    struct mf_sgd sgd = mf_sgd(worker, mf);
    int result = prepare_steps(worker, mf, &sgd);
    if (result != 0) {
        return result;
    }
    uint64_t mode = mf_flush_begin();
    double squares = server_steps(mf) ? mf_gradient_pass(&sgd, aml_table_rows(worker, ITEMS).sums, items, count)
                                      : mf->kernel.sgd_pass(&sgd, items, count);
    mf_flush_end(mode);
    add_squares(worker, mf, TRAIN_RMSE, squares, count);
    return 0;
}

static int mf_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct mf *mf = context;
    struct mf_sgd sgd = mf_sgd(worker, mf);
    uint64_t mode = mf_flush_begin();
    double squares = mf->kernel.squared_error(&sgd, items, count);
    mf_flush_end(mode);
    add_squares(worker, mf, TEST_RMSE, squares, count);
    return 0;
}

/* ---- Saving ---- */

struct mf_save {
    aml_worker *worker;
    struct mf_model_writer *writer;
    enum mf_model_table table;
    size_t stride;
    struct mf_names names[2];
    uint32_t rank;
    double unit; /* unit of struct mf_spread */
};

/* Writes rows to the file. Rows are for ratings in units of their deviation, but predictions from the file are
 * ratings. So biases are multiplied by the unit, and the factors of both tables by its square root; the factors of
 * one table also get its sign. */
static int save_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct mf_save *save = context;
    struct error error = {0};
    double root = sqrt(fabs(save->unit));
    double factor = save->table == MF_MODEL_USERS ? root : save->unit / root;
    float scaled[MF_RANK_MAX + 1];
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        mf_names_want(&save->names[save->table], keys[i]);
        memcpy(scaled, (const unsigned char *)rows + i * save->stride, save->stride);
        for (uint32_t k = 0; k < save->stride / sizeof(float); k++) {
            scaled[k] = (float)((double)scaled[k] * (k < save->rank ? factor : save->unit));
        }
        result = mf_model_writer_rows(save->writer, save->table, &keys[i], scaled, save->stride, 1, &error);
    }
    return app_result(save->worker, result, &error);
}

/* Reads the rows' names from the files that --data or --test names. */
static int read_names(const struct mf *mf, const char *option, const struct aml_strings *values, struct mf_save *save,
                      struct error *error) {
    const struct ratings_options options = {
        .columns = mf->columns, .missing = skips_missing(mf) ? RATINGS_SKIP_MISSING : RATINGS_REFUSE_MISSING};
    struct input_list list;
    if (values->count == 0) {
        return 0;
    }
    int result = app_list_files(option, values, false, &list, error);
    for (size_t n = 0; n < list.count && result == 0; n++) {
        result = mf_names_read(save->names, list.names[n].path, &options, error);
    }
    input_list_close(&list);
    return result;
}

/* Saves the ids that are texts. If there are any, the input is read again for them. */
static int save_names(const struct mf *mf, struct mf_save *save) {
    struct error error = {0};
    int result = 0;
    if (save->names[MF_MODEL_USERS].count + save->names[MF_MODEL_ITEMS].count > 0) {
        result = read_names(mf, "data", &mf->data, save, &error);
        result = result != 0 ? result : read_names(mf, "test", &mf->test, save, &error);
        result = result != 0 ? result : mf_names_check(save->names, &error);
        result = result != 0 ? result : mf_model_writer_names(save->writer, save->names, &error);
    }
    return app_result(save->worker, result, &error);
}

/* Notes when the model is no better than the mean of the training ratings. */
static void compare_with_mean(aml_worker *worker, const struct mf_spread *spread) {
    struct mf_sums tests = mf_sums(worker, TOTAL_TEST, aml_total(worker, TOTAL_TEST_COUNT));
    double of_mean = mf_sums_deviation(&tests, (double)spread->mean);
    double rmse = aml_metric_value(worker, TEST_RMSE);
    const char *data = "test";
    if (!(tests.count > 0) || isnan(rmse)) {
        of_mean = fabs((double)spread->unit);
        rmse = aml_metric_value(worker, TRAIN_RMSE);
        data = "training";
    }
    if (rmse >= of_mean) {
        aml_note(worker,
                 "the model is no better than a constant: its RMSE on the %s ratings is %.6g, that of the training "
                 "ratings' mean %.6g",
                 data, rmse, of_mean);
    }
}

static int mf_finish(aml_worker *worker, void *context) {
    const struct mf *mf = context;
    struct mf_spread spread;
    int result = find_spread(worker, &spread); /* mf_begin may never have run in this process */
    if (result == 0) {
        compare_with_mean(worker, &spread);
    }
    if (mf->model_out == NULL || result != 0) {
        return result;
    }
    struct mf_model_header header = {.rank = (uint32_t)mf->rank,
                                     .biases = mf_biases(mf),
                                     .log1p = mf->log1p,
                                     .mean = spread.mean,
                                     .rating_min = spread.minimum,
                                     .rating_max = spread.maximum};
    struct mf_save save = {.worker = worker,
                           .rank = header.rank,
                           .unit = (double)spread.unit,
                           .stride = (header.rank + (header.biases ? 1U : 0U)) * sizeof(float)};
    struct error error = {0};
    result = mf_model_writer_open(&save.writer, mf->model_out, &header, &error);
    if (result != 0) {
        return app_result(worker, result, &error);
    }
    save.table = MF_MODEL_USERS;
    result = aml_scan(worker, USERS, save_rows, &save);
    if (result == 0) {
        save.table = MF_MODEL_ITEMS;
        result = aml_scan(worker, ITEMS, save_rows, &save);
    }
    result = result != 0 ? result : save_names(mf, &save);
    mf_names_close(&save.names[MF_MODEL_USERS]);
    mf_names_close(&save.names[MF_MODEL_ITEMS]);
    return app_result(worker, mf_model_writer_close(save.writer, result, &error), &error);
}

/* ---- The command line ---- */

static int run_job(struct mf *mf, const struct aml_option *options, int argc, char **argv) {
    struct aml_table tables[] = {
        [USERS] = {.name = "users", .type = AML_FLOAT32, .mode = AML_PUT, .start = users_start},
        [ITEMS] = {.name = "items", .type = AML_FLOAT32, .mode = AML_ADD, .start = items_start},
    };
    const struct aml_metric metrics[] = {
        [TRAIN_RMSE] = {.name = "train_rmse", .kind = AML_ROOT_MEAN},
        [TEST_RMSE] = {.name = "test_rmse", .kind = AML_ROOT_MEAN, .evaluated = 1},
    };
    static const char *const steering[] = {"rate", "decay", "item-rate", NULL};
    struct aml_app app = {
        .name = "mf",
        .summary = "matrix factorization of ratings; also: mf --predict MODEL --data FILE",
        .options = options,
        .steering = steering,
        .tables = tables,
        .table_count = 2,
        .metrics = metrics,
        .metric_count = 2,
        .item_rows = 2,
        .item_tables = {USERS, ITEMS},
        .item_bytes = sizeof(float),
        .evaluate_every = APP_EVALUATE_EVERY,
        .configure = mf_configure,
        .read_only_emits = 1,
        .read = mf_read,
        .lots = 1,
        .ssgd_iterations = 1,
        .begin = mf_begin,
        .clock = mf_clock,
        .evaluate = mf_evaluate,
        .finish = mf_finish,
        .context = mf,
    };
    int status = aml_main(&app, argc, argv);
    mf_forget_items(mf);
    return status;
}

int main(int argc, char **argv) {
    struct mf mf = {.missing = "refuse",
                    .rank = 16,
                    .lambda = 0.04,
                    .lambda_bias = 0.01,
                    .bias_prior = 2,
                    .clip = 2,
                    .item_limit = MF_ITEM_LIMIT,
                    .optimizer = {.name = "sgd", .rate = ITEM_RATE, .bare = UINT64_MAX, .samples = 1}};
    const char *predict = NULL; /* only for --help: predict.c parses `mf --predict` */
    const struct aml_option options[] = {
        {"data", "FILES", AML_OPTION_STRINGS, &mf.data, 0, 0,
         "ratings: lines of user, item, rating and perhaps time; files, folders or patterns (docs/apps.md)"},
        {"test", "FILES", AML_OPTION_STRINGS, &mf.test, 0, 0, "ratings to test on"},
        {"test-fraction", "X", AML_OPTION_REAL, &mf.test_fraction, 0, 0.9, "hold out this part of the data to test on"},
        {"columns", "TEXT", AML_OPTION_WORD, &mf.columns, 0, 0,
         "such as user=NAME,item=2,rating=3, by names or numbers; not given: by the header, else the first three"},
        {"missing-ratings", "HOW", AML_OPTION_WORD, &mf.missing, 0, 0, "refuse, or skip such lines"},
        {"rank", "N", AML_OPTION_INTEGER, &mf.rank, 1, MF_RANK_MAX, "factors of each user and item"},
        {"rate", "X", AML_OPTION_REAL, &mf.schedule.rate, 0, 10, "learning rate at first; 0: by --iterations"},
        {"decay", "X", AML_OPTION_REAL, &mf.schedule.decay, 0, 1, "its factor each iteration; 0: linear fall"},
        {"lambda", "X", AML_OPTION_REAL, &mf.lambda, 0, 100, "L2 regularization of the factors"},
        {"lambda-bias", "X", AML_OPTION_REAL, &mf.lambda_bias, 0, 100, "L2 regularization of the biases"},
        {"bias-prior", "X", AML_OPTION_REAL, &mf.bias_prior, 0, 1e6, "of biases: X more ratings at the mean"},
        {"clip", "X", AML_OPTION_REAL, &mf.clip, 0, 1e6, "limit of an error, in deviations; 0: none"},
        {"log1p", NULL, AML_OPTION_FLAG, &mf.log1p, 0, 0, "learn log(1 + rating), of counts and amounts"},
        {"item-limit", "X", AML_OPTION_REAL, &mf.item_limit, 0, 1e6, "of popular items' steps, sgd; 0: off"},
        {"optimizer", "NAME", AML_OPTION_WORD, &mf.optimizer.name, 0, 0, "of items' rows: sgd or adagrad"},
        {"item-rate", "X", AML_OPTION_REAL, &mf.optimizer.rate, 1e-6, 10, "adagrad: length of an item's first step"},
        {"no-biases", NULL, AML_OPTION_FLAG, &mf.no_biases, 0, 0, "factors only, no biases of users and items"},
        {"model-out", "FILE", AML_OPTION_STRING, &mf.model_out, 0, 0, "write the model there (docs/mf.md)"},
        {"predict", "MODEL", AML_OPTION_STRING, &predict, 0, 0, "no job: predict by a model; see mf --predict --help"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    return tool_is_asked("predict", argc, argv) ? mf_predict_main(argc, argv) : run_job(&mf, options, argc, argv);
}
