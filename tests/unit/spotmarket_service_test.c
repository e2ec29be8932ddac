/* The embedded cloud's answers to HTTP requests, without sockets and in virtual time: signatures, EC2's errors,
 * launch tokens, pages, filters, throttling, faults, metadata, and files written. */
#include <math.h>

#include "agileml/base/memory.h"
#include "spotmarket/service.h"
#include "tests/files.h"
#include "tests/test.h"

#include <jansson.h>
#include <unistd.h>

#define START INT64_C(1456790400) /* 2016-03-01, the market's start */
#define NOW   INT64_C(1700000000) /* real time */
#define CENT  INT64_C(10000)
#define RUN   "Action=RunInstances&ImageId=ami-1&InstanceType=m3.large&Placement.AvailabilityZone=us-east-1a"
#define SPOT  "&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice="

static struct markets markets;
static struct catalog catalog;
static struct cloud cloud;
static struct users users;
static struct service service;
static struct service_answer answer;
static int64_t second; /* market time since START in seconds */
static int64_t real_us = NOW * 1000000;

/* m3.large in a: 2 cents with a point each minute before START, 40 cents from 5000 s on; in b: 3 cents. */
static int set_up(void **unused) {
    second = 0;
    real_us = NOW * 1000000;
    for (int minute = 0; minute < 20; minute++) {
        struct market_point point = {START - 60 * (20 - minute), (2 + minute % 2) * CENT};
        assert_int_equal(markets_add(&markets, "m3.large", "us-east-1a", "Linux/UNIX", point, NULL), 0);
    }
    assert_int_equal(markets_add(&markets, "m3.large", "us-east-1a", "Linux/UNIX",
                                 (struct market_point){START + 5000, 40 * CENT}, NULL),
                     0);
    assert_int_equal(markets_add(&markets, "m3.large", "us-east-1b", "Linux/UNIX",
                                 (struct market_point){START - 100000, 3 * CENT}, NULL),
                     0);
    markets_finish(&markets);
    catalog_open(&catalog, CATALOG_2016);
    users = (struct users){.list = calloc(USERS_MAX, sizeof(struct user)), .count = 2};
    strcpy(users.list[0].key_id, "AKIDONE");
    strcpy(users.list[0].secret, "one/secret");
    strcpy(users.list[1].key_id, "ASIATWO");
    strcpy(users.list[1].secret, "two+secret");
    strcpy(users.list[1].token, "session");
    struct cloud_options options = {
        .shown = CLOUD_SHOWN_SECONDS,
        .markets = &markets,
        .catalog = &catalog,
        .rules = &MARKET_EC2_2016,
        .region = "us-east-1",
        .notice = 120,
        .seed = 1,
    };
    cloud_open(&cloud, &options, START);
    service_open(&service, &cloud, &users);
    return 0;
}

static int tear_down(void **unused) {
    text_close(&answer.body);
    service_close(&service);
    cloud_close(&cloud);
    users_close(&users);
    markets_close(&markets);
    catalog_close(&catalog);
    return 0;
}

/* ---- Requests ---- */

static const char *handle(const struct sigv4_request *request) {
    struct service_clock clock = {(START + second) * 1000000, real_us / 1000000, real_us};
    text_close(&answer.body);
    service_handle(&service, request, &clock, &answer);
    return answer.body.data;
}

struct signer {
    const char *key_id, *secret, *token, *region;
    int64_t skew;
    const char *sent_body; /* body sent in place of the signed body; NULL: the signed body */
    const char *nonce;     /* signed value that makes requests differ; NULL: a new one each time */
};

static const char *ask_as(const struct signer *signer, const char *form) {
    char body[8192];
    char date[SIGV4_DATE];
    FREED char *authorization;
    snprintf(body, sizeof body, "%s&Version=2016-11-15", form);
    sigv4_date(real_us / 1000000 + signer->skew, date);
    static int nonces;
    char nonce[20];
    snprintf(nonce, sizeof nonce, "%d", nonces++);
    struct sigv4_header headers[6] = {{"Amz-Sdk-Invocation-Id", signer->nonce != NULL ? signer->nonce : nonce},
                                      {"Host", "127.0.0.1:1234"},
                                      {"X-Amz-Date", date},
                                      {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
    size_t count = 4;
    if (signer->token != NULL) {
        headers[count++] = (struct sigv4_header){"X-Amz-Security-Token", signer->token};
    }
    struct sigv4_request request = {.method = "POST",
                                    .path = "/",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = count,
                                    .body = body,
                                    .body_size = strlen(body)};
    struct sigv4_scope scope = {.region = signer->region, .service = "ec2"};
    strcpy(scope.date, date);
    assert_int_equal(sigv4_authorization(&request, &scope, signer->key_id, signer->secret, &authorization, NULL), 0);
    headers[count++] = (struct sigv4_header){"Authorization", authorization};
    request.header_count = count;
    if (signer->sent_body != NULL) {
        request.body = signer->sent_body;
        request.body_size = strlen(signer->sent_body);
    }
    const char *text = handle(&request);
    return text;
}

static const struct signer ONE = {"AKIDONE", "one/secret", NULL, "us-east-1", 0, NULL, NULL};

static const char *ask(const char *form) {
    return ask_as(&ONE, form);
}

static void assert_error(const char *text, int status, const char *code) {
    char wanted[100];
    snprintf(wanted, sizeof wanted, "<Code>%s</Code>", code);
    if (strstr(text, wanted) == NULL || answer.status != status) {
        fail_msg("expected %d %s, got %d: %s", status, code, answer.status, text);
    }
}

static const char *asked(const char *form) {
    const char *text = ask(form);
    if (answer.status != 200) {
        fail_msg("%s: %d %s", form, answer.status, text);
    }
    return text;
}

/* The content of the first element <name> in `text`. */
static const char *element(const char *text, const char *name, char value[200]) {
    char open[60];
    snprintf(open, sizeof open, "<%s>", name);
    const char *begin = strstr(text, open);
    assert_non_null(begin);
    begin += strlen(open);
    snprintf(value, 200, "%.*s", (int)strcspn(begin, "<"), begin);
    return value;
}

static size_t count_of(const char *text, const char *piece) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, piece)) != NULL; at += strlen(piece)) {
        count++;
    }
    return count;
}

/* ---- Signatures ---- */

