/* `gnn --predict`: the class of each vertex by a model. */
#ifndef APPS_GNN_PREDICT_H
#define APPS_GNN_PREDICT_H

/* Runs the tool and returns the exit status. */
int gnn_predict_main(int argc, char **argv);

#endif
