/* See job.h. The time at which a machine will be lost is drawn when it is bought. The policy does not see it: it gets
 * only the present, and estimates learned from the past. */
#include "bidbrain/study/job.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "bidbrain/policy/speeds.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURED_SECONDS = 60 /* length of a window */ };
#define MEASURED_ERROR 0.1

struct job_allocation {
    size_t market;
    int64_t count, bid;
    int64_t start, ready; /* when it was bought; when it starts to work */
    int64_t evicted_at;   /* hidden from the policy */
    int64_t release_at;   /* MARKET_NEVER unless the policy decided to release it */
    uint64_t id;
    bool working;
};

/* What the running job knows about its machines' speeds. */
struct job_speeds {
    struct speeds learned;
    int64_t next;   /* end of the next window */
    double counted; /* its machines' work as counted by the policy, divided by their true work */
};

/* The job's losses. */
struct job_lost {
    size_t market;     /* market of the last loss; SIZE_MAX: none yet */
    int64_t at;        /* time of the last loss */
    uint64_t restarts; /* number of restarts from a checkpoint, after the state was lost */
};

struct job {
    const struct study *study;
    const struct scheme *scheme;
    uint64_t number, seed, allocations_made;
    int64_t start, now, next_decision, pause_until;
    double work;  /* work of the whole job, in vCPU-seconds at the reference size */
    double left;  /* part of `work` not yet done */
    double saved; /* `left` at the last checkpoint */
    int64_t next_checkpoint;
    struct job_allocation held[JOB_ALLOCATIONS_MAX];
    size_t held_count;
    struct portfolio_market *markets; /* the study's, with this job's own closed_until */
    int64_t *closed_until;            /* when the cooling down of each market ends */
    struct job_lost lost;
    bool last_resort; /* uniform-progress rule: on demand to the end */
    struct bill spot, on_demand;
    uint64_t evictions;
    /* The job's measurements, as sums and counts. The assumed value counts as the first measurement. */
    double sigma_sum, lambda_sum, sigma_count, lambda_count;
    bool phi_seen;
    struct job_speeds speeds;
    FILE *log;
};

static bool is_on_demand(const struct job *job, const struct job_allocation *allocation) {
    return job->markets[allocation->market].prices == NULL;
}

static double allocation_vcpus(const struct job *job, const struct job_allocation *allocation) {
    return (double)allocation->count * job->markets[allocation->market].type->vcpus;
}

/* Returns the true work per hour. */
static double allocation_work(const struct job *job, const struct job_allocation *allocation) {
    return allocation_vcpus(job, allocation) * job->study->speeds[allocation->market];
}

/* Returns the price of a machine-hour at `time`. */
static int64_t allocation_price(const struct job *job, const struct job_allocation *allocation, int64_t time) {
    const struct portfolio_market *market = &job->markets[allocation->market];
    return market->prices == NULL ? market->type->price : market_price(market->prices, time);
}

/* ---- The log ---- */

/* Begins a line of the log; the caller ends it. Returns false if there is no log. */
static bool job_log_begin(const struct job *job, const char *action) {
    char time[INSTANT_TEXT_MAX];
    if (job->log == NULL) {
        return false;
    }
    instant_format(job->now, time);
    fprintf(job->log, "{\"job\":%" PRIu64 ",\"scheme\":\"%s\",\"time\":\"%s\",\"action\":\"%s\"", job->number,
            job->scheme->name, time, action);
    return true;
}

static void job_log(const struct job *job, const char *action, const struct job_allocation *allocation) {
    char name[MARKET_NAME_MAX];
    char bid[PRICE_TEXT_MAX];
    char price[PRICE_TEXT_MAX];
    if (!job_log_begin(job, action)) {
        return;
    }
    if (is_on_demand(job, allocation)) {
        snprintf(name, sizeof name, "%s/on-demand", job->study->reference->type);
    } else {
        market_name(job->markets[allocation->market].prices, name);
    }
    price_format(allocation->bid, bid);
    price_format(allocation_price(job, allocation, job->now), price);
    fprintf(job->log, ",\"market\":\"%s\",\"count\":%" PRId64 ",\"bid\":%s,\"price\":%s,\"allocation\":%" PRIu64 "}\n",
            name, allocation->count, bid, price, allocation->id);
}