static void test_who_is_let_in(void **unused) {
    static const char form[] = "Action=DescribeAvailabilityZones";
    struct signer two = {"ASIATWO", "two+secret", "session", "us-east-1", 0, NULL, NULL};
    assert_non_null(strstr(asked(form), "us-east-1b"));
    (void)ask_as(&two, form);
    assert_int_equal(answer.status, 200);

    struct signer signer = ONE;
    signer.key_id = "AKIDOTHER";
    assert_error(ask_as(&signer, form), 401, "AuthFailure");
    signer = ONE;
    signer.secret = "two+secret";
    assert_error(ask_as(&signer, form), 403, "SignatureDoesNotMatch");
    signer = ONE;
    signer.region = "us-west-2";
    assert_error(ask_as(&signer, form), 403, "SignatureDoesNotMatch");
    signer = ONE;
    signer.sent_body = "Action=DescribeInstances&Version=2016-11-15";
    assert_error(ask_as(&signer, form), 403, "SignatureDoesNotMatch");
    two.token = "another";
    assert_error(ask_as(&two, form), 403, "InvalidClientTokenId");
    two.token = NULL;
    assert_error(ask_as(&two, form), 403, "InvalidClientTokenId");
    signer = ONE;
    signer.skew = -15 * 60;
    (void)ask_as(&signer, form);
    assert_int_equal(answer.status, 200);
    signer.skew = -15 * 60 - 1;
    assert_error(ask_as(&signer, form), 400, "RequestExpired");
    signer.skew = 15 * 60 + 1;
    assert_error(ask_as(&signer, form), 400, "RequestExpired");
}

static void test_no_or_broken_authorization(void **unused) {
    static const char body[] = "Action=DescribeInstances&Version=2016-11-15";
    static const char *const broken[] = {
        "",
        "AWS4-HMAC-SHA256",
        "Basic abc",
        "AWS4-HMAC-SHA256 Credential=AKIDONE/20231114/us-east-1/ec2",
        "AWS4-HMAC-SHA256 Credential=AKIDONE/20231114/us-east-1/ec2/aws4_request, SignedHeaders=host",
        "AWS4-HMAC-SHA256 Credential=////aws4_request, SignedHeaders=host, Signature=00, More=x"};
    struct sigv4_header headers[] = {{"Host", "127.0.0.1"}, {"X-Amz-Date", "20231114T221320Z"}, {"Authorization", ""}};
    struct sigv4_request request = {.method = "POST",
                                    .path = "/",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = 2,
                                    .body = body,
                                    .body_size = sizeof body - 1};
    assert_error(handle(&request), 403, "MissingAuthenticationToken");
    request.header_count = 3;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        headers[2].value = broken[i];
        assert_error(handle(&request), 400, "IncompleteSignature");
    }
    /* A signature that does not cover the host could be used elsewhere. */
    headers[2].value = "AWS4-HMAC-SHA256 Credential=AKIDONE/20231114/us-east-1/ec2/aws4_request, "
                       "SignedHeaders=x-amz-date, Signature=00";
    assert_error(handle(&request), 403, "SignatureDoesNotMatch");
}

/* ---- Requests from web pages ---- */

static int status_of(const struct sigv4_header *headers, size_t count) {
    struct sigv4_request request = {.method = "GET",
                                    .path = "/clock",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = count,
                                    .body = "",
                                    .body_size = 0};
    (void)handle(&request);
    return answer.status;
}

static void test_pages_get_nothing(void **unused) {
    static const char *const ours[] = {"127.0.0.1:8181", "127.0.0.1", "localhost:9000", "LocalHost", "127.1.2.3:80"};
    static const char *const others[] = {"",
                                         "example.com",
                                         "example.com:8181",
                                         "127.0.0.1.example.com",
                                         "localhost.example.com:8181",
                                         "10.0.0.1:8181",
                                         "127.0.0.1:8181@example.com",
                                         "2130706433",
                                         "[::1]:8181"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        struct sigv4_header headers[] = {
            {"Host", ours[i]}, {"Origin", "http://127.0.0.1:8181"}, {"host", "example.com"}};
        assert_int_equal(status_of(headers, 1), 200);
        assert_int_equal(status_of(headers, 2), 403);
        headers[1] = headers[2];
        assert_int_equal(status_of(headers, 2), 403);
        headers[1] = headers[0]; /* two Host headers are refused, even equal ones */
        assert_int_equal(status_of(headers, 2), 403);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct sigv4_header header = {"Host", others[i]};
        assert_int_equal(status_of(&header, 1), 403);
    }
    assert_int_equal(status_of(NULL, 0), 403);
}

/* ---- Parameters ---- */

static void test_wrong_parameters(void **unused) {
    assert_error(ask("Nothing=1"), 400, "MissingAction");
    assert_error(ask("Action=BuyEverything"), 400, "InvalidAction");
    /* two versions */
    assert_error(ask("Action=DescribeInstances&Version=2016-11-15"), 400, "InvalidParameterCombination");
    assert_error(ask("Action=DescribeInstances&InstanceId.1=%zz"), 400, "MalformedQueryString");
    assert_error(ask("Action=DescribeInstances&Depth=1"), 400, "UnknownParameter");
    assert_error(ask("Action=DescribeInstances&MaxResults=4"), 400, "InvalidParameterValue");
    assert_error(ask("Action=DescribeInstances&NextToken=x"), 400, "InvalidParameterValue");
    assert_error(ask("Action=DescribeInstances&InstanceId.1=i-1"), 400, "InvalidInstanceID.NotFound");
    assert_error(ask("Action=DescribeInstances&InstanceId.1=1"), 400, "InvalidInstanceID.Malformed");
    assert_error(ask("Action=DescribeInstances&Filter.1.Name=colour&Filter.1.Value.1=red"), 400,
                 "InvalidParameterValue");
    assert_error(ask("Action=DescribeSpotPriceHistory&StartTime=yesterday"), 400, "InvalidParameterValue");
    assert_error(ask("Action=TerminateInstances"), 400, "MissingParameter");
    assert_error(ask("Action=CancelSpotInstanceRequests&SpotInstanceRequestId.1=sir-1"), 400,
                 "InvalidSpotInstanceRequestID.NotFound");
    assert_error(ask(RUN "&MinCount=1"), 400, "MissingParameter");
    assert_error(ask(RUN "&MinCount=2&MaxCount=1"), 400, "InvalidParameterValue");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1001"), 400, "InvalidParameterValue");
    assert_error(ask("Action=RunInstances&ImageId=ami-1&MinCount=1&MaxCount=1"), 400, "MissingParameter");
    assert_error(ask("Action=RunInstances&ImageId=x&MinCount=1&MaxCount=1&InstanceType=m3.large"), 400,
                 "InvalidAMIID.Malformed");
    assert_error(ask("Action=RunInstances&ImageId=ami-1&MinCount=1&MaxCount=1&InstanceType=m9.large"), 400,
                 "InvalidParameterValue");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&UserData=abc"), 400, "InvalidUserData.Malformed");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&SubnetId=subnet-x"), 400, "InvalidSubnetID.NotFound");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&SubnetId=subnet-us-east-1b"), 400, "InvalidParameterCombination");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1" SPOT "-1"), 400, "InvalidParameterValue");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.01"), 400, "SpotMaxPriceTooLow");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.1&ClientToken="
                         "12345678901234567890123456789012345678901234567890123456789012345"),
                 400, "InvalidParameterValue");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&TagSpecification.1.ResourceType=instance"
                         "&TagSpecification.1.Tag.1.Key=aws:x"),
                 400, "InvalidParameterValue");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&TagSpecification.1.ResourceType=instance"
                         "&TagSpecification.1.Tag.1.Key=%ff"),
                 400, "InvalidParameterValue");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&DryRun=true"), 412, "DryRunOperation");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&DryRun=yes"), 400, "InvalidParameterValue");
    assert_error(ask("Action=CreateFleet&Type=maintain"), 400, "UnsupportedOperation");
    assert_int_equal(cloud.instance_count, 0);
    assert_int_equal(cloud.request_count, 0);
}

