/* bidbrain run with real processes: a whole job whose machines come and go with made-up prices, kills at each step of a
 * launch, signals, and the output of the other commands. Machines are processes of spotmarket, which bidbrain starts
 * itself with provider local. No test may leave a process. */

#include "agileml/base/clock.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 60 * 1000, POLL_MS = 50 };

static char controller[128]; /* the controller's endpoint */
static char market[128];     /* spotmarket's URL */

/* m3.large costs 0.018, apart from half an hour from 00:20 on; c3.xlarge always costs 0.05. */
static void write_inputs(void) {
    FILE *file = open_file("ratings", "w");
    uint32_t state = 7;
    for (unsigned user = 1; user <= 200; user++) {
        for (unsigned item = 1; item <= 120; item++) {
            state = state * 1664525 + 1013904223;
            if (state >> 30 == 0) {
                fprintf(file, "%u %u %u\n", user, item, 1 + (user % 5) * (item % 5) / 4);
            }
        }
    }
    fclose(file);
    run_well("mkdir prices");
    file = open_file("prices/m3.large-us-east-1a.csv", "w");
    fprintf(file, "timestamp_utc,price_usd\n2016-02-25T00:00:00Z,0.019\n2016-02-29T12:00:00Z,0.018\n"
                  "2016-03-01T00:20:00Z,1.0\n2016-03-01T00:50:00Z,0.018\n2016-04-01T00:00:00Z,0.018\n");
    fclose(file);
    file = open_file("prices/c3.xlarge-us-east-1a.csv", "w");
    fprintf(file, "timestamp_utc,price_usd\n2016-02-25T00:00:00Z,0.06\n2016-02-29T12:00:00Z,0.05\n"
                  "2016-04-01T00:00:00Z,0.05\n");
    fclose(file);
    file = open_file("credentials", "w");
    fprintf(file, "[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret\n");
    fclose(file);
    run_well("chmod 600 credentials");
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    write_inputs();
    return 0;
}

/* Waits until the file `name` contains `text`. Then copies what follows it on that line into `rest`. */
static void wait_for(const char *name, const char *text, char *rest, size_t size) {
    for (int waited = 0;; waited += POLL_MS) {
        char *all = read_text(name);
        char *at = strstr(all, text);
        char *end = at != NULL ? strpbrk(at, "\n") : NULL;
        if (end != NULL) {
            if (rest != NULL) {
                snprintf(rest, size, "%.*s", (int)strcspn(at + strlen(text), " \n"), at + strlen(text));
            }
            free(all);
            return;
        }
        if (waited > WAIT_MS) {
            fprintf(stderr, "%s:\n%s\n", name, all); /* the whole text: fail_msg has room only for its beginning */
            fail_msg("no '%s' in %s", text, name);
        }
        free(all);
        clock_pause_ms(POLL_MS);
    }
}

/* Starts the controller of a new job at a new address. */
static void start_controller_with(const char *options) {
    run_well("rm -rf store store-* ctl-out ctl-report; "
             "$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 --partitions 4 "
             "--store store --report ctl-report %s >ctl-out 2>&1 & echo $! >ctl.pid",
             options);
    wait_for("ctl-out", "listening on ", controller, sizeof controller);
}

static void start_another_controller(void) {
    start_controller_with("");
}

static void start_controller(void) {
    run_well("rm -rf machines cloud state* err-bid out-bid report-bid");
    start_another_controller();
}

static void start_market(const char *model, int speed) {
    run_well("rm -f market-out; $bin/spotmarket --prices prices --credentials credentials --folder cloud "
             "--start 2016-03-01T00:00:00Z --speed %d --model %s >market-out 2>&1 & echo $! >market.pid",
             speed, model);
    wait_for("market-out", "spotmarket at ", market, sizeof market);
}

/* Signals the process whose number is in `file`, and waits for its end. */
static void end_process(const char *file, const char *signal) {
    run_well("[ -s %s ] || exit 0; p=$(cat %s); kill -%s $p 2>/dev/null; "
             "while grep -q '^State:.[^ZX]' /proc/$p/status 2>/dev/null; do sleep 0.1; done; rm %s",
             file, file, signal, file);
}

static void end_all(void) {
    end_process("ctl.pid", "KILL");
    end_process("market.pid", "TERM");
}

/* Writes `provider` and the fields that belong to it, then the rest. */
static void write_config(const char *provider, const char *model, int seconds) {
    FILE *file = open_file("bidbrain.json", "w");
    run_well("printf '%%s' \"$bin\" >bin-path; pwd >folder-path");
    FREED char *bin = read_text("bin-path");
    FREED char *folder = read_text("folder-path");
    folder[strcspn(folder, "\n")] = '\0';
    fprintf(file,
            "{\"job\": \"test\", %s, \"model\": \"%s\", \"state\": \"state.db\",\n"
            " \"markets\": {\"types\": [\"m3.large\", \"c3.xlarge\"], \"zones\": [\"us-east-1a\"]},\n"
            " \"node\": {\"app\": \"sum\", \"binary\": \"%s/../tests/sum_app\", \"arguments\": [\"--data\", "
            "\"%s/ratings\", \"--iterations\", \"0\", \"--seconds\", \"%d\", \"--slow-us\", \"5000\", "
            "\"--poll-notice\", \"0.05\"], \"threads\": 1},\n"
            " \"controller\": \"%s\", \"on_demand\": {\"type\": \"m3.large\"},\n"
            " \"application\": {\"phi\": 0.9, \"measure\": false}, \"limits\": {\"most_vcpus\": 8}}\n",
            provider, model, bin, folder, seconds, controller);
    fclose(file);
}

