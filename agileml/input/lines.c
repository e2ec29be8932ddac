/* See lines.h. */
#include "agileml/input/lines.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_SIZE = 1 << 16,
    BEYOND_STEP = 1 << 16 /* bytes of a following extent that are requested at first: only a line of it is needed */
};

/* The bytes of an extent, as they are stored in the file. */
struct range {
    const struct input_name *file;
    uint64_t offset, end;             /* bytes not requested yet */
    uint64_t at;                      /* where the next byte is that is read */
    const struct extent_watch *watch; /* NULL: nobody watches */
    uint64_t step;                    /* bytes of the next request */
    struct source *source;
};

/* What is read next.
 *
 *     SKIP ---first line end found---> BODY ---the extent ends---> BEYOND ---a line end---> OVER
 *                                       '----with a CR----> BODY_CR --'--with a CR--> BEYOND_CR --> OVER
 *
 * An LF that follows the extent's last CR is part of the line end, which then belongs to the following extent. */
enum phase { SKIP = 0, BODY, BODY_CR, BEYOND, BEYOND_CR, OVER };

struct extent_lines {
    const struct extents *extents;
    uint32_t next; /* the extent after the open one */
    struct range range;
    struct text_input *piece; /* the text of the open extent */
    bool ended;               /* the piece has no more bytes */
    enum phase phase;
    bool after_cr;      /* SKIP: the byte before was a CR */
    char last;          /* BODY: the last byte returned; 0: none */
    size_t start, held; /* bytes of the open extent not used yet: `held` bytes at buffer[start] */
    char buffer[BUFFER_SIZE];
};

/* ---- The texts of extents, one after the other ---- */

/* The text_source of the bytes of an extent. */
static int read_range(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct range *range = context;
    int code = 0;
    *got = 0;
    while (code == 0 && *got < size && (range->source != NULL || range->offset < range->end)) {
        if (range->source == NULL) {
            uint64_t rest = range->end - range->offset;
            uint64_t length = range->end == SOURCE_TO_END || rest < range->step ? rest : range->step;
            code = source_open(&range->source, range->file->path, &range->file->identity, range->offset, length, error);
            range->offset += length;
            range->step = range->step < SOURCE_TO_END / 2 ? 2 * range->step : range->step;
            continue;
        }
        size_t more = 0;
        size_t wanted = size - *got;
        code = source_read(range->source, (char *)bytes + *got, wanted, &more, error);
        if (range->watch != NULL) {
            range->watch->bytes(range->watch->context, range->at, (unsigned char *)bytes + *got, more);
        }
        range->at += more;
        *got += more;
        if (code == 0 && more < wanted) {
            source_close(range->source);
            range->source = NULL;
        }
    }
    return code;
}

static void close_piece(struct extent_lines *lines) {
    text_input_close(lines->piece);
    lines->piece = NULL;
    source_close(lines->range.source);
    lines->range.source = NULL;
}

/* Opens the next extent. Its first request is for `step` bytes. */
static int open_next(struct extent_lines *lines, uint64_t step, struct error *error) {
    const struct extent *extent = &lines->extents->at[lines->next++];
    const struct input_name *file = extents_file(lines->extents);
    close_piece(lines);
    lines->range = (struct range){
        .file = file,
        .offset = extent->offset,
        .end = extent->length == SOURCE_TO_END ? extent->length : extent->offset + extent->length,
        .at = extent->offset,
        .watch = step == SOURCE_TO_END ? lines->extents->watch : NULL, /* else only some lines are read */
        .step = step};
    lines->ended = false;
    const struct text_piece piece = {
        .name = file->path, .form = lines->extents->form, .source = read_range, .context = &lines->range};
    return text_input_open_piece(&lines->piece, &piece, error);
}

/* Fills the empty buffer from the open extent's text. The buffer stays empty at the extent's end. */
static int fill(struct extent_lines *lines, struct error *error) {
    lines->start = 0;
    if (lines->ended) {
        return 0;
    }
    size_t got = 0;
    int code = text_input_read(lines->piece, lines->buffer, sizeof lines->buffer, &got, error);
    lines->held = code == 0 ? got : 0;
    lines->ended = got < sizeof lines->buffer;
    return code;
}

/* Like fill, but continues with the file's following extents. The buffer stays empty at the file's end. */
static int fill_beyond(struct extent_lines *lines, struct error *error) {
    int code = lines->held == 0 ? fill(lines, error) : 0;
    while (code == 0 && lines->held == 0 && lines->next < lines->extents->count) {
        code = open_next(lines, BEYOND_STEP, error);
        code = code == 0 ? fill(lines, error) : code;
    }
    return code;
}

/* ---- The phases ---- */

static void take(struct extent_lines *lines, size_t bytes) {
    lines->start += bytes;
    lines->held -= bytes;
}

/* Returns the number of held bytes before the first CR or LF; all of them when there is none. */
static size_t before_line_end(const struct extent_lines *lines) {
    const char *bytes = lines->buffer + lines->start;
    const char *lf = memchr(bytes, '\n', lines->held);
    size_t length = lf != NULL ? (size_t)(lf - bytes) : lines->held;
    const char *cr = memchr(bytes, '\r', length);
    return cr != NULL ? (size_t)(cr - bytes) : length;
}

