/* Tests of proteus/top_view.h: rates from counters, the order, scrolling, and frames that fit the screen. */
#include "proteus/top_view.h"
#include "tests/test.h"

static const struct terminal ascii; /* zeroed: ASCII only */

static char text[1 << 16];

static const char *copy(char *bytes) {
    assert_true(strlen(bytes) < sizeof text);
    strcpy(text, bytes);
    free(bytes);
    return text;
}

static const char *printed(struct top_view *view) {
    char *bytes = NULL;
    size_t size;
    FILE *stream = open_memstream(&bytes, &size);
    top_view_print(view, &ascii, stream);
    fclose(stream);
    return copy(bytes);
}

static const char *drawn(struct top_view *view, int rows, int columns) {
    char *bytes = NULL;
    size_t size;
    FILE *stream = open_memstream(&bytes, &size);
    top_view_draw(view, &ascii, (struct terminal_size){.rows = rows, .columns = columns}, view->at, stream);
    fclose(stream);
    return copy(bytes);
}

static void take(struct top_view *view, const char *json, double now) {
    struct report_line *status = report_line_read(json, strlen(json), NULL);
    assert_non_null(status);
    top_view_take(view, status, now);
    report_line_drop(status);
}

#define NODE(name, pid, items, clock)                                                                                  \
    "{\"name\":\"" name "\",\"pid\":" pid                                                                              \
    ",\"tier\":\"transient\",\"state\":\"started\",\"leaving\":false,\"clock\":" clock                                 \
    ",\"serves\":2,\"items\":" items ",\"bytes_sent\":500,\"bytes_received\":500,\"memory_bytes\":12000000,"           \
    "\"slowness_short\":1.068,\"silent_ms\":40}"
#define STATUS(nodes)                                                                                                  \
    "{\"app\":\"mf\",\"phase\":\"train\",\"change\":\"none\",\"stage\":2,\"iteration\":20,\"iterations\":100,"         \
    "\"seconds\":8,\"objective\":0.5,\"failures\":1,\"evictions\":2,\"items_redone\":3,\"nodes\":[" nodes "],"         \
    "\"expected\":[{\"name\":\"i-9\",\"tier\":\"transient\"}]}"

TEST(rates) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take(&view, STATUS(NODE("node-1", "7", "0", "40")), 100);
    assert_string_equal(printed(&view),
                        "mf: training, stage 2  iteration 20 of 100  objective 0.5\n"
                        "[#####-----------------------] 20 %  after 0:08\n"
                        "0 reliable and 1 transient nodes, 1 expected; failures 1, evictions 2, items redone 3\n"
                        "\n"
                        "name   tier      state    role         clock items/s bytes/s  memory slow silent\n"
                        "i-9    transient expected                  -       -       -       -    -      -\n"
                        "node-1 transient started  2 ActivePS      40       -       - 12.0 MB 1.07  0.0 s\n");
    take(&view, STATUS(NODE("node-1", "7", "3000", "40")), 102);
    assert_non_null(strstr(printed(&view), "40  1.50 k     0 B 12.0 MB"));
    assert_non_null(strstr(text, "1.50 k items/s"));
    take(&view, STATUS(NODE("node-1", "7", "9000", "40")), 104); /* the last difference weighs most */
    assert_non_null(strstr(printed(&view), "40  2.49 k     0 B"));
    take(&view, STATUS(NODE("node-1", "7", "10", "40")), 106); /* the counter has restarted */
    assert_non_null(strstr(printed(&view), "40       -     0 B"));
    take(&view, STATUS(NODE("node-1", "7", "30", "40")), 108);
    assert_non_null(strstr(printed(&view), "40      10     0 B"));
    take(&view, STATUS(NODE("node-1", "8", "50", "40")), 110); /* another process of the same name */
    assert_non_null(strstr(printed(&view), "40       -       - 12.0 MB"));
    take(&view, STATUS("{\"name\":\"node-1\",\"pid\":8,\"tier\":\"reliable\"}"), 112); /* from an older controller */
    assert_non_null(
        strstr(printed(&view), "node-1 reliable  -                   -       -       -       -    -      -\n"));
}

/* Checks the names in the table's rows, in order. */
static void assert_order(struct top_view *view, const char *expected) {
    char names[256] = "";
    const char *line = strstr(printed(view), "\nname");
    while ((line = strchr(line + 1, '\n')) != NULL && line[1] != '\0') {
        strncat(names, line + 1, strcspn(line + 1, " "));
        strcat(names, " ");
    }
    assert_string_equal(names, expected);
}

TEST(order) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take(&view,
         STATUS(NODE("node-10", "1", "0", "5") "," NODE("node-9", "2", "0", "7") "," NODE("node-1", "3", "0", "6")), 0);
    take(&view,
         STATUS(NODE("node-10", "1", "30", "5") "," NODE("node-9", "2", "10", "7") "," NODE("node-1", "3", "20", "6")),
         1);
    assert_order(&view, "i-9 node-1 node-9 node-10 ");
    top_view_sort(&view, TOP_BY_NAME);
    assert_order(&view, "node-10 node-9 node-1 i-9 ");
    top_view_sort(&view, TOP_BY_CLOCK);
    assert_order(&view, "node-9 node-1 node-10 i-9 ");
    top_view_sort(&view, TOP_BY_CLOCK); /* rows without a clock stay last */
    assert_order(&view, "node-10 node-1 node-9 i-9 ");
    top_view_sort(&view, TOP_BY_ITEMS);
    assert_order(&view, "node-10 node-1 node-9 i-9 ");
    top_view_sort(&view, TOP_BY_MEMORY); /* equal rows by name */
    assert_order(&view, "node-1 node-9 node-10 i-9 ");
    top_view_sort(&view, TOP_BY_SILENCE);
    assert_order(&view, "node-1 node-9 node-10 i-9 ");
    take(&view, STATUS(NODE("node-10", "1", "60", "5")), 2); /* a new answer keeps the order */
    assert_order(&view, "node-10 i-9 ");
}

