/* The layers of apps/nn on a device against those on the CPU: odd and large shapes, in one part and in several.
 * Skipped without a device. Built again as nn_cuda_test for the device that tests/cuda emulates: its work is done as
 * late as possible, and at once. */
#include "apps/nn/cuda_kernels.h"
#include "apps/nn/cuda_layers.h"
#include "apps/nn/device.h"
#include "tests/test.h"
#include "tests/unit/nn_reference.h"
#include "tests/unit/nn_values.h"
#ifdef DEVICE_EMULATED
#include "tests/cuda/emulation.h"
#endif

#include "agileml/base/hash.h"

#include <math.h>

enum { ARRAYS_MAX = 16 };
static const double TOLERANCE = 2e-5; /* relative to the largest value */

/* ---- The device ---- */

struct device {
    struct nn_cuda cuda;
    void *arrays[ARRAYS_MAX];
    unsigned count;
};

static void assert_done(int result, const struct error *error) {
    if (result != 0) {
        fail_msg("%s", error->text);
    }
}

static void assert_queued(cudaError_t code) {
    if (code != cudaSuccess) {
        fail_msg("%s", cudaGetErrorString(code));
    }
}

static void device_open(struct device *device) {
    struct error error = {0};
    *device = (struct device){0};
    assert_done(nn_cuda_open(&device->cuda, &error), &error);
}

static void device_close(struct device *device) {
    cudaDeviceSynchronize();
    for (unsigned a = 0; a < device->count; a++) {
        assert_queued(cudaFree(device->arrays[a]));
    }
    nn_cuda_close(&device->cuda);
#ifdef DEVICE_EMULATED
    assert_int_equal(emulation_left(), 0);
#endif
}

/* Returns an array on the device, valid until device_close. It holds `bytes` or, if these are NULL, NaNs. */
static void *up(struct device *device, const void *bytes, size_t size) {
    struct error error = {0};
    void *array;
    assert_true(device->count < ARRAYS_MAX);
    assert_done(nn_cuda_allocate(&array, size, "a test", &error), &error);
    device->arrays[device->count++] = array;
    if (bytes != NULL) {
        assert_done(nn_cuda_upload(&device->cuda, array, bytes, size, device->cuda.stream, &error), &error);
    } else {
        assert_queued(cudaMemsetAsync(array, 0xFF, size, device->cuda.stream));
    }
    return array;
}

static float *up_floats(struct device *device, const float *values, size_t count) {
    return up(device, values, count * sizeof *values);
}

static void *down(struct device *device, const void *array, size_t size) {
    struct error error = {0};
    void *bytes = malloc(size);
    assert_non_null(bytes);
    assert_done(nn_cuda_download(&device->cuda, bytes, array, size, &error), &error);
    return bytes;
}

static void assert_on_device(struct device *device, const float *array, const float *expected, size_t count) {
    FREED float *values = down(device, array, count * sizeof *values);
    nn_values_assert_close(values, expected, count, TOLERANCE);
}

/* ---- Layers with weights ---- */

static void check_dense(const struct nn_dense *dense, size_t n) {
    struct device device;
    struct error error = {0};
    size_t weights = (dense->in + 1) * dense->out;
    float *x = nn_values(n * dense->in, 1);
    float *w = nn_values(weights, 2);
    float *dy = nn_values(n * dense->out, 3);
    float *y = nn_values(n * dense->out, 4);
    float *dw = nn_values(weights, 5); /* added to the old values */
    float *dx = nn_values(n * dense->in, 6);
    device_open(&device);
    const float *x_there = up_floats(&device, x, n * dense->in);
    const float *w_there = up_floats(&device, w, weights);
    const float *dy_there = up_floats(&device, dy, n * dense->out);
    float *y_there = up_floats(&device, NULL, n * dense->out);
    float *dw_there = up_floats(&device, dw, weights);
    float *dx_there = up_floats(&device, NULL, n * dense->in);
    assert_done(nn_cuda_sum_room(&device.cuda, n, &error), &error);
    assert_done(nn_cuda_dense_forward(&device.cuda, dense, x_there, w_there, n, y_there, &error), &error);
    assert_done(nn_cuda_dense_weights(&device.cuda, dense, x_there, dy_there, n, dw_there, &error), &error);
    assert_done(nn_cuda_dense_inputs(&device.cuda, dense, dy_there, w_there, n, dx_there, &error), &error);
    nn_reference.dense_forward(dense, x, dense->in, w, n, y);
    nn_reference.dense_weights(dense, x, dense->in, dy, n, 0, dense->in + 1, 1, dw);
    nn_reference.dense_inputs(dense, dy, w, n, dx);
    assert_on_device(&device, y_there, y, n * dense->out);
    assert_on_device(&device, dw_there, dw, weights);
    assert_on_device(&device, dx_there, dx, n * dense->in);
    device_close(&device);
    float *arrays[] = {x, w, dy, y, dw, dx};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        free(arrays[a]);
    }
}

