/* Tests of agileml/cloud/credentials.h with files in their own folder, and with a server that plays the metadata
 * service and the container endpoint. */
#include "agileml/cloud/credentials.h"
#include "tests/files.h"
#include "tests/test.h"

#include "agileml/base/instant.h"
#include "agileml/cloud/credentials_answer.h"
#include "agileml/cloud/sts.h"
#include "agileml/net/metadata.h"
#include "tests/unit/http_server.h"

#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WATCHDOG_S = 60 };

#define KEYS(letter, expires)                                                                                          \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"KEY-" letter "\",\"SecretAccessKey\":\"SESAME-" letter                    \
    "\",\"Token\":\"TOKEN-" letter "\",\"Expiration\":\"" expires "\"}"

static const char FOREVER[] = KEYS("role", "2090-01-01T00:00:00Z");

struct fixture {
    struct http *http;
    struct http_server *server;
    struct credentials *credentials;
    /* The server's answers. */
    int token_status, roles_status, keys_status, container_status;
    const char *roles, *keys, *container;
    unsigned failures; /* number of the container's answers with status 500 before any other */
    int lives_s;       /* if not 0, seconds from now after which the keys expire, in place of the answer's time */
    unsigned asked;    /* number of requests for the keys */
    char authorization[1024];
    /* STS. */
    int sts_status;
    unsigned sts_failures; /* like `failures`, for STS */
    const char *sts;       /* NULL: credentials of the requested role */
    unsigned sts_asked;
    char sts_bodies[4][2048], sts_authorizations[4][1024], sts_tokens[4][1024]; /* texts of the first requests */
    /* The arguments of `done`. */
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

/* Copies a field of a form without decoding it; "" if there is no such field. */
static const char *form_field(const char *form, const char *name, char value[1024]) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "&%s=", name);
    const char *at = strstr(form, wanted);
    snprintf(value, 1024, "%.*s", at != NULL ? (int)strcspn(at + strlen(wanted), "&") : 0,
             at != NULL ? at + strlen(wanted) : "");
    return value;
}

/* Answers like STS; the keys' names contain the request's number. */
static void serve_sts(struct fixture *fixture, const struct http_server_request *request,
                      struct http_server_reply *reply) {
    char expires[INSTANT_TEXT_MAX];
    unsigned number = fixture->sts_asked++;
    bool web = strstr(request->body, "Action=AssumeRoleWithWebIdentity&") != NULL;
    const char *action = web ? "AssumeRoleWithWebIdentity" : "AssumeRole";
    assert_string_equal(request->method, "POST");
    if (number < 4) {
        snprintf(fixture->sts_bodies[number], sizeof fixture->sts_bodies[number], "&%.2000s", request->body);
        http_server_header(request, "Authorization", fixture->sts_authorizations[number]);
        http_server_header(request, "x-amz-security-token", fixture->sts_tokens[number]);
    }
    bool failing = fixture->sts_failures > 0;
    fixture->sts_failures -= failing;
    reply->status = failing ? 500 : fixture->sts_status;
    instant_format((int64_t)time(NULL) + (fixture->lives_s != 0 ? fixture->lives_s : 3600), expires);
    snprintf(
        reply->text, sizeof reply->text,
        "<%sResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><%sResult><Credentials>"
        "<AccessKeyId>ROLE%u</AccessKeyId><SecretAccessKey>SESAME-sts%u</SecretAccessKey>"
        "<SessionToken>TOKEN-sts%u</SessionToken><Expiration>%s</Expiration></Credentials></%sResult></%sResponse>",
        action, action, number, number, number, expires, action, action);
    reply->body = fixture->sts != NULL ? fixture->sts : reply->text;
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
    } else if (strcmp(request->path, "/") == 0) {
        serve_sts(fixture, request, reply);
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

/* Runs background work for a while. */
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
                                        "AWS_EC2_METADATA_DISABLED",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_STS_REGIONAL_ENDPOINTS",
                                        "AWS_USE_FIPS_ENDPOINT",
                                        "AWS_USE_DUALSTACK_ENDPOINT",
                                        "AWS_CREDENTIAL_FILE"};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};
    alarm(WATCHDOG_S);
    for (unsigned i = 0; i < sizeof VARIABLES / sizeof VARIABLES[0]; i++) {
        unsetenv(VARIABLES[i]);
    }
    fixture->token_status = fixture->roles_status = fixture->keys_status = fixture->container_status = 200;
    fixture->sts_status = 200;
    fixture->roles = "a-role\n";
    fixture->keys = FOREVER;
    fixture->container = KEYS("box", "2090-01-01T00:00:00Z");
    assert_int_equal(files_open(state), 0);
    setenv("HOME", in_folder(""), 1);
    fixture->server = http_server_open(serve, fixture);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_server_url(fixture->server), 1);
    assert_int_equal(http_open(&fixture->http, &error), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    FREED struct fixture *fixture = *state;
    credentials_close(fixture->credentials);
    http_close(fixture->http);
    http_server_close(fixture->server);
    return files_close(state);
}

