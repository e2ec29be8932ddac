/* proteus controller: a process that runs a job's controller (agileml/control/state/controller.h) on a socket. People
 * start it for jobs on several machines. `proteus run` also starts it, and follows the job as an observer. */
#include "agileml/control/state/controller.h"

#include "agileml/base/log.h"
#include "agileml/base/signals.h"
#include "agileml/cloud/object_url.h"
#include "agileml/cloud/storage.h"
#include "proteus/balance_option.h"
#include "proteus/command.h"
#include "proteus/feeders_option.h"
#include "proteus/folder_thread.h"
#include "proteus/job_options.h"
#include "proteus/job_page.h"
#include "proteus/progress.h"
#include "proteus/report_file.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct controller_options_read {
    struct job_options job;
    struct plan_policy policy;
    const char *listen, *advertise;
    const char *store;    /* file; NULL: none */
    double start_timeout; /* seconds */
    const char *feeders_text;
    struct feeders_option feeders;
    int64_t feeder_threads;
    enum progress_mode progress;
    /* descriptor for the endpoint's line; -1: not started by `proteus run` */
    int64_t ready_fd;
    char checkpoint[PATH_MAX], resume[PATH_MAX]; /* absolute paths of these options */
};

struct controller_host {
    struct controller controller;
    struct net *net;
    struct net_io *io;
    struct store *store; /* NULL: none */
    struct report_file report;
    struct progress progress;
    struct job_page page;
    struct folder_thread *folder_thread; /* works on checkpoints among objects; NULL: none */
    size_t lines_shown;
    const struct job_options *job;
    bool launched;
    int signal_fd; /* -1: none */
    int signals;   /* number of received signals */
    int code;      /* the job's end: 0 or an error */
    char text[ERROR_TEXT_MAX];
};

/* ---- What the actor and the loop call ---- */

/* Shows new lines of the report, once they are stored: after a restart, lines not stored may differ. Under `proteus
 * run` the launcher shows the lines. */
static void show_new_lines(struct controller_host *host) {
    const struct controller *controller = &host->controller;
    for (; !host->launched && host->lines_shown < controller->report.stored; host->lines_shown++) {
        const char *text = controller_line(controller, host->lines_shown);
        if (text == NULL) {
            continue; /* the line was already dropped */
        }
        struct report_line *line = report_line_read(text, strlen(text), NULL);
        report_file_write(&host->report, text, strlen(text));
        progress_write(&host->progress, text, strlen(text));
        if (line != NULL) {
            progress_report(&host->progress, line);
            progress_warn(&host->progress, line);
        }
        report_line_drop(line);
    }
}

/* Resumes the progress after lines that an earlier controller of this job has already shown. */
static void recall_lines(struct controller_host *host) {
    for (size_t l = 0; l < host->lines_shown; l++) {
        const char *text = controller_line(&host->controller, l);
        struct report_line *line = text != NULL ? report_line_read(text, strlen(text), NULL) : NULL;
        if (line != NULL) {
            progress_recall(&host->progress, line);
        }
        report_line_drop(line);
    }
}

/* Called at the end of each callback. */
static void settle(struct controller_host *host) {
    show_new_lines(host);
    job_page_step(&host->page);
}

static void host_receive(void *self, actor_id from, struct message *message) {
    struct controller_host *host = self;
    controller_receive(&host->controller, from, message);
    settle(host);
}

static void host_timer(void *self) {
    struct controller_host *host = self;
    controller_timer(&host->controller);
    settle(host);
    progress_tick(&host->progress);
}

static void host_broken(void *self, actor_id peer) {
    struct controller_host *host = self;
    controller_broken(&host->controller, peer);
    settle(host);
}

static void host_dialed(void *self, actor_id actor, uint64_t began_us, bool listens) {
    struct controller_host *host = self;
    controller_dialed(&host->controller, actor, began_us, listens);
    settle(host);
}

static void host_warning(void *self, const char *text) {
    struct controller_host *host = self;
    progress_clear(&host->progress);
    log_warn("%s", text);
}

static void host_job_ended(void *context, int code, const char *text) {
    struct controller_host *host = context;
    host->code = code;
    snprintf(host->text, sizeof host->text, "%s", text);
    net_io_stop(host->io);
}

static void host_signalled(void *context) {
    struct controller_host *host = context;
    int number;
    while ((number = signals_next(host->signal_fd)) != 0) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "stopped by SIG%s", sigabbrev_np(number));
        if (host->controller.phase == PHASE_TRAIN) {
            job_name_stop(host->job, net_io_endpoint(host->io), text, sizeof text);
        }
        controller_abort(&host->controller, AML_ESTOP, text);
        settle(host);
        if (host->signals++ > 0) { /* at a second signal, ends without waiting for nodes */
            host_job_ended(host, AML_ESTOP, text);
        }
    }
}