static void write_local_from(const char *start, const char *model, int speed, int seconds) {
    char provider[256];
    snprintf(provider, sizeof provider,
             "\"provider\": \"local\", \"prices\": \"prices\", \"clock\": {\"start\": \"%s\", "
             "\"speed\": %d}, \"notice_seconds\": %d",
             start, speed, speed < 90 ? 20 * speed : 1800); /* time to leave, also on a busy machine */
    write_config(provider, model, seconds);
}

static void write_local(const char *model, int speed, int seconds) {
    write_local_from("2016-03-01T00:00:00Z", model, speed, seconds);
}

/* Configures a market after the rise of prices, which would take machines from a test on a busy machine. */
static void write_calm_local(void) {
    write_local_from("2016-03-01T01:00:00Z", "ec2", 60, 600);
}

static void write_ec2(const char *model, int seconds) {
    char provider[512];
    snprintf(provider, sizeof provider,
             "\"provider\": \"ec2\", \"region\": \"us-east-1\", \"endpoint\": \"%s\", \"clock\": \"%s/clock\", "
             "\"launch\": {\"image\": \"ami-12345678\"}",
             market, market);
    write_config(provider, model, seconds);
}

#define BIDBRAIN "AWS_SHARED_CREDENTIALS_FILE=credentials AWS_CONFIG_FILE=/dev/null "
/* In place of RUN: bidbrain is killed at the named step of its first launch. */
#define CRASH_RUN   "BIDBRAIN_CRASH=%s PATH=$bin:$PATH $tests/crash_bidbrain" RUN_OPTIONS
#define RUN         "$bin/bidbrain" RUN_OPTIONS
#define RUN_OPTIONS " run --config bidbrain.json --report report-bid >>out-bid 2>>err-bid"

