/* See folder_thread.h. */
#include "proteus/folder_thread.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct task_queue {
    struct folder_task *first, **last;
};

struct folder_thread {
    pthread_t handle;
    int event; /* readable when a task is done */
    void (*done)(void *context, struct folder_task *task);
    void *context;

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    struct task_queue waiting, through;
    bool closing;
};

static void queue_add(struct task_queue *queue, struct folder_task *task) {
    task->next = NULL;
    *queue->last = task;
    queue->last = &task->next;
}

static struct folder_task *queue_take(struct task_queue *queue) {
    struct folder_task *task = queue->first;
    if (task != NULL) {
        queue->first = task->next;
        queue->last = queue->first == NULL ? &queue->first : queue->last;
    }
    return task;
}

static void *thread_main(void *argument) {
    struct folder_thread *thread = argument;
    pthread_mutex_lock(&thread->lock);
    for (;;) {
        struct folder_task *task = queue_take(&thread->waiting);
        if (task == NULL && thread->closing) {
            break;
        }
        if (task == NULL) {
            pthread_cond_wait(&thread->changed, &thread->lock);
            continue;
        }
        pthread_mutex_unlock(&thread->lock);
        folder_task_run(task);
        pthread_mutex_lock(&thread->lock);
        queue_add(&thread->through, task);
        (void)eventfd_write(thread->event, 1);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

/* Calls `done` for finished tasks. */
static void tasks_through(void *context) {
    struct folder_thread *thread = context;
    eventfd_t value;
    (void)eventfd_read(thread->event, &value);
    for (;;) {
        pthread_mutex_lock(&thread->lock);
        struct folder_task *task = queue_take(&thread->through);
        pthread_mutex_unlock(&thread->lock);
        if (task == NULL) {
            return;
        }
        thread->done(thread->context, task);
    }
}

/* Starts the thread with all signals blocked, so that the loop receives them. */
static int thread_start(struct folder_thread *thread) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int failed = pthread_create(&thread->handle, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int folder_thread_open(struct folder_thread **opened, struct net_io *io,
                       void (*done)(void *context, struct folder_task *task), void *context, struct error *error) {
    struct folder_thread *thread = memory_zeroed(1, sizeof *thread);
    *opened = NULL;
    thread->done = done;
    thread->context = context;
    thread->waiting.last = &thread->waiting.first;
    thread->through.last = &thread->through.first;
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    thread->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = thread->event < 0 ? errno : thread_start(thread);
    if (failed != 0) {
        if (thread->event >= 0) {
            close(thread->event);
        }
        free(thread);
        return error_set(error, AML_EFAIL, "can't start a thread for checkpoints: %s", strerror(failed));
    }
    *opened = thread;
    return net_io_watch(io, thread->event, tasks_through, thread) == 0
               ? 0
               : error_set(error, AML_EFAIL, "can't watch a descriptor");
}

void folder_thread_add(struct folder_thread *thread, struct folder_task *task) {
    pthread_mutex_lock(&thread->lock);
    queue_add(&thread->waiting, task);
    pthread_cond_signal(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
}

void folder_thread_close(struct folder_thread *thread) {
    if (thread == NULL) {
        return;
    }
    struct timespec until = clock_after_ms(CLOCK_REALTIME, FOLDER_THREAD_CLOSE_MS);
    struct folder_task *task;
    pthread_mutex_lock(&thread->lock);
    thread->closing = true;
    pthread_cond_signal(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    if (pthread_timedjoin_np(thread->handle, NULL, &until) != 0) {
        log_warn("the storage of checkpoints does not answer: what was left unfinished there stays");
        return; /* leaks it: the thread still uses its memory */
    }
    while ((task = queue_take(&thread->through)) != NULL) {
        folder_task_free(task);
    }
    close(thread->event);
    pthread_mutex_destroy(&thread->lock);
    pthread_cond_destroy(&thread->changed);
    free(thread);
}
