/* The temporary folder of a run: $TMPDIR/proteus-XXXXXX, or in /tmp. The run removes its folder at its end. After a
 * SIGKILL the next run removes it. */
#ifndef PROTEUS_RUN_FOLDER_H
#define PROTEUS_RUN_FOLDER_H

#include "agileml/base/error.h"

#include <limits.h>

struct run_folder {
    char path[PATH_MAX]; /* empty: no folder */
    int lock;            /* descriptor of the locked file in the folder, which shows that the run is alive; -1: none */
};
#define RUN_FOLDER_NONE ((struct run_folder){.lock = -1})

/* Makes a folder for our user only, and removes the folders left by earlier runs of this user. Returns 0 or
 * AML_EFAIL. */
int run_folder_make(struct run_folder *folder, struct error *error);
/* Removes the folder with its contents, if it was made. */
void run_folder_remove(struct run_folder *folder);

#endif
