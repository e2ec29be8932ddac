/* The cost study of the paper's section 6.3: the data that all simulated jobs share, read-only once open. A job is one
 * run of an application with given work, from a given start, under a scheme (job.h). A study runs many jobs in parallel
 * and summarizes their results (study.c).
 *
 * Estimates and correlations of markets are kept per day; those of a day use no price after its first second. */
#ifndef BIDBRAIN_STUDY_STUDY_H
#define BIDBRAIN_STUDY_STUDY_H

#include "bidbrain/market/catalog.h"
#include "bidbrain/policy/portfolio.h"

enum {
    STUDY_SCHEMES_MAX = 24,
    STUDY_STARTS_MAX = 1000000,
    STUDY_DAY = 24 * HOUR,
    STUDY_CORRELATED_MAX = 512, /* most markets for which correlations (count x count) are computed */
    /* time between decisions, and from a decision to the end of a billing hour (section 5) */
    DECISION_SECONDS = 120,
};

enum scheme_kind {
    SCHEME_ON_DEMAND,
    SCHEME_STANDARD, /* one spot allocation at a time, in a market chosen by `pick` */
    /* as SCHEME_STANDARD, but on demand while there is no spot machine and the job is behind an even pace to its
     * deadline: the uniform-progress rule of "Can't Be Late" (NSDI 2024) */
    SCHEME_UNIFORM,
    SCHEME_PROTEUS
};

/* How a scheme with one allocation chooses its next market. */
enum pick {
    PICK_STANDARD, /* ec2-2016: the cheapest; ec2: the cheapest of the least interrupted, "price-capacity-optimized" */
    PICK_CHEAPEST, /* the cheapest, even if machines were just lost there: SkyPilot's default failover */
    PICK_EAGER,    /* the cheapest outside the zone of the last loss, if there is one: eager failover */
};

/* What a scheme with the policy uses as nu, the work of a machine per hour. */
enum scheme_nu {
    NU_VCPUS,    /* its vCPUs */
    NU_MEASURED, /* its vCPUs times the speed measured in the running job, as the daemon does (speeds.h) */
    NU_TRUE,     /* its vCPUs times the true speed */
};

struct scheme {
    const char *name;
    enum scheme_kind kind;
    enum pick pick;
    bool checkpoint; /* writes checkpoints; if false: AgileML with reliable machines on demand */
    /* AgileML without reliable machines: the state is on two groups, with checkpoints in case both are lost */
    bool transient;
    enum eviction_memory memory;
    bool learns;         /* estimates are renewed every day; if false, they stay as of the split */
    bool conditional;    /* estimates by regime; if false, the market's average */
    bool joint, diverse; /* as in struct policy_additions */
    bool ends;           /* the policy knows the work left, the deadline, and the worth of an hour */
    enum scheme_nu nu;
    bool measured; /* phi, sigma and lambda are measured in the running job; if false, they stay as assumed */
};

extern const struct scheme STUDY_SCHEMES[];

/* How an application scales, and what a change of its machines costs (the paper's Table 2). */
struct study_app {
    double phi; /* weight of the work beyond that of the reference machines */
    double sigma_seconds, lambda_seconds;
};

/* The checkpoints of the schemes that write them. */
struct study_checkpoints {
    double overhead;        /* time for checkpoints divided by time for work; used if `seconds` is 0 */
    double seconds;         /* time of one checkpoint; the interval follows from the mean time to failure */
    double restart_seconds; /* time to read a checkpoint on new machines */
};

struct study_options {
    const struct market_rules *rules;
    double job_hours; /* time on `machines` of `reference` */
    int64_t machines;
    const char *reference;
    int64_t reliable; /* on-demand machines that hold AgileML's state and do no work */
    const char *reliable_type;
    double most_scale; /* most work at once, in multiples of the reference machines' work */
    int64_t most_machines;
    double most_dollars_per_hour;
    int64_t least_markets;
    int64_t cooldown_seconds;
    int64_t vcpus_min;        /* smaller types are ignored */
    double memory_min;        /* in GiB; types with less are ignored */
    struct study_app app;     /* the true values */
    struct study_app assumed; /* the policy's assumptions; a value below 0: the true value */
    int64_t boot_seconds;     /* time from buying a machine to its first work */
    int64_t notice_seconds;   /* time from a notice to the eviction */
    int64_t drain_seconds;    /* duration of a clean departure; a shorter notice costs a part of a recovery */
    int64_t recovery_seconds; /* time lost by an eviction without any notice */
    struct study_checkpoints checkpoints;
    double deadline_hours;           /* deadline, counted from a job's start; 0: none */
    double hour_worth;               /* dollars saved by each hour that a job of a scheme with `ends` ends earlier */
    const struct type_speed *speeds; /* true speeds; the reference, and types not in the list, have speed 1 */
    size_t speed_count;
    int64_t probes;   /* types that NU_MEASURED compares at once, see portfolio.h */
    bool whole_hours; /* no job follows: the job pays the last hours of its machines whole */
    double train;     /* share of the traces' span that is used only for learning */
    int64_t starts;
    uint64_t seed;
    int64_t threads;
    const char *zone;    /* only markets of this zone; NULL: all */
    const char *schemes; /* comma-separated names; NULL: all */
};

