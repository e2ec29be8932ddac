/* The file of a trained model, and predictions from it. The writer takes rows in any order and leaves a whole file or
 * none. The reader checks everything.
 *
 * The format, version 1, or 2 if samples are hashed, 3 if they are images, 5 if features are numbered (numbering.h),
 * else 4 if they are standardized. All numbers are little-endian; "float" is an IEEE 754 binary32.
 *
 *     bytes  what
 *     8      magic: "AMLMLMDL"
 *     4      version: 1, 2, 3, 4 or 5
 *     4      how values are scaled (enum scale_kind without SCALE_AUTO)
 *     4      index of the first feature in libsvm files: 0 or 1
 *     4      d: features, 1..SAMPLES_FEATURES_MAX
 *     4      K: classes, 2..LABELS_MAX
 *     4 + 4  version 2 only: bits b of the hash (d = 2^b, hash.h), number of crosses c
 *     2 c    version 2 only: the fields of the crosses, a byte each (0: I1, 13: C1), ascending
 *     12     version 3 only: width, height and channels of the images (d = their product)
 *     56 K   the labels (apps/samples/model.h)
 *     4 d    version 5 only: the features' indexes in libsvm files, ascending
 *     ...    the scale (apps/samples/model.h), SCALE_STANDARD in version 4 or 5 only
 *     then rows in any order, each at most once; the row of a feature whose weights are all 0 may be missing:
 *     4      the feature's number, 0..d-1, or d: the biases, whose row is never missing
 *     4 K    floats: the weights
 *     at the end of the file:
 *     ...    the columns' names (apps/samples/model.h), if the version is 16 more
 *     4      CRC-32 (zlib's) of all bytes before
 *
 * Every float is finite. */
#ifndef APPS_MLR_MODEL_H
#define APPS_MLR_MODEL_H

#include "apps/mlr/kernel.h"
#include "apps/samples/model.h"

enum {
    MLR_MODEL_VERSION = 1,
    MLR_MODEL_VERSION_HASHED = 2,
    MLR_MODEL_VERSION_IMAGES = 3,
    MLR_MODEL_VERSION_STANDARD = 4,
    MLR_MODEL_VERSION_NUMBERED = 5,
    MLR_MODEL_NEWEST = MLR_MODEL_VERSION_NUMBERED
};

/* Writing, by the rules of model_file.h. */
struct mlr_model_writer;

/* Starts a file. `samples` stays valid until mlr_model_writer_close, which frees the writer. Returns 0 or a code of
 * model_file_begin. */
int mlr_model_writer_open(struct mlr_model_writer **writer, const char *path, const struct samples_model *samples,
                          struct error *error);
/* Adds rows[count][classes] with their numbers. Leaves out rows of zeros, except the biases. Returns 0, or AML_EFAIL
 * when the disk is full or a value is not finite. */
int mlr_model_writer_rows(struct mlr_model_writer *writer, const uint64_t *numbers, const float *rows, size_t count,
                          struct error *error);
/* Ends the file and frees the writer, as model_file_end does. */
int mlr_model_writer_close(struct mlr_model_writer *writer, int result, struct error *error);

/* A loaded model. Read-only; any number of threads may predict. */
struct mlr_model {
    struct samples_model samples;
    float *rows; /* [row_count][classes]; row 0 is all zeros */
    uint32_t row_count;
    uint32_t *places; /* [features + 1]: each feature's row, then the biases'; 0 for a feature without a row */
};

/* Reads and checks a whole file. Returns 0 and a model that mlr_model_close frees; or, with nothing to free,
 * AML_EINPUT, AML_EFAIL (reading failed) or AML_ENOMEM. */
int mlr_model_load(const char *path, struct mlr_model *model, struct error *error);
void mlr_model_close(struct mlr_model *model);

/* A sample's probabilities, and memory to compute them. Must be zeroed at first; each thread needs its own. */
struct mlr_prediction {
    float *probabilities; /* [classes] */
    uint32_t best;        /* the most likely class */
    uint32_t *places;     /* [capacity] */
    float *values;        /* [capacity] */
    uint32_t capacity;
};
void mlr_model_predict(const struct mlr_model *model, const struct sample *sample, struct mlr_prediction *prediction);
void mlr_prediction_close(struct mlr_prediction *prediction);

#endif
