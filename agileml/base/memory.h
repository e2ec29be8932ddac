/* Memory: allocation functions that end the process instead of failing, and an arena that grows without copying.
 * Without memory a process can't keep its state consistent; the other nodes recover from its loss. */
#ifndef AGILEML_BASE_MEMORY_H
#define AGILEML_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

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

/* A contiguous run of zeroed bytes that grows without copying: the kernel moves the pages, so addresses
 * change when it grows, and only what was touched is resident. A zeroed struct is an empty arena.
 * Not thread-safe while it grows. */
struct arena {
    unsigned char *base;
    size_t mapped; /* bytes of address space, readable and writable */
    bool huge;     /* the kernel has been asked for huge pages */
};

/* Reserves at least `bytes` bytes, of which only some may ever be used. Returns 0 or AML_ENOMEM. */
int arena_reserve(struct arena *arena, size_t bytes);
/* Reserves bytes that are or will all be used, and asks for huge pages if the arena is large. In an arena that is only
 * reserved the kernel would sooner or later fill a huge page around each small one in use. */
int arena_grow(struct arena *arena, size_t bytes);
void arena_close(struct arena *arena);

#endif
