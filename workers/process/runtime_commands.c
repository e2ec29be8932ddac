/* The pool's commands: how the node's hooks begin them, and the app's functions that they call. See runtime_private.h.
 */
#include "workers/process/runtime_private.h"

#include "agileml/base/clock.h"
#include "workers/data/crash.h"
#include "workers/node/lots/node_lots.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const unsigned NO_SLICE = UINT_MAX;

enum runtime_command_kind {
    COMMAND_COMPUTE,
    COMMAND_GATHER,
    COMMAND_HELP,
    COMMAND_EVALUATE,
    COMMAND_SAVE,
    COMMAND_FEED
};

/* ---- In the pool's threads: the app's functions ---- */

static unsigned clock_part(const struct runtime *runtime) {
    return runtime_command_part(runtime);
}

static void run_gather(struct runtime *runtime, unsigned thread) {
    struct client *client = &runtime->node.client;
    for (uint32_t p = thread; p < client->partition_count; p += runtime->pool.threads) {
        struct error error = {0};
        pthread_rwlock_rdlock(&runtime->lists);
        int result = runtime_done_check(runtime, p, &error);
        result = result == 0 ? client_gather(client, p, &error) : result;
        if (result == 0 && runtime->job.reject_nan) {
            result = client_check_numbers(client, &client->partitions[p].gathered, runtime->node.name, &error);
        }
        pthread_rwlock_unlock(&runtime->lists);
        if (result != 0) {
            runtime_fail(runtime, error.code, error.text);
        }
    }
}

/* Calls `function` of the app in thread 0, while the other threads help it by aml_parallel. All threads call this; it
 * returns when all are through. */
static void run_leading(struct aml_worker *worker, const char *function, void (*call)(struct aml_worker *worker)) {
    struct pool *pool = &worker->runtime->pool;
    crash_enter(function, worker->runtime->command.clock);
    if (worker->thread > 0) {
        pool_help(pool, worker->thread);
    } else {
        worker->leads = true;
        call(worker);
        worker->leads = false;
        pool_dismiss(pool);
    }
    crash_leave();
}

static void add_metrics(struct wire_metric_sum *sums, const struct wire_metric_sum *more) {
    for (unsigned m = 0; m < WIRE_METRICS_MAX; m++) {
        sums[m].sum += more[m].sum;
        sums[m].weight += more[m].weight;
    }
}

static void call_begin(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    check_enter(worker, CALL_BEGIN);
    check_function(worker, runtime->app->begin(worker, runtime->app->context), "begin");
    runtime->check.call++; /* the app's next function is another call */
    data_set_forget(&runtime->command.set->items);
}

static void call_clock(struct aml_worker *worker, unsigned round) {
    struct runtime *runtime = worker->runtime;
    const void *items;
    size_t count = data_block(&runtime->command.set->items, clock_part(runtime), (unsigned)runtime->command.slice,
                              worker->thread, round, &items);
    if (count > 0 && !runtime_failed(runtime)) {
        items = runtime_transform_items(worker, items, count);
    }
    if (count > 0 && !runtime_failed(runtime)) {
        check_enter(worker, CALL_CLOCK);
        check_function(worker, runtime->app->clock(worker, items, count, runtime->app->context), "clock");
    }
}

/* Calls `clock` with all items of the slice: with clock_alone the set is arranged for one thread. */
static void call_clock_alone(struct aml_worker *worker) {
    call_clock(worker, 0);
}

/* With PROTEUS_CHECK=1, checks the rows in thread 0 while no thread is in the app. All threads call this. */
static void run_check(struct aml_worker *worker, void (*check)(struct runtime *runtime)) {
    struct runtime *runtime = worker->runtime;
    if (runtime->check.on) {
        pool_meet(&runtime->pool);
        if (worker->thread == 0 && !runtime_failed(runtime)) {
            check(runtime);
        }
        pool_meet(&runtime->pool);
    }
}

static void check_begun(struct runtime *runtime) {
    check_after(runtime, CALL_BEGIN);
}

static void check_computed(struct runtime *runtime) {
    check_round(runtime);
    check_after(runtime, CALL_CLOCK);
}

static void check_evaluated(struct runtime *runtime) {
    check_after(runtime, CALL_EVALUATE);
}

static void check_finished(struct runtime *runtime) {
    check_after(runtime, CALL_FINISH);
}

