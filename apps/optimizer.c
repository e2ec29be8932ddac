/* See optimizer.h. */
#include "apps/optimizer.h"

#include "apps/app.h"

#include <math.h>

/* Rates that do well on samples whose values are about 0 to 1 (docs/mlr.md). */
static const double RATE_OF_MOMENTUM = 0.03;
static const double RATE_OF_ADAGRAD = 0.03;
static const double RATE_OF_ADAM = 0.003;
static const double ALPHA_OF_FTRL = 0.03;

static const char *const names[] = {"sgd", "momentum", "adagrad", "adam", "ftrl", NULL};

static double given_or(double given, double otherwise) {
    return given > 0 ? given : otherwise;
}

static int check_options(const struct optimizer *optimizer, struct error *error) {
    if (optimizer->momentum > 0 && optimizer->kind != OPTIMIZER_SGD && optimizer->kind != OPTIMIZER_MOMENTUM) {
        return error_set(error, AML_EINPUT, "--momentum: expected --optimizer momentum or sgd, got %s",
                         optimizer->name);
    }
    if (optimizer->l1 > 0 && optimizer->kind != OPTIMIZER_FTRL) {
        return error_set(error, AML_EINPUT, "--l1: expected --optimizer ftrl, got %s", optimizer->name);
    }
    return 0;
}

int optimizer_choose(struct optimizer *optimizer, struct error *error) {
    int kind = app_choice("optimizer", optimizer->name, names, error);
    if (kind < 0) {
        return kind;
    }
    optimizer->kind = (enum optimizer_kind)kind;
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        break;
    case OPTIMIZER_MOMENTUM:
        optimizer->of_weights.momentum = (struct aml_momentum){.rate = given_or(optimizer->rate, RATE_OF_MOMENTUM),
                                                               .momentum = given_or(optimizer->momentum, 0.9),
                                                               .l2 = optimizer->l2};
        optimizer->of_bare = optimizer->of_weights;
        optimizer->of_bare.momentum.l2 = 0;
        break;
    case OPTIMIZER_ADAGRAD:
        optimizer->of_weights.adagrad = (struct aml_adagrad){
            .rate = given_or(optimizer->rate, RATE_OF_ADAGRAD), .l2 = optimizer->l2, .epsilon = 1e-8};
        optimizer->of_bare = optimizer->of_weights;
        optimizer->of_bare.adagrad.l2 = 0;
        break;
    case OPTIMIZER_ADAM:
        optimizer->of_weights.adam = (struct aml_adam){.rate = given_or(optimizer->rate, RATE_OF_ADAM),
                                                       .beta1 = 0.9,
                                                       .beta2 = 0.999,
                                                       .epsilon = 1e-8,
                                                       .l2 = optimizer->l2};
        optimizer->of_bare = optimizer->of_weights;
        optimizer->of_bare.adam.l2 = 0;
        break;
    case OPTIMIZER_FTRL:
        /* The paper's beta is 1 for steps of one sample's gradient each. */
        optimizer->of_weights.ftrl = (struct aml_ftrl){.alpha = given_or(optimizer->rate, ALPHA_OF_FTRL),
                                                       .beta = 1 / optimizer->samples,
                                                       .l1 = optimizer->l1,
                                                       .l2 = optimizer->l2};
        optimizer->of_bare = optimizer->of_weights;
        optimizer->of_bare.ftrl.l1 = optimizer->of_bare.ftrl.l2 = 0;
        break;
    }
    return check_options(optimizer, error);
}

double optimizer_fallen(const struct optimizer_fall *fall, uint64_t clock) {
    double before = (double)(clock - 1);
    if (fall->decay > 0) {
        return fall->decay < 1 ? pow(fall->decay, floor(before / (double)fall->iteration)) : 1;
    }
    if (fall->clocks == 0) {
        return 1;
    }
    double part = before / (double)fall->clocks;
    return fall->open ? 1 / (1 + 3 * part) : fmax(1 - part, 0);
}

/* aml_table.apply */
static void apply(const struct aml_step *step, const void *parameters) {
    const struct optimizer *optimizer = parameters;
    union optimizer_parameters chosen = step->key == optimizer->bare ? optimizer->of_bare : optimizer->of_weights;
    double fallen = optimizer_fallen(&optimizer->fall, step->clock);
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        break; /* has no `apply` */
    case OPTIMIZER_MOMENTUM:
        chosen.momentum.rate *= fallen;
        aml_apply_momentum(step, &chosen.momentum);
        break;
    case OPTIMIZER_ADAGRAD:
        chosen.adagrad.rate *= fallen;
        aml_apply_adagrad(step, &chosen.adagrad);
        break;
    case OPTIMIZER_ADAM:
        chosen.adam.rate *= fallen;
        aml_apply_adam(step, &chosen.adam);
        break;
    case OPTIMIZER_FTRL:
        aml_apply_ftrl(step, &chosen.ftrl);
        break;
    }
}

static uint32_t state_width(enum optimizer_kind kind, uint32_t width) {
    return kind == OPTIMIZER_MOMENTUM  ? aml_momentum_state(width)
           : kind == OPTIMIZER_ADAGRAD ? aml_adagrad_state(width)
           : kind == OPTIMIZER_ADAM    ? aml_adam_state(width)
                                       : aml_ftrl_state(width);
}

void optimizer_declare(const struct optimizer *optimizer, struct aml_table *table) {
    if (optimizer->kind == OPTIMIZER_SGD) {
        return;
    }
    table->apply = apply;
    table->parameters = optimizer;
    table->state_width = state_width(optimizer->kind, table->width);
}
