/* See predict.h. */
#include "apps/mlr/predict.h"

#include "apps/mlr/model.h"
#include "apps/samples/predict.h"

struct predictor {
    struct mlr_model model;
    struct mlr_prediction prediction;
};

static int load(void *context, const char *path, struct samples_model *model, struct error *error) {
    struct predictor *predictor = context;
    int result = mlr_model_load(path, &predictor->model, error);
    *model = (struct samples_model){.labels = &predictor->model.labels,
                                    .features = predictor->model.scale.features,
                                    .index_base = predictor->model.index_base,
                                    .numbering = &predictor->model.numbering,
                                    .hash = &predictor->model.hash,
                                    .images = predictor->model.images,
                                    .names = &predictor->model.names};
    return result;
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
                                          .formats = "auto, libsvm, text, csv, idx, criteo or tar",
                                          .load = load,
                                          .predict = predict,
                                          .close = predictor_close,
                                          .context = &predictor};
    return samples_predict_main(&how, argc, argv);
}
