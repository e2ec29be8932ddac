/* Every implementation of mlr's loops against the reference, on shapes that are no multiples of a vector; the
 * reference against the gradient's definition. Matrix products against plain loops, and steps in parts against whole
 * steps. Benchmarks measure the speed. */
#include "apps/mlr/kernel.h"
#include "apps/mlr/narrow.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { SAMPLES = 37, FEATURES = 53 };

static const uint32_t CLASSES[] = {2, 3, 7, 8, 10, 16, 17, 30, 33, 100};
enum { CLASS_COUNTS = sizeof CLASSES / sizeof CLASSES[0] };
#define PADDING 12345.0F

/* A uniform random number in -1..1, without rounding. */
static float random_value(uint64_t *state) {
    *state += 1;
    return (float)(int32_t)(hash_mix(*state) >> 40) * 0x1p-23F - 1;
}

/* ---- The reference: the formulas, one number at a time, in double ---- */

static void reference_softmax(float *logits, const uint32_t *labels, size_t count, uint32_t classes,
                              struct nn_loss *loss) {
    for (size_t s = 0; s < count; s++) {
        float *z = logits + s * classes;
        uint32_t best = 0;
        double sum = 0;
        for (uint32_t k = 1; k < classes; k++) {
            best = z[k] > z[best] ? k : best;
        }
        double largest = (double)z[best];
        for (uint32_t k = 0; k < classes; k++) {
            sum += exp((double)z[k] - largest);
        }
        loss->loss += log(sum) - ((double)z[labels[s]] - largest);
        loss->correct += best == labels[s];
        for (uint32_t k = 0; k < classes; k++) {
            z[k] = (float)(exp((double)z[k] - largest) / sum - (k == labels[s] ? 1 : 0));
        }
    }
}

static float value_of(const struct mlr_sparse *sample, uint32_t i) {
    return sample->values != NULL ? sample->values[i] : 1;
}

static void reference_sparse_logits(const struct mlr_weights *weights, const struct mlr_sparse *samples, size_t count,
                                    float *logits) {
    for (size_t s = 0; s < count; s++) {
        for (uint32_t k = 0; k < weights->classes; k++) {
            double z = (double)weights->rows[weights->bias * weights->stride + k];
            for (uint32_t i = 0; i < samples[s].count; i++) {
                z += (double)value_of(&samples[s], i) *
                     (double)weights->rows[samples[s].features[i] * weights->stride + k];
            }
            logits[s * weights->classes + k] = (float)z;
        }
    }
}

static bool in_part(uint32_t feature, unsigned part, unsigned parts) {
    return feature / MLR_PART_ROWS % parts == part;
}

static float keep_of(const struct mlr_step *step, const struct mlr_pace *pace) {
    return fmaxf(1 - step->decay * pace->decay, 0);
}

static void reference_sparse_update(const struct mlr_weights *weights, const struct mlr_sparse *samples,
                                    const float *errors, size_t count, const struct mlr_step *step, unsigned part,
                                    unsigned parts, unsigned char *touched) {
    for (size_t s = 0; s < count; s++) {
        const float *e = errors + s * weights->classes;
        for (uint32_t i = 0; i < samples[s].count; i++) {
            uint32_t feature = samples[s].features[i];
            if (!in_part(feature, part, parts)) {
                continue;
            }
            float *w = weights->rows + feature * weights->stride;
            const struct mlr_pace *pace = &step->paces[feature];
            for (uint32_t k = 0; k < weights->classes; k++) {
                w[k] = keep_of(step, pace) * w[k] - step->scale * pace->rate * value_of(&samples[s], i) * e[k];
            }
            touched[feature] = 1;
        }
        if (in_part(weights->bias, part, parts)) {
            float *b = weights->rows + weights->bias * weights->stride;
            for (uint32_t k = 0; k < weights->classes; k++) {
                b[k] -= step->scale * step->paces[weights->bias].rate * e[k];
            }
            touched[weights->bias] = 1;
        }
    }
}

static const struct mlr_kernel REFERENCE = {"reference", reference_softmax, reference_sparse_logits,
                                            reference_sparse_update};

