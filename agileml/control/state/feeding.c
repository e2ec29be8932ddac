/* The elasticity controller's use of the policy in feeders.h. Forms windows of completed clocks, lets the policy decide
 * after each window, and carries out its answer. The event `add-feeder` requests a feeder, which `proteus run` starts.
 * Superfluous feeders are evicted. HEARTBEAT_ACK has the wanted number of a feeder's threads, HEARTBEAT the present
 * number. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_US = 1000 * 1000, /* the shortest window, which also has at least one clock */
    UNSTEADY_CLOCKS = 5,     /* batches are requested some clocks ahead: see NODE_FEED_AHEAD */
};

void feeding_joined(struct controller *controller) {
    struct feeding_kept *kept = &controller->progress.feeding;
    kept->coming -= kept->coming > 0 ? 1 : 0;
}

void feeding_heard(const struct controller *controller, struct member *member, const struct message_heartbeat *beat) {
    struct member_feeding *feeding = &member->feeding;
    uint64_t feed_us = beat->feed_us;
    feeding->threads = beat->feed_threads;
    if (feed_us >= feeding->us) {
        feeding->us = feed_us;
        feeding->heard_us = controller_now(controller);
        feeding->from_us = feeding->from_heard_us == 0 ? feed_us : feeding->from_us;
        feeding->from_heard_us = feeding->from_heard_us == 0 ? feeding->heard_us : feeding->from_heard_us;
    }
}

/* ---- The window ---- */

void feeding_count(struct controller *controller, const struct clock_window *clock) {
    struct controller_feeding *window = &controller->clocks.feeding;
    if (controller->options.feeders_max == 0 || window->since_us == 0) {
        return;
    }
    window->clocks++;
    for (unsigned r = 0; r < clock->count; r++) {
        const struct clock_report *report = &clock->reports[r];
        if (!report->evaluation && !origin_is_catch_up(report->origin)) {
            window->reports++;
            window->items += report->items;
            window->items_fed += report->items_fed;
            window->starved_us += report->starved_us;
        }
    }
}

static void window_begin(struct controller *controller) {
    controller->clocks.feeding = (struct controller_feeding){.since_us = controller_now(controller),
                                                             .version = controller->plan.version,
                                                             .feeders = feeding_working(controller),
                                                             .threads = feeding_working_threads(controller),
                                                             .unsteady = controller->clocks.feeding.unsteady,
                                                             .asked_us = controller->clocks.feeding.asked_us};
}

/* Returns the mean `busy` of the working feeders. Heartbeats may be as rare as windows: without a heartbeat in the last
 * half of a window, a feeder's last value counts. */
static double busy(struct controller *controller) {
    double sum = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        struct member_feeding *feeding = &member->feeding;
        if (!feeding_works(controller, member)) {
            continue;
        }
        uint64_t lasted_us = feeding->heard_us - feeding->from_heard_us;
        if (lasted_us >= WINDOW_US / 2) {
            feeding->busy = fmin((double)(feeding->us - feeding->from_us) / (double)lasted_us, 1);
            feeding->from_us = feeding->us;
            feeding->from_heard_us = feeding->heard_us;
        }
        sum += feeding->busy;
        count++;
    }
    return count > 0 ? sum / count : 0;
}

/* Whether anything else than the work of trainers and feeders has influenced the window. */
static bool is_changed(struct controller *controller) {
    struct controller_feeding *window = &controller->clocks.feeding;
    uint64_t completed = controller->progress.completed;
    if (window->version != controller->plan.version || window->feeders != feeding_working(controller) ||
        window->threads != feeding_working_threads(controller) || controller->change.state != CHANGE_NONE ||
        controller->tuner.trial != STAGE_AUTO) {
        window->unsteady = completed + UNSTEADY_CLOCKS;
    }
    return window->unsteady > 0 && completed - window->clocks < window->unsteady;
}

