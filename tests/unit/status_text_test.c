/* Tests of proteus/status_text.h: the table of a running job, also from an incomplete answer. */
#include "proteus/status_text.h"
#include "tests/test.h"

enum { COLUMNS = 100 };

static char *print(const char *json) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    struct report_line *status = report_line_read(json, strlen(json), NULL);
    assert_non_null(status);
    status_print(stream, status);
    report_line_drop(status);
    fclose(stream);
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= COLUMNS);
    }
    return text;
}

TEST(table) {
    FREED char *text = print(
        "{\"app\":\"mf\",\"phase\":\"train\",\"change\":\"prepare\",\"stage\":2,\"epoch\":3,\"version\":12,"
        "\"iteration\":7,\"clock\":14,\"committed\":12,\"final\":40,\"seconds\":3.25,\"objective\":0.875,"
        "\"threshold_2\":1,\"threshold_3\":15,\"items_redone\":5,\"failures\":1,\"evictions\":2,\"nodes\":["
        "{\"name\":\"node-1\",\"host\":\"a-host-with-a-long-name\",\"pid\":7,\"tier\":\"reliable\",\"threads\":2,"
        "\"state\":\"started\",\"leaving\":false,\"clock\":14,\"shards\":300,\"serves\":2,\"follows\":6,"
        "\"bytes_sent\":1000000,\"bytes_received\":500000,\"slowness_short\":1.25,\"memory_bytes\":12000000,\"silent_"
        "ms\":4},"
        "{\"name\":\"node-2\",\"host\":\"b\",\"pid\":8,\"tier\":\"transient\",\"threads\":2,\"state\":\"started\","
        "\"leaving\":true,\"clock\":15,\"shards\":724,\"serves\":8,\"follows\":0,\"bytes_sent\":0,"
        "\"bytes_received\":0,\"memory_bytes\":0,\"silent_ms\":4}],"
        "\"expected\":[{\"name\":\"i-0123\",\"tier\":\"transient\"}],\"partitions\":[]}");
    assert_string_equal(text,
                        "mf: training, preparing a change, stage 2, iteration 7, 3.2 s, objective 0.875\n"
                        "clock 14, committed 12, last 40; epoch 3, plan 12; failures 1, evictions 2, items redone 5\n"
                        "stage 2 above 1 transient nodes per reliable one, stage 3 above 15\n"
                        "node      host      tier      state        clock shards slow network  memory partitions\n"
                        "node-1    a-host-wi reliable  started         14    300 1.25 1.50 MB 12.0 MB 2 ParamServ, 6 "
                        "BackupPS\n"
                        "node-2    b         transient leaving         15    724    -     0 B     0 B 8 ActivePS\n"
                        "i-0123    -         transient expected\n");
}

/* A node's numbers that are not 0 stand below its line, if the table of keys has a label for them. */
TEST(numbers) {
    FREED char *text = print("{\"app\":\"sum\",\"nodes\":[{\"name\":\"a\",\"serves\":3,\"disk_bytes\":12000000,"
                             "\"disk_wait_seconds\":1.25,\"shards_taken\":4},{\"name\":\"b\",\"disk_bytes\":0}]}");
    assert_non_null(strstr(text, " 3 ParamServ\n          12.0 MB on disk, 1.2 s waiting for disk\nb "));
    assert_non_null(strstr(text, "0 B \n"));
}

TEST(traditional) {
    FREED char *text = print("{\"app\":\"sum\",\"phase\":\"save\",\"change\":\"none\",\"stage\":\"traditional\","
                             "\"objective\":null,\"nodes\":[{\"name\":\"n\",\"tier\":\"transient\",\"serves\":3}]}");
    assert_non_null(strstr(text, "sum: saving the model, traditional, iteration 0, 0.0 s\n"));
    assert_non_null(strstr(text, " 3 ParamServ\n"));
    assert_null(strstr(text, "stage 2 above"));
}

TEST(strange_answers) {
    static const char *const answers[] = {"{}", "[]", "{\"nodes\":[1,{},[]]}", "{\"nodes\":7,\"phase\":\"later\"}"};
    for (size_t a = 0; a < sizeof answers / sizeof *answers; a++) {
        FREED char *text = print(answers[a]);
        assert_non_null(strstr(text, "node "));
    }
}

/* A node whose name contains terminal commands, or a line of the table, neither clears nor adds anything. */
TEST(names_are_no_orders_to_the_terminal) {
    FREED char *text =
        print("{\"app\":\"m\\u001b[2Jf\",\"phase\":\"x\\u009b2J\",\"stage\":\"t\\r\",\"nodes\":["
              "{\"name\":\"a\\u001b[2J\",\"host\":\"b\\nnode-9\",\"tier\":\"\\u0007\",\"state\":\"\\u007f\"}],"
              "\"expected\":[{\"name\":\"\\u001bc\",\"tier\":\"\\u0008\"}]}");
    unsigned lines = 0;
    for (const unsigned char *c = (unsigned char *)text; *c != '\0'; c++) {
        assert_true(*c == '\n' || (*c >= ' ' && *c != 0x7F && *c != 0x9B));
        lines += *c == '\n';
    }
    assert_int_equal(lines, 5);
    assert_non_null(strstr(text, "m?[2Jf: x??2J, t , iteration"));
    assert_non_null(strstr(text, "\na?[2J "));
}
