/* The machine's clocks; those of a job's origins are the parameter server's. For moments as text, see instant.h.
 *
 * The monotonic clock is for how long something takes: nobody sets it, and it begins anywhere. CLOCK_BOOTTIME is the
 * same but goes on while the machine sleeps, and CLOCK_REALTIME is the time of day, which may jump. */
#ifndef AGILEML_BASE_CLOCK_H
#define AGILEML_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

uint64_t monotonic_us(void);
int64_t monotonic_ms(void);

double clock_seconds(clockid_t clock);
/* The moment in `wait_ms` from now, for calls that wait until a moment. */
struct timespec clock_after_ms(clockid_t clock, unsigned wait_ms);
/* Sleeps; a signal ends it early. */
void clock_pause_ms(unsigned wait_ms);

#endif
