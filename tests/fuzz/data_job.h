/* The apps of data_fuzz.c, pieces_fuzz.c and their corpora: items with rows, items without rows, varied items, and
 * varied items for transforms. */
#ifndef TESTS_FUZZ_DATA_JOB_H
#define TESTS_FUZZ_DATA_JOB_H

#include "workers/data/data.h"

enum { DATA_JOB_SHARD = 1, DATA_JOB_SHARDS = 2, DATA_JOB_TABLES = 2, DATA_JOB_KINDS = 4 };
enum { DATA_JOB_RATINGS, DATA_JOB_SAMPLES, DATA_JOB_DOCUMENTS, DATA_JOB_IMAGES };

static inline void data_job_open(struct data *data, unsigned kind) {
    static const struct aml_transform transforms[] = {{.name = "decode", .bytes = 4}, {.name = NULL}};
    static const struct aml_app apps[DATA_JOB_KINDS] = {
        [DATA_JOB_RATINGS] = {.table_count = DATA_JOB_TABLES, .item_rows = 2, .item_tables = {0, 1}, .item_bytes = 4},
        [DATA_JOB_SAMPLES] = {.table_count = DATA_JOB_TABLES, .item_bytes = 12},
        [DATA_JOB_DOCUMENTS] = {.table_count = DATA_JOB_TABLES, .item_varied = 1},
        [DATA_JOB_IMAGES] = {.table_count = DATA_JOB_TABLES, .item_varied = 1, .transforms = transforms},
    };
    data_open(data, &apps[kind], DATA_JOB_SHARDS, 0);
}

#endif
