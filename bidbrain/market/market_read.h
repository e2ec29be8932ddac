/* Reads files of spot prices into markets: the AWS CLI's JSON (SpotPriceHistory), the EC2 console's JSON lines
 * (priceChange), CSV and TSV, each plain or gzip, alone or in folders or (plain or gzip) tar archives.
 *
 * CSV and TSV: a header line names the columns (timestamp, timestamp_utc or epoch_ms; price, price_usd; instance_type;
 * zone; product; others are ignored); without one a line is zone, type, product, price, time, or time, price. What a
 * file's content does not tell comes from its name, "TYPE-ZONE.EXTENSION", and the product is then Linux/UNIX. JSON
 * items and lines that miss a field, or whose price is 0, are skipped and counted; everything else that is wrong is an
 * error with file and line, JSON's mostly that where its object begins. Memory: buffers, whatever the file's size; only
 * points are kept. */
#ifndef BIDBRAIN_MARKET_MARKET_READ_H
#define BIDBRAIN_MARKET_MARKET_READ_H

#include "bidbrain/market/market.h"

enum {
    MARKET_READ_LINE_MAX = 4096,    /* bytes of a line of CSV */
    MARKET_READ_TEXT_MAX = 1 << 20, /* bytes of a JSON object or array, not counting those in it */
    MARKET_READ_DEPTH_MAX = 32,     /* JSON objects and arrays in each other */
};

#define MARKET_PRODUCT "Linux/UNIX"

/* Adds the points of `path`, a file or a folder (all files in it whose names say they are prices: .json .csv .tsv,
 * .tar, with or without .gz), of `product` only, NULL for all. Call markets_finish after the last. AML_EINPUT with one
 * line. */
int market_read(struct markets *markets, const char *path, const char *product, struct error *error);
/* The same for one file whose name for all purposes but opening and messages is `name`. */
int market_read_named(struct markets *markets, const char *path, const char *name, const char *product,
                      struct error *error);
/* One line on the log (log_warn) for each kind of blemish that was counted. */
void market_read_warn(const struct markets *markets);

#endif
