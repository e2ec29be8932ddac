#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COMMAND_MAX = 4096 };

static char build[512]; /* the build folder */

int shell_open(void **state) {
    if (files_open(state) != 0) {
        return -1;
    }
    const char *bin = getenv("PROTEUS_BIN");
    snprintf(build, sizeof build, "%.*s", (int)(strrchr(bin, '/') - bin), bin);
    return 0;
}

int shell_open_with_ratings(void **state) {
    if (shell_open(state) != 0) {
        return -1;
    }
    return run("for u in 1 2 3 4 5; do for i in 1 2 3 4; do echo $u,$i,$(((u * i) %% 5 + 1)); done; done >ratings.csv");
}

bool sanitized(void) {
    return getenv("PROTEUS_SANITIZED") != NULL;
}

void skip_sanitized(void) {
    if (sanitized()) {
        skip();
    }
}

bool only_threads(void) {
    return sanitized() && strcmp(getenv("PROTEUS_SANITIZED"), "thread") == 0;
}

static int run_line(const char *command) {
    char line[2 * COMMAND_MAX];
    snprintf(line, sizeof line,
             "bin=%s/bin tests=%s/tests examples=%s/examples run=\"%s/bin/proteus run --report report\" && "
             "{ %s ; } >out 2>err",
             build, build, build, build, command);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(const char *format, ...) {
    char command[COMMAND_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_true(size >= 0 && size < COMMAND_MAX);
    return run_line(command);
}

void run_well(const char *format, ...) {
    char command[COMMAND_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_true(size >= 0 && size < COMMAND_MAX);
    int status = run_line(command);
    if (status != 0) {
        fail_msg("status %d: %.500s, of '%s'", status, read_text("err"), command); /* cmocka prints 1,024 bytes */
    }
    assert_no_text("err", "Sanitizer:"); /* of a node whose failure the job survived */
}

void run_refused(const char *command, const char *message) {
    int status = run_line(command);
    FREED char *error = read_text("err");
    if (status != 2 || strstr(error, message) == NULL) {
        fail_msg("'%s' ended with status %d: '%s', expected '%s'; it printed '%s'", command, status, error, message,
                 read_text("out"));
    }
}

double summary(const char *key) {
    FREED char *text = read_text("report");
    char *last = strrchr(text, '{');
    assert_non_null(last);
    json_auto_t *line = json_loads(last, 0, NULL);
    assert_non_null(line);
    assert_string_equal(json_string_value(json_object_get(line, "type")), "summary");
    assert_true(json_is_true(json_object_get(line, "ok")));
    const json_t *value = json_object_get(line, key);
    assert_true(json_is_number(value));
    double number = json_number_value(value);
    return number;
}

static double number_in(const json_t *line, const char *key) {
    return json_number_value(json_object_get(line, key));
}

static bool is_of_type(const json_t *line, const char *type) {
    const char *own = json_string_value(json_object_get(line, "type"));
    return own != NULL && strcmp(own, type) == 0;
}

bool whole_metric(const char *name, unsigned iteration, const char *key, double *value) {
    FREED char *text = read_text(name);
    char *rest = NULL;
    bool found = false;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && !found; line = strtok_r(NULL, "\n", &rest)) {
        json_auto_t *object = json_loads(line, 0, NULL);
        found = is_of_type(object, "iteration") && number_in(object, "iteration") == iteration &&
                json_object_get(object, "partial") == NULL && json_is_number(json_object_get(object, key));
        *value = found ? number_in(object, key) : *value;
    }
    return found;
}

unsigned check_iterations(double items) {
    FREED char *text = read_text("report");
    char *rest = NULL;
    unsigned partial = 0;
    double iterations = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        json_auto_t *object = json_loads(line, 0, NULL);
        double covered = json_object_get(object, "partial") != NULL ? number_in(object, "partial") : 1;
        if (is_of_type(object, "iteration")) {
            iterations++;
            partial += covered < 1 ? 1 : 0;
            double share = number_in(object, "items") / items;
            if (share > 1 || covered > share + 1e-8 || covered < 0 || (covered < share - 1e-8 && covered == 1)) {
                fail_msg("of %.0f items: %s", items, line);
            }
        }
    }
    assert_true(iterations > 0 && summary("iterations") == iterations);
    assert_true(summary("items_processed") == iterations * items);
    return partial;
}
