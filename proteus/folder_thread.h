/* A thread that does the controller's work on a folder of checkpoints among objects, task by task, beside the loop. */
#ifndef PROTEUS_FOLDER_THREAD_H
#define PROTEUS_FOLDER_THREAD_H

#include "agileml/control/folder_task.h"
#include "agileml/net/zmq.h"

enum { FOLDER_THREAD_CLOSE_MS = 15 * 1000 /* how long the last tasks may take at the end */ };

struct folder_thread;

/* Starts the thread. `done` is called on the loop of `io` with each task that is through, which it then owns. */
int folder_thread_open(struct folder_thread **thread, struct net_io *io,
                       void (*done)(void *context, struct folder_task *task), void *context, struct error *error);
/* Takes a task over. Tasks are done in the order in which they come. */
void folder_thread_add(struct folder_thread *thread, struct folder_task *task);
/* Waits until all tasks are done, but not for ever, and calls `done` for none of them. NULL is allowed. */
void folder_thread_close(struct folder_thread *thread);

#endif
