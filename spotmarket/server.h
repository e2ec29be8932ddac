/* HTTP for the embedded cloud: libmicrohttpd behind one descriptor, driven from the caller's loop. Limits connections,
 * headers, bodies and idle time. With too many connections, closes the one whose last answer is oldest, so that slow
 * clients don't keep others out. Listens only on loopback addresses. One thread. */
#ifndef SPOTMARKET_SERVER_H
#define SPOTMARKET_SERVER_H

#include "spotmarket/service.h"

enum {
    SERVER_CONNECTIONS_MAX = 512,
    SERVER_CONNECTIONS_KEPT = 448, /* connections left after each step, so that new ones find room */
    SERVER_MEMORY = 64 << 10,      /* bytes for a connection's headers */
    SERVER_IDLE_SECONDS = 60,
    SERVER_URL = 64, /* bytes */
};

struct server;

struct server_options {
    const char *listen; /* such as "127.0.0.1:0": a loopback address and a port; 0: any port */
    struct service *service;
    struct service_clock (*clock)(void *context);
    void *context;
};

/* Returns 0, AML_EINPUT (wrong --listen) or AML_EFAIL. */
int server_open(struct server **server, const struct server_options *options, struct error *error);
void server_close(struct server *server); /* NULL is allowed */
/* Returns a URL such as "http://127.0.0.1:PORT". */
const char *server_url(const struct server *server);
/* Returns a descriptor that is readable when server_step has work. */
int server_fd(const struct server *server);
/* Returns the milliseconds until server_step has work even if the descriptor is not readable; -1: none. */
int server_wait_ms(const struct server *server);
void server_step(struct server *server);

#endif
