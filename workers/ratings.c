/* See ratings.h. The calling thread fills a ring of chunks; parser threads take them in file order and finish them in
 * any order; the calling thread retires them in file order, and that is what makes the line numbers exact and the
 * reported failure the file's first. */
#include "workers/ratings.h"

#include "workers/crash.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum {
    RATINGS_INPUT_BYTES = 64 * 1024, /* read from the file at a time, when it is gzip */
    RATINGS_SHOWN_MAX = 40,          /* characters of a bad line in a message */
    RATINGS_PATH_SHOWN_MAX = 240     /* last characters of the path in a message, so that the rest has room */
};

/* ---- Parsing. All text ends in LF, which no field and no separator contains: it stops every scan. ---- */

static inline bool ratings_is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

static inline bool ratings_is_line_end(const char *p) {
    return *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static inline const char *ratings_skip_spaces(const char *p) {
    while (*p == ' ') {
        p++;
    }
    return p;
}

/* Each ratings_take_... takes what it is named for at p, and returns the place after it or, if it isn't there, NULL. */

static inline const char *ratings_take_separator(const char *p, enum ratings_separator separator) {
    switch (separator) {
    case RATINGS_TAB:
        return *p == '\t' ? p + 1 : NULL;
    case RATINGS_COMMA:
        return *p == ',' ? p + 1 : NULL;
    case RATINGS_SPACES:
        return *p == ' ' ? ratings_skip_spaces(p + 1) : NULL;
    case RATINGS_COLONS:
        return p[0] == ':' && p[1] == ':' ? p + 2 : NULL;
    case RATINGS_UNKNOWN:
        break;
    }
    return NULL;
}

static inline const char *ratings_take_id(const char *p, uint64_t *id) {
    if (!ratings_is_digit(*p)) {
        return NULL;
    }
    uint64_t value = 0;
    for (; ratings_is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value >= UINT64_MAX / 10 && (value > UINT64_MAX / 10 || digit > UINT64_MAX % 10)) {
            return NULL;
        }
        value = value * 10 + digit;
    }
    *id = value;
    return p;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static const char *ratings_take_number(const char *p) {
    p += *p == '-' || *p == '+';
    size_t digits = 0;
    for (; ratings_is_digit(*p); p++) {
        digits++;
    }
    if (*p == '.') {
        for (p++; ratings_is_digit(*p); p++) {
            digits++;
        }
    }
    if (digits == 0) {
        return NULL;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        if (!ratings_is_digit(*p)) {
            return NULL;
        }
        while (ratings_is_digit(*p)) {
            p++;
        }
    }
    return p;
}

/* Any number, by the C library. It needs a terminated copy, and the C locale whatever the process has set. */
static const char *ratings_take_any_value(const char *p, locale_t c_locale, float *value) {
    const char *end = ratings_take_number(p);
    if (end == NULL || end - p > RATINGS_LINE_MAX) {
        return NULL;
    }
    char copy[RATINGS_LINE_MAX + 1];
    size_t length = (size_t)(end - p);
    memcpy(copy, p, length);
    copy[length] = '\0';
    *value = strtof_l(copy, NULL, c_locale);
    return isfinite(*value) ? end : NULL;
}

/* The common numbers, such as 3 and -4.25: when the digits make an integer up to 2^24 they are exact in a float, as is
 * the power of ten, so that the one division rounds as strtof does. */
static inline const char *ratings_take_value(const char *p, locale_t c_locale, float *value) {
    static const float power_of_ten[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F};
    const char *start = p;
    p += *p == '-';
    const char *digits = p;
    uint32_t integer = 0;
    while (ratings_is_digit(*p)) {
        integer = integer * 10 + (uint32_t)(*p++ - '0');
    }
    ptrdiff_t digit_count = p - digits;
    ptrdiff_t decimals = 0;
    if (*p == '.') {
        const char *point = p++;
        while (ratings_is_digit(*p)) {
            integer = integer * 10 + (uint32_t)(*p++ - '0');
        }
        decimals = p - point - 1;
        digit_count += decimals;
    }
    /* Nine digits fit in `integer`; of more, it holds nonsense. */
    if (digit_count < 1 || digit_count > 9 || integer > 1U << 24 || *p == 'e' || *p == 'E') {
        return ratings_take_any_value(start, c_locale, value);
    }
    float magnitude = (float)integer / power_of_ten[decimals];
    *value = *start == '-' ? -magnitude : magnitude;
    return p;
}

/* Takes a whole line; returns its end (at the CR or LF), or NULL when it does not fit. */
static inline const char *ratings_take_line(const char *p, enum ratings_separator separator, locale_t c_locale,
                                            struct rating *rating) {
    if (separator == RATINGS_SPACES) {
        p = ratings_skip_spaces(p);
    }
    if ((p = ratings_take_id(p, &rating->user)) == NULL || (p = ratings_take_separator(p, separator)) == NULL ||
        (p = ratings_take_id(p, &rating->item)) == NULL || (p = ratings_take_separator(p, separator)) == NULL ||
        (p = ratings_take_value(p, c_locale, &rating->value)) == NULL) {
        return NULL;
    }
    if (ratings_is_line_end(p)) {
        return p;
    }
    p = ratings_take_separator(p, separator);
    if (p == NULL || (separator == RATINGS_SPACES && ratings_is_line_end(p))) {
        return p;
    }
    p = ratings_take_number(p);
    if (p != NULL && separator == RATINGS_SPACES) {
        p = ratings_skip_spaces(p);
    }
    return p != NULL && ratings_is_line_end(p) ? p : NULL;
}

/* The end (at the CR or LF) of the line at `line` in the text that ends at `end`. */
static const char *ratings_find_line_end(const char *line, const char *end) {
    const char *p = memchr(line, '\n', (size_t)(end - line));
    assert(p != NULL);
    return p > line && p[-1] == '\r' ? p - 1 : p;
}

static const char *ratings_next_line(const char *line_end) {
    return line_end + (*line_end == '\r') + 1;
}

static bool ratings_fits_field(enum ratings_fault_reason field, const char *start, const char *end, locale_t c_locale) {
    uint64_t id;
    float value;
    const char *taken = field == RATINGS_BAD_RATING ? ratings_take_value(start, c_locale, &value)
                        : field == RATINGS_BAD_TIME ? ratings_take_number(start)
                                                    : ratings_take_id(start, &id);
    return taken == end;
}

/* Finds what is wrong with a line that does not fit. Bad fields are named one by one only where there are as many
 * fields as there should be; otherwise it is the line that is wrong. */
static struct ratings_fault ratings_explain(const char *line, const char *line_end, enum ratings_separator separator,
                                            locale_t c_locale) {
    struct ratings_fault fault = {RATINGS_BAD_LENGTH, line, (size_t)(line_end - line)};
    if (fault.length > RATINGS_LINE_MAX) {
        return fault;
    }
    fault.reason = RATINGS_BAD_FIELDS;
    struct ratings_fault bad_field = fault;
    unsigned fields = 0;
    for (const char *p = separator == RATINGS_SPACES ? ratings_skip_spaces(line) : line;;) {
        const char *field = p;
        const char *next = NULL;
        while (p < line_end && (next = ratings_take_separator(p, separator)) == NULL) {
            p++;
        }
        if (fields <= RATINGS_BAD_TIME && bad_field.reason == RATINGS_BAD_FIELDS &&
            !ratings_fits_field((enum ratings_fault_reason)fields, field, p, c_locale)) {
            bad_field = (struct ratings_fault){(enum ratings_fault_reason)fields, field, (size_t)(p - field)};
        }
        fields++;
        if (p == line_end || (separator == RATINGS_SPACES && next == line_end)) {
            break;
        }
        p = next;
    }
    return fields == 3 || fields == 4 ? bad_field : fault;
}

int ratings_parse(const char *text, size_t size, enum ratings_separator separator, struct rating *ratings,
                  struct ratings_parsed *parsed) {
    assert(size == 0 || text[size - 1] == '\n');
    *parsed = (struct ratings_parsed){0};
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return AML_ENOMEM;
    }
    int code = 0;
    size_t count = 0;
    uint64_t lines = 0;
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        lines++;
        struct rating rating;
        const char *line_end = ratings_take_line(line, separator, c_locale, &rating);
        if (line_end != NULL && line_end - line <= RATINGS_LINE_MAX) {
            ratings[count++] = rating;
        } else {
            line_end = ratings_find_line_end(line, end);
            if (line_end - line > RATINGS_LINE_MAX || ratings_skip_spaces(line) < line_end) {
                parsed->fault = ratings_explain(line, line_end, separator, c_locale);
                code = AML_EINPUT;
                break;
            }
        }
        line = ratings_next_line(line_end);
    }
    freelocale(c_locale);
    parsed->count = count;
    parsed->lines = lines;
    return code;
}

