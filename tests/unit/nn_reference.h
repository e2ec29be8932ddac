/* The layers with weights as plain loops over their definitions in apps/nn/layers.h, against which tests check faster
 * versions. */
#ifndef TESTS_UNIT_NN_REFERENCE_H
#define TESTS_UNIT_NN_REFERENCE_H

#include "apps/nn/layers.h"

extern const struct nn_products nn_reference;

#endif
