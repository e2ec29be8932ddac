/* See events.h. */
#include "proteus/events.h"

#include "agileml/base/memory.h"
#include "agileml/base/text_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The words of a line; `next` is the first unread word. */
struct words {
    char *list[EVENTS_WORDS_MAX];
    size_t count, next;
};

static const char *const ACTIONS[] = {"kill", "pause", "resume", "join", "evict", "start"};
enum { ACTION_COUNT = sizeof ACTIONS / sizeof *ACTIONS };

static int split(struct words *words, char *line, struct error *error) {
    *words = (struct words){0};
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
        if (words->count == EVENTS_WORDS_MAX) {
            return error_set(error, AML_EINPUT, "more than %d words", EVENTS_WORDS_MAX);
        }
        words->list[words->count++] = word;
    }
    return 0;
}

/* Returns the next word, or NULL at the line's end. */
static const char *peek(const struct words *words) {
    return words->next < words->count ? words->list[words->next] : NULL;
}

/* Takes the next word if it is `text`. */
static bool take(struct words *words, const char *text) {
    const char *word = peek(words);
    bool same = word != NULL && strcmp(word, text) == 0;
    words->next += same ? 1 : 0;
    return same;
}

static int unexpected(const struct words *words, const char *expected, struct error *error) {
    const char *word = peek(words);
    return word == NULL ? error_set(error, AML_EINPUT, "the line ends, expected %s", expected)
                        : error_set(error, AML_EINPUT, "expected %s, got '%.100s'", expected, word);
}

/* ---- Numbers ---- */

static bool read_whole(const char *text, uint64_t maximum, uint64_t *value) {
    size_t digits = text != NULL ? strspn(text, "0123456789") : 0;
    if (digits == 0 || text[digits] != '\0') {
        return false;
    }
    errno = 0;
    *value = strtoull(text, NULL, 10);
    return errno == 0 && *value <= maximum;
}

/* Reads a number of seconds, at least 0, followed by `suffix`. */
static bool read_seconds(const char *text, const char *suffix, double *value) {
    size_t length = text != NULL ? strspn(text, "0123456789.") : 0;
    if (length == 0 || strcmp(text + length, suffix) != 0) {
        return false;
    }
    char *end;
    *value = strtod(text, &end);
    return end == text + length && isfinite(*value);
}

/* Reads K of "node-K". */
static bool read_node(const char *text, unsigned *number) {
    uint64_t value;
    if (text == NULL || strncmp(text, "node-", 5) != 0 || text[5] == '0' ||
        !read_whole(text + 5, WIRE_NODES_MAX, &value)) {
        return false;
    }
    *number = (unsigned)value;
    return true;
}

/* ---- The grammar, one function a rule ---- */

static int parse_when(struct words *words, struct event *event, struct error *error) {
    if (take(words, "iteration")) {
        if (!read_whole(peek(words), WIRE_CLOCK_MAX, &event->iteration) || event->iteration == 0) {
            return unexpected(words, "an iteration's number, from 1", error);
        }
    } else if (take(words, "seconds")) {
        event->by_seconds = true;
        if (!read_seconds(peek(words), "", &event->seconds)) {
            return unexpected(words, "a number of seconds, such as 4.5", error);
        }
    } else {
        return unexpected(words, "'iteration N' or 'seconds X'", error);
    }
    words->next++;
    return 0;
}

static int parse_action(struct words *words, struct event *event, struct error *error) {
    for (int a = 0; a < ACTION_COUNT; a++) {
        if (take(words, ACTIONS[a])) {
            event->action = (enum event_action)a;
            return 0;
        }
    }
    return unexpected(words, "kill, pause, resume, join, evict or start", error);
}

static bool take_tier(struct words *words, struct event *event) {
    const char *word = peek(words);
    if (word == NULL || !tier_of_name(word, &event->tier)) {
        return false;
    }
    words->next++;
    event->target = EVENT_TIER;
    return true;
}

/* Parses N|all after a tier. */
static int parse_count(struct words *words, struct event *event, bool all, struct error *error) {
    uint64_t count = 0;
    if (!(all && strcmp(peek(words) != NULL ? peek(words) : "", "all") == 0) &&
        (!read_whole(peek(words), WIRE_NODES_MAX, &count) || count == 0)) {
        return unexpected(words, all ? "a number of nodes, from 1, or all" : "a number of nodes, from 1", error);
    }
    event->count = (unsigned)count;
    words->next++;
    return 0;
}

