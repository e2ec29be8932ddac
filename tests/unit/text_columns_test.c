/* Tests of agileml/base/text_columns: the columns that a header's names, or --columns, select. */
#include "agileml/base/text_columns.h"
#include "tests/test.h"

enum { USER = 0, ITEM, RATING, ROLES };

static const struct text_role roles[ROLES] = {
    {"user", "user userid"}, {"item", "item itemid movieid"}, {"rating", "rating say\"so"}};

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

TEST(names_are_found_in_any_order) {
    assert_places("userId,movieId,rating", TEXT_COMMA, 0, 1, 2, 3);
    assert_places("timestamp,rating,item_id,user_id", TEXT_COMMA, 3, 2, 1, 4);
    assert_places(",USER,Item.Id,Rating ", TEXT_COMMA, 1, 2, 3, 4);
    assert_places("user", TEXT_UNKNOWN, 0, -1, -1, 1);
    assert_places("", TEXT_UNKNOWN, -1, -1, -1, 1);
    assert_places("1,2,3", TEXT_COMMA, -1, -1, -1, 3);
    assert_places("users,items", TEXT_COMMA, -1, -1, -1, 2);
}

TEST(any_separator) {
    assert_places("Item ID\tUser ID\t\t", TEXT_TAB, 1, 0, -1, 4);
    assert_places("rating;user-id", TEXT_SEMICOLON, 1, -1, 0, 2);
    assert_places("user::item", TEXT_COLONS, 0, 1, -1, 2);
    assert_places("  item   user\trating  ", TEXT_BLANKS, 1, 0, 2, 3);
}

TEST(quoted_names) {
    assert_places("\"User ID\";\"a;b\";\"MOVIE_ID\"", TEXT_SEMICOLON, 0, 2, -1, 3);
    assert_places("\"say\"\"so\",\"\"", TEXT_COMMA, -1, -1, 0, 2);
    assert_refused("user,\"item", "column 2: a '\"' that is not closed before the next separator");
    assert_refused("\"user\"x,item", "column 1: a '\"' that is not closed before the next separator");
}

TEST(two_columns_of_one_role) {
    assert_refused("user_id,item,User", "two columns name the user: 1 (user_id) and 3 (User)");
    assert_refused("rating,user,movieId,\"item id\"", "two columns name the item: 3 (movieId) and 4 (item id)");
}

/* Names about as long as the longest name that is compared. */
TEST(long_names) {
    for (size_t length = TEXT_COLUMN_NAME_MAX - 1; length <= TEXT_COLUMN_NAME_MAX + 1; length++) {
        char name[TEXT_COLUMN_NAME_MAX + 2] = "";
        memset(name, 'x', length);
        const struct text_role role = {"long", name};
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

TEST(index_columns) {
    assert_true(is_index("", 0));
    assert_true(is_index("Unnamed: 0", 0));
    assert_true(is_index("index", 4));
    assert_false(is_index("", 1));
    assert_false(is_index("id", 0));
    assert_false(is_index("a name much longer than index", 0));
}

/* ---- --columns ---- */

static const char *const names[] = {"user", "item", "rating"};

TEST(choices) {
    struct text_choice choices[ROLES];
    struct error error = {0};
    assert_int_equal(text_choices_parse(NULL, names, ROLES, choices, &error), 0);
    assert_false(text_choice_is_made(&choices[USER]));
    assert_int_equal(text_choices_parse("rating=My Score,user=3", names, ROLES, choices, &error), 0);
    assert_int_equal(choices[USER].place, 2);
    assert_string_equal(choices[USER].name, "");
    assert_false(text_choice_is_made(&choices[ITEM]));
    assert_string_equal(choices[RATING].name, "myscore");
    assert_string_equal(choices[RATING].text, "My Score");
    assert_true(text_choice_is_made(&choices[RATING]));
    static const char *const bad[] = {
        "",        "user",          "user=",         "=1",    "user=0",         "user=1048577",
        "user=1,", "user=1,user=2", "user=1,item=1", "use=1", "users=1,item=2", "user=-_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        error = (struct error){0};
        assert_int_equal(text_choices_parse(bad[i], names, ROLES, choices, &error), AML_EINPUT);
        assert_int_equal(strncmp(error.text, "--columns ", 10), 0);
    }
}

static void find_choice(const char *columns, const char *line, int place, const char *message) {
    struct text_choice choices[ROLES];
    struct error error = {0};
    int found;
    assert_int_equal(text_choices_parse(columns, names, ROLES, choices, &error), 0);
    int code = text_choice_find(&choices[USER], line, line + strlen(line), TEXT_COMMA, &found, &error);
    assert_int_equal(code, place >= 0 ? 0 : AML_EINPUT);
    assert_string_equal(error.text, message);
    if (code == 0) {
        assert_int_equal(found, place);
    }
}

TEST(choices_are_found) {
    find_choice("user=b", "a,B,c", 1, "");
    find_choice("user=my name", "a,\"My_Name\",c", 1, "");
    find_choice("user=b", "a,b,B", TEXT_COLUMN_NONE, "--columns: columns 2 and 3 are both named b");
    find_choice("user=d", "a,b", TEXT_COLUMN_NONE, "--columns: no column is named d: the first line has \"a\", \"b\"");
    find_choice("user=d", "a23456789012345678901234567890xyz,b", TEXT_COLUMN_NONE,
                "--columns: no column is named d: the first line has \"a23456789012345678901234567890...\", \"b\"");
}

/* A list that does not fit ends in dots and stays within its room. */
TEST(lists_of_names) {
    static const char line[] = "first name,second name,third name,fourth name";
    for (size_t room = 1; room < 200; room++) {
        char list[201];
        memset(list, '#', sizeof list);
        list[0] = '\0';
        text_columns_list(list, room, line, line + sizeof line - 1, TEXT_COMMA);
        assert_true(strlen(list) < room);
        assert_int_equal(list[room], '#');
    }
}
