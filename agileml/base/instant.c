/* See instant.h. */
#include "agileml/base/instant.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static bool instant_digits(const char **text, int count, int64_t *value) {
    *value = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (**text < '0' || **text > '9') {
            return false;
        }
        *value = *value * 10 + (**text - '0');
    }
    return true;
}

static bool instant_skip(const char **text, char wanted) {
    return **text == wanted ? ((*text)++, true) : false;
}

/* Returns the days from 1970-01-01 to a day of the Gregorian calendar. Counts years from March, so that a leap day is
 * the last day of its year. */
static int64_t instant_days(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719468;
}

static int64_t instant_month_days(int64_t year, int64_t month) {
    static const int64_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

/* Reads the UTC offset: nothing, Z, +HH:MM or +HHMM. Subtracts it from *seconds. */
static bool instant_zone(const char *text, int64_t *seconds) {
    int64_t hours;
    int64_t minutes;
    if (*text == 'Z') {
        return text[1] == '\0';
    }
    if (*text == '\0') {
        return true;
    }
    bool west = *text == '-';
    if (!west && *text != '+') {
        return false;
    }
    text++;
    if (!instant_digits(&text, 2, &hours)) {
        return false;
    }
    (void)instant_skip(&text, ':');
    if (!instant_digits(&text, 2, &minutes) || hours > 14 || minutes > 59 || *text != '\0') {
        return false;
    }
    int64_t offset = hours * 3600 + minutes * 60;
    *seconds += west ? offset : -offset;
    return true;
}

bool instant_parse(const char *text, int64_t *seconds) {
    int64_t year, month, day, hour, minute, second;
    if (!instant_digits(&text, 4, &year) || !instant_skip(&text, '-') || !instant_digits(&text, 2, &month) ||
        !instant_skip(&text, '-') || !instant_digits(&text, 2, &day) ||
        !(instant_skip(&text, 'T') || instant_skip(&text, ' ')) || !instant_digits(&text, 2, &hour) ||
        !instant_skip(&text, ':') || !instant_digits(&text, 2, &minute) || !instant_skip(&text, ':') ||
        !instant_digits(&text, 2, &second)) {
        return false;
    }
    if (month < 1 || month > 12 || day < 1 || day > instant_month_days(year, month) || hour > 23 || minute > 59 ||
        second > 59) {
        return false;
    }
    if (instant_skip(&text, '.')) {
        while (*text >= '0' && *text <= '9') {
            text++;
        }
    }
    *seconds = instant_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return instant_zone(text, seconds) && *seconds >= INSTANT_MIN && *seconds < INSTANT_MAX;
}

/* Parses a number as seconds, milliseconds, microseconds or nanoseconds since 1970. The number of digits decides the
 * unit, as only one unit gives a time within the limits. */
static bool instant_since_1970(const char *text, size_t digits, int64_t *seconds) {
    int64_t value;
    const char *at = text;
    if (digits > 19 || !instant_digits(&at, (int)digits - (digits == 19), &value)) {
        return false;
    }
    int64_t parts = digits <= 10 ? 1 : digits <= 13 ? 1000 : digits <= 16 ? 1000000 : 100000000; /* 18 of 19 digits */
    *seconds = value / parts;
    return *seconds >= INSTANT_MIN && *seconds < INSTANT_MAX;
}

/* Returns whether the text is only digits, with or without a fraction. *digits: the number of digits before it. */
static bool instant_is_number(const char *text, size_t *digits) {
    *digits = strspn(text, "0123456789");
    const char *rest = text + *digits;
    rest += *rest == '.' ? 1 + strspn(rest + 1, "0123456789") : 0;
    return *digits > 0 && *rest == '\0';
}

/* Returns the length of a time "HH:MM" or "HH:MM:SS"; 0: the text is not such a time. */
static size_t instant_clock_length(const char *text) {
    size_t length = strspn(text, "0123456789:");
    return length == 5 || length == 8 ? length : 0;
}

bool instant_parse_any(const char *text, int64_t *seconds) {
    char usual[INSTANT_TEXT_MAX];
    size_t digits;
    if (instant_parse(text, seconds)) {
        return true;
    }
    if (instant_is_number(text, &digits) && digits != 8) {
        return instant_since_1970(text, digits, seconds);
    }
    bool plain = digits == 8 && text[8] == '\0';
    bool slashes = text[0] != '\0' && strlen(text) >= 10 && text[4] == '/' && text[7] == '/';
    int size = plain     ? snprintf(usual, sizeof usual, "%.4s-%.2s-%.2s", text, text + 4, text + 6)
               : slashes ? snprintf(usual, sizeof usual, "%.4s-%.2s-%.2s", text, text + 5, text + 8)
                         : snprintf(usual, sizeof usual, "%.10s", text);
    const char *rest = text + (plain ? 8 : size);
    size_t clock = *rest == 'T' || *rest == ' ' ? instant_clock_length(rest + 1) : 0;
    snprintf(usual + size, sizeof usual - (size_t)size, "T%.*s%s", clock > 0 ? (int)clock : 5,
             clock > 0 ? rest + 1 : "00:00", clock == 8 ? "" : ":00");
    rest += clock > 0 ? 1 + clock : 0;
    if (clock == 8 && (*rest == '.' || *rest == ',')) {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    rest += *rest == ' ';
    bool utc = strcasecmp(rest, "utc") == 0 || strcasecmp(rest, "gmt") == 0 || strcasecmp(rest, "z") == 0;
    bool hours = (*rest == '+' || *rest == '-') && strlen(rest) == 3;
    size_t used = strlen(usual);
    int zone = snprintf(usual + used, sizeof usual - used, "%s%s", utc ? "Z" : rest, hours ? ":00" : "");
    return zone >= 0 && (size_t)zone < sizeof usual - used && instant_parse(usual, seconds);
}

void instant_format(int64_t seconds, char text[INSTANT_TEXT_MAX]) {
    time_t when = (time_t)seconds;
    struct tm parts;
    gmtime_r(&when, &parts);
    strftime(text, INSTANT_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts);
}
