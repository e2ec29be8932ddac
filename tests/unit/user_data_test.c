/* bidbrain/cloud/user_data: templates are filled in. The built-in script does its work on a machine whatever fails;
 * the machine here is a folder with a curl that plays the metadata service. */

#include "agileml/net/key.h"
#include "agileml/wire/message.h"
#include "bidbrain/cloud/user_data.h"
#include "tests/files.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *const arguments[] = {"--data", "it's here; rm -rf $HOME \"x\" `y` \\", "", NULL};

static struct provider_options options_of(const char *binary, const char *key) {
    return (struct provider_options){.job = "ml-1m",
                                     .app = "mf",
                                     .arguments = arguments,
                                     .binary = binary,
                                     .controller = "tcp://10.0.0.1:7000",
                                     .key = key,
                                     .threads = 3};
}

static struct provider_launch launch_of(bool reliable) {
    return (struct provider_launch){.token = "token-1",
                                    .type = "c4.large",
                                    .zone = "us-east-1a",
                                    .count = 3,
                                    .reliable = reliable,
                                    .join_until = 2000000000};
}

static void write_file(const char *name, const char *text, mode_t mode) {
    assert_int_equal(chmod(write_text(name, text), mode), 0);
}

static char *rendered(const struct provider_options *options, bool reliable) {
    struct provider_launch launch = launch_of(reliable);
    struct error error = {0};
    char *text = NULL;
    if (user_data_render(options, &launch, &text, &error) != 0) {
        fail_msg("%s", error.text);
    }
    return text;
}

static int set_up(void **state) {
    return files_open(state) != 0 || mkdir("bin", 0700) != 0 ? -1 : net_key_generate("job.key.file", NULL);
}

