/* The instance metadata service, version 2, of all machines: /metadata/INSTANCE-ID/SECRET/latest/... See service.h. */
#include "agileml/base/instant.h"
#include "spotmarket/authorize.h"
#include "spotmarket/service_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROLE_SECONDS = 6 * HOUR };

static const char JSON[] = "application/json";

void service_say(struct service_answer *answer, int status, const char *type, const char *body, ...) {
    va_list arguments;
    text_close(&answer->body);
    va_start(arguments, body);
    text_format_list(&answer->body, body, arguments);
    va_end(arguments);
    answer->status = status;
    answer->type = type;
}

static void metadata_token(const struct service *service, const struct sigv4_request *request,
                           const struct instance *instance, int64_t now, struct service_answer *answer) {
    const char *ttl = request_header(request, "x-aws-ec2-metadata-token-ttl-seconds");
    char *end;
    long seconds = ttl != NULL ? strtol(ttl, &end, 10) : 0;
    if (ttl == NULL || *end != '\0' || seconds < 1 || seconds > SERVICE_METADATA_TTL_MAX) {
        service_say(answer, 400, "text/plain", "expected x-aws-ec2-metadata-token-ttl-seconds from 1 to 21600\n");
        return;
    }
    char token[KEYRING_TOKEN_HEX + 1];
    keyring_token(&service->keyring, instance->id, now + seconds, token);
    service_say(answer, 200, "text/plain", "%s", token);
}

/* ---- Documents ---- */

static void say_action(const struct instance *instance, struct service_answer *answer) {
    char time[INSTANT_TEXT_MAX];
    if (instance->noticed != MARKET_NEVER) {
        instant_format(instance->ended, time);
        service_say(answer, 200, JSON, "{\"action\":\"terminate\",\"time\":\"%s\"}", time);
    }
}

static void say_termination_time(const struct instance *instance, struct service_answer *answer) {
    char time[INSTANT_TEXT_MAX];
    if (instance->noticed != MARKET_NEVER) {
        instant_format(instance->ended, time);
        service_say(answer, 200, "text/plain", "%s", time);
    }
}

static void say_rebalance(const struct instance *instance, struct service_answer *answer) {
    char time[INSTANT_TEXT_MAX];
    if (instance->recommended != MARKET_NEVER) {
        instant_format(instance->recommended, time);
        service_say(answer, 200, JSON, "{\"noticeTime\":\"%s\"}", time);
    }
}

/* Writes the role's keys for this machine. They expire in real time, by which signatures are checked. */
static void say_credentials(const struct service *service, const struct instance *instance, const char *role,
                            int64_t now, struct service_answer *answer) {
    const char *profile = instance->spec->profile;
    char updated[INSTANT_TEXT_MAX], expires[INSTANT_TEXT_MAX];
    if (profile == NULL || (role[0] != '\0' && strcmp(role, profile) != 0)) {
        return;
    }
    if (role[0] == '\0') {
        service_say(answer, 200, "text/plain", "%s", profile);
        return;
    }
    struct user user;
    keyring_role(&service->keyring, instance->id, now + ROLE_SECONDS, &user);
    instant_format(now, updated);
    instant_format(now + ROLE_SECONDS, expires);
    service_say(answer, 200, JSON,
                "{\"Code\":\"Success\",\"LastUpdated\":\"%s\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"%s\","
                "\"SecretAccessKey\":\"%s\",\"Token\":\"%s\",\"Expiration\":\"%s\"}",
                updated, user.key_id, user.secret, user.token, expires);
    explicit_bzero(&user, sizeof user);
}

static void say_identity(const struct service *service, const struct instance *instance,
                         struct service_answer *answer) {
    char time[INSTANT_TEXT_MAX];
    instant_format(instance->launched, time);
    service_say(answer, 200, JSON,
                "{\"accountId\":\"000000000000\",\"architecture\":\"x86_64\",\"availabilityZone\":\"%s\","
                "\"instanceId\":\"%s\",\"instanceType\":\"%s\",\"pendingTime\":\"%s\",\"privateIp\":\"127.0.0.1\","
                "\"region\":\"%s\",\"version\":\"2017-09-30\"}",
                instance->zone, instance->id, instance->type->type, time, service->cloud->options.region);
}

