/* Tests of agileml/net/http.h against its own server. alarm() ends a wait that never ends. */
#include "agileml/net/http.h"
#include "tests/files.h"
#include "tests/test.h"

#include "tests/unit/http_server.h"

#include <microhttpd.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <unistd.h>

enum { WATCHDOG_S = 60, BIG = 1 << 20, MANY = 40 };

struct fixture {
    struct http *http;
    struct http_server *server;
    char url[256];
    char *big;
    unsigned silent;                 /* number of requests left without an answer */
    struct http_server_request seen; /* the last request */
    /* The last answer. */
    unsigned answers;
    int status;
    int64_t date;
    char body[HTTP_SERVER_TEXT], error[HTTP_ERROR_TEXT], header[64];
    size_t body_size;
    struct http_call *victim; /* call that the next `done` cancels */
};

static void serve(void *context, const struct http_server_request *request, struct http_server_reply *reply) {
    struct fixture *fixture = context;
    fixture->seen = *request;
    strcpy(reply->head, "Date: Mon, 20 Nov 2023 10:11:12 GMT\r\nX-Number:  17 \r\n");
    if (strcmp(request->path, "/big") == 0) {
        reply->body = fixture->big;
        reply->size = BIG;
    } else if (strcmp(request->path, "/cut") == 0) {
        reply->body = "0123456789";
        reply->cut = 4;
    } else if (strcmp(request->path, "/silent") == 0) {
        fixture->silent++;
        reply->silent = true;
    } else if (strcmp(request->path, "/none") == 0) {
        reply->status = 404;
        reply->body = "there is none";
    } else if (strcmp(request->path, "/elsewhere") == 0) {
        reply->status = 302;
        strcpy(reply->head, "Location: /big\r\n");
    } else if (strcmp(request->path, "/garbage") == 0) {
        reply->raw = "this is no HTTP\r\n\r\n";
    } else if (strcmp(request->path, "/nothing") == 0) {
        reply->raw = "";
    } else {
        snprintf(reply->text, sizeof reply->text, "%s %s %.100s", request->method, request->path, request->body);
        reply->body = reply->text;
    }
}

static void answered(void *context, const struct http_answer *answer) {
    struct fixture *fixture = context;
    fixture->answers++;
    fixture->status = answer->status;
    fixture->date = answer->date;
    fixture->body_size = answer->body_size;
    assert_int_equal(answer->body[answer->body_size], 0);
    snprintf(fixture->body, sizeof fixture->body, "%.1000s", answer->body);
    snprintf(fixture->error, sizeof fixture->error, "%s", answer->error);
    (void)http_header(answer, "x-number", fixture->header, sizeof fixture->header);
    if (fixture->victim != NULL) {
        struct http_call *victim = fixture->victim;
        fixture->victim = NULL;
        http_cancel(fixture->http, victim);
    }
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error error = {0};
    alarm(WATCHDOG_S);
    fixture->big = malloc(BIG);
    memset(fixture->big, 'b', BIG);
    fixture->server = http_server_open(serve, fixture);
    assert_int_equal(http_open(&fixture->http, &error), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    FREED struct fixture *fixture = *state;
    http_close(fixture->http);
    http_server_close(fixture->server);
    free(fixture->big);
    return 0;
}

static struct http_call *start(struct fixture *fixture, const char *path, struct http_request request) {
    snprintf(fixture->url, sizeof fixture->url, "%s%s", http_server_url(fixture->server), path);
    request.url = fixture->url;
    request.method = request.method != NULL ? request.method : "GET";
    return http_start(fixture->http, &request, answered, fixture);
}

static void get(struct fixture *fixture, const char *path, struct http_request request) {
    unsigned before = fixture->answers;
    http_run(fixture->http, start(fixture, path, request));
    assert_int_equal(fixture->answers, before + 1);
}

/* Runs until `count` answers have come, as an event loop does, by descriptor and time. */
static void run_until(struct fixture *fixture, unsigned count) {
    while (fixture->answers < count) {
        struct pollfd readable = {.fd = http_fd(fixture->http), .events = POLLIN};
        int wait_ms = http_wait_ms(fixture->http);
        (void)poll(&readable, 1, wait_ms);
        http_step(fixture->http);
    }
}

/* ---- Answers ---- */

TEST_WITH(get, set_up, tear_down) {
    struct fixture *fixture = *state;
    get(fixture, "/hello?a=b", (struct http_request){.headers = {"X-One: 1", "X-Two: 2"}});
    assert_int_equal(fixture->status, 200);
    assert_string_equal(fixture->body, "GET /hello?a=b ");
    assert_string_equal(fixture->error, "");
    assert_string_equal(fixture->header, "17");
    assert_true(fixture->date == 1700475072);
    char value[1024];
    assert_string_equal(http_server_header(&fixture->seen, "x-one", value), "1");
    assert_string_equal(http_server_header(&fixture->seen, "x-two", value), "2");
    get(fixture, "/none", (struct http_request){0});
    assert_int_equal(fixture->status, 404);
    assert_string_equal(fixture->body, "there is none");
}

TEST_WITH(bodies_are_sent, set_up, tear_down) {
    struct fixture *fixture = *state;
    char value[1024];
    char text[] = "Action=Describe";
    struct http_request request = {.method = "POST", .body = text, .body_size = strlen(text)};
    request.headers[0] = "Content-Type: application/x-www-form-urlencoded; charset=utf-8";
    struct http_call *call = start(fixture, "/", request);
    memset(text, 'x', strlen(text)); /* the call has its own copy */
    http_run(fixture->http, call);
    assert_string_equal(fixture->body, "POST / Action=Describe");
    assert_string_equal(http_server_header(&fixture->seen, "Content-Type", value),
                        "application/x-www-form-urlencoded; charset=utf-8");
    get(fixture, "/token", (struct http_request){.method = "PUT"});
    assert_string_equal(fixture->body, "PUT /token ");
    assert_string_equal(http_server_header(&fixture->seen, "Content-Length", value), "0");
    assert_string_equal(http_server_header(&fixture->seen, "Content-Type", value), "");
    /* A large body, for which libcurl would send "Expect" by default. */
    get(fixture, "/large", (struct http_request){.method = "POST", .body = fixture->big, .body_size = BIG});
    assert_int_equal(fixture->status, 200);
    assert_int_equal(fixture->seen.body_size, BIG);
    assert_string_equal(http_server_header(&fixture->seen, "Expect", value), "");
}

TEST_WITH(the_limit_of_a_body, set_up, tear_down) {
    struct fixture *fixture = *state;
    get(fixture, "/big", (struct http_request){.answer_max = BIG});
    assert_int_equal(fixture->status, 200);
    assert_int_equal(fixture->body_size, BIG);
    get(fixture, "/big", (struct http_request){.answer_max = BIG - 1});
    assert_int_equal(fixture->status, 0);
    assert_string_equal(fixture->error, "the answer is too large");
}

TEST_WITH(no_redirects, set_up, tear_down) {
    struct fixture *fixture = *state;
    get(fixture, "/elsewhere", (struct http_request){0});
    assert_int_equal(fixture->status, 302);
    assert_string_equal(fixture->seen.path, "/elsewhere");
}

/* ---- Failures ---- */

TEST_WITH(broken_answers, set_up, tear_down) {
    static const char *const paths[] = {"/cut", "/garbage", "/nothing"};
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        get(fixture, paths[i], (struct http_request){0});
        assert_int_equal(fixture->status, 0);
        assert_string_not_equal(fixture->error, "");
    }
    get(fixture, "/hello", (struct http_request){0});
    assert_int_equal(fixture->status, 200);
}

