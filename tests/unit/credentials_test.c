/* Tests of agileml/cloud/credentials.h: files in a folder of their own, and a server that plays the metadata
 * service and the container endpoint. */
#include "agileml/cloud/credentials.h"

#include "agileml/base/instant.h"
#include "agileml/cloud/credentials_answer.h"
#include "agileml/cloud/profile.h"
#include "agileml/net/metadata.h"
#include "tests/unit/http_server.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WATCHDOG_S = 60 };

#define KEYS(letter, expires)                                                                                          \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"KEY-" letter "\",\"SecretAccessKey\":\"SESAME-" letter                    \
    "\",\"Token\":\"TOKEN-" letter "\",\"Expiration\":\"" expires "\"}"

static const char FOREVER[] = KEYS("role", "2090-01-01T00:00:00Z");

struct fixture {
    char folder[64];
    struct http *http;
    struct http_server *server;
    struct credentials *credentials;
    /* What the server answers. */
    int token_status, roles_status, keys_status, container_status;
    const char *roles, *keys, *container;
    unsigned failures; /* the container's answers of status 500 before the first other one */
    int lives_s;       /* not 0: the keys expire so long after now, instead */
    unsigned asked;    /* for the keys */
    char authorization[1024];
    /* What `done` got. */
    unsigned answers;
    bool have;
    struct credentials_value value;
    char why[512];
};

static void serve_keys(struct fixture *fixture, struct http_server_reply *reply, int status, const char *keys) {
    fixture->asked++;
    reply->status = status;
    reply->body = keys;
    if (fixture->lives_s != 0) {
        char expires[INSTANT_TEXT_MAX];
        instant_format((int64_t)time(NULL) + fixture->lives_s, expires);
        snprintf(reply->text, sizeof reply->text,
                 "{\"AccessKeyId\":\"KEY-%u\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"Expiration\":\"%s\"}",
                 fixture->asked, expires);
        reply->body = reply->text;
    }
}

static void serve(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    struct fixture *fixture = context;
    char value[1024];
    if (strcmp(request->path, "/latest/api/token") == 0) {
        assert_string_equal(request->method, "PUT");
        reply->status = fixture->token_status;
        reply->body = "a-token";
    } else if (strcmp(request->path, "/container") == 0) {
        strcpy(fixture->authorization, http_server_header(request, "Authorization", value));
        bool failing = fixture->failures > 0;
        fixture->failures -= failing;
        serve_keys(fixture, reply, failing ? 500 : fixture->container_status, fixture->container);
    } else if (strcmp(http_server_header(request, "X-aws-ec2-metadata-token", value), "a-token") != 0) {
        reply->status = 401;
    } else if (strcmp(request->path, "/latest/meta-data/iam/security-credentials/") == 0) {
        reply->status = fixture->roles_status;
        reply->body = fixture->roles;
    } else if (strcmp(request->path, "/latest/meta-data/iam/security-credentials/a-role") == 0) {
        serve_keys(fixture, reply, fixture->keys_status, fixture->keys);
    } else {
        reply->status = 404;
    }
}

static void done(void *context, const struct credentials_value *value, const char *why) {
    struct fixture *fixture = context;
    fixture->answers++;
    fixture->have = value != NULL;
    assert_true((value == NULL) == (why != NULL));
    if (value != NULL) {
        fixture->value = *value;
    }
    snprintf(fixture->why, sizeof fixture->why, "%s", why != NULL ? why : "");
    assert_null(strstr(fixture->why, "SESAME"));
}

static void get(struct fixture *fixture) {
    unsigned before = fixture->answers;
    credentials_get(fixture->credentials, done, fixture);
    while (fixture->answers == before) {
        usleep(1000);
        http_step(fixture->http);
    }
    assert_int_equal(fixture->answers, before + 1);
}

/* Goes on with what is under way in the background for a while. */
static void settle(struct fixture *fixture) {
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        http_step(fixture->http);
    }
}

static void open_chain(struct fixture *fixture) {
    struct error error = {0};
    credentials_close(fixture->credentials);
    if (credentials_open(&fixture->credentials, fixture->http, "ec2", &error) != 0) {
        fail_msg("%s", error.text);
    }
}

