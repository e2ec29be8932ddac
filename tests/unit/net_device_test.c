/* Steps of whole networks on a device against the same steps on the CPU. Skipped without a device. Built again as
 * net_cuda_test for the device that tests/cuda emulates: it works in any allowed order, with each call failing in
 * turn, and with little memory. */
#include "apps/net/device.h"
#include "apps/nn/device.h"
#include "tests/test.h"
#include "tests/unit/net_trial.h"
#ifdef DEVICE_EMULATED
#include "tests/cuda/emulation.h"
#endif

#include <math.h>

static const double TOLERANCE = 1e-4; /* relative to the largest value */

static void assert_done(int result, const struct error *error) {
    if (result != 0) {
        fail_msg("%s", error->text);
    }
}

static float *zeros(size_t count) {
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

static void assert_same_loss(const char *text, struct nn_loss device, struct nn_loss cpu) {
    if (!(fabs(device.loss - cpu.loss) <= TOLERANCE * cpu.loss) || device.correct != cpu.correct) {
        fail_msg("'%s': loss %.9g, %llu correct, expected %.9g, %llu", text, device.loss,
                 (unsigned long long)device.correct, cpu.loss, (unsigned long long)cpu.correct);
    }
}

static void assert_same_gradient(const char *text, const float *device, const float *cpu, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)cpu[i]));
    }
    assert_true(largest > 1e-3);
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)device[i] - (double)cpu[i]) <= TOLERANCE * largest)) {
            fail_msg("'%s': of parameter %zu the gradient is %.9g, expected %.9g", text, i, (double)device[i],
                     (double)cpu[i]);
        }
    }
}

/* Compares a clock that learns from the whole batch, and an evaluation in two parts without dropout. */
static void check_steps(struct net_device *device, struct trial *trial, const char *text) {
    struct error error = {0};
    struct nn_loss loss;
    size_t count = trial->network.parameters;
    FREED float *expected = zeros(count);
    FREED float *gradient = zeros(count);
    struct nn_loss cpu = trial_loss(trial);
    trial_gradient(trial, 1, expected);
    assert_done(net_cuda.begin(device, trial->parameters, &error), &error);
    assert_done(net_cuda.step(device, &trial->batch, true, &error), &error);
    assert_done(net_cuda.end(device, 0.25F, gradient, &loss, &error), &error);
    assert_same_loss(text, loss, cpu);
    assert_done(net_cuda.begin(device, trial->parameters, &error), &error);
    assert_done(net_cuda.step(device, &trial->batch, true, &error), &error);
    assert_done(net_cuda.end(device, 0.75F, gradient, &loss, &error), &error); /* adds to the gradient */
    assert_same_gradient(text, gradient, expected, count);

    struct compute_batch all = trial->batch;
    trial->batch.keys = NULL;
    cpu = trial_loss(trial);
    struct compute_batch part = trial->batch;
    assert_done(net_cuda.begin(device, trial->parameters, &error), &error);
    for (part.count = 4; part.samples < all.samples + all.count * all.stride;) {
        assert_done(net_cuda.step(device, &part, false, &error), &error);
        part.samples += part.count * part.stride;
        part.labels += part.count;
        part.count = all.count - 4;
    }
    part.count = 0;
    assert_done(net_cuda.step(device, &part, true, &error), &error);
    assert_done(net_cuda.end(device, 1, NULL, &loss, &error), &error);
    assert_same_loss(text, loss, cpu);
    trial->batch = all;
}

static void check_network(const struct trial_network *network) {
    CLOSED_BY(trial_close) struct trial trial;
    struct net_device *device;
    struct error error = {0};
    trial_open(&trial, network->text, network->input, 1);
    assert_done(net_cuda.open(&device, &trial.network, &error), &error);
    assert_done(net_cuda.room(device, 1, &error), &error);
    assert_done(net_cuda.room(device, TRIAL_SAMPLES, &error), &error);
    for (int clock = 0; clock < 2; clock++) {
        check_steps(device, &trial, network->text);
        for (size_t i = 0; i < trial.network.parameters; i++) {
            trial.parameters[i] *= 1.1F;
        }
    }
    net_cuda.close(device);
}

