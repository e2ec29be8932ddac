/* See study.h. */
#include "bidbrain/study/study.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHECKPOINT_INTERVAL_MAX = HOUR, CORRELATED_SPIKES_MIN = 3, MTTF_WORLDS = 20 };
#define SPIKE          1.25 /* a market spikes in an hour if its price rises by more than a quarter in it */
#define CORRELATED_MIN 0.3  /* phi coefficient of the hours in which two markets spike */

const struct scheme STUDY_SCHEMES[] = {
    {.name = "on-demand", .kind = SCHEME_ON_DEMAND},
    {.name = "standard+checkpoint", .kind = SCHEME_STANDARD, .checkpoint = true},
    {.name = "standard+agileml", .kind = SCHEME_STANDARD},
    {.name = "cheapest+checkpoint", .kind = SCHEME_STANDARD, .pick = PICK_CHEAPEST, .checkpoint = true},
    {.name = "eager+checkpoint", .kind = SCHEME_STANDARD, .pick = PICK_EAGER, .checkpoint = true},
    {.name = "uniform+checkpoint", .kind = SCHEME_UNIFORM, .pick = PICK_CHEAPEST, .checkpoint = true},
    {.name = "proteus", .kind = SCHEME_PROTEUS},
    {.name = "proteus+learning", .kind = SCHEME_PROTEUS, .learns = true},
    {.name = "proteus+decay", .kind = SCHEME_PROTEUS, .learns = true, .memory = EVICTION_RECENT},
    {.name = "proteus+memory", .kind = SCHEME_PROTEUS, .learns = true, .memory = EVICTION_CHOSEN},
    {.name = "proteus+conditional", .kind = SCHEME_PROTEUS, .learns = true, .conditional = true},
    {.name = "proteus+joint", .kind = SCHEME_PROTEUS, .joint = true},
    {.name = "proteus+diverse", .kind = SCHEME_PROTEUS, .diverse = true},
    {.name = "proteus+measured", .kind = SCHEME_PROTEUS, .measured = true},
    {.name = "proteus+end", .kind = SCHEME_PROTEUS, .ends = true},
    {.name = "proteus+additions",
     .kind = SCHEME_PROTEUS,
     .memory = EVICTION_CHOSEN,
     .learns = true,
     .conditional = true,
     .joint = true,
     .ends = true,
     .measured = true},
    {.name = "proteus+transient",
     .kind = SCHEME_PROTEUS,
     .transient = true,
     .memory = EVICTION_CHOSEN,
     .learns = true,
     .conditional = true,
     .joint = true,
     .ends = true,
     .measured = true},
    {.name = "proteus+speeds",
     .kind = SCHEME_PROTEUS,
     .memory = EVICTION_CHOSEN,
     .learns = true,
     .conditional = true,
     .joint = true,
     .ends = true,
     .nu = NU_MEASURED,
     .measured = true},
    {.name = "proteus+true-speeds",
     .kind = SCHEME_PROTEUS,
     .memory = EVICTION_CHOSEN,
     .learns = true,
     .conditional = true,
     .joint = true,
     .ends = true,
     .nu = NU_TRUE,
     .measured = true},
    {.name = "proteus+all",
     .kind = SCHEME_PROTEUS,
     .memory = EVICTION_CHOSEN,
     .learns = true,
     .conditional = true,
     .joint = true,
     .diverse = true,
     .ends = true,
     .measured = true},
};
enum { SCHEME_COUNT = sizeof STUDY_SCHEMES / sizeof *STUDY_SCHEMES };

struct study_options study_defaults(void) {
    return (struct study_options){.rules = &MARKET_EC2_2016,
                                  .job_hours = 2,
                                  .machines = 64,
                                  .reference = "c4.2xlarge",
                                  .reliable = 1,
                                  .reliable_type = "c4.2xlarge",
                                  .most_scale = 2,
                                  .most_machines = 1000,
                                  .most_dollars_per_hour = 1000,
                                  .least_markets = 1,
                                  .vcpus_min = 2,
                                  .memory_min = 3,
                                  .app = {.phi = 0.95, .sigma_seconds = 30, .lambda_seconds = 60},
                                  .assumed = {.phi = -1, .sigma_seconds = -1, .lambda_seconds = -1},
                                  .boot_seconds = 120,
                                  .notice_seconds = 120,
                                  .drain_seconds = 60,
                                  .recovery_seconds = 180,
                                  .checkpoints = {.overhead = 0.17, .restart_seconds = 120},
                                  .probes = PORTFOLIO_PROBES_DEFAULT,
                                  .train = 0.5,
                                  .starts = 1000,
                                  .seed = 1};
}

