/* See stages.h. */
#include "agileml/control/state/stages.h"

#include "agileml/control/state/controller_private.h"

static void open(struct controller *controller) {
    tuner_init(&controller->features.stages, &controller->options.thresholds);
}

bool stages_tries(const struct controller *controller) {
    return controller->features.stages.tried != STAGE_AUTO;
}

static void iteration(struct controller *controller, const struct iteration_measure *measure) {
    unsigned count[TIERS];
    controller_count_members(controller, count);
    if (measure->comparable && controller->options.policy.stage == STAGE_AUTO) {
        struct tuner_sample sample = {.stage = controller->plan.stage,
                                      .strategy = measure->strategy,
                                      .reliable = count[TIER_RELIABLE],
                                      .transient = count[TIER_TRANSIENT],
                                      .seconds = measure->seconds,
                                      .network_share = 1 - measure->computed};
        for (unsigned m = 0; m < controller->member_count; m++) {
            const struct member *member = &controller->members[m];
            sample.threads += controller_feeds(member) ? 0 : member->node.threads;
        }
        tuner_add(&controller->features.stages, &sample);
    }
    change_check_stage(controller);
}

static void choose(const struct controller *controller, const unsigned count[TIERS], enum stage *stage) {
    if (*stage == STAGE_AUTO) {
        *stage = tuner_stage(&controller->features.stages, count[TIER_RELIABLE], count[TIER_TRANSIENT],
                             controller->plan.stage);
    }
}

static void report(const struct controller *controller, json_t *object, enum report_type type) {
    if (type == REPORT_STATUS) {
        const struct plan_thresholds thresholds = tuner_thresholds(&controller->features.stages);
        report_set_real(object, "threshold_2", thresholds.to_2);
        report_set_real(object, "threshold_3", thresholds.to_3);
    }
}

const struct feature stages_feature = {.open = open, .iteration = iteration, .plan = choose, .report = report};
