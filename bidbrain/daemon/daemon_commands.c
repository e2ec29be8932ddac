/* The commands beside `bidbrain run` that open a daemon briefly: user-data, prices, status. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/printable.h"
#include "bidbrain/cloud/user_data.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_LINE_MAX = 256 /* longer lines of bidbrain status are cut */ };

/* For a state whose market does not answer: stops the clock at the last known time. */
static void stop_clock(struct daemon *daemon) {
    int64_t last = INSTANT_MIN;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        last = machine->ended > last ? machine->ended : last;
        last = machine->running > last ? machine->running : last;
    }
    daemon->clock = market_clock_replay((double)last, 0);
}

/* Describes the age of the newest price. */
static void describe_age(const struct daemon *daemon, char *text, size_t size) {
    char time[INSTANT_TEXT_MAX];
    text[0] = '\0';
    if (daemon->market.newest != 0) {
        bool old = daemon_now(daemon) - daemon->market.newest > DAEMON_HISTORY_DAYS * INT64_C(86400);
        instant_format(daemon->market.newest, time);
        snprintf(text, size, ", the newest of %s%s", time,
                 old ? ", older than 90 days: EC2's history reaches no further, so they are not used" : "");
    }
}

int daemon_user_data(const struct config *config, bool reliable, char **text, struct error *error) {
    const struct daemon_options options = {.config = config, .quiet = true};
    const struct provider_launch launch = {
        .token = "launch-template", .reliable = reliable, .join_until = (int64_t)time(NULL) + DAEMON_TEMPLATE_ADMIT_S};
    struct daemon *daemon = daemon_new(&options);
    int code = daemon_open_signals(daemon, error);
    code = code != 0 ? code : daemon_open_clock(daemon, error);
    code = code != 0 ? code : daemon_read_user_data(daemon, error);
    if (code == 0) {
        const struct provider_options provider = daemon_provider_options(daemon);
        code = user_data_render(&provider, &launch, text, error);
    }
    daemon_close(daemon);
    return code;
}

int daemon_fetch_prices(const struct config *config, const char *store, struct daemon_prices *prices,
                        struct error *error) {
    const struct daemon_options options = {.config = config, .quiet = true};
    struct daemon *daemon = daemon_new(&options);
    daemon->market.store_path = store;
    int code = daemon_open_signals(daemon, error);
    code = code != 0 ? code : ledger_open(&daemon->ledger, config->state, config->job, LEDGER_COPY, error);
    code = code != 0 ? code : daemon_open_clock(daemon, error);
    code = code != 0 ? code : daemon_open_local(daemon, false, error);
    code = code != 0 ? code : daemon_market_open(daemon, error);
    code = code != 0 ? code : daemon_open_provider(daemon, error);
    daemon->fleet.listed = true; /* this command needs no list */
    if (code == 0) {
        daemon_wait_for_provider(daemon);
        code = daemon->error.code != 0 ? error_set(error, daemon->error.code, "%s", daemon->error.text) : 0;
    }
    prices->points = daemon->market.points;
    describe_age(daemon, prices->age, sizeof prices->age);
    daemon_close(daemon);
    return code;
}

static void print_machines(const struct daemon *daemon, const struct footprint *footprint) {
    static const char *const states[] = {"pending", "running", "stopping", "gone"};
    printf("%-22s %-10s %-10s %-32s %-9s %-20s %10s\n", "machine", "kind", "tier", "market", "state", "since",
           "dollars");
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        char market[MARKET_NAME_MAX];
        char since[INSTANT_TEXT_MAX] = "-";
        if (machine->ended != 0) {
            continue;
        }
        snprintf(market, sizeof market, "%s/%s", machine->machine.type, machine->machine.zone);
        if (machine->machine.launched != 0) {
            instant_format(machine->machine.launched, since);
        }
        char line[STATUS_LINE_MAX];
        snprintf(line, sizeof line, "%-22s %-10s %-10s %-32s %-9s %-20s %10.4f", machine->machine.id,
                 machine->machine.kind == PROVIDER_SPOT ? "spot" : "on demand",
                 machine->reliable ? "reliable" : "transient", market, states[machine->machine.state], since,
                 amount_dollars(footprint_bill(footprint, machine).amount));
        text_make_printable(line); /* a machine's id comes from the cloud */
        puts(line);
    }
}

