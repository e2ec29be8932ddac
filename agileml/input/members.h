/* Finds where the members of a gzip file and the frames of a zstd file begin, by headers and indexes, without
 * decompressing. Headers and indexes may be wrong, so the decoder must check that a member begins there. */
#ifndef AGILEML_INPUT_MEMBERS_H
#define AGILEML_INPUT_MEMBERS_H

#include "agileml/base/text_input.h"
#include "agileml/input/source.h"

/* Called with the offset of each member or frame except the first, ascending. A result other than 0 ends the walk
 * and becomes its result. */
typedef int members_found(void *context, uint64_t offset, struct error *error);

/* Walks over the members or frames of a file of this form, whose size is known. Where headers are invalid or have no
 * sizes, the walk ends with 0; the rest belongs to the last member found.
 *
 *     gzip   the sizes in bgzip's headers; else the index PATH.gzi, if there is one
 *     zstd   the table of the seekable format, if there is one; else the headers of frames and blocks
 *
 * Reads headers only if the path's scheme can skip. Returns 0, or AML_EINPUT when a file can't be read or PATH.gzi
 * is not an index of this file. */
int members_walk(const char *path, const struct source_identity *identity, enum text_form form, members_found *found,
                 void *context, struct error *error);

#endif
