/* See input_images.h. */
#include "apps/samples/input_images.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_input.h"
#include "apps/samples/images.h"
#include "apps/samples/tar.h"
#include "workers/data/crash.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_IMAGES = 512, /* images that are decoded together while files are read */
    BATCH_BYTES = 4 << 20,
    THREADS_MAX = 64
};

/* The beginning of an item, before the image. */
struct head {
    uint32_t label;
    uint32_t file, number; /* number of the file among --data's and then --test's; image in the file, for messages */
};

/* ---- Survey ---- */

/* Parses WIDTHxHEIGHT. */
static bool take_size(const char *text, struct image_shape *shape) {
    unsigned width = 0;
    unsigned height = 0;
    int end = 0;
    bool taken = text[0] >= '0' && text[0] <= '9' && sscanf(text, "%6ux%6u%n", &width, &height, &end) == 2 &&
                 text[end] == '\0' && strpbrk(text, " +-") == NULL;
    shape->width = width;
    shape->height = height;
    return taken && width > 0 && height > 0 && width <= IMAGE_SIDE_MAX && height <= IMAGE_SIDE_MAX;
}

static int check_images(aml_worker *worker, struct samples_input *input) {
    struct image_shape *shape = &input->file.images.shape;
    *shape = (struct image_shape){.channels = (uint32_t)input->channels};
    if (input->image_size != NULL && !take_size(input->image_size, shape)) {
        return aml_error(worker, AML_EINPUT, "--image-size: expected WIDTHxHEIGHT such as 64x48, got '%s'",
                         input->image_size);
    }
    if (input->channels != 0 && input->channels != 1 && input->channels != 3) {
        return aml_error(worker, AML_EINPUT, "--channels: expected 1 for grey or 3 for colour, got %lld",
                         (long long)input->channels);
    }
    if (input->file.labels_path != NULL || input->test_labels != NULL) {
        return aml_error(worker, AML_EINPUT, "--%s: expected idx data, %s is a tar file, which has its labels itself",
                         input->file.labels_path != NULL ? "labels" : "test-labels", input->file.path);
    }
    if (input->image_width > 0) {
        return aml_error(worker, AML_EINPUT, "--image-width: of images in tar files see --image-size");
    }
    if (input->scale.kind == SCALE_MAX || input->scale.kind == SCALE_STANDARD) {
        return aml_error(worker, AML_EINPUT, "--scale: expected byte, unit or none for images, got '%s'",
                         input->scale_name);
    }
    return 0;
}

int input_images_survey(aml_worker *worker, struct samples_input *input) {
    struct images_form *form = &input->file.images;
    struct error error = {0};
    int result = check_images(worker, input);
    if (result != 0) {
        return result;
    }
    result = images_survey(&input->file, form, &input->survey, &error);
    if (result != 0) {
        return app_result(worker, result, &error);
    }
    return image_values(&form->shape) <= SAMPLES_DENSE_MAX
               ? 0
               : aml_error(worker, AML_EINPUT,
                           "%s: images of %u x %u pixels with %u channels: expected at most %d values in all, see "
                           "--image-size and --channels",
                           input->file.path, form->shape.width, form->shape.height, form->shape.channels,
                           SAMPLES_DENSE_MAX);
}

/* ---- Transforms ---- */

static size_t label_at(const struct samples_input *input) {
    return (image_values(&input->file.images.shape) + 3) / 4 * 4;
}

size_t input_images_bytes(const struct samples_input *input) {
    return label_at(input) + sizeof(uint32_t);
}

static const char *path_of(const struct samples_input *input, uint32_t file) {
    size_t data = input->data_files.count;
    const struct input_list *list = file < data ? &input->data_files : &input->test_files;
    file -= file < data ? 0 : (uint32_t)data;
    return file < list->count ? text_input_name(list->names[file].path) : "an image";
}

static int decode(const struct samples_input *input, const unsigned char *item, size_t size, unsigned char *out,
                  struct error *error) {
    struct head head;
    memcpy(&head, item, sizeof head);
    memcpy(out + label_at(input), &head.label, sizeof head.label);
    memset(out + label_at(input) - 3, 0, 3); /* the padding after the pixels */
    return image_decode(item + sizeof head, size - sizeof head, &input->file.images.shape, out, error);
}