/* ---- Which markets take part ---- */

struct study_filter {
    const struct study_options *options;
    const struct catalog *catalog;
    uint64_t *unknown;
};

static bool study_wants(const void *context, const struct market *market) {
    const struct study_filter *filter = context;
    const struct study_options *options = filter->options;
    if (options->zone != NULL && strncmp(market->zone, options->zone, strlen(options->zone)) != 0) {
        return false;
    }
    char region[MARKET_TEXT_MAX];
    market_region(market->zone, region);
    const struct catalog_price *price = catalog_find(filter->catalog, market->type, region);
    *filter->unknown += price == NULL;
    return catalog_fits(price, options->vcpus_min, options->memory_min);
}

static int study_select(struct study *study, struct markets *markets, const struct catalog *catalog,
                        struct error *error) {
    struct study_filter filter = {&study->options, catalog, &study->unknown};
    study->own = *markets;
    memset(markets, 0, sizeof *markets);
    markets_keep(&study->own, study_wants, &filter);
    study->count = study->own.count;
    if (study->count == 0) {
        return error_set(
            error, AML_EINPUT,
            "no market to buy in: expected prices of a type that the catalog knows, of at least %lld vCPUs and "
            "%g GiB%s%s",
            (long long)study->options.vcpus_min, study->options.memory_min,
            study->options.zone != NULL ? ", in zone " : "", study->options.zone != NULL ? study->options.zone : "");
    }
    market_region(study->own.list[0]->zone, study->region);
    return portfolio_markets(&study->markets, &study->own, catalog, error);
}

static const struct catalog_price *study_type(const struct study *study, const struct catalog *catalog,
                                              const char *option, const char *type, struct error *error) {
    const struct catalog_price *price = catalog_find(catalog, type, study->region);
    if (price == NULL) {
        error_set(error, AML_EINPUT, "--%s: '%.60s' has no price in %s: expected a type of the catalog", option, type,
                  study->region);
    }
    return price;
}

static int study_schemes(struct study *study, struct error *error) {
    const char *rest = study->options.schemes;
    bool deadline = study->options.deadline_hours > 0;
    bool uneven = study->options.speed_count > 0;
    for (size_t s = 0; rest == NULL && s < SCHEME_COUNT; s++) {
        bool fits =
            (deadline || STUDY_SCHEMES[s].kind != SCHEME_UNIFORM) && (uneven || STUDY_SCHEMES[s].nu == NU_VCPUS);
        if (fits) {
            study->schemes[study->scheme_count++] = &STUDY_SCHEMES[s];
        }
    }
    while (rest != NULL) {
        size_t length = strcspn(rest, ",");
        const struct scheme *found = NULL;
        for (size_t s = 0; s < SCHEME_COUNT; s++) {
            const char *name = STUDY_SCHEMES[s].name;
            found = strlen(name) == length && memcmp(name, rest, length) == 0 ? &STUDY_SCHEMES[s] : found;
        }
        if (found == NULL || study->scheme_count == STUDY_SCHEMES_MAX) {
            return error_set(error, AML_EINPUT,
                             "--schemes: '%.*s': expected on-demand, standard+checkpoint, "
                             "standard+agileml, proteus or proteus+ADDITION, see --help",
                             (int)length, rest);
        }
        if (found->kind == SCHEME_UNIFORM && !deadline) {
            return error_set(error, AML_EINPUT, "--schemes: '%s' keeps pace with a deadline: expected --deadline-hours",
                             found->name);
        }
        if (found->nu != NU_VCPUS && !uneven) {
            return error_set(error, AML_EINPUT, "--schemes: '%s' counts machines by their speeds: expected --speeds",
                             found->name);
        }
        study->schemes[study->scheme_count++] = found;
        rest = rest[length] == ',' ? rest + length + 1 : NULL;
    }
    return 0;
}

/* ---- True speeds ---- */

