/* mlr's steps on a device against the same steps on the CPU: odd shapes, minibatches of one sample, smaller last
 * batches, L2, momentum. Samples may be kept on the device, and others may change rows between clocks. Skipped
 * without a device. Built again as mlr_cuda_test for the device that tests/cuda emulates: it works in any allowed
 * order, and each call fails in turn. */
#include "apps/mlr/device.h"
#include "apps/nn/device.h"
#include "tests/test.h"
#ifdef DEVICE_EMULATED
#include "tests/cuda/emulation.h"
#endif

#include "agileml/base/hash.h"

#include <math.h>

struct shape {
    uint32_t features, classes;
    size_t samples, batch; /* samples of a clock; samples of a step */
    float decay, momentum;
    bool keep;    /* the device gets the samples in advance and may keep them */
    size_t slice; /* samples that the device processes at once; 0: all of a step */
};

static const struct shape SHAPES[] = {
    {1, 2, 3, 1, 0, 0, true, 0},
    {53, 3, 37, 1, 0, 0, false, 0},
    {53, 7, 37, 8, 0.01F, 0, true, 0},
    {53, 7, 37, 8, 0.01F, 0, false, 0},
    {784, 10, 1000, 256, 1e-3F, 0, true, 0},
    {784, 10, 1000, 256, 1e-3F, 0.9F, false, 0},
    {301, 129, 130, 64, 1e-3F, 0.5F, true, 0},
    {301, 129, 130, 64, 1, 0, true, 0}, /* L2 that removes the old weights completely */
    {77, 1025, 65, 33, 0, 0.9F, true, 0},
    {2011, 61, 2100, 2060, 1e-3F, 0, false, 0}, /* more samples than blocks sum; copied in parts */
    {130, 5003, 20, 7, 0.1F, 0, true, 0},
    {301, 129, 130, 64, 1e-3F, 0, true, 30},
    {301, 129, 130, 64, 1e-3F, 0.5F, true, 30},
    {784, 10, 1000, 256, 1e-3F, 0.9F, false, 100},
};

enum { CLOCKS = 4 };
static const float PADDING = 12345;
static const double TOLERANCE = 1e-4; /* relative to the largest change */

/* A uniform random number in -1..1. */
static float random_value(uint64_t *state) {
    *state += 1;
    return (float)(int32_t)(hash_mix(*state) >> 40) * 0x1p-23F - 1;
}

struct problem {
    const struct shape *shape;
    uint64_t state;
    size_t stride; /* floats of a row of weights, a multiple of 4 as in the cache */
    size_t floats; /* floats of all weights */
    float *samples;
    uint32_t *labels;
    float *cpu, *device, *before; /* weights */
    float *velocity, *logits;
    struct mlr_kernel kernel;
};

static void *zeros(size_t count) {
    void *memory = calloc(count, 4);
    assert_non_null(memory);
    return memory;
}

static struct mlr_weights weights_of(const struct problem *problem, float *rows) {
    return (struct mlr_weights){
        .rows = rows, .stride = problem->stride, .bias = problem->shape->features, .classes = problem->shape->classes};
}

static void problem_open(struct problem *problem, const struct shape *shape) {
    size_t width = (size_t)shape->features + 1;
    *problem = (struct problem){.shape = shape, .state = shape->classes, .kernel = mlr_kernel_choose()};
    problem->stride = ((size_t)shape->classes + 3) / 4 * 4;
    problem->floats = width * problem->stride;
    problem->samples = zeros(shape->samples * width);
    problem->labels = zeros(shape->samples);
    problem->cpu = zeros(problem->floats);
    problem->device = zeros(problem->floats);
    problem->before = zeros(problem->floats);
    problem->velocity = zeros(problem->floats);
    problem->logits = zeros(shape->batch * shape->classes);
    for (size_t s = 0; s < shape->samples; s++) {
        problem->labels[s] = (uint32_t)(hash_mix(s) % shape->classes);
        for (size_t f = 0; f < shape->features; f++) {
            problem->samples[s * width + f] = random_value(&problem->state);
        }
        memcpy(&problem->samples[s * width + shape->features], &problem->labels[s], sizeof(float));
    }
    for (size_t i = 0; i < problem->floats; i++) {
        problem->cpu[i] = i % problem->stride < shape->classes ? 0.01F * random_value(&problem->state) : PADDING;
    }
    memcpy(problem->device, problem->cpu, problem->floats * sizeof(float));
}

