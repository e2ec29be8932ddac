/* Has checkpoints written, and resumes a job from a checkpoint (docs/design.md, "Checkpoints"). The elasticity
 * controller makes the folders and writes the manifests, which are few and small. The nodes write the partitions'
 * files. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/control/state/manifest.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void checkpoint_set(struct controller_checkpoint *checkpoint, enum checkpoint_state to) {
    static const bool legal[CHECKPOINT_FINISH + 1][CHECKPOINT_FINISH + 1] = {
        [CHECKPOINT_NONE] = {[CHECKPOINT_BEGIN] = true},
        [CHECKPOINT_BEGIN] = {[CHECKPOINT_BEGUN] = true, [CHECKPOINT_NONE] = true},
        [CHECKPOINT_BEGUN] = {[CHECKPOINT_BARRIER] = true, [CHECKPOINT_ASK] = true, [CHECKPOINT_NONE] = true},
        [CHECKPOINT_BARRIER] = {[CHECKPOINT_ASK] = true, [CHECKPOINT_NONE] = true},
        [CHECKPOINT_ASK] = {[CHECKPOINT_WRITE] = true, [CHECKPOINT_NONE] = true, [CHECKPOINT_ASK] = true},
        [CHECKPOINT_WRITE] = {[CHECKPOINT_FINISH] = true, [CHECKPOINT_NONE] = true},
        [CHECKPOINT_FINISH] = {[CHECKPOINT_WRITE] = true, [CHECKPOINT_NONE] = true}, /* failure; success */
    };
    assert(legal[checkpoint->state][to]);
    checkpoint->state = to;
}

/* Checks what must hold of an attempt between two steps. */
static void check_checkpoint(const struct controller *controller) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    assert(checkpoint->refusals <= CONTROLLER_CHECKPOINT_REFUSALS_MAX);
    if (checkpoint->state == CHECKPOINT_NONE) {
        return;
    }
    bool works = checkpoint->state == CHECKPOINT_BEGIN || checkpoint->state == CHECKPOINT_FINISH; /* on a folder */
    assert(checkpoint->kept.number > 0 && checkpoint->clock > checkpoint->kept.written);
    assert(checkpoint->after == CHECKPOINT_BARRIER || checkpoint->after == CHECKPOINT_ASK);
    assert(!works || checkpoint->tasks > 0);
    assert(!checkpoint->reported || checkpoint->at.completed == checkpoint->clock);
    assert(checkpoint->reported || checkpoint->state < CHECKPOINT_BARRIER ||
           (controller->progress.completed < checkpoint->clock && checkpoint->state != CHECKPOINT_FINISH));
}

/* ---- A new job, or a new controller of a job ---- */

/* Returns the clock of the newest checkpoint in the root; 0: none. */
static uint64_t newest_in_root(const struct controller *controller) {
    char path[WIRE_PATH_MAX];
    struct error none = {0};
    struct manifest manifest = {0};
    const char *root = controller->options.checkpoint;
    if (root == NULL || manifest_find(root, path, &none) != 0 || manifest_read(path, &manifest, &none) != 0) {
        return 0;
    }
    uint64_t clock = manifest.clock;
    manifest_close(&manifest);
    return clock;
}

/* Fails if the root has a checkpoint of a later clock than that with which this job begins: that checkpoint would count
 * as newer than this job's checkpoints. */
static int check_root(struct controller *controller, struct error *error) {
    uint64_t clock = newest_in_root(controller);
    if (clock <= controller->plan.restore) {
        /* the resumed checkpoint need not be written again */
        controller->checkpoint.kept.written = clock == controller->plan.restore ? clock : 0;
        return 0;
    }
    return error_set(error, AML_EINPUT,
                     "--checkpoint %.300s: there is a checkpoint of clock %llu already: go on from it with "
                     "--resume, or choose another folder",
                     controller->options.checkpoint, (unsigned long long)clock);
}

/* Returns the iteration at whose end the first checkpoint after `clock` is due. */
static uint64_t due_after(const struct controller *controller, uint64_t clock) {
    uint64_t due = controller->checkpoint.kept.due;
    uint64_t every = controller->options.checkpoint_every;
    uint64_t iteration = clock / controller->job.terms.clocks_per_iteration;
    due = iteration < due || every == 0 ? due : due + ((iteration - due) / every + 1) * every;
    assert(every == 0 || due > iteration);
    return due;
}

