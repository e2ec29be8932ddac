/* The provider `ec2`: terminates machines and cancels requests. Requests are cancelled first: EC2 could fill a request
 * again after its instance is terminated. */
#include "bidbrain/cloud/ec2_private.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

struct give_back {
    struct operation operation;
    char token[PROVIDER_TOKEN_TEXT]; /* token of a withdrawn launch; empty: machines are terminated */
    void (*withdrawn)(struct provider *of, const char *token);
    char page[EC2_PAGE_TOKEN_TEXT];
    unsigned pages;
    char (*requests)[EC2_ID_TEXT]; /* requests to cancel */
    size_t request_count;
    size_t count; /* number of machines */
    char ids[PROVIDER_EC2_BATCH][EC2_ID_TEXT];
};

static void give_back_free(struct operation *operation) {
    free(((struct give_back *)operation)->requests);
    free(operation);
}

/* ---- Terminating ---- */

static void give_back_terminate(struct give_back *give_back);

/* EC2 terminates no instance of a call if it rejects one (unknown, protected, without the tag that the policy
 * requires). The call is then repeated for each instance alone. */
static void give_back_split(struct give_back *give_back) {
    struct provider *of = give_back->operation.of;
    for (size_t i = 0; i < give_back->count; i++) {
        struct give_back *one = memory_zeroed(1, sizeof *one);
        one->count = 1;
        memcpy(one->ids[0], give_back->ids[i], sizeof one->ids[0]);
        operation_begin(of, &one->operation, give_back_free);
        give_back_terminate(one);
    }
}

static void give_back_terminated(void *context, const struct ec2_answer *answer) {
    struct give_back *give_back = context;
    struct provider *of = give_back->operation.of;
    if (answer->failure != NULL) {
        if (answer->refused && give_back->count > 1) {
            give_back_split(give_back);
        } else {
            provider_ec2_failed(of, "TerminateInstances", answer->failure);
        }
    }
    operation_end(&give_back->operation);
}

static void give_back_terminate(struct give_back *give_back) {
    struct ec2_request *request = ec2_request_new("TerminateInstances");
    for (unsigned i = 0; i < give_back->count; i++) {
        ec2_set(request, give_back->ids[i], "InstanceId.%u", i + 1);
    }
    ec2_start(give_back->operation.of->ec2, request, give_back_terminated, give_back);
}

/* ---- Cancelling ---- */

static void give_back_cancel(struct give_back *give_back);

/* Goes on when all requests are cancelled: terminates the machines, or reports that the launch is withdrawn. */
static void give_back_go_on(struct give_back *give_back) {
    if (give_back->token[0] == '\0') {
        give_back_terminate(give_back);
        return;
    }
    give_back->withdrawn(give_back->operation.of, give_back->token);
    operation_end(&give_back->operation);
}

static void give_back_cancelled(void *context, const struct ec2_answer *answer) {
    struct give_back *give_back = context;
    if (answer->failure != NULL) {
        provider_ec2_failed(give_back->operation.of, "CancelSpotInstanceRequests", answer->failure);
    }
    give_back_cancel(give_back);
}

static void give_back_cancel(struct give_back *give_back) {
    if (give_back->request_count == 0) {
        give_back_go_on(give_back);
        return;
    }
    struct ec2_request *request = ec2_request_new("CancelSpotInstanceRequests");
    for (unsigned i = 1; i <= PROVIDER_EC2_BATCH && give_back->request_count > 0; i++) {
        ec2_set(request, give_back->requests[--give_back->request_count], "SpotInstanceRequestId.%u", i);
    }
    ec2_start(give_back->operation.of->ec2, request, give_back_cancelled, give_back);
}

/* ---- Which requests there are ---- */

/* Whether to cancel a request. A withdrawn launch cancels its requests without a machine; a machine's termination
 * cancels its request in any state. */
static bool give_back_wants(const struct give_back *give_back, const struct ec2_spot_request *request) {
    bool waiting = request->state == EC2_REQUEST_OPEN || request->state == EC2_REQUEST_ACTIVE ||
                   request->state == EC2_REQUEST_DISABLED;
    return waiting && (give_back->token[0] == '\0' || request->instance[0] == '\0');
}

static void give_back_collect(struct give_back *give_back, struct xml_element root) {
    struct xml_element set = xml_element_at(root, "spotInstanceRequestSet");
    struct xml_element item = {0};
    struct ec2_spot_request request;
    while (xml_element_next(set, "item", &item) && give_back->request_count < PROVIDER_EC2_FOUND_MAX) {
        if (ec2_spot_request_read(item, &request) && give_back_wants(give_back, &request)) {
            give_back->requests =
                memory_resized(give_back->requests, give_back->request_count + 1, sizeof *give_back->requests);
            memcpy(give_back->requests[give_back->request_count++], request.id, sizeof request.id);
        }
    }
}

static void give_back_find(struct give_back *give_back);

static void give_back_found(void *context, const struct ec2_answer *answer) {
    struct give_back *give_back = context;
    if (answer->failure != NULL) {
        /* Terminates machines even so: one-time requests are not filled again. */
        provider_ec2_failed(give_back->operation.of, "DescribeSpotInstanceRequests", answer->failure);
        give_back_cancel(give_back);
        return;
    }
    give_back_collect(give_back, answer->root);
    if (ec2_page_token(answer->root, give_back->page) == 1 && ++give_back->pages < PROVIDER_EC2_PAGES_MAX) {
        give_back_find(give_back);
    } else {
        give_back_cancel(give_back);
    }
}

static void give_back_find(struct give_back *give_back) {
    struct provider *of = give_back->operation.of;
    bool withdrawn = give_back->token[0] != '\0';
    struct ec2_request *request =
        provider_ec2_page("DescribeSpotInstanceRequests", withdrawn ? "tag:proteus:job" : "instance-id",
                          withdrawn ? of->options.job : give_back->ids[0], give_back->page);
    if (withdrawn) {
        ec2_set(request, "tag:proteus:token", "Filter.2.Name");
        ec2_set(request, give_back->token, "Filter.2.Value.1");
    }
    for (unsigned i = 1; i < give_back->count; i++) {
        ec2_set(request, give_back->ids[i], "Filter.1.Value.%u", i + 1);
    }
    ec2_start(of->ec2, request, give_back_found, give_back);
}

/* ---- Asking ---- */

void provider_terminate(struct provider *of, const char *const *ids, size_t count) {
    for (size_t first = 0; first < count; first += PROVIDER_EC2_BATCH) {
        struct give_back *give_back = memory_zeroed(1, sizeof *give_back);
        for (size_t i = first; i < count && i < first + PROVIDER_EC2_BATCH; i++) {
            size_t length = strlen(ids[i]);
            if (length > 0 && length < EC2_ID_TEXT) {
                memcpy(give_back->ids[give_back->count++], ids[i], length + 1);
            }
        }
        operation_begin(of, &give_back->operation, give_back_free);
        if (give_back->count > 0) {
            give_back_find(give_back);
        } else {
            operation_end(&give_back->operation);
        }
    }
}

void provider_ec2_withdraw(struct provider *of, const char *token,
                           void (*withdrawn)(struct provider *of, const char *token)) {
    size_t length = strlen(token);
    if (length == 0 || length >= PROVIDER_TOKEN_TEXT) {
        return;
    }
    struct give_back *give_back = memory_zeroed(1, sizeof *give_back);
    memcpy(give_back->token, token, length + 1);
    give_back->withdrawn = withdrawn;
    operation_begin(of, &give_back->operation, give_back_free);
    give_back_find(give_back);
}
