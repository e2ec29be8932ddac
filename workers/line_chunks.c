/* See line_chunks.h. */
#include "workers/line_chunks.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/input/lines.h"
#include "workers/crash.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ring_chunk {
    struct line_chunk chunk;
    char *text;
    size_t capacity;
    bool done; /* the mutex guards it */
    int code;  /* 0, or the sink's result */
};

struct ring_parser {
    struct ring *ring;
    unsigned index;
    pthread_t thread;
};

/* Chunk n is in chunks[n % chunk_count]; retired <= claimed <= published <= retired + chunk_count. */
struct ring {
    const struct line_reading *reading;
    struct ring_chunk *chunks;
    unsigned chunk_count;
    struct ring_parser *parsers;
    unsigned parser_count; /* started */

    uint64_t retired; /* chunks that are done; used by the calling thread alone */

    pthread_mutex_t mutex; /* guards the fields below */
    pthread_cond_t work;   /* wakes parsers: published, closed or failed has changed */
    pthread_cond_t room;   /* wakes the calling thread: a chunk is done */
    uint64_t published, claimed;
    bool closed; /* no more chunks will be published */
    bool failed; /* a chunk has failed: claim no more. All chunks before it are claimed and will be done. */
};

static void *parser_main(void *argument) {
    struct ring_parser *parser = argument;
    struct ring *ring = parser->ring;
    const struct line_reading *reading = ring->reading;
    crash_thread_begin(); /* the sink calls the app in this thread */
    pthread_mutex_lock(&ring->mutex);
    for (;;) {
        while (ring->claimed == ring->published && !ring->closed && !ring->failed) {
            pthread_cond_wait(&ring->work, &ring->mutex);
        }
        if (ring->failed || ring->claimed == ring->published) {
            break;
        }
        struct ring_chunk *chunk = &ring->chunks[ring->claimed++ % ring->chunk_count];
        pthread_mutex_unlock(&ring->mutex);
        chunk->code = reading->sink(reading->context, parser->index, &chunk->chunk);
        pthread_mutex_lock(&ring->mutex);
        chunk->done = true;
        ring->failed = ring->failed || chunk->code != 0;
        pthread_cond_signal(&ring->room);
    }
    pthread_mutex_unlock(&ring->mutex);
    crash_thread_end();
    return NULL;
}

/* Ends the parser threads when they have done all published chunks, or, after a failure, the claimed ones. */
static void ring_join(struct ring *ring) {
    pthread_mutex_lock(&ring->mutex);
    ring->closed = true;
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->mutex);
    for (unsigned i = 0; i < ring->parser_count; i++) {
        pthread_join(ring->parsers[i].thread, NULL);
    }
}

static void ring_close(struct ring *ring) {
    for (unsigned i = 0; ring->chunks != NULL && i < ring->chunk_count; i++) {
        free(ring->chunks[i].text);
    }
    free(ring->chunks);
    free(ring->parsers);
    pthread_cond_destroy(&ring->work);
    pthread_cond_destroy(&ring->room);
    pthread_mutex_destroy(&ring->mutex);
}

static int ring_start_parser(struct ring *ring, unsigned index, struct error *error) {
    struct ring_parser *parser = &ring->parsers[index];
    *parser = (struct ring_parser){.ring = ring, .index = index};
    int status = pthread_create(&parser->thread, NULL, parser_main, parser);
    if (status != 0) {
        return error_set(error, AML_EFAIL, "cannot start a parser thread: %s", strerror(status));
    }
    ring->parser_count++;
    return 0;
}

static int ring_open(struct ring *ring, const struct line_reading *reading, struct error *error) {
    *ring = (struct ring){.reading = reading};
    pthread_mutex_init(&ring->mutex, NULL);
    pthread_cond_init(&ring->work, NULL);
    pthread_cond_init(&ring->room, NULL);
    ring->chunk_count = line_chunk_slots(reading->threads);
    ring->chunks = calloc(ring->chunk_count, sizeof *ring->chunks);
    ring->parsers = calloc(reading->threads, sizeof *ring->parsers);
    bool complete = ring->chunks != NULL && ring->parsers != NULL;
    for (unsigned i = 0; complete && i < ring->chunk_count; i++) {
        ring->chunks[i].text = malloc(LINE_CHUNK_BYTES);
        ring->chunks[i].capacity = LINE_CHUNK_BYTES;
        complete = ring->chunks[i].text != NULL;
    }
    int code = complete ? 0 : error_set(error, AML_ENOMEM, "%s: out of memory", reading->splits->path);
    for (unsigned i = 0; code == 0 && i < reading->threads; i++) {
        code = ring_start_parser(ring, i, error);
    }
    if (code != 0) {
        ring_join(ring);
        ring_close(ring);
    }
    return code;
}

