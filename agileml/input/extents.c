/* See extents.h. */
#include "agileml/input/extents.h"

#include "agileml/base/memory.h"
#include "agileml/input/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The state while a file is cut. */
struct cutter {
    struct extents *extents;
    size_t capacity; /* of extents->at */
    uint64_t size;   /* target size of an extent, in bytes */
    uint64_t begin;  /* where the present extent begins */
};

uint64_t extent_size(uint64_t bytes) {
    uint64_t size = EXTENT_MIN;
    while (size < EXTENT_MAX && size < bytes / EXTENTS_OF_FILE) {
        size *= 2;
    }
    return size;
}

/* Ends the extent at `end`. */
static int add_extent(struct cutter *cutter, uint64_t end, struct error *error) {
    struct extents *extents = cutter->extents;
    if (extents->count == EXTENTS_MAX) {
        return error_set(error, AML_ELIMIT, "%s: the input has more than %d splits",
                         text_input_name(extents_file(extents)->path), EXTENTS_MAX);
    }
    if (extents->count == cutter->capacity) {
        cutter->capacity = 2 * cutter->capacity + 64;
        extents->at = memory_resized(extents->at, cutter->capacity, sizeof *extents->at);
    }
    extents->at[extents->count++] =
        (struct extent){.offset = cutter->begin, .length = end == SOURCE_TO_END ? end : end - cutter->begin};
    cutter->begin = end;
    return 0;
}

/* Ends the extent before the member or frame at `offset`, if the extent is large enough. */
static int at_member(void *context, uint64_t offset, struct error *error) {
    struct cutter *cutter = context;
    return offset - cutter->begin >= cutter->size ? add_extent(cutter, offset, error) : 0;
}

static int cut_plain(struct cutter *cutter, uint64_t bytes, struct error *error) {
    int code = 0;
    while (code == 0 && bytes - cutter->begin > cutter->size) {
        code = add_extent(cutter, cutter->begin + cutter->size, error);
    }
    return code;
}

static int find_form(struct extents *extents, struct error *error) {
    const struct input_name *file = extents_file(extents);
    unsigned char bytes[TEXT_FORM_BYTES];
    size_t got;
    int code = source_read_at(file->path, &file->identity, 0, bytes, sizeof bytes, &got, error);
    const char *name = text_input_name(file->path);
    code = code != 0 ? code : text_form_detect(name, bytes, got, &extents->form, error);
    return code == 0 && extents->form == TEXT_FORM_PLAIN ? text_input_check_lines(name, bytes, got, error) : code;
}

/* Checks that each extent begins with a gzip member, as an index may belong to another file. */
static int check_members(const struct extents *extents, struct error *error) {
    const struct input_name *file = extents_file(extents);
    for (uint32_t e = 1; e < extents->count; e++) {
        unsigned char bytes[2];
        size_t got;
        uint64_t offset = extents->at[e].offset;
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

static int cut_file(struct extents *extents, uint64_t size, struct error *error) {
    const struct input_name *file = extents_file(extents);
    uint64_t bytes = file->identity.bytes;
    struct cutter cutter = {.extents = extents, .size = size > 0 ? size : extent_size(bytes)};
    int code = 0;
    if (bytes != SOURCE_TO_END && size != EXTENT_WHOLE) {
        code = find_form(extents, error);
        code = code != 0 ? code
               : extents->form == TEXT_FORM_PLAIN
                   ? cut_plain(&cutter, bytes, error)
                   : members_walk(file->path, &file->identity, extents->form, at_member, &cutter, error);
    }
    code = code != 0 ? code : add_extent(&cutter, bytes, error);
    return code == 0 && extents->form == TEXT_FORM_GZIP ? check_members(extents, error) : code;
}

int extents_make(struct extents *extents, const char *path, uint64_t size, struct error *error) {
    struct stat status;
    *extents = (struct extents){.path = path};
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: cannot read: %s", text_input_name(path), strerror(EISDIR));
    }
    int code = input_list_add(&extents->list, path, error);
    if (code == 0 && extents->list.count > 1) {
        code = error_set(error, AML_EINPUT, "%s: %zu files, expected one", text_input_name(path), extents->list.count);
    }
    code = code != 0 ? code : cut_file(extents, size, error);
    if (code != 0) {
        extents_close(extents);
    }
    return code;
}

void extents_close(struct extents *extents) {
    input_list_close(&extents->list);
    free(extents->at);
    *extents = (struct extents){0};
}

uint64_t extents_bytes(const struct extents *extents, struct extent_range range) {
    uint64_t size = extents_file(extents)->identity.bytes;
    uint64_t bytes = 0;
    for (uint32_t e = range.first; e < range.end && size != SOURCE_TO_END; e++) {
        const struct extent *extent = &extents->at[e];
        bytes += extent->length != SOURCE_TO_END ? extent->length : size - extent->offset;
    }
    return bytes;
}