TEST_WITH(a_silent_server, set_up, tear_down) {
    struct fixture *fixture = *state;
    get(fixture, "/silent", (struct http_request){.timeout_ms = 50});
    assert_int_equal(fixture->status, 0);
    assert_non_null(strstr(fixture->error, "timed out"));
}

TEST_WITH(wrong_addresses, set_up, tear_down) {
    static const char *const urls[] = {
        "http://127.0.0.1:1/",        "file:///etc/passwd",   "ftp://127.0.0.1/",      "", "http://",
        "http://127.0.0.1:99999999/", "https://127.0.0.1:1/", "gopher://127.0.0.1:70/"};
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        unsigned before = fixture->answers;
        struct http_request request = {.method = "GET", .url = urls[i], .headers = {"Authorization: SECRET"}};
        struct http_call *call = http_start(fixture->http, &request, answered, fixture);
        assert_int_equal(fixture->answers, before);
        http_run(fixture->http, call);
        assert_int_equal(fixture->answers, before + 1);
        assert_int_equal(fixture->status, 0);
        assert_string_not_equal(fixture->error, "");
        assert_null(strstr(fixture->error, "SECRET"));
    }
}

/* The server does not speak TLS, so no handshake succeeds: a plain-text reply is never accepted. */
TEST_WITH(tls_is_not_left_out, set_up, tear_down) {
    struct fixture *fixture = *state;
    char url[256];
    snprintf(url, sizeof url, "https%s/", http_server_url(fixture->server) + strlen("http"));
    struct http_request request = {.method = "GET", .url = url, .timeout_ms = 300};
    http_run(fixture->http, http_start(fixture->http, &request, answered, fixture));
    assert_int_equal(fixture->status, 0);
}

/* Makes a key and its self-signed certificate for 127.0.0.1, both as PEM. */
static void make_certificate(char key_text[4096], char certificate_text[4096]) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    assert_true(EVP_PKEY_keygen_init(maker) == 1 &&
                EVP_PKEY_CTX_set_ec_paramgen_curve_nid(maker, NID_X9_62_prime256v1) == 1 &&
                EVP_PKEY_keygen(maker, &key) == 1);
    X509 *certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"http_test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate, names, -1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    BIO *text = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(text, key, NULL, NULL, 0, NULL, NULL);
    key_text[BIO_read(text, key_text, 4095)] = '\0';
    PEM_write_bio_X509(text, certificate);
    certificate_text[BIO_read(text, certificate_text, 4095)] = '\0';
    BIO_free(text);
    X509_EXTENSION_free(names);
    X509_free(certificate);
    EVP_PKEY_free(key);
    EVP_PKEY_CTX_free(maker);
}

