/* An HTTP server for tests of the EC2 client: a thread that answers from a script and writes down what it was asked. */
#ifndef TESTS_UNIT_FAKE_EC2_H
#define TESTS_UNIT_FAKE_EC2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_REPLIES_MAX = 64, FAKE_REQUESTS_MAX = 256 };

struct fake_reply {
    const char *action; /* that it answers */
    int status;         /* 0: the connection is closed without an answer; -1: once the client has closed it */
    const char *body;
    size_t cut;        /* bytes of the body that are announced and not sent */
    int64_t clock;     /* seconds by which the Date header is off */
    const char *asked; /* text that the request's form must hold, NULL: anything */
};

struct fake_ec2;

/* Serves; each request takes the first reply not yet taken that fits it, or gets a 400 FakeUnexpected. */
struct fake_ec2 *fake_ec2_open(void);
void fake_ec2_close(struct fake_ec2 *fake);
/* "http://127.0.0.1:PORT" */
const char *fake_ec2_url(const struct fake_ec2 *fake);
/* Replaces the script, and forgets what was asked. The replies and their texts must live until the next one. */
void fake_ec2_script(struct fake_ec2 *fake, const struct fake_reply *replies, size_t count);
/* Waits until no reply is in use any more: its caller may free it. */
void fake_ec2_wait(struct fake_ec2 *fake);
/* How often an action was asked for (NULL: any); how many replies are left. */
size_t fake_ec2_asked(struct fake_ec2 *fake, const char *action);
size_t fake_ec2_left(struct fake_ec2 *fake);
/* The form of the nth request (from 0) for an action, with all %XX decoded, and its header lines; "" if there is none.
 * Live until the next script or close. */
const char *fake_ec2_form(struct fake_ec2 *fake, const char *action, size_t n);
const char *fake_ec2_head(struct fake_ec2 *fake, const char *action, size_t n);

#endif
