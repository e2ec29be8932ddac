/* See interruption.h. */
#include "bidbrain/market/interruption.h"

#include "agileml/base/folder.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_input.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 << 20 }; /* bytes of an input file */
#define MONTH_HOURS 730.0

/* ---- Files ---- */

static int json_read(const char *path, json_t **root, struct error *error) {
    char *text;
    size_t size;
    int code = text_input_load(path, TEXT_MAX, &text, &size, error);
    if (code != 0) {
        return code;
    }
    json_error_t wrong;
    *root = json_loadb(text, size, 0, &wrong);
    free(text);
    return *root != NULL ? 0 : error_set(error, AML_EINPUT, "%s:%d: %s", path, wrong.line, wrong.text);
}

/* ---- The advisor's rates ---- */

/* Returns the middle of a band as a constant hazard: P(interrupted within a month) = 1 - exp(-hazard x 730 h). The last
 * band is open: ">20 %" counts as 30 %. */
static double band_hazard(json_int_t band) {
    static const double middle[5] = {0.025, 0.075, 0.125, 0.175, 0.30};
    return -log(1 - middle[band < 0 ? 0 : band > 4 ? 4 : band]) / MONTH_HOURS;
}

static int advisor_open(struct interruptions *interruptions, const char *path, const struct markets *markets,
                        struct error *error) {
    json_t *root;
    int code = json_read(path, &root, error);
    if (code != 0) {
        return code;
    }
    const json_t *regions = json_object_get(root, "spot_advisor");
    if (!json_is_object(regions)) {
        json_decref(root);
        return error_set(error, AML_EINPUT, "%s: no spot_advisor object: expected the Spot Advisor's data", path);
    }
    interruptions->hazard = memory_zeroed(markets->count + 1, sizeof(double));
    for (size_t m = 0; m < markets->count; m++) {
        char region[MARKET_TEXT_MAX];
        market_region(markets->list[m]->zone, region);
        const json_t *types = json_object_get(json_object_get(regions, region), "Linux");
        const json_t *band = json_object_get(json_object_get(types, markets->list[m]->type), "r");
        interruptions->hazard[m] = band_hazard(json_is_integer(band) ? json_integer_value(band) : 4);
    }
    json_decref(root);
    return 0;
}

/* ---- Lifetimes ---- */

static int hours_compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int lifetimes_open(struct interruptions *interruptions, const char *path, struct error *error) {
    char *text;
    size_t size;
    int code = text_input_load(path, TEXT_MAX, &text, &size, error);
    size_t line = 1;
    for (char *rest = code == 0 ? text : NULL; rest != NULL && *rest != '\0' && code == 0; line++) {
        char *end;
        double hours = strtod(rest, &end);
        if (end == rest || !(hours >= 0 && hours < 1e6) || (*end != '\t' && *end != ' ' && *end != '\n')) {
            code = error_set(error, AML_EINPUT, "%s:%zu: expected hours to preemption and their cdf", path, line);
            break;
        }
        interruptions->lifetimes =
            memory_resized(interruptions->lifetimes, interruptions->lifetime_count + 1, sizeof(double));
        interruptions->lifetimes[interruptions->lifetime_count++] = hours;
        rest = strchr(rest, '\n');
        rest = rest == NULL ? NULL : rest + 1;
    }
    if (code == 0 && interruptions->lifetime_count == 0) {
        code = error_set(error, AML_EINPUT, "%s: no lifetimes in this file", path);
    }
    free(text);
    if (interruptions->lifetime_count > 1) {
        qsort(interruptions->lifetimes, interruptions->lifetime_count, sizeof(double), hours_compare);
    }
    return code;
}

/* Returns the share of lifetimes of at most `hours`. */
static double lifetimes_before(const struct interruptions *interruptions, double hours) {
    size_t low = 0;
    size_t high = interruptions->lifetime_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (interruptions->lifetimes[middle] <= hours) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (double)low / (double)interruptions->lifetime_count;
}

/* ---- Traces ---- */