/* Works on one slice of the command's set. All threads call this. */
static void run_slice(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    if (runtime->app->clock_alone) {
        run_leading(worker, "clock", call_clock_alone);
        return;
    }
    crash_enter("clock", runtime->command.clock);
    for (unsigned round = 0; round < runtime->command.set->items.bins; round++) {
        call_clock(worker, round);
        pool_meet(&runtime->pool); /* threads exchange bins; the gathering follows the last round */
        run_check(worker, check_round);
    }
    crash_leave();
}

/* Chooses the next slice of the command, in thread 0. Without lots for other nodes, the set's slices one after the
 * other. With them, the items in no lot, then the lots that this node takes. */
static void choose_slice(struct runtime *runtime) {
    struct runtime_command *command = &runtime->command;
    const struct data_set *items = &command->set->items;
    int lot = -1;
    if (command->lots && (command->slice != NO_SLICE || command->lots_alone)) {
        lot = node_lot_take(&runtime->node);
        command->slice = lot < 0 ? items->slices : (unsigned)lot + 1;
    } else {
        command->slice++; /* from NO_SLICE to 0 */
    }
    assert(command->slice <= items->slices);
    command->items += command->slice < items->slices ? data_slice_count(items, clock_part(runtime), command->slice) : 0;
}

/* Fails the process with the error of a function for sets on disk (data.h), in thread 0. */
static void fail_disk(struct runtime *runtime, int result, const struct error *error) {
    if (result != 0) {
        runtime_fail(runtime, result, error->text);
    }
}

static void begin_part(struct runtime *runtime) {
    struct error error = {0};
    if (!runtime_failed(runtime)) {
        fail_disk(runtime, data_part_begin(&runtime->command.set->items, clock_part(runtime), &error), &error);
    }
}

static void end_part(struct runtime *runtime) {
    struct error error = {0};
    if (!runtime_failed(runtime)) {
        fail_disk(runtime, data_part_end(&runtime->command.set->items, &error), &error);
    }
}

/* All threads call this. */
static void run_slices(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    const struct data_set *items = &runtime->command.set->items;
    if (worker->thread == 0) {
        begin_part(runtime);
    }
    for (bool more = true; more;) {
        if (worker->thread == 0) {
            choose_slice(runtime);
        }
        pool_meet(&runtime->pool);
        more = runtime->command.slice < items->slices;
        if (more) {
            run_slice(worker); /* when it returns, no thread reads the slice's number any more */
        }
        more = more && (items->slices > 1);
    }
    if (worker->thread == 0) {
        end_part(runtime);
    }
}

/* Makes the optimizers' steps on this process's rows, by the updates of a part of the clock. All threads call this. */
static void run_steps(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    struct error error;
    run_check(worker, check_round);
    if (!runtime_failed(runtime) && client_step(&runtime->node.client, runtime->command.first + runtime->command.step,
                                                worker->thread, runtime->pool.threads, &error) != 0) {
        runtime_fail(runtime, error.code, error.text);
    }
    pool_meet(&runtime->pool);
}

/* Works on the clock's parts, one after the other. All threads call this. */
static void run_parts(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    const bool steps = job_steps_locally(&runtime->job);
    for (uint32_t step = 0; step < runtime->command.parts; step++) {
        if (step > 0) {
            pool_meet(&runtime->pool); /* all threads have finished the part before */
            if (worker->thread == 0) {
                runtime->command.step = step;
                runtime->command.slice = NO_SLICE;
                runtime_transforms_begin(runtime);
            }
        }
        run_slices(worker);
        if (steps) {
            run_steps(worker);
        }
    }
}

static void run_compute(struct runtime *runtime, struct aml_worker *worker) {
    const struct aml_app *app = runtime->app;
    uint64_t start_us = monotonic_us();
    worker->clock = runtime->command.first;
    if (!runtime->command.lots_alone && runtime->command.step == 0) {
        memset(worker->metrics, 0, sizeof worker->metrics);
    }
    run_check(worker, check_before);
    if (runtime->command.begin && app->begin != NULL) {
        run_leading(worker, "begin", call_begin);
        run_check(worker, check_begun);
    }
    run_parts(worker);
    run_check(worker, check_computed);
    if (worker->thread == 0) {
        runtime->command.compute_us = monotonic_us() - start_us;
    }
    if (!runtime_failed(runtime) && !runtime->command.lots && !runtime->command.stepwise) {
        run_gather(runtime, worker->thread);
    }
}

