/* Reads files of spot prices into markets: the AWS CLI's JSON and text (describe-spot-price-history), the EC2 console's
 * JSON lines (priceChange), CSV and TSV. Each may be plain or gzip, alone or in folders or (plain or gzip) tar
 * archives.
 *
 * CSV and TSV: a header names the columns, in any order and among others (market_columns.c has the names). Without a
 * header the columns are found by their contents: one time and one price, perhaps zone, type and product. A missing
 * type or zone comes from the file's name, "TYPE-ZONE.EXTENSION"; a missing product is Linux/UNIX.
 *
 * JSON items and lines that lack a field, or whose price is 0, are skipped and counted. Any other flaw is an error with
 * file and line; for JSON this is mostly the line where the object begins. Memory holds only points and fixed-size
 * buffers, whatever the file's size. */
#ifndef BIDBRAIN_MARKET_MARKET_READ_H
#define BIDBRAIN_MARKET_MARKET_READ_H

#include "bidbrain/market/market.h"

enum {
    MARKET_READ_LINE_MAX = 4096,    /* bytes of a line of CSV */
    MARKET_READ_FIELD_MAX = 200,    /* bytes of a field that is read */
    MARKET_READ_TEXT_MAX = 1 << 20, /* bytes of a JSON object or array, without those nested in it */
    MARKET_READ_DEPTH_MAX = 32,     /* nested JSON objects and arrays */
};

#define MARKET_PRODUCT "Linux/UNIX"

/* Adds the points of `product` (NULL: all products) in `path`, a file or a folder. In a folder, reads all files named
 * .json, .csv, .tsv or .tar, with or without .gz. Call markets_finish after the last. Returns AML_EINPUT with one
 * line. */
int market_read(struct markets *markets, const char *path, const char *product, struct error *error);
/* Like market_read for one file, whose format, type and zone follow from `name`; `path` is opened and named in
 * messages. NULL as `name`: same as market_read. */
int market_read_named(struct markets *markets, const char *path, const char *name, const char *product,
                      struct error *error);
/* Logs a warning for each kind of flaw that was found. */
void market_read_warn(const struct markets *markets);

#endif