/* Opens the chain anew and gets its credentials. */
static void get_chain(struct fixture *fixture) {
    open_chain(fixture);
    get(fixture);
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

TEST(environment_goes_first) {
    struct fixture *fixture = *state;
    write_text(".aws/credentials", "[default]\naws_access_key_id=FILE\naws_secret_access_key=F\n");
    container_is(fixture);
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SESAME", 1);
    open_chain(fixture);
    credentials_get(fixture->credentials, done, fixture);
    assert_int_equal(fixture->answers, 1); /* at once */
    check_value(fixture, "ENV", "SESAME", "");
    assert_string_equal(fixture->value.source, "environment");
    setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
    get_chain(fixture);
    check_value(fixture, "ENV", "SESAME", "TOKEN");
    credentials_expired(fixture->credentials);
    get(fixture);
    check_value(fixture, "ENV", "SESAME", "TOKEN");
    assert_int_equal(fixture->asked, 0);
}

TEST(half_an_environment) {
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
    get_chain(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "expired"));
}

/* ---- Files ---- */

TEST(files) {
    struct fixture *fixture = *state;
    write_text(".aws/credentials",
               "# a comment\n\n[default]\n aws_access_key_id : FILE\n AWS_SECRET_ACCESS_KEY=SESAME/+= \n"
               "aws_session_token = TOKEN== ; mine\nunknown = 1\n[dev]\r\naws_access_key_id=DEV\r\n"
               "aws_secret_access_key=SESAMEDEV\r\n");
    write_text(".aws/config",
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
    get_chain(fixture);
    check_value(fixture, "DEV", "SESAMEDEV", "");
    assert_string_equal(credentials_region(fixture->credentials), "eu-west-1");
    assert_null(credentials_endpoint(fixture->credentials)); /* AWS_ENDPOINT_URL_S3 is S3's alone */
    setenv("AWS_PROFILE", "other one", 1);
    setenv("AWS_DEFAULT_REGION", "us-west-2", 1);
    get_chain(fixture);
    check_value(fixture, "OTHER", "SESAMEOTHER", "");
    assert_string_equal(credentials_region(fixture->credentials), "us-west-2");
    setenv("AWS_PROFILE", "nobody", 1);
    open_wrong(fixture, "no profile 'nobody'");
}

TEST(profile_default_goes_before_default) {
    struct fixture *fixture = *state;
    write_text(".aws/config", "[profile default]\nregion = right\n[default]\nregion = wrong\n");
    open_chain(fixture);
    assert_string_equal(credentials_region(fixture->credentials), "right");
}

TEST(endpoints) {
    struct fixture *fixture = *state;
    write_text(".aws/config",
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

TEST(broken_files) {
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
        write_text(".aws/credentials", cases[i].text);
        open_wrong(fixture, cases[i].wanted);
    }
    setenv("AWS_SHARED_CREDENTIALS_FILE", ".", 1);
    open_wrong(fixture, "Is a directory");
}

/* A changed file is read again after AWS has refused its old keys. */
TEST(refused_keys_are_read_again) {
    struct fixture *fixture = *state;
    setenv("AWS_SHARED_CREDENTIALS_FILE", in_folder("other"), 1);
    write_text("other", "[default]\naws_access_key_id=ONE\naws_secret_access_key=SESAME\n");
    get_chain(fixture);
    write_text("other", "[default]\naws_access_key_id=TWO\naws_secret_access_key=SESAME\n");
    get(fixture);
    check_value(fixture, "ONE", "SESAME", "");
    credentials_expired(fixture->credentials);
    get(fixture);
    check_value(fixture, "TWO", "SESAME", "");
}

static void check_role_fails(struct fixture *fixture, const char *why) {
    get_chain(fixture);
    assert_false(fixture->have);
    if (strstr(fixture->why, why) == NULL) {
        fail_msg("'%s' is not in: %s", why, fixture->why);
    }
}

/* A setting is refused that names an identity in an unsupported way, is incomplete or contradicts another. */
TEST(refused_profiles) {
    static const struct {
        const char *text, *wanted; /* text of the configuration file; expected error */
    } cases[] = {
        {"[default]\nsso_session = corp\n", "profile default takes its credentials by sso_session"},
        {"[default]\nsso_start_url = https://x\nsso_region = us-east-1\n", "by sso_start_url"},
        {"[default]\nsso_account_id = 1\nsso_role_name = x\n", "by sso_account_id"},
        {"[default]\ncredential_process = /bin/cat 'a file'\n", "by credential_process"},
        {"[default]\nlogin_session = arn:x\n", "by login_session"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\n", "role_arn: expected with it source_profile"},
        {"[default]\nrole_arn = x\ncredential_source = Ec2InstanceMetadata\n", "role_arn: expected arn:"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Moon\n", "credential_source = Moon"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Environment\n",
         "Environment: AWS_ACCESS_KEY_ID is not set"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = EcsContainer\n",
         "AWS_CONTAINER_CREDENTIALS_FULL_URI is not set"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = nobody\n",
         "source_profile: there is no profile 'nobody'"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = y\n[profile y]\nregion = us-east-1\n",
         "profile y is a source_profile, but has no credentials"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = y\n[profile y]\nsso_session = a\n",
         "profile y takes its credentials by sso_session"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = y\n[profile y]\n"
         "role_arn = arn:aws:iam::1:role/y\nsource_profile = default\n",
         "in a circle"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n", "in a circle"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = y\ncredential_source = EcsContainer\n",
         "expected one of source_profile or credential_source"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = y\nmfa_serial = arn:aws:iam::1:mfa/me\n",
         "mfa_serial asks for a code"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata\n"
         "duration_seconds = 60\n",
         "duration_seconds: expected 900 to 43200"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata\n"
         "role_session_name = a/b\n",
         "role_session_name: expected"},
        {"[default]\nsource_profile = y\n", "has source_profile without role_arn"},
        {"[default]\ncredential_source = Environment\n", "has credential_source without role_arn"},
        {"[default]\nweb_identity_token_file = /token\n", "web_identity_token_file is set without role_arn"},
        {"[default]\naws_session_token = T\n", "aws_session_token without aws_access_key_id"},
        {"[default]\naws_access_key_id = A\naws_secret_access_key = SESAME\nsso_session = a\n",
         "two identities, by sso_session and aws_access_key_id"},
        {"[default]\naws_access_key_id = A\naws_secret_access_key = SESAME\nrole_arn = arn:aws:iam::1:role/x\n"
         "web_identity_token_file = /token\n",
         "two identities, by web_identity_token_file and aws_access_key_id"},
        {"[default]\nservices = none\n", "expected a section [services none]"},
        {"[default]\nuse_fips_endpoint = yes\n", "use_fips_endpoint): 'yes': expected true or false"},
        {"[default]\nuse_fips_endpoint = true\nendpoint_url = https://x\n", "exclude each other"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata\n"
         "sts_regional_endpoints = both\n",
         "expected regional or legacy"},
        {"[default]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata\nendpoint_url = "
         "ftp://x\n",
         "AWS_ENDPOINT_URL_STS"},
    };
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(".aws/config", cases[i].text);
        open_wrong(fixture, cases[i].wanted);
    }
    assert_int_equal(fixture->asked + fixture->sts_asked, 0);
}

TEST(refused_variables) {
    static const struct {
        const char *name, *value, *wanted;
    } cases[] = {
        {"AWS_SESSION_TOKEN", "T", "AWS_ACCESS_KEY_ID is missing"},
        {"AWS_SECURITY_TOKEN", "T", "AWS_ACCESS_KEY_ID is missing"},
        {"AWS_ROLE_ARN", "arn:aws:iam::1:role/x", "AWS_ROLE_ARN is set without AWS_WEB_IDENTITY_TOKEN_FILE"},
        {"AWS_WEB_IDENTITY_TOKEN_FILE", "/token", "AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN"},
        {"AWS_PROFILE", "nobody", "AWS_PROFILE: there is no profile 'nobody'"},
        {"AWS_DEFAULT_PROFILE", "nobody", "there is no profile 'nobody'"},
        {"AWS_CREDENTIAL_FILE", "/x", "AWS_CREDENTIAL_FILE is not supported"},
        {"AWS_USE_DUALSTACK_ENDPOINT", "1", "AWS_USE_DUALSTACK_ENDPOINT"},
    };
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv(cases[i].name, cases[i].value, 1);
        open_wrong(fixture, cases[i].wanted);
        unsetenv(cases[i].name);
    }
    static const char *const files[] = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        setenv(files[i], "/nowhere/at/all", 1);
        check_role_fails(fixture, files[i]); /* the instance's role is not used instead */
        assert_non_null(strstr(fixture->why, "/nowhere/at/all: there is no such file"));
        unsetenv(files[i]);
    }
    assert_int_equal(fixture->asked, 0);
    setenv("AWS_PROFILE", "a", 1);
    setenv("AWS_DEFAULT_PROFILE", "b", 1);
    open_wrong(fixture, "name two profiles");
}

