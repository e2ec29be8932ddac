/* Finds the signer of a request by its AWS Signature Version 4 in the Authorization header, as EC2 does. Pure
 * functions. */
#ifndef SPOTMARKET_AUTHORIZE_H
#define SPOTMARKET_AUTHORIZE_H

#include "agileml/cloud/sigv4.h"
#include "spotmarket/parameters.h"
#include "spotmarket/users.h"

enum { AUTHORIZE_SKEW_SECONDS = 15 * 60, AUTHORIZE_HEADER_MAX = 4096 };

struct authorized {
    bool by_role; /* signed with the role's keys; if false, with a user's */
    const struct user *user;
    int64_t date; /* time of the signature, in seconds since 1970 */
    char signature[SIGV4_HEX];
};

/* Returns the value of a header, or NULL. */
const char *request_header(const struct sigv4_request *request, const char *name);

/* Returns true when the request is signed for `region` and ec2, within 15 minutes of `now` (seconds since 1970), by one
 * of `users` or with the keys `role` (NULL: none). `request` must have all its headers. Otherwise sets *error to
 * MissingAuthenticationToken, IncompleteSignature, AuthFailure (unknown key id), InvalidClientTokenId (wrong session
 * token), RequestExpired or SignatureDoesNotMatch. */
bool authorize(const struct sigv4_request *request, const struct users *users, const struct user *role,
               const char *region, int64_t now, struct authorized *authorized, struct api_error *error);

#endif