/* Counts the lines of bidbrain's report with this type and text. */
static unsigned count_lines(const char *type, const char *text) {
    FREED char *all = read_text("report-bid");
    char wanted[64];
    unsigned count = 0;
    snprintf(wanted, sizeof wanted, "{\"type\":\"%s\"", type);
    for (char *line = strtok(all, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        count += strncmp(line, wanted, strlen(wanted)) == 0 && strstr(line, text) != NULL;
    }
    return count;
}

static double bid_summary(const char *key) {
    FREED char *all = read_text("report-bid");
    char *at = strstr(all, "{\"type\":\"summary\"");
    json_auto_t *line = at != NULL ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    assert_non_null(line);
    assert_true(json_is_number(json_object_get(line, key)));
    double value = json_number_value(json_object_get(line, key));
    return value;
}

/* Waits until the market of provider local has ended by itself. */
static void assert_local_lock_goes(void) {
    for (int waited = 0; run("flock -n machines true") != 0; waited += POLL_MS) {
        assert_true(waited < WAIT_MS);
        clock_pause_ms(POLL_MS);
    }
}

static void assert_local_market_ends(void) {
    assert_local_lock_goes();
    run_well("grep -q '\"total\"' machines/bill.json && [ ! -e machines/authorization ]");
}

static void a_job_through_a_changing_market(void **state) {
    start_controller();
    write_local("ec2-2016", 240, 12);
    run_well("$bin/bidbrain check-config bidbrain.json | grep -q 'provider:    local, model ec2-2016'");
    run_well("$bin/bidbrain run --config bidbrain.json --dry-run | grep -q 'decision: 4 x m3.large/us-east-1a spot'");
    run_well("[ ! -e state.db ]"); /* nothing was changed */
    run_well(RUN);
    assert_true(count_lines("launch", "\"stage\":\"filled\"") >= 3); /* one reliable, two of spot machines */
    assert_true(count_lines("bill", "\"how\":\"evicted\"") == 4);
    assert_true(bid_summary("evictions") == 4);
    assert_true(bid_summary("machines_left") == 0);
    assert_true(bid_summary("dollars") < bid_summary("all_on_demand_dollars"));
    run_well("grep '\"summary\"' ctl-report | grep -q '\"ok\":true'");
    run_well("$bin/bidbrain status --config bidbrain.json --json | grep '\"status\"' | grep -q '\"machines\":0'");
    assert_local_market_ends();
    end_all();
}

/* With one thread on each machine, each of c3.xlarge's four vCPUs does less work than each of m3.large's two. A killed
 * bidbrain does not lose these measurements. */
static void speeds_of_types_are_measured(void **state) {
    run_well("rm -rf machines cloud state* err-bid out-bid report-bid");
    start_controller_with("--window-short 1 --window-long 2");
    write_local("ec2", 60, 600);
    run_well("sed 's/\"measure\": false/\"probe_types\": 4/; s/\"most_vcpus\": 8/\"most_vcpus\": 128/' bidbrain.json "
             ">probes.json; $bin/bidbrain run --config probes.json --dry-run | "
             "grep -q 'decision: 1 x c3.xlarge/us-east-1a spot .* to measure its speed'");
    run_well("sed -i 's/\"measure\": false/\"speed_seconds\": 1/; s/\"most_vcpus\": 8/&, \"least_markets\": 2/' "
             "bidbrain.json; "
             "$bin/bidbrain run --config bidbrain.json --report report-bid >>out-bid 2>>err-bid & echo $! >bid.pid");
    wait_for("out-bid", "measured speeds of vCPUs (1: a typical one): ", NULL, 0);
    end_process("bid.pid", "KILL");
    run_well("$bin/bidbrain status --config bidbrain.json --json | grep '\"status\"' >status");
    run_well("$bin/bidbrain status --config bidbrain.json | grep -q '^measured speeds of vCPUs .*m3.large [0-9.]*'");
    FREED char *text = read_text("status");
    json_t *status = json_loads(text, 0, NULL);
    const json_t *speeds = json_object_get(status, "speeds");
    double narrow = json_number_value(json_object_get(speeds, "m3.large"));
    double wide = json_number_value(json_object_get(speeds, "c3.xlarge"));
    assert_true(wide >= 0.1 && narrow <= 2 && narrow > wide);
    json_decref(status);
    run_well("rm report-bid; $bin/bidbrain run --config bidbrain.json --report report-bid >>out-bid 2>>err-bid & "
             "echo $! >bid.pid");
    wait_for("report-bid", "\"type\":\"decision\"", NULL, 0);
    assert_true(count_lines("decision", "\"c3.xlarge\":") > 0);
    end_process("bid.pid", "TERM");
    assert_true(bid_summary("machines_left") == 0);
    run_well("sed -i 's/\"speed_seconds\": 1/\"measure_speeds\": false/' bidbrain.json; "
             "$bin/bidbrain status --config bidbrain.json --json | grep -q '\"speeds\":{}'");
    assert_local_market_ends();
    end_all();
}

/* Kills bidbrain at `point` of its first launch and starts it again. There must be one reliable machine and one set of
 * spot machines, and the job must end well. */
static void assert_kill_harmless(const char *point, bool local) {
    start_controller();
    if (local) {
        write_local("ec2", 60, 3);
    } else {
        start_market("ec2", 60);
        write_ec2("ec2", 3);
    }
    assert_int_equal(run(BIDBRAIN CRASH_RUN, point), 128 + 9);
    assert_int_equal(count_lines("launch", "\"stage\":\"planned\""), 1);
    run_well(BIDBRAIN RUN);
    assert_int_equal(count_lines("launch", "\"stage\":\"planned\""), 2); /* one reliable, one of spot machines */
    run_well("cat ctl-report | grep '\"summary\"' | grep -q '\"ok\":true'");
    assert_true(bid_summary("machines_left") == 0);
    assert_int_equal(count_lines("bill", "\"kind\":\"on-demand\""), 1);
    assert_int_equal(count_lines("bill", "\"kind\":\"spot\""), 4);
    if (local) {
        run_well("[ $(ls -d machines/i-* | wc -l) = 5 ]");
        assert_local_market_ends();
    } else {
        run_well("curl -s -H @cloud/authorization %s/bill | grep -c '\"id\": ' | grep -qx 5", market);
        run_well("[ $(curl -s -H @cloud/authorization %s/bill | grep -c '\"how\": \"released\"') = 5 ]", market);
    }
    end_all();
}

static void kills_of_local_launches(void **state) {
    assert_kill_harmless("before-send", true);
    assert_kill_harmless("before-store", true);
    assert_kill_harmless("after-store", true);
}

static void kills_of_launches_in_spotmarket(void **state) {
    assert_kill_harmless("before-send", false);
    assert_kill_harmless("before-store", false);
    assert_kill_harmless("after-store", false);
}

/* While a market runs with these machines, bidbrain refuses another configuration of the market and a second market. */
static void assert_other_markets_are_refused(void) {
    run_well("sed 's/\"speed\": 60/\"speed\": 90/' bidbrain.json >faster.json; ! cmp -s bidbrain.json faster.json");
    assert_int_equal(run("$bin/bidbrain run --config faster.json 2>refused"), 2);
    run_well("grep -q 'was started with --speed=60, and this configuration has --speed=90: expected the same' refused");
    run_well("sed 's/2016-03-01T01:00:00Z/2016-03-02T01:00:00Z/' bidbrain.json >later.json");
    assert_int_equal(run("$bin/bidbrain run --config later.json 2>refused"), 2);
    run_well("grep -q 'with --start=2016-03-01T01:00:00Z, and this configuration has --start=2016-03-02' refused");
    run_well("mv machines/spotmarket.log aside");
    assert_int_equal(run("$bin/bidbrain run --config bidbrain.json 2>refused"), 2);
    run_well("grep -q 'a market runs there, but .*machines/spotmarket.log: No such file' refused; "
             "[ ! -e machines/spotmarket.log ] && mv aside machines/spotmarket.log");
}

/* Stops the running market for a while. */
static void assert_signal_ends_the_wait_for_an_answer(void) {
    run_well("for p in $(pgrep -x spotmarket); do " /* other tests' markets may end */
             "[ \"$(readlink /proc/$p/cwd)\" != \"$PWD\" ] || echo $p >silent; done; kill -STOP $(cat silent); "
             "$bin/bidbrain run --config bidbrain.json >out-bid 2>err-bid & bid=$!; "
             "while flock -n machines/bidbrain.lock true; do sleep 0.05; done; sleep 1; " /* then it waits */
             "kill -TERM $bid; wait $bid; echo $? >status; kill -CONT $(cat silent)");
    run_well("cat status err-bid >&2; grep -qx 1 status && grep -q 'stopped by a signal while the market in .*machines "
             "did not answer' err-bid");
}

static void signals_give_everything_back_or_keep_it(void **state) {
    start_controller();
    write_calm_local();
    run_well(
        "$bin/bidbrain run --config bidbrain.json --keep --report report-bid >>out-bid 2>>err-bid & echo $! >bid.pid");
    wait_for("ctl-report", "\"stage 2\"", NULL, 0); /* transient nodes are at work */
    assert_int_equal(run("$bin/bidbrain run --config bidbrain.json 2>second"), 2);
    run_well("grep -q 'another bidbrain works with this state' second");
    run_well("sed s/state.db/other.db/ bidbrain.json >other.json");
    assert_int_equal(run("$bin/bidbrain run --config other.json 2>third"), 2);
    run_well("grep -q 'folder: another bidbrain works with .*machines: give each configuration its own' third");
    end_process("bid.pid", "TERM");
    run_well("[ $($bin/bidbrain status --config bidbrain.json --json | grep -c '\"state\":\"running\"') = 5 ]");
    assert_other_markets_are_refused();
    assert_signal_ends_the_wait_for_an_answer();
    run_well("rm report-bid; $bin/bidbrain run --config bidbrain.json --report report-bid >>out-bid 2>>err-bid & "
             "echo $! >bid.pid");
    wait_for("report-bid", "\"type\":\"decision\"", NULL, 0); /* it found all machines again and bought none */
    assert_int_equal(count_lines("launch", ""), 0);
    end_process("bid.pid", "TERM");
    assert_true(bid_summary("machines_left") == 0);
    assert_int_equal(count_lines("bill", "\"how\":\"released\""), 5);
    run_well("[ $(grep -c '\"event\":\"evicted\"' ctl-report) = 4 ]"); /* they left in time */
    assert_local_market_ends();
    end_all();
}

/* The market waits for prices that never come. A signal ends bidbrain and the market at once. */
static void a_signal_ends_the_wait_for_a_market(void **state) {
    run_well("rm -rf machines state* slow; mkdir slow && mkfifo slow/m3.large-us-east-1a.csv");
    write_local("ec2", 60, 600);
    run_well("sed -i 's/\"prices\": \"prices\"/\"prices\": \"slow\"/' bidbrain.json; "
             "{ $bin/bidbrain run --config bidbrain.json >out-bid 2>err-bid; echo $? >status; } & "
             "while ! pgrep -f \"^spotmarket --prices=.*slow\" >market.pid; do sleep 0.05; done; "
             "kill -TERM $(ps -o ppid= -p $(head -1 market.pid)); wait");
    run_well("grep -qx 1 status && grep -q 'stopped by a signal while the market in .*machines began' err-bid");
    assert_local_lock_goes();
    run_well("rm -r slow");
}

/* When spotmarket is killed, its machines are lost. bidbrain reports that. The next bidbrain starts another market
 * without the lost machines. */
static void a_local_market_that_is_killed_is_replaced(void **state) {
    start_controller();
    write_calm_local();
    run_well("rm -f err-bid; " RUN " & echo $! >bid.pid");
    wait_for("ctl-report", "\"stage 2\"", NULL, 0);
    run_well("ps -o pid= --ppid $(cat bid.pid) | head -1 | tr -d ' ' >market.pid; "
             "grep -q spotmarket /proc/$(cat market.pid)/cmdline");
    end_process("market.pid", "KILL");
    wait_for("err-bid", "is gone, and its machines with it", NULL, 0);
    end_process("ctl.pid", "KILL");
    start_another_controller();
    write_calm_local();
    run_well("rm report-bid; " RUN " & echo $! >bid.pid");
    wait_for("report-bid", "\"how\":\"vanished\"", NULL, 0);
    wait_for("ctl-report", "\"stage 2\"", NULL, 0);
    end_process("bid.pid", "TERM");
    assert_true(bid_summary("machines_left") == 0);
    assert_true(count_lines("bill", "\"how\":\"vanished\"") >= 1);
    assert_int_equal(count_lines("bill", "\"end\":\"2016"), count_lines("bill", ""));
    run_well("[ -z \"$(grep '\"bill\"' report-bid | grep -o '\"id\":\"[^\"]*' | sort | uniq -d)\" ]");
    assert_int_equal(count_lines("bill", "\"how\":\"evicted\""), 0);
    assert_local_market_ends();
    end_all();
}

static void orphans_are_swept(void **state) {
    start_controller();
    start_market("ec2", 60);
    write_ec2("ec2", 600);
    run_well(BIDBRAIN "$bin/bidbrain run --config bidbrain.json --keep >>out-bid 2>>err-bid & echo $! >bid.pid");
    wait_for("ctl-report", "\"stage 2\"", NULL, 0);
    end_process("bid.pid", "TERM");
    run_well("rm state*");
    end_process("ctl.pid", "KILL"); /* nothing is bought without a controller */
    run_well(BIDBRAIN RUN " & echo $! >bid.pid");
    wait_for("err-bid", "an orphan, it is terminated", NULL, 0);
    run_well("grep -Eq 'Max core file size +0 +0 ' /proc/$(cat bid.pid)/limits");
    end_process("bid.pid", "TERM"); /* it ends only when they are gone */
    run_well("[ $(curl -s -H @cloud/authorization %s/bill | grep -c '\"how\": \"released\"') = 5 ]", market);
    run_well("[ $(grep -c 'an orphan, it is terminated' err-bid) -ge 5 ]");
    end_all();
}

/* Changes the state by `sql`, which must affect `rows` rows. */
static void change_state(const char *sql, int rows) {
    sqlite3 *database = NULL;
    FREED char *folder = read_text("folder-path");
    char path[512];
    snprintf(path, sizeof path, "%.*s/state.db", (int)strcspn(folder, "\n"), folder);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(database), rows);
    sqlite3_close(database);
}