/* ---- Launches ---- */

/* A launch whose token can't be remembered is refused: a repeat would launch twice. */
static void test_no_launch_that_can_not_be_remembered(void **unused) {
    while (cloud.attempt_count < CLOUD_RECORDS_MAX) {
        const struct attempt other = {.token = "other", .arguments = memory_string("")};
        cloud_remember(&cloud, "RunInstances", &other);
    }
    assert_error(ask(RUN "&MinCount=1&MaxCount=2&ClientToken=t1" SPOT "0.1"), 500, "InternalError");
    assert_int_equal(cloud.instance_count, 0);
}

static void test_one_launch_per_token(void **unused) {
    static const char launch[] = RUN "&MinCount=1&MaxCount=2&ClientToken=t1" SPOT "0.1";
    char first[200], again[200];
    element(asked(launch), "instanceId", first);
    assert_int_equal(count_of(answer.body.data, "<instanceId>"), 2);
    second = 10;
    element(asked(launch), "instanceId", again);
    assert_string_equal(first, again);
    assert_non_null(strstr(answer.body.data, "<name>running</name>"));
    assert_int_equal(cloud.instance_count, 2);
    assert_error(ask(RUN "&MinCount=1&MaxCount=3&ClientToken=t1" SPOT "0.1"), 400, "IdempotentParameterMismatch");
    (void)asked(RUN "&MinCount=1&MaxCount=1&ClientToken=t2" SPOT "0.1");
    assert_int_equal(cloud.instance_count, 3);

    static const char request[] = "Action=RequestSpotInstances&SpotPrice=0.01&InstanceCount=2&ClientToken=t1"
                                  "&LaunchSpecification.ImageId=ami-1&LaunchSpecification.InstanceType=m3.large";
    element(asked(request), "spotInstanceRequestId", first);
    element(asked(request), "spotInstanceRequestId", again);
    assert_string_equal(first, again);
    assert_int_equal(cloud.request_count, 3 + 2);

    /* A refused request may be repeated. */
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&ClientToken=t3" SPOT "0.01"), 400, "SpotMaxPriceTooLow");
    (void)asked(RUN "&MinCount=1&MaxCount=1&ClientToken=t3" SPOT "0.05");
}

static void test_fleet(void **unused) {
    static const char fleet[] = "Action=CreateFleet&Type=instant&ClientToken=f1"
                                "&TargetCapacitySpecification.TotalTargetCapacity=3"
                                "&TargetCapacitySpecification.DefaultTargetCapacityType=spot"
                                "&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=tpl"
                                "&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1"
                                "&LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone=us-east-1a"
                                "&LaunchTemplateConfigs.1.Overrides.1.MaxPrice=0.01"
                                "&LaunchTemplateConfigs.1.Overrides.2.AvailabilityZone=us-east-1b"
                                "&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=job"
                                "&TagSpecification.1.Tag.1.Value=j";
    char id[200], again[200];
    assert_error(ask(fleet), 400, "InvalidLaunchTemplateName.NotFoundException");
    (void)asked("Action=CreateLaunchTemplate&LaunchTemplateName=tpl&LaunchTemplateData.ImageId=ami-1"
                "&LaunchTemplateData.InstanceType=m3.large&LaunchTemplateData.UserData=IyEvYmluL3No");
    element(asked(fleet), "fleetId", id);
    assert_int_equal(cloud.instance_count, 3);
    assert_non_null(strstr(answer.body.data, "<errorCode>SpotMaxPriceTooLow</errorCode>"));
    assert_string_equal(cloud.instances[2]->zone, "us-east-1b");
    assert_string_equal(cloud.instances[2]->spec->user_data, "#!/bin/sh");
    assert_string_equal(cloud_tags_get(&cloud.instances[2]->tags, "job"), "j");
    element(asked(fleet), "fleetId", again);
    assert_string_equal(id, again);
    assert_int_equal(cloud.instance_count, 3);
}

static void test_end_of_a_machine(void **unused) {
    char id[200], sir[200], form[300];
    element(asked(RUN "&MinCount=1&MaxCount=1" SPOT "0.1"), "instanceId", id);
    element(answer.body.data, "spotInstanceRequestId", sir);
    second = 5000;
    (void)asked("Action=DescribeSpotInstanceRequests");
    assert_non_null(strstr(answer.body.data, "<code>marked-for-termination</code>"));
    second = 5120;
    (void)asked("Action=DescribeInstances");
    assert_non_null(strstr(answer.body.data, "<code>Server.SpotInstanceTermination</code>"));
    snprintf(form, sizeof form, "Action=TerminateInstances&InstanceId.1=%s", id);
    (void)asked(form);
    assert_non_null(strstr(answer.body.data, "<previousState><code>48</code>"));
    snprintf(form, sizeof form, "Action=CancelSpotInstanceRequests&SpotInstanceRequestId.1=%s", sir);
    assert_non_null(strstr(asked(form), "<state>closed</state>"));
    second = 5121 + HOUR;
    assert_null(strstr(asked("Action=DescribeInstances"), "<instanceId>"));
    snprintf(form, sizeof form, "Action=TerminateInstances&InstanceId.1=%s", id);
    assert_error(ask(form), 400, "InvalidInstanceID.NotFound");
}

