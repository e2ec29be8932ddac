/* Work on the folder of checkpoints that the elasticity controller has done: it may take long where the folder is one
 * of objects, so that another thread can do it (controller_options.folder_task). A task owns all that it needs. */
#ifndef AGILEML_CONTROL_FOLDER_TASK_H
#define AGILEML_CONTROL_FOLDER_TASK_H

#include "agileml/control/manifest.h"

enum folder_task_kind {
    FOLDER_BEGIN,  /* manifest_begin: `path` receives the folder */
    FOLDER_FINISH, /* manifest_finish_text, then manifest_prune: `path` receives the checkpoint's */
    FOLDER_DISCARD /* manifest_discard */
};

struct folder_task {
    struct folder_task *next; /* for a queue */
    enum folder_task_kind kind;
    uint64_t number; /* of the attempt */
    uint64_t clock;
    unsigned keep; /* FOLDER_FINISH: so many checkpoints */
    char root[WIRE_PATH_MAX], path[WIRE_PATH_MAX];
    char *text; /* FOLDER_FINISH: the manifest's; from malloc */
    size_t size;
    struct error error;  /* the result */
    struct error pruned; /* FOLDER_FINISH: of the removal of old checkpoints, which matters less */
};

/* Blocks; any thread. */
void folder_task_run(struct folder_task *task);
void folder_task_free(struct folder_task *task);

#endif
