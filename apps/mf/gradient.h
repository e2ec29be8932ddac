/* The loop of --optimizer: like kernel.h's, with items' gradients summed instead of steps taken. */
#ifndef APPS_MF_GRADIENT_H
#define APPS_MF_GRADIENT_H

#include "apps/mf/kernel.h"

/* One step of the user's row per rating, in order, as sgd_pass takes it; the item's row stays as it is. Adds to the
 * item's sum, at sums + slot * item_stride bytes,
 *     -(e * p - lambda * q)    and    -(e - penalty * b_i)    (old p; e and penalty as in kernel.h)
 * and returns the sum of error^2. item_rates mean nothing. Calls on disjoint rows may run at once. */
double mf_gradient_pass(const struct mf_sgd *sgd, unsigned char *sums, const struct mf_item *ratings, size_t count);

#endif
