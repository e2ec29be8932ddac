/* See faults.h. */
#include "spotmarket/faults.h"

#include "agileml/base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[FAULT_COUNT] = {"slow",    "broken", "503",      "throttle", "html",
                                               "expired", "lost",   "capacity", "metadata"};

/* Parses a decimal number in lowest..highest, which `suffix` may follow. */
static bool fault_number(const char *text, double lowest, double highest, const char *suffix, double *value) {
    char *end;
    size_t length = strspn(text, "0123456789+-.eE");
    *value = strtod(text, &end);
    return length > 0 && end == text + length && (*end == '\0' || strcmp(end, suffix) == 0) && isfinite(*value) &&
           *value >= lowest && *value <= highest;
}

static int fault_set(struct faults *faults, const char *name, char *value, struct error *error) {
    double number = 0;
    if (strcmp(name, "clock") == 0) {
        if (!fault_number(value, -FAULTS_CLOCK_MAX, FAULTS_CLOCK_MAX, "s", &number)) {
            return error_set(error, AML_EINPUT, "faults: clock=%.40s: expected seconds, at most a year", value);
        }
        faults->clock_seconds = (int64_t)number;
        return 0;
    }
    int f = 0;
    while (f < FAULT_COUNT && strcmp(NAMES[f], name) != 0) {
        f++;
    }
    if (f == FAULT_COUNT) {
        return error_set(error, AML_EINPUT,
                         "faults: unknown fault '%.40s'; expected slow, broken, 503, throttle, html, "
                         "expired, lost, capacity, metadata or clock",
                         name);
    }
    char *probability = value;
    if (f == FAULT_SLOW) {
        char *colon = strchr(value, ':');
        if (colon == NULL) {
            return error_set(error, AML_EINPUT, "faults: slow=%.40s: expected SECONDS:PROBABILITY", value);
        }
        *colon = '\0';
        probability = colon + 1;
        if (!fault_number(value, 0, FAULTS_SLOW_MAX, "s", &faults->slow_seconds)) {
            return error_set(error, AML_EINPUT, "faults: slow=%.40s: expected seconds from 0 to %d", value,
                             FAULTS_SLOW_MAX);
        }
    }
    if (!fault_number(probability, 0, 1, "", &number)) {
        return error_set(error, AML_EINPUT, "faults: %s=%.40s: expected a probability from 0 to 1", name, probability);
    }
    faults->probability[f] = number;
    return 0;
}

int faults_parse(struct faults *faults, const char *spec, struct error *error) {
    struct faults fresh = {.seed = faults->seed, .draws = faults->draws};
    char text[FAULTS_SPEC_MAX];
    if (strlen(spec) >= sizeof text) {
        return error_set(error, AML_EINPUT, "faults: more than %d bytes", FAULTS_SPEC_MAX - 1);
    }
    strcpy(text, spec);
    char *rest = text;
    for (char *item; (item = strsep(&rest, ",")) != NULL;) {
        char *equals = strchr(item, '=');
        if (*item == '\0') {
            continue;
        }
        if (equals == NULL) {
            return error_set(error, AML_EINPUT, "faults: '%.40s': expected NAME=VALUE", item);
        }
        *equals = '\0';
        int code = fault_set(&fresh, item, equals + 1, error);
        if (code != 0) {
            return code;
        }
    }
    *faults = fresh;
    return 0;
}

bool faults_draw(struct faults *faults, enum fault fault) {
    if (faults->probability[fault] <= 0) {
        return false;
    }
    uint64_t bits = hash_mix(hash_mix(faults->seed ^ 0xFA17) ^ ++faults->draws);
    return (double)(bits >> 11) / 9007199254740992.0 < faults->probability[fault];
}
