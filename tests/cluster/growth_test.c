/* Descriptors and memory of long-lived processes do not grow with a job's history. Nodes join, are evicted and killed.
 * Launcher, controller, reliable nodes, bidbrain and spotmarket then use as much as before with as many nodes.
 * bench/chaos --soak does the same for a thousand events. Time limits only end a hang. */
#include <signal.h>

#include "agileml/base/clock.h"
#include "tests/cluster/processes.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

enum {
    HANG_MS = 120 * 1000,
    POLL_MS = 50,
    CALM_POLLS = 40, /* polls that note usage: an abandoned connection lasts a second or more */
    WATCHED_MAX = 8,
    /* A link has three or four descriptors. A server opens its own link to another node when it first has a message for
     * it, so with as many nodes there may be a few links more. A leak for each of the 20 nodes that come and go would
     * exceed this. */
    DESCRIPTORS_MORE = 12,
    /* The report's lines, which the controller keeps for late readers, a few bytes for each past node, and the
     * allocator's fragments. */
    BYTES_MORE = 6 << 20,
};

static struct watched {
    const char *name;
    pid_t pid;
    struct process_usage before;
} watched[WATCHED_MAX];
static unsigned watched_count;

static long number_in(const char *name) {
    FREED char *text = read_text(name);
    long number = atol(text);
    return number;
}

static pid_t launcher(void) {
    return (pid_t)number_in("pid");
}

/* Counts the text in the file; the job must still run. */
static unsigned times_in(const char *name, const char *text) {
    unsigned times = 0;
    FREED char *status = read_text("status");
    if (status[0] != '\0') {
        fail_msg("the job ended with status %s: %s", status, read_text("said"));
    }
    FREED char *all = read_text(name);
    for (const char *at = strstr(all, text); at != NULL; at = strstr(at + 1, text)) {
        times++;
    }
    return times;
}

static void wait_for(const char *name, const char *text, unsigned times) {
    for (int waited = 0; times_in(name, text) < times; waited += POLL_MS) {
        if (waited >= HANG_MS) {
            fail_msg("'%s' is not %u times in %s: %s", text, times, name, read_text(name));
        }
        clock_pause_ms(POLL_MS);
    }
}

static pid_t child(const char *text) {
    pid_t found = process_child(launcher(), text);
    if (found == 0) {
        fail_msg("the launcher has no child with '%s'", text);
    }
    return found;
}

static void watch(const char *name, pid_t pid) {
    assert_true(watched_count < WATCHED_MAX);
    watched[watched_count++] = (struct watched){.name = name, .pid = pid};
}

static unsigned least(unsigned one, unsigned other) {
    return one < other ? one : other;
}

/* Records the fewest descriptors and the most memory over some time. */
static void note_before(void) {
    for (unsigned w = 0; w < watched_count; w++) {
        watched[w].before = process_usage(watched[w].pid);
    }
    for (unsigned poll = 0; poll < CALM_POLLS; poll++) {
        clock_pause_ms(POLL_MS);
        for (unsigned w = 0; w < watched_count; w++) {
            struct process_usage now = process_usage(watched[w].pid);
            struct process_usage *before = &watched[w].before;
            before->descriptors = least(before->descriptors, now.descriptors);
            before->bytes = now.bytes > before->bytes ? now.bytes : before->bytes;
        }
    }
}

static bool has_grown(const struct process_usage *before, const struct process_usage *now) {
    return now->descriptors == 0 || now->descriptors > before->descriptors + DESCRIPTORS_MORE ||
           (!sanitized() && now->bytes > before->bytes + BYTES_MORE); /* sanitizers keep freed memory for a while */
}

/* Waits until no process uses more than before: closing may take time. */
static void expect_as_before(void) {
    enum { LIMIT_MS = 15 * 1000 };
    for (unsigned w = 0; w < watched_count; w++) {
        const struct process_usage *before = &watched[w].before;
        struct process_usage now = process_usage(watched[w].pid);
        for (int waited = 0; has_grown(before, &now) && waited < LIMIT_MS; waited += POLL_MS) {
            clock_pause_ms(POLL_MS);
            now = process_usage(watched[w].pid);
        }
        print_message("%s: %u descriptors and %.1f MB before, %u and %.1f after\n", watched[w].name,
                      before->descriptors, (double)before->bytes / 1e6, now.descriptors, (double)now.bytes / 1e6);
        assert_false(has_grown(before, &now));
    }
}

