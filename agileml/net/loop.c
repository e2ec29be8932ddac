/* See loop.h. */
#include "agileml/net/loop.h"

#include <assert.h>

void loop_open(struct loop *loop) {
    *loop = (struct loop){.state = LOOP_IDLE};
    pthread_mutex_init(&loop->turn, NULL);
}

void loop_close(struct loop *loop) {
    pthread_mutex_lock(&loop->turn);
    assert(loop->state == LOOP_IDLE);
    pthread_mutex_unlock(&loop->turn);
    pthread_mutex_destroy(&loop->turn);
}

void loop_begin(struct loop *loop) {
    pthread_mutex_lock(&loop->turn);
    assert(loop->state == LOOP_IDLE);
    loop->state = LOOP_OWNED;
}

void loop_sleep(struct loop *loop, uint64_t until_us) {
    assert(loop->state == LOOP_OWNED);
    loop->state = LOOP_ASLEEP;
    loop->until_us = until_us;
    pthread_mutex_unlock(&loop->turn);
}

void loop_resume(struct loop *loop) {
    pthread_mutex_lock(&loop->turn);
    assert(loop->state == LOOP_ASLEEP || loop->state == LOOP_STOPPING);
    if (loop->state == LOOP_ASLEEP) {
        loop->state = LOOP_OWNED;
    }
}

void loop_end(struct loop *loop) {
    assert(loop->state == LOOP_OWNED || loop->state == LOOP_STOPPING);
    loop->state = LOOP_IDLE;
    pthread_mutex_unlock(&loop->turn);
}

bool loop_borrow(struct loop *loop) {
    if (pthread_mutex_trylock(&loop->turn) != 0) {
        return false;
    }
    if (loop->state != LOOP_ASLEEP) {
        pthread_mutex_unlock(&loop->turn);
        return false;
    }
    loop->state = LOOP_LENT;
    return true;
}

void loop_give_back(struct loop *loop) {
    assert(loop->state == LOOP_LENT || loop->state == LOOP_STOPPING);
    if (loop->state == LOOP_LENT) {
        loop->state = LOOP_ASLEEP;
    }
    pthread_mutex_unlock(&loop->turn);
}

bool loop_oversleeps(const struct loop *loop, uint64_t timer_us) {
    return timer_us != 0 && (loop->until_us == 0 || timer_us < loop->until_us);
}

void loop_stop(struct loop *loop) {
    if (loop->state != LOOP_IDLE) {
        loop->state = LOOP_STOPPING;
    }
}

bool loop_is_stopping(const struct loop *loop) {
    return loop->state == LOOP_STOPPING;
}

bool loop_is_running(const struct loop *loop) {
    return loop->state != LOOP_IDLE;
}
