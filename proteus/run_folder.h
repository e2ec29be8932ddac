/* The temporary folder of a run: $TMPDIR/proteus-XXXXXX, or in /tmp. It goes with its run; a run that was killed by
 * SIGKILL leaves it, and the next run removes it. */
#ifndef PROTEUS_RUN_FOLDER_H
#define PROTEUS_RUN_FOLDER_H

#include "agileml/base/error.h"

#include <limits.h>

struct run_folder {
    char path[PATH_MAX]; /* empty: not made */
    int lock;            /* held on a file in it while the process lives: how others know; -1: none */
};
#define RUN_FOLDER_NONE ((struct run_folder){.lock = -1})

/* Makes it, for our user alone, and removes those that earlier runs of this user have left beside it. AML_EFAIL. */
int run_folder_make(struct run_folder *folder, struct error *error);
/* Removes it with all that it holds, if it was made. */
void run_folder_remove(struct run_folder *folder);

#endif
