/* POST requests to the job: evict, stop, checkpoint. The feeding thread receives and answers them. */
#include "web/server_private.h"

#include "agileml/base/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NODES_MAX = 4096, NOTICE_DEFAULT_S = 120, NOTICE_MAX_S = 86400 };

/* Whether the object has no other keys: a mistyped key would otherwise be ignored silently. */
static bool has_only(const json_t *body, const char *key, const char *other) {
    return json_object_size(body) ==
           (size_t)(json_object_get(body, key) != NULL) + (size_t)(json_object_get(body, other) != NULL);
}

/* Reads {"nodes":["node-1"],"notice_seconds":60}. */
static bool read_evict(const json_t *body, struct web_action *action) {
    const json_t *nodes = json_object_get(body, "nodes");
    const json_t *notice = json_object_get(body, "notice_seconds");
    double seconds = notice != NULL ? json_number_value(notice) : NOTICE_DEFAULT_S;
    size_t count = json_array_size(nodes);
    if (!has_only(body, "nodes", "notice_seconds") || count == 0 || count > NODES_MAX ||
        (notice != NULL && !json_is_number(notice)) || !(seconds >= 0 && seconds <= NOTICE_MAX_S)) {
        return false;
    }
    action->notice_ms = (uint32_t)(seconds * 1e3);
    action->nodes = memory_zeroed(count, sizeof *action->nodes);
    for (size_t n = 0; n < count; n++) {
        const char *name = json_string_value(json_array_get(nodes, n));
        if (name == NULL || name[0] == '\0' || strlen(name) >= sizeof *action->nodes) {
            return false;
        }
        memcpy(action->nodes[n], name, strlen(name));
    }
    action->node_count = count;
    return true;
}

static bool read_stop(const json_t *body, struct web_action *action) {
    const json_t *now = json_object_get(body, "now");
    action->now = json_is_true(now);
    return json_object_size(body) == (now != NULL ? 1 : 0) && (now == NULL || json_is_boolean(now));
}

static bool read_checkpoint(const json_t *body, struct web_action *action) {
    (void)action;
    return json_object_size(body) == 0;
}

static const struct route {
    const char *url;
    enum web_action_kind kind;
    bool (*read)(const json_t *body, struct web_action *action);
    const char *expected; /* the expected body */
} ACTIONS[] = {
    {"/api/evict", WEB_EVICT, read_evict,
     "expected {\"nodes\": [NAME, ...]}, perhaps with \"notice_seconds\": 0 to 86400, and nothing else"},
    {"/api/stop", WEB_STOP, read_stop, "expected {} or {\"now\": true}"},
    {"/api/checkpoint", WEB_CHECKPOINT, read_checkpoint, "expected {}"},
};

static const struct route *find_action(const char *url) {
    for (size_t a = 0; a < sizeof ACTIONS / sizeof *ACTIONS; a++) {
        if (strcmp(url, ACTIONS[a].url) == 0) {
            return &ACTIONS[a];
        }
    }
    return NULL;
}

bool actions_has(const char *url) {
    return find_action(url) != NULL;
}

static bool read_action(const struct route *route, const char *text, struct web_action *action) {
    json_t *body = json_loads(text != NULL ? text : "", JSON_REJECT_DUPLICATES, NULL);
    action->kind = route->kind;
    bool good = json_is_object(body) && route->read(body, action);
    json_decref(body);
    return good;
}

static bool is_json(struct MHD_Connection *connection) {
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    return type != NULL && strncasecmp(type, "application/json", strlen("application/json")) == 0;
}

static enum MHD_Result say_outcome(const struct web *web, struct MHD_Connection *connection, int code,
                                   const char *text) {
    unsigned status = code == 0            ? MHD_HTTP_OK
                      : code == AML_EINPUT ? MHD_HTTP_BAD_REQUEST
                      : code == AML_ELIMIT ? MHD_HTTP_SERVICE_UNAVAILABLE
                                           : MHD_HTTP_GATEWAY_TIMEOUT;
    json_t *answer = json_pack("{s:b,s:s}", "ok", code == 0, "text", text);
    if (answer == NULL) { /* a text is not UTF-8 */
        answer = json_pack("{s:b,s:s}", "ok", code == 0, "text", "(not text)");
    }
    char *body = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
    enum MHD_Result result = answers_say(web, connection, status, "application/json", body);
    free(body);
    json_decref(answer);
    return result;
}

void web_action_close(struct web_action *action) {
    free(action->nodes);
    *action = (struct web_action){0};
}

/* Reports the result. An eviction with a text has skipped unknown nodes, so that it is no success, as with 'proteus
 * evict'. */
static enum MHD_Result say_result(const struct web *web, struct MHD_Connection *connection, const struct route *route,
                                  const struct waiter *waiter) {
    char text[sizeof waiter->text + 32];
    if (route->kind != WEB_EVICT || waiter->code != 0 || waiter->text[0] == '\0') {
        return say_outcome(web, connection, waiter->code, waiter->text);
    }
    snprintf(text, sizeof text, "%s; the other nodes leave", waiter->text);
    return say_outcome(web, connection, AML_EINPUT, text);
}

enum MHD_Result actions_post(struct web *web, struct MHD_Connection *connection, struct request *request,
                             const char *url) {
    const struct route *route = find_action(url);
    struct web_action action = {0};
    if (request->waiter != NULL) {
        return say_result(web, connection, route, request->waiter);
    }
    if (!is_json(connection)) {
        return say_outcome(web, connection, AML_EINPUT, "expected Content-Type: application/json");
    }
    if (!read_action(route, request->body, &action)) {
        web_action_close(&action);
        return say_outcome(web, connection, AML_EINPUT, route->expected);
    }
    pthread_mutex_lock(&web->mutex);
    bool room = web->action_count < WEB_ACTIONS_MAX && !web->closing;
    if (room) {
        action.number = ++web->actions_made;
        web->actions[web->action_count++] = action;
        request->waiter = waiter_new(web, connection, action.number);
    }
    pthread_mutex_unlock(&web->mutex);
    if (!room) {
        web_action_close(&action);
        return say_outcome(web, connection, AML_ELIMIT, "too many requests wait for the job already");
    }
    web->wake(web->context);
    return MHD_YES;
}
