/* The file of an mlr model is read as written, and predictions follow from the weights. A file that is cut, made up
 * or damaged in any byte is refused. */
#include "apps/mlr/model.h"
#include "tests/files.h"
#include "tests/test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { FEATURES = 6, CLASSES = 3, FILE_MAX = 4096 };

static const char path[] = "model";

static const float MAXIMA[FEATURES] = {1, 2, 4, 0, 8, 1};
static const double FACTORS[FEATURES] = {1, 0, 0.25, 4, 1e-9, 2};
static const double CENTRES[FEATURES] = {0, 3, -8, 0.5, 1, 0};

static struct labels make_labels(void) {
    struct labels labels = {0};
    static const char *const texts[CLASSES] = {"2", "10", "other"};
    for (int k = 0; k < CLASSES; k++) {
        struct label label;
        assert_true(label_make(&label, texts[k], strlen(texts[k])));
        assert_true(labels_add(&labels, &label));
    }
    labels_sort(&labels);
    return labels;
}

/* Feature 3 has no weights. */
static float weight(uint64_t feature, uint32_t class) {
    return feature == 3 ? 0 : (float)feature - 2.5F * (float)class;
}

static struct column_names names;  /* column names of the next model; none in most tests */
static bool centred = true;        /* standardized samples have centres */
static struct numbering numbering; /* numbering of the next model's features; none in most tests */

static int write_model(enum scale_kind kind, float bias, struct error *error) {
    struct labels labels = make_labels();
    const struct samples_model samples = {.scale = {.kind = kind,
                                                    .features = FEATURES,
                                                    .maxima = MAXIMA,
                                                    .factors = FACTORS,
                                                    .centres = centred ? CENTRES : NULL},
                                          .index_base = 1,
                                          .numbering = numbering,
                                          .labels = labels,
                                          .names = names};
    struct mlr_model_writer *writer;
    int result = mlr_model_writer_open(&writer, path, &samples, error);
    for (uint64_t feature = FEATURES + 1; feature-- > 0 && result == 0;) { /* rows in any order */
        float row[CLASSES];
        for (uint32_t k = 0; k < CLASSES; k++) {
            row[k] = feature < FEATURES ? weight(feature, k) : bias;
        }
        result = mlr_model_writer_rows(writer, &feature, row, 1, error);
    }
    labels_close(&labels);
    return writer != NULL ? mlr_model_writer_close(writer, result, error) : result;
}

static void expect_refused(const char *message) {
    struct mlr_model model;
    struct error error = {0};
    int result = mlr_model_load(path, &model, &error);
    if (result != AML_EINPUT || strstr(error.text, message) == NULL) {
        fail_msg("%d '%s', expected '%s'", result, error.text, message);
    }
}

TEST(what_is_written_is_read) {
    for (unsigned kind = SCALE_NONE; kind < SCALE_AUTO; kind++) {
        CLOSED_BY(mlr_model_close) struct mlr_model model;
        struct error error = {0};
        assert_int_equal(write_model((enum scale_kind)kind, 0, &error), 0);
        assert_int_equal(mlr_model_load(path, &model, &error), 0);
        assert_int_equal(model.samples.scale.kind, kind);
        assert_int_equal(model.samples.scale.features, FEATURES);
        assert_int_equal(model.samples.index_base, 1);
        assert_int_equal(model.samples.labels.count, CLASSES);
        assert_string_equal(model.samples.labels.items[1].text, "10");
        assert_int_equal(model.row_count, 1 + FEATURES); /* zeros, the biases, and all features except 3 */
        assert_int_equal(model.places[3], 0);
        if (kind == SCALE_MAX) {
            assert_memory_equal(model.samples.maxima, MAXIMA, sizeof MAXIMA);
        }
        if (kind == SCALE_STANDARD) {
            assert_memory_equal(model.samples.factors, FACTORS, sizeof FACTORS);
            assert_memory_equal(model.samples.centres, CENTRES, sizeof CENTRES);
        }
    }
}

TEST(predictions) {
    CLOSED_BY(mlr_model_close) struct mlr_model model;
    CLOSED_BY(mlr_prediction_close) struct mlr_prediction prediction = {0};
    struct error error = {0};
    assert_int_equal(write_model(SCALE_MAX, 0.5F, &error), 0);
    assert_int_equal(mlr_model_load(path, &model, &error), 0);
    const uint32_t features[] = {1, 3, 4, 99}; /* a feature without weights, and one that the model does not know */
    const double values[] = {1, 100, -4, 1000};
    const struct sample sample = {.features = features, .values = values, .count = 4};
    mlr_model_predict(&model, &sample, &prediction);
    double sum = 0;
    double expected[CLASSES];
    for (uint32_t k = 0; k < CLASSES; k++) {
        expected[k] = exp(0.5 + 0.5 * (double)weight(1, k) - 0.5 * (double)weight(4, k));
        sum += expected[k];
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        assert_true(fabs((double)prediction.probabilities[k] - expected[k] / sum) < 1e-6);
    }
    assert_int_equal(prediction.best, 0);
}

