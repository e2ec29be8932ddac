/* HTTP requests that don't block: libcurl's multi interface behind one descriptor, so that any event loop can drive
 * many requests on one thread. Connections are kept and used again. Says nothing about what answers mean, retries
 * nothing.
 *
 * TLS certificates are always verified, by the system's authorities or those of AWS_CA_BUNDLE, CURL_CA_BUNDLE,
 * SSL_CERT_FILE and SSL_CERT_DIR; plain http is allowed for every address (metadata services have nothing else), it
 * is for the caller to insist on https. Redirects are not followed; proxies (https_proxy ...) are used, but not for
 * loopback and link-local addresses. A request that meets a kept connection which the server has closed is sent once
 * more by libcurl itself. What was received is wiped from memory after `done`: it may hold a secret. One thread. */
#ifndef AGILEML_NET_HTTP_H
#define AGILEML_NET_HTTP_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_HEADERS_MAX = 16,    /* of a request */
    HTTP_ERROR_TEXT = 256,    /* bytes */
    HTTP_CONCURRENT_MAX = 16, /* requests under way; others wait */
    HTTP_TIMEOUT_MS_DEFAULT = 30 * 1000,
    HTTP_CONNECT_MS = 10 * 1000,       /* of the timeout, for the connection alone */
    HTTP_HEAD_MAX = 1 << 16,           /* bytes of an answer's header lines; more is an error */
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
    uint32_t timeout_ms; /* for all of it, from when it is under way; 0: the default */
    size_t answer_max;   /* 0: the default */
};

struct http_answer {
    int status;       /* 200 ...; 0: no whole answer has come, and `error` says why */
    const char *body; /* a 0 byte follows; lives until `done` returns */
    size_t body_size;
    const char *head;            /* its header lines; lives as long. See http_header */
    int64_t date;                /* the Date header, seconds since 1970; 0: none */
    char error[HTTP_ERROR_TEXT]; /* never holds a header or a body of the request */
    bool lasting; /* the error is one that asking again does not mend: the URL, the host's name, its certificate */
};

/* `error` and `http` are the caller's again when it returns; it may start and cancel calls. */
typedef void http_done(void *context, const struct http_answer *answer);

/* 0 or AML_EFAIL. */
int http_open(struct http **http, struct error *error);
/* Calls under way are dropped: their `done` is not called. Not from a `done`. NULL is allowed. */
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
/* `done` will not be called. Not for a call whose `done` has been. */
void http_cancel(struct http *http, struct http_call *call);

/* The value of the answer's first header `name`, any case, without blanks around it. False: there is none, or it is
 * longer than size - 1 bytes; `value` is "" then. */
bool http_header(const struct http_answer *answer, const char *name, char *value, size_t size);

#endif
