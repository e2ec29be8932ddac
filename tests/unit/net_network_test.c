/* Networks of apps/net: descriptions accepted and refused; gradients of whole networks against differences of the
 * loss. Threads, batches and reused memory make no difference. */
#include "tests/test.h"
#include "tests/unit/net_trial.h"

#include <math.h>

/* ---- Descriptions ---- */

static void assert_kinds(const char *text, const char *kinds) {
    struct network network = trial_parsed(text, &TRIAL_COLOURS);
    assert_int_equal(network.count, strlen(kinds));
    for (size_t l = 0; l < network.count; l++) {
        assert_int_equal("cpdnrx"[network.layers[l].kind], kinds[l]);
    }
}

TEST(layers) {
    assert_kinds("", "d");
    assert_kinds(" ", "d");
    assert_kinds(NULL, "d");
    assert_kinds("dense 5", "drd");
    assert_kinds("conv 32x5, pool 2, dense 128", "cprdrd");
    assert_kinds("conv 4x3,conv 8x1 , norm,  pool 3,dense 7,norm,dropout 0.5", "crcnprdnrxd");
    assert_kinds("norm, dropout 0.1, pool 2, pool 2, norm", "nxppnd");
    struct network network = trial_parsed("conv 32x5, pool 2, dense 128", &TRIAL_IMAGES);
    assert_int_equal(network.layers[0].parameters, 26 * 32);
    assert_int_equal(network.layers[0].weights, 25 * 32);
    assert_int_equal(network_values(&network.layers[1].out), 3 * 3 * 32);
    assert_int_equal(network.layers[3].first, 26 * 32);
    assert_int_equal(network.layers[5].fan_in, 128);
    assert_int_equal(network.parameters, 26 * 32 + (9 * 32 + 1) * 128 + 129 * TRIAL_CLASSES);
    assert_int_equal(network.products, 2 * 42 * 25 * 32 + 3 * (9 * 32 * 128 + 128 * TRIAL_CLASSES));
}

TEST(bad_layers) {
    static const char *const refused[][2] = {
        {"conf 3x3", "layer 1, 'conf 3x3': expected conv FxK, pool K, dense N, norm or dropout P"},
        {"dense 8, ", "layer 2, '': expected conv FxK"},
        {",", "layer 1, ''"},
        {"dense", "expected dense N"},
        {"dense 0", "expected dense N"},
        {"dense -3", "expected dense N"},
        {"dense 65537", "N up to 65536"},
        {"dense 3 4", "expected dense N"},
        {"dense 99999999999999999999999", "expected dense N"},
        {"conv 3", "as conv 32x5"},
        {"conv 3x", "as conv 32x5"},
        {"conv 3x32", "K up to 31"},
        {"pool 1", "K from 2 to 16"},
        {"pool 7", "the images there have 7 x 6 pixels"},
        {"pool 3, pool 3", "layer 2, 'pool 3': the images there have 2 x 2 pixels"},
        {"dense 9, conv 3x3", "layer 2, 'conv 3x3': expected no conv behind a dense layer"},
        {"dense 9, pool 2", "expected no pool behind a dense layer"},
        {"norm 3", "expected norm alone"},
        {"norm", "layer 1, 'norm': expected images of more than one channel"},
        {"conv 1x3, norm", "layer 2, 'norm': expected images of more than one channel"},
        {"dense 1, norm", "layer 2, 'norm': expected more than one value before a norm"},
        {"dropout", "expected dropout P"},
        {"dropout 0", "expected dropout P"},
        {"dropout 1", "up to 0.95"},
        {"dropout nan", "expected dropout P"},
        {"dropout 0.50000000000000000000", "expected dropout P"},
        {"dense 65536, dense 65536", "more than 268435456 parameters up to layer 2"},
    };
    struct network network;
    for (size_t r = 0; r < sizeof refused / sizeof refused[0]; r++) {
        struct error error = {0};
        assert_int_equal(network_parse(&network, refused[r][0], &TRIAL_IMAGES, TRIAL_CLASSES, &error), AML_EINPUT);
        if (strstr(error.text, refused[r][1]) == NULL || strstr(error.text, "--layers: ") == NULL) {
            fail_msg("'%s': %s", refused[r][0], error.text);
        }
    }
    struct error error = {0};
    assert_int_equal(network_parse(&network, "conv 3x3", &TRIAL_VECTORS, TRIAL_CLASSES, &error), AML_EINPUT);
    char many[NETWORK_TEXT_MAX + 10] = "norm";
    for (size_t l = 1; l < NETWORK_LAYERS_MAX; l++) {
        strcat(many, ",norm");
    }
    error = (struct error){0};
    assert_int_equal(network_parse(&network, many, &TRIAL_COLOURS, TRIAL_CLASSES, &error),
                     AML_EINPUT); /* together with the output layer */
    assert_non_null(strstr(error.text, "expected at most 128 layers"));
    memset(many, ' ', sizeof many - 1);
    error = (struct error){0};
    assert_int_equal(network_parse(&network, many, &TRIAL_IMAGES, TRIAL_CLASSES, &error), AML_EINPUT);
}