/* A value that is not stored is 0, which becomes a nonzero value if features have centres. */
TEST(predictions_of_centred_samples) {
    const uint32_t features[] = {0, 5, 99};
    const double values[] = {0.75, -0.5, 1000};
    const struct sample sample = {.features = features, .values = values, .count = 3};
    for (unsigned turn = 0; turn < 2; turn++) {
        CLOSED_BY(mlr_model_close) struct mlr_model model;
        CLOSED_BY(mlr_prediction_close) struct mlr_prediction prediction = {0};
        struct error error = {0};
        centred = turn == 0;
        assert_int_equal(write_model(SCALE_STANDARD, 0.5F, &error), 0);
        assert_int_equal(mlr_model_load(path, &model, &error), 0);
        mlr_model_predict(&model, &sample, &prediction);
        double sum = 0;
        double expected[CLASSES];
        for (uint32_t k = 0; k < CLASSES; k++) {
            double logit = 0.5;
            for (uint32_t f = 0; f < FEATURES; f++) {
                double value = f == 0 ? 0.75 : f == 5 ? -0.5 : 0;
                double scaled = (value - (centred ? CENTRES[f] : 0)) * FACTORS[f];
                assert_true(fabs(scaled) < SCALE_STANDARD_LIMIT);
                logit += (double)weight(f, k) * scaled;
            }
            expected[k] = exp(logit);
            sum += expected[k];
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            assert_true(fabs((double)prediction.probabilities[k] - expected[k] / sum) < 1e-5);
        }
    }
    centred = true;
}

TEST(damage_is_found) {
    unsigned char bytes[FILE_MAX];
    struct error error = {0};
    assert_int_equal(write_model(SCALE_MAX, 1, &error), 0);
    size_t size = read_bytes(path, bytes, FILE_MAX);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x10;
        write_bytes(path, bytes, size);
        expect_refused(i < 8 ? "not a model file of mlr" : "checksum does not match");
        bytes[i] ^= 0x10;
    }
    for (size_t cut = 0; cut < size; cut += 7) {
        write_bytes(path, bytes, cut);
        expect_refused("truncated");
    }
    assert_int_equal(unlink(path), 0);
    expect_refused("No such file");
}

/* Writes bytes[size], followed by their checksum; `bytes` has room for it. */
static void write_checked(unsigned char *bytes, size_t size) {
    uint32_t checksum = (uint32_t)crc32(crc32(0, NULL, 0), bytes, (uInt)size);
    for (unsigned i = 0; i < 4; i++) {
        bytes[size + i] = (unsigned char)(checksum >> (8 * i));
    }
    write_bytes(path, bytes, size + 4);
}

/* A file with `other` in place of `removed` bytes at `at`, and a right checksum, is refused. */
static void expect_refused_with(size_t at, const void *other, size_t other_size, size_t removed, const char *message) {
    unsigned char bytes[FILE_MAX];
    struct error error = {0};
    assert_int_equal(write_model(SCALE_MAX, 1, &error), 0);
    size_t size = read_bytes(path, bytes, FILE_MAX) - 4 - removed;
    memcpy(bytes + at, other, other_size);
    write_checked(bytes, size);
    expect_refused(message);
}

/* The names of columns form a section at the end. */
TEST(names_are_read) {
    unsigned char bytes[FILE_MAX];
    struct mlr_model model;
    struct error error = {0};
    char *features[FEATURES];
    static char texts[FEATURES][16];
    for (unsigned f = 0; f < FEATURES; f++) {
        snprintf(texts[f], sizeof texts[f], f == 2 ? "" : "feature %u", f);
        features[f] = texts[f];
    }
    static char label[] = "kind";
    names = (struct column_names){.features = features, .count = FEATURES, .label = label};
    assert_int_equal(write_model(SCALE_MAX, 0, &error), 0);
    assert_int_equal(mlr_model_load(path, &model, &error), 0);
    assert_int_equal(model.samples.names.count, FEATURES);
    assert_string_equal(model.samples.names.label, "kind");
    assert_string_equal(model.samples.names.features[1], "feature 1");
    assert_string_equal(model.samples.names.features[2], "");
    assert_int_equal(model.row_count, 1 + FEATURES);
    mlr_model_close(&model);
    size_t size = read_bytes(path, bytes, FILE_MAX);
    static const unsigned char lengths[] = {0, 1, 4, 0xff};
    for (size_t l = 0; l < sizeof lengths; l++) { /* lengths of the section */
        expect_refused_with(size - 8, &lengths[l], 1, 0, "the model file ");
    }
    names.count = FEATURES - 1;
    assert_int_equal(write_model(SCALE_MAX, 0, &error), 0);
    expect_refused("another number of names than features");
    names = (struct column_names){0};
}

