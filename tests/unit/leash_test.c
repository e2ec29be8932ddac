/* leash, under which all tests run: nothing that a test has started is left, however the test ends. */
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { HANG_MS = 20 * 1000 }; /* to end a hang */

static char leash[PATH_MAX];

static int set_up(void **state) {
    (void)state;
    ssize_t length = readlink("/proc/self/exe", leash, sizeof leash - sizeof "/leash");
    char *slash = length > 0 ? strrchr(leash, '/') : NULL;
    if (slash == NULL) {
        return -1;
    }
    strcpy(slash, "/leash");
    return 0;
}

struct run {
    pid_t runner; /* leads a process group of its own */
    int left;     /* of a pipe that all processes of the test inherit: it ends when the last of them does */
};

/* Starts `script` under leash, which a runner starts. It says "begun" when it has started what it leaves behind. */
static struct run begin(const char *script) {
    struct run run;
    char text[8] = "";
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    run.runner = fork();
    if (run.runner == 0) {
        setpgid(0, 0);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        pid_t pid = fork();
        if (pid == 0) {
            execl(leash, "leash", "sh", "-c", script, NULL);
            _exit(127);
        }
        int status = 0;
        _exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 126);
    }
    assert_true(run.runner > 0);
    close(ends[1]);
    run.left = ends[0];
    assert_int_equal(read(run.left, text, sizeof "begun" - 1), sizeof "begun" - 1);
    assert_string_equal(text, "begun");
    return run;
}

/* Asserts that all processes end; returns the runner's status. */
static int end(struct run *run) {
    struct pollfd left = {.fd = run->left, .events = POLLIN};
    char byte;
    int status;
    assert_int_equal(poll(&left, 1, HANG_MS), 1);
    assert_int_equal(read(run->left, &byte, 1), 0);
    close(run->left);
    assert_int_equal(waitpid(run->runner, &status, 0), run->runner);
    return status;
}

/* A child, an orphan, and an orphan with a session of its own. */
#define LEFT_BEHIND "sleep 1000 & (sleep 1001 &); (setsid sleep 1002 &); printf begun; "

static void the_status_is_the_tests(void **state) {
    (void)state;
    struct run good = begin("printf begun");
    assert_int_equal(end(&good), 0);
    struct run bad = begin(LEFT_BEHIND "exit 3");
    int status = end(&bad);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    struct run killed = begin(LEFT_BEHIND "kill -9 $$");
    status = end(&killed);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void a_test_that_went_well_leaves_nothing(void **state) {
    (void)state;
    struct run run = begin(LEFT_BEHIND "exit 0");
    assert_int_equal(end(&run), 0);
}

/* Ctrl-C for one, or a killed shell. */
static void signals_to_the_process_group_leave_nothing(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        struct run run = begin(LEFT_BEHIND "sleep 1003");
        assert_int_equal(kill(-run.runner, signals[s]), 0);
        int status = end(&run);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[s]);
    }
}

static void a_killed_runner_leaves_nothing(void **state) {
    (void)state;
    struct run run = begin(LEFT_BEHIND "sleep 1003");
    assert_int_equal(kill(run.runner, SIGKILL), 0);
    assert_true(WIFSIGNALED(end(&run)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_status_is_the_tests),
        cmocka_unit_test(a_test_that_went_well_leaves_nothing),
        cmocka_unit_test(signals_to_the_process_group_leave_nothing),
        cmocka_unit_test(a_killed_runner_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
