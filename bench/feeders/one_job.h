/* An event simulation of one job with feeders: a trainer, its link, and feeders with threads. bench/feeders/asks.h
 * decides what each feeder is asked for. No sockets, no real time: the same seed gives the same events.
 *
 * A feeder's thread makes a batch in `feed_us`, give or take `jitter`. Batches share the trainer's link. The trainer
 * trains on one batch at a time, in any order; its threads receive messages meanwhile. Without feeders these threads
 * make the batches. Here a job's trainer is one machine, and clocks have no barrier. */
#ifndef BENCH_FEEDERS_ONE_JOB_H
#define BENCH_FEEDERS_ONE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job_model {
    double feed_us;        /* time of a feeder thread to make a batch */
    double train_us;       /* time of the trainer's device to train on a batch */
    double cpu_us;         /* time of trainer threads per batch, besides receiving */
    double message_us;     /* time of a trainer thread to receive a message */
    unsigned messages;     /* messages per batch: 1 if fused, else one for each of its parts */
    double bytes;          /* size of a batch */
    unsigned trainer_cpus; /* trainer threads that make batches and receive */
    double link_bytes_us;  /* the trainer's link: bytes per microsecond */
    double latency_us;     /* latency of a message, one way */
    double jitter;         /* a batch takes from 1 - jitter to 1 + jitter times feed_us */
    unsigned ahead;        /* credit of a feeder, in batches */
};

/* Measurements of one window. Rates are batches per second. */
struct job_window {
    double rate;
    double starved;                /* part of the time in which the trainer waited; see struct feeders_view */
    double busy;                   /* part of the feeder threads' time in which they worked */
    uint64_t own, repeated, again; /* batches that the trainer made itself; dropped answers; repeated asks */
};

struct one_job;

struct one_job *one_job_open(const struct job_model *model, uint64_t seed);
void one_job_close(struct one_job *job);

/* A new feeder works at once, with the number of threads that was set last. The last feeder is removed. */
void one_job_add_feeder(struct one_job *job);
void one_job_remove_feeder(struct one_job *job);
void one_job_set_threads(struct one_job *job, unsigned threads);
unsigned one_job_feeders(const struct one_job *job);
/* From now on the last feeder needs `factor` times as long. */
void one_job_slow_down(struct one_job *job, double factor);

void one_job_run(struct one_job *job, double seconds, struct job_window *window);

/* Returns whether each batch was trained on exactly once. The last batches, which may be on their way, do not count. */
bool one_job_exactly_once(const struct one_job *job);

#endif
