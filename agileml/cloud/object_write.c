/* See object_write.h. The first part is kept until the end, as object_writer_rewrite may replace its bytes. */
#include "agileml/cloud/object_write.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/sigv4.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_QUERY_MAX = 3 * OBJECT_UPLOAD_MAX + 64, PART_XML_MAX = 256 };

/* A part that is being filled or uploaded. */
struct part {
    struct object_call *call; /* NULL: not being uploaded */
    unsigned number;          /* from 1 on */
    char *bytes;
    size_t size, capacity;
    char query[PART_QUERY_MAX];
};

struct object_writer {
    struct objects *objects;
    struct object_url url;
    char upload[OBJECT_UPLOAD_MAX]; /* encoded; "": no upload has begun */
    struct part first;
    struct part parts[OBJECT_PARTS_AHEAD];
    unsigned filling;             /* index in `parts` of the part being filled */
    unsigned count;               /* number of parts that have a number */
    char (*tags)[OBJECT_TAG_MAX]; /* [count] */
    uint64_t bytes;               /* written so far */
    struct error error;           /* the first failure */
};

static int check_key(const char *path, const struct object_url *url, struct error *error) {
    char shown[OBJECT_NAME_SHOWN];
    object_url_show(path, shown);
    size_t length = strlen(url->key);
    if (!url->s3) {
        return error_set(error, AML_EINPUT, "%s: can't be written to: expected s3://BUCKET/KEY or a file", shown);
    }
    if (length == 0 || url->key[length - 1] == '/') {
        return error_set(error, AML_EINPUT, "%s: a folder: expected s3://BUCKET/KEY of an object", shown);
    }
    return 0;
}

int object_writer_open(struct object_writer **opened, const char *path, bool sweep,
                       const struct objects_options *options, struct error *error) {
    struct object_writer *writer = memory_zeroed(1, sizeof *writer);
    unsigned swept;
    *opened = NULL;
    int code = object_url_parse(path, &writer->url, error);
    code = code != 0 ? code : check_key(path, &writer->url, error);
    code = code != 0 ? code : objects_open(&writer->objects, options, error);
    if (code != 0) {
        free(writer);
        return code;
    }
    if (sweep) {
        (void)object_uploads_sweep(writer->objects, &writer->url, false, &swept, NULL);
    }
    writer->first.number = writer->count = 1;
    writer->tags = memory_zeroed(1, sizeof *writer->tags);
    *opened = writer;
    return 0;
}

/* ---- The upload ---- */

/* Carries out a request and keeps its error. Returns the response's body, which the caller frees; NULL on failure. */
static char *carry_out(struct object_writer *writer, const struct object_request *request, size_t *size) {
    struct object_call *call = object_start(writer->objects, request);
    const struct object_result *result = object_wait(call);
    char *body = NULL;
    if (result->error.code != 0) {
        (void)error_set(&writer->error, result->error.code, "%s", result->error.text);
    } else {
        *size = result->size;
        body = memory_zeroed(result->size + 1, 1);
        memcpy(body, result->body, result->size);
    }
    object_call_free(call);
    return body;
}

static void upload_begin(struct object_writer *writer) {
    char upload[OBJECT_UPLOAD_MAX];
    struct error reason = {0};
    size_t size = 0;
    struct object_request request = {.action = OBJECT_BEGIN, .url = &writer->url, .query = "uploads="};
    char *body = carry_out(writer, &request, &size);
    if (body == NULL) {
        return;
    }
    int code = object_upload_read(body, size, upload, &reason);
    if (code != 0 || !sigv4_encode(upload, "", writer->upload, sizeof writer->upload)) {
        (void)error_set(&writer->error, AML_EFAIL, "s3://%s/%.200s: can't begin an upload: %s", writer->url.bucket,
                        writer->url.key, code != 0 ? reason.text : "its id is too long");
    }
    free(body);
}

