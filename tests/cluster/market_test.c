/* proteus run --market with real processes. In a made-up market one of two prices jumps above every bid, so that
 * machines are bought, taken and bought again during a job. The job's sums must be right at its end (sum_app). The bill
 * is recomputed from the prices, to the last unit. Then processes of all kinds are killed: no process and no machine
 * may be left, and none may be bought twice. Time limits only end a hang. */
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/net/http.h"
#include "bidbrain/market/billing.h"
#include "bidbrain/market/catalog.h"
#include "tests/cluster/processes.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { HANG_MS = 120 * 1000, FAULTS_MS = 20 * 1000, POLL_MS = 20, MACHINES_MAX = 3 };

#define START  INT64_C(1456963200) /* 2016-03-03T00:00:00Z */
#define DAY    INT64_C(86400)
#define SPIKE  (START + 15 * 60)
#define CALM   (SPIKE + 3 * HOUR)
#define REGION "us-east-1"

/* Prices by time. The cheap market is the first to be bought, and is taken away. */
static const struct series {
    const char *type, *zone;
    struct market_point points[4];
    unsigned count;
} SERIES[] = {
    {"c4.xlarge", "us-east-1a", {{START - 2 * DAY, 30000}, {SPIKE, 5000000}, {CALM, 31000}, {START + DAY, 30000}}, 4},
    {"m4.xlarge", "us-east-1b", {{START - 2 * DAY, 45000}, {START + DAY, 46000}}, 2},
};
enum { SERIES_COUNT = sizeof SERIES / sizeof *SERIES };

static char tag[64];  /* in the environment of every process of a test */
static unsigned jobs; /* begun so far */

/* ---- The test's files ---- */

