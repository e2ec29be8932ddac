/* Fuzzes mlr's readers: any bytes as a file of samples, in each format and with each option, are read or rejected with
 * an error of one line. Samples keep the promises of samples.h, and a survey finds the same as a reading.
 *
 * Input: a byte for the format and whether labels may be missing, a byte for the options, and a byte for where idx
 * labels begin (in 8ths of the rest) and for the treatment of missing labels; then the file. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/samples/samples.h"

#define FUZZ_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_HEAD = 3, FUZZ_FEATURES_MAX = 1 << 16 /* limit on features of a survey with maxima, for memory */ };

/* What a reading found. */
struct seen {
    uint32_t slots; /* number of hash slots; 0: the samples are not Criteo lines */
    uint64_t samples, values, place;
    uint32_t features;
    bool label_optional, labelled;
    bool keep; /* missing labels are kept as words */
};

static struct criteo_hash fuzz_hash(uint8_t options) {
    struct criteo_hash hash = {.bits = CRITEO_HASH_BITS_MIN + options % 17U};
    struct error error = {0};
    FUZZ_CHECK((options & 1) == 0 || criteo_hash_add_crosses(&hash, "C1xC2,I1xC26,I3xI4", &error) == 0);
    return hash;
}

/* Checks a hashed sample: its features are in any order, each once, and each value counts fields. */
static void check_hashed(const struct seen *seen, const struct sample *sample) {
    double sum = 0;
    FUZZ_CHECK(sample->count > 0 && sample->count <= CRITEO_HASH_SLOTS_MAX);
    for (uint32_t i = 0; i < sample->count; i++) {
        FUZZ_CHECK(sample->features[i] < seen->slots && sample->values[i] >= 1);
        sum += sample->values[i];
        for (uint32_t j = 0; j < i; j++) {
            FUZZ_CHECK(sample->features[j] != sample->features[i]);
        }
    }
    FUZZ_CHECK(sum == CRITEO_FIELDS || sum == CRITEO_FIELDS + 3);
    FUZZ_CHECK(!sample->ones || sum == sample->count);
}

static int check_sample(void *context, const struct sample *sample, struct error *error) {
    struct seen *seen = context;
    (void)error;
    FUZZ_CHECK(sample->number == seen->samples);
    FUZZ_CHECK(sample->count <= SAMPLES_VALUES_MAX);
    size_t length = strlen(sample->label.text);
    FUZZ_CHECK(length <= LABEL_MAX && (sample->labelled || seen->label_optional));
    FUZZ_CHECK(!sample->labelled || seen->label_optional ||
               (length > 0 && (seen->keep || !label_is_missing(sample->label.text, length))));
    FUZZ_CHECK(seen->samples == 0 || sample->labelled == seen->labelled);
    seen->labelled = sample->labelled;
    FUZZ_CHECK(seen->samples == 0 || sample->place > seen->place);
    seen->place = sample->place;
    if (seen->slots > 0) {
        check_hashed(seen, sample);
        seen->samples++;
        return 0;
    }
    for (uint32_t i = 0; i < sample->count; i++) {
        FUZZ_CHECK(isfinite(sample->values[i]));
        uint32_t feature = sample->features != NULL ? sample->features[i] : i;
        FUZZ_CHECK(feature <= SAMPLES_INDEX_MAX);
        FUZZ_CHECK(i == 0 || sample->features == NULL || feature > sample->features[i - 1]);
        seen->features = feature + 1 > seen->features ? feature + 1 : seen->features;
    }
    seen->samples++;
    seen->values += sample->count;
    return 0;
}

/* Reads a file again with its survey's numbering: the samples are the same, with features below the survey's number. */
static void check_numbering(const struct samples_file *file, const struct samples_survey *survey,
                            const struct seen *seen) {
    struct samples_file again = *file;
    struct seen numbered = {.label_optional = seen->label_optional, .keep = seen->keep};
    struct error error = {0};
    again.numbering = &survey->numbering;
    FUZZ_CHECK(samples_read(&again, check_sample, &numbered, &error) == 0);
    FUZZ_CHECK(numbered.samples == seen->samples && numbered.values == seen->values);
    FUZZ_CHECK(numbered.features == survey->features);
}

