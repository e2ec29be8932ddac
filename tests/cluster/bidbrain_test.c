/* bidbrain as a user runs it. This file recomputes bills from --log and the trace with code of its own. Later prices
 * must not change earlier actions, figures must add up, and wrong command lines and files must end with one line and
 * exit status 2. */

#include "bidbrain/market/market_store.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MARKETS = 4, POINTS_MAX = 6000, JOBS_MAX = 64, ALLOCATIONS_MAX = 512, SCHEMES_MAX = 16 };
#define FIRST INT64_C(1456790400) /* 2016-03-01 */
#define LAST  (FIRST + INT64_C(14) * 86400)

static const char *const TYPES[MARKETS] = {"m3.large", "c3.xlarge", "m4.4xlarge", "r3.large"};
static const int64_t USUAL[MARKETS] = {19000, 36000, 150000, 18000}; /* micro-dollars */

struct series {
    int64_t times[POINTS_MAX], prices[POINTS_MAX];
    int count;
};

static struct series series[MARKETS];
static uint64_t random_state = 1;

static uint64_t draw(void) {
    random_state = random_state * 6364136223846793005U + 1442695040888963407U;
    return random_state >> 33;
}

/* Writes prices that wander and sometimes jump to many times as much for a while. After `change` they follow other
 * random numbers. */
static void write_prices(int64_t change, uint64_t other) {
    char path[128];
    for (int m = 0; m < MARKETS; m++) {
        struct series *s = &series[m];
        random_state = 77 + (uint64_t)m;
        s->count = 0;
        snprintf(path, sizeof path, "prices/%s-us-east-1a.csv", TYPES[m]);
        FILE *file = open_file(path, "w");
        fprintf(file, "timestamp_utc,price_usd\n");
        bool changed = false;
        for (int64_t t = FIRST; t <= LAST; t = t == LAST ? LAST + 1 : t + 120 + (int64_t)(draw() % 900)) {
            if (t > change && !changed) {
                random_state += other;
                changed = true;
            }
            t = t + 1200 > LAST && t != LAST ? LAST : t; /* every variant has the same first and last time */
            int64_t price = USUAL[m] + (int64_t)(draw() % 4000) * USUAL[m] / 40000;
            price = draw() % 60 == 0 ? price * 30 : price;
            time_t when = (time_t)t;
            char text[40];
            strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&when));
            fprintf(file, "%s,%" PRId64 ".%06" PRId64 "\n", text, price / 1000000, price % 1000000);
            assert_true(s->count < POINTS_MAX);
            s->times[s->count] = t;
            s->prices[s->count++] = price;
        }
        assert_int_equal(fclose(file), 0);
    }
}

static int set_up(void **unused) {
    return shell_open(unused) != 0 || mkdir("prices", 0700) != 0 ? -1 : 0;
}

static int64_t price_at(int m, int64_t time) {
    int64_t price = -1;
    for (int i = 0; i < series[m].count && series[m].times[i] <= time; i++) {
        price = series[m].prices[i];
    }
    return price;
}

static int market_of(const char *name) {
    for (int m = 0; m < MARKETS; m++) {
        if (strncmp(name, TYPES[m], strlen(TYPES[m])) == 0 && name[strlen(TYPES[m])] == '/') {
            return m;
        }
    }
    fail_msg("unknown market %s", name);
    return -1;
}

static int64_t seconds_of(const char *text) {
    struct tm tm = {0};
    assert_non_null(strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm));
    return (int64_t)timegm(&tm);
}

/* ---- The rules of billing, implemented again ---- */

enum end { RELEASED, EVICTED, SHARED };

/* Returns micro-dollars. The sums are small enough to be exact as real numbers. */
static double spot_bill(bool today, int m, int64_t start, int64_t end, enum end how) {
    double total = 0;
    bool first = true;
    for (int64_t hour = start; hour < end || first; hour += 3600, first = false) {
        double price = (double)price_at(m, hour);
        int64_t used = end - hour;
        if (used >= 3600) {
            total += price;
        } else if (how == SHARED) {
            total += price * (double)used / 3600;
        } else if (how == EVICTED) {
            total += today && !first ? price * (double)used / 3600 : 0;
        } else if (today) {
            total += price * (double)(first && used < 60 ? 60 : used) / 3600;
        } else {
            total += price;
        }
    }
    return total;
}

