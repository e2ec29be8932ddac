/* Tests of proteus/progress.h: numbers as text for people, and the lines shown for a report's lines. */
#include "proteus/progress.h"
#include "tests/test.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

TEST(numbers) {
    static const struct {
        double number;
        const char *count, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {17, "17", "17 B"},
        {999, "999", "999 B"},
        {999.4, "999", "999 B"},
        {999.6, "1.00 k", "1.00 kB"},
        {1000, "1.00 k", "1.00 kB"},
        {9994, "9.99 k", "9.99 kB"},
        {9996, "10.0 k", "10.0 kB"},
        {99960, "100 k", "100 kB"},
        {999499, "999 k", "999 kB"},
        {999500, "1.00 M", "1.00 MB"},
        {1234567, "1.23 M", "1.23 MB"},
        {4.2e9, "4.20 G", "4.20 GB"},
        {1e21, "1000 E", "1000 EB"},
        {-5, "0", "0 B"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[PROGRESS_NUMBER_TEXT];
        progress_count_text(cases[c].number, text);
        assert_string_equal(text, cases[c].count);
        progress_bytes_text(cases[c].number, text);
        assert_string_equal(text, cases[c].bytes);
    }
}

static struct report_line *line_of(const char *text) {
    struct report_line *line = report_line_read(text, strlen(text), NULL);
    assert_non_null(line);
    return line;
}

static void assert_line(const char *json, const char *expected) {
    char text[PROGRESS_LINE_TEXT];
    struct report_line *line = line_of(json);
    progress_line_text(line, text);
    assert_string_equal(text, expected);
    report_line_drop(line);
}

TEST(iteration) {
    assert_line(
        "{\"type\":\"iteration\",\"iteration\":11,\"seconds\":1.234,\"objective\":0.87,\"train_rmse\":0.87,"
        "\"test_rmse\":0.91,\"stage\":1,\"reliable\":4,\"transient\":0,\"memory_bytes\":5,\"bytes_sent\":1500000,"
        "\"bytes_received\":17,\"items\":3,\"items_per_second\":12300000,\"clock\":22}",
        "iteration 11  1.23 s  stage 1, 4+0 nodes  train_rmse 0.87  test_rmse 0.91  12.3 M items/s  sent 1.50 MB  "
        "received 17 B");
    assert_line("{\"iteration\":1,\"seconds\":1,\"stage\":\"traditional\",\"reliable\":0,\"transient\":3}",
                "iteration 1  1.00 s  traditional, 0+3 nodes");
    assert_line("{\"type\":\"clock\",\"clock\":3,\"seconds\":0.5,\"objective\":2,\"loss\":2,\"items\":9}",
                "clock 3  0.50 s  loss 2");
}

/* Metrics of part of the items are marked, and never as 100 %. */
TEST(partial_metrics_are_marked) {
    assert_line("{\"type\":\"iteration\",\"iteration\":4,\"seconds\":2,\"objective\":3.946,\"loss\":3.946,\"stage\":2,"
                "\"reliable\":1,\"transient\":2,\"items\":81185,\"clock\":4,\"partial\":0.901254}",
                "iteration 4  2.00 s  stage 2, 1+2 nodes  (metrics of 90.1 % of the items)  loss 3.946");
    assert_line("{\"iteration\":4,\"seconds\":2,\"objective\":1,\"loss\":1,\"partial\":0.99999}",
                "iteration 4  2.00 s  (metrics of 99.9 % of the items)  loss 1");
    assert_line("{\"clock\":4,\"seconds\":2,\"objective\":1,\"loss\":1,\"partial\":0}",
                "clock 4  2.00 s  (metrics of 0.0 % of the items)  loss 1");
    char text[PROGRESS_LINE_TEXT];
    struct report_line *line =
        line_of("{\"type\":\"summary\",\"iterations\":5,\"seconds\":2,\"objective\":1,\"loss\":1,"
                "\"partial\":0.5,\"items_processed\":40}");
    progress_summary_text(line, text);
    assert_non_null(strstr(text, "partial        metrics of 50.0 % of the items: nodes were lost before they could"));
    report_line_drop(line);
}

/* Metrics that were not evaluated are not shown. */
TEST(metrics) {
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":0.5,\"a\":0.5,\"b\":null,\"c\":7}",
                "iteration 1  1.00 s  a 0.5  c 7");
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":null,\"a\":null}", "iteration 1  1.00 s");
    assert_line("{\"clock\":1,\"seconds\":1,\"objective\":null,\"a\":null,\"b\":3}", "clock 1  1.00 s  b 3");
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":0.5,\"b\":3}", "iteration 1  1.00 s  objective 0.5  b 3");
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":0.5}", "iteration 1  1.00 s  objective 0.5");
    assert_line("{\"iteration\":1,\"seconds\":1,\"name\":\"text\"}", "iteration 1  1.00 s");
}