static int parse_nodes(struct words *words, struct event *event, const char *expected, struct error *error) {
    unsigned node;
    event->target = EVENT_NODES;
    while (read_node(peek(words), &node)) {
        event->nodes = memory_resized(event->nodes, event->node_count + 1, sizeof *event->nodes);
        event->nodes[event->node_count++] = node;
        words->next++;
    }
    return event->node_count > 0 ? 0 : unexpected(words, expected, error);
}

static int parse_target(struct words *words, struct event *event, struct error *error) {
    const char *expected = event->action == EVENT_EVICT
                               ? "node names such as node-7, 'reliable N', 'transient N', 'feeder N', or all instead "
                                 "of N"
                               : "controller, node names such as node-7, 'reliable N', 'transient N', 'feeder N', or "
                                 "all instead of N";
    if (event->action != EVENT_EVICT && take(words, "controller")) {
        event->target = EVENT_CONTROLLER;
        return 0;
    }
    if (take_tier(words, event)) {
        return parse_count(words, event, true, error);
    }
    return parse_nodes(words, event, expected, error);
}

static int parse_notice(struct words *words, struct event *event, struct error *error) {
    event->notice = EVENTS_NOTICE_DEFAULT;
    if (!take(words, "notice")) {
        return 0;
    }
    if (!read_seconds(peek(words), "s", &event->notice)) {
        return unexpected(words, "seconds of notice, such as 120s", error);
    }
    words->next++;
    return 0;
}

static int parse_join(struct words *words, struct event *event, struct error *error) {
    return take_tier(words, event) ? parse_count(words, event, false, error) : unexpected(words, TIER_NAMES, error);
}

static int parse_start(struct words *words, struct event *event, struct error *error) {
    event->target = EVENT_CONTROLLER;
    return take(words, "controller") ? 0 : unexpected(words, "controller", error);
}

static int parse_what(struct words *words, struct event *event, struct error *error) {
    int result = parse_action(words, event, error);
    if (result != 0) {
        return result;
    }
    switch (event->action) {
    case EVENT_JOIN:
        result = parse_join(words, event, error);
        break;
    case EVENT_START:
        result = parse_start(words, event, error);
        break;
    case EVENT_EVICT:
        result = parse_target(words, event, error);
        result = result == 0 ? parse_notice(words, event, error) : result;
        break;
    default:
        result = parse_target(words, event, error);
        break;
    }
    if (result == 0 && peek(words) != NULL) {
        result = unexpected(words, "the line's end", error);
    }
    return result;
}

void event_close(struct event *event) {
    free(event->text);
    free(event->nodes);
    *event = (struct event){0};
}

int event_parse(char *line, struct event *event, bool *present, struct error *error) {
    struct words words;
    line[strcspn(line, "#\r\n")] = '\0';
    *event = (struct event){.text = memory_string(line)};
    int result = split(&words, line, error);
    *present = result == 0 && words.count > 0;
    if (!*present) {
        return result;
    }
    result = parse_when(&words, event, error);
    return result == 0 ? parse_what(&words, event, error) : result;
}

/* ---- The file ---- */

static int refuse(const struct events *events, uint64_t line, const struct error *why, struct error *error) {
    return error_set(error, why->code, "%.200s:%" PRIu64 ": %s", events->path, line, why->text);
}

static int read_line(struct events *events, char *line, uint64_t number, struct error *error) {
    struct error why = {0};
    struct event event;
    bool present = false;
    int result = event_parse(line, &event, &present, &why);
    if (present && events->count == EVENTS_MAX) {
        result = error_set(&why, AML_ELIMIT, "more than %d events", EVENTS_MAX);
    }
    if (result != 0 || !present) {
        event_close(&event);
    } else {
        event.line = (unsigned)number;
        events->list = memory_resized(events->list, events->count + 1, sizeof *events->list);
        events->list[events->count++] = event;
    }
    return result == 0 ? 0 : refuse(events, number, &why, error);
}

int events_read(struct events *events, const char *path, struct error *error) {
    *events = (struct events){.path = path};
    struct text_lines lines;
    struct error why = {0};
    char *line;
    size_t length;
    int result = text_lines_open(&lines, path, EVENTS_LINE_MAX, &why);
    if (result != 0) {
        return error_set(error, result, "--events %s", why.text);
    }
    while ((result = text_lines_next(&lines, &line, &length, error)) == 0 && line != NULL &&
           (result = read_line(events, line, lines.number, error)) == 0) {
    }
    text_lines_close(&lines);
    if (result != 0) {
        events_close(events);
    }
    return result;
}

void events_close(struct events *events) {
    for (size_t e = 0; e < events->count; e++) {
        event_close(&events->list[e]);
    }
    free(events->list);
    *events = (struct events){0};
}