static void problem_close(struct problem *problem) {
    free(problem->samples);
    free(problem->labels);
    free(problem->cpu);
    free(problem->device);
    free(problem->before);
    free(problem->velocity);
    free(problem->logits);
}

static struct mlr_dense batch_of(const struct problem *problem, size_t first) {
    const struct shape *shape = problem->shape;
    size_t width = (size_t)shape->features + 1;
    size_t left = shape->samples - first;
    return (struct mlr_dense){.samples = problem->samples + first * width,
                              .stride = width,
                              .count = left < shape->batch ? left : shape->batch,
                              .features = shape->features};
}

static struct mlr_step step_of(struct problem *problem, size_t count) {
    bool momentum = problem->shape->momentum > 0;
    /* Small enough for convergence, by the largest eigenvalue of X^T X / n; otherwise rounding errors would grow
     * with each step. */
    double spread = 1 + sqrt((double)problem->shape->features / (double)count);
    float rate = (float)(2 / (1 + spread * spread / 3));
    return (struct mlr_step){.scale = rate / (float)count,
                             .decay = problem->shape->decay,
                             .momentum = problem->shape->momentum,
                             .velocity = momentum ? problem->velocity : NULL};
}

/* A clock on the CPU; without `learn` only the losses. */
static struct nn_loss cpu_clock(struct problem *problem, bool learn) {
    struct mlr_weights weights = weights_of(problem, problem->cpu);
    struct nn_loss loss = {0};
    for (size_t first = 0; first < problem->shape->samples; first += problem->shape->batch) {
        struct mlr_dense batch = batch_of(problem, first);
        struct mlr_step step = step_of(problem, batch.count);
        mlr_dense_logits(&weights, &batch, 0, batch.count, problem->logits);
        problem->kernel.softmax(problem->logits, problem->labels + first, batch.count, weights.classes, &loss);
        if (learn) {
            mlr_dense_update(&weights, &batch, problem->logits, &step, 0, batch.features);
            mlr_bias_update(&weights, problem->logits, batch.count, &step);
        }
    }
    return loss;
}

static void assert_done(int result, const struct error *error) {
    if (result != 0) {
        fail_msg("%s", error->text);
    }
}

static struct nn_loss device_clock(struct mlr_device *device, struct problem *problem, bool learn) {
    struct mlr_weights weights = weights_of(problem, problem->device);
    struct nn_loss loss;
    struct error error = {0};
    assert_done(mlr_cuda.begin(device, &weights, &error), &error);
    for (size_t first = 0; first < problem->shape->samples; first += problem->shape->batch) {
        struct mlr_dense batch = batch_of(problem, first);
        struct mlr_step step = step_of(problem, batch.count);
        size_t most = problem->shape->slice > 0 ? problem->shape->slice : batch.count;
        struct mlr_dense slice = batch;
        step.sliced = most < batch.count;
        for (size_t done = 0; done < batch.count; done += most, step.slice++, step.decay = 0) {
            slice.samples = batch.samples + done * batch.stride;
            slice.count = batch.count - done < most ? batch.count - done : most;
            assert_done(mlr_cuda.step(device, &slice, learn ? &step : NULL, &error), &error);
        }
    }
    assert_done(mlr_cuda.end(device, learn ? &weights : NULL, &loss, &error), &error);
    return loss;
}

static void assert_same_loss(const struct problem *problem, struct nn_loss device, struct nn_loss cpu) {
    /* Where two logits are nearly equal, rounding decides which is larger. */
    double doubtful = 1 + 1e-3 * (double)problem->shape->samples;
    if (!(fabs(device.loss - cpu.loss) <= TOLERANCE * cpu.loss) ||
        fabs((double)device.correct - (double)cpu.correct) > doubtful) {
        fail_msg("%u x %u: loss %.9g, %llu correct, expected %.9g, %llu", problem->shape->features,
                 problem->shape->classes, device.loss, (unsigned long long)device.correct, cpu.loss,
                 (unsigned long long)cpu.correct);
    }
}

