/* The bill: the exact cost of each machine and of all machines, by both billing models (billing.h). */
#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "spotmarket/service_private.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const struct market_rules *const MODELS[] = {&MARKET_EC2_2016, &MARKET_EC2};
enum { MODEL_COUNT = sizeof MODELS / sizeof *MODELS };

struct total {
    int64_t spot, on_demand; /* amounts */
    int64_t spot_seconds, on_demand_seconds, free_seconds;
    int64_t evictions;
};

/* Returns a string. Texts from requests were checked to be UTF-8, but not those from price files. */
static json_t *json_text(const char *text) {
    json_t *string = json_string(text);
    return string != NULL ? string : json_string("?");
}

static json_t *json_instant(int64_t seconds) {
    char text[INSTANT_TEXT_MAX];
    instant_format(seconds, text);
    return json_string(text);
}

/* Returns dollars with four decimals, rounded half up, computed in integers. */
static json_t *json_dollars(int64_t amount) {
    char text[40];
    int64_t parts = (amount + AMOUNT_DOLLAR / 20000) / (AMOUNT_DOLLAR / 10000);
    snprintf(text, sizeof text, "%" PRId64 ".%04" PRId64, parts / 10000, parts % 10000);
    return json_string(text);
}

static json_t *json_price(int64_t price) {
    char text[PRICE_TEXT_MAX];
    price_format(price, text);
    return json_string(text);
}

static json_t *bill_costs(const struct cloud *cloud, const struct instance *instance, struct total *totals) {
    json_t *costs = json_object();
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct bill bill = cloud_bill(cloud, instance, MODELS[m]);
        struct total *total = &totals[m];
        *(instance->spot ? &total->spot : &total->on_demand) += bill.amount;
        *(instance->spot ? &total->spot_seconds : &total->on_demand_seconds) += bill.paid_seconds + bill.free_seconds;
        total->free_seconds += bill.free_seconds;
        total->evictions += instance->evicted;
        json_object_set_new(costs, MODELS[m]->name,
                            json_pack("{s:I,s:o,s:I,s:I}", "amount_units", (json_int_t)bill.amount, "dollars",
                                      json_dollars(bill.amount), "paid_seconds", (json_int_t)bill.paid_seconds,
                                      "free_seconds", (json_int_t)bill.free_seconds));
    }
    return costs;
}

static json_t *bill_instance(const struct cloud *cloud, const struct instance *instance, struct total *totals) {
    const struct spot_request *request = instance->spot ? cloud->requests[instance->request] : NULL;
    const char *job = cloud_tags_get(&instance->tags, "proteus:job");
    const char *token = instance->token;
    if (job == NULL && request != NULL) {
        job = cloud_tags_get(&request->tags, "proteus:job");
    }
    if (token[0] == '\0' && request != NULL) {
        token = request->token;
    }
    bool lives = instance_lives(instance);
    int64_t end = lives ? cloud->now : instance->ended;
    return json_pack("{s:o,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:o,s:f,s:o}", "id", json_text(instance->id), "kind",
                     instance->spot ? "spot" : "on-demand", "type", json_text(instance->type->type), "zone",
                     json_text(instance->zone), "token", json_text(token), "job", json_text(job != NULL ? job : ""),
                     "start", json_instant(instance->launched), "end", lives ? json_null() : json_instant(end), "how",
                     lives               ? "running"
                     : instance->evicted ? "evicted"
                                         : "released",
                     "bid", instance->spot ? json_price(instance->bid) : json_null(), "hours",
                     (double)(end - instance->launched) / HOUR, "cost", bill_costs(cloud, instance, totals));
}

static json_t *bill_total(const struct total *total) {
    return json_pack("{s:o,s:o,s:o,s:f,s:f,s:f,s:I}", "dollars", json_dollars(total->spot + total->on_demand),
                     "spot_dollars", json_dollars(total->spot), "on_demand_dollars", json_dollars(total->on_demand),
                     "spot_hours", (double)total->spot_seconds / HOUR, "on_demand_hours",
                     (double)total->on_demand_seconds / HOUR, "free_hours", (double)total->free_seconds / HOUR,
                     "evictions", (json_int_t)total->evictions);
}

char *service_bill(const struct cloud *cloud) {
    struct total totals[MODEL_COUNT] = {0};
    json_t *instances = json_array();
    json_t *total = json_object();
    for (size_t i = 0; i < cloud->instance_count; i++) {
        json_array_append_new(instances, bill_instance(cloud, cloud->instances[i], totals));
    }
    for (int m = 0; m < MODEL_COUNT; m++) {
        json_object_set_new(total, MODELS[m]->name, bill_total(&totals[m]));
    }
    json_t *root = json_pack("{s:o,s:s,s:o,s:o}", "now", json_instant(cloud->now), "model", cloud->options.rules->name,
                             "instances", instances, "total", total);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (text == NULL) {
        memory_exhausted(1);
    }
    size_t length = strlen(text);
    text = memory_resized(text, length + 2, 1);
    text[length] = '\n';
    text[length + 1] = '\0';
    return text;
}
