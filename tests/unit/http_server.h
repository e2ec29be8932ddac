/* A small HTTP server for tests, on a port of 127.0.0.1 that the kernel chooses, a thread for each connection. It
 * answers as the test says, also in ways that no proper server does. */
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
    unsigned connection; /* 0 for the first that was made */
};

struct http_server_reply {
    int status;                  /* 200 to begin with */
    char head[1024];             /* more header lines, each with its \r\n */
    const char *body;            /* lives until the server is closed; "" to begin with */
    char text[HTTP_SERVER_TEXT]; /* ... or written here, with body pointing to it */
    size_t size;                 /* of body; 0: strlen */
    size_t cut;                  /* the connection ends after so many bytes of the body; 0: it doesn't */
    const char *raw;             /* instead of all that: these bytes, then the connection ends; NULL: not so */
    bool silent;                 /* no answer at all; the connection stays until the server is closed */
};

/* Called by the connections' threads, one at a time. */
typedef void http_server_answer(void *context, const struct http_server_request *request,
                                struct http_server_reply *reply);

struct http_server;

struct http_server *http_server_open(http_server_answer *answer, void *context);
void http_server_close(struct http_server *server);
/* "http://127.0.0.1:PORT" */
const char *http_server_url(const struct http_server *server);
unsigned http_server_connections(struct http_server *server);
/* The value of a header of the request; "" when there is none. */
const char *http_server_header(const struct http_server_request *request, const char *name, char value[1024]);

#endif
