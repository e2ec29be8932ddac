/* Tests of agileml/net/metadata.h against a server that plays the metadata service, with tokens. */
#include "agileml/net/metadata.h"
#include "tests/test.h"

#include "tests/unit/http_server.h"

#include <unistd.h>

enum { WATCHDOG_S = 60 };

struct fixture {
    struct http *http;
    struct http_server *server;
    struct metadata *metadata;
    /* How the server behaves. */
    unsigned tokens;   /* tokens issued; the newest is "token-TOKENS" */
    unsigned refusals; /* number of documents to refuse with 401 whatever the token */
    int token_status;
    const char *token;       /* replaces "token-N"; NULL: no replacement */
    const char *token_lives; /* value of the header with the token's lifetime */
    unsigned asked;          /* number of requests for documents with a valid token */
    /* The arguments of `done`. */
    unsigned answers;
    enum metadata_result result;
    char body[256];
    int64_t date;
    double seconds_left;
    bool again; /* repeat the request from `done` */
};

static void serve(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    struct fixture *fixture = context;
    char value[1024];
    char wanted[32];
    snprintf(wanted, sizeof wanted, "token-%u", fixture->tokens);
    if (strcmp(request->path, "/deep/latest/api/token") == 0) {
        assert_string_equal(request->method, "PUT");
        assert_string_equal(http_server_header(request, "X-aws-ec2-metadata-token-ttl-seconds", value), "21600");
        fixture->tokens++;
        reply->status = fixture->token_status;
        snprintf(reply->text, sizeof reply->text, "token-%u", fixture->tokens);
        reply->body = fixture->token != NULL ? fixture->token : reply->text;
        snprintf(reply->head, sizeof reply->head, "X-aws-ec2-metadata-token-ttl-seconds: %s\r\n", fixture->token_lives);
        return;
    }
    assert_string_equal(request->method, "GET");
    if (fixture->refusals > 0 || strcmp(http_server_header(request, "X-aws-ec2-metadata-token", value), wanted) != 0) {
        fixture->refusals -= fixture->refusals > 0;
        reply->status = 401;
        return;
    }
    fixture->asked++;
    strcpy(reply->head, "Date: Mon, 20 Nov 2023 10:11:12 GMT\r\n");
    if (strcmp(request->path, "/deep/latest/found") == 0) {
        reply->body = "the document";
    } else if (strcmp(request->path, "/deep/latest/left") == 0) {
        reply->body = "{}";
        strcat(reply->head, "X-Proteus-Seconds-Left: 1.25\r\n");
    } else if (strcmp(request->path, "/deep/latest/nonsense") == 0) {
        reply->body = "{}";
        strcat(reply->head, "X-Proteus-Seconds-Left: soon\r\n");
    } else if (strcmp(request->path, "/deep/latest/silent") == 0) {
        reply->silent = true;
    } else {
        reply->status = atoi(request->path + strlen("/deep/latest/"));
    }
}

static void answered(void *context, const struct metadata_answer *answer) {
    struct fixture *fixture = context;
    fixture->answers++;
    fixture->result = answer->result;
    assert_int_equal(strlen(answer->body), answer->size);
    snprintf(fixture->body, sizeof fixture->body, "%s", answer->body);
    fixture->date = answer->date;
    fixture->seconds_left = answer->seconds_left;
    if (fixture->again) {
        fixture->again = false;
        metadata_get(fixture->metadata, "latest/found", answered, fixture);
    }
}

static void run_until(struct fixture *fixture, unsigned answers) {
    while (fixture->answers < answers) {
        usleep(1000);
        http_step(fixture->http);
    }
}

static enum metadata_result get(struct fixture *fixture, const char *path) {
    unsigned before = fixture->answers;
    metadata_get(fixture->metadata, path, answered, fixture);
    run_until(fixture, before + 1);
    assert_int_equal(fixture->answers, before + 1);
    return fixture->result;
}

static void open_service(struct fixture *fixture, const char *url) {
    struct error error = {0};
    metadata_close(fixture->metadata);
    assert_int_equal(metadata_open(&fixture->metadata, fixture->http, url, &error), 0);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};
    char url[128];
    alarm(WATCHDOG_S);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    fixture->token_status = 200;
    fixture->token_lives = "21600";
    fixture->server = http_server_open(serve, fixture);
    assert_int_equal(http_open(&fixture->http, &error), 0);
    snprintf(url, sizeof url, "%s/deep/", http_server_url(fixture->server));
    open_service(fixture, url);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    FREED struct fixture *fixture = *state;
    metadata_close(fixture->metadata);
    http_close(fixture->http);
    http_server_close(fixture->server);
    return 0;
}

TEST_WITH(documents, set_up, tear_down) {
    struct fixture *fixture = *state;
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND);
    assert_string_equal(fixture->body, "the document");
    assert_true(fixture->date == 1700475072 && fixture->seconds_left < 0);
    assert_int_equal(get(fixture, "latest/404"), METADATA_NOTHING);
    assert_string_equal(fixture->body, "");
    assert_int_equal(get(fixture, "latest/403"), METADATA_OFF);
    assert_int_equal(get(fixture, "latest/500"), METADATA_UNREACHABLE);
    assert_int_equal(get(fixture, "latest/302"), METADATA_UNREACHABLE);
    assert_int_equal(get(fixture, "latest/left"), METADATA_FOUND);
    assert_true(fixture->seconds_left == 1.25);
    assert_int_equal(get(fixture, "latest/nonsense"), METADATA_FOUND);
    assert_true(fixture->seconds_left < 0);
    assert_int_equal(fixture->tokens, 1); /* one token for all requests */
}