static void test_dense(void **state) {
    static const size_t shapes[][3] = {{1, 1, 1}, {7, 3, 5}, {784, 10, 37}, {5, 33, 1}, {301, 129, 65}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const struct nn_dense dense = {.in = shapes[s][0], .out = shapes[s][1]};
        check_dense(&dense, shapes[s][2]);
    }
}

static void check_conv(const struct nn_conv *conv, size_t n) {
    struct device device;
    struct error error = {0};
    size_t inputs = n * conv->height * conv->width * conv->channels;
    size_t outputs = n * conv->height * conv->width * conv->filters;
    size_t weights = (nn_conv_patch(conv) + 1) * conv->filters;
    float *x = nn_values(inputs, 1);
    float *w = nn_values(weights, 2);
    float *dy = nn_values(outputs, 3);
    float *y = nn_values(outputs, 4);
    float *dw = nn_values(weights, 5); /* added to the old values */
    float *dx = nn_values(inputs, 6);
    device_open(&device);
    const float *x_there = up_floats(&device, x, inputs);
    const float *w_there = up_floats(&device, w, weights);
    const float *dy_there = up_floats(&device, dy, outputs);
    float *y_there = up_floats(&device, NULL, outputs);
    float *dw_there = up_floats(&device, dw, weights);
    float *dx_there = up_floats(&device, NULL, inputs);
    float *workspace = up_floats(&device, NULL, nn_cuda_conv_workspace(conv, n));
    assert_done(nn_cuda_conv_forward(&device.cuda, conv, x_there, w_there, n, workspace, y_there, &error), &error);
    assert_done(nn_cuda_conv_weights(&device.cuda, conv, x_there, dy_there, n, workspace, dw_there, &error), &error);
    assert_done(nn_cuda_conv_inputs(&device.cuda, conv, dy_there, w_there, n, workspace, dx_there, &error), &error);
    size_t stride = inputs / n;
    nn_reference.conv_forward(conv, x, stride, w, n, NULL, y);
    nn_reference.conv_weights(conv, x, stride, dy, n, NULL, dw);
    nn_reference.conv_inputs(conv, dy, w, n, NULL, dx);
    assert_on_device(&device, y_there, y, outputs);
    assert_on_device(&device, dw_there, dw, weights);
    assert_on_device(&device, dx_there, dx, inputs);
    device_close(&device);
    float *arrays[] = {x, w, dy, y, dw, dx};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        free(arrays[a]);
    }
}

static void test_conv(void **state) {
    static const struct nn_conv shapes[] = {
        {.height = 1, .width = 1, .channels = 1, .k = 1, .filters = 1},
        {.height = 4, .width = 5, .channels = 1, .k = 3, .filters = 2},
        {.height = 5, .width = 4, .channels = 3, .k = 3, .filters = 4},
        {.height = 4, .width = 4, .channels = 1, .k = 2, .filters = 3}, /* an even k */
        {.height = 3, .width = 4, .channels = 2, .k = 4, .filters = 2},
        {.height = 2, .width = 2, .channels = 1, .k = 7, .filters = 2}, /* larger than the image */
        {.height = 2, .width = 3, .channels = 2, .k = 9, .filters = 2},
        {.height = 11, .width = 13, .channels = 40, .k = 5, .filters = 33},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        check_conv(&shapes[s], 1);
        check_conv(&shapes[s], 3);
    }
}

/* The largest patches, and more images than are processed at a time. */
static void test_conv_in_parts(void **state) {
    const struct nn_conv conv = {.height = 24, .width = 24, .channels = 4, .k = 31, .filters = 2};
    assert_true(nn_cuda_conv_workspace(&conv, 9) < nn_conv_workspace(&conv, 9));
    check_conv(&conv, 9);
}

/* ---- Layers without weights ---- */

