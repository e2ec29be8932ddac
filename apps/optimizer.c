/* See optimizer.h. */
#include "apps/optimizer.h"

#include "apps/app.h"

#include <math.h>

static const char *const names[] = {"sgd", "momentum", "adagrad", "adam", "ftrl", NULL};

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
    return check_options(optimizer, error);
}

/* Sets of_weights and of_bare. */
static void set_parameters(struct optimizer *optimizer) {
    union optimizer_parameters *weights = &optimizer->of_weights;
    union optimizer_parameters *bare = &optimizer->of_bare;
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        break;
    case OPTIMIZER_MOMENTUM:
        weights->momentum = (struct aml_momentum){
            .rate = optimizer->rate, .momentum = optimizer_momentum(optimizer), .l2 = optimizer->l2};
        *bare = *weights;
        bare->momentum.l2 = 0;
        break;
    case OPTIMIZER_ADAGRAD:
        weights->adagrad = (struct aml_adagrad){.rate = optimizer->rate, .l2 = optimizer->l2, .epsilon = 1e-8};
        *bare = *weights;
        bare->adagrad.l2 = 0;
        break;
    case OPTIMIZER_ADAM:
        weights->adam = (struct aml_adam){
            .rate = optimizer->rate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .l2 = optimizer->l2};
        *bare = *weights;
        bare->adam.l2 = 0;
        break;
    case OPTIMIZER_FTRL:
        /* The paper's beta is 1 for steps of one sample's gradient each. */
        weights->ftrl = (struct aml_ftrl){
            .alpha = optimizer->rate, .beta = 1 / optimizer->samples, .l1 = optimizer->l1, .l2 = optimizer->l2};
        *bare = *weights;
        bare->ftrl.l1 = bare->ftrl.l2 = 0;
        break;
    }
}

double optimizer_momentum(const struct optimizer *optimizer) {
    return optimizer->momentum > 0 ? optimizer->momentum : 0.9;
}

double optimizer_fallen(const struct optimizer_fall *fall, double clocks) {
    if (fall->decay > 0) {
        return fall->decay < 1 ? pow(fall->decay, floor(clocks / (double)fall->iteration)) : 1;
    }
    if (fall->clocks == 0) {
        return 1;
    }
    double part = clocks / (double)fall->clocks;
    return fall->open ? 1 / (1 + 3 * part) : fmax(1 - part, 0);
}

/* The table's aml_table.apply. */
static void apply(const struct aml_step *step, const void *parameters) {
    const struct optimizer *optimizer = parameters;
    union optimizer_parameters chosen = step->key == optimizer->bare ? optimizer->of_bare : optimizer->of_weights;
    double fallen = optimizer_fallen(&optimizer->fall, (double)(step->clock - 1));
    switch (optimizer->kind) {
    case OPTIMIZER_SGD:
        break; /* plain steps need no `apply` */
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

void optimizer_declare(struct optimizer *optimizer, struct aml_table *table) {
    if (optimizer->kind == OPTIMIZER_SGD) {
        return;
    }
    set_parameters(optimizer);
    table->apply = apply;
    table->parameters = optimizer;
    table->state_width = state_width(optimizer->kind, table->width);
}
