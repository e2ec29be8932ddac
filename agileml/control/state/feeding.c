/* See feeding.h. */
#include "agileml/control/state/feeding.h"

#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COMING_US = 60 * 1000 * 1000, /* time for a feeder to join, and again to make its first batch */
    WINDOW_US = 1000 * 1000,      /* the shortest window, which also has at least one clock */
    UNSTEADY_CLOCKS = 5,          /* batches are requested some clocks ahead: see NODE_FEED_AHEAD */
};

/* ---- The present feeders ---- */

/* Whether the member is a feeder that stays. */
static bool stays(const struct member *member) {
    return controller_feeds(member) && member->stay == MEMBER_STAYS;
}

/* Whether the feeder counts as working: it makes batches, or has had enough time to begin. */
static bool works(const struct controller *controller, const struct member *member) {
    return stays(member) && (member->feeding.us > 0 || controller_now(controller) >= member->joined_us + COMING_US);
}

/* Returns how many feeders count as working. */
static unsigned working(const struct controller *controller) {
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        count += works(controller, &controller->members[m]) ? 1 : 0;
    }
    return count;
}

unsigned feeding_coming(const struct controller *controller) {
    unsigned count = controller_now(controller) >= controller->features.feeding.asked_us + COMING_US
                         ? 0
                         : controller->progress.feeding.coming;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        count += stays(member) && !works(controller, member) ? 1 : 0;
    }
    return count;
}

/* Whether the controller chooses the feeder's number of threads. Other feeders keep the threads with which they were
 * started; the policy counts each of these feeders as one thread. */
static bool is_tuned(const struct member *member) {
    return stays(member) && member->threads_max > 0;
}

/* Returns how many threads each of `feeders` feeders may have: at most what every feeder can run, and at most
 * options.feeder_threads together, but at least one each. */
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
        count += stays(&controller->members[m]) ? 1 : 0;
    }
    return count;
}

/* Returns the upper limit of `wanted_threads` for the present feeders. */
static unsigned threads_max(const struct controller *controller) {
    return threads_limit(controller, present_feeders(controller));
}

/* Returns the number of threads with which each feeder is to make batches, up to its own limit; 0: the controller does
 * not choose. */
static unsigned wanted_threads(const struct controller *controller) {
    unsigned wanted = controller->progress.feeding.policy.threads;
    unsigned limit = threads_max(controller);
    return controller->options.feeders_max == 0 ? 0 : wanted < limit ? wanted : limit;
}

/* Returns the threads that each working feeder reports. While feeders still change to a new number of threads, returns
 * the smallest number. */
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

/* ---- What feeders report ---- */

static void joined(struct controller *controller, struct member *member) {
    struct feeding_kept *kept = &controller->progress.feeding;
    kept->coming -= controller_feeds(member) && kept->coming > 0 ? 1 : 0;
}

/* Takes the numbers of a feeder's heartbeat. */
static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    (void)from;
    if (member == NULL || message->type != MESSAGE_HEARTBEAT || !controller_feeds(member)) {
        return;
    }
    struct member_feeding *feeding = &member->feeding;
    uint64_t feed_us = message->heartbeat.numbers.feed_us;
    feeding->threads = (unsigned)message->heartbeat.numbers.feed_threads;
    if (feed_us >= feeding->us) {
        feeding->us = feed_us;
        feeding->heard_us = controller_now(controller);
        feeding->from_us = feeding->from_heard_us == 0 ? feed_us : feeding->from_us;
        feeding->from_heard_us = feeding->from_heard_us == 0 ? feeding->heard_us : feeding->from_heard_us;
    }
}

/* ---- The window ---- */

