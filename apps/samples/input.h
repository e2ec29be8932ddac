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
#include "apps/nn/device.h"
#include "apps/samples/model.h"
#include "apps/samples/samples.h"
#include "apps/samples/scale.h"
#include "apps/samples/shift.h"
#include "apps/samples/statistics.h"

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

/* How Criteo lines are hashed: --hash-bits and --cross. */
struct samples_hashing {
    bool taken; /* set by the app: it takes such lines */
    int64_t bits;
    const char *crosses;
};

/* Where the app computes. */
struct samples_device {
    const char *name; /* the value of the app's --device */
    enum nn_device choice;
};

/* The context of an app begins with it (aml_app.context), zeroed but for what the app sets, and then set by
 * samples_input_options. */
struct samples_input {
    const struct learner *learner; /* set by an app that uses learner_main */
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
    struct samples_hashing hashing;
    struct samples_device device;
    /* Partly set by the options, completed by `configure`. */
    struct samples_file file;
    struct scale scale;
    /* Set by `configure`. */
    struct input_list data_files, test_files;
    struct samples_survey survey;
    struct statistics statistics;
    bool dense;
    uint64_t seed;
    float *zeros;             /* [features] the scaled values of a sample of zeros; NULL: all are 0 */
    struct image_shape image; /* set with `shift`, or by samples_input_find_image */
    struct aml_transform transforms[4];
};

enum { SAMPLES_OPTIONS = 14 };
#define SAMPLES_FORMATS             "auto, libsvm, text, csv, idx or tar"
#define SAMPLES_FORMATS_WITH_CRITEO "auto, libsvm, text, csv, idx, criteo or tar"

/* Sets the defaults of the options, writes the options of all apps to options[SAMPLES_OPTIONS], and returns the place
 * after them. */
struct aml_option *samples_input_options(struct samples_input *input, struct aml_option *options);

/* Checks the files of the options and lists them; the app has checked its choices before. `model_out`: see
 * app_check_files. In `configure`. */
int samples_input_check(aml_worker *worker, struct samples_input *input, const char *model_out);
/* Checks that there are samples, and sets what options give by a name: the format, the scaling and the device. In
 * `configure`. */
int samples_input_choices(aml_worker *worker, struct samples_input *input);

/* Whether the samples are images in tar files. Then items are compressed images, from which transforms make dense
 * samples. Call it after samples_input_check. */
static inline bool samples_input_has_images(const struct samples_input *input) {
    return input->file.format == SAMPLES_TAR;
}
/* Reads all samples to make the survey; of Criteo lines only the beginning. In `configure`. */
int samples_input_survey(aml_worker *worker, struct samples_input *input);
/* Makes the processes of the job compare the results of their surveys, and reports the survey in a note. In
 * `configure`. */
void samples_input_mark(aml_worker *worker, const struct samples_input *input);
/* Returns the number of training samples; for Criteo lines an estimate. */
double samples_input_training(const struct samples_input *input);
/* Sets a scale that was chosen by the statistics. Its numbers stay the caller's. */
void samples_input_standardize(aml_worker *worker, struct samples_input *input, const struct scale *scale);

/* Sets `image`, after the survey: for images in tar files to their shape, otherwise by image_width and channels.
 * Returns false when the features don't form such an image. */
bool samples_input_find_image(struct samples_input *input);

/* Declares the transforms that make dense samples, if any: those of images (input_images.h), and --shift. The app has
 * declared its items for dense samples; for images this changes them to varied items. In `configure`. */
int samples_input_declare_transforms(aml_worker *worker, struct samples_input *input, struct aml_app *app);

/* Emits all samples as items: aml_app.read. */
int samples_input_read(aml_worker *worker, void *input);

/* Returns what a model's file has of the input; it points to the input's numbers. After `configure`. */
struct samples_model samples_input_model(const struct samples_input *input);

void samples_input_close(struct samples_input *input);

#endif
