/* Command lines as users write them, right and wrong, and the text of --help. */
#include "agileml/base/options.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ARGUMENTS_MAX = 16 };

struct fixture {
    bool help, verbose;
    int64_t iterations, offset, any;
    double rate, positive, negative;
    const char *data, *report;
    struct aml_strings inputs;
    struct aml_option app[9], more[4];
    char *arguments[ARGUMENTS_MAX];
    int first_operand;
    struct error error;
};

static void fixture_init(struct fixture *f) {
    *f = (struct fixture){.iterations = 10, .rate = 0.05, .data = "ratings.txt"};
    const struct aml_option app[] = {
        {"help", NULL, AML_OPTION_FLAG, &f->help, 0, 0, "show this text"},
        {"iterations", "N", AML_OPTION_INTEGER, &f->iterations, 1, 1000000, "passes over the data"},
        {"offset", "N", AML_OPTION_INTEGER, &f->offset, -5, 5, "where to begin"},
        {"any", "N", AML_OPTION_INTEGER, &f->any, -INFINITY, INFINITY, "any number"},
        {"rate", "R", AML_OPTION_REAL, &f->rate, 0, 1, "learning rate"},
        {"positive", "R", AML_OPTION_REAL, &f->positive, 0, INFINITY, "at least zero"},
        {"negative", "R", AML_OPTION_REAL, &f->negative, -INFINITY, 0, "at most zero"},
        {"data", "PATH", AML_OPTION_STRING, &f->data, 0, 0, "ratings to read"},
        {0},
    };
    const struct aml_option more[] = {
        {"verbose", NULL, AML_OPTION_FLAG, &f->verbose, 0, 0, "say more"},
        {"report", "FILE", AML_OPTION_STRING, &f->report, 0, 0, "where to write the report"},
        {"input", "FILE", AML_OPTION_STRINGS, &f->inputs, 0, 0, "more to read"},
        {0},
    };
    memcpy(f->app, app, sizeof app);
    memcpy(f->more, more, sizeof more);
}

/* Parses a command line given as its arguments without the program's name, NULL at the end. */
static int parse(struct fixture *f, ...) {
    static char program[] = "program";
    int count = 0;
    f->arguments[count++] = program;
    va_list list;
    va_start(list, f);
    for (char *argument = va_arg(list, char *); argument != NULL; argument = va_arg(list, char *)) {
        assert_true(count < ARGUMENTS_MAX - 1);
        f->arguments[count++] = argument;
    }
    va_end(list);
    f->arguments[count] = NULL;
    f->error = (struct error){0};
    f->first_operand = -1;
    const struct aml_option *const tables[] = {f->app, f->more};
    return options_parse(tables, 2, count, f->arguments, &f->first_operand, &f->error);
}

#define PARSE(...) parse(&f, __VA_ARGS__, (char *)NULL)

#define ASSERT_ACCEPTED(...)                                                                                           \
    do {                                                                                                               \
        int code = PARSE(__VA_ARGS__);                                                                                 \
        assert_string_equal(f.error.text, "");                                                                         \
        assert_int_equal(code, AML_OK);                                                                                \
    } while (0)

#define ASSERT_REFUSED(message, ...)                                                                                   \
    do {                                                                                                               \
        assert_int_equal(PARSE(__VA_ARGS__), AML_EINPUT);                                                              \
        assert_int_equal(f.error.code, AML_EINPUT);                                                                    \
        assert_string_equal(f.error.text, message);                                                                    \
    } while (0)

static void test_nothing_given_keeps_defaults(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    assert_int_equal(parse(&f, (char *)NULL), AML_OK);
    assert_int_equal(f.first_operand, 1);
    assert_int_equal(f.iterations, 10);
    assert_string_equal(f.data, "ratings.txt");
    assert_null(f.report);
    assert_false(f.help);
}

static void test_no_arguments_at_all(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    const struct aml_option *const tables[] = {f.app};
    char *nothing[] = {NULL};
    assert_int_equal(options_parse(tables, 1, 0, nothing, &f.first_operand, &f.error), AML_OK);
    assert_int_equal(f.first_operand, 0);
}

static void test_separate_and_joined_values(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--iterations", "7", "--rate=0.25", "--data", "a b", "--report=out=1.json", "--verbose");
    assert_int_equal(f.iterations, 7);
    assert_true(f.rate == 0.25);
    assert_string_equal(f.data, "a b");
    assert_string_equal(f.report, "out=1.json");
    assert_true(f.verbose);
    assert_int_equal(f.first_operand, 8);
}

static void test_last_of_a_repeated_option_counts(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--iterations", "7", "--verbose", "--iterations=9", "--verbose");
    assert_int_equal(f.iterations, 9);
}

