/* libFuzzer target for EC2's answers. The first byte chooses the function that reads them. Besides crashes it finds
 * texts without an end or of several lines, and accepted items that lack what makes them usable. */
#include "agileml/base/instant.h"
#include "bidbrain/cloud/aws/ec2_answer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

static void fuzz_line(const char *text, size_t size) {
    FUZZ_CHECK(memchr(text, '\0', size) != NULL);
    for (const char *c = text; *c != '\0'; c++) {
        FUZZ_CHECK(*c >= ' ' && *c <= '~');
    }
}

static void fuzz_item(struct xml_element item) {
    struct ec2_price price;
    struct ec2_instance instance;
    struct ec2_spot_request request;
    if (ec2_price_read(item, &price)) {
        FUZZ_CHECK(price.point.price > 0 && price.point.price < PRICE_MAX);
        FUZZ_CHECK(price.point.time >= INSTANT_MIN && price.point.time < INSTANT_MAX);
        FUZZ_CHECK(price.type[0] != '\0' && price.zone[0] != '\0' && price.product[0] != '\0');
    }
    if (ec2_instance_read(item, &instance)) {
        FUZZ_CHECK(instance.id[0] != '\0' && instance.state <= EC2_INSTANCE_TERMINATED);
    }
    fuzz_line(instance.reason, sizeof instance.reason);
    if (ec2_spot_request_read(item, &request)) {
        FUZZ_CHECK(request.id[0] != '\0' && request.state <= EC2_REQUEST_DISABLED);
        FUZZ_CHECK(!ec2_status_evicted(request.code) || ec2_status_noticed(request.code));
    }
    fuzz_line(request.text, sizeof request.text);
}

/* Reads every element as if it were an item. */
static void fuzz_walk(struct xml_element node, unsigned depth) {
    static const char *const names[] = {"item", "spotPriceHistorySet", "spotInstanceRequestSet", "reservationSet",
                                        "instancesSet"};
    FUZZ_CHECK(depth <= XML_TREE_DEPTH_MAX);
    fuzz_item(node);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct xml_element child = {0};
        while (xml_element_next(node, names[i], &child)) {
            FUZZ_CHECK(strcmp(xml_element_name(child), names[i]) == 0);
            fuzz_walk(child, depth + 1);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct xml_tree *xml = NULL;
    struct error error = {0};
    char token[EC2_PAGE_TOKEN_TEXT], line[300];
    if (size == 0) {
        return 0;
    }
    const char *body = (const char *)data + 1;
    if (data[0] % 2 == 0) {
        int code = xml_tree_parse(&xml, body, size - 1, &error);
        FUZZ_CHECK(code == 0 ? xml != NULL : xml == NULL && error.code == AML_EINPUT && error.text[0] != '\0');
        if (code == 0) {
            FUZZ_CHECK(xml_element_name(xml_tree_root(xml))[0] != '\0' || size > 1);
            (void)ec2_page_token(xml_tree_root(xml), token);
            fuzz_walk(xml_tree_root(xml), 1);
        }
        xml_tree_close(xml);
    } else {
        struct ec2_failure failure;
        ec2_failure_read(400, body, size - 1, &failure);
        fuzz_line(failure.text, sizeof failure.text);
        FUZZ_CHECK(failure.code[0] != '\0' || failure.text[0] != '\0');
        ec2_failure_line(&failure, "Action", line, sizeof line);
    }
    return 0;
}
