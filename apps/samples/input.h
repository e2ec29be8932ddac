/* Labelled samples as the input of an app: the options that name files, the survey before the job, reading samples
 * into items, and random shifts of images. samples.h describes the formats.
 *
 * An item of a dense sample is its features, as float, and the label's number, as uint32_t. An item of a sparse
 * sample names the rows of its features in table 0, then the row `features`. Its bytes are the label's number and
 * the features' values, or only the label's number when all values are 1. */
#ifndef APPS_SAMPLES_INPUT_H
#define APPS_SAMPLES_INPUT_H

#include "agileml.h"
#include "apps/app.h"
#include "apps/mlr/samples.h"
#include "apps/mlr/scale.h"
#include "apps/mlr/shift.h"
#include "apps/mlr/statistics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SAMPLES_DENSE_MAX = AML_ITEM_BYTES_MAX / (int)sizeof(float) - 1, /* features of a dense sample */
    SAMPLES_INPUT_FILES = 4,
    /* Indexes of totals: the sum of the squares of all scaled values, and the sum of the labels' numbers. */
    SAMPLES_TOTAL_SQUARES = 0,
    SAMPLES_TOTAL_LABELS = 1
};

/* Initially zeros, but index_base -1, the names "auto", and missing_name "refuse". */
struct samples_input {
    /* Values of options. */
    struct aml_strings data, test;
    const char *test_labels;
    const char *format_name, *scale_name, *missing_name;
    int64_t index_base; /* -1: detected from the file */
    double test_fraction;
    bool numbered;              /* libsvm: features are numbered if their indexes are far apart */
    bool with_statistics;       /* the survey makes `statistics`, unless samples are images or Criteo lines */
    bool sums_alone;            /* the statistics have only sums of features, no drawn samples */
    bool shift_scaled;          /* the app chooses what --scale auto means, even with --shift */
    int64_t shift, image_width; /* in pixels; image_width 0: images are square */
    int64_t channels;           /* channels of a pixel; 0: 1, or those of a tar file's first image */
    const char *image_size;     /* size of images in tar files; NULL: the first image's */
    /* Partly set by the options, completed by `configure`. */
    struct samples_file file;
    struct scale scale;
    /* Set by `configure`. */
    struct input_list data_files, test_files;
    struct samples_survey survey;
    struct statistics statistics;
    bool dense;
    uint64_t seed;          /* set before the survey */
    const float *zeros;     /* set by the app: [features] the scaled values of a sample of zeros; NULL: all are 0 */
    struct mlr_image image; /* set with `shift`, or by samples_input_find_image */
    struct aml_stage stages[4];
};

/* The app's functions that run as stages. Each calls samples_input_NAME with the app's samples_input. */
struct samples_runs {
    int (*decode)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
    int (*shift)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
    int (*scale)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
};

/* Checks the files of the options and lists them; the app has checked its choices before. `model_out`: see
 * app_check_files. In `configure`. */
int samples_input_check(aml_worker *worker, struct samples_input *input, const char *model_out);
/* Sets the format and the scaling, by their names. */
int samples_input_choices(struct samples_input *input, struct error *error);

/* Whether the samples are images in tar files. Then items are compressed images, from which stages make dense
 * samples. Call it after samples_input_check. */
static inline bool samples_input_has_images(const struct samples_input *input) {
    return input->file.format == SAMPLES_TAR;
}
/* Reads all samples to make the survey. Not for Criteo lines. In `configure`. */
int samples_input_survey(aml_worker *worker, struct samples_input *input);
/* Makes the processes of the job compare the results of their surveys, and reports the survey in a note. In
 * `configure`. */
void samples_input_mark(aml_worker *worker, const struct samples_input *input);

/* Sets `image`, after the survey: for images in tar files to their shape, otherwise by image_width and channels.
 * Returns false when the features don't form such an image. */
bool samples_input_find_image(struct samples_input *input);

/* Declares the stages that make dense samples, if any: those of images (input_images.h), and --shift. The app has
 * declared its items for dense samples; for images this changes them to varied items. In `configure`. */
int samples_input_declare_stages(aml_worker *worker, struct samples_input *input, struct aml_app *app,
                                 const struct samples_runs *runs);
int samples_input_decode(aml_worker *worker, const struct samples_input *input, const void *in, void *out);
void samples_input_shift(const struct samples_input *input, uint64_t random, const void *in, void *out);
void samples_input_scale(const struct samples_input *input, const void *in, void *out);

/* Emits all samples as items. For `read`. */
int samples_input_read(aml_worker *worker, const struct samples_input *input);

void samples_input_close(struct samples_input *input);

#endif
