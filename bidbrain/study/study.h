/* The cost study of the paper's section 6.3: the data that all simulated jobs share, read-only once open. A job is one
 * run of an application with given work, from a given start, under a scheme (job.h). A study runs many jobs in parallel
 * and summarizes their results (study.c).
 *
 * Estimates and correlations of markets are kept per day; those of a day use no price after its first second. */
#ifndef BIDBRAIN_STUDY_STUDY_H
#define BIDBRAIN_STUDY_STUDY_H

#include "bidbrain/policy/portfolio.h"
#include "bidbrain/policy/speeds.h"

enum {
    STUDY_SCHEMES_MAX = 24,
    STUDY_STARTS_MAX = 1000000,
    STUDY_DAY = 24 * HOUR,
    STUDY_CORRELATED_MAX = 512, /* most markets for which correlations, count x count, are computed */
    DECISION_SECONDS = 120,     /* from a decision to the next, and to the end of a billing hour (section 5) */
};

enum scheme_kind {
    SCHEME_ON_DEMAND,
    SCHEME_STANDARD, /* one spot allocation at a time, in the market that `pick` names */
    SCHEME_UNIFORM,  /* the same, but on demand while no spot machine is there and the job is behind an even pace to its
                        deadline: the uniform-progress rule of "Can't Be Late" (NSDI 2024) */
    SCHEME_PROTEUS
};

/* The market that a scheme of one allocation takes next. */
enum pick {
    PICK_STANDARD, /* ec2-2016: the cheapest; ec2: the cheapest of the least interrupted, "price-capacity-optimized" */
    PICK_CHEAPEST, /* the cheapest, also where machines were just lost: SkyPilot's default failover */
    PICK_EAGER,    /* the cheapest outside the zone that was just lost, if there is one: eager failover */
};

/* What a scheme of the policy takes as nu, the work of a machine in an hour. */
enum scheme_nu {
    NU_VCPUS,    /* its vCPUs */
    NU_MEASURED, /* its vCPUs by the speed that the running job has measured, as the daemon does (speeds.h) */
    NU_TRUE,     /* the same, by the true speed */
};

struct scheme {
    const char *name;
    enum scheme_kind kind;
    enum pick pick;
    bool checkpoint; /* else AgileML, with reliable machines on demand */
    bool transient;  /* AgileML without reliable machines: the state is on two groups; checkpoints in case both go */
    enum eviction_memory memory;
    bool learns;         /* estimates are renewed every day; else they stay as of the split */
    bool conditional;    /* estimates by regime; else the market's average */
    bool joint, diverse; /* as in struct policy_additions */
    bool ends;           /* the policy knows the work left, the deadline and what an hour is worth */
    enum scheme_nu nu;
    bool measured; /* phi, sigma and lambda are measured in the running job; else they are as assumed */
};

extern const struct scheme STUDY_SCHEMES[];
extern const size_t STUDY_SCHEME_COUNT;

/* How an application scales, and what changes of machines cost it (the paper's Table 2). */
struct study_app {
    double phi; /* how much work beyond the reference machines' counts */
    double sigma_seconds, lambda_seconds;
};

/* The checkpoints of the schemes that write them. */
struct study_checkpoints {
    double overhead;        /* time for checkpoints over time for work, if `seconds` is 0 */
    double seconds;         /* of one checkpoint; the interval follows from the mean time to failure */
    double restart_seconds; /* to read a checkpoint on new machines */
};