/* ---- Roles ---- */

static void sts_is(const struct fixture *fixture) {
    setenv("AWS_ENDPOINT_URL_STS", http_server_url(fixture->server), 1);
    setenv("AWS_REGION", "eu-west-1", 1);
}

static void token_is(const struct fixture *fixture, const char *text) {
    write_text("token", text);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", in_folder("token"), 1);
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/web", 1);
}

static void check_field(const char *form, const char *name, const char *wanted) {
    char value[1024];
    assert_string_equal(form_field(form, name, value), wanted);
}

TEST(web_identity) {
    struct fixture *fixture = *state;
    sts_is(fixture);
    token_is(fixture, "head.body+/=.sign\n");
    setenv("AWS_ROLE_SESSION_NAME", "me@work", 1);
    get_chain(fixture);
    check_value(fixture, "ROLE0", "SESAME-sts0", "TOKEN-sts0");
    assert_string_equal(fixture->value.source, "role arn:aws:iam::1:role/web");
    check_field(fixture->sts_bodies[0], "Action", "AssumeRoleWithWebIdentity");
    check_field(fixture->sts_bodies[0], "Version", "2011-06-15");
    check_field(fixture->sts_bodies[0], "RoleArn", "arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fweb");
    check_field(fixture->sts_bodies[0], "RoleSessionName", "me%40work");
    check_field(fixture->sts_bodies[0], "WebIdentityToken", "head.body%2B%2F%3D.sign");
    assert_string_equal(fixture->sts_authorizations[0], ""); /* unsigned: the token authenticates */
    /* The file is read again, as tokens are replaced from time to time. */
    write_text("token", "second");
    credentials_expired(fixture->credentials);
    get(fixture);
    check_field(fixture->sts_bodies[1], "WebIdentityToken", "second");
    check_value(fixture, "ROLE1", "SESAME-sts1", "TOKEN-sts1");
    write_text("token", "");
    credentials_expired(fixture->credentials);
    get(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "no token"));
    unsetenv("AWS_ROLE_SESSION_NAME");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token", 1);
    get_chain(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "AWS_WEB_IDENTITY_TOKEN_FILE /nowhere/token: No such file"));
}

