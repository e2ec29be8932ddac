/* bidbrain/daemon/config: values read, defaults, and one line for each kind of mistake, which names the key. */

#include "agileml/net/key.h"
#include "agileml/wire/message.h"
#include "bidbrain/daemon/config.h"
#include "tests/files.h"
#include "tests/test.h"

#include <math.h>
#include <unistd.h>

static const char LEAST[] =
    "{\"job\": \"j\", \"provider\": \"ec2\", \"region\": \"us-east-1\","
    " \"markets\": {\"types\": [\"c4.xlarge\"], \"zones\": [\"us-east-1a\", \"us-east-1b\"]},"
    " \"launch\": {\"image\": \"ami-1\", \"subnets\": {\"us-east-1a\": \"subnet-1\"}},"
    " \"node\": {\"app\": \"mf\", \"binary\": \"s3://b/mf\", \"arguments\": [\"--rank\", \"8\"]},"
    " \"controller\": \"tcp://10.0.0.1:7000\", \"on_demand\": {\"type\": \"c4.2xlarge\"},"
    " \"limits\": {\"most_vcpus\": 64}}";

/* LEAST with `from` replaced by `to`. */
static void replaced(char text[2048], const char *from, const char *to) {
    const char *at = strstr(LEAST, from);
    assert_non_null(at);
    snprintf(text, 2048, "%.*s%s%s", (int)(at - LEAST), LEAST, to, at + strlen(from));
}

TEST(reads_what_is_there_and_knows_the_rest) {
    struct config config;
    struct findings findings = {.file = "some/where/b.json"};
    char region[MARKET_TEXT_MAX];
    assert_int_equal(config_parse(&config, LEAST, strlen(LEAST), &findings), 0);
    assert_string_equal(config.job, "j");
    assert_int_equal(config.provider, CONFIG_EC2);
    assert_ptr_equal(config.rules, &MARKET_EC2);
    assert_string_equal(config.markets.types[0], "c4.xlarge");
    assert_null(config.markets.types[1]);
    assert_string_equal(config.markets.zones[1], "us-east-1b");
    assert_string_equal(config.node.arguments[1], "8");
    assert_string_equal(config.reliable.zone, "us-east-1a"); /* defaults to the first zone */
    assert_int_equal(config.reliable.count, 1);
    assert_string_equal(config_subnet(&config, "us-east-1a"), "subnet-1");
    assert_null(config_subnet(&config, "us-east-1b"));
    assert_string_equal(config.state, "some/where/bidbrain.db"); /* relative to the configuration's folder */
    assert_true(isinf(config.limits.budget_dollars) && isinf(config.limits.most_dollars_per_hour));
    assert_int_equal(config.periods.decision_seconds, 120);
    assert_int_equal(config.launch.call, PROVIDER_RUN_INSTANCES);
    assert_int_equal(config.limits.cooldown_seconds, 600);
    config_region(&config, region);
    assert_string_equal(region, "us-east-1");
    config_close(&config);
    char old[2048];
    replaced(old, "\"region\"", "\"model\": \"ec2-2016\", \"region\"");
    assert_int_equal(findings.count, 1);
    assert_true(findings.list[0].warning); /* us-east-1b has no subnet */
    findings_close(&findings);
    findings.file = "b.json";
    assert_int_equal(config_parse(&config, old, strlen(old), &findings), 0);
    findings_close(&findings);
    assert_int_equal(config.limits.cooldown_seconds, 0);
    config_close(&config);
}

static void assert_refused(const char *from, const char *to, const char *expected) {
    char text[2048];
    CLOSED_BY(config_close) struct config config;
    struct error error = {0};
    struct findings findings = {.file = "b.json"};
    replaced(text, from, to);
    assert_int_equal(config_parse(&config, text, strlen(text), &findings), AML_EINPUT);
    assert_int_equal(findings_first(&findings, &error), AML_EINPUT);
    findings_close(&findings);
    if (strstr(error.text, expected) == NULL || strncmp(error.text, "b.json:", 7) != 0) {
        fail_msg("'%s' is not in '%s'", expected, error.text);
    }
}

