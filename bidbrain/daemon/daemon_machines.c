/* The daemon's machines, from the provider's first report to their end. Each report goes into the ledger before it is
 * acted on. To give a machine back, the daemon requests that its node leave the job. It terminates the machine when the
 * node has left or its time is over. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- A machine's node ---- */

static bool node_told_to_leave(const struct daemon_machine *machine) {
    return machine->node == NODE_LEAVING || machine->node == NODE_OUT;
}

static void node_become(struct daemon_machine *machine, enum machine_node node) {
    static const unsigned next[] = {[NODE_AWAITED] =
                                        1 << NODE_MEMBER | 1 << NODE_LOST | 1 << NODE_LEAVING | 1 << NODE_OUT,
                                    [NODE_MEMBER] = 1 << NODE_LOST | 1 << NODE_LEAVING | 1 << NODE_OUT,
                                    [NODE_LOST] = 1 << NODE_MEMBER | 1 << NODE_OUT,
                                    [NODE_LEAVING] = 1 << NODE_OUT,
                                    [NODE_OUT] = 0};
    assert(node == machine->node || (next[machine->node] & 1U << node) != 0);
    machine->node = node;
}

static void node_joined(struct daemon_machine *machine) {
    node_become(machine, node_told_to_leave(machine) ? machine->node : NODE_MEMBER);
}

void daemon_machine_left(struct daemon *daemon, size_t i) {
    struct daemon_machine *machine = &daemon->fleet.machines[i];
    node_become(machine, node_told_to_leave(machine) ? NODE_OUT : NODE_LOST);
}

static void node_tell_to_leave(struct daemon_machine *machine) {
    node_become(machine, machine->node == NODE_LOST ? NODE_OUT : NODE_LEAVING);
}

static bool node_awaited(const struct daemon_machine *machine) {
    return machine->node == NODE_AWAITED || machine->node == NODE_LOST;
}

static bool node_gone(const struct daemon_machine *machine) {
    return machine->node == NODE_LOST || machine->node == NODE_OUT;
}

void daemon_machine_joined(struct daemon *daemon, size_t i) {
    const struct provider_machine *machine = &daemon->fleet.machines[i].row.machine;
    struct daemon_machine *entry = &daemon->fleet.machines[i];
    /* Joins from before this bidbrain's start are also reported, but without their times. */
    if (entry->node == NODE_AWAITED && machine->launched >= daemon->job.begun) {
        double seconds = fmax(0, (double)(daemon_now(daemon) - machine->launched));
        daemon->job.boot_seconds += (seconds - daemon->job.boot_seconds) / DAEMON_BOOTS;
    }
    node_joined(entry);
    entry->joined_wall = market_clock_elapsed();
    daemon_reopen_market(daemon, machine->kind, machine->type, machine->zone);
}

/* ---- Machines ---- */

static bool machine_here(const struct ledger_machine *machine) {
    return machine->ended == 0 && machine->machine.state != MACHINE_GONE;
}

/* Sets how and when the machine ended; LEDGER_RUNS and 0: it has not ended. */
static void machine_end(struct ledger_machine *machine, enum ledger_end how, int64_t ended) {
    enum { TAKEN = 1 << LEDGER_EVICTED, GIVEN = 1 << LEDGER_RELEASED };
    static const unsigned next[] = {[LEDGER_RUNS] = TAKEN | GIVEN | 1 << LEDGER_VANISHED,
                                    [LEDGER_RELEASED] = 1 << LEDGER_RUNS | GIVEN | TAKEN,
                                    [LEDGER_EVICTED] = 1 << LEDGER_RUNS | TAKEN,
                                    [LEDGER_VANISHED] = 1 << LEDGER_RUNS | GIVEN | TAKEN};
    assert((next[machine->how] & 1U << how) != 0 && (ended == 0) == (how == LEDGER_RUNS));
    machine->ended = ended;
    machine->how = how;
}

static void sweep(struct daemon *daemon, const struct provider_machine *told) {
    const char *const ids[] = {told->id};
    if (told->state == MACHINE_GONE || told->state == MACHINE_STOPPING) {
        return;
    }
    daemon->fleet.orphans++;
    log_warn("machine %s (%s/%s) is tagged with this job but its launch (token '%s') is not in the state: an orphan%s",
             told->id, told->type, told->zone, told->token, daemon->options->dry_run ? "" : ", it is terminated");
    daemon_report(daemon, "orphan", json_pack("{s:s,s:s}", "id", told->id, "token", told->token));
    if (!daemon->options->dry_run) {
        provider_terminate(daemon->provider, ids, 1);
    }
}

