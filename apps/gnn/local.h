/* A whole graph's phases in one process, on rows in plain memory: for predictions, which need no job, and for tests. */
#ifndef APPS_GNN_LOCAL_H
#define APPS_GNN_LOCAL_H

#include "apps/gnn/compute.h"

struct gnn_local {
    struct gnn_clock clock; /* `parameters` may change between phases */
    struct gnn_task *tasks; /* [count] */
    uint32_t count;
    struct gnn_thread thread;
    struct gnn_local_interval {
        unsigned char *bytes;
        uint32_t *slots;
        struct gnn_memo memo;
    } * intervals; /* [count] */
};

/* Prepares a graph of so many vertices, without intervals. The network and the parameters must stay as long. */
void gnn_local_open(struct gnn_local *local, const struct gnn_network *network, const float *parameters,
                    uint32_t vertices, float dropout, float attention_dropout);
/* Adds an interval: checked bytes, which are copied. */
void gnn_local_add(struct gnn_local *local, const void *bytes, size_t size);
/* Works on the next clock: a phase for all intervals, and then puts sums into rows. `gradient` of the thread adds
 * up. */
void gnn_local_phase(struct gnn_local *local, unsigned phase);
/* Works on the next clock as gnn_pass. */
void gnn_local_pass(struct gnn_local *local, bool learn);
/* Makes all layers' messages of the present parameters, in several clocks. Afterwards gnn_evaluate may be called. */
void gnn_local_forward(struct gnn_local *local);
void gnn_local_close(struct gnn_local *local);

#endif
