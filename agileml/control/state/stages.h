/* The feature behind `--stage auto`: gives the measured iterations to tuner.h, which learns the stage of each plan. */
#ifndef AGILEML_CONTROL_STAGES_H
#define AGILEML_CONTROL_STAGES_H

#include "agileml/control/decide/tuner.h"
#include "agileml/control/state/feature.h"

extern const struct feature stages_feature;

/* Whether a stage is only tried: its iterations are no measure for other features. */
bool stages_tries(const struct controller *controller);

#endif