/* ---- Against the cluster ---- */

/* The cluster after the events of earlier lines. */
struct checked {
    unsigned tiers[TIERS]; /* nodes so far, including those that have left */
    bool elastic, market, controller_killed;
};

static unsigned nodes_of(const struct checked *cluster) {
    return cluster->tiers[TIER_RELIABLE] + cluster->tiers[TIER_TRANSIENT] + cluster->tiers[TIER_FEEDER];
}

/* Whether the event can name only feeders, which may come and go in any job. False for nodes by name, whose tier is
 * unknown. */
static bool is_of_feeders(const struct event *event) {
    return event->target == EVENT_TIER && event->tier == TIER_FEEDER;
}

static int check_nodes(const struct event *event, const struct checked *before, struct error *error) {
    unsigned of_tier = before->tiers[event->tier];
    unsigned all = nodes_of(before);
    if (event->target == EVENT_TIER && (event->count > of_tier || of_tier == 0)) {
        return error_set(error, AML_EINPUT, "the job has %u %s%s", of_tier,
                         event->tier == TIER_FEEDER     ? "feeder"
                         : event->tier == TIER_RELIABLE ? "reliable node"
                                                        : "transient node",
                         of_tier == 1 ? "" : "s");
    }
    for (size_t n = 0; n < event->node_count; n++) {
        if (event->nodes[n] > all) {
            return error_set(error, AML_EINPUT, "no node-%u: the job has node-1 to node-%u", event->nodes[n], all);
        }
    }
    return 0;
}

static int check_event(const struct event *event, struct checked *cluster, struct error *error) {
    if (!cluster->elastic && !is_of_feeders(event) && (event->action == EVENT_JOIN || event->action == EVENT_EVICT)) {
        return error_set(error, AML_EINPUT, "%s: nodes can't come or go with --stage traditional",
                         ACTIONS[event->action]);
    }
    if (cluster->market && (event->action == EVENT_JOIN || event->target != EVENT_CONTROLLER)) {
        return error_set(error, AML_EINPUT,
                         "%s: with --market the market decides which nodes come and go: expected an event of the "
                         "controller",
                         ACTIONS[event->action]);
    }
    if (event->action == EVENT_START && !cluster->controller_killed) {
        return error_set(error, AML_EINPUT, "start controller: no line above kills it");
    }
    if (event->action != EVENT_JOIN) {
        bool controller = event->target == EVENT_CONTROLLER;
        if (controller && event->action != EVENT_PAUSE && event->action != EVENT_RESUME) {
            cluster->controller_killed = event->action == EVENT_KILL;
        }
        return controller ? 0 : check_nodes(event, cluster, error);
    }
    cluster->tiers[event->tier] += event->count;
    return nodes_of(cluster) <= WIRE_NODES_MAX
               ? 0
               : error_set(error, AML_ELIMIT, "more than %d nodes in all", WIRE_NODES_MAX);
}

int events_check(const struct events *events, const struct events_cluster *cluster, struct error *error) {
    struct checked checked = {.tiers = {[TIER_RELIABLE] = cluster->reliable,
                                        [TIER_TRANSIENT] = cluster->transient,
                                        [TIER_FEEDER] = cluster->feeders},
                              .elastic = cluster->elastic,
                              .market = cluster->market};
    for (size_t e = 0; e < events->count; e++) {
        struct error why = {0};
        if (check_event(&events->list[e], &checked, &why) != 0) {
            return refuse(events, events->list[e].line, &why, error);
        }
    }
    return 0;
}

unsigned events_joining(const struct events *events) {
    uint64_t joining = 0;
    for (size_t e = 0; e < events->count; e++) {
        const struct event *event = &events->list[e];
        joining += event->action == EVENT_JOIN && event->tier != TIER_FEEDER ? event->count : 0;
    }
    return joining < WIRE_NODES_MAX ? (unsigned)joining : WIRE_NODES_MAX;
}

bool events_start_controller(const struct events *events) {
    for (size_t e = 0; e < events->count; e++) {
        const struct event *event = &events->list[e];
        if (event->action == EVENT_START && !event->done) {
            return true;
        }
    }
    return false;
}

void events_visit_missed(const struct events *events, void (*visit)(void *context, const char *event), void *context) {
    for (size_t e = 0; e < events->count; e++) {
        const struct event *event = &events->list[e];
        char text[EVENTS_LINE_MAX + PATH_MAX];
        if (!event->done) {
            snprintf(text, sizeof text, "%s:%u: %s", events->path, event->line, event->text);
            visit(context, text);
        }
    }
}