int input_images_decode(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    const struct samples_input *input = context;
    const struct aml_item *item = in;
    const unsigned char *bytes = aml_item_bytes(item);
    struct head head;
    struct error error = {0};
    (void)random;
    if (item->size < sizeof head) {
        return aml_error(worker, AML_EINPUT, "an image's item has %u bytes: expected %zu and more", item->size,
                         sizeof head);
    }
    int result = decode(input, bytes, item->size, out, &error);
    memcpy(&head, bytes, sizeof head);
    return result == 0 ? 0
                       : aml_error(worker, result, "%s: image %llu: %s", path_of(input, head.file),
                                   (unsigned long long)head.number + 1, error.text);
}

static void scale_image(const struct samples_input *input, const void *in, void *out) {
    uint32_t features = input->survey.features;
    const unsigned char *pixels = in;
    float *values = out;
    scale_pixels(&input->scale, pixels, values);
    memcpy(values + features, pixels + label_at(input), sizeof(uint32_t));
}

int input_images_scale(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {
    (void)worker;
    (void)random;
    scale_image(context, in, out);
    return 0;
}

/* ---- Reading ---- */

/* An image that has been read, but not yet decoded and emitted. */
struct waiting {
    size_t at, size; /* place and size of its item in the batch's bytes */
    uint64_t number, place;
    char name[IMAGES_NAME_MAX]; /* name of its entry */
    int result;
    struct error error;
    double squares;
};

/* Images of one file. */
struct batch {
    aml_worker *worker;
    const struct samples_input *input;
    const char *path;
    enum aml_item_use use;
    uint32_t file;   /* see struct head */
    uint64_t before; /* images in earlier files */
    uint64_t read;   /* images of this file so far */
    unsigned char *items;
    size_t size, room;
    struct waiting *images; /* [BATCH_IMAGES] */
    size_t count;
    unsigned threads;
};

/* A thread's share: every `threads`-th image of the batch. */
struct share {
    struct batch *batch;
    unsigned first;
    pthread_t thread;
};

static double sum_squares(const float *values, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (double)values[i] * (double)values[i];
    }
    return squares;
}

static void check_share(const struct share *share) {
    const struct batch *batch = share->batch;
    const struct samples_input *input = batch->input;
    size_t features = input->survey.features;
    unsigned char *pixels = memory_resized(NULL, input_images_bytes(input), 1);
    float *values = memory_resized(NULL, features + 1, sizeof *values);
    for (size_t i = share->first; i < batch->count; i += batch->threads) {
        struct waiting *image = &batch->images[i];
        image->result = decode(input, batch->items + image->at, image->size, pixels, &image->error);
        if (image->result == 0) {
            scale_image(input, pixels, values);
            image->squares = sum_squares(values, features);
        }
    }
    free(pixels);
    free(values);
}

static void *share_main(void *context) {
    crash_thread_begin();
    check_share(context);
    crash_thread_end();
    return NULL;
}

/* Decodes all images of the batch. If a thread can't be started, this thread does its share. */
static void check_all(struct batch *batch) {
    struct share shares[THREADS_MAX];
    bool started[THREADS_MAX] = {false};
    for (unsigned t = 0; t < batch->threads; t++) {
        shares[t] = (struct share){.batch = batch, .first = t};
        started[t] = t > 0 && pthread_create(&shares[t].thread, NULL, share_main, &shares[t]) == 0;
    }
    for (unsigned t = 0; t < batch->threads; t++) {
        if (!started[t]) {
            check_share(&shares[t]);
        }
    }
    for (unsigned t = 1; t < batch->threads; t++) {
        if (started[t]) {
            pthread_join(shares[t].thread, NULL);
        }
    }
}

static int emit_image(struct batch *batch, const struct waiting *image) {
    const struct samples_input *input = batch->input;
    enum aml_item_use use =
        app_held_out(aml_mix(input->seed, image->place), input->test_fraction) ? AML_TEST : batch->use;
    if (image->result != 0) {
        return aml_error(batch->worker, image->result, "%s: %s: %s", text_input_name(batch->path),
                         tar_shown(image->name), image->error.text);
    }
    int kept = aml_emit_varied(batch->worker, use, image->number, NULL, 0, batch->items + image->at, image->size);
    if (kept == 1 && use == AML_TRAIN) {
        aml_total_add(batch->worker, SAMPLES_TOTAL_SQUARES, image->squares);
    }
    return kept < 0 ? kept : 0;
}

