/* proteus join: starts nodes on this machine that join a running job, and waits for them. */
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/base/options.h"
#include "agileml/base/process.h"
#include "agileml/base/signals.h"
#include "proteus/app.h"
#include "proteus/command.h"
#include "proteus/feeders_option.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOIN_THREADS_MAX = 1024 };

struct join_options {
    struct app app;
    const char *controller;
    const char *tier;
    const char *host, *advertise; /* NULL: the host */
    const char *key;              /* NULL: none */
    int64_t count, threads;
    bool insecure, help;
};

struct join {
    const struct join_options *options;
    struct process *nodes;
    unsigned node_count;
    int signal_fd;
    bool leaving;     /* SIGTERM has come */
    bool interrupted; /* Ctrl-C was pressed */
};

/* ---- Processes ---- */

static int start_app(const struct join *join, struct process *process, bool check, struct error *error) {
    const struct join_options *options = join->options;
    struct arguments arguments = {0};
    app_arguments(&options->app, options->key, options->insecure, &arguments);
    arguments_add(&arguments, "--controller=%s", options->controller);
    arguments_add(&arguments, "--tier=%s", options->tier);
    if (options->threads > 0) {
        arguments_add(&arguments, "--threads=%lld", (long long)options->threads);
        /* all feeders on this machine share its processors */
    } else if (strcmp(options->tier, tier_name(TIER_FEEDER)) == 0) {
        int64_t each = feeders_option_threads(0, 0, options->count) / options->count;
        arguments_add(&arguments, "--threads-max=%lld", (long long)(each > 0 ? each : 1));
    }
    arguments_add(&arguments, "--listen=%s", options->host);
    if (options->advertise != NULL) {
        arguments_add(&arguments, "--advertise=%s", options->advertise);
    }
    if (!check) { /* unlike names chosen by `proteus run`, the controller or other machines */
        char host[HOST_NAME_MAX + 1] = "";
        gethostname(host, sizeof host - 1);
        arguments_add(&arguments, "--name=%.12s-%d-%u", host, (int)getpid(), (unsigned)(process - join->nodes) + 1);
    }
    if (check) {
        arguments_add(&arguments, "--check");
    }
    int result = process_start(process, options->app.path, &arguments, PROCESS_SETTING_OURS, error);
    arguments_close(&arguments);
    return result;
}

static void signal_nodes(const struct join *join, int number) {
    for (unsigned n = 0; n < join->node_count; n++) {
        process_signal(&join->nodes[n], number);
    }
}

static bool any_runs(const struct join *join) {
    for (unsigned n = 0; n < join->node_count; n++) {
        if (join->nodes[n].running) {
            return true;
        }
    }
    return false;
}

/* SIGTERM means that the machine is about to go: the nodes leave in time. A node would end at once at a second SIGTERM,
 * and programs such as timeout send two: they get one. At Ctrl-C the nodes end at once; a second Ctrl-C kills them. */
static void take_signal(struct join *join, int number) {
    if (number == SIGTERM && !join->leaving) {
        signal_nodes(join, SIGTERM);
        join->leaving = true;
    } else if (number == SIGINT) {
        signal_nodes(join, join->interrupted ? SIGKILL : SIGINT);
        join->interrupted = true;
    }
    for (unsigned n = 0; n < join->node_count; n++) {
        process_ended(&join->nodes[n]);
    }
}

/* Waits until all nodes have ended. */
static int wait_for_nodes(struct join *join, struct error *error) {
    struct pollfd signals = {.fd = join->signal_fd, .events = POLLIN};
    while (any_runs(join)) {
        if (poll(&signals, 1, -1) < 0 && errno != EINTR) {
            signal_nodes(join, SIGKILL);
            return error_set(error, AML_EFAIL, "can't wait for the nodes: %s", strerror(errno));
        }
        for (int number = signals_next(join->signal_fd); number != 0; number = signals_next(join->signal_fd)) {
            take_signal(join, number);
        }
    }
    return 0;
}

/* ---- Life cycle ---- */

/* Whether our SIGTERM has killed the process. A node handles SIGTERM as soon as it has anything to leave in time. */
static bool ended_before_it_began(const struct join *join, const struct process *node) {
    return join->leaving && WIFSIGNALED(node->status) && WTERMSIG(node->status) == SIGTERM;
}

/* Has the app check its options and files once, before nodes join. Returns 0 or the app's exit status. */
static int check_app(struct join *join, struct error *error) {
    struct process check;
    join->nodes = &check;
    int result = start_app(join, &check, true, error);
    join->node_count = result == 0 ? 1 : 0;
    result = result == 0 ? wait_for_nodes(join, error) : result;
    join->nodes = NULL;
    join->node_count = 0;
    if (result != 0) {
        return error_exit_status(result);
    }
    if (ended_before_it_began(join, &check)) {
        return 0;
    }
    if (!WIFEXITED(check.status) && !join->interrupted) {
        char end[PROCESS_END_TEXT];
        process_describe_end(&check, end);
        error_set(error, AML_EFAIL, "'%.200s --check' %s", join->options->app.arguments[0], end);
    }
    return WIFEXITED(check.status) ? WEXITSTATUS(check.status) : 1;
}