static double on_demand_bill(bool today, double price, int64_t seconds, bool shared) {
    if (shared || today) {
        return price * (double)(today && !shared && seconds < 60 ? 60 : seconds) / 3600;
    }
    return price * ceil((double)seconds / 3600);
}

struct running {
    int market;
    int64_t start, bid, count;
    bool runs;
};

/* Recomputes the bill of each job of the log. Returns the number of jobs. */
static int check_log(bool today, bool prices_evict) {
    char line[1024];
    static struct running running[ALLOCATIONS_MAX];
    double cost = 0;
    double reliable_price = 0;
    int64_t start = 0;
    int jobs = 0;
    FILE *file = open_file("log", "r");
    double reliable_count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        json_auto_t *entry = json_loads(line, 0, NULL);
        assert_non_null(entry);
        const char *action = json_string_value(json_object_get(entry, "action"));
        int64_t time = seconds_of(json_string_value(json_object_get(entry, "time")));
        json_int_t id = json_integer_value(json_object_get(entry, "allocation"));
        assert_true(id >= 0 && id < ALLOCATIONS_MAX);
        struct running *allocation = &running[id];
        if (strcmp(action, "job-start") == 0) {
            memset(running, 0, sizeof running);
            cost = reliable_count = 0;
            start = time;
        } else if (strcmp(action, "ondemand") == 0) {
            reliable_count = json_number_value(json_object_get(entry, "count"));
            reliable_price = json_number_value(json_object_get(entry, "price")) * 1e6;
        } else if (strcmp(action, "acquire") == 0) {
            *allocation = (struct running){.market = market_of(json_string_value(json_object_get(entry, "market"))),
                                           .start = time,
                                           .bid = llround(json_number_value(json_object_get(entry, "bid")) * 1e6),
                                           .count = json_integer_value(json_object_get(entry, "count")),
                                           .runs = true};
            assert_int_equal(llround(json_number_value(json_object_get(entry, "price")) * 1e6),
                             price_at(allocation->market, time));
            assert_true(allocation->bid >= price_at(allocation->market, time));
        } else if (strcmp(action, "evicted") == 0 || strcmp(action, "release") == 0) {
            bool evicted = *action == 'e';
            assert_true(allocation->runs);
            if (prices_evict) { /* if evicted, the price is above the bid now and was not before */
                assert_int_equal(evicted, price_at(allocation->market, time) > allocation->bid);
                for (int i = 0; i < series[allocation->market].count; i++) {
                    int64_t at = series[allocation->market].times[i];
                    assert_true(at < allocation->start || at >= time ||
                                series[allocation->market].prices[i] <= allocation->bid);
                }
            }
            json_int_t count = json_integer_value(json_object_get(entry, "count")); /* some may go at the end */
            assert_true(count > 0 && count <= allocation->count);
            cost += (double)count *
                    spot_bill(today, allocation->market, allocation->start, time, evicted ? EVICTED : RELEASED);
            allocation->count -= count;
            allocation->runs = allocation->count > 0;
        } else {
            assert_string_equal(action, "job-end");
            bool shared = strcmp(json_string_value(json_object_get(entry, "accounting")), "shared") == 0;
            for (int a = 0; a < ALLOCATIONS_MAX; a++) {
                assert_true(shared || !running[a].runs);
                cost += running[a].runs ? (double)running[a].count *
                                              spot_bill(today, running[a].market, running[a].start, time, SHARED)
                                        : 0;
            }
            cost += reliable_count * on_demand_bill(today, reliable_price, time - start, shared);
            double logged = json_number_value(json_object_get(entry, "cost")) * 1e6;
            if (fabs(logged - cost) > 1e-6 * (1 + cost)) {
                fail_msg("job %d: %.3f micro-dollars recomputed, %.3f logged", jobs, cost, logged);
            }
            jobs++;
        }
    }
    fclose(file);
    return jobs;
}