/* A machine missing from several lists counts as gone. A machine that shows up again belongs to the daemon again. */
static void a_machine_that_is_back_is_given_back(void **state) {
    start_controller();
    start_market("ec2", 60);
    write_ec2("ec2", 600);
    run_well(BIDBRAIN "$bin/bidbrain run --config bidbrain.json --keep >>out-bid 2>>err-bid & echo $! >bid.pid");
    wait_for("ctl-report", "\"stage 2\"", NULL, 0);
    end_process("bid.pid", "TERM");
    run_well("sed 's/us-east-1/us-west-2/g' bidbrain.json >elsewhere.json");
    run_refused(BIDBRAIN "$bin/bidbrain run --config elsewhere.json", "expected the region as it was");
    change_state("UPDATE machine SET ended = running + 1, how = 3, state = 3", 5);
    run_well(BIDBRAIN RUN " & echo $! >bid.pid");
    wait_for("err-bid", "was taken for gone", NULL, 0);
    for (int waited = 0;
         run("[ $($bin/bidbrain status --config bidbrain.json --json | grep -c '\"state\":\"running\"') = 5 ]");
         waited += POLL_MS) {
        assert_true(waited < WAIT_MS);
        clock_pause_ms(POLL_MS);
    }
    change_state("CREATE TRIGGER full BEFORE INSERT ON machine BEGIN SELECT RAISE(ABORT, 'no room'); END", 0);
    end_process("bid.pid", "TERM"); /* also without a writable state no machine is kept */
    run_well("grep -q 'no room; the machines are given back all the same' err-bid");
    run_well("[ $(curl -s -H @cloud/authorization %s/bill | grep -c '\"how\": \"released\"') = 5 ]", market);
    run_well("[ $(curl -s -H @cloud/authorization %s/bill | grep -c '\"id\": ') = 5 ]", market);
    end_all();
}

