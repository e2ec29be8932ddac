/* See buffer.h. */
#include "agileml/base/buffer.h"

#include "agileml/base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_ALIGNMENT = 64 };

static void buffer_free(struct buffer *buffer) {
    free(buffer);
}

struct buffer *buffer_new(size_t size) {
    _Static_assert(sizeof(struct buffer) <= BUFFER_ALIGNMENT, "the header fits before the aligned bytes");
    if (size > SIZE_MAX - 2 * BUFFER_ALIGNMENT) {
        memory_exhausted(size);
    }
    size_t rounded = (size + 2 * BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
    struct buffer *buffer = aligned_alloc(BUFFER_ALIGNMENT, rounded);
    if (buffer == NULL) {
        memory_exhausted(size);
    }
    atomic_init(&buffer->references, 1);
    buffer->size = size;
    buffer->data = (unsigned char *)buffer + BUFFER_ALIGNMENT;
    buffer->release = buffer_free;
    return buffer;
}

struct buffer *buffer_copy(const void *data, size_t size) {
    struct buffer *buffer = buffer_new(size);
    if (size > 0) {
        memcpy(buffer->data, data, size);
    }
    return buffer;
}

struct buffer *buffer_hold(struct buffer *buffer) {
    atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
    return buffer;
}

void buffer_drop(struct buffer *buffer) {
    if (buffer != NULL && atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) == 1) {
        buffer->release(buffer);
    }
}
