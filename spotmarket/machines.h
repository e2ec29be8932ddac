/* The machines as real processes: each instance's user data, a script, under a supervisor of its own, which kills all
 * that came of it when it is told to, when the script has ended, and when this process has died, however it did.
 * Linux. One thread, which has SIGCHLD, SIGTERM and SIGINT blocked, and no other thread in the process. */
#ifndef SPOTMARKET_MACHINES_H
#define SPOTMARKET_MACHINES_H

#include "spotmarket/cloud.h"

#include <sys/types.h>

struct machines {
    const char *folder; /* absolute; a machine's own is FOLDER/INSTANCE-ID */
    struct machine {
        size_t number; /* of its instance */
        pid_t supervisor;
    } * list;
    size_t count, capacity;
};

/* Starts a machine's process if its user data is a script ("#!"). `metadata` is the URL of its metadata service, which
 * it alone may know. A failure is logged, and the machine runs without a process, like one whose script is broken. */
void machines_start(struct machines *machines, const struct instance *instance, const char *metadata);
/* Has the machine's processes killed. */
void machines_stop(struct machines *machines, size_t number);
/* Calls `ended` for each machine whose script has ended (or was killed): on SIGCHLD. */
void machines_reap(struct machines *machines, void (*ended)(void *context, size_t number), void *context);
/* Kills everything, waits until it is gone, and frees. */
void machines_close(struct machines *machines);

#endif
