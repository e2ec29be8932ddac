/* See jobs.h. */
#include "bench/feeders/jobs.h"

#include "agileml/base/hash.h"

#include <math.h>
#include <stdlib.h>

/* For AlexNet, ResNet18 and ResNet50, threads are proportional to their images per second (table 2); ResNet18 has the
 * 24 threads of figure 13. */
const struct model models[MODELS] = {
    {"WDL", 20, 2, 0.83, true, true},         {"DeepFM", 40, 8, 1, true, true},
    {"DIN", 14, 2, 0.89, true, true},         {"AlexNet", 46, 3, 0.87, false, true},
    {"ShuffleNet_v2", 20, 3, 1, false, true}, {"ResNet18", 27, 3, 0.94, false, true},
    {"Inception_v3", 10, 3, 1, false, false}, {"ResNet50", 12, 3, 1, false, false},
    {"VGG16", 9, 3, 1, false, false},         {"Bert", 4, 2, 1, false, false},
};
enum { INTENSIVE = 6 };

/* Returns a random number from 0 to below 1. */
static double random_part(uint64_t *state) {
    return (double)(hash_mix((*state)++) >> 11) * 0x1p-53;
}

static double random_normal(uint64_t *state) {
    double radius = sqrt(-2 * log(1 - random_part(state)));
    return radius * cos(2 * acos(-1) * random_part(state));
}

static unsigned draw_gpus(uint64_t *state) {
    double part = random_part(state);
    return part < 0.7 ? 1 : part < 0.825 ? 2 : part < 0.95 ? 4 : 8;
}

static int by_time(const void *left, const void *right) {
    double a = ((const struct job *)left)->submitted;
    double b = ((const struct job *)right)->submitted;
    return a < b ? -1 : a > b;
}

void trace_draw(const struct trace_options *options, uint64_t seed, struct job *jobs) {
    uint64_t state = hash_mix(seed);
    double mean = log(options->minutes) - options->sigma * options->sigma / 2;
    for (size_t j = 0; j < options->jobs; j++) {
        bool intensive = random_part(&state) < 0.5;
        double model = random_part(&state);
        jobs[j].model = intensive ? &models[(size_t)(model * INTENSIVE)]
                                  : &models[INTENSIVE + (size_t)(model * (MODELS - INTENSIVE))];
        jobs[j].gpus = draw_gpus(&state);
        jobs[j].submitted = random_part(&state) * options->hours * 60;
        do {
            jobs[j].minutes = exp(mean + options->sigma * random_normal(&state));
        } while (jobs[j].minutes > options->longest);
    }
    qsort(jobs, options->jobs, sizeof jobs[0], by_time);
}
