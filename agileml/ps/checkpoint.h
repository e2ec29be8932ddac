/* A partition's file in a checkpoint, FOLDER/partition-N. It has the state, at one clock, of all rows that were ever
 * changed. All other rows have their start values. Numbers are little-endian:
 *
 *   struct checkpoint_head
 *   struct checkpoint_table, one per table of the job
 *   blocks of rows, table by table: CRC-32, keys (uint64_t each), values (packed rows)
 *
 * A block has checkpoint_block_rows rows; the last block of a table has the remaining rows. Its CRC-32 starts from
 * checkpoint_block_seed, which detects a block from another place or another file. The functions block. */
#ifndef AGILEML_PS_CHECKPOINT_H
#define AGILEML_PS_CHECKPOINT_H

#include "agileml/ps/partition.h"

enum {
    CHECKPOINT_VERSION = 1,
    CHECKPOINT_BLOCK_BYTES = 1 << 20, /* most bytes of a block's keys and values; a larger row has a block of its own */
};

#define CHECKPOINT_MAGIC "AGMLPART" /* 8 bytes, without a final 0 */

struct checkpoint_head {
    char magic[8];
    uint32_t version;
    uint32_t checksum; /* CRC-32 of the rest of the head and of the tables after it */
    uint32_t partition, partitions;
    uint64_t clock;
    uint32_t table_count;
    uint32_t zero;
};

struct checkpoint_table {
    char name[WIRE_NAME_MAX];
    uint32_t type, mode, width, zero;
    uint64_t rows;  /* of the whole table; 0: sparse */
    uint64_t count; /* rows in this file */
};

static inline uint64_t checkpoint_block_rows(uint32_t row_bytes) {
    uint64_t rows = CHECKPOINT_BLOCK_BYTES / (sizeof(uint64_t) + row_bytes);
    return rows > 0 ? rows : 1;
}

/* Returns the start value of a block's CRC-32. `block` counts from 1, over all tables. */
static inline uint32_t checkpoint_block_seed(const struct checkpoint_head *head, uint32_t block) {
    return head->checksum + block;
}

/* Writes the partition's file; either the complete file appears or none. The rows must be those of `clock` and must not
 * change meanwhile. Fills `written`, except its number, with the result or the error. Returns 0 or the error's code.
 * May run in any thread. */
int checkpoint_write(struct partition *partition, uint64_t clock, const char *directory,
                     struct message_written *written);

/* Fills a newly opened partition from its file. Returns AML_EINPUT unless the file is exactly what checkpoint_write
 * wrote for this partition of this job at `clock`. After an error the partition can only be closed. */
int checkpoint_read(struct partition *partition, const char *directory, uint64_t clock, struct error *error);

#endif
