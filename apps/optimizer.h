/* The option --optimizer (AML_OPTION_WORD) of apps that learn weights by gradients. It chooses a table's optimizer
 * in the servers (agileml/optimizers.h); the app's options give its parameters. */
#ifndef APPS_OPTIMIZER_H
#define APPS_OPTIMIZER_H

#include "agileml.h"
#include "agileml/base/error.h"

#include <stdbool.h>

/* In the order of the names that --optimizer takes. */
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAM, OPTIMIZER_FTRL };

/* The options' values, and the parameters derived from them. Must not change after optimizer_declare. */
struct optimizer {
    const char *name;
    double rate;     /* must be above 0 in optimizer_declare */
    double momentum; /* only for `momentum`; 0: 0.9 */
    double l2;       /* regularization: a step adds l2 times the weight to the gradient */
    double l1;       /* only for `ftrl`: sets weights to 0 whose gradients are small */
    double samples;  /* number of samples in the mean gradient that a step receives */
    struct optimizer_fall {
        double decay;         /* the rate's factor from iteration to iteration; 0: the rate falls as below */
        uint64_t iteration;   /* clocks of an iteration */
        uint64_t clocks;      /* the rate falls linearly to 0 in this many clocks */
        bool open;            /* the job may be longer: the rate falls as 1 / (1 + 3 clock / clocks) */
    } fall;                   /* not for `ftrl`; with clocks 0 and decay 0 the rate is constant */
    uint64_t bare;            /* key of a row that is not regularized, such as the biases; UINT64_MAX: none */
    enum optimizer_kind kind; /* set by optimizer_choose */
    /* Set by optimizer_declare. */
    union optimizer_parameters {
        struct aml_momentum momentum;
        struct aml_adagrad adagrad;
        struct aml_adam adam;
        struct aml_ftrl ftrl;
    } of_weights, of_bare; /* the parameters for regularized rows, and for the row `bare` */
};

/* Sets the kind by the name. Returns AML_EINPUT for an unknown name, and for options of another optimizer. */
int optimizer_choose(struct optimizer *optimizer, struct error *error);

/* Returns the momentum of the optimizer `momentum`. */
double optimizer_momentum(const struct optimizer *optimizer);

/* Returns the factor of the rate, which starts at 1, after `clocks` of the job's clocks; `clocks` may be a fraction. */
double optimizer_fallen(const struct optimizer_fall *fall, double clocks);

/* Declares the optimizer of the table, whose width must be set; with `sgd` the table stays as it is. For
 * `configure`. */
void optimizer_declare(struct optimizer *optimizer, struct aml_table *table);

#endif