static enum MHD_Result serve_securely(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *data, size_t *size,
                                      void **request) {
    (void)context, (void)url, (void)method, (void)version, (void)data, (void)size, (void)request;
    char text[] = "secure";
    struct MHD_Response *answer = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result = MHD_queue_response(connection, 200, answer);
    MHD_destroy_response(answer);
    return result;
}

/* Requests https://HOST:PORT/ by a new http handle, which reads the environment. */
static void get_securely(struct fixture *fixture, const char *host, unsigned port) {
    char url[128];
    struct error error = {0};
    struct http *http;
    assert_int_equal(http_open(&http, &error), 0);
    snprintf(url, sizeof url, "https://%s:%u/", host, port);
    struct http_request request = {.method = "GET", .url = url};
    http_run(http, http_start(http, &request, answered, fixture));
    http_close(http);
}

/* A certificate is accepted only if the environment's authorities confirm it, and only for its own address. */
TEST_WITH(certificates_are_verified, set_up, tear_down) {
    static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    struct fixture *fixture = *state;
    char key[4096];
    char certificate[4096];
    make_certificate(key, certificate);
    assert_int_equal(files_open(state), 0);
    write_text("certificate", certificate);
    struct MHD_Daemon *server =
        MHD_start_daemon(MHD_USE_TLS | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, serve_securely, NULL,
                         MHD_OPTION_HTTPS_MEM_KEY, key, MHD_OPTION_HTTPS_MEM_CERT, certificate, MHD_OPTION_END);
    assert_non_null(server);
    unsigned port = MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    get_securely(fixture, "127.0.0.1", port);
    assert_int_equal(fixture->status, 0);
    assert_non_null(strstr(fixture->error, "certificate"));
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv(names[i], in_folder("certificate"), 1);
        get_securely(fixture, "127.0.0.1", port);
        assert_int_equal(fixture->status, 200);
        assert_string_equal(fixture->body, "secure");
        get_securely(fixture, "localhost", port);
        assert_int_equal(fixture->status, 0);
        unsetenv(names[i]);
    }
    MHD_stop_daemon(server);
    assert_int_equal(files_close(state), 0);
}

/* ---- Concurrent calls ---- */

TEST_WITH(connections_are_used_again, set_up, tear_down) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 10; i++) {
        get(fixture, i % 2 == 0 ? "/hello" : "/none", (struct http_request){0});
    }
    assert_int_equal(http_server_connections(fixture->server), 1);
}

TEST_WITH(more_than_may_be_under_way, set_up, tear_down) {
    struct fixture *fixture = *state;
    for (unsigned i = 0; i < MANY; i++) {
        (void)start(fixture, "/hello", (struct http_request){0});
    }
    run_until(fixture, MANY);
    assert_int_equal(fixture->status, 200);
    assert_true(http_server_connections(fixture->server) <= HTTP_CONCURRENT_MAX);
}

/* Calls without an answer take all places; another call waits until one of them is cancelled. */
TEST_WITH(cancel_makes_room, set_up, tear_down) {
    struct fixture *fixture = *state;
    struct http_call *silent[HTTP_CONCURRENT_MAX];
    for (unsigned i = 0; i < HTTP_CONCURRENT_MAX; i++) {
        silent[i] = start(fixture, "/silent", (struct http_request){0});
    }
    (void)start(fixture, "/hello", (struct http_request){0});
    for (int i = 0; i < 20; i++) {
        struct pollfd readable = {.fd = http_fd(fixture->http), .events = POLLIN};
        (void)poll(&readable, 1, 5);
        http_step(fixture->http);
    }
    assert_int_equal(fixture->answers, 0);
    http_cancel(fixture->http, silent[3]);
    run_until(fixture, 1);
    assert_int_equal(fixture->status, 200);
    /* The other calls are still running when the fixture is closed. */
}

TEST_WITH(cancel_in_done, set_up, tear_down) {
    struct fixture *fixture = *state;
    struct http_call *first = start(fixture, "/hello", (struct http_request){0});
    fixture->victim = start(fixture, "/silent", (struct http_request){0});
    http_run(fixture->http, first);
    for (int i = 0; i < 10; i++) {
        struct pollfd readable = {.fd = http_fd(fixture->http), .events = POLLIN};
        (void)poll(&readable, 1, 5);
        http_step(fixture->http);
    }
    assert_int_equal(fixture->answers, 1);
    assert_null(fixture->victim);
}

TEST_WITH(cancel_what_waits, set_up, tear_down) {
    struct fixture *fixture = *state;
    http_cancel(fixture->http, start(fixture, "/hello", (struct http_request){0}));
    get(fixture, "/hello", (struct http_request){0});
    assert_int_equal(fixture->answers, 1);
}

TEST(close_without_anything) {
    struct http *http;
    struct error error = {0};
    assert_int_equal(http_open(&http, &error), 0);
    assert_int_equal(http_wait_ms(http), -1);
    http_step(http);
    http_close(http);
    http_close(NULL);
}
