/* The daemon's launches and machines. A launch is in the ledger before it is asked for; what the provider says goes
 * into the ledger before anything follows from it. Given back is what nobody needs any more: the controller is told,
 * and the machine goes when it has left the job, or when its time is over. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/market_read.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* ---- Rows ---- */

size_t daemon_find_machine(const struct daemon *daemon, const char *id) {
    for (size_t i = daemon->fleet.machine_count; i-- > 0;) {
        if (strcmp(daemon->fleet.machines[i].row.machine.id, id) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static size_t find_launch(const struct daemon *daemon, const char *token) {
    for (size_t l = daemon->fleet.launch_count; l-- > 0;) {
        if (strcmp(daemon->fleet.launches[l].row.launch.token, token) == 0) {
            return l;
        }
    }
    return SIZE_MAX;
}

/* Without a state nothing is bought. But what is being given back is not kept for want of one: a full disk, say. */
static void store_failed(struct daemon *daemon, const struct error *error) {
    if (daemon->loop.phase == DAEMON_RUN) {
        daemon_fail(daemon, error);
    } else {
        log_error("%s; the machines are given back all the same", error->text);
    }
}

static void store_launch(struct daemon *daemon, size_t l) {
    struct error error = {0};
    if (ledger_put_launch(daemon->ledger, &daemon->fleet.launches[l].row, &error) != 0) {
        store_failed(daemon, &error);
    }
    daemon_report_launch(daemon, &daemon->fleet.launches[l].row);
}

static void store_machine(struct daemon *daemon, size_t i) {
    struct error error = {0};
    if (ledger_put_machine(daemon->ledger, &daemon->fleet.machines[i].row, &error) != 0) {
        store_failed(daemon, &error);
    }
    daemon_report_machine(daemon, &daemon->fleet.machines[i].row);
}

static size_t add_launch(struct daemon *daemon, const struct ledger_launch *launch) {
    struct daemon_fleet *fleet = &daemon->fleet;
    fleet->launches = memory_resized(fleet->launches, fleet->launch_count + 1, sizeof *fleet->launches);
    fleet->launches[fleet->launch_count] = (struct daemon_launch){.row = *launch};
    fleet->gone = fleet->gone_when_asked = false;
    return fleet->launch_count++;
}

static size_t add_machine(struct daemon *daemon, const struct ledger_machine *machine) {
    struct daemon_fleet *fleet = &daemon->fleet;
    fleet->machines = memory_resized(fleet->machines, fleet->machine_count + 1, sizeof *fleet->machines);
    fleet->machines[fleet->machine_count] = (struct daemon_machine){.row = *machine};
    fleet->gone = fleet->gone_when_asked = false;
    return fleet->machine_count++;
}

/* ---- A machine's node ---- */

static bool node_told_to_leave(const struct daemon_machine *machine) {
    return machine->node == NODE_LEAVING || machine->node == NODE_OUT;
}

static void node_joined(struct daemon_machine *machine) {
    machine->node = node_told_to_leave(machine) ? machine->node : NODE_MEMBER;
}

void daemon_machine_left(struct daemon *daemon, size_t i) {
    struct daemon_machine *machine = &daemon->fleet.machines[i];
    machine->node = node_told_to_leave(machine) ? NODE_OUT : NODE_LOST;
}

static void node_tell_to_leave(struct daemon_machine *machine) {
    machine->node = machine->node == NODE_LOST ? NODE_OUT : NODE_LEAVING;
}

static bool node_awaited(const struct daemon_machine *machine) {
    return machine->node == NODE_AWAITED || machine->node == NODE_LOST;
}

static bool node_gone(const struct daemon_machine *machine) {
    return machine->node == NODE_LOST || machine->node == NODE_OUT;
}

/* ---- What the ledger has ---- */

static void load_launch(void *context, const struct ledger_launch *launch) {
    (void)add_launch(context, launch);
}

static void load_machine(void *context, const struct ledger_machine *machine) {
    struct daemon *daemon = context;
    size_t i = add_machine(daemon, machine);
    struct daemon_machine *entry = &daemon->fleet.machines[i];
    entry->hold =
        machine->release_at != 0 && machine->machine.kind == PROVIDER_SPOT && daemon->config->rules->whole_hours;
    entry->noticed = machine->machine.noticed ? daemon_now(daemon) : 0; /* when it came is not known any more */
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

/* ---- Markets that nothing is bought in for a while ---- */

static const char ANY_MARKET[] = "*"; /* a quota counts for all of a kind */

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
    const struct ledger_market *all = find_closed(daemon, kind, ANY_MARKET, ANY_MARKET);
    int64_t until = one != NULL ? one->closed_until : 0;
    until = all != NULL && all->closed_until > until ? all->closed_until : until;
    return daemon->fleet.stopped[kind] ? MARKET_NEVER : until;
}

static void close_market(struct daemon *daemon, enum provider_kind kind, const char *type, const char *zone,
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

void daemon_machine_joined(struct daemon *daemon, size_t i) {
    const struct provider_machine *machine = &daemon->fleet.machines[i].row.machine;
    struct error error = {0};
    struct daemon_machine *entry = &daemon->fleet.machines[i];
    if (entry->node == NODE_AWAITED &&
        machine->launched >= daemon->job.begun) { /* earlier joins are told anew: when, nobody knows */
        double seconds = fmax(0, (double)(daemon_now(daemon) - machine->launched));
        daemon->job.boot_seconds += (seconds - daemon->job.boot_seconds) / DAEMON_BOOTS;
    }
    node_joined(entry);
    struct ledger_market *const both[] = {find_closed(daemon, machine->kind, machine->type, machine->zone),
                                          find_closed(daemon, machine->kind, ANY_MARKET, ANY_MARKET)};
    for (int b = 0; b < 2; b++) {
        if (both[b] != NULL && both[b]->failures > 0) {
            both[b]->failures = 0;
            if (ledger_put_market(daemon->ledger, both[b], &error) != 0) {
                store_failed(daemon, &error);
            }
        }
    }
}

static bool is_one_of(const char *code, const char *const *codes) {
    for (; *codes != NULL; codes++) {
        if (strcmp(code, *codes) == 0) {
            return true;
        }
    }
    return false;
}

/* What follows from EC2's reasons. */
static void back_off(struct daemon *daemon, const struct provider_launch *launch, const char *code) {
    static const char *const prices[] = {"SpotMaxPriceTooLow", "price-too-low", NULL};
    static const char *const quotas[] = {"MaxSpotInstanceCountExceeded",
                                         "VcpuLimitExceeded",
                                         "InstanceLimitExceeded",
                                         "limit-exceeded",
                                         "MaxSpotFleetRequestCountExceeded",
                                         "SpotInstanceCountLimitExceeded",
                                         NULL};
    if (is_one_of(code, prices)) { /* until there are new prices */
        close_market(daemon, launch->kind, launch->type, launch->zone, 2 * daemon->config->price_seconds, false);
    } else if (is_one_of(code, quotas)) {
        close_market(daemon, launch->kind, ANY_MARKET, ANY_MARKET, DAEMON_QUOTA_S, true);
    } else {
        close_market(daemon, launch->kind, launch->type, launch->zone, DAEMON_BACK_OFF_S, true);
    }
}

/* ---- Launches ---- */

/* For tests: ends the process as if by the kernel, at a named point of its first launch. */
static void crash_point(struct daemon *daemon, const char *point) {
    const char *wanted = getenv("BIDBRAIN_CRASH");
    if (wanted != NULL && !daemon->fleet.crash_done && strcmp(wanted, point) == 0) {
        daemon->fleet.crash_done = true;
        kill(getpid(), SIGKILL);
    }
}

static void new_token(const struct daemon *daemon, char token[PROVIDER_TOKEN_TEXT]) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
        random = (uint64_t)market_clock_system() ^ ((uint64_t)getpid() << 40);
    }
    snprintf(token, PROVIDER_TOKEN_TEXT, "%.*s-%016" PRIx64, CONFIG_JOB_MAX, daemon->config->job, random);
}

static void send_launch(struct daemon *daemon, size_t l) {
    daemon->fleet.launches[l].asked = market_clock_elapsed();
    provider_launch(daemon->provider, &daemon->fleet.launches[l].row.launch);
}

static void plan_launch(struct daemon *daemon, const struct provider_launch *launch, bool fallback) {
    struct ledger_launch row = {.launch = *launch, .fallback = fallback, .planned = daemon_now(daemon)};
    row.launch.join_until = (int64_t)time(NULL) + DAEMON_ADMIT_S;
    size_t l = add_launch(daemon, &row);
    store_launch(daemon, l);
    if (daemon->error.code != 0) {
        return; /* what is not stored is not asked for */
    }
    crash_point(daemon, "before-send");
    send_launch(daemon, l);
    daemon->fleet.launches[l].row.stage = LEDGER_SENT;
    store_launch(daemon, l);
}

void daemon_launch(struct daemon *daemon, const struct portfolio_buy *buy) {
    const struct portfolio_market *market = &daemon->market.buyable[buy->market];
    enum provider_kind kind = market->prices != NULL ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
    struct provider_launch launch = {.kind = kind, .count = buy->count, .bid = buy->bid};
    new_token(daemon, launch.token);
    snprintf(launch.type, sizeof launch.type, "%s", market->type->type);
    snprintf(launch.zone, sizeof launch.zone, "%s", market->zone);
    snprintf(launch.product, sizeof launch.product, "%s", daemon->config->product);
    plan_launch(daemon, &launch, kind == PROVIDER_ON_DEMAND);
}

/* Said again only when the numbers change. */
static bool reliable_is_new(struct daemon *daemon, unsigned held) {
    bool new = daemon->fleet.reliable_said != held + 1;
    daemon->fleet.reliable_said = held + 1;
    return new;
}

static void warn_of_surplus(struct daemon *daemon, unsigned held) {
    unsigned wanted = (unsigned)daemon->config->reliable;
    if (held == wanted) {
        daemon->fleet.reliable_said = 0;
    } else if (reliable_is_new(daemon, held)) {
        log_warn("%u reliable machines run and are paid for, %u are configured: 'proteus evict' sends one away", held,
                 wanted);
    }
}

/* How many reliable machines are bought beside those that there are, with a line if the caps allow less than wanted. */
static unsigned reliable_room(struct daemon *daemon, unsigned held) {
    const struct config *config = daemon->config;
    unsigned wanted = (unsigned)config->reliable - held;
    struct daemon_view view;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    unsigned room = footprint_reliable_room(footprint, held, wanted);
    if (room == wanted) {
        daemon->fleet.reliable_said = 0;
    } else if (reliable_is_new(daemon, held)) {
        const struct footprint_spend spend = footprint_spend(footprint);
        double spent = amount_dollars(spend.spot.amount) + amount_dollars(spend.on_demand.amount);
        double price = price_dollars(daemon->market.reliable_price->price);
        log_warn("%u of %u reliable machines are not bought: the job needs at least $%.4f an hour for %" PRId64
                 " x %s on demand; limits.most_dollars_per_hour is $%.4g, limits.budget_dollars $%.4g, of which "
                 "$%.4f are spent",
                 wanted - room, wanted, (double)config->reliable * price, config->reliable, config->reliable_type,
                 config->most_dollars_per_hour, config->budget_dollars, spent);
    }
    daemon_view_close(&view);
    return room;
}

void daemon_keep_reliable(struct daemon *daemon) {
    const struct config *config = daemon->config;
    struct provider_launch launch = {.kind = PROVIDER_ON_DEMAND, .reliable = true};
    unsigned count = 0;
    if (config->reliable == 0 ||
        daemon_now(daemon) <
            daemon_closed_until(daemon, PROVIDER_ON_DEMAND, config->reliable_type, config->reliable_zone)) {
        return;
    }
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        const struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        count += machine->reliable && machine->ended == 0 && machine->machine.state <= MACHINE_RUNNING;
    }
    for (size_t l = 0; l < daemon->fleet.launch_count; l++) {
        const struct ledger_launch *pending = &daemon->fleet.launches[l].row;
        count += pending->launch.reliable && pending->stage <= LEDGER_WAITING ? pending->launch.count : 0;
    }
    if (count >= (unsigned)config->reliable) {
        warn_of_surplus(daemon, count);
        return;
    }
    launch.count = reliable_room(daemon, count);
    if (launch.count == 0) {
        return;
    }
    new_token(daemon, launch.token);
    snprintf(launch.type, sizeof launch.type, "%s", config->reliable_type);
    snprintf(launch.zone, sizeof launch.zone, "%s", config->reliable_zone);
    snprintf(launch.product, sizeof launch.product, "%s", config->product);
    daemon_say(daemon, "%u x %s/%s on demand, reliable", launch.count, launch.type, launch.zone);
    if (!daemon->options->dry_run) {
        plan_launch(daemon, &launch, false);
    }
}

/* Asked for again it could be carried out again. */
static bool launch_stale(const struct daemon *daemon, const struct ledger_launch *launch) {
    return launch->stage <= LEDGER_WAITING && daemon_now(daemon) - launch->planned > DAEMON_TOKEN_S;
}

/* What came of it, if anything, lists show: it is in the state, so that is taken in whenever it comes. */
static void close_stale(struct daemon *daemon) {
    for (size_t l = 0; l < daemon->fleet.launch_count; l++) {
        struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        if (launch_stale(daemon, launch)) {
            log_warn("a launch of %u x %s/%s has had no answer for 12 hours (token %s): no more are expected of it",
                     launch->launch.count, launch->launch.type, launch->launch.zone, launch->launch.token);
            launch->stage = LEDGER_CLOSED;
            launch->answered = daemon_now(daemon);
            store_launch(daemon, l);
        }
    }
}

/* After the job's end a launch without an answer is not sent again, as it might be carried out only then. Its machines
 * and requests carry its token: what lists show of it is its outcome. */
static void look_for_launches(struct daemon *daemon) {
    for (size_t l = 0; l < daemon->fleet.launch_count && daemon->loop.phase != DAEMON_RUN; l++) {
        struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        unsigned count = 0;
        for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
            count += strcmp(daemon->fleet.machines[i].row.machine.token, launch->launch.token) == 0;
        }
        bool known = count > 0 || daemon_now(daemon) - launch->planned > DAEMON_FRESH_S; /* else not shown yet */
        if (launch->stage < LEDGER_WAITING && known) {
            log_warn("a launch of %u x %s/%s has had no answer before the job's end (token %s): %u machine%s found",
                     launch->launch.count, launch->launch.type, launch->launch.zone, launch->launch.token, count,
                     count == 1 ? " of it is" : "s of it are");
            launch->stage = count > 0 ? LEDGER_FILLED : LEDGER_CLOSED;
            launch->machines = count;
            launch->answered = daemon_now(daemon);
            store_launch(daemon, l);
        }
    }
}

