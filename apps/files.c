/* See files.h. */
#include "apps/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int check_readable(aml_worker *worker, const char *option, const char *path, bool folders) {
    struct stat status;
    bool there = stat(path, &status) == 0;
    /* Opening a pipe could wait for ever. */
    if (there && !S_ISREG(status.st_mode) && !(folders && S_ISDIR(status.st_mode))) {
        return aml_error(worker, AML_EINPUT, "--%s: %s: not a regular file%s, and every process of the job reads it",
                         option, path, folders ? " or a folder" : "");
    }
    if (!there || access(path, R_OK) != 0) {
        return aml_error(worker, AML_EINPUT, "--%s: %s: %s", option, path, strerror(errno));
    }
    return 0;
}
