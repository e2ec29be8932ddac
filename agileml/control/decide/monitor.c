/* See monitor.h. */
#include "agileml/control/decide/monitor.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void monitor_init(struct monitor *monitor, double short_seconds, double long_seconds) {
    *monitor = (struct monitor){.imbalance = NAN,
                                .seconds = {[MONITOR_SHORT] = short_seconds > 0 ? short_seconds : MONITOR_SHORT_S,
                                            [MONITOR_LONG] = long_seconds > 0 ? long_seconds : MONITOR_LONG_S}};
}

void monitor_close(struct monitor *monitor) {
    free(monitor->nodes);
    *monitor = (struct monitor){0};
}

/* ---- Nodes ---- */

/* Returns the index of the first entry whose node is `node` or above. */
static size_t place_of(const struct monitor *monitor, actor_id node) {
    size_t low = 0;
    size_t high = monitor->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (monitor->nodes[middle].node < node) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t monitor_find(const struct monitor *monitor, actor_id node) {
    size_t place = place_of(monitor, node);
    return place < monitor->count && monitor->nodes[place].node == node ? place : SIZE_MAX;
}

static struct monitor_node *find_node(const struct monitor *monitor, actor_id node) {
    size_t place = monitor_find(monitor, node);
    return place != SIZE_MAX ? &monitor->nodes[place] : NULL;
}

static struct monitor_node *add_node(struct monitor *monitor, actor_id node) {
    size_t place = place_of(monitor, node);
    assert(place == monitor->count || (place < monitor->count && monitor->nodes[place].node > node));
    if (monitor->count == monitor->capacity) {
        monitor->capacity = monitor->capacity > 0 ? 2 * monitor->capacity : 8;
        monitor->nodes = memory_resized(monitor->nodes, monitor->capacity, sizeof *monitor->nodes);
    }
    memmove(&monitor->nodes[place + 1], &monitor->nodes[place], (monitor->count - place) * sizeof *monitor->nodes);
    monitor->count++;
    monitor->nodes[place] = (struct monitor_node){.node = node, .settling = MONITOR_SETTLING};
    return &monitor->nodes[place];
}

void monitor_forget(struct monitor *monitor, actor_id node) {
    struct monitor_node *known = find_node(monitor, node);
    if (known != NULL) {
        monitor->count--;
        memmove(known, known + 1, (monitor->count - (size_t)(known - monitor->nodes)) * sizeof *known);
    }
}

/* ---- Windows ---- */

static uint64_t part_of(const struct monitor *monitor, enum monitor_span span, uint64_t now_us) {
    return (uint64_t)((double)now_us / 1e6 / monitor->seconds[span] * MONITOR_BINS);
}

static void sums_add(struct monitor_sums *sums, const struct monitor_sums *more) {
    sums->clocks += more->clocks;
    sums->items += more->items;
    sums->compute += more->compute;
    sums->whole += more->whole;
    sums->items_squared += more->items_squared;
    sums->items_compute += more->items_compute;
    sums->compute_squared += more->compute_squared;
    sums->slices += more->slices;
    sums->slices_squared += more->slices_squared;
    sums->slices_items += more->slices_items;
    sums->slices_compute += more->slices_compute;
}

static void window_add(struct monitor_window *window, uint64_t part, const struct monitor_sums *sums) {
    unsigned last = (window->first + window->count - 1) % MONITOR_BINS;
    assert(window->count <= MONITOR_BINS && (window->count == 0 || window->bins[last].number <= part));
    if (window->count == 0 || window->bins[last].number != part) {
        window->first = window->count == MONITOR_BINS ? (window->first + 1) % MONITOR_BINS : window->first;
        window->count += window->count < MONITOR_BINS ? 1 : 0;
        last = (window->first + window->count - 1) % MONITOR_BINS;
        window->bins[last] = (struct monitor_bin){.number = part};
    }
    sums_add(&window->bins[last].sums, sums);
}

/* Returns the sums of the window that ends in `part`. Adds older bins until the window has MONITOR_CLOCKS clocks. */
static struct monitor_sums window_sums(const struct monitor_window *window, uint64_t part) {
    struct monitor_sums sums = {0};
    for (unsigned b = window->count; b-- > 0;) {
        const struct monitor_bin *bin = &window->bins[(window->first + b) % MONITOR_BINS];
        if (bin->number + MONITOR_BINS <= part && sums.clocks >= MONITOR_CLOCKS) {
            break;
        }
        sums_add(&sums, &bin->sums);
    }
    return sums;
}

/* Fits a clock's time as slices * fixed + items * slope, by the line through the means of the present and an earlier
 * assignment. Returns the slope, in microseconds, and sets *fixed; 0 without an earlier assignment. */
static double fit_assignments(const struct monitor_sums *sums, const struct monitor_mean *earlier, double *fixed) {
    double items = sums->items / sums->slices; /* per slice */
    double compute = sums->compute / sums->slices;
    double whole = compute / items;
    double items_then = earlier->slices > 0 ? earlier->items / earlier->slices : 0;
    *fixed = 0;
    if (!(items_then > 0) || fabs(items - items_then) <= MONITOR_APART * fmax(items, items_then)) {
        return whole;
    }
    double slope = (compute - earlier->compute / earlier->slices) / (items - items_then);
    if (slope < MONITOR_SLOPE * whole || slope > whole) {
        return whole; /* the machine itself was faster or slower then */
    }
    *fixed = compute - slope * items;
    return slope;
}

/* Fits as fit_assignments does, but by least squares over the window's clocks. Falls back to fit_assignments when the
 * slices' numbers of items are too alike. Neither result is below 0. */
static double fit(const struct monitor_sums *sums, const struct monitor_mean *earlier, double *fixed) {
    double whole = sums->items > 0 ? sums->compute / sums->items : 0;
    *fixed = 0;
    if (sums->clocks < MONITOR_CLOCKS || !(sums->items > 0)) {
        return whole;
    }
    assert(sums->slices >= sums->clocks);
    double mean = sums->slices_items / sums->slices_squared;
    double variance = sums->items_squared / sums->slices_squared - mean * mean;
    double covariance =
        sums->items_compute / sums->slices_squared - mean * (sums->slices_compute / sums->slices_squared);
    if (variance <= MONITOR_SPREAD * MONITOR_SPREAD * mean * mean) {
        return fit_assignments(sums, earlier, fixed);
    }
    double slope = fmin(fmax(covariance / variance, 0), whole);
    *fixed = (sums->compute - slope * sums->items) / sums->slices;
    return slope;
}

static struct monitor_speed speed_of(const struct monitor_sums *sums, const struct monitor_mean *earlier) {
    struct monitor_speed speed = {.clocks = sums->clocks};
    if (sums->clocks > 0) {
        double fixed;
        speed.item_seconds = fit(sums, earlier, &fixed) / 1e6;
        speed.slice_seconds = fixed / 1e6;
        speed.fixed_seconds = fixed / 1e6 * (sums->slices / sums->clocks);
        double mean = sums->compute / sums->clocks;
        double variance = fmax(sums->compute_squared / sums->clocks - mean * mean, 0);
        speed.items = sums->items / sums->clocks;
        speed.error = mean > 0 ? sqrt(variance / sums->clocks) / mean : 0;
        speed.whole_seconds = sums->whole / 1e6;
        speed.clock_seconds = sums->compute / sums->clocks / 1e6;
        speed.items_per_second = sums->whole > 0 ? sums->items / (sums->whole / 1e6) : 0;
    }
    return speed;
}

/* ---- Bursts ---- */

/* Compares the clock with the long window before it, and begins, prolongs or ends a burst. */
static void look_for_burst(struct monitor_node *node, const struct monitor_sums *usual,
                           const struct monitor_sample *sample) {
    struct monitor_bursts *bursts = &node->bursts;
    double expected = usual->items > 0 ? usual->compute / usual->items * (double)sample->items : 0;
    bool slow =
        usual->clocks >= MONITOR_CLOCKS && expected > 0 && (double)sample->compute_us >= MONITOR_STRAGGLER * expected;
    if (slow && bursts->since_us == 0) {
        uint64_t begun = sample->now_us > sample->compute_us ? sample->now_us - sample->compute_us : 1;
        bursts->gap_seconds +=
            bursts->ended_us != 0 && begun > bursts->ended_us ? (double)(begun - bursts->ended_us) / 1e6 : 0;
        bursts->since_us = begun;
        bursts->count++;
    }
    if (slow) {
        bursts->seconds += (double)sample->compute_us / 1e6;
        bursts->ended_us = sample->now_us;
    } else {
        bursts->since_us = 0;
    }
}

/* ---- Clocks ---- */

/* At a change of plan, keeps the means of the earlier assignment if the new one has another number of items. */
static void remember(const struct monitor *monitor, struct monitor_node *node, const struct monitor_sample *sample) {
    struct monitor_sums sums =
        window_sums(&node->windows[MONITOR_SHORT], part_of(monitor, MONITOR_SHORT, sample->now_us));
    const struct monitor_mean mean = {
        .items = sums.items / sums.clocks, .slices = sums.slices / sums.clocks, .compute = sums.compute / sums.clocks};
    double items = (double)sample->items;
    if (sums.clocks >= MONITOR_CLOCKS && fabs(mean.items - items) > MONITOR_APART * fmax(mean.items, items)) {
        node->earlier = mean;
    }
}

void monitor_add(struct monitor *monitor, const struct monitor_sample *sample) {
    struct monitor_node *node = find_node(monitor, sample->node);
    node = node != NULL ? node : add_node(monitor, sample->node);
    if (node->version != sample->version) {
        node->settling = MONITOR_SETTLING;
        remember(monitor, node, sample);
    }
    node->version = sample->version;
    node->iteration_us += (double)sample->compute_us;
    if (node->settling > 0) {
        node->settling--;
        return;
    }
    double items = (double)sample->items;
    double compute = (double)sample->compute_us;
    double slices = sample->slice > 0 ? fmax(ceil(items / (double)sample->slice), 1) : 1;
    const struct monitor_sums sums = {.clocks = 1,
                                      .items = items,
                                      .compute = compute,
                                      .whole = (double)sample->clock_us,
                                      .items_squared = items * items,
                                      .items_compute = items * compute,
                                      .compute_squared = compute * compute,
                                      .slices = slices,
                                      .slices_squared = slices * slices,
                                      .slices_items = slices * items,
                                      .slices_compute = slices * compute};
    struct monitor_sums usual =
        window_sums(&node->windows[MONITOR_LONG], part_of(monitor, MONITOR_LONG, sample->now_us));
    look_for_burst(node, &usual, sample);
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        window_add(&node->windows[span], part_of(monitor, (enum monitor_span)span, sample->now_us), &sums);
    }
}