enum ratings_separator ratings_detect(const char *text, size_t size) {
    const char *end = text + size;
    for (const char *line = text; line < end;) {
        const char *line_end = ratings_find_line_end(line, end);
        const char *p = ratings_skip_spaces(line);
        if (p < line_end) {
            while (*p != '\t' && *p != ',' && *p != ' ' && *p != ':' && *p != '\n') {
                p++; /* ends: the text ends in LF, and has no final 0 for strcspn */
            }
            return *p == '\t'                 ? RATINGS_TAB
                   : *p == ','                ? RATINGS_COMMA
                   : *p == ' '                ? RATINGS_SPACES
                   : *p == ':' && p[1] == ':' ? RATINGS_COLONS
                                              : RATINGS_UNKNOWN;
        }
        line = ratings_next_line(line_end);
    }
    return RATINGS_UNKNOWN;
}

/* The bytes that come before the data at the start of a file: byte order mark and header. Counts lines in *lines. */
static size_t ratings_preamble(const char *text, size_t size, uint64_t *lines) {
    size_t mark = size > 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    const char *line = text + mark;
    const char *line_end = ratings_find_line_end(line, text + size);
    const char *p = ratings_skip_spaces(line);
    bool empty = p >= line_end;
    p += *p == '-' || *p == '+';
    p += *p == '.';
    if (empty || ratings_is_digit(*p) || line_end - line > RATINGS_LINE_MAX) {
        return mark;
    }
    (*lines)++;
    return (size_t)(ratings_next_line(line_end) - text);
}