static void metadata_say(const struct service *service, const struct instance *instance, const char *path, int64_t now,
                         struct service_answer *answer) {
    static const char credentials[] = "meta-data/iam/security-credentials/";
    const struct {
        const char *path, *value;
    } texts[] = {
        {"meta-data/instance-id", instance->id},
        {"meta-data/instance-type", instance->type->type},
        {"meta-data/ami-id", instance->spec->image},
        {"meta-data/instance-life-cycle", instance->spot ? "spot" : "on-demand"},
        {"meta-data/placement/availability-zone", instance->zone},
        {"meta-data/placement/region", service->cloud->options.region},
        {"meta-data/local-ipv4", "127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(path, texts[i].path) == 0 && texts[i].value != NULL) {
            service_say(answer, 200, "text/plain", "%s", texts[i].value);
            return;
        }
    }
    if (strcmp(path, "user-data") == 0 && instance->spec->user_data != NULL) {
        text_bytes(&answer->body, instance->spec->user_data, instance->spec->user_data_size);
        answer->status = 200;
        answer->type = "application/octet-stream";
    } else if (strcmp(path, "meta-data/spot/instance-action") == 0) {
        say_action(instance, answer);
    } else if (strcmp(path, "meta-data/spot/termination-time") == 0) {
        say_termination_time(instance, answer);
    } else if (strcmp(path, "meta-data/events/recommendations/rebalance") == 0) {
        say_rebalance(instance, answer);
    } else if (strncmp(path, credentials, sizeof credentials - 1) == 0) {
        say_credentials(service, instance, path + sizeof credentials - 1, now, answer);
    } else if (strcmp(path, "dynamic/instance-identity/document") == 0) {
        say_identity(service, instance, answer);
    }
}

void service_metadata_path(const struct service *service, const char *id, char path[SERVICE_METADATA_PATH]) {
    char secret[KEYRING_PATH_HEX + 1];
    keyring_path(&service->keyring, id, secret);
    snprintf(path, SERVICE_METADATA_PATH, "/metadata/%s/%s", id, secret);
}

/* Returns the machine in `path` ("ID/SECRET/WHAT"), and sets *what ("latest/..."). NULL: no such machine, an ended
 * machine, or a wrong secret. */
static const struct instance *metadata_machine(const struct service *service, const char *path, const char **what) {
    char id[CLOUD_ID_TEXT], secret[KEYRING_PATH_HEX + 1];
    size_t id_length = strcspn(path, "/");
    const char *behind_id = path + id_length + (path[id_length] == '/');
    size_t secret_length = strcspn(behind_id, "/");
    if (id_length >= sizeof id || secret_length >= sizeof secret) {
        return NULL;
    }
    snprintf(id, sizeof id, "%.*s", (int)id_length, path);
    snprintf(secret, sizeof secret, "%.*s", (int)secret_length, behind_id);
    *what = behind_id + secret_length + (behind_id[secret_length] == '/');
    if (!keyring_path_good(&service->keyring, id, secret)) {
        return NULL;
    }
    const struct instance *instance = cloud_find_instance(service->cloud, id);
    return instance != NULL && instance_lives(instance) ? instance : NULL;
}

void service_metadata(struct service *service, const struct sigv4_request *request, const char *path,
                      const struct service_clock *clock, struct service_answer *answer) {
    int64_t now = clock->real;
    const char *what;
    const char *token = request_header(request, "x-aws-ec2-metadata-token");
    const struct instance *instance = metadata_machine(service, path, &what);
    service_say(answer, 404, "text/plain", "%s", "");
    if (instance == NULL || strncmp(what, "latest/", 7) != 0) {
        return;
    }
    what += 7;
    if (faults_draw(&service->faults, FAULT_METADATA)) {
        service_say(answer, 500, "text/plain", "Internal Server Error\n");
    } else if (strcmp(what, "api/token") == 0 && strcmp(request->method, "PUT") == 0) {
        metadata_token(service, request, instance, now, answer);
    } else if (token == NULL || !keyring_token_good(&service->keyring, instance->id, token, now)) {
        service_say(answer, 401, "text/plain", "401 Unauthorized\n");
    } else if (strcmp(request->method, "GET") == 0) {
        metadata_say(service, instance, what, now, answer);
        answer->noticed = answer->status == 200 && strcmp(what, "meta-data/spot/instance-action") == 0;
    }
    if (answer->noticed) {
        double left_s = ((double)instance->ended - (double)clock->market_us / 1e6) / service->speed;
        answer->left_s = left_s > 0 ? left_s : 0;
    }
}
