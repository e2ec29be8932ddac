/* Reference-counted bytes, shared between threads without a copy. Payload frames of messages are buffers, from the
 * worker that fills a frame to the socket that sends it or the table to which it is added. Once a buffer has two
 * references, its bytes are read-only for everyone. */
#ifndef AGILEML_BASE_BUFFER_H
#define AGILEML_BASE_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>

struct buffer {
    atomic_uint references;
    size_t size;                            /* bytes in use, at most what was allocated */
    unsigned char *data;                    /* 64-byte aligned when it comes from buffer_new */
    void (*release)(struct buffer *buffer); /* called once, by the thread that drops the last reference */
};

/* Returns a buffer of `size` uninitialised bytes with one reference. Never NULL: see memory_exhausted. */
struct buffer *buffer_new(size_t size);
/* Returns a new buffer with one reference and a copy of the bytes at `data`. */
struct buffer *buffer_copy(const void *data, size_t size);
/* Takes one more reference and returns `buffer`. Any thread. */
struct buffer *buffer_hold(struct buffer *buffer);
/* Drops one reference, and frees the buffer with the last. NULL is allowed. Any thread. */
void buffer_drop(struct buffer *buffer);

#endif
