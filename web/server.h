/* The HTTP server of a job: its page, its report so far and as it grows, its status, and requests to it
 * (docs/proteus.md, "The page of a running job").
 *
 * The process with the report feeds the server from its own thread; this only copies texts. The server has two threads:
 * one for connections; one that resumes waiting connections and writes the history's file. All functions but web_open
 * and web_close may be called from any thread, and don't block for long. */
#ifndef WEB_SERVER_H
#define WEB_SERVER_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEB_CONNECTIONS_MAX = 600,
    WEB_CONNECTION_BYTES = 32 << 10, /* memory per connection, including its request line and headers */
    WEB_BODY_MAX = 64 << 10,         /* bytes of a request's body */
    WEB_IDLE_S = 30,                 /* idle connections are closed after this time */
    WEB_KEEPALIVE_S = 15,            /* time between two comments in a stream without lines */
    WEB_RECENT_BYTES = 4 << 20,      /* bound of the latest lines, kept for streams */
    WEB_SESSIONS_MAX = 64,           /* logins by cookie; a new login drops the oldest */
    WEB_ACTIONS_MAX = 16,            /* most requests that wait for the job */
    WEB_ANSWER_S = 30,               /* a request to the job gets a 504 after this time */
    WEB_STATUS_MS = 1000,            /* a status younger than this is not made again */
    WEB_STATUS_NODE_MS = 10,         /* added to WEB_STATUS_MS for each node */
    WEB_ALIVE_S = 10,                /* the feeding thread counts as alive if it was heard within this time */
    WEB_CLOSE_MS = 1000,             /* how long web_close waits for streams to get the last lines */
    WEB_TOKEN_MIN = 16,              /* least characters of a token */
    WEB_TOKEN_MAX = 256,
    WEB_ADDRESS_MAX = 320,
};

/* A POST request to the job. */
enum web_action_kind { WEB_EVICT, WEB_STOP, WEB_CHECKPOINT };
struct web_action {
    uint64_t number; /* identifies the action for web_answer */
    enum web_action_kind kind;
    char (*nodes)[64]; /* WEB_EVICT: names of the nodes */
    size_t node_count;
    uint32_t notice_ms; /* WEB_EVICT: time until the nodes are gone */
    bool now;           /* WEB_STOP: ends the job as failed, without saving */
};

/* The subject of the page. */
enum web_subject {
    WEB_JOB,
    WEB_MONEY /* only BidBrain's lines money and decision: no requests to a job, no metrics of a job */
};

struct web;

struct web_options {
    enum web_subject subject;
    const char *listen;            /* "HOST:PORT", "[IPV6]:PORT", or "auto": 127.0.0.1 and a free port */
    const char *token;             /* path of the token's file; NULL: none */
    const char *certificate, *key; /* files (PEM); NULL: no TLS */
    const char *client_ca;         /* file (PEM); NULL: clients need no certificate */
    /* allow addresses other than loopback without token and certificates */
    bool insecure;
    const char *history; /* file for the history; NULL: none */
    /* calls web_line for all existing lines, before any client is served; NULL: none */
    void (*fill)(void *context, struct web *web);
    void (*wake)(void *context); /* called from any thread: the feeding thread must call web_take_action soon */
    void *context;
};

/* Entries for an option table (options_parse), with their own topic; `options` is a struct web_options. */
/* clang-format off */
#define WEB_OPTIONS(options)                                                                                           \
    OPTIONS_TOPIC("page", "for browsers, metrics"),                                                                   \
    {"http", "HOST:PORT", AML_OPTION_STRING, &(options).listen, 0, 0,                                                  \
     "serve the page there; auto: on this machine, at a free port"},                                                   \
    {"http-token", "FILE", AML_OPTION_STRING, &(options).token, 0, 0,                                                  \
     "of a secret, 16 characters or more, that the page asks for, and that requests which change the job need"},       \
    {"http-cert", "FILE", AML_OPTION_STRING, &(options).certificate, 0, 0, "the page's certificate (PEM): HTTPS"},     \
    {"http-cert-key", "FILE", AML_OPTION_STRING, &(options).key, 0, 0, "the certificate's key (PEM, mode 0600)"},      \
    {"http-client-ca", "FILE", AML_OPTION_STRING, &(options).client_ca, 0, 0,                                          \
     "readers of the page need a certificate of this authority (PEM); with --http-cert"}
/* clang-format on */

/* Checks the options without opening anything. Returns 0 or AML_EINPUT. */
int web_check(const struct web_options *options, struct error *error);
/* Starts to listen. Returns 0, AML_EINPUT (options, files, address in use) or AML_EFAIL. */
int web_open(struct web **web, const struct web_options *options, struct error *error);
/* Sends the last lines to streams, then closes everything. NULL is allowed. */
void web_close(struct web *web);
/* Returns an address such as "http://127.0.0.1:PORT/". */
const char *web_address(const struct web *web);

/* Takes the report's line `number`. If the history's file already has the line, it goes only to streams. */
void web_line(struct web *web, uint64_t number, const char *text, size_t size);
/* Returns the number of the next line that the server needs: 0, or where the history's file ends. */
uint64_t web_next(const struct web *web);
/* Returns whether a status is wanted now. */
bool web_wants_status(struct web *web);
/* Takes a status that lists `nodes` nodes. */
void web_status(struct web *web, const char *text, size_t size, size_t nodes);
/* Sets whether the job is in training, and thus ready for load balancers. */
void web_ready(struct web *web, bool ready);
/* Reports that the feeding thread is alive. Call it a few times a second. */
void web_alive(struct web *web);
/* Returns whether there is an action to carry out. The caller owns *action, and frees it with web_action_close. */
bool web_take_action(struct web *web, struct web_action *action);
void web_action_close(struct web_action *action);
/* Answers an action: `code` is 0, or an error with a text. */
void web_answer(struct web *web, uint64_t number, int code, const char *text);

#endif
