/* The arithmetic of a network on a batch of samples, in several threads: forward, backward, gradient. compute_room
 * allocates the memory for a number of samples; no other call allocates.
 *
 * Layers before the first dense one, mostly layers over images, process few samples at a time, so that intermediate
 * values stay in a processor's cache. From the first dense layer on, a thread processes all its samples at once.
 * Gradients of dense layers are computed last and divided by rows, so that threads need no copies of their own to be
 * summed.
 *
 * The first layer with parameters, if it is dense, skips inputs that are 0, where that pays (sparse.h). Forward, the
 * inputs of the thread's part of the batch decide; for the gradient, those of the whole batch. So the same batch in
 * the same number of threads gives the same results. */
#ifndef APPS_NET_COMPUTE_H
#define APPS_NET_COMPUTE_H

#include "apps/net/network.h"
#include "apps/nn/layers.h"
#include "apps/nn/sparse.h"

/* The samples of a batch: sample s is samples[s * stride], the values of the network's input. */
struct compute_batch {
    const float *samples;
    size_t stride; /* floats */
    size_t count;
    const uint32_t *labels; /* [count] */
    /* With dropout: a number for each sample, which alone decides what is dropped. NULL: nothing is dropped. */
    const uint64_t *keys;
};

/* A thread's own memory. */
struct compute_thread {
    _Alignas(64) struct nn_loss loss; /* sums; the caller sets them to zeros */
    size_t nonzeros;                  /* number of set bits in compute.bits, of the thread's part of the batch */
    float *values;                    /* values between a layer and the pool after it */
    float *errors[2];                 /* errors of few samples */
    float *workspace;                 /* workspace of a convolution */
    float *gradient; /* [own_parameters] for all layers but dense ones: sums over the samples since compute_gradient */
};

struct compute {
    const struct network *network;
    size_t first_dense;
    size_t first_trained; /* the first layer with parameters */
    size_t own_parameters;
    size_t own_first[NETWORK_LAYERS_MAX]; /* the place of a layer's parameters in compute_thread.gradient */
    size_t room;                          /* number of samples */
    unsigned threads;
    float *values[NETWORK_LAYERS_MAX];         /* [room][out] of a layer; NULL: it works in place, or on few samples */
    unsigned char *places[NETWORK_LAYERS_MAX]; /* [room][out], of a pool */
    float *errors[NETWORK_LAYERS_MAX];         /* [room][in], of a dense layer: gradient of the loss by its input */
    struct nn_sparse sparse;                   /* for the first trained layer, if it has `bits` */
    uint64_t *bits;                            /* [room][nn_sparse_words(in)]: inputs that are not 0; or NULL */
    struct compute_thread *thread;             /* [threads] */
};

/* Makes room for batches of up to `samples`; may be called again for more. Returns 0, and compute_close must follow;
 * or AML_ENOMEM, with nothing to close. */
int compute_room(struct compute *compute, const struct network *network, size_t samples, unsigned threads,
                 struct error *error);
void compute_close(struct compute *compute);

/* Computes the network's output for the thread's part of the batch: probabilities in values[last][s][classes]. Adds
 * to the thread's loss. */
void compute_forward(struct compute *compute, const float *parameters, const struct compute_batch *batch,
                     unsigned thread);
/* Computes the errors of the thread's part of the batch, after compute_forward. */
void compute_backward(struct compute *compute, const float *parameters, const struct compute_batch *batch,
                      unsigned thread);
/* Adds `scale` times the gradient of the loss by the parameters of layer `l`, summed over the batch, to the thread's
 * part of target[parameters]. Call it after compute_backward in all threads. */
void compute_gradient(struct compute *compute, const struct compute_batch *batch, size_t l, unsigned thread,
                      float scale, float *target);

/* Returns the probabilities [count][classes], after compute_forward. */
static inline const float *compute_probabilities(const struct compute *compute) {
    return compute->values[compute->network->count - 1];
}

#endif