/* Logs the start, and the on-demand machines that the job holds to its end. */
static void job_log_start(const struct job *job, const struct catalog_price *type, int64_t count) {
    char price[PRICE_TEXT_MAX];
    if (job_log_begin(job, "job-start")) {
        fprintf(job->log, "}\n");
    }
    if (count > 0 && job_log_begin(job, "ondemand")) {
        price_format(type->price, price);
        fprintf(job->log, ",\"market\":\"%s/%s\",\"count\":%" PRId64 ",\"price\":%s}\n", type->type, type->region,
                count, price);
    }
}

static void job_log_end(const struct job *job) {
    if (job_log_begin(job, "job-end")) {
        fprintf(job->log, ",\"accounting\":\"%s\",\"cost\":%.9f}\n",
                job->study->options.whole_hours ? "whole" : "shared",
                amount_dollars(job->spot.amount + job->on_demand.amount));
    }
}

/* ---- Progress ---- */

static double job_rate(const struct job *job) {
    const struct study *study = job->study;
    double work = job->scheme->kind == SCHEME_ON_DEMAND ? study->reference_work : 0;
    bool lost = false; /* machines may be lost: only then are checkpoints written */
    for (size_t a = 0; a < job->held_count; a++) {
        const struct job_allocation *allocation = &job->held[a];
        work += allocation->working ? allocation_work(job, allocation) : 0;
        lost = lost || !is_on_demand(job, allocation);
    }
    double beyond = fmax(0, work - study->reference_work);
    double rate = work - beyond + study->options.app.phi * beyond;
    return job->scheme->checkpoint && lost ? rate * (1 - study->checkpoint_share) : rate;
}

/* Lets the job work until `time`. There must be no event before. */
static void job_advance(struct job *job, int64_t time) {
    int64_t from = job->pause_until > job->now ? job->pause_until : job->now;
    if (time > from) {
        job->left -= job_rate(job) * (double)(time - from);
    }
    job->now = time;
}

static int64_t job_finish_time(const struct job *job) {
    double rate = job_rate(job);
    int64_t from = job->pause_until > job->now ? job->pause_until : job->now;
    double seconds = rate > 0 ? ceil(fmax(0, job->left) / rate - 1e-9) : INFINITY;
    return seconds < 1e12 ? from + (int64_t)seconds : MARKET_NEVER;
}

static void job_pause(struct job *job, double seconds) {
    int64_t until = job->now + (int64_t)llround(seconds);
    job->pause_until = until > job->pause_until ? until : job->pause_until;
}

/* ---- Machines ---- */

static void job_bill(struct job *job, const struct job_allocation *allocation, enum billing_end how) {
    const struct market_rules *rules = job->study->options.rules;
    if (is_on_demand(job, allocation)) {
        bill_add(&job->on_demand,
                 billing_on_demand(rules, job->study->reference->price, allocation->start, job->now, how),
                 allocation->count);
        return;
    }
    struct bill one = billing_spot(rules, job->markets[allocation->market].prices, allocation->start, job->now, how);
    bill_add(&job->spot, one, allocation->count);
}

/* Returns when machines bought now will be taken. */
static int64_t job_eviction(const struct job *job, const struct job_allocation *allocation) {
    const struct study *study = job->study;
    if (is_on_demand(job, allocation)) {
        return MARKET_NEVER;
    }
    return interruption_of(&study->interruptions, allocation->market, study->markets[allocation->market].prices,
                           allocation->bid, job->now, allocation->id, job->seed)
        .time;
}

static void job_acquire(struct job *job, size_t market, int64_t count, int64_t bid) {
    assert(job->held_count < JOB_ALLOCATIONS_MAX && count > 0);
    struct job_allocation *allocation = &job->held[job->held_count++];
    *allocation = (struct job_allocation){.market = market,
                                          .count = count,
                                          .bid = bid,
                                          .start = job->now,
                                          .ready = job->now + job->study->options.boot_seconds,
                                          .release_at = MARKET_NEVER,
                                          .id = ++job->allocations_made};
    allocation->evicted_at = job_eviction(job, allocation);
    job_log(job, "acquire", allocation);
}