void daemon_ask_again(struct daemon *daemon) {
    bool job_runs = daemon->loop.phase == DAEMON_RUN && job_link_silence(daemon->link) <= DAEMON_SILENCE_S;
    double wall = market_clock_elapsed();
    int64_t now = daemon_now(daemon);
    for (size_t l = 0; l < daemon->fleet.launch_count; l++) {
        const struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        struct daemon_launch *entry = &daemon->fleet.launches[l];
        if (launch->stage > LEDGER_WAITING || launch_stale(daemon, launch)) {
            continue;
        }
        bool unanswered =
            launch->stage < LEDGER_WAITING && (entry->asked == 0 || wall - entry->asked > DAEMON_ASK_AGAIN_S);
        if (unanswered && job_runs) {
            send_launch(daemon, l);
        } else if (launch->stage == LEDGER_WAITING && !entry->cancelled &&
                   (daemon->loop.phase != DAEMON_RUN || now - launch->planned > DAEMON_WAIT_S)) {
            entry->cancelled = true;
            entry->asked = wall;
            provider_cancel(daemon->provider, launch->launch.token);
        } else if (entry->cancelled && wall - entry->asked > DAEMON_ASK_AGAIN_S) {
            entry->cancelled = false;
        }
    }
}

static void launch_filled(struct daemon *daemon, const struct ledger_launch *launch) {
    const struct provider_launch *l = &launch->launch;
    daemon_say(daemon, "%u of %u x %s/%s %s", launch->machines, l->count, l->type, l->zone,
               l->kind == PROVIDER_SPOT ? "spot" : "on demand");
}