/* Role credentials are renewed before they expire, like others. */
TEST(web_identity_is_renewed) {
    struct fixture *fixture = *state;
    sts_is(fixture);
    token_is(fixture, "token");
    fixture->lives_s = 200;
    get_chain(fixture);
    assert_string_equal(fixture->value.key_id, "ROLE0");
    fixture->lives_s = 7200;
    while (strcmp(fixture->value.key_id, "ROLE1") != 0) {
        get(fixture);
        settle(fixture);
    }
    assert_int_equal(fixture->sts_asked, 2);
}

TEST(web_identity_of_a_profile) {
    struct fixture *fixture = *state;
    char config[PATH_MAX + 200];
    sts_is(fixture);
    write_text("token", "of-profile");
    snprintf(config, sizeof config,
             "[default]\nrole_arn = arn:aws:iam::1:role/p\nweb_identity_token_file = %s/token\n"
             "role_session_name = mine\n[profile user]\nrole_arn = arn:aws:iam::2:role/q\nsource_profile = default\n",
             in_folder(""));
    write_text(".aws/config", config);
    get_chain(fixture);
    check_value(fixture, "ROLE0", "SESAME-sts0", "TOKEN-sts0");
    check_field(fixture->sts_bodies[0], "WebIdentityToken", "of-profile");
    check_field(fixture->sts_bodies[0], "RoleSessionName", "mine");
    setenv("AWS_PROFILE", "user", 1);
    get_chain(fixture);
    check_value(fixture, "ROLE2", "SESAME-sts2", "TOKEN-sts2");
    assert_string_equal(fixture->value.source, "role arn:aws:iam::2:role/q");
    assert_non_null(strstr(fixture->sts_authorizations[2], "Credential=ROLE1/"));
    assert_string_equal(fixture->sts_tokens[2], "TOKEN-sts1");
}