/* A launch is days old and its answer was lost. Its machine is taken in, but the launch is not repeated, because the
 * cloud has forgotten the token. */
static void an_old_launch_is_not_repeated(void **state) {
    start_controller();
    start_market("ec2", 60);
    write_ec2("ec2", 3);
    assert_int_equal(run(BIDBRAIN CRASH_RUN, "before-store"), 128 + 9);
    change_state("UPDATE launch SET planned = planned - 86400, stage = 1", 1);
    run_well(BIDBRAIN RUN);
    assert_int_equal(count_lines("launch", "\"stage\":\"closed\""), 1);
    assert_int_equal(count_lines("bill", "\"kind\":\"on-demand\""), 1);
    run_well("[ $(curl -s -H @cloud/authorization %s/bill | grep -c '\"how\": \"released\"') = 5 ]", market);
    end_all();
}

/* Errors that time does not mend end a dry run after a call or two, with EC2's reason. */
static void refusals_end_a_dry_run(void **state) {
    static const struct {
        const char *environment, *endpoint, *reason;
    } cases[] = {
        {"AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=wrong", NULL, "the signature was not accepted"},
        {"AWS_ACCESS_KEY_ID=AKIDOTHER AWS_SECRET_ACCESS_KEY=secret", NULL, "DescribeSpotPriceHistory: AuthFailure"},
        {"AWS_SHARED_CREDENTIALS_FILE=none AWS_EC2_METADATA_DISABLED=true", NULL, "no credentials"},
        {"AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret", "https://no-such-host.invalid", "resolve host"},
    };
    snprintf(controller, sizeof controller, "tcp://127.0.0.1:1");
    start_market("ec2", 60);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char own[sizeof market];
        memcpy(own, market, sizeof own);
        write_ec2("ec2", 600);
        if (cases[c].endpoint != NULL) {
            run_well("sed -i 's|\"endpoint\": \"[^\"]*\"|\"endpoint\": \"%s\"|' bidbrain.json", cases[c].endpoint);
        }
        int status =
            run("rm -f state*; AWS_CONFIG_FILE=/dev/null %s timeout 60 $bin/bidbrain run --config bidbrain.json "
                "--dry-run >out-bid 2>err-bid",
                cases[c].environment);
        FREED char *said = read_text("err-bid");
        if (status != 2 || strstr(said, cases[c].reason) == NULL || strchr(said, '\n') != strrchr(said, '\n')) {
            fail_msg("case %zu: status %d: %s", c, status, said);
        }
    }
    end_process("market.pid", "TERM");
}

