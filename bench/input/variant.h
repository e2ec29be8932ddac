/* The functions of workers/data/data.h that bench_input compares in two versions. */
#ifndef BENCH_INPUT_VARIANT_H
#define BENCH_INPUT_VARIANT_H

#include "workers/data/data.h"

struct variant {
    void (*open)(struct data *data, const struct aml_app *app, uint32_t shards, size_t budget);
    void (*close)(struct data *data);
    bool (*pin)(struct data *data, const uint32_t *shards, uint32_t count);
    void (*unpin)(struct data *data, const uint32_t *shards, uint32_t count);
    void (*read_begin)(struct data *data);
    void (*read_end)(struct data *data, bool whole);
    struct data_chunk *(*chunk_open)(struct data *data, uint64_t order, uint64_t place);
    void (*chunk_close)(struct data *data, struct data_chunk *chunk);
    int (*emit)(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
                const void *bytes);
    double *(*totals)(const struct data *data, struct data_chunk *chunk);
};

/* The functions that have the names of workers/data/data.h where this macro is used. */
#define VARIANT_HERE                                                                                                   \
    {                                                                                                                  \
        data_open, data_close, data_pin, data_unpin, data_read_begin, data_read_end, data_chunk_open,                  \
            data_chunk_close, data_emit, data_totals                                                                   \
    }

extern const struct variant variant_with, variant_without;

#endif
