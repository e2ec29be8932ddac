/* Tests of proteus/events.h: the meaning of each line of the grammar; every bad line is refused with its place and
 * the expected text. */
#include "proteus/events.h"
#include "tests/files.h"
#include "tests/test.h"

#include <unistd.h>

static struct event parse(const char *text) {
    char line[EVENTS_LINE_MAX];
    struct event event;
    struct error error = {0};
    bool present;
    snprintf(line, sizeof line, "%s", text);
    if (event_parse(line, &event, &present, &error) != 0) {
        fail_msg("'%s': %s", text, error.text);
    }
    assert_true(present);
    return event;
}

TEST(lines) {
    struct event event = parse("iteration 11 join transient 60\n");
    assert_false(event.by_seconds);
    assert_int_equal(event.iteration, 11);
    assert_int_equal(event.action, EVENT_JOIN);
    assert_int_equal(event.target, EVENT_TIER);
    assert_int_equal(event.tier, TIER_TRANSIENT);
    assert_int_equal(event.count, 60);
    assert_string_equal(event.text, "iteration 11 join transient 60");
    event_close(&event);

    event = parse("iteration 35 evict transient 60 notice 120s");
    assert_int_equal(event.action, EVENT_EVICT);
    assert_int_equal(event.count, 60);
    assert_true(event.notice == 120);
    event_close(&event);

    event = parse("iteration 35 evict node-2 node-3 notice 0.5s");
    assert_int_equal(event.node_count, 2);
    assert_true(event.notice == 0.5);
    event_close(&event);

    event = parse("iteration 35 evict transient all");
    assert_true(event.notice == EVENTS_NOTICE_DEFAULT);
    event_close(&event);

    event = parse("  seconds\t4.5 kill node-7   # away with it");
    assert_true(event.by_seconds);
    assert_true(event.seconds == 4.5);
    assert_int_equal(event.action, EVENT_KILL);
    assert_int_equal(event.target, EVENT_NODES);
    assert_int_equal(event.node_count, 1);
    assert_int_equal(event.nodes[0], 7);
    event_close(&event);

    event = parse("seconds 9 kill transient all");
    assert_int_equal(event.target, EVENT_TIER);
    assert_int_equal(event.count, 0);
    event_close(&event);

    event = parse("iteration 20 kill controller");
    assert_int_equal(event.target, EVENT_CONTROLLER);
    event_close(&event);

    event = parse("iteration 22 start controller");
    assert_int_equal(event.action, EVENT_START);
    event_close(&event);

    event = parse("seconds 0 pause node-1 node-12 node-3");
    assert_int_equal(event.action, EVENT_PAUSE);
    assert_int_equal(event.node_count, 3);
    assert_int_equal(event.nodes[1], 12);
    event_close(&event);

    event = parse("iteration 1 resume reliable 2");
    assert_int_equal(event.action, EVENT_RESUME);
    assert_int_equal(event.tier, TIER_RELIABLE);
    event_close(&event);
}

