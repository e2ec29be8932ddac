/* See sts.h. Parses the responses of STS. */
#include "agileml/base/instant.h"
#include "agileml/cloud/sts.h"
#include "agileml/cloud/xml_tree.h"

#include <openssl/crypto.h>
#include <string.h>

/* Copies an element's text to text[max]. Returns false when it is missing or invalid. */
static bool take(struct xml_element credentials, const char *name, char *text, size_t max) {
    const char *found = xml_text_at(credentials, name);
    if (!credentials_text_is_good(found, max)) {
        return false;
    }
    strcpy(text, found);
    return true;
}

static int take_credentials(struct xml_element credentials, struct credentials_value *value, struct error *error) {
    const char *wrong = NULL;
    if (!take(credentials, "AccessKeyId", value->key_id, sizeof value->key_id)) {
        wrong = "AccessKeyId";
    } else if (!take(credentials, "SecretAccessKey", value->secret, sizeof value->secret)) {
        wrong = "SecretAccessKey";
    } else if (!take(credentials, "SessionToken", value->token, sizeof value->token)) {
        wrong = "SessionToken";
    } else if (!instant_parse(xml_text_at(credentials, "Expiration"), &value->expires)) {
        wrong = "Expiration";
    }
    return wrong == NULL ? 0 : error_set(error, AML_EINPUT, "the answer has no %s, or not one that can be", wrong);
}

static int take_root(struct xml_element root, struct credentials_value *value, struct error *error) {
    static const char *const actions[] = {"AssumeRole", "AssumeRoleWithWebIdentity"};
    const char *name = xml_element_name(root);
    if (strcmp(name, "ErrorResponse") == 0) {
        return error_set(error, AML_EINPUT, "%.80s: %.200s", xml_text_at(root, "Error/Code"),
                         xml_text_at(root, "Error/Message"));
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        size_t length = strlen(actions[i]);
        if (strncmp(name, actions[i], length) == 0 && strcmp(name + length, "Response") == 0) {
            const char *path = i == 0 ? "AssumeRoleResult/Credentials" : "AssumeRoleWithWebIdentityResult/Credentials";
            return take_credentials(xml_element_at(root, path), value, error);
        }
    }
    return error_set(error, AML_EINPUT, "the answer is none of STS");
}

int sts_answer_parse(const char *body, size_t size, struct credentials_value *value, struct error *error) {
    struct xml_tree *tree;
    OPENSSL_cleanse(value, sizeof *value);
    if (size > STS_ANSWER_MAX || xml_tree_parse(&tree, body, size, NULL) != 0) {
        return error_set(error, AML_EINPUT, "the answer is no XML of STS");
    }
    int code = take_root(xml_tree_root(tree), value, error);
    xml_tree_close(tree);
    if (code != 0) {
        OPENSSL_cleanse(value, sizeof *value);
    }
    return code;
}