static void launch_refused(struct daemon *daemon, const struct ledger_launch *launch, bool ours) {
    const struct provider_launch *l = &launch->launch;
    const char *kind = l->kind == PROVIDER_SPOT ? "spot" : "on-demand";
    if (ours) {
        log_error("no more %s machines are asked for: %u x %s/%s was refused: %s: %s; mend that and start bidbrain "
                  "again",
                  kind, l->count, l->type, l->zone, launch->code, launch->text);
        daemon->fleet.stopped[l->kind] = true;
        return;
    }
    daemon_say(daemon, "%u x %s/%s %s refused: %s", l->count, l->type, l->zone, kind, launch->code);
    back_off(daemon, l, launch->code);
}

/* An open request that nobody waits for: of a launch that is not in the state, or that was taken for over when not all
 * of its requests were shown. Once in each list, as withdrawing tells its outcome anew. */
static void withdraw(struct daemon *daemon, const char *token) {
    for (size_t w = 0; w < daemon->fleet.withdrawn_count; w++) {
        if (strcmp(daemon->fleet.withdrawn[w], token) == 0) {
            return;
        }
    }
    daemon->fleet.withdrawn =
        memory_resized(daemon->fleet.withdrawn, daemon->fleet.withdrawn_count + 1, sizeof *daemon->fleet.withdrawn);
    snprintf(daemon->fleet.withdrawn[daemon->fleet.withdrawn_count++], sizeof *daemon->fleet.withdrawn, "%s", token);
    daemon->fleet.orphans++;
    log_warn("withdrawing an open request of this job that no launch waits for (token %s)", token);
    provider_cancel(daemon->provider, token);
}

