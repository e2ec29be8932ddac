/* The option --optimizer (AML_OPTION_WORD) of apps that learn weights by gradients: which of the servers' optimizers
 * (agileml/optimizers.h) a table has, and its parameters by the app's options. */
#ifndef APPS_OPTIMIZER_H
#define APPS_OPTIMIZER_H

#include "agileml.h"
#include "agileml/base/error.h"

#include <stdbool.h>

/* In the order of the names that --optimizer takes. */
enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAGRAD, OPTIMIZER_ADAM, OPTIMIZER_FTRL };

/* The options' values, and what the app makes of them. Everything stays as it is from optimizer_declare on. */
struct optimizer {
    const char *name;
    double rate;     /* above 0 where it is declared */
    double momentum; /* of `momentum`; 0: 0.9 */
    double l2;       /* regularization: what a step adds to the gradient is l2 times the weight */
    double l1;       /* of `ftrl`: makes weights 0 whose gradients say little */
    double samples;  /* whose gradients' mean is the sum that a step gets */
    struct optimizer_fall {
        double decay;         /* the rate's factor from iteration to iteration; 0: the rate falls as below */
        uint64_t iteration;   /* clocks of an iteration */
        uint64_t clocks;      /* in which the rate falls to 0, in a straight line */
        bool open;            /* the job may be longer: the rate falls as 1 / (1 + 3 clock / clocks) */
    } fall;                   /* not of `ftrl`; with clocks 0 and decay 0 the rate stays */
    uint64_t bare;            /* the key of a row that is not regularized, such as the biases; UINT64_MAX: none */
    enum optimizer_kind kind; /* set by optimizer_choose */
    /* Set by optimizer_declare. */
    union optimizer_parameters {
        struct aml_momentum momentum;
        struct aml_adagrad adagrad;
        struct aml_adam adam;
        struct aml_ftrl ftrl;
    } of_weights, of_bare; /* the parameters for rows that are regularized and for `bare` */
};

/* Sets the kind by the name. AML_EINPUT for a name that there is not, and for options that are of another optimizer. */
int optimizer_choose(struct optimizer *optimizer, struct error *error);

/* Returns the momentum of `momentum`. */
double optimizer_momentum(const struct optimizer *optimizer);

/* Returns the factor of the rate, from 1, when `clocks` of the job's clocks are done (a part of one perhaps). */
double optimizer_fallen(const struct optimizer_fall *fall, double clocks);

/* Gives the table, whose width is known, its optimizer; with `sgd` the table stays as it is. For `configure`. */
void optimizer_declare(struct optimizer *optimizer, struct aml_table *table);

#endif
