/* The job's reports: nodes that join and leave, the summary, and iterations, from which the application is measured. */
#include "bidbrain/daemon/daemon_private.h"

#include <math.h>

static void take_joined(void *context, const char *node) {
    struct daemon *daemon = context;
    size_t i = daemon_find_machine(daemon, node);
    daemon->job.nodes_joined = true;
    struct io *io = net_io_of(job_link_io(daemon->link));
    io->set_timer(io, io->now_us(io)); /* a decision may be due */
    if (i != SIZE_MAX && daemon->fleet.machines[i].row.ended == 0) {
        daemon_machine_joined(daemon, i);
    }
}

static void take_left(void *context, const char *node, bool failed) {
    struct daemon *daemon = context;
    size_t i = daemon_find_machine(daemon, node);
    daemon->job.nodes_left = true;
    if (i != SIZE_MAX) {
        daemon_machine_left(daemon, i);
        daemon->fleet.machines[i].waited_wall = 0;
    }
    if (failed && i != SIZE_MAX && daemon->fleet.machines[i].row.ended == 0 && daemon->loop.phase == DAEMON_RUN) {
        daemon_say(daemon, "the node of %s has failed", node);
    }
}

static void take_unknown(void *context, const char *node) {
    struct daemon *daemon = context;
    size_t i = daemon_find_machine(daemon, node);
    if (i != SIZE_MAX) {
        daemon_machine_left(daemon, i);
    }
}

/* Sets the application's values, in hours of the market: those measured by this bidbrain, else by an earlier one, else
 * the configured guesses. */
static void use_measured(struct daemon *daemon) {
    const struct config *config = daemon->config;
    double speed = daemon->clock.speed;
    double seconds;
    if (config->application.measure) {
        daemon->job.known_sigma =
            measure_loss(&daemon->job.measure.joins, &seconds) ? seconds * speed : daemon->job.known_sigma;
        daemon->job.known_lambda =
            measure_loss(&daemon->job.measure.evictions, &seconds) ? seconds * speed : daemon->job.known_lambda;
        (void)measure_phi(&daemon->job.measure, &daemon->job.known_phi, &daemon->job.known_reference);
    }
    (void)measure_throughput(&daemon->job.measure, &daemon->job.throughput);
    daemon->job.app = (struct policy_app){.phi = daemon->job.known_phi,
                                          .reference = daemon->job.known_reference,
                                          .sigma = daemon->job.known_sigma / HOUR,
                                          .lambda = daemon->job.known_lambda / HOUR};
}

int daemon_job_load(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    daemon->job.known_phi = config->application.phi;
    daemon->job.known_sigma = config->application.sigma_seconds;
    daemon->job.known_lambda = config->application.lambda_seconds;
    daemon->job.work_left = config->application.work_vcpu_hours;
    daemon->market.late_said = -1;
    daemon->job.begun = daemon_now(daemon);
    daemon->job.boot_seconds = DAEMON_BOOT_S;
    int code = 0;
    if (config->application.measure) {
        code = ledger_value(daemon->ledger, "phi", &daemon->job.known_phi, error);
        code = code != 0 ? code : ledger_value(daemon->ledger, "reference-vcpus", &daemon->job.known_reference, error);
        code = code != 0 ? code : ledger_value(daemon->ledger, "sigma-seconds", &daemon->job.known_sigma, error);
        code = code != 0 ? code : ledger_value(daemon->ledger, "lambda-seconds", &daemon->job.known_lambda, error);
    }
    code = code != 0 ? code : daemon_speeds_load(daemon, error);
    use_measured(daemon);
    return code;
}

void daemon_store_measured(struct daemon *daemon) {
    const struct {
        const char *name;
        double value;
    } values[] = {{"phi", daemon->job.known_phi},
                  {"reference-vcpus", daemon->job.known_reference},
                  {"sigma-seconds", daemon->job.known_sigma},
                  {"lambda-seconds", daemon->job.known_lambda},
                  {"items-per-vcpu-second", daemon->job.throughput}};
    struct error error = {0};
    for (size_t v = 0; v < sizeof values / sizeof *values && daemon->config->application.measure; v++) {
        double before = -1;
        int code = ledger_value(daemon->ledger, values[v].name, &before, &error);
        if (code == 0 && before != values[v].value) {
            code = ledger_put_value(daemon->ledger, values[v].name, values[v].value, &error);
        }
        if (code != 0) {
            daemon_fail(daemon, &error);
        }
    }
}

/* Returns the work left: by the job's own speed, or by the configured total. */
static double work_left(const struct daemon *daemon, const struct job_link_iteration *iteration) {
    if (iteration->iterations <= iteration->iteration) {
        return 0;
    }
    double left = (double)(iteration->iterations - iteration->iteration);
    if (daemon->job.throughput > 0) {
        return left * iteration->items / daemon->job.throughput / HOUR * daemon->clock.speed;
    }
    return daemon->config->application.work_vcpu_hours * left / (double)iteration->iterations;
}

static void take_iteration(void *context, const struct job_link_iteration *iteration) {
    struct daemon *daemon = context;
    const struct measure_iteration told = {.seconds = iteration->seconds,
                                           .items = iteration->items,
                                           .work = daemon_nodes_work(daemon),
                                           .joined = daemon->job.nodes_joined,
                                           .left = daemon->job.nodes_left};
    measure_add(&daemon->job.measure, &told);
    daemon->job.nodes_joined = daemon->job.nodes_left = false;
    daemon->job.iterations = iteration->iteration;
    use_measured(daemon);
    daemon->job.work_left = work_left(daemon, iteration);
}

static void take_checkpoint(void *context, double seconds) {
    struct daemon *daemon = context;
    struct daemon_job *job = &daemon->job;
    job->checkpoint_gaps++;
    /* the first gap counts from the start of training */
    job->checkpoint_gaps_sum += fmax(0, seconds - job->checkpoint_seconds);
    job->checkpoint_seconds = seconds;
}

static void take_stage(void *context, bool transient) {
    struct daemon *daemon = context;
    daemon->job.transient = transient;
}

static void take_summary(void *context, bool ok, const char *error, double seconds, uint64_t iterations) {
    struct daemon *daemon = context;
    if (daemon->loop.phase == DAEMON_RUN) {
        daemon_say(daemon, "the job has ended %s after %.1f s and %llu iteration%s%s%s", ok ? "well" : "badly", seconds,
                   (unsigned long long)iterations, iterations == 1 ? "" : "s", error != NULL ? ": " : "",
                   error != NULL ? error : "");
    }
    daemon->job.iterations = iterations;
    daemon->job.ok = ok;
    daemon_set_phase(daemon, DAEMON_JOB_OVER);
}

int daemon_job_open(struct daemon *daemon, void (*tick)(void *daemon), struct error *error) {
    const struct job_link_options options = {.controller = daemon->config->controller,
                                             .key = daemon->config->key,
                                             .insecure = daemon->config->insecure,
                                             .listener = {.joined = take_joined,
                                                          .left = take_left,
                                                          .iteration = take_iteration,
                                                          .summary = take_summary,
                                                          .unknown = take_unknown,
                                                          .speeds = daemon_take_speeds,
                                                          .timer = tick,
                                                          .checkpoint = take_checkpoint,
                                                          .stage = take_stage,
                                                          .context = daemon}};
    return job_link_open(&daemon->link, &options, error);
}