static void write_ratings(void) {
    FILE *file = open_file("ratings", "w");
    for (unsigned user = 1; user <= 60; user++) {
        for (unsigned item = 1; item <= 40; item += 1 + user % 3) {
            fprintf(file, "%u %u %u\n", user, item, 1 + (user * item) % 5);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static void write_prices(void) {
    run_well("mkdir prices");
    for (unsigned s = 0; s < SERIES_COUNT; s++) {
        char name[128];
        snprintf(name, sizeof name, "prices/%s-%s.csv", SERIES[s].type, SERIES[s].zone);
        FILE *file = open_file(name, "w");
        fprintf(file, "timestamp_utc,price_usd\n");
        for (unsigned p = 0; p < SERIES[s].count; p++) {
            char time[INSTANT_TEXT_MAX];
            instant_format(SERIES[s].points[p].time, time);
            fprintf(file, "%s,%.6f\n", time, price_dollars(SERIES[s].points[p].price));
        }
        assert_int_equal(fclose(file), 0);
    }
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    write_ratings();
    write_prices();
    snprintf(tag, sizeof tag, "PROTEUS_MARKET_TEST=%d", (int)getpid());
    return putenv(tag);
}

/* ---- Processes ---- */

/* Waits for a child of the launcher. Machines' supervisors are children of their cloud. */
static pid_t child_of(pid_t parent, const char *text) {
    pid_t found = process_child(parent, text);
    for (int waited = 0; found == 0 && waited < HANG_MS; waited += POLL_MS) {
        clock_pause_ms(POLL_MS);
        found = process_child(parent, text);
    }
    assert_true(found > 0);
    return found;
}

static void assert_nobody_left(void) {
    unsigned count = 1;
    for (int waited = 0; count > 0 && waited < HANG_MS; waited += POLL_MS) {
        count = process_count(tag);
        clock_pause_ms(POLL_MS);
    }
    assert_int_equal(count, 0);
}

/* ---- A job through the market ---- */

struct job {
    pid_t pid;
    char name[16]; /* prefix of its files: NAME.report, NAME.out, NAME.err, NAME.market/ */
};

/* Expands `word` in the tests' shell. */
static void expand(const char *word, char *text, size_t size) {
    run_well("echo %s", word);
    FREED char *line = read_text("out");
    line[strcspn(line, "\n")] = '\0';
    snprintf(text, size, "%s", line);
}

/* Starts sum_app in the market with the programs of a folder, until it is stopped. `before`: settings of the
 * environment; `more`: options of proteus run. */
static struct job begin_in(const char *bin_folder, const char *before, const char *more) {
    struct job job = {0};
    char start[INSTANT_TEXT_MAX];
    char here[256];
    char bin[512];
    char tests[512];
    char command[4096];
    snprintf(job.name, sizeof job.name, "job%u", jobs++);
    instant_format(START, start);
    expand("$PWD", here, sizeof here);
    expand(bin_folder, bin, sizeof bin);
    expand("$tests", tests, sizeof tests);
    snprintf(command, sizeof command,
             "cd %s && %s exec %s/proteus run --market prices --market-start %s --market-speed 240 "
             "--market-folder %s.market --transient %d --report %s.report %s -- %s/sum_app "
             "--data ratings --slow-us 2000 --iterations 1000000 >%s.out 2>%s.err",
             here, before, bin, start, job.name, MACHINES_MAX, job.name, more, tests, job.name, job.name);
    job.pid = fork();
    assert_true(job.pid >= 0);
    if (job.pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(126);
    }
    return job;
}

static struct job begin(const char *before, const char *more) {
    return begin_in("$bin", before, more);
}

static char *read_of(const struct job *job, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", job->name, suffix);
    return read_text(name);
}

/* Waits until a file of the job contains `text` for the `times`-th time. Returns false after limit_ms. */
static bool wait_within(struct job *job, int limit_ms, const char *suffix, const char *text, unsigned times) {
    for (int waited = 0; waited < limit_ms; waited += POLL_MS) {
        unsigned found = 0;
        FREED char *all = read_of(job, suffix);
        for (const char *at = strstr(all, text); at != NULL; at = strstr(at + 1, text)) {
            found++;
        }
        if (found >= times) {
            return true;
        }
        if (waitpid(job->pid, NULL, WNOHANG) != 0) {
            fail_msg("the job ended early: %s; %s", read_of(job, ".err"), read_of(job, ".out"));
        }
        clock_pause_ms(POLL_MS);
    }
    return false;
}

static void wait_for(struct job *job, const char *suffix, const char *text, unsigned times) {
    if (!wait_within(job, HANG_MS, suffix, text, times)) {
        kill(job->pid, SIGKILL);
        fail_msg("the job does not get to '%s': %s", text, read_of(job, ".out"));
    }
}

/* Returns the launcher's exit status, or 128 + the signal's number. No process of the job may be left. */
static int finish(struct job *job) {
    int status = 0;
    pid_t ended = 0;
    for (int waited = 0; waited < HANG_MS && ended == 0; waited += POLL_MS) {
        ended = waitpid(job->pid, &status, WNOHANG);
        clock_pause_ms(POLL_MS);
    }
    if (ended == 0) {
        kill(job->pid, SIGKILL);
        fail_msg("the job hangs: %s", read_of(job, ".out"));
    }
    assert_nobody_left();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void stop_well(const struct job *job) {
    FREED char *out = read_of(job, ".out");
    const char *found = strstr(out, "controller at ");
    assert_non_null(found);
    run_well("$bin/proteus stop --controller %.*s", (int)strcspn(found + 14, "\n"), found + 14);
}

/* Returns the last line of the type in the job's report. */
static json_t *last_line(const struct job *job, const char *type) {
    FREED char *report = read_of(job, ".report");
    json_t *found = NULL;
    for (char *line = report; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        json_auto_t *object = json_loadb(line, end != NULL ? (size_t)(end - line) : strlen(line), 0, NULL);
        const char *of = json_string_value(json_object_get(object, "type"));
        if (of != NULL && strcmp(of, type) == 0) {
            json_decref(found);
            found = json_incref(object);
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return found;
}

static double number_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* ---- The bill ---- */

static int64_t time_of(const json_t *machine, const char *key) {
    int64_t time;
    assert_true(instant_parse(json_string_value(json_object_get(machine, key)), &time));
    return time;
}

/* Returns a machine's cost, from the prices of this file. */
static int64_t cost_of(const struct markets *markets, const struct catalog *catalog, const json_t *machine) {
    const char *type = json_string_value(json_object_get(machine, "type"));
    const char *how = json_string_value(json_object_get(machine, "how"));
    int64_t start = time_of(machine, "start");
    int64_t end = time_of(machine, "end");
    enum billing_end ended = strcmp(how, "evicted") == 0 ? BILLING_EVICTED : BILLING_RELEASED;
    assert_true(ended == BILLING_EVICTED || strcmp(how, "released") == 0);
    if (strcmp(json_string_value(json_object_get(machine, "kind")), "spot") != 0) {
        const struct catalog_price *price = catalog_find(catalog, type, REGION);
        assert_non_null(price);
        return billing_on_demand(&MARKET_EC2_2016, price->price, start, end, ended).amount;
    }
    const char *zone = json_string_value(json_object_get(machine, "zone"));
    const struct market *market = NULL;
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *one = markets->list[m];
        market = strcmp(one->type, type) == 0 && strcmp(one->zone, zone) == 0 ? one : market;
    }
    assert_non_null(market);
    return billing_spot(&MARKET_EC2_2016, market, start, end, ended).amount;
}

/* Checks that every machine has ended, and that each costs what the prices say, to the last unit. */
static void check_bill(const struct job *job) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    CLOSED_BY(catalog_close) struct catalog catalog;
    int64_t total = 0;
    FREED char *text = read_of(job, ".market/bill.json");
    json_auto_t *bill = json_loads(text, 0, NULL);
    const json_t *machines = json_object_get(bill, "instances");
    catalog_open(&catalog, CATALOG_2016);
    for (unsigned s = 0; s < SERIES_COUNT; s++) {
        for (unsigned p = 0; p < SERIES[s].count; p++) {
            struct error error = {0};
            assert_int_equal(
                markets_add(&markets, SERIES[s].type, SERIES[s].zone, "Linux/UNIX", SERIES[s].points[p], &error), 0);
        }
    }
    markets_finish(&markets);
    assert_true(json_array_size(machines) > 0);
    for (size_t m = 0; m < json_array_size(machines); m++) {
        const json_t *machine = json_array_get(machines, m);
        const json_t *cost = json_object_get(json_object_get(machine, "cost"), "ec2-2016");
        int64_t expected = cost_of(&markets, &catalog, machine);
        assert_int_equal(json_integer_value(json_object_get(cost, "amount_units")), expected);
        total += expected;
    }
    json_auto_t *line = last_line(job, "market");
    double dollars = number_of(line, "dollars");
    assert_true(dollars > amount_dollars(total) - 1e-8 && dollars < amount_dollars(total) + 1e-8);
    if (number_of(line, "ledger_machines_apart") != 0) { /* bidbrain's ledger agrees for each machine */
        fail_msg("%s; %s", read_of(job, ".err"), read_of(job, ".market/bidbrain.jsonl"));
    }
}

/* Whether the cloud has taken the machine, or soon will, as its market's price is above each bid. Its replacement may
 * start before the machine is gone, and the job may end before the cloud takes it. */
static bool is_taken(const json_t *machine) {
    const char *type = json_string_value(json_object_get(machine, "type"));
    bool spiked = strcmp(type, SERIES[0].type) == 0 && time_of(machine, "start") < SPIKE;
    return strcmp(json_string_value(json_object_get(machine, "how")), "evicted") == 0 ||
           (spiked && time_of(machine, "end") > SPIKE);
}

/* Checks that no more machines of a kind than allowed ran at once, so that none was bought twice. A reliable machine
 * runs until the job is over. A launch under way at that time may start later and is then given back. */
static void check_footprint(const struct job *job) {
    FREED char *text = read_of(job, ".market/bill.json");
    json_auto_t *bill = json_loads(text, 0, NULL);
    const json_t *machines = json_object_get(bill, "instances");
    int64_t over = 0; /* when the last reliable machine ended */
    for (size_t m = 0; m < json_array_size(machines); m++) {
        const json_t *machine = json_array_get(machines, m);
        bool is_spot = strcmp(json_string_value(json_object_get(machine, "kind")), "spot") == 0;
        over = !is_spot && time_of(machine, "end") > over ? time_of(machine, "end") : over;
    }
    for (size_t m = 0; m < json_array_size(machines); m++) {
        int64_t moment = time_of(json_array_get(machines, m), "start");
        unsigned spot = 0;
        unsigned on_demand = 0;
        for (size_t o = 0; o < json_array_size(machines); o++) {
            const json_t *other = json_array_get(machines, o);
            bool there = time_of(other, "start") <= moment && time_of(other, "end") > moment;
            bool is_spot = strcmp(json_string_value(json_object_get(other, "kind")), "spot") == 0;
            spot += there && is_spot && !is_taken(other) ? 1 : 0;
            on_demand += there && !is_spot ? 1 : 0;
        }
        if (spot > MACHINES_MAX || on_demand != (moment < over ? 1 : 0)) { /* `over` is 0 without a reliable machine */
            fail_msg("%u spot machines, %u on demand at once; %s\n%s", spot, on_demand, text, read_of(job, ".out"));
        }
    }
}

/* Stops the job, which must end well, and checks its bill and footprint. */
static void check_end(struct job *job) {
    stop_well(job);
    int status = finish(job);
    if (status != 0) {
        fail_msg("the job ended with status %d: %s; %s", status, read_of(job, ".err"), read_of(job, ".out"));
    }
    json_auto_t *summary = last_line(job, "summary");
    assert_true(json_is_true(json_object_get(summary, "ok")));
    check_bill(job);
    check_footprint(job);
}

/* ---- The tests ---- */

TEST(what_makes_no_sense_is_refused) {
    run_refused("$run --market nowhere -- $tests/sum_app --data ratings", "--market nowhere: No such file");
    run_refused("$run --market ratings -- $tests/sum_app --data ratings", "ratings");
    run_refused("$run --market prices --market-start 2015-01-01 -- $tests/sum_app --data ratings",
                "--market-start: expected a time from 2016-03-01T00:00:00Z");
    run_refused("$run --market prices --market-model ec3 -- $tests/sum_app --data ratings", "--market-model: expected");
    run_refused("$run --market prices --market-types t2.micro -- $tests/sum_app --data ratings",
                "no prices in us-east-1 of the types in --market-types");
    run_refused("$run --market prices --transient 0 -- $tests/sum_app --data ratings",
                "--transient 0: expected at least 1");
    run_refused("$run --market prices --stage traditional -- $tests/sum_app --data ratings", "--stage traditional");
    run_refused("$run --market-start 2016-03-03 -- $tests/sum_app --data ratings", "expected --market DIR with it");
    run_refused("echo 'seconds 1 kill node-1' >events; $run --market prices --events events -- $tests/sum_app --data "
                "ratings",
                "expected an event of the controller");
    run_refused("mkdir -p full/machines; $run --market prices --market-folder full -- $tests/sum_app --data ratings",
                "full: holds another run");
    run_refused("sleep 100 & echo $! >stranger; exec $run --market prices --market-folder full -- $tests/sum_app "
                "--data ratings",
                "full: holds another run");
    run_well("kill $(cat stranger)"); /* a child of the shell still exists */
    assert_nobody_left();
}

TEST(machines_are_bought_and_taken_and_bought_anew) {
    struct job job = begin("", "");
    wait_for(&job, ".report", "\"event\":\"evicted\"", 1);
    wait_for(&job, ".out", "m4.xlarge/us-east-1b spot", 2); /* first in the decision, then as a machine */
    wait_for(&job, ".out", "is taken by the cloud", MACHINES_MAX);
    check_end(&job);
    json_auto_t *summary = last_line(&job, "summary");
    json_auto_t *market = last_line(&job, "market");
    assert_true(number_of(market, "acquisitions") >= 2);
    assert_true(number_of(market, "evicted_machines") >= 1);
    assert_true(number_of(market, "free_hours") > 0); /* machines were taken within their first hour */
    assert_true(number_of(market, "all_on_demand_dollars") > number_of(market, "dollars"));
    assert_true(number_of(summary, "evictions") >= 1);
    assert_int_equal((int)number_of(summary, "items_redone"), 0);
    assert_int_equal((int)number_of(summary, "failures"), 0);
    /* There is one bill, and each of its lines stands alone. */
    run_well(
        "[ $(grep -c 'machine-hours' %s.out) = 2 ] && grep -q '^machine-hours .* spot (.* of them free)$' %s.out && "
        "grep -q '^all on demand .* for the same machine-hours' %s.out",
        job.name, job.name, job.name);
}

/* No reliable machine: each market is a group, and one group is lost as a whole. */
TEST(no_reliable_machine) {
    struct job job = begin("", "--reliable 0");
    wait_for(&job, ".report", "\"group\":\"us-east-1a/c4.xlarge\"", 1);
    wait_for(&job, ".report", "\"group\":\"us-east-1b/m4.xlarge\"", 1);
    wait_for(&job, ".report", "\"event\":\"evicted\"", 1);
    wait_for(&job, ".out", "no other market than m4.xlarge/us-east-1b is offered below its ceiling", 1);
    wait_for(&job, ".out", "is taken by the cloud", 1);
    check_end(&job);
    json_auto_t *summary = last_line(&job, "summary");
    json_auto_t *market = last_line(&job, "market");
    assert_true(number_of(market, "acquisitions") >= 2);
    assert_true(number_of(market, "on_demand_hours") == 0);
    assert_int_equal((int)number_of(summary, "failures"), 0);
}

/* The job's own report says what bidbrain spends and why, also after bidbrain was killed. */
TEST(the_report_has_the_money) {
    struct job job = begin("", "");
    wait_for(&job, ".report", "\"type\":\"money\"", 2);
    kill(child_of(job.pid, "bidbrain.json"), SIGKILL);
    wait_for(&job, ".out", "starting it again", 1);
    wait_for(&job, ".report", "\"type\":\"money\"", 4);
    check_end(&job);
    json_auto_t *money = last_line(&job, "money");
    json_auto_t *market = last_line(&job, "market");
    json_auto_t *decision = last_line(&job, "decision");
    assert_true(number_of(money, "dollars") > 0);
    assert_true(number_of(money, "dollars") <= number_of(market, "dollars") + 1e-6);
    assert_true(number_of(money, "dollars_per_work") > 0);
    assert_true(number_of(money, "seconds") > 0);
    const json_t *markets = json_object_get(money, "markets");
    unsigned machines = 0;
    for (size_t m = 0; m < json_array_size(markets); m++) {
        machines += (unsigned)number_of(json_array_get(markets, m), "machines");
    }
    assert_true(machines > 0);
    assert_true(json_is_string(json_object_get(decision, "text")));
    run_well("grep -q '\"text\":\"decision: [1-9] x' %s.report", job.name);
}

TEST(bidbrain_is_killed) {
    struct job job = begin("", "");
    for (unsigned kill_number = 1; kill_number <= 3; kill_number++) {
        wait_for(&job, ".report", "\"type\":\"iteration\"", 20 * kill_number);
        kill(child_of(job.pid, "bidbrain.json"), SIGKILL);
        wait_for(&job, ".out", "starting it again", kill_number);
    }
    wait_for(&job, ".report", "\"event\":\"evicted\"", 1);
    wait_for(&job, ".out", "m4.xlarge/us-east-1b spot", 2);
    wait_for(&job, ".out", "is taken by the cloud", MACHINES_MAX);
    check_end(&job);
}

static void answered(void *context, const struct http_answer *answer) {
    *(int *)context = answer->status;
}

/* Sets the faults of the cloud from now on. */
static void set_faults(const struct job *job, const char *spec) {
    struct http *http;
    struct error error = {0};
    FREED char *text = read_of(job, ".market/bidbrain.json");
    json_auto_t *config = json_loads(text, 0, NULL);
    char url[256];
    char body[256];
    int status = 0;
    snprintf(url, sizeof url, "%s/faults", json_string_value(json_object_get(config, "endpoint")));
    snprintf(body, sizeof body, "{\"spec\":\"%s\"}", spec);
    assert_int_equal(http_open(&http, &error), 0);
    FREED char *authorization = read_of(job, ".market/machines/authorization");
    authorization[strcspn(authorization, "\n")] = '\0';
    const struct http_request request = {
        .method = "POST", .url = url, .headers = {authorization}, .body = body, .body_size = strlen(body)};
    http_run(http, http_start(http, &request, answered, &status));
    assert_int_equal(status, 200);
    http_close(http);
}

/* bench/market-faults tests the faults one by one and for longer. */
TEST(everything_goes_wrong_at_once) {
    struct job job = begin("", "");
    wait_for(&job, ".out", "bidbrain: ", 1);
    set_faults(&job, "slow=0.2:0.2,broken=0.1,503=0.1,throttle=0.1,html=0.1,expired=0.1,lost=0.2,capacity=0.2,"
                     "metadata=0.1,clock=600");
    wait_for(&job, ".report", "\"event\":\"join\"", 2);
    /* What is bought, where, and whether it is taken, depends on the faults. */
    (void)wait_within(&job, FAULTS_MS, ".out", "is taken by the cloud", MACHINES_MAX);
    check_end(&job);
    json_auto_t *market = last_line(&job, "market");
    assert_int_equal((int)number_of(market, "bidbrain_restarts"), 0);
}

/* At each step of a launch: proteus finds a bidbrain next to itself that is killed there, once. */
TEST(bidbrain_dies_while_it_buys) {
    run_well("mkdir crash && cp $bin/proteus crash/ && ln -s $bin/spotmarket crash/ && "
             "ln -s $tests/crash_bidbrain crash/bidbrain");
    static const char *const points[] = {"before-send", "before-store", "after-store"};
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        char setting[128];
        snprintf(setting, sizeof setting, "BIDBRAIN_CRASH=%s BIDBRAIN_CRASH_MARK=$PWD/crash/mark-%zu", points[p], p);
        struct job job = begin_in("$PWD/crash", setting, "");
        wait_for(&job, ".out", "starting it again", 1);
        wait_for(&job, ".report", "\"event\":\"join\"", 1 + MACHINES_MAX);
        wait_for(&job, ".report", "\"type\":\"iteration\"", 20);
        check_end(&job);
    }
}

TEST(a_market_that_is_killed_ends_the_job) {
    struct job job = begin("", "");
    wait_for(&job, ".report", "\"event\":\"join\"", 2);
    kill(child_of(job.pid, "spotmarket"), SIGKILL);
    assert_int_equal(finish(&job), 1);
    FREED char *error = read_of(&job, ".err");
    assert_non_null(strstr(error, "the market is gone: spotmarket was killed by signal 9"));
}

TEST(nothing_is_left) {
    static const int signals[] = {SIGKILL, SIGINT, SIGTERM};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        struct job job = begin("TMPDIR=$PWD", "");
        wait_for(&job, ".report", "\"event\":\"join\"", 2);
        kill(job.pid, signals[s]);
        assert_int_equal(finish(&job), signals[s] == SIGKILL ? 128 + SIGKILL : 1);
        if (signals[s] != SIGKILL) {
            json_auto_t *summary = last_line(&job, "summary");
            assert_true(json_is_false(json_object_get(summary, "ok")));
        }
    }
    run_well("rm -rf proteus-*"); /* folders of the killed run */
}

TEST(the_temporary_folder_goes) {
    run_well("mkdir tmp && TMPDIR=$PWD/tmp $run --market prices --market-speed 240 --transient 1 -- $tests/sum_app "
             "--data ratings --iterations 3");
    run_well("test -z \"$(ls tmp)\"");
    assert_nobody_left();
}

int main(void) {
    return tests_run(set_up, files_close);
}
