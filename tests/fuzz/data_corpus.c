/* Writes the seeds of data_fuzz: a packed shard of each kind of items. */
#include "tests/fuzz/data_seeds.h"

int main(int argc, char **argv) {
    static const uint32_t shard = DATA_JOB_SHARD;
    if (argc != 2) {
        fprintf(stderr, "usage: data_corpus FOLDER\n");
        return 2;
    }
    bool written = true;
    for (unsigned kind = 0; kind < DATA_JOB_KINDS; kind++) {
        struct data data;
        data_job_open(&data, kind);
        data_pin(&data, &shard, 1);
        data_read_begin(&data);
        struct data_chunk *chunk = data_chunk_open(&data, 0, 0);
        data_seeds_emit(&data, chunk, kind);
        data_read_end(&data, true);
        written = data_seeds_write(argv[1], kind, data_pack(&data, shard, NULL)) && written;
        data_close(&data);
    }
    return written ? 0 : 1;
}
