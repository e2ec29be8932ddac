/* Criteo lines: accepted and refused lines, and the slots of their fields. The slots below define the meaning of
 * every model: changed slots would make users' models useless. */
#include "apps/samples/criteo_hash.h"
#include "tests/test.h"

enum { LINE_MAX = 1 << 17 };

static char line[LINE_MAX];

/* Writes a line of a label and 39 fields. Field `at` is `text`, the others are "1". */
static size_t make_line(const char *label, char separator, unsigned at, const char *text) {
    size_t used = (size_t)snprintf(line, sizeof line, "%s", label);
    for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
        used += (size_t)snprintf(line + used, sizeof line - used, "%c%s", separator, f == at ? text : "1");
    }
    return used;
}

static struct criteo_columns columns_of(char separator) {
    struct criteo_columns columns;
    struct error error = {0};
    bool header;
    size_t length = make_line("1", separator, 0, "1");
    assert_int_equal(criteo_columns(&columns, line, length, false, &header, &error), 0);
    assert_false(header);
    assert_int_equal(columns.separator, separator);
    return columns;
}

static void expect_field(const struct criteo_record *record, const char *name, const char *text) {
    const struct criteo_text *field = &record->fields[criteo_field(name, strlen(name))];
    if (field->length != strlen(text) || memcmp(field->text, text, field->length) != 0) {
        fail_msg("%s is '%.*s', expected '%s'", name, (int)field->length, field->text, text);
    }
}

/* The line is refused with this message. */
static void expect_refused(const struct criteo_columns *columns, size_t length, const char *message) {
    struct criteo_record record;
    struct error error = {0};
    assert_int_equal(criteo_take(columns, line, length, line, &record, &error), AML_EINPUT);
    assert_string_equal(error.text, message);
}

/* ---- Lines ---- */

TEST(names) {
    assert_int_equal(criteo_field("I1", 2), 0);
    assert_int_equal(criteo_field("I13", 3), 12);
    assert_int_equal(criteo_field("C1", 2), 13);
    assert_int_equal(criteo_field("C26", 3), 38);
    static const char *const wrong[] = {"", "I", "I0", "I14", "C27", "C01", "c1", "C1 ", "C100", "X1", "C-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(criteo_field(wrong[i], strlen(wrong[i])), -1);
    }
    for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
        char name[CRITEO_NAME_MAX];
        criteo_name(f, name);
        assert_int_equal(criteo_field(name, strlen(name)), f);
    }
}

TEST(fields) {
    for (int s = 0; s < 2; s++) {
        char separator = s == 0 ? '\t' : ',';
        struct criteo_columns columns = columns_of(separator);
        for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
            static const char *const texts[] = {"", "-3", "05db9164", "a category of more than sixteen bytes"};
            for (int t = 0; t < 4; t++) {
                struct criteo_record record;
                struct error error = {0};
                char name[CRITEO_NAME_MAX];
                size_t length = make_line(f % 2 == 0 ? "0" : "1", separator, f, texts[t]);
                assert_int_equal(criteo_take(&columns, line, length, line, &record, &error), 0);
                assert_int_equal(record.label, f % 2);
                criteo_name(f, name);
                expect_field(&record, name, texts[t]);
                expect_field(&record, f == 7 ? "C1" : "I8", "1");
            }
        }
    }
}

TEST(quotes_and_blanks) {
    struct criteo_columns columns = columns_of(',');
    static const char *const written[] = {"\"a,b\"", "\"a\"\"b\"", " \"x\" ", "  y\t", "a b", "\"\""};
    static const char *const read[] = {"a,b", "a\"b", "x", "y", "a b", ""};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        struct criteo_record record;
        struct error error = {0};
        size_t length = make_line("\"1\"", ',', 20, written[i]);
        assert_int_equal(criteo_take(&columns, line, length, line, &record, &error), 0);
        expect_field(&record, "C8", read[i]);
        expect_field(&record, "C26", "1");
        assert_int_equal(record.label, 1);
    }
    expect_refused(&columns, make_line("1", ',', 38, "\"open"),
                   "expected a quoted field that ends on its line, then a separator, got '\"open'");
}

