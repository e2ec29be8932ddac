/* See model_file.h. */
#include "apps/model_file.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/storage.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- Writing ---- */

struct model_file_writer {
    struct storage_file *file;
    char *path;
    struct error error; /* the first failure */
    unsigned char start[MODEL_FILE_START + MODEL_FILE_LATE_MAX];
    size_t start_size; /* bytes of `start`, including the late bytes */
    uint64_t size;     /* bytes after `start`, without those in the buffer */
    uint32_t checksum; /* checksum of these `size` bytes */
    size_t buffered;   /* bytes in `buffer` */
    unsigned char buffer[MODEL_FILE_ROOM_MAX];
};

static void writer_write(struct model_file_writer *writer, const void *bytes, size_t size) {
    if (writer->error.code == 0) {
        (void)storage_write(writer->file, bytes, size, &writer->error);
    }
}

static void writer_flush(struct model_file_writer *writer) {
    writer->checksum = (uint32_t)crc32(writer->checksum, writer->buffer, (uInt)writer->buffered);
    writer->size += writer->buffered;
    writer_write(writer, writer->buffer, writer->buffered);
    writer->buffered = 0;
}

int model_file_begin(struct model_file_writer **opened, const char *path, const struct model_file_kind *kind,
                     size_t late, struct error *error) {
    assert(late <= MODEL_FILE_LATE_MAX);
    *opened = NULL;
    struct model_file_writer *writer = malloc(sizeof *writer);
    if (writer == NULL) {
        return error_set(error, AML_ENOMEM, "%s: can't write the model: out of memory", path);
    }
    memset(writer, 0, offsetof(struct model_file_writer, buffer));
    int code = storage_create(&writer->file, path, true, error);
    if (code != 0) {
        free(writer);
        return code;
    }
    writer->path = memory_string(path);
    memcpy(writer->start, kind->magic, MODEL_FILE_MAGIC);
    put32(writer->start + MODEL_FILE_MAGIC, kind->version);
    writer->start_size = MODEL_FILE_START + late;
    writer->checksum = (uint32_t)crc32(0, NULL, 0);
    writer_write(writer, writer->start, writer->start_size);
    *opened = writer;
    return 0;
}

unsigned char *model_file_room(struct model_file_writer *writer, size_t size) {
    assert(size <= MODEL_FILE_ROOM_MAX);
    if (MODEL_FILE_ROOM_MAX - writer->buffered < size) {
        writer_flush(writer);
    }
    writer->buffered += size;
    return writer->buffer + writer->buffered - size;
}

void model_file_set_version(struct model_file_writer *writer, uint32_t version) {
    put32(writer->start + MODEL_FILE_MAGIC, version);
}

void model_file_floats(struct model_file_writer *writer, const float *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            model_file_fail(writer, AML_EFAIL, "a parameter is not finite: the training diverged; use a lower --rate");
        }
        put_float(model_file_room(writer, sizeof(float)), values[i]);
    }
}

void model_file_doubles(struct model_file_writer *writer, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_double(model_file_room(writer, sizeof(double)), values[i]);
    }
}

void model_file_fail(struct model_file_writer *writer, int code, const char *what) {
    error_set(&writer->error, code, "%s: %s", writer->path, what);
}

int model_file_failed(const struct model_file_writer *writer, struct error *error) {
    return writer->error.code == 0 ? 0 : error_set(error, writer->error.code, "%s", writer->error.text);
}

static int writer_complete(struct model_file_writer *writer, const unsigned char *late, struct error *error) {
    unsigned char end[MODEL_FILE_CHECKSUM];
    writer_flush(writer);
    if (writer->start_size > MODEL_FILE_START) {
        memcpy(writer->start + MODEL_FILE_START, late, writer->start_size - MODEL_FILE_START);
    }
    uLong start = crc32(crc32(0, NULL, 0), writer->start, (uInt)writer->start_size);
    put32(end, (uint32_t)crc32_combine(start, writer->checksum, (z_off_t)writer->size));
    writer_write(writer, end, sizeof end);
    if (writer->error.code == 0) {
        (void)storage_rewrite(writer->file, writer->start, writer->start_size, &writer->error);
    }
    return model_file_failed(writer, error);
}

int model_file_end(struct model_file_writer *writer, int result, const unsigned char *late, struct error *error) {
    result = result != 0 ? result : writer_complete(writer, late, error);
    if (result == 0) {
        result = storage_commit(writer->file, error);
    } else {
        storage_discard(writer->file);
    }
    free(writer->path);
    free(writer);
    return result;
}

