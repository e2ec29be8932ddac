/* The arithmetic of a clock, for one interval: gathers messages or errors from rows, and makes those of the next phase
 * and gradients (network.h). Pure: what an interval makes depends only on its bytes and on rows, so any process makes
 * the same. Knows nothing of jobs; rows are places in memory. Any number of threads, each for an interval of its
 * own. */
#ifndef APPS_GNN_COMPUTE_H
#define APPS_GNN_COMPUTE_H

#include "agileml.h"
#include "apps/gnn/interval.h"
#include "apps/gnn/network.h"

/* Whether training drops values. Then messages without dropout, for evaluation, lie beside those of training. */
static inline bool gnn_drops(double dropout, double attention_dropout) {
    return dropout > 0 || attention_dropout > 0;
}

/* What the intervals of a clock have in common. */
struct gnn_clock {
    const struct gnn_network *network;
    const struct nn_graph *kernels;
    const float *parameters; /* [network->parameters] */
    /* Rows by layer, from network->gathered on. A row of `forward` is a message; with dropout two: of training, then
     * without dropout. `sums` take what an interval makes of its own vertices' rows. */
    struct aml_rows forward[GNN_LAYERS_MAX + 1], backward[GNN_LAYERS_MAX + 1];
    float dropout, attention_dropout;
    uint64_t seed;
    double train;    /* training vertices of the graph */
    uint64_t number; /* of the clock */
    /* The iteration whose messages are in the rows, or are made. Dropout depends on it. 0: there are none, and only
     * messages are made. */
    uint64_t pass;
};

/* What a process keeps of an interval from clock to clock of a pass, so as not to compute it again. Never part of the
 * state: without it the same values are computed from rows. A zeroed struct is empty. */
struct gnn_memo {
    uint64_t pass;
    struct gnn_hidden {
        uint64_t made[2]; /* the clock in which values[] were made; 0: never */
        float *values[2]; /* [own][out_pitch] of H_l: of training, after dropout; and without dropout */
    } hidden[GNN_LAYERS_MAX + 1];
};
void gnn_memo_close(struct gnn_memo *memo);

/* A thread's memory: sums and workspace. A zeroed struct is empty. */
struct gnn_thread {
    float *gradient; /* [parameters]; the caller allocates, takes and zeroes it */
    struct gnn_workspace {
        float *values;
        size_t room;
    } spaces[12];
};
void gnn_thread_close(struct gnn_thread *thread);

/* An interval as a clock's tasks see it. */
struct gnn_task {
    struct interval interval;
    const uint32_t *slots; /* [tables][own + ghosts]: forward and backward of each layer that gathers, in turn */
    struct gnn_memo *memo;
};

/* Works on a phase of --pipeline sync. */
void gnn_phase(const struct gnn_clock *clock, unsigned phase, const struct gnn_task *task, struct gnn_thread *thread);

/* Works on a clock of --pipeline async: a whole pass, with fresh rows of own vertices, and the table's rows of ghosts
 * (Dorylus, section 2.5). `learn` false: makes rows, but no gradients. */
void gnn_pass(const struct gnn_clock *clock, bool learn, const struct gnn_task *task, struct gnn_thread *thread);

/* Sums over the vertices of a split. */
struct gnn_score {
    double loss;
    uint64_t correct, vertices;
};

/* Gathers the last layer's messages without dropout. Sets logits[own][out_pitch] (NULL: not wanted), and adds to
 * scores[4] by split. For a clock that has made messages. */
void gnn_evaluate(const struct gnn_clock *clock, const struct gnn_task *task, struct gnn_thread *thread, float *logits,
                  struct gnn_score scores[4]);

#endif