static void test_all_of_a_repeated_option_of_strings_count(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--input", "b", "--verbose", "--input=a", "--input=", "--input", "b");
    assert_int_equal(f.inputs.count, 4);
    assert_string_equal(f.inputs.values[0], "b");
    assert_string_equal(f.inputs.values[1], "a");
    assert_string_equal(f.inputs.values[2], "");
    assert_string_equal(f.inputs.values[3], "b");
    ASSERT_REFUSED("--input: expected a value, got nothing", "--input");
    for (unsigned i = f.inputs.count; i < AML_STRINGS_MAX; i++) {
        ASSERT_ACCEPTED("--input=c");
    }
    ASSERT_REFUSED("--input: expected it at most 64 times, got 'd'", "--input=d");
}

static void test_first_table_counts(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.more[0].name = "help";
    ASSERT_ACCEPTED("--help");
    assert_true(f.help);
    assert_false(f.verbose);
}

static void test_help_in_both_forms(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("-h");
    assert_true(f.help);
    f.help = false;
    ASSERT_ACCEPTED("--help");
    assert_true(f.help);
    f.app[0].name = "other";
    ASSERT_REFUSED("unknown option '-h'; see --help", "-h");
}

static void test_stops_at_operands(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--iterations", "2", "mf", "--iterations", "3");
    assert_int_equal(f.first_operand, 3);
    assert_int_equal(f.iterations, 2);
    ASSERT_ACCEPTED("--verbose", "--", "--iterations", "3");
    assert_int_equal(f.first_operand, 3);
    assert_int_equal(f.iterations, 2);
    ASSERT_ACCEPTED("--");
    assert_int_equal(f.first_operand, 2);
    ASSERT_ACCEPTED("-", "--nonsense");
    assert_int_equal(f.first_operand, 1);
    ASSERT_ACCEPTED("", "--nonsense");
    assert_int_equal(f.first_operand, 1);
}

/* Parses the arguments with options between operands, and asserts which operands there are. */
static void assert_mixed(struct fixture *f, int result, const char *const arguments[], const char *const operands[]) {
    const struct aml_option *const tables[] = {f->app, f->more};
    int count = 1;
    for (int a = 0; arguments[a] != NULL; a++) {
        f->arguments[count++] = (char *)(uintptr_t)arguments[a];
    }
    f->arguments[count] = NULL;
    assert_int_equal(options_parse_mixed(tables, 2, count, f->arguments, &f->first_operand, &f->error), result);
    for (int o = 0; result == 0; o++) {
        const char *found = f->arguments[f->first_operand + o];
        assert_int_equal(found == NULL, operands[o] == NULL);
        if (found == NULL) {
            break;
        }
        assert_string_equal(found, operands[o]);
    }
}

static void test_options_between_operands(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
    assert_mixed(&f, 0, LIST("a", "--iterations", "2", "b", "-", "--data=x", "c"), LIST("a", "b", "-", "c"));
    assert_int_equal(f.iterations, 2);
    assert_string_equal(f.data, "x");
    assert_mixed(&f, 0, LIST("a", "--iterations", "3", "--", "--iterations", "4"), LIST("a", "--iterations", "4"));
    assert_int_equal(f.iterations, 3);
    assert_mixed(&f, 0, LIST("a", "b", "--verbose"), LIST("a", "b"));
    assert_true(f.verbose);
    assert_mixed(&f, 0, LIST("--iterations", "5"), LIST(NULL));
    assert_mixed(&f, 0, LIST("a", "b", "--"), LIST("a", "b"));
    assert_mixed(&f, 0, LIST(NULL), LIST(NULL));
    assert_mixed(&f, AML_EINPUT, LIST("a", "--nothing"), LIST(NULL));
    assert_mixed(&f, AML_EINPUT, LIST("a", "--iterations"), LIST(NULL));
#undef LIST
}

static void test_unknown_options(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("unknown option '--foo'; see --help", "--foo");
    ASSERT_REFUSED("unknown option '--foo'; see --help", "--foo=1");
    ASSERT_REFUSED("unknown option '-x'; see --help", "-x");
    ASSERT_REFUSED("unknown option '-5'; see --help", "-5");
    ASSERT_REFUSED("unknown option '--'; see --help", "--=5");
}

