/* See model_file.h. */
#include "apps/model_file.h"

#include "agileml/base/new_file.h"
#include "apps/little_endian.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* ---- Writing ---- */

struct model_file_writer {
    struct new_file file;
    struct error error; /* the first failure */
    unsigned char start[MODEL_FILE_START + MODEL_FILE_LATE_MAX];
    size_t start_size; /* bytes of `start`, with the late bytes */
    uint64_t size;     /* bytes behind `start`, without those in the buffer */
    uint32_t checksum; /* of these `size` bytes */
    size_t buffered;   /* bytes in `buffer` */
    unsigned char buffer[MODEL_FILE_ROOM_MAX];
};

static void writer_write(struct model_file_writer *writer, const void *bytes, size_t size) {
    if (writer->error.code == 0) {
        (void)new_file_write(&writer->file, bytes, size, &writer->error);
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
    int code = new_file_open(&writer->file, path, error);
    if (code != 0) {
        free(writer);
        return code;
    }
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

void model_file_fail(struct model_file_writer *writer, int code, const char *what) {
    error_set(&writer->error, code, "%s: %s", writer->file.path, what);
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
    if (lseek(writer->file.descriptor, 0, SEEK_SET) != 0) {
        model_file_fail(writer, AML_EFAIL, strerror(errno));
    }
    writer_write(writer, writer->start, writer->start_size);
    return model_file_failed(writer, error);
}

int model_file_end(struct model_file_writer *writer, int result, const unsigned char *late, struct error *error) {
    result = result != 0 ? result : writer_complete(writer, late, error);
    if (result == 0) {
        result = new_file_commit(&writer->file, error);
    } else {
        new_file_discard(&writer->file);
    }
    free(writer);
    return result;
}

/* ---- Reading ---- */

static int read_all(FILE *file, const char *path, unsigned char *bytes, size_t size, struct error *error) {
    if (fread(bytes, 1, size, file) == size) {
        return 0;
    }
    if (ferror(file) != 0) {
        return error_set(error, AML_EFAIL, "%s: can't read the model: %s", path, strerror(errno));
    }
    return error_set(error, AML_EINPUT, "%s: the model file became shorter while it was read", path);
}

/* Returns the size of a regular file that may be a model. */
static int check_file(FILE *file, const char *path, const struct model_file_kind *kind, size_t *size,
                      struct error *error) {
    struct stat status;
    if (fstat(fileno(file), &status) != 0) {
        return error_set(error, AML_EFAIL, "%s: can't read the model: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: not a regular file: expected a model file", path);
    }
    *size = (size_t)status.st_size;
    return *size < kind->smallest
               ? error_set(error, AML_EINPUT, "%s: truncated, or not a model file: %zu bytes, expected at least %zu",
                           path, *size, kind->smallest)
               : 0;
}

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

static int load_file(FILE *file, const char *path, const struct model_file_kind *kind, unsigned char **bytes,
                     size_t *size, struct error *error) {
    size_t whole = 0;
    int result = check_file(file, path, kind, &whole, error);
    if (result != 0) {
        return result;
    }
    unsigned char *loaded = malloc(whole);
    if (loaded == NULL) {
        return error_set(error, AML_ENOMEM, "%s: no memory for the model's %zu bytes", path, whole);
    }
    *size = whole - MODEL_FILE_CHECKSUM;
    result = read_all(file, path, loaded, whole, error);
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
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not block on a pipe */
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "r") : NULL;
    if (file == NULL) {
        error_set(error, AML_EINPUT, "%s: can't open the model: %s", path, strerror(errno));
        if (descriptor >= 0) {
            close(descriptor);
        }
        return AML_EINPUT;
    }
    int result = load_file(file, path, kind, bytes, size, error);
    (void)fclose(file);
    return result;
}
