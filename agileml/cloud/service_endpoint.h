/* Which URLs may be used as the endpoint of a service: https://HOST or https://HOST:PORT, and plain http for this
 * machine. Any thread. */
#ifndef AGILEML_CLOUD_SERVICE_ENDPOINT_H
#define AGILEML_CLOUD_SERVICE_ENDPOINT_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Checks whether `url` may be used, and sets `host` to the Host header, which is signed and sent. Plain http is for
 * loopback addresses, unless `plain_allowed`. Returns 0 or AML_EINPUT. */
int service_endpoint_host(const char *url, char *host, size_t size, bool plain_allowed, struct error *error);

/* Which of a service's addresses to use: those that follow FIPS 140, those for both IPv4 and IPv6. */
struct service_variant {
    bool fips, dualstack;
};

/* Writes the name of AWS's own host of a service ("s3", "ec2", "sts") in a region. */
void service_aws_host(const char *service, const char *region, struct service_variant variant, char *host, size_t size);

/* Whether PROTEUS_PLAIN_HTTP=1 in the environment allows plain http to other machines, for data, models and
 * checkpoints. */
bool service_plain_allowed(void);

#endif
