/* What the daemon tells: lines for people on standard output, lines of JSON in --report. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/printable.h"

#include <stdarg.h>
#include <stdlib.h>

enum { DAEMON_LINE_MAX = 1024 /* longer lines for people are cut */ };

static const char *const STAGES[] = {"planned", "sent", "waiting", "filled", "refused", "closed"};
static const char *const STATES[] = {"pending", "running", "stopping", "gone"};
static const char *const ENDS[] = {"running", "released", "evicted", "vanished"};

void daemon_say(struct daemon *daemon, const char *format, ...) {
    char time[INSTANT_TEXT_MAX];
    char text[DAEMON_LINE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    text_make_printable(text); /* it quotes the cloud's and the job's answers */
    daemon_note_decision(daemon, text);
    log_info("%s", text);
    if (!daemon->options->quiet) {
        instant_format(daemon_now(daemon), time);
        printf("%s %s\n", time, text);
        fflush(stdout);
    }
}

void daemon_report(struct daemon *daemon, const char *type, json_t *object) {
    char time[INSTANT_TEXT_MAX];
    instant_format(daemon_now(daemon), time);
    if (daemon->report != NULL && object != NULL) {
        json_t *line = json_pack("{s:s,s:s}", "type", type, "time", time);
        json_object_update(line, object);
        json_dumpf(line, daemon->report, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
        fputc('\n', daemon->report);
        json_decref(line);
    }
    json_decref(object);
}

static const char *kind_name(enum provider_kind kind) {
    return kind == PROVIDER_SPOT ? "spot" : "on-demand";
}

void daemon_report_launch(struct daemon *daemon, const struct ledger_launch *launch) {
    const struct provider_launch *l = &launch->launch;
    daemon_report(daemon, "launch",
                  json_pack("{s:s,s:s,s:s,s:s,s:s,s:i,s:f,s:i,s:s,s:s}", "token", l->token, "stage",
                            STAGES[launch->stage], "kind", kind_name(l->kind), "instance_type", l->type, "zone",
                            l->zone, "count", (int)l->count, "bid", price_dollars(l->bid), "machines",
                            (int)launch->machines, "code", launch->code, "text", launch->text));
}

static json_t *instant_json(int64_t time) {
    char text[INSTANT_TEXT_MAX];
    if (time == 0) {
        return json_null();
    }
    instant_format(time, text);
    return json_string(text);
}

void daemon_report_machine(struct daemon *daemon, const struct ledger_machine *machine) {
    const struct provider_machine *m = &machine->machine;
    const struct catalog_price *type = catalog_find(&daemon->config->known, m->type, daemon->region);
    daemon_report(daemon, "machine",
                  json_pack("{s:s,s:s,s:s,s:s,s:s,s:b,s:s,s:s,s:b,s:o,s:o,s:o,s:f,s:i,s:f}", "id", m->id, "token",
                            m->token, "kind", kind_name(m->kind), "instance_type", m->type, "zone", m->zone, "reliable",
                            (int)machine->reliable, "state", STATES[m->state], "how", ENDS[machine->how], "noticed",
                            (int)m->noticed, "launched", instant_json(m->launched), "release_at",
                            instant_json(machine->release_at), "ended", instant_json(machine->ended), "bid",
                            price_dollars(machine->bid), "vcpus", type != NULL ? (int)type->vcpus : 0,
                            "on_demand_price", type != NULL ? price_dollars(type->price) : 0.0));
}

static void report_bill(struct daemon *daemon, const struct footprint *footprint,
                        const struct ledger_machine *machine) {
    struct bill bill = footprint_bill(footprint, machine);
    daemon_report(daemon, "bill",
                  json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:s,s:f,s:I,s:I,s:I}", "id", machine->machine.id, "kind",
                            kind_name(machine->machine.kind), "instance_type", machine->machine.type, "zone",
                            machine->machine.zone, "start", instant_json(machine->machine.launched), "end",
                            instant_json(machine->ended), "how", ENDS[machine->how], "dollars",
                            amount_dollars(bill.amount), "amount_units", (json_int_t)bill.amount, "paid_seconds",
                            (json_int_t)bill.paid_seconds, "free_seconds", (json_int_t)bill.free_seconds));
}

/* Words as in docs/bidbrain.md, "The bill's words": free hours are spot hours too. */
static double hours(int64_t seconds) {
    return (double)seconds / HOUR;
}

json_t *daemon_spend_json(const struct footprint_spend *spend) {
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I}", "dollars",
                     amount_dollars(spend->spot.amount + spend->on_demand.amount), "spot_dollars",
                     amount_dollars(spend->spot.amount), "on_demand_dollars", amount_dollars(spend->on_demand.amount),
                     "spot_hours", hours(spend->spot.paid_seconds + spend->spot.free_seconds), "free_hours",
                     hours(spend->spot.free_seconds), "on_demand_hours", hours(spend->on_demand.paid_seconds),
                     "all_on_demand_dollars", amount_dollars(spend->alike), "evictions", (json_int_t)spend->evictions);
}

size_t daemon_machines_there(const struct daemon *daemon) {
    size_t there = 0;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        there += daemon->fleet.machines[i].row.ended == 0;
    }
    return there;
}

size_t daemon_launches_unanswered(const struct daemon *daemon) {
    size_t unanswered = 0;
    for (size_t l = 0; l < daemon->fleet.launch_count; l++) {
        unanswered += daemon->fleet.launches[l].row.stage <= LEDGER_WAITING;
    }
    return unanswered;
}

json_t *daemon_status_json(struct daemon *daemon) {
    struct daemon_view view;
    const struct footprint_spend spend = footprint_spend(daemon_view_open(daemon, &view));
    json_t *status = daemon_spend_json(&spend);
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
    size_t left = 0;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        report_bill(daemon, footprint, &daemon->fleet.machines[i].row);
        left += daemon->fleet.machines[i].row.ended == 0;
    }
    daemon_view_close(&view);
    json_t *summary = daemon_spend_json(&spend);
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
