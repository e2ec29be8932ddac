/* Tests of proteus/job_options.h: which clusters may be requested, and the defaults chosen for them. */
#include "proteus/job_options.h"
#include "tests/test.h"

TEST(choices) {
    static const struct {
        int64_t reliable, transient, joining, partitions;
        const char *stage;
        unsigned expected_partitions, expected_shards;
        enum stage expected_stage;
    } cases[] = {
        {1, 0, 0, 0, "auto", 8, 1024, STAGE_AUTO},
        {16, 0, 0, 0, "1", 8, 1024, STAGE_1},
        {1, 16, 0, 0, "2", 9, 17 * 64, STAGE_2},
        {1, 2, 14, 0, "3", 9, 17 * 64, STAGE_3},
        {0, 3, 0, 0, "traditional", 8, 1024, STAGE_TRADITIONAL},
        {0, 8, 0, 0, "transient", 8, 1024, STAGE_TRANSIENT},
        {0, 8, 0, 0, "auto", 8, 1024, STAGE_AUTO},
        {4, 60, 0, 0, "auto", 32, 64 * 64, STAGE_AUTO},
        {4, 60, 0, 5, "auto", 5, 64 * 64, STAGE_AUTO},
        {4, 1, 60, 0, "auto", 32, 65 * 64, STAGE_AUTO},
        {300, 0, 0, 0, "1", 32, 16384, STAGE_1},
        {1500, 0, 0, 0, "1", 32, 24000, STAGE_1},
        {2048, 2048, 0, 0, "1", 32, WIRE_SHARDS_MAX, STAGE_1},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct job_options options = job_options_defaults();
        struct plan_policy policy;
        struct error error = {0};
        options.reliable = cases[c].reliable;
        options.transient = cases[c].transient;
        options.joining = cases[c].joining;
        options.partitions = cases[c].partitions;
        options.stage = cases[c].stage;
        assert_int_equal(job_options_check(&options, &policy, &error), 0);
        assert_int_equal(policy.partitions, cases[c].expected_partitions);
        assert_int_equal(options.partitions, cases[c].expected_partitions);
        assert_int_equal(policy.stage, cases[c].expected_stage);
        assert_int_equal(policy.shards, cases[c].expected_shards);
        assert_string_equal(options.balance, "shares"); /* the default, unless `run` starts the nodes */
    }
}

