/* See asks.h. */
#include "bench/feeders/asks.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum phase { WANTED, ASKED, HERE };

struct wanted {
    struct feed_batch batch;
    enum phase phase;
    uint64_t bytes; /* the most it may have; once it is here: its bytes */
    unsigned tries; /* feeders that were asked for it */
    unsigned open;  /* unanswered asks for it */
    double asked;   /* seconds: when it was last asked for */
};

/* An unanswered ask. */
struct open_ask {
    size_t feeder; /* index of the feeder */
    struct feed_batch batch;
    uint64_t bytes;
    double asked;
};

struct feeder {
    uint64_t name;
    uint64_t bytes; /* bytes of its open asks */
};

struct feed_asks {
    uint64_t queue_bytes, feeder_bytes; /* limits of the queue and of each feeder */
    uint64_t bytes;                     /* bytes of open asks and of batches that are here */
    size_t feeder_count, batch_count, ask_count;
    size_t turn; /* where the search starts among equally loaded feeders */
    struct feeder feeders[FEED_FEEDERS];
    struct wanted batches[FEED_BATCHES]; /* in the order of their addition */
    struct open_ask asks[FEED_ASKS];
    unsigned answers;         /* number of all answers so far */
    double times[FEED_TIMES]; /* latest times from an ask to its answer */
    double median;            /* INFINITY: unknown */
};

struct feed_asks *feed_asks_open(uint64_t queue_bytes, uint64_t feeder_bytes) {
    struct feed_asks *asks = memory_zeroed(1, sizeof *asks);
    asks->queue_bytes = queue_bytes;
    asks->feeder_bytes = feeder_bytes;
    asks->median = INFINITY;
    return asks;
}

void feed_asks_close(struct feed_asks *asks) {
    free(asks);
}

uint64_t feed_asks_bytes(const struct feed_asks *asks) {
    return asks->bytes;
}

/* ---- Looking up ---- */

static bool same(struct feed_batch one, struct feed_batch other) {
    return one.shard == other.shard && one.clock == other.clock;
}

/* Each returns an index, or SIZE_MAX when nothing is found. */
static size_t find_feeder(const struct feed_asks *asks, uint64_t name) {
    for (size_t f = 0; f < asks->feeder_count; f++) {
        if (asks->feeders[f].name == name) {
            return f;
        }
    }
    return SIZE_MAX;
}

static size_t find_batch(const struct feed_asks *asks, struct feed_batch batch) {
    for (size_t b = 0; b < asks->batch_count; b++) {
        if (same(asks->batches[b].batch, batch)) {
            return b;
        }
    }
    return SIZE_MAX;
}

static size_t find_ask(const struct feed_asks *asks, size_t feeder, struct feed_batch batch) {
    for (size_t a = 0; a < asks->ask_count; a++) {
        if (asks->asks[a].feeder == feeder && same(asks->asks[a].batch, batch)) {
            return a;
        }
    }
    return SIZE_MAX;
}

uint64_t feed_asks_feeder_bytes(const struct feed_asks *asks, uint64_t feeder) {
    size_t index = find_feeder(asks, feeder);
    return index == SIZE_MAX ? 0 : asks->feeders[index].bytes;
}

/* ---- Batches and feeders ---- */

int feed_asks_want(struct feed_asks *asks, struct feed_batch batch, uint64_t bytes) {
    if (bytes > asks->queue_bytes || bytes > asks->feeder_bytes || find_batch(asks, batch) != SIZE_MAX) {
        return AML_EINPUT;
    }
    if (asks->batch_count == FEED_BATCHES) {
        return AML_ELIMIT;
    }
    asks->batches[asks->batch_count++] = (struct wanted){.batch = batch, .bytes = bytes};
    return 0;
}

static void remove_batch(struct feed_asks *asks, size_t batch) {
    asks->bytes -= asks->batches[batch].phase == HERE ? asks->batches[batch].bytes : 0;
    asks->batch_count--;
    memmove(&asks->batches[batch], &asks->batches[batch + 1], (asks->batch_count - batch) * sizeof asks->batches[0]);
}

int feed_asks_used(struct feed_asks *asks, struct feed_batch batch) {
    size_t index = find_batch(asks, batch);
    if (index == SIZE_MAX) {
        return AML_EINPUT;
    }
    remove_batch(asks, index);
    return 0;
}

bool feed_asks_take_back(struct feed_asks *asks, struct feed_batch *batch) {
    for (size_t b = 0; b < asks->batch_count; b++) {
        if (asks->batches[b].phase == WANTED) {
            *batch = asks->batches[b].batch;
            remove_batch(asks, b);
            return true;
        }
    }
    return false;
}

int feed_asks_add_feeder(struct feed_asks *asks, uint64_t feeder) {
    if (find_feeder(asks, feeder) != SIZE_MAX) {
        return AML_EINPUT;
    }
    if (asks->feeder_count == FEED_FEEDERS) {
        return AML_ELIMIT;
    }
    asks->feeders[asks->feeder_count++] = (struct feeder){.name = feeder};
    return 0;
}

/* Closes an ask, answered or not. The batch is wanted again if no other feeder has been asked for it. */
static void close_ask(struct feed_asks *asks, size_t ask) {
    struct open_ask closed = asks->asks[ask];
    size_t batch = find_batch(asks, closed.batch);
    asks->bytes -= closed.bytes;
    asks->feeders[closed.feeder].bytes -= closed.bytes;
    asks->asks[ask] = asks->asks[--asks->ask_count];
    if (batch != SIZE_MAX && asks->batches[batch].phase == ASKED && --asks->batches[batch].open == 0) {
        asks->batches[batch].phase = WANTED;
        asks->batches[batch].tries = 0;
    }
}

