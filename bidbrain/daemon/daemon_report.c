/* The daemon's messages: lines for people on standard output, lines of JSON in --report. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/printable.h"
#include "agileml/wire/report_line.h"

#include <stdarg.h>
#include <stdlib.h>

enum { DAEMON_LINE_MAX = 1024 /* longer lines for people are cut */ };

static const char *const STAGES[] = {"planned", "sent", "waiting", "filled", "refused", "closed"};
static const char *const STATES[] = {"pending", "running", "stopping", "gone"};
static const char *const ENDS[] = {"running", "released", "evicted", "vanished"};

void daemon_page_line(struct daemon *daemon, const json_t *line) {
    struct daemon_page *page = &daemon->page;
    if (page->web == NULL) {
        return;
    }
    json_t *timed = json_pack("{s:s,s:I,s:f}", "type", json_string_value(json_object_get(line, "type")), "iteration",
                              (json_int_t)daemon->job.iterations, "seconds", (double)daemon_now(daemon) - page->began);
    /* the cast drops const, since jansson takes no const object */
    json_object_update_missing(timed, (json_t *)(uintptr_t)line);
    char *text = report_line_text(timed, true);
    web_line(page->web, page->lines++, text, strlen(text));
    free(text);
}

/* Adds a line `decision` to the job's report, if there is a link to the job, and to the page. */
static void note_decision(struct daemon *daemon, const char *text) {
    char time[INSTANT_TEXT_MAX];
    if (daemon->link != NULL) {
        instant_format(daemon_now(daemon), time);
        json_t *line = json_pack("{s:s,s:s,s:s}", "type", "decision", "time", time, "text", text);
        job_link_note(daemon->link, line);
        daemon_page_line(daemon, line);
        json_decref(line);
    }
}

void daemon_say(struct daemon *daemon, const char *format, ...) {
    char time[INSTANT_TEXT_MAX];
    char text[DAEMON_LINE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    text_make_printable(text); /* it may quote the cloud and the job */
    note_decision(daemon, text);
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
    const struct catalog_price *type = daemon_type(daemon, m->type);
    daemon_report(daemon, "machine",
                  json_pack("{s:s,s:s,s:s,s:s,s:s,s:b,s:s,s:s,s:b,s:o,s:o,s:o,s:f,s:i,s:f}", "id", m->id, "token",
                            m->token, "kind", kind_name(m->kind), "instance_type", m->type, "zone", m->zone, "reliable",
                            (int)machine->reliable, "state", STATES[m->state], "how", ENDS[machine->how], "noticed",
                            (int)m->noticed, "launched", instant_json(m->launched), "release_at",
                            instant_json(machine->release_at), "ended", instant_json(machine->ended), "bid",
                            price_dollars(machine->bid), "vcpus", type != NULL ? (int)type->vcpus : 0,
                            "on_demand_price", type != NULL ? price_dollars(type->price) : 0.0));
}

void daemon_report_bill(struct daemon *daemon, const struct ledger_machine *machine, const struct bill *bill) {
    daemon_report(daemon, "bill",
                  json_pack("{s:s,s:s,s:s,s:s,s:o,s:o,s:s,s:f,s:I,s:I,s:I}", "id", machine->machine.id, "kind",
                            kind_name(machine->machine.kind), "instance_type", machine->machine.type, "zone",
                            machine->machine.zone, "start", instant_json(machine->machine.launched), "end",
                            instant_json(machine->ended), "how", ENDS[machine->how], "dollars",
                            amount_dollars(bill->amount), "amount_units", (json_int_t)bill->amount, "paid_seconds",
                            (json_int_t)bill->paid_seconds, "free_seconds", (json_int_t)bill->free_seconds));
}
