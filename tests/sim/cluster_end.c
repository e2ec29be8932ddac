/* Checks the end of a simulated run, and the report line by line. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include "agileml/control/state/manifest.h"
#include "agileml/wire/report_line.h"

#include <dirent.h>
#include <math.h>
#include <string.h>

/* ---- The report ---- */

/* Returns a whole number of a line; 0: it is not there. */
static uint64_t whole(double number) {
    return (uint64_t)fmax(number, 0);
}

/* Returns a metric's value; 0: it was not evaluated. */
static double measured(const struct report_line *line, const char *name) {
    double value = report_line_metric(line, name);
    return isnan(value) ? 0 : value;
}

/* Reported training time does not exceed the run's time and never decreases, over all controllers. */
static void check_seconds(struct cluster *cluster, const struct report_line *line, const char *text) {
    double seconds = fmax(line->seconds, 0);
    if (seconds < cluster->report.seconds || seconds > (double)sim_now(cluster->sim) / 1e6) {
        cluster_violation(cluster, "report", "%s, after %.6f s", text, cluster->report.seconds);
    }
    cluster->report.seconds = seconds;
}

static double figures(const struct cluster *cluster, uint64_t from_clock, uint64_t until_clock) {
    double sum = 0;
    for (uint64_t clock = from_clock; clock <= until_clock; clock++) {
        for (unsigned s = 0; s < cluster->policy.shards; s++) {
            sum += cluster_figure(cluster, s, clock);
        }
    }
    return sum;
}

/* Returns the clock before an iteration's first clock. A resumed job has only the rest of its first iteration. */
static uint64_t clock_before(const struct cluster *cluster, uint64_t iteration) {
    uint64_t begun = (iteration - 1) * cluster->terms.clocks_per_iteration;
    return begun > cluster->drawn.first_clock ? begun : cluster->drawn.first_clock;
}

static void note_due(struct cluster *cluster, uint64_t iteration) {
    struct cluster_report *report = &cluster->report;
    if (iteration >= report->due_iterations) {
        report->due = memory_resized(report->due, iteration + 1, sizeof *report->due);
        memset(report->due + report->due_iterations, 0, (iteration + 1 - report->due_iterations) * sizeof *report->due);
        report->due_iterations = iteration + 1;
    }
    uint64_t first = clock_before(cluster, iteration) + 1;
    uint64_t last = iteration * cluster->terms.clocks_per_iteration;
    report->due[iteration] = (struct report_due){.written = true,
                                                 .items = app_items(&cluster->app, first, last),
                                                 .worked = app_worked(&cluster->app, first, last),
                                                 .figures = figures(cluster, first, last)};
}

void cluster_lines_written(struct cluster *cluster) {
    const struct controller *controller = &cluster->control.controller;
    size_t count = controller->report.count;
    for (size_t n = cluster->report.lines_written; n < count; n++) {
        const char *text = controller_line(controller, n);
        struct report_line *line = text != NULL ? report_line_read(text, strlen(text), NULL) : NULL;
        if (line != NULL && line->is == REPORT_ITERATION) {
            note_due(cluster, whole(line->iteration));
        }
        report_line_drop(line);
    }
    cluster->report.lines_written = count; /* a restarted controller may have fewer lines */
}

