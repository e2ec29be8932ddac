/* `APP --predict MODEL --data FILES`: classes and accuracy by a saved model for the samples in files, for every app
 * that learns classes. */
#ifndef APPS_SAMPLES_PREDICT_H
#define APPS_SAMPLES_PREDICT_H

#include "apps/mlr/samples.h"

/* What predictions need to know of a loaded model. */
struct samples_model {
    const struct mlr_labels *labels;
    uint32_t features; /* of the samples that it was trained on */
    uint32_t index_base;
    const struct numbering *numbering; /* of features; NULL: they are not numbered */
    const struct mlr_hash *hash;       /* of Criteo lines; NULL, or with bits 0: it was trained on others */
    struct image_shape images;         /* of its samples; with width 0: they are no images */
    const struct column_names *names;  /* of the features and the label, from a header; NULL, or of none: not known */
};

struct samples_predictor {
    const char *app;     /* the program's name */
    const char *formats; /* the help of --format */
    /* Loads a model; `close` follows if it returns 0. What `model` points to stays until then. */
    int (*load)(void *context, const char *path, struct samples_model *model, struct error *error);
    /* Returns the probabilities of the labels, valid until the next call, and sets *best to the likeliest. */
    const float *(*predict)(void *context, const struct sample *sample, uint32_t *best);
    void (*close)(void *context);
    void *context;
};

/* The whole program for that command line; returns the exit status. */
int samples_predict_main(const struct samples_predictor *predictor, int argc, char **argv);

#endif