/* ---- Describing ---- */

static void test_price_history(void **unused) {
    size_t points = 0;
    char token[200] = "";
    char form[400];
    int pages = 0;
    second = 60;
    service.api.page = 4;
    do { /* 20 points in a and one in b, four to a page */
        snprintf(form, sizeof form, "Action=DescribeSpotPriceHistory&InstanceType.1=m3.large&NextToken=%s", token);
        const char *text = asked(form);
        points += count_of(text, "<spotPrice>");
        assert_true(count_of(text, "<spotPrice>") <= 4);
        token[0] = '\0';
        if (strstr(text, "<nextToken/>") == NULL) {
            element(text, "nextToken", token);
        }
        second += 10000; /* prices change, but the pages show those at the first page's time */
        pages++;
    } while (token[0] != '\0');
    assert_int_equal(points, 21);
    assert_int_equal(pages, 6);
    service.api.page = 0;
    /* From a time between two points: the point that holds at that time is included. */
    (void)asked("Action=DescribeSpotPriceHistory&AvailabilityZone=us-east-1a&StartTime=2016-02-29T23:58:30Z"
                "&EndTime=2016-02-29T23:59:30Z");
    assert_int_equal(count_of(answer.body.data, "<spotPrice>"), 2);
    assert_non_null(strstr(answer.body.data, "2016-02-29T23:58:00.000Z"));
    assert_non_null(strstr(answer.body.data, "2016-02-29T23:59:00.000Z"));
    (void)asked("Action=DescribeSpotPriceHistory&ProductDescription.1=Linux/UNIX+(Amazon+VPC)"
                "&Filter.1.Name=availability-zone&Filter.1.Value.1=*b");
    assert_int_equal(count_of(answer.body.data, "<spotPrice>0.03</spotPrice>"), 1);
    (void)asked("Action=DescribeSpotPriceHistory&ProductDescription.1=Windows");
    assert_int_equal(count_of(answer.body.data, "<item>"), 0);
}

static void test_future_is_not_told(void **unused) {
    (void)asked("Action=DescribeSpotPriceHistory&EndTime=2099-01-01T00:00:00Z");
    assert_null(strstr(answer.body.data, "<spotPrice>0.4</spotPrice>"));
    assert_error(ask("Action=DescribeSpotPriceHistory&NextToken=page-0-2000000000"), 400, "InvalidParameterValue");
    assert_error(ask("Action=DescribeSpotPriceHistory&NextToken=page--1-1456790400"), 400, "InvalidParameterValue");
    second = 5000;
    (void)asked("Action=DescribeSpotPriceHistory");
    assert_non_null(strstr(answer.body.data, "<spotPrice>0.4</spotPrice>"));
}

static void test_filters_and_pages(void **unused) {
    char token[200], form[300];
    (void)asked(RUN "&MinCount=7&MaxCount=7&TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=job"
                    "&TagSpecification.1.Tag.1.Value=a%3Cb" SPOT "0.1");
    (void)asked(RUN "&MinCount=2&MaxCount=2");
    second = 1;
    assert_int_equal(
        count_of(asked("Action=DescribeInstances&Filter.1.Name=tag:job&Filter.1.Value.1=a%3C*"), "<instanceId>"), 7);
    assert_non_null(strstr(answer.body.data, "<value>a&lt;b</value>"));
    assert_int_equal(count_of(asked("Action=DescribeInstances&Filter.1.Name=instance-lifecycle&Filter.1.Value.1=spot"
                                    "&Filter.2.Name=instance-state-name&Filter.2.Value.1=pending"
                                    "&Filter.2.Value.2=stopped"),
                              "<instanceId>"),
                     0);
    (void)asked("Action=DescribeInstances&MaxResults=5");
    assert_int_equal(count_of(answer.body.data, "<instanceId>"), 5);
    element(answer.body.data, "nextToken", token);
    snprintf(form, sizeof form, "Action=DescribeInstances&MaxResults=5&NextToken=%s", token);
    (void)asked(form);
    assert_int_equal(count_of(answer.body.data, "<instanceId>"), 4);
    assert_int_equal(count_of(answer.body.data, "<reservationId>"), 2);
    assert_null(strstr(answer.body.data, "nextToken"));
    snprintf(form, sizeof form, "Action=DescribeInstances&MaxResults=5&InstanceId.1=%s", cloud.instances[0]->id);
    assert_error(ask(form), 400, "InvalidParameterCombination");
    snprintf(form, sizeof form, "Action=CreateTags&ResourceId.1=%s&Tag.1.Key=colour&Tag.1.Value=red",
             cloud.requests[0]->id);
    (void)asked(form);
    (void)asked("Action=DescribeSpotInstanceRequests&Filter.1.Name=tag:colour&Filter.1.Value.1=r?d");
    assert_int_equal(count_of(answer.body.data, "<spotInstanceRequestId>"), 1);
    (void)asked("Action=DescribeTags&Filter.1.Name=key&Filter.1.Value.1=colour");
    assert_int_equal(count_of(answer.body.data, "<item>"), 1);
}

/* ---- Throttling and faults ---- */