int checkpoints_open(struct controller *controller, struct error *error) {
    const struct controller_options *options = &controller->options;
    controller->checkpoint.kept.due = options->checkpoint_every;
    if (options->resume == NULL) {
        return check_root(controller, error);
    }
    struct manifest manifest = {0};
    int result = manifest_find(options->resume, controller->job.resume, error);
    result = result != 0 ? result : manifest_read(controller->job.resume, &manifest, error);
    if (result != 0) {
        return result;
    }
    controller->job.terms = manifest.job;
    controller->options.policy.partitions = manifest.partitions;
    controller->options.policy.shards = manifest.shards;
    controller->job.resumed_strategy = (enum strategy)manifest.job.strategy;
    controller->job.resumed_clocks = job_clocks(&manifest.job);
    controller->plan.restore = controller->commit.clock = manifest.clock;
    controller->progress.completed = controller->progress.first = manifest.clock;
    controller->progress.objective = manifest.objective;
    controller->progress.before_us = (uint64_t)(manifest.seconds * 1e6);
    controller->progress.before_items = manifest.items_processed;
    controller->job.settings = manifest.settings;
    manifest.settings = NULL; /* now owned by the controller */
    controller->input.job = manifest.input;
    controller->input.job.of_checkpoint = true;
    manifest.input = (struct job_input){0}; /* now owned by the controller */
    controller->checkpoint.kept.due = manifest.clock / manifest.job.clocks_per_iteration + options->checkpoint_every;
    manifest_close(&manifest);
    return check_root(controller, error);
}

/* Describes a clock for people, with the iteration that ends there or contains the clock. */
static void describe_clock(const struct controller *controller, uint64_t clock, char text[64]) {
    uint64_t each = controller->job.terms.clocks_per_iteration;
    snprintf(text, 64, clock % each == 0 ? "iteration %llu, clock %llu" : "within iteration %llu, clock %llu",
             (unsigned long long)((clock + each - 1) / each), (unsigned long long)clock);
}

void checkpoints_resumed(struct controller *controller, const struct buffer *settings) {
    char at[64];
    char changed[ERROR_TEXT_MAX];
    char text[2 * ERROR_TEXT_MAX];
    if (controller->options.resume == NULL) {
        return;
    }
    describe_clock(controller, controller->progress.first, at);
    bool others =
        job_settings_differ(controller->job.settings, settings, SETTINGS_STEERING, "was", changed, sizeof changed);
    snprintf(text, sizeof text, "from %s: %s%s%s", at, controller->job.resume, others ? "; " : "", changed);
    controller_report(controller, report_event(controller, "resume", NULL, text));
}

void checkpoints_take_up(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint64_t newest = newest_in_root(controller);
    if (newest > controller->progress.first) { /* the store may not contain yet that this checkpoint is complete */
        checkpoint->kept.written = newest;
        checkpoint->kept.due = due_after(controller, newest);
    }
    if (controller->barrier.clock != WIRE_CLOCK_NEVER && controller->barrier.purpose == BARRIER_CHECKPOINT) {
        barrier_lift(controller);
    }
}

void checkpoints_close(struct controller *controller) {
    free(controller->checkpoint.files);
    controller->checkpoint.files = NULL;
}

/* ---- Operators that wait for a checkpoint ---- */

static void request_answer(struct controller *controller, struct checkpoint_request *request, int code,
                           const char *text) {
    request->answered = true;
    request->code = code;
    snprintf(request->text, sizeof request->text, "%s", text);
    controller_send_outcome(controller, request->from, request->request, code, text);
}

/* Answers the requests that the checkpoint under way serves; with `all`, every request. */
static void requests_answer(struct controller *controller, bool all, int code, const char *text) {
    for (unsigned r = 0; r < CONTROLLER_CHECKPOINT_REQUESTS_MAX; r++) {
        struct checkpoint_request *request = &controller->checkpoint.requests[r];
        if (request->from != ACTOR_NONE && !request->answered && (all || request->begun)) {
            request_answer(controller, request, code, text);
        }
    }
}