/* Reports the node's end to the controller, which would otherwise wait for its failure timeout. */
static void tell_gone(struct daemon *daemon, const char *id) {
    if (daemon->link != NULL && job_link_has(daemon->link, id)) {
        job_link_gone(daemon->link, &id, 1);
    }
}

/* Returns when a machine that is gone ended: as the cloud reports, or else the likeliest moment. */
static int64_t end_of(const struct daemon *daemon, size_t i, enum ledger_end how) {
    const struct provider_machine *told = &daemon->fleet.machines[i].row.machine;
    const struct daemon_machine *entry = &daemon->fleet.machines[i];
    int64_t now = daemon_now(daemon);
    if (told->ended != 0 && told->ended >= told->launched) {
        return told->ended;
    }
    int64_t taken = entry->noticed != 0 ? entry->noticed + DAEMON_NOTICE_S : now; /* the end may be seen late */
    /* Assumes that it ended when its termination was first requested. If that was too long ago, the request did not
     * reach the cloud. */
    double delay = DAEMON_TERMINATE_S + DAEMON_TERMINATE_WALL_S * daemon->clock.speed;
    bool asked = entry->terminated != 0 && how == LEDGER_RELEASED && (double)(now - entry->terminated) < delay;
    int64_t ended = asked ? entry->terminated : how == LEDGER_EVICTED && taken < now ? taken : now;
    return ended > entry->seen ? ended : entry->seen;
}

static void machine_ended(struct daemon *daemon, size_t i, enum ledger_end how) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    const struct daemon_machine *entry = &daemon->fleet.machines[i];
    const struct provider_machine *told = &machine->machine;
    if (how == LEDGER_EVICTED && entry->noticed == 0 && told->kind == PROVIDER_SPOT) {
        daemon_close_market(daemon, told->kind, told->type, told->zone, daemon->config->limits.cooldown_seconds, false);
    } else if (how != LEDGER_EVICTED && machine->release_at == 0 && entry->noticed == 0 &&
               daemon->loop.phase == DAEMON_RUN) {
        log_warn("%s (%s/%s) has ended by itself, nothing is bought there for a while: see what its node said",
                 told->id, told->type, told->zone);
        daemon_close_market(daemon, told->kind, told->type, told->zone, DAEMON_BACK_OFF_S, true);
    }
    machine_end(machine, how, end_of(daemon, i, how));
    machine->machine.state = MACHINE_GONE;
    tell_gone(daemon, machine->machine.id);
    daemon->loop.decide_now = daemon->loop.decide_now || (how == LEDGER_EVICTED && !machine->machine.noticed);
}

static void machine_noticed(struct daemon *daemon, size_t i) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    daemon->fleet.machines[i].noticed = daemon_now(daemon);
    daemon_say(daemon, "%s (%s/%s) is about to be taken", machine->machine.id, machine->machine.type,
               machine->machine.zone);
    if (machine->machine.kind == PROVIDER_SPOT) {
        daemon_close_market(daemon, PROVIDER_SPOT, machine->machine.type, machine->machine.zone,
                            daemon->config->limits.cooldown_seconds, false);
    }
    daemon->loop.decide_now = true;
}

static const char *how_text(const struct ledger_machine *machine) {
    return machine->how == LEDGER_EVICTED    ? "taken by the cloud"
           : machine->how == LEDGER_RELEASED ? "given back"
                                             : "gone";
}

/* A machine that counted as gone, since lists did not show it, is back: it costs money, so it counts again. */
static void machine_back(struct daemon *daemon, size_t i) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    log_warn("%s (%s/%s) was taken for gone, and is there", machine->machine.id, machine->machine.type,
             machine->machine.zone);
    machine_end(machine, LEDGER_RUNS, 0);
    daemon->fleet.machines[i].terminate_wall = 0;
    daemon_store_machine(daemon, i);
}

/* The cloud reports a machine that has ended by the ledger: takes over the cloud's beginning, end and reason. */
static void correct_end(struct daemon *daemon, size_t i, const struct provider_machine *told) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    int64_t launched = told->launched != 0 ? told->launched : machine->machine.launched;
    int64_t ended = told->ended != 0 && told->ended >= launched ? told->ended : machine->ended;
    enum ledger_end how = told->evicted                     ? LEDGER_EVICTED
                          : machine->how == LEDGER_VANISHED ? LEDGER_RELEASED
                                                            : machine->how;
    if (told->state == MACHINE_GONE &&
        (ended != machine->ended || launched != machine->machine.launched || how != machine->how)) {
        machine->machine.launched = launched;
        machine->machine.evicted = machine->machine.evicted || told->evicted;
        machine_end(machine, how, ended);
        daemon_store_machine(daemon, i);
    }
}

