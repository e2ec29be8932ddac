/* See job_options.h. */
#include "proteus/job_options.h"

#include "agileml/control/state/controller.h"
#include "proteus/balance_option.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

struct job_options job_options_defaults(void) {
    return (struct job_options){.reliable = 1,
                                .stage = "auto",
                                .failure_timeout = 10,
                                .progress = "auto",
                                .window_short = MONITOR_SHORT_S,
                                .window_long = MONITOR_LONG_S,
                                .replacements = JOB_REPLACEMENTS_DEFAULT};
}

void job_options_table(struct job_options *options, struct aml_option table[JOB_OPTIONS_ENTRIES]) {
    const struct aml_option all[JOB_OPTIONS_ENTRIES] = {
        {"reliable", "N", AML_OPTION_INTEGER, &options->reliable, 0, WIRE_NODES_MAX,
         "nodes on machines that stay, to begin with"},
        {"transient", "N", AML_OPTION_INTEGER, &options->transient, 0, WIRE_NODES_MAX,
         "nodes on machines that may be taken away, to begin with"},
        {"checkpoint", "DIR", AML_OPTION_STRING, &options->checkpoint, 0, 0,
         "write checkpoints into DIR, a folder or s3://BUCKET/PREFIX"},
        {"resume", "DIR", AML_OPTION_STRING, &options->resume, 0, 0, "go on from the newest checkpoint in DIR"},
        {"report", "FILE", AML_OPTION_STRING, &options->report, 0, 0,
         "write the job's events and metrics to FILE, as lines of JSON; earlier contents are replaced"},
        {"progress", "MODE", AML_OPTION_STRING, &options->progress, 0, 0,
         "line (a live line), plain, json (the report's lines), none, or auto: line on a terminal, else plain"},
        OPTIONS_TOPIC("job", "checkpoints, partitions"),
        {"checkpoint-every", "N", AML_OPTION_INTEGER, &options->checkpoint_every, 0, 1e9,
         "iterations between checkpoints; 0: 5"},
        {"checkpoint-at-end", NULL, AML_OPTION_FLAG, &options->checkpoint_at_end, 0, 0,
         "also write a checkpoint of the job's last clock, as --checkpoint does by itself"},
        {"no-checkpoint-at-end", NULL, AML_OPTION_FLAG, &options->no_checkpoint_at_end, 0, 0,
         "write no checkpoint of the job's last clock"},
        {"partitions", "N", AML_OPTION_INTEGER, &options->partitions, 0, WIRE_PARTITIONS_MAX,
         "partitions of the tables; 0: half as many as nodes, 8 to 32. More let more nodes serve a large model"},
        OPTIONS_TOPIC("uneven", "slow machines"),
        {"balance", "HOW", AML_OPTION_STRING, &options->balance, 0, 0,
         "none: no action; shares: a node's share of the data goes by its speed; nd: as shares, and lasting stragglers "
         "are replaced; dd: as shares but sooner, for machines that are the job's own; FILE.so: a policy of yours. Not "
         "given: nd where proteus run starts the nodes, else shares"},
        {"replacements", "N", AML_OPTION_INTEGER, &options->replacements, 0, WIRE_NODES_MAX,
         "nodes that a policy may have replaced, one after the other"},
        {"window-short", "SECONDS", AML_OPTION_REAL, &options->window_short, 0.1, 86400,
         "over which a node's present speed is measured"},
        {"window-long", "SECONDS", AML_OPTION_REAL, &options->window_long, 0.1, 86400,
         "over which a node's lasting speed is measured"},
        OPTIONS_TOPIC("elastic", "stages, failures"),
        {"stage", "STAGE", AML_OPTION_STRING, &options->stage, 0, 0,
         "who serves the tables: 1, 2, 3, transient (all nodes, each part of the tables on two), auto (as the cluster "
         "asks for), or traditional (all nodes, not elastic)"},
        {"threshold-2", "X", AML_OPTION_REAL, &options->threshold_2, 0, WIRE_NODES_MAX,
         "stage 2 above X transient nodes per reliable one; 0: learned"},
        {"threshold-3", "X", AML_OPTION_REAL, &options->threshold_3, 0, WIRE_NODES_MAX,
         "stage 3 above X transient nodes per reliable one; 0: learned"},
        {"commit-every", "N", AML_OPTION_INTEGER, &options->commit_every, 0, WIRE_COMMIT_EVERY_MAX,
         "clocks between updates of the backups; 0: chosen"},
        {"failure-timeout", "SECONDS", AML_OPTION_REAL, &options->failure_timeout, JOB_FAILURE_TIMEOUT_MIN, 86400,
         "silence after which a node has failed; at least 0.5, over networks that lose packets better 2"},
        {"probe", "MS", AML_OPTION_INTEGER, &options->probe, 0, JOB_PROBE_MAX_MS,
         "nodes ask one another every MS milliseconds whether they live, and one that is silent for some 5 of them has "
         "failed; 0: only --failure-timeout counts"},
        {"answer-timeout", "SECONDS", AML_OPTION_REAL, &options->answer_timeout, 0, 7 * 86400,
         "a node that sends heartbeats, but owes an answer for so long, has failed; 0: 3 times --failure-timeout, at "
         "least 5"},
        OPTIONS_TOPIC("network", "addresses, keys"),
        {"key", "FILE", AML_OPTION_STRING, &options->key, 0, 0, "the job's key, see 'proteus keygen'"},
        {"insecure", NULL, AML_OPTION_FLAG, &options->insecure, 0, 0, "allow other machines without a key"},
        WEB_OPTIONS(options->http),
        LOG_OPTIONS(options->log),
        {0},
    };
    memcpy(table, all, sizeof all);
}

