/* See balance_option.h. */
#include "proteus/balance_option.h"

#include "agileml/control/decide/balance.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int library_policy(const char *file, aml_balance_policy **policy, struct error *error) {
    char path[PATH_MAX];
    if (realpath(file, path) == NULL) {
        return error_set(error, AML_EINPUT, "--balance %.200s: %s", file, strerror(errno));
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return error_set(error, AML_EINPUT, "--balance: %.300s", dlerror());
    }
    const unsigned *version = dlsym(library, "aml_balance_version");
    void *function = dlsym(library, "aml_balance");
    if (version == NULL || function == NULL) {
        return error_set(error, AML_EINPUT,
                         "--balance %.200s: expected a library that defines aml_balance and aml_balance_version", file);
    }
    if (*version != AML_BALANCE_VERSION) {
        return error_set(error, AML_EINPUT, "--balance %.200s: it is of version %u of agileml/balance.h, expected %u",
                         file, *version, AML_BALANCE_VERSION);
    }
    memcpy(policy, &function, sizeof function); /* ISO C has no conversion to a function pointer */
    return 0;
}

bool balance_option_is_library(const char *how) {
    size_t length = strlen(how);
    return strchr(how, '/') != NULL || (length > 3 && strcmp(how + length - 3, ".so") == 0);
}

int balance_option(const char *how, aml_balance_policy **policy, struct error *error) {
    static const struct {
        const char *name;
        aml_balance_policy *policy;
    } built_in[] = {{"none", NULL}, {"shares", balance_shares}, {"nd", balance_nd}, {"dd", balance_dd}};
    *policy = NULL;
    for (size_t b = 0; b < sizeof built_in / sizeof *built_in; b++) {
        if (strcmp(how, built_in[b].name) == 0) {
            *policy = built_in[b].policy;
            return 0;
        }
    }
    if (balance_option_is_library(how)) {
        return library_policy(how, policy, error);
    }
    return error_set(error, AML_EINPUT, "--balance: expected none, shares, nd, dd or a FILE.so, got '%.100s'", how);
}
