/* See instant.h. */
#include "agileml/base/instant.h"

#include <stdio.h>
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

void instant_format(int64_t seconds, char text[INSTANT_TEXT_MAX]) {
    time_t when = (time_t)seconds;
    struct tm parts;
    gmtime_r(&when, &parts);
    strftime(text, INSTANT_TEXT_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts);
}
