/* The thread of a process's pulse. See runtime_private.h. */
#include "workers/runtime_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void thread_stop(void *context) {
    struct pulse_thread *thread = context;
    net_io_stop(thread->io);
}

static void thread_connected(void *self, actor_id peer) {
    pulse_connected(self, peer);
}

/* Does nothing. To this pulse a peer that refuses connections is silent; the parts of the node that need it report
 * it. */
static void thread_refused(void *self, const char *endpoint, const char *why) {
    (void)self;
    (void)endpoint;
    (void)why;
}

static void *thread_main(void *argument) {
    const struct pulse_thread *thread = argument;
    struct error error = {0};
    if (net_io_run(thread->io, &error) != 0) {
        /* The node fails with this error. Without its pulse it would be given up all the same, and nobody would know
         * why. */
        struct io *io = net_io_of(thread->io);
        struct message fail = {.type = MESSAGE_FAIL, .text.code = error.code};
        snprintf(fail.text.text, sizeof fail.text.text, "the thread of the node's pulse: %.400s", error.text);
        io->send(io, actor_node(thread->pulse.self), &fail);
    }
    return NULL;
}

int pulse_thread_open(struct pulse_thread *thread, struct runtime *runtime, struct error *error) {
    char bind[WIRE_ENDPOINT_MAX];
    snprintf(bind, sizeof bind, "tcp://%s:*", runtime->options.listen);
    thread->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->stop < 0) {
        return error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno));
    }
    thread->opened = true;
    const struct net_io_options options = {
        .self = actor_pulse(runtime->self),
        .bind = bind,
        .advertise = runtime->options.advertise,
        .apart = true,
        .actor = {.receive = pulse_receive, .timer = pulse_timer, .broken = pulse_broken, .self = &thread->pulse},
        .refused = thread_refused,
        .connected = thread_connected,
        .warning = runtime_warning,
    };
    int result = net_io_open(&thread->io, runtime->net, &options, error);
    if (result != 0) {
        return result;
    }
    thread->endpoint.actor = options.self;
    snprintf(thread->endpoint.endpoint, sizeof thread->endpoint.endpoint, "%s", net_io_endpoint(thread->io));
    pulse_init(&thread->pulse, net_io_of(thread->io), options.self, runtime->options.controller);
    result = net_io_watch(thread->io, thread->stop, thread_stop, thread);
    if (result == 0) {
        int failed = pthread_create(&thread->handle, NULL, thread_main, thread);
        result = failed != 0 ? error_set(error, AML_EFAIL, "can't start the pulse's thread: %s", strerror(failed)) : 0;
    }
    thread->started = result == 0;
    return result;
}

void pulse_thread_end(struct pulse_thread *thread) {
    if (thread->started) {
        event_raise(thread->stop);
        pthread_join(thread->handle, NULL);
    }
    if (thread->io != NULL) {
        net_io_close(thread->io);
        pulse_close(&thread->pulse);
    }
    if (thread->opened) {
        close(thread->stop);
    }
}