/* Checks that a line's metrics are exactly those of all shards, or that the line says they are partial. */
static void check_iteration(struct cluster *cluster, const struct report_line *line, const char *text) {
    uint64_t each = cluster->terms.clocks_per_iteration;
    uint64_t iteration = cluster->drawn.first_clock / each + cluster->report.iterations + 1;
    uint64_t begun = (iteration - 1) * each;
    uint64_t before = clock_before(cluster, iteration);
    struct report_due due = {0};
    if (iteration < cluster->report.due_iterations) {
        due = cluster->report.due[iteration];
    }
    if (!due.written) {
        cluster_violation(cluster, "report", "%s, where iteration %llu comes next", text,
                          (unsigned long long)iteration);
        return;
    }
    uint64_t items = due.items;
    uint64_t told = whole(line->items);
    double expected = cluster_objective(iteration * each);
    double objective = isnan(line->objective) ? 0 : line->objective;
    double seen = measured(line, "items_seen");
    double sum = measured(line, "figures");
    double evaluated = measured(line, "shards");
    double all = due.figures;
    bool partial = !isnan(line->partial);
    double covered = partial ? line->partial : 1;
    bool all_evaluated = evaluated == cluster->policy.shards && fabs(objective - expected) <= 1e-6 * expected;
    double worked = (double)due.worked;
    bool complete = told == items && seen == worked && sum == all && all_evaluated;
    bool coherent = told <= items && sum <= all && evaluated <= cluster->policy.shards && (double)told <= seen &&
                    seen <= worked && (seen == (double)told || cluster->app.phases > 1) &&
                    whole(line->iteration) == iteration;
    if (begun == before && items > 0) {
        double share = fmin((double)told / (double)items, evaluated / cluster->policy.shards);
        share = fmin(share, seen / worked);
        coherent = coherent && fabs(covered - share) < 1e-6;
    }
    bool lost = cluster->result->counts.recoveries > 0;
    if (!coherent || (!complete && !partial && items > 0) || (partial && (covered >= 1 || !lost))) {
        cluster_violation(cluster, "report", "%s, expected iteration %llu, objective %.9g, %llu items and figures %.0f",
                          text, (unsigned long long)iteration, expected, (unsigned long long)items, all);
    }
    cluster->report.iterations++;
    cluster->report.untold_items += begun < before ? items - told : 0;
    cluster->report.last_evaluated = measured(line, "last_shards");
    cluster->report.last_partial = partial;
    cluster->result->counts.partial += partial ? 1 : 0;
}

static void check_summary(struct cluster *cluster, const struct report_line *line, const char *text) {
    uint64_t each = cluster->terms.clocks_per_iteration;
    uint64_t completed = cluster->report.completed = whole(line->clocks);
    uint64_t items = app_items(&cluster->app, cluster->drawn.first_clock + 1, completed);
    bool ok = line->ok;
    cluster->report.summed_up = true;
    cluster->result->counts.redone_items += whole(line->items_redone);
    if (!ok) {
        return;
    }
    uint64_t redone = whole(line->items_redone);
    if (whole(line->iterations) != completed / each ||
        whole(line->items_processed) != items - cluster->report.untold_items ||
        !isnan(line->partial) != cluster->report.last_partial ||
        completed / each != cluster->drawn.first_clock / each + cluster->report.iterations) {
        cluster_violation(cluster, "report", "%s, expected clock %llu, %llu iterations and %llu items", text,
                          (unsigned long long)completed, (unsigned long long)cluster->report.iterations,
                          (unsigned long long)items);
    }
    bool trained = completed > cluster->drawn.first_clock; /* else the job resumed at its end and evaluated nothing */
    if (trained && cluster->report.last_evaluated != cluster->policy.shards) {
        cluster_violation(cluster, "report", "%s, of %u shards %g were evaluated as of the last clock", text,
                          cluster->policy.shards, cluster->report.last_evaluated);
    }
    if (redone > cluster->seen.redone_most) {
        cluster_violation(cluster, "report", "%s, at most %llu items were lost", text,
                          (unsigned long long)cluster->seen.redone_most);
    }
    if (!cluster->faults.disturbed && (redone != 0 || whole(line->failures) != 0)) {
        cluster_violation(cluster, "report", "%s, nothing has failed", text);
    }
}

