/* See object_read.h. */
#include "agileml/cloud/object_read.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request for a range, and the bytes received. */
struct fetch {
    struct object_call *call; /* NULL: none */
    uint64_t offset;
    char tag[OBJECT_TAG_MAX]; /* tag of the expected version */
    char *room;               /* OBJECT_READ_BYTES; NULL: not allocated yet */
};

struct object_reader {
    struct objects *objects;
    struct object_url url;
    uint64_t at, end;   /* offsets in the object: the next byte to read, and the end of the range */
    uint64_t ask;       /* offset of the next request */
    uint64_t ask_bytes; /* bytes of the next request */
    uint64_t total;     /* UINT64_MAX: not known */
    char tag[OBJECT_TAG_MAX];
    unsigned first, count; /* of the ring `fetches` */
    struct fetch fetches[OBJECT_READ_AHEAD];
};

int object_reader_open(struct object_reader **opened, const char *path, uint64_t total, const char *tag,
                       uint64_t offset, uint64_t length, const struct objects_options *options, struct error *error) {
    struct object_reader *reader = memory_zeroed(1, sizeof *reader);
    *opened = NULL;
    int code = object_url_parse(path, &reader->url, error);
    code = code != 0 ? code : objects_open(&reader->objects, options, error);
    if (code != 0) {
        free(reader);
        return code;
    }
    reader->at = reader->ask = offset;
    reader->end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;
    reader->end = total != UINT64_MAX && reader->end > total ? total : reader->end;
    reader->total = total;
    reader->ask_bytes = OBJECT_READ_FIRST;
    snprintf(reader->tag, sizeof reader->tag, "%s", tag);
    *opened = reader;
    return 0;
}

static struct fetch *fetch_at(struct object_reader *reader, unsigned number) {
    return &reader->fetches[(reader->first + number) % OBJECT_READ_AHEAD];
}

static void drop_first(struct object_reader *reader) {
    struct fetch *fetch = fetch_at(reader, 0);
    object_call_free(fetch->call);
    fetch->call = NULL;
    reader->first = (reader->first + 1) % OBJECT_READ_AHEAD;
    reader->count--;
}

/* Starts requests up to the limit. Until the object's size is known there is only one. */
static void ask_ahead(struct object_reader *reader) {
    unsigned most = reader->total == UINT64_MAX || reader->ask_bytes == OBJECT_READ_FIRST ? 1 : OBJECT_READ_AHEAD;
    while (reader->count < most && reader->ask < reader->end) {
        struct fetch *fetch = fetch_at(reader, reader->count);
        uint64_t left = reader->end - reader->ask;
        fetch->room = fetch->room != NULL ? fetch->room : memory_resized(NULL, OBJECT_READ_BYTES, 1);
        fetch->offset = reader->ask;
        memcpy(fetch->tag, reader->tag, sizeof fetch->tag);
        struct object_request request = {.action = OBJECT_GET,
                                         .url = &reader->url,
                                         .offset = reader->ask,
                                         .length = left < reader->ask_bytes ? left : reader->ask_bytes,
                                         .total = reader->total,
                                         .tag = fetch->tag,
                                         .room = fetch->room};
        fetch->call = object_start(reader->objects, &request);
        reader->ask += request.length;
        reader->ask_bytes = 2 * reader->ask_bytes > OBJECT_READ_BYTES ? OBJECT_READ_BYTES : 2 * reader->ask_bytes;
        reader->count++;
    }
}

/* Takes the size and version from the first response. */
static void take_identity(struct object_reader *reader, const struct object_result *result) {
    if (reader->total == UINT64_MAX) {
        reader->total = result->total;
        reader->end = reader->end > result->total ? result->total : reader->end;
        reader->ask = reader->ask > reader->end ? reader->end : reader->ask;
    }
    if (reader->tag[0] == '\0') {
        memcpy(reader->tag, result->tag, sizeof reader->tag);
    }
}

int object_reader_begin(struct object_reader *reader, struct error *error) {
    ask_ahead(reader);
    const struct object_result *result = object_wait(fetch_at(reader, 0)->call);
    if (result->error.code != 0) {
        return error_set(error, result->error.code, "%s", result->error.text);
    }
    take_identity(reader, result);
    return 0;
}

int object_reader_read(struct object_reader *reader, void *bytes, size_t size, size_t *got, struct error *error) {
    char *to = bytes;
    *got = 0;
    while (*got < size && reader->at < reader->end) {
        ask_ahead(reader);
        struct fetch *fetch = fetch_at(reader, 0);
        const struct object_result *result = object_wait(fetch->call);
        if (result->error.code != 0) {
            return error_set(error, result->error.code, "%s", result->error.text);
        }
        take_identity(reader, result);
        uint64_t skipped = reader->at - fetch->offset;
        if (skipped >= result->size) { /* the object is shorter than the requested range */
            drop_first(reader);
            continue;
        }
        size_t there = (size_t)(result->size - skipped);
        size_t step = size - *got < there ? size - *got : there;
        memcpy(to + *got, fetch->room + skipped, step);
        *got += step;
        reader->at += step;
        if (step == there) {
            drop_first(reader);
        }
    }
    return 0;
}

uint64_t object_reader_total(const struct object_reader *reader) {
    return reader->total;
}

void object_reader_close(struct object_reader *reader) {
    if (reader == NULL) {
        return;
    }
    while (reader->count > 0) {
        drop_first(reader);
    }
    for (unsigned f = 0; f < OBJECT_READ_AHEAD; f++) {
        free(reader->fetches[f].room);
    }
    objects_close(reader->objects);
    free(reader);
}
