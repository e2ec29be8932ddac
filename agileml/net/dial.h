/* Finds out, by one attempt to connect, whether a process listens at an endpoint. A running machine refuses the
 * connection at once if no process listens. Sends nothing, resolves no names. */
#ifndef AGILEML_NET_DIAL_H
#define AGILEML_NET_DIAL_H

#include <stdbool.h>

enum dial_result {
    DIAL_UNKNOWN, /* no answer, or the network has failed */
    DIAL_LISTENS,
    DIAL_REFUSED
};

/* Begins to connect to tcp://HOST:PORT, with HOST a numeric address. Returns a descriptor, which becomes writable when
 * the result is known, and which the caller closes. Returns -1 if the endpoint is malformed or no descriptor is left.
 * *refused: the result is known already, DIAL_REFUSED. */
int dial_begin(const char *endpoint, bool *refused);
/* Returns the attempt's result. The descriptor is still to be closed. */
enum dial_result dial_end(int fd);

#endif