/* Works on another node's lot. The metrics of this node's own clock are kept for its evaluation. */
static void run_help(struct runtime *runtime, struct aml_worker *worker) {
    struct wire_metric_sum own[WIRE_METRICS_MAX];
    memcpy(own, worker->metrics, sizeof own);
    memset(worker->metrics, 0, sizeof worker->metrics);
    worker->clock = runtime->command.clock;
    run_check(worker, check_before);
    run_slices(worker);
    run_check(worker, check_computed);
    pthread_mutex_lock(&runtime->lock);
    add_metrics(runtime->command.metrics, worker->metrics);
    pthread_mutex_unlock(&runtime->lock);
    memcpy(worker->metrics, own, sizeof own);
}

static void call_evaluate(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    const void *items;
    size_t count = data_tests(&runtime->command.set->items, worker->thread, &items);
    items = runtime_transform_tests(worker, items, count);
    if ((count > 0 || runtime->app->evaluate_always) && !runtime_failed(runtime)) {
        check_enter(worker, CALL_EVALUATE);
        check_function(worker, runtime->app->evaluate(worker, items, count, runtime->app->context), "evaluate");
    }
}

static void begin_tests(struct runtime *runtime) {
    struct error error = {0};
    fail_disk(runtime, data_tests_begin(&runtime->command.set->items, &error), &error);
}

static void run_evaluate(struct runtime *runtime, struct aml_worker *worker) {
    worker->clock = runtime->command.clock;
    if (runtime->command.again) {
        memset(worker->metrics, 0, sizeof worker->metrics);
    }
    run_check(worker, check_before);
    if (runtime->command.begin && runtime->app->begin != NULL) {
        run_leading(worker, "begin", call_begin);
        run_check(worker, check_begun);
    }
    if (worker->thread == 0) {
        begin_tests(runtime); /* other threads may use the tests already; if these are damaged, the result is dropped */
    }
    if (runtime->app->clock_alone) {
        run_leading(worker, "evaluate", call_evaluate);
    } else {
        crash_enter("evaluate", runtime->command.clock);
        call_evaluate(worker);
        crash_leave();
    }
    run_check(worker, check_evaluated);
    if (worker->thread == 0 && runtime->app->evaluate_always) { /* `evaluate` may have used the training items */
        data_set_forget(&runtime->command.set->items);
    }
}

static void call_finish(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    struct aml_app *app = runtime->app;
    worker->clock = runtime->command.clock;
    check_enter(worker, CALL_FINISH);
    int result = app->finish != NULL ? app->finish(worker, app->context) : 0;
    pthread_mutex_lock(&runtime->lock);
    bool unsaving = runtime->finish == FINISH_TO_RETURN;
    pthread_mutex_unlock(&runtime->lock);
    check_function(worker, unsaving ? 0 : result, "finish");
}

static void run_finish(struct aml_worker *worker) {
    run_check(worker, check_before);
    run_leading(worker, "finish", call_finish);
    run_check(worker, check_finished);
}

void runtime_command_run(void *context, unsigned thread, int command) {
    struct runtime *runtime = context;
    struct aml_worker *worker = &runtime->workers[thread];
    switch (command) {
    case COMMAND_COMPUTE:
        run_compute(runtime, worker);
        break;
    case COMMAND_GATHER:
        run_gather(runtime, worker->thread);
        break;
    case COMMAND_HELP:
        run_help(runtime, worker);
        break;
    case COMMAND_EVALUATE:
        run_evaluate(runtime, worker);
        break;
    case COMMAND_SAVE:
        run_finish(worker);
        break;
    case COMMAND_FEED:
        runtime_feeding_run(worker);
        break;
    default:
        break;
    }
}

/* ---- In the main thread ---- */

/* Under the lock. */
static void runtime_forget_failure(struct runtime *runtime) {
    runtime->error = (struct error){0};
    atomic_store_explicit(&runtime->failed, false, memory_order_release);
}

/* The metrics of the clock and of its evaluation, with those of lots that other nodes have done. */
static void sum_metrics(const struct runtime *runtime, bool again, struct wire_metric_sum *sums) {
    memset(sums, 0, WIRE_METRICS_MAX * sizeof *sums);
    for (unsigned t = 0; t < runtime->pool.threads; t++) {
        add_metrics(sums, runtime->workers[t].metrics);
    }
    if (!again) {
        node_lots_add_metrics(&runtime->node, sums);
    }
}

