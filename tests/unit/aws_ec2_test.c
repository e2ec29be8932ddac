/* bidbrain/cloud/aws/ec2 against a server that fails in every way: which calls are retried, which are never sent
 * again, which errors are reported. No text contains a secret. */

#include "bidbrain/cloud/aws/ec2.h"
#include "tests/test.h"
#include "tests/unit/fake_ec2.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define TOKEN  "session/token==secret"
#define ERROR_BODY(code)                                                                                               \
    "<Response><Errors><Error><Code>" code                                                                             \
    "</Code><Message>because</Message></Error></Errors><RequestID>r-1</RequestID>"                                     \
    "</Response>"
#define TAGS_BODY                                                                                                      \
    "<CreateTagsResponse xmlns='http://ec2.amazonaws.com/doc/2016-11-15/'><return>true</return></CreateTagsResponse>"
#define RUN_BODY                                                                                                       \
    "<RunInstancesResponse><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet></"                   \
    "RunInstancesResponse>"

static struct fake_ec2 *fake;

static int set_up(void **state) {
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    setenv("AWS_SESSION_TOKEN", TOKEN, 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    unsetenv("AWS_PROFILE");
    unsetenv("AWS_REGION");
    unsetenv("AWS_DEFAULT_REGION");
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_EC2");
    setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    fake = fake_ec2_open();
    return 0;
}

static int tear_down(void **state) {
    fake_ec2_close(fake);
    return 0;
}

static struct ec2 *opened(unsigned attempts) {
    struct ec2 *ec2 = NULL;
    struct error error = {0};
    const struct ec2_options options = {
        .region = "us-east-1", .endpoint = fake_ec2_url(fake), .attempts = attempts, .delay_ms = 1, .timeout_ms = 3000};
    if (ec2_open(&ec2, &options, &error) != 0) {
        fail_msg("%s", error.text);
    }
    return ec2;
}

struct heard {
    int count;
    bool ok, refused;
    char root[64], id[32];
    struct ec2_failure failure;
};

static void hear(void *context, const struct ec2_answer *answer) {
    struct heard *heard = context;
    heard->count++;
    heard->ok = answer->failure == NULL;
    heard->refused = answer->refused;
    heard->failure = heard->ok ? (struct ec2_failure){0} : *answer->failure;
    snprintf(heard->root, sizeof heard->root, "%s", xml_element_name(answer->root));
    snprintf(heard->id, sizeof heard->id, "%s", xml_text_at(answer->root, "instancesSet/item/instanceId"));
    const char *texts[] = {heard->failure.text, heard->failure.code, heard->failure.request_id};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_null(strstr(texts[i], SECRET));
        assert_null(strstr(texts[i], TOKEN));
        assert_null(strstr(texts[i], "AWS4"));
    }
}

static void run_until(struct ec2 *ec2, const int *count, int wanted) {
    for (int turns = 0; *count < wanted; turns++) {
        assert_true(turns < 200000);
        struct pollfd waiting = {.fd = ec2_fd(ec2), .events = POLLIN};
        int wait_ms = ec2_wait_ms(ec2);
        (void)poll(&waiting, 1, wait_ms < 0 || wait_ms > 1000 ? 1000 : wait_ms);
        ec2_step(ec2);
    }
}

static struct ec2_request *tags_request(void) {
    struct ec2_request *request = ec2_request_new("CreateTags");
    ec2_set(request, "i-1", "ResourceId.1");
    return request;
}

/* Sends the call that the first reply's action names. */
static struct heard heard_of(const struct fake_reply *replies, size_t count, unsigned attempts) {
    struct heard heard = {0};
    struct ec2 *ec2 = opened(attempts);
    struct ec2_request *request;
    fake_ec2_script(fake, replies, count);
    if (strcmp(replies[0].action, "RunInstances") == 0) {
        request = ec2_request_new("RunInstances");
        ec2_set(request, "token-1", "ClientToken");
    } else {
        request = tags_request();
    }
    ec2_start(ec2, request, hear, &heard);
    run_until(ec2, &heard.count, 1);
    ec2_close(ec2);
    assert_int_equal(fake_ec2_left(fake), 0);
    assert_int_equal(fake_ec2_asked(fake, NULL), count); /* no attempt too many */
    fake_ec2_wait(fake);
    return heard;
}

