/* The addresses of the server and their handlers. See server_private.h. */
#include "web/server_private.h"

#include "agileml/base/memory.h"
#include "web/page/page.h"

#include <stdlib.h>
#include <string.h>

static enum MHD_Result say_plain(const struct web *web, struct MHD_Connection *connection, unsigned status,
                                 const char *text) {
    return answers_say(web, connection, status, "text/plain; charset=utf-8", text);
}

static enum MHD_Result refuse(const struct web *web, struct MHD_Connection *connection, enum access access) {
    static const char *const texts[] = {
        [ACCESS_NO_TOKEN] = "expected the header 'Authorization: Bearer TOKEN', with the text in the file of "
                            "--http-token\n",
        [ACCESS_WRONG_TOKEN] = "not the token in the file of --http-token; expected 'Authorization: Bearer TOKEN'\n",
        [ACCESS_NO_CERTIFICATE] = "expected a certificate of the authority in --http-client-ca\n",
        [ACCESS_OTHER_NAME] = "expected localhost or 127.0.0.1 as the name of this host; under other names the page "
                              "needs --http-token or --http-client-ca\n",
        [ACCESS_OTHER_ORIGIN] = "refused: the request comes from a page of another site\n",
        [ACCESS_READ_ONLY] = "nothing can be changed here: the server was started without --http-token\n",
    };
    bool token = access == ACCESS_NO_TOKEN || access == ACCESS_WRONG_TOKEN;
    return say_plain(web, connection, token ? MHD_HTTP_UNAUTHORIZED : MHD_HTTP_FORBIDDEN, texts[access]);
}

/* ---- Routes ---- */

static enum MHD_Result send_page(struct web *web, struct MHD_Connection *connection, struct request *request) {
    (void)request;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(web_page_size, (void *)(uintptr_t)web_page, MHD_RESPMEM_PERSISTENT);
    return response != NULL ? answers_send(web, connection, MHD_HTTP_OK, "text/html; charset=utf-8", response) : MHD_NO;
}

static enum MHD_Result send_history(struct web *web, struct MHD_Connection *connection, struct request *request) {
    (void)request;
    return stream_send_history(web, connection);
}

static enum MHD_Result refuse_place(const struct web *web, struct MHD_Connection *connection) {
    return say_plain(web, connection, MHD_HTTP_BAD_REQUEST, "from: expected the number of a line\n");
}

static enum MHD_Result send_report(struct web *web, struct MHD_Connection *connection, struct request *request) {
    (void)request;
    return stream_has_place(connection) ? stream_send_report(web, connection) : refuse_place(web, connection);
}

static enum MHD_Result send_events(struct web *web, struct MHD_Connection *connection, struct request *request) {
    (void)request;
    return stream_has_place(connection) ? stream_begin(web, connection) : refuse_place(web, connection);
}

static enum MHD_Result send_healthz(struct web *web, struct MHD_Connection *connection, struct request *request) {
    (void)request;
    pthread_mutex_lock(&web->mutex);
    bool alive = web_now_ms() - web->feed.alive_ms < WEB_ALIVE_S * UINT64_C(1000);
    pthread_mutex_unlock(&web->mutex);
    return alive
               ? say_plain(web, connection, MHD_HTTP_OK, "ok\n")
               : say_plain(web, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                           web->subject == WEB_JOB ? "the controller does not answer\n" : "bidbrain does not answer\n");
}

static enum MHD_Result send_readyz(struct web *web, struct MHD_Connection *connection, struct request *request) {
    (void)request;
    pthread_mutex_lock(&web->mutex);
    bool ready = web->feed.ready;
    pthread_mutex_unlock(&web->mutex);
    return ready ? say_plain(web, connection, MHD_HTTP_OK, "ready\n")
                 : say_plain(web, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                             web->subject == WEB_JOB ? "not in training\n" : "no prices yet, or at its end\n");
}

