/* Reads features from a table of numbers: a line for each vertex, fields separated by commas, tabs, semicolons or
 * blanks. A first line of names is skipped, and so is a first column that a header calls an index. */
#ifndef APPS_GNN_FEATURE_TABLE_H
#define APPS_GNN_FEATURE_TABLE_H

#include "apps/gnn/reading.h"

/* Sets the graph's vertices and features. Returns as features_read. */
int feature_table_read(struct graph_reading *reading);

#endif