/* Fills `kernels` with the reference and the implementations that this processor runs. Returns their number. */
static size_t list_kernels(struct mlr_kernel kernels[1 + MLR_KERNELS]) {
    size_t count = vectors_wide() > 0 ? 2 : 1;
    kernels[0] = REFERENCE;
    memcpy(kernels + 1, mlr_kernels, count * sizeof *kernels);
    return 1 + count;
}

/* ---- Problems ---- */

/* A made-up problem, as dense and as sparse samples. About every third value is zero; sample 5 has only zeros. */
struct problem {
    struct mlr_weights weights;
    float *samples; /* [SAMPLES][FEATURES + 3] */
    struct mlr_dense dense;
    struct mlr_sparse sparse[SAMPLES];
    uint32_t labels[SAMPLES];
    uint32_t *features;
    float *values;
    struct mlr_pace paces[FEATURES + 1];
    unsigned char touched[FEATURES + 1];
};

static void make_samples(struct problem *problem, uint64_t *state) {
    size_t stride = FEATURES + 3;
    size_t used = 0;
    problem->samples = calloc(SAMPLES * stride, sizeof(float));
    problem->features = calloc(SAMPLES * FEATURES, sizeof(uint32_t));
    problem->values = calloc(SAMPLES * FEATURES, sizeof(float));
    problem->dense =
        (struct mlr_dense){.samples = problem->samples, .stride = stride, .count = SAMPLES, .features = FEATURES};
    for (size_t s = 0; s < SAMPLES; s++) {
        struct mlr_sparse *x = &problem->sparse[s];
        *x = (struct mlr_sparse){.features = problem->features + used, .values = problem->values + used};
        for (uint32_t f = 0; f < stride; f++) {
            float value = random_value(state);
            bool zero = s == 5 || value < -0.3F;
            problem->samples[s * stride + f] = f >= FEATURES ? PADDING : zero ? 0 : value;
            if (f < FEATURES && !zero) {
                problem->features[used] = f;
                problem->values[used++] = value;
                x->count++;
            }
        }
    }
}

static void problem_free(void *context) {
    struct problem *problem = context;
    free(problem->weights.rows);
    free(problem->samples);
    free(problem->features);
    free(problem->values);
    free(problem);
}

static struct problem *problem_new(uint32_t classes, size_t padding) {
    struct problem *problem = calloc(1, sizeof *problem);
    at_end(problem_free, problem);
    uint64_t state = classes;
    size_t stride = classes + padding;
    assert_non_null(problem);
    problem->weights = (struct mlr_weights){.rows = malloc((FEATURES + 1) * stride * sizeof(float)),
                                            .stride = stride,
                                            .bias = FEATURES,
                                            .classes = classes};
    for (size_t f = 0; f <= FEATURES; f++) {
        for (size_t k = 0; k < stride; k++) {
            problem->weights.rows[f * stride + k] = k < classes ? random_value(&state) : PADDING;
        }
        problem->paces[f] = (struct mlr_pace){.decay = f < FEATURES ? 0.5F + 0.01F * (float)f : 0, .rate = 1};
    }
    make_samples(problem, &state);
    for (size_t s = 0; s < SAMPLES; s++) {
        problem->labels[s] = (uint32_t)(hash_mix(s) % classes);
    }
    return problem;
}

static void assert_close(const float *a, const float *b, size_t count, float tolerance) {
    for (size_t i = 0; i < count; i++) {
        if (!(fabsf(a[i] - b[i]) <= tolerance * (1 + fabsf(b[i])))) {
            fail_msg("value %zu is %.9g, expected %.9g", i, (double)a[i], (double)b[i]);
        }
    }
}

static size_t weight_count(const struct problem *problem) {
    return (FEATURES + 1) * problem->weights.stride;
}

/* Runs `check` for each implementation and shape, beside the reference. */
static void for_each_shape(void (*check)(const struct mlr_kernel *kernel, uint32_t classes, size_t padding)) {
    struct mlr_kernel kernels[1 + MLR_KERNELS];
    size_t count = list_kernels(kernels);
    assert_true(count >= 2);
    for (size_t i = 1; i < count; i++) {
        for (size_t c = 0; c < CLASS_COUNTS; c++) {
            check(&kernels[i], CLASSES[c], c % 4);
        }
    }
}

