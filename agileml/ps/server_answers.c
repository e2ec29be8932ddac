/* A server's reports to its agent, and its answers to requests that it can't serve yet. See server_private.h. */
#include "agileml/ps/server_private.h"

#include <stdio.h>
#include <string.h>

void server_fail(struct server *server, const struct error *error) {
    struct message fail = {.type = MESSAGE_FAIL, .epoch = server->epoch};
    fail.text.code = error->code;
    memcpy(fail.text.text, error->text, sizeof fail.text.text);
    server->io->send(server->io, server_agent(server), &fail);
}

uint32_t server_partition_of(const struct message *message) {
    switch ((unsigned)message->type) {
    case MESSAGE_SUBSCRIBE:
        return message->subscribe.partition;
    case MESSAGE_PULL:
        return message->pull.partition;
    case MESSAGE_FLUSH:
        return message->flush.partition;
    case MESSAGE_PUSH:
        return message->push.partition;
    case MESSAGE_SCAN:
        return message->scan.partition;
    case MESSAGE_FOLLOW:
        return message->follow.partition;
    case MESSAGE_UPDATE:
        return message->update.partition;
    default:
        return UINT32_MAX;
    }
}

void server_accuse(struct server *server, actor_id from, const struct message *message, const struct error *error) {
    if (!server_knows(server, from) || server->accused) {
        return;
    }
    struct message accuse = {.type = MESSAGE_ACCUSE, .epoch = server->epoch};
    accuse.accuse.accused = actor_node(from);
    snprintf(accuse.accuse.text, sizeof accuse.accuse.text, "%s: partition %u, %.400s", message_name(message->type),
             server_partition_of(message), error->text);
    server->accused = true;
    server->io->send(server->io, server_agent(server), &accuse);
}

void server_answer_later(struct server *server, actor_id from, const struct message *message) {
    if (message->type == MESSAGE_SUBSCRIBE || message->type == MESSAGE_PULL) {
        struct message push = {.type = MESSAGE_PUSH, .epoch = message->epoch};
        push.push.partition = server_partition_of(message);
        server->io->send(server->io, from, &push);
    }
}

bool server_serves(const struct server *server, uint32_t partition, uint64_t clock) {
    return !server->fenced && server_replica_of(server, partition) != NULL &&
           plan_server_at(&server->plan, clock, partition) == server->self;
}
