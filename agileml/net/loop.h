/* Which thread runs an actor's loop: its owner, or for a moment another thread of the process, which borrows the loop
 * while the owner sleeps. Waking the owner would cost more than a little work. Knows no messages and no descriptors.
 *
 *            begin           sleep            borrow
 *     IDLE ---------> OWNED ---------> ASLEEP ---------> LENT
 *      ^               |  ^             |  ^              |  |
 *      |               |  '--- resume --'  '-- give_back -'  |
 *      |               | stop                                | stop
 *      |      end      v                                     |
 *      '----------- STOPPING <-------------------------------'
 *
 *   IDLE      no thread runs the loop: it has not begun, or it has ended. Its io is used by one thread, without a lock.
 *   OWNED     the owner, the thread that began the loop, runs it.
 *   ASLEEP    the owner waits for its descriptors, at most until `until_us`. Any thread may borrow the loop.
 *   LENT      a borrower runs the loop. An owner whose descriptors wake it meanwhile waits in loop_resume.
 *   STOPPING  a callback has stopped the loop. The owner ends it, and no thread borrows it any more. If a borrower ran
 *             the callback, the borrower gives the loop back as always, and must wake the owner.
 *
 * The owner may end the loop from OWNED too, when it can't go on.
 *
 * The thread that runs the loop holds `turn` and has the loop's io to itself. The lock serves nothing else: a turn of
 * the owner costs one locking and one unlocking, and so does a loan. A borrower never waits for the lock.
 *
 * Loops are borrowed in two places (zmq_io.c):
 *
 *   net_io_lend     a thread that has sent messages to a sleeping actor receives them in its place (lent_for)
 *   net_io_borrow   a thread calls a function as the actor, and runs the loop while messages follow from that. So does
 *                   the last thread of a pool that ends a command (pool.handle_end) */
#ifndef AGILEML_NET_LOOP_H
#define AGILEML_NET_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum loop_state { LOOP_IDLE, LOOP_OWNED, LOOP_ASLEEP, LOOP_LENT, LOOP_STOPPING };

struct loop {
    pthread_mutex_t turn;  /* held by the thread that runs the loop */
    enum loop_state state; /* under `turn` */
    uint64_t until_us;     /* under `turn`: when the sleeping owner wakes by itself; 0: never */
};

void loop_open(struct loop *loop);
/* Waits until a borrower, if there is one, has given the loop back. */
void loop_close(struct loop *loop);

/* ---- The owner ---- */

void loop_begin(struct loop *loop);
/* `until_us` is the timer that the owner will wake for; 0: none. */
void loop_sleep(struct loop *loop, uint64_t until_us);
/* Waits for the borrower, if there is one. The loop may be stopping afterwards. */
void loop_resume(struct loop *loop);
void loop_end(struct loop *loop);

/* ---- A borrower ---- */

/* Returns false at once if the owner does not sleep, or another thread has borrowed the loop. */
bool loop_borrow(struct loop *loop);
/* To be called after the borrower has woken the owner, if it leaves work to the owner. */
void loop_give_back(struct loop *loop);
/* Whether the sleeping owner would wake too late for this timer; 0: none. */
bool loop_oversleeps(const struct loop *loop, uint64_t timer_us);

/* ---- The thread that runs the loop ---- */

/* Does nothing in an idle loop. */
void loop_stop(struct loop *loop);
bool loop_is_stopping(const struct loop *loop);
/* Whether the loop has begun and has not ended. */
bool loop_is_running(const struct loop *loop);

#endif