static void check_bills(const char *more, bool today, bool prices_evict) {
    char arguments[800];
    write_prices(LAST, 0);
    snprintf(arguments, sizeof arguments,
             "simulate --prices prices --starts 12 --job-hours 3 --machines 16 --json --log log %s", more);
    assert_int_equal(run("$bin/bidbrain %s", arguments), 0);
    json_auto_t *root = json_load_file("out", 0, NULL);
    assert_non_null(root);
    size_t schemes = json_array_size(json_object_get(root, "schemes"));
    assert_true(schemes >= 8);
    assert_int_equal(check_log(today, prices_evict), 12 * (int)schemes);
    for (size_t s = 0; s < schemes; s++) {
        const json_t *scheme = json_array_get(json_object_get(root, "schemes"), s);
        assert_true(json_number_value(json_object_get(json_object_get(scheme, "cost"), "mean")) > 0);
        assert_non_null(json_object_get(json_object_get(json_object_get(scheme, "hours"), "free"), "ci95"));
        assert_int_equal(json_integer_value(json_object_get(scheme, "unfinished")), 0);
    }
}

TEST(bills_of_2016_can_be_recomputed) {
    check_bills("", false, true);
    check_bills("--whole-hours --sigma-seconds 300 --lambda-seconds 600", false, true);
    check_bills("--cooldown-seconds 1800 --least-markets 2 --checkpoint-seconds 30", false, true);
}

TEST(bills_of_today_can_be_recomputed) {
    FILE *file = open_file("lifetimes.txt", "w");
    for (int i = 1; i <= 50; i++) {
        fprintf(file, "%g\t%g\n", i * i * 0.004, i / 50.0);
    }
    assert_int_equal(fclose(file), 0);
    check_bills("--model ec2 --interruptions lifetimes:lifetimes.txt", true, false);
    check_bills("--model ec2 --whole-hours --interruptions lifetimes:lifetimes.txt", true, false);
}

/* Returns the log's lines before a moment, sorted, because jobs that continue differ in length. */
static char *log_before(int64_t change, size_t *size) {
    char line[1024];
    char *text = NULL;
    FILE *file = open_file("log", "r");
    FILE *out = open_memstream(&text, size);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *time = strstr(line, "\"time\":\"");
        assert_non_null(time);
        if (seconds_of(time + 8) <= change) {
            fputs(line, out);
        }
    }
    fclose(out);
    fclose(file);
    return text;
}

/* Prices that differ only after a moment change no action before it: decisions do not use later prices. */
TEST(later_prices_change_nothing_before) {
    char *before[3];
    size_t size[3];
    int64_t change = FIRST + 11 * 86400 + 4321;
    for (int variant = 0; variant < 3; variant++) {
        write_prices(change, (uint64_t)variant * 1000003U);
        assert_int_equal(
            run("$bin/bidbrain simulate --prices prices --starts 40 --job-hours 12 --machines 16 --seed 5 --log log"),
            0);
        before[variant] = log_before(change, &size[variant]);
    }
    FREED char *last;
    size_t last_size;
    last = log_before(INT64_MAX, &last_size);
    assert_true(size[0] > 10000 && last_size > size[2] + 10000); /* many actions before the change, and many after it */
    for (int variant = 1; variant < 3; variant++) {
        assert_int_equal(size[variant], size[0]);
        assert_memory_equal(before[variant], before[0], size[0]);
    }
    for (int variant = 0; variant < 3; variant++) {
        free(before[variant]);
    }
}

TEST(threads_do_not_matter) {
    char arguments[600];
    FREED char *first = NULL;
    write_prices(LAST, 0);
    for (int threads = 1; threads <= 3; threads++) {
        snprintf(arguments, sizeof arguments, "simulate --prices prices --starts 20 --json --threads %d", threads);
        assert_int_equal(run("$bin/bidbrain %s", arguments), 0);
        if (first == NULL) {
            first = read_text("out");
        } else {
            assert_file("out", first);
        }
    }
}