/* ---- Life cycle ---- */

/* Reports the addresses of the controller and the page: to people, or as one line to `proteus run`. */
static int tell_endpoint(struct controller_host *host, const struct controller_options_read *options,
                         struct error *error) {
    const char *endpoint = net_io_endpoint(host->io);
    const char *address = host->page.web != NULL ? web_address(host->page.web) : "";
    if (!host->launched) {
        log_info("listening on %s", endpoint);
        progress_note(&host->progress, "listening on %s for %lld reliable and %lld transient nodes", endpoint,
                      (long long)options->job.reliable, (long long)options->job.transient);
        if (address[0] != '\0') {
            log_info("page at %s", address);
            progress_note(&host->progress, "page at %s", address);
        }
        return 0;
    }
    int written = dprintf((int)options->ready_fd, "%s %s\n", endpoint, address);
    close((int)options->ready_fd);
    return written > 0 ? 0
                       : error_set(error, AML_EFAIL, "can't write the controller's endpoint to --ready-fd: %s",
                                   strerror(errno));
}

static int host_open(struct controller_host *host, const struct controller_options_read *options, struct error *error) {
    static const int numbers[] = {SIGINT, SIGTERM, 0};
    progress_begin(&host->progress, stdout, host->launched ? PROGRESS_NONE : options->progress);
    host->progress.decisions = true; /* BidBrain runs in another process */
    int result = report_file_open(&host->report, options->job.report, error);
    result = result == 0 ? signals_open(&host->signal_fd, numbers, error) : result;
    if (result == 0) {
        const struct net_options net = {.insecure = options->job.insecure, .controller = true};
        result = net_open_by_file(&host->net, options->job.key, net, error);
    }
    if (result == 0 && options->store != NULL) {
        result = store_open(&host->store, options->store, error);
    }
    const struct net_io_options io_options = {
        .self = ACTOR_CONTROLLER,
        .bind = options->listen,
        .advertise = options->advertise,
        .actor =
            {.receive = host_receive, .timer = host_timer, .self = host, .broken = host_broken, .dialed = host_dialed},
        .message_bytes = CONTROLLER_MESSAGE_BYTES,
        .warning = host_warning,
    };
    result = result == 0 ? net_io_open(&host->io, host->net, &io_options, error) : result;
    if (result == 0 && net_io_watch(host->io, host->signal_fd, host_signalled, host) != 0) {
        result = error_set(error, AML_EFAIL, "can't wait for signals");
    }
    return result;
}

/* A store belongs to one job. If that job has ended, this controller only dismisses its last nodes, and ends. */
static void warn_of_old_store(const struct controller_host *host, const char *store) {
    if (store != NULL && !host->launched && host->controller.phase >= PHASE_LEAVE) {
        log_warn("%.200s: the job of this store has ended; for another job remove the file", store);
    }
}

static void host_folder_task(void *context, struct folder_task *task) {
    struct controller_host *host = context;
    folder_thread_add(host->folder_thread, task);
}

static void host_folder_done(void *context, struct folder_task *task) {
    struct controller_host *host = context;
    controller_folder_done(&host->controller, task);
}

