/* See job_input.h. */
#include "agileml/control/job_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN_MAX = 72, FILE_TEXT_MAX = 160 };

void job_input_close(struct job_input *input) {
    buffer_drop(input->shards);
    buffer_drop(input->files);
    *input = (struct job_input){0};
}

static const struct wire_input_shard *input_shards(const struct job_input *input, size_t *count) {
    *count = input->shards->size / sizeof(struct wire_input_shard);
    return (const void *)input->shards->data;
}

static const struct wire_input_file *input_files(const struct job_input *input, size_t *count) {
    *count = input->files->size / sizeof(struct wire_input_file);
    return (const void *)input->files->data;
}

uint64_t job_input_items(const struct job_input *input) {
    size_t count;
    const struct wire_input_shard *shards = input_shards(input, &count);
    uint64_t items = 0;
    for (size_t s = 0; s < count; s++) {
        items += shards[s].items;
    }
    return items;
}

bool job_input_equal(const struct job_input *one, const struct job_input *other) {
    return one->shards->size == other->shards->size &&
           memcmp(one->shards->data, other->shards->data, one->shards->size) == 0;
}

static size_t shards_that_differ(const struct job_input *one, const struct job_input *other, size_t *count) {
    const struct wire_input_shard *left = input_shards(one, count);
    const struct wire_input_shard *right = input_shards(other, count);
    size_t differ = 0;
    for (size_t s = 0; s < *count; s++) {
        differ += left[s].items != right[s].items || left[s].hash != right[s].hash;
    }
    return differ;
}

/* Returns the number of the file to name in a message: the first, in the order of reading, whose sizes differ or that
 * only one input has; else 0. */
static size_t file_to_show(const struct job_input *one, const struct job_input *other) {
    size_t left_count;
    size_t right_count;
    const struct wire_input_file *left = input_files(one, &left_count);
    const struct wire_input_file *right = input_files(other, &right_count);
    size_t f = 0;
    while (f < left_count && f < right_count && left[f].bytes == right[f].bytes) {
        f++;
    }
    return f < left_count || f < right_count ? f : 0;
}

/* " from FILE (N bytes)"; nothing when no file is known. */
static void describe_file(const struct job_input *input, size_t number, char text[FILE_TEXT_MAX]) {
    size_t count;
    const struct wire_input_file *files = input_files(input, &count);
    text[0] = '\0';
    if (number >= count) {
        return;
    }
    const char *path = files[number].path;
    size_t length = strlen(path);
    bool cut = length > PATH_SHOWN_MAX;
    snprintf(text, FILE_TEXT_MAX, " from %s%.*s (%" PRIu64 " bytes)", cut ? "..." : "", PATH_SHOWN_MAX,
             cut ? path + length - PATH_SHOWN_MAX : path, files[number].bytes);
}

void job_input_describe(const struct job_input *expected, const struct job_input *found, char *text, size_t size) {
    char from[2][FILE_TEXT_MAX];
    size_t count;
    size_t differ = shards_that_differ(expected, found, &count);
    size_t file = file_to_show(expected, found);
    bool same_reader = !expected->of_checkpoint && strcmp(expected->reader, found->reader) == 0;
    describe_file(expected, file, from[0]);
    describe_file(found, file, from[1]);
    snprintf(text, size,
             "the input differs: %s%s read %" PRIu64 " items%s, %s %" PRIu64 " items%s; %zu of %zu data shards differ",
             expected->of_checkpoint ? "the checkpoint's " : "", expected->reader, job_input_items(expected), from[0],
             same_reader ? "then" : found->reader, job_input_items(found), from[1], differ, count);
}
