/* See ready.h. */
#include "proteus/ready.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void ready_read(void *context) {
    struct ready *ready = context;
    ssize_t size = read(ready->fd, ready->line + ready->size, sizeof ready->line - 1 - ready->size);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    ready->size += size > 0 ? (size_t)size : 0;
    char *newline = memchr(ready->line, '\n', ready->size);
    if (newline != NULL) {
        *newline = '\0';
        ready_close(ready);
        ready->done(ready->context, ready->line);
    } else if (size <= 0 || ready->size == sizeof ready->line - 1) {
        ready_close(ready);
    }
}

int ready_open(struct ready *ready, struct net_io *io, int *write_fd, struct error *error) {
    int ends[2];
    ready->size = 0;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return error_set(error, AML_EFAIL, "can't make a pipe: %s", strerror(errno));
    }
    if (net_io_watch(io, ends[0], ready_read, ready) != 0) {
        close(ends[0]);
        close(ends[1]);
        return error_set(error, AML_EFAIL, "can't wait for a child to be ready");
    }
    ready->io = io;
    ready->fd = ends[0];
    *write_fd = ends[1];
    return 0;
}

void ready_close(struct ready *ready) {
    if (ready->io != NULL) {
        net_io_watch(ready->io, ready->fd, NULL, NULL);
        close(ready->fd);
        ready->io = NULL;
    }
}