static void test_throttle(void **unused) {
    service.throttling = true;
    int refused = 0;
    for (int i = 0; i < 8; i++) {
        (void)ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.1");
        refused += answer.status == 503;
    }
    assert_int_equal(refused, 3); /* a bucket of 5 */
    assert_error(ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.1"), 503, "RequestLimitExceeded");
    real_us += 1000000; /* two more requests are allowed */
    (void)asked(RUN "&MinCount=1&MaxCount=1" SPOT "0.1");
    (void)asked(RUN "&MinCount=1&MaxCount=1" SPOT "0.1");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.1"), 503, "RequestLimitExceeded");
    for (int i = 0; i < 50; i++) {
        (void)asked("Action=DescribeInstances");
    }
    assert_error(ask("Action=DescribeInstances"), 503, "RequestLimitExceeded");
    (void)asked("Action=DescribeInstances&MaxResults=5"); /* counted in another bucket */
}

static const char *owner(void) {
    static char header[KEYRING_OWNER_HEX + 8] = "Bearer ";
    keyring_owner(&service.keyring, header + 7);
    return header;
}

/* Sets the faults with this Authorization header (NULL: none). */
static void set_faults(const char *authorization, const char *spec) {
    char body[200];
    struct sigv4_header headers[] = {{"Host", "localhost:1234"}, {"Authorization", authorization}};
    snprintf(body, sizeof body, "{\"spec\": \"%s\"}", spec);
    struct sigv4_request request = {.method = "POST",
                                    .path = "/faults",
                                    .query = "",
                                    .headers = headers,
                                    .header_count = authorization != NULL ? 2 : 1,
                                    .body = body,
                                    .body_size = strlen(body)};
    (void)handle(&request);
}

static void faults(const char *spec) {
    set_faults(owner(), spec);
    assert_int_equal(answer.status, 200);
}

static void test_faults(void **unused) {
    static const char form[] = "Action=DescribeInstances";
    faults("503=1");
    assert_error(ask(form), 503, "Unavailable");
    faults("throttle=1");
    assert_error(ask(form), 503, "RequestLimitExceeded");
    faults("html=1");
    assert_non_null(strstr(ask(form), "<html>"));
    assert_int_equal(answer.status, 502);
    faults("expired=1");
    (void)ask(form);
    assert_true(strstr(answer.body.data, "RequestExpired") != NULL || strstr(answer.body.data, "ExpiredToken") != NULL);
    faults("slow=2.5s:1,broken=1");
    (void)asked(form);
    assert_int_equal(answer.delay_ms, 2500);
    assert_true(answer.broken);
    faults("lost=1");
    (void)asked(form);
    assert_false(answer.lost);
    (void)ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.1");
    assert_true(answer.lost);
    assert_int_equal(cloud.instance_count, 1);
    faults("capacity=1");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1" SPOT "0.1"), 500, "InsufficientInstanceCapacity");
    faults("clock=1000");
    assert_error(ask(form), 400, "RequestExpired");
    assert_int_equal(answer.date, NOW + 1000);
    struct signer signer = ONE;
    signer.skew = 1000;
    (void)ask_as(&signer, form);
    assert_int_equal(answer.status, 200);
    faults("");
    (void)asked(form);
}

static void test_wrong_faults(void **unused) {
    static const char *const wrong[] = {"slow=1",     "503=1.5",     "503",     "503=x",   "boom=1",
                                        "clock=1e99", "slow=-1:0.5", "503=nan", "503=-0.1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error error = {0};
        struct faults parsed = {.slow_seconds = 7};
        assert_int_equal(faults_parse(&parsed, wrong[i], &error), AML_EINPUT);
        assert_true(error.text[0] != '\0');
        assert_true(parsed.slow_seconds == 7);
    }
    struct faults half = {.seed = 3};
    int hits = 0;
    assert_int_equal(faults_parse(&half, "503=0.5", NULL), 0);
    for (int i = 0; i < 1000; i++) {
        hits += faults_draw(&half, FAULT_503);
    }
    assert_in_range(hits, 400, 600);
}

/* ---- Replays ---- */

/* A request that was seen by others can't be carried out a second time. */
static void test_replays(void **unused) {
    static const char run[] = RUN "&MinCount=1&MaxCount=1";
    static const char describe[] = "Action=DescribeInstances";
    struct signer seen = ONE;
    seen.nonce = "seen";
    faults("503=1");
    assert_error(ask_as(&seen, run), 503, "Unavailable"); /* not carried out, and not repeatable */
    faults("");
    (void)ask_as(&seen, run);
    assert_int_equal(answer.status, 200);
    assert_error(ask_as(&seen, run), 503, "RequestReplayed");
    assert_error(ask_as(&seen, RUN "&MinCount=1&MaxCount=1&ClientToken=t" SPOT "0.01"), 400, "SpotMaxPriceTooLow");
    second += 600; /* the refused launch would now succeed */
    assert_error(ask_as(&seen, RUN "&MinCount=1&MaxCount=1&ClientToken=t" SPOT "0.01"), 503, "RequestReplayed");
    (void)ask_as(&seen, describe);
    (void)ask_as(&seen, describe); /* programs repeat descriptions unchanged */
    assert_int_equal(answer.status, 200);
    seen.skew = -REPLAYS_READ_US / 1000000 - 1;
    real_us += REPLAYS_READ_US + 1000000;
    assert_error(ask_as(&seen, describe), 503, "RequestReplayed");
    seen.nonce = "new";
    (void)ask_as(&seen, run);
    assert_int_equal(answer.status, 200);
    assert_int_equal(cloud.instance_count, 2);
}

static void signature_of(uint64_t number, char signature[SIGV4_HEX]) {
    snprintf(signature, SIGV4_HEX, "%016llx%048d", (unsigned long long)(number * UINT64_C(0x9e3779b97f4a7c15)), 0);
}

/* However many requests arrive, no signature is accepted twice, and new requests are still accepted. */
static void test_replays_have_bounds(void **unused) {
    CLOSED_BY(replays_close) struct replays replays = {0};
    char signature[SIGV4_HEX];
    const uint64_t many = 5 * REPLAYS_MAX;
    for (uint64_t i = 0; i < many; i++) {
        signature_of(i, signature);
        assert_true(replays_take(&replays, signature, NOW + (int64_t)i / 1000, false, 0));
    }
    for (uint64_t i = 0; i < many; i++) {
        signature_of(i, signature);
        assert_false(replays_take(&replays, signature, NOW + (int64_t)i / 1000, false, 0));
    }
    signature_of(many, signature);
    assert_false(replays_take(&replays, signature, NOW, false, 0)); /* may have been accepted and forgotten */
    assert_true(replays_take(&replays, signature, NOW + (int64_t)many / 1000, false, 0));
}

/* ---- Metadata ---- */

static const char *get(const char *method, const char *path, const char *name, const char *value) {
    struct sigv4_header headers[] = {{"Host", "127.0.0.1:1234"}, {name, value}};
    struct sigv4_request request = {
        .method = method, .path = path, .query = "", .headers = headers, .header_count = 2, .body = "", .body_size = 0};
    return handle(&request);
}

static void test_metadata(void **unused) {
    static const char token_header[] = "X-aws-ec2-metadata-token";
    static const char ttl_header[] = "X-aws-ec2-metadata-token-ttl-seconds";
    char id[200], base[SERVICE_METADATA_PATH], other[SERVICE_METADATA_PATH], path[400], token[100];
    element(asked(RUN "&MinCount=2&MaxCount=2&IamInstanceProfile.Name=role&UserData=aGVsbG8%3D" SPOT "0.1"),
            "instanceId", id);
    service_metadata_path(&service, id, base);
#define PATH(end) (snprintf(path, sizeof path, "%s/latest/%s", base, end), path)
    (void)get("GET", PATH("meta-data/instance-id"), "Accept", "*/*");
    assert_int_equal(answer.status, 401);
    (void)get("PUT", PATH("api/token"), ttl_header, "21601");
    assert_int_equal(answer.status, 400);
    snprintf(token, sizeof token, "%s", get("PUT", PATH("api/token"), ttl_header, "60"));
    assert_int_equal(answer.status, 200);
    assert_string_equal(get("GET", PATH("meta-data/instance-id"), token_header, token), id);
    assert_string_equal(get("GET", PATH("user-data"), token_header, token), "hello");
    assert_string_equal(get("GET", PATH("meta-data/placement/availability-zone"), token_header, token), "us-east-1a");
    assert_string_equal(get("GET", PATH("meta-data/iam/security-credentials/"), token_header, token), "role");
    (void)get("GET", PATH("meta-data/iam/security-credentials/role"), token_header, token);
    assert_int_equal(answer.status, 200);
    (void)get("GET", PATH("meta-data/iam/security-credentials/other"), token_header, token);
    assert_int_equal(answer.status, 404);
    (void)get("GET", PATH("meta-data/spot/instance-action"), token_header, token);
    assert_int_equal(answer.status, 404);
    second = 5000;
    assert_string_equal(get("GET", PATH("meta-data/spot/instance-action"), token_header, token),
                        "{\"action\":\"terminate\",\"time\":\"2016-03-01T01:25:20Z\"}");
    assert_true(answer.noticed && answer.left_s == 120);
    service.speed = 100; /* in real seconds */
    (void)get("GET", PATH("meta-data/spot/instance-action"), token_header, token);
    assert_true(answer.noticed && fabs(answer.left_s - 1.2) < 1e-6);
    service.speed = 1;
    (void)get("GET", PATH("meta-data/instance-id"), token_header, token);
    assert_false(answer.noticed);
    faults("metadata=1");
    (void)get("GET", PATH("meta-data/instance-id"), token_header, token);
    assert_int_equal(answer.status, 500);
    faults("");
    /* Tokens expire, and belong to one machine. */
    service_metadata_path(&service, cloud.instances[1]->id, other);
    snprintf(path, sizeof path, "%s/latest/meta-data/instance-id", other);
    (void)get("GET", path, token_header, token);
    assert_int_equal(answer.status, 401);
    real_us += 60 * 1000000;
    (void)get("GET", PATH("meta-data/instance-id"), token_header, token);
    assert_int_equal(answer.status, 401);
    second = 5121;
    (void)get("PUT", PATH("api/token"), ttl_header, "60");
    assert_int_equal(answer.status, 404); /* the machine has ended */
}

/* A machine's id, which anyone may know, does not reveal the path of its metadata. */
static void test_metadata_is_the_machines_own(void **unused) {
    static const char ttl_header[] = "X-aws-ec2-metadata-token-ttl-seconds";
    char own[SERVICE_METADATA_PATH], other[SERVICE_METADATA_PATH], path[400];
    (void)asked(RUN "&MinCount=2&MaxCount=2" SPOT "0.1");
    service_metadata_path(&service, cloud.instances[0]->id, own);
    service_metadata_path(&service, cloud.instances[1]->id, other);
    const char *id = cloud.instances[0]->id;
    const char *secret = strrchr(own, '/') + 1;
    const char *other_secret = strrchr(other, '/') + 1;
    snprintf(path, sizeof path, "%s/latest/api/token", own);
    (void)get("PUT", path, ttl_header, "60");
    assert_int_equal(answer.status, 200);
    char longer[2 * KEYRING_PATH_HEX], shorter[KEYRING_PATH_HEX];
    snprintf(longer, sizeof longer, "%s0", secret);
    snprintf(shorter, sizeof shorter, "%s", secret);
    const char *const guesses[] = {"latest", "", "00000000000000000000000000000000", shorter, longer, other_secret};
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        snprintf(path, sizeof path, "/metadata/%s/%s/latest/api/token", id, guesses[i]);
        (void)get("PUT", path, ttl_header, "60");
        assert_int_equal(answer.status, 404);
    }
    snprintf(path, sizeof path, "/metadata/%s/latest/api/token", id);
    (void)get("PUT", path, ttl_header, "60");
    assert_int_equal(answer.status, 404);
}