static void requests_begin(struct controller_checkpoint *checkpoint, bool begun) {
    for (unsigned r = 0; r < CONTROLLER_CHECKPOINT_REQUESTS_MAX; r++) {
        checkpoint->requests[r].begun = begun;
    }
}

static bool requests_wait(const struct controller_checkpoint *checkpoint) {
    bool wait = false;
    for (unsigned r = 0; r < CONTROLLER_CHECKPOINT_REQUESTS_MAX; r++) {
        wait = wait || (checkpoint->requests[r].from != ACTOR_NONE && !checkpoint->requests[r].answered);
    }
    return wait;
}

/* Returns why no checkpoint can be requested now; NULL when one can. */
static const char *request_refusal(const struct controller *controller) {
    if (controller->options.checkpoint == NULL) {
        return "the job was started without --checkpoint: there is no folder to write one to";
    }
    if (controller->phase < PHASE_TRAIN) {
        return "training has not begun: there is nothing to write yet";
    }
    return controller->phase > PHASE_TRAIN ? "training is over" : NULL;
}

void checkpoints_receive_now(struct controller *controller, actor_id from, const struct message *message) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint64_t number = message->checkpoint_now.request;
    struct checkpoint_request *place = NULL;
    for (unsigned r = 0; r < CONTROLLER_CHECKPOINT_REQUESTS_MAX; r++) {
        struct checkpoint_request *request = &checkpoint->requests[r];
        if (request->from == from && request->request == number) {
            if (request->answered) { /* the answer was lost */
                controller_send_outcome(controller, from, number, request->code, request->text);
            }
            return;
        }
        bool better = request->from == ACTOR_NONE || (request->answered && place == NULL);
        place = better ? request : place;
    }
    const char *refusal = request_refusal(controller);
    refusal =
        refusal == NULL && place == NULL ? "too many requests for a checkpoint wait already: try again later" : refusal;
    if (refusal != NULL) {
        controller_send_outcome(controller, from, number, AML_EINPUT, refusal);
        return;
    }
    bool ahead = checkpoint->state >= CHECKPOINT_BEGIN && checkpoint->state <= CHECKPOINT_ASK;
    *place = (struct checkpoint_request){.from = from, .request = number, .begun = ahead};
}

/* ---- The folder ---- */

/* Has the task run: in another thread if there is one, else at once. */
static void run_task(struct controller *controller, struct folder_task *task) {
    assert(controller->checkpoint.tasks < CONTROLLER_FOLDER_TASKS_MAX);
    controller->checkpoint.tasks++;
    if (controller->options.folder_task != NULL) {
        controller->options.folder_task(controller->options.context, task);
    } else {
        folder_task_run(task);
        checkpoints_take_task(controller, task);
    }
}

static struct folder_task *new_task(const struct controller *controller, enum folder_task_kind kind) {
    struct folder_task *task = memory_zeroed(1, sizeof *task);
    task->kind = kind;
    task->number = controller->checkpoint.kept.number;
    task->clock = controller->checkpoint.clock;
    snprintf(task->root, sizeof task->root, "%s", controller->options.checkpoint);
    return task;
}

/* Removes the folders of unfinished attempts. After a failure the next attempt tries again, and reports an error. */
static void discard_folders(struct controller *controller) {
    if (controller->checkpoint.tasks < CONTROLLER_FOLDER_TASKS_MAX) {
        run_task(controller, new_task(controller, FOLDER_DISCARD));
    }
}

/* ---- The end of an attempt ---- */

void checkpoints_put_off(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (checkpoint->state == CHECKPOINT_NONE || checkpoint->state == CHECKPOINT_FINISH) {
        return;
    }
    bool held = checkpoints_hold(controller);
    checkpoint_set(checkpoint, CHECKPOINT_NONE);
    discard_folders(controller);
    requests_begin(checkpoint, false);
    if (held) {
        barrier_lift(controller);
        controller_send_acks(controller);
    }
}

