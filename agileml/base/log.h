/* Messages for people and for collectors of logs, on standard error: one line each. Not for progress or results, which
 * a program prints itself, and not for hot loops.
 *
 * A line is, by --log-format or PROTEUS_LOG_FORMAT in the environment:
 *   neither   mf[node-2]: warning: TEXT
 *   text      2026-03-01T18:00:00.123Z JOB mf[node-2]: warning: TEXT
 *   json      {"time":"...","level":"warning","job":"JOB","program":"mf","node":"node-2","message":"TEXT"}
 * The node stands there once it has a name, the job if --log-job names it. When standard error is systemd's journal,
 * each line begins with its priority, such as <4> (sd-daemon(3)), and text has no time, as the journal keeps it.
 *
 * The log is the only global state in AgileML, because standard error is global. A mutex guards it, and is held only to
 * copy it. So all functions may be called from any thread at any time, but not from a signal handler, and not between
 * fork and exec. Each line is one write(2), less than a pipe's atomic size, so lines of several threads and processes
 * do not mix. errno is kept. */
#ifndef AGILEML_BASE_LOG_H
#define AGILEML_BASE_LOG_H

#include "agileml/base/error.h"
#include "agileml/types.h"

enum {
    LOG_NAME_MAX = 64,   /* bytes of a name with its final NUL; longer names are cut */
    LOG_TEXT_MAX = 1024, /* bytes of a line's text with its final NUL; longer ones are cut and end in "..." */
    LOG_LINE_MAX = 3072, /* bytes of a line with its newline */
    LOG_FRAME_MAX = 640, /* bytes of what stands before or behind the text */
};

enum log_level {
    LOG_ERROR,
    LOG_WARNING, /* and errors: the default */
    LOG_INFO     /* and what happens to the job */
};

/* The options' values; NULL: not given, the environment counts. */
struct log_options {
    const char *level, *format, *job;
};

/* Entries of a table for options_parse; `options` is a struct log_options. */
#define LOG_OPTIONS(options)                                                                                           \
    {"log-level",                                                                                                      \
     "LEVEL",                                                                                                          \
     AML_OPTION_STRING,                                                                                                \
     &(options).level,                                                                                                 \
     0,                                                                                                                \
     0,                                                                                                                \
     "what to write to standard error: error, warning (and errors), or info (what happens, too)"},                     \
        {"log-format",                                                                                                 \
         "FORMAT",                                                                                                     \
         AML_OPTION_STRING,                                                                                            \
         &(options).format,                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         "of these lines: text (with the time) or json; not given: as text, without the time"},                        \
    {                                                                                                                  \
        "log-job", "NAME", AML_OPTION_STRING, &(options).job, 0, 0, "the job's name in lines with the time"            \
    }

/* Takes the settings from the options, or else from the environment, and puts them into the environment, so that child
 * processes log alike. Call it once the command line is parsed; until then the settings are the defaults. `options` may
 * be NULL. Changes the environment, so no other thread may be running. Returns 0 or AML_EINPUT. */
int log_set_up(const struct log_options *options, struct error *error);

/* Sets the program's name, such as "proteus" or "mf". Copies it. "proteus" until set. */
void log_set_name(const char *name);
/* Sets the node's name, such as "node-2". Copies it. */
void log_set_node(const char *name);

/* The text may quote a peer or a file: text_make_printable is applied to it. */
__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_warn(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_info(const char *format, ...);

/* Writes what stands before and behind the text of an error, for a signal handler, which writes its lines itself. There
 * is no time in it. The text between must be printable, and have neither '"' nor '\'. */
void log_frame(char before[LOG_FRAME_MAX], char behind[LOG_FRAME_MAX]);

#endif
