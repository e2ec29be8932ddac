/* See predict.h. */
#include "apps/net/predict.h"

#include "agileml/base/memory.h"
#include "apps/net/compute.h"
#include "apps/net/model.h"
#include "apps/samples/input.h"
#include "apps/samples/predict.h"

#include <stdlib.h>
#include <string.h>

struct predictor {
    struct net_model model;
    struct compute compute;
    float *values; /* [features] scaled values of all features */
    float *scaled; /* [capacity] scaled values of the sample */
    uint32_t capacity;
};

static void predictor_close(void *context) {
    struct predictor *predictor = context;
    net_model_close(&predictor->model);
    compute_close(&predictor->compute);
    free(predictor->values);
    free(predictor->scaled);
    *predictor = (struct predictor){0};
}

static int load(void *context, const char *path, const struct samples_model **loaded, struct error *error) {
    struct predictor *predictor = context;
    struct net_model *model = &predictor->model;
    int result = net_model_load(path, model, error);
    result = result == 0 ? compute_room(&predictor->compute, &model->network, 1, 1, error) : result;
    if (result != 0) {
        predictor_close(predictor);
        return result;
    }
    predictor->values = memory_zeroed(model->samples.scale.features, sizeof *predictor->values);
    const struct network_shape *input = &model->network.input;
    if (input->image && (input->channels == 1 || input->channels == 3)) {
        model->samples.images = (struct image_shape){
            .width = (uint32_t)input->width, .height = (uint32_t)input->height, .channels = (uint32_t)input->channels};
    }
    *loaded = &model->samples;
    return 0;
}

static const float *predict(void *context, const struct sample *sample, uint32_t *best) {
    struct predictor *predictor = context;
    const struct net_model *model = &predictor->model;
    const uint32_t label = 0; /* any label, as the loss is not used */
    if (sample->count > predictor->capacity) {
        predictor->capacity = sample->count;
        predictor->scaled = memory_resized(predictor->scaled, predictor->capacity, sizeof *predictor->scaled);
    }
    scale_all(&model->samples.scale, sample, predictor->scaled, predictor->values);
    const struct compute_batch batch = {
        .samples = predictor->values, .stride = model->samples.scale.features, .count = 1, .labels = &label};
    compute_forward(&predictor->compute, model->parameters, &batch, 0);
    const float *probabilities = compute_probabilities(&predictor->compute);
    *best = 0;
    for (uint32_t k = 1; k < model->samples.labels.count; k++) {
        *best = probabilities[k] > probabilities[*best] ? k : *best;
    }
    return probabilities;
}

int net_predict_main(int argc, char **argv) {
    struct predictor predictor = {0};
    const struct samples_predictor how = {.app = "net",
                                          .formats = SAMPLES_FORMATS,
                                          .load = load,
                                          .predict = predict,
                                          .close = predictor_close,
                                          .context = &predictor};
    nn_blas_begin();
    return samples_predict_main(&how, argc, argv);
}