static void trace_add(struct interruption_trace *trace, int64_t time, int64_t count) {
    if (trace->count > 0 && trace->times[trace->count - 1] >= time) {
        trace->counts[trace->count - 1] = count; /* the last count at a time holds */
        return;
    }
    if (trace->count > 0 && trace->counts[trace->count - 1] == count) {
        return;
    }
    trace->times = memory_resized(trace->times, trace->count + 1, sizeof(int64_t));
    trace->counts = memory_resized(trace->counts, trace->count + 1, sizeof(int64_t));
    trace->times[trace->count] = time;
    trace->counts[trace->count++] = count;
}

static int trace_json(struct interruption_trace *trace, const char *path, struct error *error) {
    json_t *root;
    int code = json_read(path, &root, error);
    if (code != 0) {
        return code;
    }
    double gap = json_number_value(json_object_get(json_object_get(root, "metadata"), "gap_seconds"));
    const json_t *data = json_object_get(root, "data");
    size_t size = json_array_size(data);
    if (!(gap >= 1 && gap <= 86400) || size == 0 || size > INTERRUPTION_POINTS_MAX) {
        code = error_set(error, AML_EINPUT, "%s: expected {\"metadata\": {\"gap_seconds\": N}, \"data\": [...]}", path);
    }
    for (size_t i = 0; i < size && code == 0; i++) {
        double count = json_number_value(json_array_get(data, i));
        if (!(count >= 0 && count <= 1e6)) {
            code = error_set(error, AML_EINPUT, "%s: data[%zu]: expected a count of machines", path, i);
            break;
        }
        trace_add(trace, (int64_t)((double)i * gap), (int64_t)count);
    }
    trace->length = (int64_t)((double)size * gap);
    json_decref(root);
    return code;
}

/* Reads lines `x,count` (x in seconds if no number has a point, else in hours) or `milliseconds,add|remove,node`. */
static int trace_csv(struct interruption_trace *trace, const char *path, struct error *error) {
    char *text;
    size_t size;
    int code = text_input_load(path, TEXT_MAX, &text, &size, error);
    size_t line = 1;
    int64_t up = 0;
    bool hours = code == 0 && strchr(text, '.') != NULL;
    for (char *rest = code == 0 ? text : NULL; rest != NULL && *rest != '\0' && code == 0; line++) {
        char *end;
        double x = strtod(rest, &end);
        char *value = *end == ',' ? end + 1 : NULL;
        int64_t count = -1;
        if (value != NULL && strncmp(value, "add,", 4) == 0) {
            count = ++up;
        } else if (value != NULL && strncmp(value, "remove,", 7) == 0) {
            count = --up;
        } else if (value != NULL && *value >= '0' && *value <= '9') {
            count = strtoll(value, NULL, 10);
        }
        if (end == rest || count < 0 || count > 1000000 || !(x >= 0 && x < 1e12)) {
            code = error_set(error, AML_EINPUT, "%s:%zu: expected 'x,count' or 'milliseconds,add|remove,node'", path,
                             line);
            break;
        }
        bool events = value[0] == 'a' || value[0] == 'r';
        int64_t time = (int64_t)(events ? x / 1000 : hours ? x * HOUR : x);
        trace_add(trace, time, count);
        trace->length = time > trace->length ? time : trace->length;
        rest = strchr(rest, '\n');
        rest = rest == NULL ? NULL : rest + 1;
    }
    free(text);
    return code;
}

static bool name_is_trace(const char *name) {
    size_t length = strlen(name);
    return length > 4 && (strcmp(name + length - 4, ".csv") == 0 || strcmp(name + length - 4, "json") == 0);
}

static int replay_file(void *context, const char *path, struct error *error) {
    struct interruptions *interruptions = context;
    if (interruptions->trace_count >= INTERRUPTION_TRACES_MAX) {
        return error_set(error, AML_ELIMIT, "%s: more than %d traces", path, INTERRUPTION_TRACES_MAX);
    }
    interruptions->traces =
        memory_resized(interruptions->traces, interruptions->trace_count + 1, sizeof *interruptions->traces);
    struct interruption_trace *trace = &interruptions->traces[interruptions->trace_count++];
    memset(trace, 0, sizeof *trace);
    const char *dot = strrchr(path, '.');
    int code =
        dot != NULL && strcmp(dot, ".json") == 0 ? trace_json(trace, path, error) : trace_csv(trace, path, error);
    if (code == 0 && trace->length < HOUR) {
        code = error_set(error, AML_EINPUT, "%s: a trace of less than an hour", path);
    }
    return code;
}

