/* The frame of every app's model file: 8 bytes of magic, 4 bytes of version, contents, and 4 bytes of CRC-32 (zlib's)
 * over all bytes before. Numbers are little-endian (little_endian.h). One thread at a time. */
#ifndef APPS_MODEL_FILE_H
#define APPS_MODEL_FILE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_FILE_MAGIC = 8,
    MODEL_FILE_START = MODEL_FILE_MAGIC + 4, /* includes the version */
    MODEL_FILE_LATE_MAX = 64,
    MODEL_FILE_ROOM_MAX = 1 << 20,
    MODEL_FILE_CHECKSUM = 4
};

struct model_file_kind {
    const char *app; /* the app that writes such files, in messages */
    unsigned char magic[MODEL_FILE_MAGIC];
    uint32_t version; /* the version written, and the newest that can be read */
    uint32_t oldest;  /* the oldest version that can be read; 0: no older one */
    size_t smallest;  /* bytes of the smallest possible file, including its checksum */
};

/* Writing, to a file or to s3://BUCKET/KEY. The new file has a temporary name until model_file_end, which replaces
 * an older file once the new bytes are on the disk. An object becomes visible when it is complete. A failure leaves
 * the older file unchanged. The writer keeps its first failure, and ignores what is added after it. */
struct model_file_writer;

/* Starts a file. model_file_end supplies the first `late` bytes of its contents (at most MODEL_FILE_LATE_MAX).
 * Returns 0 and a writer, which model_file_end frees. Otherwise *writer is NULL: AML_EINPUT (a folder or a device
 * has this path), AML_EFAIL, AML_ELIMIT (the path's length), AML_ENOMEM. */
int model_file_begin(struct model_file_writer **writer, const char *path, const struct model_file_kind *kind,
                     size_t late, struct error *error);
/* Returns room for the next `size` bytes of the contents (at most MODEL_FILE_ROOM_MAX). The caller must fill it
 * before the next call. Never NULL. */
unsigned char *model_file_room(struct model_file_writer *writer, size_t size);
/* Sets the file's version to an older one that already allows its contents. */
void model_file_set_version(struct model_file_writer *writer, uint32_t version);
/* Adds numbers to the contents. A float that is not finite is a failure: the training diverged. */
void model_file_floats(struct model_file_writer *writer, const float *values, size_t count);
void model_file_doubles(struct model_file_writer *writer, const double *values, size_t count);
/* Records the failure "PATH: WHAT". */
void model_file_fail(struct model_file_writer *writer, int code, const char *what);
/* Returns 0, or the code of the first failure with its message in *error. */
int model_file_failed(const struct model_file_writer *writer, struct error *error);
/* Always frees the writer. With `result` 0 completes the file with its late bytes, and returns 0 or the code of a
 * failure. With another `result`, which the caller has reported, removes the unfinished file and returns `result`. */
int model_file_end(struct model_file_writer *writer, int result, const unsigned char *late, struct error *error);

/* Reads a whole file and checks its kind, version, size and checksum. Returns 0 and sets *bytes, which the caller
 * frees, and *size without the checksum. Otherwise there is nothing to free: AML_EINPUT (one line: path, what is
 * wrong), AML_EFAIL (reading failed) or AML_ENOMEM. */
int model_file_load(const char *path, const struct model_file_kind *kind, unsigned char **bytes, size_t *size,
                    struct error *error);

/* The bytes of a loaded file, taken from its beginning on. */
struct model_file_reader {
    const char *path;
    struct error *error;
    unsigned char *bytes; /* [size], without the checksum */
    size_t size, at;
};

/* Returns AML_EINPUT after "PATH: the model file WHAT". */
int model_file_refuse(const struct model_file_reader *reader, const char *what);
/* Sets *bytes to the next `size` bytes. Returns AML_EINPUT when fewer are left. */
int model_file_take(struct model_file_reader *reader, size_t size, const unsigned char **bytes);
/* Sets *values to the next `count` numbers, in memory that the caller frees, after an error too. Returns AML_EINPUT
 * with `what` when one is not finite. */
int model_file_take_floats(struct model_file_reader *reader, size_t count, const char *what, float **values);
int model_file_take_doubles(struct model_file_reader *reader, size_t count, const char *what, double **values);

#endif