static void checkpoint_fail(struct controller *controller, const char *why) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    char text[ERROR_TEXT_MAX];
    assert(checkpoint->state != CHECKPOINT_NONE && checkpoint->state != CHECKPOINT_FINISH);
    snprintf(text, sizeof text, "clock %llu: %.440s", (unsigned long long)checkpoint->clock, why);
    snprintf(checkpoint->failure, sizeof checkpoint->failure, "%s", text);
    controller_report(controller, report_event(controller, "checkpoint-failed", NULL, text));
    requests_answer(controller, false, AML_EFAIL, text);
    checkpoints_put_off(controller); /* training goes on, and the next attempt may succeed */
    unsigned doubled = checkpoint->failures < CONTROLLER_CHECKPOINT_RETRIES_MAX ? checkpoint->failures
                                                                                : CONTROLLER_CHECKPOINT_RETRIES_MAX;
    checkpoint->retry_us = controller_now(controller) + (CONTROLLER_CHECKPOINT_RETRY_US * UINT64_C(1) << doubled);
    checkpoint->failures++;
    checkpoint->refusals = 0;
    checkpoint->given_up = controller->job.final != 0 && checkpoint->clock >= controller->job.final;
}

/* Gives up the attempt under way, and waits before the next attempt. */
static void put_off_a_while(struct controller *controller) {
    checkpoints_put_off(controller);
    controller->checkpoint.retry_us = controller_now(controller) + CONTROLLER_CHECKPOINT_AGAIN_US;
}

void checkpoints_put_off_beyond(struct controller *controller, uint64_t clock) {
    if (controller->checkpoint.clock > clock) {
        checkpoints_put_off(controller);
    }
}

void checkpoints_check_writers(struct controller *controller) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    for (uint32_t p = 0; checkpoint->state != CHECKPOINT_NONE && p < controller->options.policy.partitions; p++) {
        const struct member *member = controller_find_member(controller, actor_node(checkpoint->files[p].writer));
        if (!checkpoint->files[p].written && (member == NULL || member->stay == MEMBER_DISMISSED)) {
            checkpoints_put_off(controller);
        }
    }
}

static void fill_manifest(const struct controller *controller, struct manifest *manifest) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint32_t partitions = controller->options.policy.partitions;
    assert(checkpoint->reported && checkpoint->at.completed == checkpoint->clock);
    *manifest = (struct manifest){.job = controller->job.terms,
                                  .settings = controller->job.settings,
                                  .clock = checkpoint->clock,
                                  .seconds = (double)(checkpoint->at.before_us + checkpoint->at.trained_us) / 1e6,
                                  .items_processed = checkpoint->at.before_items + checkpoint->at.items_processed,
                                  .partitions = partitions,
                                  .shards = controller->options.policy.shards,
                                  .input = controller->input.job,
                                  .files = memory_zeroed(partitions, sizeof *manifest->files),
                                  .objective = checkpoint->at.objective,
                                  .metric_count = controller->job.metric_count};
    manifest->job.strategy = (uint8_t)plan_strategy_at(&controller->plan.view, checkpoint->clock);
    for (unsigned i = 0; i < controller->job.metric_count; i++) {
        memcpy(manifest->metrics[i].name, controller->job.metrics[i].name, sizeof manifest->metrics[i].name);
        manifest->metrics[i].value = checkpoint->at.values[i];
    }
    for (uint32_t p = 0; p < partitions; p++) {
        assert(checkpoint->files[p].promised && checkpoint->files[p].written);
        manifest->files[p] = (struct manifest_file){checkpoint->files[p].bytes, checkpoint->files[p].checksum};
    }
}

/* Reports the complete checkpoint and answers its requests. */
static void checkpoint_finished(struct controller *controller, const char *path) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        bytes += checkpoint->files[p].bytes;
    }
    char at[64];
    char text[ERROR_TEXT_MAX + 64];
    describe_clock(controller, checkpoint->clock, at);
    snprintf(text, sizeof text, "%s, %llu bytes in %.2f s: %s", at, (unsigned long long)bytes,
             (double)(controller_now(controller) - checkpoint->begun_us) / 1e6, path);
    controller_report(controller, report_event(controller, "checkpoint", NULL, text));
    assert(checkpoint->clock > checkpoint->kept.written); /* `completed` may be less, after a recovery */
    checkpoint->kept.written = checkpoint->clock;
    checkpoint->kept.due = due_after(controller, checkpoint->clock);
    checkpoint_set(checkpoint, CHECKPOINT_NONE);
    checkpoint->failures = checkpoint->refusals = 0;
    char answer[ERROR_TEXT_MAX];
    snprintf(answer, sizeof answer, "%s: %s", at, path);
    requests_answer(controller, false, 0, answer);
}