void daemon_take_outcome(void *context, const struct provider_outcome *outcome) {
    static const enum ledger_stage stages[] = {
        [LAUNCH_WAITING] = LEDGER_WAITING, [LAUNCH_FILLED] = LEDGER_FILLED, [LAUNCH_REFUSED] = LEDGER_REFUSED};
    struct daemon *daemon = context;
    size_t l = find_launch(daemon, outcome->token);
    bool over = l == SIZE_MAX || daemon->fleet.launches[l].row.stage > LEDGER_WAITING;
    if (over && outcome->state == LAUNCH_WAITING && !daemon->options->dry_run) {
        withdraw(daemon, outcome->token);
    }
    if (l == SIZE_MAX || daemon->fleet.launches[l].row.stage > LEDGER_WAITING ||
        (daemon->fleet.launches[l].row.stage == LEDGER_WAITING && outcome->state == LAUNCH_WAITING)) {
        return; /* told again */
    }
    struct ledger_launch *launch = &daemon->fleet.launches[l].row;
    crash_point(daemon, "before-store");
    launch->stage = stages[outcome->state];
    launch->answered = daemon_now(daemon);
    launch->machines = outcome->machines;
    snprintf(launch->code, sizeof launch->code, "%s", outcome->code);
    snprintf(launch->text, sizeof launch->text, "%s", outcome->text);
    if (outcome->state == LAUNCH_REFUSED && daemon->fleet.launches[l].cancelled && !outcome->ours) {
        launch->stage = LEDGER_CLOSED;
    }
    store_launch(daemon, l);
    crash_point(daemon, "after-store");
    if (launch->stage == LEDGER_FILLED) {
        launch_filled(daemon, launch);
    } else if (outcome->state == LAUNCH_REFUSED) {
        launch_refused(daemon, launch, outcome->ours);
        daemon->loop.decide_now = true; /* elsewhere, perhaps */
    }
}

