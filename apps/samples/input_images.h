/* Images as the input of an app (input.h): emits them as items, and has the transforms that make dense samples of
 * items. An item contains the compressed image of the file, so memory, disk and network also hold compressed images.
 *
 *   decode   item -> the pixels, resized, as bytes, and the label
 *   shift    moves the pixels, with --shift
 *   scale    pixels -> the features of a dense sample, and the label */
#ifndef APPS_SAMPLES_INPUT_IMAGES_H
#define APPS_SAMPLES_INPUT_IMAGES_H

#include "apps/samples/input.h"

/* Makes the survey. Chooses the shape of all images by --image-size, --channels and the first image. In `configure`. */
int input_images_survey(aml_worker *worker, struct samples_input *input);

/* The transforms `decode` and `scale`, whose context is the struct samples_input. */
int input_images_decode(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
int input_images_scale(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);

/* Returns the bytes of the output of `decode`. */
size_t input_images_bytes(const struct samples_input *input);

/* Emits the images of the files. Decodes each image once, in several threads, to find damaged images before
 * training, and to compute the totals from the pixels. */
int input_images_read(aml_worker *worker, const struct samples_input *input, const struct input_list *files,
                      enum aml_item_use use);

#endif
