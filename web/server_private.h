/* What the parts of the server share: server.c (life cycle, feeding), routes.c (addresses), access.c (permissions),
 * stream.c (events and long answers), actions.c (POST). */
#ifndef WEB_SERVER_PRIVATE_H
#define WEB_SERVER_PRIVATE_H

#include "agileml/base/clock.h"
#include "web/history.h"
#include "web/metrics.h"
#include "web/server.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>

enum { SESSION_TEXT = 33 /* bytes of a session's cookie with the final 0 */ };

/* Access rights by the options; never changes. */
struct web_access {
    char token[WEB_TOKEN_MAX + 1]; /* empty: none */
    bool tls, client_certificates;
    bool loopback; /* listens only on loopback addresses */
};

/* A text that several answers may send at once. */
struct web_text {
    unsigned references;
    size_t size;
    char bytes[];
};

/* A recent copy of the history for answers; renewed when older than a second. */
struct web_view {
    unsigned references;
    struct history_view view;
};

/* A connection that reads events. */
struct stream {
    struct stream *next;
    struct web *web;
    struct MHD_Connection *connection;
    bool suspended;
    bool reset;                /* it requested lines that are not kept */
    bool ended;                /* `end` or `reset` was sent */
    bool keepalive;            /* a comment is due */
    uint64_t number;           /* number of the next line */
    struct history_line *line; /* line of the present event; NULL: none */
    char head[64];             /* sent before the line's text, or instead of it */
    size_t sent;               /* bytes sent of the event */
};

/* A connection that waits for the status or for the answer to an action. */
struct waiter {
    struct waiter *next;
    struct MHD_Connection *connection;
    uint64_t action; /* number of the action; 0: waits for the status */
    uint64_t since_ms;
    bool done;
    int code;
    char text[ERROR_TEXT_MAX];
};

struct web_feed {
    struct history *history;
    struct history_line **recent; /* latest lines, in order, without gaps */
    size_t recent_count, recent_capacity, recent_bytes;
    bool over; /* the summary was among the lines */
    struct web_view *view;
    uint64_t view_ms, view_next;
    struct web_text *status; /* NULL: none yet */
    uint64_t status_ms;      /* time of the status */
    size_t status_nodes;
    bool status_wanted;
    bool ready;
    uint64_t alive_ms;
    struct metrics metrics;
    double began; /* when the server was opened, in seconds since 1970 */
};

struct web {
    enum web_subject subject; /* never changes */
    struct MHD_Daemon *daemon;
    struct web_access access;
    char address[WEB_ADDRESS_MAX];
    char host[WEB_ADDRESS_MAX];          /* HOST:PORT as clients name it */
    char *history_path;                  /* NULL: none */
    char *certificate, *key, *client_ca; /* contents of the files */
    void (*wake)(void *context);
    void *context;

    pthread_mutex_t mutex; /* guards all fields below */
    pthread_cond_t changed;
    pthread_t keeper;
    bool keeping, closing;
    struct web_feed feed;
    struct stream *streams;
    struct waiter *waiters;
    struct web_action actions[WEB_ACTIONS_MAX];
    size_t action_count;
    uint64_t actions_made;
    char sessions[WEB_SESSIONS_MAX][SESSION_TEXT];
    size_t session_next;
};

/* State of a request between the calls for it. */
struct request {
    struct web *web;
    char *body;
    size_t body_size;
    bool too_long;
    struct waiter *waiter; /* NULL: not waiting */
};

static inline uint64_t web_now_ms(void) {
    return (uint64_t)(clock_seconds(CLOCK_MONOTONIC) * 1e3);
}

/* ---- access.c ---- */

enum access {
    ACCESS_GRANTED,
    ACCESS_NO_TOKEN,
    ACCESS_WRONG_TOKEN,
    ACCESS_NO_CERTIFICATE, /* no certificate, or none of the CA */
    ACCESS_OTHER_NAME,     /* the request's Host is not this machine */
    ACCESS_OTHER_ORIGIN,   /* the request is from a page of another site */
    ACCESS_READ_ONLY       /* changes are not possible without a configured token */
};
/* Whether the client may read. If there is a client CA, it needs a certificate; else, if there is a token, the token or
 * a session's cookie. Otherwise everybody may read, on loopback only under this machine's own names. */
enum access access_to_read(struct web *web, struct MHD_Connection *connection);
/* Whether the client may change something: only with the token in the Authorization header, and not from another
 * site. */
enum access access_to_change(struct web *web, struct MHD_Connection *connection);
/* Makes a session and writes the value of its cookie. */
void access_login(struct web *web, char session[SESSION_TEXT]);
int access_open(struct web *web, const struct web_options *options, struct error *error);

/* ---- answers.c ---- */

/* Answers with a short text. */
enum MHD_Result answers_say(const struct web *web, struct MHD_Connection *connection, unsigned status, const char *type,
                            const char *text);
/* Adds the headers of every answer, queues the response, and drops our reference to it. */
enum MHD_Result answers_send(const struct web *web, struct MHD_Connection *connection, unsigned status,
                             const char *type, struct MHD_Response *response);

/* ---- routes.c ---- */

enum MHD_Result routes_handle(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_size, void **state);
void routes_completed(void *self, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code);

/* ---- stream.c ---- */

/* Whether the query's `from` is a number, or absent. */
bool stream_has_place(struct MHD_Connection *connection);
enum MHD_Result stream_begin(struct web *web, struct MHD_Connection *connection);
enum MHD_Result stream_send_history(struct web *web, struct MHD_Connection *connection);
enum MHD_Result stream_send_report(struct web *web, struct MHD_Connection *connection);
enum MHD_Result stream_send_status(struct web *web, struct MHD_Connection *connection, struct request *request);
enum MHD_Result stream_send_metrics(struct web *web, struct MHD_Connection *connection, struct request *request);
/* Resumes streams that wait for lines. The mutex must be held. */
void streams_resume(struct web *web, bool keepalive);
/* suspends the connection */
struct waiter *waiter_new(struct web *web, struct MHD_Connection *connection, uint64_t action);
/* Resumes waiters for this action (0: for the status). The mutex must be held. */
void waiters_resume(struct web *web, uint64_t action, int code, const char *text);
void waiter_free(struct web *web, struct waiter *waiter);

/* ---- actions.c ---- */

bool actions_has(const char *url);
/* `url` is an action's address. */
enum MHD_Result actions_post(struct web *web, struct MHD_Connection *connection, struct request *request,
                             const char *url);

#endif