/* Takes over the report, and stores the row if anything changed. */
static void update_machine(struct daemon *daemon, size_t i, const struct provider_machine *told) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    struct provider_machine before = machine->machine;
    if (told->state == MACHINE_RUNNING) {
        daemon->fleet.machines[i].seen = daemon_now(daemon);
    }
    if (machine->ended != 0 && told->state != MACHINE_RUNNING &&
        (told->state != MACHINE_PENDING || machine->how != LEDGER_VANISHED)) {
        correct_end(daemon, i, told);
        return;
    }
    if (machine->ended != 0) {
        machine_back(daemon, i);
    }
    machine->machine.state = told->state;
    machine->machine.launched = told->launched != 0 ? told->launched : before.launched;
    machine->machine.ended = told->ended;
    machine->machine.noticed = before.noticed || told->noticed;
    machine->machine.evicted = before.evicted || told->evicted;
    snprintf(machine->machine.reason, sizeof machine->machine.reason, "%s", told->reason);
    bool ran = machine->running != 0;
    if (told->state == MACHINE_RUNNING && !ran) {
        machine->running = daemon_now(daemon);
        machine->machine.launched = machine->machine.launched != 0 ? machine->machine.launched : machine->running;
    }
    if (told->noticed && !before.noticed && told->state != MACHINE_GONE) {
        machine_noticed(daemon, i);
    }
    if (told->state == MACHINE_GONE) {
        bool evicted = machine->machine.evicted;
        machine_ended(daemon, i, evicted ? LEDGER_EVICTED : LEDGER_RELEASED);
        daemon_say(daemon, "%s (%s/%s) is %s%s%s", told->id, told->type, told->zone, how_text(machine),
                   told->reason[0] != '\0' ? ": " : "", told->reason);
    }
    if (before.state != told->state || before.noticed != machine->machine.noticed ||
        before.launched != machine->machine.launched || before.evicted != machine->machine.evicted || !ran) {
        daemon_store_machine(daemon, i);
    }
}

void daemon_take_machine(void *context, const struct provider_machine *told) {
    struct daemon *daemon = context;
    size_t i = daemon_find_machine(daemon, told->id);
    if (i == SIZE_MAX) {
        size_t l = daemon_find_launch(daemon, told->token);
        if (l == SIZE_MAX) {
            sweep(daemon, told);
            return;
        }
        const struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        struct ledger_machine machine = {.machine = *told,
                                         .reliable = launch->launch.reliable,
                                         .fallback = launch->fallback,
                                         .bid = launch->launch.bid};
        machine.machine.state = MACHINE_PENDING; /* so that the reported state counts as a change */
        machine.machine.noticed = false;
        if (told->type[0] == '\0' || told->zone[0] == '\0') { /* a request need not say where it was filled */
            memcpy(machine.machine.type, launch->launch.type, sizeof machine.machine.type);
            memcpy(machine.machine.zone, launch->launch.zone, sizeof machine.machine.zone);
        }
        i = daemon_add_machine(daemon, &machine);
        daemon_store_machine(daemon, i);
    }
    daemon->fleet.machines[i].listed = true;
    daemon->fleet.machines[i].absent = 0;
    update_machine(daemon, i, told);
}

void daemon_ask_list(struct daemon *daemon) {
    daemon->loop.next_list = market_clock_seconds(&daemon->clock) + (double)daemon->config->periods.list_seconds;
    if (daemon->fleet.listing) {
        return;
    }
    daemon->fleet.listing = true;
    daemon->fleet.orphans = daemon->fleet.withdrawn_count = 0;
    daemon->fleet.gone_when_asked = daemon_all_gone(daemon);
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        daemon->fleet.machines[i].listed = false;
    }
    provider_list(daemon->provider);
}

/* Whether the machine was requested so recently that a list may miss it. An earlier bidbrain may have requested it. */
static bool machine_fresh(const struct daemon *daemon, const struct ledger_machine *machine) {
    size_t l = daemon_find_launch(daemon, machine->machine.token);
    return machine->running == 0 && l != SIZE_MAX &&
           daemon_now(daemon) - daemon->fleet.launches[l].row.planned < DAEMON_FRESH_S;
}

