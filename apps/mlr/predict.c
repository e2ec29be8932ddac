/* See predict.h. */
#include "apps/mlr/predict.h"

#include "apps/mlr/model.h"
#include "apps/samples/input.h"
#include "apps/samples/predict.h"

struct predictor {
    struct mlr_model model;
    struct mlr_prediction prediction;
};

static int load(void *context, const char *path, const struct samples_model **model, struct error *error) {
    struct predictor *predictor = context;
    *model = &predictor->model.samples;
    return mlr_model_load(path, &predictor->model, error);
}

static const float *predict(void *context, const struct sample *sample, uint32_t *best) {
    struct predictor *predictor = context;
    mlr_model_predict(&predictor->model, sample, &predictor->prediction);
    *best = predictor->prediction.best;
    return predictor->prediction.probabilities;
}

static void predictor_close(void *context) {
    struct predictor *predictor = context;
    mlr_prediction_close(&predictor->prediction);
    mlr_model_close(&predictor->model);
}

int mlr_predict_main(int argc, char **argv) {
    struct predictor predictor = {0};
    const struct samples_predictor how = {.app = "mlr",
                                          .formats = SAMPLES_FORMATS_WITH_CRITEO,
                                          .load = load,
                                          .predict = predict,
                                          .close = predictor_close,
                                          .context = &predictor};
    return samples_predict_main(&how, argc, argv);
}