/* ---- The reference against the definitions ---- */

static double loss_of(const struct problem *problem) {
    FREED float *logits = calloc(SAMPLES * problem->weights.classes, sizeof(float));
    struct nn_loss loss = {0};
    REFERENCE.sparse_logits(&problem->weights, problem->sparse, SAMPLES, logits);
    REFERENCE.softmax(logits, problem->labels, SAMPLES, problem->weights.classes, &loss);
    return loss.loss;
}

TEST(a_step_follows_the_gradient) {
    struct problem *problem = problem_new(7, 1);
    struct problem *stepped = problem_new(7, 1);
    FREED float *errors = calloc(SAMPLES * 7, sizeof(float));
    struct nn_loss loss = {0};
    const struct mlr_step step = {.scale = 1, .paces = problem->paces}; /* decay 0 */
    REFERENCE.sparse_logits(&problem->weights, problem->sparse, SAMPLES, errors);
    REFERENCE.softmax(errors, problem->labels, SAMPLES, 7, &loss);
    REFERENCE.sparse_update(&stepped->weights, problem->sparse, errors, SAMPLES, &step, 0, 1, stepped->touched);
    for (uint32_t f = 0; f <= FEATURES; f += 4) {
        for (uint32_t k = 0; k < 7; k++) {
            float *weight = &problem->weights.rows[f * problem->weights.stride + k];
            float before = *weight;
            double gradient = (double)(before - stepped->weights.rows[f * problem->weights.stride + k]);
            *weight = before + 0.01F;
            double above = loss_of(problem);
            *weight = before - 0.01F;
            double below = loss_of(problem);
            *weight = before;
            assert_true(fabs((above - below) / 0.02 - gradient) < 2e-3 * (1 + fabs(gradient)));
        }
    }
}

TEST(softmax_by_hand) {
    struct mlr_kernel kernels[1 + MLR_KERNELS];
    size_t count = list_kernels(kernels);
    for (size_t i = 0; i < count; i++) {
        float logits[] = {logf(1), logf(2), logf(5), 3, 3, -200, 1000, 0, -1000};
        const uint32_t labels[] = {1, 1, 0};
        const float expected[] = {0.125F, 0.25F - 1, 0.625F, 0.5F, 0.5F - 1, 0, 0, 0, 0};
        struct nn_loss loss = {.loss = 1, .correct = 10};
        kernels[i].softmax(logits, labels, 3, 3, &loss);
        assert_close(logits, expected, 9, 1e-6F);
        assert_true(fabs(loss.loss - (1 + log(4) + log(2))) < 1e-6);
        assert_int_equal(loss.correct, 11); /* of equal logits the first is predicted */
    }
}

TEST(what_is_not_finite_shows_in_the_loss) {
    struct mlr_kernel kernels[1 + MLR_KERNELS];
    size_t count = list_kernels(kernels);
    for (size_t i = 0; i < count; i++) {
        for (unsigned where = 0; where < 3; where++) {
            float logits[] = {1, 2, 3};
            const uint32_t label = 1;
            struct nn_loss loss = {0};
            logits[where] = NAN;
            kernels[i].softmax(logits, &label, 1, 3, &loss);
            assert_true(!isfinite(loss.loss));
        }
    }
}

/* ---- The implementations against the reference ---- */

static void check_softmax(const struct mlr_kernel *kernel, uint32_t classes, size_t padding) {
    FREED float *a = calloc(SAMPLES * classes, sizeof(float));
    FREED float *b = calloc(SAMPLES * classes, sizeof(float));
    struct problem *problem = problem_new(classes, padding);
    struct nn_loss fast = {0};
    struct nn_loss plain = {0};
    uint64_t state = classes;
    for (size_t i = 0; i < SAMPLES * (size_t)classes; i++) {
        a[i] = b[i] = 30 * random_value(&state); /* some exponentials underflow */
    }
    kernel->softmax(a, problem->labels, SAMPLES, classes, &fast);
    REFERENCE.softmax(b, problem->labels, SAMPLES, classes, &plain);
    assert_close(a, b, SAMPLES * (size_t)classes, 1e-6F);
    assert_true(fabs(fast.loss - plain.loss) < 1e-5 * plain.loss);
    assert_int_equal(fast.correct, plain.correct);
}