TEST(assumed_role) {
    struct fixture *fixture = *state;
    sts_is(fixture);
    write_text(".aws/credentials", "[base one]\naws_access_key_id = BASE\naws_secret_access_key = SESAME\n");
    write_text(".aws/config",
               "[profile inner]\nrole_arn = arn:aws:iam::1:role/inner\nsource_profile = base one\n"
               "[profile outer]\nrole_arn = arn:aws:iam::2:role/outer\nsource_profile = inner\nexternal_id = x y\n"
               "[profile last]\nrole_arn = arn:aws:iam::2:role/outer\nsource_profile = inner\nexternal_id = a:b\n"
               "duration_seconds = 1800\nrole_session_name = mine\n");
    setenv("AWS_PROFILE", "outer", 1);
    open_wrong(fixture, "external_id: expected");
    setenv("AWS_PROFILE", "last", 1);
    get_chain(fixture);
    check_value(fixture, "ROLE1", "SESAME-sts1", "TOKEN-sts1");
    check_field(fixture->sts_bodies[0], "Action", "AssumeRole");
    check_field(fixture->sts_bodies[0], "RoleArn", "arn%3Aaws%3Aiam%3A%3A1%3Arole%2Finner");
    check_field(fixture->sts_bodies[0], "ExternalId", "");
    assert_non_null(strstr(fixture->sts_authorizations[0], "Credential=BASE/"));
    assert_non_null(strstr(fixture->sts_authorizations[0], "/eu-west-1/sts/aws4_request"));
    check_field(fixture->sts_bodies[1], "RoleArn", "arn%3Aaws%3Aiam%3A%3A2%3Arole%2Fouter");
    check_field(fixture->sts_bodies[1], "ExternalId", "a%3Ab");
    check_field(fixture->sts_bodies[1], "DurationSeconds", "1800");
    check_field(fixture->sts_bodies[1], "RoleSessionName", "mine");
    assert_non_null(strstr(fixture->sts_authorizations[1], "Credential=ROLE0/"));
    assert_string_equal(fixture->sts_tokens[1], "TOKEN-sts0");
}

