/* See bare.h. */
#include "bench/ps/bare.h"

#include "agileml/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum {
    BARE_HEAD_BYTES = 64,     /* about the size of a head frame */
    BARE_DIRECTORY_BYTES = 8, /* size of the directory of one table */
    BARE_PATIENCE_MS = 30000
};

/* Requests an operation on a partition. */
struct bare_head {
    uint32_t partition;
    uint32_t pull;
    unsigned char padding[BARE_HEAD_BYTES - 8];
};

static int bare_error(struct error *error, const char *what) {
    return error_set(error, AML_EFAIL, "bare ZeroMQ: %s: %s", what, zmq_strerror(errno));
}

static int bare_open(struct bare *bare, const struct shape *shape, int type, struct error *error) {
    int none = 0;
    int patience = BARE_PATIENCE_MS;
    *bare = (struct bare){.shape = *shape};
    size_t rows = shape_rows(shape, 0);
    bare->keys = memory_zeroed(rows, sizeof(uint64_t));
    bare->values = memory_zeroed(rows * shape->width, sizeof(float));
    /* so that pages are distinct memory, not the system's shared page of zeros */
    memset(bare->keys, 1, rows * sizeof(uint64_t));
    memset(bare->values, 1, rows * shape->width * sizeof(float));
    bare->context = zmq_ctx_new();
    bare->socket = bare->context != NULL ? zmq_socket(bare->context, type) : NULL;
    if (bare->socket == NULL || zmq_setsockopt(bare->socket, ZMQ_LINGER, &none, sizeof none) != 0) {
        return bare_error(error, "can't open a socket");
    }
    if (type == ZMQ_DEALER) {
        zmq_setsockopt(bare->socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    }
    return 0;
}

/* Sends a frame without a copy. The buffer stays ours: it never changes, and lives until the frame is sent. */
static int send_frame(void *socket, void *data, size_t size, bool more) {
    zmq_msg_t part;
    if (zmq_msg_init_data(&part, data, size, NULL, NULL) != 0) {
        return -1;
    }
    return zmq_msg_send(&part, socket, more ? ZMQ_SNDMORE : 0);
}

/* Sends a whole partition: head, directory, keys, values. */
static int send_rows(const struct bare *bare, const struct bare_head *head) {
    static const unsigned char directory[BARE_DIRECTORY_BYTES];
    size_t rows = shape_rows(&bare->shape, head->partition);
    return zmq_send(bare->socket, head, sizeof *head, ZMQ_SNDMORE) < 0 ||
                   zmq_send(bare->socket, directory, sizeof directory, ZMQ_SNDMORE) < 0 ||
                   send_frame(bare->socket, bare->keys, rows * sizeof(uint64_t), true) < 0 ||
                   send_frame(bare->socket, bare->values, rows * bare->shape.width * sizeof(float), false) < 0
               ? -1
               : 0;
}

/* Receives the rest of a message, after its head. */
static int receive_rest(void *socket, bool more) {
    while (more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, 0) < 0) {
            return -1;
        }
        more = zmq_msg_more(&part) != 0;
        zmq_msg_close(&part);
    }
    return 0;
}

static int receive_head(void *socket, struct bare_head *head) {
    int more = 0;
    size_t size = sizeof more;
    return zmq_recv(socket, head, sizeof *head, 0) == (int)sizeof *head &&
                   zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && receive_rest(socket, more != 0) == 0
               ? 0
               : -1;
}

/* ---- The server's process ---- */

static void *bare_server_run(void *argument) {
    struct bare *bare = argument;
    for (;;) {
        unsigned char name[256];
        struct bare_head head;
        int size = zmq_recv(bare->socket, name, sizeof name, 0);
        if (size < 0 || receive_head(bare->socket, &head) != 0 || head.partition >= bare->shape.partitions ||
            zmq_send(bare->socket, name, (size_t)size, ZMQ_SNDMORE) < 0) {
            break; /* the context was shut down */
        }
        if (head.pull != 0 ? send_rows(bare, &head) != 0 : zmq_send(bare->socket, &head, sizeof head, 0) < 0) {
            break;
        }
    }
    zmq_close(bare->socket);
    return NULL;
}

int bare_server_open(struct bare *bare, const struct shape *shape, char endpoint[BARE_ENDPOINT_MAX],
                     struct error *error) {
    size_t size = BARE_ENDPOINT_MAX;
    int result = bare_open(bare, shape, ZMQ_ROUTER, error);
    if (result != 0) {
        return result;
    }
    if (zmq_bind(bare->socket, "tcp://127.0.0.1:*") != 0 ||
        zmq_getsockopt(bare->socket, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0) {
        return bare_error(error, "can't listen");
    }
    bare->started = pthread_create(&bare->thread, NULL, bare_server_run, bare) == 0;
    return bare->started ? 0 : error_set(error, AML_EFAIL, "can't start a thread");
}

void bare_server_close(struct bare *bare) {
    if (bare->started) {
        zmq_ctx_shutdown(bare->context); /* the thread closes its socket */
        pthread_join(bare->thread, NULL);
        bare->socket = NULL;
    }
    bare_worker_close(bare);
}

/* ---- The worker's process ---- */

int bare_worker_open(struct bare *bare, const struct shape *shape, const char *endpoint, struct error *error) {
    int result = bare_open(bare, shape, ZMQ_DEALER, error);
    if (result == 0 && zmq_connect(bare->socket, endpoint) != 0) {
        result = bare_error(error, "can't connect");
    }
    return result;
}

void bare_worker_close(struct bare *bare) {
    if (bare->socket != NULL) {
        zmq_close(bare->socket);
    }
    if (bare->context != NULL) {
        zmq_ctx_term(bare->context);
    }
    free(bare->keys);
    free(bare->values);
}

static int await_answers(const struct bare *bare, struct error *error) {
    for (uint32_t p = 0; p < bare->shape.partitions; p++) {
        struct bare_head head;
        if (receive_head(bare->socket, &head) != 0) {
            return bare_error(error, "no answer");
        }
    }
    return 0;
}

int bare_push(struct bare *bare, struct error *error) {
    for (uint32_t p = 0; p < bare->shape.partitions; p++) {
        const struct bare_head head = {.partition = p};
        if (send_rows(bare, &head) != 0) {
            return bare_error(error, "can't send");
        }
    }
    return await_answers(bare, error);
}

int bare_pull(struct bare *bare, struct error *error) {
    for (uint32_t p = 0; p < bare->shape.partitions; p++) {
        const struct bare_head head = {.partition = p, .pull = 1};
        if (zmq_send(bare->socket, &head, sizeof head, 0) < 0) {
            return bare_error(error, "can't send");
        }
    }
    return await_answers(bare, error);
}