static void open_wrong(struct fixture *fixture, const char *text) {
    struct error error = {0};
    struct credentials *credentials;
    assert_int_equal(credentials_open(&credentials, fixture->http, "ec2", &error), AML_EINPUT);
    assert_null(credentials);
    if (strstr(error.text, text) == NULL) {
        fail_msg("'%s' is not in: %s", text, error.text);
    }
    assert_null(strstr(error.text, "SESAME"));
}

static void write_file(const struct fixture *fixture, const char *name, const char *text) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/.aws", fixture->folder);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s", fixture->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void container_is(const struct fixture *fixture) {
    char url[128];
    snprintf(url, sizeof url, "%s/container", http_server_url(fixture->server));
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
}

static const char *const VARIABLES[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_SECURITY_TOKEN",
                                        "AWS_CREDENTIAL_EXPIRATION",
                                        "AWS_PROFILE",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_EC2",
                                        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_DISABLED"};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};
    alarm(WATCHDOG_S);
    for (unsigned i = 0; i < sizeof VARIABLES / sizeof VARIABLES[0]; i++) {
        unsetenv(VARIABLES[i]);
    }
    fixture->token_status = fixture->roles_status = fixture->keys_status = fixture->container_status = 200;
    fixture->roles = "a-role\n";
    fixture->keys = FOREVER;
    fixture->container = KEYS("box", "2090-01-01T00:00:00Z");
    strcpy(fixture->folder, "/tmp/credentials-test-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    setenv("HOME", fixture->folder, 1);
    fixture->server = http_server_open(serve, fixture);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_server_url(fixture->server), 1);
    assert_int_equal(http_open(&fixture->http, &error), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    static const char *const names[] = {".aws/credentials", ".aws/config", ".aws", "other", "token"};
    struct fixture *fixture = *state;
    credentials_close(fixture->credentials);
    http_close(fixture->http);
    http_server_close(fixture->server);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", fixture->folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(fixture->folder);
    free(fixture);
    return 0;
}

static void check_value(const struct fixture *fixture, const char *key, const char *secret, const char *token) {
    if (!fixture->have) {
        fail_msg("%s", fixture->why);
    }
    assert_string_equal(fixture->value.key_id, key);
    assert_string_equal(fixture->value.secret, secret);
    assert_string_equal(fixture->value.token, token);
}

/* ---- Environment ---- */

static void test_environment_goes_first(void **state) {
    struct fixture *fixture = *state;
    write_file(fixture, ".aws/credentials", "[default]\naws_access_key_id=FILE\naws_secret_access_key=F\n");
    container_is(fixture);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SESAME", 1);
    open_chain(fixture);
    credentials_get(fixture->credentials, done, fixture);
    assert_int_equal(fixture->answers, 1); /* at once */
    check_value(fixture, "ENV", "SESAME", "");
    assert_string_equal(fixture->value.source, "environment");
    setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
    open_chain(fixture);
    get(fixture);
    check_value(fixture, "ENV", "SESAME", "TOKEN");
    credentials_expired(fixture->credentials);
    get(fixture);
    check_value(fixture, "ENV", "SESAME", "TOKEN");
    assert_int_equal(fixture->asked, 0);
}

static void test_half_an_environment(void **state) {
    struct fixture *fixture = *state;
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    open_wrong(fixture, "AWS_SECRET_ACCESS_KEY is missing");
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SECRET_ACCESS_KEY", "SESAME", 1);
    open_wrong(fixture, "AWS_ACCESS_KEY_ID is missing");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SESAME\nX-Header: 1", 1);
    open_wrong(fixture, "AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SECRET_ACCESS_KEY", "SESAME", 1);
    setenv("AWS_CREDENTIAL_EXPIRATION", "2001-01-01T00:00:00Z", 1);
    open_wrong(fixture, "AWS_CREDENTIAL_EXPIRATION");
    setenv("AWS_CREDENTIAL_EXPIRATION", "2016-01-01T00:00:00Z", 1);
    open_chain(fixture);
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "expired"));
}

/* ---- Files ---- */

