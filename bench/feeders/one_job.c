/* See one_job.h. */
#include "bench/feeders/one_job.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "bench/feeders/asks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 64,
    FEEDERS = 512,
    QUEUED = 1024, /* most asks that wait at a feeder */
    AHEAD = 1024   /* most batches that are wanted at once */
};

enum event_type { ASK_COMES, BATCH_MADE, BATCH_COMES, TRAINED, ANSWER_LATE };

struct event {
    double at; /* seconds */
    uint64_t order;
    enum event_type type;
    uint64_t feeder;
    uint64_t batch;
};

struct feeder {
    uint64_t name;
    unsigned threads, busy;
    double factor; /* its work takes longer by this factor */
    double worked; /* thread-seconds of work in this window */
    uint64_t queue[QUEUED];
    unsigned first, count;
};

struct one_job {
    struct job_model model;
    struct feed_asks *asks;
    uint64_t random;
    double now;       /* seconds */
    double link_free; /* when the link has sent everything queued on it */
    double late_at;   /* when the earliest ANSWER_LATE event comes */
    struct feeder *feeders;
    unsigned feeder_count, threads;
    uint64_t names;
    struct event *events; /* a heap: the earliest first */
    size_t event_count;
    uint64_t event_order;
    uint64_t wanted;    /* batches wanted so far */
    uint64_t *ready;    /* batches taken but not yet trained on, in the order of arrival */
    size_t ready_count; /* at most AHEAD */
    bool training;
    double idle_since, idle, own_seconds;
    unsigned char *trained; /* how often each batch was trained on */
    uint64_t trained_count, trained_before;
    struct job_window window;
};

/* ---- Events ---- */

static bool is_before(const struct event *one, const struct event *other) {
    return one->at < other->at || (one->at == other->at && one->order < other->order);
}

static void plan_event(struct one_job *job, double at, enum event_type type, uint64_t feeder, uint64_t batch) {
    size_t place = job->event_count++;
    struct event event = {at, job->event_order++, type, feeder, batch};
    job->events = memory_resized(job->events, job->event_count, sizeof *job->events);
    for (; place > 0 && is_before(&event, &job->events[(place - 1) / 2]); place = (place - 1) / 2) {
        job->events[place] = job->events[(place - 1) / 2];
    }
    job->events[place] = event;
}

static struct event take_event(struct one_job *job) {
    struct event first = job->events[0];
    struct event last = job->events[--job->event_count];
    size_t place = 0;
    for (size_t child = 1; child < job->event_count; child = 2 * place + 1) {
        child += child + 1 < job->event_count && is_before(&job->events[child + 1], &job->events[child]);
        if (!is_before(&job->events[child], &last)) {
            break;
        }
        job->events[place] = job->events[child];
        place = child;
    }
    job->events[place] = last;
    return first;
}

/* ---- Batches ---- */

static struct feed_batch batch_of(uint64_t number) {
    return (struct feed_batch){(uint32_t)(number % SHARDS), (uint32_t)(number / SHARDS)};
}

static uint64_t number_of(struct feed_batch batch) {
    return (uint64_t)batch.clock * SHARDS + batch.shard;
}

static void want_batches(struct one_job *job) {
    while (job->wanted - job->trained_count < AHEAD) {
        int status = feed_asks_want(job->asks, batch_of(job->wanted), (uint64_t)job->model.bytes);
        assert(status == 0);
        (void)status;
        job->wanted++;
        job->trained = memory_resized(job->trained, job->wanted, sizeof *job->trained);
        job->trained[job->wanted - 1] = 0;
    }
}

static void send_asks(struct one_job *job) {
    struct feed_ask ask;
    while (feed_asks_next(job->asks, job->now, &ask)) {
        job->window.again += ask.again;
        plan_event(job, job->now + job->model.latency_us * 1e-6, ASK_COMES, ask.feeder, number_of(ask.batch));
    }
    double due = feed_asks_due(job->asks);
    if (isfinite(due) && (due < job->late_at || job->late_at <= job->now)) {
        job->late_at = fmax(due, job->now + 1e-6);
        plan_event(job, job->late_at, ANSWER_LATE, 0, 0);
    }
}

