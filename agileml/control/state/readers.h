/* The feature that keeps the places of observers that read the report. An observer requests lines about twice a second
 * (observer.h): it loses its place when it has been silent for long, or soon after its connection has broken. */
#ifndef AGILEML_CONTROL_READERS_H
#define AGILEML_CONTROL_READERS_H

#include "agileml/control/state/feature.h"

extern const struct feature readers_feature;

#endif
