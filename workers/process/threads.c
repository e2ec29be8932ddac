/* The threads that run this process's other actors: the partition servers, each with a thread beside it that writes its
 * checkpoints, and the pulse. See runtime_private.h. */
#include "workers/process/runtime_private.h"

#include "agileml/ps/checkpoint.h"
#include "workers/data/crash.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- A thread that runs an actor ---- */

static int thread_open(struct actor_thread *thread, struct runtime *runtime, struct net_io_options options,
                       struct error *error) {
    char bind[WIRE_ENDPOINT_MAX];
    snprintf(bind, sizeof bind, "tcp://%s:*", runtime->options.listen);
    thread->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->stop < 0) {
        return error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno));
    }
    thread->opened = true;
    options.bind = bind;
    options.advertise = runtime->options.advertise;
    options.warning = runtime_warning;
    return net_io_open(&thread->io, runtime->net, &options, error);
}

static void thread_stop(void *context) {
    const struct actor_thread *thread = context;
    net_io_stop(thread->io);
}

static int thread_start(struct actor_thread *thread, void *(*run)(void *argument), void *argument, const char *name,
                        struct error *error) {
    int result = net_io_watch(thread->io, thread->stop, thread_stop, thread);
    if (result == 0) {
        int failed = pthread_create(&thread->handle, NULL, run, argument);
        result = failed != 0 ? error_set(error, AML_EFAIL, "can't start %s: %s", name, strerror(failed)) : 0;
    }
    thread->started = result == 0;
    return result;
}

/* Ends the thread and closes its io. Returns whether there was one. */
static bool thread_end(struct actor_thread *thread) {
    if (thread->started) {
        event_raise(thread->stop);
        pthread_join(thread->handle, NULL);
    }
    if (thread->io != NULL) {
        net_io_close(thread->io);
    }
    if (thread->opened) {
        close(thread->stop);
    }
    return thread->io != NULL;
}

/* Runs the actor until the thread is to stop. If that fails, fails the node with `what` and the error. */
static void thread_run(const struct actor_thread *thread, actor_id node, const char *what) {
    struct error error = {0};
    if (net_io_run(thread->io, &error) != 0) {
        struct io *io = net_io_of(thread->io);
        struct message fail = {.type = MESSAGE_FAIL, .text.code = error.code};
        snprintf(fail.text.text, sizeof fail.text.text, "%s%.400s", what, error.text);
        io->send(io, node, &fail);
    }
}

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
    assert(thread->jobs[0].partition != NULL);
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
    if (result == 0 && net_io_watch(thread->thread.io, thread->writer.done, writer_done, thread) != 0) {
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

/* ---- Servers ---- */

static void *server_main(void *argument) {
    const struct server_thread *thread = argument;
    crash_thread_begin(); /* the server calls the app's start functions of tables */
    thread_run(&thread->thread, thread->node, "");
    crash_thread_end();
    return NULL;
}

int server_thread_open(struct server_thread *thread, struct runtime *runtime, unsigned part, struct error *error) {
    const struct net_io_options options = {
        .self = actor_of_part(runtime->self, part),
        .actor = {.receive = server_receive, .timer = server_timer, .self = &thread->server},
        .lent_for = MESSAGE_FLUSH, /* the main thread may run this loop for its own flushes */
        .message_bytes = job_message_bytes(&runtime->job),
    };
    thread->node = runtime->self;
    int result = thread_open(&thread->thread, runtime, options, error);
    if (result != 0) {
        return result;
    }
    struct server_hooks hooks = {.write = hook_write, .read = hook_read, .context = thread};
    server_init(&thread->server, net_io_of(thread->thread.io), options.self, &runtime->job, &hooks);
    return thread_start(&thread->thread, server_main, thread, "a server thread", error);
}

bool server_thread_end(struct server_thread *thread) {
    bool opened = thread_end(&thread->thread);
    bool ended = writer_close(thread);
    if (opened && ended) {
        server_close(&thread->server);
    }
    return ended;
}

/* ---- The pulse ---- */

static void pulse_is_connected(void *self, actor_id peer) {
    pulse_connected(self, peer);
}

/* Does nothing. A peer that refuses connections is silent to this pulse. The parts of the node that need the peer
 * report the refusal. */
static void pulse_is_refused(void *self, const char *endpoint, const char *why) {
    (void)self;
    (void)endpoint;
    (void)why;
}

/* Runs the pulse, and fails the node if that fails: without its pulse the node would be given up, and no one would know
 * why. */
static void *pulse_main(void *argument) {
    const struct pulse_thread *thread = argument;
    thread_run(&thread->thread, actor_node(thread->pulse.self), "the thread of the node's pulse: ");
    return NULL;
}

int pulse_thread_open(struct pulse_thread *thread, struct runtime *runtime, struct error *error) {
    const struct net_io_options options = {
        .self = actor_pulse(runtime->self),
        .apart = true,
        .message_bytes = PULSE_MESSAGE_BYTES,
        .actor = {.receive = pulse_receive, .timer = pulse_timer, .broken = pulse_broken, .self = &thread->pulse},
        .refused = pulse_is_refused,
        .connected = pulse_is_connected,
    };
    int result = thread_open(&thread->thread, runtime, options, error);
    if (result != 0) {
        return result;
    }
    thread->endpoint.actor = options.self;
    snprintf(thread->endpoint.endpoint, sizeof thread->endpoint.endpoint, "%s", net_io_endpoint(thread->thread.io));
    pulse_init(&thread->pulse, net_io_of(thread->thread.io), options.self, runtime->options.controller);
    return thread_start(&thread->thread, pulse_main, thread, "the pulse's thread", error);
}

void pulse_thread_end(struct pulse_thread *thread) {
    if (thread_end(&thread->thread)) {
        pulse_close(&thread->pulse);
    }
}
