/* See text_input.h. */
#include "agileml/base/text_input.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER_SIZE = 64 * 1024, MARK_SIZE = 3 };

struct text_input {
    const char *name; /* for messages, in the caller's path */
    int file;         /* -1: the bytes are the source's own */
    text_source *source;
    void *context; /* the source's */
    bool gzip;
    bool in_member;  /* gzip: between the start and the end of a member */
    bool begun;      /* the first read is over, in which a byte order mark is skipped */
    z_stream stream; /* next_in[avail_in]: bytes read from the file and not used yet, also when it is not gzip */
    unsigned char buffer[BUFFER_SIZE];
};

const char *text_input_name(const char *path) {
    size_t length = strlen(path);
    return length > TEXT_INPUT_NAME_MAX ? path + length - TEXT_INPUT_NAME_MAX : path;
}

/* The text_source of files. */
static int read_file(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct text_input *input = context;
    *got = 0;
    while (*got < size) {
        ssize_t n = read(input->file, (char *)bytes + *got, size - *got);
        if (n == 0) {
            break;
        }
        if (n > 0) {
            *got += (size_t)n;
        } else if (errno != EINTR) {
            return error_set(error, AML_EINPUT, "%s: cannot read: %s", input->name, strerror(errno));
        }
    }
    return 0;
}

static int refill(struct text_input *input, struct error *error) {
    size_t got;
    int code = input->source(input->context, input->buffer, sizeof input->buffer, &got, error);
    input->stream.next_in = input->buffer;
    input->stream.avail_in = (uInt)got;
    return code;
}

/* Returns the kind of file that begins with these bytes, if such files are rejected, and what was expected; else
 * NULL. */
static const char *foreign_kind(const unsigned char *bytes, size_t size) {
    static const struct {
        const char *magic;
        size_t size;
        const char *kind;
    } kinds[] = {
        {"\x28\xB5\x2F\xFD", 4, "zstd data: expected plain text or gzip"},
        {"\xFD"
         "7zXZ",
         5, "xz data: expected plain text or gzip"},
        {"BZh", 3, "bzip2 data: expected plain text or gzip"},
        {"PK\x03\x04", 4, "a zip archive: expected plain text or gzip"},
        {"\xFF\xFE", 2, "text in UTF-16: expected UTF-8"},
        {"\xFE\xFF", 2, "text in UTF-16: expected UTF-8"},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        if (size >= kinds[k].size && memcmp(bytes, kinds[k].magic, kinds[k].size) == 0) {
            return kinds[k].kind;
        }
    }
    return NULL;
}

static int begin(struct text_input *input, struct error *error) {
    int code = refill(input, error);
    size_t size = input->stream.avail_in;
    if (code != 0) {
        return code;
    }
    const char *kind = foreign_kind(input->buffer, size);
    if (kind != NULL) {
        return error_set(error, AML_EINPUT, "%s: %s", input->name, kind);
    }
    if (size >= 2 && input->buffer[0] == 0x1f && input->buffer[1] == 0x8b) {
        /* 15: the largest window; + 16: only gzip is accepted */
        if (inflateInit2(&input->stream, 15 + 16) != Z_OK) {
            return error_set(error, AML_ENOMEM, "%s: can't decompress it: out of memory", input->name);
        }
        input->gzip = true;
    }
    return 0;
}

static int open_source(struct text_input **opened, const char *name, int file, text_source *source, void *context,
                       struct error *error) {
    struct text_input *input = calloc(1, sizeof *input);
    *opened = NULL;
    if (input == NULL) {
        if (file >= 0) {
            close(file);
        }
        return error_set(error, AML_ENOMEM, "%s: out of memory", name);
    }
    *input = (struct text_input){.name = name, .file = file, .source = source, .context = file >= 0 ? input : context};
    int code = begin(input, error);
    if (code != 0) {
        text_input_close(input);
        return code;
    }
    *opened = input;
    return 0;
}

