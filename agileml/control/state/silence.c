/* See silence.h. */
#include "agileml/control/state/silence.h"

#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t timeout_us(const struct controller *controller) {
    return controller->options.timeout_ms * UINT64_C(1000);
}

/* Returns the silence after which a member is reported as silent and does not count as lively. */
static uint64_t half_timeout_us(const struct controller *controller) {
    return timeout_us(controller) / 2;
}

/* Gives every member a whole timeout, counted from when its connection must be restored: connections may be broken. */
static void begin_anew(struct controller *controller, uint64_t now_us) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].silence.heard_us = now_us + IO_RECONNECT_US;
        controller->members[m].silence.lively_us = 0;
    }
    controller->features.silence.doubt_until_us = 0;
}

static void heard(const struct controller *controller, struct member *member) {
    uint64_t now_us = controller_now(controller);
    if (now_us < member->silence.heard_us) {
        return; /* the message may have waited while this controller was stopped; its sender may be gone */
    }
    if (member->silence.lively_us == 0 || silence_of(member, now_us) > half_timeout_us(controller)) {
        member->silence.lively_us = now_us;
    }
    member->silence.heard_us = now_us;
}

/* If this controller itself was stopped, subtracts that time from each member's silence, and from the time that nodes
 * and observers have at the job's end. */
static void discount(struct controller *controller, uint64_t now_us) {
    uint64_t late_us = now_us > controller->times.tick_us ? now_us - controller->times.tick_us : 0;
    bool long_stop = late_us > half_timeout_us(controller);
    if (!long_stop && late_us <= controller->options.heartbeat_ms * UINT64_C(1000)) {
        return;
    }
    controller->end.observers_us += late_us;
    controller->end.members_us += late_us;
    if (long_stop) {
        begin_anew(controller, now_us);
        controller->times.began_us += late_us;
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        member->silence.heard_us = io_excused(member->silence.heard_us, late_us, now_us);
    }
}

bool silence_is_lively(const struct controller *controller, const struct member *member, uint64_t now_us) {
    return member->silence.lively_us != 0 && silence_of(member, now_us) <= half_timeout_us(controller);
}

static bool is_silent(const struct controller *controller, const struct member *member, uint64_t now_us) {
    return silence_of(member, now_us) > timeout_us(controller);
}

/* Delays all failures when most members fall silent at once, as the cause may be this controller's own connections.
 * Sends to the silent members once more, which also makes broken connections fail. Gives the members time to answer
 * over new connections. */
static bool doubts_itself(struct controller *controller, uint64_t now_us) {
    unsigned silent = 0;
    unsigned present = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        present += member->stay == MEMBER_DISMISSED ? 0 : 1;
        silent += member->stay != MEMBER_DISMISSED && is_silent(controller, member, now_us) ? 1 : 0;
    }
    if (2 * silent <= present) {
        controller->features.silence.doubt_until_us = 0;
        return false;
    }
    if (controller->features.silence.doubt_until_us == 0) {
        uint64_t half_us = half_timeout_us(controller);
        controller->features.silence.doubt_until_us = now_us + (IO_RECONNECT_US > half_us ? IO_RECONNECT_US : half_us);
        controller_send_acks(controller);
    }
    return now_us < controller->features.silence.doubt_until_us;
}

static void check_silent(struct controller *controller, uint64_t now_us) {
    for (unsigned m = controller->member_count; m-- > 0 && controller->phase < PHASE_LEAVE;) {
        struct member *member = &controller->members[m];
        if (!is_silent(controller, member, now_us)) {
            continue;
        }
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "no heartbeat for %.1f s from %s (%s, pid %llu)",
                 (double)silence_of(member, now_us) / 1e6, member->name, member->host,
                 (unsigned long long)member->process_id);
        controller_lose(controller, member, text);
    }
}

/* Takes a heartbeat's accusation: the member can't reach the node `accused`; ACTOR_NONE: it reaches every node that it
 * needs. Accusations of earlier epochs are settled. */
static void accuse(struct controller *controller, struct member *member, const struct message *message) {
    actor_id accused = message->epoch == controller->plan.epoch ? message->heartbeat.silent : ACTOR_NONE;
    if (member->silence.accuses != accused) {
        member->silence.accuses = accused;
        member->silence.accused_us = controller_now(controller);
    }
}

/* Returns the node that a member accuses, or NULL. Accusations of a dismissed node don't count: it may be gone while
 * the accuser, with an older plan, still needs it. */
static struct member *accused_by(struct controller *controller, const struct member *member) {
    struct member *accused =
        member->stay == MEMBER_DISMISSED ? NULL : controller_find_member(controller, member->silence.accuses);
    return accused == NULL || accused->stay == MEMBER_DISMISSED ? NULL : accused;
}