struct study_options {
    const struct market_rules *rules;
    double job_hours; /* on `machines` of `reference` */
    int64_t machines;
    const char *reference;
    int64_t reliable; /* on-demand machines that hold AgileML's state and do no work */
    const char *reliable_type;
    double most_scale; /* most work at once, in multiples of the reference machines' */
    int64_t most_machines;
    double most_dollars_per_hour;
    int64_t least_markets;
    int64_t cooldown_seconds;
    int64_t vcpus_min;        /* smaller types are left out */
    double memory_min;        /* GiB; types with less are left out */
    struct study_app app;     /* as it is */
    struct study_app assumed; /* as the policy assumes it; a value below 0: as it is */
    int64_t boot_seconds;     /* from buying a machine to its first work */
    int64_t notice_seconds;   /* from a notice to the eviction */
    int64_t drain_seconds;    /* that a clean departure takes; a shorter notice costs a part of a recovery */
    int64_t recovery_seconds; /* lost by an eviction without any notice */
    struct study_checkpoints checkpoints;
    double deadline_hours;           /* from a job's start; 0: none */
    double hour_worth;               /* dollars that ending an hour sooner is worth to `ends` */
    const struct type_speed *speeds; /* the true ones; the reference and types that are not in the list have 1 */
    size_t speed_count;
    int64_t probes;   /* types that NU_MEASURED compares at once, see portfolio.h */
    bool whole_hours; /* no job follows: the job pays its machines' last hours whole */
    double train;     /* share of the traces' span used for learning only */
    int64_t starts;
    uint64_t seed;
    int64_t threads;
    const char *zone;    /* only markets of this zone; NULL: all */
    const char *schemes; /* comma-separated names; NULL: all */
};

/* The default options: the paper's settings where the paper names them. */
struct study_options study_defaults(void);

struct study_day {
    struct eviction_table tables[EVICTION_MEMORIES]; /* the tables that the schemes use; the others are empty */
    bool *correlated;                                /* count x count; NULL for markets beyond STUDY_CORRELATED_MAX */
};

struct study {
    struct study_options options;
    struct markets own;               /* the markets that take part, taken from the caller */
    struct portfolio_market *markets; /* `count` spot markets, then the reference type on demand */
    double *speeds;                   /* of the markets' vCPUs, the true ones */
    size_t count;
    uint64_t unknown; /* markets that were left out, as the catalog has no price for their types */
    struct interruptions interruptions;
    const struct catalog_price *reference, *reliable; /* of the markets' region */
    char region[MARKET_TEXT_MAX];
    double reference_work; /* of all reference machines in an hour: their vCPUs, as these have speed 1 */
    int64_t begin, end;    /* of the prices */
    int64_t split;         /* the end of the training part */
    int64_t first_start, last_start;
    struct study_day *days;
    size_t day_count;
    int64_t first_day;                            /* seconds, of days[0] */
    double mttf_hours;                            /* of standard bidding before the split */
    double checkpoint_interval, checkpoint_share; /* seconds; overhead as a share of time */
    const struct scheme *schemes[STUDY_SCHEMES_MAX];
    size_t scheme_count;
};

/* Takes the markets over and leaves the caller's struct empty. `interruptions`: the spec of interruption.h, for the ec2
 * model only. AML_EINPUT with one line when the prices do not suffice for the options. Call study_close after success
 * only. */
int study_open(struct study *study, const struct study_options *options, struct markets *markets,
               const struct catalog *catalog, const char *interruptions, struct error *error);
void study_close(struct study *study);
/* The estimates and correlations known at `time`, which is not before the split. */
const struct study_day *study_day(const struct study *study, int64_t time);
/* The market that a scheme of one allocation takes, among those that have machines at no more than their on-demand
 * price; the cheapest is cheapest per vCPU. `lost`: the market that was lost last, for PICK_EAGER, or SIZE_MAX. `seed`:
 * the world. Returns SIZE_MAX if no market is open. */
size_t study_pick(const struct study *study, enum pick pick, int64_t time, size_t lost, uint64_t seed);

struct job_result {
    double dollars, hours;                          /* runtime */
    double on_demand_hours, spot_hours, free_hours; /* of machines */
    double evictions;                               /* of allocations */
    double restarts;                                /* of `transient` from a checkpoint, as the state was lost */
    bool finished;
};

struct statistic {
    double mean, ci95; /* half the width of the 95 % confidence interval of the mean */
};

struct scheme_summary {
    const struct scheme *scheme;
    struct statistic dollars, relative, hours, evictions,
        restarts; /* relative: dollars over on-demand's of the same start */
    struct statistic on_demand_hours, spot_hours, free_hours;
    double hours_p95;
    uint64_t unfinished;
    uint64_t late; /* jobs that ended after the deadline or not at all */
};

/* Runs all schemes from all starts on the threads of the options. Once all have run, empties `log`, which is opened to
 * append, and writes a JSON line for each action, in the order of starts and schemes. `log` may be NULL. */
int study_run(const struct study *study, struct scheme_summary summaries[STUDY_SCHEMES_MAX], FILE *log,
              struct error *error);

#endif
