/* The table of features. See feature.h. */
#include "agileml/control/state/feature.h"

#include "agileml/control/state/accusations.h"
#include "agileml/control/state/answers.h"
#include "agileml/control/state/app_notes.h"
#include "agileml/control/state/feeding.h"
#include "agileml/control/state/pulses.h"
#include "agileml/control/state/readers.h"
#include "agileml/control/state/rebalance.h"
#include "agileml/control/state/revoked.h"
#include "agileml/control/state/silence.h"
#include "agileml/control/state/stages.h"
#include "agileml/control/state/strategies.h"
#include "agileml/control/state/waiting.h"

/* First those that give members up, each after what it builds on; then those that look at iterations: the choice of a
 * stage comes before the policy for uneven machines, which changes nothing while another change is due. */
static const struct feature *const table[] = {
    &silence_feature,    &pulses_feature,  &answers_feature,   &accusations_feature,
    &strategies_feature, &stages_feature,  &rebalance_feature, &feeding_feature,
    &app_notes_feature,  &waiting_feature, &revoked_feature,   &readers_feature,
};
enum { FEATURES = sizeof table / sizeof *table };

#define EACH(call, ...)                                                                                                \
    do {                                                                                                               \
        for (unsigned f = 0; f < FEATURES; f++) {                                                                      \
            if (table[f]->call != NULL) {                                                                              \
                table[f]->call(__VA_ARGS__);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

void features_open(struct controller *controller) {
    EACH(open, controller);
}

void features_joined(struct controller *controller, struct member *member) {
    EACH(joined, controller, member);
}

void features_receive(struct controller *controller, actor_id from, struct member *member,
                      const struct message *message) {
    EACH(receive, controller, from, member, message);
}

void features_clock(struct controller *controller, const struct clock_window *clock) {
    EACH(clock, controller, clock);
}

void features_iteration(struct controller *controller, const struct iteration_measure *measure) {
    EACH(iteration, controller, measure);
}

void features_plan(const struct controller *controller, const unsigned count[TIERS], enum stage *stage) {
    EACH(plan, controller, count, stage);
}

void features_check(struct controller *controller, uint64_t now_us) {
    EACH(check, controller, now_us);
}

uint64_t features_due_us(const struct controller *controller, uint64_t now_us) {
    uint64_t next_us = UINT64_MAX;
    for (unsigned f = 0; f < FEATURES; f++) {
        uint64_t due_us = table[f]->due_us != NULL ? table[f]->due_us(controller, now_us) : UINT64_MAX;
        next_us = due_us < next_us ? due_us : next_us;
    }
    return next_us;
}

void features_broke(struct controller *controller, actor_id peer) {
    EACH(broke, controller, peer);
}

bool features_dialed(struct controller *controller, actor_id peer, uint64_t began_us, bool listens) {
    bool settle = false;
    for (unsigned f = 0; f < FEATURES; f++) {
        settle = (table[f]->dialed != NULL && table[f]->dialed(controller, peer, began_us, listens)) || settle;
    }
    return settle;
}

void features_acknowledge(const struct controller *controller, struct message_heartbeat_ack *ack) {
    EACH(acknowledge, controller, ack);
}

void features_report(const struct controller *controller, json_t *object, enum report_type type) {
    EACH(report, controller, object, type);
}