/* While EC2 does not answer, one signal ends a bidbrain without machines. A bidbrain with machines needs two signals
 * and prints their ids. The next bidbrain gives the machines back. */
static void signals_end_without_ec2(void **state) {
    start_controller();
    start_market("ec2", 10); /* slow, so that a busy machine gets here before the rise of prices */
    char there[sizeof controller];
    memcpy(there, controller, sizeof there);
    snprintf(controller, sizeof controller, "tcp://127.0.0.1:1"); /* without a job nothing is bought */
    write_ec2("ec2", 600);
    run_well("kill -STOP $(cat market.pid); sed -i 's|\"clock\": \"[^\"]*\", ||' bidbrain.json");
    run_well(BIDBRAIN "$bin/bidbrain run --config bidbrain.json >>out-bid 2>>err-bid & echo $! >bid.pid");
    wait_for("out-bid", "waiting for the controller", NULL, 0);
    end_process("bid.pid", "TERM");
    run_well("grep -q 'by the state nothing runs' err-bid");
    run_well("kill -CONT $(cat market.pid); rm err-bid out-bid");
    memcpy(controller, there, sizeof there);
    write_ec2("ec2", 600);
    run_well(BIDBRAIN "$bin/bidbrain run --config bidbrain.json >>out-bid 2>>err-bid & echo $! >bid.pid");
    wait_for("ctl-report", "\"stage 2\"", NULL, 0);
    run_well("kill -STOP $(cat market.pid); kill -TERM $(cat bid.pid)");
    wait_for("out-bid", "giving everything back", NULL, 0);
    end_process("bid.pid", "TERM");
    run_well("grep -Eq '5 machines and 0 launches without an answer may still cost money; their tag is proteus:job = "
             "test, .*: i-[0-9a-f]+ i-' err-bid");
    run_well("kill -CONT $(cat market.pid)");
    run_well(BIDBRAIN "$bin/bidbrain run --config bidbrain.json --report report-bid >>out-bid 2>>err-bid & "
                      "echo $! >bid.pid");
    wait_for("report-bid", "\"type\"", NULL, 0);
    end_process("bid.pid", "TERM");
    run_well("curl -s -H @cloud/authorization %s/bill >bill.json; n=$(grep -c '\"id\": ' bill.json); "
             "[ $n -ge 5 ] && [ $(grep -c '\"how\": \"released\"' bill.json) = $n ]", /* n can exceed 5 */
             market);
    end_all();
}

/* Returns the bill of a machine in bidbrain's report, in units. */
static int64_t bid_bill(const char *id) {
    FREED char *all = read_text("report-bid");
    char wanted[96];
    int64_t amount = -1;
    snprintf(wanted, sizeof wanted, "\"id\":\"%s\"", id);
    for (char *line = strtok(all, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "{\"type\":\"bill\"", 14) == 0 && strstr(line, wanted) != NULL) {
            json_auto_t *object = json_loads(line, 0, NULL);
            amount = json_integer_value(json_object_get(object, "amount_units"));
        }
    }
    return amount;
}

/* BidBrain computes its bill from lists and notices, and the market has its own. They must agree to the last unit for
 * each machine: taken, given back, or ended by itself. */
static void the_two_bills_agree(void **state) {
    static const char *const models[] = {"ec2", "ec2-2016"};
    static const char *const calls[] = {"run-instances", "request-spot-instances"};
    for (size_t m = 0; m < 2; m++) {
        run_well("echo 'seconds 600 interrupt m3.large/us-east-1a' >events");
        start_controller();
        char options[64];
        snprintf(options, sizeof options, "%s%s", models[m],
                 m == 0 ? " --events events --notice 600" : " --notice 600");
        start_market(options, 240);
        write_ec2(models[m], 8);
        run_well("sed -i 's|\"image\"|\"call\": \"%s\", \"image\"|' bidbrain.json", calls[m]);
        run_well(BIDBRAIN RUN);
        run_well("curl -s -H @cloud/authorization %s/bill >bill.json", market);
        FREED char *text = read_text("bill.json");
        json_auto_t *bill = json_loads(text, 0, NULL);
        const json_t *total = json_object_get(json_object_get(bill, "total"), models[m]);
        assert_true(json_integer_value(json_object_get(total, "evictions")) > 0);
        assert_true(fabs(json_number_value(json_object_get(total, "spot_hours")) - bid_summary("spot_hours")) < 1e-6);
        assert_true(fabs(json_number_value(json_object_get(total, "free_hours")) - bid_summary("free_hours")) < 1e-6);
        assert_true(
            fabs(json_number_value(json_object_get(total, "on_demand_hours")) - bid_summary("on_demand_hours")) < 1e-6);
        size_t i;
        const json_t *machine;
        json_array_foreach(json_object_get(bill, "instances"), i, machine) {
            const char *id = json_string_value(json_object_get(machine, "id"));
            const json_t *cost = json_object_get(json_object_get(machine, "cost"), models[m]);
            if (bid_bill(id) != json_integer_value(json_object_get(cost, "amount_units"))) {
                fail_msg("%s: %lld units by bidbrain; the market: %s", id, (long long)bid_bill(id), text);
            }
        }
        end_all();
    }
}

