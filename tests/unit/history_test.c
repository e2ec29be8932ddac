/* Tests of web/history.h: which lines of a long report are kept and in which order, and how they are read back. */
#include "tests/test.h"
#include "web/history.h"

#include <jansson.h>

static struct history_line *line_of(uint64_t number, const char *text, size_t size) {
    struct report_line *read = report_line_read(text, size, NULL);
    struct history_line *line = history_line_new(number, read, text, size);
    report_line_drop(read);
    return line;
}

static void add(struct history *history, uint64_t number, const char *type, size_t padding) {
    FREED char *text = malloc(padding + 256);
    int size = snprintf(text, 256, "{\"type\":\"%s\",\"number\":%llu,\"text\":\"", type, (unsigned long long)number);
    memset(text + size, 'x', padding);
    size += (int)padding;
    size += snprintf(text + size, 8, "\"}");
    struct history_line *line = line_of(number, text, (size_t)size);
    history_add(history, line);
    history_line_drop(line);
}

/* The history as text; the caller frees it. */
static char *text_of(const struct history *history) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    CLOSED_BY(history_view_close) struct history_view view = history_view_open(history);
    history_view_write(&view, stream);
    fclose(stream);
    return text;
}

static struct history *read_back(const char *text, int code) {
    struct error error = {0};
    struct history *history = history_new();
    FILE *stream = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_int_equal(history_read(history, stream, &error), code);
    fclose(stream);
    return history;
}

/* Counts the lines of a type; `last` gets the last one's number. Checks the order of all lines after the first. */
static size_t each_line(const char *text, const char *type, uint64_t *last) {
    size_t count = 0;
    uint64_t before = 0;
    for (const char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        json_auto_t *object = json_loadb(line, (size_t)(strchr(line, '\n') - line), 0, NULL);
        uint64_t number = (uint64_t)json_integer_value(json_object_get(object, "number"));
        assert_non_null(object);
        assert_true(before == 0 || number > before); /* in order */
        before = number;
        if (strcmp(json_string_value(json_object_get(object, "type")), type) == 0) {
            count++;
            *last = number;
        }
    }
    return count;
}

TEST(a_short_report_stays_whole) {
    static const char *const types[] = {"event", "iteration", "clock", "usage", "nodes",
                                        "money", "decision",  "note",  "new"};
    struct history *history = history_new();
    for (uint64_t n = 0; n < 900; n++) {
        add(history, n, types[n % 9], 20);
    }
    add(history, 5, "event", 0); /* a number that is known already */
    assert_int_equal(history_next(history), 900);
    FREED char *text = text_of(history);
    uint64_t last = 0;
    for (unsigned t = 0; t < 9; t++) {
        assert_int_equal(each_line(text, types[t], &last), 100);
    }
    assert_non_null(strstr(text, "\"next\":900,\"whole\":true"));
    assert_non_null(strstr(text, history_run(history)));
    history_free(history);
}

TEST(a_long_report_is_thinned) {
    enum { LINES = 100000 };
    struct history *history = history_new();
    uint64_t last = 0;
    for (uint64_t n = 0; n < LINES; n++) {
        add(history, n, n % 10 == 3 ? "event" : "iteration", 200);
        if (n % 9973 == 0) {
            FREED char *text = text_of(history);
            assert_true(strlen(text) < HISTORY_CURVE_BYTES + HISTORY_LIST_BYTES + 1000);
        }
    }
    char *text = text_of(history);
    size_t points = each_line(text, "iteration", &last);
    assert_true(points > HISTORY_CURVE_BYTES / 1000 && points * 200 < HISTORY_CURVE_BYTES);
    assert_int_equal(last, LINES - 1);              /* the newest is kept */
    assert_non_null(strstr(text, "\"number\":0,")); /* the first is kept too */
    size_t events = each_line(text, "event", &last);
    assert_int_equal(events, LINES / 10); /* all fit */
    assert_non_null(strstr(text, "\"whole\":true"));
    free(text);
    for (uint64_t n = LINES; n < 2 * LINES; n++) {
        add(history, n, "event", 200);
    }
    text = text_of(history);
    assert_non_null(strstr(text, "\"whole\":false"));
    assert_true(each_line(text, "iteration", &last) >= points - 1);
    assert_true(each_line(text, "event", &last) < LINES);
    assert_int_equal(last, 2 * LINES - 1);
    free(text);
    history_free(history);
}

/* Adds a line of 40 kB about one node. */
static void add_node(struct history *history, uint64_t number, unsigned node, const char *state) {
    enum { PADDING = 40000 };
    FREED char *text = malloc(PADDING + 256);
    int size = snprintf(text, 256,
                        "{\"type\":\"nodes\",\"seconds\":%llu.5,\"number\":%llu,\"nodes\":[{\"name\":\"node-%u\","
                        "\"state\":\"%s\",\"text\":\"",
                        (unsigned long long)number, (unsigned long long)number, node, state);
    memset(text + size, 'x', PADDING);
    size += PADDING;
    size += snprintf(text + size, 8, "\"}]}");
    struct history_line *line = line_of(number, text, (size_t)size);
    history_add(history, line);
    history_line_drop(line);
}

