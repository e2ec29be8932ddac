/* HTTP requests that don't block: libcurl's multi interface behind one descriptor, so that any event loop can drive many
 * requests on one thread. Connections are kept and used again. Says nothing about what answers mean, retries nothing.
 *
 * TLS certificates are always verified; plain http is allowed for every address (metadata services have nothing else), it
 * is for the caller to insist on https. Redirects are not followed. One thread. */
#ifndef AGILEML_NET_HTTP_H
#define AGILEML_NET_HTTP_H

#include "agileml/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_HEADERS_MAX = 16,        /* of a request */
    HTTP_ERROR_TEXT = 200,        /* bytes */
    HTTP_CONCURRENT_MAX = 16,     /* requests under way; others wait */
    HTTP_TIMEOUT_MS_DEFAULT = 30 * 1000,
    HTTP_ANSWER_MAX_DEFAULT = 1 << 26, /* bytes of a body; a larger one is an error */
};

struct http;
struct http_call;

struct http_request {
    const char *method; /* "GET", "POST", "PUT" */
    const char *url;
    const char *headers[HTTP_HEADERS_MAX]; /* "name: value", up to the first NULL */
    const void *body;                      /* copied */
    size_t body_size;
    uint32_t timeout_ms; /* for all of it; 0: the default */
    size_t answer_max;   /* 0: the default */
};

struct http_answer {
    int status;                 /* 200 ...; 0: no whole answer has come, and `error` says why */
    const char *body;           /* a 0 byte follows; lives until `done` returns */
    size_t body_size;
    int64_t date;               /* the Date header, seconds since 1970; 0: none */
    char error[HTTP_ERROR_TEXT]; /* never holds a header or a body of the request */
};

/* `error` and `http` are the caller's again when it returns; it may start and cancel calls. */
typedef void http_done(void *context, const struct http_answer *answer);

/* 0 or AML_EFAIL. */
int http_open(struct http **http, struct error *error);
/* Calls under way are dropped: their `done` is not called. NULL is allowed. */
void http_close(struct http *http);

/* Readable when http_step has something to do. Stays the same. */
int http_fd(const struct http *http);
/* Milliseconds after which http_step has something to do though nothing is readable; -1: no such time. */
int http_wait_ms(struct http *http);
/* Does what can be done without waiting, and calls `done` of what has ended. */
void http_step(struct http *http);
/* Waits for `call` alone, for programs without a loop and for tests: returns after its `done`. */
void http_run(struct http *http, const struct http_call *call);

/* Never fails at once: whatever is wrong is told by `done`, from http_step. All that `request` points to is copied. */
struct http_call *http_start(struct http *http, const struct http_request *request, http_done *done, void *context);
/* `done` will not be called. */
void http_cancel(struct http *http, struct http_call *call);

#endif
