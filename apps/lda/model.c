/* See model.h. The counts that are unknown when writing starts are at the end of the file. */
#include "apps/lda/model.h"

#include "agileml/base/memory.h"
#include "apps/lda/sampler.h"
#include "apps/little_endian.h"
#include "apps/model_file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 1,
    HEADER_SIZE = 40,
    ROW_SIZE = 8, /* bytes before a row's pairs */
    PAIR_SIZE = 8,
    COUNTS_SIZE = 24 /* bytes at the file's end, before the checksum */
};

static const struct model_file_kind kind = {.app = "lda",
                                            .magic = {'A', 'M', 'L', 'L', 'D', 'A', 'M', 'D'},
                                            .version = VERSION,
                                            .smallest = HEADER_SIZE + COUNTS_SIZE + MODEL_FILE_CHECKSUM};

static bool header_fits(const struct lda_model_header *header) {
    return header->topics >= 1 && header->topics <= LDA_TOPICS_MAX && header->vocabulary >= 1 &&
           header->vocabulary <= LDA_VOCABULARY_MAX && isfinite(header->alpha) && header->alpha > 0 &&
           isfinite(header->beta) && header->beta > 0;
}

/* ---- Writing ---- */

struct lda_model_writer {
    struct lda_model_header header;
    struct model_file_writer *file;
    uint64_t rows, pairs, names;
};

int lda_model_writer_open(struct lda_model_writer **result, const char *path, const struct lda_model_header *header,
                          struct error *error) {
    assert(header_fits(header));
    *result = NULL;
    struct model_file_writer *file;
    int code = model_file_begin(&file, path, &kind, 0, error);
    if (code != 0) {
        return code;
    }
    struct lda_model_writer *writer = memory_zeroed(1, sizeof *writer);
    *writer = (struct lda_model_writer){.header = *header, .file = file};
    unsigned char *bytes = model_file_room(file, HEADER_SIZE - MODEL_FILE_START);
    put32(bytes, 0);
    put32(bytes + 4, header->topics);
    put32(bytes + 8, header->vocabulary);
    put_double(bytes + 12, header->alpha);
    put_double(bytes + 20, header->beta);
    *result = writer;
    return 0;
}

static void writer_pair(struct lda_model_writer *writer, uint32_t first, uint32_t second) {
    unsigned char *bytes = model_file_room(writer->file, PAIR_SIZE);
    put32(bytes, first);
    put32(bytes + 4, second);
}

int lda_model_writer_row(struct lda_model_writer *writer, uint32_t word, const int32_t *counts, struct error *error) {
    uint32_t topics = 0;
    assert(word < writer->header.vocabulary);
    for (uint32_t k = 0; k < writer->header.topics; k++) {
        assert(counts[k] >= 0);
        topics += counts[k] > 0 ? 1 : 0;
    }
    if (topics == 0) {
        return 0;
    }
    writer_pair(writer, word, topics);
    for (uint32_t k = 0; k < writer->header.topics; k++) {
        if (counts[k] > 0) {
            writer_pair(writer, k, (uint32_t)counts[k]);
        }
    }
    writer->rows++;
    writer->pairs += topics;
    return model_file_failed(writer->file, error);
}

static void writer_end(struct lda_model_writer *writer, const struct lda_vocabulary *names) {
    bool named = names != NULL && names->count > 0;
    assert(!named || names->count >= writer->header.vocabulary);
    for (uint32_t word = 0; named && word < writer->header.vocabulary; word++) {
        const char *name = lda_vocabulary_word(names, word);
        size_t length = strlen(name);
        unsigned char *bytes = model_file_room(writer->file, length + 1);
        memcpy(bytes, name, length);
        bytes[length] = '\n';
        writer->names += length + 1;
    }
    unsigned char *end = model_file_room(writer->file, COUNTS_SIZE);
    put64(end, writer->rows);
    put64(end + 8, writer->pairs);
    put64(end + 16, writer->names);
}

int lda_model_writer_close(struct lda_model_writer *writer, int result, const struct lda_vocabulary *names,
                           struct error *error) {
    if (result == 0) {
        writer_end(writer, names);
    }
    result = model_file_end(writer->file, result, NULL, error);
    free(writer);
    return result;
}

/* ---- Reading ---- */

static int bad_model(const char *path, const char *what, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: the model file is damaged: %s", path, what);
}

/* Checks the header and the counts at the file's end against each other and the size. */
static int check_ends(struct lda_model *model, size_t size, const char *path, uint64_t counts[3], struct error *error) {
    const unsigned char *bytes = model->bytes;
    const unsigned char *end = bytes + size - COUNTS_SIZE;
    model->header =
        (struct lda_model_header){get32(bytes + 16), get32(bytes + 20), get_double(bytes + 24), get_double(bytes + 32)};
    for (unsigned i = 0; i < 3; i++) {
        counts[i] = get64(end + 8 * (size_t)i);
    }
    if (get32(bytes + 12) != 0 || !header_fits(&model->header)) {
        return bad_model(path, "its topics, words, alpha or beta are out of range", error);
    }
    uint64_t room = size - HEADER_SIZE - COUNTS_SIZE;
    if (counts[0] > room / ROW_SIZE || counts[1] > room / PAIR_SIZE || counts[2] > room ||
        counts[0] * ROW_SIZE + counts[1] * PAIR_SIZE + counts[2] != room || counts[0] > model->header.vocabulary) {
        return bad_model(path, "its size does not fit its counts", error);
    }
    return 0;
}

