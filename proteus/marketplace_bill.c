/* See marketplace.h: the bill. */
#include "proteus/marketplace.h"

#include "agileml/base/instant.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The totals of the machines of one kind. */
struct kind_total {
    int64_t amount; /* units of money.h */
    int64_t paid_seconds, free_seconds;
};

struct bill_total {
    struct kind_total spot, on_demand;
    int64_t on_demand_amount; /* what the same seconds would have cost on demand */
    int64_t last;             /* time of the latest end of a machine */
    unsigned spot_machines, on_demand_machines, evicted;
    unsigned acquisitions; /* launches that got spot machines */
};

/* Reads a time; leaves *time unchanged for null. Returns false for any other value. */
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
    const json_t *cost = json_object_get(json_object_get(machine, "cost"), place->rules->name);
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
    total->on_demand_amount += price != NULL && price->price != PRICE_UNKNOWN
                                   ? billing_on_demand(&MARKET_EC2, price->price, start, end, BILLING_RELEASED).amount
                                   : 0;
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
                     "market", "model", place->rules->name, "from", from, "until", until, "speed", place->options.speed,
                     "acquisitions", (int)total.acquisitions, "spot_machines", (int)total.spot_machines,
                     "on_demand_machines", (int)total.on_demand_machines, "evicted_machines", (int)total.evicted,
                     "on_demand_hours", hours(total.on_demand.paid_seconds + total.on_demand.free_seconds),
                     "spot_hours", hours(total.spot.paid_seconds + total.spot.free_seconds), "free_hours",
                     hours(total.spot.free_seconds), "on_demand_dollars", amount_dollars(total.on_demand.amount),
                     "spot_dollars", amount_dollars(total.spot.amount), "dollars",
                     amount_dollars(total.on_demand.amount + total.spot.amount), "all_on_demand_dollars",
                     amount_dollars(total.on_demand_amount));
}

/* ---- The two bills ---- */

/* Returns {ID: AMOUNT} from the lines of type bill. The last line of an id counts, since a restarted bidbrain writes
 * its own bill later. NULL: there is no bill. */
static json_t *read_ledger_bill(const char *report) {
    FILE *file = fopen(report, "re");
    json_t *amounts = json_object();
    json_t *line = NULL;
    bool ended = false;
    while (file != NULL && (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        const char *type = json_string_value(json_object_get(line, "type"));
        const char *id = json_string_value(json_object_get(line, "id"));
        json_t *amount = json_object_get(line, "amount_units");
        ended = ended || (type != NULL && strcmp(type, "summary") == 0);
        if (type != NULL && strcmp(type, "bill") == 0 && id != NULL && json_is_integer(amount)) {
            json_object_set(amounts, id, amount);
        }
        json_decref(line);
    }
    if (file != NULL) {
        fclose(file);
    }
    if (!ended) {
        json_decref(amounts);
        return NULL;
    }
    return amounts;
}

struct comparison {
    int64_t market, ledger;                 /* amounts of all machines */
    unsigned apart;                         /* machines that differ at all */
    unsigned far;                           /* machines that differ by more than a cent */
    char named[MARKETPLACE_APART_TEXT / 2]; /* the first machines that differ */
};

static bool is_far(int64_t a, int64_t b) {
    return (a > b ? a - b : b - a) > AMOUNT_DOLLAR / 100;
}

static void compare_machine(struct comparison *all, const char *id, int64_t market, int64_t ledger) {
    size_t used = strlen(all->named);
    all->market += market;
    all->ledger += ledger;
    all->far += is_far(market, ledger) ? 1 : 0;
    if (market != ledger && used + 96 < sizeof all->named) {
        snprintf(all->named + used, sizeof all->named - used, "%s%.32s $%.4f and $%.4f", all->apart > 0 ? ", " : "", id,
                 amount_dollars(market), amount_dollars(ledger));
    }
    all->apart += market != ledger ? 1 : 0;
}

bool marketplace_compare(json_t *line, const char *bill, size_t size, const char *report,
                         char text[MARKETPLACE_APART_TEXT]) {
    struct comparison all = {0};
    json_t *ledger = read_ledger_bill(report);
    if (ledger == NULL) {
        snprintf(text, MARKETPLACE_APART_TEXT, "the bill can't be checked: bidbrain has not written its own");
        return false;
    }
    const char *model = json_string_value(json_object_get(line, "model"));
    json_t *root = json_loadb(bill, size, 0, NULL);
    size_t m;
    const json_t *machine;
    json_array_foreach(json_object_get(root, "instances"), m, machine) {
        const char *id = json_string_value(json_object_get(machine, "id"));
        const json_t *cost = json_object_get(json_object_get(machine, "cost"), model);
        if (id != NULL) {
            compare_machine(&all, id, json_integer_value(json_object_get(cost, "amount_units")),
                            json_integer_value(json_object_get(ledger, id)));
            json_object_del(ledger, id);
        }
    }
    const char *id;
    json_t *amount;
    json_object_foreach(ledger, id, amount) { /* machines unknown to the market */
        compare_machine(&all, id, 0, json_integer_value(amount));
    }
    json_decref(root);
    json_decref(ledger);
    json_object_set_new(line, "ledger_dollars", json_real(amount_dollars(all.ledger)));
    json_object_set_new(line, "ledger_machines_apart", json_integer(all.apart));
    snprintf(text, MARKETPLACE_APART_TEXT,
             "the bills differ: $%.4f by the market, $%.4f by bidbrain's ledger; %u machine%s: %s%s",
             amount_dollars(all.market), amount_dollars(all.ledger), all.apart, all.apart == 1 ? "" : "s", all.named,
             strlen(all.named) + 96 >= sizeof all.named ? ", ..." : "");
    return all.far == 0 && !is_far(all.market, all.ledger);
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

void marketplace_bill_text(const struct report_line *line, char text[MARKETPLACE_SUMMARY_TEXT]) {
    text[0] = '\0';
    add_line(text, "market", "%s, %s to %s\n", line->model, line->from, line->until);
    add_line(text, "machines", "%.0f on demand; %.0f spot in %.0f acquisition%s, %.0f of them evicted\n",
             line->on_demand_machines, line->spot_machines, line->acquisitions, line->acquisitions == 1 ? "" : "s",
             line->evicted_machines);
    add_line(text, "machine-hours", "%.2f on demand, %.2f spot (%.2f of them free)\n", line->on_demand_hours,
             line->spot_hours, line->free_hours);
    add_line(text, "cost", "$%.4f: $%.4f on demand, $%.4f spot\n", line->dollars, line->on_demand_dollars,
             line->spot_dollars);
    if (line->all_on_demand_dollars > 0) {
        double saved = 100 * (1 - line->dollars / line->all_on_demand_dollars);
        add_line(text, "all on demand", "$%.4f for the same machine-hours: %.0f %% %s\n", line->all_on_demand_dollars,
                 fabs(saved), saved >= 0 ? "saved" : "more was paid");
    }
}