static int host_run(struct controller_host *host, const struct controller_options_read *options, struct error *error) {
    aml_balance_policy *balance;
    if (balance_option(options->job.balance, &balance, error) != 0) {
        return AML_EINPUT;
    }
    bool objects = options->job.checkpoint != NULL && storage_is_object(options->job.checkpoint);
    if (objects && folder_thread_open(&host->folder_thread, host->io, host_folder_done, host, error) != 0) {
        return AML_EFAIL;
    }
    const struct controller_options controller_options = {
        .reliable = (unsigned)options->job.reliable,
        .transient = (unsigned)options->job.transient,
        .policy = options->policy,
        .thresholds = {.to_2 = options->job.threshold_2, .to_3 = options->job.threshold_3},
        .commit_every = (uint32_t)options->job.commit_every,
        .heartbeat_ms = job_heartbeat_ms(&options->job),
        .timeout_ms = (uint32_t)(options->job.failure_timeout * 1e3),
        .probe_ms = (uint32_t)options->job.probe,
        .answer_ms = (uint32_t)(options->job.answer_timeout * 1e3),
        .balance = balance,
        .replacements = (uint32_t)options->job.replacements,
        .feeders_max = (uint32_t)options->feeders.most,
        .feeder_threads = (uint32_t)options->feeder_threads,
        .window_short = options->job.window_short,
        .window_long = options->job.window_long,
        .start_timeout_ms = (uint32_t)(options->start_timeout * 1e3),
        .checkpoint = options->job.checkpoint,
        .checkpoint_every = (uint32_t)options->job.checkpoint_every,
        .checkpoint_at_end = options->job.checkpoint_at_end,
        .resume = options->job.resume,
        .observed = host->launched,
        .store = host->store,
        .folder_task = host->folder_thread != NULL ? host_folder_task : NULL,
        .end = host_job_ended,
        .context = host,
    };
    job_page_begin(&host->page, net_io_of(host->io), &host->controller);
    int result = controller_init(&host->controller, &host->page.io, &controller_options, error);
    if (result == 0) {
        /* These lines of the report are from an earlier controller of this job. */
        host->lines_shown = host->controller.report.count;
        host->report.begun = host->lines_shown > 0;
        recall_lines(host);
        warn_of_old_store(host, options->store);
        result = job_page_open(&host->page, host->io, options->job.http, options->store, error);
    }
    result = result == 0 ? tell_endpoint(host, options, error) : result;
    result = result == 0 ? net_io_run(host->io, error) : result;
    if (result == 0 && host->code != 0) {
        result = error_set(error, host->code, "%s", host->text);
    }
    job_page_close(&host->page, host->io);
    folder_thread_close(host->folder_thread);
    controller_close(&host->controller);
    return result;
}

/* Closes everything, after the last messages were sent. */
static void host_close(struct controller_host *host) {
    progress_end(&host->progress);
    net_io_close(host->io);
    if (host->net != NULL) {
        net_close(host->net);
    }
    if (host->store != NULL) {
        host->store->close(host->store);
    }
    if (host->signal_fd >= 0) {
        close(host->signal_fd);
    }
}

static int run_controller(const struct controller_options_read *options) {
    struct controller_host host = {.job = &options->job, .launched = options->ready_fd >= 0, .signal_fd = -1};
    struct error error = {0};
    struct error report_error = {0};
    int result = host_open(&host, options, &error);
    bool opened = result == 0;
    if (opened) {
        result = host_run(&host, options, &error);
    }
    host_close(&host);
    if (result != 0 && !(host.launched && host.code != 0)) {
        log_error("%s", error.text); /* the launcher prints the reason that the job has */
    }
    if (report_file_close(&host.report, &report_error) != 0) {
        log_error("%s", report_error.text);
        result = result != 0 ? result : report_error.code;
    }
    return error_exit_status(result);
}

/* ---- The command line ---- */

/* Makes the path of a folder absolute, since nodes use it, too. */
static int resolve_folder(const char *option, const char **folder, char path[PATH_MAX], struct error *error) {
    if (realpath(*folder, path) == NULL) {
        return error_set(error, AML_EINPUT, "%s %.200s: %s", option, *folder, strerror(errno));
    }
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s %.200s: not a directory", option, *folder);
    }
    *folder = path;
    return 0;
}

/* Copies a prefix of objects, without slashes at its end. */
static int resolve_prefix(const char *option, const char **prefix, char path[PATH_MAX], struct error *error) {
    size_t length = strlen(*prefix);
    while (length > strlen("s3://") && (*prefix)[length - 1] == '/') {
        length--;
    }
    if (!object_url_is_s3(*prefix)) {
        return error_set(error, AML_EINPUT, "%s %.200s: expected a directory or s3://BUCKET/PREFIX", option, *prefix);
    }
    snprintf(path, PATH_MAX, "%.*s", (int)length, *prefix);
    *prefix = path;
    return 0;
}

/* Checks that objects can be written under the prefix of the checkpoints. */
static int check_prefix(const char *prefix, struct error *error) {
    char path[PATH_MAX + 8];
    struct error reason = {0};
    snprintf(path, sizeof path, "%s/check", prefix);
    return storage_check(path, &reason) == 0 ? 0 : error_set(error, AML_EINPUT, "--checkpoint: %s", reason.text);
}

static int resolve_objects(struct controller_options_read *options, struct error *error) {
    int result = 0;
    if (options->job.checkpoint != NULL && storage_is_object(options->job.checkpoint)) {
        result = resolve_prefix("--checkpoint", &options->job.checkpoint, options->checkpoint, error);
        result = result != 0 ? result : check_prefix(options->job.checkpoint, error);
    }
    if (result == 0 && options->job.resume != NULL && storage_is_object(options->job.resume)) {
        result = resolve_prefix("--resume", &options->job.resume, options->resume, error);
    }
    return result;
}