TEST(says_what_is_wrong_and_where) {
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"\"job\": \"j\",", "", "job: is missing"},
        {"\"job\": \"j\"", "\"job\": 3", "job: expected a string"},
        {"\"job\": \"j\"", "\"job\": \"a b\"", "job: expected at most 40"},
        {"\"job\": \"j\"", "\"job\": \"j\", \"job\": \"k\"", "duplicate"},
        {"\"provider\"", "\"providr\"", "providr: unknown key; did you mean \"provider\"?"},
        {"\"limits\"", "\"xyzzy\"", "xyzzy: unknown key"},
        {"\"most_vcpus\": 64", "\"most_vcpu\": 64", "limits.most_vcpu: unknown key; did you mean \"most_vcpus\"?"},
        {"\"most_vcpus\": 64", "\"most_vcpus\": 0", "limits.most_vcpus: expected a number from 1"},
        {"\"most_vcpus\": 64", "\"most_vcpus\": \"64\"", "limits.most_vcpus: expected a number"},
        {"\"most_vcpus\": 64", "\"most_vcpus\": 64, \"most_machines\": 1.5", "limits.most_machines: expected a whole"},
        {"\"limits\"", "\"application\": {\"measure_speeds\": 1}, \"limits\"",
         "application.measure_speeds: expected true or false"},
        {"\"limits\"", "\"application\": {\"probe_types\": 9}, \"limits\"",
         "application.probe_types: expected a whole number from 0 to 8"},
        {"\"limits\"", "\"application\": {\"speed_seconds\": 0}, \"limits\"",
         "application.speed_seconds: expected a number from 1"},
        {"\"limits\"", "\"application\": {\"checkpoint_seconds\": -1}, \"limits\"",
         "application.checkpoint_seconds: expected a number from 0"},
        {"\"ec2\"", "\"gce\"", "provider: expected one of \"ec2\", \"local\""},
        {"[\"c4.xlarge\"]", "\"c4.xlarge\"", "markets.types: expected a list"},
        {"[\"c4.xlarge\"]", "[\"c4.xlarge\", 2]", "markets.types[1]: expected a string"},
        {"\"types\": [\"c4.xlarge\"], ", "", "markets.types: is missing"},
        {"s3://b/mf", "mf", "node.binary: expected s3://"},
        {"\"--rank\"", "\"--tier=transient\"", "node.arguments: --tier is bidbrain's"},
        {"tcp://10.0.0.1:7000", "10.0.0.1:7000", "controller: expected tcp://"},
        {"\"image\": \"ami-1\", ", "", "launch.image: is missing"},
        {"\"image\": \"ami-1\"", "\"image\": \"ami-1\", \"call\": \"create-fleet\"",
         "launch.launch_template: is missing"},
        {"{\"us-east-1a\": \"subnet-1\"}", "{\"us-east-1a\": 1}", "launch.subnets.us-east-1a: expected a string"},
        {"\"region\"", "\"clock\": {\"start\": \"2016-03-01T00:00:00Z\"}, \"region\"", "clock: expected a URL"},
        {"\"region\"", "\"clock\": {\"start\": \"soon\"}, \"region\"", "clock.start: expected a time"},
        {"\"region\"", "\"clock\": \"ftp://x\", \"region\"", "clock: expected http://"},
        {"\"region\"", "\"model\": \"ec2-2016\", \"interruptions\": \"advisor:x\", \"region\"",
         "interruptions: only with"},
        {"\"region\"", "\"on_demand_fallback\": 1, \"region\"", "on_demand_fallback: expected true or false"},
        {"\"ec2\"", "\"local\"", "prices: is missing"},
        {"{\"type\": \"c4.2xlarge\"}", "[]", "on_demand: expected an object"},
        {"\"s3://b/mf\"", "\"s3://b/\\u0001\"", "node.binary: expected a string"},
        {"64}}", "64}", ":1: "},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_refused(cases[c].from, cases[c].to, cases[c].expected);
    }
}