static void job_drop(struct job *job, size_t index, enum billing_end how) {
    job_bill(job, &job->held[index], how);
    job->held[index] = job->held[--job->held_count];
}

/* Without reliable machines: whether the loss of machines of `market` takes both copies of a part of the state. Its
 * notice does not help: nothing is copied before the recovery. */
static bool job_state_lost(const struct job *job, size_t market) {
    int64_t again = job->lost.at + (int64_t)job->study->options.app.lambda_seconds;
    bool other = job->lost.market != SIZE_MAX && job->lost.market != market && job->now < again;
    bool any = false;
    for (size_t a = 0; a < job->held_count; a++) {
        any = any || job->held[a].working;
    }
    return other || !any;
}

static void job_evicted(struct job *job, size_t index) {
    const struct study_options *options = &job->study->options;
    const struct job_allocation *allocation = &job->held[index];
    bool working = allocation->working;
    size_t market = allocation->market;
    job_log(job, "evicted", allocation);
    job->closed_until[market] = job->now + options->cooldown_seconds;
    job->evictions++;
    job_drop(job, index, BILLING_EVICTED);
    bool restarts = job->scheme->transient && working && job_state_lost(job, market);
    job->lost.market = market;
    job->lost.at = job->now;
    if (!working) {
        return;
    }
    if (restarts) {
        job->left = job->saved;
        job->lost.restarts++;
        job_pause(job, options->checkpoints.restart_seconds);
    }
    if (job->scheme->checkpoint) {
        job->left = job->saved;
        return;
    }
    /* If the notice is shorter than the drain, a share of a recovery is lost. */
    double missing = fmax(0, (double)(options->drain_seconds - options->notice_seconds));
    double seconds = options->app.lambda_seconds;
    seconds +=
        options->drain_seconds > 0 ? missing / (double)options->drain_seconds * (double)options->recovery_seconds : 0;
    job_pause(job, seconds);
    job->lambda_sum += seconds;
    job->lambda_count += 1;
}

static void job_ready(struct job *job, struct job_allocation *allocation) {
    const struct study_options *options = &job->study->options;
    allocation->working = true;
    bool restart = job->scheme->checkpoint && job->saved < job->work; /* there is a checkpoint to read */
    job_pause(job, options->app.sigma_seconds + (restart ? options->checkpoints.restart_seconds : 0));
    job->sigma_sum += options->app.sigma_seconds;
    job->sigma_count += 1;
    job->phi_seen = job->phi_seen || job_rate(job) > job->study->reference_work;
    if (!job->scheme->transient || job->next_checkpoint == MARKET_NEVER) {
        job->next_checkpoint = job->pause_until + (int64_t)job->study->checkpoint_interval;
    }
}

/* ---- Speeds ---- */

/* Measures the machines that work, with an error of up to MEASURED_ERROR for each allocation. */
static void take_window(struct job *job) {
    struct speeds_machine machines[JOB_ALLOCATIONS_MAX];
    size_t count = 0;
    for (size_t a = 0; a < job->held_count; a++) {
        const struct job_allocation *allocation = &job->held[a];
        const struct catalog_price *type = job->markets[allocation->market].type;
        uint64_t drawn = hash_mix(job->seed ^ hash_mix((uint64_t)job->now ^ hash_mix(allocation->id)));
        double error = MEASURED_ERROR * (2 * (double)(drawn >> 11) / 9007199254740992.0 - 1);
        double seconds = (1 + error) / (type->vcpus * job->study->speeds[allocation->market]);
        if (allocation->working && job->now - allocation->ready >= MEASURED_SECONDS) {
            machines[count++] = (struct speeds_machine){type->type, type->vcpus, seconds};
        }
    }
    if (count > 0) {
        speeds_add(&job->speeds.learned, machines, count, job->now);
        job->speeds.next = job->now + MEASURED_SECONDS;
    }
}

