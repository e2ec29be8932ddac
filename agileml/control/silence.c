/* The controller's part that decides who has failed: members that are silent for longer than the timeout, and
 * members that others can't reach. Silence proves something only while this controller could have heard: not before
 * connections stand again after it started, and not while it was stopped itself. See controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t timeout_us(const struct controller *controller) {
    return controller->options.timeout_ms * UINT64_C(1000);
}

/* A member that is silent for longer is reported, and is not lively. */
static uint64_t half_timeout_us(const struct controller *controller) {
    return timeout_us(controller) / 2;
}

void silence_begin_anew(struct controller *controller, uint64_t now_us) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].silence.heard_us = now_us + IO_RECONNECT_US;
        controller->members[m].silence.lively_us = 0;
    }
    controller->doubt_until_us = 0;
}

void silence_heard(const struct controller *controller, struct member *member) {
    uint64_t now_us = controller_now(controller);
    if (member->silence.lively_us == 0 || silence_of(member, now_us) > half_timeout_us(controller)) {
        member->silence.lively_us = now_us;
    }
    member->silence.heard_us = now_us;
}

void silence_discount(struct controller *controller, uint64_t now_us) {
    uint64_t late_us = now_us > controller->times.tick_us ? now_us - controller->times.tick_us : 0;
    bool long_stop = late_us > half_timeout_us(controller);
    if (!long_stop && late_us <= controller->options.heartbeat_ms * UINT64_C(1000)) {
        return;
    }
    controller->end.observers_us += late_us;
    controller->end.members_us += late_us;
    if (long_stop) {
        silence_begin_anew(controller, now_us);
        controller->times.began_us += late_us;
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        member->silence.heard_us = io_excused(member->silence.heard_us, late_us, now_us);
    }
}

uint64_t silence_of(const struct member *member, uint64_t now_us) {
    return now_us > member->silence.heard_us ? now_us - member->silence.heard_us : 0;
}

bool silence_is_lively(const struct controller *controller, const struct member *member, uint64_t now_us) {
    return member->silence.lively_us != 0 && silence_of(member, now_us) <= half_timeout_us(controller);
}

static bool is_silent(const struct controller *controller, const struct member *member, uint64_t now_us) {
    return silence_of(member, now_us) > timeout_us(controller);
}

/* When most members fall silent at once, the cause may be on our side. They are asked once more, which also shows
 * whether the connections still stand, and get the time to answer over new ones. */
static bool doubts_itself(struct controller *controller, uint64_t now_us) {
    unsigned silent = 0;
    unsigned present = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        present += member->stay == MEMBER_DISMISSED ? 0 : 1;
        silent += member->stay != MEMBER_DISMISSED && is_silent(controller, member, now_us) ? 1 : 0;
    }
    if (2 * silent <= present) {
        controller->doubt_until_us = 0;
        return false;
    }
    if (controller->doubt_until_us == 0) {
        uint64_t half_us = half_timeout_us(controller);
        controller->doubt_until_us = now_us + (IO_RECONNECT_US > half_us ? IO_RECONNECT_US : half_us);
        send_acks(controller);
    }
    return now_us < controller->doubt_until_us;
}

static void check_silent(struct controller *controller, uint64_t now_us) {
    for (unsigned m = controller->member_count; m-- > 0 && controller->phase < PHASE_LEAVE;) {
        struct member *member = &controller->members[m];
        if (!is_silent(controller, member, now_us)) {
            continue;
        }
        if (member->stay == MEMBER_DISMISSED) {
            member_remove(controller, member);
            continue;
        }
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "no heartbeat for %.1f s from %s (%s, pid %llu)",
                 (double)silence_of(member, now_us) / 1e6, member->name, member->host,
                 (unsigned long long)member->process_id);
        recover_lost(controller, member, text);
    }
}

void silence_accuse(struct controller *controller, struct member *member, actor_id accused) {
    if (member->silence.accuses != accused) {
        member->silence.accuses = accused;
        member->silence.accused_us = controller_now(controller);
    }
}

/* Whom a member accuses. A dismissed member may be gone, and a member with an older plan still waits for it. */
static struct member *accused_by(struct controller *controller, const struct member *member) {
    struct member *accused = member->stay == MEMBER_DISMISSED ? NULL : member_find(controller, member->silence.accuses);
    return accused == NULL || accused->stay == MEMBER_DISMISSED ? NULL : accused;
}

/* An accusation counts once it was kept up for half a timeout in which the accused was heard here all the time: else
 * the accused is about to be given up for its own silence, or has just woken. If a reliable node is to go, it must have
 * been kept up for the answer timeout: with the node may go the only copy of something, and so the job. In stage
 * traditional nothing survives a loss, and the job ends soon. An accusation does not count while the accused lacks the
 * newest plan either: it lets in only the nodes that its plan names, and answers.c gives up who takes too long to
 * accept one. */
static bool is_confirmed(const struct controller *controller, const struct member *accuser,
                         const struct member *accused, enum node_tier victim, uint64_t now_us) {
    uint64_t accused_us = accuser->silence.accused_us;
    uint64_t lively_us = accused->silence.lively_us;
    uint64_t since_us = accused_us > lively_us ? accused_us : lively_us;
    bool patient = victim == TIER_RELIABLE && controller->plan.stage != STAGE_TRADITIONAL;
    uint64_t least_us = patient ? controller->options.answer_ms * UINT64_C(1000) : 0;
    return accused->goes_by.version >= controller->plan.version && silence_is_lively(controller, accused, now_us) &&
           now_us > since_us + half_timeout_us(controller) && now_us > accused_us + least_us;
}

/* A node that others can't reach, though we can: either it or they have to go. */
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
        bool keep = accused->node.tier == TIER_RELIABLE || (alone && accuser->node.tier == TIER_TRANSIENT);
        struct member *victim = keep && accuser->node.tier == TIER_TRANSIENT ? accuser : accused;
        if (!is_confirmed(controller, accuser, accused, victim->node.tier, now_us)) {
            continue;
        }
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s (%s) can't reach %s (%s, pid %llu)", accuser->name, accuser->host,
                 accused->name, accused->host, (unsigned long long)accused->process_id);
        recover_lost(controller, victim, text);
        return; /* the others' complaints may have the same cause */
    }
}

/* Says in the report which nodes are silent before they are given up, so that whoever watches a job that stands
 * still learns what it waits for. One line for all nodes that become silent between two ticks, and one for all that
 * are heard again, so that a lost network does not fill the report. */
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
        controller_report(controller,
                          report_silence(controller, names, silent, (double)longest_us / 1e6, (double)left_us / 1e6));
    }
    free(names);
}

void silence_check(struct controller *controller, uint64_t now_us) {
    if (!doubts_itself(controller, now_us)) {
        check_silent(controller, now_us);
    }
    report_silent(controller, now_us);
    check_accusations(controller, now_us);
}
