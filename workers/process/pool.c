/* Worker threads that run commands together. See pool.h. */
#include "workers/process/pool.h"

#include "agileml/base/clock.h"
#include "agileml/base/crash_signals.h"
#include "agileml/base/memory.h"
#include "workers/data/crash.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct pool_thread {
    struct pool *pool;
    unsigned number;
};

static void spin_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits a little for the next command, which often follows at once if `handle_end` begins it. */
static void pool_spin(struct pool *pool, unsigned seen) {
    for (unsigned spin = 0; spin < pool->team.spins; spin++) {
        if (atomic_load_explicit(&pool->generation, memory_order_relaxed) != seen) {
            return;
        }
        spin_pause();
    }
}

static void *pool_main(void *argument) {
    struct pool_thread self = *(struct pool_thread *)argument;
    free(argument);
    struct pool *pool = self.pool;
    unsigned seen = 0;
    bool last = true;
    crash_thread_begin();
    for (;;) {
        if (!last && pool->handle_end != NULL) {
            pool_spin(pool, seen);
        }
        pthread_mutex_lock(&pool->lock);
        while ((pool->generation == seen || self.number >= pool->active) && !pool->closing) {
            pthread_cond_wait(self.number < pool->active ? &pool->changed : &pool->parked, &pool->lock);
        }
        if (pool->closing) {
            break;
        }
        seen = pool->generation;
        int command = pool->command;
        pthread_mutex_unlock(&pool->lock);
        pool->run(pool->context, self.number, command);
        pthread_mutex_lock(&pool->lock);
        assert(pool->running > 0 && pool->generation == seen);
        last = --pool->running == 0;
        bool closing = pool->closing; /* if so, the data that `handle_end` uses may be freed */
        pthread_mutex_unlock(&pool->lock);
        if (last && (closing || pool->handle_end == NULL || !pool->handle_end(pool->context))) {
            uint64_t one = 1;
            while (write(pool->done, &one, sizeof one) < 0 && errno == EINTR) {
            }
        }
    }
    pthread_mutex_unlock(&pool->lock);
    crash_thread_end();
    return NULL;
}

/* ---- The team ---- */

static unsigned processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : POOL_THREADS_MAX;
}

static void team_open(struct pool_team *team, unsigned threads) {
    team->spins = threads <= processors() ? POOL_SPINS : 0;
    team->seen = memory_zeroed(threads, sizeof *team->seen);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->changed, NULL);
}

static void team_close(struct pool_team *team) {
    free(team->seen);
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
}

/* Returns when `word` is `target`. A thread that changes the word calls team_wake afterwards: either the sleepers see
 * the change, or that thread sees the sleepers. */
static void team_wait(struct pool_team *team, atomic_uint *word, unsigned target) {
    for (unsigned spin = 0; spin < team->spins; spin++) {
        if (atomic_load_explicit(word, memory_order_acquire) == target) {
            return;
        }
        spin_pause();
    }
    pthread_mutex_lock(&team->lock);
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(word) != target) {
        pthread_cond_wait(&team->changed, &team->lock);
    }
    atomic_fetch_sub(&team->sleepers, 1);
    pthread_mutex_unlock(&team->lock);
}

static void team_wake(struct pool_team *team) {
    if (atomic_load(&team->sleepers) > 0) {
        pthread_mutex_lock(&team->lock);
        pthread_cond_broadcast(&team->changed);
        pthread_mutex_unlock(&team->lock);
    }
}

void pool_meet(struct pool *pool) {
    struct pool_team *team = &pool->team;
    assert(pool->active == pool->threads);
    unsigned meeting = atomic_load(&team->meeting); /* the number does not change before this thread has come */
    if (atomic_fetch_add(&team->met, 1) + 1 < pool->threads) {
        team_wait(team, &team->meeting, meeting + 1);
        return;
    }
    atomic_store(&team->met, 0);
    atomic_store(&team->meeting, meeting + 1);
    team_wake(team);
}