/* The nodes that take part, by the lines that are left. */
static json_t *nodes_of(const char *text) {
    json_t *nodes = json_object();
    for (const char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        json_auto_t *object = json_loadb(line, (size_t)(strchr(line, '\n') - line), 0, NULL);
        size_t n;
        json_t *node;
        json_array_foreach(json_object_get(object, "nodes"), n, node) {
            const char *state = json_string_value(json_object_get(node, "state"));
            json_object_set(nodes, json_string_value(json_object_get(node, "name")), json_object_get(node, "state"));
            if (strcmp(state, "lost") == 0 || strcmp(state, "left") == 0) {
                json_object_del(nodes, json_string_value(json_object_get(node, "name")));
            }
        }
    }
    return nodes;
}

/* Each line lists only the nodes that changed. The state of other nodes in dropped lines is kept. */
TEST(who_takes_part_is_known_for_ever) {
    struct history *history = history_new();
    uint64_t number = 0;
    for (unsigned node = 0; node < 20; node++) {
        add_node(history, number++, node, "started");
    }
    add_node(history, number++, 7, "lost");
    for (unsigned n = 0; n < 500; n++) { /* 20 MB of lines */
        add_node(history, number++, 18 + n % 2, n % 4 < 2 ? "loading" : "started");
    }
    add_node(history, number++, 8, "left");
    FREED char *text = text_of(history);
    uint64_t last = 0;
    assert_true(strlen(text) < HISTORY_LIST_BYTES + 1000);
    assert_true(each_line(text, "nodes", &last) > 50); /* close to the limit of bytes */
    assert_int_equal(last, number - 1);
    assert_non_null(strstr(text, "\"whole\":false"));
    assert_non_null(strstr(text, "\"all\":true"));
    struct history *again = read_back(text, 0);
    FREED char *text_again = text_of(again);
    json_auto_t *nodes = nodes_of(text);
    json_auto_t *nodes_again = nodes_of(text_again);
    assert_int_equal(json_object_size(nodes), 18);
    assert_null(json_object_get(nodes, "node-7"));
    assert_null(json_object_get(nodes, "node-8"));
    assert_string_equal(json_string_value(json_object_get(nodes, "node-0")), "started");
    assert_true(json_equal(nodes, nodes_again));
    history_free(history);
    history_free(again);
}

/* A line's type is its own key, even if a text contains the same words. */
TEST(a_text_is_no_type) {
    struct history *history = history_new();
    static const char text[] = "{\"reason\":\"\\\"type\\\":\\\"iteration\\\"\",\"type\":\"event\"}";
    for (uint64_t n = 0; n < 20000; n++) { /* would be thinned if they counted as iterations */
        struct history_line *line = line_of(n, text, strlen(text));
        history_add(history, line);
        history_line_drop(line);
    }
    FREED char *all = text_of(history);
    size_t count = 0;
    for (const char *c = all; *c != '\0'; c++) {
        count += *c == '\n' ? 1 : 0;
    }
    assert_int_equal(count, 20001);
    history_free(history);
}

TEST(a_gap_is_told) {
    struct history *history = history_new();
    add(history, 0, "event", 0);
    add(history, 7, "event", 0);
    FREED char *text = text_of(history);
    assert_non_null(strstr(text, "\"next\":8,\"whole\":false"));
    history_free(history);
}

TEST(it_is_read_back) {
    struct history *history = history_new();
    for (uint64_t n = 0; n < 30000; n++) {
        add(history, n, n % 100 == 0 ? "nodes" : "usage", 300);
    }
    FREED char *text = text_of(history);
    struct history *again = read_back(text, 0);
    char *same = text_of(again);
    assert_string_equal(text, same);
    assert_string_equal(history_run(history), history_run(again));
    for (uint64_t n = 30000; n < 60000; n++) { /* the history grows on within its limits */
        add(again, n, "usage", 300);
    }
    free(same);
    same = text_of(again);
    uint64_t last;
    assert_true(each_line(same, "usage", &last) * 300 < HISTORY_CURVE_BYTES);
    assert_int_equal(last, 59999);
    assert_true(each_line(same, "nodes", &last) == 300);
    free(same);
    history_free(again);
    history_free(history);
}

TEST(what_is_no_history) {
    static const char *const wrong[] = {
        "\n",
        "{}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":-1,\"whole\":true,\"strides\":[1,1,1,1]}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdeg\",\"next\":1,\"whole\":true,\"strides\":[1,1,1,1]}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":1,\"whole\":true,\"strides\":[1,1,1]}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":1,\"whole\":true,\"strides\":[1,3,1,1]}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":1,\"whole\":true,\"strides\":[0,1,1,1]}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":1,\"whole\":true,\"strides\":[1,1,1,1]}\n{}\n{}\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":9,\"whole\":true,\"strides\":[1,1,1,1]}\nx\n",
        "{\"type\":\"history\",\"run\":\"0123456789abcdef\",\"next\":9,\"whole\":true,\"strides\":[1,1,1,1]}\n{\"a\":1",
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        history_free(read_back(wrong[w], AML_EINPUT));
    }
}
