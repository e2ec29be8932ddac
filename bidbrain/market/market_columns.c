/* See market_columns.h. */
#include "bidbrain/market/market_columns.h"

#include "agileml/base/instant.h"
#include "agileml/base/text_columns.h"
#include "bidbrain/market/market.h"

#include <ctype.h>
#include <string.h>

/* ---- Headers ---- */

/* Names of columns. Of roles with the same meaning the first in this order counts. */
enum role { TYPE, ZONE, ZONE_ID, REGION, PRODUCT, PRICE, TIME, DATE, EPOCH, ROLES };

static const struct text_role roles[ROLES] = {
    {"instance type", "instancetype type machinetype"},
    {"zone", "availabilityzone zone az"},
    {"zone's id", "availabilityzoneid zoneid azid"},
    {"region", "region regionname awsregion"},
    {"product", "productdescription product os operatingsystem"},
    {"price", "spotprice price priceusd spotpriceusd usd priceperhour hourlyprice pricehour usdperhour"},
    {"time", "timestamp timestamputc time datetime datetimeutc timeutc"},
    {"date", "date day"},
    {"epoch", "epochms epoch epochtime epochs unixtimestamp unixtime epochseconds"},
};
static const enum market_column kinds[ROLES] = {
    MARKET_COLUMN_TYPE,  MARKET_COLUMN_ZONE, MARKET_COLUMN_ZONE, MARKET_COLUMN_ZONE,  MARKET_COLUMN_PRODUCT,
    MARKET_COLUMN_PRICE, MARKET_COLUMN_TIME, MARKET_COLUMN_DATE, MARKET_COLUMN_EPOCH,
};

enum market_column market_column_named(const char *name) {
    const struct text_field field = {.text = name, .length = strlen(name)};
    char normal[TEXT_COLUMN_NAME_MAX];
    (void)text_column_normalize(&field, normal, sizeof normal);
    for (int r = 0; r < ROLES; r++) {
        if (r != ZONE_ID && r != REGION && text_role_has(&roles[r], normal)) {
            return kinds[r];
        }
    }
    return MARKET_COLUMN_OTHER;
}

/* Sets the kinds of a header's columns. */
static void take_places(struct market_columns *columns, const int places[ROLES]) {
    memset(columns->kinds, 0, sizeof columns->kinds);
    for (int r = ROLES - 1; r >= 0; r--) {
        bool given =
            (r == REGION && (places[ZONE_ID] >= 0 || places[ZONE] >= 0)) || (r == ZONE_ID && places[ZONE] >= 0);
        if (places[r] >= 0 && !given) {
            columns->kinds[places[r]] = kinds[r];
        }
    }
    if (places[TIME] < 0 && places[EPOCH] < 0 && places[DATE] >= 0) {
        columns->kinds[places[DATE]] = MARKET_COLUMN_TIME;
    }
}

/* ---- Lines without a header ---- */

/* Whether the text is a zone's name, such as us-east-1a or us-west-2-lax-1a, or with `id` its id, such as use1-az2. */
static bool is_zone(const char *text, bool id) {
    size_t length = strlen(text);
    const char *az = strstr(text, "-az");
    if (length < 6 || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != length) {
        return false;
    }
    return id ? az != NULL && az[3] != '\0' && strspn(az + 3, "0123456789") == strlen(az + 3)
              : strchr(text, '-') != NULL && islower((unsigned char)text[length - 1]) &&
                    isdigit((unsigned char)text[length - 2]);
}

/* Whether the text is an instance type, such as m3.large or u-6tb1.metal. */
static bool is_type(const char *text) {
    const char *point = strchr(text, '.');
    return islower((unsigned char)text[0]) && point != NULL &&
           islower((unsigned char)point[1]) + isdigit((unsigned char)point[1]) &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0';
}

