/* Rows of launches, machines and closed markets, in memory and in the ledger. A change is stored before it is acted
 * on. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <string.h>

/* ---- Rows ---- */

size_t daemon_find_machine(const struct daemon *daemon, const char *id) {
    for (size_t i = daemon->fleet.machine_count; i-- > 0;) {
        if (strcmp(daemon->fleet.machines[i].row.machine.id, id) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

size_t daemon_find_launch(const struct daemon *daemon, const char *token) {
    for (size_t l = daemon->fleet.launch_count; l-- > 0;) {
        if (strcmp(daemon->fleet.launches[l].row.launch.token, token) == 0) {
            return l;
        }
    }
    return SIZE_MAX;
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

bool daemon_all_gone(const struct daemon *daemon) {
    return daemon_machines_there(daemon) == 0 && daemon_launches_unanswered(daemon) == 0;
}

/* Buys nothing while the state can't be written (for instance on a full disk). Machines are still given back. */
static void store_failed(struct daemon *daemon, const struct error *error) {
    if (daemon->loop.phase == DAEMON_RUN) {
        daemon_fail(daemon, error);
    } else {
        log_error("%s; the machines are given back all the same", error->text);
    }
}

void daemon_store_launch(struct daemon *daemon, size_t l) {
    struct error error = {0};
    if (ledger_put_launch(daemon->ledger, &daemon->fleet.launches[l].row, &error) != 0) {
        store_failed(daemon, &error);
    }
    daemon_report_launch(daemon, &daemon->fleet.launches[l].row);
}

void daemon_store_machine(struct daemon *daemon, size_t i) {
    struct error error = {0};
    if (ledger_put_machine(daemon->ledger, &daemon->fleet.machines[i].row, &error) != 0) {
        store_failed(daemon, &error);
    }
    daemon_report_machine(daemon, &daemon->fleet.machines[i].row);
}

size_t daemon_add_launch(struct daemon *daemon, const struct ledger_launch *launch) {
    struct daemon_fleet *fleet = &daemon->fleet;
    assert(daemon_find_launch(daemon, launch->launch.token) == SIZE_MAX);
    fleet->launches = memory_resized(fleet->launches, fleet->launch_count + 1, sizeof *fleet->launches);
    fleet->launches[fleet->launch_count] = (struct daemon_launch){.row = *launch};
    fleet->gone = fleet->gone_when_asked = false;
    return fleet->launch_count++;
}

size_t daemon_add_machine(struct daemon *daemon, const struct ledger_machine *machine) {
    struct daemon_fleet *fleet = &daemon->fleet;
    assert(daemon_find_machine(daemon, machine->machine.id) == SIZE_MAX);
    fleet->machines = memory_resized(fleet->machines, fleet->machine_count + 1, sizeof *fleet->machines);
    fleet->machines[fleet->machine_count] = (struct daemon_machine){.row = *machine};
    fleet->gone = fleet->gone_when_asked = false;
    return fleet->machine_count++;
}

/* ---- What the ledger has ---- */

static void load_launch(void *context, const struct ledger_launch *launch) {
    (void)daemon_add_launch(context, launch);
}

static void load_machine(void *context, const struct ledger_machine *machine) {
    struct daemon *daemon = context;
    size_t i = daemon_add_machine(daemon, machine);
    struct daemon_machine *entry = &daemon->fleet.machines[i];
    entry->hold =
        machine->release_at != 0 && machine->machine.kind == PROVIDER_SPOT && daemon->config->rules->whole_hours;
    entry->noticed = machine->machine.noticed ? daemon_now(daemon) : 0; /* the time of the notice is not stored */
}

static void load_market(void *context, const struct ledger_market *market) {
    struct daemon *daemon = context;
    daemon->fleet.closed =
        memory_resized(daemon->fleet.closed, daemon->fleet.closed_count + 1, sizeof *daemon->fleet.closed);
    daemon->fleet.closed[daemon->fleet.closed_count++] = *market;
}

int daemon_load(struct daemon *daemon, struct error *error) {
    int code = ledger_launches(daemon->ledger, load_launch, daemon, error);
    code = code != 0 ? code : ledger_machines(daemon->ledger, load_machine, daemon, error);
    return code != 0 ? code : ledger_markets(daemon->ledger, load_market, daemon, error);
}

/* ---- Closed markets ---- */

const char DAEMON_ANY_MARKET[] = "*";

static struct ledger_market *find_closed(const struct daemon *daemon, enum provider_kind kind, const char *type,
                                         const char *zone) {
    for (size_t c = 0; c < daemon->fleet.closed_count; c++) {
        struct ledger_market *closed = &daemon->fleet.closed[c];
        if (closed->kind == kind && strcmp(closed->type, type) == 0 && strcmp(closed->zone, zone) == 0) {
            return closed;
        }
    }
    return NULL;
}

int64_t daemon_closed_until(const struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone) {
    const struct ledger_market *one = find_closed(daemon, kind, type, zone);
    const struct ledger_market *all = find_closed(daemon, kind, DAEMON_ANY_MARKET, DAEMON_ANY_MARKET);
    int64_t until = one != NULL ? one->closed_until : 0;
    until = all != NULL && all->closed_until > until ? all->closed_until : until;
    return daemon->fleet.stopped[kind] ? MARKET_NEVER : until;
}

void daemon_close_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone,
                         int64_t seconds, bool doubled) {
    struct error error = {0};
    struct ledger_market *closed = find_closed(daemon, kind, type, zone);
    if (closed == NULL) {
        struct ledger_market market = {.kind = kind};
        snprintf(market.type, sizeof market.type, "%s", type);
        snprintf(market.zone, sizeof market.zone, "%s", zone);
        load_market(daemon, &market);
        closed = &daemon->fleet.closed[daemon->fleet.closed_count - 1];
    }
    for (unsigned f = 0; doubled && f < closed->failures && seconds < DAEMON_BACK_OFF_MAX_S; f++) {
        seconds *= 2;
    }
    seconds = doubled && seconds > DAEMON_BACK_OFF_MAX_S ? DAEMON_BACK_OFF_MAX_S : seconds;
    closed->failures += doubled;
    int64_t until = daemon_now(daemon) + seconds;
    closed->closed_until = until > closed->closed_until ? until : closed->closed_until;
    if (ledger_put_market(daemon->ledger, closed, &error) != 0) {
        store_failed(daemon, &error);
    }
}

void daemon_reopen_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone) {
    struct error error = {0};
    struct ledger_market *const both[] = {find_closed(daemon, kind, type, zone),
                                          find_closed(daemon, kind, DAEMON_ANY_MARKET, DAEMON_ANY_MARKET)};
    for (int b = 0; b < 2; b++) {
        if (both[b] != NULL && both[b]->failures > 0) {
            both[b]->failures = 0;
            if (ledger_put_market(daemon->ledger, both[b], &error) != 0) {
                store_failed(daemon, &error);
            }
        }
    }
}
