/* The pool's commands: how the node's hooks begin them, and the app's functions that they call. See runtime_private.h.
 */
#include "workers/runtime_private.h"

#include "agileml/base/clock.h"
#include "workers/crash.h"

#include <stdio.h>
#include <string.h>

enum runtime_command_kind { COMMAND_COMPUTE, COMMAND_EVALUATE, COMMAND_SAVE };

/* ---- In the pool's threads: the app's functions ---- */

int runtime_function_done(struct aml_worker *worker, int result, const char *function) {
    check_leave(worker);
    int checked = check_returned(worker, result, function);
    if (checked < 0) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "the app's %s function failed with code %d", function, checked);
        runtime_fail(worker->runtime, checked, text);
    }
    return checked;
}

static unsigned clock_part(const struct runtime *runtime) {
    return (unsigned)((runtime->command.clock - 1) % (uint64_t)runtime->options.clocks_per_iteration);
}

static void run_gather(struct runtime *runtime, unsigned thread) {
    struct client *client = &runtime->node.client;
    for (uint32_t p = thread; p < client->partition_count; p += runtime->pool.threads) {
        struct error error = {0};
        pthread_rwlock_rdlock(&runtime->lists);
        int result = client_gather(client, p, &error);
        if (result == 0 && runtime->job.reject_nan) {
            result = client_check_numbers(client, p, runtime->node.name, &error);
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

static void call_begin(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    check_enter(worker, CALL_BEGIN);
    runtime_function_done(worker, runtime->app->begin(worker, runtime->app->context), "begin");
    runtime->check.call++; /* the app's next function is another call */
}

static void call_clock(struct aml_worker *worker, unsigned round) {
    struct runtime *runtime = worker->runtime;
    const void *items;
    size_t count = data_block(&runtime->command.set->items, clock_part(runtime), worker->thread, round, &items);
    if (count > 0 && !runtime_failed(runtime)) {
        check_enter(worker, CALL_CLOCK);
        runtime_function_done(worker, runtime->app->clock(worker, items, count, runtime->app->context), "clock");
    }
}

/* Calls `clock` with all items of the clock: with clock_alone the set is arranged for one thread. */
static void call_clock_alone(struct aml_worker *worker) {
    call_clock(worker, 0);
}

/* With PROTEUS_CHECK=1, checks the rows in thread 0 while no thread is in the app. All threads call this. */
static void run_check(struct aml_worker *worker, void (*check)(struct runtime *runtime)) {
    struct runtime *runtime = worker->runtime;
    if (runtime->check.on) {
        pthread_barrier_wait(&runtime->pool.barrier);
        if (worker->thread == 0 && !runtime_failed(runtime)) {
            check(runtime);
        }
        pthread_barrier_wait(&runtime->pool.barrier);
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

static void run_compute(struct runtime *runtime, struct aml_worker *worker) {
    const struct aml_app *app = runtime->app;
    uint64_t start_us = monotonic_us();
    worker->clock = runtime->command.clock;
    memset(worker->metrics, 0, sizeof worker->metrics);
    run_check(worker, check_before);
    if (runtime->command.begin && app->begin != NULL) {
        run_leading(worker, "begin", call_begin);
        run_check(worker, check_begun);
    }
    if (app->clock_alone) {
        run_leading(worker, "clock", call_clock_alone);
    }
    crash_enter("clock", runtime->command.clock);
    for (unsigned round = 0; round < runtime->command.set->items.bins && !app->clock_alone; round++) {
        call_clock(worker, round);
        pthread_barrier_wait(&runtime->pool.barrier); /* threads exchange bins; the gathering follows the last round */
        run_check(worker, check_round);
    }
    crash_leave();
    run_check(worker, check_computed);
    if (worker->thread == 0) {
        runtime->command.compute_us = monotonic_us() - start_us;
    }
    if (!runtime_failed(runtime)) {
        run_gather(runtime, worker->thread);
    }
}

static void call_evaluate(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    const void *items;
    size_t count = data_tests(&runtime->command.set->items, worker->thread, &items);
    if ((count > 0 || runtime->app->evaluate_always) && !runtime_failed(runtime)) {
        check_enter(worker, CALL_EVALUATE);
        runtime_function_done(worker, runtime->app->evaluate(worker, items, count, runtime->app->context), "evaluate");
    }
}

static void run_evaluate(const struct runtime *runtime, struct aml_worker *worker) {
    worker->clock = runtime->command.clock;
    if (runtime->command.again) {
        memset(worker->metrics, 0, sizeof worker->metrics);
    }
    run_check(worker, check_before);
    if (runtime->command.begin && runtime->app->begin != NULL) {
        run_leading(worker, "begin", call_begin);
        run_check(worker, check_begun);
    }
    if (runtime->app->clock_alone) {
        run_leading(worker, "evaluate", call_evaluate);
    } else {
        crash_enter("evaluate", runtime->command.clock);
        call_evaluate(worker);
        crash_leave();
    }
    run_check(worker, check_evaluated);
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
    runtime_function_done(worker, unsaving ? 0 : result, "finish");
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
    case COMMAND_EVALUATE:
        run_evaluate(runtime, worker);
        break;
    case COMMAND_SAVE:
        run_finish(worker);
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

static void sum_metrics(const struct runtime *runtime, struct wire_metric_sum *sums) {
    memset(sums, 0, WIRE_METRICS_MAX * sizeof *sums);
    for (unsigned t = 0; t < runtime->pool.threads; t++) {
        for (unsigned m = 0; m < runtime->app->metric_count; m++) {
            sums[m].sum += runtime->workers[t].metrics[m].sum;
            sums[m].weight += runtime->workers[t].metrics[m].weight;
        }
    }
}

static void command_done(void *context) {
    struct runtime *runtime = context;
    struct node *node = &runtime->node;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    runtime_enter(runtime);
    int command = runtime->pool.command; /* set only by who runs the main thread's loop */
    runtime->command.busy = false;
    cache_trim(&node->cache);
    runtime_grow_cache(runtime);
    if (node->ended) {
        /* the result is not needed */
    } else if (command == COMMAND_SAVE) {
        bool unsaving = runtime->finish == FINISH_TO_RETURN;
        runtime->finish = FINISH_NONE;
        node_saved(node, unsaving ? AML_ESTOP : runtime->error.code, unsaving ? "" : runtime->error.text);
        runtime_forget_failure(runtime); /* the controller decides what follows, perhaps another attempt */
    } else if (runtime->error.code != 0) {
        node_fail(node, runtime->error.code, runtime->error.text);
    } else if (command == COMMAND_COMPUTE) {
        node_computed(node, data_part_count(&runtime->command.set->items, clock_part(runtime)),
                      runtime->command.compute_us);
    } else {
        sum_metrics(runtime, metrics);
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

static void begin_command(struct runtime *runtime, int command) {
    runtime->command.busy = true;
    runtime->check.call++;
    pool_begin(&runtime->pool, command);
}

void runtime_hook_compute(void *context, unsigned set, uint64_t clock) {
    struct runtime *runtime = context;
    runtime->command.set = runtime_set_find(runtime, set);
    runtime->command.clock = clock;
    runtime->command.origins = node_origins(&runtime->node, clock);
    runtime->command.begin =
        runtime->command.begun_origins != runtime->command.origins || runtime->command.begun_set != set;
    runtime->command.begun_set = set;
    runtime->command.begun_origins = runtime->command.origins;
    begin_command(runtime, COMMAND_COMPUTE);
}

/* Begins an evaluation. The app's begin is called first if its last call was for other items. */
static void begin_evaluation(struct runtime *runtime, unsigned set, uint64_t clock, bool again) {
    runtime->command.set = runtime_set_find(runtime, set);
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
    begin_command(runtime, COMMAND_EVALUATE);
}

void runtime_hook_evaluate(void *context, unsigned set, uint64_t clock, bool again) {
    struct runtime *runtime = context;
    uint64_t each = (uint64_t)runtime->options.evaluate_every;
    bool due = clock % each == 0 || clock % (uint64_t)runtime->options.clocks_per_iteration == 0;
    if (runtime->app->evaluate != NULL && due) {
        begin_evaluation(runtime, set, clock, again);
        return;
    }
    struct wire_metric_sum metrics[WIRE_METRICS_MAX] = {0};
    if (!again) {
        sum_metrics(runtime, metrics);
    }
    node_evaluated(&runtime->node, metrics);
}

void runtime_hook_save(void *context) {
    struct runtime *runtime = context;
    runtime->finish = FINISH_RUNNING;
    runtime->command.set = NULL; /* sets may be released meanwhile */
    runtime->command.clock = runtime_last_clock(&runtime->node);
    begin_command(runtime, COMMAND_SAVE);
}

void runtime_hook_unsave(void *context) {
    struct runtime *runtime = context;
    runtime->finish = runtime->finish == FINISH_RUNNING ? FINISH_TO_RETURN : runtime->finish;
}
