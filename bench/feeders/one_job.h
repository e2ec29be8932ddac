/* A simulation by events of one job with feeders: a trainer, its link, feeders with threads. What is asked of whom is
 * decided by bench/feeders/asks. No sockets, no real time: the same seed gives the same events.
 *
 * A feeder's thread makes a batch in `feed_us`, give or take `jitter`. Batches share the trainer's link. The trainer
 * takes batches one after the other, whichever is there. Meanwhile its threads receive messages. Without feeders these
 * threads make the batches. The trainer of a job is one machine here; clocks have no barrier. */
#ifndef BENCH_FEEDERS_ONE_JOB_H
#define BENCH_FEEDERS_ONE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_model {
    double feed_us;        /* of one thread, to make a batch */
    double train_us;       /* of the trainer's device, to train on it */
    double cpu_us;         /* of the trainer's threads for it, besides receiving */
    double message_us;     /* of the trainer's threads to receive a message */
    unsigned messages;     /* for a batch: 1 fused, or one for each of its parts */
    double bytes;          /* of a batch */
    unsigned trainer_cpus; /* threads of the trainer that make batches and receive */
    double link_bytes_us;  /* the trainer's link: bytes in a microsecond */
    double latency_us;     /* of a message, each way */
    double jitter;         /* feeding takes from 1 - jitter to 1 + jitter of its time */
    unsigned ahead;        /* batches of credit of a feeder */
};

/* What was measured within a window. Rates are batches a second. */
struct job_window {
    double rate;
    double starved;                /* the part of the time in which the trainer waited; see struct feeders_view */
    double busy;                   /* of the feeders' threads' time */
    uint64_t own, repeated, again; /* batches that the trainer made itself; dropped answers; repeated asks */
};

struct one_job;

struct one_job *one_job_open(const struct job_model *model, uint64_t seed);
void one_job_close(struct one_job *job);

/* Feeders come at once, with the threads that were set last; the last one leaves. */
void one_job_add_feeder(struct one_job *job);
void one_job_remove_feeder(struct one_job *job);
void one_job_set_threads(struct one_job *job, unsigned threads);
unsigned one_job_feeders(const struct one_job *job);
/* The last feeder needs so many times as long from now on. */
void one_job_slow_down(struct one_job *job, double factor);

void one_job_run(struct one_job *job, double seconds, struct job_window *window);

/* Returns whether no batch was trained on twice, and none was left out but the last ones, which may be on their way. */
bool one_job_exactly_once(const struct one_job *job);

#endif
