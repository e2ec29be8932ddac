/* See core_dumps.h. */
#include "agileml/base/core_dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

/* A limit of 0 alone is not enough: the kernel ignores it where core_pattern pipes dumps to a program ("|..."). */
void core_dumps_forbid(void) {
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0);
}
