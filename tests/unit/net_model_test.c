/* The file of a network: what is written is read again, and a file that is damaged in any byte, cut or made up is
 * refused. */
#include "apps/net/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { FEATURES = 12, CLASSES = 3, FILE_MAX = 8192 };

#define LAYERS "conv 2x3, norm, pool 2, dense 4, dropout 0.5"

static char folder[] = "/tmp/net_model_test.XXXXXX";
static char path[64];

static const float MAXIMA[FEATURES] = {1, 2, 4, 0, 8, 1, 1, 1, 1, 1, 1, 3};
static const struct network_shape IMAGES = {.height = 4, .width = 3, .channels = 1, .image = true};

static int write_model(const char *layers, enum scale_kind kind, float last, struct error *error) {
    struct mlr_labels labels = {0};
    static const char *const texts[CLASSES] = {"2", "10", "other"};
    struct network network;
    for (int k = 0; k < CLASSES; k++) {
        struct mlr_label label;
        assert_true(mlr_label_make(&label, texts[k], strlen(texts[k])));
        assert_true(mlr_labels_add(&labels, &label));
    }
    mlr_labels_sort(&labels);
    assert_int_equal(network_parse(&network, layers, &IMAGES, CLASSES, error), 0);
    float *parameters = malloc(network.parameters * sizeof *parameters);
    assert_non_null(parameters);
    network_start(&network, 3, 0, network.parameters, parameters);
    parameters[network.parameters - 1] = last;
    const struct net_model_header header = {.scale = {.kind = kind, .features = FEATURES, .maxima = MAXIMA},
                                            .index_base = 1,
                                            .layers = layers,
                                            .network = &network,
                                            .labels = &labels};
    int result = net_model_write(path, &header, parameters, error);
    mlr_labels_close(&labels);
    free(parameters);
    return result;
}

static size_t read_file(unsigned char *bytes) {
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t size = fread(bytes, 1, FILE_MAX, file);
    assert_true(size > 0 && size < FILE_MAX);
    fclose(file);
    return size;
}

static void write_file(const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void test_written_and_read(void **state) {
    (void)state;
    static const char *const layers[] = {LAYERS, "", NULL};
    for (size_t m = 0; m < 3; m++) {
        struct error error = {0};
        struct net_model model;
        enum scale_kind kind = m == 0 ? SCALE_MAX : SCALE_BYTE;
        assert_int_equal(write_model(layers[m], kind, 7, &error), 0);
        assert_int_equal(net_model_load(path, &model, &error), 0);
        assert_int_equal(model.scale.kind, kind);
        assert_int_equal(model.scale.features, FEATURES);
        assert_int_equal(model.index_base, 1);
        assert_string_equal(model.labels.items[1].text, "10");
        assert_true(m > 0 || memcmp(model.scale.maxima, MAXIMA, sizeof MAXIMA) == 0);
        size_t count = model.network.parameters;
        assert_int_equal(count, m == 0 ? 20 + 4 + 20 + 15 : 13 * CLASSES);
        float *start = malloc(count * sizeof *start);
        assert_non_null(start);
        network_start(&model.network, 3, 0, count, start);
        assert_memory_equal(model.parameters, start, (count - 1) * sizeof *start);
        assert_true(model.parameters[count - 1] == 7);
        free(start);
        net_model_close(&model);
    }
}

static void test_parameters_are_finite(void **state) {
    (void)state;
    struct error error = {0};
    unlink(path);
    assert_int_equal(write_model(LAYERS, SCALE_NONE, NAN, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, "a parameter is not finite: the training diverged"));
    assert_int_equal(access(path, F_OK), -1);
}

static void assert_refused(const char *why) {
    struct error error = {0};
    struct net_model model;
    int result = net_model_load(path, &model, &error);
    if (result != AML_EINPUT || strstr(error.text, why) == NULL || strstr(error.text, path) == NULL) {
        fail_msg("result %d, '%s', expected '%s'", result, error.text, why);
    }
}

static void test_damage_is_refused(void **state) {
    (void)state;
    struct error error = {0};
    unsigned char bytes[FILE_MAX];
    unsigned char damaged[FILE_MAX];
    assert_int_equal(write_model(LAYERS, SCALE_MAX, 1, &error), 0);
    size_t size = read_file(bytes);
    for (size_t i = 0; i < size; i++) {
        memcpy(damaged, bytes, size);
        damaged[i] ^= 0x10;
        write_file(damaged, size);
        assert_refused("");
        write_file(bytes, i);
        assert_refused("");
    }
}

/* A file that says what its writer would not, with the right checksum. */
static void test_made_up_files_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t place; /* of a 4-byte number */
        uint32_t value;
        const char *why;
    } changes[] = {
        {12, SCALE_AUTO, "out of range"},
        {16, 2, "out of range"},
        {20, 13, "out of range"}, /* features */
        {24, 3, "out of range"},
        {24, 0x80000000U, "out of range"},
        {28, 0, "out of range"},
        {32, 0xffffffffU, "out of range"},
        {36, 2, "out of range"},
        {36, 0, "out of range"}, /* no image */
        {40, 1, "out of range"},
        {40, 4, "another length"},
        {44, 5000, "out of range"},
        {44, 10, "another length"},
        {48, 50, "another length"},
        {48, 0xffffffffU, "another length"},
        {52, 0x666e6f63, "model file's --layers: layer 1"}, /* "conf" */
        {52 + 8, 0x78353120, "model file's --layers: layer 1"},
        {52 + 8, 0, "no text"},
        {52 + sizeof LAYERS - 1, 0x00003131, "not in order"}, /* the label 11 before 10 */
    };
    struct error error = {0};
    unsigned char bytes[FILE_MAX];
    unsigned char damaged[FILE_MAX];
    assert_int_equal(write_model(LAYERS, SCALE_MAX, 1, &error), 0);
    size_t size = read_file(bytes);
    for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
        uint32_t value = changes[c].value;
        memcpy(damaged, bytes, size);
        memcpy(damaged + changes[c].place, &value, 4);
        uint32_t checksum = (uint32_t)crc32(crc32(0, NULL, 0), damaged, (uInt)(size - 4));
        memcpy(damaged + size - 4, &checksum, 4); /* on a little-endian machine */
        write_file(damaged, size);
        assert_refused(changes[c].why);
    }
}

static int set_up(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/model", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_parameters_are_finite),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_made_up_files_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
