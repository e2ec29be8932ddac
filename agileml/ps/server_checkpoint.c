/* Checkpoints of a server's replicas, and commits. A hook writes a replica when it is at the clock of a requested
 * checkpoint. A commit beyond that clock halts there first. See server_private.h. */
#include "agileml/ps/server_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void send_written(struct server *server, const struct message_written *written) {
    struct message message = {.type = MESSAGE_WRITTEN, .epoch = server->epoch, .written = *written};
    server->io->send(server->io, actor_of_part(server->self, 0), &message);
}

static void send_state(struct server *server, uint32_t partition, const struct message_checkpoint *checkpoint,
                       enum written_state state, const char *why) {
    struct message_written written = {
        .number = checkpoint->number, .partition = partition, .state = (uint8_t)state, .clock = checkpoint->clock};
    if (state != WRITTEN_PROMISED) {
        snprintf(written.text, sizeof written.text, "partition %u at clock %llu: %.400s", partition,
                 (unsigned long long)checkpoint->clock, why);
    }
    send_written(server, &written);
}

/* Checks that only a requested checkpoint is being written, and only one that is being written is read in place. */
static void check_checkpoint(const struct replica_checkpoint *checkpoint) {
    assert(!checkpoint->writing || checkpoint->asked != NULL);
    assert(!checkpoint->in_place || checkpoint->writing);
}

static void checkpoint_over(struct server_replica *replica) {
    free(replica->checkpoint.asked);
    replica->checkpoint.asked = NULL;
    replica->checkpoint.writing = false;
    replica->checkpoint.in_place = false;
}

void replica_no_checkpoint(struct server *server, struct server_replica *replica, const char *why) {
    if (replica->checkpoint.asked != NULL && !replica->checkpoint.writing) {
        send_state(server, replica->partition->id, replica->checkpoint.asked, WRITTEN_REFUSED, why);
        checkpoint_over(replica);
    }
}

/* Whether the replica can't reach exactly this clock any more: its own clock, or its next update's, is beyond. */
static bool replica_passed(const struct server_replica *replica, uint64_t clock) {
    const struct partition *partition = replica->partition;
    uint64_t next = partition->held_count > 0 ? partition->held[0].update.clock : clock;
    return partition->clock > clock || (partition->clock < clock && next > clock);
}

void replica_checkpoint(struct server *server, struct server_replica *replica) {
    struct partition *partition = replica->partition;
    const struct message_checkpoint *checkpoint = replica->checkpoint.asked;
    check_checkpoint(&replica->checkpoint);
    if (checkpoint == NULL || replica->checkpoint.writing) {
        return;
    }
    if (replica_passed(replica, checkpoint->clock)) {
        replica_no_checkpoint(server, replica, "the replica has passed this clock");
        return;
    }
    if (partition->clock < checkpoint->clock) {
        return;
    }
    replica->checkpoint.writing = true;
    /* A pure follower changes only by updates, which the server can hold back while the rows are written. */
    replica->checkpoint.in_place = !replica_may_serve(server, replica);
    if (!replica->checkpoint.in_place) {
        struct error error = {0};
        partition = partition_copy(partition, &error);
        if (partition == NULL) {
            replica->checkpoint.writing = false;
            replica_no_checkpoint(server, replica, error.text);
            return;
        }
    }
    assert(partition->clock == checkpoint->clock);
    for (unsigned t = 0; t < server->job->table_count; t++) {
        partition_settle(partition, t);
    }
    server->hooks.write(server->hooks.context, partition, checkpoint, !replica->checkpoint.in_place);
}

/* ---- Commit ---- */

void replica_commit(struct server *server, struct server_replica *replica) {
    struct partition *partition = replica->partition;
    struct error error = {0};
    uint64_t before = partition->clock;
    check_checkpoint(&replica->checkpoint);
    bool halts = true; /* a requested checkpoint's clock lies before the committed clock: stop there first */
    while (halts && !replica->checkpoint.in_place) {
        uint64_t halt = replica->checkpoint.asked != NULL ? replica->checkpoint.asked->clock : 0;
        halts = halt > partition->clock && halt < server->committed;
        if (partition_commit(partition, halts ? halt : server->committed, &error) != 0) {
            server_fail(server, &error);
            return;
        }
        replica_checkpoint(server, replica);
        halts = halts && (replica->checkpoint.asked == NULL || halt <= partition->clock);
    }
    assert(replica->checkpoint.in_place || partition->held_count == 0 ||
           partition->held[0].update.clock > server->committed || replica->checkpoint.asked != NULL);
    if (partition->clock != before && replica->state == REPLICA_HANDED_OVER) {
        replica_set(replica, REPLICA_FOLLOWING); /* its rows are newer than those it served */
    }
}

void server_commit(struct server *server, uint64_t committed) {
    if (committed <= server->committed) {
        return;
    }
    server->committed = committed;
    for (uint32_t p = 0; p < server->partition_count; p++) {
        if (server->replicas[p].partition != NULL) {
            replica_commit(server, &server->replicas[p]);
        }
    }
}

/* ---- Requests ---- */

static void checkpoint_ask(struct server *server, uint32_t number, const struct message_checkpoint *checkpoint) {
    struct server_replica *replica = number < server->partition_count ? &server->replicas[number] : NULL;
    if (replica == NULL || replica->partition == NULL || replica->state == REPLICA_COPYING ||
        server->hooks.write == NULL) {
        send_state(server, number, checkpoint, WRITTEN_REFUSED, "this node has no such replica");
    } else if (replica->checkpoint.written != NULL && replica->checkpoint.written->number == checkpoint->number) {
        send_written(server, replica->checkpoint.written);
    } else if (replica->checkpoint.asked != NULL && replica->checkpoint.asked->number == checkpoint->number) {
        send_state(server, number, checkpoint, WRITTEN_PROMISED, NULL);
    } else if (replica->checkpoint.writing) {
        send_state(server, number, checkpoint, WRITTEN_REFUSED, "an earlier checkpoint is still being written");
    } else if (replica_passed(replica, checkpoint->clock)) {
        send_state(server, number, checkpoint, WRITTEN_REFUSED, "the replica has passed this clock");
    } else {
        replica_no_checkpoint(server, replica, "another checkpoint was asked for");
        replica->checkpoint.asked = memory_zeroed(1, sizeof *checkpoint);
        *replica->checkpoint.asked = *checkpoint;
        send_state(server, number, checkpoint, WRITTEN_PROMISED, NULL);
        replica_checkpoint(server, replica);
    }
}

void server_receive_checkpoint(struct server *server, const struct message *message) {
    size_t count;
    const uint32_t *numbers = checkpoint_partitions(message, &count);
    for (size_t i = 0; i < count; i++) {
        checkpoint_ask(server, numbers[i], &message->checkpoint);
    }
}

void server_checkpoint_written(struct server *server, const struct message_written *written) {
    send_written(server, written);
    struct server_replica *replica =
        written->partition < server->partition_count ? &server->replicas[written->partition] : NULL;
    if (replica != NULL && replica->checkpoint.writing && replica->checkpoint.asked->number == written->number) {
        checkpoint_over(replica);
        if (written->state == WRITTEN_DONE) {
            replica->checkpoint.written =
                memory_resized(replica->checkpoint.written, 1, sizeof *replica->checkpoint.written);
            *replica->checkpoint.written = *written;
        }
        replica_commit(server, replica);
    }
}