TEST(summary) {
    char text[PROGRESS_LINE_TEXT];
    struct report_line *line =
        line_of("{\"type\":\"summary\",\"iterations\":45,\"clocks\":45,\"seconds\":2,\"objective\":0.8,"
                "\"rmse\":0.8,\"items_processed\":4000000,\"bytes_sent\":1000,\"bytes_received\":2000,"
                "\"memory_bytes\":3000000,\"ok\":true,\"status\":0}");
    progress_summary_text(line, text);
    assert_string_equal(text, "iterations     45\n"
                              "seconds        2.00\n"
                              "rmse           0.8\n"
                              "items          4.00 M, 2.00 M a second\n"
                              "network        1.00 kB sent, 2.00 kB received\n"
                              "memory         3.00 MB in the largest node\n");
    report_line_drop(line);
}

TEST(summary_of_losses) {
    char text[PROGRESS_LINE_TEXT];
    struct report_line *line = line_of("{\"type\":\"summary\",\"iterations\":5,\"seconds\":2,\"items_processed\":40,"
                                       "\"items_redone\":1500,\"failures\":2,\"evictions\":60}");
    progress_summary_text(line, text);
    assert_non_null(strstr(text, "nodes lost     2 failures, 60 evictions, 1.50 k items done again\n"));
    report_line_drop(line);
    line = line_of("{\"type\":\"summary\",\"iterations\":5,\"seconds\":2,\"items_processed\":40,"
                   "\"items_redone\":1,\"failures\":1,\"evictions\":1}");
    progress_summary_text(line, text);
    assert_non_null(strstr(text, "nodes lost     1 failure, 1 eviction, 1 item done again\n"));
    report_line_drop(line);
}

static void assert_event(const char *json, const char *expected) {
    char text[PROGRESS_LINE_TEXT];
    struct report_line *line = line_of(json);
    progress_event_text(line, text);
    assert_string_equal(text, expected);
    report_line_drop(line);
}

TEST(event) {
    assert_event("{\"event\":\"failure\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[\"node-3\"],\"reason\":\"silent\"}",
                 "iteration 3  1.50 s  failure node-3: silent");
    assert_event("{\"event\":\"stage\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[],\"reason\":\"stage 2\"}",
                 "iteration 3  1.50 s  stage: stage 2");
    assert_event(
        "{\"event\":\"evict\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"]}",
        "iteration 3  1.50 s  evict a, b, c, d and 2 more");
    assert_event("{\"event\":\"evict\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[7]}", "iteration 3  1.50 s  evict ?");
}

/* The output for a stream that is not a terminal. */
static char *shown(const char *const *lines, size_t count, enum progress_mode mode) {
    char *text = NULL;
    size_t size;
    FILE *stream = tmpfile();
    FILE *memory = open_memstream(&text, &size);
    struct progress progress;
    progress_begin(&progress, stream, mode);
    for (size_t l = 0; l < count; l++) {
        struct report_line *line = line_of(lines[l]);
        progress_write(&progress, lines[l], strlen(lines[l]));
        progress_report(&progress, line);
        report_line_drop(line);
    }
    progress_note(&progress, "a %s", "note");
    progress_end(&progress);
    rewind(stream);
    for (int c = fgetc(stream); c != EOF; c = fgetc(stream)) {
        fputc(c, memory);
    }
    fclose(stream);
    fclose(memory);
    return text;
}

