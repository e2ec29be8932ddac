/* The provider `ec2`: reads the price history, page by page. Pages come newest first, but EC2 promises no order. Points
 * are reported as they come. The history includes the last change before its start, since that price holds at the
 * start. */
#include "bidbrain/cloud/ec2_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

struct prices_operation {
    struct operation operation;
    int64_t since;
    unsigned pages;
    char token[EC2_PAGE_TOKEN_TEXT]; /* token of the next page */
};

static void prices_free(struct operation *operation) {
    free(operation);
}

static void prices_end(struct prices_operation *prices, bool whole) {
    struct provider *of = prices->operation.of;
    of->prices = NULL;
    operation_end(&prices->operation);
    of->options.listener.prices_end(of->options.listener.context, whole);
}

static void prices_answered(void *context, const struct ec2_answer *answer);

static void prices_ask(struct prices_operation *prices) {
    struct provider *of = prices->operation.of;
    struct ec2_request *request = ec2_request_new("DescribeSpotPriceHistory");
    char start[INSTANT_TEXT_MAX];
    for (unsigned i = 0; of->options.types[i] != NULL; i++) {
        ec2_set(request, of->options.types[i], "InstanceType.%u", i + 1);
    }
    ec2_set(request, of->options.product, "ProductDescription.1");
    if (prices->since >= INSTANT_MIN && prices->since < INSTANT_MAX) {
        instant_format(prices->since, start);
        ec2_set(request, start, "StartTime");
    }
    ec2_set_number(request, PROVIDER_EC2_PAGE, "MaxResults");
    ec2_set(request, prices->token, "NextToken");
    ec2_start(of->ec2, request, prices_answered, prices);
}

static void prices_tell(struct provider *of, struct xml_element set) {
    const struct provider_listener *listener = &of->options.listener;
    struct xml_element item = {0};
    struct ec2_price price;
    while (xml_element_next(set, "item", &item)) {
        if (ec2_price_read(item, &price)) {
            listener->price(listener->context, price.type, price.zone, price.product, price.point);
        }
    }
}

static void prices_answered(void *context, const struct ec2_answer *answer) {
    struct prices_operation *prices = context;
    struct provider *of = prices->operation.of;
    char token[EC2_PAGE_TOKEN_TEXT];
    if (answer->failure != NULL) {
        provider_ec2_failed(of, "DescribeSpotPriceHistory", answer->failure);
        prices_end(prices, false);
        return;
    }
    prices_tell(of, xml_element_at(answer->root, "spotPriceHistorySet"));
    int more = ec2_page_token(answer->root, token);
    if (more == 0) {
        prices_end(prices, true);
    } else if (more < 0 || strcmp(token, prices->token) == 0 || ++prices->pages == PROVIDER_EC2_PAGES_MAX) {
        provider_ec2_failed_text(of, "DescribeSpotPriceHistory", "its pages have no end");
        prices_end(prices, false);
    } else {
        strcpy(prices->token, token);
        prices_ask(prices);
    }
}

void provider_prices(struct provider *of, int64_t since) {
    if (of->prices != NULL) {
        return;
    }
    struct prices_operation *prices = memory_zeroed(1, sizeof *prices);
    prices->since = since;
    operation_begin(of, &prices->operation, prices_free);
    of->prices = &prices->operation;
    prices_ask(prices);
}