/* Compares the changes of the weights since `before`, and checks that nothing beyond the classes changed. */
static void assert_same_change(const struct problem *problem) {
    double largest = 0;
    for (size_t i = 0; i < problem->floats; i++) {
        largest = fmax(largest, fabs((double)problem->cpu[i] - (double)problem->before[i]));
    }
    assert_true(largest > 1e-4); /* far above the rounding errors of weights */
    for (size_t i = 0; i < problem->floats; i++) {
        if (i % problem->stride >= problem->shape->classes) {
            assert_true(problem->device[i] == PADDING);
        } else if (!(fabs((double)problem->device[i] - (double)problem->cpu[i]) <= TOLERANCE * largest)) {
            fail_msg("%u x %u: weight %zu of class %zu is %.9g, expected %.9g, was %.9g", problem->shape->features,
                     problem->shape->classes, i / problem->stride, i % problem->stride, (double)problem->device[i],
                     (double)problem->cpu[i], (double)problem->before[i]);
        }
    }
}

/* Sets both to the CPU's weights, with changes by others in every third row. */
static void others_change_rows(struct problem *problem) {
    for (size_t i = 0; i < problem->floats; i++) {
        if (i / problem->stride % 3 == 0 && i % problem->stride < problem->shape->classes) {
            problem->cpu[i] += 0.005F * random_value(&problem->state);
        }
    }
    memcpy(problem->device, problem->cpu, problem->floats * sizeof(float));
    memcpy(problem->before, problem->cpu, problem->floats * sizeof(float));
}

static bool skipped(void) {
    struct error error = {0};
    int result = nn_device_check(&error);
    if (result == 0) {
        return false;
    }
    assert_int_equal(result, AML_EINPUT);
    assert_true(strlen(error.text) > 0 && strchr(error.text, '\n') == NULL);
    print_message("skipped: no device to compare with the CPU: %s\n", error.text);
    return true;
}

static void check_shape(const struct shape *shape) {
    CLOSED_BY(problem_close) struct problem problem;
    struct mlr_device *device;
    struct error error = {0};
    problem_open(&problem, shape);
    struct mlr_weights weights = weights_of(&problem, problem.device);
    assert_done(mlr_cuda.open(&device, &weights, shape->momentum > 0, &error), &error);
    if (shape->keep) {
        assert_done(mlr_cuda.items(device, problem.samples, shape->samples, &error), &error);
    }
    for (int clock = 0; clock < CLOCKS; clock++) {
        others_change_rows(&problem);
        assert_same_loss(&problem, device_clock(device, &problem, false), cpu_clock(&problem, false));
        assert_memory_equal(problem.device, problem.before, problem.floats * sizeof(float));
        assert_same_loss(&problem, device_clock(device, &problem, true), cpu_clock(&problem, true));
        assert_same_change(&problem);
    }
    mlr_cuda.close(device);
}

static void test_steps_are_the_same_as_on_the_cpu(void **state) {
    if (skipped()) {
        skip();
    }
    nn_blas_begin();
    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
        check_shape(&SHAPES[s]);
    }
}

/* Samples move when nodes come and go: old samples kept on the device must not be used for new ones. */
static void test_samples_are_replaced(void **state) {
    if (skipped()) {
        skip();
    }
    CLOSED_BY(problem_close) struct problem problem;
    struct mlr_device *device;
    struct error error = {0};
    problem_open(&problem, &SHAPES[2]);
    struct mlr_weights weights = weights_of(&problem, problem.device);
    size_t width = (size_t)problem.shape->features + 1;
    assert_done(mlr_cuda.open(&device, &weights, false, &error), &error);
    for (int round = 0; round < 4; round++) {
        /* In the last round the device gets only the clock's first half of the samples in advance. */
        size_t known = round < 3 ? problem.shape->samples : problem.shape->samples / 2;
        for (size_t i = 0; i < problem.shape->samples * width; i++) {
            problem.samples[i] =
                i % width < problem.shape->features ? random_value(&problem.state) : problem.samples[i];
        }
        assert_done(mlr_cuda.items(device, problem.samples, known, &error), &error);
        others_change_rows(&problem);
        assert_same_loss(&problem, device_clock(device, &problem, true), cpu_clock(&problem, true));
        assert_same_change(&problem);
    }
    mlr_cuda.close(device);
}