static void add_option(const struct aml_option *option, struct arguments *arguments) {
    const void *value = option->target;
    if (option->type == AML_OPTION_INTEGER) {
        arguments_add(arguments, "--%s=%lld", option->name, (long long)*(const int64_t *)value);
    } else if (option->type == AML_OPTION_REAL) {
        arguments_add(arguments, "--%s=%.17g", option->name, *(const double *)value);
    } else if (option->type == AML_OPTION_STRING && *(const char *const *)value != NULL) {
        arguments_add(arguments, "--%s=%s", option->name, *(const char *const *)value);
    } else if (option->type == AML_OPTION_FLAG && *(const bool *)value) {
        arguments_add(arguments, "--%s", option->name);
    }
}

void job_options_arguments(const struct job_options *options, struct arguments *arguments) {
    struct job_options copy = *options;
    struct aml_option table[JOB_OPTIONS_ENTRIES];
    copy.report = copy.progress = NULL;
    job_options_table(&copy, table);
    for (size_t o = 0; table[o].name != NULL; o++) {
        if (table[o].target != NULL) {
            add_option(&table[o], arguments);
        }
    }
}

static int parse_stage(const char *text, enum stage *stage, struct error *error) {
    for (enum stage s = STAGE_AUTO; s <= STAGE_TRANSIENT; s++) {
        if (strcmp(text, plan_stage_name(s)) == 0) {
            *stage = s;
            return 0;
        }
    }
    return error_set(error, AML_EINPUT, "--stage: expected auto, 1, 2, 3, transient or traditional, got '%.100s'",
                     text);
}

static int check_balance(struct job_options *options, struct error *error) {
    aml_balance_policy *policy;
    options->balance = options->balance != NULL ? options->balance : "shares";
    if (options->window_long < options->window_short) {
        return error_set(error, AML_EINPUT, "--window-long %g: expected at least as much as --window-short %g",
                         options->window_long, options->window_short);
    }
    return balance_option(options->balance, &policy, error);
}

