/* What the model files of all apps have in common, on reading: 8 bytes of magic, 4 of version, contents, and at the end
 * the CRC-32 (zlib's) of all bytes before, in 4. Numbers are little-endian (little_endian.h). */
#ifndef APPS_MODEL_FILE_H
#define APPS_MODEL_FILE_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { MODEL_FILE_MAGIC = 8, MODEL_FILE_CHECKSUM = 4 };

struct model_file_kind {
    const char *app; /* that writes such files, for messages */
    unsigned char magic[MODEL_FILE_MAGIC];
    uint32_t version;
    size_t smallest; /* bytes of the smallest file there can be, with its checksum */
};

/* Reads a whole file: undamaged, of this kind and version, and at least `smallest` bytes long. 0, and *bytes, which the
 * caller frees, with *size, the checksum not counted; else AML_EINPUT (one line: path, what is wrong), AML_EFAIL
 * (reading failed) or AML_ENOMEM, and nothing to free. */
int model_file_load(const char *path, const struct model_file_kind *kind, unsigned char **bytes, size_t *size,
                    struct error *error);

#endif
