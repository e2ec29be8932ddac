/* See timetable.h. */
#include "spotmarket/timetable.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 8 };

/* Parses a number of seconds, "S" or "Ss". */
static bool seconds_parse(const char *text, double most, double *seconds) {
    char *end;
    *seconds = strtod(text, &end);
    return end != text && (*end == '\0' || strcmp(end, "s") == 0) && isfinite(*seconds) && *seconds >= 0 &&
           *seconds <= most;
}

static size_t market_named(const struct markets *markets, const char *name) {
    for (size_t m = 0; m < markets->count; m++) {
        char other[MARKET_NAME_MAX];
        market_name(markets->list[m], other);
        if (strcmp(name, other) == 0) {
            return m;
        }
    }
    return MARKET_NONE;
}

/* Parses the event of `words`. Returns what is wrong, or NULL with *event set. */
static const char *event_parse(char *const *words, size_t count, const struct markets *markets, int64_t start,
                               int64_t notice, struct cloud_event *event) {
    double seconds = 0;
    *event = (struct cloud_event){.notice = notice};
    if ((count != 4 && count != 6) || strcmp(words[2], "interrupt") != 0 ||
        (count == 6 && strcmp(words[4], "notice") != 0)) {
        return "expected 'seconds X' or 'at TIME', then 'interrupt TYPE/ZONE', then perhaps 'notice S'";
    }
    if (strcmp(words[0], "seconds") == 0 && seconds_parse(words[1], 1e9, &seconds)) {
        event->time = start + (int64_t)seconds;
    } else if (strcmp(words[0], "at") != 0 || !instant_parse(words[1], &event->time)) {
        return "expected 'seconds X' or 'at 2016-03-01T00:10:00Z'";
    }
    event->market = market_named(markets, words[3]);
    if (event->market == MARKET_NONE) {
        return "there are no prices of that TYPE/ZONE";
    }
    if (count == 6) {
        if (!seconds_parse(words[5], TIMETABLE_NOTICE_MAX, &seconds)) {
            return "expected the notice in seconds, at most a day";
        }
        event->notice = (int64_t)seconds;
    }
    return NULL;
}

static int timetable_line(struct timetable *timetable, char *text, const char *path, uint64_t line,
                          const struct markets *markets, int64_t start, int64_t notice, struct error *error) {
    char *words[WORDS_MAX];
    size_t count = 0;
    text[strcspn(text, "#")] = '\0';
    for (char *word; (word = strsep(&text, " \t")) != NULL && count < WORDS_MAX;) {
        if (*word != '\0') {
            words[count++] = word;
        }
    }
    if (count == 0) {
        return 0;
    }
    struct cloud_event event;
    const char *wrong = event_parse(words, count, markets, start, notice, &event);
    if (wrong != NULL) {
        return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": %s", path, line, wrong);
    }
    if (timetable->count == TIMETABLE_EVENTS_MAX) {
        return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": more than %d events", path, line, TIMETABLE_EVENTS_MAX);
    }
    timetable->events = memory_resized(timetable->events, timetable->count + 1, sizeof *timetable->events);
    timetable->events[timetable->count++] = event;
    return 0;
}

int timetable_read(struct timetable *timetable, const char *path, const struct markets *markets, int64_t start,
                   int64_t notice, struct error *error) {
    *timetable = (struct timetable){0};
    struct text_lines lines;
    char *text;
    size_t length;
    int code = text_lines_open(&lines, path, TIMETABLE_LINE_MAX, error);
    if (code != 0) {
        return code;
    }
    while ((code = text_lines_next(&lines, &text, &length, error)) == 0 && text != NULL &&
           (code = timetable_line(timetable, text, path, lines.number, markets, start, notice, error)) == 0) {
    }
    text_lines_close(&lines);
    if (code != 0) {
        timetable_close(timetable);
    }
    return code;
}

void timetable_close(struct timetable *timetable) {
    free(timetable->events);
    *timetable = (struct timetable){0};
}
