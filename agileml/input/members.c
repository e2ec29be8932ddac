/* See members.h. The formats: RFC 1952 (gzip), the SAM specification section 4.1 (bgzip), htslib's bgzf.c (gzi),
 * RFC 8878 (zstd), zstd's contrib/seekable_format. */
#include "agileml/input/members.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    HEADER_MAX = 512, /* bytes of a header that are examined; bgzip's have 18, zstd's at most 18 */
    GZIP_FIXED = 12,  /* bytes of a gzip header up to and including the length of its extra field */
    GZIP_LEAST = 20,  /* least bytes of a member: header, an empty block, trailer */
    ZSTD_SKIPPABLE = 8,
    TABLE_FOOTER = 9,
    TABLE_FRAMES_MAX = 1 << 27, /* the format's own limit */
    INDEX_ENTRY = 16,
    INDEX_ENTRIES_MAX = 1 << 28
};

static const uint32_t ZSTD_MAGIC = 0xFD2FB528, SKIPPABLE_MAGIC = 0x184D2A50, TABLE_MAGIC = 0x8F92EAB1;

static uint64_t little_endian(const unsigned char *bytes, size_t size) {
    uint64_t value = 0;
    for (size_t i = size; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

/* A position in a file from which headers are read. */
struct walker {
    struct source *source;
    uint64_t offset, end; /* the position, and the end of what may be read */
    size_t start, held;   /* `held` bytes from `offset` on are in the buffer, at buffer[start] */
    unsigned char buffer[HEADER_MAX];
};

static int walker_open(struct walker *walker, const char *path, const struct source_identity *identity, uint64_t offset,
                       uint64_t end, struct error *error) {
    *walker = (struct walker){.offset = offset, .end = end};
    return source_open(&walker->source, path, identity, offset, end - offset, error);
}

/* Reads ahead so that the walker holds the next `size` bytes (at most HEADER_MAX), or fewer where the file ends. */
static int look(struct walker *walker, size_t size, struct error *error) {
    if (walker->held >= size || walker->held == walker->end - walker->offset) {
        return 0;
    }
    memmove(walker->buffer, walker->buffer + walker->start, walker->held);
    walker->start = 0;
    size_t got;
    int code = source_read(walker->source, walker->buffer + walker->held, HEADER_MAX - walker->held, &got, error);
    walker->held += code == 0 ? got : 0;
    return code;
}

static const unsigned char *held(const struct walker *walker) {
    return walker->buffer + walker->start;
}

/* Moves the position by `bytes`, but not beyond the end. */
static int move(struct walker *walker, uint64_t bytes, struct error *error) {
    int code = 0;
    if (bytes <= walker->held) {
        walker->start += (size_t)bytes;
        walker->held -= (size_t)bytes;
    } else {
        code = walker->source->scheme->skip(walker->source, bytes - walker->held, error);
        walker->held = 0;
    }
    walker->offset += bytes;
    return code;
}

/* Sets *size to the bytes of the member or frame at the walker's position; 0: not known. */
typedef int member_size(struct walker *walker, uint64_t *size, struct error *error);

/* Walks from `offset`, a member's beginning, to the end. */
static int walk_headers(const char *path, const struct source_identity *identity, member_size *measure,
                        members_found *found, void *context, struct error *error) {
    struct walker walker;
    uint64_t size = 1;
    int code = walker_open(&walker, path, identity, 0, identity->bytes, error);
    for (uint64_t begin = 0; code == 0;) {
        code = measure(&walker, &size, error);
        if (code != 0 || size == 0 || size >= identity->bytes - begin) {
            break;
        }
        begin += size;
        code = begin > walker.offset ? move(&walker, begin - walker.offset, error) : 0;
        code = code != 0 ? code : found(context, begin, error);
    }
    source_close(walker.source);
    return code;
}

/* ---- gzip ---- */

/* Returns the size of the bgzip member whose header begins with bytes[size]; 0: it is not a bgzip member. */
static uint64_t bgzip_size(const unsigned char *bytes, size_t size) {
    if (size < GZIP_FIXED || memcmp(bytes, "\x1f\x8b\x08", 3) != 0 || (bytes[3] & 4) == 0) { /* 4: has an extra field */
        return 0;
    }
    size_t end = GZIP_FIXED + (size_t)little_endian(bytes + 10, 2);
    end = end < size ? end : size;
    for (size_t at = GZIP_FIXED; at + 4 <= end;) { /* each subfield has two letters, its length and that many bytes */
        size_t length = (size_t)little_endian(bytes + at + 2, 2);
        if (bytes[at] == 'B' && bytes[at + 1] == 'C' && length == 2 && at + 6 <= end) {
            uint64_t whole = little_endian(bytes + at + 4, 2) + 1;
            return whole >= GZIP_LEAST ? whole : 0;
        }
        at += 4 + length;
    }
    return 0;
}

static int measure_member(struct walker *walker, uint64_t *size, struct error *error) {
    int code = look(walker, GZIP_FIXED + 6, error);
    *size = code == 0 ? bgzip_size(held(walker), walker->held) : 0;
    return code;
}

static int bad_index(const char *index, const char *what, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: %s: expected the index of the file beside it (bgzip -r makes it)",
                     text_input_name(index), what);
}

/* Reads an index: the number of entries, then for each entry an offset in the file and one in its text, ascending. */
static int walk_index(const char *index, const struct source_identity *identity, uint64_t bytes, members_found *found,
                      void *context, struct error *error) {
    struct walker walker;
    uint64_t before = 0;
    int code = walker_open(&walker, index, identity, 0, identity->bytes, error);
    code = code != 0 ? code : look(&walker, 8, error);
    uint64_t count = code == 0 && walker.held >= 8 ? little_endian(held(&walker), 8) : UINT64_MAX;
    if (code == 0 && (count > INDEX_ENTRIES_MAX || identity->bytes != 8 + count * INDEX_ENTRY)) {
        code = bad_index(index, "its size is not that of an index", error);
    }
    code = code != 0 ? code : move(&walker, 8, error);
    for (uint64_t e = 0; e < count && code == 0; e++) {
        code = look(&walker, INDEX_ENTRY, error);
        uint64_t offset = code == 0 && walker.held >= INDEX_ENTRY ? little_endian(held(&walker), 8) : 0;
        if (code == 0 && (offset <= before || offset >= bytes)) {
            /* some tools write the first member too */
            bool first = e == 0 && walker.held >= INDEX_ENTRY && offset == 0;
            code = first || offset == bytes ? 0 : bad_index(index, "its offsets are not those of the file", error);
        } else if (code == 0) {
            code = found(context, offset, error);
            before = offset;
        }
        code = code != 0 ? code : move(&walker, INDEX_ENTRY, error);
    }
    source_close(walker.source);
    return code;
}

static int walk_gzip(const char *path, const struct source_identity *identity, members_found *found, void *context,
                     struct error *error) {
    unsigned char header[HEADER_MAX];
    size_t got;
    int code = source_read_at(path, identity, 0, header, sizeof header, &got, error);
    if (code != 0) {
        return code;
    }
    if (source_scheme_of(path)->skip != NULL && bgzip_size(header, got) > 0) {
        return walk_headers(path, identity, measure_member, found, context, error);
    }
    char index[PATH_MAX];
    struct source_identity of_index;
    struct error absent = {0};
    if (snprintf(index, sizeof index, "%s.gzi", path) >= (int)sizeof index) {
        return 0; /* no file can have so long a path */
    }
    code = source_identify(index, &of_index, &absent);
    if (code == 0 && of_index.bytes != SOURCE_TO_END) {
        return walk_index(index, &of_index, identity->bytes, found, context, error);
    }
    return code == 0 || code == AML_EINPUT ? 0 : error_set(error, code, "%s", absent.text);
}

/* ---- zstd ---- */

/* Returns the size of a frame's header, including the magic number, for a descriptor; 0: the descriptor is invalid. */
static size_t frame_header_size(unsigned char descriptor) {
    static const unsigned char dictionary[] = {0, 1, 2, 4}, content[] = {0, 2, 4, 8};
    bool single = (descriptor & 0x20) != 0;
    size_t size = content[descriptor >> 6];
    size = size == 0 && single ? 1 : size;
    return (descriptor & 8) != 0 ? 0 : 4U + 1 + (single ? 0U : 1U) + dictionary[descriptor & 3] + size;
}

/* Moves the walker by `bytes` and adds them to *size. Sets *size to 0 when the file ends before. */
static int pass(struct walker *walker, uint64_t bytes, uint64_t *size, struct error *error) {
    if (bytes > walker->end - walker->offset) {
        *size = 0;
        return 0;
    }
    *size += bytes;
    return move(walker, bytes, error);
}

/* Walks over a frame's blocks, which follow its header. */
static int measure_blocks(struct walker *walker, bool checksum, uint64_t *size, struct error *error) {
    int code = 0;
    for (bool last = false; !last && *size > 0 && code == 0;) {
        code = look(walker, 3, error);
        if (code != 0 || walker->held < 3) {
            *size = 0;
            break;
        }
        uint32_t header = (uint32_t)little_endian(held(walker), 3);
        unsigned type = header >> 1 & 3; /* 0: raw, 1: one byte repeated, 2: compressed */
        last = (header & 1) != 0;
        uint64_t bytes = 3 + (type == 1 ? 1 : (uint64_t)(header >> 3)) + (last && checksum ? 4 : 0);
        if (type == 3) {
            *size = 0;
        } else {
            code = pass(walker, bytes, size, error);
        }
    }
    return code;
}

static int measure_frame(struct walker *walker, uint64_t *size, struct error *error) {
    *size = 0;
    int code = look(walker, ZSTD_SKIPPABLE, error);
    if (code != 0 || walker->held < 5) {
        return code;
    }
    const unsigned char *bytes = held(walker);
    uint32_t magic = (uint32_t)little_endian(bytes, 4);
    if ((magic & 0xFFFFFFF0) == SKIPPABLE_MAGIC) {
        return walker->held < ZSTD_SKIPPABLE ? 0
                                             : pass(walker, ZSTD_SKIPPABLE + little_endian(bytes + 4, 4), size, error);
    }
    size_t header = magic == ZSTD_MAGIC ? frame_header_size(bytes[4]) : 0;
    bool checksum = (bytes[4] & 4) != 0;
    if (header == 0) {
        return 0;
    }
    code = pass(walker, header, size, error);
    return code != 0 || *size == 0 ? code : measure_blocks(walker, checksum, size, error);
}

/* The table of the seekable format. It is a skippable frame with an entry for each frame: its size, its text's size
 * and perhaps a checksum. The number of entries, a byte of flags and a magic number follow. */
struct table {
    uint64_t offset; /* offset of its first entry */
    uint32_t frames;
    size_t entry; /* bytes of an entry */
};

/* Finds the table at the end of a file, and sets *found to whether there is one. */
static int find_table(const char *path, const struct source_identity *identity, struct table *table, bool *found,
                      struct error *error) {
    unsigned char footer[TABLE_FOOTER];
    unsigned char header[ZSTD_SKIPPABLE];
    size_t got;
    *found = false;
    if (identity->bytes < TABLE_FOOTER + ZSTD_SKIPPABLE) {
        return 0;
    }
    int code = source_read_at(path, identity, identity->bytes - TABLE_FOOTER, footer, sizeof footer, &got, error);
    if (code != 0 || got < TABLE_FOOTER || little_endian(footer + 5, 4) != TABLE_MAGIC || (footer[4] & 0x7C) != 0) {
        return code;
    }
    table->frames = (uint32_t)little_endian(footer, 4);
    table->entry = (footer[4] & 0x80) != 0 ? 12 : 8;
    uint64_t size = (uint64_t)table->frames * table->entry + TABLE_FOOTER;
    if (table->frames > TABLE_FRAMES_MAX || size + ZSTD_SKIPPABLE > identity->bytes) {
        return 0;
    }
    table->offset = identity->bytes - size;
    code = source_read_at(path, identity, table->offset - ZSTD_SKIPPABLE, header, sizeof header, &got, error);
    *found = code == 0 && got == sizeof header && little_endian(header, 4) == SKIPPABLE_MAGIC + 14 &&
             little_endian(header + 4, 4) == size;
    return code;
}

/* Iterates over the table's entries. `found` NULL: only adds up the frames' sizes in *sum. */
static int walk_table(const char *path, const struct source_identity *identity, const struct table *table,
                      members_found *found, void *context, uint64_t *sum, struct error *error) {
    struct walker walker;
    *sum = 0;
    int code = walker_open(&walker, path, identity, table->offset, identity->bytes, error);
    for (uint32_t f = 0; f < table->frames && code == 0; f++) {
        code = look(&walker, table->entry, error);
        uint64_t size = code == 0 && walker.held >= table->entry ? little_endian(held(&walker), 4) : 0;
        if (code == 0 && found != NULL && *sum > 0 && size > 0) {
            code = found(context, *sum, error);
        }
        *sum += size;
        code = code != 0 ? code : move(&walker, table->entry, error);
    }
    source_close(walker.source);
    return code;
}

static int walk_zstd(const char *path, const struct source_identity *identity, members_found *found, void *context,
                     struct error *error) {
    struct table table;
    bool there;
    uint64_t sum = 0;
    int code = find_table(path, identity, &table, &there, error);
    code = code == 0 && there ? walk_table(path, identity, &table, NULL, NULL, &sum, error) : code;
    if (code == 0 && there && sum == table.offset - ZSTD_SKIPPABLE) { /* the table must describe everything before it */
        return walk_table(path, identity, &table, found, context, &sum, error);
    }
    return code == 0 && source_scheme_of(path)->skip != NULL
               ? walk_headers(path, identity, measure_frame, found, context, error)
               : code;
}

int members_walk(const char *path, const struct source_identity *identity, enum text_form form, members_found *found,
                 void *context, struct error *error) {
    switch (form) {
    case TEXT_FORM_GZIP:
        return walk_gzip(path, identity, found, context, error);
    case TEXT_FORM_ZSTD:
        return walk_zstd(path, identity, found, context, error);
    case TEXT_FORM_UNKNOWN:
    case TEXT_FORM_PLAIN:
        break;
    }
    return 0;
}
