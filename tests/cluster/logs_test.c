/* The logs of a job's processes (docs/operations.md, "Logs"): standard error of controller and nodes with --log-format,
 * also when a node's app crashes. No log contains a secret. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <jansson.h>

#define SUM "$tests/sum_app --data ratings.csv"

/* Calls `check` for each line of the file, which must be a JSON object. Returns their number. */
static unsigned read_log(const char *name, void (*check)(const json_t *line, void *context), void *context) {
    FREED char *text = read_text(name);
    char *rest = NULL;
    unsigned lines = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        json_auto_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(object)) {
            fail_msg("not a JSON object: %s", line);
        }
        check(object, context);
        lines++;
    }
    return lines;
}

struct seen {
    unsigned joined, evicted, places, ended, crashed, nameless;
};

static bool says(const json_t *line, const char *part) {
    const char *message = json_string_value(json_object_get(line, "message"));
    assert_non_null(message);
    return strstr(message, part) != NULL;
}

static void look(const json_t *line, void *context) {
    struct seen *seen = context;
    const char *program = json_string_value(json_object_get(line, "program"));
    assert_non_null(program);
    assert_non_null(json_string_value(json_object_get(line, "level")));
    assert_string_equal(json_string_value(json_object_get(line, "job")), "night");
    bool node = json_object_get(line, "node") != NULL;
    seen->joined += node && says(line, "joined the job at tcp://");
    seen->evicted += strcmp(program, "proteus") == 0 && says(line, " evict node-2");
    seen->places += strcmp(program, "proteus") == 0 &&
                    (says(line, "controller at tcp://127.0.0.1:") || says(line, "page at http://127.0.0.1:"));
    seen->ended += strcmp(program, "proteus") == 0 && says(line, "the job has ended");
    seen->crashed += node && says(line, "signal 6 (SIGABRT) in the app's function clock");
    seen->nameless += node && json_object_get(line, "time") == NULL;
}

TEST(a_job_in_json) {
    struct seen seen = {0};
    run_well("printf 'iteration 20 evict transient 1 notice 60s\\n' >events; "
             "$run --log-level info --log-format json --log-job night --progress none --http auto --transient 1 "
             "--events events -- " SUM " --iterations 300");
    read_log("err", look, &seen);
    assert_int_equal(seen.joined, 2);
    assert_int_equal(seen.evicted, 1);
    assert_int_equal(seen.places, 2); /* the places are printed nowhere else */
    assert_int_equal(seen.ended, 1);
    assert_text("out", "");
    /* By default only warnings and errors are printed. */
    run_well("$run --log-format json --transient 1 -- " SUM " --iterations 5");
    assert_int_equal(read_log("err", look, &seen), 0);
}

/* A signal handler's lines are JSON, too, but without a time. */
TEST(a_crash_in_json) {
    struct seen seen = {0};
    assert_int_equal(run("PROTEUS_LOG_FORMAT=json PROTEUS_LOG_JOB=night $bin/proteus run --transient 3 --stage 3 "
                         "--report report -- $tests/crash_app --in clock --how abort"),
                     1);
    read_log("err", look, &seen);
    assert_true(seen.crashed >= 1);
    assert_true(seen.nameless > seen.crashed); /* the backtraces */
}

TEST(nothing_secret) {
    run_well("$bin/proteus keygen job.key && $bin/proteus keygen --role node --key job.key node.token && "
             "(umask 077; echo 0123456789abcdefSECRET >http.token)");
    run_well(
        "{ $bin/proteus controller --listen tcp://127.0.0.1:0 --key job.key --reliable 1 --transient 0 "
        "--log-level info --log-format json --report job.report --http auto --http-token http.token "
        ">says 2>log & } && while ! grep -q nodes says; do sleep 0.05; done; read -r listening on at more <says; " SUM
        " --iterations 2 --controller=$at --tier=reliable --key node.token --log-level info 2>node.log; wait");
    assert_text("log", "join node-1");
    assert_text("node.log", "info: joined the job");
    run_well("awk '$1 == \"secret\" || $1 == \"token\" { print $2 }' job.key node.token >secrets; "
             "cat http.token >>secrets; [ $(grep -c '.\\{16\\}' secrets) = 3 ]");
    assert_int_equal(run("grep -F -f secrets says log node.log job.report"), 1);
}

int main(void) {
    return tests_run(shell_open_with_ratings, files_close);
}