static void check_pool(const struct nn_pool *pool, size_t n) {
    CLOSED_BY(device_close) struct device device;
    size_t inputs = n * pool->height * pool->width * pool->channels;
    size_t outputs = n * (pool->height / pool->size) * (pool->width / pool->size) * pool->channels;
    FREED float *x = nn_values(inputs, 1);
    FREED float *dy = nn_values(outputs, 2);
    FREED float *y = nn_values(outputs, 3);
    FREED float *dx = nn_values(inputs, 4);
    unsigned char *at = malloc(outputs);
    assert_non_null(at);
    for (size_t i = 0; i < inputs; i++) {
        x[i] = roundf(4 * x[i]); /* makes equal values */
    }
    device_open(&device);
    const float *x_there = up_floats(&device, x, inputs);
    const float *dy_there = up_floats(&device, dy, outputs);
    float *y_there = up_floats(&device, NULL, outputs);
    float *dx_there = up_floats(&device, NULL, inputs);
    unsigned char *at_there = up(&device, NULL, outputs);
    assert_queued(nn_kernel_pool_forward(device.cuda.stream, pool, x_there, n, y_there, at_there));
    assert_queued(nn_kernel_pool_backward(device.cuda.stream, pool, dy_there, at_there, n, dx_there));
    nn_pool_forward(pool, x, n, y, at);
    nn_pool_backward(pool, dy, at, n, dx);
    unsigned char *places = down(&device, at_there, outputs);
    assert_memory_equal(places, at, outputs);
    assert_on_device(&device, y_there, y, outputs);
    assert_on_device(&device, dx_there, dx, inputs);
    free(places);
    free(at);
}

static void test_pool(void **state) {
    static const struct nn_pool shapes[] = {
        {.height = 4, .width = 6, .channels = 3, .size = 2},
        {.height = 5, .width = 7, .channels = 1, .size = 2}, /* the last row and column are left out */
        {.height = 3, .width = 3, .channels = 2, .size = 3},
        {.height = 2, .width = 2, .channels = 2, .size = 1},
        {.height = 33, .width = 47, .channels = 5, .size = NN_POOL_MAX},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        check_pool(&shapes[s], 1);
        check_pool(&shapes[s], 3);
    }
}

/* More values than the threads of a launch; a NaN stays a NaN. */
static void test_relu(void **state) {
    static const size_t counts[] = {1, 37, 1100003};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        CLOSED_BY(device_close) struct device device;
        size_t count = counts[c];
        FREED float *y = nn_values(count, 1);
        FREED float *dy = nn_values(count, 2);
        y[count / 2] = NAN;
        device_open(&device);
        float *y_there = up_floats(&device, y, count);
        float *dy_there = up_floats(&device, dy, count);
        assert_queued(nn_kernel_relu_forward(device.cuda.stream, y_there, count));
        assert_queued(nn_kernel_relu_backward(device.cuda.stream, y_there, dy_there, count));
        nn_relu_forward(y, count);
        nn_relu_backward(y, dy, count);
        float *values = down(&device, y_there, count * sizeof *values);
        assert_true(isnan(values[count / 2]));
        assert_memory_equal(values, y, count * sizeof *values);
        free(values);
        values = down(&device, dy_there, count * sizeof *values);
        assert_memory_equal(values, dy, count * sizeof *values);
        free(values);
    }
}

/* The device drops the same values as the CPU; the others are equal to the bit. */
static void test_dropout(void **state) {
    enum { N = 5 };
    static const size_t sizes[] = {1, 2, 7, 1000, 100001};
    static const float drops[] = {0, 0.25F, 0.95F};
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0] * 3; c++) {
        CLOSED_BY(device_close) struct device device;
        size_t size = sizes[c / 3];
        uint64_t keys[N];
        FREED float *values = nn_values(N * size, c);
        device_open(&device);
        for (size_t s = 0; s < N; s++) {
            keys[s] = hash_mix(s);
        }
        float *there = up_floats(&device, values, N * size);
        const uint64_t *keys_there = up(&device, keys, sizeof keys);
        assert_queued(nn_kernel_dropout(device.cuda.stream, there, N, size, keys_there, 3, drops[c % 3]));
        for (size_t s = 0; s < N; s++) {
            nn_dropout(values + s * size, size, hash_mix(keys[s] + 3), drops[c % 3]);
        }
        FREED float *dropped = down(&device, there, N * size * sizeof *values);
        assert_memory_equal(dropped, values, N * size * sizeof *values);
    }
}

