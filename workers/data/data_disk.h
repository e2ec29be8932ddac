/* A set on disk: its file, and the thread that reads it ahead of the clocks (data_disk_read.c). data_disk.c writes the
 * file. See data.h. */
#ifndef AGILEML_WORKERS_DATA_DISK_H
#define AGILEML_WORKERS_DATA_DISK_H

#include "workers/data/data_private.h"

/* Which training items the reader keeps in memory. The file's blocks with training items form a ring, as the last part
 * of an iteration is followed by the first part of the next. */
struct disk_window {
    uint64_t blocks;     /* of the ring */
    uint64_t most;       /* the most blocks that may be in memory at once */
    uint64_t first;      /* block of the part under way */
    uint64_t part;       /* how many blocks the part has */
    uint64_t moves;      /* counts changes of `first` and `part` */
    uint64_t ahead;      /* how many blocks from `first` on have been read and checked; some may be dropped again */
    bool *loaded;        /* by block */
    uint64_t *queue;     /* the loaded blocks, in the order in which they were loaded; a ring of `most` + 1 */
    uint64_t head, used; /* of the queue */
};

struct data_disk {
    struct spill_file file; /* blocks of training items, padding up to the next block of the file, those of tests */
    uint64_t tests_at;      /* first byte of the tests */
    bool tests_checked;
    unsigned char *scratch; /* of one block, for the checks of tests */
    bool started;           /* the reader was started */
    pthread_t reader;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t wake;  /* wakes the reader */
    pthread_cond_t done;  /* signaled by the reader */
    struct disk_window window;
    bool stop;
    struct error error; /* of the reader */
};

/* Makes the window of a complete file: at most `bytes` bytes are in memory. Starts the reader. */
int data_disk_start(struct data_disk *disk, size_t bytes, struct error *error);

#endif
