/* Reads a set on disk ahead of the clocks. Keeps the blocks of the part under way and of the next parts in memory, as
 * far as there is room, and drops earlier blocks. Checks each block whenever it reads it. See data.h. */
#include "workers/data/data_disk.h"

#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "workers/data/crash.h"

#include <assert.h>
#include <stdlib.h>

enum { WINDOW_BLOCKS_MIN = 2 };

/* ---- The window; under the lock ---- */

/* How many blocks, from the part's first one on, the reader is to read: all of the part, and more if there is room. */
static uint64_t window_wanted(const struct disk_window *window) {
    uint64_t wanted = window->part > window->most ? window->part : window->most;
    return wanted < window->blocks ? wanted : window->blocks;
}

static bool window_has(const struct disk_window *window, uint64_t block) {
    uint64_t distance = block >= window->first ? block - window->first : block + window->blocks - window->first;
    return distance < window_wanted(window);
}

/* Drops the block that was loaded first. */
static void drop_oldest(struct data_disk *disk) {
    struct disk_window *window = &disk->window;
    uint64_t block = window->queue[window->head];
    assert(window->used > 0 && window->loaded[block]);
    window->head = (window->head + 1) % (window->most + 1);
    window->used--;
    window->loaded[block] = false;
    if (!window_has(window, block) || window->part <= window->most) { /* else the kernel chooses what to drop */
        spill_forget(&disk->file, block * SPILL_BLOCK, (block + 1) * SPILL_BLOCK);
    }
}

static void block_loaded(struct data_disk *disk, uint64_t block) {
    struct disk_window *window = &disk->window;
    if (window->used > window->most) {
        drop_oldest(disk);
    }
    assert(window->used <= window->most && block < window->blocks);
    window->queue[(window->head + window->used++) % (window->most + 1)] = block;
    window->loaded[block] = true;
}

/* ---- The reader ---- */

/* Loads the next block, or skips it when it is in memory. Returns false when there is nothing to do. Under the lock,
 * which it releases while it reads. */
static bool read_next(struct data_disk *disk, unsigned char *scratch) {
    struct disk_window *window = &disk->window;
    if (window->part == 0 || window->ahead >= window_wanted(window) || disk->error.code != 0) {
        return false;
    }
    uint64_t moves = window->moves;
    uint64_t block = (window->first + window->ahead) % window->blocks;
    if (!window->loaded[block]) {
        struct error error = {0};
        pthread_mutex_unlock(&disk->lock);
        if (spill_check(&disk->file, block, scratch, &error) == 0) {
            spill_populate(&disk->file, block);
        }
        pthread_mutex_lock(&disk->lock);
        if (error.code != 0) {
            disk->error = error;
        } else if (!window->loaded[block]) {
            block_loaded(disk, block);
        }
    }
    window->ahead += window->moves == moves ? 1 : 0;
    pthread_cond_signal(&disk->done);
    return true;
}

static void *reader_main(void *context) {
    struct data_disk *disk = context;
    unsigned char *scratch = memory_resized(NULL, SPILL_BLOCK, 1);
    crash_thread_begin();
    pthread_mutex_lock(&disk->lock);
    while (!disk->stop) {
        if (!read_next(disk, scratch)) {
            pthread_cond_wait(&disk->wake, &disk->lock);
        }
    }
    pthread_mutex_unlock(&disk->lock);
    crash_thread_end();
    free(scratch);
    return NULL;
}

int data_disk_start(struct data_disk *disk, size_t bytes, struct error *error) {
    struct disk_window *window = &disk->window;
    window->blocks = disk->tests_at / SPILL_BLOCK;
    window->most = bytes / SPILL_BLOCK > WINDOW_BLOCKS_MIN ? bytes / SPILL_BLOCK : WINDOW_BLOCKS_MIN;
    window->most = window->most < window->blocks ? window->most : window->blocks;
    window->loaded = memory_zeroed(window->blocks, sizeof *window->loaded);
    window->queue = memory_zeroed(window->most + 1, sizeof *window->queue);
    disk->scratch = memory_resized(NULL, SPILL_BLOCK, 1);
    pthread_mutex_init(&disk->lock, NULL);
    pthread_cond_init(&disk->wake, NULL);
    pthread_cond_init(&disk->done, NULL);
    disk->started = pthread_create(&disk->reader, NULL, reader_main, disk) == 0;
    return disk->started ? 0 : error_set(error, AML_EFAIL, "can't start a thread to read data from disk");
}