/* Skips some or all of the bytes before the first line end. */
static int skip_some(struct extent_lines *lines, struct error *error) {
    int code = lines->held == 0 ? fill(lines, error) : 0;
    if (code != 0) {
        return code;
    }
    if (lines->held == 0 && !lines->after_cr) {
        lines->phase = OVER; /* no line begins in this extent */
        return 0;
    }
    if (lines->after_cr) {
        bool here = lines->held > 0;
        code = here ? 0 : fill_beyond(lines, error);
        bool lf = lines->held > 0 && lines->buffer[lines->start] == '\n';
        lines->phase = here ? BODY : lf ? OVER : BEYOND;
        take(lines, lf ? 1 : 0);
        return code;
    }
    take(lines, before_line_end(lines));
    if (lines->held > 0) {
        lines->after_cr = lines->buffer[lines->start] == '\r';
        lines->phase = lines->after_cr ? SKIP : BODY;
        take(lines, 1);
    }
    return 0;
}

/* Returns bytes of the extent itself. */
static int give_body(struct extent_lines *lines, char *bytes, size_t size, size_t *given, struct error *error) {
    int code = 0;
    if (lines->held > 0) {
        *given = lines->held < size ? lines->held : size;
        memcpy(bytes, lines->buffer + lines->start, *given);
        take(lines, *given);
    } else if (!lines->ended) {
        code = text_input_read(lines->piece, bytes, size, given, error);
        lines->ended = *given < size;
    }
    lines->last = *given > 0 ? bytes[*given - 1] : lines->last;
    if (lines->held == 0 && lines->ended) {
        lines->phase = lines->last == '\r' ? BODY_CR : BEYOND;
    }
    return code;
}

/* Returns the LF after a CR, if there is one. */
static int give_lf(struct extent_lines *lines, char *bytes, size_t *given, struct error *error) {
    int code = fill_beyond(lines, error);
    if (lines->held > 0 && lines->buffer[lines->start] == '\n') {
        bytes[0] = '\n';
        *given = 1;
        take(lines, 1);
        lines->phase = OVER;
    } else {
        lines->phase = lines->phase == BODY_CR ? BEYOND : OVER;
    }
    return code;
}

/* Returns bytes of the following extents, up to a line end. */
static int give_beyond(struct extent_lines *lines, char *bytes, size_t size, size_t *given, struct error *error) {
    int code = fill_beyond(lines, error);
    if (lines->held == 0) {
        lines->phase = OVER;
        return code;
    }
    size_t text = before_line_end(lines);
    size_t whole = text < lines->held ? text + 1 : text;
    *given = whole < size ? whole : size;
    memcpy(bytes, lines->buffer + lines->start, *given);
    take(lines, *given);
    if (*given > text) {
        lines->phase = bytes[text] == '\r' ? BEYOND_CR : OVER;
    }
    return code;
}

/* The text_source of the lines of an extent. */
static int read_lines(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct extent_lines *lines = context;
    int code = 0;
    *got = 0;
    while (code == 0 && *got < size && lines->phase != OVER) {
        char *to = (char *)bytes + *got;
        size_t given = 0;
        switch (lines->phase) {
        case SKIP:
            code = skip_some(lines, error);
            break;
        case BODY:
            code = give_body(lines, to, size - *got, &given, error);
            break;
        case BODY_CR:
        case BEYOND_CR:
            code = give_lf(lines, to, &given, error);
            break;
        case BEYOND:
            code = give_beyond(lines, to, size - *got, &given, error);
            break;
        case OVER:
            break;
        }
        *got += given;
    }
    return code;
}

static void close_lines(void *context) {
    struct extent_lines *lines = context;
    close_piece(lines);
    free(lines);
}

/* Opens the lines of an extent. The first request is for `step` bytes. */
static int open_lines(struct text_input **input, const struct extents *extents, uint32_t index, uint64_t step,
                      struct error *error) {
    struct extent_lines *lines = memory_zeroed(1, sizeof *lines);
    *input = NULL;
    lines->extents = extents;
    lines->next = index;
    lines->phase = index == 0 ? BODY : SKIP;
    int code = open_next(lines, step, error);
    if (code != 0) {
        close_lines(lines);
        return code;
    }
    const struct text_piece text = {.name = extents_file(extents)->path,
                                    .form = TEXT_FORM_PLAIN,
                                    .first = index == 0,
                                    .lines = true,
                                    .checked = extents->form == TEXT_FORM_PLAIN,
                                    .source = read_lines,
                                    .context = lines,
                                    .close = close_lines};
    return text_input_open_piece(input, &text, error);
}

int input_lines_open(struct text_input **input, const struct extents *extents, uint32_t index, struct error *error) {
    return open_lines(input, extents, index, SOURCE_TO_END, error);
}

int input_lines_peek(struct text_input **input, const struct extents *extents, uint32_t index, struct error *error) {
    return open_lines(input, extents, index, BEYOND_STEP, error);
}
