/* See predict.h. */
#include "apps/mf/predict.h"

#include "agileml/base/log.h"
#include "agileml/base/options.h"
#include "apps/mf/model.h"
#include "workers/ratings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct prediction {
    struct mf_model model;
    FILE *out; /* NULL: RMSE only */
    const char *out_path;
    double squared_error;
    uint64_t count;
    struct error *error;
};

static int predict_chunk(void *context, unsigned thread, uint64_t chunk, const struct rating *ratings, size_t count) {
    struct prediction *prediction = context;
    (void)thread;
    (void)chunk;
    for (size_t i = 0; i < count; i++) {
        float value = mf_model_predict(&prediction->model, ratings[i].user, ratings[i].item);
        double error = (double)ratings[i].value - (double)value;
        prediction->squared_error += error * error;
        if (prediction->out != NULL && fprintf(prediction->out, "%" PRIu64 "\t%" PRIu64 "\t%.6g\n", ratings[i].user,
                                               ratings[i].item, (double)value) < 0) {
            return error_set(prediction->error, AML_EFAIL, "%s: %s", prediction->out_path, strerror(errno));
        }
    }
    prediction->count += count;
    return 0;
}

static int predict(const char *model, const char *data, const char *out, struct error *error) {
    struct prediction prediction = {.out_path = out, .error = error};
    if (data == NULL) {
        return error_set(error, AML_EINPUT, "--data FILE is missing: the ratings to predict");
    }
    int result = mf_model_load(model, &prediction.model, error);
    if (result != 0) {
        return result;
    }
    if (out != NULL) {
        prediction.out = fopen(out, "we");
        if (prediction.out == NULL) {
            mf_model_close(&prediction.model);
            return error_set(error, AML_EINPUT, "--out: %s: %s", out, strerror(errno));
        }
    }
    result = ratings_read(data, 1, predict_chunk, &prediction, error); /* one thread keeps the order of lines */
    if (prediction.out != NULL && fclose(prediction.out) != 0 && result == 0) {
        result = error_set(error, AML_EFAIL, "%s: %s", out, strerror(errno));
    }
    if (result == 0) {
        printf("ratings %" PRIu64 "  rmse %.6f\n", prediction.count,
               sqrt(prediction.squared_error / (double)prediction.count));
    }
    mf_model_close(&prediction.model);
    return result;
}

int mf_predict_main(int argc, char **argv) {
    const char *model = NULL;
    const char *data = NULL;
    const char *out = NULL;
    bool help = false;
    const struct aml_option options[] = {
        {"predict", "MODEL", AML_OPTION_STRING, &model, 0, 0, "a model that --model-out wrote"},
        {"data", "FILE", AML_OPTION_STRING, &data, 0, 0, "ratings to compare with; format as in training"},
        {"out", "FILE", AML_OPTION_STRING, &out, 0, 0, "write lines of user, item, prediction, in the order of --data"},
        {"help", NULL, AML_OPTION_FLAG, &help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    const struct aml_option *const tables[] = {options};
    struct error error = {0};
    int operand;
    log_set_name("mf");
    int result = options_parse(tables, 1, argc, argv, &operand, &error);
    if (result == 0 && help) {
        printf("usage: mf --predict MODEL --data FILE [--out FILE]\n\n");
        model = data = out = NULL;
        options_help(stdout, options);
        return 0;
    }
    if (result == 0 && operand < argc) {
        result = error_set(&error, AML_EINPUT, "unexpected argument '%s': expected options only", argv[operand]);
    }
    result = result != 0 ? result : predict(model, data, out, &error);
    if (result != 0) {
        log_error("%s", error.text);
    }
    return error_exit_status(result);
}
