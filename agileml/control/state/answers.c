/* See answers.h. */
#include "agileml/control/state/answers.h"

#include "agileml/control/state/controller_private.h"

#include <stdio.h>

static bool has_to_promise(const struct controller *controller, const struct member *member) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    for (uint32_t p = 0; checkpoint->state == CHECKPOINT_ASK && p < controller->options.policy.partitions; p++) {
        if (!checkpoint->files[p].promised && actor_node(checkpoint->files[p].writer) == member->node.actor) {
            return true;
        }
    }
    return false;
}

/* Whether servers may be loading their partitions from a checkpoint on disk. They answer FENCE only afterwards. */
static bool is_resuming(const struct controller *controller) {
    return controller->phase == PHASE_LOAD && controller->job.resume[0] != '\0';
}

static bool owes(const struct controller *controller, const struct member *member, enum answer answer) {
    switch (answer) {
    case ANSWER_BARRIER:
        return member->goes_by.barrier != controller->barrier.number;
    case ANSWER_PLAN:
        return !controller_recovers(controller) && member->goes_by.version < controller->plan.version;
    case ANSWER_START:
        return controller->phase >= PHASE_TRAIN && member->goes_by.version > 0 && member->state < NODE_STARTED;
    case ANSWER_FENCE:
        return controller->change.state == CHANGE_RECOVER && !member->fence.answered && !is_resuming(controller);
    case ANSWER_CHECKPOINT:
        return has_to_promise(controller, member);
    case ANSWERS:
        break;
    }
    return false;
}

/* Whether a request that is not open now may only be suspended: then the owed time is kept. A checkpoint that was put
 * off is requested again. So is a plan after a recovery: a node that ignores plans may cause one recovery after
 * another. */
static bool is_put_off(const struct controller *controller, enum answer answer) {
    return answer == ANSWER_CHECKPOINT || (answer == ANSWER_PLAN && controller_recovers(controller));
}

static void fail(struct controller *controller, struct member *member, enum answer answer) {
    static const char *const names[ANSWERS] = {
        [ANSWER_BARRIER] = "a barrier",
        [ANSWER_PLAN] = "a plan",
        [ANSWER_START] = "the start of training",
        [ANSWER_FENCE] = "a fence: at which clocks its state can be restored",
        [ANSWER_CHECKPOINT] = "the request for a checkpoint",
    };
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s (%s, pid %llu) sends heartbeats, but for %.1f s has not answered %s", member->name,
             member->host, (unsigned long long)member->process_id, (double)member->owed.us[answer] / 1e6,
             names[answer]);
    controller_lose(controller, member, text);
}

/* Adds the passed time to each answer that the member owes. Returns an answer that has been owed for too long, or
 * ANSWERS. */
static enum answer check_member(struct controller *controller, struct member *member, uint64_t passed_us) {
    enum answer late = ANSWERS;
    for (enum answer answer = 0; answer < ANSWERS; answer++) {
        uint64_t *owed_us = &member->owed.us[answer];
        if (owes(controller, member, answer)) {
            *owed_us += passed_us;
        } else if (!is_put_off(controller, answer)) {
            *owed_us = 0;
        }
        late = *owed_us > controller->options.answer_ms * UINT64_C(1000) ? answer : late;
    }
    return late;
}

/* The member has answered a request of a kind, perhaps not the latest request. */
static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    (void)controller;
    (void)from;
    if (member != NULL && message->type == MESSAGE_HEARTBEAT) {
        uint64_t *owed_us = member->owed.us;
        owed_us[ANSWER_PLAN] = message->heartbeat.version > member->goes_by.version ? 0 : owed_us[ANSWER_PLAN];
        owed_us[ANSWER_BARRIER] = message->heartbeat.barrier > member->goes_by.barrier ? 0 : owed_us[ANSWER_BARRIER];
    } else if (member != NULL && message->type == MESSAGE_WRITTEN) {
        member->owed.us[ANSWER_CHECKPOINT] = 0;
    }
}

/* When nothing has happened for a timeout, requests an answer from all members: a barrier without a clock, which stops
 * no node. Otherwise a node that answers nothing would go unnoticed while no answer is owed, for instance when all
 * nodes wait for its work on a clock. */
static void ask_all(struct controller *controller, uint64_t passed_us) {
    struct answers *answers = &controller->features.answers;
    uint64_t completed = controller->progress.completed;
    bool same = answers->quiet.completed == completed && answers->quiet.barrier == controller->barrier.number;
    answers->quiet.us = same ? answers->quiet.us + passed_us : 0;
    answers->quiet.completed = completed;
    answers->quiet.barrier = controller->barrier.number;
    if (answers->quiet.us > controller->options.timeout_ms * UINT64_C(1000) &&
        controller->barrier.clock == WIRE_CLOCK_NEVER) {
        barrier_none(controller);
    }
}

static void check(struct controller *controller, uint64_t now_us) {
    uint64_t most_us = controller->options.heartbeat_ms * UINT64_C(500); /* between two calls in time */
    uint64_t passed_us = controller_passed_us(&controller->features.answers.checked_us, now_us, most_us);
    if (controller->phase == PHASE_GATHER) {
        return;
    }
    for (unsigned m = controller->member_count; m-- > 0 && controller->phase < PHASE_LEAVE;) {
        struct member *member = &controller->members[m];
        enum answer late = member->stay == MEMBER_DISMISSED || !silence_is_lively(controller, member, now_us)
                               ? ANSWERS
                               : check_member(controller, member, passed_us);
        if (late != ANSWERS) {
            fail(controller, member, late);
        }
    }
    if (controller->phase < PHASE_LEAVE && !controller->verdicts.fence) { /* after a loss, the fence comes first */
        ask_all(controller, passed_us);
    }
}

const struct feature answers_feature = {.receive = receive, .check = check};
