/* The loop for --optimizer: like that of kernel.h, but it sums the items' gradients instead of taking steps. */
#ifndef APPS_MF_GRADIENT_H
#define APPS_MF_GRADIENT_H

#include "apps/mf/kernel.h"

/* Takes one step of the user's row per rating, in order, like sgd_pass; the item's row does not change. Adds to the
 * item's sum, at sums + slot * item_stride bytes,
 *     -(e * p - lambda * q)    and    -(e - penalty * b_i)    (old p; e and penalty as in kernel.h)
 * and returns the sum of error^2. Calls on disjoint rows may run at once. */
double mf_gradient_pass(const struct mf_sgd *sgd, unsigned char *sums, const struct mf_item *ratings, size_t count);

#endif