/* ---- Machines ---- */

static bool machine_here(const struct ledger_machine *machine) {
    return machine->ended == 0 && machine->machine.state != MACHINE_GONE;
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

/* Its node is no part of the job any more: the controller need not wait for its silence. */
static void tell_gone(struct daemon *daemon, const char *id) {
    if (daemon->link != NULL && job_link_has(daemon->link, id)) {
        job_link_gone(daemon->link, &id, 1);
    }
}

/* When a machine that is seen to be gone has ended: the cloud's word, or what is likeliest. */
static int64_t end_of(const struct daemon *daemon, size_t i, enum ledger_end how) {
    const struct provider_machine *told = &daemon->fleet.machines[i].row.machine;
    const struct daemon_machine *entry = &daemon->fleet.machines[i];
    int64_t now = daemon_now(daemon);
    if (told->ended != 0 && told->ended >= told->launched) {
        return told->ended;
    }
    int64_t taken = entry->noticed != 0 ? entry->noticed + DAEMON_NOTICE_S : now; /* seen late, perhaps */
    /* It ended when that was first asked for, unless that was too long ago: then the cloud had not heard it. */
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
        close_market(daemon, told->kind, told->type, told->zone, daemon->config->cooldown_seconds, false);
    } else if (how != LEDGER_EVICTED && machine->release_at == 0 && entry->noticed == 0 &&
               daemon->loop.phase == DAEMON_RUN) {
        log_warn("%s (%s/%s) has ended by itself, nothing is bought there for a while: see what its node said",
                 told->id, told->type, told->zone);
        close_market(daemon, told->kind, told->type, told->zone, DAEMON_BACK_OFF_S, true);
    }
    machine->ended = end_of(daemon, i, how);
    machine->how = how;
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
        close_market(daemon, PROVIDER_SPOT, machine->machine.type, machine->machine.zone,
                     daemon->config->cooldown_seconds, false);
    }
    daemon->loop.decide_now = true;
}