int feed_asks_remove_feeder(struct feed_asks *asks, uint64_t feeder) {
    size_t index = find_feeder(asks, feeder);
    if (index == SIZE_MAX) {
        return AML_EINPUT;
    }
    for (size_t a = asks->ask_count; a-- > 0;) {
        if (asks->asks[a].feeder == index) {
            close_ask(asks, a);
        }
    }
    assert(asks->feeders[index].bytes == 0);
    size_t last = --asks->feeder_count;
    asks->feeders[index] = asks->feeders[last];
    for (size_t a = 0; a < asks->ask_count; a++) {
        asks->asks[a].feeder = asks->asks[a].feeder == last ? index : asks->asks[a].feeder;
    }
    return 0;
}

/* ---- Asking ---- */

/* Returns the feeder with the fewest requested bytes that has credit for the batch and was not asked for it. SIZE_MAX:
 * none. */
static size_t least_loaded(const struct feed_asks *asks, const struct wanted *wanted) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < asks->feeder_count; i++) {
        size_t f = (asks->turn + i) % asks->feeder_count;
        const struct feeder *feeder = &asks->feeders[f];
        if (feeder->bytes + wanted->bytes <= asks->feeder_bytes &&
            (best == SIZE_MAX || feeder->bytes < asks->feeders[best].bytes) &&
            (wanted->tries == 0 || find_ask(asks, f, wanted->batch) == SIZE_MAX)) {
            best = f;
        }
    }
    return best;
}

static bool is_late(const struct feed_asks *asks, const struct wanted *wanted, double now) {
    return wanted->phase == ASKED && wanted->tries < FEED_TRIES && now - wanted->asked >= FEED_LATE * asks->median;
}

/* Asks a feeder for the batch if credit is left. Returns whether it does. */
static bool ask_for(struct feed_asks *asks, size_t batch, double now, struct feed_ask *ask) {
    struct wanted *wanted = &asks->batches[batch];
    bool again = wanted->phase == ASKED;
    bool credit = asks->bytes + wanted->bytes <= asks->queue_bytes || (again && batch == 0);
    size_t feeder = credit && asks->ask_count < FEED_ASKS ? least_loaded(asks, wanted) : SIZE_MAX;
    if (feeder == SIZE_MAX) {
        return false;
    }
    asks->asks[asks->ask_count++] =
        (struct open_ask){.feeder = feeder, .batch = wanted->batch, .bytes = wanted->bytes, .asked = now};
    asks->feeders[feeder].bytes += wanted->bytes;
    asks->bytes += wanted->bytes;
    asks->turn = feeder + 1;
    wanted->phase = ASKED;
    wanted->asked = now;
    wanted->tries++;
    wanted->open++;
    *ask = (struct feed_ask){asks->feeders[feeder].name, wanted->batch, again};
    return true;
}

/* Late batches first, then batches that no feeder was asked for; both in their order. */
bool feed_asks_next(struct feed_asks *asks, double now, struct feed_ask *ask) {
    for (size_t b = 0; b < asks->batch_count; b++) {
        if (is_late(asks, &asks->batches[b], now) && ask_for(asks, b, now, ask)) {
            return true;
        }
    }
    for (size_t b = 0; b < asks->batch_count; b++) {
        if (asks->batches[b].phase == WANTED) {
            return ask_for(asks, b, now, ask); /* later batches wait for this one */
        }
    }
    return false;
}

double feed_asks_due(const struct feed_asks *asks) {
    double due = INFINITY;
    for (size_t b = 0; b < asks->batch_count; b++) {
        const struct wanted *wanted = &asks->batches[b];
        if (wanted->phase == ASKED && wanted->tries < FEED_TRIES) {
            due = fmin(due, wanted->asked + FEED_LATE * asks->median);
        }
    }
    return due;
}

/* ---- Answers ---- */

static int time_compare(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void learn_time(struct feed_asks *asks, double seconds) {
    double sorted[FEED_TIMES];
    asks->times[asks->answers++ % FEED_TIMES] = seconds;
    unsigned count = asks->answers < FEED_TIMES ? asks->answers : FEED_TIMES;
    if (count >= FEED_TIMES_LEAST) {
        memcpy(sorted, asks->times, count * sizeof sorted[0]);
        qsort(sorted, count, sizeof sorted[0], time_compare);
        asks->median = sorted[count / 2];
    }
}

enum feed_answer feed_asks_answer(struct feed_asks *asks, uint64_t feeder, struct feed_batch batch, uint64_t bytes,
                                  double now) {
    size_t index = find_feeder(asks, feeder);
    size_t ask = index == SIZE_MAX ? SIZE_MAX : find_ask(asks, index, batch);
    if (ask == SIZE_MAX) {
        return FEED_UNASKED;
    }
    size_t wanted = find_batch(asks, batch);
    bool first = wanted != SIZE_MAX && asks->batches[wanted].phase == ASKED;
    bool larger = bytes > asks->asks[ask].bytes;
    if (!larger) {
        learn_time(asks, now - asks->asks[ask].asked);
    }
    if (first && !larger) {
        asks->batches[wanted].phase = HERE;
        asks->batches[wanted].bytes = bytes;
        asks->bytes += bytes;
    }
    close_ask(asks, ask);
    return larger ? FEED_LARGER : first ? FEED_TAKEN : FEED_REPEATED;
}
