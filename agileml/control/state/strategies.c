/* See strategies.h. */
#include "agileml/control/state/strategies.h"

#include "agileml/control/state/controller_private.h"

static void iteration(struct controller *controller, const struct iteration_measure *measure) {
    struct strategy_auto *chooser = &controller->features.strategies;
    const struct strategy_clocks job = job_clocks(&controller->job.terms);
    struct strategy_sample sample = {.strategy = measure->strategy,
                                     .stage = controller->plan.stage,
                                     .seconds = measure->worked_seconds,
                                     .computed = measure->computed};
    if (controller->job.terms.strategy != STRATEGY_AUTO || !measure->comparable) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        bool works = member->node.threads > 0 && !controller_feeds(member) && member->settled;
        sample.nodes += works ? 1 : 0;
        sample.threads += works ? member->node.threads : 0;
    }
    if (chooser->clocks.per_iteration == 0) {
        strategy_auto_open(chooser, &job, controller->plan.next_strategy);
    }
    strategy_auto_add(chooser, &sample);
    controller_want_strategy(controller, chooser->wanted);
}

const struct feature strategies_feature = {.iteration = iteration};