/* The keys of the role of the machine launched as number `number`. */
static json_t *role_keys(size_t number) {
    char base[SERVICE_METADATA_PATH], path[400], token[100];
    service_metadata_path(&service, cloud.instances[number]->id, base);
    snprintf(path, sizeof path, "%s/latest/api/token", base);
    snprintf(token, sizeof token, "%s", get("PUT", path, "X-aws-ec2-metadata-token-ttl-seconds", "60"));
    snprintf(path, sizeof path, "%s/latest/meta-data/iam/security-credentials/role", base);
    json_t *keys = json_loads(get("GET", path, "X-aws-ec2-metadata-token", token), 0, NULL);
    assert_non_null(keys);
    return keys;
}

static struct signer signer_of(const json_t *keys) {
    struct signer signer = ONE;
    signer.key_id = json_string_value(json_object_get(keys, "AccessKeyId"));
    signer.secret = json_string_value(json_object_get(keys, "SecretAccessKey"));
    signer.token = json_string_value(json_object_get(keys, "Token"));
    return signer;
}

/* Reads the roles from a file with this text. */
static int read_roles(const char *text) {
    const char *path = write_text("roles", text);
    roles_close(&service.roles);
    struct error error = {0};
    int code = roles_read(&service.roles, path, &error);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(code, error.code);
    assert_true(code == 0 || (code == AML_EINPUT && strstr(error.text, path) != NULL));
    return code;
}

