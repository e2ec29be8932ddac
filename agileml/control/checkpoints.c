/* The controller's part that has checkpoints written and takes one up (docs/design.md, "Checkpoints"). Folders and
 * manifests are few and small: written here; the partitions' files are the nodes' to write. See controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/control/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checkpoints of this job beside later ones of another would be taken for the older ones. */
static int check_root(const struct controller *controller, struct error *error) {
    const char *root = controller->options.checkpoint;
    char path[WIRE_PATH_MAX];
    struct error none = {0};
    struct manifest manifest = {0};
    if (root == NULL || manifest_find(root, path, &none) != 0 || manifest_read(path, &manifest, &none) != 0) {
        return 0;
    }
    uint64_t clock = manifest.clock;
    manifest_close(&manifest);
    return clock <= controller->restore
               ? 0
               : error_set(error, AML_EINPUT,
                           "--checkpoint %.300s: there is a checkpoint of clock %llu already: go on from it with "
                           "--resume, or choose another folder",
                           root, (unsigned long long)clock);
}

int checkpoints_open(struct controller *controller, struct error *error) {
    const struct controller_options *options = &controller->options;
    controller->checkpoint.due = options->checkpoint_every;
    if (options->resume == NULL) {
        return check_root(controller, error);
    }
    struct manifest manifest = {0};
    int result = manifest_find(options->resume, controller->resume, error);
    result = result != 0 ? result : manifest_read(controller->resume, &manifest, error);
    if (result != 0) {
        return result;
    }
    controller->job = manifest.job;
    controller->options.policy.partitions = manifest.partitions;
    controller->options.policy.shards = manifest.shards;
    controller->restore = controller->committed = manifest.clock;
    controller->progress.completed = controller->progress.first = manifest.clock;
    controller->progress.objective = manifest.objective;
    controller->input.job = manifest.input;
    controller->input.job.of_checkpoint = true;
    manifest.input = (struct job_input){0}; /* it is the controller's now */
    controller->checkpoint.due = manifest.clock / manifest.job.clocks_per_iteration + options->checkpoint_every;
    manifest_close(&manifest);
    return check_root(controller, error);
}

void checkpoints_close(struct controller *controller) {
    free(controller->checkpoint.files);
    controller->checkpoint.files = NULL;
}

void checkpoints_cancel(struct controller *controller) {
    controller->checkpoint.clock = 0;
}

/* Who writes a partition: the replica on a reliable node. */
static actor_id writer(const struct controller *controller, uint32_t partition) {
    const struct wire_placement *place = &controller->placement[partition];
    return place->backup != ACTOR_NONE ? place->backup : place->server;
}

void checkpoints_send(struct controller *controller, const struct member *member) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint32_t partitions = controller->options.policy.partitions;
    if (checkpoint->clock == 0) {
        return;
    }
    struct buffer *list = buffer_new(partitions * sizeof(uint32_t));
    list->size = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        if (!checkpoint->files[p].written && actor_node(writer(controller, p)) == member->node.actor) {
            memcpy(list->data + list->size, &p, sizeof p);
            list->size += sizeof p;
        }
    }
    if (list->size == 0) {
        buffer_drop(list);
        return;
    }
    struct message message = {.type = MESSAGE_CHECKPOINT, .frame_count = 1, .frames = {list}};
    message.checkpoint.clock = checkpoint->clock;
    memcpy(message.checkpoint.path, checkpoint->path, sizeof message.checkpoint.path);
    controller_send(controller, member->node.actor, &message);
}

/* A commit point that no replica has reached yet. */
static uint64_t next_point(const struct controller *controller) {
    uint64_t clock = controller->progress.completed;
    for (unsigned m = 0; m < controller->member_count; m++) {
        clock = controller->members[m].clock > clock ? controller->members[m].clock : clock;
    }
    clock += 2; /* the message takes its time */
    return (clock + controller->commit_every - 1) / controller->commit_every * controller->commit_every;
}

static void fail(struct controller *controller, const char *text) {
    log_warn("checkpoint of clock %llu: %s", (unsigned long long)controller->checkpoint.clock, text);
    controller_report(controller, report_event(controller, "checkpoint-failed", NULL, text));
    checkpoints_cancel(controller); /* training goes on, and the next one may succeed */
}

void checkpoints_begin_if_due(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint64_t iteration = controller->progress.completed / controller->job.clocks_per_iteration;
    struct error error = {0};
    if (controller->options.checkpoint == NULL || checkpoint->clock != 0 || controller->change != CHANGE_NONE ||
        controller->phase != PHASE_TRAIN || iteration < checkpoint->due) {
        return;
    }
    uint64_t clock = next_point(controller);
    if (controller->final != 0 && clock > controller->final) {
        return; /* the model itself comes first */
    }
    checkpoint->clock = clock;
    checkpoint->due = iteration + controller->options.checkpoint_every;
    checkpoint->begun_us = controller_now(controller);
    free(checkpoint->files);
    checkpoint->files = memory_zeroed(controller->options.policy.partitions, sizeof *checkpoint->files);
    if (manifest_folder(controller->options.checkpoint, clock, checkpoint->path, &error) != 0) {
        fail(controller, error.text);
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        checkpoints_send(controller, &controller->members[m]);
    }
}

static void complete(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    struct error error = {0};
    uint32_t partitions = controller->options.policy.partitions;
    struct manifest manifest = {.job = controller->job,
                                .clock = checkpoint->clock,
                                .partitions = partitions,
                                .shards = controller->options.policy.shards,
                                .input = controller->input.job,
                                .files = memory_zeroed(partitions, sizeof *manifest.files),
                                .objective = controller->progress.objective,
                                .metric_count = controller->metric_count};
    for (unsigned i = 0; i < controller->metric_count; i++) {
        memcpy(manifest.metrics[i].name, controller->metrics[i].name, sizeof manifest.metrics[i].name);
        manifest.metrics[i].value = controller->progress.values[i];
    }
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        manifest.files[p] = (struct manifest_file){checkpoint->files[p].bytes, checkpoint->files[p].checksum};
        bytes += checkpoint->files[p].bytes;
    }
    int result = manifest_write(checkpoint->path, &manifest, &error);
    manifest.input = (struct job_input){0}; /* stays the controller's */
    manifest_close(&manifest);
    result = result != 0 ? result : manifest_prune(controller->options.checkpoint, CONTROLLER_CHECKPOINTS_KEPT, &error);
    if (result != 0) {
        fail(controller, error.text);
        return;
    }
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "clock %llu, %llu bytes in %.2f s: %s", (unsigned long long)checkpoint->clock,
             (unsigned long long)bytes, (double)(controller_now(controller) - checkpoint->begun_us) / 1e6,
             checkpoint->path);
    controller_report(controller, report_event(controller, "checkpoint", NULL, text));
    checkpoint->clock = 0;
}

void checkpoints_receive_written(struct controller *controller, const struct message *message) {
    const struct message_written *written = &message->written;
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint32_t partitions = controller->options.policy.partitions;
    if (checkpoint->clock == 0 || written->clock != checkpoint->clock || written->partition >= partitions) {
        return;
    }
    if (written->code != 0) {
        fail(controller, written->text);
        return;
    }
    checkpoint->files[written->partition] =
        (struct checkpoint_file){.written = true, .bytes = written->bytes, .checksum = written->checksum};
    for (uint32_t p = 0; p < partitions; p++) {
        if (!checkpoint->files[p].written) {
            return;
        }
    }
    complete(controller);
}
