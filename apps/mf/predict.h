/* `mf --predict MODEL --data FILE`: predictions and RMSE of a saved model for the ratings in a file. */
#ifndef APPS_MF_PREDICT_H
#define APPS_MF_PREDICT_H

/* The whole program for that command line; returns the exit status. */
int mf_predict_main(int argc, char **argv);

#endif