TEST(plain_lines) {
    static const char *const lines[] = {
        "{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-1\"]}",
        "{\"type\":\"event\",\"event\":\"start\",\"nodes\":[],\"iteration\":0,\"seconds\":0}",
        "{\"type\":\"clock\",\"clock\":1,\"seconds\":0.5}",
        "{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-2\"],\"iteration\":0,\"seconds\":0.4}",
        ("{\"type\":\"event\",\"event\":\"silent\",\"nodes\":[\"node-2\"],\"iteration\":0,\"seconds\":0.4,"
         "\"silent_seconds\":0.6,\"left_seconds\":0.4}"),
        "{\"type\":\"event\",\"event\":\"heard\",\"nodes\":[\"node-2\"],\"iteration\":0,\"seconds\":0.5}",
        "{\"type\":\"iteration\",\"iteration\":1,\"seconds\":0.5,\"objective\":1,\"evil\\u001b[2J\":1}",
        "{\"type\":\"later\"}",
        "{}",
        "[]",
        "{\"type\":\"summary\",\"ok\":false,\"error\":\"printed by others\"}",
    };
    char *text = shown(lines, sizeof lines / sizeof *lines, PROGRESS_AUTO);
    assert_string_equal(text, "iteration 0  0.40 s  join node-2\n"
                              "iteration 0  0.40 s  node-2 silent for 0.6 s, given up in 0.4 s\n"
                              "iteration 1  0.50 s  evil?[2J 1\na note\n");
    free(text);
    text = shown(lines, sizeof lines / sizeof *lines, PROGRESS_NONE);
    assert_string_equal(text, "");
    free(text);
}

#define ITERATION(number, seconds) "{\"type\":\"iteration\",\"iteration\":" number ",\"seconds\":" seconds "}"
#define EVICT(seconds)                                                                                                 \
    "{\"type\":\"event\",\"event\":\"evict\",\"nodes\":[\"a\"],\"iteration\":2,\"seconds\":" seconds "}"
#define SUMMARY "{\"type\":\"summary\",\"ok\":false}"

/* Shows the first and the last iteration, at most one iteration a second between them, and all events. */
TEST(plain_lines_are_few) {
    static const char *const lines[] = {ITERATION("1", "0.4"), ITERATION("2", "0.5"),  EVICT("0.6"),
                                        ITERATION("3", "1.3"), ITERATION("4", "1.45"), ITERATION("5", "1.5"),
                                        ITERATION("6", "2.5"), ITERATION("7", "2.75"), SUMMARY};
    static const char expected[] = "iteration 1  0.40 s\niteration 2  0.60 s  evict a\niteration 4  1.45 s\n"
                                   "iteration 6  2.50 s\niteration 7  2.75 s\na note\n";
    char *text = shown(lines, sizeof lines / sizeof *lines, PROGRESS_PLAIN);
    assert_string_equal(text, expected);
    free(text);
    text = shown(lines, 2, PROGRESS_PLAIN); /* without a summary the last iteration is shown at the end */
    assert_string_equal(text, "iteration 1  0.40 s\na note\niteration 2  0.50 s\n");
    free(text);
    text = shown(lines, 1, PROGRESS_PLAIN);
    assert_string_equal(text, "iteration 1  0.40 s\na note\n");
    free(text);
}

/* The report's lines unchanged, except that control characters get JSON's other spelling. */
TEST(json) {
    static const char *const lines[] = {ITERATION("1", "0.4"),
                                        ITERATION("2", "0.5"),
                                        EVICT("0.6"),
                                        "{\"type\":\"nodes\",\"nodes\":[]}",
                                        "{\"type\":\"later\",\"x\":\"\xc2\x9b[2J\xc3\xa4\xc2\xb5\"}",
                                        SUMMARY};
    FREED char *text = shown(lines, sizeof lines / sizeof *lines, PROGRESS_JSON);
    char *rest = NULL;
    size_t count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        struct report_line *got = line_of(line);
        struct report_line *expected = line_of(lines[count]);
        assert_true(json_equal(got->json, expected->json));
        assert_null(strchr(line, 0x9b));
        assert_true(count++ == 4 || strcmp(line, lines[count - 1]) == 0);
        report_line_drop(got);
        report_line_drop(expected);
    }
    assert_int_equal(count, sizeof lines / sizeof *lines);
}

