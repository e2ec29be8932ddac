/* Messages for people and for collectors of logs, on standard error: one line each. Not for progress or results, which
 * a program prints itself, and not for hot loops.
 *
 * --log-format, or PROTEUS_LOG_FORMAT in the environment, chooses the format of a line:
 *   neither   mf[node-2]: warning: TEXT
 *   text      2026-03-01T18:00:00.123Z JOB mf[node-2]: warning: TEXT
 *   json      {"time":"...","level":"warning","job":"JOB","program":"mf","node":"node-2","message":"TEXT"}
 * A line names the node once the node has a name, and the job if --log-job gives one. When standard error is systemd's
 * journal, each line begins with its priority, such as <4> (sd-daemon(3)). The text format then has no time, as the
 * journal records it.
 *
 * The log is the only global state in AgileML, because standard error is global. A mutex guards it, and is held only
 * while the state is copied. So any thread may call all functions at any time, but not from a signal handler and not
 * between fork and exec. Each line is one write(2) below a pipe's atomic size, so lines of several threads and
 * processes do not mix. The functions preserve errno. */
#ifndef AGILEML_BASE_LOG_H
#define AGILEML_BASE_LOG_H

#include "agileml/base/error.h"
#include "agileml/types.h"

enum {
    LOG_NAME_MAX = 64,   /* bytes of a name with its final NUL; longer names are cut */
    LOG_TEXT_MAX = 1024, /* bytes of a line's text with its final NUL; longer ones are cut and end in "..." */
    LOG_LINE_MAX = 3072, /* bytes of a line with its newline */
    LOG_FRAME_MAX = 640, /* bytes before or after the text */
};

enum log_level {
    LOG_ERROR,
    LOG_WARNING, /* errors and warnings: the default */
    LOG_INFO     /* also events of the job */
};

/* The options' values. NULL: not given, so the environment decides. */
struct log_options {
    const char *level, *format, *job;
};

/* Entries of a table for options_parse, with a --help topic of their own. `options` is a struct log_options. */
/* clang-format off */
#define LOG_OPTIONS(options)                                                                                           \
    OPTIONS_TOPIC("logs", "standard error"),                                                                           \
    {"log-level", "LEVEL", AML_OPTION_STRING, &(options).level, 0, 0,                                                  \
     "what to write: error, warning (and errors), or info (what happens, too)"},                                       \
    {"log-format", "FORMAT", AML_OPTION_STRING, &(options).format, 0, 0,                                               \
     "text (with the time) or json; not given: text without the time"},                                                \
    {"log-job", "NAME", AML_OPTION_STRING, &(options).job, 0, 0, "the job's name in lines with the time"}
/* clang-format on */

/* Takes the settings from the options, or else from the environment. Puts them into the environment, so that child
 * processes log alike. Call it after parsing the command line; until then the settings are the defaults. `options`
 * may be NULL. No other thread may be running, as the environment changes. Returns 0 or AML_EINPUT. */
int log_set_up(const struct log_options *options, struct error *error);

/* Sets the program's name, such as "proteus" or "mf". Copies it. "proteus" until set. */
void log_set_name(const char *name);
/* Sets the node's name, such as "node-2". Copies it. */
void log_set_node(const char *name);

/* The text may quote a peer or a file: text_make_printable is applied to it. */
__attribute__((format(printf, 1, 2))) void log_error(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_warn(const char *format, ...);
__attribute__((format(printf, 1, 2))) void log_info(const char *format, ...);

/* Writes what comes before and after an error's text, for a signal handler, which writes its lines itself. The line
 * has no time. The text between must be printable and contain neither '"' nor '\'. */
void log_frame(char before[LOG_FRAME_MAX], char behind[LOG_FRAME_MAX]);

#endif
