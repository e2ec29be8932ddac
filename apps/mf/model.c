/* See model.h. The header is written last, as its counts are known only then. */
#include "apps/mf/model.h"

#include "agileml/base/memory.h"
#include "apps/little_endian.h"
#include "apps/mf/kernel.h"
#include "apps/mf/names.h"
#include "apps/model_file.h"
#include "workers/data/rating_ids.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_SIZE = 48,
    KEY_SIZE = 8,
    NAME_SIZE = KEY_SIZE + 4, /* followed by the name itself */
    FLAG_BIASES = 1,
    FLAG_NAMES = 2,
    FLAG_LOG1P = 4,
    VERSION_WITHOUT_NAMES = 1
};

static const struct model_file_kind model_kind = {.app = "mf",
                                                  .magic = {'A', 'M', 'L', 'M', 'F', 'M', 'D', 'L'},
                                                  .version = MF_MODEL_VERSION,
                                                  .oldest = VERSION_WITHOUT_NAMES,
                                                  .smallest = HEADER_SIZE + MODEL_FILE_CHECKSUM};

static uint32_t model_width(const struct mf_model_header *header) {
    return header->rank + (header->biases ? 1U : 0U);
}

/* Returns the bytes of one row in the file. */
static size_t model_row_size(const struct mf_model_header *header) {
    return KEY_SIZE + (size_t)model_width(header) * sizeof(float);
}

static bool model_header_is_finite(const struct mf_model_header *header) {
    return isfinite(header->mean) && isfinite(header->rating_min) && isfinite(header->rating_max);
}

struct mf_model_writer {
    struct mf_model_header header;
    struct model_file_writer *file;
    uint64_t count[2]; /* indexed by mf_model_table */
    bool names;
};

int mf_model_writer_open(struct mf_model_writer **result, const char *path, const struct mf_model_header *header,
                         struct error *error) {
    assert(header->rank >= 1 && header->rank <= MF_RANK_MAX);
    *result = NULL;
    if (!model_header_is_finite(header) || header->rating_min > header->rating_max) {
        return error_set(error, AML_EFAIL,
                         "%s: can't write the model: its mean %g or its range of ratings %g..%g is wrong", path,
                         (double)header->mean, (double)header->rating_min, (double)header->rating_max);
    }
    struct model_file_writer *file;
    int code = model_file_begin(&file, path, &model_kind, HEADER_SIZE - MODEL_FILE_START, error);
    if (code == 0) {
        *result = memory_zeroed(1, sizeof **result);
        **result = (struct mf_model_writer){.header = *header, .file = file};
    }
    return code;
}

int mf_model_writer_rows(struct mf_model_writer *writer, enum mf_model_table table, const uint64_t *keys,
                         const void *rows, size_t stride, size_t count, struct error *error) {
    uint32_t width = model_width(&writer->header);
    assert(count < 2 || stride >= width * sizeof(float));
    assert(table == MF_MODEL_ITEMS || writer->count[MF_MODEL_ITEMS] == 0);
    if (count > MF_MODEL_ROWS_MAX - writer->count[table]) {
        model_file_fail(writer->file, AML_ELIMIT, "can't write the model: more rows than a model file may hold");
    }
    for (size_t i = 0; i < count && model_file_failed(writer->file, error) == 0; i++) {
        const unsigned char *from = (const unsigned char *)rows + i * stride;
        unsigned char *to = model_file_room(writer->file, model_row_size(&writer->header));
        put64(to, keys[i]);
        for (uint32_t k = 0; k < width; k++) {
            float value;
            memcpy(&value, from + k * sizeof value, sizeof value);
            if (!isfinite(value)) {
                model_file_fail(writer->file, AML_EFAIL,
                                "can't write the model: a factor is not finite: the training diverged");
            }
            put_float(to + KEY_SIZE + k * sizeof value, value);
        }
    }
    writer->count[table] += count;
    return model_file_failed(writer->file, error);
}

