/* See cloud.h: time, launches, and how machines and requests end. */
#include "spotmarket/cloud.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *instance_state_name(enum instance_state state) {
    switch (state) {
    case INSTANCE_PENDING:
        return "pending";
    case INSTANCE_RUNNING:
        return "running";
    case INSTANCE_SHUTTING_DOWN:
        return "shutting-down";
    case INSTANCE_TERMINATED:
        return "terminated";
    case INSTANCE_STOPPED:
        return "stopped";
    }
    return "";
}

const char *request_state_name(enum request_state state) {
    static const char *const names[] = {"open", "active", "closed", "cancelled", "failed"};
    return names[state];
}

void cloud_open(struct cloud *cloud, const struct cloud_options *options, int64_t now) {
    *cloud = (struct cloud){.options = *options, .now = now};
}

void cloud_close(struct cloud *cloud) {
    for (size_t i = 0; i < cloud->instance_count; i++) {
        launch_spec_drop(cloud->instances[i]->spec);
        cloud_tags_close(&cloud->instances[i]->tags);
        free(cloud->instances[i]);
    }
    for (size_t i = 0; i < cloud->request_count; i++) {
        launch_spec_drop(cloud->requests[i]->spec);
        cloud_tags_close(&cloud->requests[i]->tags);
        free(cloud->requests[i]);
    }
    for (size_t i = 0; i < cloud->attempt_count; i++) {
        free(cloud->attempts[i].action);
        free(cloud->attempts[i].arguments);
        free(cloud->attempts[i].answer);
    }
    free(cloud->instances);
    free(cloud->requests);
    free(cloud->attempts);
    *cloud = (struct cloud){0};
}

void cloud_new_id(struct cloud *cloud, const char *prefix, char id[CLOUD_ID_TEXT]) {
    uint64_t draw = hash_mix(hash_mix(cloud->options.seed) ^ ++cloud->ids);
    snprintf(id, CLOUD_ID_TEXT, "%.20s0%016" PRIx64, prefix, draw);
}

static const struct market *cloud_market_at(const struct cloud *cloud, size_t m) {
    return cloud->options.markets->list[m];
}

size_t cloud_market(const struct cloud *cloud, const char *type, const char *zone) {
    for (size_t m = 0; m < cloud->options.markets->count; m++) {
        const struct market *market = cloud_market_at(cloud, m);
        if (strcmp(market->zone, zone) == 0 && strcmp(market->type, type) == 0) {
            return m;
        }
    }
    return MARKET_NONE;
}

bool cloud_zone_known(const struct cloud *cloud, const char *zone) {
    for (size_t m = 0; m < cloud->options.markets->count; m++) {
        if (strcmp(cloud_market_at(cloud, m)->zone, zone) == 0) {
            return true;
        }
    }
    return false;
}

bool cloud_first_of_zone(const struct cloud *cloud, size_t m) {
    for (size_t i = 0; i < m; i++) {
        if (strcmp(cloud_market_at(cloud, i)->zone, cloud_market_at(cloud, m)->zone) == 0) {
            return false;
        }
    }
    return true;
}

bool instance_lives(const struct instance *instance) {
    return instance->state == INSTANCE_PENDING || instance->state == INSTANCE_RUNNING;
}

/* ---- Room ---- */

int64_t cloud_vcpus(const struct cloud *cloud, bool spot) {
    int64_t vcpus = 0;
    for (size_t i = 0; i < cloud->instance_count; i++) {
        const struct instance *instance = cloud->instances[i];
        vcpus += instance_lives(instance) && instance->spot == spot ? instance->type->vcpus : 0;
    }
    for (size_t i = 0; i < cloud->request_count && spot; i++) {
        const struct spot_request *request = cloud->requests[i];
        vcpus += request->state == REQUEST_OPEN ? request->spec->type->vcpus : 0;
    }
    return vcpus;
}

static size_t cloud_capacity_left(const struct cloud *cloud, const char *type, const char *zone) {
    if (cloud->options.capacity == 0) {
        return SIZE_MAX;
    }
    size_t used = 0;
    for (size_t i = 0; i < cloud->instance_count; i++) {
        const struct instance *instance = cloud->instances[i];
        used +=
            instance_lives(instance) && strcmp(instance->type->type, type) == 0 && strcmp(instance->zone, zone) == 0;
    }
    size_t capacity = (size_t)cloud->options.capacity;
    return used < capacity ? capacity - used : 0;
}

