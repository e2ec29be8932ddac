/* Responses of the container endpoint and the metadata service: keys as JSON, or an error in one of several forms. */
#ifndef AGILEML_CLOUD_CREDENTIALS_ANSWER_H
#define AGILEML_CLOUD_CREDENTIALS_ANSWER_H

#include "agileml/cloud/credentials.h"

enum { CREDENTIALS_ANSWER_MAX = 1 << 16 /* bytes */ };

/* Parses {"AccessKeyId":...,"SecretAccessKey":...,"Token":...,"Expiration":"2030-01-01T00:00:00Z"}. The metadata
 * service adds "Code":"Success". Its errors have only another "Code" and a "Message", even with status 200. Sets all
 * of *value except its source. Returns 0 or AML_EINPUT. *error never has a key, and of the body only the code and
 * the message. */
int credentials_answer_parse(const char *body, size_t size, struct credentials_value *value, struct error *error);

#endif