TEST(wrong_lines) {
    struct criteo_columns columns = columns_of('\t');
    const char *expected = "expected 40 fields (a label, 13 integers and 26 categories), got ";
    char message[128];
    size_t whole = make_line("1", '\t', 0, "1");
    snprintf(message, sizeof message, "%s39", expected);
    expect_refused(&columns, whole - 2, message);
    snprintf(message, sizeof message, "%s41", expected);
    expect_refused(&columns, make_line("1\t1", '\t', 0, "1"), message);
    snprintf(message, sizeof message, "%smore than 41", expected);
    expect_refused(&columns, make_line("1\t1\t1\t1", '\t', 0, "1"), message);
    snprintf(message, sizeof message, "%s1", expected);
    expect_refused(&columns, 1, message);
    memset(line, '\t', 100000);
    snprintf(message, sizeof message, "%smore than 41", expected);
    expect_refused(&columns, 100000, message);
    expect_refused(&columns, make_line("2", '\t', 0, "1"), "expected a label 0 or 1, got '2'");
    struct criteo_record record;
    struct error error = {0};
    size_t length = make_line("?", '\t', 0, "1"); /* missing, for the reader to handle */
    assert_int_equal(criteo_take(&columns, line, length, line, &record, &error), 0);
    assert_int_equal(record.label, CRITEO_NO_LABEL);
    expect_refused(&columns, make_line("01", '\t', 0, "1"), "expected a label 0 or 1, got '01'");
}

/* ---- First lines ---- */

static void write_header(const char *start, bool reversed) {
    size_t used = (size_t)snprintf(line, sizeof line, "%s", start);
    for (unsigned i = 0; i < CRITEO_FIELDS; i++) {
        char name[CRITEO_NAME_MAX];
        criteo_name(reversed ? CRITEO_FIELDS - 1 - i : i, name);
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", used > 0 ? "," : "", name);
    }
}

TEST(headers) {
    static const char *const starts[] = {"label", "Id,Label", "Id", ""};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct criteo_columns columns;
        struct error error = {0};
        bool header = false;
        write_header(starts[i], i % 2 == 1);
        assert_true(criteo_recognized(line, strlen(line)));
        int result = criteo_columns(&columns, line, strlen(line), true, &header, &error);
        assert_int_equal(result, 0);
        assert_true(header);
        assert_int_equal(columns.labelled, i < 2);
        assert_int_equal(columns.field_of[columns.count - 1], i % 2 == 1 ? 0 : CRITEO_FIELDS - 1);
        write_header(starts[i], false);
        assert_int_equal(criteo_columns(&columns, line, strlen(line), false, &header, &error), i < 2 ? 0 : AML_EINPUT);
    }
    static const struct {
        const char *start, *message;
    } wrong[] = {
        {"label,I3", "expected each column once in the header, got 'I3' twice"},
        {"label,click", "expected a header of Id, label, I1 to I13 and C1 to C26, got 'click'"},
        {"label,label", "expected a header of Id, label, I1 to I13 and C1 to C26, got 'label'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct criteo_columns columns;
        struct error error = {0};
        bool header;
        write_header(wrong[i].start, false);
        assert_int_equal(criteo_columns(&columns, line, strlen(line), false, &header, &error), AML_EINPUT);
        assert_string_equal(error.text, wrong[i].message);
    }
    struct criteo_columns columns;
    struct error error = {0};
    bool header;
    write_header("label", false);
    assert_int_equal(criteo_columns(&columns, line, strlen(line) - 4, false, &header, &error), AML_EINPUT);
    assert_string_equal(error.text, "expected a header of all of I1 to I13 and C1 to C26, got 38 of them");
}

TEST(what_looks_like_criteo) {
    static const char *const categories[] = {"68fd1e64", "", "80e26c9b"};
    for (int numbers = 0; numbers < 2; numbers++) { /* 40 numbers may be samples in another format */
        size_t used = (size_t)snprintf(line, sizeof line, "0");
        for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
            used += (size_t)snprintf(line + used, sizeof line - used, "\t%s",
                                     numbers || f < CRITEO_INTEGERS ? "12" : categories[f % 3]);
        }
        assert_int_equal(criteo_recognized(line, used), numbers == 0);
    }
    strcpy(line, "1 1:2");
    assert_false(criteo_recognized(line, 5));
    assert_false(criteo_recognized(line, 0));
    memset(line, '\t', CRITEO_FIELDS);
    *line = '1';
    assert_false(criteo_recognized(line, CRITEO_FIELDS)); /* all fields are empty */
}