static void ring_retire(struct ring *ring, const struct ring_chunk *chunk) {
    if (ring->reading->retire != NULL) {
        ring->reading->retire(ring->reading->context, &chunk->chunk, chunk->code);
    }
    ring->retired++;
}

/* Waits until there is room for the next chunk, and retires the chunk that it replaces. NULL: a chunk has failed. */
static struct ring_chunk *ring_next(struct ring *ring) {
    struct ring_chunk *chunk = &ring->chunks[ring->published % ring->chunk_count];
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
    if (replaces && ring->retired + ring->chunk_count == ring->published) { /* else the last fill brought nothing */
        ring_retire(ring, chunk);
    }
    return chunk;
}

static void ring_publish(struct ring *ring, struct ring_chunk *chunk) {
    chunk->chunk.text = chunk->text;
    chunk->chunk.sequence = ring->published;
    chunk->chunk.slot = (unsigned)(ring->published % ring->chunk_count);
    pthread_mutex_lock(&ring->mutex);
    chunk->done = false;
    ring->published++;
    pthread_cond_signal(&ring->work);
    pthread_mutex_unlock(&ring->mutex);
}

/* Retires the remaining chunks, after the join, up to the first that failed. Returns its code, or 0. */
static int ring_drain(struct ring *ring) {
    while (ring->retired < ring->claimed) {
        const struct ring_chunk *chunk = &ring->chunks[ring->retired % ring->chunk_count];
        assert(chunk->done);
        ring_retire(ring, chunk);
        if (chunk->code != 0) {
            return chunk->code;
        }
    }
    return 0;
}

/* ---- Filling chunks ---- */

/* The text of a split, and what of it was read but belongs to the next chunk. */
struct filling {
    struct text_input *text;
    uint32_t split, part;
    uint64_t offset; /* of the next chunk, in the text of the split's lines */
    size_t line_max;
    char *rest; /* the beginning of a line that the end of the last chunk has cut */
    size_t rest_size, rest_capacity;
    bool ended;
    bool fresh; /* nothing was read yet */
};

/* How many bytes of text[size] are complete lines, if more text follows. */
static size_t whole_lines(const char *text, size_t size) {
    size -= size > 0 && text[size - 1] == '\r'; /* an LF may follow */
    const char *lf = memrchr(text, '\n', size);
    size_t whole = lf != NULL ? (size_t)(lf + 1 - text) : 0;
    const char *cr = memrchr(text + whole, '\r', size - whole);
    return cr != NULL ? (size_t)(cr + 1 - text) : whole;
}

static void keep_rest(struct filling *filling, const char *rest, size_t size) {
    if (size > filling->rest_capacity) {
        filling->rest = memory_resized(filling->rest, size, 1);
        filling->rest_capacity = size;
    }
    if (size > 0) {
        memcpy(filling->rest, rest, size);
    }
    filling->rest_size = size;
}

static void make_room(struct ring_chunk *chunk, size_t limit) {
    if (limit > chunk->capacity) {
        chunk->capacity = limit;
        chunk->text = memory_resized(chunk->text, chunk->capacity, 1);
    }
}

/* Fills the chunk with the split's next lines; at its end with none. A line that is too long ends the split. How much
 * it reads does not depend on what the chunk's memory has held before. */
static int fill(struct filling *filling, struct ring_chunk *chunk, struct error *error) {
    size_t size = filling->rest_size;
    size_t whole = 0;
    size_t limit = LINE_CHUNK_BYTES;
    while (size + LINE_CHUNK_BYTES / 2 > limit) {
        limit *= 2;
    }
    make_room(chunk, limit);
    if (size > 0) {
        memcpy(chunk->text, filling->rest, size);
    }
    for (;;) {
        size_t room = limit - size - 2; /* 2: for an LF where the file lacks it, and the 0 behind */
        size_t got = 0;
        int code = filling->ended ? 0 : text_input_read(filling->text, chunk->text + size, room, &got, error);
        if (code != 0) {
            return code;
        }
        filling->ended = filling->ended || got < room;
        size += got;
        whole = filling->ended ? size : whole_lines(chunk->text, size);
        if (whole > 0 || filling->ended || size > filling->line_max + 1) {
            break;
        }
        limit *= 2; /* no line ends here yet */
        make_room(chunk, limit);
    }
    bool too_long = size - whole > filling->line_max + 1;
    whole = too_long ? size : whole;
    filling->ended = filling->ended || too_long;
    keep_rest(filling, chunk->text + whole, size - whole);
    chunk->chunk = (struct line_chunk){.size = whole, .split = filling->split, .part = filling->part++};
    chunk->chunk.offset = filling->offset;
    filling->offset += whole;
    if (whole > 0 && !text_is_line_end(chunk->text[whole - 1])) {
        chunk->text[chunk->chunk.size++] = '\n';
    }
    chunk->text[chunk->chunk.size] = '\0';
    chunk->chunk.text = chunk->text;
    return 0;
}

