/* agileml/cloud/xml_tree and, in bidbrain/cloud/aws, ec2_answer, ec2_request and ec2_throttle: EC2's answers are
 * read in all their shapes. Wrong answers are refused. Requests are encoded and paced as EC2 requires. */

#include "agileml/cloud/service_endpoint.h"
#include "bidbrain/cloud/aws/ec2.h"
#include "tests/test.h"

static struct xml_tree *parsed(const char *text) {
    struct xml_tree *xml = NULL;
    struct error error = {0};
    if (xml_tree_parse(&xml, text, strlen(text), &error) != 0) {
        fail_msg("%s", error.text);
    }
    return xml;
}

static void assert_refused(const char *text, size_t size, const char *message) {
    struct xml_tree *xml = NULL;
    struct error error = {0};
    assert_int_equal(xml_tree_parse(&xml, text, size, &error), AML_EINPUT);
    assert_null(xml);
    if (strstr(error.text, message) == NULL) {
        fail_msg("%s: expected %s", error.text, message);
    }
}

TEST(trees_are_found_by_path) {
    struct xml_tree *xml = parsed(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<x:A xmlns:x=\"u\" n='1'><!-- c --><x:b> one &amp; two\n</x:b>"
        "<c/><d>mixed<e>3</e>text<e>4<!-- c -->5</e></d><b>later</b><f><![CDATA[<g>]]></f></x:A>");
    struct xml_element root = xml_tree_root(xml);
    assert_string_equal(xml_element_name(root), "A");
    assert_string_equal(xml_text_at(root, "b"), "one & two");
    assert_string_equal(xml_text_at(root, "c"), "");
    assert_true(xml_element_is(xml_element_at(root, "c")));
    assert_string_equal(xml_text_at(root, "d"), "");
    assert_string_equal(xml_text_at(root, "d/e"), "3");
    assert_string_equal(xml_text_at(root, "f"), "<g>");
    assert_false(xml_element_is(xml_element_at(root, "d/e/x/y")));
    assert_string_equal(xml_text_at(xml_element_at(root, "nothing"), "b"), "");
    struct xml_element child = {0};
    struct xml_element d = xml_element_at(root, "d");
    assert_true(xml_element_next(d, "e", &child));
    assert_true(xml_element_next(d, "e", &child));
    assert_string_equal(xml_element_text(child), "45");
    assert_false(xml_element_next(d, "e", &child));
    char text[4];
    assert_int_equal(xml_copy_at(root, "b", text, sizeof text), AML_EINPUT);
    assert_string_equal(text, "");
    xml_tree_close(xml);
}

static char *repeated(const char *text, size_t count, const char *end) {
    size_t length = strlen(text);
    char *all = malloc(length * count + strlen(end) + 1);
    for (size_t i = 0; i < count; i++) {
        memcpy(all + i * length, text, length);
    }
    strcpy(all + length * count, end);
    return all;
}

TEST(wrong_xml_is_refused) {
    static const struct {
        const char *text, *message;
    } examples[] = {
        {"", "no element found"},
        {"not xml", "line 1"},
        {"<a><b></a>", "mismatched tag"},
        {"<a>\n<b>cut", "line 2"},
        {"<a>&nbsp;</a>", "undefined entity"},
        {"<!DOCTYPE html><html/>", "it has a document type"},
        {"<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>", "it has a document type"},
        {"<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>", "it has a document type"},
        {"<?xml version='1.0' encoding='x-unknown'?><a/>", "unknown encoding"},
        {"<html><body><p>502 Bad Gateway<br></body></html>", "mismatched tag"},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        assert_refused(examples[i].text, strlen(examples[i].text), examples[i].message);
    }
    FREED char *deep = repeated("<a>", 1000, "");
    assert_refused(deep, strlen(deep), "elements too deep");
    FREED char *many = repeated("<a/>", XML_TREE_NODES_MAX + 10, "</b>");
    memcpy(many, "<b> ", 4);
    assert_refused(many, strlen(many), "too many elements");
    FREED char *name = repeated("a", 5000, "/>");
    name[0] = '<';
    assert_refused(name, strlen(name), "name is too long");
    FREED char *large = calloc(1, XML_TREE_BODY_MAX + 1);
    assert_refused(large, XML_TREE_BODY_MAX + 1, "XML of more than");
}