TEST(refusals) {
    static const struct {
        int64_t reliable, transient;
        const char *stage;
        int code;
        const char *expected;
    } cases[] = {
        {1, 0, "4", AML_EINPUT, "--stage: expected auto, 1, 2, 3, transient or traditional, got '4'"},
        {1, 0, "x", AML_EINPUT, "got 'x'"},
        {0, 1, "3", AML_EINPUT, "--reliable 0: expected at least 1, since in stage 3 reliable nodes keep the tables"},
        {0, 1, "2", AML_EINPUT, "--reliable 0"},
        {1, 0, "", AML_EINPUT, "got ''"},
        {0, 0, "traditional", AML_EINPUT, "a job without nodes"},
        {0, 1, "1", AML_EINPUT, "--reliable 0"},
        {4096, 1, "1", AML_ELIMIT, "at most 4096"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct job_options options = job_options_defaults();
        struct plan_policy policy;
        struct error error = {0};
        options.reliable = cases[c].reliable;
        options.transient = cases[c].transient;
        options.stage = cases[c].stage;
        assert_int_equal(job_options_check(&options, &policy, &error), cases[c].code);
        assert_non_null(strstr(error.text, cases[c].expected));
    }
}

TEST(thresholds) {
    struct job_options options = job_options_defaults();
    struct plan_policy policy;
    struct error error = {0};
    options.threshold_3 = 2;
    assert_int_equal(job_options_check(&options, &policy, &error), 0);
    options.threshold_2 = 2;
    assert_int_equal(job_options_check(&options, &policy, &error), 0);
    options.threshold_2 = 2.5;
    assert_int_equal(job_options_check(&options, &policy, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "--threshold-3 2: expected at least as much as --threshold-2 2.5"));
}

TEST(answer_timeout) {
    struct job_options options = job_options_defaults();
    struct plan_policy policy;
    struct error error = {0};
    assert_int_equal(job_options_check(&options, &policy, &error), 0);
    assert_true(options.answer_timeout == 30);
    options = job_options_defaults();
    options.failure_timeout = 0.5;
    assert_int_equal(job_options_check(&options, &policy, &error), 0);
    assert_true(options.answer_timeout == 5);
    options.answer_timeout = 0.4;
    assert_int_equal(job_options_check(&options, &policy, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "--answer-timeout 0.4: expected at least as much as --failure-timeout 0.5"));
}

TEST(heartbeat) {
    struct job_options options = job_options_defaults();
    assert_int_equal(job_heartbeat_ms(&options), 1000);
    options.failure_timeout = 2;
    assert_int_equal(job_heartbeat_ms(&options), 200);
    options.failure_timeout = 0.2;
    assert_int_equal(job_heartbeat_ms(&options), JOB_HEARTBEAT_MIN_MS);
    options.failure_timeout = 3600;
    assert_int_equal(job_heartbeat_ms(&options), JOB_HEARTBEAT_MAX_MS);
}

TEST(table) {
    struct job_options options = job_options_defaults();
    struct aml_option table[JOB_OPTIONS_ENTRIES];
    int64_t own_value = 0;
    const struct aml_option own[] = {{"own", "N", AML_OPTION_INTEGER, &own_value, 0, 9, "one command's"}, {0}};
    const struct aml_option *const tables[] = {own, table};
    char *argv[] = {"run",        "--own",           "3",  "--reliable=2", "--key",       "job.key",
                    "--insecure", "--threshold-2=1", "--", "app",          "--reliable=7"};
    struct error error = {0};
    int operand;
    job_options_table(&options, table);
    assert_int_equal(options_parse(tables, 2, 11, argv, &operand, &error), 0);
    assert_int_equal(operand, 9);
    assert_int_equal(own_value, 3);
    assert_int_equal(options.reliable, 2);
    assert_int_equal(options.checkpoint_every, 0);
    assert_true(options.threshold_2 == 1);
    assert_string_equal(options.key, "job.key");
    assert_true(options.insecure);
}

/* --checkpoint also writes a checkpoint at the job's end, by default. */
TEST(checkpoint_at_end) {
    static const struct {
        const char *checkpoint;
        bool at_end, not_at_end, refused, expected;
    } cases[] = {{NULL, false, false, false, false}, {"ckpt", false, false, false, true},
                 {"ckpt", true, false, false, true}, {"ckpt", false, true, false, false},
                 {"ckpt", true, true, true, false},  {NULL, true, false, true, false},
                 {NULL, false, true, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job_options options = job_options_defaults();
        struct plan_policy policy;
        struct error error = {0};
        options.checkpoint = cases[i].checkpoint;
        options.checkpoint_at_end = cases[i].at_end;
        options.no_checkpoint_at_end = cases[i].not_at_end;
        int result = job_options_check(&options, &policy, &error);
        assert_int_equal(result, cases[i].refused ? AML_EINPUT : 0);
        assert_true((strstr(error.text, "checkpoint-at-end") != NULL) == cases[i].refused);
        assert_true(cases[i].refused || options.checkpoint_at_end == cases[i].expected);
    }
}

TEST(checkpoint_every) {
    struct job_options options = job_options_defaults();
    struct plan_policy policy;
    struct error error = {0};
    options.checkpoint_every = 3;
    assert_int_equal(job_options_check(&options, &policy, &error), AML_EINPUT);
    assert_string_equal(error.text, "--checkpoint-every: expected --checkpoint DIR with it");
    options.checkpoint = "ckpt";
    assert_int_equal(job_options_check(&options, &policy, &error), 0);
    assert_int_equal(options.checkpoint_every, 3);
    options.checkpoint_every = 0;
    assert_int_equal(job_options_check(&options, &policy, &error), 0);
    assert_int_equal(options.checkpoint_every, JOB_CHECKPOINT_EVERY_DEFAULT);
}
