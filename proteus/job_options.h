/* The options shared by `proteus run` and `proteus controller`: the job's cluster, its key, its report. Only reads and
 * checks them. */
#ifndef PROTEUS_JOB_OPTIONS_H
#define PROTEUS_JOB_OPTIONS_H

#include "agileml/base/log.h"
#include "agileml/base/options.h"
#include "agileml/base/process.h"
#include "agileml/control/decide/plan.h"
#include "agileml/net/zmq.h"
#include "web/server.h"

enum {
    JOB_OPTIONS_ENTRIES = 38, /* entries of the table, including its topics and its end */
    JOB_PARTITIONS_DEFAULT = 8,
    JOB_PARTITIONS_MOST = 32, /* the most that are chosen: each node has connections and messages for each */
    JOB_CHECKPOINT_EVERY_DEFAULT = 5, /* in iterations */
    JOB_REPLACEMENTS_DEFAULT = 8,
    JOB_HEARTBEAT_MIN_MS = 50,
    JOB_HEARTBEAT_MAX_MS = 1000,
    JOB_PROBE_MIN_MS = 10,
    JOB_PROBE_MAX_MS = 10 * 1000,
    JOB_HEARTBEATS = 10, /* heartbeats in a failure timeout */
};

/* In seconds. With a shorter timeout a healthy node could be declared failed while its connection is restored
 * (agileml/net/zmq_private.h). */
#define JOB_FAILURE_TIMEOUT_MIN 0.5
/* The default of --answer-timeout, as a multiple of the failure timeout, and its least value in seconds. */
#define JOB_ANSWER_TIMEOUTS    3
#define JOB_ANSWER_TIMEOUT_MIN 5.0

struct job_options {
    int64_t reliable, transient; /* nodes at the start */
    int64_t joining;             /* nodes that are known to join later */
    int64_t partitions;          /* 0: chosen by job_options_check */
    const char *stage;
    double threshold_2, threshold_3; /* transient nodes per reliable node; 0: learned */
    int64_t commit_every;            /* in clocks; 0: chosen by the controller */
    const char *checkpoint;          /* folder of checkpoints; NULL: none */
    int64_t checkpoint_every;        /* in iterations; 0: chosen by job_options_check */
    bool checkpoint_at_end;          /* write a checkpoint of the last clock; set by job_options_check */
    bool no_checkpoint_at_end;
    const char *resume;     /* folder; NULL: a new job */
    double failure_timeout; /* seconds */
    int64_t probe;          /* milliseconds; 0: no probes */
    double answer_timeout;  /* seconds; 0: chosen by job_options_check */
    const char *balance;    /* none, shares, nd, dd, or a file; NULL: shares */
    int64_t replacements;
    double window_short, window_long; /* seconds over which nodes' speeds are measured */
    const char *key;                  /* path of the key file; NULL: none */
    bool insecure;
    const char *report;   /* path of the report; NULL: none */
    const char *progress; /* how progress is shown; see progress_parse */
    struct log_options log;
    struct web_options http; /* listen NULL: no page; `insecure` is set by job_options_check */
    bool help;
};

struct job_options job_options_defaults(void);
void job_options_table(struct job_options *options, struct aml_option table[JOB_OPTIONS_ENTRIES]);

/* Adds the options, but --report and --progress, as arguments of `proteus controller`. */
void job_options_arguments(const struct job_options *options, struct arguments *arguments);

/* Checks what an option table can't check; sets the policy and the defaults. Returns 0, AML_EINPUT or AML_ELIMIT. */
int job_options_check(struct job_options *options, struct plan_policy *policy, struct error *error);

unsigned job_heartbeat_ms(const struct job_options *options);

/* Appends the command that would have saved the model to `text`, the reason why a job ends without one. */
void job_name_stop(const struct job_options *options, const char *endpoint, char *text, size_t size);

#endif
