/* See job_input.h. */
#include "agileml/control/state/job_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_SHOWN_MAX = 72 };

void job_input_close(struct job_input *input) {
    buffer_drop(input->shards);
    buffer_drop(input->files);
    buffer_drop(input->samples);
    *input = (struct job_input){0};
}

static const struct wire_input_shard *input_shards(const struct job_input *input, size_t *count) {
    *count = input->shards->size / sizeof(struct wire_input_shard);
    return (const void *)input->shards->data;
}

static const struct wire_input_file *files_of(const struct buffer *files, size_t *count) {
    *count = files != NULL ? files->size / sizeof(struct wire_input_file) : 0;
    return files != NULL ? (const void *)files->data : NULL;
}

static bool is_known(struct wire_input_shard shard) {
    return shard.items != WIRE_ITEMS_UNKNOWN;
}

uint64_t job_input_items(const struct job_input *input) {
    size_t count;
    const struct wire_input_shard *shards = input_shards(input, &count);
    uint64_t items = 0;
    for (size_t s = 0; s < count; s++) {
        items += is_known(shards[s]) ? shards[s].items : 0;
    }
    return items;
}

static bool shards_differ(struct wire_input_shard left, struct wire_input_shard right) {
    return is_known(left) && is_known(right) && (left.items != right.items || left.hash != right.hash);
}

static size_t shards_that_differ(const struct job_input *one, const struct job_input *other, size_t *count) {
    const struct wire_input_shard *left = input_shards(one, count);
    const struct wire_input_shard *right = input_shards(other, count);
    size_t differ = 0;
    for (size_t s = 0; s < *count; s++) {
        differ += shards_differ(left[s], right[s]);
    }
    return differ;
}

/* Whether both inputs have samples of the file, and these differ. */
static bool samples_differ(const struct wire_input_file *left, const struct wire_input_file *right) {
    bool both = left->blocks != 0 && right->blocks != 0;
    return both && (left->bytes != right->bytes || left->blocks != right->blocks ||
                    (left->borders != 0 && right->borders != 0 && left->borders != right->borders));
}

/* Returns the number of the first file whose samples differ; SIZE_MAX: none. */
static size_t file_that_differs(const struct job_input *one, const struct job_input *other) {
    size_t left_count;
    size_t right_count;
    const struct wire_input_file *left = files_of(one->samples, &left_count);
    const struct wire_input_file *right = files_of(other->samples, &right_count);
    for (size_t f = 0; f < left_count && f < right_count; f++) {
        if (samples_differ(&left[f], &right[f])) {
            return f;
        }
    }
    return SIZE_MAX;
}

bool job_input_samples_differ(const struct job_input *one, const struct job_input *other) {
    return file_that_differs(one, other) != SIZE_MAX;
}

bool job_input_equal(const struct job_input *one, const struct job_input *other) {
    size_t count;
    return one->shards->size == other->shards->size && shards_that_differ(one, other, &count) == 0 &&
           !shards_differ(one->own, other->own) && !job_input_samples_differ(one, other);
}

/* Adds a copy of the samples; if there are samples already, only those around borders that are missing. */
static bool samples_add(struct job_input *input, const struct job_input *found) {
    if (input->samples == NULL) {
        input->samples = buffer_copy(found->samples->data, found->samples->size);
        memcpy(input->sampler, found->reader, sizeof input->sampler);
        return true;
    }
    struct wire_input_file *files = (void *)input->samples->data;
    size_t count;
    const struct wire_input_file *others = files_of(found->samples, &count);
    bool more = false;
    for (size_t f = 0; f < count && f < input->samples->size / sizeof *files; f++) {
        bool news = files[f].borders == 0 && others[f].borders != 0 && files[f].blocks == others[f].blocks;
        files[f].borders = news ? others[f].borders : files[f].borders;
        more = more || news;
    }
    return more;
}

