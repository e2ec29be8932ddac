/* See splits.h. */
#include "workers/splits.h"

#include "agileml/base/hash.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_input.h"
#include "agileml/input/source.h"
#include "agileml/input/source_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SKIP_BYTES = 4096 /* read at a time to find the first line of a split */, MARK_SIZE = 3, PROBE_BYTES = 16 };

static const char MARK[] = "\xEF\xBB\xBF"; /* UTF-8's byte order mark */

/* The bytes [at, ...) of a plain file that are the split's lines. */
struct split_text {
    const char *name;
    struct text_input *whole; /* a file that is one split; NULL: the fields below */
    int file;
    uint64_t start;  /* of the first line */
    uint64_t at;     /* of the next byte */
    uint64_t border; /* the next split's first byte; the line that crosses it is ours */
    bool last;       /* no split follows */
    bool ended;
};

static int file_open(const char *path, int *file, struct error *error) {
    *file = open(path, O_RDONLY | O_CLOEXEC);
    return *file >= 0 ? 0 : error_set(error, AML_EINPUT, "%s: cannot open: %s", text_input_name(path), strerror(errno));
}

/* Reads `size` bytes at `offset`, or fewer where the file ends. */
static int file_read(int file, const char *name, uint64_t offset, void *bytes, size_t size, size_t *got,
                     struct error *error) {
    *got = 0;
    while (*got < size) {
        ssize_t n = pread(file, (char *)bytes + *got, size - *got, (off_t)(offset + *got));
        if (n == 0) {
            break;
        }
        if (n > 0) {
            *got += (size_t)n;
        } else if (errno != EINTR) {
            return error_set(error, AML_EINPUT, "%s: cannot read: %s", name, strerror(errno));
        }
    }
    return 0;
}

/* Whether a file that begins with these bytes is read as it is. text_input.h names the other formats: it opens those,
 * or refuses them. */
static bool is_plain(const unsigned char *bytes, size_t size) {
    static const struct {
        const char *bytes;
        size_t size;
    } others[] = {{"\x1f\x8b", 2},
                  {"\x28\xB5\x2F\xFD", 4},
                  {"\xFD"
                   "7zXZ",
                   5},
                  {"BZh", 3},
                  {"PK\x03\x04", 4},
                  {"\xFF\xFE", 2},
                  {"\xFE\xFF", 2}};
    for (size_t o = 0; o < sizeof others / sizeof others[0]; o++) {
        if (size >= others[o].size && memcmp(bytes, others[o].bytes, others[o].size) == 0) {
            return false;
        }
    }
    return true;
}

static uint64_t split_size(uint64_t bytes) {
    uint64_t size = SPLIT_BYTES_MIN;
    while (size < SPLIT_BYTES_MAX && size * SPLITS_OF_FILE < bytes) {
        size *= 2;
    }
    while (bytes / size >= 1U << 24) { /* beyond 2^50 bytes */
        size *= 2;
    }
    return size;
}

int splits_make(struct splits *splits, const char *path, bool cut, struct error *error) {
    *splits = (struct splits){.path = path, .count = 1};
    struct stat status;
    if (!cut || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
        return 0; /* source_text_open says what is wrong with it */
    }
    unsigned char probe[PROBE_BYTES];
    size_t got = 0;
    int file;
    int code = file_open(path, &file, error);
    if (code == 0) {
        code = file_read(file, text_input_name(path), 0, probe, sizeof probe, &got, error);
        close(file);
    }
    if (code != 0 || !is_plain(probe, got)) {
        return code;
    }
    splits->plain = true;
    splits->bytes = (uint64_t)status.st_size;
    splits->size = split_size(splits->bytes);
    splits->count = splits->bytes > 0 ? (uint32_t)((splits->bytes - 1) / splits->size + 1) : 1;
    return 0;
}

struct split_part splits_part(const struct splits *splits, uint32_t index, uint32_t count) {
    return (struct split_part){.first = (uint32_t)((uint64_t)splits->count * index / count),
                               .end = (uint32_t)((uint64_t)splits->count * (index + 1) / count)};
}

uint64_t splits_part_bytes(const struct splits *splits, struct split_part part) {
    if (part.first == part.end) {
        return 0;
    }
    if (!splits->plain) {
        return source_bytes(splits->path);
    }
    uint64_t end = part.end == splits->count ? splits->bytes : part.end * splits->size;
    return end - part.first * splits->size;
}

/* ---- The text of a split ---- */

/* Finds the first place behind a line end, the line end being at `from` or later. */
static int find_line(const struct split_text *text, uint64_t from, uint64_t *found, struct error *error) {
    char bytes[SKIP_BYTES + 1]; /* 1: an LF behind a CR */
    for (;; from += SKIP_BYTES) {
        size_t got;
        int code = file_read(text->file, text->name, from, bytes, sizeof bytes, &got, error);
        if (code != 0) {
            return code;
        }
        for (size_t i = 0; i < got && i < SKIP_BYTES; i++) {
            if (text_is_line_end(bytes[i])) {
                bool pair = bytes[i] == '\r' && i + 1 < got && bytes[i + 1] == '\n';
                *found = from + i + (pair ? 2 : 1);
                return 0;
            }
        }
        if (got < sizeof bytes) {
            *found = from + got; /* the file's end */
            return 0;
        }
    }
}