/* The file is a token made with the job's key for this launch's three nodes, not the key itself. */
static void assert_is_the_launchs_token(const char *name) {
    struct net_key token, job;
    struct error error = {0};
    if (net_key_load(name, &token, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(net_key_load("job.key.file", &job, &error), 0);
    struct net_token_terms terms = net_token_terms(token.token);
    assert_string_equal(token.secret_text, "");
    assert_string_equal(token.public_text, job.public_text);
    assert_true(net_token_genuine(token.token, &job));
    assert_int_equal(terms.roles, ROLE_NODE);
    assert_int_equal(terms.tiers, 1 << TIER_TRANSIENT);
    assert_int_equal(terms.nodes, 3);
    assert_int_equal(terms.expires, 2000000000);
}

TEST(names_are_filled_in) {
    struct provider_options options = options_of("/opt/mf", NULL);
    options.user_data =
        "a=${app} t=${tier} j=${job} n=${threads} l=${token}\n${arguments}|${key}|$app ${SHELL} ${a:-b} $${x";
    char *text = rendered(&options, true);
    assert_string_equal(text,
                        "a='mf' t='reliable' j='ml-1m' n='3' l='token-1'\n'--data' 'it'\\''s here; rm -rf $HOME \"x\" "
                        "`y` \\' ''||$app ${SHELL} ${a:-b} $${x");
    free(text);
    options = options_of("/opt/mf", "job.key.file");
    options.user_data = "${key}\n";
    text = rendered(&options, false);
    FREED char *again = rendered(&options, false);
    assert_string_equal(text, again); /* EC2 refuses a repeated launch with different user data */
    write_file("token", text, 0600);
    assert_is_the_launchs_token("token");
    free(text);
}

static void assert_render_fails(const struct provider_options *options, const char *message) {
    struct provider_launch launch = launch_of(false);
    struct error error = {0};
    char *text = NULL;
    assert_int_equal(user_data_render(options, &launch, &text, &error), AML_EINPUT);
    assert_null(text);
    if (strstr(error.text, message) == NULL) {
        fail_msg("%s: expected %s", error.text, message);
    }
}

TEST(wrong_templates_are_explained) {
    struct provider_options options = options_of("/opt/mf", NULL);
    options.user_data = "one\n\n  ${binary} ${controler}\n";
    assert_render_fails(&options, "user data, line 3: no value is named ${controler}, expected app, arguments");
    FREED char *large = calloc(1, USER_DATA_MAX + 2);
    memset(large, 'x', USER_DATA_MAX);
    options.user_data = large;
    FREED char *text = rendered(&options, false);
    assert_int_equal(strlen(text), USER_DATA_MAX);
    large[USER_DATA_MAX] = 'x';
    assert_render_fails(&options, "longer than the 16384 bytes");
    static const char *const binaries[] = {NULL, "", "mf", "http://example.org/mf", "ftp://x", "file://host/mf"};
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++) {
        options = options_of(binaries[i], NULL);
        assert_render_fails(&options, "expected s3://..., https://... or an absolute path");
    }
    write_file("open.key", "agileml-key 1\n", 0644);
    options = options_of("/opt/mf", "open.key");
    assert_render_fails(&options, "expected mode 0600");
    options = options_of("/opt/mf", "none.key");
    assert_render_fails(&options, "none.key");
}

/* ---- The built-in script ---- */

static const char CURL[] =
    "#!/bin/bash\n"
    "for last; do :; done\n"
    "echo \"$*\" >>\"$0.log\"\n"
    "case $last in\n"
    "http://meta/i/latest/api/token) [[ \"$*\" == *'-X PUT'* ]] && printf 'TOKEN' ;;\n"
    "http://meta/i/latest/meta-data/*)\n"
    "    read -r header\n"
    "    [ \"$header\" = 'X-aws-ec2-metadata-token: TOKEN' ] || exit 22\n"
    "    [[ \"$*\" == *'-H @-'* ]] || exit 22\n"
    "    case $last in\n"
    "    */instance-id) printf 'i-0abc' ;;\n"
    "    */local-ipv4) printf '10.0.0.9' ;;\n"
    "    */placement/region) printf 'eu-west-1' ;;\n"
    "    */placement/availability-zone) printf 'eu-west-1a' ;;\n"
    "    */instance-type) printf 'u7inh-32tb.480xlarge' ;;\n"
    "    *) exit 22 ;;\n"
    "    esac ;;\n"
    "https://good/* | https://s3.eu-west-1.amazonaws.com/bucket/a/mf) cp \"$PROGRAM\" program ;;\n"
    "*) exit 22 ;;\n"
    "esac\n";
static const char PROGRAM[] = "#!/bin/bash\n"
                              "printf '%s\\n' \"$@\" >arguments\n"
                              "for last; do :; done\n"
                              "[ ! -e job.key ] || stat -c %a job.key >>arguments\n"
                              "exit 3\n";

/* Runs the script in a new folder `machine`, with only the test's curl and the system's tools. */
static void run_script(const struct provider_options *options) {
    char command[1000];
    FREED char *text = rendered(options, false);
    write_file("script", text, 0700);
    write_file("bin/curl", CURL, 0700);
    write_file("program.source", PROGRAM, 0700);
    snprintf(command, sizeof command,
             "rm -rf machine bin/curl.log && mkdir machine && cd machine && env -i PATH=%s/bin:/usr/bin:/bin "
             "PROGRAM=%s/program.source AWS_EC2_METADATA_SERVICE_ENDPOINT=http://meta/i/ "
             "PROTEUS_SHUTDOWN='touch shut.down' bash ../script >../console 2>&1",
             in_folder(""), in_folder(""));
    (void)!system(command);
    assert_int_equal(access("machine/shut.down", F_OK), 0); /* whatever happened */
}

static const char EXPECTED[] = "--controller\ntcp://10.0.0.1:7000\n--tier\ntransient\n--name\ni-0abc\n"
                               "--group\neu-west-1a/u7inh-32tb.480xlarge\n--listen\n10.0.0.9\n"
                               "--poll-notice\n5\n%s--threads\n3\n--data\nit's here; rm -rf $HOME \"x\" `y` \\\n\n%s";

static void assert_arguments(bool key) {
    char expected[600];
    snprintf(expected, sizeof expected, EXPECTED, key ? "--key\njob.key\n" : "", key ? "600\n" : "");
    assert_file("machine/arguments", expected);
}

TEST(the_script_starts_a_node) {
    char binary[200];
    snprintf(binary, sizeof binary, "%s/program.source", in_folder(""));
    struct provider_options options = options_of(binary, NULL);
    run_script(&options);
    assert_arguments(false);
    assert_text("console", "the node has ended with status 3");
    snprintf(binary, sizeof binary, "file://%s/program.source", in_folder(""));
    run_script(&options);
    assert_arguments(false);
    options = options_of("https://good/mf", "job.key.file");
    run_script(&options);
    assert_arguments(true);
    assert_is_the_launchs_token("machine/job.key");
    FREED char *key = read_text("machine/job.key");
    char *secret = strstr(key, "\ntoken ");
    assert_non_null(secret);
    secret += strlen("\ntoken ");
    secret[20] = '\0';
    assert_no_text("bin/curl.log", secret);
    assert_no_text("console", secret);
}

TEST(the_script_fetches_from_s3) {
    struct provider_options options = options_of("s3://bucket/a/mf", NULL);
    if (access("/usr/bin/aws", X_OK) != 0) { /* without it the script uses https */
        run_script(&options);
        assert_arguments(false);
    }
    write_file(
        "bin/aws",
        "#!/bin/bash\n[ \"$*\" = 's3 cp --only-show-errors s3://bucket/a/mf program' ] && cp \"$PROGRAM\" program\n",
        0700);
    run_script(&options);
    assert_arguments(false);
    assert_int_equal(unlink("bin/aws"), 0);
}

TEST(a_failing_script_shuts_down_too) {
    struct provider_options options = options_of("https://bad/mf", NULL);
    run_script(&options);
    assert_text("console", "no program at https://bad/mf");
    options = options_of("/nonexistent/mf", NULL);
    run_script(&options);
    assert_text("console", "no program at /nonexistent/mf");
    assert_file("machine/arguments", "");
}

int main(void) {
    return tests_run(set_up, files_close);
}