/* ---- Input: the bytes of a file, inflated when they are gzip. ---- */

struct ratings_input {
    const char *name; /* the path, for messages */
    int file;
    bool gzip;
    bool in_member;  /* gzip: between the start and the end of a member */
    z_stream stream; /* next_in[avail_in] was read from the file and not used yet, also when it is not gzip */
    unsigned char buffer[RATINGS_INPUT_BYTES];
};

/* Reads until `size` bytes are there or the file ends. */
static int ratings_input_read_file(struct ratings_input *input, void *bytes, size_t size, size_t *got,
                                   struct error *error) {
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

static int ratings_input_refill(struct ratings_input *input, struct error *error) {
    size_t got;
    int code = ratings_input_read_file(input, input->buffer, sizeof input->buffer, &got, error);
    input->stream.next_in = input->buffer;
    input->stream.avail_in = (uInt)got;
    return code;
}

static void ratings_input_close(struct ratings_input *input) {
    if (input->gzip) {
        inflateEnd(&input->stream);
    }
    close(input->file);
    free(input);
}

static int ratings_input_open(struct ratings_input **opened, const char *path, const char *name, struct error *error) {
    struct ratings_input *input = calloc(1, sizeof *input);
    if (input == NULL) {
        return error_set(error, AML_ENOMEM, "%s: out of memory", name);
    }
    input->name = name;
    input->file = open(path, O_RDONLY | O_CLOEXEC);
    if (input->file < 0) {
        free(input);
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", name, strerror(errno));
    }
    int code = ratings_input_refill(input, error);
    if (code == 0 && input->stream.avail_in >= 2 && input->buffer[0] == 0x1f && input->buffer[1] == 0x8b) {
        /* 15: the largest window; + 16: gzip, and nothing else */
        if (inflateInit2(&input->stream, 15 + 16) == Z_OK) {
            input->gzip = true;
        } else {
            code = error_set(error, AML_ENOMEM, "%s: cannot start to inflate: out of memory", name);
        }
    }
    if (code != 0) {
        ratings_input_close(input);
        return code;
    }
    *opened = input;
    return 0;
}

static int ratings_input_inflate(struct ratings_input *input, char *bytes, size_t size, size_t *got,
                                 struct error *error) {
    z_stream *stream = &input->stream;
    stream->next_out = (Bytef *)bytes;
    stream->avail_out = (uInt)size;
    while (stream->avail_out > 0) {
        if (stream->avail_in == 0) {
            int code = ratings_input_refill(input, error);
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
            return error_set(error, AML_ENOMEM, "%s: cannot inflate: out of memory", input->name);
        }
        if (status != Z_OK) {
            return error_set(error, AML_EINPUT, "%s: damaged gzip data: %s", input->name,
                             stream->msg != NULL ? stream->msg : zError(status));
        }
    }
    *got = size - stream->avail_out;
    return 0;
}

/* Reads until `size` bytes are there or the input ends: *got < size says that it did. */
static int ratings_input_read(struct ratings_input *input, char *bytes, size_t size, size_t *got, struct error *error) {
    if (input->gzip) {
        return ratings_input_inflate(input, bytes, size, got, error);
    }
    size_t held = input->stream.avail_in < size ? input->stream.avail_in : size;
    memcpy(bytes, input->stream.next_in, held);
    input->stream.next_in += held;
    input->stream.avail_in -= (uInt)held;
    int code = ratings_input_read_file(input, bytes + held, size - held, got, error);
    *got += held;
    return code;
}

/* ---- The ring of chunks between the calling thread and the parsers. ---- */

/* The calling thread's from `retired` to `published`; then a parser's, until `done`, which the mutex guards. */
struct ratings_chunk {
    char *text; /* RATINGS_CHUNK_BYTES */
    size_t start, size;
    enum ratings_separator separator;
    bool done;
    int code;     /* 0, or what ended the reading here */
    bool by_sink; /* `code` is the sink's */
    struct ratings_parsed parsed;
};

struct ratings_parser {
    struct ratings_ring *ring;
    unsigned index;
    pthread_t thread;
    struct rating *ratings; /* RATINGS_CHUNK_BYTES / RATINGS_LINE_MIN */
};

/* Chunk n is in chunks[n % chunk_count]; retired <= claimed <= published <= retired + chunk_count. */
struct ratings_ring {
    ratings_sink *sink;
    void *context;
    struct ratings_chunk *chunks;
    unsigned chunk_count;
    struct ratings_parser *parsers;
    unsigned parser_count; /* started */

    /* The calling thread's alone. */
    uint64_t retired;      /* chunks that are done and counted below */
    uint64_t lines;        /* lines before the first chunk that is not retired */
    uint64_t rating_count; /* ratings before it */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t work;   /* for parsers: published, closed or failed has changed */
    pthread_cond_t room;   /* for the calling thread: a chunk is done */
    uint64_t published, claimed;
    bool closed; /* nothing more will be published */
    bool failed; /* a chunk's code is not 0: claim nothing more. All chunks before it are claimed and will be done. */
};

static void ratings_parser_run(const struct ratings_parser *parser, uint64_t number, struct ratings_chunk *chunk) {
    chunk->code = ratings_parse(chunk->text + chunk->start, chunk->size - chunk->start, chunk->separator,
                                parser->ratings, &chunk->parsed);
    if (chunk->code == 0) {
        const struct ratings_ring *ring = parser->ring;
        chunk->code = ring->sink(ring->context, parser->index, number, parser->ratings, chunk->parsed.count);
        chunk->by_sink = chunk->code != 0;
    }
}

static void *ratings_parser_main(void *argument) {
    struct ratings_parser *parser = argument;
    struct ratings_ring *ring = parser->ring;
    crash_thread_begin(); /* the app has its ratings in this thread */
    pthread_mutex_lock(&ring->mutex);
    for (;;) {
        while (ring->claimed == ring->published && !ring->closed && !ring->failed) {
            pthread_cond_wait(&ring->work, &ring->mutex);
        }
        if (ring->failed || ring->claimed == ring->published) {
            break;
        }
        uint64_t number = ring->claimed++;
        struct ratings_chunk *chunk = &ring->chunks[number % ring->chunk_count];
        pthread_mutex_unlock(&ring->mutex);
        ratings_parser_run(parser, number, chunk);
        pthread_mutex_lock(&ring->mutex);
        chunk->done = true;
        ring->failed = ring->failed || chunk->code != 0;
        pthread_cond_signal(&ring->room);
    }
    pthread_mutex_unlock(&ring->mutex);
    crash_thread_end();
    return NULL;
}

/* Ends the parser threads once they have done what is published; on a failure, what is claimed. */
static void ratings_ring_join(struct ratings_ring *ring) {
    pthread_mutex_lock(&ring->mutex);
    ring->closed = true;
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->mutex);
    for (unsigned i = 0; i < ring->parser_count; i++) {
        pthread_join(ring->parsers[i].thread, NULL);
    }
}

