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
        json_decref(line);
    }
}

/* The machines of a market that have not ended. */
struct held {
    unsigned machines;
    int64_t bid; /* the highest */
};

static struct held held_in(const struct daemon *daemon, const struct portfolio_market *market) {
    enum provider_kind kind = market->prices != NULL ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
    struct held held = {0};
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *row = &daemon->fleet.machines[i].row;
        if (row->ended == 0 && row->machine.kind == kind && strcmp(row->machine.type, market->type->type) == 0 &&
            strcmp(row->machine.zone, market->zone) == 0) {
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

static json_t *market_json(const struct daemon *daemon, const struct portfolio_market *market,
                           const struct held *held) {
    char name[MARKET_NAME_MAX + sizeof " on demand"];
    bool spot = market->prices != NULL;
    snprintf(name, sizeof name, "%s/%s%s", market->type->type, market->zone, spot ? "" : " on demand");
    json_t *object = json_pack("{s:s,s:i}", "market", name, "machines", (int)held->machines);
    set_dollars(object, "price", spot ? market_price(market->prices, daemon_now(daemon)) : market->type->price);
    set_dollars(object, "on_demand_price", market->type->price);
    if (spot && held->machines > 0) {
        set_dollars(object, "bid", held->bid);
    }
    return object;
}

/* The first spot markets, and all markets that have machines. */
static json_t *markets_json(const struct daemon *daemon) {
    json_t *list = json_array();
    for (size_t m = 0; m < daemon->market.buyable_count; m++) {
        const struct portfolio_market *market = &daemon->market.buyable[m];
        const struct held held = held_in(daemon, market);
        if (held.machines > 0 || (market->prices != NULL && m < DAEMON_MONEY_MARKETS)) {
            json_array_append_new(list, market_json(daemon, market, &held));
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
    if (!json_equal(line, daemon->market.money_noted)) {
        char time[INSTANT_TEXT_MAX];
        instant_format(daemon_now(daemon), time);
        json_decref(daemon->market.money_noted);
        daemon->market.money_noted = json_deep_copy(line);
        json_object_set_new(line, "time", json_string(time));
        job_link_note(daemon->link, line);
    }
    json_decref(line);
}
