/* See child_lines.h. */
#include "proteus/child_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Calls back with the first `size` bytes as a line. Drops the first `behind` bytes. */
static void take_line(struct child_lines *lines, size_t size, size_t behind) {
    char line[CHILD_LINE_MAX];
    memcpy(line, lines->bytes, size);
    line[size] = '\0';
    lines->size -= behind;
    memmove(lines->bytes, lines->bytes + behind, lines->size);
    lines->line(lines->context, line);
}

static void take_lines(struct child_lines *lines) {
    char *newline;
    while (lines->io != NULL && (newline = memchr(lines->bytes, '\n', lines->size)) != NULL) {
        size_t size = (size_t)(newline - lines->bytes);
        take_line(lines, size, size + 1);
    }
    if (lines->io != NULL && lines->size == sizeof lines->bytes - 1) {
        take_line(lines, lines->size, lines->size);
    }
}

void child_lines_read(struct child_lines *lines) {
    while (lines->io != NULL) {
        ssize_t size = read(lines->fd, lines->bytes + lines->size, sizeof lines->bytes - 1 - lines->size);
        if (size < 0 && errno == EINTR) {
            continue;
        }
        if (size < 0 && errno == EAGAIN) {
            return;
        }
        if (size <= 0) {
            if (lines->size > 0) {
                take_line(lines, lines->size, lines->size);
            }
            child_lines_close(lines);
            return;
        }
        lines->size += (size_t)size;
        take_lines(lines);
    }
}

static void readable(void *context) {
    child_lines_read(context);
}

int child_lines_open(struct child_lines *lines, struct net_io *io, int *write_fd, struct error *error) {
    int ends[2];
    lines->size = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set(error, AML_EFAIL, "can't make a pipe: %s", strerror(errno));
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (net_io_watch(io, ends[0], readable, lines) != 0) {
        close(ends[0]);
        close(ends[1]);
        return error_set(error, AML_EFAIL, "can't wait for what a child writes");
    }
    lines->io = io;
    lines->fd = ends[0];
    *write_fd = ends[1];
    return 0;
}

void child_lines_close(struct child_lines *lines) {
    if (lines->io != NULL) {
        net_io_watch(lines->io, lines->fd, NULL, NULL);
        close(lines->fd);
        lines->io = NULL;
    }
}