static void test_files(void **state) {
    struct fixture *fixture = *state;
    write_file(fixture, ".aws/credentials",
               "# a comment\n\n[default]\n aws_access_key_id : FILE\n AWS_SECRET_ACCESS_KEY=SESAME/+= \n"
               "aws_session_token = TOKEN== ; mine\nunknown = 1\n[dev]\r\naws_access_key_id=DEV\r\n"
               "aws_secret_access_key=SESAMEDEV\r\n");
    write_file(fixture, ".aws/config",
               "[default]\nregion = us-east-1\n[profile dev]\nregion=eu-west-1\ns3 =\n   addressing_style = path\n"
               "   endpoint_url = http://s3\n[profile 'other one']\naws_access_key_id = OTHER\n"
               "aws_secret_access_key = SESAMEOTHER\nregion = mars-1\n");
    open_chain(fixture);
    assert_string_equal(credentials_region(fixture->credentials), "us-east-1");
    assert_null(credentials_endpoint(fixture->credentials));
    get(fixture);
    check_value(fixture, "FILE", "SESAME/+=", "TOKEN==");
    assert_non_null(strstr(fixture->value.source, "profile default of /tmp/"));
    setenv("AWS_PROFILE", "dev", 1);
    open_chain(fixture);
    get(fixture);
    check_value(fixture, "DEV", "SESAMEDEV", "");
    assert_string_equal(credentials_region(fixture->credentials), "eu-west-1");
    assert_null(credentials_endpoint(fixture->credentials)); /* that one is S3's */
    setenv("AWS_PROFILE", "other one", 1);
    setenv("AWS_DEFAULT_REGION", "us-west-2", 1);
    open_chain(fixture);
    get(fixture);
    check_value(fixture, "OTHER", "SESAMEOTHER", "");
    assert_string_equal(credentials_region(fixture->credentials), "us-west-2");
    setenv("AWS_PROFILE", "nobody", 1);
    open_wrong(fixture, "no profile 'nobody'");
}

static void test_profile_default_goes_before_default(void **state) {
    struct fixture *fixture = *state;
    write_file(fixture, ".aws/config", "[profile default]\nregion = right\n[default]\nregion = wrong\n");
    open_chain(fixture);
    assert_string_equal(credentials_region(fixture->credentials), "right");
}

static void test_endpoints(void **state) {
    struct fixture *fixture = *state;
    write_file(fixture, ".aws/config",
               "[services mine]\nec2 =\n  endpoint_url = http://of-service\ns3 =\n  endpoint_url = http://s3\n"
               "[default]\nendpoint_url = http://of-profile\n[profile services]\nservices = mine\n"
               "endpoint_url = http://of-profile\n[profile ignoring]\nservices = mine\n"
               "ignore_configure_endpoint_urls = true\n");
    open_chain(fixture);
    assert_string_equal(credentials_endpoint(fixture->credentials), "http://of-profile");
    setenv("AWS_PROFILE", "services", 1);
    open_chain(fixture);
    assert_string_equal(credentials_endpoint(fixture->credentials), "http://of-service");
    setenv("AWS_PROFILE", "ignoring", 1);
    open_chain(fixture);
    assert_null(credentials_endpoint(fixture->credentials));
    setenv("AWS_ENDPOINT_URL", "http://of-all", 1);
    open_chain(fixture);
    assert_string_equal(credentials_endpoint(fixture->credentials), "http://of-all");
    setenv("AWS_ENDPOINT_URL_EC2", "http://of-ec2", 1);
    open_chain(fixture);
    assert_string_equal(credentials_endpoint(fixture->credentials), "http://of-ec2");
    setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
    open_chain(fixture);
    assert_null(credentials_endpoint(fixture->credentials));
}

static void test_broken_files(void **state) {
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"aws_secret_access_key = SESAME\n", ":1: expected a section first"},
        {"[default\naws_secret_access_key = SESAME\n", ":1: expected ']'"},
        {"[default]\nSESAME\n", ":2: expected NAME = VALUE"},
        {"[default]\n= SESAME\n", ":2: expected NAME = VALUE"},
        {"[]\n", ":1: expected a section's name"},
        {"[\"a]\n", ":1: expected a section's name"},
        {"[default]\n\naws_access_key_id = A\n", "has aws_access_key_id without"},
        {"[default]\naws_secret_access_key = SESAME\n", "has aws_secret_access_key without"},
        {"[default]\naws_secret_access_key = SESAME SESAME\n", ":2: aws_secret_access_key: expected"},
    };
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(fixture, ".aws/credentials", cases[i].text);
        open_wrong(fixture, cases[i].wanted);
    }
    setenv("AWS_SHARED_CREDENTIALS_FILE", fixture->folder, 1);
    open_wrong(fixture, "Is a directory");
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/at/all", 1);
    open_chain(fixture); /* is empty */
}