TEST(errors_are_read_in_every_shape) {
    static const struct {
        const char *body, *code, *text, *id;
    } examples[] = {
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>UnauthorizedOperation</Code>"
         "<Message>You are not authorized.</Message></Error></Errors><RequestID>7a62c49f</RequestID></Response>",
         "UnauthorizedOperation", "You are not authorized.", "7a62c49f"},
        {"<ErrorResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><RequestID>r</RequestID><Errors><Error>"
         "<Message/><Code>Throttling</Code></Error></Errors></ErrorResponse>",
         "Throttling", "", "r"},
        {"<e:Response xmlns:e='x'><e:Errors><e:Error><e:Code>A</e:Code><e:Message>two\nlines</e:Message></e:Error>"
         "</e:Errors></e:Response>",
         "A", "two lines", ""},
        {"<ErrorResponse><Error><Code>ExpiredToken</Code><Message>m</Message></Error><RequestId>q</RequestId>"
         "</ErrorResponse>",
         "ExpiredToken", "m", "q"},
        {"<Response><Errors><Error><Code>SignatureDoesNotMatch</Code><Message>The Canonical String for this request "
         "should have been 'POST ... x-amz-security-token:SECRET'</Message></Error></Errors></Response>",
         "SignatureDoesNotMatch", "the signature was not accepted", ""},
        {"<html><head><title>502</title></head></html>", "",
         "HTTP status 502 with a body of 44 bytes that is not an error of EC2", ""},
        {"upstream gone", "", "HTTP status 502 with a body of 13 bytes that is not an error of EC2", ""},
        {"", "", "HTTP status 502 with a body of 0 bytes that is not an error of EC2", ""},
        {"<Response><Errors><Error><Code>Cut</Code><Mess", "",
         "HTTP status 502 with a body of 46 bytes that is not an error of EC2", ""},
        {"<Response><Errors><Error><Message>no code</Message></Error></Errors></Response>", "",
         "HTTP status 502 with a body of 79 bytes that is not an error of EC2", ""},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct ec2_failure failure;
        ec2_failure_read(502, examples[i].body, strlen(examples[i].body), &failure);
        assert_int_equal(failure.status, 502);
        assert_string_equal(failure.code, examples[i].code);
        assert_string_equal(failure.text, examples[i].text);
        assert_string_equal(failure.request_id, examples[i].id);
    }
}

TEST(error_lines_hold_no_encoded_data) {
    FREED char *run = repeated("QUtJQQ", 40, "");
    char text[600], line[300];
    struct ec2_failure failure = {.status = 400, .code = "InvalidParameterValue", .request_id = "r-1"};
    snprintf(text, sizeof text, "Value (%s) for parameter\tUserData is invalid \xc3\xa9", run);
    ec2_failure_text(&failure, text);
    ec2_failure_line(&failure, "RunInstances", line, sizeof line);
    assert_string_equal(line, "RunInstances: InvalidParameterValue: Value (...) for parameter UserData is invalid    "
                              "(request r-1)");
    FREED char *words = repeated("word ", 100, "");
    ec2_failure_text(&failure, words);
    assert_int_equal(strlen(failure.text), EC2_LINE_TEXT - 1);
}