/* Checks the row at *at and moves *at to its end. */
static int load_row(struct lda_model *model, size_t *at, size_t end, const char *path, struct error *error) {
    if (end - *at < ROW_SIZE) {
        return bad_model(path, "a row is cut short", error);
    }
    const unsigned char *bytes = model->bytes + *at;
    uint32_t word = get32(bytes);
    uint32_t topics = get32(bytes + 4);
    if (word >= model->header.vocabulary || model->rows[word] != 0 || topics == 0 || topics > model->header.topics ||
        (end - *at - ROW_SIZE) / PAIR_SIZE < topics) {
        return bad_model(path, "a row's word or number of topics is out of range", error);
    }
    bytes += ROW_SIZE;
    for (uint32_t i = 0; i < topics; i++, bytes += PAIR_SIZE) {
        uint32_t topic = get32(bytes);
        uint32_t count = get32(bytes + 4);
        if (topic >= model->header.topics || (i > 0 && topic <= get32(bytes - PAIR_SIZE)) || count == 0 ||
            count > INT32_MAX) {
            return bad_model(path, "a row's topic or count is out of range", error);
        }
        model->totals[topic] += count;
    }
    model->rows[word] = *at;
    *at += ROW_SIZE + (size_t)topics * PAIR_SIZE;
    return 0;
}

static int load_names(struct lda_model *model, const char *names, size_t size, const char *path, struct error *error) {
    const char *end = names + size;
    while (names < end) {
        const char *line = memchr(names, '\n', (size_t)(end - names));
        size_t length = line != NULL ? (size_t)(line - names) : 0;
        if (length == 0 || length > LDA_WORD_MAX || memchr(names, '\0', length) != NULL ||
            lda_vocabulary_find(&model->names, names, length) >= 0 || model->names.count == model->header.vocabulary) {
            return bad_model(path, "a word's name is empty, too long or there twice", error);
        }
        lda_vocabulary_add(&model->names, names, length);
        names = line + 1;
    }
    return size > 0 && model->names.count != model->header.vocabulary ? bad_model(path, "names are missing", error) : 0;
}

static int load_contents(struct lda_model *model, size_t size, const char *path, struct error *error) {
    uint64_t counts[3];
    int result = check_ends(model, size, path, counts, error);
    if (result != 0) {
        return result;
    }
    model->rows = calloc(model->header.vocabulary, sizeof *model->rows);
    model->totals = calloc(model->header.topics, sizeof *model->totals);
    if (model->rows == NULL || model->totals == NULL) {
        return error_set(error, AML_ENOMEM, "%s: no memory for %u words", path, model->header.vocabulary);
    }
    size_t at = HEADER_SIZE;
    size_t end = size - COUNTS_SIZE - (size_t)counts[2];
    for (uint64_t row = 0; row < counts[0] && result == 0; row++) {
        result = load_row(model, &at, end, path, error);
    }
    if (result == 0 && at != end) {
        result = bad_model(path, "it has not as many rows as it says", error);
    }
    return result != 0 ? result : load_names(model, (const char *)model->bytes + end, (size_t)counts[2], path, error);
}

int lda_model_load(const char *path, struct lda_model *model, struct error *error) {
    *model = (struct lda_model){0};
    size_t size = 0;
    int result = model_file_load(path, &kind, &model->bytes, &size, error);
    result = result != 0 ? result : load_contents(model, size, path, error);
    if (result != 0) {
        lda_model_close(model);
    }
    return result;
}

void lda_model_close(struct lda_model *model) {
    free(model->bytes);
    free(model->rows);
    free(model->totals);
    lda_vocabulary_close(&model->names);
    *model = (struct lda_model){0};
}

void lda_model_phi(const struct lda_model *model, uint32_t word, float *phi) {
    const double beta = model->header.beta;
    const double smoothing = beta * model->header.vocabulary;
    for (uint32_t k = 0; k < model->header.topics; k++) {
        phi[k] = (float)(beta / (model->totals[k] + smoothing));
    }
    if (model->rows[word] == 0) {
        return;
    }
    const unsigned char *row = model->bytes + model->rows[word];
    for (uint32_t i = 0; i < get32(row + 4); i++) {
        const unsigned char *pair = row + ROW_SIZE + (size_t)i * PAIR_SIZE;
        uint32_t topic = get32(pair);
        phi[topic] = (float)((get32(pair + 4) + beta) / (model->totals[topic] + smoothing));
    }
}