static void add_clock(struct feeding *window, const struct clock_window *clock) {
    if (window->since_us == 0) {
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
    controller->features.feeding = (struct feeding){.since_us = controller_now(controller),
                                                    .version = controller->plan.version,
                                                    .feeders = working(controller),
                                                    .threads = working_threads(controller),
                                                    .unsteady = controller->features.feeding.unsteady,
                                                    .asked_us = controller->features.feeding.asked_us};
}

/* Returns the mean `busy` of the working feeders. Heartbeats may be as rare as windows: without a heartbeat in the last
 * half of a window, a feeder's last value counts. */
static double busy(struct controller *controller) {
    double sum = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        struct member_feeding *feeding = &member->feeding;
        if (!works(controller, member)) {
            continue;
        }
        assert(feeding->heard_us >= feeding->from_heard_us && feeding->us >= feeding->from_us);
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
    struct feeding *window = &controller->features.feeding;
    uint64_t completed = controller->progress.completed;
    if (window->version != controller->plan.version || window->feeders != working(controller) ||
        window->threads != working_threads(controller) || controller->change.state != CHANGE_NONE ||
        stages_tries(controller)) {
        window->unsteady = completed + UNSTEADY_CLOCKS;
    }
    assert(window->clocks <= completed);
    return window->unsteady > 0 && completed - window->clocks < window->unsteady;
}

static struct feeders_view look(struct controller *controller) {
    const struct feeding *window = &controller->features.feeding;
    double seconds = (double)(controller_now(controller) - window->since_us) / 1e6;
    double trainers = (double)window->reports / (double)window->clocks;
    double items = (double)window->items;
    return (struct feeders_view){
        .feeders = working(controller),
        .feeders_max = controller->options.feeders_max,
        .coming = feeding_coming(controller),
        .threads = working_threads(controller),
        .threads_max = threads_limit(controller, working(controller)),
        .threads_next = threads_limit(controller, working(controller) + 1),
        .changed = is_changed(controller),
        .rate = items / seconds,
        .starved = trainers > 0 ? fmin((double)window->starved_us / 1e6 / (trainers * seconds), 1) : 0,
        .busy = busy(controller),
        .fed = items > 0 ? (double)window->items_fed / items : 0,
    };
}

/* ---- The decision ---- */

/* Reports a decision: its reason, and how many feeders are wanted; also their threads, if the controller chooses
 * these. */
static void tell(struct controller *controller, const char *event, const char *const *nodes, unsigned count) {
    const struct feeding_kept *kept = &controller->progress.feeding;
    json_t *object = report_new_event(controller, event, nodes, count);
    report_set_whole(object, "feeders", kept->policy.wanted);
    if (controller->options.feeder_threads > 0) {
        report_set_whole(object, "threads", kept->policy.threads);
    }
    json_object_set_new(object, "reason", report_text(kept->reason));
    controller_report(controller, report_line_text(object, false));
}

static void add_feeder(struct controller *controller) {
    struct feeding_kept *kept = &controller->progress.feeding;
    kept->coming = 1; /* an earlier requested feeder that has not come is not expected any more */
    controller->features.feeding.asked_us = controller_now(controller);
    tell(controller, "add-feeder", NULL, 0);
}

/* Evicts the feeders that have joined last. */
static void remove_feeders(struct controller *controller, unsigned wanted) {
    const char **names = memory_zeroed(controller->member_count + 1, sizeof *names);
    struct member **members = memory_zeroed(controller->member_count + 1, sizeof(struct member *));
    unsigned kept = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (stays(member) && kept++ >= wanted) {
            names[count] = member->name;
            members[count++] = member;
        }
    }
    controller->progress.feeding.coming = 0;
    tell(controller, "remove-feeders", names, count);
    for (unsigned m = 0; m < count; m++) {
        controller_evict(controller, members[m]);
    }
    free(members);
    free(names);
    persist_all(controller); /* must be stored before they are dismissed */
}

static void decide(struct controller *controller) {
    assert(controller->features.feeding.clocks > 0);
    struct feeding_kept *kept = &controller->progress.feeding;
    const struct feeders_view view = look(controller);
    char reason[FEEDERS_REASON];
    uint32_t trainers = (uint32_t)((controller->features.feeding.reports + controller->features.feeding.clocks / 2) /
                                   controller->features.feeding.clocks);
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
        tell(controller, "feeder-threads", NULL, 0);
    } else {
        tell(controller, "keep-feeders", NULL, 0);
    }
}

/* Ends the window if it is long enough. Then decides on the feeders: may request one or evict some. */
static void clock_completed(struct controller *controller, const struct clock_window *clock) {
    struct feeding *window = &controller->features.feeding;
    if (controller->options.feeders_max == 0) {
        return;
    }
    add_clock(window, clock);
    if (controller->phase != PHASE_TRAIN || controller->job.stopping) {
        return;
    }
    if (window->since_us == 0) {
        window_begin(controller);
    } else if (window->clocks > 0 && controller_now(controller) >= window->since_us + WINDOW_US) {
        decide(controller);
        window_begin(controller);
    }
}

/* ---- As others see it ---- */

static void open(struct controller *controller) {
    controller->features.feeding.asked_us = controller_now(controller);
}

static void acknowledge(const struct controller *controller, struct message_heartbeat_ack *ack) {
    ack->feed_threads = wanted_threads(controller);
}

/* In a job that has or had feeders, adds what they have done: in the iteration, or in all. */
static void report_fed(const struct controller *controller, json_t *object, bool iteration) {
    const struct controller_progress *progress = &controller->progress;
    bool present = iteration && controller_members_of_tier(controller, TIER_FEEDER) > 0;
    uint64_t items_before = iteration ? progress->iteration_items_fed : 0;
    uint64_t wait_before_us = iteration ? progress->iteration_feed_wait_us : 0;
    if (present || progress->items_fed > 0 || progress->feed_wait_us > 0) {
        report_set_whole(object, "items_fed", progress->items_fed - items_before);
        report_set_real(object, "feed_wait_seconds", (double)(progress->feed_wait_us - wait_before_us) / 1e6);
    }
}

/* The iteration's line is in the report. */
static void iteration(struct controller *controller, const struct iteration_measure *measure) {
    (void)measure;
    controller->progress.iteration_items_fed = controller->progress.items_fed;
    controller->progress.iteration_feed_wait_us = controller->progress.feed_wait_us;
}

/* If the controller chooses the number of feeders, adds that number. */
static void report(const struct controller *controller, json_t *object, enum report_type type) {
    const struct feeding_kept *kept = &controller->progress.feeding;
    report_fed(controller, object, type == REPORT_ITERATION);
    if (controller->options.feeders_max > 0 && type != REPORT_ITERATION) {
        report_set_whole(object, "feeders_wanted", kept->policy.wanted);
        report_set_whole(object, "feeders_max", controller->options.feeders_max);
        report_set_whole(object, "feeders_coming", feeding_coming(controller));
        if (controller->options.feeder_threads > 0) {
            report_set_whole(object, "feeder_threads", wanted_threads(controller));
            report_set_whole(object, "feeder_threads_max", threads_max(controller));
        }
        json_object_set_new(object, "feeders_reason", report_text(kept->reason));
    }
}

const struct feature feeding_feature = {.open = open,
                                        .joined = joined,
                                        .receive = receive,
                                        .clock = clock_completed,
                                        .iteration = iteration,
                                        .acknowledge = acknowledge,
                                        .report = report};
