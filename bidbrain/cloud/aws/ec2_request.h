/* A call of EC2's Query API before it is sent: an action and its parameters, as the form to be posted. One thread. */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_REQUEST_H
#define BIDBRAIN_CLOUD_AWS_EC2_REQUEST_H

#include "bidbrain/cloud/aws/ec2_throttle.h"

#define EC2_VERSION "2016-11-15"

struct ec2_request {
    char action[EC2_ACTION_TEXT];
    bool filtered;  /* it has filters or ids */
    bool has_token; /* it has a ClientToken, so that it may be retried */
    char *form;     /* "Action=...&Version=...&...", NUL-terminated; user data in it may hold a job's token */
    size_t size, capacity;
};

struct ec2_request *ec2_request_new(const char *action);
/* Wipes the form. NULL is allowed. */
void ec2_request_free(struct ec2_request *request);
/* Adds a parameter, whose name is formatted from `name`. Leaves out a NULL or empty value. Encodes all bytes but
 * letters, digits and "-._~"; a space becomes %20. */
__attribute__((format(printf, 3, 4))) void ec2_set(struct ec2_request *request, const char *value, const char *name,
                                                   ...);
__attribute__((format(printf, 3, 4))) void ec2_set_number(struct ec2_request *request, int64_t value, const char *name,
                                                          ...);
/* Adds `size` bytes in base64, as user data is sent. */
__attribute__((format(printf, 4, 5))) void ec2_set_base64(struct ec2_request *request, const void *bytes, size_t size,
                                                          const char *name, ...);

#endif