static struct cloud_room room_none(const char *code, const char *message) {
    return (struct cloud_room){.machines = 0, .code = code, .message = message};
}

/* Returns the room in the market itself, ignoring quotas. */
static struct cloud_room room_of_pool(const struct cloud *cloud, const struct catalog_price *type, const char *zone,
                                      int64_t bid) {
    size_t m = cloud_market(cloud, type->type, zone);
    size_t left = cloud_capacity_left(cloud, type->type, zone);
    if (bid != PRICE_UNKNOWN) {
        if (m == MARKET_NONE) {
            return room_none("Unsupported", "Your requested instance type is not supported in your requested "
                                            "Availability Zone");
        }
        int64_t price = market_price(cloud_market_at(cloud, m), cloud->now);
        if (price == PRICE_UNKNOWN ||
            !interruption_open_at(cloud->options.interruptions, m, cloud->now, cloud->options.seed)) {
            left = 0;
        } else if (price_passes(price, bid)) {
            return room_none("SpotMaxPriceTooLow", "Your Spot request price is lower than the minimum required Spot "
                                                   "request fulfillment price");
        }
    }
    struct cloud_room room = room_none("InsufficientInstanceCapacity",
                                       "We currently do not have sufficient capacity of that type in the Availability "
                                       "Zone you requested");
    room.machines = left;
    return room;
}

