/* Messages for people on standard error: one line each, "NAME: LEVEL: TEXT". Not for progress or
 * results, which a program prints itself, and not for hot loops.
 *
 * The log is the only global state in AgileML, because standard error is global. The state is the name, and a mutex
 * that is held only to copy the name. So all functions may be called from any thread at any time, but not from a signal
 * handler, and not between fork and exec. Each line is one write(2) of at most LOG_LINE_MAX bytes, less than a pipe's
 * atomic size, so lines of several threads and processes do not mix. errno is kept. */
#ifndef AGILEML_BASE_LOG_H
#define AGILEML_BASE_LOG_H

enum {
    LOG_NAME_MAX = 64,   /* bytes of the name with its final NUL; longer names are cut */
    LOG_LINE_MAX = 1024, /* bytes of a line with its newline; longer lines are cut and end in "..." */
};

/* Sets the name that begins each line, such as "proteus" or "mf[node-2]". Copies the name. "proteus" until set. */
void log_set_name(const char *name);

/* The text may quote a peer or a file: text_make_printable is applied to it. */
__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_warn(const char *format, ...);

#endif
