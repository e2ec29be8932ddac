/* The feature that keeps out who shows a revoked token (REVOKE). A node that came by the token is given up at once, as
 * one that was lost: a revoked token is not trusted any more, so nothing is handed over, and other nodes do its work
 * again. Observers and operators that came by it are cut off. The list is stored. */
#ifndef AGILEML_CONTROL_REVOKED_H
#define AGILEML_CONTROL_REVOKED_H

#include "agileml/control/state/feature.h"

enum { REVOKED_MAX = 1024 /* tokens of a job: the list is stored and compared whole */ };

struct revoked {
    uint64_t serials[REVOKED_MAX];
    uint32_t count;
};

extern const struct feature revoked_feature;

/* Adds the token to the list, gives up the nodes that came by it, and forgets its observers. Returns 0 or an error
 * code; `text` gets the answer for people. The caller stores the list, then calls revoked_cut. Invalidates members'
 * addresses. */
int revoked_add(struct controller *controller, uint64_t serial, char *text, size_t size);
/* From now on the io refuses the tokens of the list, and cuts off who has shown one. */
void revoked_cut(const struct controller *controller);

#endif
