/* Tests of the proteus program with real processes: successful jobs, wrong usage, everything that may end a job early,
 * and everything that may happen to its nodes and controller meanwhile. Jobs that must go on run the sum app, which
 * checks at its end that every item was counted once in each iteration. Such a job runs until the test stops it, after
 * the report shows what the test wants. After each test no process of the job may be left; a tag in the environment
 * identifies them. Time limits only end a hang. PROTEUS_CYCLES=200 sets how many clusters the last test starts and
 * stops. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agileml/base/clock.h"
#include "agileml/base/sanitizers.h"
#include "tests/files.h"
#include "tests/test.h"
#include "tests/unit/http_server.h"

enum {
    HANG_MS = 90 * 1000, /* a longer wait is a failure */
    POLL_MS = 10,
    CYCLES_DEFAULT = 5, /* or $PROTEUS_CYCLES */
    ARGUMENTS_MAX = 64,
    ENDPOINT_MAX = 128,
    WORDS_MAX = 1024,
};

static char tag[64];

/* ---- Files ---- */

/* Writes ratings near products of two hidden numbers. */
static void write_ratings(void) {
    FILE *file = open_file("ratings", "we");
    uint32_t state = 7;
    for (unsigned user = 1; user <= 120; user++) {
        for (unsigned item = 1; item <= 80; item++) {
            state = state * 1664525 + 1013904223;
            if (state >> 30 == 0) {
                fprintf(file, "%u %u %u\n", user, item, 1 + (user % 5) * (item % 5) / 4);
            }
        }
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- Processes ---- */

/* Whether /proc/PID/FILE, whose parts end with 0, contains `text`. */
static bool proc_contains(const char *pid, const char *name, const char *text) {
    char path[64];
    char bytes[1 << 14];
    snprintf(path, sizeof path, "/proc/%.16s/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t size;
    while (used < sizeof bytes && (size = read(fd, bytes + used, sizeof bytes - used)) > 0) {
        used += (size_t)size;
    }
    close(fd);
    return memmem(bytes, used, text, strlen(text)) != NULL;
}

/* Returns a process of this test's jobs whose command line contains `text`, or 0; *count: their number. */
static pid_t find_process(const char *text, unsigned *count) {
    pid_t found = 0;
    DIR *directory = opendir("/proc");
    assert_non_null(directory);
    *count = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        if (isdigit((unsigned char)entry->d_name[0]) && proc_contains(entry->d_name, "environ", tag) &&
            proc_contains(entry->d_name, "cmdline", text)) {
            found = (pid_t)atol(entry->d_name);
            ++*count;
        }
    }
    closedir(directory);
    return found;
}

static pid_t the_process(const char *text) {
    unsigned count;
    pid_t found = find_process(text, &count);
    assert_int_equal(count, 1);
    return found;
}

static void assert_nobody_left(void) {
    unsigned count = 0;
    find_process("", &count);
    assert_int_equal(count, 0);
}

/* The launcher makes its private folders in the test's folder. */
static void assert_no_folder_left(void) {
    DIR *directory = opendir(".");
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        assert_null(strstr(entry->d_name, "proteus-"));
    }
    closedir(directory);
}

struct job {
    pid_t pid;
    int status; /* exit status, or 128 + the signal's number */
    char *out, *err;
    bool second; /* a second job beside the first, whose files are "out" and "err" */
};

/* Starts build/bin/NAME with arguments up to NULL. */
static struct job start_beside(const char *const *arguments, bool second) {
    char path[512];
    const char *bin = getenv("PROTEUS_BIN");
    snprintf(path, sizeof path, "%s/%s", bin, arguments[0]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int out = open(in_folder(second ? "out2" : "out"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        int err = open(in_folder(second ? "err2" : "err"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        putenv(tag);
        execv(path, (char *const *)(uintptr_t)arguments);
        _exit(126);
    }
    return (struct job){.pid = pid, .second = second};
}

static struct job start_list(const char *const *arguments) {
    return start_beside(arguments, false);
}

static void gather(struct job *job, int status) {
    job->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    job->out = read_text(in_folder(job->second ? "out2" : "out"));
    job->err = read_text(in_folder(job->second ? "err2" : "err"));
}

static void finish(struct job *job) {
    int status;
    pid_t ended = 0;
    for (int waited = 0; waited < HANG_MS && ended == 0; waited += POLL_MS) {
        ended = waitpid(job->pid, &status, WNOHANG);
        if (ended == 0) {
            clock_pause_ms(POLL_MS);
        }
    }
    if (ended == 0) {
        kill(job->pid, SIGKILL);
        waitpid(job->pid, &status, 0);
        fail_msg("a job hangs; so far: %s", read_text("err"));
    }
    gather(job, status);
}

static void discard(struct job *job) {
    free(job->out);
    free(job->err);
}

#define START(...) start_list((const char *const[]){__VA_ARGS__, NULL})
#define RUN(...)   run_list((const char *const[]){__VA_ARGS__, NULL})

static struct job run_list(const char *const *arguments) {
    struct job job = start_list(arguments);
    finish(&job);
    return job;
}

/* Checks that the job failed with one line, which contains `expected`. */
static void assert_failed(struct job *job, int status, const char *expected) {
    const char *newline = strchr(job->err, '\n');
    if (job->status != status || newline == NULL || newline[1] != '\0' || strstr(job->err, expected) == NULL) {
        fail_msg("status %d, expected %d; standard error '%s', expected one line with '%s'", job->status, status,
                 job->err, expected);
    }
    assert_nobody_left();
    discard(job);
}

static void assert_done(struct job *job) {
    if (job->status != 0 || job->err[0] != '\0') {
        fail_msg("status %d, expected 0; standard error '%s', expected nothing", job->status, job->err);
    }
    assert_nobody_left();
}

/* ---- Jobs that run until they fail ---- */

/* Checks that the last line of a failed job's report is a summary with `expected`. */
static void assert_failed_summary(const char *expected) {
    FREED char *report = read_text("report");
    size_t size = strlen(report);
    assert_true(size > 0 && report[size - 1] == '\n');
    report[size - 1] = '\0';
    const char *newline = strrchr(report, '\n');
    json_auto_t *line = json_loads(newline != NULL ? newline + 1 : report, 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "type")), "summary");
    assert_true(json_is_false(json_object_get(line, "ok")));
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 1);
    assert_true(json_integer_value(json_object_get(line, "iterations")) > 0);
    assert_true(json_integer_value(json_object_get(line, "clocks")) > 0);
    assert_true(json_is_real(json_object_get(line, "seconds")));
    assert_true(json_is_real(json_object_get(line, "objective")));
    assert_true(json_is_real(json_object_get(line, "train_rmse")));
    assert_non_null(strstr(json_string_value(json_object_get(line, "error")), expected));
}

/* Waits until a job's report has a line with `text`. */
static void wait_for_report(struct job *job, const char *text) {
    for (int waited = 0; waited < HANG_MS; waited += POLL_MS) {
        FREED char *report = read_text("report");
        bool found = strstr(report, text) != NULL;
        if (found) {
            return;
        }
        if (waitpid(job->pid, NULL, WNOHANG) != 0) {
            fail_msg("the job ended early: %s", read_text("err"));
        }
        clock_pause_ms(POLL_MS);
    }
    kill(job->pid, SIGKILL);
    fail_msg("the job doesn't get to '%s'", text);
}

static struct job start_long_job(const char *stage, const char *failure_timeout) {
    unlink("report");
    struct job job = START("proteus", "run", "--reliable", "2", "--transient", "1", "--stage", stage,
                           "--failure-timeout", failure_timeout, "--report", in_folder("report"), "--", "mf", "--data",
                           in_folder("ratings"), "--iterations", "100000000");
    wait_for_report(&job, "\"iteration\"");
    wait_for_report(&job, "\"type\":\"iteration\"");
    return job;
}

/* ---- Jobs that survive faults ---- */

/* Returns the report's last complete line of a type; NULL: there is none. */
static json_t *last_line(const char *type) {
    FREED char *report = read_text("report");
    char *end = strrchr(report, '\n');
    json_t *found = NULL;
    while (end != NULL && found == NULL) {
        *end = '\0';
        char *newline = strrchr(report, '\n');
        json_auto_t *line = json_loads(newline != NULL ? newline + 1 : report, 0, NULL);
        const char *of = json_string_value(json_object_get(line, "type"));
        found = of != NULL && strcmp(of, type) == 0 ? json_incref(line) : NULL;
        end = newline;
    }
    return found;
}

static json_int_t last_number(const char *type, const char *key) {
    json_auto_t *line = last_line(type);
    json_int_t value = json_integer_value(json_object_get(line, key));
    return value;
}

/* Adds the words of a text, which spaces separate, to the list. */
static void add_words(const char **list, size_t *count, char *words) {
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(*count < ARGUMENTS_MAX - 1);
        list[(*count)++] = word;
    }
}

/* Returns the path of a test app, valid until the next call. */
static const char *test_app(const char *name) {
    static char path[PATH_MAX];
    const char *bin = getenv("PROTEUS_BIN");
    char relative[PATH_MAX];
    snprintf(relative, sizeof relative, "%s/../tests/%s", bin, name);
    assert_non_null(realpath(relative, path));
    return path;
}

static const char *sum_app(void) {
    return test_app("sum_app");
}

/* Starts an app that runs until it is stopped. `options` are for proteus run, `app_options` for the app. */
static struct job start_app(const char *app, const char *options, const char *events, const char *app_options) {
    char words[WORDS_MAX];
    char app_words[WORDS_MAX + 2 * PATH_MAX];
    const char *list[ARGUMENTS_MAX] = {"proteus", "run", "--report", in_folder("report"), "--events"};
    size_t count = 5;
    write_text("events", events);
    unlink("report");
    unlink("out");
    list[count++] = in_folder("events");
    snprintf(words, sizeof words, "%s", options);
    add_words(list, &count, words);
    snprintf(app_words, sizeof app_words, "-- %s --slow-us 3000 --iterations 100000000 %s", app, app_options);
    add_words(list, &count, app_words);
    return start_list(list);
}

static struct job start_sums(const char *options, const char *events, const char *app_options) {
    char words[WORDS_MAX + PATH_MAX];
    snprintf(words, sizeof words, "--data %s %s", in_folder("ratings"), app_options);
    return start_app(sum_app(), options, events, words);
}

/* Waits until `reached` returns true. */
static void wait_until(struct job *job, bool (*reached)(void *context), void *context, const char *what) {
    for (int waited = 0; waited < HANG_MS; waited += POLL_MS) {
        if (reached(context)) {
            return;
        }
        if (waitpid(job->pid, NULL, WNOHANG) != 0) {
            fail_msg("before %s the job ended: %s", what, read_text("err"));
        }
        clock_pause_ms(POLL_MS);
    }
    kill(job->pid, SIGKILL);
    fail_msg("the job doesn't get to %s; so far:\n%s%s", what, read_text("out"), read_text("err"));
}

struct cluster {
    json_int_t reliable, transient;
};

static bool cluster_reached(void *context) {
    const struct cluster *cluster = context;
    json_auto_t *line = last_line("iteration");
    bool reached = line != NULL && json_integer_value(json_object_get(line, "reliable")) == cluster->reliable &&
                   json_integer_value(json_object_get(line, "transient")) == cluster->transient;
    return reached;
}

/* Waits for an iteration on these numbers of nodes. */
static void wait_for_cluster(struct job *job, json_int_t reliable, json_int_t transient) {
    struct cluster cluster = {reliable, transient};
    char what[64];
    snprintf(what, sizeof what, "%lld+%lld nodes", (long long)reliable, (long long)transient);
    wait_until(job, cluster_reached, &cluster, what);
}

static bool iteration_reached(void *context) {
    return last_number("iteration", "iteration") >= *(const json_int_t *)context;
}

static void wait_for_iteration(struct job *job, json_int_t iteration) {
    wait_until(job, iteration_reached, &iteration, "an iteration");
}

/* Waits for `more` further iterations. */
static void wait_for_iterations(struct job *job, json_int_t more) {
    wait_for_iteration(job, last_number("iteration", "iteration") + more);
}

static bool endpoint_said(void *context) {
    FREED char *out = read_text("out");
    const char *line = strstr(out, "controller at ");
    bool said = line != NULL && strchr(line, '\n') != NULL && sscanf(line, "controller at %127s", (char *)context) == 1;
    return said;
}

/* Runs a proteus command about the running job. */
#define ASK(job, ...) ask_list(job, (const char *const[]){__VA_ARGS__, NULL})

static struct job ask_list(struct job *job, const char *const *words) {
    char endpoint[ENDPOINT_MAX];
    const char *list[ARGUMENTS_MAX] = {"proteus", words[0], "--controller", endpoint};
    size_t count = 4;
    wait_until(job, endpoint_said, endpoint, "its controller's endpoint");
    for (size_t w = 1; words[w] != NULL; w++) {
        list[count++] = words[w];
    }
    return start_beside(list, true);
}

static void assert_asked(struct job *asked) {
    finish(asked);
    if (asked->status != 0 || asked->err[0] != '\0') {
        fail_msg("a command ended with status %d: %s", asked->status, asked->err);
    }
}

/* Stops the job, which must end well with right sums. */
static void stop_sums(struct job *job) {
    struct job stop = ASK(job, "stop");
    assert_asked(&stop);
    assert_non_null(strstr(stop.out, "the job has ended after "));
    discard(&stop);
    finish(job);
    if (job->status != 0) {
        fail_msg("status %d: %s%s", job->status, job->out, job->err);
    }
    assert_nobody_left();
    json_auto_t *summary = last_line("summary");
    assert_true(json_is_true(json_object_get(summary, "ok")));
    discard(job);
}

/* ---- The tests ---- */

static void check_iteration(const json_t *line, json_int_t number, double *objective) {
    double value = json_real_value(json_object_get(line, "objective"));
    assert_int_equal(json_integer_value(json_object_get(line, "iteration")), number);
    assert_true(json_is_real(json_object_get(line, "seconds")));
    assert_true(json_is_integer(json_object_get(line, "bytes_sent")));
    assert_true(json_is_integer(json_object_get(line, "bytes_received")));
    assert_int_equal(json_integer_value(json_object_get(line, "reliable")), 2);
    assert_int_equal(json_integer_value(json_object_get(line, "stage")), 1);
    assert_true(value < *objective);
    *objective = value;
}

TEST(trains) {
    struct job job = RUN("proteus", "run", "--reliable", "2", "--threads", "1", "--report", in_folder("report"), "--",
                         "mf", "--data", in_folder("ratings"), "--iterations", "5");
    assert_done(&job);
    assert_non_null(strstr(job.out, "iteration 5 "));
    assert_no_folder_left();
    discard(&job);

    FREED char *report = read_text("report");
    char *rest = NULL;
    double objective = 1e9;
    json_int_t iterations = 0;
    bool summary = false;
    for (char *text = strtok_r(report, "\n", &rest); text != NULL; text = strtok_r(NULL, "\n", &rest)) {
        json_auto_t *line = json_loads(text, 0, NULL);
        assert_non_null(line);
        const char *type = json_string_value(json_object_get(line, "type"));
        assert_non_null(type);
        assert_false(summary); /* the summary must be the last line */
        if (strcmp(type, "iteration") == 0) {
            check_iteration(line, ++iterations, &objective);
        } else if (strcmp(type, "summary") == 0) {
            summary = true;
            assert_true(json_is_true(json_object_get(line, "ok")));
            assert_int_equal(json_integer_value(json_object_get(line, "status")), 0);
            assert_int_equal(json_integer_value(json_object_get(line, "iterations")), 5);
            assert_true(json_real_value(json_object_get(line, "objective")) == objective);
        }
    }
    assert_int_equal(iterations, 5);
    assert_true(summary);
}

TEST(quiet_traditional_with_key) {
    unlink("key");
    struct job job = RUN("proteus", "keygen", in_folder("key"));
    assert_done(&job);
    discard(&job);
    job = RUN("proteus", "run", "--reliable", "0", "--transient", "2", "--stage", "traditional", "--quiet", "--key",
              in_folder("key"), "--", "mf", "--data", in_folder("ratings"), "--iterations", "2");
    assert_done(&job);
    assert_string_equal(job.out, "");
    discard(&job);
}

TEST(refused_usage) {
    const char *ratings = in_folder("ratings");
    write_text("events", "iteration 1 kill node-1\niteration 2 kill node-3\n");
    write_text("joins", "iteration 1 kill node-1\niteration 2 join transient 1\n");
    write_text("open_key", "agileml-key 1\n");
    chmod("open_key", 0644);
    const struct {
        const char *arguments[16];
        const char *expected;
    } cases[] = {
        {{"proteus"}, "no command"},
        {{"proteus", "rum"}, "unknown command 'rum'"},
        {{"proteus", "run"}, "no app"},
        {{"proteus", "run", "--relaible", "2", "--", "mf"}, "did you mean '--reliable'?"},
        {{"proteus", "run", "--reliable", "two", "--", "mf"}, "--reliable: expected a whole number"},
        {{"proteus", "run", "--stage", "4", "--", "mf"}, "expected auto, 1, 2, 3, transient or traditional, got '4'"},
        {{"proteus", "run", "--reliable", "0", "--transient", "2", "--stage", "2", "--", "mf"},
         "--reliable 0: expected at least 1"},
        {{"proteus", "run", "--threshold-2", "3", "--threshold-3", "2", "--", "mf"}, "--threshold-3 2: expected"},
        {{"proteus", "run", "--commit-every", "1000", "--", "mf"}, "--commit-every"},
        {{"proteus", "run", "--failure-timeout", "0.2", "--", "mf"},
         "--failure-timeout: expected a number from 0.5 to 86400"},
        {{"proteus", "run", "--resume", "/nonexistent/checkpoints", "--", "mf", "--data", ratings},
         "--resume /nonexistent/checkpoints: No such file"},
        {{"proteus", "run", "--resume", in_folder(""), "--", "mf", "--data", ratings}, "checkpoint"},
        {{"proteus", "run", "--checkpoint", "/nonexistent/checkpoints", "--", "mf", "--data", ratings},
         "--checkpoint /nonexistent/checkpoints: No such file"},
        {{"proteus", "run", "--", "no-such-app"}, "no such program"},
        {{"proteus", "run", "--listen", "0.0.0.0", "--", "mf"}, "--key"},
        {{"proteus", "run", "--key", in_folder("open_key"), "--", "mf", "--data", ratings}, "mode 0600"},
        {{"proteus", "run", "--report", "/nonexistent/report", "--", "mf", "--data", ratings}, "can't create"},
        {{"proteus", "run", "--events", in_folder("events"), "--", "mf", "--data", ratings}, "events:2: no node-3"},
        {{"proteus", "run", "--stage", "traditional", "--events", in_folder("joins"), "--", "mf", "--data", ratings},
         "joins:2: join: nodes can't come or go"},
        {{"proteus", "run", "--", "mf", "--data", "/nonexistent/ratings"}, "/nonexistent/ratings"},
        {{"proteus", "run", "--", "mf", "--dat", ratings}, "did you mean '--data'?"},
        {{"proteus", "run", "--", "mf", "--threads", "2"}, "--threads belongs to 'proteus run': write it before '--'"},
        {{"proteus", "run", "--", "mf", "--listen=0.0.0.0"}, "--listen belongs to 'proteus run'"},
        {{"proteus", "run", "--", "mf", "--name=x"}, "--name belongs to 'proteus run'"},
        {{"proteus", "run", "--", "mf", "--predict", "model", "--data", ratings},
         "--predict needs no job: run 'mf --predict ...' itself, without 'proteus run --'"},
        {{"proteus", "run", "--", "mlr", "--predict=model", "--data", ratings}, "run 'mlr --predict ...' itself"},
        {{"proteus", "run", "--", "lda", "--data", ratings, "--infer", "model"}, "run 'lda --infer ...' itself"},
        {{"proteus", "join", "--controller", "tcp://127.0.0.1:1", "--", "mf", "--predict", "model"},
         "run 'mf --predict ...' itself"},
        {{"proteus", "run", "--report", ratings, "--", "mf", "--data", ratings}, "this is an input file of the job"},
        {{"proteus", "run", "--report", in_folder("events"), "--events", in_folder("events"), "--", "mf"},
         "this is an input file of the job"},
        {{"proteus", "controller"}, "--listen"},
        {{"proteus", "controller", "--listen", "tcp://127.0.0.1:0", "--store", ratings}, ratings},
        {{"proteus", "keygen", "/nonexistent/key"}, "/nonexistent/key"},
        {{"proteus", "status"}, "--controller tcp://HOST:PORT is missing"},
        {{"proteus", "status", "--controller", "here"}, "here"},
        {{"mf", "--data", ratings, "--poll-notice", "0.001", "--check"}, "--poll-notice: expected 0, or 0.01 to 3600"},
        {{"proteus", "run", "--", "mf", "--data", ratings, "--poll-notice", "-1"}, "--poll-notice: expected"},
        {{"proteus", "status", "now"}, "unexpected 'now'"},
        {{"proteus", "stop", "--controller", "tcp://127.0.0.1:1", "now"}, "unexpected 'now'"},
        {{"proteus", "evict", "--controller", "tcp://127.0.0.1:1"}, "no node"},
        {{"proteus", "evict", "--controller", "tcp://127.0.0.1:1", "--notice", "soon", "node-1"}, "such as 120s"},
        {{"proteus", "join", "--", "mf"}, "--controller tcp://HOST:PORT is missing"},
        {{"proteus", "join", "--controller", "tcp://127.0.0.1:1"}, "join: no app"},
        {{"proteus", "join", "--controller", "tcp://127.0.0.1:1", "--tier", "other", "--", "mf"},
         "reliable, transient or feeder"},
        {{"proteus", "join", "--controller", "tcp://127.0.0.1:1", "--", "mf", "--data", "/nonexistent/ratings"},
         "/nonexistent/ratings"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct job job = run_list(cases[c].arguments);
        assert_failed(&job, 2, cases[c].expected);
    }
}

/* The report's file keeps its content until a job has begun. */
TEST(old_report) {
    write_text("old", "an old report\n");
    struct job job = RUN("proteus", "run", "--report", in_folder("old"), "--", "mf", "--dat", in_folder("ratings"));
    assert_failed(&job, 2, "did you mean '--data'?");
    char *report = read_text("old");
    assert_string_equal(report, "an old report\n");
    free(report);
    job = RUN("proteus", "run", "--report", in_folder("old"), "--", "mf", "--data", in_folder("ratings"),
              "--iterations", "1", "--"); /* the launcher's own options still take effect */
    assert_done(&job);
    discard(&job);
    report = read_text("old");
    assert_null(strstr(report, "an old report"));
    assert_non_null(strstr(report, "\"type\":\"summary\""));
    free(report);
}

TEST(bad_line_of_data) {
    write_text("bad", "1 1 4\n1 2 3\n2 1 five\n");
    struct job job = RUN("proteus", "run", "--reliable", "2", "--", "mf", "--data", in_folder("bad"));
    assert_failed(&job, 2, "bad:3: ");
}

TEST(port_in_use) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char endpoint[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    struct job job = RUN("proteus", "controller", "--listen", endpoint);
    assert_failed(&job, 2, "address already in use");
    close(fd);
}

TEST(full_disk) {
    struct job job =
        RUN("proteus", "run", "--report", "/dev/full", "--", "mf", "--data", in_folder("ratings"), "--iterations", "2");
    assert_failed(&job, 1, "/dev/full: the report is incomplete: No space left on device");
}

/* Reads the controller's endpoint once the controller has printed it. */
static void read_endpoint(char endpoint[128]) {
    for (int waited = 0; waited < HANG_MS; waited += POLL_MS) {
        FREED char *out = read_text("out");
        bool found = sscanf(out, "listening on %127s", endpoint) == 1 && strchr(out, '\n') != NULL;
        if (found) {
            return;
        }
        clock_pause_ms(POLL_MS);
    }
    fail_msg("the controller doesn't say where it listens");
}

static struct job start_controller(const char *key, char endpoint[128]) {
    unlink("out");
    struct job job = key != NULL ? START("proteus", "controller", "--listen", "tcp://127.0.0.1:0", "--key", key)
                                 : START("proteus", "controller", "--listen", "tcp://127.0.0.1:0");
    read_endpoint(endpoint);
    return job;
}

TEST(job_by_hand) {
    char endpoint[128];
    struct job controller = start_controller(NULL, endpoint);
    struct job node = RUN("mf", "--controller", endpoint, "--data", in_folder("ratings"), "--iterations", "3");
    assert_int_equal(node.status, 0);
    discard(&node);
    finish(&controller);
    assert_done(&controller);
    discard(&controller);
}

/* The report is longer than the part that the controller keeps. */
TEST(long_job_by_hand) {
    /* An iteration is one clock, and each has a line in the report. */
    const unsigned iterations = getenv("PROTEUS_SANITIZED") != NULL ? 500 : 35000;
    char endpoint[128];
    char count[16];
    char total[32];
    snprintf(count, sizeof count, "%u", iterations);
    snprintf(total, sizeof total, "\"iterations\":%u,", iterations);
    write_text("few", "1 1 4\n1 2 3\n2 1 5\n");
    unlink("out");
    unlink("report");
    struct job controller =
        START("proteus", "controller", "--listen", "tcp://127.0.0.1:0", "--report", in_folder("report"));
    read_endpoint(endpoint);
    struct job node = RUN("mf", "--controller", endpoint, "--data", in_folder("few"), "--rank", "1", "--iterations",
                          count, "--clocks-per-iteration", "1");
    assert_int_equal(node.status, 0);
    discard(&node);
    finish(&controller);
    assert_done(&controller);
    discard(&controller);
    unsigned lines = 0;
    FREED char *report = read_text("report");
    static const char iteration[] = "{\"type\":\"iteration\",";
    for (const char *at = strstr(report, iteration); at != NULL; at = strstr(at + 1, iteration)) {
        lines++;
    }
    assert_int_equal(lines, iterations);
    assert_non_null(strstr(report, total));
}

TEST(wrong_key) {
    char endpoint[128];
    const char *names[] = {"key-a", "key-b"};
    for (int k = 0; k < 2; k++) {
        unlink(in_folder(names[k]));
        struct job job = RUN("proteus", "keygen", in_folder(names[k]));
        assert_done(&job);
        discard(&job);
    }
    struct job controller = start_controller(in_folder("key-a"), endpoint);
    struct job node = RUN("mf", "--controller", endpoint, "--key", in_folder("key-b"), "--data", in_folder("ratings"));
    assert_int_equal(node.status, 2);
    assert_non_null(strstr(node.err, "--key"));
    discard(&node);
    kill(controller.pid, SIGTERM);
    finish(&controller);
    assert_int_equal(controller.status, 1);
    assert_non_null(strstr(controller.err, "stopped by SIGTERM"));
    assert_nobody_left();
    discard(&controller);
}

TEST(interrupt) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        struct job job = start_long_job("auto", "10");
        kill(job.pid, numbers[n]);
        finish(&job);
        assert_failed(&job, 1, "interrupted by SIG");
    }
}

