/* Writes the seeds of pieces_fuzz: packed pieces of two shards, of each kind of items. */
#include "tests/fuzz/data_seeds.h"

int main(int argc, char **argv) {
    static const uint32_t shards[] = {0, DATA_JOB_SHARD};
    if (argc != 2) {
        fprintf(stderr, "usage: pieces_corpus FOLDER\n");
        return 2;
    }
    bool written = true;
    for (unsigned kind = 0; kind < DATA_JOB_KINDS; kind++) {
        struct data data;
        data_job_open(&data, kind);
        data_divide(&data, 2, 1);
        data_read_part_begin(&data, 1);
        uint32_t count;
        data_read_file(&data, &count);
        data_stretch_begin(&data);
        struct data_chunk *chunk = data_chunk_open(&data, 0, data_place(1, 0, 0));
        data_seeds_emit(&data, chunk, kind);
        data_read_end(&data, true);
        written = data_seeds_write(argv[1], kind, data_pack_pieces(&data, shards, 2, 1 << 20)) && written;
        data_close(&data);
    }
    return written ? 0 : 1;
}
