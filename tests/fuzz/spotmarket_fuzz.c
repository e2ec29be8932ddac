/* libFuzzer target for what spotmarket receives from the network, without sockets: a handler on a small market. The
 * first byte chooses one of four. Lines that are forms of signed EC2 calls, one after the other while time passes. An
 * Authorization header, a date and a form. A method, a path, a header's value and a body for other requests. A
 * specification of faults. Besides crashes it finds answers that are not XML, bills that are not JSON, and calls
 * accepted without a signature. */
#include "agileml/base/memory.h"
#include "spotmarket/service.h"

#include <expat.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())
#define START                 INT64_C(1456790400)
#define NOW                   INT64_C(1700000000)
enum { CALLS_MAX = 12, CALL_SECONDS = 400, FORM_MAX = 1 << 14 };

static struct markets markets;
static struct catalog catalog;
static struct user user = {.key_id = "AKID", .secret = "secret"};
static struct users users = {&user, 1};

static void add(const char *type, const char *zone, int64_t second, int64_t price) {
    FUZZ_CHECK(markets_add(&markets, type, zone, "Linux/UNIX", (struct market_point){START + second, price}, NULL) ==
               0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    for (int i = 0; i < 20; i++) {
        add("m3.large", "us-east-1a", -1000 + 300 * i, 20000 + 30000 * (i % 4));
        add("c3.xlarge", "us-east-1b", -900 + 500 * i, 40000 + 1000 * (i % 7));
    }
    markets_finish(&markets);
    catalog_open(&catalog, CATALOG_2016);
    return 0;
}

static void check_answer(const struct service_answer *answer) {
    FUZZ_CHECK(answer->status >= 200 && answer->status < 600 && answer->body.data != NULL);
    if (strncmp(answer->type, "text/xml", 8) != 0) {
        return;
    }
    XML_Parser parser = XML_ParserCreate("UTF-8");
    FUZZ_CHECK(parser != NULL);
    FUZZ_CHECK(XML_Parse(parser, answer->body.data, (int)answer->body.length, 1) == XML_STATUS_OK);
    XML_ParserFree(parser);
}

/* Handles one request and returns the answer's status. */
static int handle(struct service *service, const struct sigv4_request *request, int64_t second) {
    struct service_clock clock = {(START + second) * 1000000, NOW, NOW * 1000000 + second};
    struct service_answer answer;
    service_handle(service, request, &clock, &answer);
    check_answer(&answer);
    int status = answer.status;
    text_close(&answer.body);
    return status;
}

static void call_signed(struct service *service, const char *form, size_t size, int64_t second) {
    char date[SIGV4_DATE];
    char *authorization;
    sigv4_date(NOW, date);
    char nonce[24];
    snprintf(nonce, sizeof nonce, "%lld", (long long)second);
    struct sigv4_header headers[4] = {{"amz-sdk-invocation-id", nonce}, {"host", "127.0.0.1"}, {"x-amz-date", date}};
    struct sigv4_request request = {.method = "POST",
                                    .path = "/",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = 3,
                                    .body = form,
                                    .body_size = size};
    struct sigv4_scope scope = {.region = "us-east-1", .service = "ec2"};
    strcpy(scope.date, date);
    FUZZ_CHECK(sigv4_authorization(&request, &scope, user.key_id, user.secret, &authorization, NULL) == 0);
    headers[3] = (struct sigv4_header){"authorization", authorization};
    request.header_count = 4;
    (void)handle(service, &request, second);
    free(authorization);
}

/* Returns the next line of the input without its end, and advances. */
static char *next_line(char **rest) {
    char *line = *rest;
    *rest += strcspn(*rest, "\n");
    if (**rest == '\n') {
        *(*rest)++ = '\0';
    }
    return line;
}

static void fuzz_calls(struct service *service, char *text) {
    static char form[FORM_MAX + 64];
    char *rest = text;
    for (int call = 0; call < CALLS_MAX && *rest != '\0'; call++) {
        const char *line = next_line(&rest);
        int size = snprintf(form, sizeof form, "%.*s&Version=2016-11-15", FORM_MAX, line);
        call_signed(service, form, (size_t)size, call * CALL_SECONDS);
    }
}

static void fuzz_authorization(struct service *service, char *text) {
    char *rest = text;
    struct sigv4_header headers[3] = {{"Host", "127.0.0.1"}};
    headers[1] = (struct sigv4_header){"Authorization", next_line(&rest)};
    headers[2] = (struct sigv4_header){"X-Amz-Date", next_line(&rest)};
    struct sigv4_request request = {.method = "POST",
                                    .path = "/",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = 3,
                                    .body = rest,
                                    .body_size = strlen(rest)};
    FUZZ_CHECK(handle(service, &request, 0) >= 400);
}

static void fuzz_paths(struct service *service, char *text) {
    static const char *const names[] = {"x-aws-ec2-metadata-token", "x-aws-ec2-metadata-token-ttl-seconds"};
    char *rest = text;
    const char *method = next_line(&rest);
    char *path = next_line(&rest);
    char full[SERVICE_URI_MAX], own[SERVICE_METADATA_PATH], owner[KEYRING_OWNER_HEX + 8] = "Bearer ";
    snprintf(full, sizeof full, "%s", path);
    if (path[0] == '@') { /* the machine's own metadata path */
        service_metadata_path(service, service->cloud->instances[0]->id, own);
        snprintf(full, sizeof full, "%s/latest/%s", own, path + 1);
    }
    keyring_owner(&service->keyring, owner + 7);
    const char *value = next_line(&rest);
    struct sigv4_header headers[4] = {
        {names[0], value}, {names[1], value}, {"authorization", owner}, {"host", "127.0.0.1"}};
    struct sigv4_request request = {.method = method,
                                    .path = full,
                                    .query = "",
                                    .headers = headers,
                                    .header_count = 4,
                                    .body = rest,
                                    .body_size = strlen(rest)};
    (void)handle(service, &request, 0);
}

static void check_bill(const struct cloud *cloud) {
    char *bill = service_bill(cloud);
    json_t *root = json_loads(bill, 0, NULL);
    FUZZ_CHECK(json_is_object(root));
    json_decref(root);
    free(bill);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cloud cloud;
    struct service service;
    struct cloud_options options = {.shown = CLOUD_SHOWN_SECONDS,
                                    .markets = &markets,
                                    .catalog = &catalog,
                                    .rules = &MARKET_EC2_2016,
                                    .region = "us-east-1",
                                    .notice = 120};
    if (size == 0) {
        return 0;
    }
    options.capacity = 4;
    options.rebalance = 60;
    char *text = memory_zeroed(size, 1);
    memcpy(text, data + 1, size - 1);
    cloud_open(&cloud, &options, START);
    service_open(&service, &cloud, &users);
    struct launch_spec *spec = launch_spec_new(catalog_find(&catalog, "m3.large", "us-east-1"));
    static const struct cloud_tags none;
    (void)cloud_launch(&cloud, spec, "us-east-1a", 60000, true, "r-1", "t", &none);
    launch_spec_drop(spec);
    switch (data[0] % 4) {
    case 0:
        fuzz_calls(&service, text);
        break;
    case 1:
        fuzz_authorization(&service, text);
        break;
    case 2:
        fuzz_paths(&service, text);
        break;
    default: {
        struct error error = {0};
        FUZZ_CHECK(faults_parse(&service.faults, text, &error) == 0 || error.text[0] != '\0');
        call_signed(&service, "Action=RunInstances", 19, 0);
    }
    }
    check_bill(&cloud);
    service_close(&service);
    cloud_close(&cloud);
    free(text);
    return 0;
}
