/* See server.h. */
#include "agileml/ps/server.h"

#include "agileml/base/log.h"

#include <stdlib.h>
#include <string.h>

void server_init(struct server *server, struct io *io, actor_id self, const struct job *job) {
    *server = (struct server){.io = io, .self = self, .job = job};
}

void server_close(struct server *server) {
    for (uint32_t p = 0; p < server->partition_count; p++) {
        partition_close(server->partitions[p]);
    }
    free(server->partitions);
    free(server->scans);
    memset(server, 0, sizeof *server);
}

static struct partition *server_partition(struct server *server, uint32_t number) {
    return number < server->partition_count ? server->partitions[number] : NULL;
}

/* A failure of this server ends the job: its own node's agent tells the controller. */
static void server_fail(struct server *server, const struct error *error) {
    struct message fail = {.type = MESSAGE_FAIL, .epoch = server->epoch};
    fail.text.code = error->code;
    memcpy(fail.text.text, error->text, sizeof fail.text.text);
    server->io->send(server->io, actor_of_part(server->self, 0), &fail);
}

/* The distinct owners in a plan's shard frame, in order of first appearance. The caller frees. */
static actor_id *plan_origins(const struct message *plan, unsigned *count) {
    const actor_id *owners = (const void *)plan->frames[2]->data;
    actor_id *origins = memory_resized(NULL, plan->plan.shards + 1U, sizeof *origins);
    *count = 0;
    for (uint32_t s = 0; s < plan->plan.shards; s++) {
        unsigned known = 0;
        while (known < *count && origins[known] != owners[s]) {
            known++;
        }
        if (known == *count) {
            origins[(*count)++] = owners[s];
        }
    }
    return origins;
}

static void server_plan(struct server *server, actor_id from, const struct message *plan) {
    if (actor_node(from) != actor_node(server->self) || plan->epoch <= server->epoch) {
        return; /* only our own agent tells us; a repeat or an old plan changes nothing */
    }
    if (server->epoch > 0 && plan->plan.partitions != server->partition_count) {
        return; /* the number of partitions is fixed at start */
    }
    server->epoch = plan->epoch;
    if (server->partitions == NULL) {
        server->partition_count = plan->plan.partitions;
        server->partitions = memory_zeroed(plan->plan.partitions, sizeof(struct partition *));
    }
    const actor_id *placement = (const void *)plan->frames[1]->data;
    unsigned origin_count;
    actor_id *origins = plan_origins(plan, &origin_count);
    for (uint32_t p = 0; p < plan->plan.partitions; p++) {
        if (placement[p] != server->self) {
            continue;
        }
        if (server->partitions[p] == NULL) {
            struct error error = {0};
            server->partitions[p] = partition_open(server->job, p, plan->plan.partitions, &error);
            if (server->partitions[p] == NULL) {
                server_fail(server, &error);
                break;
            }
        }
        partition_expect(server->partitions[p], origins, origin_count, plan->plan.from_clock);
    }
    free(origins);
}

static void push_head(const struct server *server, const struct partition *partition, actor_id to, uint64_t from_clock,
                      struct message *push) {
    *push = (struct message){.type = MESSAGE_PUSH, .epoch = server->epoch};
    push->push.partition = partition->id;
    push->push.from_clock = from_clock;
    push->push.clock = partition->clock;
    push->push.committed = partition->clock; /* stage 1: what a ParamServ completed is on a reliable machine */
    push->push.received = partition_received(partition, to);
}

static void server_push_all(struct server *server, struct partition *partition) {
    struct message model = {0};
    const struct subscription *model_subscription = NULL;
    for (unsigned s = 0; s < partition->subscription_count; s++) {
        struct subscription *subscription = &partition->subscriptions[s];
        struct message push;
        push_head(server, partition, subscription->subscriber, subscription->sent_clock, &push);
        bool share = model_subscription != NULL && model_subscription->sent_clock == partition->clock &&
                     model.push.from_clock == subscription->sent_clock;
        partition_changes(partition, subscription, subscription->sent_clock, share ? model_subscription : NULL,
                          share ? &model : NULL, &push);
        subscription->sent_clock = partition->clock;
        message_close(&model);
        model = message_share(&push);
        model_subscription = subscription;
        server->io->send(server->io, subscription->subscriber, &push);
    }
    message_close(&model);
}

