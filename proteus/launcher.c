/* See launcher.h. One loop reacts to signals (SIGCHLD at a child's end), to the controller's messages and to the timer.
 * All state is in struct launcher. */
#include "proteus/launcher_private.h"

#include "agileml/base/log.h"
#include "agileml/base/signals.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- All children ---- */

static void launcher_signal_all(const struct launcher *launcher, int number) {
    process_signal(&launcher->check, number);
    for (unsigned n = 0; n < launcher->node_count; n++) {
        process_signal(&launcher->nodes[n].process, number);
    }
    process_signal(&launcher->controller.process, number);
    launcher_market_signal(launcher, number);
}

static bool launcher_any_runs(const struct launcher *launcher) {
    bool any = launcher->check.running || launcher->controller.process.running || launcher_market_runs(launcher);
    for (unsigned n = 0; n < launcher->node_count; n++) {
        any = any || launcher->nodes[n].process.running;
    }
    return any;
}

static bool any_dumps_core(const struct launcher *launcher) {
    bool any = false;
    for (unsigned n = 0; n < launcher->node_count; n++) {
        any = any || process_dumps_core(&launcher->nodes[n].process);
    }
    return any;
}

/* ---- Starting ---- */

static void start_check(struct launcher *launcher) {
    const struct launcher_options *options = launcher->options;
    struct arguments arguments = {0};
    app_arguments(options->app, NULL, false, &arguments);
    arguments_add(&arguments, "--check");
    if (process_start(&launcher->check, options->app->path, &arguments, PROCESS_SETTING_OURS, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    arguments_close(&arguments);
}

/* Starts the job: the controller listens now. */
static void start_job(struct launcher *launcher) {
    const struct job_options *job = launcher->options->job;
    if (net_io_connect(launcher->io, ACTOR_CONTROLLER, launcher->endpoint, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    log_info("controller at %s", launcher->endpoint);
    progress_note(launcher->progress, "controller at %s", launcher->endpoint);
    if (launcher->page[0] != '\0') {
        log_info("page at %s", launcher->page);
        progress_note(launcher->progress, "page at %s", launcher->page);
    }
    launcher_set_phase(launcher, LAUNCHER_JOB);
    observer_ask_lines(&launcher->observer);
    if (launcher->market != NULL) {
        launcher_market_buy(launcher);
        return;
    }
    launcher->start_us = launcher_now(launcher) + (uint64_t)(launcher_start_timeout(launcher) * 1e6);
    launcher_add_nodes(launcher, TIER_RELIABLE, (unsigned)job->reliable);
    launcher_add_nodes(launcher, TIER_TRANSIENT, (unsigned)job->transient);
    launcher_add_nodes(launcher, TIER_FEEDER, (unsigned)launcher->options->feeders);
}

/* ---- Children that end ---- */

static void check_ended(struct launcher *launcher) {
    char end[PROCESS_END_TEXT];
    process_describe_end(&launcher->check, end);
    if (launcher->phase != LAUNCHER_CHECK) {
        return;
    }
    if (process_succeeded(&launcher->check)) {
        launcher_set_phase(launcher, LAUNCHER_START);
        if (run_folder_make(&launcher->folder, &launcher->error) != 0) {
            launcher_kill_all(launcher);
        } else if (launcher->market != NULL) {
            launcher_market_start(launcher);
        } else {
            launcher_start_controller(launcher);
        }
    } else if (WIFEXITED(launcher->check.status)) {
        launcher->status = WEXITSTATUS(launcher->check.status); /* the app has printed the reason */
        launcher_set_phase(launcher, LAUNCHER_END);
    } else {
        launcher_fail(launcher, AML_EFAIL, "'%.200s --check' %s", launcher->options->app->arguments[0], end);
    }
}

static void launcher_reap(struct launcher *launcher) {
    if (process_ended(&launcher->check)) {
        check_ended(launcher);
    }
    launcher_reap_nodes(launcher);
    launcher_market_reap(launcher);
    if (process_ended(&launcher->controller.process)) {
        launcher_controller_ended(launcher);
    }
}

/* ---- The end of each step ---- */

/* Called at the end of each callback: consumes its verdicts, carries out due events, checks for the end, sets the
 * timer. */
static void launcher_settle(struct launcher *launcher) {
    if (launcher->phase == LAUNCHER_START && launcher->controller.is_ready) {
        start_job(launcher);
    }
    uint64_t events_us = launcher_run_events(launcher);
    uint64_t nodes_us = launcher_watch_nodes(launcher);
    struct launcher_verdicts verdicts = launcher->verdicts;
    launcher->verdicts = (struct launcher_verdicts){0};
    if (verdicts.stop) {
        launcher_remind(launcher);
    }
    if (verdicts.kill) {
        launcher_signal_all(launcher, SIGKILL);
    }
    const uint64_t times[] = {launcher->start_us, launcher->silence_us,         launcher->kill_us, events_us,
                              nodes_us,           launcher_market_due(launcher)};
    /* missing lines are requested at this time, however many other messages arrive */
    uint64_t next_us = launcher->controller.observe_us;
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        next_us = times[t] != 0 && times[t] < next_us ? times[t] : next_us;
    }
    if (launcher->phase == LAUNCHER_END && !launcher_any_runs(launcher)) {
        net_io_stop(launcher->io);
    }
    struct io *io = net_io_of(launcher->io);
    io->set_timer(io, next_us);
}

/* ---- Signals ---- */

static void launcher_interrupt(struct launcher *launcher, int number) {
    char text[LAUNCHER_REASON_TEXT];
    snprintf(text, sizeof text, "interrupted by SIG%s", sigabbrev_np(number));
    if (launcher->training.began_us != 0 && launcher->phase == LAUNCHER_JOB) {
        job_name_stop(launcher->options->job, launcher->endpoint, text, sizeof text);
    }
    if (launcher->signals++ == 0 && launcher->phase == LAUNCHER_JOB) {
        launcher_stop(launcher, AML_ESTOP, text);
    } else {
        launcher_fail(launcher, AML_ESTOP, "%s", text);
    }
}

/* Ctrl-Z stops all processes of the job. Then postpones all deadlines by the length of the stop. */
static void launcher_suspend(struct launcher *launcher) {
    uint64_t *const times[] = {&launcher->start_us, &launcher->silence_us, &launcher->kill_us};
    uint64_t began_us = launcher_now(launcher);
    progress_clear(launcher->progress);
    if (launcher->market != NULL) {
        progress_note(launcher->progress, "Ctrl-Z has no effect with --market, as a market does not stand still");
        return;
    }
    launcher_signal_all(launcher, SIGSTOP);
    raise(SIGSTOP);
    launcher_signal_all(launcher, SIGCONT);
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        *times[t] += *times[t] != 0 ? launcher_now(launcher) - began_us : 0;
    }
    launcher_shift_nodes(launcher, launcher_now(launcher) - began_us);
}

static void launcher_signalled(void *context) {
    struct launcher *launcher = context;
    int number;
    while ((number = signals_next(launcher->signal_fd)) != 0) {
        if (number == SIGCHLD) {
            launcher_reap(launcher);
        } else if (number == SIGTSTP) {
            launcher_suspend(launcher);
        } else {
            launcher_interrupt(launcher, number);
        }
    }
    launcher_settle(launcher);
}

/* ---- Time ---- */

static bool is_due(const struct launcher *launcher, uint64_t at_us) {
    return at_us != 0 && launcher_now(launcher) >= at_us;
}

static void launcher_timer(void *self) {
    struct launcher *launcher = self;
    launcher->controller.observe_us = launcher_after(launcher, LAUNCHER_OBSERVE_MS);
    if (is_due(launcher, launcher->start_us) && !launcher_wait_for_missing(launcher)) {
        launcher_stop_for_missing(launcher);
    }
    if (is_due(launcher, launcher->silence_us)) {
        char end[PROCESS_END_TEXT];
        process_describe_end(&launcher->controller.process, end);
        launcher_fail(launcher, AML_EFAIL, "the controller %s before the job's summary came", end);
    }
    if (is_due(launcher, launcher->kill_us) && any_dumps_core(launcher)) {
        launcher->kill_us = launcher_after(launcher, LAUNCHER_CORE_WAIT_MS);
    } else if (is_due(launcher, launcher->kill_us)) {
        if (launcher->phase == LAUNCHER_JOB) {
            error_set(&launcher->error, launcher->stop.code, "the controller does not answer; %s", launcher->stop.text);
        }
        launcher_kill_all(launcher);
    }
    launcher_remind(launcher);
    progress_tick(launcher->progress);
    launcher_market_step(launcher);
    launcher_settle(launcher);
}

/* ---- Life cycle ---- */

static void receive(void *self, actor_id from, struct message *message) {
    struct launcher *launcher = self;
    launcher_receive(launcher, from, message);
    launcher_settle(launcher);
}

static void launcher_refused(void *self, const char *endpoint, const char *why) {
    struct launcher *launcher = self;
    launcher_fail(launcher, AML_EFAIL, "the controller at %s: %s", endpoint, why);
    launcher_settle(launcher);
}

static void launcher_warning(void *self, const char *text) {
    struct launcher *launcher = self;
    progress_clear(launcher->progress);
    log_warn("%s", text);
}

static int launcher_open(struct launcher *launcher, struct error *error) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP, 0};
    const struct net_io_options io_options = {
        .self = net_observer_id(),
        .actor = {.receive = receive, .timer = launcher_timer, .self = launcher},
        .refused = launcher_refused,
        .warning = launcher_warning,
    };
    int result = signals_open(&launcher->signal_fd, numbers, error);
    if (result == 0) {
        const struct job_options *job = launcher->options->job;
        result = net_open_by_file(&launcher->net, job->key, (struct net_options){.insecure = job->insecure}, error);
    }
    result = result == 0 ? net_io_open(&launcher->io, launcher->net, &io_options, error) : result;
    if (result == 0) {
        observer_open(&launcher->observer, net_io_of(launcher->io), 0);
    }
    if (result == 0 && net_io_watch(launcher->io, launcher->signal_fd, launcher_signalled, launcher) != 0) {
        result = error_set(error, AML_EFAIL, "can't wait for signals");
    }
    return result == 0 ? launcher_market_open(launcher, error) : result;
}

