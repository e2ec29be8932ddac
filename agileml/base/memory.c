/* See memory.h. */
#include "agileml/base/memory.h"

#include "agileml/base/sanitizers.h"
#include "agileml/types.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MEMORY_KEEP_BYTES = 1 << 30, /* malloc keeps blocks up to this size, and as much at the heap's end */
    CAPACITY_LEAST = 16,
};

_Noreturn void memory_exhausted(size_t bytes) {
    fprintf(stderr, "out of memory: %zu bytes wanted\n", bytes);
    _exit(1); /* no clean-up: other threads are running and may use what it frees */
}

static void *memory_checked(void *block, size_t bytes) {
    if (block == NULL) {
        memory_exhausted(bytes);
    }
    return block;
}

void *memory_zeroed(size_t count, size_t size) {
    return memory_checked(calloc(count > 0 ? count : 1, size > 0 ? size : 1), count * size);
}

void *memory_resized(void *old, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        memory_exhausted(SIZE_MAX);
    }
    return memory_checked(realloc(old, bytes > 0 ? bytes : 1), bytes);
}

void *memory_extended(void *old, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) {
        return old;
    }
    *capacity = *capacity > 0 ? 2 * *capacity : CAPACITY_LEAST;
    return memory_resized(old, *capacity, size);
}

char *memory_string(const char *text) {
    return memory_checked(strdup(text), strlen(text) + 1);
}

void memory_keep(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, MEMORY_KEEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, MEMORY_KEEP_BYTES);
    mallopt(M_ARENA_MAX, 1); /* other arenas would still return memory to the kernel, and keep some for themselves */
#endif
}

void memory_give_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void *memory_remap(void *base, size_t mapped, size_t wanted) {
    if (!WITH_TSAN) {
        return mremap(base, mapped, wanted, MREMAP_MAYMOVE);
    }
    /* ThreadSanitizer sees mmap but not mremap. Without this mmap, it would report a race with whatever another thread
     * did at these addresses before they were part of the mapping. */
    void *place = mmap(NULL, wanted, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return place == MAP_FAILED ? place : mremap(base, mapped, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, place);
}

enum {
    ARENA_MINIMUM = 1 << 16,
    ARENA_HUGE_PAGE = 2 << 20,
    ARENA_COUNTED = 8 /* each arena counts as at least this part of its reserved bytes */
};

/* Returns the bytes that an arena in memory adds to arena_files.used. */
static size_t counted(size_t grown, size_t mapped) {
    return grown > mapped / ARENA_COUNTED ? grown : mapped / ARENA_COUNTED;
}

/* Sets the sizes of an arena in memory, and updates arena_files.used. */
static void arena_count(struct arena *arena, size_t grown, size_t mapped) {
    if (arena->files != NULL) {
        atomic_fetch_add(&arena->files->used, counted(grown, mapped));
        atomic_fetch_sub(&arena->files->used, counted(arena->grown, arena->mapped));
    }
    arena->grown = grown;
    arena->mapped = mapped;
}

/* Allocates the file's disk space up to `mapped` bytes. Returns false when the disk is full. */
static bool file_grow(const struct arena *arena, int descriptor, size_t from, size_t mapped) {
    int result = posix_fallocate(descriptor, (off_t)from, (off_t)(mapped - from));
    if (result != 0) {
        arena->files->refused(arena->files->context, mapped - from);
    }
    return result == 0;
}

/* Moves an arena from memory to a file. */
static int arena_to_file(struct arena *arena, size_t mapped) {
    struct arena_files *files = arena->files;
    int descriptor = files->open(files->context);
    void *base = MAP_FAILED;
    if (descriptor >= 0 && file_grow(arena, descriptor, 0, mapped)) {
        base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    if (base == MAP_FAILED) {
        if (descriptor >= 0) {
            close(descriptor);
        }
        return AML_ENOMEM;
    }
    if (arena->base != NULL) {
        memcpy(base, arena->base, arena->mapped);
        munmap(arena->base, arena->mapped);
    }
    arena_count(arena, 0, 0);
    atomic_fetch_add(&files->bytes, mapped);
    arena->base = base;
    arena->mapped = mapped;
    arena->descriptor = descriptor;
    arena->filed = arena->huge = true; /* no huge pages in a file */
    return 0;
}

static int arena_reserve_file(struct arena *arena, size_t mapped) {
    if (!arena->filed) {
        return arena_to_file(arena, mapped);
    }
    if (!file_grow(arena, arena->descriptor, arena->mapped, mapped)) {
        return AML_ENOMEM;
    }
    void *base = memory_remap(arena->base, arena->mapped, mapped);
    if (base == MAP_FAILED) {
        return AML_ENOMEM;
    }
    atomic_fetch_add(&arena->files->bytes, mapped - arena->mapped);
    arena->base = base;
    arena->mapped = mapped;
    return 0;
}

/* Reserves memory as arena_reserve does. `grown` is what arena->grown may become, for counting; not below
 * arena->grown. */
static int reserve(struct arena *arena, size_t bytes, size_t grown) {
    if (bytes <= arena->mapped) {
        return 0;
    }
    size_t mapped = arena->mapped > 0 ? arena->mapped : ARENA_MINIMUM;
    while (mapped < bytes) {
        if (mapped > SIZE_MAX / 4) {
            return AML_ENOMEM;
        }
        mapped *= 2; /* untouched pages cost nothing */
    }
    struct arena_files *files = arena->files;
    size_t more = counted(grown, mapped) - counted(arena->grown, arena->mapped);
    bool to_file = files != NULL && !arena->filed && atomic_load(&files->used) + more > files->memory;
    if (to_file || arena->filed) {
        return arena_reserve_file(arena, mapped);
    }
    void *base = arena->base == NULL
                     ? mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                     : memory_remap(arena->base, arena->mapped, mapped);
    if (base == MAP_FAILED) {
        return AML_ENOMEM;
    }
    arena->base = base;
    arena_count(arena, arena->grown, mapped);
    return 0;
}

int arena_reserve(struct arena *arena, size_t bytes) {
    size_t used = 2 * arena->grown; /* at most: cache.c calls arena_grow each time the rows double */
    return reserve(arena, bytes, used);
}

int arena_grow(struct arena *arena, size_t bytes) {
    size_t grown = bytes > arena->grown ? bytes : arena->grown;
    int result = reserve(arena, bytes, grown);
    if (result == 0 && !arena->filed) {
        arena_count(arena, grown, arena->mapped);
    }
    if (result == 0 && bytes > ARENA_HUGE_PAGE && !arena->huge) {
        /* Huge pages reduce TLB misses for rows visited at random. They are only advice; mremap preserves it. */
        madvise(arena->base, arena->mapped, MADV_HUGEPAGE);
        arena->huge = true;
    }
    return result;
}

void arena_close(struct arena *arena) {
    if (arena->base != NULL) {
        munmap(arena->base, arena->mapped);
    }
    if (arena->filed) {
        atomic_fetch_sub(&arena->files->bytes, arena->mapped);
        close(arena->descriptor);
    } else {
        arena_count(arena, 0, 0);
    }
    memset(arena, 0, sizeof *arena);
}
