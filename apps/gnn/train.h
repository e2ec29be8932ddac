/* The job's side of training: tables, and the functions of struct aml_app that work on clocks. */
#ifndef APPS_GNN_TRAIN_H
#define APPS_GNN_TRAIN_H

#include "agileml.h"
#include "apps/gnn/compute.h"
#include "apps/gnn/network.h"

enum { GNN_TABLES_MAX = 1 + 2 * GNN_LAYERS_MAX };

/* Metrics, in their order, without dropout. Of the parameters at the iteration's end; with --pipeline async of messages
 * that were made with those at its beginning. */
enum {
    GNN_LOSS,
    GNN_TRAIN_ACCURACY,
    GNN_VALIDATION_LOSS,
    GNN_VALIDATION_ACCURACY,
    GNN_TEST_LOSS,
    GNN_TEST_ACCURACY,
    GNN_METRICS
};
extern const struct aml_metric gnn_metrics[GNN_METRICS];

enum gnn_optimizer { GNN_ADAM, GNN_MOMENTUM, GNN_SGD };

/* Steps of the parameters, in the servers. */
struct gnn_steps {
    const struct gnn_network *network;
    enum gnn_optimizer optimizer;
    double rate, anneal, momentum, beta2, lambda;
    unsigned phases;
};

/* Set by `configure`, and then constant. aml_app.context begins with it. */
struct gnn_job {
    struct gnn_network network;
    struct gnn_steps steps;
    bool async;
    double dropout, attention_dropout;
    double train;       /* training vertices */
    uint32_t intervals; /* of the graph */
    uint64_t seed;
};

struct gnn_training; /* a process's state */

struct gnn_training *gnn_training_open(const struct gnn_job *job);
void gnn_training_close(struct gnn_training *training);

/* Declares the tables: the parameters, then messages and errors of each layer that gathers. Returns their number. */
unsigned gnn_train_tables(struct gnn_job *job, uint32_t vertices, struct aml_table tables[GNN_TABLES_MAX]);

/* Emits an interval's item. Its rows are those of gnn_task.slots. `keys` is memory that grows, freed by the caller. */
struct gnn_keys {
    uint64_t *values;
    size_t room;
};
int gnn_train_emit(aml_worker *worker, const struct gnn_job *job, const void *bytes, size_t size,
                   struct gnn_keys *keys);

/* `begin`, `clock` and `evaluate` of struct aml_app. */
int gnn_train_begin(aml_worker *worker, struct gnn_training *training);
int gnn_train_clock(aml_worker *worker, const void *items, size_t count, struct gnn_training *training);
int gnn_train_evaluate(aml_worker *worker, struct gnn_training *training);

/* In `finish`: sets parameters[network.parameters] from the table. */
int gnn_train_gather(aml_worker *worker, const struct gnn_job *job, float *parameters);

#endif
