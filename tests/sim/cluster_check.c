/* The invariants of DESIGN section 3 on a simulated cluster: I1, I2, I3, I6, I7 and the bounds step by step, then
 * what a run must end with. */
#include "tests/sim/cluster_private.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cluster_violation(struct cluster *cluster, const char *invariant, const char *format, ...) {
    char *text = cluster->result->violation;
    if (text[0] != '\0') {
        return;
    }
    size_t size = sizeof cluster->result->violation;
    int used = snprintf(text, size, "at %.6f s: %s: ", (double)sim_now(cluster->sim) / 1e6, invariant);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - (size_t)used, format, arguments);
    va_end(arguments);
}

double cluster_objective(uint64_t clock) {
    return 1.0 + ldexp(1.0, -(int)(clock < 1000 ? clock : 1000));
}

/* ---- Step by step ---- */

/* I1: a partition that has reached a clock holds every contribution up to it, once. */
static void check_partition(struct cluster *cluster, const struct cluster_server *server, uint32_t number) {
    const struct partition *partition = server->server.partitions[number];
    const uint64_t *state = adder_state(&cluster->adder, partition->clock);
    char text[256];
    for (unsigned t = 0; t < cluster->adder.job.table_count; t++) {
        const struct table *table = &partition->tables[t];
        for (uint32_t slot = 0; slot < table->count; slot++) {
            int64_t row = adder_find(&cluster->adder, t, table_key(table, slot));
            if (row < 0) {
                cluster_violation(cluster, "I1", "partition %u has a row of table %u that is none of the app's", number,
                                  t);
                return;
            }
            if (!adder_equal(&cluster->adder, (unsigned)row, state, partition_row(partition, t, slot), text,
                             sizeof text)) {
                cluster_violation(cluster, "I1", "partition %u at clock %llu: %s", number,
                                  (unsigned long long)partition->clock, text);
                return;
            }
        }
    }
    for (unsigned r = 0; r <= cluster->adder.job.staleness; r++) {
        const struct pending *pending = &partition->ring[r];
        if (pending->clock != 0 &&
            (pending->clock <= partition->clock || pending->clock > partition->clock + 1 + cluster->terms.staleness)) {
            cluster_violation(cluster, "bound", "partition %u at clock %llu has pending clock %llu", number,
                              (unsigned long long)partition->clock, (unsigned long long)pending->clock);
        }
    }
}

void cluster_check_server(struct cluster_server *server) {
    struct cluster *cluster = server->node->cluster;
    for (uint32_t p = 0; p < server->server.partition_count; p++) {
        const struct partition *partition = server->server.partitions[p];
        if (partition == NULL) {
            continue;
        }
        if (cluster->serving[p] == ACTOR_NONE) {
            cluster->serving[p] = server->server.self;
        } else if (cluster->serving[p] != server->server.self) {
            cluster_violation(cluster, "I7", "partition %u is held by two servers, of %s too", p,
                              server->node->node.name);
        }
        if (partition->clock > server->checked[p]) {
            server->checked[p] = partition->clock;
            check_partition(cluster, server, p);
        }
    }
    if (server->server.scan_count > SERVER_SCANS_MAX) {
        cluster_violation(cluster, "bound", "%u scans wait", server->server.scan_count);
    }
}

/* I2: what a worker sees is the partition at its clock and the worker's own later changes. */
void cluster_check_row_state(void *context, uint32_t partition, uint64_t clock) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    struct adder *adder = &cluster->adder;
    const struct client *client = &node->node.client;
    const uint64_t *state = adder_state(adder, clock);
    uint64_t *expected = adder->scratch.elements;
    char text[256];
    for (unsigned t = 0; t < adder->job.table_count; t++) {
        const struct cache_list *list = cache_list(&node->node.cache, partition, t);
        for (uint32_t i = 0; i < list->count; i++) {
            unsigned row = node->rows[t][list->slots[i]];
            unsigned first = adder->rows[row].first;
            unsigned width = adder->job.tables[t].width;
            memcpy(expected + first, state + first, width * sizeof *expected);
            for (uint64_t later = clock + 1; later <= client->begun; later++) {
                const struct adder_change *own = &node->own[later % node->own_count];
                for (unsigned e = 0; own->touched[row] != 0 && e < width; e++) {
                    bool put = adder->job.tables[t].mode == AML_PUT;
                    expected[first + e] = own->elements[first + e] + (put ? 0 : expected[first + e]);
                }
            }
            if (!adder_equal(adder, row, expected, cache_row(&node->node.cache.tables[t], list->slots[i]), text,
                             sizeof text)) {
                cluster_violation(cluster, "I2", "%s, clock %llu begun, sees partition %u at clock %llu: %s",
                                  node->node.name, (unsigned long long)client->begun, partition,
                                  (unsigned long long)clock, text);
                return;
            }
        }
    }
}