/* BidBrain's decisions are shown if it does not show them itself. Other types of lines are not shown. */
TEST(decisions) {
    static const char DECISION[] = "{\"type\":\"decision\",\"iteration\":3,\"seconds\":1.5,\"text\":\"2 x\\u001b\"}";
    static const char *const others[] = {DECISION, "{\"type\":\"nodes\",\"nodes\":[{\"name\":\"a\"}]}",
                                         "{\"type\":\"usage\",\"nodes\":[[\"a\",1,2,3,4]]}",
                                         "{\"type\":\"money\",\"dollars\":1}"};
    char *text = shown(others, sizeof others / sizeof *others, PROGRESS_PLAIN);
    assert_string_equal(text, "a note\n");
    free(text);
    size_t size;
    struct progress progress;
    FILE *stream = open_memstream(&text, &size);
    struct report_line *line = line_of(DECISION);
    progress_begin(&progress, stream, PROGRESS_PLAIN);
    progress.decisions = true;
    progress_report(&progress, line);
    progress_end(&progress);
    fclose(stream);
    assert_string_equal(text, "iteration 3  1.50 s  bidbrain: 2 x?\n");
    free(text);
    report_line_drop(line);
}

TEST(modes) {
    enum progress_mode mode = PROGRESS_NONE;
    struct error error = {0};
    assert_int_equal(progress_parse("auto", &mode, &error), 0);
    assert_int_equal(mode, PROGRESS_AUTO);
    assert_int_equal(progress_parse("json", &mode, &error), 0);
    assert_int_equal(mode, PROGRESS_JSON);
    assert_int_equal(progress_parse("lines", &mode, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "got 'lines'"));
}

/* ---- The live line ---- */

TEST(durations) {
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{-1, "0:00"},       {7.9, "0:07"},        {725, "12:05"},      {3599, "59:59"},
                 {11265, "3:07:45"}, {172799, "47:59:59"}, {172800, "2 d 0 h"}, {8 * 86400 + 3600 * 3, "8 d 3 h"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[PROGRESS_NUMBER_TEXT];
        progress_duration_text(cases[c].seconds, text);
        assert_string_equal(text, cases[c].text);
    }
}

/* The live line after these lines of the report, `seconds` after training began, on a terminal of this width and
 * locale. */
static const char *live(const char *const *lines, size_t count, double seconds, int columns, const char *locale) {
    static char text[LIVE_LINE_TEXT];
    struct live_line line;
    CLOSED_BY(terminal_close) struct terminal terminal;
    assert_int_equal(setenv("LC_ALL", locale, 1), 0);
    terminal_open(&terminal);
    live_line_begin(&line);
    for (size_t l = 0; l < count; l++) {
        struct report_line *object = line_of(lines[l]);
        live_line_take(&line, object);
        report_line_drop(object);
    }
    live_line_text(&line, &terminal, seconds, columns, text);
    return text;
}

static const char *const training[] = {
    "{\"type\":\"event\",\"event\":\"start\",\"nodes\":[],\"iteration\":0,\"seconds\":0,\"iterations\":10}",
    ("{\"type\":\"iteration\",\"iteration\":1,\"iterations\":10,\"seconds\":2,\"objective\":0.5,\"loss\":0.5,"
     "\"error\\u001b\":7,"
     "\"stage\":2,\"reliable\":4,\"transient\":60,\"items_per_second\":12300000,\"clock\":2}"),
    "{\"type\":\"money\",\"dollars\":1.984,\"budget_dollars\":50}",
    ("{\"type\":\"iteration\",\"iteration\":2,\"iterations\":10,\"seconds\":4,\"objective\":null,\"loss\":null,"
     "\"stage\":2,\"reliable\":4,\"transient\":60,\"items_per_second\":12300000,\"clock\":4}"),
};

