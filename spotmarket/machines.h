/* The machines as real processes: each instance's user data, a script, runs under a supervisor process. The supervisor
 * kills all processes of the machine on request, when the script ends, and when this process dies for any reason.
 *
 * A machine of speed S runs for S of each tenth of a second, and is stopped (SIGSTOP) for the rest. This applies to its
 * script and to all that stays in the script's process group. Linux only. The process has one thread, with SIGCHLD,
 * SIGTERM and SIGINT blocked. */
#ifndef SPOTMARKET_MACHINES_H
#define SPOTMARKET_MACHINES_H

#include "bidbrain/market/catalog.h"
#include "spotmarket/cloud.h"

#include <sys/types.h>

struct machines {
    const char *folder; /* absolute path; a machine's folder is FOLDER/INSTANCE-ID */
    struct machine {
        size_t number; /* number of its instance */
        pid_t supervisor;
    } * list;
    size_t count, capacity;
    const struct type_speed *speeds; /* speeds of types, at most 1; types not in the list have 1 */
    size_t speed_count;
};

/* Starts a machine's process if its user data is a script ("#!"). `metadata` is the URL of its metadata service, a
 * secret of the machine. Logs a failure; the machine then runs without a process, as with a broken script. */
void machines_start(struct machines *machines, const struct instance *instance, const char *metadata);
/* Has the supervisor kill the machine's processes. */
void machines_stop(struct machines *machines, size_t number);
/* Calls `ended` for each machine whose script has ended or was killed. Call it on SIGCHLD. */
void machines_reap(struct machines *machines, void (*ended)(void *context, size_t number), void *context);
/* Kills all machines' processes, waits for their end, and frees everything. */
void machines_close(struct machines *machines);

#endif
