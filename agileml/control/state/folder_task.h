/* A task on the folder of checkpoints, for the elasticity controller. With objects it may take long, so another thread
 * can run it (controller_options.folder_task). A task owns all that it needs. */
#ifndef AGILEML_CONTROL_FOLDER_TASK_H
#define AGILEML_CONTROL_FOLDER_TASK_H

#include "agileml/control/state/manifest.h"

enum folder_task_kind {
    FOLDER_BEGIN,  /* manifest_begin: `path` receives the folder */
    FOLDER_FINISH, /* manifest_finish, then manifest_prune: `path` receives the checkpoint's folder */
    FOLDER_DISCARD /* manifest_discard */
};

struct folder_task {
    struct folder_task *next; /* for a queue */
    enum folder_task_kind kind;
    uint64_t number; /* of the attempt */
    uint64_t clock;
    unsigned keep; /* FOLDER_FINISH: how many checkpoints stay */
    char root[WIRE_PATH_MAX], path[WIRE_PATH_MAX];
    char *text; /* FOLDER_FINISH: the manifest's text, from malloc */
    size_t size;
    struct error error;  /* the result */
    struct error pruned; /* FOLDER_FINISH: the error of removing old checkpoints, only a warning */
};

/* Runs the task. Blocks; any thread may call it. */
void folder_task_run(struct folder_task *task);
void folder_task_free(struct folder_task *task);

#endif
