/* Reads files of spot prices into markets: the AWS CLI's JSON and text (describe-spot-price-history), the EC2 console's
 * JSON lines (priceChange), CSV and TSV, each plain or gzip, alone or in folders or (plain or gzip) tar archives.
 *
 * CSV and TSV: a header line names the columns, in any order, whatever else there is (market_columns.c has the names).
 * Without a header the columns are found by what stands in them: one time and one price, perhaps zone, type and
 * product. A type or zone that the content lacks comes from the file's name, "TYPE-ZONE.EXTENSION"; a missing product
 * is Linux/UNIX. JSON items and lines that miss a field, or whose price is 0, are skipped and counted. Any other flaw
 * is an error with file and line; for JSON the line is mostly that where the object begins. Only points and buffers of
 * fixed size are held in memory, whatever the file's size. */
#ifndef BIDBRAIN_MARKET_MARKET_READ_H
#define BIDBRAIN_MARKET_MARKET_READ_H

#include "bidbrain/market/market.h"

enum {
    MARKET_READ_LINE_MAX = 4096,    /* bytes of a line of CSV */
    MARKET_READ_FIELD_MAX = 200,    /* of a field that counts */
    MARKET_READ_TEXT_MAX = 1 << 20, /* bytes of a JSON object or array, without nested ones */
    MARKET_READ_DEPTH_MAX = 32,     /* nested JSON objects and arrays */
};

#define MARKET_PRODUCT "Linux/UNIX"

/* Adds the points of `product` (NULL: of all products) in `path`, a file or a folder. Of a folder all files named
 * .json, .csv, .tsv or .tar are read, with or without .gz. Call markets_finish after the last. AML_EINPUT with one
 * line. */
int market_read(struct markets *markets, const char *path, const char *product, struct error *error);
/* The same for one file, whose format, type and zone follow from `name`; `path` opens it and stands in messages.
 * Without a name (NULL) this is market_read. */
int market_read_named(struct markets *markets, const char *path, const char *name, const char *product,
                      struct error *error);
/* Logs one warning for each kind of flaw that was counted. */
void market_read_warn(const struct markets *markets);

#endif
