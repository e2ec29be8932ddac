/* What a simulated run must end with, and the report line by line. See cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include "agileml/control/manifest.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* ---- The report ---- */

static uint64_t whole(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* Training did not take longer than the whole run, and time does not run backwards, whatever became of controllers. */
static void check_seconds(struct cluster *cluster, const json_t *line, const char *text) {
    double seconds = json_real_value(json_object_get(line, "seconds"));
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

/* A line's metrics are exactly those of all shards, or it says that they are of a part. */
static void check_iteration(struct cluster *cluster, const json_t *line, const char *text) {
    uint64_t each = cluster->terms.clocks_per_iteration;
    uint64_t iteration = cluster->drawn.first_clock / each + cluster->report.iterations + 1;
    uint64_t begun = (iteration - 1) * each; /* a resumed job has only the rest of its first iteration */
    uint64_t before = begun > cluster->drawn.first_clock ? begun : cluster->drawn.first_clock;
    uint64_t items = app_items(&cluster->app, before + 1, iteration * each);
    uint64_t told = whole(line, "items");
    double expected = cluster_objective(iteration * each);
    double objective = json_real_value(json_object_get(line, "objective"));
    double seen = json_real_value(json_object_get(line, "items_seen"));
    double sum = json_real_value(json_object_get(line, "figures"));
    double evaluated = json_real_value(json_object_get(line, "shards"));
    double all = figures(cluster, before + 1, iteration * each);
    const json_t *partial = json_object_get(line, "partial");
    double covered = partial != NULL ? json_real_value(partial) : 1;
    bool all_evaluated = evaluated == cluster->policy.shards && fabs(objective - expected) <= 1e-6 * expected;
    bool complete = told == items && sum == all && all_evaluated;
    bool coherent = told <= items && sum <= all && evaluated <= cluster->policy.shards &&
                    fabs(seen - (double)told) < 0.5 && whole(line, "iteration") == iteration;
    if (begun == before && items > 0) {
        double share = fmin((double)told / (double)items, evaluated / cluster->policy.shards);
        coherent = coherent && fabs(covered - share) < 1e-6;
    }
    bool lost = cluster->result->counts.recoveries > 0;
    if (!coherent || (!complete && partial == NULL && items > 0) || (partial != NULL && (covered >= 1 || !lost))) {
        cluster_violation(cluster, "report", "%s, expected iteration %llu, objective %.9g, %llu items and figures %.0f",
                          text, (unsigned long long)iteration, expected, (unsigned long long)items, all);
    }
    cluster->report.iterations++;
    cluster->report.untold_items += begun < before ? items - told : 0;
    cluster->report.last_evaluated = json_real_value(json_object_get(line, "last_shards"));
    cluster->report.last_partial = partial != NULL;
    cluster->result->counts.partial += partial != NULL ? 1 : 0;
}

static void check_summary(struct cluster *cluster, const json_t *line, const char *text) {
    uint64_t each = cluster->terms.clocks_per_iteration;
    uint64_t completed = cluster->report.completed = whole(line, "clocks");
    uint64_t items = app_items(&cluster->app, cluster->drawn.first_clock + 1, completed);
    bool ok = json_is_true(json_object_get(line, "ok"));
    cluster->report.summed_up = true;
    cluster->result->counts.redone_items += whole(line, "items_redone");
    if (!ok) {
        return;
    }
    uint64_t redone = whole(line, "items_redone");
    if (whole(line, "iterations") != completed / each ||
        whole(line, "items_processed") != items - cluster->report.untold_items ||
        (json_object_get(line, "partial") != NULL) != cluster->report.last_partial ||
        completed / each != cluster->drawn.first_clock / each + cluster->report.iterations) {
        cluster_violation(cluster, "report", "%s, expected clock %llu, %llu iterations and %llu items", text,
                          (unsigned long long)completed, (unsigned long long)cluster->report.iterations,
                          (unsigned long long)items);
    }
    bool trained = completed > cluster->drawn.first_clock; /* else it resumed at its end: nothing was evaluated */
    if (trained && cluster->report.last_evaluated != cluster->policy.shards) {
        cluster_violation(cluster, "report", "%s, of %u shards %g were evaluated as of the last clock", text,
                          cluster->policy.shards, cluster->report.last_evaluated);
    }
    if (redone > cluster->seen.redone_most) {
        cluster_violation(cluster, "report", "%s, at most %llu items were lost", text,
                          (unsigned long long)cluster->seen.redone_most);
    }
    if (!cluster->faults.disturbed && (redone != 0 || whole(line, "failures") != 0)) {
        cluster_violation(cluster, "report", "%s, nothing has failed", text);
    }
}

/* A node is reported as failed only if something was done to it or to the network. Schedules, which do so in their own
 * ways, are left out. */
static void check_accused(struct cluster *cluster, const json_t *line, const char *text) {
    const json_t *names = json_object_get(line, "nodes");
    const char *reason = json_string_value(json_object_get(line, "reason"));
    for (size_t i = 0; i < json_array_size(names); i++) {
        cluster_pulse_check_failure(cluster, json_string_value(json_array_get(names, i)), reason);
    }
    if (cluster->faults.split || cluster->faults.may_fail || cluster->options.schedule != SCHEDULE_NONE) {
        return;
    }
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
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

/* The report has each text that apps say once. */
static void check_note(struct cluster *cluster, const char *said, const char *text) {
    bool evaluated = said != NULL && strcmp(said, CLUSTER_NOTE_EVALUATED) == 0;
    unsigned *count = evaluated ? &cluster->report.said_evaluated : &cluster->report.said_saved;
    if (said == NULL || (!evaluated && strcmp(said, CLUSTER_NOTE_SAVED) != 0) || ++*count > 1) {
        cluster_violation(cluster, "report", "said by no app, or twice: %s", text);
    }
}

void cluster_check_line(struct cluster *cluster, const char *text) {
    json_t *line = json_loads(text, 0, NULL);
    const char *type = json_string_value(json_object_get(line, "type"));
    const char *event = json_string_value(json_object_get(line, "event"));
    if (cluster->options.trace != NULL) {
        fprintf(cluster->options.trace, "%12.6f report %s\n", (double)sim_now(cluster->sim) / 1e6, text);
    }
    check_seconds(cluster, line, text);
    if (type == NULL) {
        cluster_violation(cluster, "report", "not a line of the report: %s", text);
    } else if (strcmp(type, "iteration") == 0) {
        check_iteration(cluster, line, text);
        cluster_uneven_iteration(cluster, whole(line, "iteration"),
                                 json_number_value(json_object_get(line, "seconds")));
    } else if (strcmp(type, "note") == 0) {
        check_note(cluster, json_string_value(json_object_get(line, "text")), text);
    } else if (strcmp(type, "summary") == 0) {
        check_summary(cluster, line, text);
    } else if (event != NULL && strcmp(event, "failure") == 0) {
        check_accused(cluster, line, text);
    } else if (event != NULL && strcmp(event, "balance") == 0) {
        cluster_uneven_balance(cluster, text);
    } else if (event != NULL && strcmp(event, "replace") == 0) {
        cluster_uneven_replace(cluster, json_string_value(json_array_get(json_object_get(line, "nodes"), 0)), text);
    } else if (event != NULL && strcmp(event, "recover") == 0) {
        cluster->result->counts.cached += whole(line, "partitions_from_caches");
    } else if (event != NULL && strcmp(event, "join") == 0) {
        cluster_uneven_join(cluster);
    } else if (event != NULL && strcmp(event, "checkpoint") == 0) {
        cluster->result->counts.checkpoints++;
    }
    json_decref(line);
}

/* ---- Checkpoints ---- */

/* No replica refuses a checkpoint because it has passed the clock: nobody passes it before all replicas have
 * promised. */
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

/* Checks the disk of a job that has ended. */
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
    bool lacks = cluster_lacks_checkpoints(cluster); /* then the job is done, but has failed */
    if (cluster->run.disk[0] != '\0') {
        check_checkpoints(cluster);
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        bool late = node->fate.ended && strstr(node->fate.text, "the job is over") != NULL;
        bool stays = !node->fate.gone && !cluster->faults.disturbed && cluster_node_counts(node);
        /* A controller whose store failed tells the nodes; is it killed then, those who did not hear it go on. */
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

/* Every part that is not missing itself must have ended with an error that names what is missing. */
static bool names_missing(const struct cluster *cluster, const char *text) {
    const struct cluster_node *missing = cluster->faults.missing;
    if (missing == NULL) {
        return strstr(text, "controller") != NULL;
    }
    char host[64];
    snprintf(host, sizeof host, "host-%u", missing->number);
    bool registered = missing->node.contact.heartbeat_ms != 0;
    /* One that never came has no name: then how many are missing is all that can be said. */
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