/* Changes the state as drawn in runtime.h. */
static void finish_become(struct runtime *runtime, enum runtime_finish finish) {
    static const unsigned legal[] = {[FINISH_NONE] = 1 << FINISH_RUNNING,
                                     [FINISH_RUNNING] = 1 << FINISH_TO_RETURN | 1 << FINISH_NONE,
                                     [FINISH_TO_RETURN] = 1 << FINISH_NONE};
    assert((legal[runtime->finish] >> finish & 1) != 0);
    runtime->finish = finish;
}

static void command_done(void *context) {
    struct runtime *runtime = context;
    struct node *node = &runtime->node;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    runtime_enter(runtime);
    int command = runtime->pool.command; /* set only by the thread that runs the main thread's loop */
    assert(runtime->command.busy);
    runtime->command.busy = false;
    cache_trim(&node->cache);
    runtime_grow_cache(runtime);
    if (node->ended) {
        /* the result is not needed */
    } else if (command == COMMAND_SAVE) {
        bool unsaving = runtime->finish == FINISH_TO_RETURN;
        finish_become(runtime, FINISH_NONE);
        node_saved(node, unsaving ? AML_ESTOP : runtime->error.code, unsaving ? "" : runtime->error.text);
        runtime_forget_failure(runtime); /* the controller decides what follows, perhaps another attempt */
    } else if (runtime->error.code != 0) {
        runtime_fail_node(runtime);
    } else if (command == COMMAND_FEED) {
        const struct feed_made made = runtime_feeding_end(runtime);
        node_feed_made(node, &made);
    } else if (command == COMMAND_COMPUTE) {
        runtime_transforms_report(runtime);
        node_computed(node, runtime->command.items, runtime->command.compute_us);
    } else if (command == COMMAND_GATHER) {
        node_gathered(node);
    } else if (command == COMMAND_HELP) {
        node_helped(node, runtime->command.items, runtime->command.metrics);
    } else {
        sum_metrics(runtime, runtime->command.again, metrics);
        node_evaluated(node, metrics);
    }
    runtime_leave(runtime);
}

void runtime_commands_done(void *context) {
    struct runtime *runtime = context;
    event_clear(runtime->pool.done);
    command_done(runtime);
}

static bool pool_is_busy(const void *context) {
    return ((const struct runtime *)context)->command.busy;
}

/* Borrows the main thread's loop until the next command begins. */
bool runtime_handle_command_end(void *context) {
    struct runtime *runtime = context;
    return net_io_borrow(runtime->agent, command_done, pool_is_busy, runtime);
}

static void begin_command_of(struct runtime *runtime, int command, unsigned threads) {
    assert(!runtime->command.busy && threads <= runtime->pool.threads);
    runtime->command.busy = true;
    runtime->command.slice = NO_SLICE;
    runtime->command.items = 0;
    runtime->check.call++;
    pool_begin_some(&runtime->pool, command, threads);
}

static void begin_command(struct runtime *runtime, int command) {
    begin_command_of(runtime, command, runtime->pool.threads);
}

/* Begins a clock's work, or one step of a clock whose steps are a command each (node_gossip.h). */
static void begin_compute(struct runtime *runtime, unsigned set, uint64_t clock, int command) {
    const struct node_work *work = &runtime->node.work;
    runtime->command.set = runtime_set_find(runtime, set);
    assert(runtime->command.set != NULL && runtime->command.set->prepared);
    runtime->command.clock = clock;
    runtime->command.strategy = plan_strategy_at(&runtime->node.plan, clock);
    uint32_t parts = strategy_parts(runtime->command.strategy, &runtime->job.clocks, clock);
    runtime->command.first = clock - (parts > 0 ? parts - 1 : 0);
    runtime->command.stepwise = command == COMMAND_COMPUTE && work->steps > 0;
    assert(!runtime->command.stepwise || work->step < work->steps);
    runtime->command.parts = runtime->command.stepwise ? 1 : parts;
    runtime->command.step = runtime->command.stepwise ? work->step : 0;
    runtime->command.share = plan_origin_share(&runtime->node.plan, runtime->node.client.origin, clock);
    runtime->command.lag = client_lag(&runtime->node.client, runtime->command.first);
    runtime->command.lots = command == COMMAND_COMPUTE && node_lots(&runtime->node)->own.count > 0;
    runtime_done_begin(runtime, command == COMMAND_COMPUTE && !runtime->command.stepwise);
    if (runtime->command.parts > 0) {
        runtime_transforms_begin(runtime);
    }
    begin_command(runtime, command);
}

