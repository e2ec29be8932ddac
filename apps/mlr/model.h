/* The file that holds a trained model, and predictions from it. The writer takes rows as they come and leaves either
 * the whole file or none; the reader believes nothing that it has not checked.
 *
 * The format, version 1. All numbers are little-endian; "float" is an IEEE 754 binary32.
 *
 *     bytes  what
 *     8      magic: "AMLMLMDL"
 *     4      version: 1
 *     4      how values are scaled (enum scale_kind, but SCALE_AUTO)
 *     4      index of the first feature in libsvm files: 0 or 1
 *     4      d: features, 1..SAMPLES_FEATURES_MAX
 *     4      K: classes, 2..MLR_CLASSES_MAX
 *     56 K   the labels of the classes in their order (labels.h), each filled up with zeros
 *     4 d    floats: the features' largest absolute values, with SCALE_MAX only; none negative
 *     then rows, each at most once, in any order; of features whose weights are all 0 they may be missing:
 *     4      the feature's number, 0..d-1, or d: the biases, which are there
 *     4 K    floats: the weights
 *     at the end of the file:
 *     4      CRC-32 (zlib's) of all bytes before
 *
 * Every float is finite. */
#ifndef APPS_MLR_MODEL_H
#define APPS_MLR_MODEL_H

#include "agileml/base/error.h"
#include "apps/mlr/kernel.h"
#include "apps/mlr/labels.h"
#include "apps/mlr/scale.h"

enum { MLR_MODEL_VERSION = 1 };

/* What the file starts with. */
struct mlr_model_header {
    struct scale scale; /* and the number of features */
    uint32_t index_base;
    const struct mlr_labels *labels; /* sorted */
};

/* Writing, by the rules of model_file.h. */
struct mlr_model_writer;

/* 0 and a writer, which mlr_model_writer_close or _abandon frees; or AML_EFAIL, AML_ELIMIT (the path's length),
 * AML_ENOMEM, and *writer is NULL. */
int mlr_model_writer_open(struct mlr_model_writer **writer, const char *path, const struct mlr_model_header *header,
                          struct error *error);
/* Adds rows[count][classes], with their numbers; those that are all 0 are left out. 0, or AML_EFAIL: the disk is full,
 * or a value is not finite. After a failure only _abandon may follow. */
int mlr_model_writer_rows(struct mlr_model_writer *writer, const uint64_t *numbers, const float *rows, size_t count,
                          struct error *error);
int mlr_model_writer_close(struct mlr_model_writer *writer, struct error *error);
/* Removes what was written. NULL is allowed. */
void mlr_model_writer_abandon(struct mlr_model_writer *writer);

/* A loaded model. Read-only; any number of threads may predict. */
struct mlr_model {
    struct scale scale;
    uint32_t index_base;
    struct mlr_labels labels;
    float *maxima;
    float *rows;        /* of `classes` floats */
    uint32_t row_count; /* the row of zeros included: ... */
    uint32_t *places;   /* [features + 1] the features' rows; ... this one for those that have none */
};

/* Reads and checks a whole file. 0 and a model that mlr_model_close frees; or AML_EINPUT, AML_EFAIL (reading failed),
 * AML_ENOMEM, and nothing to free. */
int mlr_model_load(const char *path, struct mlr_model *model, struct error *error);
void mlr_model_close(struct mlr_model *model);

/* Where a sample's probabilities go and what is needed on the way. A zeroed struct is an empty one; one per thread. */
struct mlr_prediction {
    float *probabilities; /* [classes] */
    uint32_t best;        /* the likeliest class */
    uint32_t *places;     /* [capacity] */
    float *values;        /* [capacity] */
    uint32_t capacity;
};
void mlr_model_predict(const struct mlr_model *model, const struct sample *sample, struct mlr_prediction *prediction);
void mlr_prediction_close(struct mlr_prediction *prediction);

#endif
