/* Tests of workers/notice.h: the loop that a node has, and a server that plays the metadata service by a script:
 * what it answers depends on how many polls came before. Each script ends with something that a hook hears, which
 * ends the loop. */
#include "workers/notice.h"

#include "tests/unit/http_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { WATCHDOG_S = 60, POLL_MS = 10, CALLS_MAX = 8 };

#define IN_100_S "{\"action\":\"terminate\",\"time\":\"2023-11-20T10:12:52Z\"}"
#define IN_10_S  "{\"action\":\"stop\",\"time\":\"2023-11-20T10:11:22Z\"}"

struct script {
    const char *actions[CALLS_MAX]; /* of each poll; NULL: 404. The last one goes on */
    const char *rebalance;          /* NULL: 404 */
    const char *left;               /* header; NULL: none */
    int token_status;
};

struct fixture {
    struct net *net;
    struct net_io *io;
    struct http_server *server;
    struct notice *notice;
    struct script script;
    unsigned polls, rebalances; /* that the server saw */
    unsigned leaves, recommendations, warnings;
    unsigned leaves_wanted, recommendations_wanted, warnings_wanted; /* so many end the loop */
    uint32_t left_ms[CALLS_MAX];
    char text[NOTICE_TEXT_MAX];
};

static void serve(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    struct fixture *fixture = context;
    const struct script *script = &fixture->script;
    strcpy(reply->head, "Date: Mon, 20 Nov 2023 10:11:12 GMT\r\n");
    if (strcmp(request->path, "/latest/api/token") == 0) {
        reply->status = script->token_status;
        reply->body = "a-token";
    } else if (strcmp(request->path, "/latest/meta-data/spot/instance-action") == 0) {
        unsigned poll = fixture->polls++;
        const char *action = script->actions[poll < CALLS_MAX ? poll : CALLS_MAX - 1];
        reply->status = action != NULL ? 200 : 404;
        reply->body = action != NULL ? action : "";
        if (script->left != NULL) {
            snprintf(reply->head, sizeof reply->head, "X-Proteus-Seconds-Left: %s\r\n", script->left);
        }
    } else if (strcmp(request->path, "/latest/meta-data/events/recommendations/rebalance") == 0) {
        fixture->rebalances++;
        reply->status = script->rebalance != NULL ? 200 : 404;
        reply->body = script->rebalance != NULL ? script->rebalance : "";
    } else {
        reply->status = 500; /* nothing else is asked for */
    }
}

/* ---- Hooks ---- */

static void stop_when_done(struct fixture *fixture) {
    if (fixture->leaves == fixture->leaves_wanted && fixture->recommendations == fixture->recommendations_wanted &&
        fixture->warnings == fixture->warnings_wanted) {
        net_io_stop(fixture->io);
    }
}

static void leave(void *context, uint32_t left_ms, const char *text) {
    struct fixture *fixture = context;
    assert_true(fixture->leaves < CALLS_MAX);
    fixture->left_ms[fixture->leaves++] = left_ms;
    snprintf(fixture->text, sizeof fixture->text, "%s", text);
    stop_when_done(fixture);
}

static void rebalance(void *context, const char *text) {
    struct fixture *fixture = context;
    fixture->recommendations++;
    assert_non_null(strstr(text, "recommends"));
    stop_when_done(fixture);
}

static void warn(void *context, const char *text) {
    struct fixture *fixture = context;
    fixture->warnings++;
    snprintf(fixture->text, sizeof fixture->text, "%s", text);
    stop_when_done(fixture);
}

/* ---- Fixture ---- */

static void receive(void *self, actor_id from, struct message *message) {
    (void)self;
    (void)from;
    (void)message;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};
    alarm(WATCHDOG_S);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    fixture->script.token_status = 200;
    fixture->server = http_server_open(serve, fixture);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_server_url(fixture->server), 1);
    assert_int_equal(net_open(&fixture->net, &(struct net_options){0}, &error), 0);
    struct net_io_options options = {.self = UINT64_C(0x10000), .actor = {.receive = receive}};
    assert_int_equal(net_io_open(&fixture->io, fixture->net, &options, &error), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    notice_close(fixture->notice);
    net_io_close(fixture->io);
    net_close(fixture->net);
    http_server_close(fixture->server);
    free(fixture);
    return 0;
}