/* A profile's role uses its own source's keys, or those of the instance or container. */
TEST(sources_of_roles) {
    struct fixture *fixture = *state;
    sts_is(fixture);
    container_is(fixture);
    write_text(".aws/config",
               "[profile self]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = self\naws_access_key_id = SELF\n"
               "aws_secret_access_key = SESAME\n"
               "[profile machine]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata\n"
               "[profile box]\nrole_arn = arn:aws:iam::1:role/x\ncredential_source = EcsContainer\n");
    static const char *const names[][2] = {{"self", "SELF"}, {"machine", "KEY-role"}, {"box", "KEY-box"}};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        char wanted[64];
        setenv("AWS_PROFILE", names[i][0], 1);
        get_chain(fixture);
        assert_true(fixture->have);
        snprintf(wanted, sizeof wanted, "Credential=%s/", names[i][1]);
        assert_non_null(strstr(fixture->sts_authorizations[i], wanted));
    }
    /* Order: keys of the environment, the profile's role, a token. */
    token_is(fixture, "token");
    get_chain(fixture);
    check_field(fixture->sts_bodies[3], "Action", "AssumeRole");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "SESAME", 1);
    get_chain(fixture);
    check_value(fixture, "ENV", "SESAME", "");
    assert_int_equal(fixture->sts_asked, 4);
}

TEST(sts_errors) {
    static const struct {
        int status;
        const char *body, *wanted;
    } cases[] = {
        {403,
         "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not you</Message></Error>"
         "</ErrorResponse>",
         "status 403: AccessDenied: not you"},
        {400, "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>old</Message></Error></ErrorResponse>",
         "ExpiredTokenException: old"},
        {200, "<html/>", "none of STS"},
        {200, "{}", "no XML"},
        {200, "", "no XML"},
        {200, "<AssumeRoleWithWebIdentityResponse/>", "no AccessKeyId"},
        {200,
         "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>A</AccessKeyId>"
         "<SecretAccessKey>SESAME</SecretAccessKey></Credentials></AssumeRoleWithWebIdentityResult>"
         "</AssumeRoleWithWebIdentityResponse>",
         "no SessionToken"},
    };
    struct fixture *fixture = *state;
    sts_is(fixture);
    token_is(fixture, "token");
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture->sts_status = cases[i].status;
        fixture->sts = cases[i].body;
        check_role_fails(fixture, cases[i].wanted);
        assert_non_null(strstr(fixture->why, "role arn:aws:iam::1:role/web: 127.0.0.1:"));
    }
    fixture->sts_status = 200;
    fixture->sts = NULL;
    fixture->sts_failures = 2;
    get_chain(fixture);
    assert_true(fixture->have);
    fixture->sts_failures = 3;
    fixture->sts_asked = 0;
    check_role_fails(fixture, "status 500");
    assert_int_equal(fixture->sts_asked, 3);
    /* Closing during a call does not run its callback. */
    credentials_get(fixture->credentials, done, fixture);
    unsigned before = fixture->answers;
    credentials_close(fixture->credentials);
    fixture->credentials = NULL;
    settle(fixture);
    assert_int_equal(fixture->answers, before);
}

