/* Who has signed a request: AWS Signature Version 4 in the Authorization header, checked as EC2 does. Pure functions.
 */
#ifndef BIDBRAIN_SPOTMARKET_AUTHORIZE_H
#define BIDBRAIN_SPOTMARKET_AUTHORIZE_H

#include "bidbrain/aws/sigv4.h"
#include "bidbrain/spotmarket/parameters.h"
#include "bidbrain/spotmarket/users.h"

enum { AUTHORIZE_SKEW_SECONDS = 15 * 60, AUTHORIZE_HEADER_MAX = 4096 };

/* `request` has all headers that came. The user who signed it for `region` and ec2, within 15 minutes of `now` (seconds
 * since 1970): one of `users`, or `other` (may be NULL). Else NULL, and *error is MissingAuthenticationToken,
 * IncompleteSignature, AuthFailure (an unknown key id), InvalidClientTokenId (a wrong session token), RequestExpired or
 * SignatureDoesNotMatch. */
const struct user *authorize(const struct sigv4_request *request, const struct users *users, const struct user *other,
                             const char *region, int64_t now, struct api_error *error);

#endif
