/* Writes the seeds of pieces_fuzz: packed pieces of two shards, of each kind of items. */
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/data_job.h"

#include <stdio.h>
#include <string.h>

enum { ITEMS = 40 };

static void emit(const struct data *data, struct data_chunk *chunk, unsigned kind, uint64_t n) {
    const uint64_t keys[2] = {n % 7, n % 5};
    const float bytes[3] = {(float)n, 1, 2};
    const struct aml_keys runs[2] = {{.table = 0, .count = n % 3, .keys = keys},
                                     {.table = 1, .count = 1, .keys = keys}};
    enum aml_item_use use = n % 4 == 0 ? AML_TEST : AML_TRAIN;
    if (kind == DATA_JOB_DOCUMENTS) {
        data_emit_varied(data, chunk, use, n, runs, 2, bytes, n % sizeof bytes);
    } else {
        data_emit(data, chunk, use, kind == DATA_JOB_RATINGS ? keys : NULL, bytes);
    }
}

int main(int argc, char **argv) {
    static const uint32_t shards[] = {0, DATA_JOB_SHARD};
    if (argc != 2) {
        fprintf(stderr, "usage: pieces_corpus FOLDER\n");
        return 2;
    }
    bool written = true;
    for (unsigned kind = 0; kind < DATA_JOB_KINDS; kind++) {
        struct data data;
        unsigned char seed[1 << 14];
        char name[32];
        data_job_open(&data, kind);
        data_divide(&data, 2, 1);
        data_read_part_begin(&data, 1);
        uint32_t count;
        data_read_file(&data, &count);
        data_stretch_begin(&data);
        struct data_chunk *chunk = data_chunk_open(&data, 0, data_place(1, 0, 0));
        for (uint64_t n = 0; n < ITEMS; n++) {
            emit(&data, chunk, kind, n);
        }
        data_chunk_close(&data, chunk);
        data_read_end(&data, true);
        struct buffer *packed = data_pack_pieces(&data, shards, 2, 1 << 20);
        seed[0] = (unsigned char)kind;
        memcpy(seed + 1, packed->data, packed->size);
        snprintf(name, sizeof name, "kind-%u", kind);
        written = corpus_write(argv[1], name, seed, packed->size + 1) && written;
        seed[0] = (unsigned char)(kind + 129); /* 129 is a multiple of DATA_JOB_KINDS: the hash is mended */
        snprintf(name, sizeof name, "mended-%u", kind);
        written = corpus_write(argv[1], name, seed, packed->size + 1) && written;
        buffer_drop(packed);
        data_close(&data);
    }
    return written ? 0 : 1;
}
