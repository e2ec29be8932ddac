/* The thread of a partition server, and the thread beside it that writes its checkpoints. See runtime_private.h. */
#include "workers/runtime_private.h"

#include "agileml/ps/checkpoint.h"
#include "workers/crash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- Checkpoints ---- */

static void writer_run(void *context, unsigned thread, int command) {
    (void)thread;
    (void)command;
    struct server_thread *server = context;
    const struct checkpoint_job *job = &server->writing;
    server->written = (struct message_written){.number = job->checkpoint.number};
    checkpoint_write(job->partition, job->checkpoint.clock, job->checkpoint.path, &server->written);
}

static void write_next(struct server_thread *thread) {
    if (thread->writing.partition != NULL || thread->job_count == 0) {
        return;
    }
    thread->writing = thread->jobs[0];
    memmove(thread->jobs, thread->jobs + 1, --thread->job_count * sizeof *thread->jobs);
    pool_begin(&thread->writer, 0);
}

static void job_close(struct checkpoint_job *job) {
    if (job->copy && job->partition != NULL) {
        partition_close(job->partition);
    }
    job->partition = NULL;
}

static void writer_done(void *context) {
    struct server_thread *thread = context;
    event_clear(thread->writer.done);
    job_close(&thread->writing);
    struct message_written written = thread->written;
    write_next(thread);
    server_written(&thread->server, &written);
}

static int writer_open(struct server_thread *thread, struct error *error) {
    if (thread->writer.handles != NULL) {
        return 0;
    }
    int result = pool_open(&thread->writer, 1, writer_run, thread, error);
    if (result == 0 && net_io_watch(thread->io, thread->writer.done, writer_done, thread) != 0) {
        pool_close(&thread->writer, RUNTIME_CLOSE_MS);
        return error_set(error, AML_EFAIL, "can't watch a descriptor");
    }
    return result;
}

static void hook_write(void *context, struct partition *partition, const struct message_checkpoint *checkpoint,
                       bool copy) {
    struct server_thread *thread = context;
    struct checkpoint_job job = {.partition = partition, .copy = copy, .checkpoint = *checkpoint};
    struct error error = {0};
    if (writer_open(thread, &error) != 0) {
        struct message_written written = {.number = checkpoint->number,
                                          .partition = partition->id,
                                          .state = WRITTEN_FAILED,
                                          .clock = checkpoint->clock};
        memcpy(written.text, error.text, sizeof written.text);
        job_close(&job);
        server_written(&thread->server, &written);
        return;
    }
    thread->jobs = memory_resized(thread->jobs, thread->job_count + 1, sizeof *thread->jobs);
    thread->jobs[thread->job_count++] = job;
    write_next(thread);
}

static int hook_read(void *context, struct partition *partition, const char *path, uint64_t clock,
                     struct error *error) {
    (void)context;
    return checkpoint_read(partition, path, clock, error);
}

/* Ends the writer. False when a file is still being written. */
static bool writer_close(struct server_thread *thread) {
    if (!pool_close(&thread->writer, RUNTIME_CLOSE_MS)) {
        return false;
    }
    job_close(&thread->writing);
    for (unsigned j = 0; j < thread->job_count; j++) {
        job_close(&thread->jobs[j]);
    }
    free(thread->jobs);
    return true;
}

/* ---- The thread ---- */

static void server_stop(void *context) {
    struct server_thread *thread = context;
    net_io_stop(thread->io);
}

static void *server_main(void *argument) {
    struct server_thread *thread = argument;
    struct error error = {0};
    crash_thread_begin(); /* the server calls the app's start functions of tables */
    if (net_io_run(thread->io, &error) != 0) {
        struct message fail = {.type = MESSAGE_FAIL};
        struct io *io = net_io_of(thread->io);
        fail.text.code = error.code;
        memcpy(fail.text.text, error.text, sizeof fail.text.text);
        io->send(io, thread->runtime->self, &fail);
    }
    crash_thread_end();
    return NULL;
}

int server_thread_open(struct server_thread *thread, struct runtime *runtime, unsigned part, struct error *error) {
    char bind[WIRE_ENDPOINT_MAX];
    snprintf(bind, sizeof bind, "tcp://%s:*", runtime->options.listen);
    thread->runtime = runtime;
    thread->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->stop < 0) {
        return error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno));
    }
    struct net_io_options options = {
        .self = actor_of_part(runtime->self, part),
        .bind = bind,
        .advertise = runtime->options.advertise,
        .actor = {.receive = server_receive, .timer = server_timer, .self = &thread->server},
        .lent_for = MESSAGE_FLUSH, /* the main thread may run this loop for its own flushes */
        .warning = runtime_warning,
    };
    int result = net_io_open(&thread->io, runtime->net, &options, error);
    if (result != 0) {
        return result;
    }
    struct server_hooks hooks = {.write = hook_write, .read = hook_read, .context = thread};
    server_init(&thread->server, net_io_of(thread->io), options.self, &runtime->job, &hooks);
    result = net_io_watch(thread->io, thread->stop, server_stop, thread);
    if (result == 0) {
        int failed = pthread_create(&thread->handle, NULL, server_main, thread);
        result = failed != 0 ? error_set(error, AML_EFAIL, "can't start a server thread: %s", strerror(failed)) : 0;
    }
    thread->started = result == 0;
    return result;
}

bool server_thread_end(struct server_thread *thread) {
    if (thread->started) {
        event_raise(thread->stop);
        pthread_join(thread->handle, NULL);
    }
    if (thread->io != NULL) {
        net_io_close(thread->io);
    }
    bool ended = writer_close(thread);
    if (thread->io != NULL && ended) {
        server_close(&thread->server);
    }
    if (thread->runtime != NULL && thread->stop >= 0) {
        close(thread->stop);
    }
    return ended;
}
