/* See secret.h. */
#include "agileml/cloud/secret.h"

#include "agileml/base/memory.h"

#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t secret_pages(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

void *secret_new(size_t size) {
    void *memory = mmap(NULL, secret_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        memory_exhausted(size);
    }
    (void)madvise(memory, secret_pages(size), MADV_DONTDUMP);
    (void)mlock(memory, secret_pages(size)); /* may be refused, or succeed for only some of the memory */
    return memory;
}

void secret_free(void *memory, size_t size) {
    if (memory != NULL) {
        OPENSSL_cleanse(memory, size);
        (void)munmap(memory, secret_pages(size));
    }
}

static void secret_wipe(void *memory) {
    if (memory != NULL) {
        OPENSSL_cleanse(memory, malloc_usable_size(memory));
        free(memory);
    }
}

void secret_json_begin(void) {
    json_set_alloc_funcs(malloc, secret_wipe);
}

void secret_json_end(void) {
    json_set_alloc_funcs(malloc, free);
}