static struct feeders_view look(struct controller *controller) {
    const struct controller_feeding *window = &controller->clocks.feeding;
    double seconds = (double)(controller_now(controller) - window->since_us) / 1e6;
    double trainers = (double)window->reports / (double)window->clocks;
    double items = (double)window->items;
    return (struct feeders_view){
        .feeders = feeding_working(controller),
        .feeders_max = controller->options.feeders_max,
        .coming = feeding_coming(controller),
        .threads = feeding_working_threads(controller),
        .threads_max = feeding_threads_limit(controller, feeding_working(controller)),
        .threads_next = feeding_threads_limit(controller, feeding_working(controller) + 1),
        .changed = is_changed(controller),
        .rate = items / seconds,
        .starved = trainers > 0 ? fmin((double)window->starved_us / 1e6 / (trainers * seconds), 1) : 0,
        .busy = busy(controller),
        .fed = items > 0 ? (double)window->items_fed / items : 0,
    };
}

/* ---- The decision ---- */

static void add_feeder(struct controller *controller) {
    struct feeding_kept *kept = &controller->progress.feeding;
    kept->coming = 1; /* an earlier requested feeder that has not come is not expected any more */
    controller->clocks.feeding.asked_us = controller_now(controller);
    controller_report(controller, report_feeders(controller, "add-feeder", NULL, 0));
}

/* Evicts the feeders that have joined last. */
static void remove_feeders(struct controller *controller, unsigned wanted) {
    const char **names = memory_zeroed(controller->member_count + 1, sizeof *names);
    struct member **members = memory_zeroed(controller->member_count + 1, sizeof(struct member *));
    unsigned kept = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (feeding_stays(member) && kept++ >= wanted) {
            names[count] = member->name;
            members[count++] = member;
        }
    }
    controller->progress.feeding.coming = 0;
    controller_report(controller, report_feeders(controller, "remove-feeders", names, count));
    for (unsigned m = 0; m < count; m++) {
        controller_evict(controller, members[m]);
    }
    free(members);
    free(names);
    persist_all(controller); /* must be stored before they are dismissed */
}

static void decide(struct controller *controller) {
    assert(controller->clocks.feeding.clocks > 0);
    struct feeding_kept *kept = &controller->progress.feeding;
    const struct feeders_view view = look(controller);
    char reason[FEEDERS_REASON];
    uint32_t trainers = (uint32_t)((controller->clocks.feeding.reports + controller->clocks.feeding.clocks / 2) /
                                   controller->clocks.feeding.clocks);
    if (!view.changed && trainers != kept->trainers) {
        if (kept->trainers != 0) {
            feeders_begin_anew(&kept->policy);
        }
        kept->trainers = trainers;
    }
    struct feeders_action action = feeders_decide(&kept->policy, &view, reason);
    if (reason[0] == '\0') {
        return;
    }
    memcpy(kept->reason, reason, sizeof kept->reason);
    if (action.act == FEEDERS_ADD) {
        add_feeder(controller);
    } else if (action.act == FEEDERS_REMOVE || action.act == FEEDERS_BASELINE) {
        remove_feeders(controller, action.feeders);
    } else if (action.act == FEEDERS_SET_THREADS) { /* feeders get the number with the next HEARTBEAT_ACK */
        controller_report(controller, report_feeders(controller, "feeder-threads", NULL, 0));
    } else {
        controller_report(controller, report_feeders(controller, "keep-feeders", NULL, 0));
    }
}

void feeding_step(struct controller *controller) {
    struct controller_feeding *window = &controller->clocks.feeding;
    if (controller->options.feeders_max == 0 || controller->phase != PHASE_TRAIN || controller->job.stopping) {
        return;
    }
    if (window->since_us == 0) {
        window_begin(controller);
    } else if (window->clocks > 0 && controller_now(controller) >= window->since_us + WINDOW_US) {
        decide(controller);
        window_begin(controller);
    }
}
