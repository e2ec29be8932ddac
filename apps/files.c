/* See files.h. */
#include "apps/files.h"

#include "agileml/base/new_file.h"

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

int check_model_out(aml_worker *worker, const char *path, const char *const inputs[], size_t count) {
    struct error error = {0};
    struct stat file;
    if (path == NULL) {
        return 0;
    }
    if (new_file_check(path, &error) != 0) {
        return aml_error(worker, AML_EINPUT, "--model-out: %s", error.text);
    }
    bool exists = stat(path, &file) == 0;
    for (size_t i = 0; exists && i < count; i++) {
        struct stat input;
        if (inputs[i] != NULL && stat(inputs[i], &input) == 0 && input.st_dev == file.st_dev &&
            input.st_ino == file.st_ino) {
            return aml_error(worker, AML_EINPUT, "--model-out: %s: the job reads this file: expected another", path);
        }
    }
    return 0;
}