TEST(prices_without_a_field_are_skipped) {
    struct xml_tree *xml = parsed(
        "<DescribeSpotPriceHistoryResponse xmlns='http://ec2.amazonaws.com/doc/2014-02-01/'><spotPriceHistorySet>"
        "<item><timestamp>2016-03-01T00:00:07.000Z</timestamp><spotPrice>0.0187</spotPrice><instanceType>c4.large"
        "</instanceType><new>x</new><productDescription>Linux/UNIX</productDescription><availabilityZone>us-east-1a"
        "</availabilityZone></item>"
        "<item><spotPrice>0.1</spotPrice><instanceType>c4.large</instanceType><productDescription>Linux/UNIX"
        "</productDescription><availabilityZone>us-east-1a</availabilityZone></item>"
        "<item/><item><timestamp>then</timestamp><spotPrice>0.1</spotPrice><instanceType>a</instanceType>"
        "<productDescription>p</productDescription><availabilityZone>z</availabilityZone></item>"
        "<item><timestamp>2016-03-01T00:00:07Z</timestamp><spotPrice>-1</spotPrice><instanceType>a</instanceType>"
        "<productDescription>p</productDescription><availabilityZone>z</availabilityZone></item>"
        "</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>");
    struct xml_element set = xml_element_at(xml_tree_root(xml), "spotPriceHistorySet");
    struct xml_element item = {0};
    struct ec2_price price;
    char token[EC2_PAGE_TOKEN_TEXT];
    assert_true(xml_element_next(set, "item", &item));
    assert_true(ec2_price_read(item, &price));
    assert_string_equal(price.type, "c4.large");
    assert_string_equal(price.zone, "us-east-1a");
    assert_string_equal(price.product, "Linux/UNIX");
    assert_int_equal(price.point.time, 1456790407);
    assert_int_equal(price.point.price, 18700);
    for (int i = 0; i < 4; i++) {
        assert_true(xml_element_next(set, "item", &item));
        assert_false(ec2_price_read(item, &price));
    }
    assert_int_equal(ec2_page_token(xml_tree_root(xml), token), 0);
    xml_tree_close(xml);
    xml = parsed("<a><nextToken>abc=</nextToken></a>");
    assert_int_equal(ec2_page_token(xml_tree_root(xml), token), 1);
    assert_string_equal(token, "abc=");
    xml_tree_close(xml);
}

static struct ec2_instance instance_of(const char *inner) {
    char text[2000];
    struct ec2_instance instance;
    snprintf(text, sizeof text, "<item><instanceId>i-1</instanceId>%s</item>", inner);
    struct xml_tree *xml = parsed(text);
    assert_true(ec2_instance_read(xml_tree_root(xml), &instance));
    xml_tree_close(xml);
    return instance;
}

TEST(instances_are_read) {
    struct ec2_instance instance = instance_of(
        "<groupSet><item><groupId>sg</groupId></item></groupSet><instanceState><code>16</code><name>running</name>"
        "</instanceState><instanceType>m3.large</instanceType><launchTime>2016-03-01T00:00:07.000Z</launchTime>"
        "<placement><availabilityZone>us-east-1a</availabilityZone></placement><instanceLifecycle>spot"
        "</instanceLifecycle><spotInstanceRequestId>sir-1</spotInstanceRequestId><tagSet><item><key>Name</key>"
        "<value>x</value></item><item><value>tok</value><key>proteus:token</key></item><item><key>proteus:job</key>"
        "<value>ml</value></item></tagSet>");
    assert_int_equal(instance.state, EC2_INSTANCE_RUNNING);
    assert_true(instance.spot && !instance.evicted);
    assert_string_equal(instance.request, "sir-1");
    assert_string_equal(instance.tags.job, "ml");
    assert_string_equal(instance.tags.token, "tok");
    assert_string_equal(instance.zone, "us-east-1a");
    assert_int_equal(instance.launched, 1456790407);
    instance =
        instance_of("<stateReason><code>Server.SpotInstanceTermination</code><message>Server.Spot: taken</message>"
                    "</stateReason><instanceState><name>shutting-down</name></instanceState>");
    assert_true(instance.evicted);
    assert_int_equal(instance.state, EC2_INSTANCE_STOPPING);
    assert_string_equal(instance.type, "");
    instance = instance_of("<stateReason><code>Client.UserInitiatedShutdown</code></stateReason>");
    assert_false(instance.evicted);
    static const struct {
        const char *reason;
        int64_t ended;
    } reasons[] = {{"User initiated (2016-03-01 00:00:07 GMT)", 1456790407},
                   {"User initiated (2016-03-01 00:00:07 GMT", 0},
                   {"User initiated (2016-03-01 00:00:07 CET)", 0},
                   {"User initiated (2016-03-01 00:00:07.123456789012345678901234567890 GMT)", 0},
                   {"User initiated (yesterday GMT)", 0},
                   {"( GMT)", 0},
                   {"()", 0},
                   {"", 0}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        char inner[300];
        snprintf(inner, sizeof inner, "<instanceState><name>%s</name></instanceState><reason>%s</reason>",
                 i % 2 == 0 ? "terminated" : "stopped", reasons[i].reason);
        assert_int_equal(instance_of(inner).ended, reasons[i].ended);
    }
    assert_int_equal(
        instance_of("<instanceState><name>running</name></instanceState><reason>User initiated (2016-03-01 "
                    "00:00:07 GMT)</reason>")
            .ended,
        0); /* the machine was stopped once, and runs again */
    static const struct {
        const char *name, *code;
        enum ec2_instance_state state;
    } states[] = {
        {"pending", "0", EC2_INSTANCE_PENDING},        {"stopped", "80", EC2_INSTANCE_STOPPED},
        {"terminated", "48", EC2_INSTANCE_TERMINATED}, {"", "272", EC2_INSTANCE_RUNNING},
        {"melting", "48", EC2_INSTANCE_TERMINATED},    {"melting", "99", EC2_INSTANCE_PENDING},
        {"melting", "x", EC2_INSTANCE_PENDING},        {"", "", EC2_INSTANCE_PENDING},
        {"melting", "-16", EC2_INSTANCE_PENDING},
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char inner[200];
        snprintf(inner, sizeof inner, "<instanceState><code>%s</code><name>%s</name></instanceState>", states[i].code,
                 states[i].name);
        assert_int_equal(instance_of(inner).state, states[i].state);
    }
    struct xml_tree *xml = parsed("<item><instanceState/></item>");
    assert_false(ec2_instance_read(xml_tree_root(xml), &instance));
    xml_tree_close(xml);
}

