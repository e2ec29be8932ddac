/* Chooses the distance between commit points by how long clocks take. See commit_distance.h. */
#include "agileml/control/commit_distance.h"

#include "agileml/wire/message.h"

#include <assert.h>
#include <string.h>

#define NS_PER_US UINT64_C(1000)

static void begin_window(struct commit_distance *distance, const struct commit_distance_clock *completed) {
    distance->open = !completed->changing;
    distance->version = completed->version;
    distance->clock = completed->clock;
    distance->from_us = completed->now_us;
}

/* Whether the window has enough clocks and time. It is to have whole iterations where these are short, as the last
 * clock of an iteration may take longer. */
static bool window_ends(const struct commit_distance *distance, const struct commit_distance_clock *completed) {
    uint64_t clocks = completed->clock - distance->clock;
    bool whole = completed->clock % completed->per_iteration == 0 || clocks >= COMMIT_DISTANCE_CLOCKS_MAX;
    return clocks >= COMMIT_DISTANCE_CLOCKS && whole && completed->now_us - distance->from_us >= COMMIT_DISTANCE_US;
}

bool commit_distance_add(struct commit_distance *distance, const struct commit_distance_clock *completed) {
    if (!distance->open || completed->changing || completed->version != distance->version ||
        completed->clock <= distance->clock) {
        begin_window(distance, completed);
        return false;
    }
    if (!window_ends(distance, completed)) {
        return false;
    }
    memmove(distance->clock_ns + 1, distance->clock_ns, sizeof distance->clock_ns - sizeof *distance->clock_ns);
    distance->clock_ns[0] = (completed->now_us - distance->from_us) * NS_PER_US / (completed->clock - distance->clock);
    distance->count += distance->count < COMMIT_DISTANCE_WINDOWS ? 1 : 0;
    begin_window(distance, completed);
    return distance->count == COMMIT_DISTANCE_WINDOWS;
}

static uint64_t median(const uint64_t values[COMMIT_DISTANCE_WINDOWS]) {
    uint64_t low = values[0] < values[1] ? values[0] : values[1];
    uint64_t high = values[0] < values[1] ? values[1] : values[0];
    uint64_t middle = values[2] > low ? values[2] : low;
    return middle < high ? middle : high;
}

uint32_t commit_distance_choose(struct commit_distance *distance, uint32_t present) {
    assert(distance->count == COMMIT_DISTANCE_WINDOWS);
    uint64_t clock_ns = median(distance->clock_ns);
    uint64_t present_ns = present * clock_ns;
    if (present > 0 && present_ns > COMMIT_DISTANCE_LEAST_US * NS_PER_US &&
        present_ns <= COMMIT_DISTANCE_MOST_US * NS_PER_US) {
        return present;
    }
    uint32_t chosen = 1;
    while (chosen < WIRE_COMMIT_EVERY_MAX && 2 * chosen * clock_ns <= COMMIT_DISTANCE_US * NS_PER_US) {
        chosen *= 2;
    }
    if (chosen != present) {
        distance->count = 0;
    }
    return chosen;
}
