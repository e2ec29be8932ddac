/* Checks whether members' reports are possible. A correct node reports nothing impossible, however late, repeated or
 * out of order its messages arrive. A node with an impossible report has failed, and the report has no effect. Part of
 * the elasticity controller; see controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t possible_clock(const struct controller *controller) {
    const struct job_terms *job = &controller->job.terms;
    uint64_t completed = controller->progress.completed;
    /* A node is at most WIRE_PROGRESS_MAX clocks ahead of its own stored PROGRESS, which may be staleness + 1 steps
     * ahead of the completed clock. Under S-MA a step is a group of up to local_steps clocks. */
    uint64_t ahead = completed + WIRE_PROGRESS_MAX + (job->staleness + UINT64_C(2)) * job->local_steps;
    uint64_t last = job->iterations > 0 ? job->iterations * job->clocks_per_iteration : WIRE_CLOCK_NEVER;
    last = last > completed ? last : completed; /* a resumed job may be beyond its last clock */
    return ahead < last ? ahead : last;
}

/* Returns the highest clock that the member can have begun. Feeders begin none. */
static uint64_t possible_for(const struct controller *controller, const struct member *member) {
    return controller_feeds(member) ? 0 : possible_clock(controller);
}

/* Gives up the member. `format` says which impossible message it has sent. */
__attribute__((format(printf, 3, 4))) static void fail(struct controller *controller, struct member *member,
                                                       const char *format, ...) {
    char sent[ERROR_TEXT_MAX / 2];
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sent, sizeof sent, format, arguments);
    va_end(arguments);
    snprintf(text, sizeof text, "%s (%s, pid %llu) sent what can't be: %s", member->name, member->host,
             (unsigned long long)member->process_id, sent);
    controller_lose(controller, member, text);
}

/* A number in a message, and its highest possible value. */
struct limited {
    const char *name;
    uint64_t value, most;
};

/* Whether each number is possible. If not, gives up the member. */
static bool within(struct controller *controller, struct member *member, const char *message,
                   const struct limited *numbers, unsigned count) {
    for (unsigned n = 0; n < count; n++) {
        if (numbers[n].value > numbers[n].most) {
            fail(controller, member, "%s with %s %llu, at most %llu is possible", message, numbers[n].name,
                 (unsigned long long)numbers[n].value, (unsigned long long)numbers[n].most);
            return false;
        }
    }
    return true;
}

static bool check_heartbeat(struct controller *controller, struct member *member, const struct message *message) {
    const struct message_heartbeat *beat = &message->heartbeat;
    uint64_t clock = possible_clock(controller);
    const struct limited numbers[] = {
        {"epoch", message->epoch, controller->plan.epoch},
        {"plan", beat->version, controller->plan.version},
        {"ready for plan", beat->ready, beat->version},
        {"barrier", beat->barrier, controller->barrier.number},
        {"clock", beat->clock, possible_for(controller, member)},
        {"committed clock", beat->committed, clock},
        {"feeding threads", beat->numbers.feed_threads,
         member->threads_max > member->node.threads ? member->threads_max : member->node.threads},
    };
    return within(controller, member, "HEARTBEAT", numbers, sizeof numbers / sizeof *numbers);
}

static bool check_progress(struct controller *controller, struct member *member, const struct message *message) {
    const struct message_progress *report = &message->progress;
    uint64_t clock = possible_for(controller, member);
    const struct limited numbers[] = {{"clock", report->clock, clock},
                                      {"clocks without work", report->idle, report->clock > 0 ? report->clock - 1 : 0},
                                      {"committed clock", report->committed, clock}};
    if (actor_node(report->origin) != member->node.actor) {
        const struct member *other = controller_find_member(controller, actor_node(report->origin));
        fail(controller, member, "PROGRESS of %s", other != NULL ? other->name : "a node that is not in the job");
        return false;
    }
    return within(controller, member, "PROGRESS", numbers, sizeof numbers / sizeof *numbers);
}

static bool has_server(const struct member *member, actor_id server) {
    const struct wire_endpoint *endpoints = (const void *)member->endpoints->data;
    for (size_t e = 0; e < member->endpoints->size / sizeof *endpoints; e++) {
        if (endpoints[e].actor == server) {
            return true;
        }
    }
    return false;
}

static bool check_fenced(struct controller *controller, struct member *member, const struct message *message) {
    size_t count;
    const struct wire_restore_point *restore_points = records_restore_points(message, &count);
    uint64_t clock = possible_clock(controller);
    const struct limited numbers[] = {{"begun clock", message->fenced.begun, clock},
                                      {"committed clock", message->fenced.committed, clock}};
    if (!within(controller, member, "FENCED", numbers, sizeof numbers / sizeof *numbers)) {
        return false;
    }
    bool awaited = message->epoch == controller->plan.epoch && controller->change.state == CHANGE_RECOVER;
    if (awaited && message->fenced.begun < member->reported.clock) {
        fail(controller, member, "FENCED with begun clock %llu, but the node reported clock %llu before",
             (unsigned long long)message->fenced.begun, (unsigned long long)member->reported.clock);
        return false;
    }
    for (size_t r = 0; r < count; r++) {
        const struct limited point[] = {
            {"partition", restore_points[r].partition, controller->options.policy.partitions - 1},
            {"restore point", restore_points[r].clock, clock},
            {"restore point of a cache", restore_points[r].cache, 1}};
        if (!has_server(member, restore_points[r].server)) {
            fail(controller, member, "FENCED with a restore point of a server that is not its own");
            return false;
        }
        if (!within(controller, member, "FENCED", point, sizeof point / sizeof *point)) {
            return false;
        }
    }
    return true;
}

