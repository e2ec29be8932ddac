/* Finds the columns of a text of spot prices, by the names in its header or the contents of its first line. Pure
 * functions of text. market_read.h reads the lines. */
#ifndef BIDBRAIN_MARKET_MARKET_COLUMNS_H
#define BIDBRAIN_MARKET_MARKET_COLUMNS_H

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stddef.h>

enum { MARKET_COLUMNS_MAX = 32 };

enum market_column {
    MARKET_COLUMN_OTHER, /* ignored */
    MARKET_COLUMN_TYPE,
    MARKET_COLUMN_ZONE,
    MARKET_COLUMN_PRODUCT,
    MARKET_COLUMN_PRICE,
    MARKET_COLUMN_TIME,
    MARKET_COLUMN_DATE,  /* a date, to be put before a time of day */
    MARKET_COLUMN_EPOCH, /* a time that counts only if there is no other */
};

struct market_columns {
    enum text_separator separator;
    size_t count; /* 0: unknown */
    enum market_column kinds[MARKET_COLUMNS_MAX];
    bool cli; /* the AWS CLI's --output text, which also has lines that are no records */
};

/* Returns the meaning of a column, or of a member of a JSON object, with this name. */
enum market_column market_column_named(const char *name);

/* Finds the columns from the first line [line, end), and whether this line is a header. Returns 0, or AML_EINPUT with
 * what was found and expected; the caller puts FILE:LINE before it. */
int market_columns_choose(struct market_columns *columns, const char *line, const char *end, bool *header,
                          struct error *error);

/* Whether the line of the AWS CLI's text is not a record, but a token for the next page. */
bool market_line_is_token(const char *line, const char *end);

#endif