TEST(nothing_is_believed) {
    const size_t labels = 28;
    const size_t maxima = labels + CLASSES * 56;
    const size_t rows = maxima + FEATURES * 4;
    const size_t row = 4 + CLASSES * 4;
    expect_refused_with(8, "\6", 1, 0, "version 6, expected at most");
    expect_refused_with(8, "\5", 1, 0, "indexes of features that are out of range"); /* maxima read as indexes */
    expect_refused_with(8, "\3", 1, 0, "a shape of images out of range");
    expect_refused_with(8, "\0", 1, 0, "version 0, expected at most");
    expect_refused_with(8, "\2", 1, 0, "of its hash out of range"); /* labels read as bits and crosses */
    expect_refused_with(12, "\4", 1, 0, "out of range");
    expect_refused_with(16, "\2", 1, 0, "out of range");
    expect_refused_with(20, "\0", 1, 0, "out of range");
    expect_refused_with(23, "\xff", 1, 0, "out of range");
    expect_refused_with(24, "\1", 1, 0, "out of range");
    expect_refused_with(24, "\xff\xff", 2, 0, "ends in its header");
    expect_refused_with(labels, "\0", 1, 0, "a malformed label");
    expect_refused_with(labels, "2\n0", 3, 0, "a malformed label");
    expect_refused_with(labels, "11", 2, 0, "labels out of order");
    expect_refused_with(labels, "10", 2, 0, "label"); /* the same label twice */
    expect_refused_with(maxima, "\0\0\xc0\x7f", 4, 0, "negative or not finite");
    expect_refused_with(maxima, "\0\0\x80\xbf", 4, 0, "negative or not finite");
    expect_refused_with(rows, "\7", 1, 0, "a feature twice, or one out of range");
    expect_refused_with(rows + row, "\6", 1, 0, "a feature twice, or one out of range");
    expect_refused_with(rows, "\3", 1, 0, "has no biases");
    expect_refused_with(rows + 4, "\0\0\x80\x7f", 4, 0, "a weight that is not finite");
    expect_refused_with(rows, "\6", 1, 4, "a length that does not fit");
}

/* ---- Models of numbered features ---- */

static const uint64_t NUMBERED[FEATURES] = {0, 7, 1 << 20, 1 << 30, INT32_MAX - 2, INT32_MAX - 1};

static void write_numbered_model(enum scale_kind kind) {
    struct error error = {0};
    uint64_t *copy = malloc(sizeof NUMBERED);
    assert_non_null(copy);
    memcpy(copy, NUMBERED, sizeof NUMBERED);
    numbering_make(&numbering, copy, FEATURES);
    assert_int_equal(write_model(kind, 0, &error), 0);
    numbering_close(&numbering);
}

/* Samples numbered by a model have only the model's features. The file has their indexes, from index_base on. */
TEST(numbered_features_are_read) {
    for (unsigned kind = SCALE_NONE; kind < SCALE_AUTO; kind++) {
        unsigned char bytes[FILE_MAX];
        CLOSED_BY(mlr_model_close) struct mlr_model model;
        struct error error = {0};
        centred = false;
        write_numbered_model((enum scale_kind)kind);
        assert_true(read_bytes(path, bytes, FILE_MAX) > 0 && bytes[8] == MLR_MODEL_VERSION_NUMBERED);
        assert_int_equal(mlr_model_load(path, &model, &error), 0);
        assert_true(numbering_is_used(&model.samples.numbering));
        assert_int_equal(model.samples.numbering.places.count, FEATURES);
        assert_memory_equal(model.samples.numbering.features, NUMBERED, sizeof NUMBERED);
        uint32_t features[] = {0, 1, 1 << 20, 1 << 21, INT32_MAX - 1};
        double values[] = {1, 2, 3, 4, 5};
        assert_int_equal(numbering_apply(&model.samples.numbering, features, values, 5), 3);
        assert_true(features[0] == 0 && features[1] == 2 && features[2] == 5);
        assert_true(values[0] == 1 && values[1] == 3 && values[2] == 5);
        if (kind == SCALE_MAX) {
            assert_memory_equal(model.samples.maxima, MAXIMA, sizeof MAXIMA);
        }
        if (kind == SCALE_STANDARD) {
            assert_memory_equal(model.samples.factors, FACTORS, sizeof FACTORS);
        }
    }
    centred = true;
}

