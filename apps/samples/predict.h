/* `APP --predict MODEL --data FILES`: classes and accuracy by a saved model for the samples in files, for every app
 * that learns classes. */
#ifndef APPS_SAMPLES_PREDICT_H
#define APPS_SAMPLES_PREDICT_H

#include "apps/mlr/samples.h"

/* The properties of a loaded model that predictions need. */
struct samples_model {
    const struct mlr_labels *labels;
    uint32_t features; /* number of features in training */
    uint32_t index_base;
    const struct numbering *numbering; /* numbering of the features; NULL: they are not numbered */
    const struct mlr_hash *hash;       /* of Criteo lines; NULL, or with bits 0: not trained on such lines */
    struct image_shape images;         /* shape of the images; with width 0: samples are not images */
    const struct column_names *names;  /* of the features and the label, by a header; NULL or empty: not known */
};

struct samples_predictor {
    const char *app;     /* the program's name */
    const char *formats; /* the help of --format */
    /* Loads a model. If it returns 0, `close` follows, and the data that `model` points to stays valid until then. */
    int (*load)(void *context, const char *path, struct samples_model *model, struct error *error);
    /* Returns the probabilities of the labels, valid until the next call, and sets *best to the most likely one. */
    const float *(*predict)(void *context, const struct sample *sample, uint32_t *best);
    void (*close)(void *context);
    void *context;
};

/* The whole program for that command line; returns the exit status. */
int samples_predict_main(const struct samples_predictor *predictor, int argc, char **argv);

#endif
