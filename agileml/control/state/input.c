/* Compares the fingerprints of the nodes' input. The job's fingerprint is that of the resumed checkpoint; otherwise,
 * for each data shard, the first that a node reports. The elasticity controller stores the job's fingerprint before it
 * confirms to a node that the node's own fingerprint is equal. A node begins no clock before this confirmation. See
 * controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <stdio.h>
#include <string.h>

/* Removes a member that has no part in any clock, without a recovery. */
static void refuse_newcomer(struct controller *controller, struct member *member, const char *text) {
    controller_report(controller, report_event(controller, "refused", member->name, text));
    controller_send_abort(controller, member->node.actor, AML_EINPUT, text);
    controller_remove_member(controller, member);
    controller->change.due = true;
    controller->change.due_us = 0;
    controller->verdicts.cancel = true;
    persist_all(controller);
}

/* Removes a member that has a part in the job and reports another input only now: it has taken over work, or read the
 * input again. The job ends if the other members can't go on without the removed member. */
static void refuse_member(struct controller *controller, struct member *member, const char *text) {
    bool keeps_state = member->settled && controller_trusted_tier(controller, member) == TIER_RELIABLE;
    if (keeps_state || controller->plan.stage == STAGE_TRADITIONAL || !controller_enough_without(controller, member)) {
        verdict_end(controller, AML_EINPUT, text);
        return;
    }
    controller_report(controller, report_event(controller, "refused", member->name, text));
    controller_send_abort(controller, member->node.actor, AML_EINPUT, text);
    controller_lose(controller, member, text);
}

static void refuse(struct controller *controller, struct member *member, const char *text) {
    if (controller->phase < PHASE_TRAIN) {
        verdict_end(controller, AML_EINPUT, text); /* training has not begun: either input may be the right one */
    } else if (controller_has_part(controller, member)) {
        refuse_member(controller, member, text);
    } else {
        refuse_newcomer(controller, member, text);
    }
}

/* Whether the node has read another input than the job's; then writes one line about the difference. */
static bool input_differs(const struct controller_input *input, const struct job_input *found,
                          const struct message *message, char text[ERROR_TEXT_MAX]) {
    size_t count;
    const struct wire_input_range *range = input_ranges(message, &count);
    const struct job_range *expected = job_ranges_differ(&input->ranges, &range, count);
    bool differs = input->job.shards != NULL && !job_input_equal(&input->job, found);
    if (expected != NULL && !(differs && job_input_samples_differ(&input->job, found))) {
        job_ranges_describe(expected, range, found->reader, found->files, text, ERROR_TEXT_MAX);
    } else if (differs) {
        job_input_describe(&input->job, found, text, ERROR_TEXT_MAX);
    }
    return differs || expected != NULL;
}

/* Adds newly reported parts to the job's input, and stores them. Returns false when storing fails, which ends the
 * job. */
static bool take_input(struct controller *controller, const struct job_input *found, const struct message *message) {
    struct controller_input *input = &controller->input;
    size_t count;
    const struct wire_input_range *ranges = input_ranges(message, &count);
    input->stored = !job_input_add(&input->job, found) && input->stored;
    job_ranges_add(&input->ranges, ranges, count, found->reader);
    if (!input->stored) {
        return persist_all(controller);
    }
    return input->ranges.stored == input->ranges.count || persist_progress(controller);
}

void input_receive(struct controller *controller, struct member *member, const struct message *message) {
    char text[ERROR_TEXT_MAX];
    struct job_input found = {.shards = message->frames[INPUT_SHARDS],
                              .own = message->input.own,
                              .files = message->frames[INPUT_FILES],
                              .samples = message->frames[INPUT_FILES]};
    if (controller->phase < PHASE_LOAD || controller->phase >= PHASE_LEAVE || member->stay == MEMBER_DISMISSED) {
        return;
    }
    snprintf(found.reader, sizeof found.reader, "%s (%s)", member->name, member->host);
    size_t shards = found.shards->size / sizeof(struct wire_input_shard);
    if (shards != controller->options.policy.shards) {
        snprintf(text, sizeof text, "%s reported the input of %zu data shards, expected %u", found.reader, shards,
                 controller->options.policy.shards);
        verdict_end(controller, AML_EPROTOCOL, text);
        return;
    }
    if (input_differs(&controller->input, &found, message, text)) {
        refuse(controller, member, text);
        return;
    }
    if (!take_input(controller, &found, message)) {
        return;
    }
    member->input = message->input.reading;
    controller_send_ack(controller, member);
}
