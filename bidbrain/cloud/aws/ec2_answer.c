/* See ec2_answer.h. */
#include "bidbrain/cloud/aws/ec2_answer.h"

#include "agileml/base/instant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EC2_ENCODED_RUN = 80 }; /* a longer run of base64 characters is data, not words */

/* ---- Errors ---- */

static bool ec2_encoded(char c) {
    return isalnum((unsigned char)c) || c == '+' || c == '/' || c == '=' || c == '_' || c == '-' || c == '%';
}

/* Copies `text` as one line of printable characters, without long encoded runs. */
static void ec2_copy_line(char *line, size_t size, const char *text) {
    size_t used = 0;
    while (*text != '\0') {
        size_t run = 0;
        while (ec2_encoded(text[run])) {
            run++;
        }
        bool hidden = run >= EC2_ENCODED_RUN;
        size_t length = run == 0 ? 1 : run;
        size_t shown = hidden ? 3 : length;
        for (size_t i = 0; i < shown && used + 1 < size; i++) {
            char c = hidden ? '.' : text[i];
            line[used++] = c < ' ' || c > '~' ? ' ' : c;
        }
        text += length;
    }
    line[used] = '\0';
}

void ec2_failure_text(struct ec2_failure *failure, const char *text) {
    ec2_copy_line(failure->text, sizeof failure->text, text);
}

static bool ec2_failure_xml(struct xml_element root, struct ec2_failure *failure) {
    struct xml_element cause = xml_element_at(root, "Errors/Error");
    if (!xml_element_is(cause)) {
        cause = xml_element_at(root, "Error"); /* the form of other AWS services */
    }
    if (xml_copy_at(cause, "Code", failure->code, sizeof failure->code) != 0) {
        return false;
    }
    if (strstr(failure->code, "Signature") != NULL) {
        ec2_failure_text(failure, "the signature was not accepted");
    } else {
        ec2_failure_text(failure, xml_text_at(cause, "Message"));
    }
    if (xml_copy_at(root, "RequestID", failure->request_id, sizeof failure->request_id) != 0) {
        (void)xml_copy_at(root, "RequestId", failure->request_id, sizeof failure->request_id);
    }
    return true;
}

void ec2_failure_read(int status, const char *body, size_t size, struct ec2_failure *failure) {
    struct xml_tree *xml = NULL;
    *failure = (struct ec2_failure){.status = status};
    if (xml_tree_parse(&xml, body, size, NULL) == 0 && ec2_failure_xml(xml_tree_root(xml), failure)) {
        xml_tree_close(xml);
        return;
    }
    xml_tree_close(xml);
    char text[EC2_LINE_TEXT];
    snprintf(text, sizeof text, "HTTP status %d with a body of %zu bytes that is not an error of EC2", status, size);
    ec2_failure_text(failure, text);
}

void ec2_failure_line(const struct ec2_failure *failure, const char *action, char *line, size_t size) {
    snprintf(line, size, "%s: %s%s%s%s%s%s", action, failure->code, failure->code[0] != '\0' ? ": " : "", failure->text,
             failure->request_id[0] != '\0' ? " (request " : "", failure->request_id,
             failure->request_id[0] != '\0' ? ")" : "");
}

/* ---- Items ---- */

bool ec2_price_read(struct xml_element item, struct ec2_price *price) {
    return xml_copy_at(item, "instanceType", price->type, sizeof price->type) == 0 &&
           xml_copy_at(item, "availabilityZone", price->zone, sizeof price->zone) == 0 &&
           xml_copy_at(item, "productDescription", price->product, sizeof price->product) == 0 &&
           instant_parse(xml_text_at(item, "timestamp"), &price->point.time) &&
           price_parse(xml_text_at(item, "spotPrice"), &price->point.price) && price->point.price > 0;
}

static void ec2_tags_read(struct xml_element item, struct ec2_tags *tags) {
    struct xml_element set = xml_element_at(item, "tagSet");
    struct xml_element tag = {0};
    *tags = (struct ec2_tags){0};
    while (xml_element_next(set, "item", &tag)) {
        const char *key = xml_text_at(tag, "key");
        if (strcmp(key, "proteus:job") == 0) {
            (void)xml_copy_at(tag, "value", tags->job, sizeof tags->job);
        } else if (strcmp(key, "proteus:token") == 0) {
            (void)xml_copy_at(tag, "value", tags->token, sizeof tags->token);
        } else if (strcmp(key, "proteus:tier") == 0) {
            (void)xml_copy_at(tag, "value", tags->tier, sizeof tags->tier);
        }
    }
}

static enum ec2_request_state ec2_request_state_of(const char *text) {
    static const char *const names[] = {
        [EC2_REQUEST_OPEN] = "open",           [EC2_REQUEST_ACTIVE] = "active", [EC2_REQUEST_CLOSED] = "closed",
        [EC2_REQUEST_CANCELLED] = "cancelled", [EC2_REQUEST_FAILED] = "failed", [EC2_REQUEST_DISABLED] = "disabled"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (enum ec2_request_state)i;
        }
    }
    return EC2_REQUEST_OPEN;
}

