/* All tests run under leash: no process that a test has started is left, however the test ends. */
#include "tests/test.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HANG_MS = 20 * 1000 }; /* ends a test that hangs */

static char leash[PATH_MAX];

static int set_up(void **state) {
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
    int left;     /* reading end of a pipe that all processes of the test inherit; ends with the last of them */
};

/* A runner starts leash with `script`. The script prints "begun" when it has started the processes that it leaves
 * behind. */
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

/* Checks that all processes end. Returns the runner's status. */
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

/* Leaves behind a child, an orphan, and an orphan with its own session. */
#define LEFT_BEHIND "sleep 1000 & (sleep 1001 &); (setsid sleep 1002 &); printf begun; "

TEST(the_status_is_the_tests) {
    struct run good = begin("printf begun");
    assert_int_equal(end(&good), 0);
    struct run bad = begin(LEFT_BEHIND "exit 3");
    int status = end(&bad);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    struct run killed = begin(LEFT_BEHIND "kill -9 $$");
    status = end(&killed);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

TEST(a_test_that_went_well_leaves_nothing) {
    struct run run = begin(LEFT_BEHIND "exit 0");
    assert_int_equal(end(&run), 0);
}

/* For example Ctrl-C, or a killed shell. */
TEST(signals_to_the_process_group_leave_nothing) {
    static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
    for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) {
        struct run run = begin(LEFT_BEHIND "sleep 1003");
        assert_int_equal(kill(-run.runner, signals[s]), 0);
        int status = end(&run);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[s]);
    }
}

TEST(a_killed_runner_leaves_nothing) {
    struct run run = begin(LEFT_BEHIND "sleep 1003");
    assert_int_equal(kill(run.runner, SIGKILL), 0);
    assert_true(WIFSIGNALED(end(&run)));
}

int main(void) {
    return tests_run(set_up, NULL);
}