/* Interrupts a launcher in every phase before the job begins. */
TEST(interrupt_at_start) {
    for (int naps = 0; naps < 6; naps++) {
        struct job job = START("proteus", "run", "--reliable", "3", "--", "mf", "--data", in_folder("ratings"),
                               "--iterations", "100000000");
        for (int n = 0; n < naps; n++) {
            clock_pause_ms(POLL_MS);
        }
        kill(job.pid, SIGTERM);
        finish(&job);
        if (job.status == 128 + SIGTERM) {
            assert_nobody_left(); /* the launcher did not handle signals yet */
            discard(&job);
        } else {
            assert_failed(&job, 1, "interrupted by SIGTERM");
        }
    }
}

TEST(killed_node) {
    struct job job = start_long_job("traditional", "10");
    kill(the_process("--name=node-2"), SIGKILL);
    finish(&job);
    assert_failed(&job, 1, "node-2 was killed by signal 9");
    assert_failed_summary("node-2 was killed by signal 9");
    FREED char *report = read_text("report");
    assert_non_null(strstr(report, "\"event\":\"failure\""));
    assert_non_null(strstr(report, "\"failures\":1"));
}

/* A node runs but never joins. */
TEST(missing_node) {
    write_text("late", "#!/bin/sh\ncase \"$*\" in *--name=node-2*) sleep 1000;; esac\nexec \"$APP\" \"$@\"\n");
    chmod("late", 0755);
    char app[PATH_MAX];
    const char *bin = getenv("PROTEUS_BIN");
    snprintf(app, sizeof app, "%s/mf", bin);
    setenv("APP", app, 1);
    struct job job = RUN("proteus", "run", "--reliable", "2", "--failure-timeout", "0.5", "--", in_folder("late"),
                         "--data", in_folder("ratings"));
    unsetenv("APP");
    assert_failed(&job, 1, "s and more node-2 has not joined");
}

