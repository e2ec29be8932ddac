/* See log.h. A line is built in buffers on the caller's stack; only the copy of the state is locked. */
#include "agileml/base/log.h"

#include "agileml/base/printable.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum log_format { LOG_PLAIN, LOG_TEXT, LOG_JSON };

struct log_state {
    enum log_level level;
    enum log_format format;
    bool journal; /* standard error is systemd's journal */
    char job[LOG_NAME_MAX], name[LOG_NAME_MAX], node[LOG_NAME_MAX];
};

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER; /* guards log_state */
static struct log_state log_state = {.level = LOG_WARNING, .name = "proteus"};

static struct log_state copy_state(void) {
    pthread_mutex_lock(&log_mutex);
    struct log_state state = log_state;
    pthread_mutex_unlock(&log_mutex);
    return state;
}

static void set_text(char target[LOG_NAME_MAX], const char *text) {
    pthread_mutex_lock(&log_mutex);
    snprintf(target, LOG_NAME_MAX, "%s", text);
    text_make_printable(target);
    pthread_mutex_unlock(&log_mutex);
}

void log_set_name(const char *name) {
    set_text(log_state.name, name);
}

void log_set_node(const char *name) {
    set_text(log_state.node, name);
}

/* ---- Settings ---- */

/* An option, its environment variable, and the allowed values. Any name is allowed for a job. */
static const struct setting {
    const char *option, *variable, *expected;
    const char *values[LOG_INFO + 2]; /* ends with NULL */
} LEVEL = {"--log-level", "PROTEUS_LOG_LEVEL", "error, warning or info", {"error", "warning", "info", NULL}},
  FORMAT = {"--log-format", "PROTEUS_LOG_FORMAT", "text or json", {"text", "json", NULL}},
  JOB = {"--log-job", "PROTEUS_LOG_JOB", "a name of at most 63 bytes", {NULL}};

/* Returns the option's value, else the environment variable's; NULL: neither is set. */
static const char *find_value(const struct setting *setting, const char *given) {
    const char *value = given != NULL ? given : getenv(setting->variable);
    return value != NULL && (given != NULL || value[0] != '\0') ? value : NULL;
}

static int refuse(const struct setting *setting, const char *given, const char *value, struct error *error) {
    return error_set(error, AML_EINPUT, "%s%s: expected %s, got '%.100s'",
                     given != NULL ? setting->option : setting->variable, given != NULL ? "" : " in the environment",
                     setting->expected, value);
}

/* Sets *index to the value's place in the list of allowed values, if a value is given. */
static int choose(const struct setting *setting, const char *given, unsigned *index, struct error *error) {
    const char *value = find_value(setting, given);
    for (unsigned v = 0; value != NULL && setting->values[v] != NULL; v++) {
        if (strcmp(value, setting->values[v]) == 0) {
            *index = v;
            return given != NULL && setenv(setting->variable, value, 1) != 0 ? error_set(error, AML_EFAIL, "no memory")
                                                                             : 0;
        }
    }
    return value == NULL ? 0 : refuse(setting, given, value, error);
}

static int choose_job(const char *given, struct error *error) {
    const char *value = find_value(&JOB, given);
    if (value == NULL) {
        set_text(log_state.job, "");
        return 0;
    }
    if (value[0] == '\0' || strlen(value) >= LOG_NAME_MAX) {
        return refuse(&JOB, given, value, error);
    }
    set_text(log_state.job, value);
    return setenv(JOB.variable, value, 1) != 0 ? error_set(error, AML_EFAIL, "no memory") : 0;
}

