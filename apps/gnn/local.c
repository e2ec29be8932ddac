/* See local.h. */
#include "apps/gnn/local.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

static void open_rows(struct aml_rows *rows, uint32_t vertices, size_t floats) {
    *rows = (struct aml_rows){.stride = floats * sizeof(float), .count = vertices};
    rows->base = memory_zeroed((size_t)vertices + 1, rows->stride);
    rows->sums = memory_zeroed((size_t)vertices + 1, rows->stride);
    rows->touched = memory_zeroed((size_t)vertices + 1, 1);
}

void gnn_local_open(struct gnn_local *local, const struct gnn_network *network, const float *parameters,
                    uint32_t vertices, float dropout, float attention_dropout) {
    *local = (struct gnn_local){.count = 0};
    local->clock = (struct gnn_clock){.network = network,
                                      .kernels = &nn_graphs[vectors_wide()],
                                      .parameters = parameters,
                                      .dropout = dropout,
                                      .attention_dropout = attention_dropout,
                                      .pass = 1};
    size_t messages = gnn_drops((double)dropout, (double)attention_dropout) ? 2 : 1;
    for (unsigned l = network->gathered; l <= network->count; l++) {
        open_rows(&local->clock.forward[l], vertices, messages * network->layers[l].message);
        open_rows(&local->clock.backward[l], vertices, network->layers[l].error);
    }
    local->thread.gradient = memory_zeroed(network->parameters, sizeof(float));
}

void gnn_local_add(struct gnn_local *local, const void *bytes, size_t size) {
    uint32_t k = local->count++;
    local->tasks = memory_resized(local->tasks, local->count, sizeof *local->tasks);
    local->intervals = memory_resized(local->intervals, local->count, sizeof *local->intervals);
    struct gnn_local_interval *added = &local->intervals[k];
    *added = (struct gnn_local_interval){.bytes = memory_resized(NULL, size, 1)};
    memcpy(added->bytes, bytes, size);
    struct interval interval;
    interval_view(added->bytes, &interval);
    size_t count = (size_t)interval.own + interval.ghosts;
    unsigned tables = 2 * gnn_network_gathers(local->clock.network);
    added->slots = memory_resized(NULL, tables * count + 1, sizeof *added->slots);
    for (size_t i = 0; i < tables * count; i++) {
        uint32_t v = (uint32_t)(i % count);
        added->slots[i] = v < interval.own ? interval.first + v : interval.ghost_places[v - interval.own];
    }
    local->tasks[k] = (struct gnn_task){.interval = interval, .slots = added->slots};
}

/* Puts the sums of changed rows into the rows, as the servers do at a clock's end. */
static void put_sums(const struct aml_rows *rows) {
    for (uint32_t i = 0; i < rows->count; i++) {
        if (rows->touched[i]) {
            memcpy(rows->base + i * rows->stride, rows->sums + i * rows->stride, rows->stride);
            memset(rows->sums + i * rows->stride, 0, rows->stride);
            rows->touched[i] = 0;
        }
    }
}

static void begin_clock(struct gnn_local *local) {
    local->clock.number++;
    for (uint32_t k = 0; k < local->count; k++) { /* gnn_local_add moves these */
        local->tasks[k].memo = &local->intervals[k].memo;
    }
}

static void end_clock(struct gnn_local *local) {
    const struct gnn_network *network = local->clock.network;
    for (unsigned l = network->gathered; l <= network->count; l++) {
        put_sums(&local->clock.forward[l]);
        put_sums(&local->clock.backward[l]);
    }
}

void gnn_local_phase(struct gnn_local *local, unsigned phase) {
    begin_clock(local);
    for (uint32_t k = 0; k < local->count; k++) {
        gnn_phase(&local->clock, phase, &local->tasks[k], &local->thread);
    }
    end_clock(local);
}

void gnn_local_pass(struct gnn_local *local, bool learn) {
    begin_clock(local);
    for (uint32_t k = 0; k < local->count; k++) {
        gnn_pass(&local->clock, learn, &local->tasks[k], &local->thread);
    }
    end_clock(local);
}

void gnn_local_forward(struct gnn_local *local) {
    unsigned gathers = gnn_network_gathers(local->clock.network);
    for (unsigned phase = gathers + 1; phase <= 2 * gathers; phase++) {
        gnn_local_phase(local, phase);
    }
}

void gnn_local_close(struct gnn_local *local) {
    for (unsigned l = 0; l <= GNN_LAYERS_MAX; l++) {
        for (unsigned b = 0; b < 2; b++) {
            struct aml_rows *rows = b > 0 ? &local->clock.backward[l] : &local->clock.forward[l];
            free(rows->base);
            free(rows->sums);
            free(rows->touched);
        }
    }
    for (uint32_t k = 0; k < local->count; k++) {
        free(local->intervals[k].bytes);
        free(local->intervals[k].slots);
        gnn_memo_close(&local->intervals[k].memo);
    }
    free(local->intervals);
    free(local->tasks);
    gnn_thread_close(&local->thread);
    *local = (struct gnn_local){0};
}