/* Sets the speeds by which the policy counts. */
static void job_measure_speeds(struct job *job) {
    enum scheme_nu nu = job->scheme->nu;
    double counted = 0;
    double work = 0;
    if (nu == NU_MEASURED && job->now >= job->speeds.next && job->now >= job->pause_until) {
        take_window(job);
    }
    for (size_t m = 0; m <= job->study->count && nu != NU_VCPUS; m++) {
        job->markets[m].speed =
            nu == NU_TRUE ? job->study->speeds[m] : speeds_of(&job->speeds.learned, job->markets[m].type->type);
    }
    for (size_t a = 0; a < job->held_count; a++) {
        const struct job_allocation *allocation = &job->held[a];
        work += allocation->working ? allocation_work(job, allocation) : 0;
        counted +=
            allocation->working ? (double)allocation->count * portfolio_nu(&job->markets[allocation->market]) : 0;
    }
    job->speeds.counted = work > 0 ? counted / work : job->speeds.counted;
}

/* ---- What the policy sees ---- */

static struct policy_app job_app(const struct job *job) {
    const struct study_options *options = &job->study->options;
    struct policy_app app = {.phi = options->assumed.phi,
                             .sigma = options->assumed.sigma_seconds / HOUR,
                             .lambda = options->assumed.lambda_seconds / HOUR};
    app.copies = (struct policy_copies){
        .spread = job->scheme->transient,
        .lost = (job->study->checkpoint_interval / 2 + options->checkpoints.restart_seconds) / HOUR,
        .copied = options->app.lambda_seconds / HOUR,
        .replaced = (options->app.lambda_seconds + (double)options->boot_seconds) / HOUR};
    if (job->scheme->measured) {
        app.sigma = job->sigma_sum / job->sigma_count / HOUR;
        app.lambda = job->lambda_sum / job->lambda_count / HOUR;
        app.phi = job->phi_seen ? options->app.phi : options->assumed.phi;
        app.reference = job->study->reference_work;
    }
    return app;
}

static bool job_correlated(const void *context, size_t a, size_t b) {
    const struct job *job = context;
    const bool *correlated = study_day(job->study, job->now)->correlated;
    bool spot = a < job->study->count && b < job->study->count;
    return spot && correlated != NULL && correlated[a * job->study->count + b];
}

static struct policy_end job_policy_end(const struct job *job) {
    const struct study_options *options = &job->study->options;
    double gone = (double)(job->now - job->start) / HOUR;
    return (struct policy_end){.work = job->scheme->ends ? job->left / HOUR * job->speeds.counted : 0,
                               .deadline = options->deadline_hours > 0 ? options->deadline_hours - gone : INFINITY,
                               .hour_worth = options->hour_worth,
                               .boot = (double)options->boot_seconds / HOUR,
                               .whole_hours = options->whole_hours && options->rules->whole_hours};
}

/* Returns the portfolio at this time, without the holdings. */
static struct portfolio job_portfolio(const struct job *job) {
    const struct study *study = job->study;
    const struct study_options *options = &study->options;
    const struct scheme *scheme = job->scheme;
    double most = options->most_scale * study->reference_work;
    for (size_t m = 0; m < study->count; m++) {
        bool open = interruption_open_at(&study->interruptions, m, job->now, job->seed);
        job->markets[m].closed_until = open ? job->closed_until[m] : MARKET_NEVER;
    }
    return (struct portfolio){.rules = options->rules,
                              .now = job->now,
                              .lead = DECISION_SECONDS,
                              .markets = job->markets,
                              .market_count = study->count + 1,
                              .reference = study->reference,
                              .table =
                                  &(scheme->learns ? study_day(study, job->now) : study->days)->tables[scheme->memory],
                              .by_regime = scheme->conditional,
                              .interruptions = &study->interruptions,
                              .fallback = scheme->ends ? FALLBACK_DEADLINE : FALLBACK_NEVER,
                              .reliable = scheme->transient ? 0 : (unsigned)options->reliable,
                              .reliable_type = study->reliable,
                              .app = job_app(job),
                              .end = job_policy_end(job),
                              .limits = {.most_machines = (double)options->most_machines,
                                         .most_vcpus = most,
                                         .most_dollars_per_hour = options->most_dollars_per_hour,
                                         .least_markets = (unsigned)options->least_markets},
                              .additions = {.joint = scheme->joint, .diverse = scheme->diverse},
                              .correlated = job_correlated,
                              .context = job,
                              .money = INFINITY,
                              .renewed_rate = INFINITY,
                              .most_at_once = UINT_MAX,
                              .probes = scheme->nu == NU_MEASURED ? (unsigned)options->probes : 0};
}

