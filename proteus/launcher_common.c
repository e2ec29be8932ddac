/* What the launcher's parts share: its times, phases and verdicts, requests to the controller, and writing the
 * report. */
#include "proteus/launcher_private.h"

#include "agileml/base/memory.h"
#include "agileml/wire/report_line.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t launcher_now(const struct launcher *launcher) {
    struct io *io = net_io_of(launcher->io);
    return io->now_us(io);
}

uint64_t launcher_after(const struct launcher *launcher, unsigned ms) {
    return launcher_now(launcher) + ms * UINT64_C(1000);
}

void launcher_set_phase(struct launcher *launcher, enum launcher_phase phase) {
    static const enum launcher_phase next[] = {[LAUNCHER_CHECK] = LAUNCHER_START,
                                               [LAUNCHER_START] = LAUNCHER_JOB,
                                               [LAUNCHER_JOB] = LAUNCHER_END,
                                               [LAUNCHER_END] = LAUNCHER_END};
    assert(phase == next[launcher->phase] || phase == LAUNCHER_END);
    launcher->phase = phase;
}

void launcher_wake(const struct launcher *launcher) {
    struct io *io = net_io_of(launcher->io);
    io->set_timer(io, io->now_us(io));
}

void launcher_kill_all(struct launcher *launcher) {
    launcher_set_phase(launcher, LAUNCHER_END);
    launcher->start_us = launcher->kill_us = 0;
    launcher->verdicts.kill = true;
    launcher_wake(launcher);
}

void launcher_fail(struct launcher *launcher, int code, const char *format, ...) {
    assert(code != 0);
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_set(&launcher->error, code, "%s", text);
    launcher_kill_all(launcher);
}

void launcher_stop(struct launcher *launcher, int code, const char *text) {
    assert(code != 0 && launcher->phase == LAUNCHER_JOB);
    launcher->stop.code = code;
    snprintf(launcher->stop.text, sizeof launcher->stop.text, "%s", text);
    launcher->start_us = 0;
    launcher->kill_us = launcher_after(launcher, LAUNCHER_STOP_WAIT_MS);
    launcher->verdicts.stop = true;
    launcher_wake(launcher);
}

double launcher_start_timeout(const struct launcher *launcher) {
    double shortest = launcher->market != NULL ? LAUNCHER_MARKET_START_S : LAUNCHER_START_MIN_S;
    double least = fmax(launcher->options->job->failure_timeout, shortest);
    return least + (double)launcher->first_nodes / LAUNCHER_STARTS_PER_S;
}

/* ---- Requests ---- */

static void request_nodes(struct launcher *launcher, struct message message, const unsigned *nodes, unsigned count) {
    char(*names)[WIRE_NAME_MAX] = memory_zeroed(count, sizeof *names);
    const char **each = memory_zeroed(count, sizeof *each);
    for (unsigned n = 0; n < count; n++) {
        snprintf(names[n], sizeof names[n], "node-%u", nodes[n] + 1);
        each[n] = names[n];
    }
    observer_request_nodes(&launcher->observer, message, each, count);
    free(each);
    free(names);
}

void launcher_evict(struct launcher *launcher, const unsigned *nodes, unsigned count, double notice) {
    struct message evict = {.type = MESSAGE_EVICT, .evict.notice_ms = (uint32_t)fmin(notice * 1e3, UINT32_MAX)};
    request_nodes(launcher, evict, nodes, count);
}

void launcher_gone(struct launcher *launcher, const unsigned *nodes, unsigned count, int signal) {
    struct message gone = {.type = MESSAGE_GONE, .gone.signal = (uint32_t)signal};
    request_nodes(launcher, gone, nodes, count);
}

void launcher_remind(struct launcher *launcher) {
    if (!launcher->controller.process.running || (launcher->phase != LAUNCHER_JOB && !launcher->observer.ended)) {
        return;
    }
    observer_ask_lines(&launcher->observer);
    observer_repeat_requests(&launcher->observer);
    if (launcher->stop.code != 0 && !launcher->observer.ended) {
        struct io *io = net_io_of(launcher->io);
        struct message stop = {.type = MESSAGE_STOP, .text = launcher->stop};
        io->send(io, ACTOR_CONTROLLER, &stop);
    }
}

/* ---- The report ---- */

void launcher_write_line(struct launcher *launcher, json_t *line) {
    char *text = report_line_text(line, false);
    report_file_write(launcher->report, text, strlen(text));
    progress_write(launcher->progress, text, strlen(text));
    free(text);
}

void launcher_show(struct launcher *launcher, json_t *line) {
    struct report_line *shown = report_line_of(line);
    launcher_write_line(launcher, line);
    progress_report(launcher->progress, shown);
    report_line_drop(shown);
}
