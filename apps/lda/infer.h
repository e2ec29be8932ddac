/* `lda --infer MODEL --data FILE`: the topics of new documents, by a saved model. */
#ifndef APPS_LDA_INFER_H
#define APPS_LDA_INFER_H

/* The whole program for that command line; returns the exit status. */
int lda_infer_main(int argc, char **argv);

#endif