static int start_nodes(struct join *join, struct error *error) {
    join->nodes = memory_zeroed((size_t)join->options->count, sizeof *join->nodes);
    for (int64_t n = 0; n < join->options->count; n++) {
        int result = start_app(join, &join->nodes[n], false, error);
        if (result != 0) {
            signal_nodes(join, SIGKILL);
            return result;
        }
        join->node_count++;
    }
    return 0;
}

/* Returns the worst exit status. A node that exits with a status has printed the reason. */
static int nodes_status(const struct join *join, struct error *error) {
    int status = 0;
    for (unsigned n = 0; n < join->node_count; n++) {
        const struct process *node = &join->nodes[n];
        char end[PROCESS_END_TEXT];
        if (WIFEXITED(node->status)) {
            status = WEXITSTATUS(node->status) > status ? WEXITSTATUS(node->status) : status;
        } else if (!ended_before_it_began(join, node)) {
            process_describe_end(node, end);
            status = error_exit_status(error_set(error, AML_EFAIL, "a node (pid %ld) %s", (long)node->pid, end));
        }
    }
    return status;
}

static int run_join(const struct join_options *options, struct error *error) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, 0};
    struct join join = {.options = options, .signal_fd = -1};
    int status = error_exit_status(signals_open(&join.signal_fd, numbers, error));
    if (status == 0) {
        status = check_app(&join, error);
    }
    if (status == 0 && !join.interrupted && !join.leaving) {
        status = error_exit_status(start_nodes(&join, error));
        int waited = wait_for_nodes(&join, error);
        status = status == 0 ? error_exit_status(waited) : status;
    }
    if (join.interrupted) {
        status = error_exit_status(error_set(error, AML_ESTOP, "interrupted by SIGINT"));
    } else if (status == 0) {
        status = nodes_status(&join, error);
    }
    free(join.nodes);
    if (join.signal_fd >= 0) {
        close(join.signal_fd);
    }
    return status;
}

/* ---- The command line ---- */

static const char USAGE[] = "usage: proteus join --controller tcp://HOST:PORT [OPTIONS] -- APP [ARGUMENTS]\n\n"
                            "Starts nodes on this machine that join a running job, and waits for them. APP\n"
                            "and ARGUMENTS are those of the job. SIGTERM has the nodes leave in time, Ctrl-C\n"
                            "ends them at once.";

static int check_options(struct join_options *options, int operand, int argc, char **argv, struct error *error) {
    struct endpoint endpoint;
    if (options->controller == NULL) {
        return error_set(error, AML_EINPUT, "--controller tcp://HOST:PORT is missing");
    }
    enum node_tier tier;
    if (!tier_of_name(options->tier, &tier)) {
        return error_set(error, AML_EINPUT, "--tier: expected " TIER_NAMES ", got '%.100s'", options->tier);
    }
    int result = endpoint_parse(&endpoint, options->controller, false, error);
    result = result == 0 ? app_check_host(options->host, options->key, options->insecure, error) : result;
    return result == 0 ? app_find(&options->app, "join", operand, argc, argv, error) : result;
}

int command_join(int argc, char **argv) {
    struct join_options options = {.tier = "transient", .host = "127.0.0.1", .count = 1};
    const struct aml_option table[] = {
        {"controller", "ENDPOINT", AML_OPTION_STRING, &options.controller, 0, 0,
         "tcp://HOST:PORT of the job's controller"},
        {"tier", "TIER", AML_OPTION_STRING, &options.tier, 0, 0, "this machine is reliable or transient, or a feeder"},
        {"count", "N", AML_OPTION_INTEGER, &options.count, 1, WIRE_NODES_MAX, "nodes"},
        {"threads", "N", AML_OPTION_INTEGER, &options.threads, 0, JOIN_THREADS_MAX,
         "worker threads of each node; 0: one, or of feeders as many as the job chooses"},
        {"listen", "HOST", AML_OPTION_STRING, &options.host, 0, 0,
         "this machine's address, at which other nodes reach these; 0.0.0.0 or [::]: all of them"},
        {"advertise", "HOST", AML_OPTION_STRING, &options.advertise, 0, 0,
         "the address that other nodes are told, if they reach this machine at another one than --listen"},
        {"key", "FILE", AML_OPTION_STRING, &options.key, 0, 0, "a node's token or the job's key, see 'proteus keygen'"},
        {"insecure", NULL, AML_OPTION_FLAG, &options.insecure, 0, 0, "allow other machines without a key"},
        {"help", NULL, AML_OPTION_FLAG, &options.help, 0, 0, "this text"},
        {0},
    };
    const struct aml_option *const tables[] = {table};
    struct error error = {0};
    int operand;
    int result = options_parse(tables, 1, argc, argv, &operand, &error);
    if (result == 0 && options.help) {
        options_write_help(stdout, USAGE, tables, 1, NULL, &error);
        return 0;
    }
    result = result == 0 ? check_options(&options, operand, argc, argv, &error) : result;
    int status = result == 0 ? run_join(&options, &error) : error_exit_status(result);
    if (error.code != 0) {
        log_error("%s", error.text);
    }
    return status;
}