static void take_finished(struct controller *controller, const struct folder_task *task) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (checkpoint->state != CHECKPOINT_FINISH || checkpoint->kept.number != task->number) {
        return;
    }
    if (task->error.code != 0) {
        checkpoint_set(checkpoint, CHECKPOINT_WRITE);
        checkpoint_fail(controller, task->error.text);
        return;
    }
    if (task->pruned.code != 0) {
        log_warn("%s", task->pruned.text); /* the new checkpoint is complete nevertheless */
    }
    checkpoint_finished(controller, task->path);
}

static void take_begun(struct controller *controller, const struct folder_task *task) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (checkpoint->state != CHECKPOINT_BEGIN || checkpoint->kept.number != task->number) {
        return; /* put off meanwhile */
    }
    if (task->error.code != 0) {
        checkpoint_fail(controller, task->error.text);
        return;
    }
    memcpy(checkpoint->path, task->path, sizeof checkpoint->path);
    checkpoint_set(checkpoint, CHECKPOINT_BEGUN);
}

uint64_t checkpoints_due_us(const struct controller *controller, uint64_t now_us) {
    return controller->checkpoint.retry_us > now_us ? controller->checkpoint.retry_us : UINT64_MAX;
}

void checkpoints_take_task(struct controller *controller, struct folder_task *task) {
    assert(controller->checkpoint.tasks > 0);
    controller->checkpoint.tasks--;
    if (task->kind == FOLDER_BEGIN) {
        take_begun(controller, task);
    } else if (task->kind == FOLDER_FINISH) {
        take_finished(controller, task);
    }
    folder_task_free(task);
}

static void checkpoint_complete(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    struct error error = {0};
    struct manifest manifest;
    struct folder_task *task = new_task(controller, FOLDER_FINISH);
    fill_manifest(controller, &manifest);
    task->text = manifest_text(&manifest, &task->size, &error);
    manifest.input = (struct job_input){0}; /* input and settings remain the controller's */
    manifest.settings = NULL;
    manifest_close(&manifest);
    if (task->text == NULL) {
        folder_task_free(task);
        checkpoint_fail(controller, error.text);
        return;
    }
    task->keep = CONTROLLER_CHECKPOINTS_KEPT;
    memcpy(task->path, checkpoint->path, sizeof task->path);
    checkpoint_set(checkpoint, CHECKPOINT_FINISH);
    run_task(controller, task);
}

/* ---- The checkpoint's clock ---- */

/* Returns the server that is to write the partition at `clock`: the BackupPS, else the ParamServ. */
static actor_id writer(const struct controller *controller, uint32_t partition, uint64_t clock) {
    const struct wire_placement *place = &controller->plan.placement[partition];
    bool next = controller->plan.from_clock != 0 && clock >= controller->plan.from_clock;
    actor_id backup = next ? place->next_backup : place->backup;
    return backup != ACTOR_NONE ? backup : next ? place->next_server : place->server;
}

/* Whether a checkpoint's clock can be chosen now: there is no barrier, and no node was lost. */
static bool is_calm(const struct controller *controller) {
    bool calm = controller->change.state == CHANGE_NONE || controller->change.state == CHANGE_PREPARE;
    return controller->phase == PHASE_TRAIN && calm && !controller->verdicts.fence && !controller->job.stopping &&
           controller->barrier.clock == WIRE_CLOCK_NEVER;
}

static bool may_begin(const struct controller *controller) {
    return controller->options.checkpoint != NULL && controller->checkpoint.state == CHECKPOINT_NONE &&
           controller->checkpoint.tasks == 0 && is_calm(controller) &&
           controller_now(controller) >= controller->checkpoint.retry_us;
}

/* Copies the job's progress into the checkpoint if the last completed clock is the checkpoint's. */
static void take_progress(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (controller->progress.completed == checkpoint->clock) {
        checkpoint->reported = true;
        checkpoint->at = controller->progress;
        checkpoint->at.trained_us = controller_trained_us(controller);
    }
}

