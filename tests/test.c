#include "tests/test.h"
#include "tests/cluster/shell.h"

#include <errno.h>

enum { ENDS_MAX = 1 << 16 };

static struct end {
    void (*function)(void *context);
    void *context;
} ends[ENDS_MAX];
static unsigned end_count;

void at_end(void (*function)(void *context), void *context) {
    assert_true(end_count < ENDS_MAX);
    ends[end_count++] = (struct end){.function = function, .context = context};
}

void test_run(CMUnitTestFunction test, void **state) {
    end_count = 0; /* a failed test may have left some, whose context is gone */
    test(state);
    while (end_count > 0) {
        const struct end *end = &ends[--end_count];
        end->function(end->context);
    }
}

extern const struct test_entry *const __start_proteus_tests[];
extern const struct test_entry *const __stop_proteus_tests[];

/* Orders tests by their places in the sources: a compiler may reverse the order of a section. */
static int compare(const void *left, const void *right) {
    const struct test_entry *a = *(const struct test_entry *const *)left;
    const struct test_entry *b = *(const struct test_entry *const *)right;
    int files = strcmp(a->file, b->file);
    return files != 0 ? files : a->line - b->line;
}

static int run_all(CMFixtureFunction open, CMFixtureFunction close, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down) {
    size_t count = (size_t)(__stop_proteus_tests - __start_proteus_tests), taken = 0;
    FREED const struct test_entry **entries = calloc(count, sizeof *entries);
    FREED struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (entries == NULL || tests == NULL) {
        return EXIT_FAILURE;
    }
    memcpy(entries, __start_proteus_tests, count * sizeof *entries);
    qsort(entries, count, sizeof *entries, compare);
    for (size_t t = 0; t < count; t++) {
        tests[t] = entries[t]->test;
        bool own = tests[t].setup_func != NULL || tests[t].teardown_func != NULL;
        tests[t].setup_func = own ? tests[t].setup_func : set_up;
        tests[t].teardown_func = own ? tests[t].teardown_func : tear_down;
        tests[taken] = tests[t];
        taken += entries[t]->plain && only_threads() ? 0 : 1;
    }
    cmocka_set_test_filter(getenv("PROTEUS_TEST"));
    return _cmocka_run_group_tests(program_invocation_short_name, tests, taken, open, close);
}

int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    return run_all(set_up, tear_down, NULL, NULL);
}

int tests_run_each(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    return run_all(NULL, NULL, set_up, tear_down);
}