bool job_input_add(struct job_input *input, const struct job_input *found) {
    bool first = input->shards == NULL;
    bool more = first;
    if (first) {
        *input = *found;
        input->shards = buffer_copy(found->shards->data, found->shards->size);
        input->files = buffer_hold(found->files);
        input->samples = NULL;
    }
    more = samples_add(input, found) || more;
    struct wire_input_shard *shards = (void *)input->shards->data;
    size_t count;
    const struct wire_input_shard *others = input_shards(found, &count);
    for (size_t s = 0; s < count; s++) {
        more = more || (!is_known(shards[s]) && is_known(others[s]));
        shards[s] = is_known(shards[s]) ? shards[s] : others[s];
    }
    more = more || (!is_known(input->own) && is_known(found->own));
    input->own = is_known(input->own) ? input->own : found->own;
    return more;
}

bool job_input_is_complete(const struct job_input *input) {
    size_t count;
    const struct wire_input_shard *shards = input_shards(input, &count);
    for (size_t s = 0; s < count; s++) {
        if (!is_known(shards[s])) {
            return false;
        }
    }
    return true;
}

/* Returns the number of the file to name in a message: in the order of reading, the first file whose sizes differ or
 * that only one input has; else 0. */
static size_t file_to_show(const struct job_input *one, const struct job_input *other) {
    size_t left_count;
    size_t right_count;
    const struct wire_input_file *left = files_of(one->files, &left_count);
    const struct wire_input_file *right = files_of(other->files, &right_count);
    size_t f = 0;
    while (f < left_count && f < right_count && left[f].bytes == right[f].bytes) {
        f++;
    }
    return f < left_count || f < right_count ? f : 0;
}

void job_input_describe_file(const struct buffer *list, size_t number, char text[JOB_INPUT_FILE_TEXT_MAX]) {
    size_t count;
    const struct wire_input_file *files = files_of(list, &count);
    text[0] = '\0';
    if (number >= count) {
        return;
    }
    const char *path = files[number].path;
    size_t length = strlen(path);
    bool cut = length > PATH_SHOWN_MAX;
    snprintf(text, JOB_INPUT_FILE_TEXT_MAX, " from %s%.*s (%" PRIu64 " bytes)", cut ? "..." : "", PATH_SHOWN_MAX,
             cut ? path + length - PATH_SHOWN_MAX : path, files[number].bytes);
}

/* Describes a file whose samples differ. */
static void describe_samples(const struct job_input *expected, const struct job_input *found, size_t file, char *text,
                             size_t size) {
    char from[2][JOB_INPUT_FILE_TEXT_MAX];
    job_input_describe_file(expected->samples, file, from[0]);
    job_input_describe_file(found->samples, file, from[1]);
    snprintf(text, size, "the input differs: %s reads%s, %s%s; their bytes differ where they were compared",
             expected->sampler, from[0], found->reader, from[1]);
}

void job_input_describe(const struct job_input *expected, const struct job_input *found, char *text, size_t size) {
    char from[2][JOB_INPUT_FILE_TEXT_MAX];
    size_t count;
    size_t differ = shards_that_differ(expected, found, &count);
    size_t file = file_to_show(expected, found);
    size_t sampled = file_that_differs(expected, found);
    if (differ == 0 && sampled != SIZE_MAX) {
        describe_samples(expected, found, sampled, text, size);
        return;
    }
    bool same_reader = !expected->of_checkpoint && strcmp(expected->reader, found->reader) == 0;
    const char *of = expected->of_checkpoint ? "the checkpoint's " : "";
    const char *other = same_reader ? "then" : found->reader;
    job_input_describe_file(expected->files, file, from[0]);
    job_input_describe_file(found->files, file, from[1]);
    if (differ == 0) {
        snprintf(text, size,
                 "the input differs: %s%s emitted %" PRIu64 " items in 'read' itself%s, %s %" PRIu64 " items%s", of,
                 expected->reader, expected->own.items, from[0], other, found->own.items, from[1]);
        return;
    }
    snprintf(text, size,
             "the input differs: %s%s read %" PRIu64 " items%s, %s %" PRIu64 " items%s; %zu of %zu data shards differ",
             of, expected->reader, job_input_items(expected), from[0], other, job_input_items(found), from[1], differ,
             count);
}