struct monitor_speed monitor_speed(const struct monitor *monitor, actor_id node, enum monitor_span span,
                                   uint64_t now_us) {
    const struct monitor_node *known = find_node(monitor, node);
    struct monitor_sums sums = {0};
    if (known != NULL) {
        sums = window_sums(&known->windows[span], part_of(monitor, span, now_us));
    }
    return speed_of(&sums, known != NULL ? &known->earlier : &(struct monitor_mean){0});
}

void monitor_slowness(const struct monitor *monitor, enum monitor_span span, uint64_t now_us, double *slowness) {
    struct monitor_sums *sums = memory_zeroed(monitor->count, sizeof *sums);
    double clocks = 0;
    double items = 0;
    double sum = 0;
    double known = 0;
    for (size_t n = 0; n < monitor->count; n++) {
        sums[n] = window_sums(&monitor->nodes[n].windows[span], part_of(monitor, span, now_us));
        clocks += sums[n].items > 0 ? 1 : 0;
        items += sums[n].items > 0 ? sums[n].items / sums[n].clocks : 0;
    }
    for (size_t n = 0; n < monitor->count; n++) {
        double fixed;
        slowness[n] = NAN;
        if (sums[n].items > 0) {
            slowness[n] = fit(&sums[n], &monitor->nodes[n].earlier, &fixed) * (items / clocks);
            slowness[n] += fixed * sums[n].slices / sums[n].clocks;
            sum += slowness[n];
            known++;
        }
    }
    for (size_t n = 0; n < monitor->count; n++) {
        slowness[n] = sum > 0 ? slowness[n] / (sum / known) : NAN;
    }
    free(sums);
}

