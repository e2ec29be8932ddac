/* Endpoints of the form tcp://HOST:PORT: checks them, and finds out whether they are on this machine and whether they
 * use IPv4 or IPv6. Opens no sockets; resolves names. */
#ifndef AGILEML_NET_ENDPOINT_H
#define AGILEML_NET_ENDPOINT_H

#include "agileml/base/error.h"

#include "agileml/wire/message.h"

#include <stdbool.h>

struct endpoint {
    bool loopback;                   /* every address of HOST is in 127.0.0.0/8 or is ::1 */
    bool ipv6;                       /* HOST has no IPv4 address, or HOST is `*` */
    char numeric[WIRE_ENDPOINT_MAX]; /* the same endpoint with HOST's first address, IPv4 if it has one */
};

/* Parses an endpoint. HOST is a name, an IPv4 address or an IPv6 address in brackets. With `to_bind` HOST may be `*`,
 * and PORT may be 0 or `*`, which has the kernel choose one. Returns 0, or AML_EINPUT when `text` is malformed or HOST
 * has no address. */
int endpoint_parse(struct endpoint *endpoint, const char *text, bool to_bind, struct error *error);

/* Parses HOST, the value of --listen. Returns 0, or AML_EINPUT when it is malformed or has no address. */
int endpoint_parse_host(struct endpoint *endpoint, const char *host, struct error *error);

/* Whether HOST stands for all addresses of the machine (`*`, 0.0.0.0, [::]): others can't connect to it. */
bool endpoint_host_is_any(const char *host);

/* Whether a port follows HOST. */
bool endpoint_host_has_port(const char *host);

/* Writes tcp://HOST:PORT, where `host` is HOST:PORT, or HOST with the port of the endpoint `bound`. Returns 0, or
 * AML_EINPUT when others can't connect to `host`, or it is no host. */
int endpoint_advertise(char text[WIRE_ENDPOINT_MAX], const char *bound, const char *host, struct error *error);

#endif