static void print_speeds(const struct daemon *daemon) {
    char speeds[DAEMON_SPEEDS_TEXT];
    daemon_speeds_text(daemon, speeds, sizeof speeds);
    if (speeds[0] != '\0') {
        printf("measured speeds of vCPUs (1: a typical one): %s\n", speeds);
    }
}

/* Prints which machines one price can take, for a job that has no reliable machines by its configuration. */
static void print_groups(const struct daemon *daemon, const struct footprint *footprint) {
    struct portfolio_plan all;
    size_t market;
    for (size_t h = 0; h < POLICY_HELD_MAX; h++) {
        all.kept[h] = 1;
    }
    all.buy_count = 0;
    if (daemon->config->reliable.count == 0 && footprint_groups(footprint, &all, &market) == 1) {
        const struct portfolio_market *only = &footprint->known.markets[market];
        printf("all machines are of one market, %s/%s: its price can take them at once; without reliable nodes the job "
               "would go on only from its last checkpoint\n",
               only->type->type, only->zone);
    }
}

static void print_status(struct daemon *daemon, bool json) {
    struct daemon_view view;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    if (json) {
        daemon->report = stdout;
        for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
            if (daemon->fleet.machines[i].row.ended == 0) {
                daemon_report_machine(daemon, &daemon->fleet.machines[i].row);
            }
        }
        daemon_report(daemon, "status", daemon_status_json(daemon));
        daemon->report = NULL;
    } else {
        struct daemon_spend_text text;
        const struct footprint_spend spend = footprint_spend(footprint);
        print_machines(daemon, footprint);
        printf("job %s: %zu machines now, %zu ever, %zu launches without an answer\n", daemon->config->job,
               daemon_machines_there(daemon), daemon->fleet.machine_count, daemon_launches_unanswered(daemon));
        char age[128];
        describe_age(daemon, age, sizeof age);
        printf("prices: %zu markets%s\n", daemon->market.markets.count, age);
        struct footprint_reasons reasons;
        if (daemon->market.markets.count == 0 && daemon->market.unwanted_said[0] != '\0') {
            printf("no spot machine: %s\n", daemon->market.unwanted_said);
        } else if (footprint_reasons(footprint, &reasons)) {
            char why[FOOTPRINT_REASONS_TEXT];
            footprint_reasons_text(footprint, &reasons, why);
            printf("no spot machine: %s\n", why);
        }
        print_groups(daemon, footprint);
        print_speeds(daemon);
        daemon_spend_text(&spend, &text);
        printf("so far: %s\n%s\n", text.hours, text.cost);
    }
    daemon_view_close(&view);
}

int daemon_status(const struct config *config, bool json, struct error *error) {
    const struct daemon_options options = {.config = config, .dry_run = true};
    struct daemon *daemon = daemon_new(&options);
    int code = access(config->state, F_OK) == 0
                   ? 0
                   : error_set(error, AML_EINPUT, "%.300s: %s: bidbrain run has not worked with it yet", config->state,
                               strerror(errno));
    code = code != 0 ? code : ledger_open(&daemon->ledger, config->state, config->job, LEDGER_COPY, error);
    code = code != 0 ? code : daemon_speeds_load(daemon, error);
    code = code != 0 ? code : daemon_load(daemon, error);
    struct error no_clock = {0};
    if (code == 0 && (daemon_open_clock(daemon, &no_clock) != 0 || daemon_open_local(daemon, false, &no_clock) != 0)) {
        log_warn("%s; costs are as of the last thing that happened", no_clock.text);
        stop_clock(daemon);
    }
    code = code != 0 ? code : daemon_market_open(daemon, error);
    code = code != 0 ? code
                     : ledger_text(daemon->ledger, "unwanted-prices", daemon->market.unwanted_said,
                                   sizeof daemon->market.unwanted_said, error);
    if (code == 0) {
        print_status(daemon, json);
    }
    daemon_close(daemon);
    return code;
}