void data_disk_close(struct data_disk *disk) {
    if (disk == NULL) {
        return;
    }
    if (disk->started) {
        pthread_mutex_lock(&disk->lock);
        disk->stop = true;
        pthread_cond_signal(&disk->wake);
        pthread_mutex_unlock(&disk->lock);
        pthread_join(disk->reader, NULL);
    }
    if (disk->scratch != NULL) {
        pthread_mutex_destroy(&disk->lock);
        pthread_cond_destroy(&disk->wake);
        pthread_cond_destroy(&disk->done);
    }
    spill_close(&disk->file);
    free(disk->window.loaded);
    free(disk->window.queue);
    free(disk->scratch);
    free(disk);
}

/* ---- Clocks and evaluations ---- */

/* The byte of the set's file at which a part begins. */
static uint64_t part_offset(const struct data_set *set, unsigned part) {
    size_t block = (size_t)part * set->slices * set->threads * set->bins;
    return set->offsets != NULL ? set->offsets[block] : set->starts[block] * set->item_size;
}

/* Moves the window to the part, and drops what lies behind. */
static void window_move(struct data_disk *disk, uint64_t from, uint64_t until) {
    struct disk_window *window = &disk->window;
    assert(from < until && until <= disk->tests_at);
    window->first = from / SPILL_BLOCK;
    window->part = (until + SPILL_BLOCK - 1) / SPILL_BLOCK - window->first;
    window->ahead = 0;
    window->moves++;
    while (window->used > 0 && !window_has(window, window->queue[window->head])) {
        drop_oldest(disk);
    }
}

/* Waits until the reader has read so many blocks of the part. */
static int wait_for_blocks(struct data_disk *disk, uint64_t blocks, struct error *error) {
    uint64_t start_us = monotonic_us();
    while (disk->window.ahead < blocks && disk->error.code == 0) {
        pthread_cond_wait(&disk->done, &disk->lock);
    }
    atomic_fetch_add(&disk->file.spill->waited_us, monotonic_us() - start_us);
    return disk->error.code == 0 ? 0 : error_set(error, disk->error.code, "%s", disk->error.text);
}

int data_part_begin(struct data_set *set, unsigned part, struct error *error) {
    struct data_disk *disk = set->disk;
    uint64_t from = disk != NULL ? part_offset(set, part) : 0;
    uint64_t until = disk != NULL ? part_offset(set, part + 1) : 0;
    if (from == until) {
        return 0;
    }
    pthread_mutex_lock(&disk->lock);
    window_move(disk, from, until);
    pthread_cond_signal(&disk->wake);
    uint64_t part_blocks = disk->window.part;
    int result = wait_for_blocks(disk, part_blocks < disk->window.most ? part_blocks : disk->window.most, error);
    pthread_mutex_unlock(&disk->lock);
    return result;
}

int data_part_end(struct data_set *set, struct error *error) {
    struct data_disk *disk = set->disk;
    if (disk == NULL) {
        return 0;
    }
    pthread_mutex_lock(&disk->lock);
    int result = wait_for_blocks(disk, disk->window.part, error);
    pthread_mutex_unlock(&disk->lock);
    return result;
}

int data_tests_begin(struct data_set *set, struct error *error) {
    struct data_disk *disk = set->disk;
    int result = 0;
    if (disk == NULL || disk->tests_checked) {
        return 0;
    }
    for (uint64_t at = disk->tests_at; at < disk->file.size && result == 0; at += SPILL_BLOCK) {
        result = spill_check(&disk->file, at / SPILL_BLOCK, disk->scratch, error);
    }
    disk->tests_checked = result == 0;
    return result;
}

void data_set_forget(struct data_set *set) {
    struct data_disk *disk = set->disk;
    if (disk == NULL || disk->file.map == NULL) {
        return;
    }
    pthread_mutex_lock(&disk->lock);
    disk->window.moves++;
    disk->window.part = disk->window.used = disk->window.ahead = 0; /* the reader rests until the next part */
    memset(disk->window.loaded, 0, disk->window.blocks * sizeof *disk->window.loaded);
    spill_forget(&disk->file, 0, disk->tests_at);
    pthread_mutex_unlock(&disk->lock);
}
