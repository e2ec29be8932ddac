/* The elasticity controller's use of feeders.h: forms windows of completed clocks, lets the policy decide after each,
 * and carries out its answer. `proteus run` starts the feeder that an event `add-feeder` asks for; feeders that are to
 * go are evicted. Each HEARTBEAT_ACK says how many threads a feeder is to have, each HEARTBEAT how many it has. See
 * controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_US = 1000 * 1000,      /* a window is at least so long, and at least one clock */
    UNSTEADY_CLOCKS = 5,          /* batches are asked for some clocks ahead: see NODE_FEED_AHEAD */
    COMING_US = 60 * 1000 * 1000, /* how long a feeder may take to join, and then to make its first batch */
};

static bool has_passed(const struct controller *controller, uint64_t since_us, uint64_t us) {
    return controller_now(controller) >= since_us + us;
}

static bool is_feeder(const struct member *member) {
    return controller_feeds(member) && member->stay == MEMBER_STAYS;
}

/* Whether the feeder makes batches, or has had so much time to begin that it counts all the same. */
static bool works(const struct controller *controller, const struct member *member) {
    return is_feeder(member) && (member->feeding.us > 0 || has_passed(controller, member->joined_us, COMING_US));
}

static unsigned working_feeders(const struct controller *controller) {
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        count += works(controller, &controller->members[m]) ? 1 : 0;
    }
    return count;
}

unsigned feeding_coming(const struct controller *controller) {
    unsigned count = has_passed(controller, controller->clocks.feeding.asked_us, COMING_US)
                         ? 0
                         : controller->progress.feeding.coming;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        count += is_feeder(member) && !works(controller, member) ? 1 : 0;
    }
    return count;
}

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

/* ---- Threads ---- */

/* Whether the feeder has as many threads as the controller says. The others stay with those they were started with, and
 * the policy takes each of these for one thread. */
static bool is_tuned(const struct member *member) {
    return is_feeder(member) && member->threads_max > 0;
}

/* Returns how many threads each feeder may have if there are so many feeders: the most that all can have, and together
 * no more than options.feeder_threads, but one each. */
static unsigned threads_limit(const struct controller *controller, unsigned feeders) {
    unsigned limit = controller->options.feeder_threads / (feeders > 0 ? feeders : 1);
    bool any = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (is_tuned(member)) {
            limit = member->threads_max < limit ? member->threads_max : limit;
            any = true;
        }
    }
    return any && limit > 0 ? limit : 1;
}

static unsigned present_feeders(const struct controller *controller) {
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        count += is_feeder(&controller->members[m]) ? 1 : 0;
    }
    return count;
}

unsigned feeding_threads_max(const struct controller *controller) {
    return threads_limit(controller, present_feeders(controller));
}

unsigned feeding_threads(const struct controller *controller) {
    unsigned wanted = controller->progress.feeding.policy.threads;
    unsigned limit = feeding_threads_max(controller);
    return controller->options.feeders_max == 0 ? 0 : wanted < limit ? wanted : limit;
}

unsigned feeding_member_threads(const struct member *member) {
    return member->feeding.threads > 0 ? member->feeding.threads : member->node.threads;
}

/* Returns the threads of each feeder that works, as they report them: the fewest, until all have done what they were
 * told. */
static unsigned working_threads(const struct controller *controller) {
    unsigned threads = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (works(controller, member) && is_tuned(member)) {
            threads = threads == 0 || member->feeding.threads < threads ? member->feeding.threads : threads;
        }
    }
    return threads > 0 ? threads : 1;
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
                                                             .feeders = working_feeders(controller),
                                                             .threads = working_threads(controller),
                                                             .unsteady = controller->clocks.feeding.unsteady,
                                                             .asked_us = controller->clocks.feeding.asked_us};
}

/* Returns the mean over the feeders that work. Heartbeats may be as rare as windows: where there was none within half a
 * window, the last value stands. */
static double busy(struct controller *controller) {
    double sum = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        struct member_feeding *feeding = &member->feeding;
        if (!works(controller, member)) {
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

/* Whether something other than the work of trainers and feeders has an effect on the window. */
static bool is_changed(struct controller *controller) {
    struct controller_feeding *window = &controller->clocks.feeding;
    uint64_t completed = controller->progress.completed;
    if (window->version != controller->plan.version || window->feeders != working_feeders(controller) ||
        window->threads != working_threads(controller) || controller->change.state != CHANGE_NONE ||
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
        .feeders = working_feeders(controller),
        .feeders_max = controller->options.feeders_max,
        .coming = feeding_coming(controller),
        .threads = working_threads(controller),
        .threads_max = threads_limit(controller, working_feeders(controller)),
        .threads_next = threads_limit(controller, working_feeders(controller) + 1),
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
    kept->coming = 1; /* one that did not come in time is not waited for any more */
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
        if (is_feeder(member) && kept++ >= wanted) {
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
    persist_all(controller); /* before they are dismissed */
}

static void decide(struct controller *controller) {
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
    } else if (action.act == FEEDERS_SET_THREADS) { /* feeders get it with the next HEARTBEAT_ACK */
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
    } else if (window->clocks > 0 && has_passed(controller, window->since_us, WINDOW_US)) {
        decide(controller);
        window_begin(controller);
    }
}
