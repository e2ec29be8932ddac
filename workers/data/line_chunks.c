/* See line_chunks.h. */
#include "workers/data/line_chunks.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "workers/data/crash.h"
#include "workers/data/line_filling.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ring_chunk {
    struct line_room room;
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
    bool failed; /* a chunk has failed: claim no more. All chunks before it are claimed and will be done */
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
        chunk->code = reading->sink(reading->context, parser->index, &chunk->room.chunk);
        pthread_mutex_lock(&ring->mutex);
        chunk->done = true;
        ring->failed = ring->failed || chunk->code != 0;
        pthread_cond_signal(&ring->room);
    }
    pthread_mutex_unlock(&ring->mutex);
    crash_thread_end();
    return NULL;
}

/* Checks the order of a chunk's stages. Under the mutex. */
static void check_ring(const struct ring *ring) {
    assert(ring->claimed <= ring->published && ring->published - ring->claimed <= ring->chunk_count);
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
        line_room_close(&ring->chunks[i].room);
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
        complete = line_room_open(&ring->chunks[i].room);
    }
    int code = complete ? 0 : error_set(error, AML_ENOMEM, "%s: out of memory", reading->extents->path);
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
    assert(ring->published - ring->retired <= ring->chunk_count);
    if (ring->reading->retire != NULL) {
        ring->reading->retire(ring->reading->context, &chunk->room.chunk, chunk->code);
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
    if (replaces && ring->retired + ring->chunk_count == ring->published) { /* false: the last fill was empty */
        ring_retire(ring, chunk);
    }
    return chunk;
}

static void ring_publish(struct ring *ring, struct ring_chunk *chunk) {
    chunk->room.chunk.sequence = ring->published;
    chunk->room.chunk.slot = (unsigned)(ring->published % ring->chunk_count);
    pthread_mutex_lock(&ring->mutex);
    chunk->done = false;
    ring->published++;
    check_ring(ring);
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

/* ---- Filling the ring ---- */

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

/* Has `head` look at the extents before those that are read. If none are read, at all extents. */
static int look_ahead(const struct line_reading *reading, struct heading *heading, struct error *error) {
    uint32_t end = reading->part.first < reading->part.end ? reading->part.first : reading->extents->count;
    struct line_room room = {.capacity = 0};
    int code = line_room_open(&room) ? 0 : error_set(error, AML_ENOMEM, "%s: out of memory", reading->extents->path);
    for (uint32_t extent = 0; extent < end && code == 0 && reading->head != NULL && !heading->known; extent++) {
        struct line_filling filling;
        code = line_filling_open(&filling, reading, extent, error);
        for (bool more = true; code == 0 && more && !heading->known;) {
            code = line_filling_next(&filling, &room, error);
            more = !filling.ended;
            if (code == 0 && room.chunk.size > 0) {
                look_at(reading, heading, &room.chunk);
            }
        }
        line_filling_close(&filling);
    }
    line_room_close(&room);
    return code;
}

/* Fills the ring with the chunks of an extent. *stopped: a chunk has failed. */
static int pump_extent(struct ring *ring, uint32_t extent, struct heading *heading, bool *stopped,
                       struct error *error) {
    struct line_filling filling;
    int code = line_filling_open(&filling, ring->reading, extent, error);
    while (code == 0 && !filling.ended) {
        struct ring_chunk *chunk = ring_next(ring);
        *stopped = chunk == NULL;
        if (*stopped) {
            break;
        }
        code = line_filling_next(&filling, &chunk->room, error);
        if (code == 0 && chunk->room.chunk.size > 0) {
            look_at(ring->reading, heading, &chunk->room.chunk);
            ring_publish(ring, chunk);
        }
    }
    line_filling_close(&filling);
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
    /* Separate from *error: if an earlier chunk has failed, that failure is reported instead. */
    struct error input_error = {0};
    int input_code = 0;
    bool stopped = false;
    for (uint32_t extent = reading->part.first; extent < reading->part.end && input_code == 0 && !stopped; extent++) {
        input_code = pump_extent(&ring, extent, &heading, &stopped, &input_error);
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

int line_chunks_count(const struct extents *extents, uint32_t extent, uint64_t offset, uint64_t *lines,
                      struct error *error) {
    const struct line_reading reading = {.extents = extents, .line_max = SIZE_MAX / 4};
    struct line_room room;
    uint64_t left = offset; /* bytes to count from the text of `extent` on */
    int code = line_room_open(&room) ? 0 : error_set(error, AML_ENOMEM, "%s: out of memory", extents->path);
    *lines = 0;
    for (uint32_t s = 0; s < extents->count && (s <= extent || left > 0) && code == 0; s++) {
        struct line_filling filling;
        code = line_filling_open(&filling, &reading, s, error);
        while (code == 0 && !filling.ended && (s < extent || left > 0)) {
            code = line_filling_next(&filling, &room, error);
            size_t size = s < extent || room.chunk.size < left ? room.chunk.size : (size_t)left;
            *lines += code == 0 ? count_lines(room.chunk.text, size) : 0;
            left -= s < extent ? 0 : size;
        }
        line_filling_close(&filling);
    }
    line_room_close(&room);
    return code;
}