TEST(needs_images) {
    assert_true(network_needs_images("conv 8x3, dense 5"));
    assert_true(network_needs_images("norm,pool 2"));
    assert_false(network_needs_images("norm, dense 5, dropout 0.5"));
    assert_false(network_needs_images(""));
    assert_false(network_needs_images(NULL));
}

TEST(start_values) {
    struct network network = trial_parsed("dense 300, norm", &TRIAL_VECTORS);
    size_t count = network.parameters + 100;
    FREED float *values = malloc(count * sizeof *values);
    FREED float *parts = malloc(count * sizeof *parts);
    double squares = 0;
    assert_non_null(values);
    assert_non_null(parts);
    network_start(&network, 5, 0, count, values);
    for (size_t first = 0; first < count; first += 64) { /* any part has the same values */
        network_start(&network, 5, first, count - first < 64 ? count - first : 64, parts + first);
    }
    assert_memory_equal(values, parts, count * sizeof *values);
    for (size_t i = 0; i < 9 * 300; i++) {
        squares += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(squares / (9 * 300) - 2.0 / 9) < 0.02);
    for (size_t i = 0; i < 300; i++) {
        assert_true(values[9 * 300 + i] == 0);  /* biases */
        assert_true(values[10 * 300 + i] == 1); /* gains */
        assert_true(values[10 * 300 + 300 + i] == 0);
    }
    assert_true(values[network.parameters] == 0);
    network_start(&network, 6, 0, count, parts);
    assert_memory_not_equal(values, parts, 300 * sizeof *values);
}

/* ---- Arithmetic ---- */

/* Compares the norm of the difference, as steps across the kink of a relu or maximum make a few differences wrong. */
static void assert_gradient(struct trial *trial, const char *text) {
    const float step = 0x1p-13F;
    FREED float *gradient = calloc(trial->network.parameters, sizeof *gradient);
    double squares = 0;
    double wrong = 0;
    assert_non_null(gradient);
    trial_loss(trial);
    trial_gradient(trial, 2, gradient);
    for (size_t i = 0; i < trial->network.parameters; i++) {
        float before = trial->parameters[i];
        trial->parameters[i] = before + step;
        double more = trial_loss(trial).loss;
        trial->parameters[i] = before - step;
        double less = trial_loss(trial).loss;
        trial->parameters[i] = before;
        double expected = 2 * (more - less) / (2 * (double)step);
        squares += expected * expected;
        wrong += (expected - (double)gradient[i]) * (expected - (double)gradient[i]);
    }
    if (!(squares > 0 && sqrt(wrong / squares) < 0.02)) {
        fail_msg("'%s': the gradient is wrong by %g of its length", text, sqrt(wrong / squares));
    }
}

TEST(gradients) {
    for (size_t n = 0; n < TRIAL_NETWORKS; n++) {
        CLOSED_BY(trial_close) struct trial trial;
        trial_open(&trial, trial_networks[n].text, trial_networks[n].input, 3);
        assert_gradient(&trial, trial_networks[n].text);
    }
}

/* Sets four fifths of the inputs of the first `dark` samples to `value`. */
static void darken(struct trial *trial, size_t dark, float value) {
    size_t inputs = network_values(&trial->network.input);
    for (size_t s = 0; s < dark; s++) {
        for (size_t i = 0; i < inputs; i++) {
            trial->samples[s * (inputs + 1) + i] = (s + i) % 5 == 0 ? trial->samples[s * (inputs + 1) + i] : value;
        }
    }
}

static bool skips_zeros(const struct trial *trial, unsigned thread, size_t samples) {
    struct nn_dense dense = network_dense(&trial->network.layers[trial->compute.first_trained]);
    return trial->compute.bits != NULL && nn_sparse_pays(&dense, samples, trial->compute.thread[thread].nonzeros);
}

