/* Learns how fast machine types work, relative to what their vCPUs say. nu in the paper's equations (1) to (4) is a
 * machine's vCPUs times this speed. Pure state: no clock, no network, no file. One thread.
 *
 * A window of observation gives, for each machine, its slowness: its time for an equal share of the work by the mean of
 * all nodes (agileml/control/monitor.h). A type's observation is the median over its machines of
 * 1 / (slowness x vCPUs). One window tells ratios of types only. It is scaled so that types of earlier windows keep
 * their speeds in the median; then all speeds are scaled so that their median is 1. So a type that was never measured
 * counts as the typical one, by its vCPUs.
 *
 * A type's speed is used after SPEEDS_LEAST windows with another type beside it. It is forgotten SPEEDS_KEEP_S after
 * its last window: a slow type is not bought any more, and would never be measured again. */
#ifndef BIDBRAIN_POLICY_SPEEDS_H
#define BIDBRAIN_POLICY_SPEEDS_H

#include "agileml/base/error.h"
#include "bidbrain/market/market.h"

#include <jansson.h>

enum {
    SPEEDS_TYPES_MAX = 256,
    SPEEDS_LEAST = 2,
    SPEEDS_KEEP_S = 7 * 24 * 3600,
};
#define SPEEDS_LOWEST  0.1 /* bounds of a speed that is used */
#define SPEEDS_HIGHEST 2.0
#define SPEEDS_GAIN    0.125 /* the least share of a window's observation in the new speed */
#define SPEEDS_JUMP    2.0  /* a window counts as at most so many times faster or slower than before */
#define SPEEDS_CALM    0.05 /* a smaller change leaves the used speed as it is */

struct speeds_type {
    char type[MARKET_TEXT_MAX];
    double speed;     /* without bounds */
    double used;      /* within bounds; 0: too few windows, the type counts by its vCPUs */
    unsigned windows; /* with another type beside it */
    int64_t seen;     /* time of the last window */
};

/* Zeroed: nothing is known. */
struct speeds {
    struct speeds_type types[SPEEDS_TYPES_MAX]; /* when there are more, the one seen longest ago is forgotten */
    size_t count;
};

/* The speed of a type's vCPUs as a file names it. */
struct type_speed {
    char type[MARKET_TEXT_MAX];
    double speed;
};

struct speeds_machine {
    const char *type;
    double vcpus, slowness;
};

/* Takes a window at time `now`. Machines without vCPUs or with a slowness that is not above 0 don't count. Returns
 * whether a used speed changed. */
bool speeds_add(struct speeds *speeds, const struct speeds_machine *machines, size_t count, int64_t now);
/* Returns the used speed; 0: it is not measured. */
double speeds_of(const struct speeds *speeds, const char *type);

/* Returns the speed in a list; 0: the type is not in it. */
double type_speed_of(const struct type_speed *list, size_t count, const char *type);

/* For state files: an object of types; the caller frees it. */
json_t *speeds_json(const struct speeds *speeds);
/* Reads what speeds_json made, in place of what is known. AML_EINPUT. */
int speeds_read(struct speeds *speeds, const json_t *object, struct error *error);

#endif