static void ratings_ring_close(struct ratings_ring *ring) {
    for (unsigned i = 0; ring->chunks != NULL && i < ring->chunk_count; i++) {
        free(ring->chunks[i].text);
    }
    free(ring->chunks);
    for (unsigned i = 0; ring->parsers != NULL && i < ring->parser_count; i++) {
        free(ring->parsers[i].ratings);
    }
    free(ring->parsers);
    pthread_cond_destroy(&ring->work);
    pthread_cond_destroy(&ring->room);
    pthread_mutex_destroy(&ring->mutex);
}

static int ratings_ring_start_parser(struct ratings_ring *ring, unsigned index, struct error *error) {
    struct ratings_parser *parser = &ring->parsers[index];
    parser->ring = ring;
    parser->index = index;
    parser->ratings = malloc(RATINGS_CHUNK_BYTES / RATINGS_LINE_MIN * sizeof *parser->ratings);
    if (parser->ratings == NULL) {
        return error_set(error, AML_ENOMEM, "out of memory for a parser thread");
    }
    int status = pthread_create(&parser->thread, NULL, ratings_parser_main, parser);
    if (status != 0) {
        free(parser->ratings);
        return error_set(error, AML_EFAIL, "cannot start a parser thread: %s", strerror(status));
    }
    ring->parser_count++;
    return 0;
}