static void run(struct fixture *fixture) {
    struct error error = {0};
    const struct notice_hooks hooks = {.leave = leave, .rebalance = rebalance, .warn = warn, .context = fixture};
    assert_int_equal(notice_open(&fixture->notice, fixture->io, POLL_MS, &hooks, &error), 0);
    assert_int_equal(net_io_run(fixture->io, &error), 0);
    assert_int_equal(fixture->leaves, fixture->leaves_wanted);
    assert_int_equal(fixture->recommendations, fixture->recommendations_wanted);
    assert_int_equal(fixture->warnings, fixture->warnings_wanted);
}

/* ---- Tests ---- */

/* The same notice is told once; one that leaves less time again. */
static void test_a_notice(void **state) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {NULL, NULL, IN_100_S, IN_100_S, IN_100_S, IN_10_S, IN_10_S, IN_10_S},
                                      .token_status = 200};
    fixture->leaves_wanted = 2;
    run(fixture);
    assert_int_equal(fixture->left_ms[0], 100000); /* by the service's clock */
    assert_int_equal(fixture->left_ms[1], 10000);
    assert_int_equal(fixture->polls, 6);
    assert_int_equal(fixture->rebalances, 5);
    assert_non_null(strstr(fixture->text, "in 10 s (stop)"));
}

static void test_a_longer_notice_does_not_count(void **state) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {IN_10_S, IN_100_S, IN_100_S, "?"}, .token_status = 200};
    fixture->leaves_wanted = fixture->warnings_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->left_ms[0], 10000);
}

/* spotmarket's time runs faster than the clock. */
static void test_seconds_that_are_left(void **state) {
    struct fixture *fixture = *state;
    fixture->script.actions[0] = IN_100_S;
    fixture->script.left = "0.75";
    fixture->leaves_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->left_ms[0], 750);
}

static void test_a_recommendation(void **state) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {NULL, NULL, NULL, NULL, IN_10_S}, .token_status = 200};
    fixture->script.rebalance = "{\"noticeTime\":\"2023-11-20T10:11:00Z\"}";
    fixture->leaves_wanted = fixture->recommendations_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->rebalances, 1); /* asked for until it is there */
}

static void test_an_answer_that_is_none(void **state) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {"<html>", "<html>", "{}", NULL, IN_10_S}, .token_status = 200};
    fixture->leaves_wanted = fixture->warnings_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->polls, 5);
}

static void test_a_service_that_is_off(void **state) {
    struct fixture *fixture = *state;
    fixture->script.token_status = 403;
    fixture->warnings_wanted = 1;
    run(fixture);
    assert_non_null(strstr(fixture->text, "switched off"));
    assert_int_equal(fixture->polls, 0);
}

static void test_a_service_that_is_silent(void **state) {
    struct fixture *fixture = *state;
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    fixture->warnings_wanted = 1;
    run(fixture);
    assert_non_null(strstr(fixture->text, "does not answer"));
}

static void test_a_wrong_endpoint(void **state) {
    struct fixture *fixture = *state;
    struct error error = {0};
    const struct notice_hooks hooks = {.leave = leave, .rebalance = rebalance, .warn = warn, .context = fixture};
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "nonsense", 1);
    assert_int_equal(notice_open(&fixture->notice, fixture->io, POLL_MS, &hooks, &error), AML_EINPUT);
    assert_null(fixture->notice);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    if (text == NULL) {
        assert_int_equal(remove(path), 0);
        return;
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_where_notices_are_likely(void **state) {
    static const struct {
        const char *name, *text;
        bool likely;
    } cases[] = {
        {"class/dmi/id/sys_vendor", "Amazon EC2\n", true},    {"class/dmi/id/sys_vendor", "Dell Inc.\n", false},
        {"class/dmi/id/bios_version", "4.11.amazon\n", true}, {"class/dmi/id/bios_version", "1.0\n", false},
        {"hypervisor/uuid", "ec2abcde-0000\n", true},         {"hypervisor/uuid", "12345678-0ec2\n", false},
    };
    (void)state;
    char folder[] = "/tmp/notice-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    assert_false(notice_is_likely(folder));
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(folder, cases[i].name, cases[i].text);
        assert_int_equal(notice_is_likely(folder), cases[i].likely);
        write_file(folder, cases[i].name, NULL);
    }
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    assert_true(notice_is_likely(folder));
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_false(notice_is_likely(folder));
    static const char *const folders[] = {"class/dmi/id", "class/dmi", "class", "hypervisor", "."};
    for (unsigned i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        (void)remove(strcmp(folders[i], ".") == 0 ? folder : path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_notice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_longer_notice_does_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seconds_that_are_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_recommendation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_answer_that_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_service_that_is_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_service_that_is_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wrong_endpoint, set_up, tear_down),
        cmocka_unit_test(test_where_notices_are_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