static void test_suggestions(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("unknown option '--iteration'; did you mean '--iterations'? See --help", "--iteration", "3");
    ASSERT_REFUSED("unknown option '--itertaions'; did you mean '--iterations'? See --help", "--itertaions=3");
    ASSERT_REFUSED("unknown option '--reprot'; did you mean '--report'? See --help", "--reprot");
    ASSERT_REFUSED("unknown option '-rate'; did you mean '--rate'? See --help", "-rate");
    ASSERT_REFUSED("unknown option '--Data'; did you mean '--data'? See --help", "--Data");
    /* Three edits away, and abbreviations, are not guessed. */
    ASSERT_REFUSED("unknown option '--iter'; see --help", "--iter");
    ASSERT_REFUSED("unknown option '--dxyz'; see --help", "--dxyz");
    /* Two bytes can become any other two. */
    ASSERT_REFUSED("unknown option '--xy'; see --help", "--xy");
    assert_int_equal(f.iterations, 10);
}

static void test_missing_values(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("--data: expected a value, got nothing", "--data");
    ASSERT_REFUSED("--iterations: expected a whole number from 1 to 1000000, got nothing", "--iterations");
    ASSERT_REFUSED("--data: expected a value, got '--rate'; write --data=--rate if that is meant", "--data", "--rate",
                   "1");
    ASSERT_REFUSED("--iterations: expected a whole number from 1 to 1000000, got ''", "--iterations=");
    ASSERT_REFUSED("--verbose: takes no value, got 'yes'", "--verbose=yes");
    ASSERT_REFUSED("--verbose: takes no value, got ''", "--verbose=");
    assert_false(f.verbose);
    ASSERT_ACCEPTED("--data=--rate");
    assert_string_equal(f.data, "--rate");
    ASSERT_ACCEPTED("--data=");
    assert_string_equal(f.data, "");
}

static void test_whole_numbers(void **state) {
    (void)state;
    /* clang-format off */
    static const char *const refused[] = {
        "abc", "1x", "x1", "1.0", "1e3", " 1", "1 ", "", "+", "-", "--1", "0x10", "0", "1000001", "-1",
        "9223372036854775808", "99999999999999999999999999",
    };
    /* clang-format on */
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char argument[64], message[160];
        snprintf(argument, sizeof argument, "--iterations=%s", refused[i]);
        snprintf(message, sizeof message, "--iterations: expected a whole number from 1 to 1000000, got '%s'",
                 refused[i]);
        ASSERT_REFUSED(message, argument);
        assert_int_equal(f.iterations, 10);
    }
    ASSERT_ACCEPTED("--iterations", "1");
    assert_int_equal(f.iterations, 1);
    ASSERT_ACCEPTED("--iterations", "1000000");
    assert_int_equal(f.iterations, 1000000);
    ASSERT_ACCEPTED("--iterations", "+0012");
    assert_int_equal(f.iterations, 12);
    ASSERT_ACCEPTED("--offset", "-5");
    assert_int_equal(f.offset, -5);
    ASSERT_REFUSED("--offset: expected a whole number from -5 to 5, got '-6'", "--offset", "-6");
}

static void test_whole_numbers_without_limits(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--any", "9223372036854775807");
    assert_true(f.any == INT64_MAX);
    ASSERT_ACCEPTED("--any", "-9223372036854775808");
    assert_true(f.any == INT64_MIN);
    ASSERT_REFUSED("--any: expected a whole number, got '9223372036854775808'", "--any", "9223372036854775808");
    ASSERT_REFUSED("--any: expected a whole number, got '-9223372036854775809'", "--any", "-9223372036854775809");
}

static void test_whole_number_limits_are_shown_in_full(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    f.app[1].maximum = 9007199254740992.0; /* 2^53 */
    ASSERT_ACCEPTED("--iterations", "9007199254740992");
    assert_true(f.iterations == INT64_C(9007199254740992));
    ASSERT_REFUSED("--iterations: expected a whole number from 1 to 9007199254740992, got '9007199254740994'",
                   "--iterations", "9007199254740994");
}

static void test_real_numbers(void **state) {
    (void)state;
    /* clang-format off */
    static const char *const refused[] = {
        "abc", "1x", " 1", "1 ", "", ".", "-", "e1", "1e", "nan", "inf", "0x1p-1", "1.01", "-0.01", "1e999", "0.1.2",
        "1,5",
    };
    /* clang-format on */
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char argument[64], message[160];
        snprintf(argument, sizeof argument, "--rate=%s", refused[i]);
        snprintf(message, sizeof message, "--rate: expected a number from 0 to 1, got '%s'", refused[i]);
        ASSERT_REFUSED(message, argument);
        assert_true(f.rate == 0.05);
    }
    ASSERT_ACCEPTED("--rate", "0");
    assert_true(f.rate == 0);
    ASSERT_ACCEPTED("--rate", "1.0");
    assert_true(f.rate == 1);
    ASSERT_ACCEPTED("--rate", "+.5");
    assert_true(f.rate == 0.5);
    ASSERT_ACCEPTED("--rate", "25E-2");
    assert_true(f.rate == 0.25);
}

