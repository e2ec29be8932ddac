/* See speeds.h. Speeds are scaled and averaged as logarithms. */
#include "bidbrain/policy/speeds.h"

#include "agileml/base/median.h"
#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A window's observation of one type. */
struct observed {
    const char *type;
    double speed; /* logarithm, on the window's own scale */
    size_t known; /* index in speeds->types; SIZE_MAX: a new type */
};

static size_t find_type(const struct speeds *speeds, const char *type) {
    for (size_t t = 0; t < speeds->count; t++) {
        if (strcmp(speeds->types[t].type, type) == 0) {
            return t;
        }
    }
    return SIZE_MAX;
}

double speeds_of(const struct speeds *speeds, const char *type) {
    size_t t = find_type(speeds, type);
    return t != SIZE_MAX ? speeds->types[t].used : 0;
}

/* ---- A window ---- */

static bool counts(const struct speeds_machine *machine) {
    return machine->vcpus > 0 && machine->slowness > 0 && isfinite(machine->slowness) &&
           strlen(machine->type) < MARKET_TEXT_MAX;
}

static bool is_observed(const struct observed *list, size_t count, const char *type) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].type, type) == 0) {
            return true;
        }
    }
    return false;
}

/* Fills in the observation of each type. Returns their number, at most SPEEDS_TYPES_MAX. */
static size_t observe(const struct speeds *speeds, const struct speeds_machine *machines, size_t count,
                      struct observed list[SPEEDS_TYPES_MAX]) {
    double *each = memory_zeroed(count + 1, sizeof *each);
    size_t types = 0;
    for (size_t i = 0; i < count && types < SPEEDS_TYPES_MAX; i++) {
        size_t alike = 0;
        if (!counts(&machines[i]) || is_observed(list, types, machines[i].type)) {
            continue;
        }
        for (size_t j = i; j < count; j++) {
            if (counts(&machines[j]) && strcmp(machines[j].type, machines[i].type) == 0) {
                each[alike++] = -log(machines[j].slowness * machines[j].vcpus);
            }
        }
        list[types++] =
            (struct observed){machines[i].type, median_sort(each, alike), find_type(speeds, machines[i].type)};
    }
    free(each);
    return types;
}

/* Scales a window by the median ratio of known to observed speeds; without known types, scales its median to 1. */
static void scale_window(const struct speeds *speeds, struct observed *list, size_t count) {
    double apart[SPEEDS_TYPES_MAX];
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].known != SIZE_MAX) {
            apart[known++] = log(speeds->types[list[i].known].speed) - list[i].speed;
        }
    }
    for (size_t i = 0; known == 0 && i < count; i++) {
        apart[i] = -list[i].speed;
    }
    double scale = median_sort(apart, known > 0 ? known : count);
    for (size_t i = 0; i < count; i++) {
        list[i].speed += scale;
    }
}

/* ---- Types ---- */

static void forget(struct speeds *speeds, size_t t) {
    speeds->count--;
    memmove(&speeds->types[t], &speeds->types[t + 1], (speeds->count - t) * sizeof *speeds->types);
}

/* Returns whether a speed in use was forgotten. */
static bool forget_old(struct speeds *speeds, int64_t now) {
    bool used = false;
    for (size_t t = speeds->count; t-- > 0;) {
        if (now - speeds->types[t].seen > SPEEDS_KEEP_S) {
            used = used || speeds->types[t].used > 0;
            forget(speeds, t);
        }
    }
    return used;
}

static size_t oldest(const struct speeds *speeds) {
    size_t found = 0;
    for (size_t t = 1; t < speeds->count; t++) {
        found = speeds->types[t].seen < speeds->types[found].seen ? t : found;
    }
    return found;
}

static void add_type(struct speeds *speeds, const struct observed *observed, int64_t now) {
    if (speeds->count == SPEEDS_TYPES_MAX) {
        forget(speeds, oldest(speeds));
    }
    struct speeds_type *type = &speeds->types[speeds->count++];
    *type = (struct speeds_type){.speed = exp(observed->speed), .windows = 1, .seen = now};
    memcpy(type->type, observed->type, strlen(observed->type) + 1);
}