/* A file that has changed is read again when AWS has refused what it held. */
static void test_refused_keys_are_read_again(void **state) {
    struct fixture *fixture = *state;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/other", fixture->folder);
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    write_file(fixture, "other", "[default]\naws_access_key_id=ONE\naws_secret_access_key=SESAME\n");
    open_chain(fixture);
    get(fixture);
    write_file(fixture, "other", "[default]\naws_access_key_id=TWO\naws_secret_access_key=SESAME\n");
    get(fixture);
    check_value(fixture, "ONE", "SESAME", "");
    credentials_expired(fixture->credentials);
    get(fixture);
    check_value(fixture, "TWO", "SESAME", "");
}

static void test_unknown_ways(void **state) {
    struct fixture *fixture = *state;
    write_file(fixture, ".aws/config", "[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = y\n");
    open_chain(fixture);
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "role_arn"));
    assert_int_equal(fixture->asked, 0);
}

/* ---- Container ---- */

static void test_container(void **state) {
    struct fixture *fixture = *state;
    container_is(fixture);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer abc", 1);
    open_chain(fixture);
    get(fixture);
    check_value(fixture, "KEY-box", "SESAME-box", "TOKEN-box");
    assert_string_equal(fixture->value.source, "container endpoint");
    assert_string_equal(fixture->authorization, "Bearer abc");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/token", fixture->folder);
    write_file(fixture, "token", "from-a-file\n");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
    open_chain(fixture);
    get(fixture);
    assert_string_equal(fixture->authorization, "from-a-file");
    write_file(fixture, "token", "\n");
    open_chain(fixture);
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "no token"));
}

static void test_container_is_asked_again(void **state) {
    struct fixture *fixture = *state;
    container_is(fixture);
    fixture->failures = 2;
    open_chain(fixture);
    get(fixture);
    check_value(fixture, "KEY-box", "SESAME-box", "TOKEN-box");
    fixture->failures = 3;
    open_chain(fixture);
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "status 500"));
    assert_int_equal(fixture->asked, 6);
    fixture->container_status = 403;
    fixture->container = "{\"code\":\"AccessDenied\",\"message\":\"not you\"}";
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "status 403: AccessDenied: not you"));
    assert_int_equal(fixture->asked, 7);
}

static void test_container_addresses(void **state) {
    static const char *const wrong[] = {"http://example.com/x",
                                        "http://169.254.170.3/x",
                                        "http://127.0.0.1.example.com/x",
                                        "http://127.1.example/",
                                        "nonsense",
                                        "file:///etc/passwd",
                                        "http://user@169.254.169.254/"};
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", wrong[i], 1);
        open_chain(fixture);
        unsigned before = fixture->answers;
        credentials_get(fixture->credentials, done, fixture);
        assert_int_equal(fixture->answers, before + 1); /* nothing was sent */
        assert_false(fixture->have);
        assert_non_null(strstr(fixture->why, "AWS_CONTAINER_CREDENTIALS_FULL_URI"));
    }
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://127.0.0.1:1/", 1);
    open_chain(fixture);
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "status 0")); /* it was tried */
}

/* ---- Role ---- */

static void test_role(void **state) {
    struct fixture *fixture = *state;
    open_chain(fixture);
    get(fixture);
    check_value(fixture, "KEY-role", "SESAME-role", "TOKEN-role");
    assert_string_equal(fixture->value.source, "instance role a-role");
    get(fixture);
    assert_int_equal(fixture->asked, 1);
    credentials_expired(fixture->credentials);
    get(fixture);
    assert_int_equal(fixture->asked, 2);
}

static void check_role_fails(struct fixture *fixture, const char *why) {
    open_chain(fixture);
    get(fixture);
    assert_false(fixture->have);
    if (strstr(fixture->why, why) == NULL) {
        fail_msg("'%s' is not in: %s", why, fixture->why);
    }
}

