/* What the parts of the server share: server.c (life cycle, feeding), routes.c (what is where), access.c (who may),
 * stream.c (events and long answers), actions.c (POST). */
#ifndef WEB_SERVER_PRIVATE_H
#define WEB_SERVER_PRIVATE_H

#include "web/history.h"
#include "web/metrics.h"
#include "web/server.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>

enum { SESSION_TEXT = 33 /* bytes of a session's cookie with the final 0 */ };

/* What the options say about who may do what; never changes. */
struct web_access {
    char token[WEB_TOKEN_MAX + 1]; /* empty: none */
    bool tls, client_certificates;
    bool loopback; /* it listens on loopback only */
};

/* A kept text, which several answers may send at once. */
struct web_text {
    unsigned references;
    size_t size;
    char bytes[];
};

/* The history as it was lately, for answers; made anew when it is older than a second. */
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
    bool reset;              /* it asked for what is not kept */
    bool ended;              /* `end` or `reset` was sent */
    bool keepalive;          /* a comment is due */
    uint64_t number;         /* of the next line */
    struct report_line *line; /* whose event is being sent; NULL: none */
    char head[64];           /* what is sent before the line's text, or instead */
    size_t sent;             /* bytes of the event so far */
};

/* A connection that waits for the status or for an action's answer. */
struct waiter {
    struct waiter *next;
    struct MHD_Connection *connection;
    uint64_t action; /* 0: the status */
    uint64_t since_ms;
    bool done;
    int code;
    char text[ERROR_TEXT_MAX];
};

struct web_feed {
    struct history *history;
    struct report_line **recent; /* the last lines, in order, without gaps */
    size_t recent_count, recent_capacity, recent_bytes;
    bool over; /* the summary was there */
    struct web_view *view;
    uint64_t view_ms, view_next;
    struct web_text *status; /* NULL: none yet */
    uint64_t status_ms;      /* when it came */
    size_t status_nodes;
    bool status_wanted;
    bool ready;
    uint64_t alive_ms;
    struct metrics metrics;
    double began; /* when the server was opened, seconds since 1970 */
};

struct web {
    enum web_subject subject; /* never changes */
    struct MHD_Daemon *daemon;
    struct web_access access;
    char address[WEB_ADDRESS_MAX];
    char host[WEB_ADDRESS_MAX]; /* HOST:PORT as clients name it */
    char *history_path;         /* NULL: none */
    char *certificate, *key, *client_ca; /* contents */
    void (*wake)(void *context);
    void *context;

    pthread_mutex_t mutex; /* guards all below */
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

/* A request's own state, between the calls for it. */
struct request {
    struct web *web;
    char *body;
    size_t body_size;
    bool too_long;
    struct waiter *waiter; /* NULL: it does not wait */
};

uint64_t web_now_ms(void);

/* ---- access.c ---- */

enum access {
    ACCESS_GRANTED,
    ACCESS_NO_TOKEN,
    ACCESS_WRONG_TOKEN,
    ACCESS_NO_CERTIFICATE, /* or none of the CA */
    ACCESS_OTHER_NAME,     /* the request names another host than this machine */
    ACCESS_OTHER_ORIGIN,   /* it comes from a page of another site */
    ACCESS_READ_ONLY       /* there is no token to change anything by */
};
/* Who may read: with the token, by a session's cookie, with a certificate of the CA, or anybody on loopback. */
enum access access_to_read(struct web *web, struct MHD_Connection *connection);
/* Who may change: only by a token in the Authorization header, from no other site. */
enum access access_to_change(struct web *web, struct MHD_Connection *connection);
/* Makes a session; its cookie's value. */
void access_login(struct web *web, char session[SESSION_TEXT]);
int access_open(struct web *web, const struct web_options *options, struct error *error);

/* ---- routes.c ---- */

enum MHD_Result routes_handle(void *self, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *body, size_t *body_size, void **state);
void routes_completed(void *self, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode code);
/* Answers with a short text. */
enum MHD_Result routes_say(const struct web *web, struct MHD_Connection *connection, unsigned status, const char *type,
                           const char *text);
/* Adds the headers of every answer, queues it, and gives the response away. */
enum MHD_Result routes_send(const struct web *web, struct MHD_Connection *connection, unsigned status,
                            const char *type, struct MHD_Response *response);

/* ---- stream.c ---- */

/* Whether the query's number `from` is one, or is not there. */
bool stream_has_place(struct MHD_Connection *connection);
enum MHD_Result stream_begin(struct web *web, struct MHD_Connection *connection);
enum MHD_Result stream_send_history(struct web *web, struct MHD_Connection *connection);
enum MHD_Result stream_send_report(struct web *web, struct MHD_Connection *connection);
enum MHD_Result stream_send_status(struct web *web, struct MHD_Connection *connection, struct request *request);
enum MHD_Result stream_send_metrics(struct web *web, struct MHD_Connection *connection, struct request *request);
/* Resumes what waits for lines. The mutex is held. */
void streams_resume(struct web *web, bool keepalive);
struct waiter *waiter_new(struct web *web, struct MHD_Connection *connection, uint64_t action); /* suspends */
/* Resumes waiters of this action (0: of the status). The mutex is held. */
void waiters_resume(struct web *web, uint64_t action, int code, const char *text);
void waiter_free(struct web *web, struct waiter *waiter);

/* ---- actions.c ---- */

bool actions_has(const char *url);
/* `url`: of an action. */
enum MHD_Result actions_post(struct web *web, struct MHD_Connection *connection, struct request *request,
                             const char *url);

#endif