void cluster_check_node(struct cluster_node *node) {
    const struct client *client = &node->node.client;
    uint32_t staleness = node->cluster->terms.staleness;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        unsigned retained = 0;
        for (unsigned r = 0; r < client->job->staleness + 2; r++) {
            retained += partition->retained[r].clock != 0 ? 1 : 0;
        }
        if (retained > staleness + 2) {
            cluster_violation(node->cluster, "bound", "%s retains %u flushes of partition %u", node->node.name,
                              retained, p);
        }
        if (partition->waiting_count > staleness + 2) {
            cluster_violation(node->cluster, "bound", "%s has %u pushes of partition %u waiting", node->node.name,
                              partition->waiting_count, p);
        }
    }
    if (node->node.progress_count > NODE_PROGRESS_MAX) {
        cluster_violation(node->cluster, "bound", "%s has %u PROGRESS waiting", node->node.name,
                          node->node.progress_count);
    }
}

/* I3 and I6, when a worker begins a clock. */
void cluster_check_begin(struct cluster_node *node, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    const struct client *client = &node->node.client;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (client->partitions[p].clock + 1 + cluster->terms.staleness < clock) {
            cluster_violation(cluster, "I3", "%s begins clock %llu with partition %u at clock %llu, staleness %u",
                              node->node.name, (unsigned long long)clock, p,
                              (unsigned long long)client->partitions[p].clock, cluster->terms.staleness);
        }
    }
    for (unsigned s = 0; s < node->shard_count; s++) {
        uint64_t *worked = &cluster->worked[node->shards[s]];
        if (*worked + 1 != clock) {
            cluster_violation(cluster, "I6", "%s works on shard %u in clock %llu, which was worked on up to clock %llu",
                              node->node.name, node->shards[s], (unsigned long long)clock, (unsigned long long)*worked);
        }
        *worked = clock;
    }
}

/* ---- At the end of a run ---- */

static void check_all_rows(struct cluster *cluster) {
    const struct adder *adder = &cluster->adder;
    const uint64_t *state = adder_state(&cluster->adder, cluster->controller.completed);
    const uint64_t *start = adder_state(&cluster->adder, 0);
    char text[256];
    for (unsigned r = 0; r < adder->row_count; r++) {
        const struct table_spec *spec = &adder->job.tables[adder->rows[r].table];
        uint32_t number = table_partition(spec, adder->rows[r].key, cluster->policy.partitions);
        const struct server *server = NULL;
        for (unsigned n = 0; n < cluster->node_count; n++) {
            for (unsigned s = 0; s < cluster->nodes[n].server_count; s++) {
                const struct server *one = &cluster->nodes[n].servers[s].server;
                server = one->self == cluster->serving[number] ? one : server;
            }
        }
        if (server == NULL) {
            cluster_violation(cluster, "I7", "nobody holds partition %u", number);
            return;
        }
        const struct partition *partition = server->partitions[number];
        const struct table *table = &partition->tables[adder->rows[r].table];
        int64_t slot = spec->rows > 0 ? (int64_t)(adder->rows[r].key / cluster->policy.partitions)
                                      : index_map_find(&table->index, adder->rows[r].key);
        if (partition->clock != cluster->controller.completed) {
            cluster_violation(cluster, "I1", "partition %u ended at clock %llu, the job at %llu", number,
                              (unsigned long long)partition->clock, (unsigned long long)cluster->controller.completed);
        } else if (slot < 0) {
            if (memcmp(state + adder->rows[r].first, start + adder->rows[r].first, spec->width * sizeof *state) != 0) {
                cluster_violation(cluster, "I1", "table %s: the row %llu is missing", spec->name,
                                  (unsigned long long)adder->rows[r].key);
            }
        } else if (!adder_equal(adder, r, state, partition_row(partition, adder->rows[r].table, (uint32_t)slot), text,
                                sizeof text)) {
            cluster_violation(cluster, "I1", "at the end, partition %u: %s", number, text);
        }
    }
}

