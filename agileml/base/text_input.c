/* See text_input.h. */
#include "agileml/base/text_input.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_foreign.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { BUFFER_SIZE = 64 * 1024, MARK_SIZE = 3 };

struct text_input {
    const char *name; /* name for messages; points into the caller's path */
    int file;         /* -1: the bytes come from `source` */
    text_source *source;
    void *context; /* context of `source` */
    void (*close)(void *context);
    enum text_form form;
    bool in_member; /* gzip, zstd: between the start and the end of a member or frame */
    bool lines;     /* see text_piece */
    bool checked;   /* the text's first bytes are known to be no foreign format */
    bool begun;     /* the first read, which skips a byte order mark, is over */
    ZSTD_DStream *zstd;
    z_stream gzip;
    const unsigned char *next; /* bytes of the buffer that are not used yet: next[held] */
    size_t held;
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
    size_t got = 0;
    int code = input->source(input->context, input->buffer, sizeof input->buffer, &got, error);
    input->next = input->buffer;
    input->held = got;
    return code;
}

int text_form_detect(const char *name, const void *bytes, size_t size, enum text_form *form, struct error *error) {
    const unsigned char *p = bytes;
    *form = TEXT_FORM_PLAIN;
    if (size >= 2 && p[0] == 0x1f && p[1] == 0x8b) {
        *form = TEXT_FORM_GZIP;
    } else if (size >= 4 && (memcmp(p, "\x28\xB5\x2F\xFD", 4) == 0 || /* a frame, or a skippable frame */
                             (p[0] >> 4 == 5 && memcmp(p + 1, "\x2A\x4D\x18", 3) == 0))) {
        *form = TEXT_FORM_ZSTD;
    }
    const char *foreign = *form == TEXT_FORM_PLAIN ? text_foreign_bytes(bytes, size) : NULL;
    return foreign != NULL ? error_set(error, AML_EINPUT, "%s: %s", name, foreign) : 0;
}

int text_input_check_lines(const char *name, const void *bytes, size_t size, struct error *error) {
    const char *container = text_foreign_container(bytes, size);
    return container != NULL ? error_set(error, AML_EINPUT, "%s: %s", name, container) : 0;
}

/* Opens the decoder for the input's form. */
static int begin_form(struct text_input *input, enum text_form form, struct error *error) {
    bool ready = true;
    if (form == TEXT_FORM_GZIP) {
        ready = inflateInit2(&input->gzip, 15 + 16) == Z_OK; /* 15: the largest window; + 16: only gzip is accepted */
    } else if (form == TEXT_FORM_ZSTD) {
        input->zstd = ZSTD_createDStream();
        ready = input->zstd != NULL;
    }
    if (!ready) {
        return error_set(error, AML_ENOMEM, "%s: can't decompress it: out of memory", input->name);
    }
    input->form = form;
    return 0;
}

