/* Makes one node's servers slow in a test's app, which is linked with --wrap=server_receive. $SUM_SLOW_SERVER is
 * "NAME:US:ON_S:PERIOD_S ...": a node's name, its servers' delay in each clock, and the first ON_S seconds of each
 * PERIOD_S in which the delay applies (0: always). See bench/straggler. */
#include "agileml/wire/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *slow_server_name; /* this node's name; set by the app's main */

void __real_server_receive(void *self, actor_id from, struct message *message);
void __wrap_server_receive(void *self, actor_id from, struct message *message);

static double delay_us(void) {
    const char *text = getenv("SUM_SLOW_SERVER");
    char name[64];
    double us;
    double on;
    double period;
    int length;
    while (text != NULL && slow_server_name != NULL &&
           sscanf(text, " %63[^:]:%lf:%lf:%lf%n", name, &us, &on, &period, &length) == 4) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (strcmp(name, slow_server_name) == 0) {
            return period <= 0 || fmod((double)now.tv_sec, period) < on ? us : 0;
        }
        text += length;
    }
    return 0;
}

/* Each server thread of the node waits once in a clock, before the clock's first flush. */
void __wrap_server_receive(void *self, actor_id from, struct message *message) {
    static _Thread_local uint64_t clock;
    if (message->type == MESSAGE_FLUSH && message->flush.clock > clock) {
        double us = delay_us();
        clock = message->flush.clock;
        struct timespec pause = {.tv_sec = (time_t)(us / 1e6), .tv_nsec = (long)fmod(us, 1e6) * 1000};
        if (us > 0) {
            nanosleep(&pause, NULL);
        }
    }
    __real_server_receive(self, from, message);
}