TEST(softmax) {
    for_each_shape(check_softmax);
}

static void check_sparse_logits(const struct mlr_kernel *kernel, uint32_t classes, size_t padding) {
    FREED float *a = calloc(SAMPLES * classes, sizeof(float));
    FREED float *b = calloc(SAMPLES * classes, sizeof(float));
    struct problem *problem = problem_new(classes, padding);
    kernel->sparse_logits(&problem->weights, problem->sparse, SAMPLES, a);
    REFERENCE.sparse_logits(&problem->weights, problem->sparse, SAMPLES, b);
    assert_close(a, b, SAMPLES * (size_t)classes, 1e-5F);
    /* The dense products are the same in parts and as a whole. */
    memset(a, 0, SAMPLES * classes * sizeof(float));
    mlr_dense_logits(&problem->weights, &problem->dense, 0, 11, a);
    mlr_dense_logits(&problem->weights, &problem->dense, 11, 11, a);
    mlr_dense_logits(&problem->weights, &problem->dense, 11, SAMPLES, a);
    assert_close(a, b, SAMPLES * (size_t)classes, 1e-5F);
}

TEST(logits) {
    nn_blas_begin();
    for_each_shape(check_sparse_logits);
}

static float *make_errors(uint32_t classes) {
    float *errors = calloc(SAMPLES * classes, sizeof(float));
    uint64_t state = classes;
    for (size_t i = 0; i < SAMPLES * (size_t)classes; i++) {
        errors[i] = random_value(&state);
    }
    return errors;
}

static void check_sparse_update(const struct mlr_kernel *kernel, uint32_t classes, size_t padding) {
    FREED float *errors = make_errors(classes);
    struct problem *plain = problem_new(classes, padding);
    const struct mlr_step step = {.scale = 0.3F, .decay = 0.02F, .paces = plain->paces};
    REFERENCE.sparse_update(&plain->weights, plain->sparse, errors, SAMPLES, &step, 0, 1, plain->touched);
    for (unsigned parts = 1; parts <= 3; parts++) {
        struct problem *fast = problem_new(classes, padding);
        for (unsigned part = 0; part < parts; part++) {
            kernel->sparse_update(&fast->weights, fast->sparse, errors, SAMPLES, &step, part, parts, fast->touched);
        }
        assert_close(fast->weights.rows, plain->weights.rows, weight_count(plain), 1e-5F);
        assert_memory_equal(fast->touched, plain->touched, sizeof plain->touched);
    }
}

TEST(sparse_update) {
    for_each_shape(check_sparse_update);
}

/* Sets all values of the sparse samples to 1; `written` says whether the values are stored. */
static void set_ones(struct problem *problem, bool written) {
    for (size_t s = 0; s < SAMPLES; s++) {
        struct mlr_sparse *x = &problem->sparse[s];
        float *values = problem->values + (x->values - problem->values);
        for (uint32_t i = 0; i < x->count; i++) {
            values[i] = 1;
        }
        x->values = written ? x->values : NULL;
    }
}

/* Samples whose values are all 1 need not store them. */
static void check_ones(const struct mlr_kernel *kernel, uint32_t classes, size_t padding) {
    FREED float *errors = make_errors(classes);
    float *logits[2];
    struct problem *problems[2];
    for (int i = 0; i < 2; i++) {
        problems[i] = problem_new(classes, padding);
        set_ones(problems[i], i == 0);
        logits[i] = calloc(SAMPLES * (size_t)classes, sizeof(float));
        const struct mlr_kernel by = i == 0 ? REFERENCE : *kernel;
        const struct mlr_step step = {.scale = 0.3F, .decay = 0.02F, .paces = problems[i]->paces};
        by.sparse_logits(&problems[i]->weights, problems[i]->sparse, SAMPLES, logits[i]);
        by.sparse_update(&problems[i]->weights, problems[i]->sparse, errors, SAMPLES, &step, 0, 1,
                         problems[i]->touched);
    }
    assert_close(logits[1], logits[0], SAMPLES * (size_t)classes, 1e-5F);
    assert_close(problems[1]->weights.rows, problems[0]->weights.rows, weight_count(problems[0]), 1e-5F);
    for (int i = 0; i < 2; i++) {
        free(logits[i]);
    }
}

