/* A network of apps/net with samples to compute on, for tests of its arithmetic. */
#ifndef TESTS_UNIT_NET_TRIAL_H
#define TESTS_UNIT_NET_TRIAL_H

#include "apps/net/compute.h"

enum { TRIAL_SAMPLES = 11, TRIAL_CLASSES = 4, TRIAL_NETWORKS = 8 };

extern const struct network_shape TRIAL_IMAGES, TRIAL_COLOURS, TRIAL_VECTORS;

/* Descriptions with each kind of layer, in most possible orders. */
struct trial_network {
    const char *text;
    const struct network_shape *input;
};
extern const struct trial_network trial_networks[TRIAL_NETWORKS];

struct trial {
    struct network network;
    struct compute compute;
    struct compute_batch batch;
    float *samples, *parameters;
    uint32_t labels[TRIAL_SAMPLES];
    uint64_t keys[TRIAL_SAMPLES];
};

/* Parses a description; fails the test if it is refused. */
struct network trial_parsed(const char *text, const struct network_shape *input);

void trial_open(struct trial *trial, const char *text, const struct network_shape *input, unsigned threads);
void trial_close(struct trial *trial);

/* Computes the batch's losses, one thread's part after the other. */
struct nn_loss trial_loss(struct trial *trial);
/* Adds to gradient[parameters]; to be called after trial_loss. */
void trial_gradient(struct trial *trial, float scale, float *gradient);

#endif
