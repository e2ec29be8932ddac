/* libFuzzer target for bidbrain/market_read. The first byte chooses the file's name, which shows an archive and what
 * the content lacks. The rest is the file, plain or gzip. Besides crashes it finds failures without a message, points
 * beyond their limits or out of order, and queries that disagree with the points. */
#include "agileml/base/instant.h"
#include "bidbrain/market/market_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static void fuzz_market(const struct market *market) {
    FUZZ_CHECK(market->count > 0 && market->finished == market->count);
    int64_t highest = 0;
    for (size_t i = 0; i < market->count; i++) {
        struct market_point point = market->points[i];
        FUZZ_CHECK(i == 0 || point.time > market->points[i - 1].time);
        FUZZ_CHECK(point.time >= INSTANT_MIN && point.time < INSTANT_MAX);
        FUZZ_CHECK(point.price > 0 && point.price < PRICE_MAX);
        FUZZ_CHECK(market_price(market, point.time) == point.price);
        highest = point.price > highest ? point.price : highest;
    }
    FUZZ_CHECK(market_highest(market, 0, INSTANT_MAX) == highest);
    FUZZ_CHECK(market_first_above(market, 0, highest) == MARKET_NEVER);
    int64_t first = market_first_above(market, 0, highest - 1);
    FUZZ_CHECK(first != MARKET_NEVER && market_price(market, first) == highest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"prices.json", "c3.xlarge-us-east-1a.csv", "prices.tar",
                                        "ec2-spot-market-VA.json"};
    if (size == 0) {
        return 0;
    }
    int file = memfd_create("prices", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data + 1, size - 1) == (ssize_t)(size - 1));
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct markets markets = {0};
    struct error error = {0};
    int code = market_read_named(&markets, path, names[data[0] % 4], NULL, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : error.code == code && error_exit_status(code) == 2);
    FUZZ_CHECK(code == 0 || strncmp(error.text, path, strlen(path)) == 0);
    markets_finish(&markets);
    for (size_t m = 0; m < markets.count; m++) {
        fuzz_market(markets.list[m]);
    }
    markets_close(&markets);
    close(file);
    return 0;
}
