/* What a child says once it is ready: one line, on a pipe that it was given by --ready-fd. Told from the loop. */
#ifndef PROTEUS_READY_H
#define PROTEUS_READY_H

#include "agileml/net/zmq.h"

enum { READY_LINE_MAX = 256 };

struct ready {
    struct net_io *io; /* NULL: closed */
    int fd;
    char line[READY_LINE_MAX];
    size_t size;
    void (*done)(void *context, const char *line); /* not called when the child ends, or says more: SIGCHLD tells */
    void *context;
};

/* `done` and `context` are set. *write_fd is the child's end: the caller closes its own copy once the child runs. 0 or
 * AML_EFAIL. */
int ready_open(struct ready *ready, struct net_io *io, int *write_fd, struct error *error);
void ready_close(struct ready *ready);

#endif
