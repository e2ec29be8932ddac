/* The options that `proteus run` and `proteus controller` share: the job's cluster, its key, its report. Reads and
 * checks them only. */
#ifndef PROTEUS_JOB_OPTIONS_H
#define PROTEUS_JOB_OPTIONS_H

#include "agileml/base/log.h"
#include "agileml/base/options.h"
#include "agileml/control/plan.h"
#include "agileml/net/zmq.h"
#include "web/server.h"

enum {
    JOB_OPTIONS_OWN_MAX = 12,                       /* options of one command alone */
    JOB_OPTIONS_ENTRIES = JOB_OPTIONS_OWN_MAX + 34, /* of the table, its end included */
    JOB_PARTITIONS_DEFAULT = 8,
    JOB_CHECKPOINT_EVERY_DEFAULT = 5, /* iterations */
    JOB_REPLACEMENTS_DEFAULT = 8,
    JOB_HEARTBEAT_MIN_MS = 50,
    JOB_HEARTBEAT_MAX_MS = 1000,
    JOB_PROBE_MIN_MS = 10,
    JOB_PROBE_MAX_MS = 10 * 1000,
    JOB_HEARTBEATS = 10, /* heartbeats in a failure timeout */
};

/* Seconds. A shorter timeout could declare a healthy node failed while its connection is made again
 * (agileml/net/zmq_private.h). */
#define JOB_FAILURE_TIMEOUT_MIN 0.5
/* The default of --answer-timeout, in failure timeouts, and its least value in seconds. */
#define JOB_ANSWER_TIMEOUTS    3
#define JOB_ANSWER_TIMEOUT_MIN 5.0

struct job_options {
    int64_t reliable, transient; /* nodes to begin with */
    int64_t joining;             /* nodes that are known to join later */
    int64_t partitions;          /* 0: chosen by job_options_check */
    const char *stage;
    double threshold_2, threshold_3; /* transient nodes per reliable one; 0: learned */
    int64_t commit_every;            /* clocks; 0: chosen */
    const char *checkpoint;          /* folder; NULL: none */
    int64_t checkpoint_every;        /* iterations; 0: chosen by job_options_check */
    bool checkpoint_at_end;          /* write a checkpoint of the last clock; set by job_options_check */
    bool no_checkpoint_at_end;
    const char *resume;     /* folder; NULL: a new job */
    double failure_timeout; /* seconds */
    int64_t probe;          /* milliseconds; 0: no probes */
    double answer_timeout;  /* seconds; 0: chosen by job_options_check */
    const char *balance;    /* none, shares, nd, dd, or a file; NULL: shares */
    int64_t replacements;
    double window_short, window_long; /* seconds over which nodes' speeds are measured */
    const char *key;                  /* file; NULL: none */
    bool insecure;
    const char *report;   /* file; NULL: none */
    const char *progress; /* how it is shown, see progress_parse */
    struct log_options log;
    struct web_options http; /* listen NULL: no page; `insecure` is set by job_options_check */
    bool help;
};

struct job_options job_options_defaults(void);
/* Makes a table of the command's own options, then of these. */
void job_options_table(struct job_options *options, const struct aml_option *own,
                       struct aml_option table[JOB_OPTIONS_ENTRIES]);

/* Checks what a table of options can't, and sets the policy and the defaults. Returns 0, AML_EINPUT or AML_ELIMIT. */
int job_options_check(struct job_options *options, struct plan_policy *policy, struct error *error);

unsigned job_heartbeat_ms(const struct job_options *options);

/* Appends to `text`, the reason why a job ends without a model, the command that would have saved it. */
void job_name_stop(const struct job_options *options, const char *endpoint, char *text, size_t size);

#endif
