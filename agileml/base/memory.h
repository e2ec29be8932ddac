/* Memory: allocation functions that end the process instead of failing, and an arena that grows without copying.
 * Without memory a process can't keep its state consistent; the other nodes recover from its loss. */
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
char *memory_string(const char *text);

/* Has malloc keep freed memory, also large blocks, instead of returning it to the kernel. The buffers of each clock are
 * as large as those of the clock before, and new pages cost more than the copy that fills them. Affects the whole
 * process: libzmq receives into malloc's memory. Call it once, first in main. */
void memory_keep(void);
/* Returns free memory to the kernel after all. Called when a phase that needed more memory is over. */
void memory_give_back(void);
/* Makes a mapping larger, and moves it where needed, as mremap does with MREMAP_MAYMOVE. */
void *memory_remap(void *base, size_t mapped, size_t wanted);

/* Where arenas go that together take more memory than they may: to files without a name, which are mapped, so that the
 * kernel can write their pages to disk and drop them, without swap. */
struct arena_files {
    int (*open)(void *context); /* returns the descriptor of a new, empty file, or -1 after telling people why */
    void (*refused)(void *context, size_t bytes); /* tells people that the disk has no room for so many more bytes */
    void *context;
    size_t memory;          /* bytes that the arenas may have in memory */
    _Atomic size_t used;    /* bytes of those in memory, as they are counted: struct arena; any thread */
    _Atomic uint64_t bytes; /* of the files; any thread */
};

/* A contiguous run of zeroed bytes that grows without copying: the kernel moves the pages, so addresses
 * change when it grows, and only what was touched is resident. A zeroed struct is an empty arena.
 * Not thread-safe while it grows. files->used counts the bytes that each arena has grown to, or an eighth of what it
 * has reserved if that is more. An arena moves to a file only when it reserves more: it may fill what it has. */
struct arena {
    unsigned char *base;
    size_t mapped;             /* bytes of address space, readable and writable */
    size_t grown;              /* in memory: bytes that are or will be used */
    bool huge;                 /* the kernel has been asked for huge pages */
    struct arena_files *files; /* set before the first use; NULL: the arena is in memory, whatever it takes */
    int descriptor;            /* of its file, if it has one: `filed` */
    bool filed;
};

/* Reserves at least `bytes` bytes, of which only some may ever be used. Returns 0 or AML_ENOMEM. In a file all of them
 * take room on the disk at once, as a full disk would later end the process. */
int arena_reserve(struct arena *arena, size_t bytes);
/* Reserves bytes that are or will all be used, and asks for huge pages if the arena is large. In an arena that is only
 * reserved the kernel would sooner or later fill a huge page around each small one in use. */
int arena_grow(struct arena *arena, size_t bytes);
void arena_close(struct arena *arena);

#endif