void daemon_list_end(void *context, bool whole) {
    struct daemon *daemon = context;
    assert(daemon->fleet.listing);
    daemon->fleet.listing = false;
    daemon_answered(daemon, whole);
    for (size_t i = 0; i < daemon->fleet.machine_count && whole; i++) {
        struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        struct daemon_machine *entry = &daemon->fleet.machines[i];
        entry->absent = entry->listed || machine_fresh(daemon, machine) ? 0 : entry->absent + 1;
        if (machine->ended == 0 && entry->absent >= DAEMON_ABSENT) {
            machine_ended(daemon, i, machine->machine.evicted ? LEDGER_EVICTED : LEDGER_VANISHED);
            daemon_say(daemon, "%s (%s/%s) is gone", machine->machine.id, machine->machine.type, machine->machine.zone);
            daemon_store_machine(daemon, i);
        }
    }
    if (whole) {
        daemon_look_for_launches(daemon);
    }
    daemon->fleet.listed = daemon->fleet.listed || whole;
    daemon->fleet.gone = whole && daemon->fleet.gone_when_asked && daemon->fleet.orphans == 0;
}

/* ---- Giving back ---- */

void daemon_release(struct daemon *daemon, size_t i, int64_t at, bool hold) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    struct daemon_machine *entry = &daemon->fleet.machines[i];
    assert(at != 0 && (!hold || machine->machine.kind == PROVIDER_SPOT));
    if (machine->ended != 0 || (machine->release_at != 0 && machine->release_at <= at && !hold == !entry->hold)) {
        return;
    }
    machine->release_at = at;
    entry->hold = hold;
    daemon_store_machine(daemon, i);
}

/* Returns the market time by which the node must have left; 0: it stays. */
static double leaves_by(const struct daemon *daemon, size_t i) {
    const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    const struct daemon_machine *entry = &daemon->fleet.machines[i];
    double by = machine->release_at != 0 ? (double)machine->release_at - daemon_margin(daemon) * entry->hold : 0;
    if (entry->noticed != 0) {
        double taken = (double)(entry->noticed + DAEMON_NOTICE_S);
        by = by == 0 || taken < by ? taken : by;
    }
    return by;
}

/* Gives back a machine whose node does not join: it does not start, or does not reach the controller. */
static void give_up_on(struct daemon *daemon, size_t i) {
    const struct provider_machine *told = &daemon->fleet.machines[i].row.machine;
    log_warn("%s (%s/%s) %s: it is given back, and nothing is bought there for a while", told->id, told->type,
             told->zone,
             told->state == MACHINE_PENDING ? "does not start" : "runs, but its node has not joined the job");
    daemon_close_market(daemon, told->kind, told->type, told->zone, DAEMON_BACK_OFF_S, true);
    daemon_release(daemon, i, daemon_now(daemon), false);
}

void daemon_expect(struct daemon *daemon) {
    struct wire_machine *expected = memory_zeroed(daemon->fleet.machine_count + 1, sizeof *expected);
    size_t count = 0;
    int64_t now = daemon_now(daemon);
    double heard = job_link_silence(daemon->link);
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        struct daemon_machine *entry = &daemon->fleet.machines[i];
        if (machine_here(machine) && entry->noticed != 0 && machine->release_at == 0 &&
            now - entry->noticed > DAEMON_UNTAKEN_S) {
            daemon_release(daemon, i, now, false); /* its node has left the job, but the cloud has not taken it */
        }
        bool waits = machine_here(machine) && node_awaited(entry) && machine->release_at == 0 && entry->noticed == 0;
        if (!waits || heard > DAEMON_SILENCE_S) {
            continue;
        }
        entry->waited_wall = entry->waited_wall != 0 ? entry->waited_wall : market_clock_elapsed();
        double waited = market_clock_elapsed() - entry->waited_wall;
        /* A machine may be pending for ever: then the time that bidbrain has waited counts. */
        bool late = machine->running != 0 ? now - machine->running > DAEMON_JOIN_S
                                          : waited * daemon->clock.speed > DAEMON_JOIN_S;
        if (late && waited > DAEMON_JOIN_WALL_S) {
            give_up_on(daemon, i);
        } else if (count < WIRE_NODES_MAX) {
            snprintf(expected[count].name, sizeof expected[count].name, "%s", machine->machine.id);
            expected[count++].tier = machine->reliable ? TIER_RELIABLE : TIER_TRANSIENT;
        }
    }
    job_link_expect(daemon->link, expected, count);
    free(expected);
}