TEST(killed_controller) {
    unlink("report");
    write_text("events", "iteration 2 kill controller\n");
    struct job job = RUN("proteus", "run", "--events", in_folder("events"), "--report", in_folder("report"), "--", "mf",
                         "--data", in_folder("ratings"), "--iterations", "100000000");
    assert_failed(&job, 1, "the controller was killed by signal 9");
    assert_failed_summary("the controller was killed by signal 9");
}

TEST(stopped_node) {
    struct job job = start_long_job("traditional", "1");
    kill(the_process("--name=node-3"), SIGSTOP);
    finish(&job);
    assert_failed(&job, 1, "from node-3 ");
}

TEST(stopped_controller) {
    struct job job = start_long_job("auto", "1");
    kill(the_process("--ready-fd"), SIGSTOP);
    kill(job.pid, SIGINT);
    finish(&job);
    assert_failed(&job, 1, "the controller does not answer");
    assert_failed_summary("the controller does not answer");
}

TEST(killed_launcher) {
    struct job job = start_long_job("auto", "10");
    unsigned left = 1;
    kill(job.pid, SIGKILL);
    finish(&job);
    assert_int_equal(job.status, 128 + SIGKILL);
    discard(&job);
    for (int waited = 0; waited < HANG_MS && left > 0; waited += POLL_MS) {
        clock_pause_ms(POLL_MS); /* only init reaps these processes */
        find_process("", &left);
    }
    assert_int_equal(left, 0);
}

