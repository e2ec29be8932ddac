/* Tests of proteus/progress.h: numbers for people, and the lines made of a report's lines. */
#include "proteus/progress.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_numbers(void **state) {
    (void)state;
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

static json_t *json_of(const char *text) {
    json_t *line = json_loads(text, 0, NULL);
    assert_non_null(line);
    return line;
}

static void assert_line(const char *json, const char *expected) {
    char text[PROGRESS_LINE_TEXT];
    json_t *line = json_of(json);
    progress_line_text(line, text);
    assert_string_equal(text, expected);
    json_decref(line);
}

static void test_iteration(void **state) {
    (void)state;
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

/* Metrics of a part of the items are marked, never as 100 %. */
static void test_partial_metrics_are_marked(void **state) {
    (void)state;
    assert_line("{\"type\":\"iteration\",\"iteration\":4,\"seconds\":2,\"objective\":3.946,\"loss\":3.946,\"stage\":2,"
                "\"reliable\":1,\"transient\":2,\"items\":81185,\"clock\":4,\"partial\":0.901254}",
                "iteration 4  2.00 s  stage 2, 1+2 nodes  (metrics of 90.1 % of the items)  loss 3.946");
    assert_line("{\"iteration\":4,\"seconds\":2,\"objective\":1,\"loss\":1,\"partial\":0.99999}",
                "iteration 4  2.00 s  (metrics of 99.9 % of the items)  loss 1");
    assert_line("{\"clock\":4,\"seconds\":2,\"objective\":1,\"loss\":1,\"partial\":0}",
                "clock 4  2.00 s  (metrics of 0.0 % of the items)  loss 1");
    char text[PROGRESS_LINE_TEXT];
    json_t *line = json_of("{\"type\":\"summary\",\"iterations\":5,\"seconds\":2,\"objective\":1,\"loss\":1,"
                           "\"partial\":0.5,\"items_processed\":40}");
    progress_summary_text(line, text);
    assert_non_null(strstr(text, "partial        metrics of 50.0 % of the items: nodes were lost before they could"));
    json_decref(line);
}

/* What was not evaluated isn't shown. */
static void test_metrics(void **state) {
    (void)state;
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":0.5,\"a\":0.5,\"b\":null,\"c\":7}",
                "iteration 1  1.00 s  a 0.5  c 7");
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":null,\"a\":null}", "iteration 1  1.00 s");
    assert_line("{\"clock\":1,\"seconds\":1,\"objective\":null,\"a\":null,\"b\":3}", "clock 1  1.00 s  b 3");
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":0.5,\"b\":3}", "iteration 1  1.00 s  objective 0.5  b 3");
    assert_line("{\"iteration\":1,\"seconds\":1,\"objective\":0.5}", "iteration 1  1.00 s  objective 0.5");
    assert_line("{\"iteration\":1,\"seconds\":1,\"name\":\"text\"}", "iteration 1  1.00 s");
}

static void test_summary(void **state) {
    (void)state;
    char text[PROGRESS_LINE_TEXT];
    json_t *line = json_of("{\"type\":\"summary\",\"iterations\":45,\"clocks\":45,\"seconds\":2,\"objective\":0.8,"
                           "\"rmse\":0.8,\"items_processed\":4000000,\"bytes_sent\":1000,\"bytes_received\":2000,"
                           "\"memory_bytes\":3000000,\"ok\":true,\"status\":0}");
    progress_summary_text(line, text);
    assert_string_equal(text, "iterations     45\n"
                              "seconds        2.00\n"
                              "rmse           0.8\n"
                              "items          4.00 M, 2.00 M a second\n"
                              "network        1.00 kB sent, 2.00 kB received\n"
                              "memory         3.00 MB in the largest node\n");
    json_decref(line);
}

