/* Requests to the job by POST: evict, stop, checkpoint. They are handed to the feeding thread, which answers. */
#include "web/server_private.h"

#include "agileml/base/memory.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NODES_MAX = 4096, NOTICE_DEFAULT_S = 120 };

/* Reads {"nodes":["node-1"],"notice_seconds":60}. */
static bool read_evict(const json_t *body, struct web_action *action) {
    const json_t *nodes = json_object_get(body, "nodes");
    const json_t *notice = json_object_get(body, "notice_seconds");
    double seconds = notice != NULL ? json_number_value(notice) : NOTICE_DEFAULT_S;
    size_t count = json_array_size(nodes);
    if (count == 0 || count > NODES_MAX || (notice != NULL && !json_is_number(notice)) || !(seconds >= 0) ||
        seconds > UINT32_MAX / 1e3) {
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

static bool read_action(const char *url, const char *text, struct web_action *action) {
    json_t *body = json_loads(text != NULL ? text : "", JSON_REJECT_DUPLICATES, NULL);
    bool good = json_is_object(body);
    if (good && strcmp(url, "/api/evict") == 0) {
        action->kind = WEB_EVICT;
        good = read_evict(body, action);
    } else if (good && strcmp(url, "/api/stop") == 0) {
        const json_t *now = json_object_get(body, "now");
        action->kind = WEB_STOP;
        action->now = json_is_true(now);
        good = now == NULL || json_is_boolean(now);
    } else {
        action->kind = WEB_CHECKPOINT;
    }
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
    if (answer == NULL) { /* a text that is not UTF-8 */
        answer = json_pack("{s:b,s:s}", "ok", code == 0, "text", "(not text)");
    }
    char *body = json_dumps(answer, JSON_COMPACT | JSON_ENSURE_ASCII);
    enum MHD_Result result = routes_say(web, connection, status, "application/json", body);
    free(body);
    json_decref(answer);
    return result;
}

enum MHD_Result actions_post(struct web *web, struct MHD_Connection *connection, struct request *request,
                             const char *url) {
    struct web_action action = {0};
    if (request->waiter != NULL) {
        return say_outcome(web, connection, request->waiter->code, request->waiter->text);
    }
    if (!is_json(connection)) {
        return say_outcome(web, connection, AML_EINPUT, "expected Content-Type: application/json");
    }
    if (!read_action(url, request->body, &action)) {
        web_action_close(&action);
        return say_outcome(web, connection, AML_EINPUT,
                           "expected a JSON object: evict {\"nodes\": [NAME, ...], \"notice_seconds\": N}, stop {} or "
                           "{\"now\": true}, checkpoint {}");
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
