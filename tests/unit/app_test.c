/* workers/app.c: what an app says of itself is checked before anything starts; a contradiction is one line that names
 * it, and exit status 2. */
#include "agileml.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_MAX = 4096 };

static int read_nothing(aml_worker *worker, void *context) {
    (void)worker;
    (void)context;
    return 0;
}

static int clock_nothing(aml_worker *worker, const void *items, size_t count, void *context) {
    (void)worker;
    (void)items;
    (void)count;
    (void)context;
    return 0;
}

struct fixture {
    struct aml_table tables[2];
    struct aml_app app;
};

static struct fixture *sound_app(void) {
    static struct fixture fixture;
    fixture.tables[0] = (struct aml_table){.name = "model", .width = 3, .rows = 10, .whole = 1};
    fixture.tables[1] = (struct aml_table){.name = "words", .width = 3};
    fixture.app = (struct aml_app){.name = "app",
                                   .tables = fixture.tables,
                                   .table_count = 2,
                                   .item_varied = 1,
                                   .clock_alone = 1,
                                   .read = read_nothing,
                                   .clock = clock_nothing};
    return &fixture;
}

/* `app --check`, with what it writes on standard error. */
static int check_app(struct aml_app *app, char text[TEXT_MAX]) {
    char program[] = "app";
    char option[] = "--check";
    char *arguments[] = {program, option, NULL};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    int status = aml_main(app, 2, arguments);
    fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    text[fread(text, 1, TEXT_MAX - 1, file)] = '\0';
    fclose(file);
    return status;
}

/* One line, with `what` in it. */
static void assert_refused(struct fixture *fixture, const char *what) {
    char text[TEXT_MAX];
    assert_int_equal(check_app(&fixture->app, text), 2);
    if (strstr(text, what) == NULL || strchr(text, '\n') != text + strlen(text) - 1) {
        fail_msg("'%s', expected one line with '%s'", text, what);
    }
}

static void test_a_sound_app_is_taken(void **state) {
    (void)state;
    char text[TEXT_MAX];
    assert_int_equal(check_app(&sound_app()->app, text), 0);
    assert_string_equal(text, "");
}

static void test_varied_items_have_no_fixed_parts(void **state) {
    (void)state;
    struct fixture *fixture = sound_app();
    fixture->app.item_rows = 1;
    assert_refused(fixture, "item_rows 1 and item_bytes 0, expected 0 for items that are varied");
    fixture = sound_app();
    fixture->app.item_bytes = 4;
    assert_refused(fixture, "item_rows 0 and item_bytes 4, expected 0 for items that are varied");
}

static void test_only_dense_tables_are_whole(void **state) {
    (void)state;
    struct fixture *fixture = sound_app();
    fixture->tables[1].whole = 1;
    assert_refused(fixture, "table words: 0 rows, expected 1 to ");
    fixture = sound_app();
    fixture->tables[0].rows = UINT64_C(1) << 31;
    assert_refused(fixture, "table model: 2147483648 rows, expected 1 to ");
}

static void test_items_name_tables_that_there_are(void **state) {
    (void)state;
    struct fixture *fixture = sound_app();
    fixture->app.item_varied = 0;
    fixture->app.item_rows = 2;
    fixture->app.item_tables[1] = 2;
    assert_refused(fixture, "items name rows of table 2, there are 2");
}

static void test_limits(void **state) {
    (void)state;
    struct fixture *fixture = sound_app();
    fixture->app.item_varied = 0;
    fixture->app.item_bytes = AML_ITEM_BYTES_MAX + 1;
    assert_refused(fixture, "more tables, metrics or bytes than allowed");
    fixture = sound_app();
    fixture->app.clock = NULL;
    assert_refused(fixture, "no read or clock");
    fixture = sound_app();
    fixture->tables[1].width = 0;
    assert_refused(fixture, "table words: a type, mode or width (0) that there is not");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_app_is_taken),
        cmocka_unit_test(test_varied_items_have_no_fixed_parts),
        cmocka_unit_test(test_only_dense_tables_are_whole),
        cmocka_unit_test(test_items_name_tables_that_there_are),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("app", tests, NULL, NULL);
}
