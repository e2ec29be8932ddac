/* agileml/base/log: levels, the three formats, the journal's priorities, wrong settings, and any text as JSON. */
#include "agileml/base/log.h"
#include "tests/test.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CAUGHT_MAX = 16 * 1024 };

/* While a test logs, standard error goes to a file. */
static int real_stderr;
static FILE *caught_file;

static void catch_begin(void) {
    caught_file = tmpfile();
    assert_non_null(caught_file);
    real_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fileno(caught_file), STDERR_FILENO) >= 0);
}

static void catch_end(char caught[CAUGHT_MAX]) {
    assert_true(dup2(real_stderr, STDERR_FILENO) >= 0);
    close(real_stderr);
    rewind(caught_file);
    caught[fread(caught, 1, CAUGHT_MAX - 1, caught_file)] = '\0';
    fclose(caught_file);
}

static void set(const char *level, const char *format, const char *job) {
    struct error error = {0};
    const struct log_options options = {.level = level, .format = format, .job = job};
    assert_int_equal(log_set_up(&options, &error), 0);
}

static int forget(void **state) {
    unsetenv("PROTEUS_LOG_LEVEL");
    unsetenv("PROTEUS_LOG_FORMAT");
    unsetenv("PROTEUS_LOG_JOB");
    unsetenv("JOURNAL_STREAM");
    log_set_name("mf");
    log_set_node("");
    return 0;
}

static void log_three(void) {
    log_error("e");
    log_warn("w");
    log_info("i");
}

static void test_levels(void **state) {
    static const struct {
        const char *level, *expected;
    } cases[] = {{"error", "mf: error: e\n"},
                 {"warning", "mf: error: e\nmf: warning: w\n"},
                 {NULL, "mf: error: e\nmf: warning: w\n"},
                 {"info", "mf: error: e\nmf: warning: w\nmf: info: i\n"}};
    char caught[CAUGHT_MAX];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        forget(NULL);
        set(cases[c].level, NULL, NULL);
        catch_begin();
        log_three();
        catch_end(caught);
        assert_string_equal(caught, cases[c].expected);
    }
}

static void assert_time(const char *text) {
    static const char form[] = "0000-00-00T00:00:00.000Z";
    for (size_t c = 0; form[c] != '\0'; c++) {
        assert_true(form[c] == '0' ? text[c] >= '0' && text[c] <= '9' : text[c] == form[c]);
    }
}

static void test_text_has_time_job_and_node(void **state) {
    char caught[CAUGHT_MAX];
    set(NULL, "text", "night");
    log_set_node("node-2");
    catch_begin();
    log_warn("careful");
    catch_end(caught);
    assert_time(caught);
    assert_string_equal(caught + 24, " night mf[node-2]: warning: careful\n");
}