/* systemd puts the device and inode of the stream to its journal into the environment (systemd.exec(5)). */
static bool is_journal(void) {
    char ours[2 * LOG_NAME_MAX];
    struct stat status;
    const char *stream = getenv("JOURNAL_STREAM");
    if (stream == NULL || fstat(STDERR_FILENO, &status) != 0) {
        return false;
    }
    snprintf(ours, sizeof ours, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    return strcmp(stream, ours) == 0;
}

int log_set_up(const struct log_options *options, struct error *error) {
    const struct log_options none = {0};
    const struct log_options *given = options != NULL ? options : &none;
    unsigned level = LOG_WARNING;
    unsigned format = LOG_JSON; /* the number after the last value stands for "no format given": plain */
    int result = choose(&LEVEL, given->level, &level, error);
    result = result != 0 ? result : choose(&FORMAT, given->format, &format, error);
    result = result != 0 ? result : choose_job(given->job, error);
    if (result != 0) {
        return result;
    }
    pthread_mutex_lock(&log_mutex);
    log_state.level = (enum log_level)level;
    log_state.format = format == LOG_JSON ? LOG_PLAIN : (enum log_format)(format + 1);
    log_state.journal = is_journal();
    pthread_mutex_unlock(&log_mutex);
    return 0;
}

/* ---- Lines ---- */

struct log_line {
    char bytes[LOG_LINE_MAX];
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void append(struct log_line *line, const char *format, ...) {
    va_list arguments;
    size_t room = sizeof line->bytes - line->used;
    va_start(arguments, format);
    int length = vsnprintf(line->bytes + line->used, room, format, arguments);
    va_end(arguments);
    line->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

/* Appends printable text, escaped for the inside of a JSON string. The result has at most twice the text's length. */
static void append_json(struct log_line *line, const char *text) {
    for (; *text != '\0'; text++) {
        append(line, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    }
}

static void append_member(struct log_line *line, const char *key, const char *text) {
    if (text[0] != '\0') {
        append(line, "\"%s\":\"", key);
        append_json(line, text);
        append(line, "\",");
    }
}

/* Writes the present time, such as 2026-03-01T18:00:00.123Z. */
static void format_now(char text[LOG_NAME_MAX]) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(text, LOG_NAME_MAX, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + used, LOG_NAME_MAX - used, ".%03ldZ", now.tv_nsec / 1000000);
}

/* Appends everything before the message's text. `time` may be "". */
static void append_head(struct log_line *line, const struct log_state *state, enum log_level level, const char *time) {
    static const int priorities[] = {[LOG_ERROR] = 3, [LOG_WARNING] = 4, [LOG_INFO] = 6}; /* as in syslog(3) */
    if (state->journal) {
        append(line, "<%d>", priorities[level]);
    }
    if (state->format == LOG_JSON) {
        append(line, "{");
        append_member(line, "time", time);
        append_member(line, "level", LEVEL.values[level]);
        append_member(line, "job", state->job);
        append_member(line, "program", state->name);
        append_member(line, "node", state->node);
        append(line, "\"message\":\"");
        return;
    }
    if (state->format == LOG_TEXT) {
        append(line, "%s%s", state->journal ? "" : time, state->journal || time[0] == '\0' ? "" : " ");
        append(line, "%s%s", state->job, state->job[0] == '\0' ? "" : " ");
    }
    append(line, "%s%s%s%s: %s: ", state->name, state->node[0] == '\0' ? "" : "[", state->node,
           state->node[0] == '\0' ? "" : "]", LEVEL.values[level]);
}

__attribute__((format(printf, 2, 0))) static void log_write(enum log_level level, const char *format,
                                                            va_list arguments) {
    int saved_errno = errno;
    char text[LOG_TEXT_MAX];
    char time[LOG_NAME_MAX];
    struct log_line line = {.used = 0};
    struct log_state state = copy_state();
    if (level > state.level) {
        return;
    }
    errno = saved_errno; /* the format may have %m */
    if (vsnprintf(text, sizeof text, format, arguments) >= (int)sizeof text) {
        memcpy(text + sizeof text - 4, "...", 4);
    }
    text_make_printable(text);
    format_now(time);
    append_head(&line, &state, level, time);
    if (state.format == LOG_JSON) {
        append_json(&line, text);
        append(&line, "\"}\n");
    } else {
        append(&line, "%s\n", text);
    }
    /* A line that can't be written to standard error is lost, as there is no other place to report it. */
    ssize_t written;
    do {
        written = write(STDERR_FILENO, line.bytes, line.used);
    } while (written < 0 && errno == EINTR);
    errno = saved_errno;
}

void log_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_write(LOG_ERROR, format, arguments);
    va_end(arguments);
}

void log_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_write(LOG_WARNING, format, arguments);
    va_end(arguments);
}

void log_info(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    log_write(LOG_INFO, format, arguments);
    va_end(arguments);
}

void log_frame(char before[LOG_FRAME_MAX], char behind[LOG_FRAME_MAX]) {
    struct log_line line = {.used = 0};
    struct log_state state = copy_state();
    append_head(&line, &state, LOG_ERROR, "");
    snprintf(before, LOG_FRAME_MAX, "%.*s", LOG_FRAME_MAX - 1, line.bytes);
    snprintf(behind, LOG_FRAME_MAX, "%s", state.format == LOG_JSON ? "\"}" : "");
}