TEST(ones) {
    for_each_shape(check_ones);
}

/* A feature's rate multiplies its steps; biases have their own rate. */
static void check_rates(const struct mlr_kernel *kernel, uint32_t classes, size_t padding) {
    FREED float *errors = make_errors(classes);
    struct problem *plain = problem_new(classes, padding);
    struct problem *paced = problem_new(classes, padding);
    struct problem *start = problem_new(classes, padding);
    for (size_t f = 0; f <= FEATURES; f++) {
        paced->paces[f].rate = 1 + (float)((f + 1) % 3);
    }
    const struct mlr_step step = {.scale = 0.1F, .paces = plain->paces};
    const struct mlr_step paced_step = {.scale = 0.1F, .paces = paced->paces};
    kernel->sparse_update(&plain->weights, plain->sparse, errors, SAMPLES, &step, 0, 1, plain->touched);
    kernel->sparse_update(&paced->weights, paced->sparse, errors, SAMPLES, &paced_step, 0, 1, paced->touched);
    for (size_t f = 0; f <= FEATURES; f++) {
        for (uint32_t k = 0; k < classes; k++) {
            size_t at = f * plain->weights.stride + k;
            float before = start->weights.rows[at];
            float expected = before + paced->paces[f].rate * (plain->weights.rows[at] - before);
            assert_close(&paced->weights.rows[at], &expected, 1, 1e-5F);
        }
    }
}

TEST(rates) {
    for_each_shape(check_rates);
}

TEST(decay_takes_at_most_all) {
    struct mlr_kernel kernels[1 + MLR_KERNELS];
    size_t count = list_kernels(kernels);
    for (size_t i = 0; i < count; i++) {
        struct problem *problem = problem_new(3, 0);
        FREED float *errors = calloc(SAMPLES * 3, sizeof(float)); /* no gradient */
        const struct mlr_step step = {.scale = 1, .decay = 1000, .paces = problem->paces};
        float bias = problem->weights.rows[FEATURES * 3];
        kernels[i].sparse_update(&problem->weights, problem->sparse, errors, SAMPLES, &step, 0, 1, problem->touched);
        for (size_t f = 0; f < FEATURES; f++) {
            assert_true(!problem->touched[f] || problem->weights.rows[f * 3] == 0);
        }
        assert_true(problem->weights.rows[FEATURES * 3] == bias);
    }
}

/* ---- Dense steps ---- */

/* W := W - scale X^T E - decay W, b := b - scale sum E, in double. */
static void plain_dense_update(struct problem *problem, const float *errors, const struct mlr_step *step) {
    uint32_t classes = problem->weights.classes;
    for (size_t f = 0; f <= FEATURES; f++) {
        for (uint32_t k = 0; k < classes; k++) {
            double sum = 0;
            for (size_t s = 0; s < SAMPLES; s++) {
                double x = f < FEATURES ? (double)problem->samples[s * problem->dense.stride + f] : 1;
                sum += x * (double)errors[s * classes + k];
            }
            size_t at = f * problem->weights.stride + k;
            double w = (double)problem->weights.rows[at];
            double change = (double)step->scale * sum + (f < FEATURES ? (double)step->decay * w : 0);
            if (step->velocity != NULL) {
                change += (double)step->momentum * (double)step->velocity[at];
                step->velocity[at] = (float)change;
            }
            problem->weights.rows[at] = (float)(w - change);
        }
    }
}