bool ec2_spot_request_read(struct xml_element item, struct ec2_spot_request *request) {
    *request = (struct ec2_spot_request){.state = ec2_request_state_of(xml_text_at(item, "state"))};
    (void)xml_copy_at(item, "instanceId", request->instance, sizeof request->instance);
    bool fault = xml_copy_at(item, "fault/code", request->code, sizeof request->code) == 0;
    if (!fault) {
        (void)xml_copy_at(item, "status/code", request->code, sizeof request->code);
    }
    ec2_copy_line(request->text, sizeof request->text, xml_text_at(item, fault ? "fault/message" : "status/message"));
    (void)xml_copy_at(item, "launchSpecification/instanceType", request->type, sizeof request->type);
    if (xml_copy_at(item, "launchedAvailabilityZone", request->zone, sizeof request->zone) != 0) {
        (void)xml_copy_at(item, "launchSpecification/placement/availabilityZone", request->zone, sizeof request->zone);
    }
    if (!instant_parse(xml_text_at(item, "status/updateTime"), &request->updated)) {
        request->updated = 0;
    }
    ec2_tags_read(item, &request->tags);
    return xml_copy_at(item, "spotInstanceRequestId", request->id, sizeof request->id) == 0;
}

bool ec2_status_ended(const char *code) {
    return strncmp(code, "instance-terminated-", 20) == 0;
}

bool ec2_status_evicted(const char *code) {
    static const char *const codes[] = {"by-price", "no-capacity", "by-schedule", "by-service",
                                        "launch-group-constraint"};
    const char *rest = strncmp(code, "instance-terminated-", 20) == 0 ? code + 20
                       : strncmp(code, "instance-stopped-", 17) == 0  ? code + 17
                                                                      : "";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(rest, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool ec2_status_noticed(const char *code) {
    return strcmp(code, "marked-for-termination") == 0 || strcmp(code, "marked-for-stop") == 0 ||
           ec2_status_evicted(code);
}

/* Reads the state's name, or its code if the name is missing or unknown. Only the code's low byte counts: EC2 uses the
 * high byte internally. */
static enum ec2_instance_state ec2_instance_state_of(struct xml_element item) {
    static const struct {
        const char *name;
        long code;
        enum ec2_instance_state state;
    } states[] = {
        {"pending", 0, EC2_INSTANCE_PENDING},         {"running", 16, EC2_INSTANCE_RUNNING},
        {"shutting-down", 32, EC2_INSTANCE_STOPPING}, {"terminated", 48, EC2_INSTANCE_TERMINATED},
        {"stopping", 64, EC2_INSTANCE_STOPPING},      {"stopped", 80, EC2_INSTANCE_STOPPED},
    };
    const char *name = xml_text_at(item, "instanceState/name");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        if (strcmp(name, states[i].name) == 0) {
            return states[i].state;
        }
    }
    const char *code_text = xml_text_at(item, "instanceState/code");
    char *end;
    long code = strtol(code_text, &end, 10);
    for (size_t i = 0; end != code_text && *end == '\0' && code >= 0 && i < sizeof states / sizeof *states; i++) {
        if ((code & 0xff) == states[i].code) {
            return states[i].state;
        }
    }
    return EC2_INSTANCE_PENDING;
}

/* Returns the time in a text such as "User initiated (2016-04-25 12:00:32 GMT)"; 0: there is none. */
static int64_t ec2_transition_time(const char *reason) {
    static const char end[] = " GMT)";
    char text[INSTANT_TEXT_MAX];
    int64_t moment;
    const char *from = strrchr(reason, '(');
    size_t length = from != NULL ? strlen(from + 1) : 0;
    if (length < sizeof end || length - sizeof end + 2 > sizeof text ||
        strcmp(from + 1 + length - (sizeof end - 1), end) != 0) {
        return 0;
    }
    snprintf(text, sizeof text, "%.*s", (int)(length - (sizeof end - 1)), from + 1);
    return instant_parse(text, &moment) ? moment : 0;
}

bool ec2_instance_read(struct xml_element item, struct ec2_instance *instance) {
    *instance = (struct ec2_instance){.state = ec2_instance_state_of(item)};
    (void)xml_copy_at(item, "spotInstanceRequestId", instance->request, sizeof instance->request);
    (void)xml_copy_at(item, "instanceType", instance->type, sizeof instance->type);
    (void)xml_copy_at(item, "placement/availabilityZone", instance->zone, sizeof instance->zone);
    if (!instant_parse(xml_text_at(item, "launchTime"), &instance->launched)) {
        instance->launched = 0;
    }
    bool over = instance->state == EC2_INSTANCE_STOPPING || instance->state == EC2_INSTANCE_STOPPED ||
                instance->state == EC2_INSTANCE_TERMINATED;
    instance->ended = over ? ec2_transition_time(xml_text_at(item, "reason")) : 0;
    instance->spot = strcmp(xml_text_at(item, "instanceLifecycle"), "spot") == 0;
    (void)xml_copy_at(item, "stateReason/code", instance->code, sizeof instance->code);
    ec2_copy_line(instance->reason, sizeof instance->reason, xml_text_at(item, "stateReason/message"));
    instance->evicted = strcmp(instance->code, "Server.SpotInstanceTermination") == 0 ||
                        strcmp(instance->code, "Server.SpotInstanceShutdown") == 0;
    ec2_tags_read(item, &instance->tags);
    return xml_copy_at(item, "instanceId", instance->id, sizeof instance->id) == 0;
}

int ec2_page_token(struct xml_element root, char token[EC2_PAGE_TOKEN_TEXT]) {
    if (xml_copy_at(root, "nextToken", token, EC2_PAGE_TOKEN_TEXT) == 0) {
        return 1;
    }
    return *xml_text_at(root, "nextToken") == '\0' ? 0 : AML_EINPUT;
}
