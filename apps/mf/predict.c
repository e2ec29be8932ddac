/* See predict.h. */
#include "apps/mf/predict.h"

#include "apps/app.h"
#include "apps/mf/model.h"
#include "apps/tool.h"
#include "workers/ratings.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

struct prediction {
    const char *model_path;
    struct aml_strings data;
    const char *path; /* of the file that is read */
    struct mf_model model;
    struct tool_output out; /* without a path data with ratings gives the RMSE alone */
    double squared_error;
    uint64_t count;
    bool rated;
    struct error *error;
};

static int predict_chunk(void *context, unsigned thread, const struct line_chunk *chunk, const struct rating *ratings,
                         size_t count) {
    struct prediction *prediction = context;
    (void)thread;
    (void)chunk;
    bool rated = count > 0 && !isnan(ratings[0].value); /* all lines of a file have ratings, or none has */
    if (prediction->count == 0 && count > 0) {
        prediction->rated = rated;
    } else if (count > 0 && rated != prediction->rated) {
        return error_set(prediction->error, AML_EINPUT, "%s: expected %s, as in the files before", prediction->path,
                         prediction->rated ? "ratings" : "lines without ratings");
    }
    bool lines = !prediction->rated || prediction->out.path != NULL;
    for (size_t i = 0; i < count; i++) {
        float value = mf_model_predict(&prediction->model, ratings[i].user, ratings[i].item);
        double error = (double)ratings[i].value - (double)value;
        prediction->squared_error += error * error;
        if (lines && fprintf(prediction->out.file, "%" PRIu64 "\t%" PRIu64 "\t%.6g\n", ratings[i].user, ratings[i].item,
                             (double)value) < 0) {
            return tool_output_failed(&prediction->out, prediction->error);
        }
    }
    prediction->count += count;
    return 0;
}

static int predict_file(struct prediction *prediction, struct error *error) {
    int result = tool_output_open(&prediction->out, error);
    if (result != 0) {
        return result;
    }
    struct input_list list;
    result = app_list_files("data", &prediction->data, false, &list, error);
    for (size_t n = 0; n < list.count && result == 0; n++) {
        prediction->path = list.names[n].path;
        /* In one thread, to keep the order of lines. */
        result = ratings_read(prediction->path, true, 1, predict_chunk, prediction, error);
    }
    input_list_close(&list);
    result = tool_output_close(&prediction->out, result, error);
    if (result == 0 && prediction->rated) {
        printf("ratings %" PRIu64 "  rmse %.6f\n", prediction->count,
               sqrt(prediction->squared_error / (double)prediction->count));
    } else if (result == 0 && prediction->out.path != NULL) {
        printf("predictions %" PRIu64 "\n", prediction->count);
    }
    return result;
}

static int predict(void *context, struct error *error) {
    struct prediction *prediction = context;
    prediction->error = error;
    if (prediction->data.count == 0) {
        return error_set(error, AML_EINPUT,
                         "--data FILE is missing: expected lines of 'user item', or ratings to compare with");
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
        {"data", "FILES", AML_OPTION_STRINGS, &prediction.data, 0, 0,
         "lines of 'user item' to predict, or ratings to compare with; as in training"},
        {"out", "FILE", AML_OPTION_STRING, &prediction.out.path, 0, 0,
         "write lines of user, item, prediction there, in the order of --data"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    const struct tool tool = {
        .app = "mf",
        .option = "predict",
        .usage = "mf --predict MODEL --data FILE [--out FILE]\n\n"
                 "With ratings as data: prints their RMSE, and with --out writes predictions. With lines\n"
                 "of 'user item': prints predictions, or with --out writes them.",
        .options = options,
        .run = predict,
        .context = &prediction};
    return tool_main(&tool, argc, argv);
}