TEST(spot_requests_are_read) {
    struct ec2_spot_request request;
    struct xml_tree *xml = parsed(
        "<item><status><updateTime/><code>price-too-low</code><message>Too low.</message></status><state>open</state>"
        "<spotInstanceRequestId>sir-1</spotInstanceRequestId><launchSpecification><instanceType>c4.large</instanceType>"
        "<placement><availabilityZone>us-east-1b</availabilityZone></placement></launchSpecification><tagSet><item>"
        "<key>proteus:tier</key><value>transient</value></item></tagSet></item>");
    assert_true(ec2_spot_request_read(xml_tree_root(xml), &request));
    xml_tree_close(xml);
    assert_int_equal(request.state, EC2_REQUEST_OPEN);
    assert_string_equal(request.code, "price-too-low");
    assert_string_equal(request.type, "c4.large");
    assert_string_equal(request.zone, "us-east-1b");
    assert_string_equal(request.instance, "");
    assert_int_equal(request.updated, 0);
    assert_string_equal(request.tags.tier, "transient");
    xml = parsed("<item><spotInstanceRequestId>sir-2</spotInstanceRequestId><state>dreaming</state><instanceId>i-2"
                 "</instanceId><fault><code>Client.Bad</code><message>f</message></fault><status><code>bad-parameters"
                 "</code><updateTime>2016-03-01T00:00:07.000Z</updateTime></status></item>");
    assert_true(ec2_spot_request_read(xml_tree_root(xml), &request));
    xml_tree_close(xml);
    assert_int_equal(request.state, EC2_REQUEST_OPEN); /* an unknown state, but no capacity error */
    assert_string_equal(request.code, "Client.Bad");
    assert_int_equal(request.updated, 1456790407);
    assert_true(ec2_status_ended("instance-terminated-by-user") && ec2_status_ended("instance-terminated-by-price"));
    assert_false(ec2_status_ended("marked-for-termination") || ec2_status_ended("fulfilled"));
    assert_string_equal(request.instance, "i-2");
    assert_true(ec2_status_noticed("marked-for-termination") && !ec2_status_evicted("marked-for-termination"));
    assert_true(ec2_status_evicted("instance-terminated-no-capacity") &&
                ec2_status_evicted("instance-terminated-by-price"));
    assert_true(ec2_status_evicted("instance-stopped-no-capacity"));
    assert_false(ec2_status_noticed("instance-terminated-by-user") ||
                 ec2_status_noticed("spot-instance-terminated-by-user"));
    assert_false(ec2_status_noticed("fulfilled") || ec2_status_noticed("") || ec2_status_noticed("new-code"));
}

