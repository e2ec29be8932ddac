/* See protocol.h. */
#include "bench/ps/protocol.h"

#include "bench/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PROTOCOL_PATIENCE_S = 30 };
static const char *const PROTOCOL_LISTEN = "tcp://127.0.0.1:0";

static void job_of_shape(struct job *job, const struct shape *shape) {
    *job = (struct job){.table_count = 1};
    job->tables[0] = (struct table_spec){.name = "floats",
                                         .type = AML_FLOAT32,
                                         .mode = AML_ADD,
                                         .width = shape->width,
                                         .row_bytes = shape->width * (uint32_t)sizeof(float),
                                         .rows = shape->rows};
    job->shapes[0] = table_shape(&job->tables[0]);
}

/* The worker's node is the only origin; the server serves all partitions. */
static struct message plan_of_shape(const struct shape *shape, const char *endpoint) {
    struct message plan = {.type = MESSAGE_PLAN, .epoch = 1};
    const struct wire_node nodes[] = {{.actor = SHAPE_WORKER, .name = "worker", .threads = 1},
                                      {.actor = SHAPE_SERVER_AGENT, .name = "server", .threads = 1},
                                      {.actor = SHAPE_READER, .name = "reader", .threads = 1}};
    struct wire_endpoint server = {.actor = SHAPE_SERVER};
    strncpy(server.endpoint, endpoint, sizeof server.endpoint - 1);
    const struct wire_assignment assignment = {
        .origin = SHAPE_WORKER, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1};
    const uint32_t shard = 0;
    plan.plan = (struct message_plan){.version = 1,
                                      .from_clock = 1,
                                      .commit_every = 1,
                                      .next_commit_every = 1,
                                      .partitions = shape->partitions,
                                      .shards = 1};
    plan.frames[0] = buffer_copy(nodes, sizeof nodes);
    plan.frames[1] = buffer_new(shape->partitions * sizeof(struct wire_placement));
    for (uint32_t p = 0; p < shape->partitions; p++) {
        ((struct wire_placement *)(void *)plan.frames[1]->data)[p] =
            (struct wire_placement){.server = SHAPE_SERVER, .next_server = SHAPE_SERVER};
    }
    plan.frames[2] = buffer_copy(&assignment, sizeof assignment);
    plan.frames[3] = buffer_copy(&shard, sizeof shard);
    plan.frames[4] = buffer_copy(&server, sizeof server);
    plan.frame_count = 5;
    return plan;
}

/* ---- The server's process ---- */

static void server_stop(void *context) {
    struct protocol_server *server = context;
    net_io_stop(server->io);
}

static void *server_thread(void *argument) {
    struct protocol_server *server = argument;
    net_io_run(server->io, NULL);
    return NULL;
}

static void agent_receive(void *self, actor_id from, struct message *message) {
    (void)self;
    (void)from;
    (void)message; /* the agent only distributes the plan */
}

int protocol_server_open(struct protocol_server *server, const struct shape *shape, struct error *error) {
    /* workers show the controller's token */
    const struct net_options net_options = {.key = shape->key, .controller = true};
    const struct net_io_options agent = {.self = SHAPE_SERVER_AGENT, .actor = {.receive = agent_receive}};
    const struct net_io_options options = {
        .self = SHAPE_SERVER,
        .bind = PROTOCOL_LISTEN,
        .actor = {.receive = server_receive, .timer = server_timer, .self = &server->server}};
    *server = (struct protocol_server){.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    job_of_shape(&server->job, shape);
    int result = server->stop < 0 ? error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno)) : 0;
    result = result != 0 ? result : net_open(&server->net, &net_options, error);
    result = result != 0 ? result : net_io_open(&server->agent, server->net, &agent, error);
    result = result != 0 ? result : net_io_open(&server->io, server->net, &options, error);
    result = result != 0 ? result : net_io_watch(server->io, server->stop, server_stop, server);
    if (result != 0) {
        return result;
    }
    server_init(&server->server, net_io_of(server->io), SHAPE_SERVER, &server->job, NULL);
    struct message plan = plan_of_shape(shape, net_io_endpoint(server->io));
    net_io_of(server->agent)->send(net_io_of(server->agent), SHAPE_SERVER, &plan);
    server->started = pthread_create(&server->thread, NULL, server_thread, server) == 0;
    return server->started ? 0 : error_set(error, AML_EFAIL, "can't start a thread");
}

void protocol_server_close(struct protocol_server *server) {
    uint64_t one = 1;
    if (server->started && write(server->stop, &one, sizeof one) == (ssize_t)sizeof one) {
        pthread_join(server->thread, NULL);
    }
    net_io_close(server->io);
    net_io_close(server->agent);
    net_close(server->net);
    server_close(&server->server);
    close(server->stop);
}

/* ---- The worker's process ---- */

static void worker_look(struct protocol_worker *worker) {
    if (worker->done(worker)) {
        net_io_stop(worker->io);
    }
}

