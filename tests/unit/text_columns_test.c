/* Tests of agileml/base/text_columns: which columns a header's names mean. */
#include "agileml/base/text_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { USER = 0, ITEM, RATING, ROLES };

static const char *const user_names[] = {"user", "userid", NULL};
static const char *const item_names[] = {"item", "itemid", "movieid", NULL};
static const char *const rating_names[] = {"rating", "say\"so", NULL};
static const struct text_role roles[ROLES] = {{"user", user_names}, {"item", item_names}, {"rating", rating_names}};

static void assert_places(const char *line, enum text_separator separator, int user, int item, int rating,
                          size_t columns) {
    int places[ROLES];
    size_t count = 0;
    struct error error = {0};
    const char *end = line + strlen(line);
    int found = text_columns_find(line, end, separator, roles, ROLES, places, &count, &error);
    assert_int_equal(found, (user >= 0) + (item >= 0) + (rating >= 0));
    assert_int_equal(places[USER], user);
    assert_int_equal(places[ITEM], item);
    assert_int_equal(places[RATING], rating);
    assert_int_equal(count, columns);
}

static void assert_refused(const char *line, const char *message) {
    int places[ROLES];
    size_t count;
    struct error error = {0};
    assert_int_equal(text_columns_find(line, line + strlen(line), TEXT_COMMA, roles, ROLES, places, &count, &error),
                     AML_EINPUT);
    assert_string_equal(error.text, message);
}

static void test_names_are_found_in_any_order(void **state) {
    (void)state;
    assert_places("userId,movieId,rating", TEXT_COMMA, 0, 1, 2, 3);
    assert_places("timestamp,rating,item_id,user_id", TEXT_COMMA, 3, 2, 1, 4);
    assert_places(",USER,Item.Id,Rating ", TEXT_COMMA, 1, 2, 3, 4);
    assert_places("user", TEXT_UNKNOWN, 0, -1, -1, 1);
    assert_places("", TEXT_UNKNOWN, -1, -1, -1, 1);
    assert_places("1,2,3", TEXT_COMMA, -1, -1, -1, 3);
    assert_places("users,items", TEXT_COMMA, -1, -1, -1, 2);
}

static void test_any_separator(void **state) {
    (void)state;
    assert_places("Item ID\tUser ID\t\t", TEXT_TAB, 1, 0, -1, 4);
    assert_places("rating;user-id", TEXT_SEMICOLON, 1, -1, 0, 2);
    assert_places("user::item", TEXT_COLONS, 0, 1, -1, 2);
    assert_places("  item   user\trating  ", TEXT_BLANKS, 1, 0, 2, 3);
}

static void test_quoted_names(void **state) {
    (void)state;
    assert_places("\"User ID\";\"a;b\";\"MOVIE_ID\"", TEXT_SEMICOLON, 0, 2, -1, 3);
    assert_places("\"say\"\"so\",\"\"", TEXT_COMMA, -1, -1, 0, 2);
    assert_refused("user,\"item", "column 2: a '\"' that is not closed before the next separator");
    assert_refused("\"user\"x,item", "column 1: a '\"' that is not closed before the next separator");
}

static void test_two_columns_of_one_role(void **state) {
    (void)state;
    assert_refused("user_id,item,User", "two columns name the user: 1 (user_id) and 3 (User)");
    assert_refused("rating,user,movieId,\"item id\"", "two columns name the item: 3 (movieId) and 4 (item id)");
}

/* Names as long as the longest that are compared, and longer. */
static void test_long_names(void **state) {
    (void)state;
    for (size_t length = TEXT_COLUMN_NAME_MAX - 1; length <= TEXT_COLUMN_NAME_MAX + 1; length++) {
        char name[TEXT_COLUMN_NAME_MAX + 2] = "";
        memset(name, 'x', length);
        const char *const names[] = {name, NULL};
        const struct text_role role = {"long", names};
        int place;
        size_t count;
        struct error error = {0};
        int found = text_columns_find(name, name + length, TEXT_UNKNOWN, &role, 1, &place, &count, &error);
        assert_int_equal(found, length <= TEXT_COLUMN_NAME_MAX);
    }
}

static bool is_index(const char *name, size_t column) {
    const struct text_field field = {.text = name, .length = strlen(name)};
    return text_column_is_index(&field, column);
}

static void test_index_columns(void **state) {
    (void)state;
    assert_true(is_index("", 0));
    assert_true(is_index("Unnamed: 0", 0));
    assert_true(is_index("index", 4));
    assert_false(is_index("", 1));
    assert_false(is_index("id", 0));
    assert_false(is_index("a name much longer than index", 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found_in_any_order),
        cmocka_unit_test(test_any_separator),
        cmocka_unit_test(test_quoted_names),
        cmocka_unit_test(test_two_columns_of_one_role),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_index_columns),
    };
    return cmocka_run_group_tests_name("text_columns", tests, NULL, NULL);
}