/* Each machine has keys of its own. They allow what its role allows, as long as the machine lives. */
static void test_role(void **unused) {
    static const char describe[] = "Action=DescribeInstances";
    char form[200];
    (void)asked(RUN "&MinCount=2&MaxCount=2&IamInstanceProfile.Name=role" SPOT "0.1");
    json_auto_t *keys = role_keys(0);
    json_auto_t *other = role_keys(1);
    const struct signer signer = signer_of(keys);
    for (size_t u = 0; u < users.count; u++) {
        assert_string_not_equal(signer.key_id, users.list[u].key_id);
        assert_string_not_equal(signer.secret, users.list[u].secret);
    }
    assert_string_not_equal(signer.secret, signer_of(other).secret);
    assert_error(ask_as(&signer, describe), 403, "UnauthorizedOperation");
    assert_int_equal(read_roles("{\"another\": [\"*\"], \"role\": [\"Describe*\"]}"), 0);
    (void)ask_as(&signer, describe);
    assert_int_equal(answer.status, 200);
    snprintf(form, sizeof form, "Action=TerminateInstances&InstanceId.1=%s", cloud.instances[1]->id);
    assert_error(ask_as(&signer, form), 403, "UnauthorizedOperation");
    assert_error(ask_as(&signer, RUN "&MinCount=1&MaxCount=1"), 403, "UnauthorizedOperation");
    assert_true(instance_lives(cloud.instances[1]));
    assert_int_equal(read_roles("{\"role\": [\"DescribeInstances\", \"TerminateInstances\"]}"), 0);
    assert_error(ask_as(&signer, "Action=DescribeInstanceTypes"), 403, "UnauthorizedOperation");

    struct signer wrong = signer;
    wrong.token = signer_of(other).token; /* names another machine */
    assert_error(ask_as(&wrong, describe), 401, "AuthFailure");
    wrong.token = NULL;
    assert_error(ask_as(&wrong, describe), 401, "AuthFailure");
    wrong = signer;
    wrong.secret = "one/secret";
    assert_error(ask_as(&wrong, describe), 403, "SignatureDoesNotMatch");
    (void)ask_as(&signer, form);
    assert_int_equal(answer.status, 200);
    wrong = signer_of(other); /* that machine has just ended */
    assert_error(ask_as(&wrong, describe), 401, "AuthFailure");
    real_us += 6 * HOUR * INT64_C(1000000);
    assert_error(ask_as(&signer, describe), 400, "ExpiredToken");
}

static void test_wrong_roles(void **unused) {
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{\"role\": \"*\"}",
                                        "{\"role\": [1]}",
                                        "{\"role\": [\"\"]}",
                                        "{\"role\": [\"RunInstance\"]}",
                                        "{\"role\": [\"De*be\"]}",
                                        "{\"role\": [], \"role\": [\"*\"]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_roles(wrong[i]), AML_EINPUT);
    }
    assert_int_equal(read_roles("{\"a\": [], \"b\": [\"*\"]}"), 0);
    assert_false(roles_allow(&service.roles, "a", "RunInstances"));
    assert_false(roles_allow(&service.roles, "c", "RunInstances"));
    assert_true(roles_allow(&service.roles, "b", "RunInstances"));
}

/* Users may do everything, except users that the file limits. */
static void test_users_rights(void **unused) {
    strcpy(users.list[0].name, "one");
    assert_int_equal(read_roles("{\"user/two\": [], \"one\": []}"), 0);
    (void)asked("Action=DescribeInstances"); /* the file does not limit this user */
    assert_int_equal(read_roles("{\"user/one\": [\"Describe*\"]}"), 0);
    (void)asked("Action=DescribeInstances");
    assert_error(ask(RUN "&MinCount=1&MaxCount=1&DryRun=true"), 403, "UnauthorizedOperation");
}

/* ---- Resources named in launches ---- */

static int read_resources(const char *text) {
    const char *path = write_text("resources", text);
    resources_close(&service.api.resources);
    struct error error = {0};
    int code = resources_read(&service.api.resources, path, &error);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(code, error.code);
    assert_true(code == 0 || (code == AML_EINPUT && strstr(error.text, path) != NULL));
    return code;
}

static void assert_has(const char *form, const char *expected) {
    const char *text = asked(form);
    if (strstr(text, expected) == NULL) {
        fail_msg("%s: no %s in %s", form, expected, text);
    }
}

/* Without a file, every resource name of the right form exists. */
static void test_resources_without_a_file(void **unused) {
    assert_has("Action=DescribeImages&ImageId.1=ami-7", "<imageId>ami-7</imageId><imageState>available</imageState>");
    assert_error(ask("Action=DescribeImages&ImageId.1=debian"), 400, "InvalidAMIID.Malformed");
    assert_has("Action=DescribeSubnets", "<subnetId>subnet-us-east-1b</subnetId><state>available</state>");
    assert_has("Action=DescribeSubnets&SubnetId.1=subnet-us-east-1a",
               "<availabilityZone>us-east-1a</availabilityZone>");
    assert_error(ask("Action=DescribeSubnets&SubnetId.1=subnet-1"), 400, "InvalidSubnetID.NotFound");
    assert_has("Action=DescribeSecurityGroups&GroupId.1=sg-7", "<groupId>sg-7</groupId>");
    assert_error(ask("Action=DescribeSecurityGroups&GroupId.1=default"), 400, "InvalidGroupId.Malformed");
}

static void test_resources_of_a_file(void **unused) {
    assert_int_equal(
        read_resources("{\"images\": [\"ami-1\"], \"key_pairs\": [\"me\"], \"instance_profiles\": [\"node\"],"
                       "\"security_groups\": {\"sg-1\": \"vpc-1\", \"sg-2\": \"vpc-2\"},"
                       "\"subnets\": {\"subnet-1\": {\"zone\": \"us-east-1a\", \"vpc\": \"vpc-1\"}}}"),
        0);
    assert_has("Action=DescribeImages", "<imageId>ami-1</imageId>");
    assert_error(ask("Action=DescribeImages&ImageId.1=ami-7"), 400, "InvalidAMIID.NotFound");
    assert_has("Action=DescribeSubnets&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-1", "<subnetId>subnet-1</subnetId>");
    assert_has("Action=DescribeSubnets&Filter.1.Name=vpc-id&Filter.1.Value.1=vpc-2", "<subnetSet></subnetSet>");
    assert_error(ask("Action=DescribeSubnets&SubnetId.1=subnet-us-east-1a"), 400, "InvalidSubnetID.NotFound");
    assert_has("Action=DescribeSecurityGroups&GroupId.1=sg-2", "<vpcId>vpc-2</vpcId>");
    assert_error(ask("Action=DescribeSecurityGroups&GroupId.1=sg-3"), 400, "InvalidGroup.NotFound");
    static const char run[] = "Action=RunInstances&InstanceType=m3.large&MinCount=1&MaxCount=1&DryRun=true";
    static const struct {
        const char *more, *code;
        int status;
    } launches[] = {
        {"&ImageId=ami-1&SubnetId=subnet-1&SecurityGroupId.1=sg-1&KeyName=me&IamInstanceProfile.Name=node",
         "DryRunOperation", 412},
        {"&ImageId=ami-2", "InvalidAMIID.NotFound", 400},
        {"&ImageId=ami-1&SubnetId=subnet-2", "InvalidSubnetID.NotFound", 400},
        {"&ImageId=ami-1&SecurityGroupId.1=sg-3", "InvalidGroup.NotFound", 400},
        {"&ImageId=ami-1&SubnetId=subnet-1&SecurityGroupId.1=sg-2", "InvalidParameter", 400},
        {"&ImageId=ami-1&KeyName=you", "InvalidKeyPair.NotFound", 400},
        {"&ImageId=ami-1&IamInstanceProfile.Name=nodes", "InvalidParameterValue", 400},
    };
    for (size_t l = 0; l < sizeof launches / sizeof *launches; l++) {
        char form[300];
        snprintf(form, sizeof form, "%s%s", run, launches[l].more);
        assert_error(ask(form), launches[l].status, launches[l].code);
    }
    assert_int_equal(cloud.instance_count, 0);
    (void)asked("Action=CreateLaunchTemplate&LaunchTemplateName=name&LaunchTemplateData.ImageId=ami-2"
                "&LaunchTemplateData.InstanceType=m3.large");
    assert_has("Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1"
               "&TargetCapacitySpecification.DefaultTargetCapacityType=spot"
               "&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=name",
               "<errorCode>InvalidAMIID.NotFound</errorCode>");
}

