/* The machine's clocks (not the clocks of the parameter server). For times as text, see instant.h.
 *
 * The monotonic clock measures durations: it never jumps, and its zero is arbitrary. CLOCK_BOOTTIME also counts the
 * time in which the machine sleeps. CLOCK_REALTIME is the time of day, which may jump. */
#ifndef AGILEML_BASE_CLOCK_H
#define AGILEML_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

uint64_t monotonic_us(void);
int64_t monotonic_ms(void);

double clock_seconds(clockid_t clock);
/* Returns the time `wait_ms` from now, for calls that wait until a given time. */
struct timespec clock_after_ms(clockid_t clock, unsigned wait_ms);
/* Sleeps; a signal ends it early. */
void clock_pause_ms(unsigned wait_ms);

#endif