static void set_clock(struct controller *controller, uint64_t clock) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    assert(clock > checkpoint->kept.written && clock >= controller->progress.completed);
    checkpoint->clock = clock;
    checkpoint->reported = false;
    take_progress(controller);
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        checkpoint->files[p] = (struct checkpoint_file){.writer = writer(controller, p, clock)};
    }
}

/* Begins an attempt, and has its folder made. */
static void checkpoint_begin(struct controller *controller, uint64_t clock, enum checkpoint_state after) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    assert(checkpoint->tasks == 0); /* an earlier attempt's tasks would be taken for this one's */
    free(checkpoint->files);
    checkpoint->files = memory_zeroed(controller->options.policy.partitions, sizeof *checkpoint->files);
    checkpoint->kept.number++;
    checkpoint->begun_us = controller_now(controller);
    checkpoint_set(checkpoint, CHECKPOINT_BEGIN);
    checkpoint->after = after;
    requests_begin(checkpoint, true);
    set_clock(controller, clock);
    run_task(controller, new_task(controller, FOLDER_BEGIN));
}

/* Returns the job's last clock, if it is known. A resumed job without remaining iterations has the clock of the resumed
 * checkpoint. */
static uint64_t last_clock(const struct controller *controller) {
    bool nothing = controller->job.final != 0 && controller->job.final < controller->progress.first;
    return nothing ? controller->progress.first : controller->job.final;
}

/* Returns the last clock of the clock's group of local steps. A job that resumes there can have other groups
 * (take_strategy). */
static uint64_t group_end(const struct controller *controller, uint64_t clock) {
    const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
    bool grouped = plan_strategy_at(&controller->plan.view, clock) != STRATEGY_SSGD;
    return grouped ? strategy_boundary(&clocks, clock + 1) - 1 : clock;
}

/* Returns the clock of the next checkpoint, a commit point; 0: it is too early or too late for a checkpoint. If a
 * request waits, this is the next clock that a barrier can have. Otherwise it is the end of the due iteration, or of a
 * later one. */
static uint64_t next_clock(const struct controller *controller) {
    uint64_t reached = barrier_clock_reached(controller);
    uint64_t clock = barrier_clock_ahead(controller);
    uint64_t each = controller->job.terms.clocks_per_iteration;
    uint64_t due = controller->checkpoint.kept.due * each;
    assert(clock >= reached);
    if (!requests_wait(&controller->checkpoint)) {
        if (reached + 2 * (clock - reached) < due) {
            return 0;
        }
        clock = clock > due ? (clock + each - 1) / each * each : due;
    }
    clock = plan_next_commit_point(&controller->plan.view, group_end(controller, clock));
    assert(clock >= reached && plan_is_commit_point(&controller->plan.view, clock));
    bool late = controller->job.final != 0 && clock >= controller->job.final;
    bool past = late && (controller->options.checkpoint_at_end || clock > controller->job.final);
    /* A controller that was started again may not know yet that the last checkpoint's clock is committed, and would
     * choose that clock once more. */
    return past || clock <= controller->checkpoint.kept.written ? 0 : clock;
}

/* Requests the files from their writers. */
static void ask(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    struct error error = {0};
    if (manifest_place(controller->options.checkpoint, checkpoint->clock, checkpoint->path, &error) != 0) {
        checkpoint_fail(controller, error.text);
        return;
    }
    checkpoint_set(checkpoint, CHECKPOINT_ASK);
    for (unsigned m = 0; m < controller->member_count; m++) {
        checkpoints_send(controller, &controller->members[m]);
    }
}

/* Once the folder exists, chooses the checkpoint's clock. The clock that was due may have passed meanwhile. */
static void step_begun(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (!is_calm(controller)) {
        return; /* the cause will pass, or put the checkpoint off */
    }
    checkpoint->begun_us = controller_now(controller); /* the barrier's time counts from here */
    if (checkpoint->after == CHECKPOINT_ASK) {
        checkpoint_set(checkpoint, CHECKPOINT_ASK);
        if (persist_all(controller)) { /* stores the attempt's number */
            ask(controller);
        }
        return;
    }
    uint64_t clock = next_clock(controller);
    if (clock == 0) {
        checkpoints_put_off(controller);
        return;
    }
    set_clock(controller, clock);
    checkpoint_set(checkpoint, CHECKPOINT_BARRIER);
    barrier_at(controller, clock, BARRIER_CHECKPOINT);
}

