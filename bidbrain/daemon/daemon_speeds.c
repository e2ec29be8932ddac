/* Measures how fast the machines' types work, from the job's status (bidbrain/policy/speeds.h), and stores the
 * result. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/memory.h"

#include <stdlib.h>

enum { SPEEDS_STATE_TEXT = 1 << 16 /* bytes, enough for SPEEDS_TYPES_MAX types */ };
static const char SPEEDS_STATE[] = "speeds"; /* name of the value in the state */

double daemon_speed(const struct daemon *daemon, const char *type) {
    return daemon->config->application.measure_speeds ? speeds_of(&daemon->job.speeds, type) : 0;
}

/* ---- The state ---- */

int daemon_speeds_load(struct daemon *daemon, struct error *error) {
    if (!daemon->config->application.measure_speeds) {
        return 0;
    }
    struct error wrong = {0};
    char *text = memory_zeroed(SPEEDS_STATE_TEXT, 1);
    int code = ledger_text(daemon->ledger, SPEEDS_STATE, text, SPEEDS_STATE_TEXT, error);
    if (code == 0 && text[0] != '\0') {
        json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        if (speeds_read(&daemon->job.speeds, object, &wrong) != 0) {
            code = error_set(error, AML_EINPUT,
                             "%.250s: damaged: %.150s: move it away; machines of the job that run "
                             "are then orphans",
                             daemon->config->state, wrong.text);
        }
        json_decref(object);
    }
    free(text);
    return code;
}

static void store(struct daemon *daemon) {
    struct error error = {0};
    json_t *object = speeds_json(&daemon->job.speeds);
    char *text = json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (ledger_put_text(daemon->ledger, SPEEDS_STATE, text, &error) != 0 && daemon->loop.phase == DAEMON_RUN) {
        daemon_fail(daemon, &error);
    }
    free(text);
    json_decref(object);
}

/* ---- What is said ---- */

void daemon_speeds_text(const struct daemon *daemon, char *text, size_t size) {
    const struct speeds *speeds = &daemon->job.speeds;
    size_t used = 0;
    text[0] = '\0';
    for (size_t t = 0; t < speeds->count && used < size; t++) {
        if (daemon_speed(daemon, speeds->types[t].type) > 0) {
            used += (size_t)snprintf(text + used, size - used, "%s%s %.2f", used > 0 ? ", " : "", speeds->types[t].type,
                                     speeds->types[t].used);
        }
    }
}

json_t *daemon_speeds_json(const struct daemon *daemon) {
    const struct speeds *speeds = &daemon->job.speeds;
    json_t *object = json_object();
    for (size_t t = 0; t < speeds->count; t++) {
        if (daemon_speed(daemon, speeds->types[t].type) > 0) {
            json_object_set_new(object, speeds->types[t].type, json_real(speeds->types[t].used));
        }
    }
    return object;
}

/* ---- Windows ---- */

/* Returns the work per hour of the machine with this node: its vCPUs weighted by speed. 0: a reliable machine, or not
 * ours. */
static double node_work(const struct daemon *daemon, const char *node) {
    size_t i = daemon_find_machine(daemon, node);
    if (i == SIZE_MAX || daemon->fleet.machines[i].row.reliable) {
        return 0;
    }
    const struct catalog_price *type = daemon_type(daemon, daemon->fleet.machines[i].row.machine.type);
    const struct portfolio_market market = {.type = type, .speed = type != NULL ? daemon_speed(daemon, type->type) : 0};
    return type != NULL ? portfolio_nu(&market) : 0;
}

struct counting {
    const struct daemon *daemon;
    double work;
};

static void count_node(void *context, const char *node) {
    struct counting *counting = context;
    counting->work += node_work(counting->daemon, node);
}

double daemon_nodes_work(const struct daemon *daemon) {
    struct counting counting = {.daemon = daemon};
    job_link_visit(daemon->link, count_node, &counting);
    return counting.work;
}

/* Whether a machine counts: its node has worked for a window and still works. Reliable machines do not count: they also
 * serve, so that they show nothing about their type. */
static bool is_measured(const struct daemon *daemon, const struct daemon_machine *machine) {
    return machine->node == NODE_MEMBER && !machine->row.reliable && machine->row.ended == 0 &&
           !machine->row.machine.noticed &&
           market_clock_elapsed() - machine->joined_wall >= daemon->config->application.speed_seconds;
}

static size_t find_measured(const struct daemon *daemon, const struct job_link_speed *told, size_t count,
                            struct speeds_machine *machines) {
    size_t found = 0;
    for (size_t n = 0; n < count; n++) {
        size_t i = daemon_find_machine(daemon, told[n].node);
        if (i == SIZE_MAX || !is_measured(daemon, &daemon->fleet.machines[i])) {
            continue;
        }
        const char *name = daemon->fleet.machines[i].row.machine.type;
        const struct catalog_price *type = daemon_type(daemon, name);
        if (type != NULL) {
            machines[found++] = (struct speeds_machine){type->type, type->vcpus, told[n].slowness};
        }
    }
    return found;
}

/* Converts or forgets what was measured in the old unit of work. */
static void convert_work(struct daemon *daemon, double before, double after) {
    measure_forget_rates(&daemon->job.measure);
    if (before > 0 && after > 0) {
        daemon->job.throughput *= before / after;
        daemon->job.known_reference *= after / before;
        daemon->job.app.reference = daemon->job.known_reference;
        daemon->job.work_left *= after / before;
    }
}

void daemon_take_speeds(void *context, const struct job_link_speed *told, size_t count) {
    struct daemon *daemon = context;
    double now = market_clock_elapsed();
    if (!daemon->config->application.measure_speeds || now < daemon->job.next_speeds_wall) {
        return;
    }
    struct speeds_machine *machines = memory_zeroed(count + 1, sizeof *machines);
    size_t found = find_measured(daemon, told, count, machines);
    if (found > 0) {
        double before = daemon_nodes_work(daemon);
        daemon->job.next_speeds_wall = now + daemon->config->application.speed_seconds;
        if (speeds_add(&daemon->job.speeds, machines, found, daemon_now(daemon))) {
            char text[DAEMON_SPEEDS_TEXT];
            convert_work(daemon, before, daemon_nodes_work(daemon));
            daemon_speeds_text(daemon, text, sizeof text);
            daemon_say(daemon, "measured speeds of vCPUs (1: a typical one): %s", text[0] != '\0' ? text : "none");
        }
        store(daemon);
    }
    free(machines);
}