static void test_summary_of_losses(void **state) {
    (void)state;
    char text[PROGRESS_LINE_TEXT];
    json_t *line = json_of("{\"type\":\"summary\",\"iterations\":5,\"seconds\":2,\"items_processed\":40,"
                           "\"items_redone\":1500,\"failures\":2,\"evictions\":60}");
    progress_summary_text(line, text);
    assert_non_null(strstr(text, "nodes lost     2 failures, 60 evictions, 1.50 k items done again\n"));
    json_decref(line);
    line = json_of("{\"type\":\"summary\",\"iterations\":5,\"seconds\":2,\"items_processed\":40,"
                   "\"items_redone\":1,\"failures\":1,\"evictions\":1}");
    progress_summary_text(line, text);
    assert_non_null(strstr(text, "nodes lost     1 failure, 1 eviction, 1 item done again\n"));
    json_decref(line);
}

static void assert_event(const char *json, const char *expected) {
    char text[PROGRESS_LINE_TEXT];
    json_t *line = json_of(json);
    progress_event_text(line, text);
    assert_string_equal(text, expected);
    json_decref(line);
}

static void test_event(void **state) {
    (void)state;
    assert_event("{\"event\":\"failure\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[\"node-3\"],\"reason\":\"silent\"}",
                 "iteration 3  1.50 s  failure node-3: silent");
    assert_event("{\"event\":\"stage\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[],\"reason\":\"stage 2\"}",
                 "iteration 3  1.50 s  stage: stage 2");
    assert_event(
        "{\"event\":\"evict\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"]}",
        "iteration 3  1.50 s  evict a, b, c, d and 2 more");
    assert_event("{\"event\":\"evict\",\"iteration\":3,\"seconds\":1.5,\"nodes\":[7]}", "iteration 3  1.50 s  evict ?");
}