/* Returns machines lost per machine-hour, over all traces. */
static double replay_rate(const struct interruptions *interruptions) {
    double lost = 0;
    double hours = 0;
    for (size_t t = 0; t < interruptions->trace_count; t++) {
        const struct interruption_trace *trace = &interruptions->traces[t];
        for (size_t i = 0; i < trace->count; i++) {
            int64_t end = i + 1 < trace->count ? trace->times[i + 1] : trace->length;
            hours += (double)trace->counts[i] * (double)(end - trace->times[i]) / HOUR;
            lost += i > 0 && trace->counts[i] < trace->counts[i - 1] ? (double)(trace->counts[i - 1] - trace->counts[i])
                                                                     : 0;
        }
    }
    return hours > 0 ? lost / hours : 1;
}

/* ---- Opening ---- */

int interruptions_open(struct interruptions *interruptions, const char *spec, const struct markets *markets,
                       struct error *error) {
    static const struct {
        const char *prefix;
        enum interruption_kind kind;
    } kinds[] = {
        {"advisor:", INTERRUPTION_ADVISOR}, {"lifetimes:", INTERRUPTION_LIFETIMES}, {"replay:", INTERRUPTION_REPLAY}};
    memset(interruptions, 0, sizeof *interruptions);
    if (strcmp(spec, "none") == 0) {
        return 0;
    }
    const char *path = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(spec, kinds[i].prefix, strlen(kinds[i].prefix)) == 0) {
            interruptions->kind = kinds[i].kind;
            path = spec + strlen(kinds[i].prefix);
        }
    }
    int code = 0;
    switch (interruptions->kind) {
    case INTERRUPTION_NONE:
        return error_set(error, AML_EINPUT,
                         "--interruptions: expected none, advisor:FILE, lifetimes:FILE or replay:PATH, got '%.100s'",
                         spec);
    case INTERRUPTION_ADVISOR:
        code = advisor_open(interruptions, path, markets, error);
        break;
    case INTERRUPTION_LIFETIMES:
        code = lifetimes_open(interruptions, path, error);
        break;
    case INTERRUPTION_REPLAY:
        code = folder_walk(path, name_is_trace, replay_file, interruptions, error);
        if (code == 0 && interruptions->trace_count == 0) {
            code = error_set(error, AML_EINPUT, "%s: no traces (.csv, .json) in this folder", path);
        }
        interruptions->replay_hazard = code == 0 ? replay_rate(interruptions) : 0;
        break;
    }
    if (code != 0) {
        interruptions_close(interruptions);
    }
    return code;
}

void interruptions_close(struct interruptions *interruptions) {
    for (size_t t = 0; t < interruptions->trace_count; t++) {
        free(interruptions->traces[t].times);
        free(interruptions->traces[t].counts);
    }
    free(interruptions->traces);
    free(interruptions->hazard);
    free(interruptions->lifetimes);
    memset(interruptions, 0, sizeof *interruptions);
}

/* ---- Draws ---- */

/* Returns a pseudo-random number in (0, 1). */
static double draw_unit(uint64_t seed, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t bits = hash_mix(hash_mix(hash_mix(hash_mix(seed) ^ a) ^ b) ^ c);
    return ((double)(bits >> 12) + 0.5) / 4503599627370496.0;
}

/* Returns the trace that a market follows in a world. *offset is the trace's time at the world's time 0. */
static const struct interruption_trace *replay_trace(const struct interruptions *interruptions, size_t m, uint64_t seed,
                                                     int64_t *offset) {
    size_t t = (size_t)(draw_unit(seed, m, 1, 0) * (double)interruptions->trace_count);
    const struct interruption_trace *trace = &interruptions->traces[t];
    *offset = (int64_t)(draw_unit(seed, m, 2, 0) * (double)trace->length);
    return trace;
}

