/* The file of a network is read as written. A file that is cut, made up or damaged in any byte is refused. */
#include "apps/net/model.h"
#include "tests/files.h"
#include "tests/test.h"

#include <math.h>
#include <unistd.h>
#include <zlib.h>

enum { FEATURES = 12, CLASSES = 3, FILE_MAX = 8192 };

#define LAYERS "conv 2x3, norm, pool 2, dense 4, dropout 0.5"

static const char path[] = "model";

static const float MAXIMA[FEATURES] = {1, 2, 4, 0, 8, 1, 1, 1, 1, 1, 1, 3};
static const double FACTORS[FEATURES] = {1, 0, 1e-9, 1e9, 0.1, 3, 4, 5, 6, 7, 8, 1e-300};
static const double CENTRES[FEATURES] = {0, 1.6e9, -2, 1e300, 0.1, 3, 4, 5, 6, 7, 8, 9};
static const struct network_shape IMAGES = {.height = 4, .width = 3, .channels = 1, .image = true};

static bool centred = true; /* models with SCALE_STANDARD have centres */

static int write_model(const char *layers, enum scale_kind kind, float last, struct error *error) {
    CLOSED_BY(labels_close) struct labels labels = {0};
    static const char *const texts[CLASSES] = {"2", "10", "other"};
    struct network network;
    for (int k = 0; k < CLASSES; k++) {
        struct label label;
        assert_true(label_make(&label, texts[k], strlen(texts[k])));
        assert_true(labels_add(&labels, &label));
    }
    labels_sort(&labels);
    assert_int_equal(network_parse(&network, layers, &IMAGES, CLASSES, error), 0);
    FREED float *parameters = malloc(network.parameters * sizeof *parameters);
    assert_non_null(parameters);
    network_start(&network, 3, 0, network.parameters, parameters);
    parameters[network.parameters - 1] = last;
    const struct samples_model samples = {.scale = {.kind = kind,
                                                    .features = FEATURES,
                                                    .maxima = MAXIMA,
                                                    .factors = FACTORS,
                                                    .centres = centred ? CENTRES : NULL},
                                          .index_base = 1,
                                          .labels = labels};
    int result = net_model_write(path, &samples, layers, &network, parameters, error);
    return result;
}

TEST(written_and_read) {
    static const char *const layers[] = {LAYERS, "", NULL};
    for (size_t m = 0; m < 3; m++) {
        struct error error = {0};
        CLOSED_BY(net_model_close) struct net_model model;
        enum scale_kind kind = m == 0 ? SCALE_MAX : SCALE_BYTE;
        assert_int_equal(write_model(layers[m], kind, 7, &error), 0);
        assert_int_equal(net_model_load(path, &model, &error), 0);
        assert_int_equal(model.samples.scale.kind, kind);
        assert_int_equal(model.samples.scale.features, FEATURES);
        assert_int_equal(model.samples.index_base, 1);
        assert_string_equal(model.samples.labels.items[1].text, "10");
        assert_true(m > 0 || memcmp(model.samples.scale.maxima, MAXIMA, sizeof MAXIMA) == 0);
        size_t count = model.network.parameters;
        assert_int_equal(count, m == 0 ? 20 + 4 + 20 + 15 : 13 * CLASSES);
        FREED float *start = malloc(count * sizeof *start);
        assert_non_null(start);
        network_start(&model.network, 3, 0, count, start);
        assert_memory_equal(model.parameters, start, (count - 1) * sizeof *start);
        assert_true(model.parameters[count - 1] == 7);
    }
}

/* A file with standardized features has version 2; others keep version 1, like older files. */
TEST(standardized_features) {
    static const bool with[] = {true, false};
    struct error error = {0};
    unsigned char bytes[FILE_MAX];
    struct net_model model;
    for (size_t m = 0; m < 2; m++) {
        centred = with[m];
        assert_int_equal(write_model(LAYERS, SCALE_STANDARD, 7, &error), 0);
        read_bytes(path, bytes, FILE_MAX);
        assert_int_equal(bytes[8], NET_MODEL_VERSION_STANDARD);
        assert_int_equal(net_model_load(path, &model, &error), 0);
        assert_int_equal(model.samples.scale.kind, SCALE_STANDARD);
        assert_memory_equal(model.samples.scale.factors, FACTORS, sizeof FACTORS);
        assert_true((model.samples.scale.centres != NULL) == centred);
        assert_true(!centred || memcmp(model.samples.scale.centres, CENTRES, sizeof CENTRES) == 0);
        assert_true(model.parameters[model.network.parameters - 1] == 7);
        net_model_close(&model);
    }
    centred = true;
    assert_int_equal(write_model(LAYERS, SCALE_NONE, 7, &error), 0);
    read_bytes(path, bytes, FILE_MAX);
    assert_int_equal(bytes[8], NET_MODEL_VERSION);
    assert_int_equal(net_model_load(path, &model, &error), 0);
    assert_true(model.samples.scale.kind == SCALE_NONE && model.samples.scale.factors == NULL &&
                model.samples.scale.centres == NULL);
    net_model_close(&model);
}

