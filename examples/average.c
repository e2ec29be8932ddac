/* The average rating of every item, learned the slow way: gradient steps on one parameter per item. A complete
 * AgileML app: the data, the parameters, a worker's work in a clock, the report, and the saved result. */
#include <agileml.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct average {
    const char *data, *out;
    double rate;
};

static int average_read_some(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context) {
    (void)context;
    for (size_t i = 0; i < count; i++) { /* an item names its rows and carries bytes of its own */
        int kept = aml_emit(worker, AML_TRAIN, &ratings[i].item, &ratings[i].value);
        if (kept < 0) {
            return kept;
        }
    }
    return 0;
}

static int average_read(aml_worker *worker, void *context) {
    const struct average *average = context;
    if (average->data == NULL) {
        return aml_error(worker, AML_EINPUT, "--data FILE is missing");
    }
    return aml_read_ratings(worker, average->data, average_read_some, context);
}

struct item { /* the layout is described by aml_app below */
    uint32_t slot;
    float rating;
};

static int average_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct average *average = context;
    const struct item *item = items;
    struct aml_rows means = aml_table_rows(worker, 0);
    for (size_t i = 0; i < count; i++) {
        float *mean = aml_row(&means, item[i].slot);
        float error = item[i].rating - *mean;
        *mean += (float)average->rate * error;
        aml_metric_add(worker, 0, error * error, 1);
    }
    return 0;
}

static int average_write(void *context, const uint64_t *keys, const void *rows, size_t count) {
    const float *means = rows;
    for (size_t i = 0; i < count; i++) {
        fprintf(context, "%" PRIu64 "\t%.4f\n", keys[i], (double)means[i]);
    }
    return 0;
}

static int average_finish(aml_worker *worker, void *context) { /* runs on one node, after the last clock */
    const struct average *average = context;
    if (average->out == NULL) {
        return 0;
    }
    FILE *file = fopen(average->out, "w");
    if (file == NULL) {
        return aml_error(worker, AML_EINPUT, "--out %s: %s", average->out, strerror(errno));
    }
    int result = aml_scan(worker, 0, average_write, file);
    int failed = ferror(file);
    failed |= fclose(file);
    return result == 0 && failed ? aml_error(worker, AML_EFAIL, "--out %s: can't write it", average->out) : result;
}

int main(int argc, char **argv) {
    struct average average = {.rate = 0.05};
    const struct aml_option options[] = {
        {"data", "FILE", AML_OPTION_STRING, &average.data, 0, 0, "ratings: lines of user, item, rating"},
        {"out", "FILE", AML_OPTION_STRING, &average.out, 0, 0, "write the averages there: lines of item, average"},
        {"rate", "X", AML_OPTION_REAL, &average.rate, 0, 1, "learning rate"},
        {0}};
    struct aml_table tables[] = {{.name = "means", .type = AML_FLOAT32, .mode = AML_ADD, .width = 1}};
    const struct aml_metric metrics[] = {{.name = "rmse", .kind = AML_ROOT_MEAN}};
    struct aml_app app = {.name = "average",
                          .summary = "average ratings by gradient descent",
                          .options = options,
                          .tables = tables,
                          .table_count = 1,
                          .metrics = metrics,
                          .metric_count = 1,
                          .item_rows = 1,
                          .item_tables = {0},
                          .item_bytes = sizeof(float),
                          .read_only_emits = 1,
                          .read = average_read,
                          .clock = average_clock,
                          .finish = average_finish,
                          .context = &average};
    return aml_main(&app, argc, argv);
}
