/* Right and wrong command lines as users write them, and the text of --help. */
#include "agileml/base/options.h"
#include "tests/test.h"

#include <math.h>

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

/* Parses the arguments, without the program's name and up to NULL. */
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

TEST(nothing_given_keeps_defaults) {
    struct fixture f;
    fixture_init(&f);
    assert_int_equal(parse(&f, (char *)NULL), AML_OK);
    assert_int_equal(f.first_operand, 1);
    assert_int_equal(f.iterations, 10);
    assert_string_equal(f.data, "ratings.txt");
    assert_null(f.report);
    assert_false(f.help);
}

TEST(no_arguments_at_all) {
    struct fixture f;
    fixture_init(&f);
    const struct aml_option *const tables[] = {f.app};
    char *nothing[] = {NULL};
    assert_int_equal(options_parse(tables, 1, 0, nothing, &f.first_operand, &f.error), AML_OK);
    assert_int_equal(f.first_operand, 0);
}

TEST(separate_and_joined_values) {
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

TEST(last_of_a_repeated_option_counts) {
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--iterations", "7", "--verbose", "--iterations=9", "--verbose");
    assert_int_equal(f.iterations, 9);
}

TEST(all_of_a_repeated_option_of_strings_count) {
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

TEST(first_table_counts) {
    struct fixture f;
    fixture_init(&f);
    f.more[0].name = "help";
    ASSERT_ACCEPTED("--help");
    assert_true(f.help);
    assert_false(f.verbose);
}

TEST(help_in_both_forms) {
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

TEST(stops_at_operands) {
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

/* Parses arguments with options between operands, and checks the operands. */
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

TEST(options_between_operands) {
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

TEST(unknown_options) {
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("unknown option '--foo'; see --help", "--foo");
    ASSERT_REFUSED("unknown option '--foo'; see --help", "--foo=1");
    ASSERT_REFUSED("unknown option '-x'; see --help", "-x");
    ASSERT_REFUSED("unknown option '-5'; see --help", "-5");
    ASSERT_REFUSED("unknown option '--'; see --help", "--=5");
}

TEST(suggestions) {
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("unknown option '--iteration'; did you mean '--iterations'? See --help", "--iteration", "3");
    ASSERT_REFUSED("unknown option '--itertaions'; did you mean '--iterations'? See --help", "--itertaions=3");
    ASSERT_REFUSED("unknown option '--reprot'; did you mean '--report'? See --help", "--reprot");
    ASSERT_REFUSED("unknown option '-rate'; did you mean '--rate'? See --help", "-rate");
    ASSERT_REFUSED("unknown option '--Data'; did you mean '--data'? See --help", "--Data");
    /* Words three edits away, and abbreviations, are not suggested. */
    ASSERT_REFUSED("unknown option '--iter'; see --help", "--iter");
    ASSERT_REFUSED("unknown option '--dxyz'; see --help", "--dxyz");
    /* Two edits could turn any two bytes into any others. */
    ASSERT_REFUSED("unknown option '--xy'; see --help", "--xy");
    assert_int_equal(f.iterations, 10);
}

TEST(missing_values) {
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

TEST(whole_numbers) {
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

TEST(whole_numbers_without_limits) {
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--any", "9223372036854775807");
    assert_true(f.any == INT64_MAX);
    ASSERT_ACCEPTED("--any", "-9223372036854775808");
    assert_true(f.any == INT64_MIN);
    ASSERT_REFUSED("--any: expected a whole number, got '9223372036854775808'", "--any", "9223372036854775808");
    ASSERT_REFUSED("--any: expected a whole number, got '-9223372036854775809'", "--any", "-9223372036854775809");
}

TEST(whole_number_limits_are_shown_in_full) {
    struct fixture f;
    fixture_init(&f);
    f.app[1].maximum = 9007199254740992.0; /* 2^53 */
    ASSERT_ACCEPTED("--iterations", "9007199254740992");
    assert_true(f.iterations == INT64_C(9007199254740992));
    ASSERT_REFUSED("--iterations: expected a whole number from 1 to 9007199254740992, got '9007199254740994'",
                   "--iterations", "9007199254740994");
}

TEST(real_numbers) {
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

TEST(real_numbers_with_one_limit) {
    struct fixture f;
    fixture_init(&f);
    ASSERT_ACCEPTED("--positive", "1e300", "--negative", "-1e300");
    assert_true(f.positive == 1e300 && f.negative == -1e300);
    ASSERT_REFUSED("--positive: expected a number of at least 0, got '-1'", "--positive", "-1");
    ASSERT_REFUSED("--positive: expected a number of at least 0, got 'inf'", "--positive", "inf");
    ASSERT_REFUSED("--negative: expected a number of at most 0, got '1'", "--negative", "1");
}

TEST(long_and_odd_arguments) {
    struct fixture f;
    fixture_init(&f);
    enum { LONG = 100000 };
    FREED char *argument = malloc(LONG + 1);
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
}

TEST(first_mistake_is_reported) {
    struct fixture f;
    fixture_init(&f);
    ASSERT_REFUSED("unknown option '--foo'; see --help", "--verbose", "--foo", "--iterations", "x");
    assert_true(f.verbose);
}

TEST(error_may_be_null) {
    struct fixture f;
    fixture_init(&f);
    char program[] = "program", foo[] = "--foo";
    char *arguments[] = {program, foo, NULL};
    const struct aml_option *const tables[] = {f.app};
    assert_int_equal(options_parse(tables, 1, 2, arguments, &f.first_operand, NULL), AML_EINPUT);
}

static void assert_help(const struct aml_option *table, const char *expected) {
    FREED char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_int_equal(options_write_help(stream, "usage: app", &table, 1, NULL, NULL), 0);
    assert_int_equal(fclose(stream), 0);
    const char *usage = "usage: app\n\n";
    assert_memory_equal(text, usage, strlen(usage));
    assert_string_equal(text + strlen(usage), expected);
}

TEST(help_text) {
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

TEST(help_of_a_long_option_goes_below) {
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

/* A table with topics, and a second table with more options of these topics. */
struct topics {
    int64_t number;
    bool flag;
    struct aml_option own[6], common[7];
};

static void topics_init(struct topics *t) {
    const struct aml_option own[] = {
        {"rank", "N", AML_OPTION_INTEGER, &t->number, 0, 9, "factors"},
        {"passes", "N", AML_OPTION_INTEGER, NULL, 0, 0, "chosen by the data"},
        OPTIONS_TOPIC("logs", "standard error"),
        {"loud", NULL, AML_OPTION_FLAG, &t->flag, 0, 0, "say more"},
        {0},
    };
    const struct aml_option common[] = {
        OPTIONS_HEADING("of every app"),
        {"passes", "N", AML_OPTION_INTEGER, &t->number, 0, 9, "over the data"},
        {"help", "[TOPIC]", AML_OPTION_FLAG, &t->flag, 0, 0, "this text"},
        OPTIONS_TOPIC("data", "memory"),
        {"memory", "SIZE", AML_OPTION_INTEGER, &t->number, 0, 9,
         "of a text that is so long that it does not fit into one line of eighty columns"},
        OPTIONS_TOPIC("logs", "not shown"),
        {0},
    };
    *t = (struct topics){.number = 3};
    memcpy(t->own, own, sizeof own);
    memcpy(t->common, common, sizeof common);
}

/* Returns the text of options_write_help for a topic, whose result must be `code`. The caller frees it. */
static char *topic_text(const struct topics *t, const char *topic, int code, struct error *error) {
    const struct aml_option *const tables[] = {t->own, t->common};
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    assert_int_equal(options_write_help(stream, "usage: app", tables, 2, topic, error), code);
    assert_int_equal(fclose(stream), 0);
    return text;
}

TEST(topics) {
    (void)state;
    static const char first[] = "usage: app\n\n"
                                "  --rank N        factors (default: 3)\n"
                                "  --passes N      chosen by the data\n"
                                "\nof every app:\n"
                                "  --help [TOPIC]  this text\n";
    static const char logs[] = "logs (standard error):\n"
                               "  --loud  say more\n";
    static const char data[] = "data (memory):\n"
                               "  --memory SIZE  of a text that is so long that it does not fit into one line of\n"
                               "                 eighty columns (default: 3)\n";
    struct topics t;
    struct error error = {0};
    char expected[1024];
    topics_init(&t);

    char *text = topic_text(&t, NULL, 0, &error);
    snprintf(expected, sizeof expected, "%s\nmore by --help TOPIC: logs (standard error), data (memory), or all\n",
             first);
    assert_string_equal(text, expected);
    free(text);
    text = topic_text(&t, "all", 0, &error);
    snprintf(expected, sizeof expected, "%s\n%s\n%s", first, logs, data);
    assert_string_equal(text, expected);
    free(text);
    text = topic_text(&t, "data", 0, &error);
    assert_string_equal(text, data);
    free(text);
    text = topic_text(&t, "dato", AML_EINPUT, &error);
    assert_string_equal(text, "");
    assert_string_equal(error.text, "--help: expected logs, data or all, got 'dato'");
    free(text);
}

/* Texts within --help are not options. */
TEST(texts_are_not_parsed) {
    (void)state;
    struct topics t;
    topics_init(&t);
    const struct aml_option *const tables[] = {t.own, t.common};
    char program[] = "app", passes[] = "--passes=5", nothing[] = "--=x";
    char *arguments[] = {program, passes, nothing, NULL};
    struct error error = {0};
    int operand;
    assert_int_equal(options_parse(tables, 2, 2, arguments, &operand, &error), 0);
    assert_int_equal(t.number, 5);
    assert_int_equal(options_parse(tables, 2, 3, arguments, &operand, &error), AML_EINPUT);
    assert_string_equal(error.text, "unknown option '--'; see --help");
}

/* options_help prints if --help or -h precedes "--". A following word is a topic only if there are topics. */
TEST(asking_for_help) {
    (void)state;
    struct topics t;
    topics_init(&t);
    const struct aml_option *const tables[] = {t.own, t.common};
    static const struct {
        const char *arguments[3];
        int with_topics, without;
    } cases[] = {{{"--rank", "3", "--"}, 0, 0},
                 {{"--help", NULL, NULL}, 1, 1},
                 {{"--rank", "-h", NULL}, 1, 1},
                 {{"--", "--help", NULL}, 0, 0},
                 {{"--help", "data", "--bogus"}, 1, 1},
                 {{"-h", "--rank", "3"}, 1, 1},
                 {{"--help", "rank", NULL}, AML_EINPUT, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char words[4][16] = {"app"};
        char *argv[5] = {words[0]};
        int argc = 1;
        for (; argc < 4 && cases[c].arguments[argc - 1] != NULL; argc++) {
            snprintf(words[argc], sizeof words[argc], "%s", cases[c].arguments[argc - 1]);
            argv[argc] = words[argc];
        }
        const struct aml_option *const plain = t.common + 6;
        assert_int_equal(options_help("usage: app", tables, 2, argc, argv, NULL), cases[c].with_topics);
        assert_int_equal(options_help("usage: app", &plain, 1, argc, argv, NULL), cases[c].without);
    }
}
