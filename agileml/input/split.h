/* Cuts the files of an input into splits, without reading all of them. A split is a range of a file's bytes that can be
 * decoded by itself:
 *
 *     plain   ranges of one size
 *     gzip    members, where they can be found without inflating: bgzip's, by a FILE.gzi beside it or the sizes in the
 *             members' headers. Other files are one split.
 *     zstd    frames, found by the table at the end (the seekable format) or by the headers of frames and blocks
 *
 * Small members and frames are joined up to about the size of a plain split. The splits depend only on the files'
 * bytes, so they are the same in every process. They cover each file without gaps, so a wrong index can't hide bytes:
 * the decoder finds out when a split does not begin and end with members or frames. */
#ifndef AGILEML_INPUT_SPLIT_H
#define AGILEML_INPUT_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "agileml/base/text_input.h"
#include "agileml/input/list.h"

enum {
    INPUT_SPLIT_MIN = 1 << 18,  /* least bytes of a split, except a file's last */
    INPUT_SPLIT_MAX = 1 << 26,  /* bytes of a plain split */
    INPUT_SPLITS_OF_FILE = 256, /* a split's size is the file's size divided by this, within the limits */
    INPUT_SPLITS_MAX = 1 << 20  /* splits of an input */
};

struct input_split {
    uint32_t file; /* index in input_splits.files */
    uint64_t offset;
    uint64_t length; /* SOURCE_TO_END: the file is one split, and its size may not be known */
};

struct input_file {
    const char *path; /* owned by the list */
    struct source_identity identity;
    enum text_form form;
    size_t first, count; /* the file's splits; at least one, even for an empty file */
};

/* Does not change once made, so any threads may read it. */
struct input_splits {
    struct input_file *files; /* [file_count], in the list's order */
    size_t file_count;
    struct input_split *splits; /* [count], in the order of the files and of their bytes */
    size_t count;
};

/* As `size`: files are neither cut nor examined, as they may have any format. Their form is unknown. */
#define INPUT_SPLIT_WHOLE UINT64_MAX

/* Cuts the list's files. `size` is the target size of a split in bytes; 0: input_split_size of the file. The list
 * must stay valid as long as the splits. Returns 0, and input_splits_close must follow. Returns AML_EINPUT when a
 * file can't be read, has a rejected format, or has an index that does not match. Returns AML_ELIMIT for too many
 * splits, or AML_ENOMEM. */
int input_splits_make(struct input_splits *splits, const struct input_list *list, uint64_t size, struct error *error);
void input_splits_close(struct input_splits *splits);

/* Returns the size of the splits of a file of `bytes` bytes: a power of two. */
uint64_t input_split_size(uint64_t bytes);

#endif
