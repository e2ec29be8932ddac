/* What a market offers at a moment, for the policy: the price and what is known of evictions. Pure functions. */
#ifndef BIDBRAIN_OFFER_H
#define BIDBRAIN_OFFER_H

#include "bidbrain/catalog.h"
#include "bidbrain/interruption.h"
#include "bidbrain/policy.h"

/* The most that a machine may cost: its on-demand price, and no more per vCPU than `reference` machines cost on demand.
 * Without it a footprint that does no work, whose cost per work is infinite, would be worth any price. */
int64_t offer_ceiling(int64_t on_demand, double vcpus, const struct catalog_price *reference);
/* ec2-2016: a candidate for each bid delta of the grid. Not open; the caller opens it. */
struct policy_offer offer_of_2016(const struct eviction_table *table, size_t m, unsigned regime, int64_t price,
                                  int64_t ceiling, double vcpus);
/* ec2: one candidate, capped at the on-demand price. */
struct policy_offer offer_of_today(const struct interruptions *interruptions, size_t m, int64_t price,
                                   int64_t on_demand, int64_t ceiling, double vcpus);

#endif
