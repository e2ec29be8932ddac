/* `net --predict MODEL --data FILE`: classes and accuracy of a saved network for the samples in a file. */
#ifndef APPS_NET_PREDICT_H
#define APPS_NET_PREDICT_H

/* The whole program for that command line; returns the exit status. */
int net_predict_main(int argc, char **argv);

#endif
