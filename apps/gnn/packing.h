/* `gnn --pack`: writes a graph's files as a packed graph (pack.h). */
#ifndef APPS_GNN_PACKING_H
#define APPS_GNN_PACKING_H

/* Runs the tool and returns the exit status. */
int gnn_packing_main(int argc, char **argv);

#endif
