/* The HTTP server of a job: its page, its report so far and as it is written, its status, and requests to it
 * (docs/proteus.md, "The page of a running job").
 *
 * The process that has the report feeds the server from its own thread, which copies texts and nothing else; the server
 * has two threads of its own, one for connections, one that resumes those that wait and writes the history's file. All
 * functions but web_open and web_close may be called from any thread and don't block for long. */
#ifndef WEB_SERVER_H
#define WEB_SERVER_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WEB_CONNECTIONS_MAX = 600,
    WEB_CONNECTION_BYTES = 32 << 10, /* of a connection's memory: its request's line and headers, too */
    WEB_BODY_MAX = 64 << 10,         /* bytes of a request's body */
    WEB_IDLE_S = 30,                 /* a connection over which nothing moves for so long is closed */
    WEB_KEEPALIVE_S = 15,            /* a stream without lines sends a comment so often */
    WEB_RECENT_BYTES = 4 << 20,      /* of the last lines, for streams */
    WEB_SESSIONS_MAX = 64,           /* logins by cookie; the oldest goes */
    WEB_ACTIONS_MAX = 16,            /* requests that wait for the job at once */
    WEB_ANSWER_S = 30,               /* after which a request to the job is answered with 504 */
    WEB_STATUS_MS = 1000,            /* least age of a status before it is made anew ... */
    WEB_STATUS_NODE_MS = 10,         /* ... and for each node */
    WEB_ALIVE_S = 10,                /* the feeding thread is alive if it was heard in the last so many seconds */
    WEB_CLOSE_MS = 1000,             /* web_close waits so long until streams have the last lines */
    WEB_TOKEN_MIN = 16,              /* characters of a token */
    WEB_TOKEN_MAX = 256,
    WEB_ADDRESS_MAX = 320,
};

/* What a POST asks the job for. */
enum web_action_kind { WEB_EVICT, WEB_STOP, WEB_CHECKPOINT };
struct web_action {
    uint64_t number; /* for web_answer */
    enum web_action_kind kind;
    char (*nodes)[64]; /* WEB_EVICT: their names */
    size_t node_count;
    uint32_t notice_ms; /* WEB_EVICT */
    bool now;           /* WEB_STOP: as failed, nothing is saved */
};

/* What the page is about. */
enum web_subject {
    WEB_JOB,
    WEB_MONEY /* BidBrain's lines money and decision alone: nothing to ask a job for, no metrics of one */
};

struct web;

struct web_options {
    enum web_subject subject;
    const char *listen;              /* "HOST:PORT", "[IPV6]:PORT", or "auto": 127.0.0.1 and a free port */
    const char *token;               /* file; NULL: none */
    const char *certificate, *key;   /* files (PEM); NULL: no TLS */
    const char *client_ca;           /* file (PEM); NULL: clients need no certificate */
    bool insecure;                   /* other addresses than loopback without token and certificates */
    const char *history;             /* file that keeps the history; NULL: none */
    void (*fill)(void *context, struct web *web); /* calls web_line with the lines that are there already, before
                                                     anyone can ask; NULL: none */
    void (*wake)(void *context);     /* called from any thread: the feeding thread is to call web_serve soon */
    void *context;
};

/* Entries of a table for options_parse; `options` is a struct web_options. */
#define WEB_OPTIONS(options)                                                                                           \
    {"http",                                                                                                           \
     "HOST:PORT",                                                                                                      \
     AML_OPTION_STRING,                                                                                                \
     &(options).listen,                                                                                                \
     0,                                                                                                                \
     0,                                                                                                                \
     "serve a page for browsers, and metrics; auto: on this machine, at a free port"},                                 \
        {"http-token",                                                                                                 \
         "FILE",                                                                                                       \
         AML_OPTION_STRING,                                                                                            \
         &(options).token,                                                                                             \
         0,                                                                                                            \
         0,                                                                                                            \
         "of a secret, 16 characters or more, that the page asks for, and that requests which change the job need"},   \
        {"http-cert", "FILE", AML_OPTION_STRING, &(options).certificate, 0, 0, "the page's certificate (PEM): HTTPS"}, \
        {"http-cert-key", "FILE", AML_OPTION_STRING, &(options).key, 0, 0, "the certificate's key (PEM, mode 0600)"},  \
    {                                                                                                                  \
        "http-client-ca", "FILE", AML_OPTION_STRING, &(options).client_ca, 0, 0,                                       \
            "readers of the page need a certificate of this authority (PEM)"                                           \
    }

/* Checks the options without opening anything. Returns 0 or AML_EINPUT. */
int web_check(const struct web_options *options, struct error *error);
/* Listens. Returns 0, AML_EINPUT (options, files, address in use) or AML_EFAIL. */
int web_open(struct web **web, const struct web_options *options, struct error *error);
/* Sends streams the last lines, then closes all. NULL is allowed. */
void web_close(struct web *web);
/* Returns "http://127.0.0.1:PORT/". */
const char *web_address(const struct web *web);

/* Takes the report's line `number`. A line that the history's file has already is there for streams only. */
void web_line(struct web *web, uint64_t number, const char *text, size_t size);
/* Returns the number of the line that the server lacks: 0, or where the history's file ends. */
uint64_t web_next(const struct web *web);
/* Returns whether a status is wanted now. */
bool web_wants_status(struct web *web);
/* Takes the status, and how many nodes it names. */
void web_status(struct web *web, const char *text, size_t size, size_t nodes);
/* Whether the job is in training: then it is ready for load balancers. */
void web_ready(struct web *web, bool ready);
/* The feeding thread is alive. To be called a few times a second. */
void web_alive(struct web *web);
/* Returns whether there is an action to be carried out; *action is then the caller's, for web_action_close. */
bool web_take_action(struct web *web, struct web_action *action);
void web_action_close(struct web_action *action);
/* Answers an action: `code` 0, or an error with a text. */
void web_answer(struct web *web, uint64_t number, int code, const char *text);

#endif