static double speed_of(const struct study *study, const char *type) {
    double speed = type_speed_of(study->options.speeds, study->options.speed_count, type);
    return speed > 0 ? speed : 1;
}

/* Sets the true speeds. The markets and the reference must be known. */
static int study_speeds(struct study *study, const struct catalog *catalog, struct error *error) {
    for (size_t s = 0; s < study->options.speed_count; s++) {
        const struct type_speed *speed = &study->options.speeds[s];
        if (catalog_find(catalog, speed->type, study->region) == NULL) {
            return error_set(error, AML_EINPUT, "--speeds: '%s' has no price in %s: expected a type of the catalog",
                             speed->type, study->region);
        }
    }
    if (speed_of(study, study->reference->type) != 1) {
        return error_set(error, AML_EINPUT, "--speeds: '%s' is the reference: expected 1, as speeds are relative to it",
                         study->reference->type);
    }
    study->speeds = memory_zeroed(study->count + 1, sizeof *study->speeds);
    for (size_t m = 0; m <= study->count; m++) {
        study->speeds[m] = speed_of(study, study->markets[m].type->type);
    }
    return 0;
}

/* ---- Estimates and correlations, day by day ---- */

/* Counts of hours in which each market, and each pair of markets, spiked. */
struct spikes {
    double hours;
    double *alone;    /* hours in which each market spiked */
    double *together; /* hours in which each pair spiked, count x count */
    bool *now;
};

static void spikes_hour(struct spikes *spikes, const struct study *study, int64_t hour) {
    size_t count = study->count;
    for (size_t m = 0; m < count; m++) {
        int64_t price = market_price(study->markets[m].prices, hour);
        int64_t highest = market_highest(study->markets[m].prices, hour, hour + HOUR - 1);
        spikes->now[m] = price > 0 && (double)highest > SPIKE * (double)price;
        spikes->alone[m] += spikes->now[m];
    }
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; spikes->now[a] && b < count; b++) {
            spikes->together[a * count + b] += spikes->now[b];
        }
    }
    spikes->hours += 1;
}

static bool *spikes_correlated(const struct spikes *spikes, size_t count) {
    bool *correlated = memory_zeroed(count * count, sizeof *correlated);
    double n = spikes->hours;
    for (size_t a = 0; a < count && n > 0; a++) {
        for (size_t b = 0; b < count; b++) {
            double pa = spikes->alone[a] / n;
            double pb = spikes->alone[b] / n;
            double both = spikes->together[a * count + b];
            double spread = sqrt(pa * (1 - pa) * pb * (1 - pb));
            correlated[a * count + b] =
                a != b && both >= CORRELATED_SPIKES_MIN && spread > 0 && (both / n - pa * pb) / spread > CORRELATED_MIN;
        }
    }
    return correlated;
}

static bool study_learns(const struct study *study) {
    return study->options.rules->bids;
}

/* Makes the tables that schemes use on that day: on the first day all tables, later only those of schemes that keep
 * learning. */
static void study_tables(const struct study *study, struct study_day *day, const struct eviction *eviction,
                         int64_t now) {
    for (size_t s = 0; s < study->scheme_count; s++) {
        const struct scheme *scheme = study->schemes[s];
        struct eviction_table *table = &day->tables[scheme->memory];
        if (scheme->kind == SCHEME_PROTEUS && table->markets == NULL && (scheme->learns || day == study->days)) {
            eviction_table_open(table, eviction, scheme->memory, now);
        }
    }
}