static void take_many(struct top_view *view, int count) {
    FREED char *bytes = NULL;
    size_t size;
    FILE *stream = open_memstream(&bytes, &size);
    fputs("{\"app\":\"mf\",\"phase\":\"train\",\"nodes\":[", stream);
    for (int n = 0; n < count; n++) {
        fprintf(stream, "%s{\"name\":\"n-%03d\",\"pid\":1,\"tier\":\"reliable\"}", n > 0 ? "," : "", n);
    }
    fputs("]}", stream);
    fclose(stream);
    take(view, bytes, 1);
}

/* Checks that the frame has the rows n-`first` to n-`last`. */
static void assert_rows(struct top_view *view, int rows, int first, int last) {
    char name[16];
    drawn(view, rows, 80);
    for (int n = 0; n < 200; n++) {
        snprintf(name, sizeof name, "n-%03d", n);
        assert_int_equal(strstr(text, name) != NULL, n >= first && n <= last);
    }
}

TEST(scrolling) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take_many(&view, 200);
    assert_rows(&view, 16, 0, 9); /* 16 rows without the header's 5 and the keys */
    top_view_scroll(&view, 1);
    assert_rows(&view, 16, 1, 10);
    top_view_scroll(&view, -5);
    assert_rows(&view, 16, 0, 9);
    top_view_scroll(&view, 1000);
    assert_rows(&view, 16, 190, 199);
    assert_rows(&view, 106, 100, 199); /* the window has grown */
    take_many(&view, 30);              /* nodes have left the job */
    assert_rows(&view, 16, 20, 29);
    top_view_sort(&view, TOP_BY_NAME);
    assert_rows(&view, 16, 20, 29); /* sorted in reverse, from the start */
    take_many(&view, 0);
    assert_rows(&view, 16, 1, 0);
}

/* Returns the number of rows of the frame, and checks that each fits the screen. */
static int rows_of(const char *frame, int columns) {
    int rows = 1;
    int column = 0;
    for (const char *c = frame; *c != '\0'; c++) {
        if (*c == '\033') {
            c += strcspn(c, "HKJm");
        } else if (*c == '\n') {
            rows++;
            column = 0;
        } else if (*c != '\r') {
            assert_in_range(*c, ' ', '~');
            assert_true(++column < columns || columns == 1);
        }
    }
    return rows;
}

TEST(a_frame_fits_its_screen) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take_many(&view, 100);
    for (int rows = 1; rows < 120; rows++) {
        int expected = rows < 106 ? rows : 106;
        assert_int_equal(rows_of(drawn(&view, rows, 80), 80), expected);
    }
    for (int columns = 1; columns < 150; columns++) {
        assert_int_equal(rows_of(drawn(&view, 24, columns), columns), 24);
    }
}

TEST(the_bar_leaves_room_for_the_rates) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take(&view, STATUS(NODE("node-1", "7", "0", "40")), 100);
    take(&view, STATUS(NODE("node-1", "7", "3000", "40")), 102);
    assert_non_null(strstr(drawn(&view, 24, 120), "[#####-----------------------] 20 %"));
    assert_non_null(strstr(drawn(&view, 24, 68), "/s sent and received\033"));
    assert_non_null(strstr(drawn(&view, 24, 68), "items/s"));
    assert_non_null(strstr(drawn(&view, 24, 20), "[#-----] 20 %"));
}

/* Nodes choose their own names, which may contain terminal commands. */
TEST(names_are_no_orders_to_the_terminal) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take(&view, "{\"app\":\"m\\u001b[2J\",\"nodes\":[{\"name\":\"a\\u001b[2J\\u009bb\\n\",\"state\":\"\\u0007\"}]}", 1);
    assert_non_null(strstr(printed(&view), "m?[2J: "));
    assert_non_null(strstr(text, "\na?[2J??b  "));
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\a'));
}

TEST(silence_is_shown) {
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    take_many(&view, 1);
    view.silent = 7.2;
    assert_non_null(strstr(drawn(&view, 24, 100), "no answer for 7 s: the job has ended, or"));
    take_many(&view, 1);
    assert_null(strstr(drawn(&view, 24, 100), "no answer"));
}

TEST(odd_answers) {
    static const char *const answers[] = {"{}", "[]",
                                          "{\"nodes\":[7,{},[],{\"name\":3,\"pid\":\"x\"}],\"expected\":[8]}",
                                          "{\"nodes\":{},\"expected\":{},\"iterations\":-1,\"iteration\":\"x\"}"};
    CLOSED_BY(top_view_close) struct top_view view;
    top_view_open(&view);
    for (size_t a = 0; a < sizeof answers / sizeof *answers; a++) {
        take(&view, answers[a], (double)a);
        assert_non_null(strstr(printed(&view), "0 reliable and "));
        rows_of(drawn(&view, 24, 80), 80);
    }
}