TEST(no_numbering_is_believed) {
    static const struct {
        unsigned feature;
        unsigned char index[4];
    } wrong[] = {{0, {0, 0, 0, 0}},    /* below index_base */
                 {1, {1, 0, 0, 0}},    /* twice */
                 {2, {2, 0, 0, 0}},    /* descends */
                 {5, {0, 0, 0, 0x80}}, /* 2^31 */
                 {3, {0xff, 0xff, 0xff, 0xff}}};
    const size_t indexes = 28 + CLASSES * 56;
    for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
        unsigned char bytes[FILE_MAX];
        write_numbered_model(SCALE_MAX);
        size_t size = read_bytes(path, bytes, FILE_MAX) - 4;
        memcpy(bytes + indexes + 4 * (size_t)wrong[w].feature, wrong[w].index, 4);
        write_checked(bytes, size);
        expect_refused("indexes of features that are out of range or do not ascend");
    }
}

/* ---- Models of hashed samples ---- */

enum { HASH_BITS = 8 };

static void write_hashed_model(void) {
    CLOSED_BY(labels_close) struct labels labels = make_labels();
    struct criteo_hash hash = {.bits = HASH_BITS};
    struct error error = {0};
    assert_int_equal(criteo_hash_add_crosses(&hash, "C1xC2,I1xC26", &error), 0);
    const struct samples_model samples = {
        .scale = {.kind = SCALE_UNIT, .features = 1 << HASH_BITS}, .hash = hash, .labels = labels};
    struct mlr_model_writer *writer;
    const uint64_t numbers[] = {1 << HASH_BITS, 17};
    const float rows[2 * CLASSES] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(mlr_model_writer_open(&writer, path, &samples, &error), 0);
    assert_int_equal(mlr_model_writer_rows(writer, numbers, rows, 2, &error), 0);
    assert_int_equal(mlr_model_writer_close(writer, 0, &error), 0);
}

TEST(a_hash_is_written_and_read) {
    CLOSED_BY(mlr_model_close) struct mlr_model model;
    struct error error = {0};
    write_hashed_model();
    assert_int_equal(mlr_model_load(path, &model, &error), 0);
    assert_int_equal(model.samples.hash.bits, HASH_BITS);
    assert_int_equal(model.samples.hash.cross_count, 2);
    assert_int_equal(model.samples.hash.crosses[0].first, 0);
    assert_int_equal(model.samples.hash.crosses[0].second, 38);
    assert_int_equal(model.samples.hash.crosses[1].first, 13);
    assert_int_equal(model.samples.hash.crosses[1].second, 14);
    assert_string_equal(model.samples.labels.items[2].text, "other");
    assert_int_equal(model.row_count, 3);
    assert_true(model.rows[(size_t)model.places[17] * CLASSES] == 4);
}

/* A file with one changed byte and a right checksum is refused. */
static void expect_hash_refused(size_t at, unsigned char other, const char *message) {
    unsigned char bytes[FILE_MAX];
    write_hashed_model();
    size_t size = read_bytes(path, bytes, FILE_MAX) - 4;
    bytes[at] = other;
    write_checked(bytes, size);
    expect_refused(message);
}

TEST(no_hash_is_believed) {
    const size_t bits = 28;
    const size_t crosses = bits + 8;
    expect_hash_refused(bits, 9, "bits or crosses of its hash out of range"); /* 2^9 is not the number of features */
    expect_hash_refused(bits, 0, "bits or crosses of its hash out of range");
    expect_hash_refused(bits + 3, 1, "bits or crosses of its hash out of range");
    expect_hash_refused(bits + 4, 0, "malformed label");
    expect_hash_refused(bits + 5, 0xff, "has too many crosses");
    expect_hash_refused(crosses, 38, "bits or crosses of its hash out of range");     /* a field crossed with itself */
    expect_hash_refused(crosses + 1, 39, "bits or crosses of its hash out of range"); /* no such field */
    expect_hash_refused(crosses, 14, "bits or crosses of its hash out of range");     /* out of order */
}

TEST(only_whole_models_are_written) {
    struct error error = {0};
    assert_int_equal(write_model(SCALE_NONE, 1, &error), 0);
    unsigned char before[FILE_MAX];
    unsigned char after[FILE_MAX];
    size_t size = read_bytes(path, before, FILE_MAX);
    assert_int_equal(write_model(SCALE_NONE, NAN, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, "the training diverged"));
    assert_int_equal(read_bytes(path, after, FILE_MAX), size);
    assert_memory_equal(after, before, size);
    assert_int_equal(files_in("."), 1);
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