static void study_learn(struct study *study) {
    int64_t *on_demand = memory_zeroed(study->count, sizeof *on_demand);
    bool correlate = study->count <= STUDY_CORRELATED_MAX;
    struct spikes spikes = {.alone = memory_zeroed(study->count, sizeof(double)),
                            .together = memory_zeroed(study->count * study->count, sizeof(double)),
                            .now = memory_zeroed(study->count, sizeof(bool))};
    for (size_t m = 0; m < study->count; m++) {
        on_demand[m] = study->markets[m].type->price;
    }
    study->first_day = (study->split / STUDY_DAY + 1) * STUDY_DAY;
    study->day_count =
        1 + (study->end > study->first_day ? (size_t)((study->end - study->first_day) / STUDY_DAY) + 1 : 0);
    study->days = memory_zeroed(study->day_count, sizeof *study->days);
    struct eviction eviction;
    eviction_open(&eviction, &study->own, on_demand);
    int64_t hour = study->begin / HOUR * HOUR;
    for (size_t d = 0; d < study->day_count; d++) {
        int64_t now = d == 0 ? study->split : study->first_day + (int64_t)(d - 1) * STUDY_DAY;
        if (study_learns(study)) {
            eviction_advance(&eviction, now);
            study_tables(study, &study->days[d], &eviction, now);
        }
        for (; correlate && hour + HOUR <= now; hour += HOUR) {
            spikes_hour(&spikes, study, hour);
        }
        study->days[d].correlated = correlate ? spikes_correlated(&spikes, study->count) : NULL;
    }
    eviction_close(&eviction);
    free(spikes.alone);
    free(spikes.together);
    free(spikes.now);
    free(on_demand);
}

const struct study_day *study_day(const struct study *study, int64_t time) {
    assert(time >= study->split);
    size_t day = time < study->first_day ? 0 : (size_t)((time - study->first_day) / STUDY_DAY) + 1;
    return &study->days[day < study->day_count ? day : study->day_count - 1];
}

/* ---- Standard bidding, and how long it lasts ---- */

/* Finds the price per vCPU and the risk of a market's machines. Returns false when it has none. */
static bool pick_market(const struct study *study, enum pick pick, int64_t time, size_t m, uint64_t seed, double *risk,
                        double *per_work) {
    const struct portfolio_market *market = &study->markets[m];
    int64_t price = market_price(market->prices, time);
    if (price == PRICE_UNKNOWN || price_passes(price, market->type->price)) {
        return false;
    }
    *per_work = price_dollars(price) / market->type->vcpus;
    *risk = pick == PICK_STANDARD ? interruption_probability(&study->interruptions, m, 0, 24) : 0;
    return interruption_open_at(&study->interruptions, m, time, seed);
}

static bool same_zone(const struct study *study, size_t a, size_t b) {
    return strcmp(study->markets[a].zone, study->markets[b].zone) == 0;
}

size_t study_pick(const struct study *study, enum pick pick, int64_t time, size_t lost, uint64_t seed) {
    size_t best = SIZE_MAX;
    double best_risk = INFINITY;
    double best_price = INFINITY;
    for (size_t m = 0; m < study->count; m++) {
        double risk;
        double per_work;
        if (!pick_market(study, pick, time, m, seed, &risk, &per_work)) {
            continue;
        }
        if (pick == PICK_EAGER && lost < study->count && same_zone(study, m, lost)) {
            risk = 1; /* picked only if no other zone has machines */
        }
        if (risk < best_risk || (risk <= best_risk && per_work < best_price)) {
            best = m;
            best_risk = risk;
            best_price = per_work;
        }
    }
    return best;
}

/* Adds the seconds for which standard bidding holds machines before the split, and its failures, in one world. */
static void study_failures(const struct study *study, uint64_t seed, double *held, double *failures) {
    uint64_t draw = 0;
    for (int64_t t = study->begin; t < study->split;) {
        size_t m = study_pick(study, PICK_STANDARD, t, SIZE_MAX, seed);
        if (m == SIZE_MAX) {
            t += DECISION_SECONDS;
            continue;
        }
        const struct portfolio_market *market = &study->markets[m];
        int64_t end =
            interruption_of(&study->interruptions, m, market->prices, market->type->price, t, ++draw, seed).time;
        *failures += end < study->split;
        end = end < study->split ? end : study->split;
        end = end > t ? end : t + 1;
        *held += (double)(end - t);
        t = end;
    }
}

/* Returns the mean time to failure. Prices alone are one world; drawn interruptions are averaged over many worlds. */
static double study_mttf(const struct study *study) {
    uint64_t worlds = study->interruptions.kind == INTERRUPTION_NONE ? 1 : MTTF_WORLDS;
    double held = 0;
    double failures = 0;
    for (uint64_t world = 0; world < worlds; world++) {
        study_failures(study, hash_mix(study->options.seed ^ world), &held, &failures);
    }
    return held / fmax(1, failures) / HOUR;
}

/* Young's rule: with checkpoints of C seconds the interval is sqrt(2 C MTTF). If the overhead C / interval is given
 * instead, the interval is 2 x overhead x MTTF, limited to an hour in the checkpoints' favour. */
