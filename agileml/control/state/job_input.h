/* The fingerprint of a job's input: of each data shard, what the first node that knew the shard reported. The
 * fingerprints of all other nodes, and of jobs that resume from the job's checkpoints, are compared with it. Opens no
 * files: knows only their names, sizes and samples. */
#ifndef AGILEML_CONTROL_JOB_INPUT_H
#define AGILEML_CONTROL_JOB_INPUT_H

#include "agileml/wire/message.h"

#include <stdbool.h>

enum { JOB_INPUT_READER_MAX = WIRE_NAME_MAX + WIRE_HOST_MAX + 8, JOB_INPUT_FILE_TEXT_MAX = 160 };

struct job_input {
    char reader[JOB_INPUT_READER_MAX]; /* "NAME (HOST)" of the first node that reported */
    bool of_checkpoint;                /* the reader was a node of the job whose checkpoint is resumed */
    struct buffer *shards;             /* struct wire_input_shard, one for each data shard; NULL: not known yet */
    struct wire_input_shard own;       /* what the app's `read` emits; items WIRE_ITEMS_UNKNOWN: not known */
    struct buffer *files;              /* struct wire_input_file */
    /* The files with their samples, as reported by the first node of this job that read any file, and that node. NULL:
     * no node has read files. */
    struct buffer *samples;
    char sampler[JOB_INPUT_READER_MAX];
};

/* A zeroed input may be closed. */
void job_input_close(struct job_input *input);

/* Returns the number of items of all shards that are known. */
uint64_t job_input_items(const struct job_input *input);

/* Whether the two are equal in all that both know: shards, what `read` emits, files that the library has read. */
bool job_input_equal(const struct job_input *one, const struct job_input *other);
/* Whether files that both have sampled differ in size or in samples. */
bool job_input_samples_differ(const struct job_input *one, const struct job_input *other);
/* Adds to `input` a copy of what only `found` knows. Returns true if anything was added. */
bool job_input_add(struct job_input *input, const struct job_input *found);
/* Whether all shards are known. */
bool job_input_is_complete(const struct job_input *input);

/* Writes one line about the difference: readers, files and their sizes, items, how many shards differ. Both inputs have
 * the same number of shards. */
void job_input_describe(const struct job_input *expected, const struct job_input *found, char *text, size_t size);
/* Writes " from FILE (N bytes)" for a record of `files` (struct wire_input_file); nothing when there is no such record.
 * */
void job_input_describe_file(const struct buffer *files, size_t number, char text[JOB_INPUT_FILE_TEXT_MAX]);

#endif