TEST(bad_lines) {
    static const struct {
        const char *line, *expected;
    } cases[] = {
        {"iterations 1 kill node-1", "expected 'iteration N' or 'seconds X', got 'iterations'"},
        {"iteration", "the line ends, expected an iteration's number"},
        {"iteration 0 kill node-1", "an iteration's number, from 1, got '0'"},
        {"iteration -1 kill node-1", "an iteration's number"},
        {"iteration 1x kill node-1", "an iteration's number"},
        {"iteration 99999999999999999999 kill node-1", "an iteration's number"},
        {"seconds -1 kill node-1", "a number of seconds"},
        {"seconds 1e9 kill node-1", "a number of seconds"},
        {"seconds . kill node-1", "a number of seconds"},
        {"seconds 1.2.3 kill node-1", "a number of seconds"},
        {"seconds 1", "expected kill, pause, resume, join, evict or start"},
        {"seconds 1 murder node-1", "expected kill, pause, resume, join, evict or start, got 'murder'"},
        {"seconds 1 kill", "the line ends, expected controller, node names"},
        {"seconds 1 kill node-0", "node names such as node-7"},
        {"seconds 1 kill node-01", "node names such as node-7"},
        {"seconds 1 kill node-x", "node names such as node-7"},
        {"seconds 1 kill node-1 node-x", "expected the line's end, got 'node-x'"},
        {"seconds 1 kill transient", "a number of nodes, from 1, or all"},
        {"seconds 1 kill transient 0", "a number of nodes, from 1, or all"},
        {"seconds 1 kill controller now", "expected the line's end, got 'now'"},
        {"seconds 1 join node-1", "expected reliable, transient or feeder, got 'node-1'"},
        {"seconds 1 join transient all", "expected a number of nodes, from 1, got 'all'"},
        {"seconds 1 evict controller", "node names such as node-7"},
        {"seconds 1 evict transient 2 notice 120", "seconds of notice, such as 120s"},
        {"seconds 1 evict transient 2 notice", "seconds of notice, such as 120s"},
        {"seconds 1 start node-1", "expected controller, got 'node-1'"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char line[EVENTS_LINE_MAX];
        CLOSED_BY(event_close) struct event event;
        struct error error = {0};
        bool present;
        strcpy(line, cases[c].line);
        assert_int_equal(event_parse(line, &event, &present, &error), AML_EINPUT);
        if (strstr(error.text, cases[c].expected) == NULL) {
            fail_msg("'%s': got '%s', expected '%s'", cases[c].line, error.text, cases[c].expected);
        }
    }
}

/* ---- Files ---- */

/* Reads a file with this text. */
static int read_as_file(struct events *events, const char *text, struct error *error) {
    return events_read(events, write_text("events", text), error);
}

TEST(file) {
    struct events events;
    struct error error = {0};
    assert_int_equal(
        read_as_file(&events, "# all of it\n\n  \t\niteration 3 kill node-2\r\nseconds 1 pause node-1", &error), 0);
    assert_int_equal(events.count, 2);
    assert_int_equal(events.list[0].line, 4);
    assert_int_equal(events.list[1].line, 5);
    assert_string_equal(events.list[0].text, "iteration 3 kill node-2");
    const struct events_cluster cluster = {.reliable = 1, .transient = 1};
    assert_int_equal(events_check(&events, &cluster, &error), 0);
    assert_int_equal(events_joining(&events), 0);
    events_close(&events);

    assert_int_equal(read_as_file(&events, "", &error), 0);
    assert_int_equal(events.count, 0);
    events_close(&events);
}

TEST(bad_files) {
    struct events events;
    struct error error = {0};
    assert_int_equal(events_read(&events, "/nonexistent/events", &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "/nonexistent/events: cannot open: No such file"));

    error = (struct error){0};
    assert_int_equal(events_read(&events, "/", &error), AML_EINPUT);

    error = (struct error){0};
    assert_int_equal(read_as_file(&events, "iteration 3 kill node-2\n\nkill node-2\n", &error), AML_EINPUT);
    assert_non_null(strstr(error.text, ":3: expected 'iteration N' or 'seconds X', got 'kill'"));

    char text[2 * EVENTS_LINE_MAX];
    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error = (struct error){0};
    assert_int_equal(read_as_file(&events, text, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, ":1: expected a line of at most 4096 bytes"));

    static const char zero[] = "iteration 3\0 kill node-2\nseconds 1 kill node-1\n";
    error = (struct error){0};
    assert_int_equal(events_read(&events, write_bytes("events", zero, sizeof zero - 1), &error), AML_EINPUT);
    assert_non_null(strstr(error.text, ":1: "));
}

TEST(a_market_decides_about_nodes) {
    static const char *const refused[] = {"seconds 1 join transient 2", "seconds 1 kill node-1",
                                          "seconds 1 kill controller\niteration 2 evict transient all",
                                          "iteration 5 pause reliable 1"};
    const struct events_cluster cluster = {.reliable = 2, .transient = 1, .elastic = true, .market = true};
    struct events events;
    struct error error = {0};
    for (size_t c = 0; c < sizeof refused / sizeof refused[0]; c++) {
        error = (struct error){0};
        assert_int_equal(read_as_file(&events, refused[c], &error), 0);
        assert_int_equal(events_check(&events, &cluster, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "expected an event of the controller"));
        events_close(&events);
    }
    error = (struct error){0};
    assert_int_equal(read_as_file(&events,
                                  "seconds 1 pause controller\nseconds 2 resume controller\n"
                                  "iteration 3 kill controller\niteration 4 start controller",
                                  &error),
                     0);
    assert_int_equal(events_check(&events, &cluster, &error), 0);
    events_close(&events);
}

TEST(check) {
    static const struct {
        const char *text, *expected; /* `expected` for 2 reliable nodes and 1 transient node; NULL: no error */
        bool traditional;
        int code;
    } cases[] = {
        {"seconds 1 kill node-3", NULL, true, 0},
        {"seconds 1 kill transient 1", NULL, false, 0},
        {"seconds 1 pause reliable all", NULL, false, 0},
        {"seconds 1 kill controller", NULL, true, 0},
        {"seconds 1 kill controller\nseconds 2 start controller", NULL, true, 0},
        {"seconds 1 join transient 2\nseconds 2 kill node-5\nseconds 2 evict transient 3", NULL, false, 0},
        {"seconds 1 join reliable 1\nseconds 2 pause reliable 3", NULL, false, 0},
        {"seconds 1 evict node-3 notice 1s", NULL, false, 0},
        {"seconds 1 kill node-4", ":1: no node-4: the job has node-1 to node-3", false, AML_EINPUT},
        {"seconds 1 kill transient 2", ":1: the job has 1 transient node", false, AML_EINPUT},
        {"seconds 1 kill feeder 1", ":1: the job has 0 feeders", false, AML_EINPUT},
        {"seconds 1 join feeder 2\nseconds 2 kill node-5\nseconds 2 evict feeder 2 notice 1s", NULL, true, 0},
        {"seconds 1 join feeder 2\nseconds 1 kill feeder 3", ":2: the job has 2 feeders", true, AML_EINPUT},
        {"seconds 1 join transient 2\nseconds 1 kill node-6", ":2: no node-6: the job has node-1 to node-5", false,
         AML_EINPUT},
        {"seconds 2 kill node-4\nseconds 1 join transient 1", ":1: no node-4", false, AML_EINPUT},
        {"\nseconds 1 join transient 2", ":2: join: nodes can't come or go with --stage traditional", true, AML_EINPUT},
        {"seconds 1 evict node-3 notice 1s", ":1: evict: nodes can't come or go", true, AML_EINPUT},
        {"seconds 1 start controller", ":1: start controller: no line above kills it", false, AML_EINPUT},
        {"seconds 1 kill controller\nseconds 2 pause controller\nseconds 2 start controller\n"
         "seconds 3 start controller",
         ":4: start controller", false, AML_EINPUT},
        {"seconds 1 join transient 4090\nseconds 1 join reliable 4", ":2: more than 4096 nodes", false, AML_ELIMIT},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct events_cluster cluster = {.reliable = 2, .transient = 1, .elastic = !cases[c].traditional};
        CLOSED_BY(events_close) struct events events;
        struct error error = {0};
        assert_int_equal(read_as_file(&events, cases[c].text, &error), 0);
        int result = events_check(&events, &cluster, &error);
        if (result != cases[c].code || (result != 0 && strstr(error.text, cases[c].expected) == NULL)) {
            fail_msg("'%s': %d, '%s'", cases[c].text, result, error.text);
        }
    }
}

TEST(joining) {
    CLOSED_BY(events_close) struct events events;
    struct error error = {0};
    assert_int_equal(read_as_file(&events,
                                  "seconds 1 join transient 40\nseconds 2 kill transient 7\nseconds 3 join reliable 2",
                                  &error),
                     0);
    assert_int_equal(events_joining(&events), 42);
}

int main(void) {
    return tests_run(files_open, files_close);
}