static void test_real_numbers_with_one_limit(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--positive", "1e300", "--negative", "-1e300");
    assert_true(f.positive == 1e300 && f.negative == -1e300);
    ASSERT_REFUSED("--positive: expected a number of at least 0, got '-1'", "--positive", "-1");
    ASSERT_REFUSED("--positive: expected a number of at least 0, got 'inf'", "--positive", "inf");
    ASSERT_REFUSED("--negative: expected a number of at most 0, got '1'", "--negative", "1");
}

static void test_long_and_odd_arguments(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    enum { LONG = 100000 };
    char *argument = malloc(LONG + 1);
    assert_non_null(argument);
    memset(argument, 'x', LONG);
    argument[LONG] = '\0';
    memcpy(argument, "--", 2);
    assert_int_equal(PARSE(argument), AML_EINPUT);
    assert_non_null(strstr(f.error.text, "xxx'; see --help"));
    memcpy(argument, "--iterations=", 13);
    assert_int_equal(PARSE(argument), AML_EINPUT);
    assert_non_null(strstr(f.error.text, "from 1 to 1000000, got 'xxx"));
    memcpy(argument, "--data=", 7);
    ASSERT_ACCEPTED(argument);
    assert_ptr_equal(f.data, argument + 7);
    assert_int_equal(PARSE("--fo\no"), AML_EINPUT);
    assert_null(strchr(f.error.text, '\n'));
    free(argument);
}

static void test_first_mistake_is_reported(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("unknown option '--foo'; see --help", "--verbose", "--foo", "--iterations", "x");
    assert_true(f.verbose);
}

static void test_error_may_be_null(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    char program[] = "program", foo[] = "--foo";
    char *arguments[] = {program, foo, NULL};
    const struct aml_option *const tables[] = {f.app};
    assert_int_equal(options_parse(tables, 1, 2, arguments, &f.first_operand, NULL), AML_EINPUT);
}

static void assert_help(const struct aml_option *table, const char *expected) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    options_help(stream, table);
    assert_int_equal(fclose(stream), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void test_help_text(void **state) {
    (void)state;
    struct fixture f;
    fixture_init(&f);
    assert_help(f.app, "  --help          show this text\n"
                       "  --iterations N  passes over the data (default: 10)\n"
                       "  --offset N      where to begin (default: 0)\n"
                       "  --any N         any number (default: 0)\n"
                       "  --rate R        learning rate (default: 0.05)\n"
                       "  --positive R    at least zero (default: 0)\n"
                       "  --negative R    at most zero (default: 0)\n"
                       "  --data PATH     ratings to read (default: ratings.txt)\n");
    assert_help(f.more, "  --verbose      say more\n"
                        "  --report FILE  where to write the report\n"
                        "  --input FILE   more to read\n");
    assert_help(f.more + 3, "");
}

static void test_help_of_a_long_option_goes_below(void **state) {
    (void)state;
    bool flag = false;
    const char *text = NULL;
    const struct aml_option table[] = {
        {"short", NULL, AML_OPTION_FLAG, &flag, 0, 0, "a flag"},
        {"an-option-with-a-very-long-name", "VALUE", AML_OPTION_STRING, &text, 0, 0, "something"},
        {0},
    };
    assert_help(table, "  --short  a flag\n"
                       "  --an-option-with-a-very-long-name VALUE\n"
                       "           something\n");
    assert_help(table + 1, "  --an-option-with-a-very-long-name VALUE\n"
                           "                                    something\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_given_keeps_defaults),
        cmocka_unit_test(test_no_arguments_at_all),
        cmocka_unit_test(test_separate_and_joined_values),
        cmocka_unit_test(test_last_of_a_repeated_option_counts),
        cmocka_unit_test(test_all_of_a_repeated_option_of_strings_count),
        cmocka_unit_test(test_first_table_counts),
        cmocka_unit_test(test_help_in_both_forms),
        cmocka_unit_test(test_stops_at_operands),
        cmocka_unit_test(test_options_between_operands),
        cmocka_unit_test(test_unknown_options),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_missing_values),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_whole_numbers_without_limits),
        cmocka_unit_test(test_whole_number_limits_are_shown_in_full),
        cmocka_unit_test(test_real_numbers),
        cmocka_unit_test(test_real_numbers_with_one_limit),
        cmocka_unit_test(test_long_and_odd_arguments),
        cmocka_unit_test(test_first_mistake_is_reported),
        cmocka_unit_test(test_error_may_be_null),
        cmocka_unit_test(test_help_text),
        cmocka_unit_test(test_help_of_a_long_option_goes_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