static void write_name(struct mf_model_writer *writer, uint64_t key, const char *text) {
    size_t length = strlen(text);
    assert(length >= 1 && length <= RATING_ID_MAX);
    unsigned char *to = model_file_room(writer->file, NAME_SIZE + length);
    put64(to, key);
    put32(to + KEY_SIZE, (uint32_t)length);
    memcpy(to + NAME_SIZE, text, length);
}

int mf_model_writer_names(struct mf_model_writer *writer, const struct mf_names *names, struct error *error) {
    writer->names = names[MF_MODEL_USERS].count + names[MF_MODEL_ITEMS].count > 0;
    for (int t = 0; t < 2 && writer->names; t++) {
        put64(model_file_room(writer->file, sizeof(uint64_t)), names[t].count);
    }
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < names[t].count && model_file_failed(writer->file, error) == 0; i++) {
            write_name(writer, names[t].keys[i], names[t].texts[i]);
        }
    }
    return model_file_failed(writer->file, error);
}

int mf_model_writer_close(struct mf_model_writer *writer, int result, struct error *error) {
    const struct mf_model_header *header = &writer->header;
    unsigned char bytes[HEADER_SIZE - MODEL_FILE_START];
    put32(bytes,
          (header->biases ? FLAG_BIASES : 0U) | (writer->names ? FLAG_NAMES : 0U) | (header->log1p ? FLAG_LOG1P : 0U));
    if (!writer->names) {
        model_file_set_version(writer->file, VERSION_WITHOUT_NAMES);
    }
    put32(bytes + 4, header->rank);
    put_float(bytes + 8, header->mean);
    put_float(bytes + 12, header->rating_min);
    put_float(bytes + 16, header->rating_max);
    put64(bytes + 20, writer->count[MF_MODEL_USERS]);
    put64(bytes + 28, writer->count[MF_MODEL_ITEMS]);
    result = model_file_end(writer->file, result, bytes, error);
    free(writer);
    return result;
}

/* Checks the header, and that the file's size (without its checksum) matches. */
static int model_decode_header(const unsigned char *bytes, uint64_t size, const char *path, uint64_t count[2],
                               struct mf_model_header *header, struct error *error) {
    uint32_t flags = get32(bytes + 12);
    bool names = get32(bytes + MODEL_FILE_MAGIC) > VERSION_WITHOUT_NAMES && (flags & FLAG_NAMES) != 0;
    if ((flags & ~(FLAG_BIASES | FLAG_LOG1P | (names ? FLAG_NAMES : 0U))) != 0) {
        return error_set(error, AML_EINPUT, "%s: the model file has unknown flags 0x%x", path, flags);
    }
    header->biases = (flags & FLAG_BIASES) != 0;
    header->log1p = (flags & FLAG_LOG1P) != 0;
    header->rank = get32(bytes + 16);
    if (header->rank < 1 || header->rank > MF_RANK_MAX) {
        return error_set(error, AML_EINPUT, "%s: the model file has rank %u, expected 1..%d", path, header->rank,
                         MF_RANK_MAX);
    }
    header->mean = get_float(bytes + 20);
    header->rating_min = get_float(bytes + 24);
    header->rating_max = get_float(bytes + 28);
    if (!model_header_is_finite(header) || header->rating_min > header->rating_max) {
        return error_set(error, AML_EINPUT, "%s: the model file's mean %g or range of ratings %g..%g is wrong", path,
                         (double)header->mean, (double)header->rating_min, (double)header->rating_max);
    }
    count[MF_MODEL_USERS] = get64(bytes + 32);
    count[MF_MODEL_ITEMS] = get64(bytes + 40);
    if (count[MF_MODEL_USERS] > MF_MODEL_ROWS_MAX || count[MF_MODEL_ITEMS] > MF_MODEL_ROWS_MAX) {
        return error_set(error, AML_EINPUT,
                         "%s: the model file has %llu users and %llu items, expected at most %u of each", path,
                         (unsigned long long)count[MF_MODEL_USERS], (unsigned long long)count[MF_MODEL_ITEMS],
                         (unsigned)MF_MODEL_ROWS_MAX);
    }
    uint64_t expected =
        HEADER_SIZE + (count[MF_MODEL_USERS] + count[MF_MODEL_ITEMS]) * (uint64_t)model_row_size(header);
    if (size < expected || (size > expected && !names)) {
        return error_set(error, AML_EINPUT, "%s: the model file is %s: %llu bytes, expected %llu", path,
                         size < expected ? "truncated" : "too long", (unsigned long long)size + MODEL_FILE_CHECKSUM,
                         (unsigned long long)expected + MODEL_FILE_CHECKSUM);
    }
    return 0;
}

