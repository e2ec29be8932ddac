/* See credentials_answer.h. */
#include "agileml/cloud/credentials_answer.h"

#include "agileml/base/instant.h"
#include "agileml/cloud/profile.h"
#include "agileml/cloud/secret.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

/* Returns a member called "Code" as EC2 writes it, or "code" as ECS does; NULL: there is none. */
static const char *answer_text(const json_t *root, const char *name, const char *other) {
    const char *text = json_string_value(json_object_get(root, name));
    return text != NULL ? text : json_string_value(json_object_get(root, other));
}

/* Copies a member to text[max]. Returns false when it is missing or invalid. */
static bool answer_take(const json_t *root, const char *name, char *text, size_t max) {
    const char *found = json_string_value(json_object_get(root, name));
    if (found == NULL || !credentials_text_is_good(found, max)) {
        return false;
    }
    strcpy(text, found);
    return true;
}

static int answer_take_all(const json_t *root, struct credentials_value *value, struct error *error) {
    const char *code = answer_text(root, "Code", "code");
    const char *message = answer_text(root, "Message", "message");
    const char *expiration = json_string_value(json_object_get(root, "Expiration"));
    const char *wrong = NULL;
    if (code != NULL && strcasecmp(code, "Success") != 0) {
        return error_set(error, AML_EINPUT, "%.80s: %.200s", code, message != NULL ? message : "no message");
    }
    if (json_object_get(root, "AccessKeyId") == NULL && message != NULL) {
        return error_set(error, AML_EINPUT, "no keys, but '%.200s'", message);
    }
    if (!answer_take(root, "AccessKeyId", value->key_id, sizeof value->key_id)) {
        wrong = "AccessKeyId";
    } else if (!answer_take(root, "SecretAccessKey", value->secret, sizeof value->secret)) {
        wrong = "SecretAccessKey";
    } else if (json_is_string(json_object_get(root, "Token")) &&
               !answer_take(root, "Token", value->token, sizeof value->token)) {
        wrong = "Token";
    } else if (expiration != NULL && !instant_parse(expiration, &value->expires)) {
        wrong = "Expiration";
    }
    return wrong == NULL ? 0 : error_set(error, AML_EINPUT, "the answer has no %s, or not one that can be", wrong);
}

int credentials_answer_parse(const char *body, size_t size, struct credentials_value *value, struct error *error) {
    OPENSSL_cleanse(value, sizeof *value);
    if (size > CREDENTIALS_ANSWER_MAX) {
        return error_set(error, AML_EINPUT, "the answer has more than %d bytes", CREDENTIALS_ANSWER_MAX);
    }
    secret_json_begin();
    json_t *root = json_loadb(body, size, 0, NULL);
    int code = json_is_object(root) ? answer_take_all(root, value, error)
                                    : error_set(error, AML_EINPUT, "the answer is no JSON object");
    json_decref(root);
    secret_json_end();
    if (code != 0) {
        OPENSSL_cleanse(value, sizeof *value);
    }
    return code;
}
