/* See offer.h. */
#include "bidbrain/offer.h"

int64_t offer_ceiling(int64_t on_demand, double vcpus, const struct catalog_price *reference) {
    int64_t alike = (int64_t)((double)reference->price * vcpus / reference->vcpus);
    return on_demand < alike ? on_demand : alike;
}

struct policy_offer offer_of_2016(const struct eviction_table *table, size_t m, unsigned regime, int64_t price,
                                  int64_t ceiling, double vcpus) {
    struct policy_offer offer = {
        .P = price_dollars(price), .ceiling = price_dollars(ceiling), .nu = vcpus, .deltas = EVICTION_DELTAS};
    for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
        struct eviction_estimate estimate = eviction_estimate(table, m, regime, EVICTION_DELTA[d], HOUR);
        offer.delta[d] = price_dollars(EVICTION_DELTA[d]);
        offer.beta[d] = estimate.probability;
        offer.median[d] = estimate.median / HOUR;
    }
    return offer;
}

struct policy_offer offer_of_today(const struct interruptions *interruptions, size_t m, int64_t price,
                                   int64_t on_demand, int64_t ceiling, double vcpus) {
    struct policy_offer offer = {
        .P = price_dollars(price), .ceiling = price_dollars(ceiling), .nu = vcpus, .deltas = 1};
    offer.delta[0] = price_dollars(on_demand - price);
    offer.beta[0] = interruption_probability(interruptions, m, 0, 1);
    offer.median[0] = 0.5;
    return offer;
}