bool possible_check(struct controller *controller, struct member *member, const struct message *message) {
    if (controller->phase >= PHASE_LEAVE) {
        return true; /* the job is over: members' reports have no effect any more */
    }
    switch ((unsigned)message->type) {
    case MESSAGE_HEARTBEAT:
        return check_heartbeat(controller, member, message);
    case MESSAGE_PROGRESS:
        return check_progress(controller, member, message);
    case MESSAGE_FENCED:
        return check_fenced(controller, member, message);
    default:
        return true;
    }
}

/* ---- All members' FENCED together ---- */

/* Returns the first clock with work for the member that the member has not begun, as its FENCED reports. */
static uint64_t first_to_begin(const struct controller *controller, const struct member *member) {
    const struct schedule *schedule = &controller->plan.schedule;
    uint64_t first = WIRE_CLOCK_NEVER;
    for (unsigned i = 0; i < schedule->part_count; i++) {
        uint64_t from = schedule->parts[i].from_clock;
        uint64_t until = i + 1 < schedule->part_count ? schedule->parts[i + 1].from_clock : WIRE_CLOCK_NEVER;
        from = from > member->fence.begun ? from : member->fence.begun + 1;
        if (from < until && from < first && schedule_count(schedule, member->node.actor, from) > 0) {
            first = from;
        }
    }
    return first;
}

/* Returns the highest clock whose complete state the member claims to have, as a restore point or as committed. */
static uint64_t claimed_clock(const struct member *member) {
    uint64_t clock = member->fence.committed;
    for (size_t r = 0; member->fence.restore_points != NULL &&
                       r < member->fence.restore_points->size / sizeof(struct wire_restore_point);
         r++) {
        const struct wire_restore_point *reach =
            (const struct wire_restore_point *)(const void *)member->fence.restore_points->data + r;
        clock = reach->clock > clock ? reach->clock : clock;
    }
    return clock;
}

/* Two members that contradict each other: the denier has begun the fewest clocks, the claimant claims the latest
 * state. */
struct contradiction {
    uint64_t first; /* the clock that `denier` has not begun */
    uint64_t claim; /* the clock whose state `claimant` claims */
    char denier[WIRE_NAME_MAX], claimant[WIRE_NAME_MAX];
};

static bool claims(const struct member *member, const struct contradiction *found) {
    return claimed_clock(member) >= found->first;
}

static bool denies(const struct controller *controller, const struct member *member,
                   const struct contradiction *found) {
    return member->stay != MEMBER_DISMISSED && first_to_begin(controller, member) <= found->claim;
}

static struct contradiction find_contradiction(const struct controller *controller) {
    struct contradiction found = {.first = WIRE_CLOCK_NEVER};
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        uint64_t first = member->stay == MEMBER_DISMISSED ? WIRE_CLOCK_NEVER : first_to_begin(controller, member);
        if (first < found.first) {
            found.first = first;
            memcpy(found.denier, member->name, sizeof found.denier);
        }
        if (claimed_clock(member) > found.claim) {
            found.claim = claimed_clock(member);
            memcpy(found.claimant, member->name, sizeof found.claimant);
        }
    }
    return found;
}

/* Whether the claimants are believed, and not the deniers, which report that they have not begun the clock. The larger
 * group is believed. Of equal groups the claimants are believed if every origin has already reported the denied clock,
 * otherwise the deniers. */
static bool claim_stands(const struct controller *controller, const struct contradiction *found) {
    unsigned claimants = 0;
    unsigned deniers = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        claimants += claims(&controller->members[m], found) ? 1 : 0;
        deniers += denies(controller, &controller->members[m], found) ? 1 : 0;
    }
    return claimants > deniers || (claimants == deniers && found->first <= controller->progress.completed);
}

bool possible_check_fenced(struct controller *controller) {
    const struct contradiction found = find_contradiction(controller);
    if (found.claim < found.first) {
        return true;
    }
    bool stands = claim_stands(controller, &found);
    unsigned before = controller->member_count;
    for (unsigned m = controller->member_count; m-- > 0 && controller->phase < PHASE_LEAVE;) {
        struct member *member = &controller->members[m];
        if (stands && denies(controller, member, &found)) {
            fail(controller, member, "FENCED with clock %llu not begun, but %s has the state of clock %llu",
                 (unsigned long long)first_to_begin(controller, member), found.claimant,
                 (unsigned long long)found.claim);
        } else if (!stands && claims(member, &found)) {
            fail(controller, member, "FENCED with the state of clock %llu, but %s has not begun clock %llu",
                 (unsigned long long)claimed_clock(member), found.denier, (unsigned long long)found.first);
        }
    }
    assert(controller->member_count < before || controller->phase >= PHASE_LEAVE);
    return false;
}
