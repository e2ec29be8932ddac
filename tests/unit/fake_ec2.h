/* An HTTP server for tests of the EC2 client: a thread that answers from a script and records the requests. */
#ifndef TESTS_UNIT_FAKE_EC2_H
#define TESTS_UNIT_FAKE_EC2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_REPLIES_MAX = 64, FAKE_REQUESTS_MAX = 256 };

struct fake_reply {
    const char *action; /* action that this reply answers */
    int status;         /* 0: closes the connection without an answer; -1: waits until the client closes it */
    const char *body;
    size_t cut;        /* bytes of the body that are announced but not sent */
    int64_t clock;     /* error of the Date header, in seconds */
    const char *asked; /* text that the request's form must contain; NULL: any */
};

struct fake_ec2;

/* Starts the server. Each request gets the first unused reply that fits, or else a 400 FakeUnexpected. */
struct fake_ec2 *fake_ec2_open(void);
void fake_ec2_close(struct fake_ec2 *fake);
/* "http://127.0.0.1:PORT" */
const char *fake_ec2_url(const struct fake_ec2 *fake);
/* Replaces the script and forgets the recorded requests. The replies and their texts must live until the next call. */
void fake_ec2_script(struct fake_ec2 *fake, const struct fake_reply *replies, size_t count);
/* Waits until no reply is in use, so that the caller may free them. */
void fake_ec2_wait(struct fake_ec2 *fake);
/* The number of requests for an action (NULL: any), and the number of replies left. */
size_t fake_ec2_asked(struct fake_ec2 *fake, const char *action);
size_t fake_ec2_left(struct fake_ec2 *fake);
/* The form of the nth request (from 0) for an action, with all %XX decoded, and its header lines. "" if there is no
 * such request. Both live until the next script or close. */
const char *fake_ec2_form(struct fake_ec2 *fake, const char *action, size_t n);
const char *fake_ec2_head(struct fake_ec2 *fake, const char *action, size_t n);

#endif
