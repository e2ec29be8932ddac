/* Endpoints of the form tcp://HOST:PORT: checks them, and tells whether they stay on this machine and which
 * family of addresses they are of. Opens no sockets; resolves names. */
#ifndef AGILEML_NET_ENDPOINT_H
#define AGILEML_NET_ENDPOINT_H

#include "agileml/base/error.h"

#include "agileml/wire/message.h"

#include <stdbool.h>

struct endpoint {
    bool loopback;                   /* every address of HOST is in 127.0.0.0/8 or is ::1 */
    bool ipv6;                       /* no address of HOST is of IPv4; or HOST is `*` */
    char numeric[WIRE_ENDPOINT_MAX]; /* the same endpoint with HOST's first address, IPv4 if it has one */
};

/* HOST is a name, an IPv4 address or an IPv6 address in brackets; to bind it may be `*`, and PORT 0 or `*`
 * to have one chosen. 0; AML_EINPUT when `text` is malformed or HOST has no address. */
int endpoint_parse(struct endpoint *endpoint, const char *text, bool to_bind, struct error *error);

#endif