TEST(events) {
    write_text("events", "# pauses do no harm\niteration 2 pause node-1\nseconds 0.2 resume node-1\n"
                         "seconds 0.5 kill transient all\n");
    struct job job = RUN("proteus", "run", "--transient", "2", "--stage", "traditional", "--events",
                         in_folder("events"), "--", "mf", "--data", in_folder("ratings"), "--iterations", "100000000");
    assert_non_null(strstr(job.out, "event: iteration 2 pause node-1"));
    assert_non_null(strstr(job.out, "event: seconds 0.5 kill transient all"));
    assert_failed(&job, 1, "node-2 was killed by signal 9 (Killed), node-3 was killed by signal 9 (Killed)");
}

/* An app that ends silently, and an app that can't be run. */
TEST(strange_apps) {
    write_text("silent", "#!/bin/sh\nexit 0\n");
    chmod("silent", 0755);
    struct job job = RUN("proteus", "run", "--", in_folder("silent"));
    assert_failed(&job, 1, "node-1 ended with exit status 0 and never joined the job: is '");

    write_text("crashing", "#!/bin/sh\nkill -SEGV $$\n");
    chmod("crashing", 0755);
    job = RUN("proteus", "run", "--", in_folder("crashing"));
    assert_failed(&job, 1, "killed by signal 11");

    write_text("garbage", "\x7f not a program");
    chmod("garbage", 0755);
    job = RUN("proteus", "run", "--", in_folder("garbage"));
    assert_failed(&job, 2, "garbage");

    write_text("parent", "#!/bin/sh\ncase \"$*\" in *--check*) exit 0;; esac\nsleep 1000 &\nsleep 1000\n");
    chmod("parent", 0755);
    job = START("proteus", "run", "--", in_folder("parent"));
    unsigned sleepers = 0;
    for (int waited = 0; waited < HANG_MS && sleepers < 2; waited += POLL_MS) {
        clock_pause_ms(POLL_MS);
        find_process("sleep", &sleepers);
    }
    kill(job.pid, SIGINT);
    finish(&job);
    assert_failed(&job, 1, "interrupted by SIGINT");
}