static void step_none(struct controller *controller) {
    uint64_t clock = may_begin(controller) ? next_clock(controller) : 0;
    if (clock != 0) {
        checkpoint_begin(controller, clock, CHECKPOINT_BARRIER);
    }
    if (controller->checkpoint.state == CHECKPOINT_BEGUN) {
        step_begun(controller);
    }
}

static void step_barrier(struct controller *controller) {
    bool passed = false;
    if (!barrier_is_held(controller, &passed)) {
        return;
    }
    uint64_t clock = passed ? next_clock(controller) : 0;
    if (!passed) {
        ask(controller);
    } else if (clock != 0) {
        set_clock(controller, clock);
        barrier_at(controller, clock, BARRIER_CHECKPOINT);
    } else {
        checkpoints_put_off(controller);
    }
}

/* Reports once that the disk is too slow for --checkpoint-every. */
static void step_write(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint64_t next = due_after(controller, checkpoint->clock) * controller->job.terms.clocks_per_iteration;
    if (checkpoint->kept.slow || barrier_clock_reached(controller) <= next) {
        return;
    }
    char text[ERROR_TEXT_MAX];
    checkpoint->kept.slow = true;
    snprintf(text, sizeof text,
             "writing a checkpoint takes longer than %u iterations: fewer are written than --checkpoint-every asks for",
             controller->options.checkpoint_every);
    controller_report(controller, report_event(controller, "checkpoint-slow", NULL, text));
}

bool checkpoints_hold(const struct controller *controller) {
    return controller->barrier.clock != WIRE_CLOCK_NEVER && controller->barrier.purpose == BARRIER_CHECKPOINT;
}

void checkpoints_step(struct controller *controller) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (controller->phase != PHASE_TRAIN || controller->change.state == CHANGE_RECOVER) {
        return;
    }
    check_checkpoint(controller);
    if (checkpoints_hold(controller) &&
        controller_now(controller) - checkpoint->begun_us > CONTROLLER_CHECKPOINT_NAME_US) {
        put_off_a_while(controller); /* some node does not answer, and other nodes should not wait at the barrier */
    }
    if (checkpoint->state == CHECKPOINT_NONE) {
        step_none(controller);
    } else if (checkpoint->state == CHECKPOINT_BEGUN) {
        step_begun(controller);
    } else if (checkpoint->state == CHECKPOINT_BARRIER) {
        step_barrier(controller);
    } else if (checkpoint->state == CHECKPOINT_WRITE) {
        step_write(controller);
    }
    check_checkpoint(controller);
}

/* ---- Writing the files ---- */

void checkpoints_send(struct controller *controller, const struct member *member) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint32_t partitions = controller->options.policy.partitions;
    if (checkpoint->state != CHECKPOINT_ASK && checkpoint->state != CHECKPOINT_WRITE) {
        return;
    }
    struct buffer *list = buffer_new(partitions * sizeof(uint32_t));
    list->size = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        const struct checkpoint_file *file = &checkpoint->files[p];
        if (!file->written && actor_node(file->writer) == member->node.actor) {
            memcpy(list->data + list->size, &p, sizeof p);
            list->size += sizeof p;
        }
    }
    if (list->size == 0) {
        buffer_drop(list);
        return;
    }
    struct message message = {.type = MESSAGE_CHECKPOINT};
    message_add(&message, list);
    bool beyond = controller->commit.clock > checkpoint->clock;
    message.checkpoint.number = checkpoint->kept.number;
    message.checkpoint.clock = checkpoint->clock;
    message.checkpoint.committed = beyond ? checkpoint->clock : controller->commit.clock;
    memcpy(message.checkpoint.path, checkpoint->path, sizeof message.checkpoint.path);
    controller_send(controller, member->node.actor, &message);
}