/* Returns the index of the step that contains `at`, a time within the trace. */
static size_t trace_index(const struct interruption_trace *trace, int64_t at) {
    size_t low = 0;
    size_t high = trace->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (trace->times[middle] <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? 0 : low - 1;
}

/* When the trace falls from a to b machines, an allocation is lost whole with probability 1 - b/a; the paper, too,
 * loses allocations whole. Looks ahead over one lap of the trace. If the lap has no loss, the machine is never
 * taken. */
static int64_t replay_time(const struct interruptions *interruptions, size_t m, int64_t time, uint64_t draw,
                           uint64_t seed) {
    int64_t offset;
    const struct interruption_trace *trace = replay_trace(interruptions, m, seed, &offset);
    int64_t at = (time + offset) % trace->length;
    size_t index = trace_index(trace, at);
    int64_t lap = time - at; /* world time at which the present lap began */
    for (size_t step = 0; step < trace->count; step++) {
        size_t next = index + 1;
        if (next == trace->count) { /* the step from a lap's end to the next lap's start is no event */
            next = 0;
            lap += trace->length;
        } else if (trace->counts[next] < trace->counts[index]) {
            double lost = (double)(trace->counts[index] - trace->counts[next]) / (double)trace->counts[index];
            if (draw_unit(seed, draw, (uint64_t)(lap + trace->times[next]), m) < lost) {
                return lap + trace->times[next];
            }
        }
        index = next;
    }
    return MARKET_NEVER;
}

int64_t interruption_time(const struct interruptions *interruptions, size_t m, int64_t time, uint64_t draw,
                          uint64_t seed) {
    double unit = draw_unit(seed, draw, (uint64_t)time, m);
    double hours = 0;
    switch (interruptions->kind) {
    case INTERRUPTION_NONE:
        return MARKET_NEVER;
    case INTERRUPTION_ADVISOR:
        hours = -log(unit) / interruptions->hazard[m];
        break;
    case INTERRUPTION_LIFETIMES:
        hours = interruptions->lifetimes[(size_t)(unit * (double)interruptions->lifetime_count)];
        break;
    case INTERRUPTION_REPLAY:
        return replay_time(interruptions, m, time, draw, seed);
    }
    return hours > 1e6 ? MARKET_NEVER : time + (int64_t)(hours * HOUR);
}

struct interruption interruption_of(const struct interruptions *interruptions, size_t m, const struct market *market,
                                    int64_t bid, int64_t time, uint64_t draw, uint64_t seed) {
    int64_t passes = market_first_above(market, time, bid);
    int64_t drawn = interruptions != NULL ? interruption_time(interruptions, m, time, draw, seed) : MARKET_NEVER;
    return drawn < passes ? (struct interruption){.time = drawn}
                          : (struct interruption){.time = passes, .by_price = true};
}

bool interruption_open_at(const struct interruptions *interruptions, size_t m, int64_t time, uint64_t seed) {
    if (interruptions == NULL || interruptions->kind != INTERRUPTION_REPLAY) {
        return true;
    }
    int64_t offset;
    const struct interruption_trace *trace = replay_trace(interruptions, m, seed, &offset);
    return trace->counts[trace_index(trace, (time + offset) % trace->length)] > 0;
}

double interruption_probability(const struct interruptions *interruptions, size_t m, double age, double hours) {
    switch (interruptions->kind) {
    case INTERRUPTION_NONE:
        return 0;
    case INTERRUPTION_ADVISOR:
        return 1 - exp(-interruptions->hazard[m] * hours);
    case INTERRUPTION_LIFETIMES: {
        double gone = lifetimes_before(interruptions, age);
        return gone >= 1 ? 1 : (lifetimes_before(interruptions, age + hours) - gone) / (1 - gone);
    }
    case INTERRUPTION_REPLAY:
        return 1 - exp(-interruptions->replay_hazard * hours);
    }
    return 0;
}
