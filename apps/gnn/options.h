/* The options that give a network's shape. */
#ifndef APPS_GNN_OPTIONS_H
#define APPS_GNN_OPTIONS_H

#include "agileml.h"
#include "apps/gnn/model.h"
#include "apps/gnn/pack.h"

enum { GNN_OPTIONS = 4 };

struct gnn_options {
    const char *model;  /* --model */
    const char *layers; /* --layers; NULL: by the model */
    int64_t heads, output_heads;
};

/* Adds the options with their defaults; `model` true: --model alone. Returns the place behind them. */
struct aml_option *gnn_options_list(struct gnn_options *chosen, bool model, struct aml_option *options);

/* Returns the kind that --model names, or AML_EINPUT. */
int gnn_options_kind(const struct gnn_options *chosen, struct error *error);

/* Returns the shape, but for `once`, `he` and the graph's sizes. */
struct gnn_shape gnn_options_shape(const struct gnn_options *chosen, enum gnn_kind kind);

/* Returns the model without parameters. It borrows all its pointers: never call gnn_model_close. */
struct gnn_model gnn_options_model(const struct gnn_options *chosen, const struct gnn_network *network,
                                   const struct pack_summary *summary);

#endif