/* A SIGTERM ends the check of an app, or a node that has not begun: nothing was to be left in time. */
TEST(join_ends_before_it_begins) {
    static const char *const scripts[] = {"exec sleep 1000\n",
                                          "case \"$*\" in *--check*) exit 0;; esac\nexec sleep 1000\n"};
    for (size_t s = 0; s < sizeof scripts / sizeof *scripts; s++) {
        char script[128];
        snprintf(script, sizeof script, "#!/bin/sh\n%s", scripts[s]);
        write_text("late", script);
        chmod("late", 0755);
        struct job join = START("proteus", "join", "--controller", "tcp://127.0.0.1:1", "--", in_folder("late"));
        unsigned sleepers = 0;
        while (sleepers == 0) {
            clock_pause_ms(POLL_MS);
            find_process("sleep", &sleepers);
            assert_int_equal(waitpid(join.pid, NULL, WNOHANG), 0);
        }
        kill(join.pid, SIGTERM);
        finish(&join);
        assert_string_equal(join.err, "");
        assert_int_equal(join.status, 0);
        discard(&join);
    }
}

/* ---- Elasticity ---- */

static const char *const STAGES[] = {"1", "2", "3"};
enum { STAGE_COUNT = sizeof STAGES / sizeof *STAGES };

/* Failure timeout in seconds for silent losses: as short as possible without a false alarm on a loaded machine. */
#if WITH_TSAN
#define FAILURE_TIMEOUT "8"
#elif WITH_ASAN
#define FAILURE_TIMEOUT "4"
#else
#define FAILURE_TIMEOUT "2"
#endif

/* Returns the options of a job with 2 reliable and some transient nodes. */
static const char *options_of(const char *stage, int transient, const char *failure_timeout) {
    static char text[128];
    snprintf(text, sizeof text, "--reliable 2 --transient %d --stage %s --failure-timeout %s", transient, stage,
             failure_timeout);
    return text;
}

TEST(join) {
    for (int s = 0; s < STAGE_COUNT; s++) {
        struct job job = start_sums(options_of(STAGES[s], 1, "20"),
                                    "iteration 3 join transient 2\niteration 6 join reliable 1\n", "");
        wait_for_cluster(&job, 3, 3);
        wait_for_iterations(&job, 3);
        stop_sums(&job);
        assert_int_equal(last_number("summary", "items_redone"), 0);
        assert_int_equal(last_number("summary", "failures"), 0);
    }
}

static bool stage_is_1(void *context) {
    return last_number("iteration", "stage") == 1;
}

/* Starts transient nodes, which join the job. */
static struct job join_sums(struct job *job, const char *count, const char *clocks) {
    return ASK(job, "join", "--count", count, "--", sum_app(), "--data", in_folder("ratings"), "--slow-us", "3000",
               "--iterations", "100000000", "--clocks-per-iteration", clocks);
}

/* Sends SIGTERM twice, as timeout does. The nodes get one notice, and leave in time. */
static void leave_sums(struct job *job, struct job *join) {
    kill(join->pid, SIGTERM);
    wait_for_report(job, "\"event\":\"evict\"");
    kill(join->pid, SIGTERM);
    finish(join);
    if (join->status != 0) {
        fail_msg("proteus join ended with status %d: %s", join->status, join->err);
    }
    discard(join);
}

TEST(stages_change) {
    struct job job = start_sums("--reliable 1 --transient 1 --threshold-2 2 --threshold-3 4 --failure-timeout 20", "",
                                "--clocks-per-iteration 2");
    wait_for_iteration(&job, 3);
    struct job first = join_sums(&job, "2", "2");
    wait_for_report(&job, "\"stage\":2,");
    struct job second = join_sums(&job, "3", "2");
    wait_for_report(&job, "\"stage\":3,");
    wait_for_cluster(&job, 1, 6);
    leave_sums(&job, &second);
    leave_sums(&job, &first);
    wait_for_cluster(&job, 1, 1);
    wait_until(&job, stage_is_1, NULL, "stage 1");
    wait_for_iterations(&job, 3);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "evictions"), 5);
    assert_int_equal(last_number("summary", "items_redone"), 0);
}

TEST(evict_all) {
    for (int s = 0; s < STAGE_COUNT; s++) {
        struct job job =
            start_sums(options_of(STAGES[s], 3, "20"), "iteration 5 evict transient all notice 60s\n", "--staleness 1");
        wait_for_cluster(&job, 2, 0);
        wait_for_iterations(&job, 3);
        stop_sums(&job);
        assert_int_equal(last_number("summary", "items_redone"), 0);
        assert_int_equal(last_number("summary", "failures"), 0);
        assert_int_equal(last_number("summary", "evictions"), 3);
    }
}

/* Returns the step over cases: sanitized programs are several times slower, so they run every second case. */
static size_t part_of_cases(void) {
    return getenv("PROTEUS_SANITIZED") != NULL ? 2 : 1;
}

/* Nodes are lost without a report to the controller, as when machines vanish. */
TEST(kill) {
    static const struct {
        const char *stage, *event;
        json_int_t reliable, transient;
    } cases[] = {
        {"1", "kill node-5", 2, 2},        {"1", "kill transient all", 2, 0}, {"2", "kill node-3", 2, 2},
        {"2", "kill node-3 node-4", 2, 1}, {"2", "kill transient all", 2, 0}, {"2", "kill node-2", 1, 3},
        {"3", "kill node-4 node-5", 2, 1}, {"3", "kill transient all", 2, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c += part_of_cases()) {
        char events[128];
        snprintf(events, sizeof events, "iteration 6 %s\n", cases[c].event);
        struct job job = start_sums(options_of(cases[c].stage, 3, FAILURE_TIMEOUT), events, "--clocks-per-iteration 2");
        wait_for_cluster(&job, cases[c].reliable, cases[c].transient);
        wait_for_iterations(&job, 3);
        stop_sums(&job);
        assert_int_equal(last_number("summary", "failures"), 5 - cases[c].reliable - cases[c].transient);
    }
}

/* Varied items, samples and replicated tables survive an eviction, a node that joins, and a loss without notice. */
TEST(varied_items_move) {
    static const struct {
        const char *stage, *options;
    } cases[] = {
        {"1", "--alone --clocks-per-iteration 2"},
        {"2", "--staleness 1 --standby-memory 0"},
        {"2", "--samples --staleness 1 --clocks-per-iteration 2"},
        {"3", "--samples --alone --standby-memory 0"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c += part_of_cases()) {
        char options[256];
        snprintf(options, sizeof options, "%s --threads 2", options_of(cases[c].stage, 3, FAILURE_TIMEOUT));
        struct job job = start_app(test_app("varied_app"), options,
                                   "iteration 4 evict node-4 notice 60s\niteration 8 join transient 1\n"
                                   "iteration 80 kill node-5\n",
                                   cases[c].options);
        wait_for_cluster(&job, 2, 3);
        wait_for_cluster(&job, 2, 2);
        wait_for_iteration(&job, 81);
        wait_for_cluster(&job, 2, 2);
        wait_for_iterations(&job, 3);
        stop_sums(&job);
        assert_int_equal(last_number("summary", "evictions"), 1);
        assert_int_equal(last_number("summary", "failures"), 1);
    }
}

/* The launcher sees the node's end and reports it: no wait for the failure timeout. */
TEST(node_ends) {
    struct job job = start_sums(options_of("2", 2, "600"), "", "");
    wait_for_iteration(&job, 3);
    kill(the_process("--name=node-3"), SIGKILL);
    wait_for_cluster(&job, 2, 1);
    wait_for_iterations(&job, 3);
    FREED char *out = read_text("out");
    assert_non_null(strstr(out, "node-3 was killed by signal 9 (Killed): the job goes on without it"));
    stop_sums(&job);
}

/* The node itself gets the notice and reports it to the controller. */
TEST(node_is_warned) {
    struct job job = start_sums(options_of("2", 2, "20"), "", "");
    wait_for_iteration(&job, 3);
    kill(the_process("--name=node-4"), SIGTERM);
    wait_for_cluster(&job, 2, 1);
    wait_for_iterations(&job, 3);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "items_redone"), 0);
    assert_int_equal(last_number("summary", "evictions"), 1);
}