static int filling_open(struct filling *filling, const struct line_reading *reading, uint32_t split,
                        struct error *error) {
    *filling = (struct filling){.split = split, .line_max = reading->line_max};
    return input_lines_open(&filling->text, &reading->splits->cut, split, error);
}

static void filling_close(struct filling *filling) {
    text_input_close(filling->text);
    free(filling->rest);
}

/* What `head` has found. */
struct heading {
    bool known;
    uint32_t note;
};

static void look_at(const struct line_reading *reading, struct heading *heading, struct line_chunk *chunk) {
    if (reading->head != NULL && !heading->known) {
        heading->known = reading->head(reading->context, chunk);
        heading->note = chunk->note;
    }
    chunk->note = heading->note;
}

/* Has `head` look at the splits before those that are read; at all, when there are none. */
static int look_ahead(const struct line_reading *reading, struct heading *heading, struct error *error) {
    uint32_t end = reading->part.first < reading->part.end ? reading->part.first : reading->splits->count;
    struct ring_chunk chunk = {.capacity = LINE_CHUNK_BYTES};
    int code = 0;
    chunk.text = memory_resized(NULL, chunk.capacity, 1);
    for (uint32_t split = 0; split < end && code == 0 && reading->head != NULL && !heading->known; split++) {
        struct filling filling;
        code = filling_open(&filling, reading, split, error);
        for (bool more = true; code == 0 && more && !heading->known;) {
            code = fill(&filling, &chunk, error);
            more = !filling.ended;
            if (code == 0 && chunk.chunk.size > 0) {
                look_at(reading, heading, &chunk.chunk);
            }
        }
        filling_close(&filling);
    }
    free(chunk.text);
    return code;
}

/* Fills the ring with the chunks of a split. *stopped: a chunk has failed. */
static int pump_split(struct ring *ring, uint32_t split, struct heading *heading, bool *stopped, struct error *error) {
    struct filling filling;
    int code = filling_open(&filling, ring->reading, split, error);
    while (code == 0 && !filling.ended) {
        struct ring_chunk *chunk = ring_next(ring);
        *stopped = chunk == NULL;
        if (*stopped) {
            break;
        }
        code = fill(&filling, chunk, error);
        if (code == 0 && chunk->chunk.size > 0) {
            look_at(ring->reading, heading, &chunk->chunk);
            ring_publish(ring, chunk);
        }
    }
    filling_close(&filling);
    return code;
}

int line_chunks_read(const struct line_reading *reading, struct error *error) {
    if (reading->threads < 1 || reading->threads > LINE_THREADS_MAX) {
        return error_set(error, AML_ELIMIT, "expected 1 to %d parser threads, got %u", LINE_THREADS_MAX,
                         reading->threads);
    }
    struct heading heading = {0};
    struct ring ring;
    int code = look_ahead(reading, &heading, error);
    code = code != 0 ? code : ring_open(&ring, reading, error);
    if (code != 0) {
        return code;
    }
    /* Separate from *error, since a failed chunk before the place where the input failed takes precedence. */
    struct error input_error = {0};
    int input_code = 0;
    bool stopped = false;
    for (uint32_t split = reading->part.first; split < reading->part.end && input_code == 0 && !stopped; split++) {
        input_code = pump_split(&ring, split, &heading, &stopped, &input_error);
    }
    ring_join(&ring);
    code = ring_drain(&ring);
    if (code == 0 && input_code != 0) {
        code = error_set(error, input_code, "%s", input_error.text);
    }
    ring_close(&ring);
    return code;
}

/* ---- Counting ---- */

static uint64_t count_lines(const char *text, size_t size) {
    uint64_t lines = 0;
    for (const char *at = text; at < text + size;) {
        if (text_is_line_end(*at)) {
            lines++;
            at = text_next_line(at);
        } else {
            at++;
        }
    }
    return lines;
}

int line_chunks_count(const struct splits *splits, uint32_t split, uint64_t offset, uint64_t *lines,
                      struct error *error) {
    const struct line_reading reading = {.splits = splits, .line_max = SIZE_MAX / 4};
    struct ring_chunk chunk = {.capacity = LINE_CHUNK_BYTES};
    int code = 0;
    *lines = 0;
    chunk.text = memory_resized(NULL, chunk.capacity, 1);
    for (uint32_t s = 0; s <= split && code == 0; s++) {
        struct filling filling;
        code = filling_open(&filling, &reading, s, error);
        while (code == 0 && !filling.ended) {
            code = fill(&filling, &chunk, error);
            uint64_t end = chunk.chunk.offset + chunk.chunk.size;
            size_t before = s < split || end <= offset    ? chunk.chunk.size
                            : chunk.chunk.offset < offset ? (size_t)(offset - chunk.chunk.offset)
                                                          : 0;
            *lines += code == 0 ? count_lines(chunk.text, before) : 0;
        }
        filling_close(&filling);
    }
    free(chunk.text);
    return code;
}
