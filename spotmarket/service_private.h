/* What the parts of service.h share. */
#ifndef SPOTMARKET_SERVICE_PRIVATE_H
#define SPOTMARKET_SERVICE_PRIVATE_H

#include "spotmarket/service.h"

/* Sets the status, type and complete body of an answer. */
__attribute__((format(printf, 4, 5))) void service_say(struct service_answer *answer, int status, const char *type,
                                                       const char *body, ...);

/* Answers a request; `path` is the path after /metadata/. */
void service_metadata(struct service *service, const struct sigv4_request *request, const char *path,
                      const struct service_clock *clock, struct service_answer *answer);

#endif
