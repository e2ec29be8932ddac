/* See bandwidth.h. */
#include "bench/bandwidth.h"

#include "agileml/base/memory.h"
#include "bench/measure.h"

#include <pthread.h>
#include <stdlib.h>

enum { BANDWIDTH_PASSES = 9 };
static const size_t BANDWIDTH_BYTES_PER_PASS = (size_t)1 << 28; /* smaller arrays are gone through repeatedly */

struct bandwidth {
    size_t elements;
    size_t repeats;
    pthread_barrier_t barrier;
};

static void triad(float *restrict a, const float *restrict b, const float *restrict c, float s, size_t count) {
    for (size_t i = 0; i < count; i++) {
        a[i] = b[i] + s * c[i];
    }
    __asm__ volatile("" : : "r"(a) : "memory"); /* keeps the compiler from dropping the stores */
}

static void *bandwidth_thread(void *argument) {
    struct bandwidth *bandwidth = argument;
    size_t count = bandwidth->elements;
    struct arena arena = {0};
    if (arena_grow(&arena, 3 * count * sizeof(float)) != 0) {
        memory_exhausted(3 * count * sizeof(float));
    }
    float *a = (float *)(void *)arena.base;
    for (size_t i = 0; i < 3 * count; i++) {
        a[i] = 1; /* first touch: places the pages at this thread's memory */
    }
    for (unsigned pass = 0; pass < BANDWIDTH_PASSES; pass++) {
        pthread_barrier_wait(&bandwidth->barrier);
        for (size_t r = 0; r < bandwidth->repeats; r++) {
            triad(a, a + count, a + 2 * count, 0.5F, count);
        }
        pthread_barrier_wait(&bandwidth->barrier);
    }
    arena_close(&arena);
    return NULL;
}

double bandwidth_triad(size_t bytes, unsigned threads) {
    pthread_t *handles = memory_zeroed(threads, sizeof *handles);
    struct series rates = {0};
    struct bandwidth bandwidth = {.elements = bytes / 3 / threads / sizeof(float),
                                  .repeats = bytes < BANDWIDTH_BYTES_PER_PASS ? BANDWIDTH_BYTES_PER_PASS / bytes : 1};
    unsigned started = 0;
    pthread_barrier_init(&bandwidth.barrier, NULL, threads + 1);
    for (; started < threads; started++) {
        if (pthread_create(&handles[started], NULL, bandwidth_thread, &bandwidth) != 0) {
            memory_exhausted(0);
        }
    }
    for (unsigned pass = 0; pass < BANDWIDTH_PASSES; pass++) {
        pthread_barrier_wait(&bandwidth.barrier);
        double start = measure_wall();
        pthread_barrier_wait(&bandwidth.barrier);
        double moved = (double)(3 * sizeof(float) * bandwidth.elements * threads * bandwidth.repeats);
        series_add(&rates, moved / (measure_wall() - start));
    }
    for (unsigned t = 0; t < started; t++) {
        pthread_join(handles[t], NULL);
    }
    double rate = series_median(&rates);
    series_close(&rates);
    pthread_barrier_destroy(&bandwidth.barrier);
    free(handles);
    return rate;
}