static void study_checkpoints(struct study *study) {
    const struct study_options *options = &study->options;
    double mttf = study->mttf_hours * HOUR;
    if (options->checkpoints.seconds > 0) {
        study->checkpoint_interval = sqrt(2 * options->checkpoints.seconds * mttf);
        study->checkpoint_share =
            options->checkpoints.seconds / (study->checkpoint_interval + options->checkpoints.seconds);
    } else {
        study->checkpoint_interval = 2 * options->checkpoints.overhead * mttf;
        study->checkpoint_share = options->checkpoints.overhead / (1 + options->checkpoints.overhead);
    }
    study->checkpoint_interval = fmin(fmax(study->checkpoint_interval, 60), CHECKPOINT_INTERVAL_MAX);
}

/* ---- Opening ---- */

static int study_window(struct study *study, struct error *error) {
    const struct study_options *options = &study->options;
    (void)markets_span(&study->own, &study->begin, &study->end);
    study->split = study->begin + (int64_t)((double)(study->end - study->begin) * options->train);
    study->first_start = study->split;
    /* Leaves room for jobs that take three times their hours, and at least six hours more. */
    double room = fmax(3 * options->job_hours, options->job_hours + 6) * HOUR;
    study->last_start = study->end - (int64_t)room;
    if (study->last_start <= study->first_start) {
        char begin[INSTANT_TEXT_MAX];
        char end[INSTANT_TEXT_MAX];
        instant_format(study->first_start, begin);
        instant_format(study->end, end);
        return error_set(error, AML_EINPUT,
                         "no room to start jobs of %g hours: prices after the training part (--train) span %s to %s, "
                         "expected more than %g hours",
                         options->job_hours, begin, end, room / HOUR);
    }
    return 0;
}

static int study_prepare(struct study *study, struct markets *markets, const struct catalog *catalog,
                         const char *interruptions, struct error *error) {
    struct study_options *options = &study->options;
    options->assumed.phi = options->assumed.phi < 0 ? options->app.phi : options->assumed.phi;
    if (options->assumed.sigma_seconds < 0) {
        options->assumed.sigma_seconds = options->app.sigma_seconds;
    }
    if (options->assumed.lambda_seconds < 0) {
        options->assumed.lambda_seconds = options->app.lambda_seconds;
    }
    int code = study_select(study, markets, catalog, error);
    code = code != 0 ? code : study_schemes(study, error);
    code = code != 0 ? code : study_window(study, error);
    if (code != 0) {
        return code;
    }
    study->reference = study_type(study, catalog, "reference", options->reference, error);
    study->reliable = study_type(study, catalog, "reliable-type", options->reliable_type, error);
    if (study->reference == NULL || study->reliable == NULL) {
        return AML_EINPUT;
    }
    study->markets[study->count].type = study->reference;
    study->reference_work = (double)options->machines * study->reference->vcpus;
    if (study_speeds(study, catalog, error) != 0) {
        return AML_EINPUT;
    }
    if (study_learns(study) && strcmp(interruptions, "none") != 0) {
        return error_set(error, AML_EINPUT,
                         "--interruptions: works with --model ec2 only; with ec2-2016 prices decide evictions");
    }
    return interruptions_open(&study->interruptions, interruptions, &study->own, error);
}

int study_open(struct study *study, const struct study_options *options, struct markets *markets,
               const struct catalog *catalog, const char *interruptions, struct error *error) {
    *study = (struct study){.options = *options};
    int code = study_prepare(study, markets, catalog, interruptions, error);
    if (code != 0) {
        study_close(study);
        return code;
    }
    study_learn(study);
    study->mttf_hours = study_mttf(study);
    study_checkpoints(study);
    return 0;
}

void study_close(struct study *study) {
    for (size_t d = 0; d < study->day_count; d++) {
        for (unsigned k = 0; k < EVICTION_MEMORIES; k++) {
            eviction_table_close(&study->days[d].tables[k]);
        }
        free(study->days[d].correlated);
    }
    free(study->days);
    free(study->speeds);
    free(study->markets);
    interruptions_close(&study->interruptions);
    markets_close(&study->own);
    memset(study, 0, sizeof *study);
}
