/* See source_objects.h. Each source has a client of its own (agileml/cloud/objects.h). */
#include "agileml/input/source_objects.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/object_read.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct object_source {
    struct source source;
    struct object_reader *reader;
};

static_assert((int)SOURCE_VERSION_MAX >= (int)OBJECT_TAG_MAX, "an ETag fits into a version");

/* Reads the first byte, as some servers do not support HEAD. */
static int objects_identify(const char *path, struct source_identity *identity, struct error *error) {
    struct objects *objects;
    struct object_url url;
    char room[OBJECTS_ROOM_MIN];
    *identity = (struct source_identity){0};
    int code = object_url_parse(path, &url, error);
    code = code != 0 ? code : objects_open(&objects, NULL, error);
    if (code != 0) {
        return code;
    }
    if (url.s3) {
        code = object_head(objects, &url, &identity->bytes, identity->version, error);
    } else {
        struct object_request request = {
            .action = OBJECT_GET, .url = &url, .length = sizeof room, .total = UINT64_MAX, .room = room};
        struct object_call *call = object_start(objects, &request);
        const struct object_result *result = object_wait(call);
        code = result->error.code == 0 ? 0 : error_set(error, result->error.code, "%s", result->error.text);
        identity->bytes = result->total;
        memcpy(identity->version, result->tag, sizeof result->tag);
        object_call_free(call);
    }
    objects_close(objects);
    return code;
}

static int objects_open_source(struct source **source, const char *path, const struct source_identity *identity,
                               uint64_t offset, uint64_t length, struct error *error) {
    struct object_reader *reader;
    *source = NULL;
    int code = object_reader_open(&reader, path, identity->bytes, identity->version, offset, length, NULL, error);
    if (code == 0) {
        struct object_source *opened = memory_zeroed(1, sizeof *opened);
        *opened = (struct object_source){.source = {.scheme = source_scheme_of(path)}, .reader = reader};
        *source = &opened->source;
    }
    return code;
}

static int objects_read(void *source, void *bytes, size_t size, size_t *got, struct error *error) {
    return object_reader_read(((struct object_source *)source)->reader, bytes, size, got, error);
}

static void objects_close_source(struct source *source) {
    object_reader_close(((struct object_source *)source)->reader);
    free(source);
}

/* ---- Lists ---- */

struct listing {
    const struct object_url *url; /* url->key is the pattern */
    const char *pattern;          /* the whole address */
    bool folder;                  /* the key is a folder's, not a glob */
    int (*found)(void *context, const char *path, const struct source_identity *identity, struct error *error);
    void *context;
};

static bool is_wanted(const struct listing *listing, const char *key) {
    if (strcmp(key, listing->url->key) == 0 && !listing->folder) {
        return true;
    }
    const char *name = strrchr(key, '/') != NULL ? strrchr(key, '/') + 1 : key;
    size_t length = strlen(name);
    bool index = length > 4 && strcmp(name + length - 4, ".gzi") == 0;
    bool matches = listing->folder || fnmatch(listing->url->key, key, FNM_PATHNAME | FNM_PERIOD) == 0;
    return matches && name[0] != '\0' && name[0] != '.' && !index;
}

static int listing_found(void *context, const struct object_item *item, struct error *error) {
    const struct listing *listing = context;
    struct source_identity identity = {.bytes = item->bytes};
    char path[OBJECT_URL_MAX];
    if (item->folder && listing->folder) {
        return error_set(error, AML_EINPUT, "s3://%s/%.300s: a folder within the input: expected files alone",
                         listing->url->bucket, item->key);
    }
    if (item->folder || !is_wanted(listing, item->key)) {
        return 0;
    }
    int begin = (int)(strlen(listing->pattern) - strlen(listing->url->key)); /* before the key, as the user wrote it */
    snprintf(path, sizeof path, "%.*s%s", begin, listing->pattern, item->key);
    memcpy(identity.version, item->tag, sizeof item->tag);
    return listing->found(listing->context, path, &identity, error);
}

static int s3_list(const char *pattern,
                   int (*found)(void *context, const char *path, const struct source_identity *identity,
                                struct error *error),
                   void *context, struct error *error) {
    struct objects *objects;
    struct object_url url;
    int code = object_url_parse(pattern, &url, error);
    code = code != 0 ? code : objects_open(&objects, NULL, error);
    if (code != 0) {
        return code;
    }
    struct object_url prefix = url;
    size_t fixed = strcspn(url.key, "*?[");
    prefix.key[fixed] = '\0';
    struct listing listing = {
        .url = &url, .pattern = pattern, .folder = url.key[fixed] == '\0', .found = found, .context = context};
    /* A pattern over folders, such as a*b/c, needs the keys below them. */
    bool folders = strchr(url.key + fixed, '/') == NULL;
    code = object_list(objects, &prefix, folders, listing_found, &listing, error);
    objects_close(objects);
    return code;
}

const struct source_scheme source_s3 = {.prefix = "s3://",
                                        .identify = objects_identify,
                                        .open = objects_open_source,
                                        .read = objects_read,
                                        .close = objects_close_source,
                                        .list = s3_list};
const struct source_scheme source_https = {.prefix = "https://",
                                           .identify = objects_identify,
                                           .open = objects_open_source,
                                           .read = objects_read,
                                           .close = objects_close_source};
const struct source_scheme source_http = {.prefix = "http://",
                                          .identify = objects_identify,
                                          .open = objects_open_source,
                                          .read = objects_read,
                                          .close = objects_close_source};
