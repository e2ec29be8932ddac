/* HTTP requests that don't block: libcurl's multi interface behind one descriptor, so that any event loop can drive
 * many requests on one thread. Keeps connections and uses them again. Does not interpret answers and does not retry.
 *
 * TLS certificates are always verified, by the system's authorities or those of AWS_CA_BUNDLE, CURL_CA_BUNDLE,
 * SSL_CERT_FILE and SSL_CERT_DIR. Plain http is allowed for every address, as metadata services have nothing else; the
 * caller has to insist on https where it is needed. Redirects are not followed. Proxies (https_proxy ...) are used,
 * but not for loopback and link-local addresses. When the server has closed a kept connection, libcurl sends the
 * request once more by itself. Received bytes are wiped from memory after `done`, as they may hold a secret. All
 * functions are called by one thread. */
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
    HTTP_CONNECT_MS = 10 * 1000, /* the part of the timeout in which the connection must stand */
    HTTP_HEAD_MAX = 1 << 16,     /* bytes of an answer's header lines; more is an error */
    HTTP_STALL_BYTES = 1024,
    HTTP_ANSWER_MAX_DEFAULT = 1 << 26, /* bytes of a body; a larger one is an error */
};

struct http;
struct http_call;

struct http_request {
    const char *method; /* "GET", "HEAD", "DELETE", "POST", "PUT" */
    const char *url;
    const char *headers[HTTP_HEADERS_MAX]; /* "name: value", up to the first NULL */
    const void *body;                      /* of POST and PUT; copied, unless it is lent */
    size_t body_size;
    bool body_lent;   /* `body` stays as it is until `done` was called or the call was cancelled */
    void *room;       /* where the answer's body is written: answer_max bytes of the caller's; NULL: into memory of the
                         call */
    uint32_t stall_s; /* ends the call when less than HTTP_STALL_BYTES a second have moved for so long; 0: never */
    uint32_t timeout_ms; /* for the whole request, from when it is sent; 0: HTTP_TIMEOUT_MS_DEFAULT */
    size_t answer_max;   /* 0: HTTP_ANSWER_MAX_DEFAULT */
};

struct http_answer {
    int status;       /* 200 ...; 0: no complete answer has arrived, and `error` says why */
    const char *body; /* in the call's memory, a 0 byte follows; lives until `done` returns */
    size_t body_size;
    const char *head;            /* the header lines; lives until `done` returns. See http_header */
    int64_t date;                /* the Date header, seconds since 1970; 0: none */
    char error[HTTP_ERROR_TEXT]; /* never holds a header or a body of the request */
    bool lasting;                /* a retry would fail, too: the URL, the host's name or the certificate is wrong */
};

/* Called once, with the call's answer. It may start and cancel calls. The answer is valid until it returns. */
typedef void http_done(void *context, const struct http_answer *answer);

/* 0 or AML_EFAIL. */
int http_open(struct http **http, struct error *error);
/* Uses the authorities of this file from now on, unless AWS_CA_BUNDLE names some. */
void http_trust(struct http *http, const char *certificates);
/* Drops calls under way without calling their `done`. Must not be called from a `done`. NULL is allowed. */
void http_close(struct http *http);

/* Returns a descriptor that is readable when http_step has something to do. It never changes. */
int http_fd(const struct http *http);
/* Returns after how many milliseconds http_step is to be called even if nothing is readable; -1: no such time. */
int http_wait_ms(struct http *http);
/* Makes progress without waiting, and calls `done` for each call that has ended. */
void http_step(struct http *http);
/* Waits for `call` alone, for programs without a loop and for tests: returns after its `done`. */
void http_run(struct http *http, const struct http_call *call);

/* Starts a call. Does not fail: http_step reports every error by `done`. Copies everything that `request` points to. */
struct http_call *http_start(struct http *http, const struct http_request *request, http_done *done, void *context);
/* Cancels a call whose `done` was not called yet, and never calls it. */
void http_cancel(struct http *http, struct http_call *call);

/* Copies the value of the answer's first header `name`, in any case, without blanks around it. Returns false, and sets
 * `value` to "", when there is no such header or its value is longer than size - 1 bytes. */
bool http_header(const struct http_answer *answer, const char *name, char *value, size_t size);

#endif