static void update_type(struct speeds_type *type, double observed, int64_t now) {
    double before = log(type->speed);
    double gain = fmax(SPEEDS_GAIN, 1.0 / (type->windows + 1));
    double change = observed - before;
    if (type->windows >= SPEEDS_LEAST) {
        change = fmin(log(SPEEDS_JUMP), fmax(-log(SPEEDS_JUMP), change));
    }
    type->speed = exp(before + gain * change);
    type->windows += type->windows < UINT32_MAX;
    type->seen = now;
}

/* Scales all speeds so that their median is 1. */
static void scale_types(struct speeds *speeds) {
    double all[SPEEDS_TYPES_MAX];
    for (size_t t = 0; t < speeds->count; t++) {
        all[t] = log(speeds->types[t].speed);
    }
    double scale = exp(-median_sort(all, speeds->count));
    for (size_t t = 0; t < speeds->count; t++) {
        speeds->types[t].speed *= scale;
    }
}

static bool use(struct speeds_type *type) {
    double bounded = fmin(SPEEDS_HIGHEST, fmax(SPEEDS_LOWEST, type->speed));
    if (type->windows < SPEEDS_LEAST || (type->used > 0 && fabs(bounded / type->used - 1) <= SPEEDS_CALM)) {
        return false;
    }
    type->used = bounded;
    return true;
}

bool speeds_add(struct speeds *speeds, const struct speeds_machine *machines, size_t count, int64_t now) {
    struct observed list[SPEEDS_TYPES_MAX];
    bool changed = forget_old(speeds, now);
    size_t types = observe(speeds, machines, count, list);
    if (types == 1 && list[0].known != SIZE_MAX) {
        speeds->types[list[0].known].seen = now;
    }
    if (types < 2) {
        return changed;
    }
    scale_window(speeds, list, types);
    for (size_t i = 0; i < types; i++) {
        if (list[i].known != SIZE_MAX) {
            update_type(&speeds->types[list[i].known], list[i].speed, now);
        }
    }
    for (size_t i = 0; i < types; i++) {
        if (list[i].known == SIZE_MAX) {
            add_type(speeds, &list[i], now);
        }
    }
    scale_types(speeds);
    for (size_t t = 0; t < speeds->count; t++) {
        changed = use(&speeds->types[t]) || changed;
    }
    return changed;
}

/* ---- State files ---- */

json_t *speeds_json(const struct speeds *speeds) {
    json_t *object = json_object();
    for (size_t t = 0; t < speeds->count; t++) {
        const struct speeds_type *type = &speeds->types[t];
        json_object_set_new(object, type->type,
                            json_pack("{s:f,s:f,s:I,s:I}", "speed", type->speed, "used", type->used, "windows",
                                      (json_int_t)type->windows, "seen", (json_int_t)type->seen));
    }
    return object;
}

int speeds_read(struct speeds *speeds, const json_t *object, struct error *error) {
    const char *name;
    json_t *value;
    *speeds = (struct speeds){0};
    json_object_foreach((json_t *)object, name, value) {
        struct speeds_type type = {0};
        json_int_t windows = 0;
        json_int_t seen = 0;
        int code = json_unpack(value, "{s:F,s:F,s:I,s:I}", "speed", &type.speed, "used", &type.used, "windows",
                               &windows, "seen", &seen);
        bool sound = code == 0 && isfinite(type.speed) && type.speed > 0 && windows > 0 && windows <= UINT32_MAX &&
                     (type.used == 0 || (type.used >= SPEEDS_LOWEST && type.used <= SPEEDS_HIGHEST));
        if (!sound || strlen(name) >= MARKET_TEXT_MAX || speeds->count == SPEEDS_TYPES_MAX) {
            return error_set(error, AML_EINPUT, "speed of '%.60s': expected a speed above 0 with its windows", name);
        }
        memcpy(type.type, name, strlen(name) + 1);
        type.windows = (unsigned)windows;
        type.seen = seen;
        speeds->types[speeds->count++] = type;
    }
    return json_is_object(object) ? 0 : error_set(error, AML_EINPUT, "speeds: expected an object of types");
}