/* Decodes and emits the images of the batch. */
static int batch_end(struct batch *batch) {
    int result = 0;
    check_all(batch);
    for (size_t i = 0; i < batch->count && result == 0; i++) {
        result = emit_image(batch, &batch->images[i]);
    }
    batch->count = batch->size = 0;
    return result;
}

/* Adds an image to the batch. */
static int take_image(void *context, const struct images_entry *entry, struct error *error) {
    struct batch *batch = context;
    const struct samples_input *input = batch->input;
    int64_t label = labels_find(&input->survey.labels, &entry->label);
    if (label == INDEX_NONE) {
        return error_set(error, AML_EINPUT, "expected a label that occurs in the training data, got '%s'",
                         entry->label.text);
    }
    const struct head head = {.label = (uint32_t)label, .file = batch->file, .number = (uint32_t)entry->number};
    struct waiting *image = &batch->images[batch->count++];
    batch->read++;
    image->at = batch->size;
    image->size = sizeof head + entry->size;
    image->place = batch->before + entry->number;
    image->number = batch->use == AML_TRAIN ? image->place : hash_pair(batch->file, entry->number);
    image->error = (struct error){0};
    memcpy(image->name, entry->name, strlen(entry->name) + 1);
    if (batch->size + image->size > batch->room) {
        batch->room = batch->size + image->size + BATCH_BYTES;
        batch->items = memory_resized(batch->items, batch->room, 1);
    }
    memcpy(batch->items + batch->size, &head, sizeof head);
    memcpy(batch->items + batch->size + sizeof head, entry->bytes, entry->size);
    batch->size += image->size;
    return batch->count == BATCH_IMAGES || batch->size >= BATCH_BYTES ? batch_end(batch) : 0;
}

struct image_files {
    const struct samples_input *input;
    enum aml_item_use use;
};

static int refuse_changed(aml_worker *worker, const char *path) {
    return aml_error(worker, AML_EINPUT, "%s: the file has changed since this process began", text_input_name(path));
}

/* Checks that the file had as many images as in the survey, as the numbers of the next file's images continue from
 * there. */
static int check_count(const struct batch *batch, const struct samples_chunk *chunk) {
    const struct samples_places *places = &batch->input->survey.places;
    uint64_t end = chunk + 1 < places->chunks + places->count ? chunk[1].number : places->end;
    return chunk->number + batch->read == end ? 0 : refuse_changed(batch->worker, batch->path);
}

static int read_file(aml_worker *worker, const struct aml_file *file, void *context) {
    const struct image_files *files = context;
    const struct samples_input *input = files->input;
    const struct samples_chunk *chunk =
        files->use == AML_TRAIN ? samples_find_chunk(&input->survey.places, file->file, 0, 0) : NULL;
    struct error error = {0};
    if (files->use == AML_TRAIN && chunk == NULL) {
        return refuse_changed(worker, file->path);
    }
    struct batch batch = {.worker = worker,
                          .input = input,
                          .path = file->path,
                          .use = files->use,
                          .file = file->file,
                          .before = chunk != NULL ? chunk->number : 0,
                          .threads = file->threads < THREADS_MAX ? file->threads : THREADS_MAX};
    batch.images = memory_zeroed(BATCH_IMAGES, sizeof *batch.images);
    int result = app_result(
        worker, images_read(file->path, input->file.images.labels, false, take_image, &batch, &error), &error);
    result = result == 0 ? batch_end(&batch) : result;
    result = result == 0 && chunk != NULL ? check_count(&batch, chunk) : result;
    free(batch.images);
    free(batch.items);
    return result;
}

int input_images_read(aml_worker *worker, const struct samples_input *input, const struct input_list *files,
                      enum aml_item_use use) {
    struct image_files context = {.input = input, .use = use};
    int result = 0;
    for (size_t f = 0; f < files->count && result == 0; f++) {
        result = aml_read_files(worker, files->names[f].path, read_file, &context);
    }
    return result;
}