struct cloud_room cloud_room(const struct cloud *cloud, const struct catalog_price *type, const char *zone,
                             int64_t bid) {
    bool spot = bid != PRICE_UNKNOWN;
    struct cloud_room room = room_of_pool(cloud, type, zone, bid);
    int64_t quota = spot ? cloud->options.spot_quota : cloud->options.on_demand_quota;
    if (room.machines == 0 || quota == 0) {
        return room;
    }
    int64_t left = (quota - cloud_vcpus(cloud, spot)) / type->vcpus;
    left = left > 0 ? left : 0;
    if ((uint64_t)left < room.machines) {
        room = spot ? room_none("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
                    : room_none("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU "
                                                     "limit allows");
        room.machines = (size_t)left;
    }
    return room;
}

const char *cloud_zone(const struct cloud *cloud, const struct catalog_price *type, int64_t bid) {
    const char *best = NULL;
    int64_t best_price = INT64_MAX;
    bool best_room = false;
    for (size_t m = 0; m < cloud->options.markets->count; m++) {
        const struct market *market = cloud_market_at(cloud, m);
        if (bid != PRICE_UNKNOWN && strcmp(market->type, type->type) != 0) {
            continue;
        }
        int64_t price = bid != PRICE_UNKNOWN ? market_price(market, cloud->now) : 0;
        price = price == PRICE_UNKNOWN ? INT64_MAX - 1 : price;
        bool room = room_of_pool(cloud, type, market->zone, bid).machines > 0;
        if (best == NULL || (room && !best_room) || (room == best_room && price < best_price)) {
            best = market->zone;
            best_price = price;
            best_room = room;
        }
    }
    return best;
}

static void cloud_tell(struct cloud *cloud, const char *event, const struct instance *instance) {
    cloud->changes++;
    if (cloud->options.listener.event != NULL) {
        cloud->options.listener.event(cloud->options.listener.context, event, instance);
    }
}

/* ---- Launching ---- */

/* Decides when and why the cloud will take a spot machine that starts now. */
static void instance_fate(const struct cloud *cloud, struct instance *instance) {
    const struct market *market = cloud_market_at(cloud, instance->market);
    const struct interruption end =
        interruption_of(cloud->options.interruptions, instance->market, market, instance->bid, instance->launched,
                        instance->number, cloud->options.seed);
    instance->take = end.time;
    instance->take_notice = cloud->options.notice;
    instance->cause = end.by_price ? TAKE_BY_PRICE : TAKE_BY_CAPACITY;
    for (size_t i = 0; i < cloud->options.event_count; i++) {
        const struct cloud_event *event = &cloud->options.events[i];
        if (event->market == instance->market && event->time >= instance->launched && event->time < instance->take) {
            instance->take = event->time;
            instance->take_notice = event->notice;
            instance->cause = TAKE_BY_CAPACITY;
        }
    }
    if (cloud->options.rebalance > 0 && instance->take != MARKET_NEVER) {
        int64_t hint = instance->take - cloud->options.rebalance;
        instance->rebalance = hint > instance->launched ? hint : instance->launched;
    }
}

static struct instance *instance_new(struct cloud *cloud, struct launch_spec *spec, const char *zone, int64_t bid) {
    if (cloud->instance_count == CLOUD_RECORDS_MAX) {
        return NULL;
    }
    cloud->instances =
        memory_extended(cloud->instances, cloud->instance_count, &cloud->instance_capacity, sizeof *cloud->instances);
    struct instance *instance = memory_zeroed(1, sizeof *instance);
    *instance = (struct instance){
        .number = cloud->instance_count,
        .request = MARKET_NONE,
        .market = cloud_market(cloud, spec->type->type, zone),
        .spot = bid != PRICE_UNKNOWN,
        .bid = bid,
        .type = spec->type,
        .spec = launch_spec_hold(spec),
        .state = INSTANCE_PENDING,
        .reason_code = "",
        .reason = "",
        .launched = cloud->now,
        .ready = cloud->now + cloud->options.boot,
        .take = MARKET_NEVER,
        .rebalance = MARKET_NEVER,
        .noticed = MARKET_NEVER,
        .recommended = MARKET_NEVER,
        .ended = MARKET_NEVER,
    };
    cloud_new_id(cloud, "i-", instance->id);
    snprintf(instance->zone, sizeof instance->zone, "%s", zone);
    if (instance->spot) {
        assert(instance->market != MARKET_NONE);
        instance_fate(cloud, instance);
    }
    cloud->instances[cloud->instance_count++] = instance;
    cloud_tell(cloud, "launched", instance);
    return instance;
}

static void request_say(struct cloud *cloud, struct spot_request *request, enum request_state state, const char *status,
                        const char *message) {
    assert(request->ended == MARKET_NEVER || request->state == state); /* a final state must not change */
    if (request->state != state || strcmp(request->status, status) != 0) {
        request->updated = cloud->now;
    }
    request->state = state;
    request->status = status;
    request->message = message;
    bool over = state != REQUEST_OPEN && state != REQUEST_ACTIVE;
    request->ended = !over ? MARKET_NEVER : request->ended == MARKET_NEVER ? cloud->now : request->ended;
}

static struct spot_request *request_new(struct cloud *cloud, struct launch_spec *spec, int64_t bid, bool persistent,
                                        const char *token) {
    if (cloud->request_count == CLOUD_RECORDS_MAX) {
        return NULL;
    }
    cloud->requests =
        memory_extended(cloud->requests, cloud->request_count, &cloud->request_capacity, sizeof *cloud->requests);
    struct spot_request *request = memory_zeroed(1, sizeof *request);
    *request = (struct spot_request){
        .number = cloud->request_count,
        .spec = launch_spec_hold(spec),
        .bid = bid,
        .persistent = persistent,
        .status = "",
        .created = cloud->now,
        .valid_from = cloud->now,
        .valid_until = MARKET_NEVER,
        .look = cloud->now,
        .ended = MARKET_NEVER,
        .instance = MARKET_NONE,
        .market = MARKET_NONE,
    };
    snprintf(request->token, sizeof request->token, "%s", token);
    cloud_new_id(cloud, "sir-", request->id);
    cloud->requests[cloud->request_count++] = request;
    return request;
}

static void request_fulfil(struct cloud *cloud, struct spot_request *request, struct instance *instance) {
    instance->request = request->number;
    request->instance = instance->number;
    request->market = instance->market;
    request_say(cloud, request, REQUEST_ACTIVE, "fulfilled", "Your spot request is fulfilled.");
}

struct instance *cloud_launch(struct cloud *cloud, struct launch_spec *spec, const char *zone, int64_t bid,
                              bool persistent, const char *reservation, const char *token,
                              const struct cloud_tags *tags) {
    struct spot_request *request = NULL;
    if (cloud->instance_count == CLOUD_RECORDS_MAX ||
        (bid != PRICE_UNKNOWN && (request = request_new(cloud, spec, bid, persistent, "")) == NULL)) {
        return NULL;
    }
    struct instance *instance = instance_new(cloud, spec, zone, bid);
    snprintf(instance->reservation, sizeof instance->reservation, "%s", reservation);
    snprintf(instance->token, sizeof instance->token, "%s", token);
    cloud_tags_copy(&instance->tags, tags);
    if (request != NULL) {
        request_fulfil(cloud, request, instance);
    }
    return instance;
}

struct spot_request *cloud_request(struct cloud *cloud, struct launch_spec *spec, int64_t bid, bool persistent,
                                   int64_t valid_from, int64_t valid_until, const char *token,
                                   const struct cloud_tags *tags) {
    struct spot_request *request = request_new(cloud, spec, bid, persistent, token);
    if (request != NULL) {
        request->valid_from = valid_from;
        request->valid_until = valid_until;
        request->look = valid_from > cloud->now ? valid_from : cloud->now;
        bool later = valid_from > cloud->now;
        request_say(cloud, request, REQUEST_OPEN, later ? "not-scheduled-yet" : "pending-evaluation",
                    later ? "Your Spot request will not be evaluated until the scheduled date."
                          : "Your Spot request has been submitted for review, and is pending evaluation.");
        cloud_tags_copy(&request->tags, tags);
    }
    return request;
}

static const char NO_CAPACITY[] = "There is no Spot capacity available that matches your request.";

void cloud_defer(struct cloud *cloud, struct spot_request *request) {
    request_say(cloud, request, REQUEST_OPEN, "capacity-not-available", NO_CAPACITY);
    request->look = cloud->now + CLOUD_DEFER_SECONDS;
}

/* ---- Ends ---- */

/* Reopens or closes the request of a machine that has ended. */
static void request_lost(struct cloud *cloud, struct spot_request *request, const char *status, const char *message) {
    if (request->state == REQUEST_ACTIVE && request->persistent) {
        request_say(cloud, request, REQUEST_OPEN, "pending-evaluation",
                    "Your Spot request has been submitted for review, and is pending evaluation.");
        request->look = cloud->now + 1; /* later than now: the same cause may take the next machine in this second */
        return;
    }
    request_say(cloud, request, request->state == REQUEST_ACTIVE ? REQUEST_CLOSED : request->state, status, message);
}

/* Ends a living machine now. */
static void instance_end(struct cloud *cloud, struct instance *instance, enum instance_state state, const char *code,
                         const char *reason) {
    assert(instance_lives(instance));
    instance->state = state;
    instance->reason_code = code;
    instance->reason = reason;
    instance->ended = cloud->now;
    cloud_tell(cloud, "ended", instance);
    if (cloud->options.listener.stop != NULL) {
        cloud->options.listener.stop(cloud->options.listener.context, instance);
    }
}

static void instance_evict(struct cloud *cloud, struct instance *instance) {
    bool price = instance->cause == TAKE_BY_PRICE;
    instance->evicted = true;
    instance_end(cloud, instance, INSTANCE_SHUTTING_DOWN, "Server.SpotInstanceTermination",
                 "Server.SpotInstanceTermination: Instance was terminated by Spot");
    request_lost(cloud, cloud->requests[instance->request],
                 price ? "instance-terminated-by-price" : "instance-terminated-no-capacity",
                 price ? "Your Spot instance was terminated because the Spot price exceeded your maximum price."
                       : "Your Spot instance was terminated because there is no Spot capacity available.");
}

static void instance_end_by_user(struct cloud *cloud, struct instance *instance, const char *code, const char *reason) {
    instance_end(cloud, instance, INSTANCE_SHUTTING_DOWN, code, reason);
    if (instance->spot) {
        request_lost(cloud, cloud->requests[instance->request], "instance-terminated-by-user",
                     "Your Spot instance was terminated by the user.");
    }
}

void cloud_terminate(struct cloud *cloud, struct instance *instance) {
    if (instance_lives(instance)) {
        instance_end_by_user(cloud, instance, "Client.UserInitiatedShutdown",
                             "Client.UserInitiatedShutdown: User initiated shutdown");
    } else if (instance->state == INSTANCE_STOPPED) { /* `ended` stays: the machine is paid until it stopped */
        instance->state = INSTANCE_TERMINATED;
        instance->reason_code = "Client.UserInitiatedShutdown";
        instance->reason = "Client.UserInitiatedShutdown: User initiated shutdown";
    }
}

void cloud_shut_down(struct cloud *cloud, size_t number) {
    struct instance *instance = cloud->instances[number];
    static const char reason[] = "Client.InstanceInitiatedShutdown: Instance initiated shutdown";
    if (!instance_lives(instance)) {
        return;
    }
    if (instance->spot || instance->spec->terminate_on_shutdown) {
        instance_end_by_user(cloud, instance, "Client.InstanceInitiatedShutdown", reason);
    } else {
        instance_end(cloud, instance, INSTANCE_STOPPED, "Client.InstanceInitiatedShutdown", reason);
    }
}

void cloud_cancel(struct cloud *cloud, struct spot_request *request) {
    if (request->state == REQUEST_OPEN) {
        request_say(cloud, request, REQUEST_CANCELLED, "canceled-before-fulfillment",
                    "Your Spot request is canceled before it was fulfilled.");
    } else if (request->state == REQUEST_ACTIVE) {
        request_say(cloud, request, REQUEST_CANCELLED, "request-canceled-and-instance-running",
                    "Your Spot request is canceled, but your instance is still running.");
    }
}

void cloud_end(struct cloud *cloud) {
    for (size_t i = 0; i < cloud->request_count; i++) {
        cloud_cancel(cloud, cloud->requests[i]);
    }
    for (size_t i = 0; i < cloud->instance_count; i++) {
        cloud_terminate(cloud, cloud->instances[i]);
    }
}

/* ---- Time ---- */

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Returns the time of the machine's next change. */
static int64_t instance_next(const struct cloud *cloud, const struct instance *instance) {
    if (instance->state == INSTANCE_SHUTTING_DOWN) {
        return instance->ended;
    }
    if (instance->state == INSTANCE_TERMINATED) {
        return instance->spec != NULL ? instance->ended + cloud->options.shown : MARKET_NEVER;
    }
    if (instance->state == INSTANCE_STOPPED) {
        return MARKET_NEVER;
    }
    int64_t next = instance->state == INSTANCE_PENDING ? instance->ready : MARKET_NEVER;
    next = earlier(next, instance->rebalance);
    return earlier(next, instance->noticed == MARKET_NEVER ? instance->take : instance->ended);
}

static int64_t request_next(const struct cloud *cloud, const struct spot_request *request) {
    if (request->state == REQUEST_OPEN) {
        return earlier(request->look, request->valid_until);
    }
    return request->spec != NULL && request->ended != MARKET_NEVER ? request->ended + cloud->options.shown
                                                                   : MARKET_NEVER;
}

static void instance_notice(struct cloud *cloud, struct instance *instance) {
    struct spot_request *request = cloud->requests[instance->request];
    instance->noticed = cloud->now;
    instance->ended = cloud->now + instance->take_notice;
    cloud_tell(cloud, "noticed", instance);
    if (request->state == REQUEST_ACTIVE) {
        request_say(cloud, request, REQUEST_ACTIVE, "marked-for-termination",
                    "Your Spot instance is marked for termination.");
    }
}

/* Makes the change that is due now. */
static void instance_step(struct cloud *cloud, struct instance *instance) {
    int64_t now = cloud->now;
    if (instance->state == INSTANCE_SHUTTING_DOWN) {
        instance->state = INSTANCE_TERMINATED;
    } else if (instance->state == INSTANCE_TERMINATED) {
        launch_spec_drop(instance->spec);
        instance->spec = NULL;
    } else if (instance->noticed != MARKET_NEVER && instance->ended <= now) {
        instance_evict(cloud, instance);
    } else if (instance->rebalance <= now) {
        instance->recommended = now;
        instance->rebalance = MARKET_NEVER;
        cloud_tell(cloud, "recommended", instance);
    } else if (instance->noticed == MARKET_NEVER && instance->take <= now) {
        instance_notice(cloud, instance);
    } else if (instance->state == INSTANCE_PENDING && instance->ready <= now) {
        instance->state = INSTANCE_RUNNING;
        cloud_tell(cloud, "running", instance);
        if (cloud->options.listener.start != NULL) {
            cloud->options.listener.start(cloud->options.listener.context, instance);
        }
    }
}

/* Returns when the price next changes in a market in which the request could run. */
static int64_t request_price_change(const struct cloud *cloud, const struct spot_request *request) {
    int64_t next = MARKET_NEVER;
    const struct launch_spec *spec = request->spec;
    for (size_t m = 0; m < cloud->options.markets->count; m++) {
        const struct market *market = cloud_market_at(cloud, m);
        if (strcmp(market->type, spec->type->type) == 0 &&
            (spec->zone[0] == '\0' || strcmp(market->zone, spec->zone) == 0)) {
            size_t index = market_index(market, cloud->now);
            index = index == MARKET_NONE ? 0 : index + 1;
            next = index < market->count ? earlier(next, market->points[index].time) : next;
        }
    }
    return next;
}

/* Fulfils an open request if there is room. Otherwise sets its status and the time of its next evaluation. */
static void request_evaluate(struct cloud *cloud, struct spot_request *request) {
    const struct launch_spec *spec = request->spec;
    const char *zone = spec->zone[0] != '\0' ? spec->zone : cloud_zone(cloud, spec->type, request->bid);
    struct cloud_room room =
        zone != NULL ? room_of_pool(cloud, spec->type, zone, request->bid) : (struct cloud_room){0};
    struct instance *instance = NULL;
    if (room.machines > 0 && (instance = instance_new(cloud, request->spec, zone, request->bid)) != NULL) {
        cloud_new_id(cloud, "r-", instance->reservation);
        request_fulfil(cloud, request, instance);
        return;
    }
    request->look = request_price_change(cloud, request);
    if (zone != NULL && strcmp(room.code, "SpotMaxPriceTooLow") == 0) {
        request_say(cloud, request, REQUEST_OPEN, "price-too-low",
                    "Your Spot request price is lower than the minimum required Spot request fulfillment price.");
        return;
    }
    request->look = earlier(request->look, cloud->now + CLOUD_LOOK_SECONDS);
    request_say(cloud, request, REQUEST_OPEN, "capacity-not-available", NO_CAPACITY);
}

static void request_step(struct cloud *cloud, struct spot_request *request) {
    if (request->state != REQUEST_OPEN) {
        launch_spec_drop(request->spec);
        request->spec = NULL;
    } else if (request->valid_until <= cloud->now) {
        request_say(cloud, request, REQUEST_CLOSED, "schedule-expired",
                    "The Spot request expired because it was not fulfilled before the specified date.");
    } else {
        request_evaluate(cloud, request);
    }
}

/* Returns the time of the next change, and the machine or request that changes. At equal times machines come before
 * requests, older ones first. */
static int64_t cloud_find_next(const struct cloud *cloud, struct instance **instance, struct spot_request **request) {
    int64_t next = MARKET_NEVER;
    *instance = NULL;
    *request = NULL;
    for (size_t i = 0; i < cloud->instance_count; i++) {
        int64_t time = instance_next(cloud, cloud->instances[i]);
        if (time < next) {
            next = time;
            *instance = cloud->instances[i];
        }
    }
    for (size_t i = 0; i < cloud->request_count; i++) {
        int64_t time = request_next(cloud, cloud->requests[i]);
        if (time < next) {
            next = time;
            *instance = NULL;
            *request = cloud->requests[i];
        }
    }
    return next;
}

int64_t cloud_next(const struct cloud *cloud) {
    struct instance *instance;
    struct spot_request *request;
    return cloud_find_next(cloud, &instance, &request);
}

void cloud_advance(struct cloud *cloud, int64_t now) {
    struct instance *instance;
    struct spot_request *request;
    int64_t next;
    while ((next = cloud_find_next(cloud, &instance, &request)) <= now) {
        cloud->now = next > cloud->now ? next : cloud->now;
        if (instance != NULL) {
            instance_step(cloud, instance);
        } else if (request != NULL) {
            request_step(cloud, request);
        }
    }
    cloud->now = now > cloud->now ? now : cloud->now;
}

/* ---- What is there ---- */

bool instance_shown(const struct instance *instance) {
    return instance->spec != NULL;
}

bool request_shown(const struct spot_request *request) {
    return request->spec != NULL;
}

struct instance *cloud_find_instance(const struct cloud *cloud, const char *id) {
    for (size_t i = 0; i < cloud->instance_count; i++) {
        if (strcmp(cloud->instances[i]->id, id) == 0) {
            return instance_shown(cloud->instances[i]) ? cloud->instances[i] : NULL;
        }
    }
    return NULL;
}

struct spot_request *cloud_find_request(const struct cloud *cloud, const char *id) {
    for (size_t i = 0; i < cloud->request_count; i++) {
        if (strcmp(cloud->requests[i]->id, id) == 0) {
            return request_shown(cloud->requests[i]) ? cloud->requests[i] : NULL;
        }
    }
    return NULL;
}

struct bill cloud_bill(const struct cloud *cloud, const struct instance *instance, const struct market_rules *rules) {
    int64_t end = instance_lives(instance) ? cloud->now : instance->ended;
    if (!instance->spot) {
        return billing_on_demand(rules, instance->type->price, instance->launched, end, BILLING_RELEASED);
    }
    return billing_spot(rules, cloud_market_at(cloud, instance->market), instance->launched, end,
                        instance->evicted ? BILLING_EVICTED : BILLING_RELEASED);
}
