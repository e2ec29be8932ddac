/* Requests in one step (objects.h): size, presence, removal, lists, and the sweep of unfinished uploads. */
#include "agileml/cloud/objects.h"

#include "agileml/base/memory.h"
#include "agileml/cloud/sigv4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUERY_MAX = 3 * (OBJECT_KEY_MAX + 2 * OBJECT_CONTINUE_MAX) + 200 };

/* Carries out a request. Only errors matter, not the response. */
static int carry_out(struct objects *objects, const struct object_request *request, struct object_result *result,
                     struct error *error) {
    struct object_call *call = object_start(objects, request);
    *result = *object_wait(call);
    result->body = NULL;
    object_call_free(call);
    return result->error.code == 0 ? 0 : error_set(error, result->error.code, "%s", result->error.text);
}

int object_head(struct objects *objects, const struct object_url *url, uint64_t *bytes, char tag[OBJECT_TAG_MAX],
                struct error *error) {
    struct object_result result;
    int code = carry_out(objects, &(struct object_request){.action = OBJECT_HEAD, .url = url}, &result, error);
    *bytes = result.total;
    memcpy(tag, result.tag, sizeof result.tag);
    return code;
}

int object_exists(struct objects *objects, const struct object_url *url, struct error *error) {
    struct object_result result;
    struct error reason = {0};
    int code = carry_out(objects, &(struct object_request){.action = OBJECT_HEAD, .url = url}, &result, &reason);
    return code == 0 ? 1 : result.missing ? 0 : error_set(error, code, "%s", reason.text);
}

int object_delete(struct objects *objects, const struct object_url *url, struct error *error) {
    struct object_result result;
    return carry_out(objects, &(struct object_request){.action = OBJECT_DELETE, .url = url}, &result, error);
}

/* ---- Lists ---- */

struct listing {
    object_found *found;
    void *context;
    size_t count;
    bool stopped; /* `found` has ended the list */
};

static int listing_found(void *context, const struct object_item *item, struct error *error) {
    struct listing *listing = context;
    if (++listing->count > OBJECTS_LIST_MAX) {
        return error_set(error, AML_ELIMIT, "more than %d objects", OBJECTS_LIST_MAX);
    }
    int code = listing->found(listing->context, item, error);
    listing->stopped = code != 0;
    return code;
}

/* Gets one page, and sets the markers of the next page. */
static int list_page(struct objects *objects, enum object_action action, const struct object_url *url,
                     const char *query, struct listing *listing, char next[2][OBJECT_CONTINUE_MAX],
                     struct error *error) {
    struct object_url bucket = *url;
    struct error reason = {0};
    bucket.key[0] = '\0';
    struct object_request request = {.action = action, .url = &bucket, .query = query};
    struct object_call *call = object_start(objects, &request);
    const struct object_result *result = object_wait(call);
    int code = result->error.code;
    if (code != 0) {
        code = error_set(error, code, "%s", result->error.text);
    } else {
        code = object_page_read(result->body, result->size, listing_found, listing, next[0], next[1], &reason);
        if (code != 0 && listing->stopped) {
            code = error_set(error, code, "%s", reason.text);
        } else if (code != 0) {
            code = error_set(error, code, "s3://%s/%.100s: %s", url->bucket, url->key, reason.text);
        }
    }
    object_call_free(call);
    return code;
}

/* Adds NAME=VALUE, encoded, to a query; adds nothing for an empty value. */
static void query_add(char query[QUERY_MAX], const char *name, const char *value) {
    char encoded[3 * OBJECT_CONTINUE_MAX];
    size_t used = strlen(query);
    if (value[0] != '\0' && sigv4_encode(value, "", encoded, sizeof encoded)) {
        snprintf(query + used, QUERY_MAX - used, "&%s=%s", name, encoded);
    }
}

/* The query of a list: its beginning, and the names of the parameters that take the markers of a page. */
struct list_query {
    enum object_action action;
    const char *begin, *delimiter;
    const char *markers[2]; /* the second is NULL if there is only one */
};

/* Gets all pages of the keys that begin with the address's key. */
static int list_pages(struct objects *objects, const struct list_query *list, const struct object_url *url,
                      struct listing *listing, struct error *error) {
    char next[2][OBJECT_CONTINUE_MAX] = {"", ""};
    char query[QUERY_MAX];
    int code = 0;
    do {
        strcpy(query, list->begin);
        query_add(query, "prefix", url->key);
        query_add(query, "delimiter", list->delimiter);
        query_add(query, list->markers[0], next[0]);
        if (list->markers[1] != NULL) {
            query_add(query, list->markers[1], next[1]);
        }
        code = list_page(objects, list->action, url, query, listing, next, error);
    } while (code == 0 && next[0][0] != '\0');
    return code;
}

int object_list(struct objects *objects, const struct object_url *url, bool folders, object_found *found, void *context,
                struct error *error) {
    struct listing listing = {.found = found, .context = context};
    const struct list_query list = {.action = OBJECT_LIST,
                                    .begin = "list-type=2&encoding-type=url",
                                    .delimiter = folders ? "/" : "",
                                    .markers = {"continuation-token", NULL}};
    return list_pages(objects, &list, url, &listing, error);
}

/* ---- The sweep ---- */

struct sweep {
    const char *key;
    bool below;
    struct object_item *items;
    size_t count;
};

static int sweep_found(void *context, const struct object_item *item, struct error *error) {
    struct sweep *sweep = context;
    (void)error;
    if (sweep->below || strcmp(item->key, sweep->key) == 0) {
        sweep->items = memory_resized(sweep->items, sweep->count + 1, sizeof *sweep->items);
        sweep->items[sweep->count++] = *item;
    }
    return 0;
}

static int sweep_abort(struct objects *objects, const struct object_url *url, const struct object_item *item,
                       struct error *error) {
    struct object_url target = *url;
    struct object_result result;
    char query[QUERY_MAX] = "";
    query_add(query, "uploadId", item->upload);
    strcpy(target.key, item->key);
    return carry_out(objects, &(struct object_request){.action = OBJECT_ABORT, .url = &target, .query = query + 1},
                     &result, error);
}

int object_uploads_sweep(struct objects *objects, const struct object_url *url, bool below, unsigned *count,
                         struct error *error) {
    struct sweep sweep = {.key = url->key, .below = below};
    struct listing listing = {.found = sweep_found, .context = &sweep};
    static const struct list_query list = {.action = OBJECT_UPLOADS,
                                           .begin = "uploads=&encoding-type=url",
                                           .delimiter = "",
                                           .markers = {"key-marker", "upload-id-marker"}};
    struct error reason = {0};
    *count = 0;
    (void)list_pages(objects, &list, url, &listing, &reason); /* no sweep if listing fails */
    int code = 0;
    for (size_t i = 0; i < sweep.count && code == 0; i++) {
        code = sweep_abort(objects, url, &sweep.items[i], error);
        *count += code == 0;
    }
    free(sweep.items);
    return code;
}