/* Checks the rows of one table, which start at `rows`, and fills the table's map. */
static int model_index(struct mf_model *model, enum mf_model_table table, const unsigned char *rows, uint64_t count,
                       const char *path, struct error *error) {
    static const char *const names[2] = {"user", "item"};
    size_t row_size = model_row_size(&model->header);
    for (uint64_t row = 0; row < count; row++, rows += row_size) {
        uint64_t key = get64(rows);
        if (index_map_find(&model->maps[table], key) != INDEX_NONE) {
            return error_set(error, AML_EINPUT, "%s: the model file holds %s %llu twice", path, names[table],
                             (unsigned long long)key);
        }
        for (size_t byte = KEY_SIZE; byte < row_size; byte += sizeof(float)) {
            if (!isfinite(get_float(rows + byte))) {
                return error_set(error, AML_EINPUT, "%s: the model file's row of %s %llu is not finite", path,
                                 names[table], (unsigned long long)key);
            }
        }
        index_map_add(&model->maps[table], key, (uint32_t)row);
    }
    return 0;
}

/* Checks the names of one table, which start at byte *at of the `size` bytes of the file, and sets *at to their end. */
static int model_check_names(const struct mf_model *model, enum mf_model_table table, uint64_t count, size_t size,
                             size_t *at, struct error *error) {
    struct index_map seen = {0};
    int code = 0;
    for (uint64_t i = 0; i < count && code == 0; i++) {
        const unsigned char *name = model->bytes + *at;
        size_t left = size - *at;
        size_t length = left >= NAME_SIZE ? get32(name + KEY_SIZE) : 0;
        if (length == 0 || length > RATING_ID_MAX || length > left - NAME_SIZE) {
            code = error_set(error, AML_EINPUT, "the names end too early or one is too long");
            break;
        }
        uint64_t named = get64(name);
        uint64_t key = 0;
        /* A name such as NA must have been in quotes, as it would be a missing id otherwise. */
        const struct text_field field = {.text = (const char *)name + NAME_SIZE,
                                         .length = length,
                                         .quoted = memchr(name + NAME_SIZE, '"', length) == NULL};
        bool known = index_map_find(&model->maps[table], named) != INDEX_NONE && rating_id_key(&field, &key);
        if (!known || key != named || index_map_find(&seen, named) != INDEX_NONE) {
            code = error_set(error, AML_EINPUT, "a name has another key than its own, or one without a row");
        } else {
            index_map_add(&seen, named, (uint32_t)i);
        }
        *at += NAME_SIZE + length;
    }
    index_map_close(&seen);
    return code;
}