/* Lists the allocations about which the policy may still decide. */
static size_t job_holdings(struct job *job, struct portfolio_holding holdings[JOB_ALLOCATIONS_MAX]) {
    size_t count = 0;
    for (size_t a = 0; a < job->held_count; a++) {
        const struct job_allocation *allocation = &job->held[a];
        if (allocation->release_at == MARKET_NEVER) {
            holdings[count++] = (struct portfolio_holding){.market = allocation->market,
                                                           .count = (unsigned)allocation->count,
                                                           .start = allocation->start,
                                                           .bid = allocation->bid,
                                                           .of = allocation};
        }
    }
    return count;
}

/* Gives back all but `kept` machines of an allocation: at the end of the paid hour, or at once if machines are paid by
 * the second. */
static void job_release(struct job *job, size_t a, unsigned kept) {
    int64_t at = job->study->options.rules->whole_hours ? billing_hour_end(job->held[a].start, job->now) : job->now;
    if (kept == 0) {
        job->held[a].release_at = at;
    } else if (kept < job->held[a].count && job->held_count < JOB_ALLOCATIONS_MAX) {
        struct job_allocation *rest = &job->held[job->held_count++];
        *rest = job->held[a];
        rest->count -= kept;
        rest->release_at = at;
        job->held[a].count = kept;
    }
}

static void decide_proteus(struct job *job) {
    struct portfolio_holding holdings[JOB_ALLOCATIONS_MAX];
    struct portfolio_plan plan;
    job_measure_speeds(job);
    struct portfolio portfolio = job_portfolio(job);
    double vcpus = 0;
    for (size_t a = 0; a < job->held_count; a++) {
        const struct job_allocation *allocation = &job->held[a];
        bool stays = allocation->release_at == MARKET_NEVER && !portfolio_expires(&portfolio, allocation->start);
        vcpus += stays ? allocation_vcpus(job, allocation) : 0;
    }
    if (portfolio.limits.most_vcpus - vcpus < portfolio_least_vcpus(&portfolio)) {
        return; /* nothing expires, and no new allocation fits */
    }
    portfolio.held = holdings;
    portfolio.held_count = job_holdings(job, holdings);
    portfolio_decide(&portfolio, &plan);
    for (size_t h = 0; h < portfolio.held_count; h++) {
        job_release(job, (size_t)((const struct job_allocation *)holdings[h].of - job->held), plan.kept[h]);
    }
    for (size_t b = 0; b < plan.buy_count && job->held_count < JOB_ALLOCATIONS_MAX; b++) {
        const struct portfolio_buy *buy = &plan.buys[b];
        bool spot = job->markets[buy->market].prices != NULL;
        job_acquire(job, buy->market, buy->count, spot ? buy->bid : job->study->reference->price);
    }
}

static void acquire_picked(struct job *job) {
    const struct study *study = job->study;
    size_t m = study_pick(study, job->scheme->pick, job->now, job->lost.market, job->seed);
    if (m != SIZE_MAX) {
        double count = ceil(study->reference_work / study->markets[m].type->vcpus - 1e-9);
        job_acquire(job, m, (int64_t)count, study->markets[m].type->price);
    }
}

static void decide_standard(struct job *job) {
    if (job->held_count == 0) {
        acquire_picked(job);
    }
}

/* The uniform-progress rule. The job keeps a spot allocation while it lasts. Without one it buys on demand when it is
 * behind an even pace to its deadline. It returns to spot when it is ahead by the time of two changes of machines. It
 * stays on demand to the end once there is time for no more than two changes. A change saves the state, and the new
 * machines read it. */