TEST_WITH(a_refused_token_is_renewed_once, set_up, tear_down) {
    struct fixture *fixture = *state;
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND);
    fixture->refusals = 1;
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND);
    assert_int_equal(fixture->tokens, 2);
    fixture->refusals = 2;
    assert_int_equal(get(fixture, "latest/found"), METADATA_UNREACHABLE);
    assert_int_equal(fixture->tokens, 3);
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND); /* the next request gets a new token */
}

TEST_WITH(a_token_that_is_used_up, set_up, tear_down) {
    struct fixture *fixture = *state;
    fixture->token_lives = "1"; /* half of it is 0 */
    assert_int_equal(get(fixture, "latest/404"), METADATA_NOTHING);
    assert_int_equal(get(fixture, "latest/404"), METADATA_NOTHING);
    assert_int_equal(fixture->tokens, 2);
    assert_int_equal(fixture->asked, 2);
}

TEST_WITH(no_token, set_up, tear_down) {
    static const char *const tokens[] = {"", "two words", "evil\r\nX-Header: 1"};
    struct fixture *fixture = *state;
    fixture->token_status = 403;
    assert_int_equal(get(fixture, "latest/found"), METADATA_OFF);
    fixture->token_status = 500;
    assert_int_equal(get(fixture, "latest/found"), METADATA_UNREACHABLE);
    fixture->token_status = 404;
    assert_int_equal(get(fixture, "latest/found"), METADATA_UNREACHABLE);
    fixture->token_status = 200;
    for (unsigned i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        fixture->token = tokens[i];
        assert_int_equal(get(fixture, "latest/found"), METADATA_UNREACHABLE);
    }
    assert_int_equal(fixture->asked, 0); /* no document is requested without a token */
    fixture->token = NULL;
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND); /* the failure is not remembered */
}

TEST_WITH(many_share_a_token, set_up, tear_down) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 8; i++) {
        metadata_get(fixture->metadata, "latest/found", answered, fixture);
    }
    run_until(fixture, 8);
    assert_int_equal(fixture->result, METADATA_FOUND);
    assert_int_equal(fixture->tokens, 1);
    /* A callback that gets no token may repeat its request at once; this counts as a new request. */
    fixture->token_status = 500;
    open_service(fixture, "http://127.0.0.1:1");
    fixture->again = true;
    metadata_get(fixture->metadata, "latest/found", answered, fixture);
    run_until(fixture, 10);
    assert_int_equal(fixture->result, METADATA_UNREACHABLE);
}

TEST_WITH(closing_with_calls_under_way, set_up, tear_down) {
    struct fixture *fixture = *state;
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND);
    metadata_get(fixture->metadata, "latest/silent", answered, fixture);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        http_step(fixture->http);
    }
    open_service(fixture, "http://127.0.0.1:1");
    metadata_get(fixture->metadata, "latest/found", answered, fixture); /* waits for a token */
    metadata_close(fixture->metadata);
    fixture->metadata = NULL;
    assert_int_equal(fixture->answers, 1);
}

TEST_WITH(the_environment, set_up, tear_down) {
    static const char *const wrong[] = {"169.254.169.254", "http://",    "http:///x",
                                        "ftp://x",         "http://x y", "http://x?y"};
    struct fixture *fixture = *state;
    struct error error = {0};
    char url[128];
    snprintf(url, sizeof url, "%s/deep", http_server_url(fixture->server));
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url, 1);
    open_service(fixture, NULL);
    assert_int_equal(get(fixture, "latest/found"), METADATA_FOUND);
    setenv("AWS_EC2_METADATA_DISABLED", "TRUE", 1);
    open_service(fixture, NULL);
    metadata_get(fixture->metadata, "latest/found", answered, fixture);
    assert_int_equal(fixture->answers, 2); /* at once */
    assert_int_equal(fixture->result, METADATA_OFF);
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct metadata *metadata;
        error = (struct error){0};
        assert_int_equal(metadata_open(&metadata, fixture->http, wrong[i], &error), AML_EINPUT);
        assert_null(metadata);
    }
}

TEST(actions) {
    static const char *const wrong[] = {"",
                                        "null",
                                        "[]",
                                        "{}",
                                        "<html/>",
                                        "{\"action\":\"terminate\"}",
                                        "{\"time\":\"2017-09-18T08:22:00Z\"}",
                                        "{\"action\":\"dance\",\"time\":\"2017-09-18T08:22:00Z\"}",
                                        "{\"action\":1,\"time\":\"2017-09-18T08:22:00Z\"}",
                                        "{\"action\":\"stop\",\"time\":\"tomorrow\"}",
                                        "{\"action\":\"stop\",\"time\":\"2017-09-18T08:22:00Z\"",
                                        "{\"action\":\"stop\",\"time\":\"1017-09-18T08:22:00Z\"}"};
    static const char good[] = "{\"action\": \"hibernate\", \"time\": \"2017-09-18T08:22:00Z\", \"more\": []}\n";
    struct metadata_action action;
    struct error error = {0};
    assert_int_equal(metadata_parse_action(good, strlen(good), &action, &error), 0);
    assert_string_equal(action.action, "hibernate");
    assert_true(action.time == 1505722920);
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error = (struct error){0};
        assert_int_equal(metadata_parse_action(wrong[i], strlen(wrong[i]), &action, &error), AML_EINPUT);
        assert_int_equal(action.time, 0);
        assert_non_null(strstr(error.text, "expected"));
    }
}
