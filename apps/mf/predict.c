/* See predict.h. */
#include "apps/mf/predict.h"

#include "apps/mf/model.h"
#include "apps/tool.h"
#include "workers/ratings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct prediction {
    const char *model_path, *data, *out_path;
    struct mf_model model;
    FILE *out; /* NULL: RMSE only */
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

static int predict_file(struct prediction *prediction, struct error *error) {
    if (prediction->out_path != NULL) {
        prediction->out = fopen(prediction->out_path, "we");
        if (prediction->out == NULL) {
            return error_set(error, AML_EINPUT, "--out: %s: %s", prediction->out_path, strerror(errno));
        }
    }
    int result = ratings_read(prediction->data, 1, predict_chunk, prediction, error); /* one thread keeps the order */
    if (prediction->out != NULL && fclose(prediction->out) != 0 && result == 0) {
        result = error_set(error, AML_EFAIL, "%s: %s", prediction->out_path, strerror(errno));
    }
    if (result == 0) {
        printf("ratings %" PRIu64 "  rmse %.6f\n", prediction->count,
               sqrt(prediction->squared_error / (double)prediction->count));
    }
    return result;
}

static int predict(void *context, struct error *error) {
    struct prediction *prediction = context;
    prediction->error = error;
    if (prediction->data == NULL) {
        return error_set(error, AML_EINPUT, "--data FILE is missing: the ratings to predict");
    }
    int result = mf_model_load(prediction->model_path, &prediction->model, error);
    if (result == 0) {
        result = predict_file(prediction, error);
        mf_model_close(&prediction->model);
    }
    return result;
}

int mf_predict_main(int argc, char **argv) {
    struct prediction prediction = {0};
    const struct aml_option options[] = {
        {"predict", "MODEL", AML_OPTION_STRING, &prediction.model_path, 0, 0, "a model that --model-out wrote"},
        {"data", "FILE", AML_OPTION_STRING, &prediction.data, 0, 0, "ratings to compare with; format as in training"},
        {"out", "FILE", AML_OPTION_STRING, &prediction.out_path, 0, 0,
         "write lines of user, item, prediction, in the order of --data"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    const struct tool tool = {.app = "mf",
                              .option = "predict",
                              .usage = "mf --predict MODEL --data FILE [--out FILE]",
                              .options = options,
                              .run = predict,
                              .context = &prediction};
    return tool_main(&tool, argc, argv);
}