/* ---- Reading ---- */

static int check_bytes(const unsigned char *bytes, size_t size, const char *path, const struct model_file_kind *kind,
                       struct error *error) {
    uint32_t version = get32(bytes + MODEL_FILE_MAGIC);
    if (memcmp(bytes, kind->magic, MODEL_FILE_MAGIC) != 0) {
        return error_set(error, AML_EINPUT, "%s: not a model file of %s: its first bytes differ", path, kind->app);
    }
    if (crc32_z(crc32_z(0, NULL, 0), bytes, size) != get32(bytes + size)) {
        return error_set(error, AML_EINPUT,
                         "%s: the model file is damaged, truncated or too long: its checksum does not match", path);
    }
    uint32_t oldest = kind->oldest != 0 ? kind->oldest : kind->version;
    if (version < oldest || version > kind->version) {
        return error_set(error, AML_EINPUT, "%s: the model file has version %u, expected %s%u", path, version,
                         oldest < kind->version ? "at most " : "", kind->version);
    }
    return 0;
}

static int read_all(struct storage_reader *reader, const char *path, unsigned char *bytes, size_t size,
                    struct error *error) {
    size_t got;
    int result = storage_read(reader, bytes, size, &got, error);
    return result != 0 || got == size
               ? result
               : error_set(error, AML_EINPUT, "%s: the model file became shorter while it was read", path);
}

static int load_file(struct storage_reader *reader, size_t whole, const char *path, const struct model_file_kind *kind,
                     unsigned char **bytes, size_t *size, struct error *error) {
    if (whole < kind->smallest) {
        return error_set(error, AML_EINPUT, "%s: truncated, or not a model file: %zu bytes, expected at least %zu",
                         path, whole, kind->smallest);
    }
    unsigned char *loaded = malloc(whole);
    if (loaded == NULL) {
        return error_set(error, AML_ENOMEM, "%s: no memory for the model's %zu bytes", path, whole);
    }
    *size = whole - MODEL_FILE_CHECKSUM;
    int result = read_all(reader, path, loaded, whole, error);
    result = result != 0 ? result : check_bytes(loaded, *size, path, kind, error);
    if (result != 0) {
        free(loaded);
        return result;
    }
    *bytes = loaded;
    return 0;
}

int model_file_load(const char *path, const struct model_file_kind *kind, unsigned char **bytes, size_t *size,
                    struct error *error) {
    struct storage_reader *reader;
    uint64_t whole;
    int result = storage_open(&reader, path, &whole, error);
    result = result != 0 ? result : load_file(reader, (size_t)whole, path, kind, bytes, size, error);
    storage_close(reader);
    return result;
}

int model_file_refuse(const struct model_file_reader *reader, const char *what) {
    return error_set(reader->error, AML_EINPUT, "%s: the model file %s", reader->path, what);
}

int model_file_take(struct model_file_reader *reader, size_t size, const unsigned char **bytes) {
    *bytes = reader->bytes + reader->at;
    if (reader->size - reader->at < size) {
        return model_file_refuse(reader, "ends in its header");
    }
    reader->at += size;
    return 0;
}

int model_file_take_floats(struct model_file_reader *reader, size_t count, const char *what, float **values) {
    const unsigned char *bytes;
    int result = model_file_take(reader, count * sizeof **values, &bytes);
    bool finite = true;
    *values = result == 0 ? memory_zeroed(count, sizeof **values) : NULL;
    for (size_t i = 0; i < count && result == 0; i++) {
        (*values)[i] = get_float(bytes + i * sizeof **values);
        finite = finite && isfinite((*values)[i]);
    }
    return finite ? result : model_file_refuse(reader, what);
}

int model_file_take_doubles(struct model_file_reader *reader, size_t count, const char *what, double **values) {
    const unsigned char *bytes;
    int result = model_file_take(reader, count * sizeof **values, &bytes);
    bool finite = true;
    *values = result == 0 ? memory_zeroed(count, sizeof **values) : NULL;
    for (size_t i = 0; i < count && result == 0; i++) {
        (*values)[i] = get_double(bytes + i * sizeof **values);
        finite = finite && isfinite((*values)[i]);
    }
    return finite ? result : model_file_refuse(reader, what);
}
