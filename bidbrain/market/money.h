/* Units of money. A price is whole micro-dollars per machine-hour. An amount is price x seconds, kept in units of
 * 1/3600 micro-dollar, so every rule of billing.h is exact: nothing is rounded before an amount is printed. An int64_t
 * holds amounts up to 2.5 billion dollars. */
#ifndef BIDBRAIN_MARKET_MONEY_H
#define BIDBRAIN_MARKET_MONEY_H

#include <stdbool.h>
#include <stdint.h>

enum { HOUR = 3600 };                                  /* seconds */
enum { PRICE_TEXT_MAX = 32 };                          /* bytes of a price as text with its NUL */
#define PRICE_DOLLAR  INT64_C(1000000)                 /* micro-dollars */
#define PRICE_MAX     (INT64_C(100000) * PRICE_DOLLAR) /* per machine-hour: more is a mistake in the data */
#define PRICE_UNKNOWN INT64_C(-1)
#define AMOUNT_DOLLAR (PRICE_DOLLAR * HOUR)

static inline double price_dollars(int64_t price) {
    return (double)price / (double)PRICE_DOLLAR;
}

static inline double amount_dollars(int64_t amount) {
    return (double)amount / (double)AMOUNT_DOLLAR;
}

/* Reads a decimal number of dollars such as "0.0187" into micro-dollars. Rounds digits after the sixth decimal half up.
 * Returns false if it is no such number, or PRICE_MAX or more. Accepts a leading '-'; the caller rejects negative
 * prices. */
bool price_parse(const char *text, int64_t *price);
/* Writes the shortest text that price_parse reads as `price`. */
void price_format(int64_t price, char text[PRICE_TEXT_MAX]);

#endif
