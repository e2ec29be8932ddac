/* What the job costs: lines `money` of its report (docs/proteus.md, "The report"), the status, the bill at the end. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- In words and in JSON ---- */

/* Free hours count as spot hours, too: see docs/bidbrain.md, "The bill's words". */
static double hours(int64_t seconds) {
    return (double)seconds / HOUR;
}

static json_t *spend_json(const struct footprint_spend *spend) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I}", "dollars",
                     amount_dollars(spend->spot.amount + spend->on_demand.amount), "spot_dollars",
                     amount_dollars(spend->spot.amount), "on_demand_dollars", amount_dollars(spend->on_demand.amount),
                     "spot_hours", hours(spend->spot.paid_seconds + spend->spot.free_seconds), "free_hours",
                     hours(spend->spot.free_seconds), "on_demand_hours", hours(spend->on_demand.paid_seconds),
                     "all_on_demand_dollars", amount_dollars(spend->alike), "evictions", (json_int_t)spend->evictions);
}

/* ---- Lines `money` ---- */

/* A market, by its machines' kind, type and zone. */
struct place {
    enum provider_kind kind;
    const char *type, *zone;
};

/* The machines of a place that have not ended. */
struct held {
    unsigned machines;
    int64_t bid; /* the highest of their bids */
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

/* `prices` is NULL for on demand. */
static json_t *market_json(const struct daemon *daemon, const struct place *place, const struct held *held,
                           const struct market *prices) {
    char name[MARKET_NAME_MAX + sizeof " on demand"];
    bool spot = place->kind == PROVIDER_SPOT;
    const struct catalog_price *type = daemon_type(daemon, place->type);
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

/* Whether the list already names the machine's market, by an earlier machine or as a market that can be bought in. */
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

/* Lists the first spot markets, and all markets that have machines. Reliable machines may be where nothing else is
 * bought. */
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

/* Returns the vCPU-hours of all machines. */
static double vcpu_hours(const struct daemon *daemon, const struct footprint *footprint) {
    double seconds = 0;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *row = &daemon->fleet.machines[i].row;
        const struct catalog_price *type = daemon_type(daemon, row->machine.type);
        const struct bill bill = footprint_bill(footprint, row);
        seconds += type != NULL ? (double)(bill.paid_seconds + bill.free_seconds) * type->vcpus : 0;
    }
    return seconds / HOUR;
}

/* Returns whether the line differs from *last, which it then replaces. */
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
    /* the cast drops const, since jansson takes no const object */
    json_t *timed = json_copy((json_t *)(uintptr_t)line);
    instant_format(daemon_now(daemon), time);
    json_object_set_new(timed, "time", json_string(time));
    return timed;
}

void daemon_note_money(struct daemon *daemon) {
    struct daemon_view view;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    const struct footprint_spend spend = footprint_spend(footprint);
    double work = vcpu_hours(daemon, footprint);
    json_t *line = spend_json(&spend);
    daemon_view_close(&view);
    json_object_set_new(line, "type", json_string("money"));
    if (work > 0) {
        json_object_set_new(line, "dollars_per_work",
                            json_real(amount_dollars(spend.spot.amount + spend.on_demand.amount) / work));
        json_object_set_new(line, "work_unit", json_string("vCPU-hour"));
    }
    if (isfinite(daemon->config->limits.budget_dollars)) {
        json_object_set_new(line, "budget_dollars", json_real(daemon->config->limits.budget_dollars));
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

/* ---- The status, and the bill at the end ---- */

json_t *daemon_status_json(struct daemon *daemon) {
    struct daemon_view view;
    const struct footprint_spend spend = footprint_spend(daemon_view_open(daemon, &view));
    json_t *status = spend_json(&spend);
    daemon_view_close(&view);
    json_object_set_new(status, "job", json_string(daemon->config->job));
    json_object_set_new(status, "machines", json_integer((json_int_t)daemon_machines_there(daemon)));
    json_object_set_new(status, "machines_ever", json_integer((json_int_t)daemon->fleet.machine_count));
    json_object_set_new(status, "launches_without_answer",
                        json_integer((json_int_t)daemon_launches_unanswered(daemon)));
    json_object_set_new(status, "speeds", daemon_speeds_json(daemon));
    return status;
}

void daemon_spend_text(const struct footprint_spend *spend, struct daemon_spend_text *text) {
    snprintf(text->hours, sizeof text->hours,
             "machine-hours: %.2f on demand, %.2f spot (%.2f of them free); %zu machine%s evicted",
             hours(spend->on_demand.paid_seconds), hours(spend->spot.paid_seconds + spend->spot.free_seconds),
             hours(spend->spot.free_seconds), spend->evictions, spend->evictions == 1 ? "" : "s");
    snprintf(text->cost, sizeof text->cost,
             "cost: $%.4f, of that $%.4f on demand, $%.4f spot; all on demand: $%.4f for the same machine-hours",
             amount_dollars(spend->spot.amount + spend->on_demand.amount), amount_dollars(spend->on_demand.amount),
             amount_dollars(spend->spot.amount), amount_dollars(spend->alike));
}

void daemon_report_summary(struct daemon *daemon) {
    struct daemon_view view;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    const struct footprint_spend spend = footprint_spend(footprint);
    size_t left = daemon_machines_there(daemon);
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct bill bill = footprint_bill(footprint, &daemon->fleet.machines[i].row);
        daemon_report_bill(daemon, &daemon->fleet.machines[i].row, &bill);
    }
    daemon_view_close(&view);
    json_t *summary = spend_json(&spend);
    json_object_set_new(summary, "iterations", json_integer((json_int_t)daemon->job.iterations));
    json_object_set_new(summary, "machines_left", json_integer((json_int_t)left));
    json_object_set_new(summary, "ok", json_boolean(daemon->job.ok));
    daemon_report(daemon, "summary", summary);
    if (!daemon->options->no_bill) {
        struct daemon_spend_text text;
        daemon_spend_text(&spend, &text);
        daemon_say(daemon, "%s", text.hours);
        daemon_say(daemon, "%s", text.cost);
    }
    if (left > 0) {
        daemon_say(daemon, left == 1 ? "%zu machine is left and costs on" : "%zu machines are left and cost on", left);
    }
}
