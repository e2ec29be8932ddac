/* Checkpoints of a server's replicas: when their clock has come, a hook writes them. See server_private.h. */
#include "agileml/ps/server_private.h"

#include <stdlib.h>
#include <string.h>

static void send_written(struct server *server, const struct message_written *written) {
    struct message message = {.type = MESSAGE_WRITTEN, .epoch = server->epoch, .written = *written};
    server->io->send(server->io, actor_of_part(server->self, 0), &message);
}

static void send_not_written(struct server *server, uint32_t number, uint64_t clock, const char *why) {
    struct error error = {0};
    error_set(&error, AML_EFAIL, "partition %u at clock %llu: %s", number, (unsigned long long)clock, why);
    struct message_written written = {.partition = number, .clock = clock, .code = error.code};
    memcpy(written.text, error.text, sizeof written.text);
    send_written(server, &written);
}

static void checkpoint_over(struct server_replica *replica) {
    replica->checkpoint = 0;
    replica->writing = false;
    replica->in_place = false;
    free(replica->checkpoint_path);
    replica->checkpoint_path = NULL;
}

void replica_no_checkpoint(struct server *server, struct server_replica *replica, const char *why) {
    if (replica->checkpoint != 0 && !replica->writing) {
        send_not_written(server, replica->partition->id, replica->checkpoint, why);
        checkpoint_over(replica);
    }
}

void replica_checkpoint(struct server *server, struct server_replica *replica) {
    struct partition *partition = replica->partition;
    if (replica->checkpoint == 0 || replica->writing) {
        return;
    }
    uint64_t next = partition->held_count > 0 ? partition->held[0].update.clock : replica->checkpoint;
    if (partition->clock > replica->checkpoint ||
        (partition->clock < replica->checkpoint && next > replica->checkpoint)) {
        replica_no_checkpoint(server, replica, "the replica has passed it");
        return;
    }
    if (partition->clock < replica->checkpoint) {
        return;
    }
    replica->writing = true;
    replica->in_place = !replica_may_serve(server, replica); /* such a one changes only when we let it */
    if (!replica->in_place) {
        struct error error = {0};
        partition = partition_copy(partition, &error);
        if (partition == NULL) {
            replica->writing = false;
            replica_no_checkpoint(server, replica, error.text);
            return;
        }
    }
    for (unsigned t = 0; t < server->job->table_count; t++) {
        partition_settle(partition, t);
    }
    server->hooks.write(server->hooks.context, partition, replica->checkpoint, !replica->in_place,
                        replica->checkpoint_path);
}

void receive_checkpoint(struct server *server, const struct message *message) {
    const uint32_t *numbers = (const void *)message->frames[0]->data;
    uint64_t clock = message->checkpoint.clock;
    for (size_t i = 0; i < message->frames[0]->size / sizeof *numbers; i++) {
        struct server_replica *replica = numbers[i] < server->partition_count ? &server->replicas[numbers[i]] : NULL;
        if (replica == NULL || replica->partition == NULL || !replica->whole || server->hooks.write == NULL) {
            send_not_written(server, numbers[i], clock, "no such replica here");
        } else if (replica->written != NULL && replica->written->clock == clock) {
            send_written(server, replica->written);
        } else if (replica->checkpoint != clock) {
            if (replica->writing) {
                send_not_written(server, numbers[i], clock, "another one is being written");
                continue;
            }
            replica_no_checkpoint(server, replica, "another one was asked for");
            replica->checkpoint = clock;
            replica->checkpoint_path = memory_string(message->checkpoint.path);
            replica_checkpoint(server, replica);
        }
    }
}

void server_written(struct server *server, const struct message_written *written) {
    send_written(server, written);
    struct server_replica *replica =
        written->partition < server->partition_count ? &server->replicas[written->partition] : NULL;
    if (replica != NULL && replica->writing && replica->checkpoint == written->clock) {
        checkpoint_over(replica);
        if (written->code == 0) {
            replica->written = memory_resized(replica->written, 1, sizeof *replica->written);
            *replica->written = *written;
        }
        replica_commit(server, replica);
    }
    if (server->later_plan.type != 0) {
        struct message plan = server->later_plan;
        server->later_plan = (struct message){0};
        server_receive(server, actor_of_part(server->self, 0), &plan);
        message_close(&plan);
    }
}