static int resolve_folders(struct controller_options_read *options, struct error *error) {
    int result = resolve_objects(options, error);
    if (result == 0 && options->job.checkpoint != NULL && !storage_is_object(options->job.checkpoint)) {
        if (mkdir(options->job.checkpoint, 0777) != 0 && errno != EEXIST) {
            return error_set(error, AML_EINPUT, "--checkpoint %.200s: %s", options->job.checkpoint, strerror(errno));
        }
        result = resolve_folder("--checkpoint", &options->job.checkpoint, options->checkpoint, error);
    }
    if (result == 0 && options->job.resume != NULL && !storage_is_object(options->job.resume)) {
        result = resolve_folder("--resume", &options->job.resume, options->resume, error);
    }
    return result;
}

/* Feeders that the controller requests are started only by `proteus run`. */
static int check_feeders(struct controller_options_read *options, struct error *error) {
    if (options->ready_fd < 0 && strcmp(options->feeders_text, "0") != 0) {
        return error_set(error, AML_EINPUT,
                         "--feeders %.100s: a controller starts no nodes: start feeders as APP --tier feeder, or use "
                         "proteus run",
                         options->feeders_text);
    }
    return feeders_option(options->feeders_text, WIRE_NODES_MAX, &options->feeders, error);
}

static const char USAGE[] = "usage: proteus controller --listen tcp://HOST:PORT --reliable N --transient N\n"
                            "                          [OPTIONS]\n\n"
                            "Runs the controller of a job. Its nodes are started by hand, as\n"
                            "    APP ... --controller tcp://HOST:PORT --tier reliable|transient|feeder\n"
                            "The job begins when so many have joined; more may join later.";

int command_controller(int argc, char **argv) {
    struct controller_options_read options = {
        .job = job_options_defaults(), .start_timeout = 60, .feeders_text = "0", .ready_fd = -1};
    struct aml_option shared[JOB_OPTIONS_ENTRIES];
    const struct aml_option own[] = {
        {"listen", "ENDPOINT", AML_OPTION_STRING, &options.listen, 0, 0,
         "tcp://HOST:PORT of this machine; host 0.0.0.0 or [::]: all its addresses; port 0: any free port"},
        {"store", "FILE", AML_OPTION_STRING, &options.store, 0, 0, "keep in FILE what a restarted controller needs"},
        {"start-timeout", "SECONDS", AML_OPTION_REAL, &options.start_timeout, 1, 2 * 86400,
         "how long to wait for all nodes"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &options.job.help, 0, 0, "this text, or a topic's options"},
        OPTIONS_TOPIC("network", "addresses, keys"),
        {"advertise", "HOST", AML_OPTION_STRING, &options.advertise, 0, 0,
         "the address at which other machines reach it, for messages, if it is another one than --listen; HOST:PORT: "
         "the port, too"},
        {0},
    };
    const struct aml_option internal[] = {
        {"ready-fd", "N", AML_OPTION_INTEGER, &options.ready_fd, 3, 1 << 20, "for proteus run"},
        {"feeders", "N", AML_OPTION_STRING, &options.feeders_text, 0, 0, "for proteus run"},
        {"feeder-threads", "N", AML_OPTION_INTEGER, &options.feeder_threads, 0, WIRE_NODES_MAX, "for proteus run"},
        {0},
    };
    const struct aml_option *const tables[] = {shared, own, internal};
    struct error error = {0};
    int operand;
    job_options_table(&options.job, shared);
    int result = options_parse(tables, 3, argc, argv, &operand, &error);
    if (result == 0 && options.job.help) {
        result = options_help(USAGE, tables, 2, argc, argv, &error);
        if (result == 1) {
            return 0;
        }
    }
    result = result == 0 ? log_set_up(&options.job.log, &error) : result;
    if (result == 0 && operand < argc) {
        result = error_set(&error, AML_EINPUT, "controller: unexpected '%.100s', expected options only", argv[operand]);
    }
    if (result == 0 && options.listen == NULL) {
        result = error_set(&error, AML_EINPUT, "controller: --listen tcp://HOST:PORT is missing");
    }
    result = result == 0 ? check_feeders(&options, &error) : result;
    result = result == 0 ? job_options_check(&options.job, &options.policy, &error) : result;
    result = result == 0 ? progress_parse(options.job.progress, &options.progress, &error) : result;
    result = result == 0 ? resolve_folders(&options, &error) : result;
    if (result != 0) {
        log_error("%s", error.text);
        return error_exit_status(result);
    }
    return run_controller(&options);
}
