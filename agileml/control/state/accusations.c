/* See accusations.h. */
#include "agileml/control/state/accusations.h"

#include "agileml/control/state/controller_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct accusation accusation_of(const struct controller *controller, const struct member *accuser,
                                       const struct member *accused) {
    struct accusation accusation = {
        .accuser = {.process_id = accuser->process_id, .tier = controller_trusted_tier(controller, accuser)},
        .accused = {.process_id = accused->process_id, .tier = controller_trusted_tier(controller, accused)},
    };
    memcpy(accusation.accuser.key, accuser->pass.key, sizeof accusation.accuser.key);
    memcpy(accusation.accused.key, accused->pass.key, sizeof accusation.accused.key);
    memcpy(accusation.accuser.host, accuser->host, sizeof accusation.accuser.host);
    memcpy(accusation.accused.host, accused->host, sizeof accusation.accused.host);
    return accusation;
}

/* Whether two nodes are of the same process: a process that was given up may have registered again as a new node. */
static bool same_process(const struct accused_process *one, const struct accused_process *other) {
    return memcmp(one->key, other->key, sizeof one->key) == 0 &&
           (one->key[0] != '\0' || (one->process_id == other->process_id && strcmp(one->host, other->host) == 0));
}

/* Adds an accusation, unless it is in the list. When the list is full, drops the oldest accusation. */
static void accusations_add(struct accusations *accusations, const struct accusation *new) {
    for (unsigned a = 0; a < accusations->count; a++) {
        const struct accusation *old = &accusations->list[a];
        if (same_process(&old->accuser, &new->accuser) && same_process(&old->accused, &new->accused)) {
            return;
        }
    }
    if (accusations->count == ACCUSATIONS_MAX) {
        memmove(accusations->list, accusations->list + 1, --accusations->count * sizeof *accusations->list);
    }
    accusations->list[accusations->count++] = *new;
    assert(accusations->count <= ACCUSATIONS_MAX);
}

/* Whether the accuser is given up, and not the accused. A reliable node is believed against a transient node, unless
 * two or more nodes accuse the reliable one. Of two nodes of one tier the accused is given up, unless the accuser has
 * accused more nodes than there are accusers of the accused. So a false accuser costs at most one node of its own tier
 * before it is given up itself. A false transient accuser alone costs no reliable node. A false reliable accuser costs
 * every transient node that it accuses. */
static bool is_false(const struct accusations *accusations, const struct accusation *accusation) {
    unsigned accused = 0;  /* nodes accused by the accuser */
    unsigned accusers = 0; /* accusers of the accused */
    for (unsigned a = 0; a < accusations->count; a++) {
        accused += same_process(&accusations->list[a].accuser, &accusation->accuser) ? 1 : 0;
        accusers += same_process(&accusations->list[a].accused, &accusation->accused) ? 1 : 0;
    }
    if (accusation->accuser.tier != accusation->accused.tier) {
        return accusation->accused.tier == TIER_RELIABLE && accusers < 2;
    }
    return accused > accusers;
}

static void receive(struct controller *controller, actor_id from, struct member *accuser,
                    const struct message *message) {
    (void)from;
    if (accuser == NULL || message->type != MESSAGE_ACCUSE) {
        return;
    }
    struct member *accused = controller_find_member(controller, message->accuse.accused);
    bool present = controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE &&
                   message->epoch == controller->plan.epoch && !controller_recovers(controller);
    if (!present || accused == NULL || accused->stay == MEMBER_DISMISSED || accuser->stay == MEMBER_DISMISSED ||
        controller_is_outside(controller, accuser)) {
        return; /* of an earlier epoch: an impossible message will be sent again, and reported again */
    }
    const struct accusation accusation = accusation_of(controller, accuser, accused);
    if (!controller_feeds(accused)) { /* an accuser of a feeder is always believed, as a feeder's loss costs little */
        accusations_add(&controller->features.accusations, &accusation);
    }
    bool believed = accused == accuser || !is_false(&controller->features.accusations, &accusation);
    char text[ERROR_TEXT_MAX];
    const struct member *lost = believed ? accused : accuser;
    snprintf(text, sizeof text, "%s (%s) says that %s (%s, pid %llu) sent it what can't be: %.160s: %s%s is given up",
             accuser->name, accuser->host, accused->name, accused->host, (unsigned long long)accused->process_id,
             message->accuse.text, believed ? "" : "not believed, ", lost->name);
    controller_lose(controller, believed ? accused : accuser, text);
}

const struct feature accusations_feature = {.receive = receive};
