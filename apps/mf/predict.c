/* See predict.h. */
#include "apps/mf/predict.h"

#include "apps/app.h"
#include "apps/mf/model.h"
#include "apps/tool.h"
#include "workers/data/rating_ids.h"
#include "workers/data/ratings.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct prediction {
    const char *model_path;
    struct aml_strings data;
    const char *columns; /* --columns */
    const char *path;    /* path of the file that is read */
    struct mf_model model;
    struct tool_output out; /* without a path, data with ratings gives only the RMSE */
    double squared_error;
    uint64_t count, rated; /* number of lines, and of those with a rating */
    bool lines;            /* whether a line is written for each line that is read */
    struct error *error;
};

/* Writes an id as in the data, but without unnecessary quotes. */
static void write_id(const struct text_field *id, FILE *file) {
    char text[RATING_ID_MAX];
    size_t length = text_field_copy(id, text, sizeof text);
    const struct text_field bare = {.text = text, .length = length};
    bool quotes = text[0] == '"' || memchr(text, '\t', length) != NULL || rating_is_missing(&bare);
    if (length == 0 || !quotes) {
        (void)fwrite(text, 1, length, file);
        return;
    }
    (void)putc('"', file);
    for (size_t i = 0; i < length; i++) {
        (void)fputs(text[i] == '"' ? "\"" : "", file);
        (void)putc(text[i], file);
    }
    (void)putc('"', file);
}

/* Writes the line of a rating. Returns 0 or AML_EFAIL. */
static int write_line(const struct prediction *prediction, const struct rating *rating,
                      const struct rating_texts *texts, float value) {
    static const char *const unknown[] = {"", "\tunknown user", "\tunknown item", "\tunknown user and item"};
    FILE *file = prediction->out.file;
    int missing = (mf_model_knows(&prediction->model, MF_MODEL_USERS, rating->user) ? 0 : 1) +
                  (mf_model_knows(&prediction->model, MF_MODEL_ITEMS, rating->item) ? 0 : 2);
    write_id(&texts->user, file);
    (void)putc('\t', file);
    write_id(&texts->item, file);
    return fprintf(file, "\t%.7g%s\n", (double)value, unknown[missing]) < 0 || ferror(file)
               ? tool_output_failed(&prediction->out, prediction->error)
               : 0;
}

static int predict_ratings(void *context, unsigned thread, const struct rating *ratings,
                           const struct rating_texts *texts, size_t count) {
    struct prediction *prediction = context;
    (void)thread;
    if (prediction->count == 0 && count > 0) {
        prediction->lines = prediction->out.path != NULL || isnan(ratings[0].value);
    }
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        float value = mf_model_predict(&prediction->model, ratings[i].user, ratings[i].item);
        if (!isnan(ratings[i].value)) {
            double error = (double)ratings[i].value - (double)value;
            prediction->squared_error += error * error;
            prediction->rated++;
        }
        result = prediction->lines ? write_line(prediction, &ratings[i], &texts[i], value) : 0;
    }
    prediction->count += count;
    return result;
}

/* Prints the quality of the predictions, by the ratings. Uses standard error when the predictions are on standard
 * output. */
static void print_summary(const struct prediction *prediction) {
    FILE *file = prediction->lines && prediction->out.path == NULL ? stderr : stdout;
    uint64_t unrated = prediction->count - prediction->rated;
    if (prediction->rated > 0) {
        fprintf(file, "ratings %" PRIu64 "  rmse %.7g", prediction->rated,
                sqrt(prediction->squared_error / (double)prediction->rated));
        if (unrated > 0) {
            fprintf(file, "  without rating %" PRIu64 "%s", unrated,
                    prediction->lines ? "" : " (--out FILE writes their predictions)");
        }
        fprintf(file, "\n");
    } else if (prediction->out.path != NULL) {
        fprintf(file, "predictions %" PRIu64 "\n", prediction->count);
    }
}

static void say_header(void *context, const char *text) {
    const struct prediction *prediction = context;
    fprintf(stderr, "mf: %s: %s\n", prediction->path, text);
}

static int predict_file(struct prediction *prediction, struct error *error) {
    int result = tool_output_open(&prediction->out, error);
    if (result != 0) {
        return result;
    }
    struct input_list list;
    result = app_list_files("data", &prediction->data, false, &list, error);
    const struct ratings_reader reader = {
        .options = {.columns = prediction->columns, .missing = RATINGS_TAKE_MISSING, .has_options = true},
        .threads = 1, /* one thread keeps the order of lines */
        .text_sink = predict_ratings,
        .say = say_header,
        .context = prediction};
    for (size_t n = 0; n < list.count && result == 0; n++) {
        prediction->path = list.names[n].path;
        result = ratings_read(&reader, prediction->path, error);
    }
    input_list_close(&list);
    result = tool_output_close(&prediction->out, result, error);
    if (result == 0) {
        print_summary(prediction);
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
    int result = ratings_columns_check(prediction->columns, error);
    result = result != 0 ? result : mf_model_load(prediction->model_path, &prediction->model, error);
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
        {"columns", "TEXT", AML_OPTION_WORD, &prediction.columns, 0, 0,
         "which columns count: user=NAME,item=2,rating=NAME or some of these; as in training"},
        {"out", "FILE", AML_OPTION_STRING, &prediction.out.path, 0, 0,
         "write lines of user, item, prediction there, in the order of --data"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    const struct tool tool = {
        .app = "mf",
        .option = "predict",
        .usage = "usage: mf --predict MODEL --data FILE [--out FILE]\n\n"
                 "With ratings as data: prints their RMSE, and with --out writes predictions. With lines\n"
                 "of 'user item': prints predictions, or with --out writes them. There is a line of user,\n"
                 "item, prediction for each line of the data; a fourth field says who is unknown.",
        .options = options,
        .run = predict,
        .context = &prediction};
    return tool_main(&tool, argc, argv);
}