static void upload_abort(struct object_writer *writer) {
    char query[PART_QUERY_MAX];
    if (writer->upload[0] == '\0') {
        return;
    }
    snprintf(query, sizeof query, "uploadId=%s", writer->upload);
    struct object_request request = {.action = OBJECT_ABORT, .url = &writer->url, .query = query, .once = true};
    struct object_call *call = object_start(writer->objects, &request);
    (void)object_wait(call); /* if this fails, the next writer of this key aborts the upload */
    object_call_free(call);
    writer->upload[0] = '\0';
}

static void part_send(struct object_writer *writer, struct part *part) {
    snprintf(part->query, sizeof part->query, "partNumber=%u&uploadId=%s", part->number, writer->upload);
    struct object_request request = {
        .action = OBJECT_PART, .url = &writer->url, .query = part->query, .body = part->bytes, .body_size = part->size};
    part->call = object_start(writer->objects, &request);
}

/* Waits for a part's upload, and takes its tag. */
static void part_wait(struct object_writer *writer, struct part *part) {
    if (part->call == NULL) {
        return;
    }
    const struct object_result *result = object_wait(part->call);
    if (result->error.code != 0) {
        (void)error_set(&writer->error, result->error.code, "%s", result->error.text);
    } else {
        memcpy(writer->tags[part->number - 1], result->tag, sizeof result->tag);
    }
    object_call_free(part->call);
    part->call = NULL;
    part->size = 0;
    part->number = 0;
}

static size_t part_bytes(unsigned number) {
    size_t bytes = OBJECT_PART_BYTES;
    for (unsigned n = OBJECT_PARTS_EACH; n < number && bytes < OBJECT_PART_BYTES_MAX; n += OBJECT_PARTS_EACH) {
        bytes *= 2;
    }
    return bytes;
}

/* Returns the part that takes the next bytes; NULL after a failure. */
static struct part *part_to_fill(struct object_writer *writer) {
    if (writer->first.size < OBJECT_PART_BYTES) {
        return &writer->first;
    }
    struct part *part = &writer->parts[writer->filling];
    if (part->number != 0 && part->call == NULL) {
        return part;
    }
    if (writer->upload[0] == '\0') {
        upload_begin(writer);
    }
    part_wait(writer, part);
    if (writer->count == OBJECT_PARTS_MAX) {
        (void)error_set(&writer->error, AML_ELIMIT, "s3://%s/%.200s: larger than an upload can be", writer->url.bucket,
                        writer->url.key);
    }
    part->number = ++writer->count;
    writer->tags = memory_resized(writer->tags, writer->count, sizeof *writer->tags);
    return writer->error.code == 0 ? part : NULL;
}

int object_writer_write(struct object_writer *writer, const void *bytes, size_t size, struct error *error) {
    const char *from = bytes;
    while (size > 0 && writer->error.code == 0) {
        struct part *part = part_to_fill(writer);
        if (part == NULL) {
            break;
        }
        size_t most = part_bytes(part->number);
        size_t step = most - part->size < size ? most - part->size : size;
        if (part->size + step > part->capacity) {
            part->capacity = 2 * (part->size + step) > most ? most : 2 * (part->size + step);
            part->bytes = memory_resized(part->bytes, part->capacity, 1);
        }
        memcpy(part->bytes + part->size, from, step);
        part->size += step;
        writer->bytes += step;
        from += step;
        size -= step;
        if (part != &writer->first && part->size == most) {
            part_send(writer, part);
            writer->filling = (writer->filling + 1) % OBJECT_PARTS_AHEAD;
        }
    }
    return writer->error.code == 0 ? 0 : error_set(error, writer->error.code, "%s", writer->error.text);
}

void object_writer_rewrite(struct object_writer *writer, const void *bytes, size_t size) {
    assert(size <= writer->first.size || writer->error.code != 0);
    if (size > 0 && size <= writer->first.size) {
        memcpy(writer->first.bytes, bytes, size);
    }
}

/* ---- The end ---- */

static void writer_free(struct object_writer *writer) {
    for (unsigned p = 0; p < OBJECT_PARTS_AHEAD; p++) {
        object_call_free(writer->parts[p].call);
        free(writer->parts[p].bytes);
    }
    object_call_free(writer->first.call);
    free(writer->first.bytes);
    free(writer->tags);
    objects_close(writer->objects);
    free(writer);
}

