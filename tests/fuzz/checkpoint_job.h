/* The job whose partition checkpoint_fuzz reads and checkpoint_corpus writes: one table of each kind. */
#ifndef TESTS_FUZZ_CHECKPOINT_JOB_H
#define TESTS_FUZZ_CHECKPOINT_JOB_H

#include "agileml/ps/checkpoint.h"

enum { FUZZ_PARTITION = 1, FUZZ_PARTITIONS = 3, FUZZ_CLOCK = 7, FUZZ_TABLES = 3 };

static inline struct job fuzz_job(void) {
    struct job job = {.table_count = FUZZ_TABLES,
                      .tables = {{.name = "dense", .type = AML_INT32, .mode = AML_ADD, .width = 1, .rows = 20},
                                 {.name = "sparse", .type = AML_FLOAT32, .mode = AML_ADD, .width = 2},
                                 {.name = "put", .type = AML_INT64, .mode = AML_PUT, .width = 1}}};
    for (unsigned t = 0; t < FUZZ_TABLES; t++) {
        job.tables[t].row_bytes = job.tables[t].width * (uint32_t)aml_type_size(job.tables[t].type);
        job.shapes[t].row_bytes = job.tables[t].row_bytes;
    }
    return job;
}

#endif
