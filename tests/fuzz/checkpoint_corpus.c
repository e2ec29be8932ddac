/* Writes the seeds of checkpoint_fuzz into the folder that is its only argument: partitions with no, few and all rows,
 * with right checksums and with checksums for the target to correct. No seed is stored in the repository. */
#include "tests/fuzz/checkpoint_job.h"
#include "tests/fuzz/corpus.h"

#include <stdlib.h>
#include <unistd.h>

enum { CORPUS_SEED_MAX = 8192, CORPUS_KEYS = 20, CORPUS_PATH_MAX = 128, CORPUS_VARIANTS = 3 };

/* Changes every row of the partition with a key below `keys`. */
static void change_rows(struct partition *partition, uint64_t keys) {
    for (unsigned t = 0; t < FUZZ_TABLES; t++) {
        struct table *table = &partition->tables[t];
        for (uint64_t key = 0; key < keys; key++) {
            int64_t slot = table_slot(table, key);
            if (slot >= 0) {
                table_row(table, (uint32_t)slot)[0] = (unsigned char)key;
                table_clocks(table)[slot] = FUZZ_CLOCK;
            }
        }
    }
}

/* Writes a partition's file to `seed`. Returns its size, or 0. */
static size_t checkpoint_bytes(uint64_t keys, unsigned char *seed) {
    char folder[CORPUS_PATH_MAX / 2] = "/tmp/checkpoint_corpus.XXXXXX";
    char path[CORPUS_PATH_MAX];
    struct message_written written;
    const struct job job = fuzz_job();
    size_t size = 0;
    struct partition *partition = partition_open(&job, FUZZ_PARTITION, FUZZ_PARTITIONS, NULL);
    if (partition == NULL || mkdtemp(folder) == NULL) {
        return 0;
    }
    change_rows(partition, keys);
    snprintf(path, sizeof path, "%s/partition-%d", folder, FUZZ_PARTITION);
    if (checkpoint_write(partition, FUZZ_CLOCK, folder, &written) == 0) {
        FILE *file = fopen(path, "rb");
        size = file != NULL ? fread(seed, 1, CORPUS_SEED_MAX, file) : 0;
        if (file != NULL) {
            fclose(file);
        }
    }
    partition_close(partition);
    unlink(path);
    rmdir(folder);
    return size;
}

int main(int argc, char **argv) {
    static const uint64_t keys[CORPUS_VARIANTS] = {0, 4, CORPUS_KEYS};
    if (argc != 2) {
        fprintf(stderr, "usage: checkpoint_corpus FOLDER\n");
        return 2;
    }
    for (unsigned i = 0; i < 2 * CORPUS_VARIANTS; i++) {
        unsigned char seed[1 + CORPUS_SEED_MAX] = {(unsigned char)(i % 2)};
        char name[32];
        size_t size = checkpoint_bytes(keys[i / 2], seed + 1);
        snprintf(name, sizeof name, "seed-%02u", i);
        if (size == 0 || !corpus_write(argv[1], name, seed, 1 + size)) {
            fprintf(stderr, "checkpoint_corpus: cannot write seed %u into %s\n", i, argv[1]);
            return 1;
        }
    }
    return 0;
}