/* The two types with the cheapest vCPUs work at a third of the speed. */
TEST(measured_speeds_save_money) {
    write_prices(LAST, 0);
    write_text("speeds.json", "{\"c3.xlarge\": 0.3, \"r3.large\": 0.3}");
    assert_int_equal(run("$bin/bidbrain simulate --prices prices --starts 20 --job-hours 6 --machines 16 --json "
                         "--speeds speeds.json "
                         "--schemes proteus+additions,proteus+speeds,proteus+true-speeds"),
                     0);
    json_t *root = json_load_file("out", 0, NULL);
    double dollars[3];
    double hours[3];
    for (size_t s = 0; s < 3; s++) {
        const json_t *scheme = json_array_get(json_object_get(root, "schemes"), s);
        dollars[s] = json_number_value(json_object_get(json_object_get(scheme, "cost"), "mean"));
        hours[s] = json_number_value(json_object_get(json_object_get(scheme, "runtime_hours"), "mean"));
    }
    json_decref(root);
    assert_true(dollars[1] < 0.9 * dollars[0] && hours[1] < hours[0]);
    assert_true(dollars[2] < 0.9 * dollars[0] && hours[2] < hours[0]);
    write_text("app.json", "{\"work_vcpu_hours\": 1000, \"most_vcpus\": 100}");
    assert_int_equal(run("$bin/bidbrain advise --json --prices prices --app app.json --speeds speeds.json"), 0);
    root = json_load_file("out", 0, NULL);
    assert_int_equal(json_array_size(json_object_get(root, "actions")) > 0, 1);
    const json_t *first = json_array_get(json_object_get(root, "actions"), 0);
    int market = market_of(json_string_value(json_object_get(first, "market")));
    assert_true(market == 0 || market == 2);
    assert_true(json_number_value(json_object_get(root, "vcpus")) <= 100);
    json_decref(root);
}

static void write_profile(const char *text) {
    write_text("app.json", text);
}

TEST(advice_adds_up) {
    write_prices(LAST, 0);
    write_profile("{\"work_vcpu_hours\": 1000, \"most_vcpus\": 100, \"least_markets\": 2}");
    assert_int_equal(run("$bin/bidbrain advise --json --prices prices --app app.json"), 0);
    json_auto_t *root = json_load_file("out", 0, NULL);
    assert_non_null(root);
    const json_t *candidates = json_object_get(root, "candidates");
    assert_int_equal(json_array_size(candidates), MARKETS);
    double before = 0;
    for (size_t i = 0; i < MARKETS; i++) { /* ordered by E_A = C_A / W_A, with each price from the trace */
        const json_t *x = json_array_get(candidates, i);
        double e = json_number_value(json_object_get(x, "cost_per_work"));
        double cost = json_number_value(json_object_get(x, "cost"));
        assert_true(fabs(e - cost / json_number_value(json_object_get(x, "work"))) < 1e-6 * e);
        assert_true(e >= before);
        before = e;
        int m = market_of(json_string_value(json_object_get(x, "market")));
        assert_int_equal(llround(json_number_value(json_object_get(x, "price")) * 1e6), price_at(m, LAST));
    }
    double e = 0;
    assert_true(json_array_size(json_object_get(root, "actions")) >= 1);
    for (size_t a = 0; a < json_array_size(json_object_get(root, "actions")); a++) {
        e = json_number_value(json_object_get(json_array_get(json_object_get(root, "actions"), a), "cost_per_work"));
    }
    assert_true(json_number_value(json_object_get(root, "vcpus")) <= 100);
    assert_true(fabs(json_number_value(json_object_get(root, "expected_cost")) - 1000 * e) < 1e-5 * 1000 * e);
    assert_int_equal(run("$bin/bidbrain calibrate --prices prices"), 0);
    assert_text("out", "worst difference");
}