/* Checks the names of both tables, if the file has any. */
static int model_check_all_names(const struct mf_model *model, size_t size, const char *path, struct error *error) {
    struct error wrong = {0};
    const size_t rows = model->maps[MF_MODEL_USERS].count + model->maps[MF_MODEL_ITEMS].count;
    size_t at = HEADER_SIZE + rows * model_row_size(&model->header);
    if ((get32(model->bytes + MODEL_FILE_START) & FLAG_NAMES) == 0) {
        return 0;
    }
    if (size - at < 2 * sizeof(uint64_t)) {
        return error_set(error, AML_EINPUT, "%s: the model file is truncated: its names are missing", path);
    }
    const unsigned char *counts = model->bytes + at;
    at += 2 * sizeof(uint64_t);
    int code = model_check_names(model, MF_MODEL_USERS, get64(counts), size, &at, &wrong);
    code = code != 0 ? code : model_check_names(model, MF_MODEL_ITEMS, get64(counts + 8), size, &at, &wrong);
    if (code == 0 && at != size) {
        code = error_set(&wrong, AML_EINPUT, "bytes follow the names");
    }
    return code == 0 ? 0 : error_set(error, code, "%s: the model file is damaged: %s", path, wrong.text);
}

static int model_load_rows(struct mf_model *model, size_t size, const char *path, struct error *error) {
    uint64_t count[2] = {0, 0};
    int code = model_decode_header(model->bytes, size, path, count, &model->header, error);
    const unsigned char *rows = model->bytes + HEADER_SIZE;
    if (code == 0) {
        code = model_index(model, MF_MODEL_USERS, rows, count[MF_MODEL_USERS], path, error);
    }
    if (code == 0) {
        rows += count[MF_MODEL_USERS] * model_row_size(&model->header);
        code = model_index(model, MF_MODEL_ITEMS, rows, count[MF_MODEL_ITEMS], path, error);
    }
    return code != 0 ? code : model_check_all_names(model, size, path, error);
}

int mf_model_load(const char *path, struct mf_model *model, struct error *error) {
    size_t size = 0;
    memset(model, 0, sizeof *model);
    int code = model_file_load(path, &model_kind, &model->bytes, &size, error);
    code = code != 0 ? code : model_load_rows(model, size, path, error);
    if (code != 0) {
        mf_model_close(model);
    }
    return code;
}

void mf_model_close(struct mf_model *model) {
    free(model->bytes);
    index_map_close(&model->maps[MF_MODEL_USERS]);
    index_map_close(&model->maps[MF_MODEL_ITEMS]);
    memset(model, 0, sizeof *model);
}

bool mf_model_knows(const struct mf_model *model, enum mf_model_table table, uint64_t key) {
    return index_map_find(&model->maps[table], key) != INDEX_NONE;
}

/* Returns the floats of a row, or NULL for a key that the model does not have. */
static const unsigned char *model_find(const struct mf_model *model, enum mf_model_table table, uint64_t key) {
    int64_t row = index_map_find(&model->maps[table], key);
    if (row == INDEX_NONE) {
        return NULL;
    }
    size_t before = table == MF_MODEL_ITEMS ? model->maps[MF_MODEL_USERS].count : 0;
    return model->bytes + HEADER_SIZE + (before + (size_t)row) * model_row_size(&model->header) + KEY_SIZE;
}

float mf_model_predict(const struct mf_model *model, uint64_t user, uint64_t item) {
    const struct mf_model_header *header = &model->header;
    const unsigned char *p = model_find(model, MF_MODEL_USERS, user);
    const unsigned char *q = model_find(model, MF_MODEL_ITEMS, item);
    size_t bias = header->rank * sizeof(float);
    double prediction = (double)header->mean;
    if (header->biases) {
        prediction += p != NULL ? (double)get_float(p + bias) : 0;
        prediction += q != NULL ? (double)get_float(q + bias) : 0;
    }
    if (p != NULL && q != NULL) {
        for (size_t byte = 0; byte < bias; byte += sizeof(float)) {
            prediction += (double)get_float(p + byte) * (double)get_float(q + byte);
        }
    }
    prediction = fmin(fmax(prediction, (double)header->rating_min), (double)header->rating_max);
    return (float)(header->log1p ? expm1(prediction) : prediction);
}
