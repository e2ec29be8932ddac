/* What the embedded cloud answers to an HTTP request: the EC2 Query API with signatures, throttling and faults, the
 * clock, the bill, faults, and every instance's metadata service. No sockets: a request in, an answer out. One thread.
 */
#ifndef SPOTMARKET_SERVICE_H
#define SPOTMARKET_SERVICE_H

#include "bidbrain/cloud/aws/sigv4.h"
#include "spotmarket/api.h"
#include "spotmarket/faults.h"
#include "spotmarket/keyring.h"
#include "spotmarket/replays.h"
#include "spotmarket/roles.h"
#include "spotmarket/throttle.h"
#include "spotmarket/users.h"

enum {
    SERVICE_BODY_MAX = 1 << 18, /* bytes of a request's body */
    SERVICE_HEADERS_MAX = 64,   /* of a request */
    SERVICE_URI_MAX = 4096,     /* bytes */
    SERVICE_METADATA_TTL_MAX = 21600,
    SERVICE_METADATA_PATH = CLOUD_ID_TEXT + KEYRING_PATH_HEX + 16, /* bytes of the path to a machine's metadata */
};

struct service_clock {
    int64_t market_us; /* market time, microseconds since 1970 */
    int64_t real;      /* real time, seconds since 1970 */
    int64_t steady_us; /* real time that never jumps, from anywhere */
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
    double speed; /* market seconds in a real one */
    uint64_t requests;
    struct keyring keyring; /* the owner's token is for the bill and the faults */
};

struct service_answer {
    int status;
    const char *type; /* Content-Type */
    struct text body;
    int64_t delay_ms; /* to be sent so much later */
    bool lost;        /* to be dropped: the connection closes */
    bool broken;      /* to be cut in the middle */
    int64_t date;     /* for the Date header: the server's idea of the time */
    bool noticed;     /* a notice, whose time is market time, which the reader's clock does not know: ... */
    double left_s;    /* ... real seconds until then, for the header X-Proteus-Seconds-Left (agileml/net/metadata.h) */
};

/* A service on an open cloud; its keyring is drawn. `users` must outlive it. */
void service_open(struct service *service, struct cloud *cloud, const struct users *users);
void service_close(struct service *service); /* not the cloud */

/* Lets the cloud's time go on and answers. The body of *answer is the caller's to close. */
void service_handle(struct service *service, const struct sigv4_request *request, const struct service_clock *clock,
                    struct service_answer *answer);

/* "/metadata/INSTANCE-ID/SECRET", which only the machine itself may be told. */
void service_metadata_path(const struct service *service, const char *id, char path[SERVICE_METADATA_PATH]);

/* The bill, JSON, from malloc. */
char *service_bill(const struct cloud *cloud);

#endif
