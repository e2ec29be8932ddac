/* Which columns a text of spot prices has: by the names of its header, or by what stands in its first line. Pure
 * functions of text. Reading the lines is market_read.h's task. */
#ifndef BIDBRAIN_MARKET_MARKET_COLUMNS_H
#define BIDBRAIN_MARKET_MARKET_COLUMNS_H

#include "agileml/base/error.h"
#include "agileml/base/text_fields.h"

#include <stdbool.h>
#include <stddef.h>

enum { MARKET_COLUMNS_MAX = 32 };

enum market_column {
    MARKET_COLUMN_OTHER, /* is passed over */
    MARKET_COLUMN_TYPE,
    MARKET_COLUMN_ZONE,
    MARKET_COLUMN_PRODUCT,
    MARKET_COLUMN_PRICE,
    MARKET_COLUMN_TIME,
    MARKET_COLUMN_DATE,  /* goes before the time, if the time is one of a day */
    MARKET_COLUMN_EPOCH, /* a time that counts if there is no other */
};

struct market_columns {
    enum text_separator separator;
    size_t count; /* 0: not known yet */
    enum market_column kinds[MARKET_COLUMNS_MAX];
    bool cli; /* the AWS CLI's --output text: there are lines that are no records */
};

/* What a column, or a member of a JSON object, of this name means. */
enum market_column market_column_named(const char *name);

/* Finds out the columns from the first line [line, end), and whether it is a header. Returns 0; or AML_EINPUT with what
 * was found and expected, for the caller to put FILE:LINE before it. */
int market_columns_choose(struct market_columns *columns, const char *line, const char *end, bool *header,
                          struct error *error);

/* Whether the line of the AWS CLI's text is no record: a token for the next page. */
bool market_line_is_token(const char *line, const char *end);

#endif