static void worker_receive(void *self, actor_id from, struct message *message) {
    struct protocol_worker *worker = self;
    client_receive(&worker->client, from, message);
    worker_look(worker);
}

/* Also checks whether an unlimited wait is over. */
static void worker_timer(void *self) {
    struct protocol_worker *worker = self;
    struct io *io = net_io_of(worker->io);
    if (measure_wall() > worker->deadline) {
        error_set(&worker->error, AML_EFAIL, "no answer from the server for %d seconds", PROTOCOL_PATIENCE_S);
        net_io_stop(worker->io);
        return;
    }
    uint64_t next = client_timer(&worker->client);
    io->set_timer(io, next != 0 ? next : io->now_us(io) + CLIENT_RETRY_MAX_US);
}

static int worker_wait(struct protocol_worker *worker, bool (*done)(const struct protocol_worker *worker),
                       struct error *error) {
    worker->done = done;
    worker->deadline = measure_wall() + PROTOCOL_PATIENCE_S;
    worker_timer(worker);
    int result = worker->error.code != 0 || done(worker) ? 0 : net_io_run(worker->io, &worker->error);
    return worker->error.code != 0 ? error_set(error, worker->error.code, "%s", worker->error.text) : result;
}

static bool worker_subscribed(const struct protocol_worker *worker) {
    return client_subscribed(&worker->client);
}

static bool worker_has_state(const struct protocol_worker *worker) {
    return client_has_state(&worker->client, worker->wanted);
}

int protocol_subscribe(struct protocol_worker *worker, struct error *error) {
    int result = client_subscribe(&worker->client, error);
    return result != 0 ? result : worker_wait(worker, worker_subscribed, error);
}

int protocol_worker_open(struct protocol_worker *worker, const struct shape *shape, actor_id self, const char *endpoint,
                         struct error *error) {
    const struct net_options net_options = {.key = shape->key};
    const struct net_io_options options = {.self = self,
                                           .actor = {.receive = worker_receive, .timer = worker_timer, .self = worker}};
    *worker = (struct protocol_worker){0};
    job_of_shape(&worker->job, shape);
    cache_open(&worker->cache, &worker->job, shape->partitions);
    int result = net_open(&worker->net, &net_options, error);
    result = result != 0 ? result : net_io_open(&worker->io, worker->net, &options, error);
    result = result != 0 ? result : net_io_connect(worker->io, SHAPE_SERVER, endpoint, error);
    if (result != 0) {
        return result;
    }
    client_init(&worker->client, net_io_of(worker->io), self, &worker->job, &worker->cache);
    struct message plan = plan_of_shape(shape, endpoint);
    struct plan_view view = plan_open(&plan);
    client_plan(&worker->client, &view);
    plan_close(&view);
    message_close(&plan);
    result = protocol_subscribe(worker, error); /* no rows, only the clocks */
    if (result == 0 && cache_reserve(&worker->cache, 0, shape->rows) != 0) {
        result = error_set(error, AML_ENOMEM, "no memory for %u rows", shape->rows);
    }
    for (uint32_t key = 0; key < shape->rows && result == 0; key++) {
        result = cache_add(&worker->cache, 0, key) < 0 ? AML_ENOMEM : 0;
    }
    return result;
}

void protocol_worker_close(struct protocol_worker *worker) {
    if (worker->client.partitions != NULL) {
        client_close(&worker->client);
    }
    net_io_close(worker->io);
    net_close(worker->net);
    cache_close(&worker->cache);
}

void protocol_change_rows(struct protocol_worker *worker) {
    struct cache_table *table = &worker->cache.tables[0];
    for (uint32_t slot = 0; slot < table->count; slot++) {
        float *row = (float *)(void *)cache_row(table, slot);
        for (uint32_t i = 0; i < table->spec->width; i++) {
            row[i] += 1;
        }
        table->touched.base[slot] = 1;
    }
}

int protocol_gather(struct protocol_worker *worker, struct error *error) {
    struct client *client = &worker->client;
    client_begin(client, SHAPE_WORKER, client->flushed + 1);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        int result = client_gather(client, p, error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

int protocol_push(struct protocol_worker *worker, struct error *error) {
    struct client *client = &worker->client;
    client_flush(client);
    worker->wanted = client->flushed;
    return worker_wait(worker, worker_has_state, error);
}

int protocol_pull(struct protocol_worker *worker, struct error *error) {
    struct client *client = &worker->client;
    struct io *io = net_io_of(worker->io);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct message pull = {
            .type = MESSAGE_PULL, .epoch = client->epoch, .pull = {.partition = p, .clock = 0, .again = 1}};
        client->partitions[p].clock = 0; /* as if no push had arrived since */
        io->send(io, SHAPE_SERVER, &pull);
    }
    worker->wanted = 1;
    return worker_wait(worker, worker_has_state, error);
}
