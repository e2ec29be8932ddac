/* The parts of service.h. */
#ifndef SPOTMARKET_SERVICE_PRIVATE_H
#define SPOTMARKET_SERVICE_PRIVATE_H

#include "spotmarket/service.h"

/* NULL: no such header. */
const char *service_header(const struct sigv4_request *request, const char *name);
/* The answer's whole body and its type. */
void service_say(struct service_answer *answer, int status, const char *type, const char *body);

/* Answers for the path behind /metadata/. */
void service_metadata(struct service *service, const struct sigv4_request *request, const char *path,
                      const struct service_clock *clock, struct service_answer *answer);

#endif
