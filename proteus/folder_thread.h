/* A thread that does the controller's tasks on a folder of checkpoints among objects, one by one, while the loop
 * runs. */
#ifndef PROTEUS_FOLDER_THREAD_H
#define PROTEUS_FOLDER_THREAD_H

#include "agileml/control/state/folder_task.h"
#include "agileml/net/zmq.h"

enum { FOLDER_THREAD_CLOSE_MS = 15 * 1000 /* how long the last tasks may take at the end */ };

struct folder_thread;

/* Starts the thread. `done` is called on the loop of `io` with each finished task, whose ownership it takes. */
int folder_thread_open(struct folder_thread **thread, struct net_io *io,
                       void (*done)(void *context, struct folder_task *task), void *context, struct error *error);
/* Takes ownership of a task. Tasks are done in order. */
void folder_thread_add(struct folder_thread *thread, struct folder_task *task);
/* Waits until all tasks are done, at most FOLDER_THREAD_CLOSE_MS; `done` is not called. NULL is allowed. */
void folder_thread_close(struct folder_thread *thread);

#endif