/* Whether an accusation counts. The accuser must have repeated it for half a timeout, in which this controller heard
 * the accused all the time. Otherwise the accused will be given up for its own silence, or has just been resumed. If
 * the victim is reliable, the accusation must have lasted for the answer timeout, as the victim may have the only copy
 * of some state. (Not in stage traditional, where any loss ends the job.) The accused must have had the newest plan so
 * long, as it accepts only nodes that its plan names. answers.c gives up nodes that take too long to accept a plan. */
static bool is_confirmed(const struct controller *controller, const struct member *accuser,
                         const struct member *accused, enum node_tier victim, uint64_t now_us) {
    uint64_t accused_us = accuser->silence.accused_us;
    uint64_t lively_us = accused->silence.lively_us;
    uint64_t since_us = accused_us > lively_us ? accused_us : lively_us;
    since_us = accused->goes_by.told_us > since_us ? accused->goes_by.told_us : since_us;
    bool patient = victim == TIER_RELIABLE && controller->plan.stage != STAGE_TRADITIONAL;
    uint64_t least_us = patient ? controller->options.answer_ms * UINT64_C(1000) : 0;
    return accused->goes_by.version >= controller->plan.version && silence_is_lively(controller, accused, now_us) &&
           now_us > since_us + half_timeout_us(controller) && now_us > accused_us + least_us;
}

/* Gives up the accused or the accuser when a node can't reach another node that this controller hears. */
static void check_accusations(struct controller *controller, uint64_t now_us) {
    for (unsigned m = 0; m < controller->member_count && controller->phase < PHASE_LEAVE; m++) {
        struct member *accuser = &controller->members[m];
        struct member *accused = accused_by(controller, accuser);
        if (accused == NULL || controller_recovers(controller)) {
            continue;
        }
        unsigned accusers = 0;
        for (unsigned o = 0; o < controller->member_count; o++) {
            accusers += accused_by(controller, &controller->members[o]) == accused ? 1 : 0;
        }
        bool alone = accusers == 1 && controller->member_count > 2;
        bool keep =
            !controller_feeds(accused) && (controller_trusted_tier(controller, accused) == TIER_RELIABLE ||
                                           (alone && controller_trusted_tier(controller, accuser) == TIER_TRANSIENT));
        bool accuser_goes = keep && controller_trusted_tier(controller, accuser) == TIER_TRANSIENT;
        struct member *victim = accuser_goes ? accuser : accused;
        if (!is_confirmed(controller, accuser, accused, controller_trusted_tier(controller, victim), now_us)) {
            continue;
        }
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s (%s) can't reach %s (%s, pid %llu)", accuser->name, accuser->host,
                 accused->name, accused->host, (unsigned long long)accused->process_id);
        controller_lose(controller, victim, text);
        return; /* other accusations may have the same cause */
    }
}

/* Reports silent nodes before they are given up, so that users see what a stopped job waits for. All nodes that become
 * silent between two ticks share one line, and so do all that are heard again. So a network failure does not fill the
 * report. */
static void report_silent(struct controller *controller, uint64_t now_us) {
    uint64_t longest_us = 0;
    unsigned silent = 0;
    unsigned heard = 0;
    const char **names = memory_zeroed(2 * controller->member_count + 1, sizeof *names);
    const char **heard_names = names + controller->member_count;
    for (unsigned m = 0; m < controller->member_count && controller->phase < PHASE_LEAVE; m++) {
        struct member *member = &controller->members[m];
        uint64_t silent_us = silence_of(member, now_us);
        bool was_silent = member->silence.reported;
        member->silence.reported = member->stay != MEMBER_DISMISSED && silent_us > half_timeout_us(controller);
        if (member->silence.reported && !was_silent) {
            names[silent++] = member->name;
            longest_us = silent_us > longest_us ? silent_us : longest_us;
        } else if (was_silent && !member->silence.reported && member->stay != MEMBER_DISMISSED) {
            heard_names[heard++] = member->name;
        }
    }
    if (heard > 0) {
        controller_report(controller, report_event_nodes(controller, "heard", heard_names, heard));
    }
    if (silent > 0) {
        uint64_t left_us = longest_us < timeout_us(controller) ? timeout_us(controller) - longest_us : 0;
        json_t *object = report_new_event(controller, "silent", names, silent);
        report_set_real(object, "silent_seconds", (double)longest_us / 1e6);
        report_set_real(object, "left_seconds", (double)left_us / 1e6);
        controller_report(controller, report_line_text(object, false));
    }
    free(names);
}

static void open(struct controller *controller) {
    begin_anew(controller, controller_now(controller));
}

static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    (void)from;
    if (member != NULL) {
        heard(controller, member);
    }
    if (member != NULL && message->type == MESSAGE_HEARTBEAT &&
        !controller_feeds(member)) { /* feeders are not believed */
        accuse(controller, member, message);
    }
}

static void check(struct controller *controller, uint64_t now_us) {
    discount(controller, now_us);
    if (!doubts_itself(controller, now_us)) {
        check_silent(controller, now_us);
    }
    report_silent(controller, now_us);
    check_accusations(controller, now_us);
}

const struct feature silence_feature = {.open = open, .receive = receive, .check = check};
