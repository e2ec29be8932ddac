/* Files on local disk for data that does not fit in memory. A file has no name from its beginning (O_TMPFILE), so
 * nothing of it remains when the process ends, however it ends. Bytes are appended, and hashed by blocks; what is read
 * back is compared with the hashes. Written and read pages are dropped from the page cache, which counts as the memory
 * of the process's cgroup. Knows nothing of shards and items.
 *
 * One thread at a time appends, flushes and maps. Other threads may meanwhile read what was flushed before. */
#ifndef AGILEML_WORKERS_SPILL_H
#define AGILEML_WORKERS_SPILL_H

#include "agileml/base/error.h"
#include "agileml/base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPILL_BLOCK = 256 << 10,   /* bytes of a block, which has a hash */
    SPILL_BUFFER = 4 << 20,    /* bytes that are written together; a multiple of a block */
    SPILL_FOLDER_MAX = 512,    /* bytes of the folder's path, with the NUL */
    SPILL_NEEDED_TEXT_MAX = 32 /* bytes of a size in a message */
};

/* The place of a process's files, and what they take. */
struct spill {
    char folder[SPILL_FOLDER_MAX];
    _Atomic uint64_t bytes;     /* on disk now; any thread */
    _Atomic uint64_t waited_us; /* how long clocks have waited for the disk, in all; any thread */
};

struct spill_file {
    struct spill *spill; /* NULL: not open */
    int descriptor;
    uint64_t size;            /* bytes appended */
    _Atomic uint64_t written; /* of them, those before `buffer`; a multiple of SPILL_BUFFER */
    _Atomic uint64_t counted; /* what `spill->bytes` has of this file */
    unsigned char *buffer;    /* the bytes appended last; NULL: none yet */
    uint64_t *hashes;         /* by block, of the bytes that are written or flushed */
    size_t hash_room;
    unsigned char *map; /* the file, for reading; NULL: not mapped */
    size_t mapped;
};

/* Opens a new, empty file. AML_EFAIL when the folder can't be written to. */
int spill_open(struct spill_file *file, struct spill *spill, struct error *error);
/* Closes the file, whose contents are then gone. Does nothing with a zeroed file that was never opened. */
void spill_close(struct spill_file *file);

/* Appends bytes. AML_EFAIL when the disk is full or fails; the line says how much was to be written. */
int spill_append(struct spill_file *file, const void *bytes, size_t size, struct error *error);
/* Appends zeros up to the next block. */
int spill_append_padding(struct spill_file *file, struct error *error);
/* Writes what was appended, so that it can be read. */
int spill_flush(struct spill_file *file, struct error *error);

/* Ends appending to a flushed file: frees the buffer. */
void spill_end(struct spill_file *file);

/* Reads bytes that were flushed. They are not compared with hashes. */
int spill_read(const struct spill_file *file, uint64_t offset, void *bytes, size_t size, struct error *error);
/* Reads a block into the page cache, and compares it with its hash. `scratch` has SPILL_BLOCK bytes. */
int spill_check(const struct spill_file *file, uint64_t block, unsigned char *scratch, struct error *error);
/* Sets the error of bytes that are not what was written. */
int spill_damaged(const struct spill_file *file, uint64_t offset, struct error *error);
/* Maps the flushed file for reading. If the file has grown since, maps it again: earlier addresses are then void. */
int spill_map(struct spill_file *file, struct error *error);
/* Brings the pages of a block that was checked into the process. */
void spill_populate(const struct spill_file *file, uint64_t block);
/* Drop pages from memory; they can be read again. Only whole pages within the range are dropped. The first function
 * also drops mapped pages, and must not run beside spill_map. */
void spill_forget(const struct spill_file *file, uint64_t from, uint64_t until);
void spill_forget_unmapped(const struct spill_file *file, uint64_t from, uint64_t until);
/* Frees bytes on the disk; they are zeros afterwards. Only whole pages within the range are freed. May run beside an
 * append. */
void spill_punch(struct spill_file *file, uint64_t from, uint64_t until);

/* Has arenas go to files of `spill` that together would take more than `memory` bytes. `spill` must outlive them. */
void spill_arenas(struct spill *spill, struct arena_files *files, size_t memory);

/* Returns AML_EINPUT if no file can be made in the folder. */
int spill_try(const struct spill *spill, struct error *error);
/* Checks that the disk has room for so many bytes. AML_EFAIL when it has not. */
int spill_check_room(const struct spill *spill, uint64_t bytes, struct error *error);

/* Writes a size for people, as "1.5 GB". */
void spill_size_text(uint64_t bytes, char text[SPILL_NEEDED_TEXT_MAX]);

#endif
