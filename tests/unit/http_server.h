/* A small HTTP server for tests, with a thread for each connection, on a port of 127.0.0.1 that the kernel chooses.
 * It answers as the test says, also in ways that no real server does. */
#ifndef TESTS_HTTP_SERVER_H
#define TESTS_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_SERVER_TEXT = 1 << 14, HTTP_SERVER_CONNECTIONS_MAX = 256 };

struct http_server_request {
    char method[16], path[1024];
    char head[HTTP_SERVER_TEXT]; /* the request's header lines */
    char body[HTTP_SERVER_TEXT];
    size_t body_size;
    unsigned connection; /* number of the connection, from 0 */
};

struct http_server_reply {
    int status;                  /* initially 200 */
    char head[1024];             /* further header lines, each with its \r\n */
    const char *body;            /* read before the next request is answered; initially "" */
    char text[HTTP_SERVER_TEXT]; /* buffer for a body; `body` must point here */
    size_t size;                 /* size of the body; 0: strlen */
    size_t cut;                  /* bytes of the body after which the connection is closed; 0: not closed */
    const char *raw;             /* sent in place of all other fields, then the connection is closed; NULL: unused */
    bool silent;                 /* no answer; the connection stays open until the server is closed */
};

/* Called in the connections' threads, by one thread at a time. */
typedef void http_server_answer(void *context, const struct http_server_request *request,
                                struct http_server_reply *reply);

struct http_server;

struct http_server *http_server_open(http_server_answer *answer, void *context);
void http_server_close(struct http_server *server);
/* "http://127.0.0.1:PORT" */
const char *http_server_url(const struct http_server *server);
unsigned http_server_connections(struct http_server *server);
/* The value of the request's header; "" if there is none. */
const char *http_server_header(const struct http_server_request *request, const char *name, char value[1024]);

#endif