/* What goes to a stream that is no terminal. */
static char *shown(const char *const *lines, size_t count, bool quiet) {
    char *text = NULL;
    size_t size;
    FILE *stream = tmpfile();
    FILE *memory = open_memstream(&text, &size);
    struct progress progress;
    progress_begin(&progress, stream, quiet);
    for (size_t l = 0; l < count; l++) {
        json_t *line = json_of(lines[l]);
        progress_report(&progress, line);
        json_decref(line);
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

static void test_plain_lines(void **state) {
    (void)state;
    static const char *const lines[] = {
        "{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-1\"]}",
        "{\"type\":\"event\",\"event\":\"start\",\"nodes\":[],\"iteration\":0,\"seconds\":0}",
        "{\"type\":\"clock\",\"clock\":1,\"seconds\":0.5}",
        "{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-2\"],\"iteration\":0,\"seconds\":0.4}",
        "{\"type\":\"event\",\"event\":\"silent\",\"nodes\":[\"node-2\"],\"iteration\":0,\"seconds\":0.4,"
        "\"silent_seconds\":0.6,\"left_seconds\":0.4}",
        "{\"type\":\"event\",\"event\":\"heard\",\"nodes\":[\"node-2\"],\"iteration\":0,\"seconds\":0.5}",
        "{\"type\":\"iteration\",\"iteration\":1,\"seconds\":0.5,\"objective\":1,\"evil\\u001b[2J\":1}",
        "{\"type\":\"later\"}",
        "{}",
        "[]",
        "{\"type\":\"summary\",\"ok\":false,\"error\":\"printed by others\"}",
    };
    char *text = shown(lines, sizeof lines / sizeof *lines, false);
    assert_string_equal(text, "iteration 0  0.40 s  join node-2\n"
                              "iteration 0  0.40 s  node-2 silent for 0.6 s, given up in 0.4 s\n"
                              "iteration 1  0.50 s  evil?[2J 1\na note\n");
    free(text);
    text = shown(lines, sizeof lines / sizeof *lines, true);
    assert_string_equal(text, "");
    free(text);
}

/* What is written to a terminal for these lines of the report. */
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
    progress_begin(&progress, stream, false);
    for (size_t l = 0; l < count; l++) {
        json_t *line = json_of(lines[l]);
        progress_report(&progress, line);
        json_decref(line);
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

static void test_nodes_that_join_are_counted(void **state) {
    (void)state;
    static const char *const lines[] = {"{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-1\"]}",
                                        "{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-2\"]}"};
    assert_non_null(strstr(on_terminal(lines, 1), "\rstarting: 1 node has joined\033[K"));
    assert_non_null(strstr(on_terminal(lines, 2), "\rstarting: 2 nodes have joined\033[K"));
}

static const char SILENT[] = "{\"type\":\"event\",\"event\":\"silent\",\"nodes\":[\"node-3\"],\"iteration\":4,"
                             "\"seconds\":2,\"silent_seconds\":0.6,\"left_seconds\":3600}";

/* The live line counts down; it stays one line. */
static void test_a_silent_node_is_shown_while_it_is_waited_for(void **state) {
    (void)state;
    static const char *const lines[] = {SILENT};
    const char *text = on_terminal(lines, 1);
    assert_non_null(strstr(text, "\rnode-3 silent for "));
    assert_non_null(strstr(text, ", given up in 3"));
    assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n')); /* only the note's */
}

/* A silence ends when the node is heard or given up, or when the job goes on. */
static void test_a_silence_that_is_over_is_not_shown(void **state) {
    (void)state;
    static const char *const ends[] = {
        "{\"type\":\"event\",\"event\":\"heard\",\"nodes\":[\"node-3\"],\"iteration\":4,\"seconds\":3}",
        "{\"type\":\"event\",\"event\":\"failure\",\"nodes\":[\"node-3\"],\"iteration\":4,\"seconds\":3}",
        "{\"type\":\"iteration\",\"iteration\":5,\"seconds\":3}"};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        struct progress progress;
        FILE *stream = tmpfile();
        progress_begin(&progress, stream, false);
        json_t *line = json_of(SILENT);
        progress_report(&progress, line);
        json_decref(line);
        assert_non_null(progress.silence.nodes);
        line = json_of(ends[e]);
        progress_report(&progress, line);
        json_decref(line);
        assert_null(progress.silence.nodes);
        progress_end(&progress);
        fclose(stream);
    }
}

/* Nodes' names, apps' metrics and the controller's texts are shown as text, whatever way they come. */
static void test_texts_are_no_orders_to_the_terminal(void **state) {
    (void)state;
    struct progress progress;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    json_t *event = json_of("{\"type\":\"event\",\"event\":\"evict\",\"nodes\":[\"a\\u001b[2J\"],"
                            "\"reason\":\"\\u009bx\\n\"}");
    json_t *summary = json_of("{\"type\":\"summary\",\"ok\":true,\"rm\\u001b[2J\\nse\":1}");
    progress = (struct progress){.stream = stream};
    progress_report(&progress, event);
    progress_note(&progress, "the controller refuses: %s", "\x1b[2J");
    progress_report(&progress, summary);
    fclose(stream);
    assert_null(strchr(text, 0x1b));
    assert_null(strchr(text, 0x9b));
    assert_non_null(strstr(text, "evict a?[2J: ??x \nthe controller refuses: ?[2J\n"));
    assert_non_null(strstr(text, "\nrm?[2J se "));
    free(text);
    json_decref(event);
    json_decref(summary);
}

static void test_long_line(void **state) {
    (void)state;
    char text[PROGRESS_LINE_TEXT];
    json_t *line = json_object();
    json_object_set_new(line, "iteration", json_integer(1));
    for (int m = 0; m < 200; m++) {
        char name[32];
        snprintf(name, sizeof name, "a_long_metric_name_%d", m);
        json_object_set_new(line, name, json_real(1.0 / 3));
    }
    progress_line_text(line, text);
    assert_true(strlen(text) < sizeof text);
    progress_summary_text(line, text);
    assert_true(strlen(text) < sizeof text);
    json_decref(line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_iteration),
        cmocka_unit_test(test_partial_metrics_are_marked),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_summary_of_losses),
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_plain_lines),
        cmocka_unit_test(test_texts_are_no_orders_to_the_terminal),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_nodes_that_join_are_counted),
        cmocka_unit_test(test_a_silent_node_is_shown_while_it_is_waited_for),
        cmocka_unit_test(test_a_silence_that_is_over_is_not_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
