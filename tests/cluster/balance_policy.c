/* A policy for uneven machines, written as by a user (agileml/balance.h). The environment's POLICY chooses what it
 * does: shake, overweight, replace (the first node that may be replaced), replace-all or crash. */
#include "agileml/balance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const unsigned aml_balance_version = AML_BALANCE_VERSION;

bool aml_balance(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                 char reason[AML_BALANCE_REASON]) {
    unsigned *calls = memory;
    const char *what = getenv("POLICY");
    bool any = strcmp(what, "shake") == 0;
    (*calls)++;
    if (strcmp(what, "crash") == 0) {
        abort();
    }
    for (size_t n = 0; n < view->count; n++) {
        const struct aml_balance_node *node = &view->nodes[n];
        if (strcmp(what, "shake") == 0) {
            actions[n].weight = (*calls + (unsigned)n) % 3 == 0 ? 0 : 1 + (*calls * 37 + (unsigned)n * 11) % 200;
        } else if (strcmp(what, "overweight") == 0) {
            actions[n].weight = AML_BALANCE_WEIGHT_MAX + 1;
            any = true;
        } else if (strcmp(what, "replace-all") == 0 || (node->replaceable && !any)) {
            actions[n].replace = true;
            any = true;
        }
    }
    snprintf(reason, AML_BALANCE_REASON, "call %u", *calls);
    return any;
}