static int ratings_ring_open(struct ratings_ring *ring, unsigned threads, ratings_sink *sink, void *context,
                             struct error *error) {
    *ring = (struct ratings_ring){.sink = sink, .context = context};
    pthread_mutex_init(&ring->mutex, NULL);
    pthread_cond_init(&ring->work, NULL);
    pthread_cond_init(&ring->room, NULL);
    ring->chunk_count = threads * RATINGS_CHUNKS_PER_THREAD + 1;
    ring->chunks = calloc(ring->chunk_count, sizeof *ring->chunks);
    ring->parsers = calloc(threads, sizeof *ring->parsers);
    bool complete = ring->chunks != NULL && ring->parsers != NULL;
    for (unsigned i = 0; complete && i < ring->chunk_count; i++) {
        ring->chunks[i].text = malloc(RATINGS_CHUNK_BYTES);
        complete = ring->chunks[i].text != NULL;
    }
    int code = complete ? 0 : error_set(error, AML_ENOMEM, "out of memory for reading ratings");
    for (unsigned i = 0; code == 0 && i < threads; i++) {
        code = ratings_ring_start_parser(ring, i, error);
    }
    if (code != 0) {
        ratings_ring_join(ring);
        ratings_ring_close(ring);
    }
    return code;
}

/* Waits until there is room for the next chunk and retires the one it replaces. NULL: a chunk has failed. */
static struct ratings_chunk *ratings_ring_next(struct ratings_ring *ring) {
    struct ratings_chunk *chunk = &ring->chunks[ring->published % ring->chunk_count];
    bool replaces = ring->published >= ring->chunk_count;
    pthread_mutex_lock(&ring->mutex);
    while (replaces && !chunk->done && !ring->failed) {
        pthread_cond_wait(&ring->room, &ring->mutex);
    }
    bool failed = ring->failed;
    pthread_mutex_unlock(&ring->mutex);
    if (failed) {
        return NULL;
    }
    if (replaces) {
        ring->lines += chunk->parsed.lines;
        ring->rating_count += chunk->parsed.count;
        ring->retired++;
    }
    return chunk;
}

