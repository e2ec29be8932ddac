/* See app.h. */
#include "apps/app.h"

#include "agileml/base/new_file.h"
#include "agileml/input/source.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_readable(aml_worker *worker, const struct app_file *file) {
    const char *path = file->path;
    struct stat status;
    if (source_is_address(path)) {
        struct source_identity identity;
        struct error error = {0};
        int code = source_identify(path, &identity, &error);
        return code == 0 ? 0 : aml_error(worker, code, "--%s: %s", file->option, error.text);
    }
    bool there = stat(path, &status) == 0;
    /* To open a pipe could block for ever. */
    if (there && !S_ISREG(status.st_mode) && !(file->folders && S_ISDIR(status.st_mode))) {
        return aml_error(worker, AML_EINPUT,
                         "--%s: %s: expected a regular file%s, which every process of the job can read", file->option,
                         path, file->folders ? " or a folder" : "");
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
            return aml_error(worker, AML_EINPUT,
                             "--model-out: %s: this is an input file of the job: expected another path", path);
        }
    }
    return 0;
}

int app_check_files(aml_worker *worker, const struct app_file files[], size_t count, const char *model_out) {
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = files[i].path != NULL ? check_readable(worker, &files[i]) : 0;
    }
    return result == 0 && model_out != NULL ? check_model_out(worker, model_out, files, count) : result;
}

int app_check_data(aml_worker *worker, const char *what, const char *data, const char *test, double test_fraction) {
    if (data == NULL) {
        return aml_error(worker, AML_EINPUT, "--data FILE is missing: expected %s to train on", what);
    }
    if (test != NULL && test_fraction > 0) {
        return aml_error(worker, AML_EINPUT, "--test and --test-fraction are both given: expected one of them");
    }
    return 0;
}

void app_name_files(aml_worker *worker, const struct app_file files[], size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (files[i].path != NULL) {
            aml_input_file(worker, files[i].path);
        }
    }
}

int app_choice(const char *option, const char *value, const char *const names[], struct error *error) {
    char expected[128] = "";
    size_t length = 0;
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(value, names[i]) == 0) {
            return i;
        }
        const char *separator = i == 0 ? "" : names[i + 1] != NULL ? ", " : " or ";
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", separator, names[i]);
        assert(length < sizeof expected);
    }
    return error_set(error, AML_EINPUT, "--%s: expected %s, got '%s'", option, expected, value);
}

bool app_held_out(uint64_t hash, double test_fraction) {
    return (double)hash < test_fraction * 0x1p64;
}
