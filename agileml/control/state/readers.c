/* See readers.h. */
#include "agileml/control/state/readers.h"

#include "agileml/control/state/controller_private.h"
#include "agileml/control/state/observer.h"

#include <assert.h>
#include <stdio.h>

_Static_assert(OBSERVER_BURST == CONTROLLER_BURST_MAX / 2,
               "observers ask for more lines while half of a burst is still to come");

/* Forgets the observers that have lost their places. */
static void forget_gone(struct controller *controller, uint64_t now_us) {
    struct controller_report *report = &controller->report;
    for (unsigned o = report->observer_count; o-- > 0;) {
        if (now_us >= report->heard_us[o] + CONTROLLER_OBSERVER_GONE_US) {
            lines_forget_observer(report, o);
        }
    }
}

/* After a restart of the controller, observers have as long to be heard as if they had just been heard. */
static void open(struct controller *controller) {
    for (unsigned o = 0; o < controller->report.observer_count; o++) {
        controller->report.heard_us[o] = controller_now(controller);
    }
}

static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    struct controller_report *report = &controller->report;
    (void)member;
    if (message->type != MESSAGE_OBSERVE) {
        return;
    }
    unsigned o = lines_observer(report, from);
    bool known = o < report->observer_count;
    if (!known && report->observer_count == CONTROLLER_OBSERVERS_MAX) {
        forget_gone(controller, controller_now(controller));
        o = report->observer_count;
    }
    if (o == CONTROLLER_OBSERVERS_MAX) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%d observers read this job's report already: expected one to end",
                 CONTROLLER_OBSERVERS_MAX);
        controller_send_abort(controller, from, AML_ELIMIT, text);
        return;
    }
    struct report_reader *observer = &report->observers[o];
    report->heard_us[o] = controller_now(controller);
    if (!known) {
        *observer = (struct report_reader){.actor = from};
        report->observer_count++;
        if (!persist_all(controller)) { /* so that a restarted controller also waits for this observer at the end */
            return;
        }
    }
    size_t before = observer->read;
    uint64_t read = message->observe.from;
    observer->read = read < report->count ? (size_t)read : report->count;
    if (controller->phase == PHASE_LEAVE && observer->read >= before + OBSERVER_BURST) {
        uint64_t end_us = controller_now(controller) + CONTROLLER_END_WAIT_US;
        controller->end.observers_us = end_us > controller->end.observers_us ? end_us : controller->end.observers_us;
    }
    lines_send(controller, observer);
}

/* The observer has time to connect again. */
static void broke(struct controller *controller, actor_id peer) {
    struct controller_report *report = &controller->report;
    unsigned o = lines_observer(report, peer);
    uint64_t until_us = controller_now(controller) + IO_RECONNECT_US;
    if (o < report->observer_count && report->heard_us[o] + CONTROLLER_OBSERVER_GONE_US > until_us) {
        report->heard_us[o] = until_us - CONTROLLER_OBSERVER_GONE_US;
    }
}

static void check(struct controller *controller, uint64_t now_us) {
    if (controller->phase < PHASE_LEAVE) { /* at the end the controller waits for all of them, but not long */
        forget_gone(controller, now_us);
    }
}

const struct feature readers_feature = {.open = open, .receive = receive, .broke = broke, .check = check};