static void check_norm(size_t n, size_t size) {
    CLOSED_BY(device_close) struct device device;
    struct error error = {0};
    FREED float *x = nn_values(n * size, 1);
    FREED float *scales = nn_values(2 * size, 2);
    FREED float *y = nn_values(n * size, 3);
    FREED float *errors = nn_values(n * size, 4);
    FREED float *dscales = nn_values(2 * size, 5); /* added to the old values */
    device_open(&device);
    const float *x_there = up_floats(&device, x, n * size);
    const float *scales_there = up_floats(&device, scales, 2 * size);
    float *y_there = up_floats(&device, NULL, n * size);
    float *errors_there = up_floats(&device, errors, n * size);
    float *dscales_there = up_floats(&device, dscales, 2 * size);
    float *workspace = up_floats(&device, NULL, n * size);
    assert_done(nn_cuda_sum_room(&device.cuda, n, &error), &error);
    assert_queued(nn_kernel_norm_forward(device.cuda.stream, x_there, scales_there, n, size, y_there));
    assert_done(nn_cuda_norm_backward(&device.cuda, x_there, scales_there, n, size, workspace, dscales_there,
                                      errors_there, &error),
                &error);
    nn_norm_forward(x, scales, n, size, y);
    nn_norm_backward(x, scales, errors, n, size, dscales, errors);
    assert_on_device(&device, y_there, y, n * size);
    assert_on_device(&device, errors_there, errors, n * size);
    assert_on_device(&device, dscales_there, dscales, 2 * size);
}

static void test_norm(void **state) {
    check_norm(1, 3);
    check_norm(7, 5);
    check_norm(3, 32);
    check_norm(5, 301);
    check_norm(2, 9001);
    check_norm(4099, 4); /* more rows than blocks */
}

static void check_softmax(size_t n, size_t classes) {
    CLOSED_BY(device_close) struct device device;
    struct nn_loss loss = {0};
    struct nn_loss loss_there = {0};
    FREED float *z = nn_values(n * classes, 1);
    FREED uint32_t *labels = malloc(n * sizeof *labels);
    struct nn_kernel_sums *sums = calloc(NN_KERNEL_SUMS, sizeof *sums);
    assert_non_null(labels);
    assert_non_null(sums);
    for (size_t i = 0; i < n * classes; i++) {
        z[i] = 100 * roundf(8 * z[i]); /* values far apart, and equal ones */
    }
    for (size_t s = 0; s < n; s++) {
        labels[s] = (uint32_t)(hash_mix(s) % classes);
    }
    device_open(&device);
    const struct nn_kernel_logits logits = {.values = up_floats(&device, z, n * classes),
                                            .count = n,
                                            .stride = classes,
                                            .classes = classes,
                                            .labels = up(&device, labels, n * sizeof *labels),
                                            .label_stride = 1};
    struct nn_kernel_sums *sums_there = up(&device, sums, NN_KERNEL_SUMS * sizeof *sums);
    assert_queued(nn_kernel_softmax(device.cuda.stream, &logits, sums_there));
    nn_softmax_forward(z, labels, n, classes, &loss);
    nn_softmax_backward(z, labels, n, classes);
    assert_on_device(&device, logits.values, z, n * classes);
    free(sums);
    sums = down(&device, sums_there, NN_KERNEL_SUMS * sizeof *sums);
    for (size_t b = 0; b < NN_KERNEL_SUMS; b++) {
        loss_there.loss += sums[b].loss;
        loss_there.correct += sums[b].correct;
    }
    assert_int_equal(loss_there.correct, loss.correct);
    assert_true(fabs(loss_there.loss - loss.loss) <= 1e-5 * loss.loss);
    free(sums);
}

static void test_softmax(void **state) {
    check_softmax(1, 2);
    check_softmax(7, 10);
    check_softmax(3, 1025);
    check_softmax(2100, 3); /* more samples than blocks */
}

/* Downloads in several parts that are added, and uploads in several parts. */
static void test_copies(void **state) {
    enum { COUNT = 5000003 };
    CLOSED_BY(device_close) struct device device;
    struct error error = {0};
    FREED float *values = nn_values(COUNT, 1);
    FREED float *sums = nn_values(COUNT, 2);
    device_open(&device);
    const float *there = up_floats(&device, values, COUNT);
    for (int time = 0; time < 2; time++) {
        assert_done(nn_cuda_download_sum(&device.cuda, sums, there, COUNT, 0.5F, &error), &error);
    }
    FREED float *expected = nn_values(COUNT, 2);
    for (size_t i = 0; i < COUNT; i++) {
        expected[i] += values[i];
    }
    nn_values_assert_close(sums, expected, COUNT, 1e-6);
}

#ifdef DEVICE_EMULATED
static int eager_setup(void **state) {
    emulation_set_eager(true);
    return 0;
}

static int eager_teardown(void **state) {
    emulation_set_eager(false);
    return 0;
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_conv_in_parts),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_copies),
#ifdef DEVICE_EMULATED
        cmocka_unit_test_setup_teardown(test_conv, eager_setup, eager_teardown),
        cmocka_unit_test_setup_teardown(test_norm, eager_setup, eager_teardown),
#endif
    };
    struct error error = {0};
    if (nn_device_check(&error) != 0) {
        printf("skipped: no device to compare with the CPU: %s\n", error.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