static void ratings_ring_publish(struct ratings_ring *ring, struct ratings_chunk *chunk) {
    pthread_mutex_lock(&ring->mutex);
    chunk->done = false;
    ring->published++;
    pthread_cond_signal(&ring->work);
    pthread_mutex_unlock(&ring->mutex);
}

/* After the join: retires the rest up to the first chunk that failed, and returns that one, or NULL. */
static const struct ratings_chunk *ratings_ring_drain(struct ratings_ring *ring) {
    for (; ring->retired < ring->claimed; ring->retired++) {
        const struct ratings_chunk *chunk = &ring->chunks[ring->retired % ring->chunk_count];
        assert(chunk->done);
        if (chunk->code != 0) {
            return chunk;
        }
        ring->lines += chunk->parsed.lines;
        ring->rating_count += chunk->parsed.count;
    }
    return NULL;
}

/* ---- Reading. ---- */

/* Fills the ring from the input until it ends, fails, or a chunk failed. */
static int ratings_pump(struct ratings_ring *ring, struct ratings_input *input, struct error *error) {
    char rest[RATINGS_LINE_MAX + 1]; /* the start of the line that the last chunk's end cut, perhaps with a CR */
    size_t rest_size = 0;
    enum ratings_separator separator = RATINGS_UNKNOWN;
    for (bool last = false; !last;) {
        struct ratings_chunk *chunk = ratings_ring_next(ring);
        if (chunk == NULL) {
            break;
        }
        memcpy(chunk->text, rest, rest_size);
        size_t room = RATINGS_CHUNK_BYTES - rest_size - 1; /* 1: for an LF where the file lacks it */
        size_t got = 0;
        int code = ratings_input_read(input, chunk->text + rest_size, room, &got, error);
        if (code != 0) {
            return code;
        }
        chunk->start = 0;
        chunk->size = rest_size + got;
        last = got < room;
        if (chunk->size == 0) {
            break;
        }
        const char *newline = memrchr(chunk->text, '\n', chunk->size);
        size_t whole = newline != NULL ? (size_t)(newline + 1 - chunk->text) : 0;
        rest_size = chunk->size - whole;
        if (!last && rest_size <= sizeof rest) {
            memcpy(rest, chunk->text + whole, rest_size);
            chunk->size = whole;
        } else if (rest_size > 0) {
            /* The file's last line; or one that is too long, which the parser is going to refuse. */
            chunk->text[chunk->size++] = '\n';
            last = true;
        }
        if (ring->published == 0) {
            chunk->start = ratings_preamble(chunk->text, chunk->size, &ring->lines);
        }
        if (separator == RATINGS_UNKNOWN) {
            separator = ratings_detect(chunk->text + chunk->start, chunk->size - chunk->start);
        }
        chunk->separator = separator;
        ratings_ring_publish(ring, chunk);
    }
    return 0;
}