/* A thread whose part of a batch has many zero inputs skips them; it does not skip tiny inputs. The results agree. */
TEST(zeros) {
    static const char *const networks[] = {"dense 20, dense 9", "dropout 0.2, dense 17, norm"};
    static const size_t darks[] = {TRIAL_SAMPLES, 5, 0}; /* the first thread has 5 samples, the second 6 */
    for (size_t t = 0; t < 2 * 3; t++) {
        const char *text = networks[t / 3];
        const size_t dark = darks[t % 3];
        CLOSED_BY(trial_close) struct trial zeros;
        CLOSED_BY(trial_close) struct trial tiny;
        trial_open(&zeros, text, &TRIAL_IMAGES, 2);
        trial_open(&tiny, text, &TRIAL_IMAGES, 2);
        darken(&zeros, dark, 0);
        darken(&tiny, dark, 1e-30F);
        struct nn_loss losses[2] = {trial_loss(&zeros), trial_loss(&tiny)};
        assert_true(skips_zeros(&zeros, 0, 5) == (dark > 0));
        assert_true(skips_zeros(&zeros, 1, 6) == (dark > 5));
        assert_false(skips_zeros(&tiny, 0, 5));
        assert_false(skips_zeros(&tiny, 1, 6));
        assert_true(fabs(losses[0].loss - losses[1].loss) < 1e-5 * losses[1].loss);
        for (size_t i = 0; i < TRIAL_SAMPLES * TRIAL_CLASSES; i++) {
            assert_true(fabsf(compute_probabilities(&zeros.compute)[i] - compute_probabilities(&tiny.compute)[i]) <
                        1e-5F);
        }
        float *gradients[2];
        for (int g = 0; g < 2; g++) {
            gradients[g] = calloc(zeros.network.parameters, sizeof(float));
            assert_non_null(gradients[g]);
            trial_gradient(g == 0 ? &zeros : &tiny, 1, gradients[g]);
        }
        for (size_t i = 0; i < zeros.network.parameters; i++) {
            assert_true(fabsf(gradients[0][i] - gradients[1][i]) < 1e-5F + 1e-4F * fabsf(gradients[1][i]));
        }
        assert_gradient(&zeros, text);
        free(gradients[0]);
        free(gradients[1]);
    }
    struct trial other;
    trial_open(&other, "", &TRIAL_IMAGES, 1); /* 4 outputs are too few to skip zeros */
    assert_null(other.compute.bits);
    trial_close(&other);
    trial_open(&other, "conv 20x3, dense 20", &TRIAL_IMAGES, 1); /* the dense layer's inputs come from a relu */
    assert_null(other.compute.bits);
    trial_close(&other);
}

/* Any number of threads gives the same, and memory is reused from batch to batch. */
TEST(threads) {
    for (size_t n = 0; n < TRIAL_NETWORKS; n++) {
        CLOSED_BY(trial_close) struct trial one;
        CLOSED_BY(trial_close) struct trial several;
        trial_open(&one, trial_networks[n].text, trial_networks[n].input, 1);
        trial_open(&several, trial_networks[n].text, trial_networks[n].input, 16); /* more than samples */
        size_t count = one.network.parameters;
        FREED float *expected = calloc(count, sizeof *expected);
        FREED float *gradient = calloc(count, sizeof *gradient);
        assert_non_null(expected);
        assert_non_null(gradient);
        double loss = trial_loss(&one).loss;
        trial_gradient(&one, 1, expected);
        for (int time = 0; time < 2; time++) {
            assert_true(fabs(trial_loss(&several).loss - loss) < 1e-4 * loss);
            trial_gradient(&several, 0.5F, gradient); /* adds to the gradient */
        }
        for (size_t i = 0; i < count; i++) {
            assert_true(fabsf(gradient[i] - expected[i]) < 1e-4F + 1e-3F * fabsf(expected[i]));
        }
    }
}

/* Evaluation drops nothing: a sample's probabilities do not depend on the rest of its batch. */
TEST(forward_alone) {
    CLOSED_BY(trial_close) struct trial trial;
    trial_open(&trial, "conv 4x3, pool 2, dropout 0.5, dense 9", &TRIAL_IMAGES, 2);
    trial.batch.keys = NULL;
    trial_loss(&trial);
    float expected[TRIAL_CLASSES];
    memcpy(expected, compute_probabilities(&trial.compute) + (TRIAL_SAMPLES - 1) * TRIAL_CLASSES, sizeof expected);
    trial.batch.samples += (TRIAL_SAMPLES - 1) * trial.batch.stride;
    trial.batch.labels += TRIAL_SAMPLES - 1;
    trial.batch.count = 1;
    trial_loss(&trial);
    float sum = 0;
    for (size_t k = 0; k < TRIAL_CLASSES; k++) {
        assert_true(fabsf(compute_probabilities(&trial.compute)[k] - expected[k]) < 1e-5F);
        sum += expected[k];
    }
    assert_true(fabsf(sum - 1) < 1e-5F);
}

int main(void) {
    nn_blas_begin();
    return tests_run(NULL, NULL);
}