static bool is_product(const char *text) {
    static const char *const begins[] = {"Linux", "Windows", "SUSE", "Red Hat"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(text, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns what a field holds; ROLES: unknown. */
static enum role role_of(const char *text) {
    int64_t number;
    const char *price = text + (*text == '$');
    return instant_parse_any(text, &number) ? TIME
           : price_parse(price, &number)    ? PRICE
           : is_zone(text, false)           ? ZONE
           : is_zone(text, true)            ? ZONE_ID
           : is_type(text)                  ? TYPE
           : is_product(text)               ? PRODUCT
                                            : ROLES;
}

/* Finds the columns of a line of data by their contents. Returns false if there is not exactly one price and one time,
 * or if the role of a field is ambiguous. */
static bool infer(struct market_columns *columns, const char *line, const char *end) {
    int places[ROLES];
    size_t column = 0;
    for (int r = 0; r < ROLES; r++) {
        places[r] = TEXT_COLUMN_NONE;
    }
    for (const char *next = line; next != NULL; column++) {
        struct text_field field;
        char text[MARKET_TEXT_MAX];
        if (!text_field_take(next, end, columns->separator, &field)) {
            return false;
        }
        next = field.next;
        size_t length = text_field_copy(&field, text, sizeof text - 1);
        text[length < sizeof text ? length : 0] = '\0';
        enum role role = role_of(text);
        if (role != ROLES && places[role] >= 0) {
            return false;
        }
        if (role != ROLES) {
            places[role] = (int)column;
        }
    }
    take_places(columns, places);
    return places[PRICE] >= 0 && places[TIME] >= 0;
}

static bool begins_with(const char *line, const char *end, const char *text) {
    size_t length = strlen(text);
    return (size_t)(end - line) >= length && strncmp(line, text, length) == 0;
}

bool market_line_is_token(const char *line, const char *end) {
    const char *at = begins_with(line, end, "NEXTTOKEN\t") ? line + strlen("NEXTTOKEN\t") : line;
    while (at < end && (isalnum((unsigned char)*at) || strchr("+/=", *at) != NULL)) {
        at++;
    }
    return at == end;
}

/* ---- The first line ---- */

/* Rejects the AWS CLI's output formats that can't be read. */
static int check_form(const char *line, const char *end, struct error *error) {
    const char *form = begins_with(line, end, "--") || begins_with(line, end, "+-") || begins_with(line, end, "|")
                           ? "table"
                       : begins_with(line, end, "SpotPriceHistory:") || begins_with(line, end, "- ") ? "yaml"
                                                                                                     : NULL;
    return form == NULL ? 0
                        : error_set(error, AML_EINPUT,
                                    "this is the AWS CLI's --output %s: expected --output json or --output text", form);
}

/* Reports what a header lacks. */
static int incomplete(const int places[ROLES], struct error *error) {
    return error_set(error, AML_EINPUT, "a header without %s: expected columns such as timestamp and price",
                     places[PRICE] < 0 ? "a column of the price" : "a column of the time");
}

int market_columns_choose(struct market_columns *columns, const char *line, const char *end, bool *header,
                          struct error *error) {
    static const enum market_column plain[5] = {MARKET_COLUMN_ZONE, MARKET_COLUMN_TYPE, MARKET_COLUMN_PRODUCT,
                                                MARKET_COLUMN_PRICE, MARKET_COLUMN_TIME};
    int places[ROLES];
    struct market_columns found = {.cli = begins_with(line, end, "SPOTPRICEHISTORY\t")};
    found.separator = memchr(line, '\t', (size_t)(end - line)) != NULL ? TEXT_TAB : text_separator_of(line, end);
    int code = check_form(line, end, error);
    int named =
        code != 0 ? code : text_columns_find(line, end, found.separator, roles, ROLES, places, &found.count, error);
    if (named < 0) {
        return named;
    }
    if (found.count > MARKET_COLUMNS_MAX) {
        return error_set(error, AML_EINPUT, "%zu columns: expected at most %d", found.count, MARKET_COLUMNS_MAX);
    }
    *header = places[PRICE] >= 0 && (places[TIME] >= 0 || places[DATE] >= 0 || places[EPOCH] >= 0);
    if (*header) {
        take_places(&found, places);
    } else if (!infer(&found, line, end)) {
        if (named > 0) {
            return incomplete(places, error);
        }
        if (found.count != sizeof plain / sizeof *plain) {
            return error_set(error, AML_EINPUT,
                             "neither a header with a time and a price column nor a line with one time and one price, "
                             "such as zone, type, product, price, time");
        }
        memcpy(found.kinds, plain, sizeof plain);
    }
    *columns = found;
    return 0;
}
