/* See job_options.h. */
#include "proteus/job_options.h"

#include "agileml/control/controller.h"

#include <assert.h>
#include <string.h>

struct job_options job_options_defaults(void) {
    return (struct job_options){.reliable = 1, .stage = "auto", .failure_timeout = 10};
}

void job_options_table(struct job_options *options, const struct aml_option *own,
                       struct aml_option table[JOB_OPTIONS_ENTRIES]) {
    const struct aml_option shared[JOB_OPTIONS_ENTRIES - JOB_OPTIONS_OWN_MAX] = {
        {"reliable", "N", AML_OPTION_INTEGER, &options->reliable, 0, WIRE_NODES_MAX, "reliable nodes"},
        {"transient", "N", AML_OPTION_INTEGER, &options->transient, 0, WIRE_NODES_MAX, "transient nodes"},
        {"partitions", "N", AML_OPTION_INTEGER, &options->partitions, 0, WIRE_PARTITIONS_MAX,
         "partitions of the tables; 0: 8, or half as many as nodes if that is more"},
        {"stage", "STAGE", AML_OPTION_STRING, &options->stage, 0, 0,
         "1: reliable nodes serve the tables; traditional: all nodes; auto: 1"},
        {"failure-timeout", "SECONDS", AML_OPTION_REAL, &options->failure_timeout, 0.2, 86400,
         "silence after which a node has failed"},
        {"key", "FILE", AML_OPTION_STRING, &options->key, 0, 0, "the job's key, see 'proteus keygen'"},
        {"insecure", NULL, AML_OPTION_FLAG, &options->insecure, 0, 0, "allow other machines without a key"},
        {"report", "FILE", AML_OPTION_STRING, &options->report, 0, 0, "write what happens to FILE, as lines of JSON"},
        {"help", NULL, AML_OPTION_FLAG, &options->help, 0, 0, "this text"},
        {0},
    };
    size_t count = 0;
    for (; own[count].name != NULL; count++) {
        assert(count < JOB_OPTIONS_OWN_MAX);
        table[count] = own[count];
    }
    memcpy(table + count, shared, sizeof shared);
}

static int parse_stage(const char *text, enum stage *stage, struct error *error) {
    if (strcmp(text, "auto") == 0 || strcmp(text, "1") == 0) {
        *stage = STAGE_1;
    } else if (strcmp(text, "traditional") == 0) {
        *stage = STAGE_TRADITIONAL;
    } else if (strcmp(text, "2") == 0 || strcmp(text, "3") == 0) {
        return error_set(error, AML_EINPUT,
                         "--stage %s: needs elastic membership, which this version does not have yet; expected auto, 1 "
                         "or traditional",
                         text);
    } else {
        return error_set(error, AML_EINPUT, "--stage: expected auto, 1 or traditional, got '%.100s'", text);
    }
    return 0;
}

int job_options_check(struct job_options *options, struct plan_policy *policy, struct error *error) {
    enum stage stage = STAGE_AUTO;
    int64_t nodes = options->reliable + options->transient;
    int result = parse_stage(options->stage, &stage, error);
    if (result != 0) {
        return result;
    }
    if (nodes > WIRE_NODES_MAX) {
        return error_set(error, AML_ELIMIT, "%lld nodes, expected at most %d", (long long)nodes, WIRE_NODES_MAX);
    }
    if (nodes == 0) {
        return error_set(error, AML_EINPUT, "a job of no nodes: expected --reliable or --transient of at least 1");
    }
    if (stage == STAGE_1 && options->reliable == 0) {
        return error_set(error, AML_EINPUT,
                         "--reliable 0: expected at least 1, since the reliable nodes serve the tables, or --stage "
                         "traditional");
    }
    if (options->partitions == 0) {
        options->partitions = (nodes + 1) / 2 > JOB_PARTITIONS_DEFAULT ? (nodes + 1) / 2 : JOB_PARTITIONS_DEFAULT;
    }
    int64_t shards = nodes * CONTROLLER_SHARDS_PER_NODE;
    shards = shards < CONTROLLER_SHARDS_DEFAULT ? CONTROLLER_SHARDS_DEFAULT : shards;
    shards = shards > WIRE_SHARDS_MAX ? WIRE_SHARDS_MAX : shards;
    *policy =
        (struct plan_policy){.stage = stage, .partitions = (uint32_t)options->partitions, .shards = (uint32_t)shards};
    return 0;
}

unsigned job_heartbeat_ms(const struct job_options *options) {
    double each_ms = options->failure_timeout * 1e3 / JOB_HEARTBEATS;
    return each_ms < JOB_HEARTBEAT_MIN_MS   ? JOB_HEARTBEAT_MIN_MS
           : each_ms > JOB_HEARTBEAT_MAX_MS ? JOB_HEARTBEAT_MAX_MS
                                            : (unsigned)each_ms;
}

int job_open_net(const struct job_options *options, struct net **net, struct error *error) {
    struct net_key key;
    struct net_options net_options = {.insecure = options->insecure};
    if (options->key != NULL) {
        int result = net_key_load(options->key, &key, error);
        if (result != 0) {
            return result;
        }
        net_options.key = &key;
    }
    int result = net_open(net, &net_options, error);
    explicit_bzero(&key, sizeof key);
    return result;
}