TEST(live_line) {
    assert_string_equal(live(training, 0, 0, 80, "C"), "training  after 0:00");
    assert_string_equal(live(training, 1, 1, 80, "C"), "[------------------------------] 0 %  training  after 0:01");
    assert_string_equal(
        live(training, 4, 5, 200, "C"),
        "[######------------------------] 20 %  ~0:15 left  iteration 2 of 10  loss 0.5  (of iteration 1)  "
        "12.3 M items/s  $1.98 of $50.00  stage 2, 4+60 nodes  error? 7  after 0:05");
    assert_string_equal(live(training, 4, 5, 90, "C"),
                        "[##------------] 20 %  ~0:15 left  iteration 2 of 10  loss 0.5  (of iteration 1)  error? 7");
    assert_string_equal(live(training, 4, 5, 40, "C"), "20 %  ~0:15 left  iteration 2 of 10");
    assert_string_equal(live(training, 4, 5, 8, "C"), "20 %");
    assert_string_equal(live(training, 4, 5, 1, "C"), "");
}

/* The line is never wider than the terminal, and has block characters only if the locale can show them. */
TEST(live_line_fits) {
    for (int columns = 0; columns < 220; columns++) {
        const char *ascii = live(training, 4, 5, columns, "C");
        assert_true(strlen(ascii) <= (size_t)columns);
        for (const char *c = ascii; *c != '\0'; c++) {
            assert_in_range(*c, ' ', '~');
        }
        const char *wide = live(training, 4, 5, columns, "C.UTF-8");
        size_t shown_columns = 0;
        for (const char *c = wide; *c != '\0'; c++) {
            shown_columns += ((unsigned char)*c & 0xC0) != 0x80;
        }
        assert_true(shown_columns <= (size_t)columns);
    }
    assert_non_null(strstr(live(training, 4, 5, 120, "C.UTF-8"), "█"));
}

/* While an iteration takes long, its clocks are shown. */
TEST(live_line_of_clocks) {
    static const char *const lines[] = {ITERATION("3", "30"), "{\"type\":\"clock\",\"clock\":7,\"seconds\":31}"};
    assert_string_equal(live(lines, 2, 30.5, 80, "C"), "iteration 3  after 0:30");
    assert_string_equal(live(lines, 2, 33, 80, "C"), "iteration 3, clock 7  after 0:33");
    assert_string_equal(live(lines + 1, 1, 33, 80, "C"), "clock 7  after 0:33");
}

TEST(live_line_of_a_part_of_the_items) {
    static const char *const lines[] = {
        "{\"type\":\"iteration\",\"iteration\":3,\"seconds\":30,\"objective\":1,\"loss\":1,\"partial\":0.9}",
        "{\"type\":\"iteration\",\"iteration\":4,\"seconds\":40,\"objective\":2,\"loss\":2}"};
    assert_string_equal(live(lines, 1, 30, 80, "C"),
                        "iteration 3  loss 1  (metrics of 90.0 % of the items)  after 0:30");
    assert_string_equal(live(lines, 2, 40, 80, "C"), "iteration 4  loss 2  after 0:40");
}

/* ---- The terminal ---- */

TEST(text_that_fits) {
    struct terminal terminal;
    char text[32];
    assert_int_equal(setenv("LC_ALL", "C.UTF-8", 1), 0);
    terminal_open(&terminal);
    assert_int_equal(terminal_fit(&terminal, "a\xc3\xa4z", 2, text, sizeof text), 2);
    assert_string_equal(text, "a\xc3\xa4");
    /* wide characters */
    assert_int_equal(terminal_fit(&terminal, "\xe4\xb8\xad\xe6\x96\x87", 3, text, sizeof text), 2);
    assert_string_equal(text, "\xe4\xb8\xad");
    assert_int_equal(terminal_fit(&terminal, "abcdef", 6, text, 4), 3);
    assert_string_equal(text, "abc");
    terminal_close(&terminal);
    assert_int_equal(setenv("LC_ALL", "C", 1), 0);
    terminal_open(&terminal);
    assert_int_equal(terminal_fit(&terminal, "a\xc3\xa4\xe4\xb8\xad", 9, text, sizeof text), 3);
    assert_string_equal(text, "a??");
    terminal_close(&terminal);
}

