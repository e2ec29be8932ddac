/* libFuzzer target for bidbrain/interruption's files. The first byte chooses the kind. Besides crashes it finds
 * failures without a message, draws before their start, and probabilities outside 0 to 1. */
#include "bidbrain/market/interruption.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const kinds[] = {"advisor", "lifetimes", "replay"};
    if (size == 0) {
        return 0;
    }
    struct markets markets = {0};
    FUZZ_CHECK(markets_add(&markets, "c4.large", "us-east-1a", "p", (struct market_point){1600000000, 1000}, NULL) ==
               0);
    markets_finish(&markets);
    int file = memfd_create("risks", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data + 1, size - 1) == (ssize_t)(size - 1));
    char spec[64];
    snprintf(spec, sizeof spec, "%s:/proc/self/fd/%d", kinds[data[0] % 3], file);
    struct interruptions risks;
    struct error error = {0};
    int code = interruptions_open(&risks, spec, &markets, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : error.code == code && error_exit_status(code) == 2);
    for (int64_t start = 1600000000; code == 0 && start < 1600000000 + 40 * HOUR; start += 9999) {
        FUZZ_CHECK(interruption_time(&risks, 0, start, 3, 4) >= start);
        (void)interruption_open_at(&risks, 0, start, 4);
        double probability = interruption_probability(&risks, 0, 0.5, (double)(start % 7));
        FUZZ_CHECK(probability >= 0 && probability <= 1);
    }
    if (code == 0) {
        interruptions_close(&risks);
    }
    markets_close(&markets);
    close(file);
    return 0;
}
