/* The lines that a child writes to a pipe: the endpoint of --ready-fd, or its output. Callbacks come from the loop. */
#ifndef PROTEUS_CHILD_LINES_H
#define PROTEUS_CHILD_LINES_H

#include "agileml/net/zmq.h"

enum { CHILD_LINE_MAX = 1024 }; /* longer lines come in pieces */

struct child_lines {
    struct net_io *io; /* NULL: closed */
    int fd;
    char bytes[CHILD_LINE_MAX];
    size_t size;
    void (*line)(void *context, const char *line); /* gets the line without its end; may call child_lines_close */
    void *context;
};

/* Opens a pipe; the caller has set `line` and `context`. *write_fd is the child's end. When the child runs, the caller
 * closes its own copy of that end. Returns 0 or AML_EFAIL. */
int child_lines_open(struct child_lines *lines, struct net_io *io, int *write_fd, struct error *error);
/* Reads all available bytes. Closes the pipe at its end. */
void child_lines_read(struct child_lines *lines);
void child_lines_close(struct child_lines *lines);

#endif
