/* See files.h. */
#include "apps/files.h"

#include "agileml/base/new_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_readable(aml_worker *worker, const struct app_file *file) {
    const char *path = file->path;
    struct stat status;
    bool there = stat(path, &status) == 0;
    /* Opening a pipe could wait for ever. */
    if (there && !S_ISREG(status.st_mode) && !(file->folders && S_ISDIR(status.st_mode))) {
        return aml_error(worker, AML_EINPUT, "--%s: %s: not a regular file%s, and every process of the job reads it",
                         file->option, path, file->folders ? " or a folder" : "");
    }
    if (!there || access(path, R_OK) != 0) {
        return aml_error(worker, AML_EINPUT, "--%s: %s: %s", file->option, path, strerror(errno));
    }
    return 0;
}

static int check_model_out(aml_worker *worker, const char *path, const struct app_file files[], size_t count) {
    struct error error = {0};
    struct stat file;
    if (new_file_check(path, &error) != 0) {
        return aml_error(worker, AML_EINPUT, "--model-out: %s", error.text);
    }
    bool exists = stat(path, &file) == 0;
    for (size_t i = 0; exists && i < count; i++) {
        struct stat input;
        if (files[i].path != NULL && stat(files[i].path, &input) == 0 && input.st_dev == file.st_dev &&
            input.st_ino == file.st_ino) {
            return aml_error(worker, AML_EINPUT, "--model-out: %s: the job reads this file: expected another", path);
        }
    }
    return 0;
}

int files_check(aml_worker *worker, const struct app_file files[], size_t count, const char *model_out) {
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = files[i].path != NULL ? check_readable(worker, &files[i]) : 0;
    }
    return result == 0 && model_out != NULL ? check_model_out(worker, model_out, files, count) : result;
}

int files_check_data(aml_worker *worker, const char *what, const char *data, const char *test, double test_fraction) {
    if (data == NULL) {
        return aml_error(worker, AML_EINPUT, "--data FILE is missing: the %s to train on", what);
    }
    if (test != NULL && test_fraction > 0) {
        return aml_error(worker, AML_EINPUT, "--test and --test-fraction: expected one of them");
    }
    return 0;
}
