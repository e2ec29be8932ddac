/* bidbrain/daemon/ledger: a written state survives a kill, and only one process may write. A file that is no state,
 * is damaged, or belongs to another job is refused in one line. */

#include "bidbrain/daemon/ledger.h"
#include "tests/files.h"
#include "tests/test.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *path;

static const struct ledger_launch LAUNCH = {.launch = {.token = "j-1",
                                                       .kind = PROVIDER_SPOT,
                                                       .type = "c4.xlarge",
                                                       .zone = "us-east-1a",
                                                       .product = "Linux/UNIX",
                                                       .count = 3,
                                                       .bid = 123456},
                                            .planned = 1456790400};
static const struct ledger_machine MACHINE = {.machine = {.id = "i-1",
                                                          .token = "j-1",
                                                          .type = "c4.xlarge",
                                                          .zone = "us-east-1a",
                                                          .state = MACHINE_RUNNING,
                                                          .launched = 1456790401},
                                              .bid = 123456,
                                              .running = 1456790402};

struct seen {
    size_t launches, machines, markets;
    struct ledger_launch launch;
    struct ledger_machine machine;
    struct ledger_market market;
};

static void see_launch(void *context, const struct ledger_launch *launch) {
    struct seen *seen = context;
    seen->launches++;
    seen->launch = *launch;
}

static void see_machine(void *context, const struct ledger_machine *machine) {
    struct seen *seen = context;
    seen->machines++;
    seen->machine = *machine;
}

static void see_market(void *context, const struct ledger_market *market) {
    struct seen *seen = context;
    seen->markets++;
    seen->market = *market;
}

static struct seen look(struct ledger *ledger) {
    struct seen seen = {0};
    assert_int_equal(ledger_launches(ledger, see_launch, &seen, NULL), 0);
    assert_int_equal(ledger_machines(ledger, see_machine, &seen, NULL), 0);
    assert_int_equal(ledger_markets(ledger, see_market, &seen, NULL), 0);
    return seen;
}

static int set_up(void **state) {
    path = "state.db";
    return files_open(state);
}

static struct ledger *opened(enum ledger_mode mode) {
    struct ledger *ledger = NULL;
    struct error error = {0};
    if (ledger_open(&ledger, path, "j", mode, &error) != 0) {
        fail_msg("%s", error.text);
    }
    return ledger;
}

static void assert_refused(const char *job, enum ledger_mode mode, const char *expected) {
    struct ledger *ledger = NULL;
    struct error error = {0};
    assert_int_equal(ledger_open(&ledger, path, job, mode, &error), AML_EINPUT);
    if (strstr(error.text, expected) == NULL || strstr(error.text, path) == NULL) {
        fail_msg("'%s' is not in '%s'", expected, error.text);
    }
}

TEST(keeps_what_is_put) {
    struct ledger *ledger = opened(LEDGER_WRITE);
    struct ledger_launch launch = LAUNCH;
    struct ledger_machine machine = MACHINE;
    struct ledger_market market = {
        .type = "*", .zone = "*", .kind = PROVIDER_ON_DEMAND, .closed_until = 5, .failures = 2};
    double value = 1;
    assert_int_equal(ledger_put_launch(ledger, &launch, NULL), 0);
    launch.stage = LEDGER_REFUSED;
    strcpy(launch.code, "SpotMaxPriceTooLow");
    assert_int_equal(ledger_put_launch(ledger, &launch, NULL), 0);
    assert_int_equal(ledger_put_machine(ledger, &machine, NULL), 0);
    machine.how = LEDGER_EVICTED;
    machine.ended = 1456794000;
    machine.machine.state = MACHINE_GONE;
    assert_int_equal(ledger_put_machine(ledger, &machine, NULL), 0);
    assert_int_equal(ledger_put_market(ledger, &market, NULL), 0);
    market.closed_until = 6;
    assert_int_equal(ledger_put_market(ledger, &market, NULL), 0);
    assert_int_equal(ledger_value(ledger, "sigma", &value, NULL), 0);
    assert_true(value == 1);
    assert_int_equal(ledger_put_value(ledger, "sigma", 2.5, NULL), 0);
    ledger_close(ledger);
    ledger = opened(LEDGER_WRITE);
    struct seen seen = look(ledger);
    assert_int_equal(seen.launches, 1);
    assert_string_equal(seen.launch.launch.token, "j-1");
    assert_int_equal(seen.launch.launch.count, 3);
    assert_int_equal(seen.launch.launch.bid, 123456);
    assert_int_equal(seen.launch.stage, LEDGER_REFUSED);
    assert_string_equal(seen.launch.code, "SpotMaxPriceTooLow");
    assert_int_equal(seen.machines, 1);
    assert_int_equal(seen.machine.how, LEDGER_EVICTED);
    assert_int_equal(seen.machine.ended, 1456794000);
    assert_int_equal(seen.machine.running, 1456790402);
    assert_int_equal(seen.markets, 1);
    assert_int_equal(seen.market.closed_until, 6);
    assert_int_equal(ledger_value(ledger, "sigma", &value, NULL), 0);
    assert_true(value == 2.5);
    ledger_close(ledger);
}

