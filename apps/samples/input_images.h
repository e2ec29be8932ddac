/* Images as the input of an app (input.h): what reading emits, and the stages that make dense samples of it. An item
 * carries an image as it is in its file, compressed, so that is what is kept in memory, on disk, and sent.
 *
 *   decode   item -> the pixels, resized, as bytes, and the label
 *   shift    moves the pixels, with --shift
 *   scale    pixels -> the features of a dense sample, and the label */
#ifndef APPS_SAMPLES_INPUT_IMAGES_H
#define APPS_SAMPLES_INPUT_IMAGES_H

#include "apps/samples/input.h"

/* Makes the survey, and chooses the shape of all images by --image-size, --channels and the first image. In
 * `configure`. */
int input_images_survey(aml_worker *worker, struct samples_input *input);

/* The size of what `decode` makes. */
size_t input_images_bytes(const struct samples_input *input);

/* Emits the images of the files. Each is decoded once, in several threads: a damaged one is found before it is trained
 * on, and the totals are of the pixels. */
int input_images_read(aml_worker *worker, const struct samples_input *input, const struct input_list *files,
                      enum aml_item_use use);

#endif