static void check_survey(const struct samples_file *file, bool find_base, const struct seen *seen, bool read) {
    struct samples_survey survey;
    struct error error = {0};
    bool large = seen->features > FUZZ_FEATURES_MAX;
    const struct samples_wanted wanted = {.base = find_base, .numbered = find_base, .maxima = !large};
    int result = samples_survey(file, &wanted, &survey, &error);
    if (result != 0) {
        FUZZ_CHECK((result == AML_EINPUT || result == AML_ELIMIT) && error.text[0] != '\0');
        FUZZ_CHECK(!read || result == AML_ELIMIT || (!find_base && seen->features > SAMPLES_FEATURES_MAX));
        return;
    }
    FUZZ_CHECK(survey.format != SAMPLES_AUTO);
    FUZZ_CHECK(survey.labels.count >= 1 && survey.features >= 1);
    for (uint32_t k = 0; k < survey.labels.count; k++) {
        FUZZ_CHECK(labels_find(&survey.labels, &survey.labels.items[k]) == k);
    }
    if (read && (!find_base || survey.index_base == file->index_base)) {
        FUZZ_CHECK(survey.samples == seen->samples && survey.values == seen->values);
        if (numbering_is_used(&survey.numbering)) {
            check_numbering(file, &survey, seen);
        } else {
            FUZZ_CHECK(survey.features == (seen->features > 0 ? seen->features : 1));
        }
    }
    samples_survey_close(&survey);
}

/* Reads the file again as test data with its own columns: it has as many samples. */
static void check_like(const struct samples_file *file, uint64_t samples) {
    struct samples_file again = *file;
    struct samples_head head;
    struct error error = {0};
    if (samples_read_head(file, &head, &error) != 0) {
        return;
    }
    again.like = &head.columns;
    struct seen seen = {.keep = file->missing == SAMPLES_MISSING_KEEP};
    int result = samples_read(&again, check_sample, &seen, &error);
    FUZZ_CHECK(head.columns.count == 0 || result == 0);
    FUZZ_CHECK(result != 0 || seen.samples == samples);
    samples_head_close(&head);
}

/* Checks the detection of Criteo lines and the estimate of their number. */
static void check_criteo(const struct samples_file *file) {
    struct error error = {0};
    enum samples_format format;
    int result = samples_find_format(file, &format, &error);
    FUZZ_CHECK(result == 0 ? error.code == 0 : result == AML_EINPUT && format == SAMPLES_AUTO);
    FUZZ_CHECK(file->format == SAMPLES_AUTO || format == file->format);
    struct samples_survey survey;
    result = samples_survey_criteo(file, &survey, &error);
    FUZZ_CHECK(result == 0 || result == AML_EINPUT);
    if (result == 0) {
        FUZZ_CHECK(survey.samples >= 1 && survey.features == UINT32_C(1) << file->hash.bits);
        FUZZ_CHECK(survey.labels.count == 2);
        samples_survey_close(&survey);
    }
}

static bool is_idx(const struct samples_file *file) {
    struct error error = {0};
    enum samples_format format;
    return samples_find_format(file, &format, &error) != 0 || format == SAMPLES_IDX;
}

static int make_file(const uint8_t *data, size_t size, char path[32]) {
    int file = memfd_create("samples", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
    snprintf(path, 32, "/proc/self/fd/%d", file);
    return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < FUZZ_HEAD) {
        return 0;
    }
    size_t rest = size - FUZZ_HEAD;
    size_t cut = (data[2] & 8) != 0 ? rest * (data[2] % 8U) / 8 : rest;
    char path[32];
    char labels_path[32];
    int images = make_file(data + FUZZ_HEAD, cut, path);
    int labels = make_file(data + FUZZ_HEAD + cut, rest - cut, labels_path);
    static const char *const columns[] = {NULL, "-3", "-2", "-1", "0", "1", "2", "class"};
    const struct samples_file file = {.path = path,
                                      .labels_path = cut < rest ? labels_path : NULL,
                                      .format = (enum samples_format)(data[0] % 6),
                                      .index_base = data[1] % 2,
                                      .label_column = columns[data[1] / 4 % 8],
                                      .hash = fuzz_hash(data[1]),
                                      .missing = (enum samples_missing)(data[2] / 16 % 3),
                                      .label_optional = data[0] >= 128,
                                      .features = 1 + data[1] / 32};
    struct seen seen = {.label_optional = file.label_optional,
                        .keep = file.missing == SAMPLES_MISSING_KEEP,
                        .slots = file.format == SAMPLES_CRITEO ? UINT32_C(1) << file.hash.bits : 0};
    struct error error = {0};
    int result = samples_read(&file, check_sample, &seen, &error);
    FUZZ_CHECK(result == 0 ? seen.samples > 0 && error.code == 0 : result == AML_EINPUT && error.code == result);
    FUZZ_CHECK(result == 0 || strncmp(error.text, path, strlen("/proc/self/fd/")) == 0);
    check_criteo(&file);
    if (result == 0 && !file.label_optional && file.format != SAMPLES_CRITEO && seen.samples > 0 && !is_idx(&file)) {
        check_like(&file, seen.samples);
    }
    if (!file.label_optional && file.format != SAMPLES_CRITEO) {
        check_survey(&file, (data[1] & 2) != 0, &seen, result == 0);
    }
    close(images);
    close(labels);
    return 0;
}
