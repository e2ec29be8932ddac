/* mf: matrix factorization of ratings by stochastic gradient descent, on AgileML. Users' rows are put rows, as each
 * user's ratings stay with one worker thread. Items' rows are summed over all workers every clock. With --optimizer the
 * servers make a step of the sum of their gradients instead. The arithmetic is in kernel.c and gradient.c, the model's
 * file in model.c, `mf --predict` in predict.c. */
#include "agileml.h"
#include "apps/app.h"
#include "apps/mf/gradient.h"
#include "apps/mf/kernel.h"
#include "apps/mf/model.h"
#include "apps/mf/names.h"
#include "apps/mf/predict.h"
#include "apps/optimizer.h"
#include "apps/tool.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    MF_CLOCKS = 8,        /* per iteration, for staleness 0 */
    MF_SERVER_CLOCKS = 64 /* per iteration where the servers make items' steps: each row then has one a clock */
};
enum { USERS = 0, ITEMS = 1 };                  /* tables */
enum { TRAIN_RMSE = 0, TEST_RMSE = 1 };         /* metrics */
enum { TOTAL_RATINGS = 0 };                     /* totals: the sum of ratings */
enum { MAXIMUM_RATING = 0, MAXIMUM_MINUS = 1 }; /* maxima: of the ratings, and of their negatives */

static const double ITEM_RATE = 0.1; /* default */

/* A thread's steps for one iteration. */
struct mf_steps {
    uint64_t iteration; /* the iteration that item_rates are for */
    float *item_rates;  /* [rate_count] by item slot */
    uint32_t rate_count;
};

