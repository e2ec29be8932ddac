/* See feeders_option.h. */
#include "proteus/feeders_option.h"

#include "agileml/base/machine_processors.h"
#include "agileml/wire/message.h"
#include "workers/process/pool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char *text, int64_t least, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *number = value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value >= least && value <= WIRE_NODES_MAX;
}

int feeders_option(const char *text, int64_t most, struct feeders_option *option, struct error *error) {
    *option = (struct feeders_option){0};
    if (strcmp(text, "auto") == 0) {
        option->most = most;
        return 0;
    }
    bool chooses = strncmp(text, "auto:", 5) == 0;
    if (chooses ? read_number(text + 5, 1, &option->most) : read_number(text, 0, &option->count)) {
        return 0;
    }
    return error_set(error, AML_EINPUT, "--feeders %.100s: expected a number from 0 to %d, auto, or auto:MAX", text,
                     WIRE_NODES_MAX);
}

int64_t feeders_option_threads(int64_t nodes, int64_t threads, int64_t least) {
    int64_t left = (int64_t)machine_processors("") - nodes * threads;
    left = left > least ? left : least;
    return left < POOL_THREADS_MAX ? left : POOL_THREADS_MAX;
}

int64_t feeders_option_most(int64_t nodes, int64_t threads) {
    int64_t most = ((int64_t)machine_processors("") - nodes * threads) / threads;
    return most < 1 ? 1 : most > WIRE_NODES_MAX ? WIRE_NODES_MAX : most;
}
