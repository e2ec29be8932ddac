/* The scale of features: so that a network learns from years, prices and counts as well as from words. */
#ifndef APPS_GNN_SCALE_H
#define APPS_GNN_SCALE_H

#include "apps/gnn/graph.h"

/* The names, in the order of the kinds, ended by NULL. */
extern const char *const graph_scale_names[];

/* Sets the scale of these features. GRAPH_SCALE_AUTO becomes UNIT if the features are sparse, not negative,
 * and columns have similar sizes, as words have; else STANDARD. graph_scale_close must follow. */
void graph_scale_find(struct graph_scale *scale, enum graph_scale_kind kind, const struct graph_features *features,
                      uint32_t vertices);
/* Scales features of as many columns, in place. Sparse ones become dense if the scale has centres, as that of a model
 * of dense features does. */
void graph_scale_apply(const struct graph_scale *scale, struct graph_features *features, uint32_t vertices);
bool graph_scale_equal(const struct graph_scale *one, const struct graph_scale *other);
/* Sets *to to a copy, which graph_scale_close frees. */
void graph_scale_copy(const struct graph_scale *scale, struct graph_scale *to);
void graph_scale_close(struct graph_scale *scale);

#endif
