/* The names of a table's columns in a model's file. They are a section at the file's end, so that everything before
 * it equals a file without names. The file's version is then higher by MODEL_NAMES_VERSION.
 *
 *     bytes      what
 *     1 + n      n and the label's name, without a 0
 *     d (1 + n)  the same of each feature
 *     4          the section's bytes before this number
 *
 * Names have at most COLUMN_NAME_MAX bytes. One thread at a time. */
#ifndef APPS_MLR_MODEL_NAMES_H
#define APPS_MLR_MODEL_NAMES_H

#include "apps/mlr/columns.h"
#include "apps/model_file.h"

enum { MODEL_NAMES_VERSION = 16 };

/* Writes the section at the end of a file. */
void model_names_write(struct model_file_writer *file, const struct column_names *names);

/* Removes the section, if there is one, from a file of bytes[*size] without checksum, and sets the version to that
 * of a file without names. Returns 0, and column_names_close must follow. Returns AML_EINPUT when the section is
 * malformed, the version is not 1 to `newest`, or fewer than `smallest` bytes remain. `path` is for the message. */
int model_names_load(const char *path, uint32_t newest, size_t smallest, unsigned char *bytes, size_t *size,
                     struct column_names *names, struct error *error);

#endif