static void test_wrong_resources(void **unused) {
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{\"image\": []}",
                                        "{\"images\": {}}",
                                        "{\"images\": [1]}",
                                        "{\"subnets\": {\"subnet-1\": \"vpc-1\"}}",
                                        "{\"security_groups\": {\"sg-1\": 1}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(read_resources(wrong[i]), AML_EINPUT);
    }
}

/* ---- Clock and bill ---- */

static void test_bill_and_faults_are_the_owners(void **unused) {
    char wrong[KEYRING_OWNER_HEX + 8];
    snprintf(wrong, sizeof wrong, "%s", owner());
    wrong[sizeof wrong - 2] ^= 1;
    static const char *const nobody[] = {"", "Bearer", "Bearer ", "Basic bm9ib2R5Og==", "AWS4-HMAC-SHA256 Credential="};
    for (size_t i = 0; i <= sizeof nobody / sizeof *nobody; i++) {
        const char *header = i == 0 ? wrong : nobody[i - 1];
        (void)get("GET", "/bill", "Authorization", header);
        assert_int_equal(answer.status, 401);
        assert_null(strchr(answer.body.data, '{'));
        set_faults(header, "503=1");
        assert_int_equal(answer.status, 401);
    }
    set_faults(NULL, "503=1");
    assert_int_equal(answer.status, 401);
    (void)asked("Action=DescribeInstances"); /* no faults were set */
    (void)get("GET", "/bill", "Authorization", owner());
    assert_int_equal(answer.status, 200);
}

static void test_clock(void **unused) {
    service.speed = 120;
    second = 120;
    assert_string_equal(get("GET", "/clock", "Accept", "*/*"),
                        "{\"now\":\"2016-03-01T00:02:00.000Z\",\"seconds\":1456790520.000000,\"speed\":120}\n");
    (void)get("GET", "/nowhere", "Accept", "*/*");
    assert_int_equal(answer.status, 404);
}

static void test_bill(void **unused) {
    (void)asked(RUN "&MinCount=1&MaxCount=1&ClientToken=t&TagSpecification.1.ResourceType=instance"
                    "&TagSpecification.1.Tag.1.Key=proteus:job&TagSpecification.1.Tag.1.Value=j%22" SPOT "0.1");
    (void)asked(RUN "&MinCount=1&MaxCount=1");
    second = 6000;
    json_auto_t *bill = json_loads(get("GET", "/bill", "Authorization", owner()), 0, NULL);
    assert_non_null(bill);
    json_t *spot = json_array_get(json_object_get(bill, "instances"), 0);
    json_t *other = json_array_get(json_object_get(bill, "instances"), 1);
    assert_string_equal(json_string_value(json_object_get(spot, "job")), "j\"");
    assert_string_equal(json_string_value(json_object_get(spot, "token")), "t");
    assert_string_equal(json_string_value(json_object_get(spot, "how")), "evicted");
    assert_string_equal(json_string_value(json_object_get(spot, "end")), "2016-03-01T01:25:20Z");
    assert_true(json_is_null(json_object_get(other, "end")));
    assert_string_equal(json_string_value(json_object_get(other, "how")), "running");
    /* The spot machine: an hour at 3 cents, and 1520 s that EC2 cut short. The on-demand machine: 0.133 dollars an
     * hour. */
    json_t *total = json_object_get(json_object_get(bill, "total"), "ec2-2016");
    assert_string_equal(json_string_value(json_object_get(total, "spot_dollars")), "0.0300");
    assert_string_equal(json_string_value(json_object_get(total, "on_demand_dollars")), "0.2660");
    assert_string_equal(json_string_value(json_object_get(total, "dollars")), "0.2960");
    assert_int_equal(json_integer_value(json_object_get(total, "evictions")), 1);
    total = json_object_get(json_object_get(bill, "total"), "ec2");
    assert_string_equal(json_string_value(json_object_get(total, "spot_dollars")), "0.0427"); /* 3 x 5120/3600 cents */
    assert_string_equal(json_string_value(json_object_get(total, "on_demand_dollars")), "0.2217");
}

static void test_xml_text(void **unused) {
    CLOSED_BY(text_close) struct text text = {0};
    xml_text(&text, "a", "<&>\"\r\x01\xff\xc3\xa9\xed\xa0\x80");
    assert_string_equal(text.data, "<a>&lt;&amp;&gt;\"&#13;?"
                                   "?\xc3\xa9?"
                                   "?"
                                   "?</a>");
}

int main(void) {
#define EACH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        EACH(test_who_is_let_in),
        EACH(test_no_or_broken_authorization),
        EACH(test_pages_get_nothing),
        EACH(test_replays),
        EACH(test_replays_have_bounds),
        EACH(test_wrong_parameters),
        EACH(test_no_launch_that_can_not_be_remembered),
        EACH(test_one_launch_per_token),
        EACH(test_fleet),
        EACH(test_end_of_a_machine),
        EACH(test_price_history),
        EACH(test_future_is_not_told),
        EACH(test_filters_and_pages),
        EACH(test_throttle),
        EACH(test_faults),
        EACH(test_wrong_faults),
        EACH(test_metadata),
        EACH(test_metadata_is_the_machines_own),
        EACH(test_role),
        EACH(test_wrong_roles),
        EACH(test_users_rights),
        EACH(test_resources_without_a_file),
        EACH(test_resources_of_a_file),
        EACH(test_wrong_resources),
        EACH(test_clock),
        EACH(test_bill_and_faults_are_the_owners),
        EACH(test_bill),
        EACH(test_xml_text),
    };
    return cmocka_run_group_tests(tests, files_open, files_close);
}