/* ---- Servers ---- */

void monitor_add_wait(struct monitor *monitor, actor_id server, uint64_t clocks, uint64_t wait_us, uint64_t now_us) {
    struct monitor_node *node = find_node(monitor, server);
    node = node != NULL ? node : add_node(monitor, server);
    double count = (double)clocks;
    double wait = (double)wait_us;
    const struct monitor_sums sums = {.clocks = count,
                                      .items = 1,
                                      .compute = wait,
                                      .items_squared = count * count,
                                      .items_compute = count * wait,
                                      .compute_squared = wait * wait};
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        window_add(&node->waits[span], part_of(monitor, (enum monitor_span)span, now_us), &sums);
    }
}

struct monitor_wait monitor_wait(const struct monitor *monitor, actor_id server, enum monitor_span span,
                                 uint64_t now_us) {
    const struct monitor_node *node = find_node(monitor, server);
    struct monitor_wait wait = {0};
    struct monitor_sums sums = {0};
    if (node != NULL) {
        sums = window_sums(&node->waits[span], part_of(monitor, span, now_us));
    }
    if (sums.clocks > 0) {
        /* Each report has k clocks and the sum S of their waits. The mean's variance is the sum of (S - mean * k)^2,
         * divided by the square of the number of all clocks. */
        double mean = sums.compute / sums.clocks;
        double squares = sums.compute_squared - 2 * mean * sums.items_compute + mean * mean * sums.items_squared;
        wait.clocks = sums.clocks;
        wait.seconds = mean / 1e6;
        double reports = sums.items / (double)monitor->count; /* of each node */
        wait.error = sqrt(fmax(squares, 0) * (double)monitor->count) / sums.clocks / 1e6;
        wait.error =
            reports >= 2 ? wait.error * sqrt(reports / (reports - 1)) : wait.seconds; /* with one report: not known */
    }
    return wait;
}

void monitor_end_iteration(struct monitor *monitor) {
    double longest = 0;
    double sum = 0;
    double count = 0;
    for (size_t n = 0; n < monitor->count; n++) {
        double computed = monitor->nodes[n].iteration_us;
        longest = fmax(longest, computed);
        sum += computed;
        count += computed > 0 ? 1 : 0;
        monitor->nodes[n].iteration_us = 0;
    }
    monitor->imbalance = sum > 0 ? longest / (sum / count) : NAN;
}
