/* The input of a job: the fingerprint that its first node reported. The fingerprints of all other nodes, and of jobs
 * that resume from its checkpoints, are compared with it. Opens no files, knows only their names. */
#ifndef AGILEML_CONTROL_JOB_INPUT_H
#define AGILEML_CONTROL_JOB_INPUT_H

#include "agileml/wire/message.h"

#include <stdbool.h>

enum { JOB_INPUT_READER_MAX = WIRE_NAME_MAX + WIRE_HOST_MAX + 8 };

struct job_input {
    char reader[JOB_INPUT_READER_MAX]; /* "NAME (HOST)" of the node that reported it */
    bool of_checkpoint;                /* the reader was a node of the job whose checkpoint is resumed */
    struct buffer *shards;             /* struct wire_input_shard, one for each data shard; NULL: not known yet */
    struct buffer *files;              /* struct wire_input_file */
};

/* A zeroed input may be closed. */
void job_input_close(struct job_input *input);

/* Returns the number of items of all shards together. */
uint64_t job_input_items(const struct job_input *input);

bool job_input_equal(const struct job_input *one, const struct job_input *other);

/* Writes one line about the difference: readers, files and their sizes, items, how many shards differ. Both inputs have
 * the same number of shards. */
void job_input_describe(const struct job_input *expected, const struct job_input *found, char *text, size_t size);

#endif