static const char *how_text(const struct ledger_machine *machine) {
    return machine->how == LEDGER_EVICTED    ? "taken by the cloud"
           : machine->how == LEDGER_RELEASED ? "given back"
                                             : "gone";
}

/* It was taken for gone, as lists did not show it, and it is there: it costs, so it counts again. */
static void machine_back(struct daemon *daemon, size_t i) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    log_warn("%s (%s/%s) was taken for gone, and is there", machine->machine.id, machine->machine.type,
             machine->machine.zone);
    machine->ended = 0;
    machine->how = LEDGER_RUNS;
    daemon->fleet.machines[i].terminate_wall = 0;
    store_machine(daemon, i);
}

/* The cloud tells of a machine that is booked as ended, and knows better when, since when and how. */
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
        machine->ended = ended;
        machine->how = how;
        store_machine(daemon, i);
    }
}

/* What changed, stored only if something did. */
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
        store_machine(daemon, i);
    }
}

void daemon_take_machine(void *context, const struct provider_machine *told) {
    struct daemon *daemon = context;
    size_t i = daemon_find_machine(daemon, told->id);
    if (i == SIZE_MAX) {
        size_t l = find_launch(daemon, told->token);
        if (l == SIZE_MAX) {
            sweep(daemon, told);
            return;
        }
        const struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        struct ledger_machine machine = {.machine = *told,
                                         .reliable = launch->launch.reliable,
                                         .fallback = launch->fallback,
                                         .bid = launch->launch.bid};
        machine.machine.state = MACHINE_PENDING; /* what is told now is a change */
        machine.machine.noticed = false;
        if (told->type[0] == '\0' || told->zone[0] == '\0') { /* a request need not say where it was filled */
            memcpy(machine.machine.type, launch->launch.type, sizeof machine.machine.type);
            memcpy(machine.machine.zone, launch->launch.zone, sizeof machine.machine.zone);
        }
        i = add_machine(daemon, &machine);
        store_machine(daemon, i);
    }
    daemon->fleet.machines[i].listed = true;
    daemon->fleet.machines[i].absent = 0;
    update_machine(daemon, i, told);
}