/* A node is reported as failed only after a fault hit it or the network. Not checked for schedules. */
static void check_accused(struct cluster *cluster, const struct report_line *line, const char *text) {
    const struct report_nodes *nodes = &line->nodes;
    for (size_t i = 0; i < nodes->count; i++) {
        cluster_pulse_check_failure(cluster, nodes->list[i].name, line->reason);
    }
    if (cluster->faults.split || cluster->faults.may_fail || cluster->options.schedule != SCHEDULE_NONE) {
        return;
    }
    for (size_t i = 0; i < nodes->count; i++) {
        const char *name = nodes->list[i].name;
        bool known = false;
        bool hurt = false;
        for (unsigned n = 0; n < cluster->node_count; n++) {
            bool same = strcmp(cluster->nodes[n]->node.name, name) == 0;
            known = known || same;
            hurt = hurt || (same && (cluster->nodes[n]->fate.hurt || cluster->nodes[n]->fate.gone));
        }
        if (known && !hurt) {
            cluster_violation(cluster, "accused", "%s, to which nothing was done: %s", name, text);
        }
    }
}

/* The report has each note of the app once. */
static void check_note(struct cluster *cluster, const char *said, const char *text) {
    bool evaluated = said != NULL && strcmp(said, CLUSTER_NOTE_EVALUATED) == 0;
    unsigned *count = evaluated ? &cluster->report.said_evaluated : &cluster->report.said_saved;
    if (said == NULL || (!evaluated && strcmp(said, CLUSTER_NOTE_SAVED) != 0) || ++*count > 1) {
        cluster_violation(cluster, "report", "said by no app, or twice: %s", text);
    }
}

void cluster_check_line(struct cluster *cluster, const char *text) {
    struct report_line *line = report_line_read(text, strlen(text), NULL);
    if (cluster->options.trace != NULL) {
        fprintf(cluster->options.trace, "%12.6f report %s\n", (double)sim_now(cluster->sim) / 1e6, text);
    }
    if (line == NULL || line->is == REPORT_UNKNOWN) {
        cluster_violation(cluster, "report", "not a line of the report: %s", text);
        report_line_drop(line);
        return;
    }
    check_seconds(cluster, line, text);
    if (line->is == REPORT_ITERATION) {
        check_iteration(cluster, line, text);
        cluster_uneven_iteration(cluster, whole(line->iteration), line->seconds);
    } else if (line->is == REPORT_NOTE) {
        check_note(cluster, line->text, text);
    } else if (line->is == REPORT_SUMMARY) {
        check_summary(cluster, line, text);
    } else if (line->happened == HAPPENED_FAILURE) {
        check_accused(cluster, line, text);
    } else if (line->happened == HAPPENED_BALANCE) {
        cluster_uneven_balance(cluster, text);
    } else if (line->happened == HAPPENED_REPLACE) {
        cluster_uneven_replace(cluster, line->nodes.count > 0 ? line->nodes.list[0].name : NULL, text);
    } else if (line->happened == HAPPENED_RECOVER) {
        cluster->result->counts.cached += whole(line->partitions_from_caches);
    } else if (line->happened == HAPPENED_JOIN) {
        cluster_uneven_join(cluster);
    } else if (line->happened == HAPPENED_CHECKPOINT) {
        cluster->result->counts.checkpoints++;
    }
    report_line_drop(line);
}

/* ---- Checkpoints ---- */

/* No replica refuses a checkpoint because it is past that clock: all replicas promise before any of them passes it. */
void cluster_check_written(struct cluster *cluster, const struct message *message) {
    const struct controller *controller = &cluster->control.controller;
    if (message->type == MESSAGE_WRITTEN && message->written.state == WRITTEN_REFUSED &&
        message->epoch == controller->plan.epoch && controller->checkpoint.state == CHECKPOINT_ASK &&
        message->written.number == controller->checkpoint.kept.number &&
        strstr(message->written.text, "has passed this clock") != NULL) {
        cluster_violation(cluster, "checkpoint", "%s, which all were to give", message->written.text);
    }
}

