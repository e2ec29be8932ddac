/* What the models of all apps that learn classes have in common, in memory and in their files. The apps' own model.h
 * say where in the files these parts are:
 *
 *     part     bytes     what
 *     labels   56 K      the labels of the K classes in their order (labels.h), each filled up with zeros
 *     scale    4 d       floats: the features' largest absolute values, with SCALE_MAX only; none negative
 *              4         SCALE_STANDARD only: flags: bit 0: there are centres; the others are 0
 *              8 d       SCALE_STANDARD only: doubles: the features' factors (0: the feature is left out)
 *              8 d       with centres only: doubles: the features' centres
 *     names    1 + n     n and the name of the label's column, without a 0
 *              d (1 + n) the same of each feature
 *              4         bytes of the names before this number
 *
 * The names, of at most COLUMN_NAME_MAX bytes each, end the file, so that everything before them equals a file without
 * names. The file's version is then higher by SAMPLES_MODEL_NAMED. One thread at a time. */
#ifndef APPS_SAMPLES_MODEL_H
#define APPS_SAMPLES_MODEL_H

#include "apps/model_file.h"
#include "apps/samples/samples.h"
#include "apps/samples/scale.h"

enum { SAMPLES_MODEL_NAMED = 16 };

struct samples_model {
    struct scale scale; /* includes the number of features; in a loaded model points to the numbers below */
    uint32_t index_base;
    struct numbering numbering; /* unused: features are not numbered */
    struct criteo_hash hash;    /* of Criteo lines; with bits 0: not trained on such lines */
    struct image_shape images;  /* with width 0: samples are not images of tar files */
    struct labels labels;       /* sorted */
    struct column_names names;  /* of the features and the label, by a header; empty: not known */
    float *maxima;
    double *factors, *centres;
};

/* Starts a file; kind->version is that without names. Returns as model_file_begin does. */
int samples_model_begin(struct model_file_writer **file, const char *path, const struct model_file_kind *kind,
                        const struct samples_model *model, struct error *error);
void samples_model_write_labels(struct model_file_writer *file, const struct samples_model *model);
void samples_model_write_scale(struct model_file_writer *file, const struct samples_model *model);
/* Writes the names, and ends the file as model_file_end does. */
int samples_model_end(struct model_file_writer *file, int result, const struct samples_model *model,
                      struct error *error);

/* Loads a file, and takes the names from its end. kind->version is the newest without names. Returns 0, or a code of
 * model_file_load; samples_model_close(model) and free(reader->bytes) must follow. */
int samples_model_load(const char *path, const struct model_file_kind *kind, struct model_file_reader *reader,
                       struct samples_model *model, struct error *error);
/* Take the parts. They return 0 or AML_EINPUT. scale.kind and scale.features must be set. */
int samples_model_take_labels(struct model_file_reader *reader, uint32_t classes, struct samples_model *model);
int samples_model_take_scale(struct model_file_reader *reader, struct samples_model *model);
void samples_model_close(struct samples_model *model);

#endif