void daemon_ask_list(struct daemon *daemon) {
    daemon->loop.next_list = market_clock_seconds(&daemon->clock) + (double)daemon->config->list_seconds;
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

/* Asked for so lately that a list may miss it: what told of it may have been the bidbrain before this one. */
static bool machine_fresh(const struct daemon *daemon, const struct ledger_machine *machine) {
    size_t l = find_launch(daemon, machine->machine.token);
    return machine->running == 0 && l != SIZE_MAX &&
           daemon_now(daemon) - daemon->fleet.launches[l].row.planned < DAEMON_FRESH_S;
}

void daemon_list_end(void *context, bool whole) {
    struct daemon *daemon = context;
    daemon->fleet.listing = false;
    daemon_answered(daemon, whole);
    for (size_t i = 0; i < daemon->fleet.machine_count && whole; i++) {
        struct ledger_machine *machine = &daemon->fleet.machines[i].row;
        struct daemon_machine *entry = &daemon->fleet.machines[i];
        entry->absent = entry->listed || machine_fresh(daemon, machine) ? 0 : entry->absent + 1;
        if (machine->ended == 0 && entry->absent >= DAEMON_ABSENT) {
            machine_ended(daemon, i, machine->machine.evicted ? LEDGER_EVICTED : LEDGER_VANISHED);
            daemon_say(daemon, "%s (%s/%s) is gone", machine->machine.id, machine->machine.type, machine->machine.zone);
            store_machine(daemon, i);
        }
    }
    if (whole) {
        close_stale(daemon);
        look_for_launches(daemon);
    }
    daemon->fleet.listed = daemon->fleet.listed || whole;
    daemon->fleet.gone = whole && daemon->fleet.gone_when_asked && daemon->fleet.orphans == 0;
}

/* ---- Giving back ---- */

void daemon_release(struct daemon *daemon, size_t i, int64_t at, bool hold) {
    struct ledger_machine *machine = &daemon->fleet.machines[i].row;
    struct daemon_machine *entry = &daemon->fleet.machines[i];
    if (machine->ended != 0 || (machine->release_at != 0 && machine->release_at <= at && !hold == !entry->hold)) {
        return;
    }
    machine->release_at = at;
    entry->hold = hold;
    store_machine(daemon, i);
}

/* Market time by which the node is to have left; 0: it stays. */
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

/* A machine that costs and does nothing: the node does not start, or does not find the controller. */
static void give_up_on(struct daemon *daemon, size_t i) {
    const struct provider_machine *told = &daemon->fleet.machines[i].row.machine;
    log_warn("%s (%s/%s) %s: it is given back, and nothing is bought there for a while", told->id, told->type,
             told->zone,
             told->state == MACHINE_PENDING ? "does not start" : "runs, but its node has not joined the job");
    close_market(daemon, told->kind, told->type, told->zone, DAEMON_BACK_OFF_S, true);
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
            daemon_release(daemon, i, now, false); /* the cloud has not taken it, and it has left the job */
        }
        bool waits = machine_here(machine) && node_awaited(entry) && machine->release_at == 0 && entry->noticed == 0;
        if (!waits || heard > DAEMON_SILENCE_S) {
            continue;
        }
        entry->waited_wall = entry->waited_wall != 0 ? entry->waited_wall : market_clock_elapsed();
        double waited = market_clock_elapsed() - entry->waited_wall;
        bool late = machine->running != 0
                        ? now - machine->running > DAEMON_JOIN_S
                        : waited * daemon->clock.speed > DAEMON_JOIN_S; /* pending for ever, perhaps */
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

/* All machines that leave by the same moment are told of in one message. */
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
                entry->node = NODE_OUT;
            }
        }
        double notice_ms = 1e3 * daemon_wall_of(daemon, by);
        job_link_evict(daemon->link, names, count, (uint32_t)fmin(fmax(notice_ms, 0), UINT32_MAX));
    }
}

/* Machines that hold the state go last. */
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
        daemon->loop.next_list = fmin(daemon->loop.next_list, now + daemon->clock.speed); /* to see them gone */
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

/* By what the phase says: after the job's end nobody has to leave it first. */
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
        daemon->fleet.machines[i].node = NODE_OUT;
        daemon_release(daemon, i, now, false);
    } else if (!machine->reliable && (machine->release_at == 0 || daemon->fleet.machines[i].hold)) {
        daemon_release(daemon, i, now + daemon->config->notice_seconds, false);
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

bool daemon_all_gone(const struct daemon *daemon) {
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
        if (daemon->fleet.machines[i].row.ended == 0) {
            return false;
        }
    }
    for (size_t l = 0; l < daemon->fleet.launch_count; l++) {
        if (daemon->fleet.launches[l].row.stage <= LEDGER_WAITING) {
            return false;
        }
    }
    return true;
}
