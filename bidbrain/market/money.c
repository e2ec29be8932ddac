/* See money.h. */
#include "bidbrain/market/money.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool price_parse(const char *text, int64_t *price) {
    bool negative = *text == '-';
    int64_t value = 0;
    int decimals = -1; /* so far; -1: no decimal point yet */
    bool digits = false;
    for (const char *c = text + negative; *c != '\0'; c++) {
        if (*c == '.' && decimals < 0) {
            decimals = 0;
            continue;
        }
        if (*c < '0' || *c > '9') {
            return false;
        }
        digits = true;
        if (decimals < 6) {
            value = value * 10 + (*c - '0');
        } else if (decimals == 6) {
            value += *c >= '5';
        }
        decimals += decimals >= 0 && decimals < 7;
        if (value >= PRICE_MAX) {
            return false;
        }
    }
    for (int d = decimals < 0 ? 0 : decimals; d < 6; d++) {
        value *= 10;
    }
    *price = negative ? -value : value;
    return digits && value < PRICE_MAX;
}

void price_format(int64_t price, char text[PRICE_TEXT_MAX]) {
    uint64_t absolute = price < 0 ? 0 - (uint64_t)price : (uint64_t)price;
    snprintf(text, PRICE_TEXT_MAX, "%s%" PRIu64 ".%06" PRIu64, price < 0 ? "-" : "", absolute / 1000000,
             absolute % 1000000);
    size_t length = strlen(text);
    while (text[length - 1] == '0') {
        text[--length] = '\0';
    }
    if (text[length - 1] == '.') {
        text[length - 1] = '\0';
    }
}