static void test_role_errors(void **state) {
    static const struct {
        const char *keys, *wanted;
    } cases[] = {
        {"{\"Code\":\"AssumeRoleUnauthorizedAccess\",\"Message\":\"EC2 cannot assume the role\"}",
         "AssumeRoleUnauthorizedAccess: EC2 cannot assume the role"},
        {"{\"Code\":\"Failed\"}", "Failed: no message"},
        {"{}", "no AccessKeyId"},
        {"[]", "no JSON object"},
        {"<html>oops</html>", "no JSON object"},
        {"", "no JSON object"},
        {"{\"AccessKeyId\":\"A\"}", "no SecretAccessKey"},
        {"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"SESAME\\r\\nX: 1\"}", "no SecretAccessKey"},
        {"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"SESAME\",\"Token\":\"\"}", "no Token"},
        {"{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"SESAME\",\"Expiration\":\"soon\"}", "no Expiration"},
        {KEYS("old", "2016-01-01T00:00:00Z"), "expired"},
    };
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture->keys = cases[i].keys;
        check_role_fails(fixture, cases[i].wanted);
    }
    fixture->keys = FOREVER;
    fixture->keys_status = 500;
    check_role_fails(fixture, "can't be reached");
    fixture->keys_status = 404;
    check_role_fails(fixture, "role has no keys");
    fixture->roles_status = 404;
    check_role_fails(fixture, "the instance has no role");
    fixture->roles_status = 200;
    fixture->roles = "../../user-data\n";
    check_role_fails(fixture, "the instance has no role");
    fixture->token_status = 403;
    check_role_fails(fixture, "switched off");
    fixture->token_status = 500;
    check_role_fails(fixture, "can't be reached");
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    check_role_fails(fixture, "switched off");
    unsetenv("AWS_EC2_METADATA_DISABLED");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
    check_role_fails(fixture, "can't be reached");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "169.254.169.254", 1);
    open_wrong(fixture, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
}

/* A failure does not last: the next call tries again. */
static void test_a_failure_is_not_remembered(void **state) {
    struct fixture *fixture = *state;
    fixture->token_status = 500;
    check_role_fails(fixture, "can't be reached");
    fixture->token_status = 200;
    get(fixture);
    check_value(fixture, "KEY-role", "SESAME-role", "TOKEN-role");
}

/* ---- Refreshing ---- */

/* A value that expires within five minutes is handed out while the next one is fetched. */
static void test_refresh_in_the_background(void **state) {
    struct fixture *fixture = *state;
    fixture->lives_s = 200;
    open_chain(fixture);
    get(fixture);
    assert_string_equal(fixture->value.key_id, "KEY-1");
    fixture->lives_s = 7200;
    credentials_get(fixture->credentials, done, fixture);
    assert_int_equal(fixture->answers, 2); /* at once */
    assert_string_equal(fixture->value.key_id, "KEY-1");
    while (strcmp(fixture->value.key_id, "KEY-2") != 0) {
        settle(fixture);
        get(fixture);
    }
    get(fixture);
    settle(fixture);
    assert_int_equal(fixture->asked, 2);
}

/* ... and as long as the source has nothing better, which is not asked at every call. */
static void test_a_refresh_that_fails(void **state) {
    struct fixture *fixture = *state;
    fixture->lives_s = 200;
    open_chain(fixture);
    get(fixture);
    fixture->keys_status = 500;
    for (int after = 0; after < 3;) {
        get(fixture);
        assert_string_equal(fixture->value.key_id, "KEY-1");
        settle(fixture);
        after += fixture->asked > 1 ? 1 : 0;
    }
    assert_int_equal(fixture->asked, 2);
}

static void test_what_expires_at_once_waits_for_the_next(void **state) {
    struct fixture *fixture = *state;
    fixture->lives_s = 3;
    open_chain(fixture);
    get(fixture);
    assert_string_equal(fixture->value.key_id, "KEY-1");
    while (time(NULL) <= fixture->value.expires) {
        usleep(10 * 1000);
    }
    fixture->lives_s = 7200;
    get(fixture);
    assert_string_equal(fixture->value.key_id, "KEY-2");
    assert_int_equal(fixture->asked, 2);
}

/* Several callers share one fetch. */
static void test_one_fetch_for_many(void **state) {
    struct fixture *fixture = *state;
    open_chain(fixture);
    for (int i = 0; i < 5; i++) {
        credentials_get(fixture->credentials, done, fixture);
    }
    while (fixture->answers < 5) {
        usleep(1000);
        http_step(fixture->http);
    }
    assert_true(fixture->have);
    assert_int_equal(fixture->asked, 1);
    /* Closed with calls under way: nobody is called. */
    credentials_expired(fixture->credentials);
    credentials_get(fixture->credentials, done, fixture);
    credentials_close(fixture->credentials);
    fixture->credentials = NULL;
    settle(fixture);
    assert_int_equal(fixture->answers, 5);
}