static void decide_uniform(struct job *job) {
    const struct study_options *options = &job->study->options;
    double gone = (double)(job->now - job->start) / HOUR;
    double change =
        ((double)options->boot_seconds + options->app.sigma_seconds + options->checkpoints.restart_seconds) / HOUR;
    double needed = job->left / HOUR / job->study->reference_work;
    double pace = (job->work - job->left) / job->work * options->deadline_hours - gone; /* hours ahead of that pace */
    bool on_demand = job->held_count > 0 && is_on_demand(job, &job->held[0]);
    job->last_resort = job->last_resort || options->deadline_hours - gone <= needed + 2 * change;
    if (job->held_count > 0 && !on_demand && !job->last_resort) {
        return;
    }
    bool spot = study_pick(job->study, job->scheme->pick, job->now, job->lost.market, job->seed) != SIZE_MAX;
    bool wanted = job->last_resort || (on_demand ? !spot || pace < 2 * change : !spot && pace < 0);
    if (job->held_count > 0 && wanted != on_demand) {
        job->saved = job->left;
        job_log(job, "release", &job->held[0]);
        job_drop(job, 0, BILLING_RELEASED);
    }
    if (job->held_count == 0 && wanted) {
        job_acquire(job, job->study->count, options->machines, job->study->reference->price);
    } else if (job->held_count == 0) {
        acquire_picked(job);
    }
}

static void job_decide(struct job *job) {
    if (job->scheme->kind == SCHEME_PROTEUS) {
        decide_proteus(job);
    } else if (job->scheme->kind == SCHEME_STANDARD) {
        decide_standard(job);
    } else if (job->scheme->kind == SCHEME_UNIFORM) {
        decide_uniform(job);
    }
}

/* ---- Events ---- */