void object_writer_discard(struct object_writer *writer) {
    for (unsigned p = 0; p < OBJECT_PARTS_AHEAD; p++) { /* a part that arrives after the abort would stay stored */
        object_call_free(writer->parts[p].call);
        writer->parts[p].call = NULL;
    }
    upload_abort(writer);
    writer_free(writer);
}

static void put_whole(struct object_writer *writer) {
    size_t size;
    struct object_request request = {
        .action = OBJECT_PUT, .url = &writer->url, .body = writer->first.bytes, .body_size = writer->first.size};
    free(carry_out(writer, &request, &size));
}

/* Returns the list of parts, which the caller frees. */
static char *complete_xml(const struct object_writer *writer) {
    size_t room = (size_t)writer->count * PART_XML_MAX + 100;
    char *xml = memory_zeroed(room, 1);
    size_t at = (size_t)snprintf(xml, room, "<CompleteMultipartUpload>");
    for (unsigned p = 0; p < writer->count; p++) {
        at += (size_t)snprintf(xml + at, room - at, "<Part><PartNumber>%u</PartNumber><ETag>", p + 1);
        for (const char *c = writer->tags[p]; *c != '\0'; c++) {
            if (*c == '&' || *c == '<') {
                continue; /* no valid ETag has these characters */
            }
            xml[at++] = *c;
        }
        at += (size_t)snprintf(xml + at, room - at, "</ETag></Part>");
    }
    snprintf(xml + at, room - at, "</CompleteMultipartUpload>");
    return xml;
}

/* Whether the object already is what the upload would make. An earlier attempt to complete it may have succeeded
 * although its response was lost. */
static bool is_complete(struct object_writer *writer) {
    uint64_t bytes;
    char tag[OBJECT_TAG_MAX];
    char parts[16];
    snprintf(parts, sizeof parts, "-%u\"", writer->count);
    return object_head(writer->objects, &writer->url, &bytes, tag, NULL) == 0 && bytes == writer->bytes &&
           strlen(tag) > strlen(parts) && strcmp(tag + strlen(tag) - strlen(parts), parts) == 0;
}

static void complete(struct object_writer *writer) {
    char query[PART_QUERY_MAX];
    char *xml = complete_xml(writer);
    snprintf(query, sizeof query, "uploadId=%s", writer->upload);
    struct object_request request = {
        .action = OBJECT_COMPLETE, .url = &writer->url, .query = query, .body = xml, .body_size = strlen(xml)};
    struct object_call *call = object_start(writer->objects, &request);
    const struct object_result *result = object_wait(call);
    bool done = result->error.code == 0 || (result->missing && result->uncertain && is_complete(writer));
    if (!done) {
        (void)error_set(&writer->error, AML_EFAIL, "%s", result->error.text);
    }
    object_call_free(call);
    free(xml);
}

static void finish_upload(struct object_writer *writer) {
    struct part *last = &writer->parts[writer->filling];
    if (last->number != 0 && last->call == NULL) {
        part_send(writer, last);
    }
    part_send(writer, &writer->first);
    for (unsigned p = 0; p < OBJECT_PARTS_AHEAD; p++) {
        part_wait(writer, &writer->parts[p]);
    }
    part_wait(writer, &writer->first);
    if (writer->error.code == 0) {
        complete(writer);
    }
}

int object_writer_commit(struct object_writer *writer, struct error *error) {
    if (writer->error.code == 0 && writer->upload[0] == '\0') {
        put_whole(writer);
    } else if (writer->error.code == 0) {
        finish_upload(writer);
    }
    int code = writer->error.code == 0 ? 0 : error_set(error, writer->error.code, "%s", writer->error.text);
    if (code != 0) {
        object_writer_discard(writer);
    } else {
        writer_free(writer);
    }
    return code;
}

int object_write_check(const char *path, struct error *error) {
    struct object_writer *writer;
    int code = object_writer_open(&writer, path, false, NULL, error);
    if (code != 0) {
        return code;
    }
    upload_begin(writer);
    code = writer->error.code == 0 ? 0 : error_set(error, AML_EINPUT, "%s", writer->error.text);
    object_writer_discard(writer);
    return code;
}