static void server_scan(struct server *server, actor_id to, const struct message_scan *scan) {
    struct partition *partition = server_partition(server, scan->partition);
    struct message rows = {.type = MESSAGE_ROWS, .epoch = server->epoch};
    rows.rows.partition = scan->partition;
    rows.rows.table = scan->table;
    rows.rows.cursor = scan->cursor;
    rows.rows.next = partition_scan(partition, scan->table, scan->cursor, SERVER_SCAN_BYTES, &rows);
    server->io->send(server->io, to, &rows);
}

static void server_advance(struct server *server, struct partition *partition) {
    if (!partition_advance(partition)) {
        return;
    }
    server_push_all(server, partition);
    for (unsigned i = 0; i < server->scan_count;) {
        struct scan_request *request = &server->scans[i];
        if (request->scan.partition == partition->id && partition->clock >= request->scan.min_clock) {
            server_scan(server, request->from, &request->scan);
            server->scans[i] = server->scans[--server->scan_count];
        } else {
            i++;
        }
    }
}

static void receive_subscribe(struct server *server, struct partition *partition, actor_id from,
                              const struct message *message) {
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, server->job->shapes, server->job->table_count, views, &error);
    if (count < 0 || partition_subscribe(partition, from, message->subscribe.request, views, (unsigned)count, &error)) {
        server_fail(server, &error);
        return;
    }
    struct message push;
    push_head(server, partition, from, 0, &push);
    push.push.request = message->subscribe.request;
    partition_rows(partition, views, (unsigned)count, &push);
    server->io->send(server->io, from, &push);
}

static void receive_pull(struct server *server, struct partition *partition, actor_id from,
                         const struct message *pull) {
    struct subscription *subscription = partition_subscription(partition, from);
    struct message push;
    push_head(server, partition, from, pull->pull.clock, &push);
    if (subscription == NULL || pull->pull.clock >= partition->clock) {
        push.push.clock = pull->pull.clock; /* nothing new, but we are here */
    } else {
        partition_changes(partition, subscription, pull->pull.clock, NULL, NULL, &push);
        subscription->sent_clock = partition->clock;
    }
    server->io->send(server->io, from, &push);
}

static void receive_flush(struct server *server, struct partition *partition, const struct message *message) {
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, server->job->shapes, server->job->table_count, views, &error);
    int result = count < 0 ? count
                           : partition_flush(partition, message->flush.origin, message->flush.clock, message, views,
                                             (unsigned)count, &error);
    if (result < 0) {
        server_fail(server, &error);
    } else if (result == FLUSH_TAKEN) {
        server_advance(server, partition);
    }
}

static void receive_scan(struct server *server, struct partition *partition, actor_id from,
                         const struct message_scan *scan) {
    if (scan->table >= server->job->table_count) {
        return;
    }
    if (partition->clock >= scan->min_clock) {
        server_scan(server, from, scan);
    } else if (server->scan_count < SERVER_SCANS_MAX) { /* else the reader asks again */
        server->scans = memory_resized(server->scans, server->scan_count + 1, sizeof *server->scans);
        server->scans[server->scan_count++] = (struct scan_request){.from = from, .scan = *scan};
    }
}

void server_receive(void *self, actor_id from, struct message *message) {
    struct server *server = self;
    if (message->type == MESSAGE_PLAN) {
        server_plan(server, from, message);
        return;
    }
    uint32_t number = message->type == MESSAGE_SUBSCRIBE ? message->subscribe.partition
                      : message->type == MESSAGE_PULL    ? message->pull.partition
                      : message->type == MESSAGE_FLUSH   ? message->flush.partition
                      : message->type == MESSAGE_SCAN    ? message->scan.partition
                                                         : UINT32_MAX;
    struct partition *partition = server_partition(server, number);
    if (partition == NULL || message->epoch != server->epoch) {
        return; /* another epoch's: whoever sent it asks again once the plan has reached both */
    }
    switch ((unsigned)message->type) {
    case MESSAGE_SUBSCRIBE:
        receive_subscribe(server, partition, from, message);
        break;
    case MESSAGE_PULL:
        receive_pull(server, partition, from, message);
        break;
    case MESSAGE_FLUSH:
        receive_flush(server, partition, message);
        break;
    default:
        receive_scan(server, partition, from, &message->scan);
        break;
    }
}

void server_timer(void *self) {
    (void)self; /* the server only answers */
}