struct mf {
    struct aml_strings data, test;
    const char *columns, *missing; /* --columns, --missing-ratings */
    const char *model_out;
    int64_t rank;
    double test_fraction, rate, decay, lambda, lambda_bias, item_limit;
    bool no_biases;
    struct optimizer optimizer; /* of items' rows; `rate` is --item-rate */
    uint64_t seed;
    struct mf_kernel kernel;
    float mean;
    /* Set by mf_begin for the node's present ratings: */
    float *item_counts; /* [item_count] ratings of each item slot in one clock, on all nodes together */
    uint32_t item_count;
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

/* Whether the servers make the steps of items' rows. */
static bool server_steps(const struct mf *mf) {
    return mf->optimizer.kind != OPTIMIZER_SGD;
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
    /* --item-limit shortens steps less with more clocks, and staleness tightens it. */
    app->clocks_per_iteration = MF_CLOCKS * (1 + (int64_t)aml_staleness(worker));
    if (server_steps(mf)) {
        app->clocks_per_iteration = MF_SERVER_CLOCKS;
        optimizer_declare(&mf->optimizer, &app->tables[ITEMS]);
    }
    mf->seed = aml_seed(worker);
    mf->kernel = mf_kernel_choose();
    const struct app_file files[] = {{.option = "data", .values = &mf->data}, {.option = "test", .values = &mf->test}};
    int result = app_check_data(worker, "ratings", mf->data.values[0], mf->test.values[0], mf->test_fraction);
    return result == 0 ? app_check_files(worker, files, 2, mf->model_out) : result;
}

/* ---- Reading ---- */

static int emit_ratings(aml_worker *worker, const struct mf *mf, const struct aml_rating *ratings, size_t count,
                        bool test) {
    for (size_t i = 0; i < count; i++) {
        uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        float value = ratings[i].value;
        bool held_out = test || app_held_out(aml_mix(mf->seed ^ keys[0], keys[1]), mf->test_fraction);
        enum aml_item_use use = held_out ? AML_TEST : AML_TRAIN;
        int kept = aml_emit(worker, use, keys, &value);
        if (kept < 0) {
            return kept;
        }
        if (kept == 1 && use == AML_TRAIN) {
            aml_total_add(worker, TOTAL_RATINGS, value);
            aml_total_raise(worker, MAXIMUM_RATING, value);
            aml_total_raise(worker, MAXIMUM_MINUS, -value);
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

static float mf_mean(const aml_worker *worker) {
    return (float)(aml_total(worker, TOTAL_RATINGS) / (double)aml_total_items(worker));
}

static void mf_forget_items(struct mf *mf) {
    for (unsigned t = 0; mf->steps != NULL && t < mf->threads; t++) {
        free(mf->steps[t].item_rates);
    }
    free(mf->steps);
    free(mf->item_counts);
    mf->steps = NULL;
    mf->item_counts = NULL;
}

static int mf_begin(aml_worker *worker, void *context) {
    struct mf *mf = context;
    size_t count;
    const struct mf_item *items = aml_items(worker, &count);
    mf_forget_items(mf);
    mf->mean = mf_mean(worker);
    mf->threads = aml_threads(worker);
    mf->item_count = aml_table_rows(worker, ITEMS).count;
    mf->item_counts = calloc(mf->item_count + 1U, sizeof *mf->item_counts);
    mf->steps = calloc(mf->threads, sizeof *mf->steps);
    if (mf->item_counts == NULL || mf->steps == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for the counts of %u items", mf->item_count);
    }
    for (size_t i = 0; i < count; i++) {
        mf->item_counts[items[i].item]++;
    }
    /* Users are spread over nodes at random, so this node's counts, scaled up, estimate those of all nodes. */
    double share = count > 0 ? (double)count : 1;
    double scale = (double)aml_total_items(worker) / share / (double)aml_clocks_per_iteration(worker);
    for (uint32_t i = 0; i < mf->item_count; i++) {
        mf->item_counts[i] = (float)(mf->item_counts[i] * scale);
    }
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
                           .mean = mf->mean,
                           .lambda = (float)mf->lambda,
                           .lambda_bias = (float)mf->lambda_bias};
}

/* Makes the thread's steps for the present iteration. Items that only other nodes' ratings are of (--lots) may have
 * come since `begin`; steps for them are not shortened, as this node does not know how often they are rated. */
static int make_item_rates(aml_worker *worker, const struct mf *mf, float rate, struct mf_steps *steps) {
    uint32_t count = aml_table_rows(worker, ITEMS).count;
    float limit = (float)(mf->item_limit / (1.0 + aml_staleness(worker)));
    if (steps->item_rates == NULL || steps->rate_count < count) {
        free(steps->item_rates);
        steps->item_rates = calloc(count + 1U, sizeof *steps->item_rates);
        steps->rate_count = count;
    }
    if (steps->item_rates == NULL) {
        return aml_error(worker, AML_ENOMEM, "no memory for the steps of %u items", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        float ratings = i < mf->item_count ? mf->item_counts[i] : 0;
        steps->item_rates[i] = mf_item_rate(rate, limit, aml_nodes(worker), ratings);
    }
    steps->iteration = aml_iteration(worker);
    return 0;
}

static int mf_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    struct mf *mf = context;
    struct mf_sgd sgd = mf_sgd(worker, mf);
    struct mf_steps *steps = &mf->steps[aml_thread(worker)];
    uint64_t iteration = aml_iteration(worker);
    sgd.rate = (float)(mf->rate * pow(mf->decay, (double)iteration - 1));
    if (server_steps(mf)) {
        unsigned char *sums = aml_table_rows(worker, ITEMS).sums;
        aml_metric_add(worker, TRAIN_RMSE, mf_gradient_pass(&sgd, sums, items, count), (double)count);
        return 0;
    }
    if (mf->item_limit > 0 && aml_nodes(worker) > 1) {
        bool stale = steps->iteration != iteration || steps->rate_count < aml_table_rows(worker, ITEMS).count;
        int result = stale ? make_item_rates(worker, mf, sgd.rate, steps) : 0;
        if (result != 0) {
            return result;
        }
        sgd.item_rates = steps->item_rates;
    }
    aml_metric_add(worker, TRAIN_RMSE, mf->kernel.sgd_pass(&sgd, items, count), (double)count);
    return 0;
}

static int mf_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct mf *mf = context;
    struct mf_sgd sgd = mf_sgd(worker, mf);
    aml_metric_add(worker, TEST_RMSE, mf->kernel.squared_error(&sgd, items, count), (double)count);
    return 0;
}

/* ---- Saving ---- */

struct mf_save {
    aml_worker *worker;
    struct mf_model_writer *writer;
    enum mf_model_table table;
    size_t stride;
    struct mf_names names[2];
};

static int save_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    struct mf_save *save = context;
    struct error error = {0};
    for (size_t i = 0; i < count; i++) {
        mf_names_want(&save->names[save->table], keys[i]);
    }
    int result = mf_model_writer_rows(save->writer, save->table, keys, rows, save->stride, count, &error);
    return app_result(save->worker, result, &error);
}

/* Reads the names of the rows from the files that --data or --test names. */
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

/* Saves the ids that are texts. The input is read once more for them, if there are any. */
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

static int mf_finish(aml_worker *worker, void *context) {
    const struct mf *mf = context;
    if (mf->model_out == NULL) {
        return 0;
    }
    struct mf_model_header header = {.rank = (uint32_t)mf->rank,
                                     .biases = mf_biases(mf),
                                     .mean = mf_mean(worker),
                                     .rating_min = (float)-aml_total_maximum(worker, MAXIMUM_MINUS),
                                     .rating_max = (float)aml_total_maximum(worker, MAXIMUM_RATING)};
    struct mf_save save = {.worker = worker, .stride = (header.rank + (header.biases ? 1U : 0U)) * sizeof(float)};
    struct error error = {0};
    int result = mf_model_writer_open(&save.writer, mf->model_out, &header, &error);
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
        .configure = mf_configure,
        .read_only_emits = 1,
        .read = mf_read,
        .lots = 1,
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
                    .rate = 0.025,
                    .decay = 0.92,
                    .lambda = 0.035,
                    .lambda_bias = 0.01,
                    .item_limit = MF_ITEM_LIMIT,
                    .optimizer = {.name = "sgd", .rate = ITEM_RATE, .bare = UINT64_MAX, .samples = 1}};
    const char *predict = NULL; /* for --help only: predict.c reads `mf --predict` */
    const struct aml_option options[] = {
        {"data", "FILES", AML_OPTION_STRINGS, &mf.data, 0, 0,
         "ratings: lines of user, item, rating and perhaps time; separated by commas, semicolons, tabs, spaces or ::; "
         "plain, gzip or zstd; a file, folder or pattern, or several (docs/apps.md)"},
        {"test", "FILES", AML_OPTION_STRINGS, &mf.test, 0, 0, "ratings to test on"},
        {"test-fraction", "X", AML_OPTION_REAL, &mf.test_fraction, 0, 0.9, "hold out this part of the data to test on"},
        {"columns", "TEXT", AML_OPTION_WORD, &mf.columns, 0, 0,
         "which columns count: user=NAME,item=2,rating=NAME or some of these, by the header's names or by numbers from "
         "1 on; default: by the header's names (docs/mf.md), or the first three"},
        {"missing-ratings", "WORD", AML_OPTION_WORD, &mf.missing, 0, 0, "lines without a rating: refuse or skip"},
        {"rank", "N", AML_OPTION_INTEGER, &mf.rank, 1, MF_RANK_MAX, "factors of each user and item"},
        {"rate", "X", AML_OPTION_REAL, &mf.rate, 0, 10, "learning rate of the first iteration"},
        {"decay", "X", AML_OPTION_REAL, &mf.decay, 0.01, 1, "the rate's factor from iteration to iteration"},
        {"lambda", "X", AML_OPTION_REAL, &mf.lambda, 0, 100, "L2 regularization of the factors"},
        {"lambda-bias", "X", AML_OPTION_REAL, &mf.lambda_bias, 0, 100, "L2 regularization of the biases"},
        {"item-limit", "X", AML_OPTION_REAL, &mf.item_limit, 0, 1e6,
         "of --optimizer sgd: bounds the sum of the nodes' steps on a popular item in one clock (docs/mf.md); 0: off"},
        {"optimizer", "NAME", AML_OPTION_WORD, &mf.optimizer.name, 0, 0,
         "of items' rows: sgd, or adagrad, in the servers (docs/mf.md)"},
        {"item-rate", "X", AML_OPTION_REAL, &mf.optimizer.rate, 1e-6, 10,
         "of --optimizer adagrad: the length of an item's first step"},
        {"no-biases", NULL, AML_OPTION_FLAG, &mf.no_biases, 0, 0, "factors only, no biases of users and items"},
        {"model-out", "FILE", AML_OPTION_STRING, &mf.model_out, 0, 0, "write the model there (docs/mf.md)"},
        {"predict", "MODEL", AML_OPTION_STRING, &predict, 0, 0,
         "no job: predict ratings by a model that --model-out wrote; see mf --predict --help"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    return tool_is_asked("predict", argc, argv) ? mf_predict_main(argc, argv) : run_job(&mf, options, argc, argv);
}