#ifdef DEVICE_EMULATED
static void test_work_that_is_done_at_once(void **state) {
    emulation_set_eager(true);
    for (size_t s = 0; s < 4; s++) { /* small shapes, as only the order of work matters */
        check_shape(&SHAPES[s]);
    }
    test_samples_are_replaced(state);
    emulation_set_eager(false);
}

/* Two clocks, one with samples that are not kept. Returns the first failed call's error, or 0. */
static int clocks_on(struct problem *problem, struct mlr_device **device, struct error *error) {
    struct mlr_weights weights = weights_of(problem, problem->device);
    struct nn_loss loss;
    int result = mlr_cuda.open(device, &weights, problem->shape->momentum > 0, error);
    for (int clock = 0; clock < 2 && result == 0; clock++) {
        struct mlr_dense batch = batch_of(problem, 0);
        struct mlr_step step = step_of(problem, batch.count);
        size_t known = clock == 0 ? problem->shape->samples : 0;
        result = mlr_cuda.items(*device, problem->samples, known, error);
        result = result != 0 ? result : mlr_cuda.begin(*device, &weights, error);
        result = result != 0 ? result : mlr_cuda.step(*device, &batch, &step, error);
        result = result != 0 ? result : mlr_cuda.end(*device, &weights, &loss, error);
    }
    return result;
}

static void test_each_call_may_fail(void **state) {
    CLOSED_BY(problem_close) struct problem problem;
    problem_open(&problem, &SHAPES[5]);
    int result = AML_EFAIL;
    unsigned failures = 0;
    for (unsigned call = 1; result != 0 || call == 1; call++) {
        struct mlr_device *device = NULL;
        struct error error = {0};
        emulation_fail(call);
        result = clocks_on(&problem, &device, &error);
        if (result != 0) {
            failures++;
            assert_true(result == AML_EFAIL || result == AML_ENOMEM);
            assert_non_null(strstr(error.text, "CUDA: "));
            assert_null(strchr(error.text, '\n'));
        }
        emulation_fail(0);
        mlr_cuda.close(device);
        assert_int_equal(emulation_left(), 0);
        assert_true(call < 1000);
        if (result == 0 && failures < 30) {
            result = AML_EFAIL; /* a failure that the code works around by not keeping samples */
        }
    }
    assert_true(failures >= 30);
}

/* Samples are not kept if they would leave too little room. Weights without room are an error. */
static void test_little_memory(void **state) {
    const size_t room = (size_t)1 << 20;
    CLOSED_BY(problem_close) struct problem problem;
    struct mlr_device *device;
    struct error error = {0};
    emulation_set_memory(room);
    problem_open(&problem, &SHAPES[4]); /* 3 MB of samples, 31 kB of weights */
    struct mlr_weights weights = weights_of(&problem, problem.device);
    assert_done(mlr_cuda.open(&device, &weights, false, &error), &error);
    assert_done(mlr_cuda.items(device, problem.samples, problem.shape->samples, &error), &error);
    others_change_rows(&problem);
    assert_same_loss(&problem, device_clock(device, &problem, true), cpu_clock(&problem, true));
    assert_same_change(&problem);
    mlr_cuda.close(device);
    emulation_set_memory(1 << 14);
    assert_int_equal(mlr_cuda.open(&device, &weights, false, &error), AML_ENOMEM);
    assert_null(device);
    assert_non_null(strstr(error.text, "CUDA: cudaMalloc of 0.0 MB for"));
    assert_int_equal(emulation_left(), 0);
    emulation_set_memory((size_t)1 << 30);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_the_same_as_on_the_cpu),
        cmocka_unit_test(test_samples_are_replaced),
#ifdef DEVICE_EMULATED
        cmocka_unit_test(test_work_that_is_done_at_once),
        cmocka_unit_test(test_each_call_may_fail),
        cmocka_unit_test(test_little_memory),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