/* ---- Where secrets are in memory ---- */

/* What the other process serves: a secret that this one knows only by asking. */
static void serve_random(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    reply->body = strcmp(request->path, "/latest/api/token") == 0                             ? "a-token"
                  : strcmp(request->path, "/latest/meta-data/iam/security-credentials/") == 0 ? "a-role"
                                                                                              : context;
}

/* Starts a process that plays the metadata service, and has written a credentials file with the same secret. */
static pid_t start_apart(struct fixture *fixture, char url[64]) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        unsigned char random[16];
        char secret[2 * sizeof random + 1];
        char text[512];
        assert_int_equal(getrandom(random, sizeof random, 0), sizeof random);
        for (unsigned i = 0; i < sizeof random; i++) {
            snprintf(&secret[2 * i], 3, "%02x", random[i]);
        }
        snprintf(text, sizeof text, "[default]\naws_access_key_id = A\naws_secret_access_key = %s\n", secret);
        write_file(fixture, ".aws/credentials", text);
        snprintf(text, sizeof text, "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"%s\",\"Token\":\"T\"}", secret);
        struct http_server *server = http_server_open(serve_random, text);
        assert_int_equal(write(pipes[1], http_server_url(server), 64), 64);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(pipes[0], url, 64), 64);
    close(pipes[0]);
    close(pipes[1]);
    return pid;
}

/* Copies of `secret` in this process's writable memory that a core dump would hold, and in what it leaves out. */
static void count_copies(const char *secret, unsigned *dumped, unsigned *left_out) {
    char line[512];
    unsigned long begin = 0;
    unsigned long end = 0;
    char rights[8] = "";
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    *dumped = *left_out = 0;
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long from;
        unsigned long to;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3) {
            begin = from;
            end = to;
        } else if (strncmp(line, "VmFlags:", 8) == 0 && strncmp(rights, "rw", 2) == 0) {
            unsigned *count = strstr(line, " dd") != NULL ? left_out : dumped;
            const char *at = (const char *)begin;
            const char *limit = (const char *)end;
            while ((at = memmem(at, (size_t)(limit - at), secret, strlen(secret))) != NULL) {
                ++*count;
                at++;
            }
        }
    }
    fclose(maps);
}

static void keep_pointer(void *context, const struct credentials_value *value, const char *why) {
    assert_null(why);
    *(const struct credentials_value **)context = value;
}

static void check_copies(struct fixture *fixture) {
    const struct credentials_value *value = NULL;
    unsigned dumped;
    unsigned left_out;
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
    open_chain(fixture);
    assert_int_equal(prctl(PR_GET_DUMPABLE), 0);
    credentials_get(fixture->credentials, keep_pointer, &value);
    while (value == NULL) {
        usleep(1000);
        http_step(fixture->http);
    }
    assert_int_equal(strlen(value->secret), 32);
    count_copies(value->secret, &dumped, &left_out);
    assert_true(left_out > 0);
    assert_int_equal(dumped, 0);
}

/* By file and by the metadata service, parsers, HTTP and all: no copy stays where a core dump would hold it. */
static void test_secrets_are_not_in_core_dumps(void **state) {
    struct fixture *fixture = *state;
    char path[PATH_MAX];
    char url[64];
    if (getenv("PROTEUS_SANITIZED") != NULL) {
        skip(); /* a sanitizer keeps what is freed, and forbids to look */
    }
    pid_t pid = start_apart(fixture, url);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url, 1);
    check_copies(fixture);
    snprintf(path, sizeof path, "%s/.aws/credentials", fixture->folder);
    assert_int_equal(remove(path), 0);
    check_copies(fixture);
    assert_string_equal(fixture->why, "");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_environment_goes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_half_an_environment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_profile_default_goes_before_default, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_endpoints, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broken_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_keys_are_read_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_container, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_container_is_asked_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_container_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_role, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_role_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failure_is_not_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refresh_in_the_background, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_refresh_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_expires_at_once_waits_for_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_fetch_for_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_secrets_are_not_in_core_dumps, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
