/* Learns how fast machine types work relative to their vCPUs. nu in the paper's equations (1) to (4) is a machine's
 * vCPUs times this speed. Pure state: no clock, no network, no file. One thread.
 *
 * A window of observation has the slowness of each machine: its time for an equal share of the work, divided by the
 * mean of all nodes (agileml/control/decide/monitor.h). A type's observation is the median over its machines of 1 /
 * (slowness x vCPUs). A window shows only ratios between types. It is scaled so that known types keep their speeds in
 * the median. Then all speeds are scaled so that their median is 1: an unmeasured type counts by its vCPUs, as the
 * typical type does.
 *
 * A type's speed is used after SPEEDS_LEAST windows with another type beside it. It is forgotten SPEEDS_KEEP_S after
 * its last window: otherwise a slow type would not be bought any more, and never be measured again. */
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
#define SPEEDS_LOWEST  0.1 /* bounds of a used speed */
#define SPEEDS_HIGHEST 2.0
#define SPEEDS_GAIN    0.125 /* the least weight of a window's observation in the new speed */
#define SPEEDS_JUMP    2.0   /* largest factor by which a window can differ from the present speed */
#define SPEEDS_CALM    0.05  /* a smaller relative change does not change the used speed */

struct speeds_type {
    char type[MARKET_TEXT_MAX];
    double speed;     /* speed before the bounds are applied */
    double used;      /* within bounds; 0: too few windows, the type counts by its vCPUs */
    unsigned windows; /* windows in which another type was measured, too */
    int64_t seen;     /* time of the last window */
};

/* Zeroed: nothing is known. */
struct speeds {
    struct speeds_type types[SPEEDS_TYPES_MAX]; /* when full, the type seen longest ago is forgotten */
    size_t count;
};

struct speeds_machine {
    const char *type;
    double vcpus, slowness;
};

/* Adds a window at time `now`. Ignores machines without vCPUs or with a slowness not above 0. Returns whether a used
 * speed changed. */
bool speeds_add(struct speeds *speeds, const struct speeds_machine *machines, size_t count, int64_t now);
/* Returns the used speed; 0: not measured. */
double speeds_of(const struct speeds *speeds, const char *type);

/* For state files: returns an object of types, which the caller frees. */
json_t *speeds_json(const struct speeds *speeds);
/* Reads an object from speeds_json, which replaces what is known. Returns 0 or AML_EINPUT. */
int speeds_read(struct speeds *speeds, const json_t *object, struct error *error);

#endif