TEST(parameters_are_finite) {
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

TEST(damage_is_refused) {
    struct error error = {0};
    unsigned char bytes[FILE_MAX];
    unsigned char damaged[FILE_MAX];
    static const enum scale_kind kinds[] = {SCALE_MAX, SCALE_STANDARD};
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(write_model(LAYERS, kinds[k], 1, &error), 0);
        size_t size = read_bytes(path, bytes, FILE_MAX);
        for (size_t i = 0; i < size; i++) {
            memcpy(damaged, bytes, size);
            damaged[i] ^= 0x10;
            write_bytes(path, damaged, size);
            assert_refused("");
            write_bytes(path, bytes, i);
            assert_refused("");
        }
    }
}

struct change {
    size_t place; /* offset of a 4-byte number */
    uint32_t value;
    const char *why;
};

/* Files with changes that no writer makes, and right checksums, are refused. */
static void assert_changes_are_refused(enum scale_kind kind, const struct change *changes, size_t count) {
    struct error error = {0};
    unsigned char bytes[FILE_MAX];
    unsigned char damaged[FILE_MAX];
    assert_int_equal(write_model(LAYERS, kind, 1, &error), 0);
    size_t size = read_bytes(path, bytes, FILE_MAX);
    for (size_t c = 0; c < count; c++) {
        uint32_t value = changes[c].value;
        memcpy(damaged, bytes, size);
        memcpy(damaged + changes[c].place, &value, 4);
        uint32_t checksum = (uint32_t)crc32(crc32(0, NULL, 0), damaged, (uInt)(size - 4));
        memcpy(damaged + size - 4, &checksum, 4); /* as on a little-endian machine */
        write_bytes(path, damaged, size);
        assert_refused(changes[c].why);
    }
}

TEST(made_up_files_are_refused) {
    static const struct change changes[] = {
        {8, NET_MODEL_VERSION_STANDARD, "out of range"},
        {12, SCALE_STANDARD, "out of range"},
        {12, SCALE_AUTO, "out of range"},
        {16, 2, "out of range"},
        {20, 13, "out of range"}, /* features */
        {24, 3, "out of range"},
        {24, 0x80000000U, "out of range"},
        {28, 0, "out of range"},
        {32, 0xffffffffU, "out of range"},
        {36, 2, "out of range"},
        {36, 0, "out of range"}, /* not an image */
        {40, 1, "out of range"},
        {40, 4, "another length"},
        {44, 5000, "out of range"},
        {44, 10, "another length"},
        {48, 50, "another length"},
        {48, 0xffffffffU, "another length"},
        {52, 0x666e6f63, "model file's --layers: layer 1"}, /* "conf" */
        {52 + 8, 0x78353120, "model file's --layers: layer 1"},
        {52 + 8, 0, "no text"},
        {52 + sizeof LAYERS - 1, 0x00003131, "out of order"}, /* the label 11 before 10 */
    };
    enum { FLAGS = 52 + sizeof LAYERS - 1 + CLASSES * (LABEL_MAX + 1) };
    static const struct change standard[] = {
        {8, NET_MODEL_VERSION, "out of range"},
        {12, SCALE_NONE, "out of range"},
        {FLAGS, 0, "another length"},
        {FLAGS, 2, "unknown flags"},
        {FLAGS + 8, 0x7ff00000, "factor that is not finite"},
        {FLAGS + 8 + 8 * FEATURES, 0x7ff80000, "centre or factor that is not finite"},
    };
    assert_changes_are_refused(SCALE_MAX, changes, sizeof changes / sizeof changes[0]);
    assert_changes_are_refused(SCALE_STANDARD, standard, sizeof standard / sizeof standard[0]);
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
