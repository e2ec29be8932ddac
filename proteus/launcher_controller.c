/* The launcher's controller process. */
#include "proteus/launcher_private.h"

#include "agileml/base/log.h"
#include "agileml/control/state/controller.h"
#include "proteus/answer.h"
#include "proteus/balance_option.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void controller_ready(void *context, const char *line) {
    struct launcher *launcher = context;
    child_lines_close(&launcher->controller.ready);
    launcher->controller.is_ready = true;
    launcher->controller.lost_us = 0;
    if (launcher->phase == LAUNCHER_START) { /* the line is "ENDPOINT PAGE" */
        size_t size = strcspn(line, " ");
        snprintf(launcher->endpoint, sizeof launcher->endpoint, "%.*s", (int)size, line);
        snprintf(launcher->page, sizeof launcher->page, "%s", line + size + (line[size] == ' ' ? 1 : 0));
        launcher_wake(launcher); /* so that the job starts */
    }
}

/* A restarted controller listens at the same endpoint as the first, and its page, http://HOST:PORT/, too. */
static void add_controller_arguments(const struct launcher *launcher, struct arguments *arguments) {
    const char *page = strstr(launcher->page, "://");
    arguments_add(arguments, "proteus");
    arguments_add(arguments, "controller");
    if (launcher->endpoint[0] != '\0') {
        arguments_add(arguments, "--listen=%s", launcher->endpoint);
    } else {
        arguments_add(arguments, "--listen=tcp://%s:0", launcher->options->host);
    }
    arguments_add(arguments, "--store=%s/store", launcher->folder.path);
    job_options_arguments(launcher->options->job, arguments);
    if (launcher->options->feeders_max > 0) {
        arguments_add(arguments, "--feeders=auto:%lld", (long long)launcher->options->feeders_max);
        arguments_add(arguments, "--feeder-threads=%lld", (long long)launcher->options->feeder_threads);
    }
    if (page != NULL) { /* counts instead of --http above */
        page += strlen("://");
        arguments_add(arguments, "--http=%.*s", (int)strcspn(page, "/"), page);
    }
    /* Longer than our own timeout, so that our message comes first: it names the missing nodes. We also wait longer for
     * missing nodes that still compute, except for nodes on machines of a market. */
    double longest =
        launcher->market != NULL ? launcher_start_timeout(launcher) + LAUNCHER_START_MIN_S : LAUNCHER_STARTS_MAX_S;
    arguments_add(arguments, "--start-timeout=%.17g", longest);
}

void launcher_start_controller(struct launcher *launcher) {
    struct arguments arguments = {0};
    char path[PATH_MAX];
    int ready_fd;
    assert(!launcher->controller.process.running);
    launcher->controller.is_ready = launcher->controller.killed = false;
    launcher->controller.ready.line = controller_ready;
    launcher->controller.ready.context = launcher;
    if (process_self(path, &launcher->error) != 0 ||
        child_lines_open(&launcher->controller.ready, launcher->io, &ready_fd, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    add_controller_arguments(launcher, &arguments);
    arguments_add(&arguments, "--ready-fd=%d", ready_fd);
    struct process_setting setting = {.inherited_fd = ready_fd, .output_fd = -1};
    if (process_start(&launcher->controller.process, path, &arguments, setting, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    close(ready_fd);
    arguments_close(&arguments);
}

enum { POLICY_TEXT = 256 };

/* Names the policy that may have crashed the controller: a policy from a shared library runs in its process. */
static void describe_policy(const struct launcher *launcher, char text[POLICY_TEXT]) {
    const char *policy = launcher->options->job->balance;
    int status = launcher->controller.process.status;
    bool crashed = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
    text[0] = '\0';
    if (crashed && balance_option_is_library(policy)) {
        snprintf(text, POLICY_TEXT, ", perhaps in the policy of --balance %.200s", policy);
    }
}

/* Restarts a killed controller, which hardly delays the job. */
static void controller_lost(struct launcher *launcher) {
    char end[PROCESS_END_TEXT];
    process_describe_end(&launcher->controller.process, end);
    char policy[POLICY_TEXT];
    describe_policy(launcher, policy);
    launcher->controller.lost_us = launcher_now(launcher);
    if (launcher->controller.killed && events_start_controller(launcher->events)) {
        return;
    }
    if (launcher->controller.killed || launcher->stop.code != 0 || launcher->phase != LAUNCHER_JOB ||
        ++launcher->controller.restarts > LAUNCHER_RESTARTS_MAX) {
        launcher_fail(launcher, AML_EFAIL, "the controller %s%s", end, policy);
        return;
    }
    progress_clear(launcher->progress);
    log_warn("the controller %s%s; starting it again", end, policy);
    launcher_start_controller(launcher);
}

void launcher_controller_ended(struct launcher *launcher) {
    int status = launcher->controller.process.status;
    child_lines_close(&launcher->controller.ready);
    if (launcher->phase != LAUNCHER_START && launcher->phase != LAUNCHER_JOB) {
        return;
    }
    if (!WIFEXITED(status)) {
        controller_lost(launcher);
    } else if (!launcher->controller.is_ready && WEXITSTATUS(status) != 0) {
        launcher->status = WEXITSTATUS(status); /* the controller has printed the reason */
        launcher_kill_all(launcher);
    } else {
        launcher->silence_us = launcher_after(launcher, LAUNCHER_SUMMARY_WAIT_MS);
    }
}