static void launcher_close(struct launcher *launcher) {
    if (launcher->io != NULL) {
        child_lines_close(&launcher->controller.ready);
        launcher_market_close(launcher);
        net_io_close(launcher->io);
    }
    if (launcher->net != NULL) {
        net_close(launcher->net);
    }
    if (launcher->signal_fd >= 0) {
        close(launcher->signal_fd);
    }
    run_folder_remove(&launcher->folder);
    observer_close(&launcher->observer);
    report_line_drop(launcher->training.line);
    free(launcher->nodes);
}

/* Returns the exit status once all processes have ended. */
static int launcher_verdict(struct launcher *launcher) {
    char text[LAUNCHER_NODES_TEXT];
    if (launcher->status == 0 && launcher->error.code == 0 && launcher_describe_unwell(launcher, text, sizeof text)) {
        error_set(&launcher->error, AML_EFAIL, "the job has ended well, but %s", text);
    }
    return launcher->status != 0 ? launcher->status : error_exit_status(launcher->error.code);
}

static void warn_of_missed_event(void *context, const char *event) {
    (void)context;
    log_warn("the job ended before this event came: %s", event);
}

int launcher_run(const struct launcher_options *options, struct events *events, struct report_file *report,
                 struct progress *progress, struct error *error) {
    struct launcher launcher = {
        .options = options,
        .events = events,
        .report = report,
        .progress = progress,
        .signal_fd = -1,
        .folder = RUN_FOLDER_NONE,
        .elastic = strcmp(options->job->stage, "traditional") != 0,
        .first_nodes = (unsigned)(options->job->reliable + options->job->transient),
        .training.pace = 1,
    };
    if (launcher_open(&launcher, &launcher.error) == 0) {
        start_check(&launcher);
        if (launcher_any_runs(&launcher)) {
            launcher.controller.observe_us = launcher_after(&launcher, LAUNCHER_OBSERVE_MS);
            launcher_settle(&launcher);
            net_io_run(launcher.io, &launcher.error);
        }
    }
    int status = launcher_verdict(&launcher);
    launcher_market_tell(&launcher);
    if (!launcher.observer.ended && process_succeeded(&launcher.check)) {
        launcher_write_summary(&launcher, status);
    }
    progress_clear(progress);
    if (status == 0) { /* a failed job reports only its failure */
        events_visit_missed(events, warn_of_missed_event, NULL);
    }
    launcher_close(&launcher);
    *error = launcher.error;
    return status;
}