/* What a node's metadata service answers. The server's threads read it. */
struct cloud {
    atomic_bool action, rebalance;
    atomic_uint polls;
};

static void cloud_answer(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    struct cloud *cloud = context;
    char value[1024];
    if (strcmp(request->path, "/i-1/latest/api/token") == 0) {
        reply->body = "a-token";
        return;
    }
    reply->status = strcmp(http_server_header(request, "X-aws-ec2-metadata-token", value), "a-token") == 0 ? 404 : 401;
    if (strcmp(request->path, "/i-1/latest/meta-data/spot/instance-action") == 0) {
        atomic_fetch_add(&cloud->polls, 1);
        if (atomic_load(&cloud->action)) {
            time_t when = time(NULL) + 60;
            struct tm parts;
            gmtime_r(&when, &parts);
            strftime(reply->text, sizeof reply->text, "{\"action\":\"terminate\",\"time\":\"%Y-%m-%dT%H:%M:%SZ\"}",
                     &parts);
            reply->body = reply->text;
            reply->status = 200;
        }
    } else if (strcmp(request->path, "/i-1/latest/meta-data/events/recommendations/rebalance") == 0 &&
               atomic_load(&cloud->rebalance)) {
        reply->body = "{\"noticeTime\":\"2026-01-01T00:00:00Z\"}";
        reply->status = 200;
    }
}

static bool err_has(void *context) {
    FREED char *err = read_text("err");
    bool has = strstr(err, context) != NULL;
    return has;
}

static bool cloud_is_polled(void *context) {
    return atomic_load(&((struct cloud *)context)->polls) > 2;
}

/* Starts a job of 2 + 2 nodes. In `node` the environment names a metadata service, which this node polls with
 * `options`. */
static struct job start_in_cloud(const struct http_server *server, const char *node, const char *options) {
    char script[WORDS_MAX + 2 * PATH_MAX];
    snprintf(script, sizeof script,
             "#!/bin/sh\ncase \" $* \" in *' --name=%s '*)\n  export AWS_EC2_METADATA_SERVICE_ENDPOINT=%s/i-1\n"
             "  set -- \"$@\" --poll-notice 0.05 %s;;\nesac\nexec '%s' \"$@\"\n",
             node, http_server_url(server), options, sum_app());
    write_text("machine", script);
    assert_int_equal(chmod("machine", 0700), 0);
    char words[WORDS_MAX];
    snprintf(words, sizeof words, "--data %s", in_folder("ratings"));
    struct job job = start_app(in_folder("machine"), "--reliable 2 --transient 2 --stage 2", "", words);
    wait_for_cluster(&job, 2, 2);
    return job;
}

/* The machine's metadata announce its end. The node reports that to the controller, and leaves in time. */
TEST(the_cloud_takes_a_machine_away) {
    static const struct {
        const char *node;
        json_int_t reliable, transient;
    } cases[] = {{"node-4", 2, 1}, {"node-2", 1, 2}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct cloud cloud = {0};
        struct http_server *server = http_server_open(cloud_answer, &cloud);
        struct job job = start_in_cloud(server, cases[c].node, "");
        wait_until(&job, cloud_is_polled, &cloud, "polls of the metadata service");
        atomic_store(&cloud.action, true);
        wait_for_cluster(&job, cases[c].reliable, cases[c].transient);
        wait_for_iterations(&job, 3);
        assert_true(err_has((char[]){"the cloud takes this machine away in"}));
        stop_sums(&job);
        assert_int_equal(last_number("summary", "items_redone"), 0);
        assert_int_equal(last_number("summary", "evictions"), 1);
        assert_int_equal(last_number("summary", "failures"), 0);
        http_server_close(server);
    }
}

/* A rebalance recommendation is reported, but followed only if an option says so. */
TEST(the_cloud_recommends_to_leave) {
    struct cloud cloud = {0};
    struct http_server *server = http_server_open(cloud_answer, &cloud);
    struct job job = start_in_cloud(server, "node-4", "");
    atomic_store(&cloud.rebalance, true);
    wait_until(&job, err_has, (char[]){"the cloud recommends to leave this machine"}, "the recommendation");
    wait_for_iterations(&job, 3);
    wait_for_cluster(&job, 2, 2);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "evictions"), 0);
    atomic_store(&cloud.rebalance, false);
    job = start_in_cloud(server, "node-4", "--leave-on-rebalance --notice 20");
    atomic_store(&cloud.rebalance, true);
    wait_for_cluster(&job, 2, 1);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "evictions"), 1);
    assert_int_equal(last_number("summary", "items_redone"), 0);
    http_server_close(server);
}

/* A node that was given up while it was stopped joins again. */
TEST(node_sleeps) {
    for (int s = 0; s < STAGE_COUNT; s++) {
        struct job job = start_sums(options_of(STAGES[s], 2, FAILURE_TIMEOUT), "", "");
        wait_for_iteration(&job, 3);
        pid_t node = the_process("--name=node-3");
        kill(node, SIGSTOP);
        wait_for_cluster(&job, 2, 1);
        wait_for_iterations(&job, 2);
        kill(node, SIGCONT);
        wait_for_cluster(&job, 2, 2);
        wait_for_iterations(&job, 3);
        stop_sums(&job);
    }
}

TEST(paused_by_events) {
    struct job job = start_sums(options_of("2", 3, FAILURE_TIMEOUT),
                                "iteration 3 pause node-4 node-5\niteration 5 resume node-4\n", "");
    wait_for_cluster(&job, 2, 2);
    wait_for_iterations(&job, 3);
    stop_sums(&job); /* while node-5 is still stopped */
}

/* The controller is away for longer than the failure timeout, several times, and nodes join meanwhile. When it is back,
 * it gives no node up. */
TEST(a_controller_that_comes_back_accuses_nobody) {
    struct job job = start_sums(options_of("auto", 2, "1"),
                                "seconds 0.5 kill controller\nseconds 2.2 start controller\n"
                                "seconds 2.6 join transient 1\nseconds 2.9 kill controller\n"
                                "seconds 4.6 start controller\nseconds 5.0 pause controller\n"
                                "seconds 6.7 resume controller\n",
                                "");
    wait_for_cluster(&job, 2, 3);
    char *out = NULL;
    do {
        free(out);
        wait_for_iterations(&job, 1);
        out = read_text("out");
    } while (strstr(out, "resume controller") == NULL);
    free(out);
    wait_for_iterations(&job, 3);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "failures"), 0);
    assert_int_equal(last_number("summary", "items_redone"), 0);
}

