/* The launcher's nodes: how they start, and what their ends mean for the job. */
#include "proteus/launcher_private.h"

#include "agileml/base/crash_signals.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* ---- Starting ---- */

static void start_node(struct launcher *launcher, unsigned index) {
    const struct launcher_options *options = launcher->options;
    struct launched_node *node = &launcher->nodes[index];
    struct arguments arguments = {0};
    assert(!node->process.running && launcher->endpoint[0] != '\0');
    app_arguments(options->app, options->job->key, options->job->insecure, &arguments);
    arguments_add(&arguments, "--controller=%s", launcher->endpoint);
    arguments_add(&arguments, "--tier=%s", tier_name(node->tier));
    arguments_add(&arguments, "--name=node-%u", index + 1);
    if (node->tier == TIER_FEEDER && options->feeder_threads > 0) {
        arguments_add(&arguments, "--threads-max=%lld", (long long)options->feeder_threads);
    } else {
        arguments_add(&arguments, "--threads=%lld", (long long)options->threads);
    }
    arguments_add(&arguments, "--listen=%s", options->host);
    /* errors are reported only to the controller, so that they are not printed twice */
    arguments_add(&arguments, "--supervised");
    if (process_start(&node->process, options->app->path, &arguments, PROCESS_SETTING_OURS, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    arguments_close(&arguments);
}

void launcher_add_nodes(struct launcher *launcher, enum node_tier tier, unsigned count) {
    unsigned first = launcher->node_count;
    launcher->nodes = memory_resized(launcher->nodes, first + count, sizeof *launcher->nodes);
    for (unsigned n = first; n < first + count && launcher->phase == LAUNCHER_JOB; n++) {
        launcher->nodes[n] = (struct launched_node){.tier = tier};
        launcher->node_count++;
        start_node(launcher, n);
    }
}

void launcher_add_feeder(struct launcher *launcher) {
    unsigned index = launcher->node_count;
    if (launcher->phase == LAUNCHER_JOB && launcher->stop.code == 0) {
        launcher_add_nodes(launcher, TIER_FEEDER, 1);
        launcher->nodes[index].extra = true;
    }
}

/* Returns NULL when no node of ours has this name. */
static struct launched_node *node_named(const struct launcher *launcher, const char *name) {
    unsigned number;
    bool ours = sscanf(name, "node-%u", &number) == 1 && number >= 1 && number <= launcher->node_count;
    return ours ? &launcher->nodes[number - 1] : NULL;
}

void launcher_node_given_up(struct launcher *launcher, const char *name) {
    struct launched_node *node = node_named(launcher, name);
    if (node != NULL) {
        node->given_up = true;
    }
}

/* The controller has evicted a straggler: starts another node in its place. */
void launcher_node_replaced(struct launcher *launcher, const char *name) {
    struct launched_node *node = node_named(launcher, name);
    if (node != NULL && launcher->phase == LAUNCHER_JOB && launcher->stop.code == 0) {
        enum node_tier tier = node->tier;
        node->excused = true;
        launcher_add_nodes(launcher, tier, 1); /* may move the array of nodes */
    }
}

void launcher_node_joined(struct launcher *launcher, const char *name) {
    struct launched_node *node = node_named(launcher, name);
    if (node != NULL) {
        unsigned index = (unsigned)(node - launcher->nodes);
        launcher->joined_count += !node->joined && index < launcher->first_nodes ? 1 : 0;
        assert(launcher->joined_count <= launcher->first_nodes);
        node->joined = true;
        uint64_t now_us = launcher_now(launcher);
        if (node->kill_us > now_us) { /* it was evicted before it joined */
            launcher_evict(launcher, &index, 1, (double)(node->kill_us - now_us) / 1e6);
        }
    }
    if (launcher->joined_count == launcher->first_nodes) {
        launcher->start_us = 0;
    }
}

/* Excuses a rejected node: the job goes on without it, whatever its exit status. */
void launcher_node_refused(struct launcher *launcher, const char *name) {
    struct launched_node *node = node_named(launcher, name);
    if (node != NULL) {
        node->excused = true;
    }
}

/* ---- In words ---- */

static bool has_ended(const struct launched_node *node) {
    return node->process.pid != 0 && !node->process.running;
}

static bool was_refused(const struct launched_node *node) {
    return has_ended(node) && WIFEXITED(node->process.status) && WEXITSTATUS(node->process.status) == 2;
}

/* Returns whether the node ended without a request, and the job can't go on without it. A job can always go on without
 * a feeder that has joined: if what the feeder found is wrong for all nodes, the controller ends the job. */
static bool is_fatal(const struct launcher *launcher, const struct launched_node *node) {
    bool needed = node->tier != TIER_FEEDER && (!launcher->elastic || was_refused(node));
    return has_ended(node) && !node->excused && !node->extra && (!node->joined || needed);
}

/* Returns whether the node ended unwell. A late node that never joined does not count: the job may have been over. */
static bool is_unwell(const struct launcher *launcher, const struct launched_node *node) {
    bool late = !node->joined && node >= launcher->nodes + launcher->first_nodes;
    return has_ended(node) && !node->excused && !late && !process_succeeded(&node->process);
}

static bool is_missing(const struct launcher *launcher, const struct launched_node *node) {
    return node < launcher->nodes + launcher->first_nodes && !node->joined;
}

/* Describes the nodes for which `are` is true, such as "node-2 was killed by signal 9 (Killed), node-3 ended with exit
 * status 1". Of running nodes only the names are given. Returns false when there are none. */
static bool describe_nodes(const struct launcher *launcher,
                           bool (*are)(const struct launcher *launcher, const struct launched_node *node), char *text,
                           size_t size) {
    unsigned count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (unsigned n = 0; n < launcher->node_count; n++) {
        const struct launched_node *node = &launcher->nodes[n];
        char end[PROCESS_END_TEXT] = "";
        if (!are(launcher, node) || count++ >= LAUNCHER_NAMED_MAX) {
            continue;
        }
        if (has_ended(node)) {
            process_describe_end(&node->process, end);
        }
        used += (size_t)snprintf(text + used, size - used, "%snode-%u%s%s", used > 0 ? ", " : "", n + 1,
                                 end[0] != '\0' ? " " : "", end);
    }
    if (count > LAUNCHER_NAMED_MAX) {
        snprintf(text + used, size - used, " and %u more", count - LAUNCHER_NAMED_MAX);
    }
    return count > 0;
}

bool launcher_describe_unwell(const struct launcher *launcher, char *text, size_t size) {
    return describe_nodes(launcher, is_unwell, text, size);
}

/* ---- The end of a node ---- */

/* Ends the job because of nodes that ended. Exit status 2 means that a node could not use its options or input. */
static void stop_for_nodes(struct launcher *launcher) {
    char text[LAUNCHER_NODES_TEXT];
    char reason[LAUNCHER_REASON_TEXT];
    int code = AML_EFAIL;
    bool strangers = true;
    for (unsigned n = 0; n < launcher->node_count; n++) {
        const struct launched_node *node = &launcher->nodes[n];
        code = was_refused(node) ? AML_EINPUT : code;
        strangers = strangers && (!is_fatal(launcher, node) || (process_succeeded(&node->process) && !node->joined));
    }
    describe_nodes(launcher, is_fatal, text, sizeof text);
    if (strangers) { /* a program that calls aml_main joins, or prints the reason why not */
        snprintf(reason, sizeof reason, "%s and never joined the job: is '%.100s' an app?", text,
                 launcher->options->app->arguments[0]);
    } else {
        snprintf(reason, sizeof reason, "%s before the job was over", text);
    }
    launcher_stop(launcher, code, reason);
}

bool launcher_wait_for_missing(struct launcher *launcher) {
    enum { PART = 20 };    /* a node that only waits takes less than 1/20 of the time */
    uint64_t taken_us = 0; /* CPU time of missing nodes since the last look */
    char text[LAUNCHER_NODES_TEXT];
    for (unsigned n = 0; n < launcher->node_count; n++) {
        struct launched_node *node = &launcher->nodes[n];
        if (is_missing(launcher, node)) {
            uint64_t cpu_us = process_cpu_us(&node->process);
            taken_us += cpu_us > node->cpu_us ? cpu_us - node->cpu_us : 0;
            node->cpu_us = cpu_us;
        }
    }
    if (taken_us <= LAUNCHER_START_MORE_S * UINT64_C(1000000) / PART) {
        return false;
    }
    if (!launcher->told_missing) {
        describe_nodes(launcher, is_missing, text, sizeof text);
        progress_note(launcher->progress, "%s: still looking at the input", text);
    }
    launcher->told_missing = true;
    launcher->start_us = launcher_after(launcher, LAUNCHER_START_MORE_S * 1000);
    return true;
}

void launcher_stop_for_missing(struct launcher *launcher) {
    char text[LAUNCHER_NODES_TEXT];
    char reason[LAUNCHER_REASON_TEXT];
    describe_nodes(launcher, is_missing, text, sizeof text);
    snprintf(reason, sizeof reason, "after %.0f s and more %s %s not joined", launcher_start_timeout(launcher), text,
             launcher->first_nodes - launcher->joined_count == 1 ? "has" : "have");
    launcher_stop(launcher, AML_EFAIL, reason);
}

/* Returns the signal that ended the node; 0: none. */
static int end_signal(const struct launched_node *node) {
    return WIFSIGNALED(node->process.status) ? WTERMSIG(node->process.status) : 0;
}

/* Schedules the judgement of ended nodes. A delay lets their last messages arrive: the reason, or that they have
 * joined. */
void launcher_reap_nodes(struct launcher *launcher) {
    for (unsigned n = 0; n < launcher->node_count; n++) {
        struct launched_node *node = &launcher->nodes[n];
        if (process_ended(&node->process)) {
            bool may_go = launcher->elastic || node->tier == TIER_FEEDER;
            bool wordless = may_go && node->joined && end_signal(node) != 0;
            node->judge_us = launcher_after(launcher, wordless ? 0 : LAUNCHER_FAILURE_WAIT_MS);
        }
    }
}

/* Reports lost nodes to the controller, so that the job goes on without waiting for the failure timeout. */
static void tell_lost(struct launcher *launcher, const unsigned *lost, unsigned count) {
    unsigned *alike = memory_zeroed(count + 1, sizeof *alike);
    for (unsigned l = 0; l < count; l++) {
        struct launched_node *node = &launcher->nodes[lost[l]];
        char end[PROCESS_END_TEXT];
        node->excused = true;
        process_describe_end(&node->process, end);
        bool crashed = signal_is_crash(end_signal(node)); /* the controller may then end the job */
        progress_note(launcher->progress, "node-%u %s%s", lost[l] + 1, end,
                      crashed ? "" : ": the job goes on without it");
    }
    for (int number = 0; number <= WIRE_SIGNAL_MAX && count > 0; number++) {
        unsigned alike_count = 0;
        for (unsigned l = 0; l < count; l++) {
            if (end_signal(&launcher->nodes[lost[l]]) == number) {
                alike[alike_count++] = lost[l];
            }
        }
        if (alike_count > 0) {
            launcher_gone(launcher, alike, alike_count, number);
        }
    }
    free(alike);
}

/* Returns whether the node is a requested feeder that ended before it joined. The job goes on without it. */
static bool never_came(const struct launched_node *node) {
    return node->extra && !node->joined && has_ended(node) && !node->excused;
}

/* Judges the nodes whose judgement is due. */
static void judge_nodes(struct launcher *launcher) {
    unsigned *lost = memory_zeroed(launcher->node_count + 1, sizeof *lost);
    unsigned lost_count = 0;
    bool fatal = false;
    for (unsigned n = 0; n < launcher->node_count; n++) {
        struct launched_node *node = &launcher->nodes[n];
        if (node->judge_us == 0 || node->judge_us > launcher_now(launcher)) {
            continue;
        }
        node->judge_us = 0;
        fatal = fatal || is_fatal(launcher, node);
        if (is_unwell(launcher, node) || never_came(node)) {
            lost[lost_count++] = n;
        }
    }
    if (fatal) {
        stop_for_nodes(launcher);
    } else {
        tell_lost(launcher, lost, lost_count);
    }
    free(lost);
}

static void earlier(uint64_t *time_us, uint64_t other_us) {
    *time_us = other_us != 0 && (*time_us == 0 || other_us < *time_us) ? other_us : *time_us;
}

uint64_t launcher_watch_nodes(struct launcher *launcher) {
    uint64_t next_us = 0;
    const bool judges = launcher->phase == LAUNCHER_JOB && launcher->stop.code == 0;
    if (judges) {
        judge_nodes(launcher);
    }
    for (unsigned n = 0; n < launcher->node_count; n++) {
        struct launched_node *node = &launcher->nodes[n];
        if (node->kill_us != 0 && launcher_now(launcher) >= node->kill_us) {
            process_signal(&node->process, SIGKILL); /* as a cloud does after the notice */
            node->kill_us = 0;
        }
        earlier(&next_us, node->kill_us);
        earlier(&next_us, judges ? node->judge_us : 0);
    }
    return next_us;
}

void launcher_end_others(struct launcher *launcher) {
    for (unsigned n = 0; n < launcher->node_count; n++) {
        struct launched_node *node = &launcher->nodes[n];
        if (node->given_up && launcher->elastic) {
            node->excused = true;
            node->kill_us = launcher_after(launcher, LAUNCHER_ABORT_WAIT_MS);
        }
        if (node->paused) {
            node->excused = true;
            process_signal(&node->process, SIGKILL);
        }
    }
}

void launcher_shift_nodes(struct launcher *launcher, uint64_t by_us) {
    for (unsigned n = 0; n < launcher->node_count; n++) {
        struct launched_node *node = &launcher->nodes[n];
        node->kill_us += node->kill_us != 0 ? by_us : 0;
        node->judge_us += node->judge_us != 0 ? by_us : 0;
    }
}
