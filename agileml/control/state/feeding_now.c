/* The present feeders of the job and their threads, for feeding.c's decisions, for the report and for messages. See
 * controller_private.h. */
#include "agileml/control/state/controller_private.h"

enum { COMING_US = 60 * 1000 * 1000 /* time for a feeder to join, and again to make its first batch */ };

bool feeding_stays(const struct member *member) {
    return controller_feeds(member) && member->stay == MEMBER_STAYS;
}

bool feeding_works(const struct controller *controller, const struct member *member) {
    return feeding_stays(member) &&
           (member->feeding.us > 0 || controller_now(controller) >= member->joined_us + COMING_US);
}

unsigned feeding_working(const struct controller *controller) {
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        count += feeding_works(controller, &controller->members[m]) ? 1 : 0;
    }
    return count;
}

unsigned feeding_coming(const struct controller *controller) {
    unsigned count = controller_now(controller) >= controller->clocks.feeding.asked_us + COMING_US
                         ? 0
                         : controller->progress.feeding.coming;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        count += feeding_stays(member) && !feeding_works(controller, member) ? 1 : 0;
    }
    return count;
}

/* Whether the controller chooses the feeder's number of threads. Other feeders keep the threads with which they were
 * started; the policy counts each of these feeders as one thread. */
static bool is_tuned(const struct member *member) {
    return feeding_stays(member) && member->threads_max > 0;
}

unsigned feeding_threads_limit(const struct controller *controller, unsigned feeders) {
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
        count += feeding_stays(&controller->members[m]) ? 1 : 0;
    }
    return count;
}

unsigned feeding_threads_max(const struct controller *controller) {
    return feeding_threads_limit(controller, present_feeders(controller));
}

unsigned feeding_threads(const struct controller *controller) {
    unsigned wanted = controller->progress.feeding.policy.threads;
    unsigned limit = feeding_threads_max(controller);
    return controller->options.feeders_max == 0 ? 0 : wanted < limit ? wanted : limit;
}

unsigned feeding_member_threads(const struct member *member) {
    return member->feeding.threads > 0 ? member->feeding.threads : member->node.threads;
}

unsigned feeding_working_threads(const struct controller *controller) {
    unsigned threads = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (feeding_works(controller, member) && is_tuned(member)) {
            threads = threads == 0 || member->feeding.threads < threads ? member->feeding.threads : threads;
        }
    }
    return threads > 0 ? threads : 1;
}
