/* What the container endpoint and the metadata service answer: keys as JSON, or an error in one of several forms. */
#ifndef AGILEML_CLOUD_CREDENTIALS_ANSWER_H
#define AGILEML_CLOUD_CREDENTIALS_ANSWER_H

#include "agileml/cloud/credentials.h"

enum { CREDENTIALS_ANSWER_MAX = 1 << 16 /* bytes */ };

/* Parses {"AccessKeyId":...,"SecretAccessKey":...,"Token":...,"Expiration":"2030-01-01T00:00:00Z"}. The metadata
 * service puts "Code":"Success" beside them, or only another "Code" and a "Message", with status 200 too. Sets all
 * of *value but its source. 0 or AML_EINPUT; *error has no key and no more of the body than the code and the
 * message. */
int credentials_answer_parse(const char *body, size_t size, struct credentials_value *value, struct error *error);

#endif