TEST(places_of_sts) {
    static const struct {
        const char *endpoint, *region;
        bool legacy;
        struct service_variant variant;
        const char *url, *signed_for;
    } cases[] = {
        {NULL, "eu-west-3", false, {false, false}, "https://sts.eu-west-3.amazonaws.com/", "eu-west-3"},
        {NULL, "cn-north-1", false, {false, false}, "https://sts.cn-north-1.amazonaws.com.cn/", "cn-north-1"},
        {NULL, NULL, false, {false, false}, "https://sts.amazonaws.com/", "us-east-1"},
        {NULL, "eu-west-3", true, {false, false}, "https://sts.amazonaws.com/", "us-east-1"},
        {NULL, "ap-east-1", true, {false, false}, "https://sts.ap-east-1.amazonaws.com/", "ap-east-1"},
        {NULL, "us-west-2", false, {true, false}, "https://sts-fips.us-west-2.amazonaws.com/", "us-west-2"},
        {NULL, "us-west-2", false, {false, true}, "https://sts.us-west-2.api.aws/", "us-west-2"},
        {NULL, "us-gov-west-1", false, {true, false}, "https://sts.us-gov-west-1.amazonaws.com/", "us-gov-west-1"},
        {"https://sts.example:8443", "eu-west-3", true, {false, false}, "https://sts.example:8443/", "eu-west-3"},
        {"http://127.0.0.1:99", NULL, false, {false, false}, "http://127.0.0.1:99/", "us-east-1"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sts_place place;
        struct error error = {0};
        assert_int_equal(
            sts_place_choose(&place, cases[i].endpoint, cases[i].region, cases[i].legacy, cases[i].variant, &error), 0);
        assert_string_equal(place.url, cases[i].url);
        assert_string_equal(place.region, cases[i].signed_for);
    }
    struct sts_place place;
    const struct service_variant usual = {false, false};
    assert_int_equal(sts_place_choose(&place, "http://sts.example", NULL, false, usual, NULL), AML_EINPUT);
    assert_int_equal(sts_place_choose(&place, NULL, "evil.example/", false, usual, NULL), AML_EINPUT);
}

TEST(hosts) {
    static const struct {
        const char *service, *region;
        struct service_variant variant;
        const char *host;
    } cases[] = {
        {"s3", "us-east-1", {false, false}, "s3.us-east-1.amazonaws.com"},
        {"s3", "cn-north-1", {false, false}, "s3.cn-north-1.amazonaws.com.cn"},
        {"s3", "us-west-2", {true, false}, "s3-fips.us-west-2.amazonaws.com"},
        {"s3", "us-west-2", {false, true}, "s3.dualstack.us-west-2.amazonaws.com"},
        {"s3", "us-west-2", {true, true}, "s3-fips.dualstack.us-west-2.amazonaws.com"},
        {"ec2", "us-west-2", {false, false}, "ec2.us-west-2.amazonaws.com"},
        {"ec2", "us-west-2", {true, false}, "ec2-fips.us-west-2.amazonaws.com"},
        {"ec2", "us-west-2", {false, true}, "ec2.us-west-2.api.aws"},
        {"ec2", "us-gov-west-1", {true, false}, "ec2.us-gov-west-1.amazonaws.com"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char host[200];
        service_aws_host(cases[i].service, cases[i].region, cases[i].variant, host, sizeof host);
        assert_string_equal(host, cases[i].host);
    }
}

/* ---- Container ---- */

TEST(container) {
    struct fixture *fixture = *state;
    container_is(fixture);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "Bearer abc", 1);
    get_chain(fixture);
    check_value(fixture, "KEY-box", "SESAME-box", "TOKEN-box");
    assert_string_equal(fixture->value.source, "container endpoint");
    assert_string_equal(fixture->authorization, "Bearer abc");
    write_text("token", "from-a-file\n");
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", in_folder("token"), 1);
    get_chain(fixture);
    assert_string_equal(fixture->authorization, "from-a-file");
    write_text("token", "\n");
    get_chain(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "no token"));
}