TEST(requests_are_signed) {
    static const struct fake_reply replies[] = {{.action = "CreateTags", .status = 200, .body = TAGS_BODY}};
    struct heard heard = heard_of(replies, 1, 1);
    assert_true(heard.ok);
    assert_string_equal(heard.root, "CreateTagsResponse");
    const char *head = fake_ec2_head(fake, NULL, 0);
    assert_non_null(strstr(head, "POST / HTTP/1.1\r\n"));
    assert_non_null(strstr(head, "\r\ncontent-type: application/x-www-form-urlencoded; charset=utf-8\r\n"));
    assert_non_null(strstr(head, "\r\nx-amz-security-token: " TOKEN "\r\n"));
    assert_non_null(strstr(head, "\r\nauthorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
    assert_non_null(strstr(head, "/us-east-1/ec2/aws4_request, SignedHeaders=amz-sdk-invocation-id;content-type;host;"
                                 "x-amz-date;x-amz-security-token, Signature="));
    char host[100];
    snprintf(host, sizeof host, "\r\nhost: %s\r\n", fake_ec2_url(fake) + strlen("http://"));
    assert_non_null(strcasestr(head, host));
    assert_null(strstr(head, SECRET));
    assert_string_equal(fake_ec2_form(fake, NULL, 0), "Action=CreateTags&Version=2016-11-15&ResourceId.1=i-1");
}

TEST(what_may_pass_is_tried_again) {
    static const struct fake_reply failures[] = {
        {.action = "RunInstances", .status = 0},
        {.action = "RunInstances", .status = -1}, /* times out */
        {.action = "RunInstances", .status = 500, .body = ERROR_BODY("InternalError")},
        {.action = "RunInstances", .status = 503, .body = ERROR_BODY("Unavailable")},
        {.action = "RunInstances", .status = 503, .body = ERROR_BODY("RequestLimitExceeded")},
        {.action = "RunInstances", .status = 400, .body = ERROR_BODY("Throttling")},
        {.action = "RunInstances", .status = 429, .body = ""},
        {.action = "RunInstances", .status = 408, .body = ""},
        {.action = "RunInstances", .status = 502, .body = "<html><body>Bad<br></body></html>"},
        {.action = "RunInstances", .status = 200, .body = "<html><body>portal</body></html>"},
        {.action = "RunInstances", .status = 200, .body = "<RunInstancesResponse><instancesSet>"},
        {.action = "RunInstances", .status = 200, .body = RUN_BODY, .cut = 20},
        {.action = "RunInstances", .status = 200, .body = ""},
        {.action = "RunInstances", .status = 400, .body = ERROR_BODY("RequestExpired")},
        {.action = "RunInstances", .status = 400, .body = ERROR_BODY("ExpiredToken")},
        {.action = "RunInstances", .status = 403, .body = ERROR_BODY("ExpiredTokenException")},
    };
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const struct fake_reply replies[] = {failures[i], {.action = "RunInstances", .status = 200, .body = RUN_BODY}};
        struct heard heard = heard_of(replies, 2, 4);
        assert_true(heard.ok);
        assert_string_equal(heard.id, "i-1");
        /* The retry repeats the call with the same token and a new signature. */
        assert_string_equal(fake_ec2_form(fake, NULL, 0), fake_ec2_form(fake, NULL, 1));
        assert_non_null(strstr(fake_ec2_form(fake, NULL, 1), "&ClientToken=token-1"));
    }
}

TEST(attempts_end) {
    static const struct fake_reply lost[] = {
        {.action = "RunInstances", .status = 0},
        {.action = "RunInstances", .status = 503, .body = ERROR_BODY("Unavailable")},
        {.action = "RunInstances", .status = 0}};
    struct heard heard = heard_of(lost, 3, 3);
    assert_false(heard.ok || heard.refused); /* the launch may have been carried out */
    assert_int_equal(heard.failure.status, 0);
    assert_string_not_equal(heard.failure.text, "");
    static const struct fake_reply throttled[] = {
        {.action = "CreateTags", .status = 503, .body = ERROR_BODY("RequestLimitExceeded")},
        {.action = "CreateTags", .status = 503, .body = ERROR_BODY("EC2ThrottledException")}};
    heard = heard_of(throttled, 2, 2);
    assert_false(heard.ok || heard.refused);
    assert_string_equal(heard.failure.code, "EC2ThrottledException");
    static const struct fake_reply html[] = {{.action = "CreateTags", .status = 502, .body = "<html>"}};
    heard = heard_of(html, 1, 1);
    assert_string_equal(heard.failure.code, "");
    assert_int_equal(heard.failure.status, 502);
}

TEST(gigantic_answers_are_broken_off) {
    size_t size = XML_TREE_BODY_MAX + 1000;
    FREED char *body = malloc(size + 1);
    memset(body, ' ', size);
    memcpy(body, "<CreateTagsResponse>", 20);
    body[size] = '\0';
    const struct fake_reply replies[] = {{.action = "CreateTags", .status = 200, .body = body},
                                         {.action = "CreateTags", .status = 500, .body = body}};
    struct heard heard = heard_of(replies, 2, 2);
    assert_false(heard.ok || heard.refused);
    assert_int_equal(heard.failure.status, 0);
    assert_non_null(strstr(heard.failure.text, "too large"));
}

TEST(refusals_are_told_at_once) {
    static const struct fake_reply refusals[] = {
        {.action = "RunInstances", .status = 400, .body = ERROR_BODY("SpotMaxPriceTooLow")},
        {.action = "RunInstances", .status = 400, .body = ERROR_BODY("IdempotentParameterMismatch")},
        {.action = "RunInstances", .status = 400, .body = ERROR_BODY("InvalidParameterValue")},
        {.action = "RunInstances", .status = 403, .body = ERROR_BODY("UnauthorizedOperation")},
        {.action = "RunInstances", .status = 401, .body = ERROR_BODY("AuthFailure")},
        {.action = "RunInstances", .status = 403, .body = ERROR_BODY("SignatureDoesNotMatch")},
        {.action = "RunInstances", .status = 500, .body = ERROR_BODY("InsufficientInstanceCapacity")},
        {.action = "RunInstances", .status = 503, .body = ERROR_BODY("InsufficientHostCapacity")},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct heard heard = heard_of(&refusals[i], 1, 5);
        assert_true(!heard.ok && heard.refused);
        assert_non_null(strstr(refusals[i].body, heard.failure.code));
        assert_string_equal(heard.failure.request_id, "r-1");
    }
    /* A proxy's 403 is reported at once, but does not prove that earlier attempts failed. */
    static const struct fake_reply proxy = {.action = "RunInstances", .status = 403, .body = "<html>blocked</html>"};
    struct heard heard = heard_of(&proxy, 1, 5);
    assert_false(heard.ok || heard.refused);
}

TEST(a_lost_answer_leaves_a_doubt) {
    static const struct fake_reply no_right[] = {
        {.action = "RunInstances", .status = 0},
        {.action = "RunInstances", .status = 403, .body = ERROR_BODY("AuthFailure")}};
    struct heard heard = heard_of(no_right, 2, 5);
    assert_false(heard.ok || heard.refused);
    /* EC2's own error carries the token: the launch was not carried out. */
    static const struct fake_reply no_capacity[] = {
        {.action = "RunInstances", .status = 0},
        {.action = "RunInstances", .status = 500, .body = ERROR_BODY("InsufficientInstanceCapacity")}};
    heard = heard_of(no_capacity, 2, 5);
    assert_true(heard.refused);
}

/* x-amz-date of the nth request, seconds since 1970. */
static int64_t signed_at(size_t n) {
    struct tm parts = {0};
    const char *at = strstr(fake_ec2_head(fake, NULL, n), "\r\nx-amz-date: ");
    assert_non_null(at);
    assert_non_null(strptime(at + strlen("\r\nx-amz-date: "), "%Y%m%dT%H%M%SZ", &parts));
    return timegm(&parts);
}

TEST(a_wrong_clock_is_corrected) {
    static const char *const codes[] = {ERROR_BODY("RequestExpired"), ERROR_BODY("SignatureDoesNotMatch"),
                                        ERROR_BODY("AuthFailure"), ERROR_BODY("RequestTimeTooSkewed")};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        int64_t off = i % 2 == 0 ? 3600 : -7200;
        const struct fake_reply replies[] = {{.action = "CreateTags", .status = 400, .body = codes[i], .clock = off},
                                             {.action = "CreateTags", .status = 200, .body = TAGS_BODY, .clock = off}};
        assert_true(heard_of(replies, 2, 5).ok);
        int64_t moved = signed_at(1) - signed_at(0);
        assert_in_range(moved - off + 100, 0, 200);
    }
    /* A request with a corrected clock is refused too: the clock was not the cause. */
    static const struct fake_reply replies[] = {
        {.action = "CreateTags", .status = 403, .body = ERROR_BODY("SignatureDoesNotMatch"), .clock = 3600},
        {.action = "CreateTags", .status = 403, .body = ERROR_BODY("SignatureDoesNotMatch"), .clock = 3600}};
    struct heard heard = heard_of(replies, 2, 5);
    assert_true(heard.refused);
    assert_string_equal(heard.failure.text, "the signature was not accepted");
}