/* Requests evictions: one message names all machines that leave by the same time. */
static void tell_evictions(struct daemon *daemon) {
    const char *names[WIRE_NODES_MAX];
    for (size_t first = 0; first < daemon->fleet.machine_count; first++) {
        double by = leaves_by(daemon, first);
        size_t count = 0;
        if (by == 0 || !machine_here(&daemon->fleet.machines[first].row) ||
            node_told_to_leave(&daemon->fleet.machines[first])) {
            continue;
        }
        for (size_t i = first; i < daemon->fleet.machine_count && count < WIRE_NODES_MAX; i++) {
            struct daemon_machine *entry = &daemon->fleet.machines[i];
            if (!machine_here(&daemon->fleet.machines[i].row) || node_told_to_leave(entry) ||
                leaves_by(daemon, i) != by) {
                continue;
            }
            node_tell_to_leave(entry);
            if (job_link_has(daemon->link, daemon->fleet.machines[i].row.machine.id) ||
                !job_link_caught_up(daemon->link)) {
                names[count++] = daemon->fleet.machines[i].row.machine.id;
            } else {
                node_become(entry, NODE_OUT);
            }
        }
        double notice_ms = 1e3 * daemon_wall_of(daemon, by);
        job_link_evict(daemon->link, names, count, (uint32_t)fmin(fmax(notice_ms, 0), UINT32_MAX));
    }
}

/* Whether the machine may be terminated: its time has come, or its node is gone and its hour need not be used up, or
 * everything ends at once. */
static bool may_end(const struct daemon *daemon, size_t i, double now) {
    const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    const struct daemon_machine *entry = &daemon->fleet.machines[i];
    if (!machine_here(machine) || machine->release_at == 0) {
        return false;
    }
    double margin = entry->hold ? daemon_margin(daemon) : 0;
    return daemon->loop.phase == DAEMON_AT_ONCE || now >= (double)machine->release_at - margin ||
           (node_gone(entry) && !entry->hold);
}

static void terminate_due(struct daemon *daemon) {
    double now = market_clock_seconds(&daemon->clock);
    double wall = market_clock_elapsed();
    const char **ids = memory_zeroed(daemon->fleet.machine_count + 1, sizeof *ids);
    size_t count = 0;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        struct daemon_machine *entry = &daemon->fleet.machines[i];
        bool asked = entry->terminate_wall != 0 && wall - entry->terminate_wall <= DAEMON_ASK_AGAIN_S;
        if (may_end(daemon, i, now) && !asked) {
            entry->terminate_wall = wall;
            entry->terminated = entry->terminated != 0 ? entry->terminated : (int64_t)now;
            ids[count++] = daemon->fleet.machines[i].row.machine.id;
        }
    }
    if (count > 0) {
        provider_terminate(daemon->provider, ids, count);
        /* soon, to confirm that they are gone */
        daemon->loop.next_list = fmin(daemon->loop.next_list, now + daemon->clock.speed);
    }
    free(ids);
}

void daemon_move_machines(struct daemon *daemon) {
    if (daemon->loop.phase == DAEMON_RUN || daemon->loop.phase == DAEMON_GIVE_BACK) {
        tell_evictions(daemon);
    }
    terminate_due(daemon);
}

double daemon_machines_due(const struct daemon *daemon) {
    double due = INFINITY;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        if (machine_here(machine) && machine->release_at != 0 && daemon->fleet.machines[i].terminate_wall == 0) {
            double margin = daemon->fleet.machines[i].hold ? daemon_margin(daemon) : 0;
            due = fmin(due, (double)machine->release_at - margin);
        }
    }
    return due;
}

/* Gives one machine back as the phase requires. After the job's end its node need not leave first. Reliable machines go
 * last, since they hold the state. */
static void release_one(struct daemon *daemon, size_t i, bool transient_left) {
    const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    int64_t now = daemon_now(daemon);
    bool spot = machine->machine.kind == PROVIDER_SPOT;
    if (!machine_here(machine)) {
        return;
    }
    if (daemon->loop.phase == DAEMON_AT_ONCE) {
        daemon_release(daemon, i, now, false);
    } else if (daemon->loop.phase == DAEMON_JOB_OVER) {
        bool hold = spot && daemon->config->rules->whole_hours && machine->running != 0;
        int64_t at = hold ? billing_hour_end(machine->machine.launched, now) : now;
        if (machine->release_at == 0 || machine->release_at > at) {
            daemon_release(daemon, i, at, hold);
        }
    } else if (machine->reliable && !transient_left && machine->release_at == 0) {
        node_become(&daemon->fleet.machines[i], NODE_OUT);
        daemon_release(daemon, i, now, false);
    } else if (!machine->reliable && (machine->release_at == 0 || daemon->fleet.machines[i].hold)) {
        daemon_release(daemon, i, now + daemon->config->periods.notice_seconds, false);
    }
}

void daemon_release_all(struct daemon *daemon) {
    bool transient_left = false;
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        transient_left =
            transient_left || (machine_here(&daemon->fleet.machines[i].row) && !daemon->fleet.machines[i].row.reliable);
    }
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        release_one(daemon, i, transient_left);
    }
}
