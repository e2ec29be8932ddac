/* Memory: allocation functions that end the process instead of failing, and an arena that grows without copying. A
 * process without memory can't keep its state consistent, while the other nodes can recover from its loss. */
#ifndef AGILEML_BASE_MEMORY_H
#define AGILEML_BASE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the process with exit status 1 and one line with the number of bytes requested. */
_Noreturn void memory_exhausted(size_t bytes);

/* Allocate count x size bytes as calloc and realloc do. End the process where these would return NULL. */
void *memory_zeroed(size_t count, size_t size);
void *memory_resized(void *old, size_t count, size_t size);
/* Makes room for one more item after the `count` items of an array, and doubles its capacity if needed. Returns the
 * array. */
void *memory_extended(void *old, size_t count, size_t *capacity, size_t size);
char *memory_string(const char *text);

/* Makes malloc keep freed memory, large blocks too, instead of returning it to the kernel. Each clock needs buffers
 * as large as the clock before, and new pages cost more than the copy that fills them. Affects the whole process, as
 * libzmq allocates with malloc too. Call it once, first in main. */
void memory_keep(void);
/* Returns free memory to the kernel, despite memory_keep. Call it after a phase that needed more memory. */
void memory_give_back(void);
/* Makes a mapping larger, and moves it where needed, as mremap does with MREMAP_MAYMOVE. */
void *memory_remap(void *base, size_t mapped, size_t wanted);

/* Limits the memory of a group of arenas. Arenas beyond the limit move to mapped, unnamed files, whose pages the
 * kernel can write to disk and drop without swap. */
struct arena_files {
    int (*open)(void *context); /* returns the descriptor of a new, empty file; or -1 after reporting why */
    void (*refused)(void *context, size_t bytes); /* reports that the disk has no room for `bytes` more */
    void *context;
    size_t memory;          /* limit of the arenas' bytes in memory */
    _Atomic size_t used;    /* bytes of the arenas in memory, counted as described at struct arena; any thread */
    _Atomic uint64_t bytes; /* bytes of the files; any thread */
};

/* A contiguous run of zeroed bytes that grows without copying. The kernel moves the pages, so addresses change with
 * growth, and only touched pages are resident. A zeroed struct is an empty arena. Not thread-safe while it grows.
 *
 * An arena adds to files->used the bytes it has grown to, or an eighth of its reserved bytes if that is more. An
 * arena moves to a file only when it reserves more; it may always use what it has. */
struct arena {
    unsigned char *base;
    size_t mapped;             /* bytes of address space, readable and writable */
    size_t grown;              /* bytes that are or will be used, while the arena is in memory */
    bool huge;                 /* the kernel has been asked for huge pages */
    struct arena_files *files; /* set before the first use; NULL: the arena always stays in memory */
    int descriptor;            /* the arena's file, if `filed` */
    bool filed;
};

/* Reserves at least `bytes` bytes, of which some may never be used. Returns 0 or AML_ENOMEM. An arena in a file
 * allocates all of them on disk at once, as a disk that becomes full later would end the process. */
int arena_reserve(struct arena *arena, size_t bytes);
/* Reserves bytes that all will be used, and requests huge pages if the arena is large. arena_reserve requests none:
 * the kernel could fill a huge page around each small page in use. */
int arena_grow(struct arena *arena, size_t bytes);
void arena_close(struct arena *arena);

#endif