void pool_help(struct pool *pool, unsigned thread) {
    struct pool_team *team = &pool->team;
    bool dismissed = false;
    assert(thread > 0 && thread < pool->threads && pool->active == pool->threads);
    while (!dismissed) {
        team_wait(team, &team->call, ++team->seen[thread]);
        dismissed = team->part == NULL;
        if (!dismissed) {
            team->part(team->context, thread, pool->threads);
        }
        if (atomic_fetch_sub(&team->running, 1) == 1) {
            team_wake(team);
        }
    }
}

void pool_parallel(struct pool *pool, pool_part *part, void *context) {
    struct pool_team *team = &pool->team;
    assert(pool->active == pool->threads && atomic_load_explicit(&team->running, memory_order_relaxed) == 0);
    if (pool->threads > 1) {
        team->part = part;
        team->context = context;
        atomic_store_explicit(&team->running, pool->threads - 1, memory_order_relaxed);
        atomic_fetch_add(&team->call, 1);
        team_wake(team);
    }
    if (part != NULL) {
        part(context, 0, pool->threads);
    }
    team_wait(team, &team->running, 0);
}

void pool_dismiss(struct pool *pool) {
    pool_parallel(pool, NULL, NULL);
}

/* ---- Commands ---- */

int pool_open(struct pool *pool, unsigned threads, void (*run)(void *context, unsigned thread, int command),
              void *context, struct error *error) {
    *pool = (struct pool){.run = run, .context = context, .threads = threads, .active = threads};
    pool->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->done < 0) {
        return error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno));
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, NULL);
    pthread_cond_init(&pool->parked, NULL);
    team_open(&pool->team, threads);
    pool->handles = memory_zeroed(threads, sizeof *pool->handles);
    sigset_t others;
    sigset_t before;
    sigfillset(&others);
    for (size_t s = 0; s < CRASH_SIGNAL_COUNT; s++) {
        sigdelset(&others, CRASH_SIGNALS[s]);
    }
    pthread_sigmask(SIG_BLOCK, &others, &before);
    int result = 0;
    while (pool->started < threads && result == 0) {
        struct pool_thread *argument = memory_zeroed(1, sizeof *argument);
        *argument = (struct pool_thread){.pool = pool, .number = pool->started};
        result = pthread_create(&pool->handles[pool->started], NULL, pool_main, argument);
        if (result != 0) {
            free(argument);
        } else {
            pool->started++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0) {
        pool_close(pool, 1000);
        return error_set(error, AML_EFAIL, "can't start %u worker threads: %s", threads, strerror(result));
    }
    return 0;
}

void pool_begin_some(struct pool *pool, int command, unsigned threads) {
    pthread_mutex_lock(&pool->lock);
    bool more = threads > pool->active;
    assert(pool->running == 0 && threads >= 1 && threads <= pool->threads);
    pool->command = command;
    pool->running = pool->active = threads;
    pool->generation++;
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_broadcast(&pool->changed);
    if (more) {
        pthread_cond_broadcast(&pool->parked);
    }
}

void pool_begin(struct pool *pool, int command) {
    pool_begin_some(pool, command, pool->threads);
}

bool pool_close(struct pool *pool, unsigned timeout_ms) {
    if (pool->handles == NULL) {
        return true;
    }
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_cond_broadcast(&pool->parked);
    pthread_mutex_unlock(&pool->lock);
    struct timespec deadline = clock_after_ms(CLOCK_REALTIME, timeout_ms);
    for (unsigned t = 0; t < pool->started; t++) {
        if (pthread_timedjoin_np(pool->handles[t], NULL, &deadline) != 0) {
            return false;
        }
    }
    team_close(&pool->team);
    pthread_cond_destroy(&pool->changed);
    pthread_cond_destroy(&pool->parked);
    pthread_mutex_destroy(&pool->lock);
    free(pool->handles);
    close(pool->done);
    memset(pool, 0, sizeof *pool);
    return true;
}