static const struct {
    const char *url;
    bool open; /* needs no token: says nothing about the job */
    enum MHD_Result (*send)(struct web *web, struct MHD_Connection *connection, struct request *request);
} ROUTES[] = {
    {"/", true, send_page},
    {"/healthz", true, send_healthz},
    {"/readyz", true, send_readyz},
    {"/api/history", false, send_history},
    {"/api/events", false, send_events},
    {"/api/report", false, send_report},
    {"/api/status", false, stream_send_status},
    {"/metrics", false, stream_send_metrics},
};

/* Whether this address accepts POST. */
static bool takes_post(const struct web *web, const char *url) {
    return strcmp(url, "/api/login") == 0 || (actions_has(url) && web->subject == WEB_JOB);
}

static enum MHD_Result handle_get(struct web *web, struct MHD_Connection *connection, const char *url,
                                  struct request *request) {
    for (size_t r = 0; r < sizeof ROUTES / sizeof *ROUTES; r++) {
        if (strcmp(url, ROUTES[r].url) == 0) {
            enum access access =
                ROUTES[r].open && !web->access.client_certificates ? ACCESS_GRANTED : access_to_read(web, connection);
            return access == ACCESS_GRANTED ? ROUTES[r].send(web, connection, request)
                                            : refuse(web, connection, access);
        }
    }
    return takes_post(web, url) ? say_plain(web, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "expected POST\n")
                                : say_plain(web, connection, MHD_HTTP_NOT_FOUND, "there is nothing here\n");
}

static enum MHD_Result login(struct web *web, struct MHD_Connection *connection) {
    char session[SESSION_TEXT];
    char cookie[128];
    static char nothing[] = "";
    access_login(web, session);
    snprintf(cookie, sizeof cookie, "proteus=%s; Path=/; HttpOnly; SameSite=Strict%s", session,
             web->access.tls ? "; Secure" : "");
    struct MHD_Response *response = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    if (response == NULL || MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie) != MHD_YES) {
        return MHD_NO;
    }
    return answers_send(web, connection, MHD_HTTP_NO_CONTENT, "text/plain", response);
}

static enum MHD_Result handle_post(struct web *web, struct MHD_Connection *connection, const char *url,
                                   struct request *request) {
    if (!takes_post(web, url)) {
        return say_plain(web, connection, MHD_HTTP_NOT_FOUND, "there is nothing here that takes a POST\n");
    }
    enum access access = access_to_change(web, connection);
    if (access != ACCESS_GRANTED) {
        return refuse(web, connection, access);
    }
    if (request->too_long) {
        return say_plain(web, connection, MHD_HTTP_CONTENT_TOO_LARGE, "expected a body of at most 64 KiB\n");
    }
    return strcmp(url, "/api/login") == 0 ? login(web, connection) : actions_post(web, connection, request, url);
}

static void take_body(struct request *request, const char *body, size_t size) {
    request->too_long = request->too_long || request->body_size + size > WEB_BODY_MAX;
    if (!request->too_long) {
        request->body = memory_resized(request->body, request->body_size + size + 1, 1);
        memcpy(request->body + request->body_size, body, size);
        request->body_size += size;
        request->body[request->body_size] = '\0';
    }
}

enum MHD_Result routes_handle(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_size, void **state) {
    struct web *web = self;
    struct request *request = *state;
    (void)version;
    if (request == NULL) {
        request = memory_zeroed(1, sizeof *request);
        request->web = web;
        *state = request;
        return MHD_YES;
    }
    if (*body_size > 0) {
        take_body(request, body, *body_size);
        *body_size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) {
        return handle_get(web, connection, url, request);
    }
    if (strcmp(method, MHD_HTTP_METHOD_POST) == 0) {
        return handle_post(web, connection, url, request);
    }
    return say_plain(web, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "expected GET or POST\n");
}

void routes_completed(void *self, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code) {
    struct request *request = *state;
    (void)connection;
    (void)code;
    if (request != NULL) {
        if (request->waiter != NULL) {
            waiter_free(self, request->waiter);
        }
        free(request->body);
        free(request);
        *state = NULL;
    }
}
