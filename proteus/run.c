/* proteus run: reads and checks the command line, then leaves the job to the launcher. */
#include "agileml/base/log.h"
#include "agileml/net/endpoint.h"
#include "proteus/command.h"
#include "proteus/launcher.h"
#include "proteus/process.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUN_THREADS_MAX = 1024 };

struct run_options {
    struct job_options job;
    struct launcher_options launch;
    const char *host;
    int64_t threads;
    const char *events;
    bool quiet;
    char app_path[PATH_MAX];
};

static void print_help(const struct aml_option *table) {
    printf(
        "usage: proteus run [OPTIONS] -- APP [ARGUMENTS]\n\n"
        "Starts a controller and the nodes of a job on this machine, each a process, runs APP to its end, and shows\n"
        "its progress. APP is a path, or a program beside proteus or in $PATH; 'APP --help' tells its arguments.\n\n");
    options_help(stdout, table);
}

/* The host can be listened on, and without a key nobody else can reach it. */
static int check_host(const struct run_options *options, struct error *error) {
    char text[WIRE_ENDPOINT_MAX];
    struct endpoint endpoint;
    if (snprintf(text, sizeof text, "tcp://%s:0", options->host) >= (int)sizeof text) {
        return error_set(error, AML_EINPUT, "--listen: expected a host, got '%.100s'", options->host);
    }
    int result = endpoint_parse(&endpoint, text, true, error);
    if (result == 0 && !endpoint.loopback && options->job.key == NULL && !options->job.insecure) {
        result = error_set(error, AML_EINPUT,
                           "--listen %s: other machines can reach it: expected --key FILE too, or --insecure",
                           options->host);
    }
    return result;
}

/* For something that an app does without a job. */
static bool asks_for_no_job(const struct launcher_options *launch) {
    for (int a = 1; a < launch->app_count; a++) {
        if (strcmp(launch->app[a], "--help") == 0 || strcmp(launch->app[a], "-h") == 0 ||
            strcmp(launch->app[a], "--version") == 0 || strcmp(launch->app[a], "--check") == 0) {
            return true;
        }
    }
    return false;
}

static bool is_option(const char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, name, length) == 0 &&
           (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

/* An app has options that the launcher gives to each node, behind those that are written here: they would be lost. */
static int check_app_arguments(const struct launcher_options *launch, struct error *error) {
    static const char *const ours[] = {"threads", "listen", "key", "insecure"};
    static const char *const of_nodes[] = {"controller", "tier", "name", "supervised"};
    for (int a = 1; a < launch->app_count; a++) {
        for (size_t n = 0; n < sizeof ours / sizeof *ours; n++) {
            if (is_option(launch->app[a], ours[n])) {
                return error_set(error, AML_EINPUT, "--%s belongs to 'proteus run': write it before '--'", ours[n]);
            }
        }
        for (size_t n = 0; n < sizeof of_nodes / sizeof *of_nodes; n++) {
            if (is_option(launch->app[a], of_nodes[n])) {
                return error_set(error, AML_EINPUT, "--%s belongs to 'proteus run', which chooses it for each node",
                                 of_nodes[n]);
            }
        }
    }
    return 0;
}

static bool is_file(const char *path, const struct stat *file) {
    struct stat other;
    return path != NULL && stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

/* The report must not take the place of what the job reads. */
static int check_report(const struct run_options *options, struct error *error) {
    const struct launcher_options *launch = &options->launch;
    const char *path = options->job.report;
    struct stat file;
    if (path == NULL || stat(path, &file) != 0 || !S_ISREG(file.st_mode)) {
        return 0;
    }
    bool taken = is_file(options->events, &file) || is_file(options->job.key, &file);
    for (int a = 0; a < launch->app_count; a++) {
        const char *value = strchr(launch->app[a], '=');
        taken = taken || is_file(launch->app[a], &file) || (value != NULL && is_file(value + 1, &file));
    }
    return taken ? error_set(error, AML_EINPUT, "--report %.200s: the job has another use for this file", path) : 0;
}

static int run_job(struct run_options *options, struct error *error) {
    struct events events = {0};
    struct report_file report = {0};
    struct progress progress;
    struct error report_error = {0};
    int result = options->events != NULL ? events_read(&events, options->events, error) : 0;
    if (result == 0) {
        result = events_check(&events, (unsigned)options->job.reliable, (unsigned)options->job.transient, error);
    }
    if (result == 0) {
        result = report_file_open(&report, options->job.report, error);
    }
    int status = error_exit_status(result);
    if (result == 0) {
        progress_open(&progress, stdout, options->quiet);
        status = launcher_run(&options->launch, &events, &report, &progress, error);
    }
    events_close(&events);
    if (report_file_close(&report, &report_error) != 0) {
        error_set(error, report_error.code, "%s", report_error.text); /* unless the job itself has failed */
        status = status != 0 ? status : 1;
    }
    return status;
}

static int check_options(struct run_options *options, int operand, int argc, char **argv, struct error *error) {
    struct plan_policy policy; /* the controller makes its own of it */
    int result = job_options_check(&options->job, &policy, error);
    if (result == 0) {
        result = check_host(options, error);
    }
    if (result == 0 && operand == argc) {
        result = error_set(error, AML_EINPUT, "run: no app; expected 'proteus run [OPTIONS] -- APP [ARGUMENTS]'");
    }
    if (result == 0) {
        result = process_find(argv[operand], options->app_path, error);
    }
    options->launch = (struct launcher_options){
        .job = &options->job,
        .host = options->host,
        .threads = options->threads,
        .app_path = options->app_path,
        .app = argv + operand,
        .app_count = argc - operand,
    };
    while (options->launch.app_count > 1 && strcmp(argv[operand + options->launch.app_count - 1], "--") == 0) {
        options->launch.app_count--; /* what the launcher adds are options */
    }
    if (result == 0) {
        result = check_app_arguments(&options->launch, error);
    }
    if (result == 0) {
        result = check_report(options, error);
    }
    return result;
}

int command_run(int argc, char **argv) {
    struct run_options options = {.job = job_options_defaults(), .host = "127.0.0.1", .threads = 1};
    struct aml_option table[JOB_OPTIONS_ENTRIES];
    const struct aml_option own[] = {
        {"threads", "N", AML_OPTION_INTEGER, &options.threads, 1, RUN_THREADS_MAX, "worker threads of each node"},
        {"events", "FILE", AML_OPTION_STRING, &options.events, 0, 0, "what shall happen to the nodes, and when"},
        {"listen", "HOST", AML_OPTION_STRING, &options.host, 0, 0, "where the job's processes listen"},
        {"quiet", NULL, AML_OPTION_FLAG, &options.quiet, 0, 0, "print errors only"},
        {0},
    };
    const struct aml_option *const tables[] = {table};
    struct error error = {0};
    int operand;
    job_options_table(&options.job, own, table);
    int result = options_parse(tables, 1, argc, argv, &operand, &error);
    if (result == 0 && options.job.help) {
        print_help(table);
        return 0;
    }
    if (result == 0) {
        result = check_options(&options, operand, argc, argv, &error);
    }
    int status = error_exit_status(result);
    if (result == 0 && asks_for_no_job(&options.launch)) {
        execv(options.app_path, argv + operand);
        status = error_exit_status(
            error_set(&error, AML_EINPUT, "can't run '%.200s': %s", options.app_path, strerror(errno)));
    } else if (result == 0) {
        status = run_job(&options, &error);
    }
    if (error.code != 0) {
        log_error("%s", error.text);
    }
    return status;
}
