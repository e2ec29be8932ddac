/* What the model files of all apps have in common: 8 bytes of magic, 4 of version, contents, and at the end the CRC-32
 * (zlib's) of all bytes before, in 4. Numbers are little-endian (little_endian.h). One thread at a time. */
#ifndef APPS_MODEL_FILE_H
#define APPS_MODEL_FILE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    MODEL_FILE_MAGIC = 8,
    MODEL_FILE_START = MODEL_FILE_MAGIC + 4, /* with the version */
    MODEL_FILE_LATE_MAX = 64,
    MODEL_FILE_ROOM_MAX = 1 << 20,
    MODEL_FILE_CHECKSUM = 4
};

struct model_file_kind {
    const char *app; /* that writes such files, for messages */
    unsigned char magic[MODEL_FILE_MAGIC];
    uint32_t version;
    size_t smallest; /* bytes of the smallest file there can be, with its checksum */
};

/* Writing. The file is made beside its place and takes it in model_file_end, after its bytes are on the disk: until
 * then an older file stays as it was, and after a failure no part of one is left. The first failure is kept; what is
 * added after it goes nowhere. */
struct model_file_writer;

/* Starts a file. The first `late` bytes of the contents (MODEL_FILE_LATE_MAX at most) are known at the end only. 0 and
 * a writer, which model_file_end or _abandon frees; or AML_EINPUT (a folder or a device is there), AML_EFAIL,
 * AML_ELIMIT (the path's length), AML_ENOMEM, and *writer is NULL. */
int model_file_begin(struct model_file_writer **writer, const char *path, const struct model_file_kind *kind,
                     size_t late, struct error *error);
/* Where the next `size` bytes of the contents belong (MODEL_FILE_ROOM_MAX at most), for the caller to set before the
 * next call. Never NULL. */
unsigned char *model_file_room(struct model_file_writer *writer, size_t size);
/* Makes the writer fail, unless it has: "PATH: WHAT". */
void model_file_fail(struct model_file_writer *writer, int code, const char *what);
/* 0, or the code of the first failure with its message in *error. */
int model_file_failed(const struct model_file_writer *writer, struct error *error);
/* Completes the file with its late bytes and frees the writer, also when it fails or had failed. 0 or that code. */
int model_file_end(struct model_file_writer *writer, const unsigned char *late, struct error *error);
/* Removes what was written and frees the writer. */
void model_file_abandon(struct model_file_writer *writer);

/* Reading: a whole file, undamaged, of this kind and version, and at least `smallest` bytes long. 0, and *bytes, which
 * the caller frees, with *size, the checksum not counted; else AML_EINPUT (one line: path, what is wrong), AML_EFAIL
 * (reading failed) or AML_ENOMEM, and nothing to free. */
int model_file_load(const char *path, const struct model_file_kind *kind, unsigned char **bytes, size_t *size,
                    struct error *error);

#endif
