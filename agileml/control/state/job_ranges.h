/* The hashes of the ranges of a divided input (struct wire_input_range), each as the first node has reported it. Nodes
 * that read the same range have the same hash if their copies of the file are equal there. */
#ifndef AGILEML_CONTROL_JOB_RANGES_H
#define AGILEML_CONTROL_JOB_RANGES_H

#include "agileml/base/hash.h"
#include "agileml/control/state/job_input.h"

struct job_range {
    struct wire_input_range range;
    char reader[JOB_INPUT_READER_MAX]; /* "NAME (HOST)" of the node that reported the hash */
};

struct job_ranges {
    struct job_range *at; /* in the order of the reports; at most one for each part, file and kind of hash */
    size_t count, capacity;
    size_t stored; /* so many of the first are in the store */
    struct index_map places;
};

void job_ranges_close(struct job_ranges *ranges); /* a zeroed struct is allowed */

/* What is known of one of the found ranges, and differs from it; *found becomes that range. NULL: none differs. */
const struct job_range *job_ranges_differ(const struct job_ranges *ranges, const struct wire_input_range **found,
                                          size_t count);
/* Adds copies of those of the ranges that are not known. */
void job_ranges_add(struct job_ranges *ranges, const struct wire_input_range *found, size_t count, const char *reader);

/* Writes one line about ranges that differ. `files` are the second reader's (struct wire_input_file). */
void job_ranges_describe(const struct job_range *expected, const struct wire_input_range *found, const char *reader,
                         const struct buffer *files, char *text, size_t size);

#endif