/* Reports all mistakes of form or, if the form is right, all mistakes of meaning. */
TEST(tells_all_mistakes) {
    struct config config;
    struct error error = {0};
    static const char form[] = "{\"job\": 1, \"privider\": \"ec2\", \"limits\": {\"most_vcpus\": -1}}";
    struct findings findings = {.file = "b.json"};
    assert_int_equal(config_parse(&config, form, strlen(form), &findings), AML_EINPUT);
    assert_int_equal(findings.errors, 7); /* seven, with the missing provider, node, controller and on_demand */
    assert_int_equal(findings_first(&findings, &error), AML_EINPUT);
    assert_string_equal(error.text, "b.json: job: expected a string of at least one character, without control "
                                    "characters (and 6 more: 'bidbrain check-config' lists all)");
    config_close(&config);
    findings_close(&findings);
    char text[2048];
    findings.file = "b.json";
    replaced(text, "[\"us-east-1a\", \"us-east-1b\"]}", "[\"us-east-1a\", \"us-west-1b\"], \"product\": \"x\"}");
    char *image = strstr(text, "ami-1");
    memcpy(image, "iso-1", 5);
    assert_int_equal(config_parse(&config, text, strlen(text), &findings), AML_EINPUT);
    assert_int_equal(findings.errors, 2);
    assert_non_null(strstr(findings.list[0].text, "b.json: markets.zones[1]: 'us-west-1b' is no zone of region"));
    assert_non_null(strstr(findings.list[1].text, "b.json: launch.image: 'iso-1': expected the id of an image"));
    config_close(&config);
    findings_close(&findings);
}

/* Reading a file with this text fails with the expected error. */
static void assert_file_refused(const char *text, const char *expected) {
    struct config config;
    struct error error = {0};
    struct findings findings = {.file = write_text("config", text)};
    assert_int_equal(config_read(&config, &findings), AML_EINPUT);
    assert_int_equal(findings_first(&findings, &error), AML_EINPUT);
    findings_close(&findings);
    if (strstr(error.text, expected) == NULL) {
        fail_msg("'%s' is not in '%s'", expected, error.text);
    }
    config_close(&config);
}

TEST(looks_for_the_files_it_names) {
    char text[2048];
    CLOSED_BY(config_close) struct config config;
    CLOSED_BY(findings_close) struct findings findings = {.file = "no-such.json"};
    replaced(text, "\"region\"", "\"key\": \"no-such.key\", \"region\"");
    assert_file_refused(text, ": key: no-such.key: can't read the key file: No such file");
    assert_int_equal(config_read(&config, &findings), AML_EINPUT);
    assert_non_null(strstr(findings.list[0].text, "no-such.json: No such file"));
}

TEST(the_key_is_the_jobs) {
    const char *job = "job.key", *token = "token";
    char text[2048], setting[128], expected[128];
    struct net_key key;
    struct error error = {0};
    assert_int_equal(net_key_generate(job, &error), 0);
    assert_int_equal(net_key_load(job, &key, &error), 0);
    assert_int_equal(net_token_issue(&key, (struct net_token_terms){.roles = ROLE_OPERATOR}, token, &error), 0);
    snprintf(setting, sizeof setting, "\"key\": \"%s\", \"region\"", token);
    snprintf(expected, sizeof expected, ": key: %s: a token, expected the job's key", token);
    replaced(text, "\"region\"", setting);
    assert_file_refused(text, expected);
}

static void assert_warned(const char *from, const char *to, const char *expected) {
    char text[2048];
    CLOSED_BY(config_close) struct config config;
    CLOSED_BY(findings_close) struct findings findings = {.file = "b.json"};
    bool found = false;
    replaced(text, from, to);
    assert_int_equal(config_parse(&config, text, strlen(text), &findings), 0);
    for (size_t f = 0; f < findings.count; f++) {
        found = found || (findings.list[f].warning && strstr(findings.list[f].text, expected) != NULL);
    }
    assert_true(found);
}

TEST(warns_where_one_price_takes_all) {
    assert_warned(", \"us-east-1b\"]}, \"launch\": {\"image\": \"ami-1\", \"subnets\": {\"us-east-1a\": "
                  "\"subnet-1\"}}, \"node\": {\"app\": \"mf\", \"binary\": \"s3://b/mf\", \"arguments\": "
                  "[\"--rank\", \"8\"]}, \"controller\": \"tcp://10.0.0.1:7000\", \"on_demand\": {",
                  "]}, \"launch\": {\"image\": \"ami-1\"}, \"node\": {\"app\": \"mf\", \"binary\": "
                  "\"s3://b/mf\"}, \"controller\": \"tcp://10.0.0.1:7000\", \"on_demand\": {\"count\": 0, ",
                  "expected 2 markets, of another type or zone");
    assert_warned("\"c4.2xlarge\"}, \"limits\": {",
                  "\"c4.2xlarge\", \"count\": 0}, \"limits\": {\"most_machines\": 1, ",
                  "limits.most_machines: 1, and on_demand.count 0");
}

int main(void) {
    return tests_run(files_open, files_close);
}
