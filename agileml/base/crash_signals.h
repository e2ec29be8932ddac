/* The signals that end a program because of its own error, unlike signals by which other processes end it. */
#ifndef AGILEML_BASE_CRASH_SIGNALS_H
#define AGILEML_BASE_CRASH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

static const int CRASH_SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { CRASH_SIGNAL_COUNT = sizeof CRASH_SIGNALS / sizeof CRASH_SIGNALS[0] };

static inline bool signal_is_crash(int number) {
    for (size_t s = 0; s < CRASH_SIGNAL_COUNT; s++) {
        if (CRASH_SIGNALS[s] == number) {
            return true;
        }
    }
    return false;
}

#endif