/* The job went on without a node, so that node's end is no failure of the job. Here the node is stopped. Other such
 * nodes are still loading, or look for a controller that has ended. */
TEST(a_node_given_up_does_not_fail_a_done_job) {
    struct job job = start_sums(options_of("2", 2, FAILURE_TIMEOUT), "", "");
    wait_for_iterations(&job, 2);
    pid_t node = the_process("--name=node-4");
    kill(node, SIGSTOP);
    wait_for_cluster(&job, 2, 1);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "failures"), 1);
}

/* Whether the job has one controller, another than *context. */
static bool controller_is_another(void *context) {
    const pid_t *before = context;
    unsigned count;
    pid_t found = find_process("--ready-fd", &count);
    return count == 1 && found != *before;
}

TEST(controller_starts_again) {
    pid_t none = 0;
    struct job job =
        start_sums(options_of("2", 2, "5"), "iteration 3 kill controller\niteration 6 start controller\n", "");
    wait_for_iteration(&job, 12);
    FREED char *out = read_text("out");
    assert_non_null(strstr(out, "event: iteration 6 start controller"));
    wait_until(&job, controller_is_another, &none, "a controller");
    pid_t first = the_process("--ready-fd");
    kill(first, SIGKILL);
    wait_until(&job, controller_is_another, &first, "another controller"); /* lines of the first one may still come */
    wait_for_iterations(&job, 5);
    FREED char *err = read_text("err");
    assert_non_null(strstr(err, "the controller was killed by signal 9 (Killed); starting it again"));
    stop_sums(&job);
    assert_int_equal(last_number("summary", "items_redone"), 0);
}

TEST(checkpoint_and_resume) {
    char options[WORDS_MAX];
    unsigned left = 1;
    const char *checkpoints = in_folder("checkpoints");
    snprintf(options, sizeof options,
             "--reliable 2 --transient 2 --stage 2 --partitions 5 --checkpoint %s "
             "--checkpoint-every 3",
             checkpoints);
    struct job job = start_sums(options, "", "--clocks-per-iteration 2");
    wait_for_report(&job, "\"event\":\"checkpoint\"");
    wait_for_iterations(&job, 2);
    kill(job.pid, SIGKILL); /* all processes are lost */
    finish(&job);
    discard(&job);
    for (int waited = 0; waited < HANG_MS && left > 0; waited += POLL_MS) {
        clock_pause_ms(POLL_MS);
        find_process("", &left);
    }
    for (int s = 0; s < STAGE_COUNT; s++) {
        snprintf(options, sizeof options, "--reliable 1 --transient %d --stage %s --partitions 5 --resume %s", 1 + s,
                 STAGES[s], checkpoints);
        job = start_sums(options, "", "--clocks-per-iteration 2");
        wait_for_cluster(&job, 1, 1 + s);
        wait_for_iterations(&job, 3);
        FREED char *report = read_text("report");
        assert_null(strstr(report, "\"iteration\":2,\"seconds\"")); /* the job did not start from the beginning */
        assert_non_null(strstr(report, "\"event\":\"resume\""));
        stop_sums(&job);
    }
    snprintf(options, sizeof options, "--partitions 5 --resume %s", checkpoints);
    job = start_sums(options, "", "--clocks-per-iteration 3");
    finish(&job);
    assert_int_equal(job.status, 2);
    assert_non_null(strstr(job.err, "proteus: error: sum was started with other options than the job of the "
                                    "checkpoint"));
    assert_non_null(strstr(job.err, "--clocks-per-iteration 3, was 2"));
    assert_null(strstr(strstr(job.err, "error: ") + 1, "error: ")); /* one line for all nodes */
    assert_nobody_left();
    discard(&job);
}

/* Required: "`proteus checkpoint` asks for one now". */
TEST(checkpoint_now) {
    char options[WORDS_MAX];
    const char *checkpoints = in_folder("asked");
    snprintf(options, sizeof options, "--reliable 1 --transient 2 --stage 2 --checkpoint %s --checkpoint-every 1000000",
             checkpoints);
    struct job job = start_sums(options, "", "");
    wait_for_iterations(&job, 2);
    for (int c = 0; c < 3; c++) {
        struct job now = ASK(&job, "checkpoint");
        assert_asked(&now);
        assert_non_null(strstr(now.out, "clock "));
        char *path = strstr(now.out, checkpoints);
        assert_non_null(path);
        path[strcspn(path, "\n")] = '\0';
        assert_int_equal(access(path, F_OK), 0);
        discard(&now);
    }
    stop_sums(&job);

    job = start_sums("--reliable 1", "", "");
    wait_for_iterations(&job, 2);
    struct job refused = ASK(&job, "checkpoint");
    finish(&refused);
    assert_int_equal(refused.status, 2);
    assert_non_null(strstr(refused.err, "without --checkpoint"));
    discard(&refused);
    stop_sums(&job);
}

/* Required: "a job asked for checkpoints that could write none ends with status 1". */
TEST(no_checkpoint_could_be_written) {
    char options[WORDS_MAX];
    const char *checkpoints = in_folder("unwritable");
    snprintf(options, sizeof options, "--reliable 2 --checkpoint %s --checkpoint-every 1000000", checkpoints);
    struct job job = start_sums(options, "", "");
    wait_for_iterations(&job, 2);
    assert_int_equal(rmdir(checkpoints), 0);
    write_text("unwritable", "no folder");
    struct job stop = ASK(&job, "stop");
    finish(&stop);
    assert_int_equal(stop.status, 1);
    discard(&stop);
    finish(&job);
    json_auto_t *summary = last_line("summary");
    assert_true(json_is_false(json_object_get(summary, "ok")));
    assert_failed(&job, 1, "the job is done, but no checkpoint could be written into");
    unlink(checkpoints);
}

/* Counts a checkpoint folder's entries whose names begin with `prefix`. */
static int entries_of(const char *root, const char *prefix) {
    int count = 0;
    DIR *directory = opendir(root);
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        count += entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0 ? 1 : 0;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

/* Reported: "`--checkpoint-every 5` with short iterations: 0 written, 19 failed". */
TEST(checkpoints_of_short_iterations) {
    static const char *const clusters[] = {"--reliable 2", "--reliable 1 --transient 2 --stage 3",
                                           "--reliable 2 --stage traditional"};
    static const char checkpointed[] = "\"event\":\"checkpoint\"";
    const char *checkpoints = in_folder("short");
    for (int c = 0; c < 3; c++) {
        char options[WORDS_MAX];
        snprintf(options, sizeof options, "%s --checkpoint %s%d --checkpoint-every 5", clusters[c], checkpoints, c);
        struct job job = start_sums(options, "", "--slow-us 0 --iterations 400");
        finish(&job);
        assert_int_equal(job.status, 0);
        FREED char *report = read_text("report");
        assert_non_null(strstr(report, checkpointed));
        assert_null(strstr(report, "checkpoint-failed"));
        assert_non_null(strstr(report, "\"reason\":\"iteration 400, clock ")); /* --checkpoint-at-end */
        /* Two checkpoints are kept. One, if the disk took longer for the first than the job for all its iterations. */
        int kept = strstr(strstr(report, checkpointed) + 1, checkpointed) != NULL ? 2 : 1;
        snprintf(options, sizeof options, "%s%d", checkpoints, c);
        assert_int_equal(entries_of(options, "clock-"), kept);
        assert_int_equal(entries_of(options, ""), kept);
        assert_nobody_left();
        discard(&job);
    }
}

TEST(status) {
    struct job job = start_sums(options_of("2", 2, "20"), "", "");
    wait_for_iteration(&job, 2);
    struct job status = ASK(&job, "status");
    assert_asked(&status);
    assert_non_null(strstr(status.out, "sum: training"));
    assert_non_null(strstr(status.out, "node-4"));
    assert_non_null(strstr(status.out, "ActivePS"));
    assert_non_null(strstr(status.out, "BackupPS"));
    discard(&status);

    status = ASK(&job, "status", "--json");
    assert_asked(&status);
    json_auto_t *answer = json_loads(status.out, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(answer, "app")), "sum");
    assert_int_equal(json_array_size(json_object_get(answer, "nodes")), 4);
    assert_int_equal(json_array_size(json_object_get(answer, "partitions")), 8);
    discard(&status);
    stop_sums(&job);
}

