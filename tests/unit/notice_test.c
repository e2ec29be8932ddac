/* Tests of workers/process/notice.h with an event loop like a node's, and a server that plays the metadata service
 * by a script: its answers depend on the number of polls. Each script ends with an answer that calls a hook, which
 * ends the loop. */
#include "tests/files.h"
#include "tests/test.h"
#include "workers/process/notice.h"

#include "tests/unit/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

enum { WATCHDOG_S = 60, POLL_MS = 10, CALLS_MAX = 8 };

#define IN_100_S "{\"action\":\"terminate\",\"time\":\"2023-11-20T10:12:52Z\"}"
#define IN_10_S  "{\"action\":\"stop\",\"time\":\"2023-11-20T10:11:22Z\"}"

struct script {
    const char *actions[CALLS_MAX]; /* answer to each poll; NULL: 404; the last is repeated */
    const char *rebalance;          /* NULL: 404 */
    const char *left;               /* value of the header; NULL: no header */
    int token_status;
};

struct fixture {
    struct net *net;
    struct net_io *io;
    struct http_server *server;
    struct notice *notice;
    struct script script;
    unsigned polls, rebalances; /* requests that the server has seen */
    unsigned leaves, recommendations, warnings;
    unsigned leaves_wanted, recommendations_wanted, warnings_wanted; /* number of calls that ends the loop */
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
        reply->status = 500; /* no other path is requested */
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

static void receive(void *self, actor_id from, struct message *message) {}

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
    FREED struct fixture *fixture = *state;
    notice_close(fixture->notice);
    net_io_close(fixture->io);
    net_close(fixture->net);
    http_server_close(fixture->server);
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

/* A notice is reported once, and again if it leaves less time. */
TEST_WITH(a_notice, set_up, tear_down) {
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

TEST_WITH(a_longer_notice_does_not_count, set_up, tear_down) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {IN_10_S, IN_100_S, IN_100_S, "?"}, .token_status = 200};
    fixture->leaves_wanted = fixture->warnings_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->left_ms[0], 10000);
}

/* spotmarket's time runs faster than real time. */
TEST_WITH(seconds_that_are_left, set_up, tear_down) {
    struct fixture *fixture = *state;
    fixture->script.actions[0] = IN_100_S;
    fixture->script.left = "0.75";
    fixture->leaves_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->left_ms[0], 750);
}

TEST_WITH(a_recommendation, set_up, tear_down) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {NULL, NULL, NULL, NULL, IN_10_S}, .token_status = 200};
    fixture->script.rebalance = "{\"noticeTime\":\"2023-11-20T10:11:00Z\"}";
    fixture->leaves_wanted = fixture->recommendations_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->rebalances, 1); /* requested until it is there */
}

TEST_WITH(an_answer_that_is_none, set_up, tear_down) {
    struct fixture *fixture = *state;
    fixture->script = (struct script){.actions = {"<html>", "<html>", "{}", NULL, IN_10_S}, .token_status = 200};
    fixture->leaves_wanted = fixture->warnings_wanted = 1;
    run(fixture);
    assert_int_equal(fixture->polls, 5);
}

TEST_WITH(a_service_that_is_off, set_up, tear_down) {
    struct fixture *fixture = *state;
    fixture->script.token_status = 403;
    fixture->warnings_wanted = 1;
    run(fixture);
    assert_non_null(strstr(fixture->text, "switched off"));
    assert_int_equal(fixture->polls, 0);
}

TEST_WITH(a_service_that_is_silent, set_up, tear_down) {
    struct fixture *fixture = *state;
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    fixture->warnings_wanted = 1;
    run(fixture);
    assert_non_null(strstr(fixture->text, "does not answer"));
}

TEST_WITH(a_wrong_endpoint, set_up, tear_down) {
    struct fixture *fixture = *state;
    struct error error = {0};
    const struct notice_hooks hooks = {.leave = leave, .rebalance = rebalance, .warn = warn, .context = fixture};
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "nonsense", 1);
    assert_int_equal(notice_open(&fixture->notice, fixture->io, POLL_MS, &hooks, &error), AML_EINPUT);
    assert_null(fixture->notice);
}

TEST(where_notices_are_likely) {
    static const struct {
        const char *name, *text;
        bool likely;
    } cases[] = {
        {"class/dmi/id/sys_vendor", "Amazon EC2\n", true},    {"class/dmi/id/sys_vendor", "Dell Inc.\n", false},
        {"class/dmi/id/bios_version", "4.11.amazon\n", true}, {"class/dmi/id/bios_version", "1.0\n", false},
        {"hypervisor/uuid", "ec2abcde-0000\n", true},         {"hypervisor/uuid", "12345678-0ec2\n", false},
    };
    assert_int_equal(files_open(state), 0);
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    assert_false(notice_is_likely("."));
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(cases[i].name, cases[i].text);
        assert_int_equal(notice_is_likely("."), cases[i].likely);
        assert_int_equal(remove(cases[i].name), 0);
    }
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    assert_true(notice_is_likely("."));
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    assert_false(notice_is_likely("."));
    assert_int_equal(files_close(state), 0);
}
