/* The file of a trained factorization, and predictions from it. The writer takes rows in any order and leaves a whole
 * file or none. The reader checks everything.
 *
 * The format, version 2; version 1 is a file without names, and written as such. All numbers are little-endian; "float"
 * is an IEEE 754 binary32.
 *
 *     bytes  what
 *     8      magic: "AMLMFMDL"
 *     4      version: 1 or 2
 *     4      flags: bit 0: rows end with a bias; bit 1 (of version 2): there are names; bit 2: the numbers are of
 *            log(1 + rating); the others are 0
 *     4      rank, 1..MF_RANK_MAX
 *     4      float: the mean of the ratings, or of log(1 + rating), with which a prediction begins
 *     4      float: the lowest of the training data, likewise
 *     4      float: the highest
 *     8      number of user rows
 *     8      number of item rows
 *     then the user rows, then the item rows, each table in any order and each key once:
 *     8      key
 *     4 * w  floats: `rank` factors, then the bias if there are biases (w = rank + biases)
 *     if there are names: the ids that are texts; by workers/data/rating_ids.h each text has its key:
 *     8      number of names of users
 *     8      number of names of items
 *     then the users' names, then the items', each in any order and each key once, of keys that have rows:
 *     8      key
 *     4      bytes of the name, 1..RATING_ID_MAX
 *     n      the name, UTF-8 as in the input
 *     at the end of the file:
 *     4      CRC-32 (zlib's) of all bytes before
 *
 * Every float is finite. The file's size follows from the header and must match. */
#ifndef APPS_MF_MODEL_H
#define APPS_MF_MODEL_H

#include "agileml/base/error.h"
#include "agileml/base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MF_MODEL_VERSION = 2,
    MF_MODEL_ROWS_MAX = 1U << 30 /* rows of one table */
};

enum mf_model_table { MF_MODEL_USERS = 0, MF_MODEL_ITEMS = 1 };

/* Values for all predictions. They are finite, and rating_min <= rating_max. */
struct mf_model_header {
    uint32_t rank; /* 1..MF_RANK_MAX */
    bool biases;
    bool log1p; /* mean, rows and range are for log(1 + rating); predictions are ratings */
    float mean;
    float rating_min, rating_max; /* predictions are clipped to this range */
};

/* Writing, by the rules of model_file.h. */
struct mf_model_writer;
struct mf_names; /* names.h */

/* Starts a file. Returns 0 and a writer, which mf_model_writer_close frees; or a code of model_file_begin. */
int mf_model_writer_open(struct mf_model_writer **writer, const char *path, const struct mf_model_header *header,
                         struct error *error);

/* Adds `count` rows: keys[i] with rank + biases floats at rows + i * stride bytes. Any number of calls is allowed.
 * All users must come before the first item, and each key of a table once. Returns 0, AML_EFAIL (the disk is full,
 * or a value is not finite) or AML_ELIMIT (MF_MODEL_ROWS_MAX). After a failure further calls fail with its code. */
int mf_model_writer_rows(struct mf_model_writer *writer, enum mf_model_table table, const uint64_t *keys,
                         const void *rows, size_t stride, size_t count, struct error *error);

/* Adds the names of rows (names[2], indexed by mf_model_table), after the last row. Names without keys add nothing.
 * Every key must have its text. Returns what mf_model_writer_rows returns. */
int mf_model_writer_names(struct mf_model_writer *writer, const struct mf_names *names, struct error *error);

/* Ends the file and frees the writer, as model_file_end does. */
int mf_model_writer_close(struct mf_model_writer *writer, int result, struct error *error);

/* A loaded model. Read-only; any number of threads may predict. */
struct mf_model {
    struct mf_model_header header;
    unsigned char *bytes;     /* the file */
    struct index_map maps[2]; /* indexed by mf_model_table: key to the row's number in its table */
};

/* Reads and checks a whole file. Returns 0 and a model that mf_model_close frees; or, with nothing to free, AML_EINPUT
 * (one line: path, what is wrong), AML_EFAIL (reading failed) or AML_ENOMEM. */
int mf_model_load(const char *path, struct mf_model *model, struct error *error);
void mf_model_close(struct mf_model *model);

bool mf_model_knows(const struct mf_model *model, enum mf_model_table table, uint64_t key);

/* Returns mean + biases + product of the factors, clipped to the range of ratings. If the user or the item is not in
 * the model, its bias and the product are left out. */
float mf_model_predict(const struct mf_model *model, uint64_t user, uint64_t item);

#endif
