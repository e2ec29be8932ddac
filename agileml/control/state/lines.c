/* The report's lines that are kept for observers, and their sending. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *controller_line(const struct controller *controller, size_t number) {
    bool there = number >= controller->report.first && number < controller->report.count;
    return there ? controller->report.lines[number - controller->report.first] : NULL;
}

void lines_send(struct controller *controller, const struct report_reader *observer) {
    size_t first = observer->read > controller->report.first ? observer->read : controller->report.first;
    for (size_t l = first; l < controller->report.stored && l < first + CONTROLLER_BURST_MAX; l++) {
        const char *line = controller_line(controller, l);
        struct message report = {.type = MESSAGE_REPORT};
        report.report.number = l;
        report.report.oldest = controller->report.first;
        message_add_copy(&report, line, strlen(line));
        controller_send(controller, observer->actor, &report);
    }
}

void lines_tell_observers(struct controller *controller, size_t first) {
    for (unsigned o = 0; first < controller->report.stored && o < controller->report.observer_count; o++) {
        struct report_reader at_end = {.actor = controller->report.observers[o].actor, .read = first};
        lines_send(controller, &at_end);
    }
}

unsigned lines_observer(const struct controller_report *report, actor_id actor) {
    unsigned o = 0;
    while (o < report->observer_count && report->observers[o].actor != actor) {
        o++;
    }
    return o;
}

void lines_forget_observer(struct controller_report *report, unsigned observer) {
    assert(observer < report->observer_count);
    report->observer_count--;
    report->observers[observer] = report->observers[report->observer_count];
    report->heard_us[observer] = report->heard_us[report->observer_count];
}

void lines_add(struct controller_report *report, char *line) {
    assert(report->pruned <= report->first && report->first <= report->count && report->stored <= report->count);
    size_t kept = report->count - report->first;
    if (kept == CONTROLLER_LINES_MAX) {
        size_t dropped = CONTROLLER_LINES_MAX / 4; /* many at once, so that moving the others is rare */
        for (size_t l = 0; l < dropped; l++) {
            free(report->lines[l]);
        }
        kept -= dropped;
        memmove(report->lines, report->lines + dropped, kept * sizeof *report->lines);
        report->first += dropped;
    }
    report->lines = memory_resized(report->lines, kept + 1, sizeof *report->lines);
    report->lines[kept] = line;
    report->count++;
}

void lines_drop_last(struct controller_report *report) {
    assert(report->count > report->first && report->count > report->stored);
    report->count--;
    free(report->lines[report->count - report->first]);
}
