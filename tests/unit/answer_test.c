/* Tests of proteus/answer.h: how commands read a controller's answers, malformed ones too. */
#include "proteus/answer.h"
#include "tests/test.h"

#include "agileml/control/state/observer.h"
#include "agileml/wire/records.h"

static struct report_line *status_of(const char *text) {
    CLOSED_BY(message_close) struct message message = {.type = MESSAGE_STATUS};
    message_add_copy(&message, text, strlen(text));
    struct report_line *status = observer_status(&message);
    return status;
}

TEST(status) {
    static const struct {
        const char *text;
        bool is_json, over;
    } cases[] = {
        {"{\"phase\":\"leave\"}", true, true},
        {"{\"phase\":\"save\"}", true, false},
        {"{\"phase\":7}", true, false},
        {"{}", true, false},
        {"[]", true, false},
        {"{\"phase\":\"lea", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct report_line *status = status_of(cases[i].text);
        assert_int_equal(status != NULL, cases[i].is_json);
        assert_int_equal(answer_job_is_over(status), cases[i].over);
        report_line_drop(status);
    }
}

TEST(result) {
    static const struct {
        const char *summary;
        int result;
        const char *text;
    } cases[] = {
        {"{\"ok\":true}", 0, ""},
        {"{\"ok\":false,\"status\":2,\"error\":\"--rank 0: expected 1\"}", AML_EINPUT, "--rank 0: expected 1"},
        {"{\"ok\":false,\"status\":1,\"error\":\"all nodes are lost\"}", AML_EFAIL, "all nodes are lost"},
        {"{\"ok\":false}", AML_EFAIL, "the job failed"},
        {"[]", AML_EFAIL, "the job failed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error error = {0};
        struct report_line *summary = report_line_read(cases[i].summary, strlen(cases[i].summary), NULL);
        assert_int_equal(answer_result(summary, &error), cases[i].result);
        assert_int_equal(error.code, cases[i].result);
        assert_string_equal(error.text, cases[i].text);
        report_line_drop(summary);
    }
}

TEST(print) {
    FREED char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    json_auto_t *object = json_pack("{s:s, s:f}", "name", "\xC2\x9B\x1B[2J", "seconds", 0.1);
    struct report_line *line = report_line_of(object);
    answer_print(stream, line);
    fclose(stream);
    assert_string_equal(text, "{\"name\":\"\\u009B\\u001B[2J\",\"seconds\":0.1}\n");
    report_line_drop(line);
}