TEST(a_kill_loses_nothing) {
    int go[2];
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) { /* the child writes launches and reports each until it is killed */
        struct ledger *ledger = NULL;
        struct ledger_launch launch = LAUNCH;
        int code = ledger_open(&ledger, path, "j", LEDGER_WRITE, NULL);
        for (unsigned i = 0; code == 0; i++) {
            snprintf(launch.launch.token, sizeof launch.launch.token, "kill-%u", i);
            code = ledger_put_launch(ledger, &launch, NULL);
            code = code == 0 && write(go[1], "x", 1) == 1 ? 0 : 1;
        }
        _exit(1);
    }
    char byte;
    size_t told = 0;
    for (; told < 20; told++) {
        assert_int_equal(read(go[0], &byte, 1), 1);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(go[1]);
    while (read(go[0], &byte, 1) == 1) {
        told++;
    }
    close(go[0]);
    struct ledger *ledger = opened(LEDGER_WRITE);
    struct seen seen = look(ledger);
    /* a launch of an earlier test, and perhaps one written but not yet reported */
    assert_in_range(seen.launches, told, told + 1 + 1);
    ledger_close(ledger);
}

TEST(one_process_at_a_time) {
    struct ledger *ledger = opened(LEDGER_WRITE);
    assert_refused("j", LEDGER_WRITE, "another bidbrain works with this state");
    struct ledger *reader = opened(LEDGER_READ); /* a second process may read */
    struct ledger *copy = opened(LEDGER_COPY);
    struct ledger_machine machine = MACHINE;
    strcpy(machine.machine.id, "i-copy");
    assert_int_equal(ledger_put_machine(copy, &machine, NULL), 0);
    size_t machines = look(reader).machines;
    assert_int_equal(look(copy).machines, machines + 1); /* changes in memory only */
    ledger_close(copy);
    ledger_close(reader);
    ledger_close(ledger);
    ledger = opened(LEDGER_WRITE);
    assert_int_equal(look(ledger).machines, machines);
    ledger_close(ledger);
}

TEST(refuses_what_is_no_state) {
    ledger_close(opened(LEDGER_WRITE));
    char command[256];
    char side[128];
    assert_refused("k", LEDGER_WRITE, "the state of job 'j', not of 'k'");
    path = "other.db";
    assert_refused("j", LEDGER_READ, "No such file");
    write_text(path, "this is a text, and longer than the header of a database would be: no state at all.............");
    assert_refused("j", LEDGER_WRITE, "damaged, or not a state file");
    snprintf(command, sizeof command, "rm -f %s %s-*", path, path);
    assert_int_equal(system(command), 0);
    /* Overwrites the middle of a state. */
    struct ledger *ledger = opened(LEDGER_WRITE);
    struct ledger_launch launch = LAUNCH;
    for (int i = 0; i < 500; i++) {
        snprintf(launch.launch.token, sizeof launch.launch.token, "t-%d", i);
        assert_int_equal(ledger_put_launch(ledger, &launch, NULL), 0);
    }
    ledger_close(ledger);
    snprintf(side, sizeof side, "%s-wal", path);
    assert_int_not_equal(access(side, F_OK), 0);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 4096 * 3, SEEK_SET), 0);
    for (int i = 0; i < 4096 * 6; i++) {
        fputc('x', file);
    }
    assert_int_equal(fclose(file), 0);
    assert_refused("j", LEDGER_WRITE, "damaged");
}

TEST(is_its_owners_alone) {
    static const char *const suffixes[] = {"", "-wal", "-lock"};
    struct ledger *ledger = NULL;
    struct error error = {0};
    mode_t mask = umask(0);
    assert_int_equal(ledger_open(&ledger, path, "j", LEDGER_WRITE, &error), 0);
    umask(mask);
    for (size_t s = 0; s < sizeof suffixes / sizeof *suffixes; s++) {
        char name[64];
        struct stat status;
        snprintf(name, sizeof name, "%s%s", path, suffixes[s]);
        assert_int_equal(stat(name, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
    }
    ledger_close(ledger);
}

TEST(is_not_where_a_link_leads) {
    assert_int_equal(chmod(".", 01777), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_refused("j", LEDGER_WRITE, "a symbolic link in a folder that others can write to");
}

int main(void) {
    return tests_run_each(set_up, files_close);
}