TEST(wrong_profiles_are_explained) {
    char arguments[300];
    static const char *const examples[][2] = {
        {"{", "app.json:1: "},
        {"[]", "app.json: expected a JSON object"},
        {"{\"most_vcpus\": 10}", "app.json: work_vcpu_hours is missing: expected a number"},
        {"{\"most_vcpus\": \"x\"}", "app.json: most_vcpus: expected a number from 1 to 1e+09"},
        {"{\"work_vcpu_hours\": 1, \"most_vcpus\": 10, \"phy\": 1}", "app.json: unknown member 'phy'"},
        {"{\"work_vcpu_hours\": 1, \"most_vcpus\": 10, \"phi\": 2}", "app.json: phi: expected a number"},
        {"{\"work_vcpu_hours\": 1, \"most_vcpus\": 10, \"reliable_type\": \"x\"}", "reliable_type: 'x' has no price"},
        {"{\"work_vcpu_hours\": 1, \"most_vcpus\": 10, \"vcpus_min\": 999}", "no market to buy in"},
    };
    write_prices(LAST, 0);
    snprintf(arguments, sizeof arguments, "advise --prices prices --app app.json");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        write_profile(examples[i][0]);
        assert_int_equal(run("$bin/bidbrain %s", arguments), 2);
        assert_text("err", examples[i][1]);
    }
    write_profile("{\"work_vcpu_hours\": 1, \"most_vcpus\": 10}");
    assert_int_equal(run("$bin/bidbrain advise --prices prices --app app.json --at 2016-02-01T00:00:00Z"), 2);
    assert_text("err", "--at: expected a time from 2016-03-01T00:00:00Z to 2016-03-15T00:00:00Z");
}

TEST(wrong_speeds_are_explained) {
    char arguments[300];
    static const char *const examples[][2] = {
        {"[", "speeds.json: "},
        {"{}", "speeds.json: no types: expected an object such as {\"m1.large\": 0.5}"},
        {"{\"m3.large\": 0}", "speeds.json: 'm3.large': expected a number above 0, at most 100"},
        {"{\"m3.large\": \"1\"}", "speeds.json: 'm3.large': expected a number above 0"},
        {"{\"x\": 1}", "--speeds: 'x' has no price in us-east-1: expected a type of the catalog"},
        {"{\"c4.2xlarge\": 0.5}", "'c4.2xlarge' is the reference: expected 1"},
    };
    write_prices(LAST, 0);
    snprintf(arguments, sizeof arguments, "simulate --prices prices --speeds speeds.json --starts 1");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        write_text("speeds.json", examples[i][0]);
        assert_int_equal(run("$bin/bidbrain %s", arguments), 2);
        assert_text("err", examples[i][1]);
    }
}

TEST(markets_of_two_regions_are_not_mixed) {
    write_text("two.csv", "timestamp,price,instance_type,zone,product\n"
                          "2016-03-01T00:00:00Z,0.03,c3.xlarge,us-east-1a,Linux/UNIX\n"
                          "2016-03-01T00:00:00Z,0.02,c3.xlarge,eu-west-1a,Linux/UNIX\n");
    write_profile("{\"work_vcpu_hours\": 1, \"most_vcpus\": 10}");
    assert_int_equal(run("$bin/bidbrain advise --prices two.csv --app app.json"), 2);
    assert_text("err", "prices of several regions, eu-west-1 and us-east-1");
    assert_int_equal(run("$bin/bidbrain advise --prices two.csv --app app.json --zone us-east-1"), 0);
    assert_text("out", "c3.xlarge/us-east-1a, bid");
}

/* Of a store with several products only the requested product is used. */
TEST(a_store_is_read_by_product) {
    char arguments[400];
    struct markets markets = {0};
    struct market_store *store;
    struct error error = {0};
    static const char *const products[2] = {"Linux/UNIX", "Windows"};
    static const int64_t prices[2] = {30000, 20000};
    for (int p = 0; p < 2; p++) {
        assert_int_equal(markets_add(&markets, "c3.xlarge", "us-east-1a", products[p],
                                     (struct market_point){.time = FIRST, .price = prices[p]}, &error),
                         0);
    }
    markets_finish(&markets);
    assert_int_equal(market_store_open(&store, "two.db", &error), 0);
    assert_int_equal(market_store_append(store, &markets, &error), 0);
    market_store_close(store);
    markets_close(&markets);
    write_profile("{\"work_vcpu_hours\": 1, \"most_vcpus\": 10}");
    for (int p = 0; p < 2; p++) {
        snprintf(arguments, sizeof arguments, "advise --json --prices two.db --app app.json --product %s", products[p]);
        assert_int_equal(run("$bin/bidbrain %s", arguments), 0);
        json_auto_t *root = json_load_file("out", 0, NULL);
        assert_non_null(root);
        const json_t *candidates = json_object_get(root, "candidates");
        assert_int_equal(json_array_size(candidates), 1);
        assert_int_equal(llround(1e6 * json_number_value(json_object_get(json_array_get(candidates, 0), "price"))),
                         prices[p]);
    }
    assert_int_equal(run("$bin/bidbrain advise --prices two.db --app app.json --product SUSE"), 2);
    assert_text("err", "no prices of product 'SUSE'");
}