/* Starts `proteus run` with these options on sum_app. */
static void begin(const char *options) {
    watched_count = 0;
    run_well("rm -f pid status report; (sh -c 'echo $$ >pid; exec \"$@\"' - $run %s -- $tests/sum_app --data ratings "
             "--clocks-per-iteration 4 --slow-us 2000 --iterations 100000000 >job 2>said; echo $? >status) & true",
             options);
    wait_for("report", "\"event\":\"start\"", 1);
    watch("proteus run", launcher());
    watch("the controller", child("--failure-timeout="));
}

static void end(void) {
    run_well("$bin/proteus stop --controller $(sed -n 's/^controller at //p' job) >stopped && "
             "while [ ! -s status ]; do sleep 0.05; done");
    assert_int_equal(number_in("status"), 0);
    assert_text("report", "\"ok\":true");
}

static void test_nodes_that_come_and_go(void **state) {
    enum { WARM_UP = 2, ROUNDS = 12, RELIABLE = 2, TRANSIENT = 2 };
    FILE *events = open_file("events", "w");
    for (unsigned round = 0; round < ROUNDS; round++) { /* the first rounds at once, the others after them */
        fprintf(events, "iteration %u join transient 2\n", round < WARM_UP ? 20 : 300 + 30 * round);
    }
    assert_int_equal(fclose(events), 0);
    begin("--reliable 2 --transient 2 --stage 2 --failure-timeout 10 --events events");
    watch("node-1", child("--name=node-1"));
    watch("node-2", child("--name=node-2"));
    for (unsigned round = 0; round < ROUNDS; round++) { /* evicts the two oldest transient nodes, which serve */
        unsigned oldest = RELIABLE + 2 * round + 1;
        char name[32];
        wait_for("report", "\"event\":\"join\"", RELIABLE + TRANSIENT + 2 * (round + 1));
        run_well("$bin/proteus evict --controller $(sed -n 's/^controller at //p' job) --notice 60s node-%u", oldest);
        snprintf(name, sizeof name, "--name=node-%u", oldest + 1);
        assert_int_equal(kill(child(name), SIGKILL), 0);
        wait_for("report", "\"event\":\"failure\"", round + 1);
        wait_for("report", "\"event\":\"evicted\"", round + 1);
        if (round == WARM_UP - 1) {
            note_before();
        }
    }
    expect_as_before();
    end();
}

/* Every five minutes the price of one of two types falls and the other's rises above all bids. */
static void write_prices(void) {
    run_well("mkdir prices; for t in 0 1; do "
             "case $t in 0) f=c4.xlarge-us-east-1a ;; 1) f=m4.xlarge-us-east-1b ;; esac; "
             "{ echo timestamp_utc,price_usd; echo 2016-03-01T00:00:00Z,0.0$((30 + t)); m=5; while [ $m -lt 300 ]; do "
             "printf '2016-03-03T%%02d:%%02d:00Z,%%s\\n' $((m / 60)) $((m %% 60)) "
             "$([ $((m / 5 %% 2)) = $t ] && echo 0.0$((30 + t)) || echo 5.0); m=$((m + 5)); done; "
             "echo 2016-03-04T00:00:00Z,0.03; } >prices/$f.csv; done");
}

static void test_machines_that_are_bought_and_taken(void **state) {
    enum { MACHINES = 3, BEFORE = 2 * MACHINES, TAKEN = 8 * MACHINES };
    write_prices();
    begin("--market prices --market-start 2016-03-03T00:00:00Z --market-speed 240 --transient 3 --failure-timeout 10");
    watch("bidbrain", child("bidbrain.json"));
    watch("spotmarket", child("spotmarket"));
    wait_for("job", "is taken by the cloud", BEFORE);
    note_before();
    wait_for("job", "is taken by the cloud", TAKEN);
    expect_as_before();
    end();
}

/* Ends the job of a failed test: all its processes end with the launcher. */
static int end_what_is_left(void **state) {
    FREED char *pid = read_text("pid");
    FREED char *status = read_text("status");
    if (pid[0] != '\0' && status[0] == '\0') {
        kill(launcher(), SIGKILL);
    }
    return 0;
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    run_well("for u in $(seq 60); do for i in $(seq 1 $((1 + u %% 3)) 40); do echo $u $i $(((u * i) %% 5 + 1)); done; "
             "done >ratings");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_nodes_that_come_and_go, end_what_is_left),
        cmocka_unit_test_teardown(test_machines_that_are_bought_and_taken, end_what_is_left),
    };
    return cmocka_run_group_tests(tests, set_up, files_close);
}