TEST(many_calls_are_answered_each) {
    static struct fake_reply replies[60];
    struct heard heard[60] = {{0}};
    int count = 0;
    struct ec2 *ec2 = opened(3);
    for (size_t i = 0; i < 60; i++) {
        replies[i] = (struct fake_reply){.action = "CreateTags", .status = 200, .body = TAGS_BODY};
    }
    fake_ec2_script(fake, replies, 60);
    for (size_t i = 0; i < 60; i++) {
        ec2_start(ec2, tags_request(), hear, &heard[i]);
    }
    while (count < 60) {
        run_until(ec2, &heard[count].count, 1);
        count++;
    }
    for (size_t i = 0; i < 60; i++) {
        assert_true(heard[i].ok && heard[i].count == 1);
    }
    ec2_close(ec2);
}

TEST(dropped_calls_are_not_told) {
    struct heard heard = {0};
    struct ec2 *ec2 = opened(3);
    fake_ec2_script(fake, NULL, 0);
    ec2_start(ec2, tags_request(), hear, &heard);
    ec2_step(ec2);
    ec2_start(ec2, tags_request(), hear, &heard);
    ec2_close(ec2);
    assert_int_equal(heard.count, 0);
    ec2_close(NULL);
}

static void assert_open_fails(const char *region, const char *endpoint, const char *message) {
    struct ec2 *ec2 = NULL;
    struct error error = {0};
    const struct ec2_options options = {.region = region, .endpoint = endpoint};
    assert_int_equal(ec2_open(&ec2, &options, &error), AML_EINPUT);
    assert_null(ec2);
    assert_non_null(strstr(error.text, message));
}

