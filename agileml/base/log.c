/* See log.h. A line is built in a buffer on the caller's stack; only the copy of the name is locked. */
#include "agileml/base/log.h"

#include "agileml/base/printable.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t name_mutex; /* guards name */
    char name[LOG_NAME_MAX];
} log_state = {PTHREAD_MUTEX_INITIALIZER, "proteus"};

void log_set_name(const char *name) {
    pthread_mutex_lock(&log_state.name_mutex);
    snprintf(log_state.name, sizeof log_state.name, "%s", name);
    pthread_mutex_unlock(&log_state.name_mutex);
}

/* Finishes a line for which a *printf returned `length`: cuts it if it is too long, makes it printable, and ends it
 * with a newline. Returns its length. */
static size_t log_finish_line(char line[LOG_LINE_MAX], size_t length) {
    if (length > LOG_LINE_MAX - 1) {
        length = LOG_LINE_MAX - 1;
        memcpy(line + length - 3, "...", 3);
    }
    line[length] = '\0';
    text_make_printable(line);
    line[length] = '\n';
    return length + 1;
}

__attribute__((format(printf, 2, 0))) static void log_write(const char *level, const char *format, va_list arguments) {
    int saved_errno = errno;
    char name[LOG_NAME_MAX];
    pthread_mutex_lock(&log_state.name_mutex);
    memcpy(name, log_state.name, sizeof name);
    pthread_mutex_unlock(&log_state.name_mutex);

    char line[LOG_LINE_MAX];
    int head = snprintf(line, sizeof line, "%s: %s: ", name, level);
    errno = saved_errno; /* for %m */
    int text = vsnprintf(line + head, sizeof line - (size_t)head, format, arguments);
    size_t length = log_finish_line(line, (size_t)head + (text > 0 ? (size_t)text : 0));

    /* A line that can't be written to standard error is lost: there is nowhere else to report that. */
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line, length);
    } while (written < 0 && errno == EINTR);
    errno = saved_errno;
}

void log_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_write("error", format, arguments);
    va_end(arguments);
}

void log_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_write("warning", format, arguments);
    va_end(arguments);
}