TEST(bars) {
    struct terminal ascii = {0};
    CLOSED_BY(terminal_close) struct terminal terminal;
    char bar[64];
    assert_string_equal(terminal_bar(&ascii, 0, 6, bar, sizeof bar), "[----]");
    assert_string_equal(terminal_bar(&ascii, 0.5, 6, bar, sizeof bar), "[##--]");
    assert_string_equal(terminal_bar(&ascii, 0.999, 6, bar, sizeof bar), "[###-]");
    assert_string_equal(terminal_bar(&ascii, 1, 6, bar, sizeof bar), "[####]");
    assert_string_equal(terminal_bar(&ascii, 7, 3, bar, sizeof bar), "[#]");
    assert_string_equal(terminal_bar(&ascii, -1, 3, bar, sizeof bar), "[-]");
    assert_int_equal(setenv("LC_ALL", "C.UTF-8", 1), 0);
    terminal_open(&terminal);
    assert_string_equal(terminal_bar(&terminal, 0.625, 6, bar, sizeof bar), "▕██▌ ▏");
    assert_string_equal(terminal_bar(&terminal, 1, 6, bar, sizeof bar), "▕████▏");
}

/* The output on a terminal for these lines of the report. */
static char *on_terminal(const char *const *lines, size_t count) {
    static char text[1 << 14];
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    FILE *stream = fopen(ptsname(master), "we");
    assert_non_null(stream);
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    struct progress progress;
    progress_begin(&progress, stream, PROGRESS_AUTO);
    for (size_t l = 0; l < count; l++) {
        struct report_line *line = line_of(lines[l]);
        progress_report(&progress, line);
        report_line_drop(line);
        progress_tick(&progress);
    }
    progress_note(&progress, "end");
    progress_end(&progress);
    assert_int_equal(fflush(stream), 0);
    size_t used = 0;
    ssize_t size;
    text[0] = '\0';
    while (strstr(text, "end\r\n") == NULL && (size = read(master, text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)size;
        text[used] = '\0';
    }
    fclose(stream);
    close(master);
    return text;
}

TEST(nodes_that_join_are_counted) {
    static const char *const lines[] = {"{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-1\"]}",
                                        "{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-2\"]}"};
    assert_non_null(strstr(on_terminal(lines, 1), "\rstarting: 1 node has joined\033[K"));
    assert_non_null(strstr(on_terminal(lines, 2), "\rstarting: 2 nodes have joined\033[K"));
}

static const char SILENT[] = "{\"type\":\"event\",\"event\":\"silent\",\"nodes\":[\"node-3\"],\"iteration\":4,"
                             "\"seconds\":2,\"silent_seconds\":0.6,\"left_seconds\":3600}";

/* The live line counts down and stays one line. */
TEST(a_silent_node_is_shown_while_it_is_waited_for) {
    static const char *const lines[] = {SILENT};
    const char *text = on_terminal(lines, 1);
    assert_non_null(strstr(text, "\rnode-3 silent for "));
    assert_non_null(strstr(text, ", given up in 3"));
    assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n')); /* only the note's line end */
}

/* A silence ends when the node is heard or removed, or when the job goes on. */
TEST(a_silence_that_is_over_is_not_shown) {
    static const char *const ends[] = {
        "{\"type\":\"event\",\"event\":\"heard\",\"nodes\":[\"node-3\"],\"iteration\":4,\"seconds\":3}",
        "{\"type\":\"event\",\"event\":\"failure\",\"nodes\":[\"node-3\"],\"iteration\":4,\"seconds\":3}",
        "{\"type\":\"iteration\",\"iteration\":5,\"seconds\":3}"};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        struct progress progress;
        FILE *stream = tmpfile();
        progress_begin(&progress, stream, PROGRESS_AUTO);
        struct report_line *line = line_of(SILENT);
        progress_report(&progress, line);
        report_line_drop(line);
        assert_non_null(progress.silence.line);
        line = line_of(ends[e]);
        progress_report(&progress, line);
        report_line_drop(line);
        assert_null(progress.silence.line);
        progress_end(&progress);
        fclose(stream);
    }
}

