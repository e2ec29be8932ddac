/* Settings that a job chooses by the statistics of its samples (statistics.h), the same in all processes: how
 * features are scaled, how strongly weights are regularized, and how long steps may be. */
#ifndef APPS_MLR_TUNING_H
#define APPS_MLR_TUNING_H

#include "apps/mlr/validate.h"
#include "apps/samples/scale.h"
#include "apps/samples/statistics.h"

struct tuning {
    struct scale scale;
    double length;    /* mean squared length of a scaled sample, without the bias */
    double curvature; /* twice the largest curvature of the loss, see validate_curvature; 0: not known */
    /* By cross-validation: */
    bool validated;
    struct validated validation;
    uint32_t dropped;          /* dense: number of features that are constant, or nearly so */
    double *centres, *factors; /* [features] centres and factors of the scale */
};

/* Makes the scale of kind SCALE_STANDARD (dense: centred, by the standard deviation over the root of the part of values
 * that are not 0; sparse: by the root mean square of the values that are not 0), or takes over another kind, whose
 * maxima must stay. With SCALE_AUTO the kind is SCALE_STANDARD, or of sparse samples SCALE_UNIT if that has the lower
 * loss.
 * `statistics` has ended. With `choose_c` C is chosen. tuning_close must follow. */
void tuning_make(struct tuning *tuning, const struct statistics *statistics, const struct scale *given, bool dense,
                 uint32_t classes, bool choose_c);
/* The same for samples of two classes of which most features are rare, whose scale stays as it is: C is chosen by
 * validate_by_steps, with pace->rate divided by the mean squared length of a sample, its bias included. The curvature
 * stays unknown. */
void tuning_make_by_steps(struct tuning *tuning, const struct statistics *statistics, const struct scale *given,
                          const struct validate_pace *pace, bool choose_c);
void tuning_close(struct tuning *tuning);

#endif
