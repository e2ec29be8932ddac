/* libFuzzer target: a controller in the middle of a job receives any messages. */
#include "tests/fuzz/actor_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return actor_fuzz(ACTORS_CONTROLLER, data, size);
}
