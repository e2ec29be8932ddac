/* Finds where the members of a gzip file and the frames of a zstd file begin, by headers and indexes, without
 * decompressing. What it finds is only as right as the file; so the decoder must check that a member begins there. */
#ifndef AGILEML_INPUT_MEMBERS_H
#define AGILEML_INPUT_MEMBERS_H

#include "agileml/base/text_input.h"
#include "agileml/input/source.h"

/* Is called with the offset of each member or frame but the first, ascending. A result other than 0 ends the walk,
 * which returns it. */
typedef int members_found(void *context, uint64_t offset, struct error *error);

/* Walks over the members or frames of a file of this form, whose size is known. Where headers make no sense or have no
 * sizes the walk ends with 0: the rest belongs to the last member found.
 *
 *     gzip   the sizes in bgzip's headers; else the index PATH.gzi, if there is one
 *     zstd   the table of the seekable format, if there is one; else the headers of frames and blocks
 *
 * Headers are read only where the scheme can skip. Returns 0; AML_EINPUT when a file can't be read or PATH.gzi is no
 * index of this file. */
int members_walk(const char *path, const struct source_identity *identity, enum text_form form, members_found *found,
                 void *context, struct error *error);

#endif