/* Returns the default options: the paper's settings where the paper gives them. */
struct study_options study_defaults(void);

struct study_day {
    struct eviction_table tables[EVICTION_MEMORIES]; /* tables that the schemes use; all others are empty */
    bool *correlated;                                /* count x count; NULL for markets beyond STUDY_CORRELATED_MAX */
};

struct study {
    struct study_options options;
    struct markets own;               /* markets that take part, taken from the caller */
    struct portfolio_market *markets; /* `count` spot markets, then the reference type on demand */
    double *speeds;                   /* true speeds of the markets' vCPUs */
    size_t count;
    uint64_t unknown; /* markets left out because the catalog has no price for their types */
    struct interruptions interruptions;
    const struct catalog_price *reference, *reliable; /* types, with the prices of the markets' region */
    char region[MARKET_TEXT_MAX];
    double reference_work; /* work of all reference machines per hour: their vCPUs, since their speed is 1 */
    int64_t begin, end;    /* time span of the prices */
    int64_t split;         /* end of the training part */
    int64_t first_start, last_start;
    struct study_day *days;
    size_t day_count;
    int64_t first_day;                            /* start of days[0], in seconds */
    double mttf_hours;                            /* mean time to failure of standard bidding before the split */
    double checkpoint_interval, checkpoint_share; /* seconds; part of the time that checkpoints take */
    const struct scheme *schemes[STUDY_SCHEMES_MAX];
    size_t scheme_count;
};

/* Takes over the markets and leaves the caller's struct empty. `interruptions`: a spec of interruption.h, only for the
 * ec2 model. Returns AML_EINPUT with one line when the prices do not suffice for the options. Call study_close only
 * after success. */
int study_open(struct study *study, const struct study_options *options, struct markets *markets,
               const struct catalog *catalog, const char *interruptions, struct error *error);
void study_close(struct study *study);
/* Returns the estimates and correlations known at `time`, which is not before the split. */
const struct study_day *study_day(const struct study *study, int64_t time);
/* Returns the market that a scheme with one allocation takes; SIZE_MAX if no market is open. Considers markets whose
 * machines cost at most their on-demand price; the cheapest is the cheapest per vCPU. `lost` is the market of the last
 * loss, for PICK_EAGER, or SIZE_MAX. `seed` is the world. */
size_t study_pick(const struct study *study, enum pick pick, int64_t time, size_t lost, uint64_t seed);

struct job_result {
    double dollars, hours;                          /* cost and runtime of the job */
    double on_demand_hours, spot_hours, free_hours; /* machine-hours */
    double evictions;                               /* number of evicted allocations */
    /* of schemes with `transient`: restarts from a checkpoint after the state was lost */
    double restarts;
    bool finished;
};

struct statistic {
    double mean, ci95; /* half the width of the 95 % confidence interval of the mean */
};

struct scheme_summary {
    const struct scheme *scheme;
    struct statistic dollars, relative, hours, evictions,
        restarts; /* relative: dollars divided by those of on-demand with the same start */
    struct statistic on_demand_hours, spot_hours, free_hours;
    double hours_p95;
    uint64_t unfinished;
    uint64_t late; /* jobs that ended after the deadline or not at all */
};

/* Runs all schemes from all starts, on the threads of the options. Then empties `log`, which is open for appending, and
 * writes a JSON line for each action, in the order of starts and schemes. `log` may be NULL. */
int study_run(const struct study *study, struct scheme_summary summaries[STUDY_SCHEMES_MAX], FILE *log,
              struct error *error);

#endif