/* Caps hold for reliable machines, too: one line reports what the job needs, and nothing is launched. */
static void caps_keep_reliable_machines_out(void **state) {
    static const char *const caps[] = {"\"budget_dollars\": 0", "\"most_dollars_per_hour\": 0.05"};
    for (size_t c = 0; c < 2; c++) {
        start_controller();
        write_local("ec2", 60, 600);
        run_well("sed -i 's|\"most_vcpus\": 8|\"most_vcpus\": 8, %s|' bidbrain.json", caps[c]);
        run_well("$bin/bidbrain run --config bidbrain.json --dry-run 2>&1 | grep -q '1 of 1 reliable machines are not "
                 "bought: the job needs at least $0.1330 an hour for 1 x m3.large'");
        run_well(
            "$bin/bidbrain run --config bidbrain.json --dry-run | grep -q 'nothing is bought: of 2 markets 2 dearer "
            "than limits.'");
        run_well(RUN " & echo $! >bid.pid");
        wait_for("err-bid", "1 of 1 reliable machines are not bought", NULL, 0);
        end_process("bid.pid", "TERM");
        assert_int_equal(count_lines("launch", ""), 0);
        run_well("[ $(grep -c 'are not bought' err-bid) = 1 ]");
        end_all();
    }
}

/* bidbrain buys for the job's remaining work and reports a deadline that can't be met. This market bills whole
 * hours. */
static void the_end_is_looked_at(void **state) {
    const char *dry_run = "$bin/bidbrain run --config bidbrain.json --dry-run 2>&1";
    start_controller();
    write_local("ec2-2016", 60, 600);
    run_well("%s | grep -q 'decision: 4 x m3.large'", dry_run);
    run_well("sed -i 's|\"phi\": 0.9|\"phi\": 0.9, \"work_vcpu_hours\": 0.4|' bidbrain.json");
    run_well("%s | grep -q 'decision: [12] x m3.large'", dry_run);
    run_well("%s --deadline 2016-03-01T00:12:00Z >out-deadline; grep -q 'decision: [34] x m3.large' out-deadline; "
             "! grep -q 'after its deadline' out-deadline",
             dry_run);
    run_well(
        "%s --deadline 2016-03-01T00:05:00Z | grep -q 'the job is expected to end at 2016-03-01T00:[0-9:]*Z, after "
        "its deadline 2016-03-01T00:05:00Z'",
        dry_run);
    run_refused("$bin/bidbrain run --config bidbrain.json --deadline soon",
                "--deadline: expected a time such as 2026-03-01T18:00:00Z, got 'soon'");
    run_well("sed -i 's|\"most_vcpus\": 8|\"most_vcpus\": 8, \"deadline\": \"soon\"|' bidbrain.json");
    run_refused("$bin/bidbrain run --config bidbrain.json", "limits.deadline: expected a time such as");
    end_all();
}

/* If no price matches, the reason names what was requested and what came: when prices are read, at the decision and in
 * the status. */
static void unwanted_prices_are_named(void **state) {
    static const char why[] =
        "asked for product \"Linux/UNIX\", zones us-east-1b, types m3.large, c3.xlarge; prices came "
        "for products Linux/UNIX; zones us-east-1a; types ";
    run_well("printf '%%s' '%s' >why", why);
    start_controller();
    start_market("ec2", 60);
    write_ec2("ec2", 600);
    run_well("sed -i 's|\"zones\": \\[\"us-east-1a\"|\"zones\": [\"us-east-1b\"|' bidbrain.json");
    run_well(BIDBRAIN "$bin/bidbrain run --config bidbrain.json --dry-run >out-bid 2>err-bid");
    run_well("grep -Fq \"nothing is bought: there is no price of a market that is wanted: $(cat why)\" out-bid");
    run_well("sed -i 's|\"on_demand\": {|&\"zone\": \"us-east-1a\", |' bidbrain.json; rm out-bid err-bid");
    run_well(BIDBRAIN RUN " & echo $! >bid.pid");
    wait_for("err-bid", why, NULL, 0);
    wait_for("out-bid", "nothing is bought: there is no price", NULL, 0);
    run_well(
        "[ $(grep -c 'no market can be bought in' err-bid) = 1 ] && [ $(grep -c 'nothing is bought' out-bid) = 1 ]");
    run_well("$bin/bidbrain status --config bidbrain.json | grep -F \"no spot machine: \" | grep -Fq \"$(cat why)\"");
    end_process("bid.pid", "TERM");
    end_all();
}

/* A market of the past, without its clock in the configuration. */
static void a_replay_without_its_clock_is_refused(void **state) {
    snprintf(controller, sizeof controller, "tcp://127.0.0.1:1");
    start_market("ec2", 60);
    write_ec2("ec2", 600);
    run_well("rm -rf state*; sed -i 's|\"clock\": \"[^\"]*\", ||' bidbrain.json");
    char expected[256];
    snprintf(expected, sizeof expected, "goes by a time of its own: expected \"clock\": \"%s/clock\"", market);
    run_refused(BIDBRAIN "$bin/bidbrain run --config bidbrain.json", expected);
    run_refused(BIDBRAIN "$bin/bidbrain run --config bidbrain.json --dry-run", expected);
    run_refused(BIDBRAIN "$bin/bidbrain prices --config bidbrain.json", expected);
    end_process("market.pid", "TERM");
}