/* ---- The trainer ---- */

static void train(struct one_job *job, uint64_t batch, double cpu_us, double input_us) {
    const struct job_model *model = &job->model;
    double cpu = (cpu_us + input_us) / model->trainer_cpus;
    double us = fmax(model->train_us, cpu);
    job->training = true;
    job->idle += job->now - job->idle_since;
    plan_event(job, job->now + us * 1e-6, TRAINED, 0, batch);
}

/* Starts to train on the next batch: one that has arrived, or without feeders one that the trainer makes itself. */
static void train_next(struct one_job *job) {
    const struct job_model *model = &job->model;
    struct feed_batch own;
    if (job->training) {
        return;
    }
    if (job->ready_count > 0) {
        uint64_t batch = job->ready[0];
        job->ready_count--;
        memmove(&job->ready[0], &job->ready[1], job->ready_count * sizeof job->ready[0]);
        train(job, batch, model->cpu_us, model->message_us * model->messages);
    } else if (job->feeder_count == 0 && feed_asks_take_back(job->asks, &own)) {
        job->window.own++;
        train(job, number_of(own), model->cpu_us, model->feed_us);
        double alone = fmax(model->train_us, model->cpu_us / model->trainer_cpus);
        double with = fmax(model->train_us, (model->cpu_us + model->feed_us) / model->trainer_cpus);
        job->own_seconds += (with - alone) * 1e-6;
    }
}

static void end_training(struct one_job *job, uint64_t batch) {
    job->training = false;
    job->idle_since = job->now;
    job->trained[batch]++;
    job->trained_count++;
    feed_asks_used(job->asks, batch_of(batch)); /* fails when the trainer has made the batch itself */
    want_batches(job);
    train_next(job);
    send_asks(job);
}

/* ---- Feeders ---- */

static struct feeder *find_feeder(struct one_job *job, uint64_t name) {
    for (unsigned f = 0; f < job->feeder_count; f++) {
        if (job->feeders[f].name == name) {
            return &job->feeders[f];
        }
    }
    return NULL;
}

static void make_batches(struct one_job *job, struct feeder *feeder) {
    while (feeder->count > 0 && feeder->busy < feeder->threads) {
        double part = (double)(hash_mix(job->random++) >> 11) * 0x1p-53;
        double seconds = job->model.feed_us * 1e-6 * feeder->factor * (1 + job->model.jitter * (2 * part - 1));
        plan_event(job, job->now + seconds, BATCH_MADE, feeder->name, feeder->queue[feeder->first]);
        feeder->first = (feeder->first + 1) % QUEUED;
        feeder->count--;
        feeder->busy++;
        feeder->worked += seconds;
    }
}

static void ask_comes(struct one_job *job, const struct event *event) {
    struct feeder *feeder = find_feeder(job, event->feeder);
    if (feeder != NULL) {
        assert(feeder->count < QUEUED);
        feeder->queue[(feeder->first + feeder->count++) % QUEUED] = event->batch;
        make_batches(job, feeder);
    }
}

static void batch_made(struct one_job *job, const struct event *event) {
    struct feeder *feeder = find_feeder(job, event->feeder);
    if (feeder != NULL) {
        feeder->busy--;
        make_batches(job, feeder);
        job->link_free = fmax(job->link_free, job->now) + job->model.bytes / job->model.link_bytes_us * 1e-6;
        plan_event(job, job->link_free + job->model.latency_us * 1e-6, BATCH_COMES, event->feeder, event->batch);
    }
}

static void batch_comes(struct one_job *job, const struct event *event) {
    enum feed_answer answer =
        feed_asks_answer(job->asks, event->feeder, batch_of(event->batch), (uint64_t)job->model.bytes, job->now);
    if (answer == FEED_TAKEN) {
        job->ready[job->ready_count++] = event->batch;
    }
    job->window.repeated += answer == FEED_REPEATED; /* FEED_UNASKED: its feeder is gone */
    train_next(job);
    send_asks(job);
}