TEST(requests_are_encoded) {
    struct ec2_request *request = ec2_request_new("RunInstances");
    ec2_set(request, "a b+c/d~e&f=\xc3\xa9*", "Filter.%u.Value.%u", 1U, 2U);
    ec2_set(request, NULL, "Absent");
    ec2_set(request, "", "Empty");
    ec2_set_number(request, -7, "MaxResults");
    ec2_set_base64(request, "\xff\xfe?>", 4, "UserData");
    assert_true(request->filtered);
    assert_false(request->has_token);
    ec2_set(request, "t", "ClientToken");
    assert_true(request->has_token);
    assert_string_equal(request->form, "Action=RunInstances&Version=2016-11-15&Filter.1.Value.2=a%20b%2Bc%2Fd~e%26f%3D"
                                       "%C3%A9%2A&MaxResults=-7&UserData=%2F%2F4%2FPg%3D%3D&ClientToken=t");
    assert_int_equal(strlen(request->form), request->size);
    ec2_request_free(request);
}

TEST(calls_are_paced) {
    static const struct {
        const char *action;
        bool filtered;
        int burst, per_second;
    } examples[] = {
        {"RunInstances", false, 5, 2},
        {"TerminateInstances", true, 100, 5},
        {"CreateTags", false, 100, 10},
        {"CancelSpotInstanceRequests", true, 50, 5},
        {"CreateFleet", false, 50, 5},
        {"RequestSpotInstances", false, 50, 5},
        {"DescribeInstances", true, 100, 20},
        {"DescribeInstances", false, 50, 10},
        {"DescribeSpotInstanceRequests", false, 50, 10},
        {"DescribeSpotPriceHistory", false, 100, 20},
    };
    static struct ec2_throttle throttle;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const char *action = examples[i].action;
        for (int n = 0; n < examples[i].burst; n++) {
            assert_int_equal(ec2_throttle_take(&throttle, action, examples[i].filtered, 1000), 0);
        }
        uint64_t wait_us = ec2_throttle_take(&throttle, action, examples[i].filtered, 1000);
        assert_in_range(wait_us, 1000000 / examples[i].per_second - 2, 1000000 / examples[i].per_second + 2);
        assert_int_equal(ec2_throttle_take(&throttle, action, examples[i].filtered, 1000 + wait_us), 0);
        assert_int_not_equal(ec2_throttle_take(&throttle, action, examples[i].filtered, 1000 + wait_us), 0);
        ec2_throttle_drain(&throttle, action, examples[i].filtered, 100000000);
        assert_int_not_equal(ec2_throttle_take(&throttle, action, examples[i].filtered, 100000000), 0);
    }
}

TEST(endpoints_are_judged) {
    static const struct {
        const char *url, *host; /* NULL: the URL is refused */
    } examples[] = {
        {"https://ec2.us-east-1.amazonaws.com", "ec2.us-east-1.amazonaws.com"},
        {"https://ec2.us-east-1.amazonaws.com:443/", "ec2.us-east-1.amazonaws.com"},
        {"https://proxy.example:8443", "proxy.example:8443"},
        {"http://127.0.0.1:4566", "127.0.0.1:4566"},
        {"http://127.9.9.9", "127.9.9.9"},
        {"http://localhost:80/", "localhost"},
        {"http://[::1]:9", "[::1]:9"},
        {"http://ec2.us-east-1.amazonaws.com", NULL},
        {"http://localhost.example", NULL},
        {"http://127.0.0.1.example", NULL},
        {"http://10.0.0.1", NULL},
        {"http://127.0.0.1@example.org", NULL},
        {"ftp://127.0.0.1", NULL},
        {"https://", NULL},
        {"https://host/path", NULL},
        {"https://host/?q", NULL},
        {"nonsense", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        char host[300];
        struct error error = {0};
        int code = service_endpoint_host(examples[i].url, host, sizeof host, false, &error);
        if (code != (examples[i].host == NULL ? AML_EINPUT : 0)) {
            fail_msg("'%s': %d %s", examples[i].url, code, error.text);
        }
        if (code == 0) {
            assert_string_equal(host, examples[i].host);
        }
    }
}
