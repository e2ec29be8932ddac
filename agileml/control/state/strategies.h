/* The feature behind `--strategy auto`: gives the measured iterations to strategy_auto.h and has its choice put in
 * force. */
#ifndef AGILEML_CONTROL_STRATEGIES_H
#define AGILEML_CONTROL_STRATEGIES_H

#include "agileml/control/decide/strategy_auto.h"
#include "agileml/control/state/feature.h"

extern const struct feature strategies_feature;

#endif