/* An answer is lost and the job ends before the launch is repeated. Machines that came are found by the launch's token
 * and given back. A launch that was not carried out is not repeated. */
static void launches_are_looked_up_after_the_job(void **state) {
    for (int carried_out = 0; carried_out < 2; carried_out++) {
        start_controller();
        start_market("ec2", 60);
        write_ec2("ec2", 600);
        assert_int_equal(run(BIDBRAIN CRASH_RUN, carried_out ? "before-store" : "before-send"), 128 + 9);
        run_well("rm -f out-bid; sed -i 's|\"controller\": \"[^\"]*\"|\"controller\": \"tcp://127.0.0.1:1\"|' "
                 "bidbrain.json");
        run_well(BIDBRAIN RUN " & echo $! >bid.pid");
        wait_for("out-bid", "waiting for the controller", NULL, 0);
        end_process("bid.pid", "TERM");
        assert_int_equal(count_lines("launch", carried_out ? "\"stage\":\"filled\"" : "\"stage\":\"closed\""), 1);
        assert_int_equal(count_lines("bill", ""), carried_out);
        run_well("[ $(curl -s -H @cloud/authorization %s/bill | grep -c '\"id\": ') = %d ]", market, carried_out);
        end_all();
    }
}

static void prices_fill_a_store(void **state) {
    snprintf(controller, sizeof controller, "tcp://127.0.0.1:1");
    write_local("ec2", 60, 1);
    run_well("rm -rf state* history.db; $bin/bidbrain prices --config bidbrain.json --store history.db | grep -q ' "
             "price points'");
    run_well(
        "$bin/bidbrain prices --config bidbrain.json | grep -Eq ' price points, the newest of 2016-02-29T12:00:00Z$'");
    run_well(
        "sed 's|2016-03-01T00|2016-09-01T00|; s|state.db|late.db|' bidbrain.json >late.json; "
        "$bin/bidbrain prices --config late.json | grep -q 'older than 90 days: EC2.s history reaches no further'");
    run_well("$bin/bidbrain run --config late.json >out-late 2>&1 & echo $! >bid.pid");
    wait_for("out-late", "waiting for the controller", NULL, 0);
    run_well(
        "$bin/bidbrain status --config late.json | grep -q '^prices: 0 markets, the newest of .*, older than 90 days'");
    end_process("bid.pid", "TERM");
    run_well("printf '{\"work_vcpu_hours\": 10, \"most_vcpus\": 8, \"reliable_type\": \"m3.large\"}' >app.json");
    run_well("$bin/bidbrain advise --prices history.db --app app.json | grep -q '4 x m3.large/us-east-1a, bid'");
    run_refused("$bin/bidbrain prices --config bidbrain.json --store history",
                "--store: expected a name that ends in .db");
    run_refused("$bin/bidbrain run", "--config FILE is missing");
    run_refused("$bin/bidbrain status --config bidbrain.json", "bidbrain run has not worked with it yet");
    run_well("printf 'no state, but a text that is longer than a header of SQLite would be..............' >state.db");
    run_refused("$bin/bidbrain run --config bidbrain.json", "damaged, or not a state file");
}

/* Tests mostly wait for their market. So two processes share them: each runs every second test, in its own folder. */
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_through_a_changing_market),
        cmocka_unit_test(speeds_of_types_are_measured),
        cmocka_unit_test(kills_of_local_launches),
        cmocka_unit_test(kills_of_launches_in_spotmarket),
        cmocka_unit_test(signals_give_everything_back_or_keep_it),
        cmocka_unit_test(a_signal_ends_the_wait_for_a_market),
        cmocka_unit_test(a_local_market_that_is_killed_is_replaced),
        cmocka_unit_test(orphans_are_swept),
        cmocka_unit_test(a_machine_that_is_back_is_given_back),
        cmocka_unit_test(an_old_launch_is_not_repeated),
        cmocka_unit_test(the_two_bills_agree),
        cmocka_unit_test(caps_keep_reliable_machines_out),
        cmocka_unit_test(the_end_is_looked_at),
        cmocka_unit_test(refusals_end_a_dry_run),
        cmocka_unit_test(signals_end_without_ec2),
        cmocka_unit_test(unwanted_prices_are_named),
        cmocka_unit_test(a_replay_without_its_clock_is_refused),
        cmocka_unit_test(launches_are_looked_up_after_the_job),
        cmocka_unit_test(prices_fill_a_store),
    };
    enum { COUNT = sizeof tests / sizeof *tests };
    struct CMUnitTest half[COUNT];
    size_t count = 0;
    cmocka_set_test_filter(getenv("PROTEUS_TEST"));
    pid_t other = fork();
    for (size_t t = other == 0 ? 1 : 0; t < COUNT; t += 2) {
        half[count++] = tests[t];
    }
    int failed = _cmocka_run_group_tests(other == 0 ? "odd" : "even", half, count, set_up, files_close);
    int status = 0;
    if (other != 0 && (waitpid(other, &status, 0) != other || status != 0)) {
        failed++;
    }
    return failed != 0;
}
