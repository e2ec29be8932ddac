/* See clock.h. */
#include "agileml/base/clock.h"

static struct timespec clock_read(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now;
}

uint64_t monotonic_us(void) {
    struct timespec now = clock_read(CLOCK_MONOTONIC);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int64_t monotonic_ms(void) {
    return (int64_t)(monotonic_us() / 1000);
}

double clock_seconds(clockid_t clock) {
    struct timespec now = clock_read(clock);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct timespec clock_after_ms(clockid_t clock, unsigned wait_ms) {
    struct timespec moment = clock_read(clock);
    moment.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    moment.tv_sec += (time_t)(wait_ms / 1000) + moment.tv_nsec / 1000000000;
    moment.tv_nsec %= 1000000000;
    return moment;
}

void clock_pause_ms(unsigned wait_ms) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)(wait_ms / 1000), .tv_nsec = (long)(wait_ms % 1000) * 1000000},
              NULL);
}