void runtime_hook_compute(void *context, unsigned set, uint64_t clock) {
    struct runtime *runtime = context;
    bool first = runtime->node.work.step == 0; /* the clock's first step: `begin` comes before this step only */
    runtime->command.begin = false;
    if (first) {
        runtime->command.origins = node_origins(&runtime->node, clock);
        runtime->command.begin =
            runtime->command.begun_origins != runtime->command.origins || runtime->command.begun_set != set;
        runtime->command.begun_set = set;
        runtime->command.begun_origins = runtime->command.origins;
    }
    runtime->command.lots_alone = false;
    begin_compute(runtime, set, clock, COMMAND_COMPUTE);
}

void runtime_hook_compute_lots(void *context, unsigned set, uint64_t clock) {
    struct runtime *runtime = context;
    runtime->command.begin = false;
    runtime->command.lots_alone = true;
    begin_compute(runtime, set, clock, COMMAND_COMPUTE);
}

void runtime_hook_gather(void *context) {
    begin_command(context, COMMAND_GATHER);
}

void runtime_hook_help(void *context, unsigned set, uint64_t clock) {
    struct runtime *runtime = context;
    memset(runtime->command.metrics, 0, sizeof runtime->command.metrics);
    begin_compute(runtime, set, clock, COMMAND_HELP);
}

/* Begins an evaluation. Has the app's begin called first if its last call was for other items. */
static void begin_evaluation(struct runtime *runtime, unsigned set, uint64_t clock, bool again) {
    runtime->command.set = runtime_set_find(runtime, set);
    assert(runtime->command.set != NULL && runtime->command.set->prepared);
    runtime->command.clock = clock;
    runtime->command.again = again;
    runtime->command.last = runtime->node.work.last;
    runtime->command.begin = again && (runtime->command.begun_set != set || runtime->command.begun_origins == 0);
    if (runtime->command.begin) {
        runtime->command.origins =
            runtime->command.begun_origins > 0 ? runtime->command.origins : node_origins(&runtime->node, clock);
        runtime->command.begun_set = set;
        runtime->command.begun_origins = runtime->command.origins;
    }
    runtime_transforms_begin_tests(runtime);
    begin_command(runtime, COMMAND_EVALUATE);
}

void runtime_hook_evaluate(void *context, unsigned set, uint64_t clock, bool again) {
    struct runtime *runtime = context;
    uint64_t each = (uint64_t)runtime->options.evaluate_every;
    /* Whether an evaluation is due follows from the clock alone, as all nodes must evaluate the same clocks. If one is
     * due in any clock of a group, the group's last clock has it. */
    uint32_t parts = strategy_parts(plan_strategy_at(&runtime->node.plan, clock), &runtime->job.clocks, clock);
    const unsigned phases = runtime_phases(runtime); /* they are a group, too */
    parts = phases == 1 ? parts : clock % phases == 0 ? phases : 0;
    bool due = clock / each > (clock - parts) / each || clock % (uint64_t)runtime->options.clocks_per_iteration == 0;
    if (runtime->app->evaluate != NULL && due) {
        begin_evaluation(runtime, set, clock, again);
        return;
    }
    struct wire_metric_sum metrics[WIRE_METRICS_MAX] = {0};
    if (!again) {
        sum_metrics(runtime, false, metrics);
    }
    node_evaluated(&runtime->node, metrics);
}

void runtime_hook_release(void *context, unsigned number) {
    struct runtime *runtime = context;
    if (runtime->command.set != NULL && runtime->command.set->number == number) { /* no command uses it now */
        runtime->command.set = NULL;
    }
    runtime_transforms_forget(runtime, number);
    runtime_loader_release(runtime, number);
}

void runtime_hook_save(void *context) {
    struct runtime *runtime = context;
    finish_become(runtime, FINISH_RUNNING);
    runtime->command.set = NULL; /* sets may be released meanwhile */
    runtime->command.clock = runtime_last_clock(&runtime->node);
    begin_command(runtime, COMMAND_SAVE);
}

void runtime_hook_unsave(void *context) {
    struct runtime *runtime = context;
    if (runtime->finish == FINISH_RUNNING) {
        finish_become(runtime, FINISH_TO_RETURN);
    }
}

bool runtime_hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned transforms, const uint32_t *shards,
                            unsigned count) {
    struct runtime *runtime = context;
    (void)set; /* the set keeps the shards in memory */
    bool begun = runtime_feeding_begin(runtime, clock, transforms, shards, count);
    if (begun) {
        begin_command_of(runtime, COMMAND_FEED, runtime->transforms.feeding.threads);
    }
    return begun;
}
