/* See net_trial.h. */
#include "tests/unit/net_trial.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

const struct network_shape TRIAL_IMAGES = {.height = 6, .width = 7, .channels = 1, .image = true};
const struct network_shape TRIAL_COLOURS = {.height = 6, .width = 5, .channels = 3, .image = true};
const struct network_shape TRIAL_VECTORS = {.height = 1, .width = 1, .channels = 9};

const struct trial_network trial_networks[TRIAL_NETWORKS] = {
    {"", &TRIAL_VECTORS},
    {"dense 8", &TRIAL_VECTORS},
    {"dropout 0.3, dense 12, norm, dropout 0.4, dense 6", &TRIAL_VECTORS},
    {"norm, dense 8", &TRIAL_VECTORS},
    {"conv 4x3, pool 2, dense 9", &TRIAL_IMAGES},
    {"conv 3x3, conv 4x2, norm, pool 2, conv 2x3, dropout 0.2, pool 3, dense 5, dense 6", &TRIAL_IMAGES},
    {"conv 4x3, norm, dropout 0.3, pool 2, pool 2, norm", &TRIAL_COLOURS},
    {"pool 2, conv 3x5, conv 1x3, conv 2x3", &TRIAL_COLOURS},
};

struct network trial_parsed(const char *text, const struct network_shape *input) {
    struct network network;
    struct error error = {0};
    if (network_parse(&network, text, input, TRIAL_CLASSES, &error) != 0) {
        fail_msg("'%s': %s", text, error.text);
    }
    return network;
}

void trial_open(struct trial *trial, const char *text, const struct network_shape *input, unsigned threads) {
    struct error error = {0};
    *trial = (struct trial){.network = trial_parsed(text, input)};
    size_t stride = network_values(input) + 1;
    trial->samples = malloc(TRIAL_SAMPLES * stride * sizeof(float));
    trial->parameters = malloc(trial->network.parameters * sizeof(float));
    assert_non_null(trial->samples);
    assert_non_null(trial->parameters);
    for (size_t i = 0; i < TRIAL_SAMPLES * stride; i++) {
        trial->samples[i] = (float)(int32_t)(hash_mix(i) >> 40) * 0x1p-23F - 0.5F;
    }
    for (size_t s = 0; s < TRIAL_SAMPLES; s++) {
        trial->labels[s] = (uint32_t)(hash_mix(s) % TRIAL_CLASSES);
        trial->keys[s] = s;
    }
    network_start(&trial->network, 1, 0, trial->network.parameters, trial->parameters);
    for (size_t i = 0; i < trial->network.parameters; i++) {
        trial->parameters[i] += (float)(hash_mix(i) >> 40) * 0x1p-26F; /* keeps relus away from 0 */
    }
    trial->batch = (struct compute_batch){.samples = trial->samples,
                                          .stride = stride,
                                          .count = TRIAL_SAMPLES,
                                          .labels = trial->labels,
                                          .keys = trial->keys};
    assert_int_equal(compute_room(&trial->compute, &trial->network, TRIAL_SAMPLES, threads, &error), 0);
}

void trial_close(struct trial *trial) {
    compute_close(&trial->compute);
    free(trial->samples);
    free(trial->parameters);
}

struct nn_loss trial_loss(struct trial *trial) {
    struct nn_loss sum = {0};
    for (unsigned t = 0; t < trial->compute.threads; t++) {
        struct nn_loss *loss = &trial->compute.thread[t].loss;
        *loss = (struct nn_loss){0};
        compute_forward(&trial->compute, trial->parameters, &trial->batch, t);
        sum.loss += loss->loss;
        sum.correct += loss->correct;
    }
    return sum;
}

void trial_gradient(struct trial *trial, float scale, float *gradient) {
    for (unsigned t = 0; t < trial->compute.threads; t++) {
        compute_backward(&trial->compute, trial->parameters, &trial->batch, t);
    }
    for (unsigned t = 0; t < trial->compute.threads; t++) {
        for (size_t l = 0; l < trial->compute.network->count; l++) {
            compute_gradient(&trial->compute, &trial->batch, l, t, scale, gradient);
        }
    }
}