static const char *string_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void test_json_has_all(void **state) {
    char caught[CAUGHT_MAX];
    set("info", "json", "a \"job\"");
    log_set_node("node\\2");
    catch_begin();
    log_info("it said \"no\"\nand\033[2J left");
    catch_end(caught);
    json_auto_t *line = json_loads(caught, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(line);
    assert_time(string_of(line, "time"));
    assert_string_equal(string_of(line, "level"), "info");
    assert_string_equal(string_of(line, "job"), "a \"job\"");
    assert_string_equal(string_of(line, "program"), "mf");
    assert_string_equal(string_of(line, "node"), "node\\2");
    assert_string_equal(string_of(line, "message"), "it said \"no\" and?[2J left");
    assert_int_equal(json_object_size(line), 6);
    forget(NULL); /* unknown fields are left out */
    set(NULL, "json", NULL);
    log_set_node("");
    catch_begin();
    log_warn("w");
    catch_end(caught);
    assert_null(strstr(caught, "\"node\""));
}

/* Any bytes in any number give one line of JSON of at most LOG_LINE_MAX bytes. */
static void test_json_takes_every_text(void **state) {
    char caught[CAUGHT_MAX];
    uint64_t random = 7;
    set(NULL, "json", NULL);
    for (unsigned run = 0; run < 2000; run++) {
        char bytes[2 * LOG_TEXT_MAX];
        size_t length = run % (sizeof bytes - 1);
        for (size_t i = 0; i < length; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            unsigned byte = (unsigned)(random >> 48) & 0xFF;
            bytes[i] = (char)((random >> 60) < 4 ? '"' : (random >> 60) < 6 ? '\\' : byte > 0 ? byte : 1);
        }
        bytes[length] = '\0';
        catch_begin();
        log_error("%s", bytes);
        catch_end(caught);
        json_auto_t *line = json_loads(caught, 0, NULL);
        if (line == NULL || strlen(caught) > LOG_LINE_MAX || strchr(caught, '\n') != caught + strlen(caught) - 1) {
            fail_msg("not one line of JSON: %s", caught);
        }
        const char *message = string_of(line, "message");
        size_t shown = strlen(message);
        assert_true(length < LOG_TEXT_MAX ? shown == length
                                          : shown == LOG_TEXT_MAX - 1 && strcmp(message + shown - 3, "...") == 0);
    }
}

/* JOURNAL_STREAM names the device and inode of standard error if it goes to the journal. */
static void test_the_journal_gets_priorities(void **state) {
    char caught[CAUGHT_MAX];
    char stream[64];
    struct stat status;
    catch_begin();
    assert_int_equal(fstat(STDERR_FILENO, &status), 0);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    set("info", "text", "night");
    log_three();
    setenv("JOURNAL_STREAM", "1:2", 1); /* the parent's stream, but standard error was redirected */
    set("error", "text", "night");
    log_error("last");
    catch_end(caught);
    static const char expected[] = "<3>night mf: error: e\n<4>night mf: warning: w\n<6>night mf: info: i\n";
    assert_memory_equal(caught, expected, strlen(expected));
    assert_time(caught + strlen(expected));
}

/* Options override the environment, and child processes inherit them. */
static void test_options_and_environment(void **state) {
    struct error error = {0};
    setenv("PROTEUS_LOG_LEVEL", "info", 1);
    setenv("PROTEUS_LOG_FORMAT", "json", 1);
    set("error", NULL, "night");
    assert_string_equal(getenv("PROTEUS_LOG_LEVEL"), "error");
    assert_string_equal(getenv("PROTEUS_LOG_FORMAT"), "json");
    assert_string_equal(getenv("PROTEUS_LOG_JOB"), "night");
    setenv("PROTEUS_LOG_LEVEL", "", 1); /* as if not set */
    assert_int_equal(log_set_up(NULL, &error), 0);
    setenv("PROTEUS_LOG_LEVEL", "loud", 1);
    assert_int_equal(log_set_up(NULL, &error), AML_EINPUT);
    assert_string_equal(error.text,
                        "PROTEUS_LOG_LEVEL in the environment: expected error, warning or info, got 'loud'");
    const struct log_options wrong[] = {{.level = "Info"}, {.format = "xml"}, {.format = ""}, {.job = ""}};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        error = (struct error){0};
        unsetenv("PROTEUS_LOG_LEVEL");
        assert_int_equal(log_set_up(&wrong[w], &error), AML_EINPUT);
        assert_memory_equal(error.text, "--log-", strlen("--log-"));
    }
}

static void test_frames_of_signal_handlers(void **state) {
    char before[LOG_FRAME_MAX];
    char behind[LOG_FRAME_MAX];
    char whole[2 * LOG_FRAME_MAX + 8];
    set(NULL, "json", NULL);
    log_set_node("node-2");
    log_frame(before, behind);
    snprintf(whole, sizeof whole, "%scrash%s", before, behind);
    assert_string_equal(whole, "{\"level\":\"error\",\"program\":\"mf\",\"node\":\"node-2\",\"message\":\"crash\"}");
    forget(NULL);
    set(NULL, NULL, NULL);
    log_frame(before, behind);
    assert_string_equal(before, "mf: error: ");
    assert_string_equal(behind, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_levels, forget),
        cmocka_unit_test_setup(test_text_has_time_job_and_node, forget),
        cmocka_unit_test_setup(test_json_has_all, forget),
        cmocka_unit_test_setup(test_json_takes_every_text, forget),
        cmocka_unit_test_setup(test_the_journal_gets_priorities, forget),
        cmocka_unit_test_setup(test_options_and_environment, forget),
        cmocka_unit_test_setup(test_frames_of_signal_handlers, forget),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