static int64_t earlier(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Returns the time of the next event, which is after now, or now if a release is due. */
static int64_t job_next_event(const struct job *job) {
    int64_t next = job->scheme->kind == SCHEME_ON_DEMAND ? MARKET_NEVER : job->next_decision;
    if (job->scheme->checkpoint || job->scheme->transient) {
        next = earlier(next, job->next_checkpoint);
    }
    for (size_t a = 0; a < job->held_count; a++) {
        const struct job_allocation *allocation = &job->held[a];
        next = earlier(next, earlier(allocation->evicted_at, allocation->release_at));
        next = allocation->working ? next : earlier(next, allocation->ready);
        if (job->scheme->kind == SCHEME_PROTEUS) {
            int64_t look = billing_hour_end(allocation->start, job->now) - DECISION_SECONDS;
            next = earlier(next, look > job->now ? look : look + HOUR);
        }
    }
    return next;
}

/* Handles all due events. Returns whether a decision is due, too. */
static bool job_happen(struct job *job) {
    bool decide = job->now >= job->next_decision;
    for (size_t a = job->held_count; a-- > 0;) {
        struct job_allocation *allocation = &job->held[a];
        if (allocation->evicted_at <= job->now) {
            job_evicted(job, a);
            decide = true;
        } else if (allocation->release_at <= job->now) {
            job_log(job, "release", allocation);
            job_drop(job, a, BILLING_RELEASED);
        } else if (!allocation->working && allocation->ready <= job->now) {
            job_ready(job, allocation);
        }
    }
    for (size_t a = 0; a < job->held_count; a++) {
        decide = decide || billing_hour_end(job->held[a].start, job->now) - job->now == DECISION_SECONDS;
    }
    if ((job->scheme->checkpoint || job->scheme->transient) && job->now >= job->next_checkpoint) {
        job->saved = job->left;
        job->next_checkpoint = job->now + (int64_t)job->study->checkpoint_interval;
    }
    while (job->next_decision <= job->now) {
        job->next_decision += DECISION_SECONDS;
    }
    return decide;
}

/* Ends all allocations. If a next job shares their hours, they end at once; otherwise at the end of their paid hours,
 * in the hope of an eviction (section 5). */
static void job_end(struct job *job) {
    const struct study_options *options = &job->study->options;
    bool keep = options->whole_hours && options->rules->whole_hours;
    int64_t end = job->now;
    while (job->held_count > 0) {
        size_t next = 0;
        int64_t when = MARKET_NEVER;
        for (size_t a = 0; a < job->held_count; a++) {
            const struct job_allocation *allocation = &job->held[a];
            int64_t until = end > allocation->start && (end - allocation->start) % HOUR == 0
                                ? end
                                : billing_hour_end(allocation->start, end);
            until = earlier(keep ? until : end, allocation->evicted_at);
            if (until < when) {
                when = until;
                next = a;
            }
        }
        struct job_allocation *allocation = &job->held[next];
        job->now = when > end ? when : end;
        bool evicted = allocation->evicted_at <= job->now && keep;
        if (options->whole_hours) {
            job_log(job, evicted ? "evicted" : "release", allocation);
        }
        job_drop(job, next, !options->whole_hours ? BILLING_SHARED : evicted ? BILLING_EVICTED : BILLING_RELEASED);
    }
    job->now = end;
}

static void job_begin(struct job *job, const struct study *study, const struct scheme *scheme, uint64_t number,
                      int64_t start, FILE *log) {
    const struct study_options *options = &study->options;
    *job = (struct job){.study = study,
                        .scheme = scheme,
                        .number = number,
                        .seed = hash_mix(options->seed ^ hash_mix(number)),
                        .start = start,
                        .now = start,
                        .next_decision = start,
                        .pause_until = start,
                        .work = options->job_hours * HOUR * study->reference_work,
                        .lost.market = SIZE_MAX,
                        .next_checkpoint = MARKET_NEVER,
                        .sigma_sum = options->assumed.sigma_seconds,
                        .lambda_sum = options->assumed.lambda_seconds,
                        .sigma_count = 1,
                        .lambda_count = 1,
                        .speeds = {.counted = 1},
                        .log = log};
    job->left = job->saved = job->work;
    job->closed_until = memory_zeroed(study->count + 1, sizeof *job->closed_until);
    job->markets = memory_zeroed(study->count + 1, sizeof *job->markets);
    memcpy(job->markets, study->markets, (study->count + 1) * sizeof *job->markets);
}

/* Returns the type of the on-demand machines that a scheme holds from start to end, and sets their number. */
static const struct catalog_price *job_on_demand(const struct job *job, int64_t *count) {
    bool all = job->scheme->kind == SCHEME_ON_DEMAND;
    bool none = job->scheme->checkpoint || job->scheme->transient;
    *count = all ? job->study->options.machines : none ? 0 : job->study->options.reliable;
    return all ? job->study->reference : job->study->reliable;
}

static struct job_result job_summary(const struct job *job, bool finished) {
    return (struct job_result){.dollars = amount_dollars(job->spot.amount + job->on_demand.amount),
                               .hours = (double)(job->now - job->start) / HOUR,
                               .on_demand_hours = (double)job->on_demand.paid_seconds / HOUR,
                               .spot_hours = (double)job->spot.paid_seconds / HOUR,
                               .free_hours = (double)job->spot.free_seconds / HOUR,
                               .evictions = (double)job->evictions,
                               .restarts = (double)job->lost.restarts,
                               .finished = finished};
}

struct job_result job_run(const struct study *study, const struct scheme *scheme, uint64_t number, int64_t start,
                          FILE *log) {
    struct job job;
    int64_t on_demand;
    int64_t give_up = start + (int64_t)(study->options.job_hours * JOB_SLOWEST * HOUR) + HOUR;
    job_begin(&job, study, scheme, number, start, log);
    const struct catalog_price *type = job_on_demand(&job, &on_demand);
    job_log_start(&job, type, on_demand);
    while (job.now < give_up) {
        if (job_happen(&job)) {
            job_decide(&job);
        }
        int64_t finish = job_finish_time(&job);
        int64_t next = job_next_event(&job);
        if (finish <= next) {
            job_advance(&job, finish);
            break;
        }
        job_advance(&job, next);
    }
    bool finished = job.now < give_up;
    if (on_demand > 0) {
        enum billing_end how = study->options.whole_hours ? BILLING_RELEASED : BILLING_SHARED;
        bill_add(&job.on_demand, billing_on_demand(study->options.rules, type->price, start, job.now, how), on_demand);
    }
    job_end(&job);
    job_log_end(&job);
    free(job.closed_until);
    free(job.markets);
    return job_summary(&job, finished);
}