/* Takes the next step when all replicas' files are promised, and when all are written. */
static void check_files(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    bool promised = true;
    bool written = true;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        promised = promised && checkpoint->files[p].promised;
        written = written && checkpoint->files[p].written;
    }
    if (checkpoint->state == CHECKPOINT_ASK && promised) {
        checkpoint_set(checkpoint, CHECKPOINT_WRITE);
        if (checkpoints_hold(controller)) {
            /* not stored: a restarted controller would lift the barrier with the same number */
            barrier_lift(controller);
            controller_send_acks(controller);
        }
    }
    assert(promised || !written);
    if (checkpoint->state == CHECKPOINT_WRITE && written && checkpoint->reported) {
        checkpoint_complete(controller);
    }
}

void checkpoints_completed(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (checkpoint->state != CHECKPOINT_NONE && controller->progress.completed == checkpoint->clock) {
        take_progress(controller);
        check_files(controller);
    }
}

static void take_refusal(struct controller *controller, const char *why) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    if (++checkpoint->refusals > CONTROLLER_CHECKPOINT_REFUSALS_MAX) {
        checkpoint_fail(controller, why);
    } else {
        put_off_a_while(controller);
    }
}

void checkpoints_receive_written(struct controller *controller, const struct member *member,
                                 const struct message *message) {
    const struct message_written *written = &message->written;
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    bool asked = checkpoint->state == CHECKPOINT_ASK || checkpoint->state == CHECKPOINT_WRITE;
    if (!asked || written->number != checkpoint->kept.number || written->clock != checkpoint->clock ||
        written->partition >= controller->options.policy.partitions) {
        return;
    }
    struct checkpoint_file *file = &checkpoint->files[written->partition];
    if (actor_node(file->writer) != member->node.actor) {
        return;
    }
    switch ((enum written_state)written->state) {
    case WRITTEN_REFUSED:
        take_refusal(controller, written->text);
        return;
    case WRITTEN_FAILED:
        checkpoint_fail(controller, written->text);
        return;
    case WRITTEN_PROMISED:
        file->promised = true;
        break;
    case WRITTEN_DONE:
        file->promised = file->written = true;
        file->bytes = written->bytes;
        file->checksum = written->checksum;
        break;
    }
    check_files(controller);
}

/* ---- The end ---- */

bool checkpoints_end(struct controller *controller) {
    struct controller_checkpoint *checkpoint = &controller->checkpoint;
    bool wanted = controller->options.checkpoint_at_end && checkpoint->kept.written != last_clock(controller) &&
                  !checkpoint->given_up;
    bool early = checkpoint->state == CHECKPOINT_BEGIN || checkpoint->state == CHECKPOINT_BEGUN;
    if (early && checkpoint->after == CHECKPOINT_BARRIER) {
        checkpoints_put_off(controller); /* no clock is left for this checkpoint */
    }
    if (checkpoint->state != CHECKPOINT_NONE) {
        return false;
    }
    if (!wanted) {
        bool there = checkpoint->kept.written == last_clock(controller);
        requests_answer(controller, true, there ? 0 : AML_EINPUT,
                        there ? "the checkpoint of the job's last clock is there" : "training is over");
        return true;
    }
    if (may_begin(controller) && controller->commit.clock >= last_clock(controller)) {
        checkpoint_begin(controller, last_clock(controller), CHECKPOINT_ASK);
        if (checkpoint->state == CHECKPOINT_BEGUN) {
            step_begun(controller);
        }
    }
    return false;
}

int checkpoints_check(const struct controller *controller, struct error *error) {
    const struct controller_checkpoint *checkpoint = &controller->checkpoint;
    uint64_t due = checkpoint->kept.due * controller->job.terms.clocks_per_iteration;
    bool asked = checkpoint->failure[0] != '\0' || due <= controller->progress.completed;
    if (controller->options.checkpoint == NULL || checkpoint->kept.written != 0 || !asked) {
        return 0;
    }
    return error_set(error, AML_EFAIL, "the job is done, but no checkpoint could be written into %.160s: %.240s",
                     controller->options.checkpoint,
                     checkpoint->failure[0] != '\0' ? checkpoint->failure
                                                    : "training was over before a checkpoint could begin");
}

void checkpoints_stop(struct controller *controller) {
    checkpoints_put_off(controller);
    if (controller->options.checkpoint != NULL) { /* also removes folders that an earlier controller began */
        discard_folders(controller);
    }
    requests_answer(controller, true, AML_EFAIL, "the job is over");
}