void cluster_check_accusation(struct cluster *cluster, const struct cluster_node *accuser,
                              const struct message *message) {
    const struct cluster_node *accused =
        message->type == MESSAGE_ACCUSE ? cluster_node_of(cluster, message->accuse.accused) : NULL;
    if (accused != NULL && accused->fate.mad == MAD_NOT && accuser != NULL && accuser->fate.mad == MAD_NOT) {
        cluster_violation(cluster, "accused", "%s is accused and not mad: %s", accused->node.name,
                          message->accuse.text);
    }
}

bool cluster_lacks_checkpoints(const struct cluster *cluster) {
    return strstr(cluster->control.text, "no checkpoint could be written") != NULL;
}

/* Checks the checkpoints on disk after the job's end. */
static void check_checkpoints(struct cluster *cluster) {
    char path[WIRE_PATH_MAX];
    struct error error = {0};
    struct manifest manifest = {0};
    DIR *folder = opendir(cluster->run.disk);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, "unfinished-", 11) == 0) {
            cluster_violation(cluster, "checkpoint", "%s is left on the disk", entry->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    uint64_t newest = 0;
    if (manifest_find(cluster->run.disk, path, &error) == 0 && manifest_read(path, &manifest, &error) == 0) {
        newest = manifest.clock;
        manifest_close(&manifest);
    }
    bool lacks = cluster_lacks_checkpoints(cluster);
    if (!cluster->run.disk_failed && cluster->run.checkpoint_at_end && (lacks || newest != cluster->report.completed)) {
        cluster_violation(cluster, "checkpoint", "the newest is of clock %llu, the job ended at %llu: %s",
                          (unsigned long long)newest, (unsigned long long)cluster->report.completed,
                          cluster->control.text);
    }
    if (lacks && newest > cluster->drawn.first_clock) {
        cluster_violation(cluster, "checkpoint", "there is one of clock %llu, but: %s", (unsigned long long)newest,
                          cluster->control.text);
    }
}

/* ---- The end ---- */

void cluster_check_good_end(struct cluster *cluster) {
    cluster_uneven_end(cluster);
    const struct job_terms *terms = &cluster->terms;
    uint64_t completed = cluster->report.completed;
    bool lacks = cluster_lacks_checkpoints(cluster); /* then the job was completed but ends with an error */
    if (cluster->run.disk[0] != '\0') {
        check_checkpoints(cluster);
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        bool late = node->fate.ended && strstr(node->fate.text, "the job is over") != NULL;
        bool stays = !node->fate.gone && !cluster->faults.disturbed && cluster_node_counts(node);
        /* A controller whose store fails reports that to the nodes. If it is killed then, nodes without the report go
         * on. */
        bool told = lacks || (cluster->faults.may_fail && strcmp(node->fate.text, CLUSTER_STORE_FULL) == 0);
        bool refused = node->input.other && strstr(node->fate.text, "the input differs: ") != NULL;
        if (stays || (node->fate.ended && node->fate.code != 0 && !late && !told && !refused)) {
            cluster_violation(cluster, "I8", "%s (host-%u) %s: %s", node->node.name, node->number,
                              node->fate.gone ? "failed" : "has not ended", node->fate.text);
            return;
        }
    }
    for (uint32_t p = 0; p < cluster->policy.partitions; p++) {
        const struct cluster_server *server = cluster_serving(cluster, p, completed);
        const struct partition *partition = server != NULL ? server->server.replicas[p].partition : NULL;
        if (partition == NULL || partition->clock != completed) {
            cluster_violation(cluster, "I1", "partition %u ended at clock %lld, the job at %llu", p,
                              partition != NULL ? (long long)partition->clock : -1LL, (unsigned long long)completed);
            return;
        }
        cluster_check_partition(cluster, partition, completed, "at the end");
    }
    for (uint64_t w = 0; w < (completed - cluster->drawn.first_clock) * cluster->policy.shards; w++) {
        if (w >= cluster->seen.work_clocks * cluster->policy.shards || cluster->seen.works[w].origin == ACTOR_NONE) {
            cluster_violation(cluster, "I6", "shard %llu was not worked on in clock %llu",
                              (unsigned long long)(w % cluster->policy.shards),
                              (unsigned long long)(cluster->drawn.first_clock + 1 + w / cluster->policy.shards));
            return;
        }
    }
    uint64_t last = cluster->drawn.first_clock / terms->clocks_per_iteration + cluster->report.iterations;
    bool only_iterations = terms->seconds == 0 && terms->tolerance == 0;
    if (!cluster->report.summed_up || last == 0 || (terms->iterations != 0 && last > terms->iterations) ||
        (only_iterations && last != terms->iterations)) {
        cluster_violation(cluster, "report", "%llu iterations, %s", (unsigned long long)last,
                          cluster->report.summed_up ? "with a summary" : "without a summary");
    }
    if (cluster->report.said_saved == 0) {
        cluster_violation(cluster, "report", "what the app said as it saved the model is missing");
    }
    if (!cluster->faults.disturbed && cluster->seen.plan.epoch != cluster->seen.first_epoch) {
        cluster_violation(cluster, "I8", "epoch %llu, though nothing has failed",
                          (unsigned long long)cluster->seen.plan.epoch);
    }
}

void cluster_check_input_end(struct cluster *cluster) {
    if (strstr(cluster->control.text, "the input differs: ") == NULL) {
        cluster_violation(cluster, "I9", "the job's error is not that the input differs: %s", cluster->control.text);
    }
    if (cluster->seen.begun > cluster->drawn.first_clock) {
        cluster_violation(cluster, "I9", "clock %llu was begun on input that differs",
                          (unsigned long long)cluster->seen.begun);
    }
    cluster_check_lost_end(cluster);
}

void cluster_check_lost_end(struct cluster *cluster) {
    cluster->result->counts.lost++;
    if (cluster->control.text[0] == '\0') {
        cluster_violation(cluster, "I8", "the job ended with an error that says nothing");
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        if (node->fate.ended && node->fate.code == 0 && !node->fate.leave_us) {
            cluster_violation(cluster, "I8", "%s ended well, the job did not: %s", node->node.name,
                              cluster->control.text);
        }
    }
}

/* Whether an error names the missing part. All other parts must end with such an error. */
static bool names_missing(const struct cluster *cluster, const char *text) {
    const struct cluster_node *missing = cluster->faults.missing;
    if (missing == NULL) {
        return strstr(text, "controller") != NULL;
    }
    char host[64];
    snprintf(host, sizeof host, "host-%u", missing->number);
    bool registered = missing->node.contact.heartbeat_ms != 0;
    /* A node that never registered has no name; the error can only count the missing nodes. */
    return strstr(text, host) != NULL || (missing->node.name[0] != '\0' && strstr(text, missing->node.name) != NULL) ||
           (!registered && strstr(text, "have registered") != NULL);
}

void cluster_check_bad_end(struct cluster *cluster) {
    bool controller_missing = cluster->faults.missing == NULL;
    if (!controller_missing || !cluster->faults.removed) {
        if (cluster->control.code == 0) {
            cluster_violation(cluster, "I8", "the controller saw nothing amiss");
        } else if (!controller_missing && !names_missing(cluster, cluster->control.text)) {
            cluster_violation(cluster, "I8", "the controller's error names another: %s", cluster->control.text);
        }
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        if (node == cluster->faults.missing) {
            if (!cluster->faults.removed && node->fate.code == 0) {
                cluster_violation(cluster, "I8", "%s, which was away, saw nothing amiss", node->node.name);
            }
        } else if (node->fate.code == 0 ||
                   (!names_missing(cluster, node->fate.text) && strstr(node->fate.text, "controller") == NULL)) {
            cluster_violation(cluster, "I8", "the error of %s does not name what is missing: %s", node->node.name,
                              node->fate.text);
        }
    }
}