static void check_dense_update(uint32_t classes, size_t padding, bool with_momentum) {
    static const uint32_t cuts[] = {0, 16, 16, 40, FEATURES};
    FREED float *errors = make_errors(classes);
    struct problem *plain = problem_new(classes, padding);
    struct problem *fast = problem_new(classes, padding);
    size_t count = weight_count(plain);
    float *velocities[2] = {calloc(count, sizeof(float)), calloc(count, sizeof(float))};
    for (unsigned steps = 0; steps < 3; steps++) {
        struct mlr_step step = {.scale = 0.1F, .decay = 0.03F, .momentum = 0.9F};
        step.velocity = with_momentum ? velocities[0] : NULL;
        plain_dense_update(plain, errors, &step);
        step.velocity = with_momentum ? velocities[1] : NULL;
        for (unsigned c = 0; c + 1 < sizeof cuts / sizeof cuts[0]; c++) {
            mlr_dense_update(&fast->weights, &fast->dense, errors, &step, cuts[c], cuts[c + 1]);
        }
        mlr_bias_update(&fast->weights, errors, SAMPLES, &step);
    }
    assert_close(fast->weights.rows, plain->weights.rows, count, 1e-5F);
    free(velocities[0]);
    free(velocities[1]);
}

TEST(dense_update) {
    nn_blas_begin();
    for (size_t c = 0; c < CLASS_COUNTS; c++) {
        check_dense_update(CLASSES[c], c % 4, false);
        check_dense_update(CLASSES[c], c % 4, true);
    }
}

/* Against the matrix products, in parts of any size. Nothing beyond the products' memory is read or written. */
static void check_narrow(const struct mlr_narrow *narrow, uint32_t classes, size_t padding) {
    static const uint32_t cuts[] = {0, 16, 16, 40, 49, FEATURES};
    struct problem *plain = problem_new(classes, padding);
    struct problem *fast = problem_new(classes, padding);
    FREED float *errors = make_errors(classes);
    FREED float *a = calloc(SAMPLES * classes, sizeof(float));
    FREED float *b = calloc(SAMPLES * classes, sizeof(float));
    FREED float *scratch = calloc(mlr_narrow_scratch(FEATURES, classes), sizeof(float));
    /* The samples' memory ends exactly: the last sample has no padding. */
    size_t floats = (SAMPLES - 1) * fast->dense.stride + FEATURES;
    FREED float *samples = malloc(floats * sizeof *samples);
    memcpy(samples, fast->samples, floats * sizeof *samples);
    fast->dense.samples = samples;
    narrow->logits(&fast->weights, &fast->dense, 0, 10, scratch, a);
    narrow->logits(&fast->weights, &fast->dense, 10, 10, scratch, a);
    narrow->logits(&fast->weights, &fast->dense, 10, SAMPLES, scratch, a);
    mlr_dense_logits(&plain->weights, &plain->dense, 0, SAMPLES, b);
    assert_close(a, b, SAMPLES * (size_t)classes, 1e-5F);
    const struct mlr_step step = {.scale = 0.1F, .decay = 0.03F};
    mlr_dense_update(&plain->weights, &plain->dense, errors, &step, 0, FEATURES);
    for (unsigned c = 0; c + 1 < sizeof cuts / sizeof cuts[0]; c++) {
        narrow->update(&fast->weights, &fast->dense, errors, &step, cuts[c], cuts[c + 1]);
    }
    assert_close(fast->weights.rows, plain->weights.rows, weight_count(plain), 1e-5F);
}

TEST(narrow) {
    const size_t count = vectors_wide();
    if (count == 0) {
        print_message("skipped: this processor has no narrow kernels\n");
        skip();
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < CLASS_COUNTS; c++) {
            check_narrow(&mlr_narrows[i], CLASSES[c], c % 4);
        }
    }
    struct mlr_narrow chosen;
    assert_true(mlr_narrow_choose(784, 10, &chosen));
    assert_false(mlr_narrow_choose(784, 1000, &chosen));
    assert_false(mlr_narrow_choose(16, 10, &chosen));
    assert_false(mlr_narrow_choose(1 << 20, 2, &chosen));
}
