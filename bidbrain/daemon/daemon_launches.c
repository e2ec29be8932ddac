/* The daemon's launches, from plan to outcome. A launch is stored in the ledger before it is sent. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static bool is_one_of(const char *code, const char *const *codes) {
    for (; *codes != NULL; codes++) {
        if (strcmp(code, *codes) == 0) {
            return true;
        }
    }
    return false;
}

/* Stops buying in the market for a while, or in all markets of its kind. EC2's code decides which, and for how long. */
static void back_off(struct daemon *daemon, const struct provider_launch *launch, const char *code) {
    static const char *const prices[] = {"SpotMaxPriceTooLow", "price-too-low", NULL};
    static const char *const quotas[] = {"MaxSpotInstanceCountExceeded",
                                         "VcpuLimitExceeded",
                                         "InstanceLimitExceeded",
                                         "limit-exceeded",
                                         "MaxSpotFleetRequestCountExceeded",
                                         "SpotInstanceCountLimitExceeded",
                                         NULL};
    if (is_one_of(code, prices)) { /* closes the market until prices have been read again */
        daemon_close_market(daemon, launch->kind, launch->type, launch->zone, 2 * daemon->config->periods.price_seconds,
                            false);
    } else if (is_one_of(code, quotas)) {
        daemon_close_market(daemon, launch->kind, DAEMON_ANY_MARKET, DAEMON_ANY_MARKET, DAEMON_QUOTA_S, true);
    } else {
        daemon_close_market(daemon, launch->kind, launch->type, launch->zone, DAEMON_BACK_OFF_S, true);
    }
}

static void launch_step(const struct daemon *daemon, enum daemon_launch_step step) {
    if (daemon->options->launch_step != NULL) {
        daemon->options->launch_step(step);
    }
}

static void new_token(const struct daemon *daemon, char token[PROVIDER_TOKEN_TEXT]) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
        random = (uint64_t)market_clock_system() ^ ((uint64_t)getpid() << 40);
    }
    snprintf(token, PROVIDER_TOKEN_TEXT, "%.*s-%016" PRIx64, CONFIG_JOB_MAX, daemon->config->job, random);
}

/* Sets the launch's next stage, and stores the launch with all that its answer has set. */
static void launch_become(struct daemon *daemon, size_t l, enum ledger_stage stage) {
    enum { ANSWERS = 1 << LEDGER_FILLED | 1 << LEDGER_REFUSED | 1 << LEDGER_CLOSED };
    static const unsigned next[] = {[LEDGER_PLANNED] = 1 << LEDGER_SENT | 1 << LEDGER_WAITING | ANSWERS,
                                    [LEDGER_SENT] = 1 << LEDGER_WAITING | ANSWERS,
                                    [LEDGER_WAITING] = ANSWERS,
                                    [LEDGER_CLOSED] = 0};
    struct ledger_launch *launch = &daemon->fleet.launches[l].row;
    assert((next[launch->stage] & 1U << stage) != 0);
    launch->stage = stage;
    launch->answered = stage == LEDGER_SENT ? 0 : daemon_now(daemon);
    daemon_store_launch(daemon, l);
}

static void send_launch(struct daemon *daemon, size_t l) {
    assert(daemon->fleet.launches[l].row.stage < LEDGER_WAITING); /* a launch with an answer would be bought twice */
    daemon->fleet.launches[l].asked = market_clock_elapsed();
    provider_launch(daemon->provider, &daemon->fleet.launches[l].row.launch);
}

static void plan_launch(struct daemon *daemon, const struct provider_launch *launch, bool fallback) {
    assert(daemon->loop.phase == DAEMON_RUN && !daemon->options->dry_run && launch->count > 0);
    struct ledger_launch row = {.launch = *launch, .fallback = fallback, .planned = daemon_now(daemon)};
    row.launch.join_until = (int64_t)time(NULL) + DAEMON_ADMIT_S;
    size_t l = daemon_add_launch(daemon, &row);
    daemon_store_launch(daemon, l);
    if (daemon->error.code != 0) {
        return; /* unless stored, a launch is not sent */
    }
    launch_step(daemon, DAEMON_LAUNCH_STORED);
    send_launch(daemon, l);
    launch_become(daemon, l, LEDGER_SENT);
}

void daemon_launch(struct daemon *daemon, const struct portfolio_buy *buy) {
    const struct portfolio_market *market = &daemon->market.buyable[buy->market];
    enum provider_kind kind = market->prices != NULL ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
    struct provider_launch launch = {.kind = kind, .count = buy->count, .bid = buy->bid};
    new_token(daemon, launch.token);
    snprintf(launch.type, sizeof launch.type, "%s", market->type->type);
    snprintf(launch.zone, sizeof launch.zone, "%s", market->zone);
    snprintf(launch.product, sizeof launch.product, "%s", daemon->config->markets.product);
    plan_launch(daemon, &launch, kind == PROVIDER_ON_DEMAND);
}

/* Returns whether the last message had another number of reliable machines. Remembers this number. */
static bool reliable_is_new(struct daemon *daemon, unsigned held) {
    bool new = daemon->fleet.reliable_said != held + 1;
    daemon->fleet.reliable_said = held + 1;
    return new;
}

static void warn_of_surplus(struct daemon *daemon, unsigned held) {
    unsigned wanted = (unsigned)daemon->config->reliable.count;
    if (held == wanted) {
        daemon->fleet.reliable_said = 0;
    } else if (reliable_is_new(daemon, held)) {
        log_warn("%u reliable machines run and are paid for, %u are configured: 'proteus evict' sends one away", held,
                 wanted);
    }
}

