/* `APP --predict MODEL --data FILES`: classes and accuracy by a saved model for the samples in files, for every app
 * that learns classes. */
#ifndef APPS_SAMPLES_PREDICT_H
#define APPS_SAMPLES_PREDICT_H

#include "apps/samples/model.h"

struct samples_predictor {
    const char *app;     /* the program's name */
    const char *formats; /* the help of --format */
    /* Loads a model, to which `model` points until `close`. Without success `close` does not follow. */
    int (*load)(void *context, const char *path, const struct samples_model **model, struct error *error);
    /* Returns the probabilities of the labels, valid until the next call, and sets *best to the most likely one. */
    const float *(*predict)(void *context, const struct sample *sample, uint32_t *best);
    void (*close)(void *context);
    void *context;
};

/* The whole program for that command line; returns the exit status. */
int samples_predict_main(const struct samples_predictor *predictor, int argc, char **argv);

#endif