static int ratings_refuse_line(const char *name, uint64_t line, enum ratings_separator separator,
                               const struct ratings_fault *fault, struct error *error) {
    static const char *const separators[] = {
        [RATINGS_UNKNOWN] = "tab, comma, spaces or '::'",
        [RATINGS_TAB] = "tab",
        [RATINGS_COMMA] = "comma",
        [RATINGS_SPACES] = "spaces",
        [RATINGS_COLONS] = "'::'",
    };
    static const char *const expected[] = {
        [RATINGS_BAD_USER] = "a user from 0 to 18446744073709551615",
        [RATINGS_BAD_ITEM] = "an item from 0 to 18446744073709551615",
        [RATINGS_BAD_RATING] = "a finite decimal number (float32) as rating",
        [RATINGS_BAD_TIME] = "a decimal number as time",
        [RATINGS_BAD_FIELDS] = "'user item rating [time]' separated by ",
        [RATINGS_BAD_LENGTH] = "a line of at most 4096 bytes",
    };
    static_assert(RATINGS_LINE_MAX == 4096, "the text above says so");
    char shown[RATINGS_SHOWN_MAX + 1];
    size_t length = fault->length < RATINGS_SHOWN_MAX ? fault->length : RATINGS_SHOWN_MAX;
    for (size_t i = 0; i < length; i++) {
        char c = fault->text[i];
        shown[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    shown[length] = '\0';
    return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": expected %s%s, got '%s%s'", name, line,
                     expected[fault->reason], fault->reason == RATINGS_BAD_FIELDS ? separators[separator] : "", shown,
                     length < fault->length ? "..." : "");
}

int ratings_read(const char *path, unsigned threads, ratings_sink *sink, void *context, struct error *error) {
    if (threads < 1 || threads > RATINGS_THREADS_MAX) {
        return error_set(error, AML_ELIMIT, "expected 1 to %d parser threads, got %u", RATINGS_THREADS_MAX, threads);
    }
    size_t path_length = strlen(path);
    const char *name = path_length > RATINGS_PATH_SHOWN_MAX ? path + path_length - RATINGS_PATH_SHOWN_MAX : path;
    struct ratings_input *input = NULL;
    int code = ratings_input_open(&input, path, name, error);
    if (code != 0) {
        return code;
    }
    struct ratings_ring ring;
    code = ratings_ring_open(&ring, threads, sink, context, error);
    if (code == 0) {
        /* Kept apart, since a bad line before the place where the input failed comes first. */
        struct error input_error = {0};
        int input_code = ratings_pump(&ring, input, &input_error);
        ratings_ring_join(&ring);
        const struct ratings_chunk *bad = ratings_ring_drain(&ring);
        if (bad != NULL && bad->by_sink) {
            code = bad->code;
        } else if (bad != NULL && bad->code == AML_EINPUT) {
            code = ratings_refuse_line(name, ring.lines + bad->parsed.lines, bad->separator, &bad->parsed.fault, error);
        } else if (bad != NULL) {
            code = error_set(error, bad->code, "%s: out of memory", name);
        } else if (input_code != 0) {
            code = error_set(error, input_code, "%s", input_error.text);
        } else if (ring.rating_count == 0) {
            code = error_set(error, AML_EINPUT, "%s: no ratings, expected lines of 'user item rating [time]'", name);
        }
        ratings_ring_close(&ring);
    }
    ratings_input_close(input);
    return code;
}