static int begin(struct text_input *input, struct error *error) {
    enum text_form form = TEXT_FORM_UNKNOWN;
    int code = refill(input, error);
    code = code != 0 ? code : text_form_detect(input->name, input->buffer, input->held, &form, error);
    input->checked = code == 0 && form == TEXT_FORM_PLAIN;
    return code != 0 ? code : begin_form(input, form, error);
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

int text_input_open_piece(struct text_input **opened, const struct text_piece *piece, struct error *error) {
    struct text_input *input = calloc(1, sizeof *input);
    const char *name = text_input_name(piece->name);
    *opened = NULL;
    if (input == NULL) {
        if (piece->close != NULL) {
            piece->close(piece->context);
        }
        return error_set(error, AML_ENOMEM, "%s: out of memory", name);
    }
    *input = (struct text_input){.name = name,
                                 .file = -1,
                                 .source = piece->source,
                                 .context = piece->context,
                                 .close = piece->close,
                                 .lines = piece->lines,
                                 .checked = piece->checked,
                                 .begun = !piece->first,
                                 .next = input->buffer};
    int code = piece->form == TEXT_FORM_UNKNOWN ? begin(input, error) : begin_form(input, piece->form, error);
    if (code != 0) {
        text_input_close(input);
        return code;
    }
    *opened = input;
    return 0;
}

/* Decompresses gzip from the held bytes into bytes[size]. Sets *made to the number of bytes written. */
static int inflate_held(struct text_input *input, char *bytes, size_t size, size_t *made, struct error *error) {
    z_stream *stream = &input->gzip;
    stream->next_in = (z_const Bytef *)input->next;
    stream->avail_in = (uInt)input->held;
    stream->next_out = (Bytef *)bytes;
    stream->avail_out = (uInt)size;
    int status = inflate(stream, Z_NO_FLUSH);
    input->next = stream->next_in;
    input->held = stream->avail_in;
    *made = size - stream->avail_out;
    input->in_member = status != Z_STREAM_END;
    if (status == Z_STREAM_END) {
        status = inflateReset(stream);
    }
    if (status == Z_MEM_ERROR) {
        return error_set(error, AML_ENOMEM, "%s: can't decompress it: out of memory", input->name);
    }
    if (status != Z_OK && status != Z_BUF_ERROR) {
        return error_set(error, AML_EINPUT, "%s: damaged gzip data: %s", input->name,
                         stream->msg != NULL ? stream->msg : zError(status));
    }
    return 0;
}

/* Like inflate_held, for zstd. */
static int expand_held(struct text_input *input, char *bytes, size_t size, size_t *made, struct error *error) {
    ZSTD_inBuffer in = {.src = input->next, .size = input->held};
    ZSTD_outBuffer out = {.dst = bytes, .size = size};
    size_t status = ZSTD_decompressStream(input->zstd, &out, &in);
    input->next += in.pos;
    input->held -= in.pos;
    *made = out.pos;
    input->in_member = status != 0;
    if (!ZSTD_isError(status)) {
        return 0;
    }
    if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) {
        return error_set(error, AML_ENOMEM, "%s: can't decompress it: out of memory", input->name);
    }
    if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge) {
        return error_set(error, AML_EINPUT, "%s: zstd data with a window of more than 128 MiB: expected a smaller one",
                         input->name);
    }
    return error_set(error, AML_EINPUT, "%s: damaged zstd data: %s", input->name, ZSTD_getErrorName(status));
}

static int decompress_some(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    bool zstd = input->form == TEXT_FORM_ZSTD;
    int code = 0;
    while (code == 0 && *got < size) {
        size_t made = 0;
        code = input->held == 0 ? refill(input, error) : 0;
        bool ended = input->held == 0;
        if (code != 0 || (ended && !input->in_member)) {
            break;
        }
        /* Even after the last input the decoder may still have output. */
        code = zstd ? expand_held(input, bytes + *got, size - *got, &made, error)
                    : inflate_held(input, bytes + *got, size - *got, &made, error);
        *got += made;
        if (code == 0 && ended && made == 0 && input->in_member) {
            code = error_set(error, AML_EINPUT, "%s: truncated %s data: the file ends too early", input->name,
                             zstd ? "zstd" : "gzip");
        }
    }
    return code;
}

static int copy_some(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    size_t held = input->held < size ? input->held : size;
    memcpy(bytes, input->next, held);
    input->next += held;
    input->held -= held;
    int code = input->source(input->context, bytes + held, size - held, got, error);
    *got += held;
    return code;
}

static int read_some(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    *got = 0;
    return input->form != TEXT_FORM_PLAIN ? decompress_some(input, bytes, size, got, error)
                                          : copy_some(input, bytes, size, got, error);
}

/* Checks the first bytes of decompressed text. */
static int check_text(const struct text_input *input, const char *bytes, size_t size, struct error *error) {
    enum text_form form;
    int code = text_form_detect(input->name, bytes, size, &form, error);
    if (code == 0 && form != TEXT_FORM_PLAIN) {
        return error_set(error, AML_EINPUT, "%s: compressed twice: expected text inside; unpack it once", input->name);
    }
    return code == 0 && input->lines ? text_input_check_lines(input->name, bytes, size, error) : code;
}

int text_input_read(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    assert((input->begun || size >= TEXT_INPUT_READ_MIN) && size <= 1U << 30);
    int code = read_some(input, bytes, size, got, error);
    bool first = !input->begun;
    input->begun = true;
    code = code == 0 && first && !input->checked ? check_text(input, bytes, *got, error) : code;
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
        room = capacity - *size - 1; /* 1: room for the final 0 */
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
    if (input->form == TEXT_FORM_GZIP) {
        inflateEnd(&input->gzip);
    }
    ZSTD_freeDStream(input->zstd);
    if (input->close != NULL) {
        input->close(input->context);
    }
    if (input->file >= 0) {
        close(input->file);
    }
    free(input);
}
