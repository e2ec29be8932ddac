/* See split.h. */
#include "agileml/input/split.h"

#include "agileml/base/memory.h"
#include "agileml/input/members.h"

#include <stdlib.h>
#include <string.h>

/* The state while a file is cut. */
struct cutter {
    struct input_splits *splits;
    size_t capacity; /* of splits->splits */
    uint64_t size;   /* target size of a split, in bytes */
    uint64_t begin;  /* where the present split begins */
};

uint64_t input_split_size(uint64_t bytes) {
    uint64_t size = INPUT_SPLIT_MIN;
    while (size < INPUT_SPLIT_MAX && size < bytes / INPUT_SPLITS_OF_FILE) {
        size *= 2;
    }
    return size;
}

/* Ends the split at `end`. */
static int add_split(struct cutter *cutter, uint64_t end, struct error *error) {
    struct input_splits *splits = cutter->splits;
    struct input_file *file = &splits->files[splits->file_count - 1];
    if (splits->count == INPUT_SPLITS_MAX) {
        return error_set(error, AML_ELIMIT, "%s: the input has more than %d splits", text_input_name(file->path),
                         INPUT_SPLITS_MAX);
    }
    if (splits->count == cutter->capacity) {
        cutter->capacity = 2 * cutter->capacity + 64;
        splits->splits = memory_resized(splits->splits, cutter->capacity, sizeof *splits->splits);
    }
    splits->splits[splits->count++] = (struct input_split){.file = (uint32_t)(splits->file_count - 1),
                                                           .offset = cutter->begin,
                                                           .length = end == SOURCE_TO_END ? end : end - cutter->begin};
    file->count++;
    cutter->begin = end;
    return 0;
}

/* Ends the split before the member or frame at `offset`, if the split is large enough. */
static int at_member(void *context, uint64_t offset, struct error *error) {
    struct cutter *cutter = context;
    return offset - cutter->begin >= cutter->size ? add_split(cutter, offset, error) : 0;
}

static int cut_plain(struct cutter *cutter, uint64_t bytes, struct error *error) {
    int code = 0;
    while (code == 0 && bytes - cutter->begin > cutter->size) {
        code = add_split(cutter, cutter->begin + cutter->size, error);
    }
    return code;
}

static int find_form(struct input_file *file, struct error *error) {
    unsigned char bytes[TEXT_FORM_BYTES];
    size_t got;
    int code = source_read_at(file->path, &file->identity, 0, bytes, sizeof bytes, &got, error);
    const char *name = text_input_name(file->path);
    code = code != 0 ? code : text_form_detect(name, bytes, got, &file->form, error);
    return code == 0 && file->form == TEXT_FORM_PLAIN ? text_input_check_lines(name, bytes, got, error) : code;
}

/* Checks that each split begins with a gzip member, as an index may belong to another file. */
static int check_members(const struct input_splits *splits, const struct input_file *file, struct error *error) {
    for (size_t s = file->first + 1; s < splits->count; s++) {
        unsigned char bytes[2];
        size_t got;
        uint64_t offset = splits->splits[s].offset;
        int code = source_read_at(file->path, &file->identity, offset, bytes, sizeof bytes, &got, error);
        if (code != 0) {
            return code;
        }
        if (got < sizeof bytes || bytes[0] != 0x1f || bytes[1] != 0x8b) {
            return error_set(error, AML_EINPUT,
                             "%s: no gzip member begins at byte %llu: expected one by the index beside the file (.gzi)",
                             text_input_name(file->path), (unsigned long long)offset);
        }
    }
    return 0;
}

static int cut_file(struct cutter *cutter, const struct input_name *name, uint64_t size, struct error *error) {
    struct input_splits *splits = cutter->splits;
    struct input_file *file = &splits->files[splits->file_count++];
    *file = (struct input_file){.path = name->path, .identity = name->identity, .first = splits->count};
    uint64_t bytes = name->identity.bytes;
    int code = 0;
    cutter->begin = 0;
    cutter->size = size > 0 ? size : input_split_size(bytes);
    if (bytes != SOURCE_TO_END && size != INPUT_SPLIT_WHOLE) {
        code = find_form(file, error);
        code = code != 0 ? code
               : file->form == TEXT_FORM_PLAIN
                   ? cut_plain(cutter, bytes, error)
                   : members_walk(file->path, &file->identity, file->form, at_member, cutter, error);
    }
    code = code != 0 ? code : add_split(cutter, bytes, error);
    return code == 0 && file->form == TEXT_FORM_GZIP ? check_members(splits, file, error) : code;
}

int input_splits_make(struct input_splits *splits, const struct input_list *list, uint64_t size, struct error *error) {
    int code = 0;
    *splits = (struct input_splits){.files = memory_zeroed(list->count + 1, sizeof *splits->files)};
    struct cutter cutter = {.splits = splits};
    for (size_t f = 0; f < list->count && code == 0; f++) {
        code = cut_file(&cutter, &list->names[f], size, error);
    }
    if (code != 0) {
        input_splits_close(splits);
    }
    return code;
}

void input_splits_close(struct input_splits *splits) {
    free(splits->files);
    free(splits->splits);
    *splits = (struct input_splits){0};
}