TEST(container_is_asked_again) {
    struct fixture *fixture = *state;
    container_is(fixture);
    fixture->failures = 2;
    get_chain(fixture);
    check_value(fixture, "KEY-box", "SESAME-box", "TOKEN-box");
    fixture->failures = 3;
    get_chain(fixture);
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

TEST(container_addresses) {
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
        assert_int_equal(fixture->answers, before + 1); /* no request was sent */
        assert_false(fixture->have);
        assert_non_null(strstr(fixture->why, "AWS_CONTAINER_CREDENTIALS_FULL_URI"));
    }
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://127.0.0.1:1/", 1);
    get_chain(fixture);
    assert_false(fixture->have);
    assert_non_null(strstr(fixture->why, "status 0")); /* a request was tried */
}

/* ---- Role ---- */

TEST(role) {
    struct fixture *fixture = *state;
    get_chain(fixture);
    check_value(fixture, "KEY-role", "SESAME-role", "TOKEN-role");
    assert_string_equal(fixture->value.source, "instance role a-role");
    get(fixture);
    assert_int_equal(fixture->asked, 1);
    credentials_expired(fixture->credentials);
    get(fixture);
    assert_int_equal(fixture->asked, 2);
}

TEST(role_errors) {
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

/* A failure is not remembered: the next call tries again. */
TEST(a_failure_is_not_remembered) {
    struct fixture *fixture = *state;
    fixture->token_status = 500;
    check_role_fails(fixture, "can't be reached");
    fixture->token_status = 200;
    get(fixture);
    check_value(fixture, "KEY-role", "SESAME-role", "TOKEN-role");
}

/* ---- Refreshing ---- */

/* A value that expires within five minutes is returned while the next is fetched. */
TEST(refresh_in_the_background) {
    struct fixture *fixture = *state;
    fixture->lives_s = 200;
    get_chain(fixture);
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

/* The old value is returned while the source has no later one; the source is not asked at every call. */
TEST(a_refresh_that_fails) {
    struct fixture *fixture = *state;
    fixture->lives_s = 200;
    get_chain(fixture);
    fixture->keys_status = 500;
    for (int after = 0; after < 3;) {
        get(fixture);
        assert_string_equal(fixture->value.key_id, "KEY-1");
        settle(fixture);
        after += fixture->asked > 1 ? 1 : 0;
    }
    assert_int_equal(fixture->asked, 2);
}

TEST(what_expires_at_once_waits_for_the_next) {
    struct fixture *fixture = *state;
    fixture->lives_s = 3;
    get_chain(fixture);
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
TEST(one_fetch_for_many) {
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
    /* Closing during calls does not run their callbacks. */
    credentials_expired(fixture->credentials);
    credentials_get(fixture->credentials, done, fixture);
    credentials_close(fixture->credentials);
    fixture->credentials = NULL;
    settle(fixture);
    assert_int_equal(fixture->answers, 5);
}

/* ---- Secrets in memory ---- */

/* Serves, in the other process, a secret that this process can get only by a request. */
static void serve_random(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    reply->body = strcmp(request->path, "/latest/api/token") == 0                             ? "a-token"
                  : strcmp(request->path, "/latest/meta-data/iam/security-credentials/") == 0 ? "a-role"
                                                                                              : context;
}

/* Starts a process that plays the metadata service and writes a credentials file with the same secret. */
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
        write_text(".aws/credentials", text);
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

/* Counts copies of `secret` in this process's writable memory: those that a core dump would contain, and those it
 * would leave out. */
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

/* Secrets from the file and from the metadata service pass parsers and HTTP. No copy stays where a core dump would
 * contain it. */
TEST(secrets_are_not_in_core_dumps) {
    struct fixture *fixture = *state;
    char url[64];
    if (getenv("PROTEUS_SANITIZED") != NULL) {
        skip(); /* a sanitizer keeps freed memory and forbids reading it */
    }
    pid_t pid = start_apart(fixture, url);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url, 1);
    check_copies(fixture);
    assert_int_equal(remove(".aws/credentials"), 0);
    check_copies(fixture);
    assert_string_equal(fixture->why, "");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void) {
    return tests_run_each(set_up, tear_down);
}