static void test_steps_are_the_same_as_on_the_cpu(void **state) {
    for (size_t n = 0; n < TRIAL_NETWORKS; n++) {
        check_network(&trial_networks[n]);
    }
}

static void test_batches_that_are_too_large(void **state) {
    struct network network = trial_parsed("dense 65536", &TRIAL_VECTORS);
    struct net_device *device;
    struct error error = {0};
    assert_done(net_cuda.open(&device, &network, &error), &error);
    assert_int_equal(net_cuda.room(device, 1 << 24, &error), AML_ENOMEM);
    assert_non_null(strstr(error.text, "use a smaller --batch"));
    net_cuda.close(device);
}

#ifdef DEVICE_EMULATED
static void test_work_that_is_done_at_once(void **state) {
    emulation_set_eager(true);
    test_steps_are_the_same_as_on_the_cpu(state);
    emulation_set_eager(false);
}

/* Runs a clock. Returns the first failed call's error, or 0. */
static int clock_on(struct trial *trial, struct net_device **device, float *gradient, struct error *error) {
    struct nn_loss loss;
    int result = net_cuda.open(device, &trial->network, error);
    result = result != 0 ? result : net_cuda.room(*device, TRIAL_SAMPLES, error);
    result = result != 0 ? result : net_cuda.begin(*device, trial->parameters, error);
    result = result != 0 ? result : net_cuda.step(*device, &trial->batch, true, error);
    return result != 0 ? result : net_cuda.end(*device, 1, gradient, &loss, error);
}

static void test_each_call_may_fail(void **state) {
    CLOSED_BY(trial_close) struct trial trial;
    trial_open(&trial, trial_networks[5].text, trial_networks[5].input, 1);
    FREED float *gradient = zeros(trial.network.parameters);
    int result = AML_EFAIL;
    unsigned call = 0;
    while (result != 0) {
        struct net_device *device = NULL;
        struct error error = {0};
        emulation_fail(++call);
        result = clock_on(&trial, &device, gradient, &error);
        if (result != 0) {
            assert_true(result == AML_EFAIL || result == AML_ENOMEM);
            assert_non_null(strstr(error.text, "CUDA: "));
            assert_null(strchr(error.text, '\n'));
        }
        emulation_fail(0);
        net_cuda.close(device);
        assert_int_equal(emulation_left(), 0);
        assert_true(call < 1000);
    }
    assert_true(call > 80); /* so many calls failed in turn */
}

/* A network without room gives one line of error, and leaves nothing behind. */
static void test_little_memory(void **state) {
    CLOSED_BY(trial_close) struct trial trial;
    struct net_device *device;
    struct error error = {0};
    trial_open(&trial, "conv 4x3, pool 2, dense 9", &TRIAL_IMAGES, 1);
    assert_done(net_cuda.open(&device, &trial.network, &error), &error);
    emulation_set_memory((size_t)1 << 16);
    assert_int_equal(net_cuda.room(device, 10000, &error), AML_ENOMEM);
    assert_non_null(strstr(error.text, "MB for the values of a batch (see --batch): out of memory"));
    assert_null(strchr(error.text, '\n'));
    net_cuda.close(device);
    assert_int_equal(emulation_left(), 0);
    emulation_set_memory(1 << 10);
    assert_int_equal(net_cuda.open(&device, &trial.network, &error), AML_ENOMEM);
    assert_null(device);
    assert_int_equal(emulation_left(), 0);
    emulation_set_memory((size_t)1 << 30);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_the_same_as_on_the_cpu),
        cmocka_unit_test(test_batches_that_are_too_large),
#ifdef DEVICE_EMULATED
        cmocka_unit_test(test_work_that_is_done_at_once),
        cmocka_unit_test(test_each_call_may_fail),
        cmocka_unit_test(test_little_memory),
#endif
    };
    struct error error = {0};
    if (nn_device_check(&error) != 0) {
        printf("skipped: no device to compare with the CPU: %s\n", error.text);
        return 77;
    }
    nn_blas_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