TEST(endpoints_come_in_order) {
    struct ec2 *ec2 = NULL;
    struct ec2_options options = {.region = "cn-north-1"};
    assert_int_equal(ec2_open(&ec2, &options, NULL), 0);
    assert_string_equal(ec2_endpoint(ec2), "https://ec2.cn-north-1.amazonaws.com.cn/");
    ec2_close(ec2);
    setenv("AWS_ENDPOINT_URL", "https://all.example:99", 1);
    setenv("AWS_REGION", "eu-west-3", 1);
    options.region = NULL;
    assert_int_equal(ec2_open(&ec2, &options, NULL), 0);
    assert_string_equal(ec2_endpoint(ec2), "https://all.example:99/");
    assert_string_equal(ec2_region(ec2), "eu-west-3");
    ec2_close(ec2);
    setenv("AWS_ENDPOINT_URL_EC2", "HTTP://127.0.0.1:5", 1);
    assert_int_equal(ec2_open(&ec2, &options, NULL), 0);
    assert_string_equal(ec2_endpoint(ec2), "http://127.0.0.1:5/");
    ec2_close(ec2);
    options.endpoint = "https://option.example";
    assert_int_equal(ec2_open(&ec2, &options, NULL), 0);
    assert_string_equal(ec2_endpoint(ec2), "https://option.example/");
    ec2_close(ec2);
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_EC2");
    unsetenv("AWS_REGION");
    assert_open_fails(NULL, NULL, "no AWS region");
    assert_open_fails("US East", NULL, "'US East' is not an AWS region");
    assert_open_fails("us-east-1", "http://ec2.us-east-1.amazonaws.com", "plain http is for this machine alone");
}

TEST(without_credentials_nothing_is_sent) {
    unsetenv("AWS_ACCESS_KEY_ID");
    unsetenv("AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_SESSION_TOKEN");
    struct heard heard = {0};
    struct ec2 *ec2 = opened(2);
    fake_ec2_script(fake, NULL, 0);
    ec2_start(ec2, tags_request(), hear, &heard);
    run_until(ec2, &heard.count, 1);
    ec2_close(ec2);
    assert_false(heard.ok || heard.refused);
    assert_int_equal(fake_ec2_asked(fake, NULL), 0);
    assert_string_not_equal(heard.failure.text, "");
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    setenv("AWS_SESSION_TOKEN", TOKEN, 1);
}

int main(void) {
    return tests_run(set_up, tear_down);
}
