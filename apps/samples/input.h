/* Labelled samples as the input of an app: what its options name, the survey of them before the job, reading them into
 * items, and images that are shifted at random. The files' formats are in samples.h.
 *
 * An item of a dense sample is its features, as float, and the label's number, as uint32_t. An item of a sparse sample
 * names the rows of its features in table 0, then the row `features`, and carries the label's number, then the
 * features' values; the label alone when all values are 1. */
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
    /* Totals of the input: the sums of the squares of all scaled values, and of the labels' numbers. */
    SAMPLES_TOTAL_SQUARES = 0,
    SAMPLES_TOTAL_LABELS = 1
};

/* Zeros before, and index_base -1, names "auto" and missing_name "refuse". */
struct samples_input {
    /* Values of options. */
    struct aml_strings data, test;
    const char *test_labels;
    const char *format_name, *scale_name, *missing_name;
    int64_t index_base; /* -1: what the file has */
    double test_fraction;
    bool numbered;              /* libsvm: features are numbered, where their indexes are far apart */
    bool with_statistics;       /* the survey makes `statistics`, of samples that are neither images nor Criteo lines */
    bool sums_alone;            /* these have sums of features alone, no drawn samples */
    bool shift_scaled;          /* the app decides what --scale auto is with --shift, too */
    int64_t shift, image_width; /* in pixels; image_width 0: images are square */
    int64_t channels;           /* of a pixel; 0: 1, or as the first image of a tar file has */
    const char *image_size;     /* of images in tar files; NULL: the first one's */
    /* Begun by the options, completed by `configure`. */
    struct samples_file file;
    struct scale scale;
    /* Set by `configure`. */
    struct input_list data_files, test_files;
    struct samples_survey survey;
    struct statistics statistics;
    bool dense;
    uint64_t seed;          /* set before the survey */
    const float *zeros;     /* the app's: [features] the scaled values of a sample of zeros; NULL: all are 0 */
    struct mlr_image image; /* with `shift`, or after samples_input_find_image */
    struct aml_stage stages[4];
};

/* The app's functions that run as stages: each calls samples_input_NAME with the app's samples_input. */
struct samples_runs {
    int (*decode)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
    int (*shift)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
    int (*scale)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
};

/* Checks the files of the options and lists them; the app has checked its choices. `model_out`: as for
 * app_check_files. In `configure`. */
int samples_input_check(aml_worker *worker, struct samples_input *input, const char *model_out);
/* Sets the format and how values are scaled, by their names. */
int samples_input_choices(struct samples_input *input, struct error *error);

/* Whether the samples are images in tar files: items are compressed images, of which stages make dense samples. After
 * samples_input_check. */
static inline bool samples_input_has_images(const struct samples_input *input) {
    return input->file.format == SAMPLES_TAR;
}
/* Reads all samples, which are not Criteo lines, to make the survey. In `configure`. */
int samples_input_survey(aml_worker *worker, struct samples_input *input);
/* Has the processes of the job compare what their surveys have found, and says it in a note. In `configure`. */
void samples_input_mark(aml_worker *worker, const struct samples_input *input);

/* Sets `image`, after the survey: of images in tar files their shape, else by image_width and channels. Returns false
 * when the features are no such image. */
bool samples_input_find_image(struct samples_input *input);

/* Declares the stages that make dense samples, as far as there are any: those of images (input_images.h), and --shift.
 * The app has set its items for dense samples; images change them to varied ones. In `configure`. */
int samples_input_declare_stages(aml_worker *worker, struct samples_input *input, struct aml_app *app,
                                 const struct samples_runs *runs);
int samples_input_decode(aml_worker *worker, const struct samples_input *input, const void *in, void *out);
void samples_input_shift(const struct samples_input *input, uint64_t random, const void *in, void *out);
void samples_input_scale(const struct samples_input *input, const void *in, void *out);

/* Emits all samples as items. For `read`. */
int samples_input_read(aml_worker *worker, const struct samples_input *input);

void samples_input_close(struct samples_input *input);

#endif