/* Returns how many more reliable machines to buy. Warns if the caps allow fewer than are wanted. */
static unsigned reliable_room(struct daemon *daemon, unsigned held) {
    const struct config *config = daemon->config;
    unsigned wanted = (unsigned)config->reliable.count - held;
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
                 wanted - room, wanted, (double)config->reliable.count * price, config->reliable.count,
                 config->reliable.type, config->limits.most_dollars_per_hour, config->limits.budget_dollars, spent);
    }
    daemon_view_close(&view);
    return room;
}

void daemon_keep_reliable(struct daemon *daemon) {
    const struct config_reliable *reliable = &daemon->config->reliable;
    struct provider_launch launch = {.kind = PROVIDER_ON_DEMAND, .reliable = true};
    unsigned count = 0;
    if (reliable->count == 0 ||
        daemon_now(daemon) < daemon_closed_until(daemon, PROVIDER_ON_DEMAND, reliable->type, reliable->zone)) {
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
    if (count >= (unsigned)reliable->count) {
        warn_of_surplus(daemon, count);
        return;
    }
    launch.count = reliable_room(daemon, count);
    if (launch.count == 0) {
        return;
    }
    new_token(daemon, launch.token);
    snprintf(launch.type, sizeof launch.type, "%s", reliable->type);
    snprintf(launch.zone, sizeof launch.zone, "%s", reliable->zone);
    snprintf(launch.product, sizeof launch.product, "%s", daemon->config->markets.product);
    daemon_say(daemon, "%u x %s/%s on demand, reliable", launch.count, launch.type, launch.zone);
    if (!daemon->options->dry_run) {
        plan_launch(daemon, &launch, false);
    }
}

/* Whether the launch is too old for a retry: EC2 may have forgotten its token, and would buy twice. */
static bool launch_stale(const struct daemon *daemon, const struct ledger_launch *launch) {
    return launch->stage <= LEDGER_WAITING && daemon_now(daemon) - launch->planned > DAEMON_TOKEN_S;
}

/* Stops waiting for launches that are too old. They stay in the ledger, so that their machines still count as ours if a
 * list shows them later. */
static void close_stale(struct daemon *daemon) {
    for (size_t l = 0; l < daemon->fleet.launch_count; l++) {
        const struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        if (launch_stale(daemon, launch)) {
            log_warn("a launch of %u x %s/%s has had no answer for 12 hours (token %s): no more are expected of it",
                     launch->launch.count, launch->launch.type, launch->launch.zone, launch->launch.token);
            launch_become(daemon, l, LEDGER_CLOSED);
        }
    }
}

/* After the job's end, a launch without an answer is not sent again: it might be carried out only then. Its outcome is
 * what lists show by its token, on machines and requests. */
static void look_for_launches(struct daemon *daemon) {
    for (size_t l = 0; l < daemon->fleet.launch_count && daemon->loop.phase != DAEMON_RUN; l++) {
        struct ledger_launch *launch = &daemon->fleet.launches[l].row;
        unsigned count = 0;
        for (size_t i = 0; i < daemon->fleet.machine_count; i++) {
            count += strcmp(daemon->fleet.machines[i].row.machine.token, launch->launch.token) == 0;
        }
        /* the cloud's lists may not show a fresh launch yet */
        bool known = count > 0 || daemon_now(daemon) - launch->planned > DAEMON_FRESH_S;
        if (launch->stage < LEDGER_WAITING && known) {
            log_warn("a launch of %u x %s/%s has had no answer before the job's end (token %s): %u machine%s found",
                     launch->launch.count, launch->launch.type, launch->launch.zone, launch->launch.token, count,
                     count == 1 ? " of it is" : "s of it are");
            launch->machines = count;
            launch_become(daemon, l, count > 0 ? LEDGER_FILLED : LEDGER_CLOSED);
        }
    }
}

void daemon_look_for_launches(struct daemon *daemon) {
    close_stale(daemon);
    look_for_launches(daemon);
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

/* Withdraws an open request that no launch waits for. Its launch is not in the ledger, or was taken as over when a list
 * did not show all of its requests. Withdraws at most once per list, since the provider then reports the outcome
 * again. */
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
    size_t l = daemon_find_launch(daemon, outcome->token);
    bool over = l == SIZE_MAX || daemon->fleet.launches[l].row.stage > LEDGER_WAITING;
    if (over && outcome->state == LAUNCH_WAITING && !daemon->options->dry_run) {
        withdraw(daemon, outcome->token);
    }
    if (l == SIZE_MAX || daemon->fleet.launches[l].row.stage > LEDGER_WAITING ||
        (daemon->fleet.launches[l].row.stage == LEDGER_WAITING && outcome->state == LAUNCH_WAITING)) {
        return; /* already reported */
    }
    struct ledger_launch *launch = &daemon->fleet.launches[l].row;
    launch_step(daemon, DAEMON_LAUNCH_ANSWERED);
    launch->machines = outcome->machines;
    snprintf(launch->code, sizeof launch->code, "%s", outcome->code);
    snprintf(launch->text, sizeof launch->text, "%s", outcome->text);
    bool withdrawn = outcome->state == LAUNCH_REFUSED && daemon->fleet.launches[l].cancelled && !outcome->ours;
    launch_become(daemon, l, withdrawn ? LEDGER_CLOSED : stages[outcome->state]);
    launch_step(daemon, DAEMON_LAUNCH_ANSWER_STORED);
    if (launch->stage == LEDGER_FILLED) {
        launch_filled(daemon, launch);
    } else if (outcome->state == LAUNCH_REFUSED) {
        launch_refused(daemon, launch, outcome->ours);
        daemon->loop.decide_now = true; /* another market may be open */
    }
}