TEST(evict_command) {
    struct job job = start_sums(options_of("2", 3, "20"), "", "");
    wait_for_iteration(&job, 2);
    struct job evict = ASK(&job, "evict", "node-3", "--notice", "60s", "node-5");
    assert_asked(&evict);
    discard(&evict);
    wait_for_cluster(&job, 2, 1);
    evict = ASK(&job, "evict", "node-77");
    finish(&evict);
    assert_int_not_equal(evict.status, 0);
    assert_non_null(strstr(evict.err, "node-77"));
    discard(&evict);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "evictions"), 2);
    assert_int_equal(last_number("summary", "items_redone"), 0);
}

TEST(stop_now) {
    struct job job = start_sums(options_of("1", 0, "20"), "", "");
    wait_for_iteration(&job, 2);
    struct job stop = ASK(&job, "stop", "--now");
    assert_asked(&stop);
    discard(&stop);
    finish(&job);
    assert_failed(&job, 1, "stopped by 'proteus stop'");
}

TEST(join_command) {
    struct job job = start_sums(options_of("2", 1, "600"), "", "--clocks-per-iteration 1");
    struct job join = join_sums(&job, "2", "1");
    wait_for_cluster(&job, 2, 3);
    leave_sums(&job, &join);
    wait_for_cluster(&job, 2, 1);
    join = join_sums(&job, "1", "1");
    wait_for_cluster(&job, 2, 2);
    kill(join.pid, SIGINT); /* join reports it to the controller: no wait for the failure timeout */
    finish(&join);
    assert_int_equal(join.status, 1);
    assert_non_null(strstr(join.err, "interrupted by SIGINT"));
    discard(&join);
    wait_for_cluster(&job, 2, 1);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "evictions"), 2);
    assert_int_equal(last_number("summary", "failures"), 1);
}

/* Forwards a connection between a node and the controller. Once the node has sent more than a handshake, the
 * controller's bytes are held back until `released`. If the connection ends (on a busy machine handshakes and
 * heartbeats may time out), another connection follows, until the listener is shut down. */
struct relay {
    int listener;
    struct sockaddr_in controller;
    atomic_bool holds, released;
};

static bool carry(int from, int to, size_t *total) {
    char bytes[1 << 14];
    ssize_t size = read(from, bytes, sizeof bytes);
    *total += size > 0 ? (size_t)size : 0;
    return size > 0 && send(to, bytes, (size_t)size, MSG_NOSIGNAL) == size;
}

/* Forwards one connection. Returns false when there is none any more. */
static bool relay_connection(struct relay *relay) {
    enum { HANDSHAKE_BYTES_MAX = 250 };
    int node = accept(relay->listener, NULL, NULL);
    if (node < 0) {
        return false;
    }
    int controller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open = connect(controller, (struct sockaddr *)&relay->controller, sizeof relay->controller) == 0;
    size_t said = 0;
    size_t answered = 0;
    while (open) {
        struct pollfd polled[] = {{.fd = node, .events = POLLIN}, {.fd = controller, .events = POLLIN}};
        poll(polled, 2, POLL_MS);
        if (polled[0].revents != 0) {
            open = carry(node, controller, &said);
        }
        atomic_store(&relay->holds, said > HANDSHAKE_BYTES_MAX);
        if (open && polled[1].revents != 0 && (said <= HANDSHAKE_BYTES_MAX || atomic_load(&relay->released))) {
            open = carry(controller, node, &answered);
        }
    }
    close(node);
    close(controller);
    return true;
}

static void *relay_main(void *context) {
    while (relay_connection(context)) {
    }
    return NULL;
}

static void start_relay(struct relay *relay, const char *controller, char endpoint[64]) {
    struct sockaddr_in ours = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof ours;
    const char *port = strrchr(controller, ':');
    assert_non_null(port);
    relay->controller = ours;
    relay->controller.sin_port = htons((uint16_t)atoi(port + 1));
    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(relay->listener, (struct sockaddr *)&ours, sizeof ours), 0);
    assert_int_equal(listen(relay->listener, 1), 0);
    assert_int_equal(getsockname(relay->listener, (struct sockaddr *)&ours, &size), 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%u", ntohs(ours.sin_port));
}

/* Whether the process has handled the signals sent to it. */
static bool signal_was_taken(void *context) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", *(const int *)context);
    FREED char *text = read_text(path);
    const char *pending = strstr(text, "ShdPnd:");
    bool taken = pending != NULL && strtoull(pending + strlen("ShdPnd:"), NULL, 16) == 0;
    return taken;
}

static bool relay_holds(void *context) {
    struct relay *relay = context;
    return atomic_load(&relay->holds);
}

/* SIGTERM reaches a node that the controller has welcomed, before the node has received WELCOME. The node leaves as it
 * would later. */
TEST(warned_before_welcome) {
    struct job job = start_sums(options_of("2", 1, "600"), "", "");
    struct relay relay = {.listener = -1};
    char controller[128];
    char endpoint[64];
    pthread_t thread;
    wait_until(&job, endpoint_said, controller, "an endpoint");
    wait_for_cluster(&job, 2, 1); /* training would wait for a node that comes earlier */
    start_relay(&relay, controller, endpoint);
    assert_int_equal(pthread_create(&thread, NULL, relay_main, &relay), 0);
    struct job node =
        start_beside((const char *const[]){"../tests/sum_app", "--controller", endpoint, "--tier", "transient",
                                           "--listen", "127.0.0.1", "--data", in_folder("ratings"), "--slow-us", "3000",
                                           "--iterations", "100000000", NULL},
                     true);
    wait_until(&job, relay_holds, &relay, "a registration");
    wait_for_cluster(&job, 2, 2);
    kill(node.pid, SIGTERM);
    wait_until(&job, signal_was_taken, &node.pid, "the node's warning");
    atomic_store(&relay.released, true);
    finish(&node);
    if (node.status != 0) {
        fail_msg("the node ended with status %d: %s", node.status, node.err);
    }
    discard(&node);
    wait_for_cluster(&job, 2, 1);
    stop_sums(&job);
    assert_int_equal(last_number("summary", "evictions"), 1);
    assert_int_equal(last_number("summary", "failures"), 0);
    shutdown(relay.listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(relay.listener);
}

/* There is no controller. */
TEST(no_controller) {
    struct job job = RUN("proteus", "status", "--controller", "tcp://127.0.0.1:1");
    assert_failed(&job, 1, "no answer from a controller at tcp://127.0.0.1:1");
}

TEST(cycles) {
    const char *wanted = getenv("PROTEUS_CYCLES");
    int cycles = wanted != NULL ? atoi(wanted) : CYCLES_DEFAULT;
    for (int c = 0; c < cycles; c++) {
        struct job job = RUN("proteus", "run", "--reliable", "2", "--transient", "2", "--", "mf", "--data",
                             in_folder("ratings"), "--iterations", "2");
        if (job.status != 0) {
            fail_msg("cycle %d of %d: status %d: %s", c + 1, cycles, job.status, job.err);
        }
        assert_done(&job);
        discard(&job);
    }
}

/* ---- The group ---- */

static int set_up(void **state) {
    snprintf(tag, sizeof tag, "RUN_TEST_TAG=%ld-%ld", (long)getpid(), (long)time(NULL));
    if (files_open(state) != 0) {
        return -1;
    }
    write_ratings();
    setenv("TMPDIR", in_folder(""), 1);
    return 0;
}

int main(void) {
    return tests_run(set_up, files_close);
}
