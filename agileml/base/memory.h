/* Memory helpers: allocation that checks products, and an arena that grows in place.
 * An allocation of ordinary size that fails ends the process with one line: no state of a training
 * job can be kept together without it, and the other nodes see the process leave. */
#ifndef AGILEML_BASE_MEMORY_H
#define AGILEML_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Ends the process, exit status 1, with one line that says how much was wanted. */
_Noreturn void memory_exhausted(size_t bytes);

/* calloc/realloc of count x size bytes; never NULL for a non-zero size: ends the process instead. */
void *memory_zeroed(size_t count, size_t size);
void *memory_resized(void *old, size_t count, size_t size);
char *memory_string(const char *text);

/* Has malloc keep what is freed, large blocks too, instead of giving it back to the kernel: a clock's buffers are as
 * large as the one's before, and new pages cost more than the copy that fills them. Affects the whole process (libzmq
 * receives into malloc's memory). Call it once, first in main. */
void memory_keep(void);
/* Gives what is free now back to the kernel after all: when a phase that needed more memory is over. */
void memory_give_back(void);

/* A contiguous run of zeroed bytes that grows without copying: the kernel moves the pages, so addresses
 * change when it grows, and only what was touched is resident. A zeroed struct is an empty arena.
 * Not thread-safe while it grows. */
struct arena {
    unsigned char *base;
    size_t mapped; /* bytes of address space, readable and writable */
    bool huge;     /* the kernel has been asked for huge pages */
};

/* Makes at least `bytes` bytes usable, of which only some may ever be used. 0 or AML_ENOMEM. */
int arena_reserve(struct arena *arena, size_t bytes);
/* The same for bytes that are or will be used: a large arena then gets huge pages. In one that is merely reserved the
 * kernel would sooner or later fill a huge page around each small one in use. */
int arena_grow(struct arena *arena, size_t bytes);
void arena_close(struct arena *arena);

#endif
