/* Lines of a report: what is read into their fields, and that only the table's keys and kinds are written. */
#include "agileml/wire/report_line.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct report_line *line_of(const char *text) {
    struct error error = {0};
    struct report_line *line = report_line_read(text, strlen(text), &error);
    assert_non_null(line);
    return line;
}

TEST(an_iteration_has_numbers_a_stage_and_metrics) {
    struct report_line *line =
        line_of("{\"type\":\"iteration\",\"iteration\":3,\"seconds\":2,\"objective\":0.5,\"loss\":0.5,\"epoch\":7,"
                "\"test\":null,\"stage\":2,\"transient\":4,\"words\":\"not a metric\",\"ok\":true}");
    assert_int_equal(line->is, REPORT_ITERATION);
    assert_int_equal(line->happened, HAPPENED_UNKNOWN);
    assert_true(line->iteration == 3 && line->seconds == 2 && line->objective == 0.5 && line->transient == 4);
    assert_true(isnan(line->reliable) && isnan(line->partial));
    assert_true(line->stage.number == 2);
    assert_string_equal(line->stage.name, "");
    assert_int_equal(line->metric_count, 3);
    assert_string_equal(line->metrics[1].name, "epoch"); /* no key of an iteration */
    assert_true(line->metrics[1].value == 7 && isnan(line->metrics[2].value) && isnan(line->epoch) && !line->ok);
    assert_true(report_line_metric(line, "loss") == 0.5);
    assert_true(isnan(report_line_metric(line, "test")) && isnan(report_line_metric(line, "stage")));
    report_line_drop(line);
}

TEST(nodes_are_names_arrays_or_objects) {
    struct report_line *line = line_of("{\"type\":\"event\",\"event\":\"join\",\"nodes\":[\"node-1\",7]}");
    assert_int_equal(line->happened, HAPPENED_JOIN);
    assert_string_equal(report_event_name(line->happened), "join");
    assert_int_equal(line->nodes.count, 2);
    assert_string_equal(line->nodes.list[0].name, "node-1");
    assert_null(line->nodes.list[1].name);
    report_line_drop(line);
    line = line_of("{\"type\":\"usage\",\"nodes\":[[\"node-1\",1,2,3,4],[\"node-2\",1,2,3,4,1.5]]}");
    assert_string_equal(line->nodes.list[1].name, "node-2");
    assert_true(line->nodes.list[0].memory_bytes == 4 && isnan(line->nodes.list[0].slowness));
    assert_true(line->nodes.list[1].items == 1 && line->nodes.list[1].slowness == 1.5);
    report_line_drop(line);
    line = line_of("{\"type\":\"nodes\",\"nodes\":[{\"name\":\"node-1\",\"serves\":[0,3],\"follows\":[]}]}");
    assert_true(line->nodes.list[0].serves == 2 && line->nodes.list[0].follows == 0);
    report_line_drop(line);
}

TEST(a_status_has_no_type) {
    struct report_line *line =
        line_of("{\"phase\":\"train\",\"stage\":\"transient\",\"nodes\":[{\"name\":\"a\\u001b[2J\",\"serves\":3,"
                "\"leaving\":true}],\"expected\":[{\"name\":\"b\",\"pending_seconds\":1.5}],"
                "\"partitions\":[{\"partition\":0,\"server\":\"a\",\"backup\":null}]}");
    assert_int_equal(line->is, REPORT_UNKNOWN);
    assert_string_equal(line->phase, "train");
    assert_string_equal(line->stage.name, "transient");
    assert_true(isnan(line->stage.number));
    assert_true(line->nodes.list[0].serves == 3 && line->nodes.list[0].leaving);
    assert_true(line->expected.list[0].pending_seconds == 1.5);
    assert_int_equal(line->partitions.count, 1);
    assert_string_equal(line->partitions.list[0].server, "a");
    assert_null(line->partitions.list[0].backup);
    struct report_line *printable = report_line_printable(line);
    assert_string_equal(printable->nodes.list[0].name, "a?[2J");
    report_line_drop(report_line_hold(printable));
    report_line_drop(printable);
    report_line_drop(line);
}