static uint64_t whole(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void check_report(struct cluster *cluster) {
    const struct controller *controller = &cluster->controller;
    uint64_t each = cluster->terms.clocks_per_iteration;
    uint64_t iterations = 0;
    for (size_t l = 0; l < controller->line_count; l++) {
        json_t *line = json_loads(controller->lines[l], 0, NULL);
        const char *type = json_string_value(json_object_get(line, "type"));
        if (type == NULL) {
            cluster_violation(cluster, "report", "not a line of the report: %s", controller->lines[l]);
        } else if (strcmp(type, "iteration") == 0) {
            iterations++;
            double objective = json_real_value(json_object_get(line, "objective"));
            double expected = cluster_objective(iterations * each);
            double items = json_real_value(json_object_get(line, "items_seen"));
            if (whole(line, "iteration") != iterations || fabs(objective - expected) > 1e-6 * expected ||
                whole(line, "items") != cluster->adder.items * each ||
                fabs(items - (double)(cluster->adder.items * each)) > 0.5) {
                cluster_violation(cluster, "report", "iteration %llu: %s, expected objective %.9g and %llu items",
                                  (unsigned long long)iterations, controller->lines[l], expected,
                                  (unsigned long long)(cluster->adder.items * each));
            }
        }
        if (l + 1 == controller->line_count &&
            (type == NULL || strcmp(type, "summary") != 0 || !json_is_true(json_object_get(line, "ok")) ||
             whole(line, "iterations") != iterations || whole(line, "clocks") != iterations * each ||
             whole(line, "items_processed") != cluster->adder.items * each * iterations ||
             whole(line, "failures") != 0)) {
            cluster_violation(cluster, "report", "%s, expected %llu iterations of %llu clocks and %llu items",
                              controller->lines[l], (unsigned long long)iterations, (unsigned long long)each,
                              (unsigned long long)cluster->adder.items);
        }
        json_decref(line);
    }
    const struct job_terms *terms = &cluster->terms;
    bool only_iterations = terms->seconds == 0 && terms->tolerance == 0;
    if (iterations == 0 || (terms->iterations != 0 && iterations > terms->iterations) ||
        (only_iterations && iterations != terms->iterations)) {
        cluster_violation(cluster, "report", "%llu iterations", (unsigned long long)iterations);
    }
}

void cluster_check_good_end(struct cluster *cluster) {
    if (cluster->code != 0) {
        cluster_violation(cluster, "I8", "the job failed: %s", cluster->text);
        return;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = &cluster->nodes[n];
        if (!node->ended || node->code != 0) {
            cluster_violation(cluster, "I8", "%s %s: %s", node->node.name, node->ended ? "failed" : "has not ended",
                              node->text);
            return;
        }
    }
    for (unsigned s = 0; s < cluster->policy.shards; s++) {
        if (cluster->worked[s] != cluster->controller.completed) {
            cluster_violation(cluster, "I6", "shard %u was worked on up to clock %llu of %llu", s,
                              (unsigned long long)cluster->worked[s],
                              (unsigned long long)cluster->controller.completed);
        }
    }
    check_all_rows(cluster);
    check_report(cluster);
}

/* Every part that is not missing itself must have ended with an error that names what is missing. */
static bool names_missing(const struct cluster *cluster, const char *text) {
    if (cluster->missing == (int)cluster->node_count) {
        return strstr(text, "controller") != NULL;
    }
    const struct cluster_node *missing = &cluster->nodes[cluster->missing];
    char host[64];
    snprintf(host, sizeof host, "host-%u", missing->number);
    bool registered = missing->node.heartbeat_ms != 0;
    /* One that never came has no name: then how many are missing is all that can be said. */
    return strstr(text, host) != NULL || (missing->node.name[0] != '\0' && strstr(text, missing->node.name) != NULL) ||
           (!registered && strstr(text, "have registered") != NULL);
}

void cluster_check_bad_end(struct cluster *cluster) {
    bool controller_missing = cluster->missing == (int)cluster->node_count;
    if (!controller_missing || !cluster->removed) {
        if (cluster->code == 0) {
            cluster_violation(cluster, "I8", "the controller saw nothing amiss");
        } else if (!controller_missing && !names_missing(cluster, cluster->text)) {
            cluster_violation(cluster, "I8", "the controller's error names another: %s", cluster->text);
        }
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = &cluster->nodes[n];
        if ((int)n == cluster->missing) {
            if (!cluster->removed && node->code == 0) {
                cluster_violation(cluster, "I8", "%s, which was away, saw nothing amiss", node->node.name);
            }
        } else if (node->code == 0 ||
                   (!names_missing(cluster, node->text) && strstr(node->text, "controller") == NULL)) {
            cluster_violation(cluster, "I8", "the error of %s does not name what is missing: %s", node->node.name,
                              node->text);
        }
    }
}
