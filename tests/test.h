/* What every test includes: cmocka, and the C headers that nearly all tests use. A test may leave its state unused, and
 * a fake its arguments. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A test of the program: TEST(name) { ... }, which may use cmocka's `state`. Tests run in the order of the source,
 * without a list: the linker collects the entries of their section. */
#define TEST(name) TEST_OF(name, NULL, NULL, false)
/* A test that starts no threads, or none that no other test starts: the thread sanitizer passes over it. */
#define PLAIN_TEST(name) TEST_OF(name, NULL, NULL, true)
/* A test with its own set-up and tear-down functions. */
#define TEST_WITH(name, set_up, tear_down) TEST_OF(name, set_up, tear_down, false)
#define TEST_OF(name, set_up, tear_down, is_plain)                                                                     \
    static void test_##name(void **state);                                                                             \
    static void tested_##name(void **state) {                                                                          \
        test_run(test_##name, state);                                                                                  \
    }                                                                                                                  \
    __attribute__((section("proteus_tests"), used)) static const struct test_entry *const entry_of_##name =            \
        &(const struct test_entry){{#name, tested_##name, set_up, tear_down, NULL}, __FILE__, __LINE__, is_plain};     \
    static void test_##name(void **state)

struct test_entry {
    struct CMUnitTest test;
    const char *file;
    int line;
    bool plain;
};

/* A local variable that function(&variable), or free(variable), closes at its scope's end, unless the test fails. */
#define CLOSED_BY(function) __attribute__((cleanup(function)))
#define FREED               CLOSED_BY(free_variable)
static inline void free_variable(void *place) {
    void *pointer;
    memcpy(&pointer, place, sizeof pointer);
    free(pointer);
}

/* Calls function(context) when the running test has passed, before its tear-down; the latest call first. The
 * context outlives the test's function. */
void at_end(void (*function)(void *context), void *context);
/* For TEST: runs the test, then what at_end was told. */
void test_run(CMUnitTestFunction test, void **state);

/* Run all tests, for main, and return the exit status. The functions set up and tear down the whole program
 * (tests_run), or each test without its own (tests_run_each); NULL: none. A program that needs neither has no main of
 * its own. With $PROTEUS_TEST, only tests whose names match this pattern of the shell's run. */
int tests_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);
int tests_run_each(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#endif