TEST(lines_without_labels) {
    struct criteo_columns columns;
    struct criteo_record record;
    struct error error = {0};
    bool header;
    size_t length = make_line("1", '\t', 0, "17") - 2;
    assert_int_equal(criteo_columns(&columns, line + 2, length, true, &header, &error), 0);
    assert_false(columns.labelled);
    assert_int_equal(criteo_take(&columns, line + 2, length, line + 2, &record, &error), 0);
    assert_int_equal(record.label, -1);
    expect_field(&record, "I1", "17");
    assert_int_equal(criteo_columns(&columns, line + 2, length, false, &header, &error), AML_EINPUT);
}

/* ---- Hashing ---- */

static const char *const TEXTS[CRITEO_FIELDS] = {"",
                                                 "0",
                                                 "1",
                                                 "-1",
                                                 "2",
                                                 "3",
                                                 "4",
                                                 "1000",
                                                 "-1000",
                                                 "2147483647",
                                                 "99999999999999999999",
                                                 "1e300",
                                                 "",
                                                 "",
                                                 "05db9164",
                                                 "68fd1e64",
                                                 "a",
                                                 "ab",
                                                 "abc",
                                                 "abcd",
                                                 "abcdefg",
                                                 "abcdefghi",
                                                 "0123456789abcdef",
                                                 "0123456789abcdefX",
                                                 "a value that is longer than thirty-two bytes",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "",
                                                 "5316a17f"};

static struct criteo_hash_features features; /* zeroed, as static */

static void run_hash(const struct criteo_hash *hash, const char *const texts[CRITEO_FIELDS]) {
    struct criteo_record record = {.label = 0};
    struct error error = {0};
    for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
        record.fields[f] = (struct criteo_text){.text = texts[f], .length = (uint32_t)strlen(texts[f])};
    }
    if (criteo_hash_run(hash, &record, &features, &error) != 0) {
        fail_msg("%s", error.text);
    }
}

TEST(slots_never_change) {
    static const uint32_t expected[] = {227563, 411268,  145180, 328008, 937073,  929928, 1018263, 200627, 676186,
                                        225345, 1021370, 892894, 189671, 1025633, 202119, 142123,  531208, 75862,
                                        567220, 762988,  399916, 641488, 468561,  696631, 576396,  105734, 92561,
                                        68870,  110695,  660459, 315614, 471180,  333353, 598602,  297195, 1017801,
                                        461176, 946414,  392273, 343920, 755312};
    struct criteo_hash hash = {.bits = 20};
    struct error error = {0};
    assert_int_equal(criteo_hash_add_crosses(&hash, "C2xC1,I1xC26", &error), 0);
    run_hash(&hash, TEXTS);
    assert_int_equal(features.count, CRITEO_FIELDS + 2);
    assert_memory_equal(features.slots, expected, sizeof expected);
    assert_false(features.added);
    hash.bits = 24; /* the lower bits are unchanged */
    run_hash(&hash, TEXTS);
    for (uint32_t i = 0; i < features.count; i++) {
        assert_int_equal(features.slots[i] >> 4, expected[i]);
        assert_true(features.values[i] == 1);
    }
}

/* Returns the slot of I1 with this value. */
static uint32_t slot_of(const char *integer) {
    const struct criteo_hash hash = {.bits = 24};
    const char *texts[CRITEO_FIELDS];
    memcpy(texts, TEXTS, sizeof texts);
    texts[0] = integer;
    run_hash(&hash, texts);
    return features.slots[0];
}

