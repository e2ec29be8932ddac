/* proteus run: reads and checks the command line, then has the launcher run the job. */
#include "agileml/base/log.h"
#include "agileml/base/machine_processors.h"
#include "proteus/command.h"
#include "proteus/feeders_option.h"
#include "proteus/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RUN_THREADS_MAX = 1024,
    NODES_A_PROCESSOR = 16 /* on each processor; run warns of more */
};

struct run_options {
    struct job_options job;
    struct app app;
    const char *host;
    int64_t threads;
    const char *feeders_text;
    struct feeders_option feeders;
    int64_t feeder_threads; /* threads of all feeders together, if the job chooses their number; else 0 */
    const char *events_path;
    struct events events;
    struct marketplace_options market;
    struct marketplace place;
    bool quiet;
    enum progress_mode progress;
};

static const char USAGE[] = "usage: proteus run [OPTIONS] -- APP [ARGUMENTS]\n\n"
                            "Starts a controller and the nodes of a job on this machine, each a process, runs\n"
                            "APP to its end, and shows its progress. APP is a path, or a program beside\n"
                            "proteus or in $PATH; 'APP --help' lists its arguments.";

/* Returns whether the app's arguments only request something that needs no job. */
static bool asks_for_no_job(const struct app *app) {
    static const char *const asks[] = {"--help", "-h", "--version", "--check"};
    for (int a = 1; a < app->count; a++) {
        for (size_t n = 0; n < sizeof asks / sizeof *asks; n++) {
            if (strcmp(app->arguments[a], asks[n]) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool is_file(const char *path, const struct stat *file) {
    struct stat other;
    return path != NULL && stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

/* Rejects a report file that is also an input of the job. */
static int check_report(const struct run_options *options, struct error *error) {
    const struct app *app = &options->app;
    const char *path = options->job.report;
    struct stat file;
    if (path == NULL || stat(path, &file) != 0 || !S_ISREG(file.st_mode)) {
        return 0;
    }
    bool taken = is_file(options->events_path, &file) || is_file(options->job.key, &file);
    for (int a = 0; a < app->count; a++) {
        const char *value = strchr(app->arguments[a], '=');
        taken = taken || is_file(app->arguments[a], &file) || (value != NULL && is_file(value + 1, &file));
    }
    return taken ? error_set(error, AML_EINPUT,
                             "--report %.200s: this is an input file of the job: expected another path", path)
                 : 0;
}

/* Says what it means that the nodes outnumber this machine's processors by far. */
static void warn_of_many(const struct run_options *options) {
    const int64_t nodes = options->job.reliable + (options->job.transient > 0 ? options->job.transient : 0);
    const unsigned processors = machine_processors("");
    if (options->market.prices == NULL && nodes > (int64_t)processors * NODES_A_PROCESSOR) {
        log_warn("%lld nodes share this machine's %u processor%s: they take turns, so the job is slower than with %u. "
                 "On machines of their own (proteus join) they would work at once",
                 (long long)nodes, processors, processors > 1 ? "s" : "", processors);
    }
}

static int run_job(struct run_options *options, struct error *error) {
    warn_of_many(options);
    const struct launcher_options launch = {
        .job = &options->job,
        .host = options->host,
        .threads = options->threads > 0 ? options->threads : 1,
        .feeders = options->feeders.count,
        .feeders_max = options->feeders.most,
        .feeder_threads = options->feeder_threads,
        .app = &options->app,
        .market = options->market.prices != NULL ? &options->place : NULL,
    };
    struct report_file report = {0};
    struct progress progress;
    struct error report_error = {0};
    int result = report_file_open(&report, options->job.report, error);
    int status = error_exit_status(result);
    if (result == 0) {
        progress_begin(&progress, stdout, options->progress);
        status = launcher_run(&launch, &options->events, &report, &progress, error);
        progress_end(&progress);
    }
    if (report_file_close(&report, &report_error) != 0) {
        error_set(error, report_error.code, "%s", report_error.text); /* has no effect if the job has failed */
        status = status != 0 ? status : 1;
    }
    return status;
}

static int read_events(struct run_options *options, struct error *error) {
    const struct events_cluster cluster = {.reliable = (unsigned)options->job.reliable,
                                           .transient = (unsigned)options->job.transient,
                                           .feeders = (unsigned)options->feeders.count,
                                           .elastic = strcmp(options->job.stage, "traditional") != 0,
                                           .market = options->market.prices != NULL};
    int64_t nodes = options->job.reliable + options->job.transient + options->feeders.count + options->feeders.most;
    if (nodes > WIRE_NODES_MAX) {
        return error_set(error, AML_ELIMIT, "%lld nodes with feeders, expected at most %d", (long long)nodes,
                         WIRE_NODES_MAX);
    }
    int result = options->events_path != NULL ? events_read(&options->events, options->events_path, error) : 0;
    result = result == 0 ? events_check(&options->events, &cluster, error) : result;
    options->job.joining += events_joining(&options->events);
    return result;
}

/* Checks --market and the options that go with it, and opens the market. */
static int check_market(struct run_options *options, struct error *error) {
    struct job_options *job = &options->job;
    const struct marketplace_options *market = &options->market;
    if (market->prices == NULL) {
        job->transient = job->transient < 0 ? 0 : job->transient;
        job->balance = job->balance != NULL ? job->balance : "nd"; /* a new node takes a straggler's place */
        bool alone =
            market->start != NULL || market->types != NULL || market->interruptions != NULL || market->folder != NULL;
        return alone ? error_set(error, AML_EINPUT,
                                 "--market-...: expected --market DIR with it, a folder of recorded prices")
                     : 0;
    }
    if (strcmp(job->stage, "traditional") == 0) {
        return error_set(error, AML_EINPUT,
                         "--stage traditional: expected another stage with --market, where nodes come and go");
    }
    if (options->feeders.count > 0 || options->feeders.most > 0) {
        return error_set(error, AML_EINPUT, "--feeders %.100s: not with --market, which buys no feeders",
                         options->feeders_text);
    }
    if (job->transient == 0) {
        return error_set(error, AML_EINPUT, "--transient 0: expected at least 1 with --market");
    }
    job->joining = job->transient < 0 ? MARKETPLACE_TRANSIENT : job->transient; /* the limit of transient machines */
    job->transient = job->reliable == 0 ? 1 : 0; /* without reliable nodes the job begins with the first spot machine */
    return marketplace_open(&options->place, market, error);
}

/* Reads --feeders. A plain auto means as many as there are processors for. Without --threads the job also chooses the
 * feeders' threads. Together they get the processors that the other nodes leave, but each feeder gets at least one. */
static int check_feeders(struct run_options *options, struct error *error) {
    int64_t nodes = options->job.reliable + (options->job.transient > 0 ? options->job.transient : 0);
    int64_t threads = options->threads > 0 ? options->threads : 1;
    int64_t most = feeders_option_most(nodes, threads);
    int result = feeders_option(options->feeders_text, most, &options->feeders, error);
    if (options->threads == 0 && options->feeders.most > 0) {
        options->feeder_threads = feeders_option_threads(nodes, threads, options->feeders.most);
    }
    return result;
}

/* Reads --progress; --quiet means none. */
static int check_progress(struct run_options *options, struct error *error) {
    int result = progress_parse(options->job.progress, &options->progress, error);
    bool other = options->progress != PROGRESS_AUTO && options->progress != PROGRESS_NONE;
    if (result == 0 && options->quiet && other) {
        return error_set(error, AML_EINPUT, "--quiet and --progress %s: expected only one of them",
                         options->job.progress);
    }
    options->progress = options->quiet ? PROGRESS_NONE : options->progress;
    return result;
}

static int check_options(struct run_options *options, int operand, int argc, char **argv, struct error *error) {
    struct plan_policy policy; /* only for the check: the controller makes its own policy */
    int result = app_find(&options->app, "run", operand, argc, argv, error);
    if (result == 0) {
        result = app_check_host(options->host, options->job.key, options->job.insecure, error);
        if (result == 0 && endpoint_host_is_any(options->host)) {
            result = error_set(error, AML_EINPUT,
                               "--listen %s: other machines can't reach that: expected this machine's address (or "
                               "'proteus controller' and 'proteus join' with --advertise)",
                               options->host);
        }
    }
    result = result == 0 ? check_progress(options, error) : result;
    result = result == 0 ? check_report(options, error) : result;
    result = result == 0 ? check_feeders(options, error) : result;
    result = result == 0 ? check_market(options, error) : result;
    result = result == 0 ? read_events(options, error) : result;
    result = result == 0 ? job_options_check(&options->job, &policy, error) : result;
    return result;
}

int command_run(int argc, char **argv) {
    struct run_options options = {
        .job = job_options_defaults(), .host = "127.0.0.1", .feeders_text = "0", .market = MARKETPLACE_DEFAULTS};
    struct aml_option shared[JOB_OPTIONS_ENTRIES];
    const struct aml_option own[] = {
        {"threads", "N", AML_OPTION_INTEGER, &options.threads, 0, RUN_THREADS_MAX,
         "worker threads of each node; 0: one, but of feeders as many as --feeders auto chooses"},
        {"market", "DIR", AML_OPTION_STRING, &options.market.prices, 0, 0,
         "buy the nodes' machines in a market that replays these prices; --transient: spot ones at most (8)"},
        {"quiet", NULL, AML_OPTION_FLAG, &options.quiet, 0, 0, "print errors only"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &options.job.help, 0, 0, "this text, or a topic's options"},
        OPTIONS_TOPIC("market", "machines from replayed prices"),
        {"market-start", "TIME", AML_OPTION_STRING, &options.market.start, 0, 0,
         "where in the prices to begin, as 2016-03-15T21:30:00Z; not given: a week after their first, or in their "
         "middle if that is earlier"},
        {"market-speed", "X", AML_OPTION_REAL, &options.market.speed, 1, MARKETPLACE_SPEED_MAX,
         "seconds of the market in a real second"},
        {"market-model", "MODEL", AML_OPTION_STRING, &options.market.model, 0, 0,
         "ec2-2016 (bids, whole hours) or ec2 (today)"},
        {"market-types", "LIST", AML_OPTION_STRING, &options.market.types, 0, 0,
         "instance types to choose from, with commas between them; not given: all from 2 vCPUs and 3 GiB on"},
        {"market-interruptions", "SPEC", AML_OPTION_STRING, &options.market.interruptions, 0, 0,
         "with ec2: advisor:FILE, lifetimes:FILE or replay:PATH; not given: none"},
        {"market-folder", "DIR", AML_OPTION_STRING, &options.market.folder, 0, 0,
         "a new folder that keeps the bill, logs and the like"},
        OPTIONS_TOPIC("feeders", "nodes that prepare data"),
        {"feeders", "N", AML_OPTION_STRING, &options.feeders_text, 0, 0,
         "nodes that run the app's transforms for the others; auto or auto:MAX: the job chooses how many, at most MAX "
         "(not given: as many as the processors left allow), and their threads, together at most the processors left, "
         "or MAX if that is more"},
        OPTIONS_TOPIC("elastic", "stages, failures"),
        {"events", "FILE", AML_OPTION_STRING, &options.events_path, 0, 0,
         "planned events of the nodes and the controller"},
        OPTIONS_TOPIC("network", "addresses, keys"),
        {"listen", "HOST", AML_OPTION_STRING, &options.host, 0, 0, "where the job's processes listen"},
        {0},
    };
    const struct aml_option *const tables[] = {shared, own};
    struct error error = {0};
    int operand;
    options.job.transient = -1; /* the option was not given */
    job_options_table(&options.job, shared);
    int result = options_parse(tables, 2, argc, argv, &operand, &error);
    if (result == 0 && options.job.help) {
        options.job.transient = 0;
        result = options_help(USAGE, tables, 2, argc, argv, &error);
        if (result == 1) {
            return 0;
        }
    }
    result = result == 0 ? log_set_up(&options.job.log, &error) : result;
    result = result == 0 ? check_options(&options, operand, argc, argv, &error) : result;
    int status = error_exit_status(result);
    if (result == 0 && asks_for_no_job(&options.app)) {
        execv(options.app.path, argv + operand);
        status = error_exit_status(
            error_set(&error, AML_EINPUT, "can't run '%.200s': %s", options.app.path, strerror(errno)));
    } else if (result == 0) {
        status = run_job(&options, &error);
    }
    events_close(&options.events);
    marketplace_close(&options.place);
    if (error.code != 0) {
        log_error("%s", error.text);
    }
    return status;
}
