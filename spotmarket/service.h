/* The embedded cloud's answers to HTTP requests: the EC2 Query API with signatures, throttling and faults; the clock;
 * the bill; and the metadata service of each instance. No sockets: a request in, an answer out. One thread. */
#ifndef SPOTMARKET_SERVICE_H
#define SPOTMARKET_SERVICE_H

#include "agileml/cloud/sigv4.h"
#include "spotmarket/api.h"
#include "spotmarket/faults.h"
#include "spotmarket/keyring.h"
#include "spotmarket/replays.h"
#include "spotmarket/roles.h"
#include "spotmarket/throttle.h"
#include "spotmarket/users.h"

enum {
    SERVICE_BODY_MAX = 1 << 18, /* bytes of a request's body */
    SERVICE_HEADERS_MAX = 64,   /* headers of a request */
    SERVICE_URI_MAX = 4096,     /* bytes */
    SERVICE_METADATA_TTL_MAX = 21600,
    SERVICE_METADATA_PATH = CLOUD_ID_TEXT + KEYRING_PATH_HEX + 16, /* bytes of the path to a machine's metadata */
};

struct service_clock {
    int64_t market_us; /* market time in microseconds since 1970 */
    int64_t real;      /* real time, seconds since 1970 */
    int64_t steady_us; /* monotonic time */
};

struct service {
    struct cloud *cloud;
    struct api_state api;
    const struct users *users;
    struct roles roles;
    struct replays replays;
    struct faults faults;
    struct throttle throttle;
    bool throttling;
    double speed; /* market seconds per real second */
    uint64_t requests;
    struct keyring keyring; /* the owner's token protects the bill and the faults */
};

struct service_answer {
    int status;
    const char *type; /* Content-Type */
    struct text body;
    int64_t delay_ms; /* the answer is delayed by so much */
    bool lost;        /* the answer is dropped, and the connection closed */
    bool broken;      /* the connection is cut in the middle of the body */
    int64_t date;     /* the Date header, by the server's clock */
    bool noticed;     /* the body has an eviction notice, with a market time */
    double left_s;    /* real seconds until that time, for X-Proteus-Seconds-Left (agileml/net/metadata.h) */
};

/* Opens a service on an open cloud, and draws its keyring. `users` must outlive it. */
void service_open(struct service *service, struct cloud *cloud, const struct users *users);
void service_close(struct service *service); /* does not close the cloud */

/* Advances the cloud to the clock's time and answers. The caller closes the body of *answer. */
void service_handle(struct service *service, const struct sigv4_request *request, const struct service_clock *clock,
                    struct service_answer *answer);

/* Writes "/metadata/INSTANCE-ID/SECRET", a secret of the machine. */
void service_metadata_path(const struct service *service, const char *id, char path[SERVICE_METADATA_PATH]);

/* Returns the bill as JSON, from malloc. */
char *service_bill(const struct cloud *cloud);

#endif