/* ---- The job ---- */

struct one_job *one_job_open(const struct job_model *model, uint64_t seed) {
    struct one_job *job = memory_zeroed(1, sizeof *job);
    job->model = *model;
    job->random = hash_mix(seed);
    job->threads = 1;
    job->feeders = memory_zeroed(FEEDERS, sizeof *job->feeders);
    job->ready = memory_zeroed(AHEAD, sizeof *job->ready);
    job->late_at = INFINITY;
    job->asks = feed_asks_open((uint64_t)model->bytes * AHEAD / 2, (uint64_t)model->bytes * model->ahead);
    want_batches(job);
    return job;
}

void one_job_close(struct one_job *job) {
    feed_asks_close(job->asks);
    free(job->feeders);
    free(job->ready);
    free(job->events);
    free(job->trained);
    free(job);
}

unsigned one_job_feeders(const struct one_job *job) {
    return job->feeder_count;
}

void one_job_set_threads(struct one_job *job, unsigned threads) {
    job->threads = threads;
    for (unsigned f = 0; f < job->feeder_count; f++) {
        job->feeders[f].threads = threads;
        make_batches(job, &job->feeders[f]);
    }
}

void one_job_add_feeder(struct one_job *job) {
    assert(job->feeder_count < FEEDERS);
    job->feeders[job->feeder_count++] = (struct feeder){.name = ++job->names, .threads = job->threads, .factor = 1};
    feed_asks_add_feeder(job->asks, job->names);
    send_asks(job);
}

void one_job_remove_feeder(struct one_job *job) {
    assert(job->feeder_count > 0);
    feed_asks_remove_feeder(job->asks, job->feeders[--job->feeder_count].name);
    send_asks(job);
}

void one_job_slow_down(struct one_job *job, double factor) {
    assert(job->feeder_count > 0);
    job->feeders[job->feeder_count - 1].factor = factor;
}

static void handle(struct one_job *job, const struct event *event) {
    switch (event->type) {
    case ASK_COMES:
        ask_comes(job, event);
        break;
    case BATCH_MADE:
        batch_made(job, event);
        break;
    case BATCH_COMES:
        batch_comes(job, event);
        break;
    case TRAINED:
        end_training(job, event->batch);
        break;
    default:
        send_asks(job);
        break;
    }
}

static void begin_window(struct one_job *job) {
    job->window = (struct job_window){0};
    job->trained_before = job->trained_count;
    job->idle = job->own_seconds = 0;
    job->idle_since = job->now;
    for (unsigned f = 0; f < job->feeder_count; f++) {
        job->feeders[f].worked = 0;
    }
}

void one_job_run(struct one_job *job, double seconds, struct job_window *window) {
    double end = job->now + seconds;
    double worked = 0;
    double threads = 0;
    begin_window(job);
    train_next(job);
    send_asks(job);
    while (job->event_count > 0 && job->events[0].at <= end) {
        struct event event = take_event(job);
        job->now = event.at;
        handle(job, &event);
    }
    job->now = end;
    job->idle += job->training ? 0 : end - job->idle_since;
    for (unsigned f = 0; f < job->feeder_count; f++) {
        worked += job->feeders[f].worked;
        threads += job->feeders[f].threads;
    }
    job->window.rate = (double)(job->trained_count - job->trained_before) / seconds;
    job->window.starved = fmin((job->idle + job->own_seconds) / seconds, 1);
    job->window.busy = threads > 0 ? fmin(worked / threads / seconds, 1) : 0;
    *window = job->window;
}

bool one_job_exactly_once(const struct one_job *job) {
    for (uint64_t b = 0; b < job->wanted; b++) {
        bool must = b + AHEAD < job->trained_count;
        if (job->trained[b] > 1 || (must && job->trained[b] == 0)) {
            return false;
        }
    }
    return true;
}