/* An interrupted run keeps the log of an earlier run. */
TEST(an_interrupted_run_keeps_the_older_log) {
    write_prices(LAST, 0);
    write_text("older", "older\n");
    char program[200];
    snprintf(program, sizeof program, "%s/bidbrain", getenv("PROTEUS_BIN"));
    pid_t child = fork();
    if (child == 0) { /* far more starts than can be simulated in a second */
        signal(SIGINT, SIG_DFL);
        execl(program, program, "simulate", "--prices", "prices", "--starts", "100000", "--log", "older", (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    sleep(1);
    assert_int_equal(kill(child, SIGINT), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_file("older", "older\n");
    static const char again[] = "$bin/bidbrain simulate --prices prices --starts 1 --schemes on-demand --log older";
    assert_int_equal(run(again), 0); /* a run that completes replaces the log */
    FREED char *first = read_text("older");
    assert_int_equal(strncmp(first, "{\"job\":0", 8), 0);
    assert_int_equal(run(again), 0);
    assert_file("older", first);
}

TEST(wrong_use_is_explained_in_one_line) {
    write_prices(LAST, 0);
    static const struct {
        const char *arguments, *message;
    } examples[] = {
        {"", "no command; see --help"},
        {"simulat", "unknown command 'simulat'"},
        {"simulate", "--prices PATH is missing"},
        {"simulate --prices /nowhere", "/nowhere: No such file or directory"},
        {"simulate --prices none.db", "none.db: No such file or directory"},
        {"simulate --prices prices --model ec3", "--model: expected ec2-2016 or ec2, got 'ec3'"},
        {"simulate --prices prices --job-hours 500", "no room to start jobs of 500 hours"},
        {"simulate --prices prices --job-hours -1", "--job-hours: expected a number from 0.01 to 1000"},
        {"simulate --prices prices --zone mars-1a", "no market to buy in"},
        {"simulate --prices prices --reference c9.none", "--reference: 'c9.none' has no price in us-east-1"},
        {"simulate --prices prices --schemes proteus+speeds", "counts machines by their speeds: expected --speeds"},
        {"simulate --prices prices --speeds /nowhere", "--speeds: /nowhere: "},
        {"simulate --prices prices --probe-types 9", "--probe-types: expected a whole number from 0 to 8"},
        {"simulate --prices prices --schemes proteus+luck", "--schemes: 'proteus+luck'"},
        {"simulate --prices prices --interruptions none:x", "--interruptions: works with --model ec2 only"},
        {"simulate --prices prices --model ec2 --interruptions luck", "--interruptions: expected none, advisor:FILE"},
        {"simulate --prices prices --product Windows", "no prices of product 'Windows'"},
        {"simulate --prices prices --start 3", "unknown option '--start'; did you mean '--starts'"},
        {"simulate --prices prices more", "unexpected argument 'more'"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        assert_int_equal(run("$bin/bidbrain %s", examples[i].arguments), 2);
        FREED char *text = read_text("err");
        if (strstr(text, examples[i].message) == NULL) {
            fail_msg("'%s' says: %s", examples[i].arguments, text);
        }
        assert_true(strncmp(text, "bidbrain: ERROR: ", 17) == 0 || strncmp(text, "bidbrain: error: ", 17) == 0);
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    }
    assert_int_equal(access("none.db", F_OK), -1); /* a query does not create a store */
    assert_int_equal(run("$bin/bidbrain --help"), 0);
    assert_int_equal(run("$bin/bidbrain simulate --help"), 0);
    assert_text("out", "--job-hours H");
}

int main(void) {
    return tests_run(set_up, files_close);
}