TEST(what_is_not_as_expected_counts_as_absent) {
    static const char *const texts[] = {"[]", "{}", "{\"type\":7,\"nodes\":7,\"stage\":[],\"clock\":[1],\"ok\":1}",
                                        "{\"type\":\"of-a-later-version\",\"event\":\"news\",\"iteration\":\"1\"}"};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        struct report_line *line = line_of(texts[t]);
        assert_int_equal(line->is, REPORT_UNKNOWN);
        assert_int_equal(line->happened, HAPPENED_UNKNOWN);
        assert_true(isnan(line->clock) && isnan(line->iteration) && line->nodes.count == 0 && !line->ok);
        report_line_drop(line);
    }
    struct error error = {0};
    assert_null(report_line_read("{\"type\"", 7, &error));
    assert_int_equal(error.code, AML_EINPUT);
}

static bool is_writable(const char *text) {
    struct report_line *line = line_of(text);
    bool known = report_line_is_known(line->json);
    if (known) {
        FREED char *again = report_line_text(json_incref(line->json), false);
        assert_string_equal(again, text);
    }
    report_line_drop(line);
    return known;
}

TEST(only_what_the_table_has_is_written) {
    assert_true(is_writable("{\"type\":\"clock\",\"clock\":1,\"objective\":0.5,\"epoch\":0.5,\"x\":null,\"items\":2}"));
    assert_false(is_writable("{\"type\":\"clock\",\"clock\":1,\"x\":0.5}"));
    assert_false(is_writable("{\"type\":\"clock\",\"objective\":0.5,\"items\":2,\"x\":0.5}"));
    assert_false(is_writable("{\"type\":\"clock\",\"clock\":1.5}"));
    assert_false(is_writable("{\"type\":\"clock\",\"iteration\":1}"));
    assert_false(is_writable("{\"type\":\"clocks\",\"clock\":1}"));
    assert_true(is_writable("{\"type\":\"event\",\"event\":\"take-part\",\"nodes\":[\"a\"],\"first_clock\":1}"));
    assert_false(is_writable("{\"type\":\"event\",\"event\":\"take-part\",\"nodes\":[1]}"));
    assert_false(is_writable("{\"type\":\"event\",\"event\":\"news\",\"nodes\":[]}"));
    assert_true(
        is_writable("{\"type\":\"nodes\",\"stage\":\"transient\",\"nodes\":[{\"name\":\"a\",\"serves\":[1]}]}"));
    assert_false(is_writable("{\"type\":\"nodes\",\"nodes\":[{\"name\":\"a\",\"news\":1}]}"));
    assert_true(is_writable("{\"type\":\"usage\",\"nodes\":[[\"a\",1,2,3,4,null]]}"));
    assert_false(is_writable("{\"type\":\"usage\",\"nodes\":[[\"a\",1,2,3,4]]}"));
    assert_true(is_writable("{\"type\":\"money\",\"markets\":[{\"market\":\"a/b\",\"machines\":1,\"bid\":0.5}]}"));
    assert_false(is_writable("{\"type\":\"money\",\"markets\":[{\"partition\":1}]}"));
    assert_true(is_writable("{\"app\":\"mf\",\"expected\":[{\"name\":\"a\",\"pending_seconds\":1.5}]}"));
    assert_false(is_writable("{\"app\":\"mf\",\"news\":1}"));
}

TEST(a_metric_has_no_name_of_the_reports_own) {
    static const char *const owned[] = {"type", "event", "nodes", "reason", "clock", "objective", "ok", "error"};
    static const char *const others[] = {"loss", "epoch", "speed", "tolerance", "text", ""};
    for (size_t n = 0; n < sizeof owned / sizeof *owned; n++) {
        assert_true(report_line_owns(owned[n]));
    }
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        assert_false(report_line_owns(others[n]));
    }
}
