/* A trained network, and its file (docs/gnn.md), which depends on neither the graph nor the cluster. */
#ifndef APPS_GNN_MODEL_H
#define APPS_GNN_MODEL_H

#include "apps/gnn/graph.h"
#include "apps/gnn/network.h"

struct gnn_model {
    struct gnn_network network;
    char *layers; /* the text of --layers */
    uint32_t heads, output_heads;
    uint32_t features, classes;
    bool directed;
    struct graph_scale scale;
    char **class_names; /* [classes] */
    float *parameters;  /* [network.parameters] */
};

/* Writes the model, replacing an older file once the new one is complete. Fails for parameters that are not finite. */
int gnn_model_write(const char *path, const struct gnn_model *model, struct error *error);

/* Reads a model, whose network gathers in each layer (`once` is false). Returns 0, and gnn_model_close must follow; or
 * AML_EINPUT, AML_EFAIL or AML_ENOMEM with nothing to free. */
int gnn_model_load(const char *path, struct gnn_model *model, struct error *error);
void gnn_model_close(struct gnn_model *model);

#endif