TEST(integers_hold_their_octave) {
    static const char *const groups[][4] = {
        {"0", "-0", "0.9", "-0.5"},
        {"1", "1.0", "1e0", "01"},
        {"2", "3", "3.99", "2"},
        {"4", "7", "000000000000000000000000000007", "5.5"},
        {"-2", "-3", "-3.5", "-3"},
        {"2147483648", "4294967295", "4.294967295e9", "3000000000.0"},
        {"9223372036854775808", "99999999999999999999", "1e300", "12345678901234567890123"},
        {"-9223372036854775809", "-99999999999999999999", "-1e300", "-1e20"},
        {"", "", "", ""},
    };
    enum { GROUPS = sizeof groups / sizeof groups[0] };
    for (size_t g = 0; g < GROUPS; g++) {
        for (size_t i = 1; i < 4; i++) {
            assert_int_equal(slot_of(groups[g][i]), slot_of(groups[g][0]));
        }
        for (size_t other = 0; other < g; other++) {
            assert_int_not_equal(slot_of(groups[g][0]), slot_of(groups[other][0]));
        }
    }
}

TEST(what_is_no_integer) {
    static const char *const wrong[] = {"x", "-", "1x", "0x10", "1e", "nan", "inf", "1e400", "--1", "1 2", "."};
    const struct criteo_hash hash = {.bits = 20};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct criteo_record record = {.label = 0};
        struct error error = {0};
        char message[80];
        for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
            record.fields[f] = (struct criteo_text){.text = "", .length = 0};
        }
        record.fields[12] = (struct criteo_text){.text = wrong[i], .length = (uint32_t)strlen(wrong[i])};
        assert_int_equal(criteo_hash_run(&hash, &record, &features, &error), AML_EINPUT);
        snprintf(message, sizeof message, "expected a whole number in I13, got '%s'", wrong[i]);
        assert_string_equal(error.text, message);
    }
}

/* With few slots many fields share a slot: their values add up, whatever was hashed before. */
TEST(equal_slots_add_up) {
    struct criteo_hash hash = {.bits = CRITEO_HASH_BITS_MIN};
    struct error error = {0};
    assert_int_equal(criteo_hash_add_crosses(&hash, "C1xC2,C1xC3,C1xC4,C1xC5,C1xC6,C1xC7,C1xC8,C1xC9,C1xC10", &error),
                     0);
    for (int repeat = 0; repeat < 2; repeat++) {
        double sum = 0;
        run_hash(&hash, TEXTS);
        assert_true(features.added);
        assert_true(features.count < CRITEO_FIELDS + 9);
        for (uint32_t i = 0; i < features.count; i++) {
            sum += features.values[i];
            for (uint32_t j = 0; j < i; j++) {
                assert_int_not_equal(features.slots[i], features.slots[j]);
            }
        }
        assert_true(sum == CRITEO_FIELDS + 9);
    }
}

TEST(crosses) {
    static const char *const wrong[] = {"", "C1", "C1xC1", "C1xC27", "C1xC2,", "C1xC2 ", "C1*C2", "C1xC2xC3", "c1xc2"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct criteo_hash hash = {.bits = 20};
        struct error error = {0};
        assert_int_equal(criteo_hash_add_crosses(&hash, wrong[i], &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "--cross: expected pairs of different fields such as C1xC2,I5xC3, got '"));
    }
    struct criteo_hash hash = {.bits = 20};
    struct error error = {0};
    assert_int_equal(criteo_hash_add_crosses(&hash, "C1xC2,I1xI2,C2xC1", &error), AML_EINPUT);
    assert_string_equal(error.text, "--cross: expected each pair once");
}

/* All 741 pairs are allowed. */
TEST(all_crosses) {
    struct criteo_hash hash = {.bits = 24};
    struct error error = {0};
    size_t used = 0;
    for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
        for (unsigned g = 0; g < f; g++) {
            char one[CRITEO_NAME_MAX];
            char other[CRITEO_NAME_MAX];
            criteo_name(f, one);
            criteo_name(g, other);
            used += (size_t)snprintf(line + used, sizeof line - used, "%s%sx%s", used > 0 ? "," : "", one, other);
        }
    }
    assert_int_equal(criteo_hash_add_crosses(&hash, line, &error), 0);
    assert_int_equal(hash.cross_count, CRITEO_HASH_CROSSES_MAX);
    assert_true(criteo_hash_valid(&hash));
    run_hash(&hash, TEXTS);
    assert_true(features.count > 700 && features.count <= CRITEO_HASH_SLOTS_MAX);
    strcpy(line + used, ",C1xC2");
    hash.cross_count = 0;
    assert_int_equal(criteo_hash_add_crosses(&hash, line, &error), AML_EINPUT);
}
