/* See marketplace.h: the bill. */
#include "proteus/marketplace.h"

#include "agileml/base/instant.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What the machines of one kind come to. */
struct kind_total {
    int64_t amount; /* units of money.h */
    int64_t paid_seconds, free_seconds;
};

struct bill_total {
    struct kind_total spot, on_demand;
    int64_t on_demand_amount; /* what all these seconds would have cost on demand */
    int64_t last;             /* the latest end */
    unsigned spot_machines, on_demand_machines, evicted;
    unsigned acquisitions; /* launches that got spot machines */
};

/* A moment; *time stays as it is for null. False when it is neither. */
static bool read_time(const json_t *value, int64_t *time) {
    return json_is_null(value) || (json_is_string(value) && instant_parse(json_string_value(value), time));
}

static bool is_first_of_launch(const json_t *machines, size_t index, const char *token) {
    for (size_t m = 0; m < index; m++) {
        const char *other = json_string_value(json_object_get(json_array_get(machines, m), "token"));
        if (other != NULL && strcmp(other, token) == 0) {
            return false;
        }
    }
    return true;
}

static bool add_machine(struct bill_total *total, const struct marketplace *place, const json_t *machines, size_t index,
                        int64_t now) {
    const json_t *machine = json_array_get(machines, index);
    const json_t *cost = json_object_get(json_object_get(machine, "cost"), market_model_name(place->model));
    const char *kind = json_string_value(json_object_get(machine, "kind"));
    const char *type = json_string_value(json_object_get(machine, "type"));
    const char *how = json_string_value(json_object_get(machine, "how"));
    const char *token = json_string_value(json_object_get(machine, "token"));
    int64_t start = 0;
    int64_t end = now;
    if (kind == NULL || type == NULL || how == NULL || !read_time(json_object_get(machine, "start"), &start) ||
        !read_time(json_object_get(machine, "end"), &end) || end < start || !json_is_object(cost)) {
        return false;
    }
    bool spot = strcmp(kind, "spot") == 0;
    struct kind_total *part = spot ? &total->spot : &total->on_demand;
    const struct catalog_price *price = catalog_find(&place->catalog, type, place->region);
    part->amount += json_integer_value(json_object_get(cost, "amount_units"));
    part->paid_seconds += json_integer_value(json_object_get(cost, "paid_seconds"));
    part->free_seconds += json_integer_value(json_object_get(cost, "free_seconds"));
    total->on_demand_amount += price != NULL && price->price != PRICE_UNKNOWN ? price->price * (end - start) : 0;
    total->last = end > total->last ? end : total->last;
    total->spot_machines += spot ? 1 : 0;
    total->on_demand_machines += spot ? 0 : 1;
    total->evicted += strcmp(how, "evicted") == 0 ? 1 : 0;
    total->acquisitions += spot && (token == NULL || is_first_of_launch(machines, index, token)) ? 1 : 0;
    return true;
}

static double hours(int64_t seconds) {
    return (double)seconds / HOUR;
}

json_t *marketplace_bill(const struct marketplace *place, const char *bill, size_t size, struct error *error) {
    struct bill_total total = {0};
    json_t *root = json_loadb(bill, size, 0, NULL);
    const json_t *machines = json_object_get(root, "instances");
    int64_t now = 0;
    bool good = json_is_array(machines) && read_time(json_object_get(root, "now"), &now) && now > 0;
    for (size_t m = 0; good && m < json_array_size(machines); m++) {
        good = add_machine(&total, place, machines, m, now);
    }
    json_decref(root);
    if (!good) {
        error_set(error, AML_EPROTOCOL, "the market's bill is not what was expected");
        return NULL;
    }
    char from[INSTANT_TEXT_MAX];
    char until[INSTANT_TEXT_MAX];
    instant_format(place->start, from);
    instant_format(total.last > place->start ? total.last : now, until);
    return json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "type",
                     "market", "model", market_model_name(place->model), "from", from, "until", until, "speed",
                     place->options.speed, "acquisitions", (int)total.acquisitions, "spot_machines",
                     (int)total.spot_machines, "on_demand_machines", (int)total.on_demand_machines, "evicted_machines",
                     (int)total.evicted, "on_demand_hours",
                     hours(total.on_demand.paid_seconds + total.on_demand.free_seconds), "spot_hours",
                     hours(total.spot.paid_seconds), "free_hours", hours(total.spot.free_seconds), "on_demand_dollars",
                     amount_dollars(total.on_demand.amount), "spot_dollars", amount_dollars(total.spot.amount),
                     "dollars", amount_dollars(total.on_demand.amount + total.spot.amount), "all_on_demand_dollars",
                     amount_dollars(total.on_demand_amount));
}

/* ---- For people ---- */

__attribute__((format(printf, 3, 4))) static void add_line(char text[MARKETPLACE_SUMMARY_TEXT], const char *name,
                                                           const char *format, ...) {
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, MARKETPLACE_SUMMARY_TEXT - used, "%-14s ", name);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, MARKETPLACE_SUMMARY_TEXT - used, format, list);
    va_end(list);
}

static double number(const json_t *line, const char *key) {
    return json_number_value(json_object_get(line, key));
}

void marketplace_bill_text(const json_t *line, char text[MARKETPLACE_SUMMARY_TEXT]) {
    double dollars = number(line, "dollars");
    double on_demand = number(line, "all_on_demand_dollars");
    text[0] = '\0';
    add_line(text, "market", "%s, %s to %s\n", json_string_value(json_object_get(line, "model")),
             json_string_value(json_object_get(line, "from")), json_string_value(json_object_get(line, "until")));
    add_line(text, "machines", "%.0f on demand; %.0f spot in %.0f acquisitions, %.0f of them evicted\n",
             number(line, "on_demand_machines"), number(line, "spot_machines"), number(line, "acquisitions"),
             number(line, "evicted_machines"));
    add_line(text, "machine-hours", "%.2f on demand, %.2f spot, %.2f free\n", number(line, "on_demand_hours"),
             number(line, "spot_hours"), number(line, "free_hours"));
    add_line(text, "cost", "$%.4f: $%.4f on demand, $%.4f spot\n", dollars, number(line, "on_demand_dollars"),
             number(line, "spot_dollars"));
    if (on_demand > 0) {
        add_line(text, "all on demand", "$%.4f for the same machine-hours: %.0f %% saved\n", on_demand,
                 100 * (1 - dollars / on_demand));
    }
}