int text_input_open(struct text_input **opened, const char *path, struct error *error) {
    const char *name = text_input_name(path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        *opened = NULL;
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", name, strerror(errno));
    }
    return open_source(opened, name, file, read_file, NULL, error);
}

int text_input_open_source(struct text_input **opened, const char *name, text_source *source, void *context,
                           struct error *error) {
    return open_source(opened, text_input_name(name), -1, source, context, error);
}

static int inflate_some(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    z_stream *stream = &input->stream;
    stream->next_out = (Bytef *)bytes;
    stream->avail_out = (uInt)size;
    while (stream->avail_out > 0) {
        if (stream->avail_in == 0) {
            int code = refill(input, error);
            if (code != 0) {
                return code;
            }
        }
        if (stream->avail_in == 0) {
            if (input->in_member) {
                return error_set(error, AML_EINPUT, "%s: truncated gzip data: the file ends too early", input->name);
            }
            break;
        }
        input->in_member = true;
        int status = inflate(stream, Z_NO_FLUSH);
        if (status == Z_STREAM_END) {
            input->in_member = false;
            status = inflateReset(stream);
        }
        if (status == Z_MEM_ERROR) {
            return error_set(error, AML_ENOMEM, "%s: can't decompress it: out of memory", input->name);
        }
        if (status != Z_OK) {
            return error_set(error, AML_EINPUT, "%s: damaged gzip data: %s", input->name,
                             stream->msg != NULL ? stream->msg : zError(status));
        }
    }
    *got = size - stream->avail_out;
    return 0;
}

static int copy_some(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    size_t held = input->stream.avail_in < size ? input->stream.avail_in : size;
    memcpy(bytes, input->stream.next_in, held);
    input->stream.next_in += held;
    input->stream.avail_in -= (uInt)held;
    int code = input->source(input->context, bytes + held, size - held, got, error);
    *got += held;
    return code;
}

static int read_some(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    *got = 0;
    return input->gzip ? inflate_some(input, bytes, size, got, error) : copy_some(input, bytes, size, got, error);
}

int text_input_read(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    assert((input->begun || size >= TEXT_INPUT_READ_MIN) && size <= 1U << 30);
    int code = read_some(input, bytes, size, got, error);
    bool first = !input->begun;
    input->begun = true;
    if (code == 0 && first && *got >= MARK_SIZE && memcmp(bytes, "\xEF\xBB\xBF", MARK_SIZE) == 0) {
        size_t more;
        bool ended = *got < size;
        *got -= MARK_SIZE;
        memmove(bytes, bytes + MARK_SIZE, *got);
        code = ended ? 0 : read_some(input, bytes + *got, MARK_SIZE, &more, error);
        *got += ended || code != 0 ? 0 : more;
    }
    return code;
}

int text_input_load(const char *path, size_t most, char **text, size_t *size, struct error *error) {
    struct text_input *input;
    size_t capacity = 0;
    size_t room = 0;
    size_t got = 0;
    int code = text_input_open(&input, path, error);
    *text = NULL;
    *size = 0;
    while (code == 0 && got == room && *size <= most) { /* after a full read there may be more */
        capacity = 2 * capacity + BUFFER_SIZE;
        room = capacity - *size - 1; /* 1: for the 0 */
        *text = memory_resized(*text, capacity, 1);
        code = text_input_read(input, *text + *size, room, &got, error);
        *size += code == 0 ? got : 0;
    }
    text_input_close(input);
    if (code == 0 && *size > most) {
        code = error_set(error, AML_EINPUT, "%s: more than %zu bytes", text_input_name(path), most);
    }
    if (code != 0) {
        free(*text);
        *text = NULL;
        return code;
    }
    (*text)[*size] = '\0';
    return 0;
}

void text_input_close(struct text_input *input) {
    if (input == NULL) {
        return;
    }
    if (input->gzip) {
        inflateEnd(&input->stream);
    }
    if (input->file >= 0) {
        close(input->file);
    }
    free(input);
}