int job_options_check(struct job_options *options, struct plan_policy *policy, struct error *error) {
    enum stage stage = STAGE_AUTO;
    int64_t nodes = options->reliable + options->transient + options->joining;
    int result = parse_stage(options->stage, &stage, error);
    if (result != 0) {
        return result;
    }
    options->http.insecure = options->insecure;
    if ((result = web_check(&options->http, error)) != 0) {
        return result;
    }
    if (nodes > WIRE_NODES_MAX) {
        return error_set(error, AML_ELIMIT, "%lld nodes, expected at most %d", (long long)nodes, WIRE_NODES_MAX);
    }
    if (options->reliable + options->transient == 0) {
        return error_set(error, AML_EINPUT, "a job without nodes: expected --reliable or --transient of at least 1");
    }
    if (stage >= STAGE_1 && stage <= STAGE_3 && options->reliable == 0) {
        return error_set(error, AML_EINPUT,
                         "--reliable 0: expected at least 1, since in stage %s reliable nodes keep the tables, or "
                         "--stage transient",
                         options->stage);
    }
    if (options->threshold_2 > 0 && options->threshold_3 > 0 && options->threshold_3 < options->threshold_2) {
        return error_set(error, AML_EINPUT, "--threshold-3 %g: expected at least as much as --threshold-2 %g",
                         options->threshold_3, options->threshold_2);
    }
    if (options->checkpoint_at_end && options->no_checkpoint_at_end) {
        return error_set(error, AML_EINPUT,
                         "--checkpoint-at-end and --no-checkpoint-at-end: expected only one of them");
    }
    if (options->checkpoint == NULL && (options->checkpoint_at_end || options->no_checkpoint_at_end)) {
        return error_set(error, AML_EINPUT, "--%scheckpoint-at-end: expected --checkpoint DIR with it",
                         options->checkpoint_at_end ? "" : "no-");
    }
    if (options->checkpoint == NULL && options->checkpoint_every > 0) {
        return error_set(error, AML_EINPUT, "--checkpoint-every: expected --checkpoint DIR with it");
    }
    if (options->checkpoint != NULL && options->checkpoint_every == 0) {
        options->checkpoint_every = JOB_CHECKPOINT_EVERY_DEFAULT;
    }
    if (check_balance(options, error) != 0) {
        return AML_EINPUT;
    }
    if (options->probe > 0 && options->probe < JOB_PROBE_MIN_MS) {
        return error_set(error, AML_EINPUT, "--probe %lld: expected 0, or at least %d ms", (long long)options->probe,
                         JOB_PROBE_MIN_MS);
    }
    if (options->answer_timeout > 0 && options->answer_timeout < options->failure_timeout) {
        return error_set(error, AML_EINPUT, "--answer-timeout %g: expected at least as much as --failure-timeout %g",
                         options->answer_timeout, options->failure_timeout);
    }
    if (options->answer_timeout == 0) {
        options->answer_timeout = fmax(JOB_ANSWER_TIMEOUTS * options->failure_timeout, JOB_ANSWER_TIMEOUT_MIN);
    }
    options->checkpoint_at_end = options->checkpoint != NULL && !options->no_checkpoint_at_end;
    if (options->partitions == 0) {
        options->partitions = (nodes + 1) / 2 < JOB_PARTITIONS_MOST ? (nodes + 1) / 2 : JOB_PARTITIONS_MOST;
        options->partitions =
            options->partitions > JOB_PARTITIONS_DEFAULT ? options->partitions : JOB_PARTITIONS_DEFAULT;
    }
    *policy = (struct plan_policy){
        .stage = stage, .partitions = (uint32_t)options->partitions, .shards = controller_shards((unsigned)nodes)};
    return 0;
}

unsigned job_heartbeat_ms(const struct job_options *options) {
    double each_ms = options->failure_timeout * 1e3 / JOB_HEARTBEATS;
    return each_ms < JOB_HEARTBEAT_MIN_MS   ? JOB_HEARTBEAT_MIN_MS
           : each_ms > JOB_HEARTBEAT_MAX_MS ? JOB_HEARTBEAT_MAX_MS
                                            : (unsigned)each_ms;
}

void job_name_stop(const struct job_options *options, const char *endpoint, char *text, size_t size) {
    size_t used = strlen(text);
    bool key = options->key != NULL;
    snprintf(text + used, size - used,
             ", the model is not saved; to end a job well: proteus stop --controller %s%s%s%s", endpoint,
             key ? " --key " : "", key ? options->key : "", options->insecure ? " --insecure" : "");
}
