/* `mlr --predict MODEL --data FILE`: classes and accuracy of a saved model for the samples in a file. */
#ifndef APPS_MLR_PREDICT_H
#define APPS_MLR_PREDICT_H

/* The whole program for that command line; returns the exit status. */
int mlr_predict_main(int argc, char **argv);

#endif