static int find_start(struct split_text *text, const struct splits *splits, uint32_t index, struct error *error) {
    uint64_t begin = index * splits->size;
    text->border = begin + splits->size;
    text->last = index + 1 == splits->count;
    if (index > 0) {
        return find_line(text, begin - 1, &text->start, error);
    }
    char mark[MARK_SIZE];
    size_t got;
    int code = file_read(text->file, text->name, 0, mark, sizeof mark, &got, error);
    text->start = code == 0 && got == MARK_SIZE && memcmp(mark, MARK, MARK_SIZE) == 0 ? MARK_SIZE : 0;
    return code;
}

int split_text_open(struct split_text **opened, const struct splits *splits, uint32_t index, struct error *error) {
    const char *name = text_input_name(splits->path);
    struct split_text *text = calloc(1, sizeof *text);
    *opened = NULL;
    if (text == NULL) {
        return error_set(error, AML_ENOMEM, "%s: out of memory", name);
    }
    *text = (struct split_text){.name = name, .file = -1};
    int code = splits->plain ? file_open(splits->path, &text->file, error)
                             : source_text_open(&text->whole, splits->path, error);
    if (code == 0 && splits->plain) {
        code = find_start(text, splits, index, error);
        text->at = text->start;
        text->ended = !text->last && text->start >= text->border; /* one line covers the whole split */
    }
    if (code != 0) {
        split_text_close(text);
        return code;
    }
    *opened = text;
    return 0;
}

int split_text_read(struct split_text *text, char *bytes, size_t size, size_t *got, struct error *error) {
    if (text->whole != NULL) {
        return text_input_read(text->whole, bytes, size, got, error);
    }
    *got = 0;
    if (text->ended) {
        return 0;
    }
    uint64_t end = UINT64_MAX;
    int code = 0;
    if (!text->last && text->at + size >= text->border) {
        code = find_line(text, text->border - 1, &end, error); /* where the next split's lines begin */
    }
    uint64_t left = end - text->at;
    size_t wanted = left < size ? (size_t)left : size;
    code = code != 0 ? code : file_read(text->file, text->name, text->at, bytes, wanted, got, error);
    text->at += *got;
    text->ended = *got < size;
    return code;
}

uint64_t split_text_offset(const struct split_text *text) {
    return text->start;
}

void split_text_close(struct split_text *text) {
    if (text == NULL) {
        return;
    }
    text_input_close(text->whole);
    if (text->file >= 0) {
        close(text->file);
    }
    free(text);
}

/* ---- Samples ---- */

/* Adds the block's place and bytes to the hash. False when it can't be read. */
static bool sample_block(int file, uint64_t offset, size_t size, uint64_t *hash) {
    static _Thread_local unsigned char block[SPLIT_SAMPLE_BYTES];
    struct error error;
    size_t got;
    if (file_read(file, "", offset, block, size, &got, &error) != 0) {
        return false;
    }
    *hash = hash_bytes(block, got, hash_pair(*hash, offset));
    return true;
}

static uint64_t sample_blocks(int file, uint64_t bytes) {
    uint64_t hash = bytes + 1; /* not 0 */
    bool all = bytes <= (uint64_t)SPLIT_SAMPLES * SPLIT_SAMPLE_BYTES;
    uint64_t count = all ? (bytes + SPLIT_SAMPLE_BYTES - 1) / SPLIT_SAMPLE_BYTES : SPLIT_SAMPLES;
    for (uint64_t b = 0; b < count; b++) {
        /* In two steps, so that the product can't overflow. */
        uint64_t range = bytes - SPLIT_SAMPLE_BYTES;
        uint64_t spread = range / (SPLIT_SAMPLES - 1) * b + range % (SPLIT_SAMPLES - 1) * b / (SPLIT_SAMPLES - 1);
        if (!sample_block(file, all ? b * SPLIT_SAMPLE_BYTES : spread, SPLIT_SAMPLE_BYTES, &hash)) {
            return 0;
        }
    }
    return hash | 1;
}

static uint64_t sample_borders(int file, const struct splits *splits, uint32_t parts) {
    uint64_t hash = parts;
    for (uint32_t p = 1; splits->plain && p < parts; p++) {
        uint64_t border = splits_part(splits, p, parts).first * splits->size;
        uint64_t from = border > SPLIT_SAMPLE_BYTES / 2 ? border - SPLIT_SAMPLE_BYTES / 2 : 0;
        if (!sample_block(file, from, SPLIT_SAMPLE_BYTES, &hash)) {
            return 0;
        }
    }
    return hash | 1;
}

struct split_sample splits_sample(const struct splits *splits, uint32_t parts) {
    struct split_sample sample = {0};
    struct error error;
    struct stat status;
    int file;
    if (stat(splits->path, &status) == 0 && S_ISREG(status.st_mode) && file_open(splits->path, &file, &error) == 0) {
        sample.blocks = sample_blocks(file, (uint64_t)status.st_size);
        sample.borders = parts > 1 ? sample_borders(file, splits, parts) : 0;
        close(file);
    }
    return sample;
}