/* Nodes' names, apps' metrics and the controller's texts reach a terminal only as text, by any path. */
TEST(texts_are_no_orders_to_the_terminal) {
    struct progress progress;
    FREED char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    struct report_line *event = line_of("{\"type\":\"event\",\"event\":\"evict\",\"nodes\":[\"a\\u001b[2J\"],"
                                        "\"reason\":\"\\u009bx\\n\"}");
    struct report_line *said = line_of("{\"type\":\"note\",\"text\":\"line 1 \\u001b[2J\"}");
    struct report_line *summary = line_of("{\"type\":\"summary\",\"ok\":true,\"rm\\u001b[2J\\nse\":1}");
    progress_begin(&progress, stream, PROGRESS_PLAIN);
    progress_report(&progress, said);
    progress_report(&progress, event);
    progress_note(&progress, "the controller refuses: %s", "\x1b[2J");
    progress_report(&progress, summary);
    progress_end(&progress);
    fclose(stream);
    assert_null(strchr(text, 0x1b));
    assert_null(strchr(text, 0x9b));
    assert_ptr_equal(strstr(text, "note: line 1 ?[2J\n"), text);
    assert_non_null(strstr(text, "evict a?[2J: ??x \nthe controller refuses: ?[2J\n"));
    assert_non_null(strstr(text, "\nrm?[2J se "));
    report_line_drop(said);
    report_line_drop(event);
    report_line_drop(summary);
}

TEST(long_line) {
    char text[PROGRESS_LINE_TEXT];
    json_auto_t *object = json_object();
    json_object_set_new(object, "iteration", json_integer(1));
    for (int m = 0; m < 200; m++) {
        char name[32];
        snprintf(name, sizeof name, "a_long_metric_name_%d", m);
        json_object_set_new(object, name, json_real(1.0 / 3));
    }
    struct report_line *line = report_line_of(object);
    progress_line_text(line, text);
    assert_true(strlen(text) < sizeof text);
    progress_summary_text(line, text);
    assert_true(strlen(text) < sizeof text);
    report_line_drop(line);
}

/* An event scrolls above the live line, which is drawn again below it at once. */
TEST(events_stay_above_the_live_line) {
    static const char *const lines[] = {
        "{\"type\":\"event\",\"event\":\"start\",\"nodes\":[],\"iteration\":0,\"seconds\":0}", EVICT("0.6")};
    const char *text = on_terminal(lines, 2);
    const char *event = strstr(text, "\r\033[Kiteration 2  0.60 s  evict a\r\n\r");
    assert_non_null(event);
    assert_memory_equal(text, "\rtraining", strlen("\rtraining"));
    assert_non_null(strstr(event, "\n\rtraining"));
}

/* Mode `line` is for terminals that are not recognized as such. */
TEST(a_live_line_can_be_forced) {
    static const char *const lines[] = {ITERATION("1", "0.4"), ITERATION("2", "0.5"), SUMMARY};
    assert_int_equal(setenv("COLUMNS", "20", 1), 0);
    FREED char *text = shown(lines, 3, PROGRESS_LINE);
    assert_string_equal(text, "\riteration 1\033[K\r\033[Ka note\n");
    assert_int_equal(unsetenv("COLUMNS"), 0);
}

/* A restarted controller repeats the lines of the controller before: the job's terms and pace are taken from these,
 * but they are not shown again. */
TEST(lines_that_were_shown_before) {
    struct progress progress;
    FREED char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    progress_begin(&progress, stream, PROGRESS_LINE);
    for (size_t l = 0; l < sizeof training / sizeof *training; l++) {
        struct report_line *line = line_of(training[l]);
        progress_recall(&progress, line);
        report_line_drop(line);
    }
    fflush(stream);
    assert_int_equal(size, 0);
    progress_tick(&progress);
    progress_end(&progress);
    fclose(stream);
    assert_non_null(strstr(text, " left  iteration 2 of 10  loss 0.5"));
    assert_null(strchr(text, '\n'));
}
