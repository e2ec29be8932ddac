/* What the job's report says of money: lines `money`, the state of the markets and of the spending, and lines
 * `decision`, what was decided or seen, in words (docs/proteus.md, "The report"). */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void daemon_note_decision(struct daemon *daemon, const char *text) {
    char time[INSTANT_TEXT_MAX];
    if (daemon->link != NULL) {
        instant_format(daemon_now(daemon), time);
        json_t *line = json_pack("{s:s,s:s,s:s}", "type", "decision", "time", time, "text", text);
        job_link_note(daemon->link, line);
        daemon_page_line(daemon, line);
        json_decref(line);
    }
}

/* A market by what its machines are. */
struct place {
    enum provider_kind kind;
    const char *type, *zone;
};

/* The machines there that have not ended. */
struct held {
    unsigned machines;
    int64_t bid; /* the highest */
};

static bool is_at(const struct ledger_machine *row, const struct place *place) {
    return row->ended == 0 && row->machine.kind == place->kind && strcmp(row->machine.type, place->type) == 0 &&
           strcmp(row->machine.zone, place->zone) == 0;
}

static struct held held_at(const struct daemon *daemon, const struct place *place) {
    struct held held = {0};
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *row = &daemon->fleet.machines[i].row;
        if (is_at(row, place)) {
            held.machines++;
            held.bid = row->bid > held.bid ? row->bid : held.bid;
        }
    }
    return held;
}

static void set_dollars(json_t *object, const char *key, int64_t price) {
    if (price != PRICE_UNKNOWN) {
        json_object_set_new(object, key, json_real(price_dollars(price)));
    }
}

/* `prices`: NULL on demand. */
static json_t *market_json(const struct daemon *daemon, const struct place *place, const struct held *held,
                           const struct market *prices) {
    char name[MARKET_NAME_MAX + sizeof " on demand"];
    bool spot = place->kind == PROVIDER_SPOT;
    const struct catalog_price *type = catalog_find(&daemon->config->known, place->type, daemon->region);
    int64_t on_demand = type != NULL ? type->price : PRICE_UNKNOWN;
    snprintf(name, sizeof name, "%s/%s%s", place->type, place->zone, spot ? "" : " on demand");
    json_t *object = json_pack("{s:s,s:i}", "market", name, "machines", (int)held->machines);
    set_dollars(object, "price",
                !spot            ? on_demand
                : prices != NULL ? market_price(prices, daemon_now(daemon))
                                 : PRICE_UNKNOWN);
    set_dollars(object, "on_demand_price", on_demand);
    if (spot && held->machines > 0) {
        set_dollars(object, "bid", held->bid);
    }
    return object;
}

static struct place place_of(const struct portfolio_market *market) {
    return (struct place){market->prices != NULL ? PROVIDER_SPOT : PROVIDER_ON_DEMAND, market->type->type,
                          market->zone};
}

/* Whether an earlier machine, or a market that can be bought in, stands for the machine's market in the list. */
static bool is_named(const struct daemon *daemon, size_t machine) {
    const struct ledger_machine *row = &daemon->fleet.machines[machine].row;
    const struct place place = {row->machine.kind, row->machine.type, row->machine.zone};
    for (size_t m = 0; m < daemon->market.buyable_count; m++) {
        const struct place other = place_of(&daemon->market.buyable[m]);
        if (is_at(row, &other)) {
            return true;
        }
    }
    for (size_t i = 0; i < machine; i++) {
        if (is_at(&daemon->fleet.machines[i].row, &place)) {
            return true;
        }
    }
    return false;
}

/* The first spot markets, and all markets that have machines: reliable ones may be where nothing else is bought. */
static json_t *markets_json(const struct daemon *daemon) {
    json_t *list = json_array();
    for (size_t m = 0; m < daemon->market.buyable_count; m++) {
        const struct portfolio_market *market = &daemon->market.buyable[m];
        const struct place place = place_of(market);
        const struct held held = held_at(daemon, &place);
        if (held.machines > 0 || (market->prices != NULL && m < DAEMON_MONEY_MARKETS)) {
            json_array_append_new(list, market_json(daemon, &place, &held, market->prices));
        }
    }
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *row = &daemon->fleet.machines[i].row;
        if (row->ended == 0 && !is_named(daemon, i)) {
            const struct place place = {row->machine.kind, row->machine.type, row->machine.zone};
            const struct held held = held_at(daemon, &place);
            json_array_append_new(list, market_json(daemon, &place, &held, NULL));
        }
    }
    return list;
}

/* The hours of all machines by the vCPUs of each. */
static double vcpu_hours(const struct daemon *daemon, const struct footprint *footprint) {
    double seconds = 0;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *row = &daemon->fleet.machines[i].row;
        const struct catalog_price *type = catalog_find(&daemon->config->known, row->machine.type, daemon->region);
        const struct bill bill = footprint_bill(footprint, row);
        seconds += type != NULL ? (double)(bill.paid_seconds + bill.free_seconds) * type->vcpus : 0;
    }
    return seconds / HOUR;
}

/* Whether the line differs from the last one, which it then replaces. */
static bool is_new(json_t *line, json_t **last) {
    if (json_equal(line, *last)) {
        return false;
    }
    json_decref(*last);
    *last = json_incref(line);
    return true;
}

static json_t *with_time(const struct daemon *daemon, const json_t *line) {
    char time[INSTANT_TEXT_MAX];
    json_t *timed = json_copy((json_t *)(uintptr_t)line); /* jansson takes no const object */
    instant_format(daemon_now(daemon), time);
    json_object_set_new(timed, "time", json_string(time));
    return timed;
}

void daemon_note_money(struct daemon *daemon) {
    struct daemon_view view;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    const struct footprint_spend spend = footprint_spend(footprint);
    double work = vcpu_hours(daemon, footprint);
    json_t *line = daemon_spend_json(&spend);
    daemon_view_close(&view);
    json_object_set_new(line, "type", json_string("money"));
    if (work > 0) {
        json_object_set_new(line, "dollars_per_work",
                            json_real(amount_dollars(spend.spot.amount + spend.on_demand.amount) / work));
        json_object_set_new(line, "work_unit", json_string("vCPU-hour"));
    }
    if (isfinite(daemon->config->budget_dollars)) {
        json_object_set_new(line, "budget_dollars", json_real(daemon->config->budget_dollars));
    }
    json_object_set_new(line, "markets", markets_json(daemon));
    if (job_link_caught_up(daemon->link) && is_new(line, &daemon->market.money_noted)) {
        json_t *timed = with_time(daemon, line);
        job_link_note(daemon->link, timed);
        json_decref(timed);
    }
    if (daemon->page.web != NULL && is_new(line, &daemon->page.money)) {
        json_t *timed = with_time(daemon, line);
        daemon_page_line(daemon, timed);
        json_decref(timed);
    }
    json_decref(line);
}
