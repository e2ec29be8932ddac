/* See folder_task.h. */
#include "agileml/control/state/folder_task.h"

#include <stdio.h>
#include <stdlib.h>

void folder_task_run(struct folder_task *task) {
    char folder[WIRE_PATH_MAX];
    switch (task->kind) {
    case FOLDER_BEGIN:
        (void)manifest_begin(task->root, task->clock, task->number, task->path, &task->error);
        break;
    case FOLDER_FINISH:
        snprintf(folder, sizeof folder, "%s", task->path);
        if (manifest_finish(task->root, folder, task->clock, task->text, task->size, task->path, &task->error) == 0) {
            (void)manifest_prune(task->root, task->keep, &task->pruned);
        }
        break;
    case FOLDER_DISCARD:
        (void)manifest_discard(task->root, &task->error);
        break;
    }
}

void folder_task_free(struct folder_task *task) {
    free(task->text);
    free(task);
}
